/* quire compare: a workload or a recording under two or more settings, in one run, paired and repeated. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/inject_args.h"
#include "cli/work_args.h"
#include "lab/compare.h"
#include "lab/era.h"
#include "report/compare_report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MODEL 6
#define ROUNDS_HOST 11
#define ROUNDS_UNTIL 100

struct compare_args {
	const char *machine, *json, *until, *era;
	struct opt_list set, base, with, inject, operands;
	uint64_t seed, size, passes, repeats, jobs, host_memory;
	bool all, keep_addresses, quiet;
	struct work_args work;
};

static const struct opt_help help = {
	.usage = "quire compare [OPTIONS] WORKLOAD|FILE --base NAME=VALUE --with NAME=VALUE",
	.text = "Runs a standard workload ('quire workload list') or a recording (a name with a / or a .) under the\n"
		"settings of --base and of --with in turns, A B, B A, A B, and prints for each metric the medians,\n"
		"the median of the pairs' ratios and its 95 % interval. On a model the pairs differ by seed; with\n"
		"--machine host they are real repeats on this computer. A side without a setting of its own has the\n"
		"defaults.\n\n"
		"  quire compare redis.qtr --with transparent_hugepage.enabled=never\n"
		"  quire compare anon-w-seq --machine host --size 256M --with quire.huge_clear_order=linear\n",
};

static bool is_host(const struct compare_args *a)
{
	return a->machine && !strcmp(a->machine, "host");
}

/* "2%" or "0.02". 0 or -EINVAL. */
static int parse_share(const char *text, double *ret)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || (*end && strcmp(end, "%") != 0))
		return -EINVAL;
	*ret = *end ? v / 100 : v;
	return *ret > 0 && *ret < 1 ? 0 : -EINVAL;
}

/* All of one side's settings on top of those for both. -1 to go on, or an exit code. */
static int make_side(const struct compare_args *a, const char *option, const struct opt_list *list, struct compare_side *s)
{
	struct era era;
	char err[400];
	size_t at = 0;

	knobs_default(&s->knobs);
	if (era_find(a->era, &era, err, sizeof(err)))
		return usage_error("compare", "%s", err);
	era_apply(&era, &s->knobs);
	for (size_t i = 0; i < a->set.nr; i++)
		if (settings_apply(&s->knobs, "--set", a->set.v[i], err, sizeof(err)))
			return usage_error("compare", "%s", err);
	for (size_t i = 0; i < list->nr; i++) {
		if (settings_apply(&s->knobs, option, list->v[i], err, sizeof(err)))
			return usage_error("compare", "%s", err);
		if (at < sizeof(s->label))
			at += (size_t)snprintf(s->label + at, sizeof(s->label) - at, "%s%s", at ? ", " : "", list->v[i]);
	}
	if (!list->nr)
		snprintf(s->label, sizeof(s->label), "(defaults)");
	return -1;
}

/* -1 to go on, or an exit code. *ret_trace is to be closed. */
static int choose_subject(const struct compare_args *a, struct subject *ret)
{
	const char *name = a->operands.nr ? a->operands.v[0] : NULL, *near;
	char err[300];

	if (!name || a->operands.nr > 1)
		return usage_error("compare", "%s", name ? "one workload or recording at a time" : "what? A workload or a recording");
	if (strchr(name, '/') || strchr(name, '.')) {
		if (work_args_given(&a->work) || a->size || a->passes)
			return usage_error("compare", "--%s is for the standard workloads",
					   a->size ? "size" : a->passes ? "passes" : work_args_given(&a->work));
		if (is_host(a))
			return usage_error("compare", "--machine host runs the standard workloads; recordings are replayed on a model");
		ret->keep_addresses = a->keep_addresses;
		return trace_file_open(name, &ret->trace, err, sizeof(err)) ? failure("%s", err) : -1;
	}
	ret->workload = workload_find(name);
	if (ret->workload)
		return work_args_get("compare", &a->work, a->size, a->passes, &ret->options);
	near = work_nearest(name);
	return usage_error("compare", "no such workload: %s; %s%s%s (a file's name has a / or a .)", name,
			   near ? "did you mean " : "'quire workload list' shows them", near ? near : "", near ? "?" : "");
}

static void show_progress(void *arg, const struct compare_progress *p)
{
	struct progress *line = arg;
	char so_far[24], width[40] = "";

	format_duration(so_far, p->host_ns);
	if (p->width > 0 && p->width < 1)
		snprintf(width, sizeof(width), ", interval +-%.1f %%", p->width * 100);
	progress_line(line, "%u of %u rounds, %.0f M references, %s%s", p->rounds_done, p->rounds, (double)p->refs / 1e6, so_far, width);
}

static int report(const struct compare_args *a, const struct compare_options *o, const struct compare_result *r,
		  const struct compare_title *t, struct output *json)
{
	FILE *f = text_stream(a->json);

	if (!a->quiet) {
		report_compare_text(f, o, r, t, want_bold(fileno(f)));
		fflush(f);
	}
	return json_end(json, json->f ? report_compare_json(o, r, t) : NULL);
}

static int run_it(const struct compare_args *a, const struct compare_options *given, const char *where)
{
	struct compare_options mine = *given, *o = &mine;
	struct compare_title t = { .name = a->operands.v[0], .where = where, .set = "", .all = a->all };
	struct progress line;
	struct compare_result res;
	struct output json;
	char err[300] = "", set[400] = "";
	size_t at = 0;
	int rc, code = json_begin(&json, a->json);

	if (code >= 0)
		return code;
	if (a->era)
		at = (size_t)snprintf(set, sizeof(set), "as Linux %.20s", a->era);
	for (size_t i = 0; i < a->set.nr && at < sizeof(set); i++)
		at += (size_t)snprintf(set + at, sizeof(set) - at, "%s%s", at ? ", " : "", a->set.v[i]);
	t.set = set;
	progress_init(&line);
	if (line.on && !a->quiet) {
		o->progress = show_progress;
		o->progress_arg = &line;
	}
	signals_catch();
	rc = compare_run(o, &res, err, sizeof(err));
	progress_clear(&line);
	code = EXIT_DONE;
	if (res.rounds)
		code = report(a, o, &res, &t, &json);
	output_abort(&json);
	if (rc == -EINTR)
		code = failure("interrupted before one round was whole");
	else if (rc)
		code = failure("%s", err);
	else if (interrupted && code == EXIT_DONE)
		code = EXIT_FAILED;
	compare_result_done(&res);
	return code;
}

/* Everything that can be wrong with the request is found before anything runs. */
static int prepare_and_run(const struct compare_args *a, const struct machine_desc *machine, const char *where)
{
	struct compare_side sides[2] = { 0 };
	struct inject_rules inject;
	struct compare_options o = {
		.place = { .model = machine, .host_memory = a->host_memory }, .sides = sides, .nr_sides = 2,
		.jobs = (unsigned)a->jobs, .seed = a->seed, .inject = &inject, .stop = &interrupted,
	};
	int code;

	if (a->until && parse_share(a->until, &o.until))
		return usage_error("compare", "--until-interval %s: a share such as 2%% or 0.02", a->until);
	o.rounds = (unsigned)(a->repeats ? a->repeats : a->until ? ROUNDS_UNTIL : machine ? ROUNDS_MODEL : ROUNDS_HOST);
	if (a->host_memory && !is_host(a))
		return usage_error("compare", "--host-memory is for --machine host");
	if (!a->with.nr && !a->base.nr)
		return usage_error("compare", "what with what? --base NAME=VALUE --with NAME=VALUE");
	code = inject_args_get("compare", &a->inject, &inject);
	if (code < 0)
		code = make_side(a, "--base", &a->base, &sides[0]);
	if (code < 0)
		code = make_side(a, "--with", &a->with, &sides[1]);
	if (code < 0)
		code = choose_subject(a, &o.subject);
	if (code < 0)
		code = run_it(a, &o, where);
	if (o.subject.trace)
		o.subject.trace->ops->close(o.subject.trace);
	return code;
}

static int run(int argc, char **argv)
{
	struct compare_args a = { .work = WORK_ARGS_INIT, .seed = 1, .jobs = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L) };
	struct machine_desc machine;
	char where[200], **rest;
	int code;
	const struct opt opts[] = {
		{ "machine", 'm', OPT_TEXT, &a.machine, 0, 0, "NAME|FILE", "the machine to model, or host; default: this computer's kind" },
		{ "base", 'b', OPT_LIST, &a.base, 0, 0, "NAME=VALUE", "a setting of the side that the other is held against; may be repeated" },
		{ "with", 'w', OPT_LIST, &a.with, 0, 0, "NAME=VALUE", "a setting of the other side; may be repeated" },
		{ "era", 0, OPT_TEXT, &a.era, 0, 0, "RELEASE",
		  "what that release of Linux did ('quire knobs --era RELEASE' says what); --set come on top" },
		{ "set", 's', OPT_LIST, &a.set, 0, 0, "NAME=VALUE", "a setting of both sides; may be repeated" },
		{ "repeats", 'r', OPT_COUNT, &a.repeats, 1, STATS_MAX_PAIRS, "N", "pairs; default 6 on a model, 11 on this computer" },
		{ "until-interval", 'u', OPT_TEXT, &a.until, 0, 0, "SHARE",
		  "go on until the main metric's interval is within this share (2%), for 100 pairs or --repeats at most" },
		{ "size", 0, OPT_SIZE, &a.size, 4096, 1ULL << 46, "BYTES", "workloads: memory, all tasks together; default: the workload's" },
		{ "passes", 0, OPT_COUNT, &a.passes, 1, 1000000, "N", "usemem: times over its memory" },
		WORK_ARGS_OPTIONS(&a.work),
		{ "host-memory", 0, OPT_SIZE, &a.host_memory, 128ULL << 20, 1ULL << 46, "BYTES",
		  "--machine host: of this computer's memory; default: what the workload needs" },
		{ "keep-addresses", 0, OPT_FLAG, &a.keep_addresses, 0, 0, NULL, "recordings: the recorded addresses, not Linux's" },
		{ "all", 'a', OPT_FLAG, &a.all, 0, 0, NULL, "show every metric, not only those that matter or differ" },
		{ "seed", 0, OPT_COUNT, &a.seed, 0, UINT64_MAX, "N", "of the first pair; each has its own" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ "jobs", 0, OPT_COUNT, &a.jobs, 1, 64, "N", "runs at once on a model; default: as many as there are CPUs" },
		INJECT_ARGS_OPTION(&a.inject),
		{ "quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "no table and no progress" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &a.operands, &rest);
	if (code >= 0)
		return code;
	if (rest)
		return usage_error("compare", "a program cannot be compared while it runs: record it, and compare its recording");
	if (is_host(&a)) {
		host_describe(where, sizeof(where));
		return prepare_and_run(&a, NULL, where);
	}
	code = machine_get(a.machine, &machine);
	if (code >= 0)
		return code;
	code = prepare_and_run(&a, &machine, machine.title);
	machine_desc_done(&machine);
	return code;
}

const struct command cmd_compare = { .name = "compare", .help = "two settings on the same workload or recording, paired and repeated", .run = run };
