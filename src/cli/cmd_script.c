/* quire script: a script of memory calls on the engine, once for each of its variants. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/inject_args.h"
#include "lab/era.h"
#include "lab/settings.h"
#include "machine/host/host.h"
#include "machine/model/model.h"
#include "machine/null.h"
#include "machine/run.h"
#include "script/engine.h"
#include "script/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define HOST_BYTES (1ULL << 30)

struct script_args {
	struct opt_list files, set, inject;
	struct inject_rules rules;
	const char *machine, *variant, *era;
	bool steps, print, check;
};

static const struct opt_help help = {
	.usage = "quire script [OPTIONS] FILE...",
	.text = "Runs scripts of memory calls (docs/scripts.md) on the engine, once for each variant, and says which\n"
		"expectations did not hold. Exit code 1 when one did not, or a call did not end as the script says.\n\n"
		"  quire script --machine null --steps one-touch.quire\n",
};

/* A fresh machine. An exit code, or -1 to go on. */
static int open_machine(const char *name, struct machine **ret)
{
	char err[600] = "";
	struct machine_desc d;
	int rc, code;

	if (name && !strcmp(name, "host")) {
		rc = host_create(&(struct host_options){ .memory = HOST_BYTES }, ret, err, sizeof(err));
	} else if (name && !strcmp(name, "null")) {
		rc = null_create(&(struct null_options){ .nr_cpus = 8, .node_bytes = 4 * HOST_BYTES }, ret, err, sizeof(err));
	} else {
		code = machine_get(name, &d);
		if (code >= 0)
			return code;
		rc = model_create(&d, &(struct model_options){ .seed = 1 }, ret, err, sizeof(err));
		machine_desc_done(&d);
	}
	return rc ? failure("%s: %s", name ? name : "the machine", *err ? err : strerror(-rc)) : -1;
}

static void on_expect(void *arg, const struct script_stmt *st, bool ok, const char *text, int64_t left, int64_t right)
{
	const char *file = arg;

	if (!ok)
		printf("%s:%u: expected %s, found %" PRId64 " and %" PRId64 "\n", file, st->line, text, left, right);
}

static void on_report(void *arg, const struct script_stmt *st, const char *name, int64_t value, const char *unit)
{
	(void)arg, (void)st;
	printf("  %s: %" PRId64 " %s\n", name, value, unit);
}

static void label(void *arg, uint64_t addr, char *buf, size_t len)
{
	script_run_label(arg, addr, buf, len);
}

static void show_step(struct script_run *r, const struct script_call *call, const struct script_result *res)
{
	char text[400];

	script_format_call(call, label, r, text, sizeof(text));
	printf("%6u  %s", call->line, text);
	if (res->signal)
		printf("  = signal %d\n", res->signal);
	else if (res->ret < 0)
		printf("  = %s\n", strerror((int)-res->ret));
	else if (call->op == SOP_READ)
		printf("  = 0x%" PRIx64 "\n", (uint64_t)res->value);
	else
		printf("  = %" PRId64 "\n", res->ret);
}

static int play(struct script_run *r, const struct script_args *a, struct script_exec *x, char *err, size_t errlen)
{
	struct script_call call;
	struct script_result res;
	int rc;

	while ((rc = script_run_next(r, &call, err, errlen)) > 0) {
		if (interrupted) {
			snprintf(err, errlen, "interrupted");
			return -EINTR;
		}
		rc = script_engine_ops.step(x, &call, &res, err, errlen);
		if (rc)
			break;
		if (a->steps)
			show_step(r, &call, &res);
		rc = script_run_result(r, &res, err, errlen);
		if (rc)
			break;
	}
	return rc;
}

/* A pool is what there was room for at boot, as in Linux, which says so in its log. */
static void note_pools(struct script_exec *x)
{
	const struct quire *q = script_engine_quire(x);
	const uint64_t asked[NR_HUGETLB_SIZES] = { [HUGETLB_2M] = q->knobs.hugetlb_2m_nr, [HUGETLB_1G] = q->knobs.hugetlb_1g_nr };

	for (unsigned i = 0; i < NR_HUGETLB_SIZES; i++) {
		uint64_t got = hugetlb_info(q, (enum hugetlb_size)i, NID_NONE).total;

		if (got < asked[i])
			printf("  %s.nr_hugepages is %" PRIu64 ", not %" PRIu64 ": there was no more memory in free ranges of that size\n",
			       i == HUGETLB_2M ? "hugepages-2048kB" : "hugepages-1048576kB", got, asked[i]);
	}
}

/* One variant, NULL for a script without any, on a machine of its own. */
static int run_variant(const struct script *s, const struct script_args *a, const struct knobs *k, const char *variant)
{
	struct script_run_options o = { .ops = &script_engine_ops, .variant = variant, .on_expect = on_expect, .on_report = on_report, .arg = s->file };
	struct script_run_counts n = { 0 };
	struct script_run *r = NULL;
	struct inject *in = NULL;
	struct machine *m;
	char err[700] = "";
	uint64_t failures;
	int rc, code = open_machine(a->machine ? a->machine : s->machine, &m);

	if (code >= 0)
		return code;
	rc = script_engine_create(&(struct script_engine_options){ .machine = m, .knobs = k, .validate = a->check }, &o.exec);
	if (!rc)
		rc = script_run_begin(s, &o, &r, err, sizeof(err));
	if (!rc)
		note_pools(o.exec);
	if (!rc)
		rc = inject_attach_rules(m, 1, &a->rules, &in);
	if (!rc)
		rc = play(r, a, o.exec, err, sizeof(err));
	if (r)
		n = *script_run_counts(r);
	failures = in ? inject_failed(in) : 0;
	inject_detach(in);
	script_run_end(r);
	script_engine_destroy(o.exec);
	machine_destroy(m);
	if (a->rules.nr)
		printf("  %" PRIu64 " calls inside the engine made to fail\n", failures);
	if (rc)
		return failure("%s", *err ? err : strerror(-rc));
	printf("%s%s%s: %" PRIu64 " calls, %" PRIu64 " expectations, %" PRIu64 " failed\n", s->file, variant ? " " : "", variant ? variant : "",
	       n.steps, n.expects, n.failed);
	return n.failed ? EXIT_FAILED : EXIT_DONE;
}

static int run_file(const char *path, const struct script_args *a, const struct knobs *k)
{
	struct script *s;
	char err[900] = "";
	int code = EXIT_DONE, one;
	bool known = !a->variant;

	if (script_load(path, &s, err, sizeof(err)))
		return failure("%s", err);
	if (a->print)
		script_print(s, stdout);
	else if (s->pending)
		printf("%s: pending, %s\n", path, s->pending);
	else if (!s->nr_variants && known)
		code = run_variant(s, a, k, NULL);
	for (size_t i = 0; i < s->nr_variants && !a->print && !s->pending; i++) {
		if (a->variant && strcmp(a->variant, s->variant[i].name))
			continue;
		known = true;
		one = run_variant(s, a, k, s->variant[i].name);
		code = code ? code : one;
		if (one == EXIT_USAGE)
			break;
	}
	script_free(s);
	return known || a->print ? code : failure("%s: there is no variant %s", path, a->variant);
}

static int run(int argc, char **argv)
{
	struct script_args a = { 0 };
	const struct opt opts[] = {
		{ "machine", 'm', OPT_TEXT, &a.machine, 0, 0, "NAME", "a machine file or a built-in machine, host or null; default: what the script says" },
		{ "variant", 0, OPT_TEXT, &a.variant, 0, 0, "NAME", "only this one" },
		{ "era", 0, OPT_TEXT, &a.era, 0, 0, "RELEASE",
		  "what that release of Linux did ('quire knobs --era RELEASE' says what); --set and what the script sets come on top" },
		{ "set", 's', OPT_LIST, &a.set, 0, 0, "NAME=VALUE", "a setting; what the script sets comes on top" },
		INJECT_ARGS_OPTION(&a.inject),
		{ "steps", 0, OPT_FLAG, &a.steps, 0, 0, NULL, "show every call with what it gave" },
		{ "check", 0, OPT_FLAG, &a.check, 0, 0, NULL, "check all the engine's invariants after every call" },
		{ "print", 0, OPT_FLAG, &a.print, 0, 0, NULL, "print the script as it was understood, and run nothing" },
		{ 0 },
	};
	struct knobs k;
	struct era era;
	char err[300] = "";
	char **rest = NULL;
	int code = opt_parse(argc, argv, opts, &help, &a.files, &rest);

	if (code >= 0)
		return code;
	if (!a.files.nr)
		return usage_error("script", "no script given");
	code = inject_args_get("script", &a.inject, &a.rules);
	if (code >= 0)
		return code;
	knobs_default(&k);
	if (era_find(a.era, &era, err, sizeof(err)))
		return usage_error("script", "%s", err);
	era_apply(&era, &k);
	for (size_t i = 0; i < a.set.nr; i++)
		if (settings_apply(&k, "--set", a.set.v[i], err, sizeof(err)))
			return usage_error("script", "%s", err);
	signals_catch();
	code = EXIT_DONE;
	for (size_t i = 0; i < a.files.nr; i++) {
		int one = run_file(a.files.v[i], &a, &k);

		code = code ? code : one;
		if (one == EXIT_USAGE)
			break; /* as wrong for the next one */
	}
	return code;
}

const struct command cmd_script = { "script", "run a script of memory calls on the engine", run, false };
