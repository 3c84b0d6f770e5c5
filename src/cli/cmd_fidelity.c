/* quire fidelity: the engine held against the kernel underneath. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/fidelity_out.h"
#include "machine/host/host.h"
#include "machine/model/model.h"
#include "machine/null.h"
#include "report/json.h"
#include "script/kernel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <unistd.h>

#define HOST_BYTES (1ULL << 30)
#define MAX_GROUPS 128
#define MAX_MACHINES 8
#define SECTION "#---" /* a line that begins so starts the next script of a file */

struct fid_args {
	struct opt_list scripts, machines, set, operands;
	const char *json, *save;
	uint64_t random, seed;
	bool trace, kernel_only, quiet, list, contents, owned;
};

struct fid_machine {
	char name[64];
	struct machine *m;
	void (*destroy)(struct machine *m);
	bool modelled;
	struct machine_desc desc; /* modelled */
};

struct fid {
	const struct fid_args *a;
	struct fidelity_kernel kernel; /* with what --set says */
	struct fidelity_kernel shared; /* the same, but page tables are shared at a fork: for every fourth made-up script */
	bool share;
	struct fid_machine machine[MAX_MACHINES];
	size_t nr_machines;
	struct fid_group group[MAX_GROUPS];
	size_t nr_groups;
	uint64_t by_declared[64];
	FILE *f;
	json_t *results, *steps;
	uint64_t undeclared;
};

static const struct opt_help help = {
	.usage = "quire fidelity [OPTIONS] [GROUP...]",
	.text = "Runs scripts of memory calls on the kernel underneath, in processes of their own that cannot hurt\n"
		"the computer, and on the engine, and compares after every step what the calls returned, areas,\n"
		"smaps, pages and contents. Without --script or --random: the scripts that come with quire\n"
		"(docs/fidelity.md). Exit code 1 when something differs that is not declared.\n",
};

/* ---- machines ---- */

/* In a guest of ours the engine has nodes like the kernel's, each with a CPU of the same number. */
static struct host_options host_options(bool owned)
{
	unsigned nodes = owned ? script_kernel_nodes() : 1;
	uint64_t least = (uint64_t)nodes * SECTION_FRAMES << PAGE_SHIFT;

	return (struct host_options){ .memory = MAX(HOST_BYTES / least, 1ULL) * least, .nr_nodes = nodes, .nr_cpus = owned ? MAX(nodes, 2U) : 0 };
}

static int open_machine(struct fid_machine *fm, const char *name, bool owned)
{
	struct host_options o = host_options(owned);
	char err[600] = "";
	int rc, code;

	snprintf(fm->name, sizeof(fm->name), "%s", name);
	if (!strcmp(name, "host")) {
		rc = host_create(&o, &fm->m, err, sizeof(err));
		fm->destroy = host_destroy;
	} else if (!strcmp(name, "null")) {
		rc = null_create(&(struct null_options){ .node_bytes = 2 * HOST_BYTES }, &fm->m, err, sizeof(err));
		fm->destroy = null_destroy;
	} else {
		code = machine_get(strcmp(name, "model") ? name : NULL, &fm->desc);
		if (code >= 0)
			return code;
		snprintf(fm->name, sizeof(fm->name), "%s", fm->desc.name);
		fm->modelled = true;
		rc = model_create(&fm->desc, &(struct model_options){ .seed = 1 }, &fm->m, err, sizeof(err));
		fm->destroy = model_destroy;
	}
	return rc ? failure("%s: %s", name, *err ? err : strerror(-rc)) : -1;
}

/* A model's TLBs would remember the run before, whose address spaces had the same numbers: each run has a new one. */
static int renew(struct fid_machine *fm)
{
	char err[300] = "";

	if (!fm->modelled)
		return -1;
	if (fm->m)
		fm->destroy(fm->m);
	fm->m = NULL;
	return model_create(&fm->desc, &(struct model_options){ .seed = 1 }, &fm->m, err, sizeof(err)) ? failure("%s: %s", fm->name, err) : -1;
}

/* ---- running ---- */

static struct fid_group *group_of(struct fid *x, const char *name)
{
	for (size_t i = 0; i < x->nr_groups; i++)
		if (!strcmp(x->group[i].name, name))
			return &x->group[i];
	if (x->nr_groups == MAX_GROUPS)
		return &x->group[MAX_GROUPS - 1];
	snprintf(x->group[x->nr_groups].name, sizeof(x->group[0].name), "%s", name);
	return &x->group[x->nr_groups++];
}

static void count(struct fid *x, struct fid_group *g, const struct fidelity_result *r)
{
	g->scripts++;
	g->steps += r->steps;
	g->equal += r->equal;
	g->declared += r->declared;
	g->undeclared += r->undeclared;
	g->skipped += r->skipped;
	x->undeclared += r->undeclared;
	for (size_t i = 0; i < ARRAY_SIZE(x->by_declared); i++)
		x->by_declared[i] += r->by_declared[i];
}

static struct fidelity_options options(const struct fid *x, const struct fid_machine *m)
{
	return (struct fidelity_options){ .kernel = x->share ? &x->shared : &x->kernel, .machine = m->m, .contents_every_step = x->a->contents,
					  .owned = x->a->owned, .programs_only = x->share || x->a->set.nr };
}

static void show_step(void *arg, const struct fidelity_step *st)
{
	const struct fid *x = arg;

	if (x->a->trace)
		fid_print_step(x->f, st, true);
}

static void keep_step(void *arg, const struct fidelity_seen *seen)
{
	const struct fid *x = arg;

	json_array_append_new(x->steps, fid_seen_json(seen));
}

/* One script on one machine, or on the kernel alone. An exit code, or -1 to go on. */
static int run_one(struct fid *x, const struct script *s, const char *name, struct fid_group *g, struct fid_machine *m,
		   struct fidelity_result *ret)
{
	struct fidelity_options o;
	char err[500] = "";
	int rc = renew(m);

	if (rc >= 0)
		return rc;
	o = options(x, m);

	if (x->a->trace)
		fprintf(x->f, "%s on %s\n", name, x->a->kernel_only ? "the kernel" : m->name);
	rc = x->a->kernel_only ? fidelity_run_kernel(s, &o, keep_step, x, ret, err, sizeof(err)) :
				 fidelity_run(s, &o, show_step, x, ret, err, sizeof(err));
	if (rc)
		return failure("%s: %s", name, err);
	count(x, g, ret);
	if (ret->undeclared)
		fid_print_first(x->f, name, m->name, ret);
	if (ret->skipped && (x->a->trace || !x->a->quiet))
		fprintf(x->f, "%s on %s: skipped from %s\n", name, x->a->kernel_only ? "the kernel" : m->name, ret->why);
	if (x->results)
		json_array_append_new(x->results, fid_result_json(name, m->name, ret));
	return -1;
}

static int run_text(struct fid *x, const char *name, const char *text, size_t len, struct fid_group *g)
{
	struct fidelity_result r;
	struct script *s;
	char err[500];
	int code = -1;

	if (script_parse(name, text, len, &s, err, sizeof(err)))
		return failure("%s", err);
	if (s->body.nr)
		for (size_t i = 0; code < 0 && !interrupted && i < (x->a->kernel_only ? 1 : x->nr_machines); i++)
			code = run_one(x, s, name, g, &x->machine[i], &r);
	script_free(s);
	return code;
}

/*
 * A file holds several scripts, each from a line "#--- TITLE" to the next. Lines before keep their numbers: they are given as empty ones.
 */
static int run_file(struct fid *x, const char *group, const char *text)
{
	struct fid_group *g = group_of(x, group);
	const char *end = text + strlen(text), *from = text, *next;
	char name[160], *part = malloc(strlen(text) + 1);
	int code = -1;

	if (!part)
		return failure("out of memory");
	for (; code < 0 && from < end && !interrupted; from = next) {
		size_t n = 0, title = 0;

		next = strstr(from + 1, "\n" SECTION);
		next = next ? next + 1 : end;
		for (const char *p = text; p < from; p++)
			if (*p == '\n')
				part[n++] = '\n';
		memcpy(part + n, from, (size_t)(next - from));
		n += (size_t)(next - from);
		if (!strncmp(from, SECTION, strlen(SECTION)))
			title = strcspn(from + strlen(SECTION), "\n");
		snprintf(name, sizeof(name), "%s%s%.*s", group, title ? ":" : "", (int)MIN(title, 100), from + strlen(SECTION));
		code = run_text(x, name, part, n, g);
	}
	free(part);
	return code;
}

static int run_path(struct fid *x, const char *path)
{
	const char *base = strrchr(path, '/');
	char group[64], *text = NULL;
	FILE *f = fopen(path, "re");
	size_t len = 0;
	int code, error;

	if (!f)
		return failure("%s: %s", path, strerror(errno));
	text = malloc(SCRIPT_MAX_BYTES + 1);
	if (text)
		len = fread(text, 1, SCRIPT_MAX_BYTES + 1, f);
	error = ferror(f) ? errno : 0;
	fclose(f);
	if (error) {
		free(text);
		return failure("%s: %s", path, strerror(error));
	}
	if (!text || len > SCRIPT_MAX_BYTES || memchr(text, 0, len)) {
		free(text);
		return failure("%s: not a script: at most %d bytes of text", path, SCRIPT_MAX_BYTES);
	}
	text[MIN(len, (size_t)SCRIPT_MAX_BYTES)] = '\0';
	snprintf(group, sizeof(group), "%.60s", base ? base + 1 : path);
	if (strlen(group) > 2 && !strcmp(group + strlen(group) - 2, ".q"))
		group[strlen(group) - 2] = '\0';
	code = run_file(x, group, text);
	free(text);
	return code;
}

static bool wanted(const struct fid_args *a, const char *group)
{
	for (size_t i = 0; i < a->operands.nr; i++)
		if (!strcmp(a->operands.v[i], group))
			return true;
	return !a->operands.nr;
}

static int run_shipped(struct fid *x)
{
	bool any = false;
	int code = -1;

	for (const struct fidelity_file *f = fidelity_files; code < 0 && f->name && !interrupted; f++)
		if (wanted(x->a, f->name)) {
			any = true;
			code = run_file(x, f->name, f->text);
		}
	return any ? code : usage_error("fidelity", "no such group: %s ('quire fidelity --list' shows them)", x->a->operands.v[0]);
}

/* ---- random scripts ---- */

struct again {
	struct fid *x;
	struct fid_machine *m;
	enum fidelity_kind kind;
	uint32_t key;
};

/* Shrinking keeps a difference of the same kind, so that it does not wander off to another one. */
static bool still_differs(void *arg, const struct script *s)
{
	const struct again *a = arg;
	struct fidelity_options o;
	struct fidelity_result r;
	char err[300];

	if (renew(a->m) >= 0)
		return false;
	o = options(a->x, a->m);
	return !interrupted && !fidelity_run(s, &o, NULL, NULL, &r, err, sizeof(err)) && r.undeclared && r.diff.kind == a->kind && r.diff.key == a->key;
}

static int report_random(struct fid *x, const struct script *s, uint64_t seed, struct fid_machine *m, const struct fidelity_result *r)
{
	struct again a = { .x = x, .m = m, .kind = r->diff.kind, .key = r->diff.key };
	struct fidelity_options o;
	struct fidelity_result again;
	struct script *small;
	struct output save = { 0 };
	char err[500];

	if (fidelity_shrink(s, still_differs, &a, &small))
		return failure("out of memory");
	fprintf(x->f, "shortest script of seed %" PRIu64 " that still differs:\n", seed);
	script_print(small, x->f);
	if (renew(m) >= 0) {
		script_free(small);
		return EXIT_FAILED;
	}
	o = options(x, m);
	if (!fidelity_run(small, &o, NULL, NULL, &again, err, sizeof(err)) && again.undeclared)
		fid_print_first(x->f, "it", m->name, &again);
	if (x->a->save && output_open(&save, x->a->save, err, sizeof(err))) {
		script_free(small);
		return failure("%s", err);
	}
	if (x->a->save)
		script_print(small, save.f);
	if (x->a->save && output_commit(&save, err, sizeof(err))) {
		script_free(small);
		return failure("%s", err);
	}
	script_free(small);
	return -1;
}

static int random_one(struct fid *x, uint64_t seed, struct fid_machine *m, struct fid_group *g)
{
	char *text = NULL, name[64], err[500];
	struct fidelity_result r;
	struct script *s;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	int code;

	if (!f)
		return failure("out of memory");
	fidelity_random(seed, f);
	if (fclose(f) || script_parse("random", text, len, &s, err, sizeof(err))) {
		free(text);
		return failure("seed %" PRIu64 ": %s", seed, err);
	}
	free(text);
	x->share = seed % 4 == 3;
	snprintf(name, sizeof(name), "seed %" PRIu64 "%s", seed, x->share ? " with quire.fork_tables=shared" : "");
	code = run_one(x, s, name, g, m, &r);
	if (code < 0 && r.undeclared)
		code = report_random(x, s, seed, m, &r);
	script_free(s);
	return code;
}

static int run_random(struct fid *x)
{
	struct fid_group *g = group_of(x, "random");
	struct progress line;
	int code = -1;

	progress_init(&line);
	/* Machines take turns. */
	for (uint64_t i = 0; code < 0 && i < x->a->random && !interrupted; i++) {
		code = random_one(x, x->a->seed + i, &x->machine[i % x->nr_machines], g);
		if (line.on && i % 64 == 0)
			progress_line(&line, "%" PRIu64 " of %" PRIu64 " scripts, %" PRIu64 " differ", i + 1, x->a->random, x->undeclared);
	}
	progress_clear(&line);
	return code;
}

/* ---- the command ---- */

static int list_groups(void)
{
	for (const struct fidelity_file *f = fidelity_files; f->name; f++)
		puts(f->name);
	return EXIT_DONE;
}

static json_t *document(const struct fid *x)
{
	json_t *root = report_json("fidelity"), *groups = json_array();

	for (size_t i = 0; i < x->nr_groups; i++)
		json_array_append_new(groups, fid_group_json(&x->group[i]));
	json_object_set_new(root, "kernel", fid_kernel_json(&x->kernel));
	json_object_set_new(root, "groups", groups);
	json_object_set(root, "scripts", x->results);
	if (x->a->kernel_only)
		json_object_set(root, "steps", x->steps);
	return root;
}

/* What the engine does otherwise than Linux, without a program's noticing. -1, or an exit code. */
static int apply_settings(struct fid *x)
{
	char name[64], err[300];
	int rc;

	for (size_t i = 0; i < x->a->set.nr; i++) {
		const char *text = x->a->set.v[i], *eq = strchr(text, '=');

		if (!eq || strncmp(text, "quire.", 6) || (size_t)(eq - text) >= sizeof(name))
			return usage_error("fidelity", "--set %s: quire.NAME=VALUE ('quire knobs' shows them)", text);
		snprintf(name, sizeof(name), "%.*s", (int)(eq - text), text);
		rc = knob_set(&x->kernel.knobs, name, eq + 1, err, sizeof(err));
		if (rc == -ENOENT)
			return usage_error("fidelity", "--set %s: no such setting ('quire knobs' shows them)", text);
		if (rc)
			return usage_error("fidelity", "--set %s: %s", text, err);
	}
	x->shared = x->kernel;
	x->shared.knobs.fork_tables = FORK_TABLES_SHARED;
	return -1;
}

static int run_all(struct fid *x)
{
	int code = -1;

	for (size_t i = 0; code < 0 && i < x->a->scripts.nr; i++)
		code = run_path(x, x->a->scripts.v[i]);
	if (code < 0 && x->a->random)
		code = run_random(x);
	if (code < 0 && !x->a->scripts.nr && !x->a->random)
		code = run_shipped(x);
	return code;
}

static int finish(struct fid *x, struct output *out, int code)
{
	if (code >= 0) {
		output_abort(out);
		return code;
	}
	if (!x->a->kernel_only) {
		if (!x->a->quiet) {
			fprintf(x->f, "kernel: Linux %s; %s\n\n", x->kernel.release, x->kernel.thp);
			fid_print_groups(x->f, x->group, x->nr_groups, want_bold(fileno(x->f)));
			fid_print_declared(x->f, x->by_declared);
		}
		if (interrupted)
			fprintf(x->f, "interrupted: what came so far\n");
	}
	code = json_end(out, out->f ? document(x) : NULL);
	return code == EXIT_DONE && (x->undeclared || interrupted) ? EXIT_FAILED : code;
}

static int fidelity(const struct fid_args *a)
{
	static const char *const usual[] = { "host", "model" };
	struct fid *x = calloc(1, sizeof(*x));
	struct output out;
	char err[400];
	int code = json_begin(&out, a->json);
	size_t nr = a->machines.nr ? a->machines.nr : ARRAY_SIZE(usual);

	if (code >= 0 || !x) {
		free(x);
		return code >= 0 ? code : failure("out of memory");
	}
	x->a = a;
	x->f = text_stream(a->json);
	x->results = json_array();
	x->steps = json_array();
	if (fidelity_kernel_read(&x->kernel, err, sizeof(err)))
		code = failure("%s", err);
	if (code < 0)
		code = apply_settings(x);
	for (size_t i = 0; code < 0 && !a->kernel_only && i < MIN(nr, (size_t)MAX_MACHINES); i++) {
		code = open_machine(&x->machine[i], a->machines.nr ? a->machines.v[i] : usual[i], a->owned);
		if (code < 0)
			x->nr_machines++;
	}
	signals_catch();
	if (code < 0)
		code = run_all(x);
	code = finish(x, &out, code);
	for (size_t i = 0; i < x->nr_machines; i++) {
		if (x->machine[i].m)
			x->machine[i].destroy(x->machine[i].m);
		machine_desc_done(&x->machine[i].desc);
	}
	json_decref(x->results);
	json_decref(x->steps);
	free(x);
	return code;
}

/*
 * Where the kernel places a mapping is random but for processes that were started otherwise: start again so. In vain where that is not allowed;
 * what then cannot be compared is skipped.
 */
static void without_randomisation(char **argv)
{
	int now = personality(0xffffffff);

	if (now < 0 || (now & ADDR_NO_RANDOMIZE) || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0 ||
	    !(personality(0xffffffff) & ADDR_NO_RANDOMIZE))
		return;
	execv("/proc/self/exe", argv - 1);
	(void)personality((unsigned long)now);
}

static int run(int argc, char **argv)
{
	struct fid_args a = { .seed = 1 };
	char **rest;
	int code;
	const struct opt opts[] = {
		{ "script", 0, OPT_LIST, &a.scripts, 0, 0, "FILE", "run this file of scripts; may be repeated" },
		{ "trace", 0, OPT_FLAG, &a.trace, 0, 0, NULL, "print every step, and every difference of it" },
		{ "random", 0, OPT_COUNT, &a.random, 1, UINT32_MAX, "N", "run N scripts made up from seeds, and shrink those that differ" },
		{ "seed", 0, OPT_COUNT, &a.seed, 0, UINT64_MAX / 2, "N", "of the first made-up script; each has the next one" },
		{ "save", 0, OPT_TEXT, &a.save, 0, 0, "FILE", "with --random: write the last shrunken script there" },
		{ "machine", 'm', OPT_LIST, &a.machines, 0, 0, "NAME", "for the engine: host, model (the one most like this computer), null, or a machine's name; may be repeated; default: host and model" },
		{ "set", 0, OPT_LIST, &a.set, 0, 0, "NAME=VALUE", "a setting of the engine that Linux does not have (quire.*): what programs see must be the same" },
		{ "contents", 0, OPT_FLAG, &a.contents, 0, 0, NULL, "compare contents after every step, not only at the end; Linux then counts what was read as referenced" },
		{ "kernel-only", 0, OPT_FLAG, &a.kernel_only, 0, 0, NULL, "without the engine: with --json, what was seen of the kernel, to be compared elsewhere" },
		{ "global-settings", 0, OPT_FLAG, &a.owned, 0, 0, NULL, "in a guest that was booted for this (scripts/guest) only: scripts may write the kernel's settings, and what the whole computer counts is compared" },
		{ "list", 0, OPT_FLAG, &a.list, 0, 0, NULL, "names of the groups that come with quire" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ "quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "differences only, no table" },
		{ 0 },
	};

	without_randomisation(argv);
	code = opt_parse(argc, argv, opts, &help, &a.operands, &rest);
	if (code >= 0)
		return code;
	if (a.list)
		return list_groups();
	if (a.operands.nr && (a.scripts.nr || a.random))
		return usage_error("fidelity", "a group's name goes neither with --script nor with --random");
	if (a.random && a.scripts.nr)
		return usage_error("fidelity", "--script and --random are two things");
	if (a.owned && !script_kernel_owned())
		return failure("--global-settings: this computer was not booted as a guest for it (scripts/guest does that); its settings stay as they are");
	if (a.kernel_only && !a.json)
		return usage_error("fidelity", "--kernel-only needs --json FILE, which is where it writes");
	if (a.kernel_only && a.random)
		return usage_error("fidelity", "--kernel-only runs scripts from files");
	return fidelity(&a);
}

const struct command cmd_fidelity = { .name = "fidelity", .help = "hold the engine against the kernel underneath", .run = run };
