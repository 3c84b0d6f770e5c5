/* quire check schedules: small concurrent programs under chosen interleavings. */
#include "cli/check.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/schedules.h"
#include "lab/settings.h"
#include "report/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SCRIPT (64UL << 10)
#define MAX_SAVED (1UL << 20)
#define SAVED_HEAD "quire schedule 1"
#define LIST_SHOWN 40U /* a longer schedule is named by its seed */

static const struct opt_help help = {
	.usage = "quire check schedules [OPTIONS]",
	.text = "Runs small concurrent programs on the engine, again and again, each time in another order of what\n"
		"their CPUs do, and checks translations, frames, counts and contents. A failure comes with its seed\n"
		"and with the fewest switches from CPU to CPU that make it happen. docs/checking.md says what is\n"
		"checked and how.\n\n"
		"  quire check schedules --count 100000 --seed 1\n"
		"  quire check schedules --workload cow --strategy exhaustive --preemptions 1\n",
};

struct check_args {
	const char *workload, *script, *strategy, *replay, *save, *json;
	uint64_t preemptions, count, seed, jobs;
	struct opt_list sets;
	bool list;
	struct schedules_options o;
	struct progress progress;
	char name[64]; /* the program that is being checked */
	/* a schedule that was given */
	struct schedule_choice *given;
	uint32_t nr_given;
	char saved_workload[64], saved_script[4096];
	FILE *text;
	json_t *results;
	struct schedules_result *r;
	struct output saved; /* open from the start, so that a bad place fails before the work; written by the first failure */
	bool has_saved;
};

static void show_progress(void *arg, uint64_t done, uint64_t of)
{
	struct check_args *a = arg;

	progress_line(&a->progress, "%s: %" PRIu64 " of %" PRIu64 " schedules", a->name, done, of);
}

static const char *builtin_name(const void *arg, size_t i)
{
	(void)arg;
	return schedules_builtins[i].name;
}

static int list_programs(void)
{
	for (size_t i = 0; i < schedules_nr_builtins; i++)
		printf("%-16s %s\n", schedules_builtins[i].name, schedules_builtins[i].help);
	return EXIT_DONE;
}

/* A whole text file. NULL after a message. */
static char *read_text(const char *path, size_t max)
{
	FILE *f = fopen(path, "re");
	char *buf = f ? malloc(max + 2) : NULL;
	size_t n;

	if (!f || !buf) {
		failure("%s: %s", path, f ? "out of memory" : strerror(errno));
		if (f)
			fclose(f);
		return NULL;
	}
	n = fread(buf, 1, max + 1, f);
	buf[n] = 0;
	if (ferror(f) || n > max || strlen(buf) != n) {
		failure("%s: %s", path, ferror(f) ? "cannot be read" : n > max ? "too long" : "this is no text");
		free(buf);
		buf = NULL;
	}
	fclose(f);
	return buf;
}

/* ---- saved schedules: a line a word and its value ---- */

static int save(struct check_args *a)
{
	char err[300];

	fprintf(a->saved.f, SAVED_HEAD "\n%s %s\n", a->script ? "script" : "workload", a->script ? a->script : a->name);
	for (size_t i = 0; i < a->sets.nr; i++)
		fprintf(a->saved.f, "set %s\n", a->sets.v[i]);
	for (uint32_t i = 0; i < a->r->nr; i++)
		fprintf(a->saved.f, "switch %u@%u:%u\n", a->r->list[i].cpu, a->r->list[i].at, a->r->list[i].to);
	a->has_saved = true;
	return output_commit(&a->saved, err, sizeof(err)) ? failure("%s", err) : EXIT_DONE;
}

static int load_line(struct check_args *a, const char *path, unsigned nr, char *line)
{
	char err[200], *value = strchr(line, ' ');
	uint32_t one;

	if (!value)
		return failure("%s:%u: %.40s: expected workload, script, set or switch, and a value", path, nr, line);
	*value++ = 0;
	if (!strcmp(line, "switch")) {
		if (schedules_parse_list(value, a->given + a->nr_given, SCHEDULE_MAX_CHOICES - a->nr_given, &one, err, sizeof(err)))
			return failure("%s:%u: %s", path, nr, err);
		a->nr_given += one;
	} else if (!strcmp(line, "workload") && strlen(value) < sizeof(a->saved_workload)) {
		strcpy(a->saved_workload, value);
	} else if (!strcmp(line, "script") && strlen(value) < sizeof(a->saved_script)) {
		strcpy(a->saved_script, value);
	} else if (!strcmp(line, "set") && a->sets.nr < OPT_LIST_MAX) {
		a->sets.v[a->sets.nr] = strdup(value);
		if (!a->sets.v[a->sets.nr++])
			return failure("out of memory");
	} else {
		return failure("%s:%u: %.40s: expected workload, script, set or switch", path, nr, line);
	}
	return -1;
}

static int load(struct check_args *a, const char *path)
{
	char *text = read_text(path, MAX_SAVED), *save_at = NULL;
	unsigned nr = 1;
	int code = -1;

	if (!text)
		return EXIT_FAILED;
	if (strncmp(text, SAVED_HEAD "\n", strlen(SAVED_HEAD) + 1)) {
		free(text);
		return failure("%s:1: this is no saved schedule: it begins with '" SAVED_HEAD "'", path);
	}
	for (char *line = strtok_r(text, "\n", &save_at); line && code < 0; line = strtok_r(NULL, "\n", &save_at), nr++)
		if (nr > 1)
			code = load_line(a, path, nr, line);
	free(text);
	if (code < 0 && !a->workload && !a->script) {
		a->workload = a->saved_workload[0] ? a->saved_workload : NULL;
		a->script = a->saved_script[0] ? a->saved_script : NULL;
	}
	return code;
}

/* --replay: a seed, a list, or a file. */
static int get_replay(struct check_args *a)
{
	const char *s = a->replay;
	char err[200], *end;

	a->given = calloc(SCHEDULE_MAX_CHOICES, sizeof(*a->given));
	if (!a->given)
		return failure("out of memory");
	if (!*s || strspn(s, "0123456789@:,") != strlen(s))
		return load(a, s);
	if (strchr(s, '@')) {
		if (schedules_parse_list(s, a->given, SCHEDULE_MAX_CHOICES, &a->nr_given, err, sizeof(err)))
			return usage_error("check schedules", "--replay %s", err);
		return -1;
	}
	errno = 0;
	a->seed = strtoull(s, &end, 10);
	if (*end || errno)
		return usage_error("check schedules", "--replay %s: a seed, CPU@POINT:CPU,..., or a file", s);
	free(a->given);
	a->given = NULL;
	a->count = 1;
	return -1;
}

/* ---- what was found ---- */

static void print_again(const struct check_args *a)
{
	const struct schedules_result *r = a->r;
	FILE *f = a->text;

	fprintf(f, "again: quire check schedules --%s %s", a->script ? "script" : "workload", a->script ? a->script : a->name);
	for (size_t i = 0; i < a->sets.nr; i++)
		fprintf(f, " --set %s", a->sets.v[i]);
	if (r->nr > LIST_SHOWN && a->o.search != SEARCH_EXHAUSTIVE) {
		fprintf(f, " --strategy %s --preemptions %u --replay %" PRIu64 "\n", a->strategy, a->o.preemptions, r->seed);
		return;
	}
	if (!r->nr)
		fputs(" --strategy exhaustive --preemptions 0", f);
	for (uint32_t i = 0; i < r->nr; i++)
		fprintf(f, "%s%u@%u:%u", i ? "," : " --replay ", r->list[i].cpu, r->list[i].at, r->list[i].to);
	fputc('\n', f);
}

static void print_failure(const struct check_args *a)
{
	const struct schedules_result *r = a->r;
	FILE *f = a->text;

	fprintf(f, "%s: FAILED", a->name);
	if (!a->given && a->o.search != SEARCH_EXHAUSTIVE)
		fprintf(f, ", seed %" PRIu64, r->seed);
	fprintf(f, ", after %" PRIu64 " schedules\n  %s\n", r->runs, r->why);
	if (r->nr)
		fprintf(f, "%s schedule, %u of %u switches:\n%s", r->minimal ? "minimal" : "the", r->nr, r->nr_before, r->explain);
	else
		fputs("it needs no switch\n", f);
	print_again(a);
}

static void print_passed(const struct check_args *a)
{
	const struct schedules_result *r = a->r;

	fprintf(a->text, "%s: %" PRIu64 " schedule%s", a->name, r->runs, r->runs == 1 ? "" : "s");
	if (a->o.search == SEARCH_EXHAUSTIVE && !a->given)
		fprintf(a->text, ", %s with at most %u switches", r->complete ? "all" : "not all", a->o.preemptions);
	if (r->runs > 1 && r->wall_ns)
		fprintf(a->text, ", %.0f a second, %" PRIu64 " points each", (double)r->runs * 1e9 / (double)r->wall_ns,
			r->points / r->runs);
	fprintf(a->text, ": no failure%s\n", interrupted ? " (stopped)" : "");
}

static void add_json(const struct check_args *a)
{
	const struct schedules_result *r = a->r;
	json_t *o = json_pack("{s:o, s:b, s:o, s:o}", "workload", report_json_text(a->name), "failed", r->failed, "schedules",
			      report_json_u64(r->runs), "points", report_json_u64(r->points));

	if (r->failed) {
		json_t *list = json_array();

		for (uint32_t i = 0; i < r->nr; i++)
			json_array_append_new(list, json_pack("{s:i, s:i, s:i}", "cpu", (int)r->list[i].cpu, "point", (int)r->list[i].at,
							      "to", (int)r->list[i].to));
		json_object_set_new(o, "seed", report_json_u64(r->seed));
		json_object_set_new(o, "why", report_json_text(r->why));
		json_object_set_new(o, "switches", list);
	}
	json_array_append_new(a->results, o);
}

static int get_knobs(const struct check_args *a, const struct schedules_program *p, struct knobs *k)
{
	char err[300];

	knobs_default(k);
	k->lru_batch = 1; /* what nobody maps is freed at once: then nothing hides that it was too early */
	for (uint32_t i = 0; i < p->nr_set; i++)
		if (settings_apply(k, "set", p->set[i], err, sizeof(err)))
			return failure("%s: %s", a->name, err);
	for (size_t i = 0; i < a->sets.nr; i++)
		if (settings_apply(k, "--set", a->sets.v[i], err, sizeof(err)))
			return usage_error("check schedules", "%s", err);
	return -1;
}

/* One program. An exit code. */
static int check_one(struct check_args *a, const char *name, const char *text)
{
	struct schedules_program *p = malloc(sizeof(*p));
	char err[500] = "out of memory";
	struct knobs k;
	int code;

	snprintf(a->name, sizeof(a->name), "%s", name);
	if (!p || schedules_parse(name, text, p, err, sizeof(err))) {
		free(p);
		return failure("%s", err);
	}
	code = get_knobs(a, p, &k);
	if (code < 0) {
		a->o.program = p;
		a->o.knobs = &k;
		code = a->given ? schedules_replay(&a->o, a->given, a->nr_given, a->r, err, sizeof(err)) :
				  schedules_check(&a->o, a->r, err, sizeof(err));
		progress_clear(&a->progress);
		if (code) {
			code = failure("%s: %s", a->name, err);
		} else {
			add_json(a);
			(a->r->failed ? print_failure : print_passed)(a);
			code = a->r->failed ? EXIT_FAILED : EXIT_DONE;
			if (a->r->failed && a->save && !a->has_saved)
				(void)save(a);
		}
	}
	free(p);
	return code;
}

static int check_all(struct check_args *a)
{
	int code = EXIT_DONE;

	if (a->script) {
		char *text = read_text(a->script, MAX_SCRIPT);

		code = text ? check_one(a, a->script, text) : EXIT_FAILED;
		free(text);
		return code;
	}
	for (size_t i = 0; i < schedules_nr_builtins && !interrupted && code != EXIT_USAGE; i++) {
		int one;

		if (a->workload && strcmp(a->workload, schedules_builtins[i].name))
			continue;
		one = check_one(a, schedules_builtins[i].name, schedules_builtins[i].text);
		code = one ? one : code;
	}
	return code;
}

static int check_usage(struct check_args *a)
{
	static const char *const names[] = { [SEARCH_RANDOM] = "random", [SEARCH_PCT] = "pct", [SEARCH_EXHAUSTIVE] = "exhaustive" };
	unsigned i = 0;

	if (a->workload && a->script)
		return usage_error("check schedules", "--workload and --script exclude each other");
	if (a->workload && !schedules_builtin_find(a->workload)) {
		const char *near = nearest(a->workload, schedules_nr_builtins, builtin_name, NULL);

		return usage_error("check schedules", "no such workload: %s%s%s%s", a->workload, near ? "; did you mean " : "",
				   near ? near : "", near ? "?" : " (--list shows them)");
	}
	if (a->replay && !a->workload && !a->script)
		return usage_error("check schedules", "--replay needs --workload or --script");
	while (i < ARRAY_SIZE(names) && strcmp(names[i], a->strategy))
		i++;
	if (i == ARRAY_SIZE(names))
		return usage_error("check schedules", "--strategy %s: random, pct or exhaustive", a->strategy);
	if (i == SEARCH_EXHAUSTIVE && a->preemptions > SCHEDULES_MAX_EXHAUSTIVE)
		return usage_error("check schedules", "--preemptions %" PRIu64 ": 0 to %d with --strategy exhaustive", a->preemptions,
				   SCHEDULES_MAX_EXHAUSTIVE);
	a->o.search = (enum schedules_search)i;
	a->o.preemptions = (uint32_t)a->preemptions;
	return -1;
}

static int check(struct check_args *a)
{
	struct output out;
	int code = a->replay ? get_replay(a) : -1;

	if (code < 0)
		code = check_usage(a);
	if (code < 0)
		code = json_begin(&a->saved, a->save);
	if (code >= 0)
		return code;
	code = json_begin(&out, a->json);
	if (code >= 0) {
		output_abort(&a->saved);
		return code;
	}
	a->text = text_stream(a->json);
	a->results = json_array();
	a->r = calloc(1, sizeof(*a->r));
	if (!a->r || !a->results) {
		output_abort(&out);
		output_abort(&a->saved);
		return failure("out of memory");
	}
	a->o.count = a->count;
	a->o.seed = a->seed;
	a->o.jobs = (uint32_t)a->jobs;
	a->o.stop = &interrupted;
	a->o.arg = a;
	progress_init(&a->progress);
	a->o.progress = a->progress.on ? show_progress : NULL;
	signals_catch();
	code = check_all(a);
	output_abort(&a->saved);
	free(a->r);
	if (code == EXIT_USAGE) {
		json_decref(a->results);
		output_abort(&out);
	} else {
		json_t *root = report_json("check schedules");
		int written;

		json_object_set_new(root, "results", a->results);
		written = json_end(&out, root);
		code = code ? code : interrupted ? EXIT_FAILED : written;
	}
	return code;
}

int check_schedules(int argc, char **argv)
{
	struct check_args a = { .strategy = "random", .preemptions = 2, .count = 1000, .seed = 1, .jobs = 1 };
	struct opt_list args = { 0 };
	size_t given_sets;
	char **rest;
	int code;
	const struct opt opts[] = {
		{ "workload", 'w', OPT_TEXT, &a.workload, 0, 0, "NAME", "one of those that --list shows; default: each in turn" },
		{ "script", 0, OPT_TEXT, &a.script, 0, 0, "FILE", "a program of your own (docs/checking.md)" },
		{ "strategy", 0, OPT_TEXT, &a.strategy, 0, 0, "HOW", "random, pct (priorities that change) or exhaustive" },
		{ "preemptions", 0, OPT_COUNT, &a.preemptions, 0, SCHEDULE_MAX_DEPTH, "K",
		  "pct: changes of priority; exhaustive: most switches; default 2" },
		{ "count", 'n', OPT_COUNT, &a.count, 1, 1ULL << 40, "N", "schedules of each workload, at most; default 1000" },
		{ "seed", 0, OPT_COUNT, &a.seed, 0, 1ULL << 62, "S", "of the first; the next has S + 1; default 1" },
		{ "jobs", 'j', OPT_COUNT, &a.jobs, 1, 64, "N", "processes at a time; default 1" },
		{ "replay", 0, OPT_TEXT, &a.replay, 0, 0, "WHAT", "a seed, a schedule as printed, or a file of --save" },
		{ "save", 0, OPT_TEXT, &a.save, 0, 0, "FILE", "write the schedule of the first failure to FILE" },
		{ "set", 0, OPT_LIST, &a.sets, 0, 0, "NAME=VALUE", "a setting ('quire knobs' lists them)" },
		{ "list", 0, OPT_FLAG, &a.list, 0, 0, NULL, "list the workloads" },
		{ "json", 0, OPT_TEXT, &a.json, 0, 0, "FILE", "write the results as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code >= 0)
		return code;
	if (args.nr)
		return usage_error("check schedules", "%s: takes no operands; a workload is named by --workload", args.v[0]);
	if (a.list)
		return list_programs();
	given_sets = a.sets.nr;
	code = check(&a);
	for (size_t i = given_sets; i < a.sets.nr; i++)
		free(a.sets.v[i]); /* those of a saved schedule */
	free(a.given);
	return code;
}
