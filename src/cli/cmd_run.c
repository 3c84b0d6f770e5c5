/* quire run: a recording, a generated trace, a program or a standard workload, under one or several settings, on a machine. */
#include "cli/cli.h"
#include "cli/common.h"
#include "cli/inject_args.h"
#include "cli/work_args.h"
#include "lab/era.h"
#include "lab/run.h"
#include "report/run_report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SWAP_NOT_GIVEN UINT64_MAX

static const char *const generated[] = { "stream", "random" };

struct run_args {
	const char *machine, *json, *proc, *era;
	struct opt_list set, vary, inject, operands;
	uint64_t seed, size, count, repeat, jobs, host_memory, swap;
	bool profile, keep_addresses, quiet;
	struct work_args work;
	char **program;
};

static const struct opt_help help = {
	.usage = "quire run [OPTIONS] FILE|WORKLOAD\n"
		 "       quire run [OPTIONS] -- PROGRAM [ARGUMENTS]",
	.text = "Replays what a program does with its memory on a modelled machine, once for each combination of\n"
		"settings, and prints what each would do to it. FILE is a recording (a name with a / or a .),\n"
		"WORKLOAD a generated one:\n"
		"  stream   loads with a stride of 8 bytes, over and over\n"
		"  random   loads of 8 bytes, uniformly\n"
		"or one of the standard workloads ('quire workload list'), which run on --machine host too: this\n"
		"computer. A PROGRAM runs under the recorder and feeds all engines at once. Its input and output are\n"
		"its own, the table follows its output; with --json - standard output holds the JSON alone. stream\n"
		"and random touch all of --size once first.\n\n"
		"  quire run --vary transparent_hugepage.enabled=never,always -- sort big.txt\n"
		"  quire run redis.qtr --machine laptop --set vm.overcommit_memory=2 --json out.json\n"
		"  quire run anon-w-seq --machine host --tasks 2 --size 1G\n"
		"  quire run anon-w-seq-hugetlb --size 64M --set hugepages-2048kB.nr_hugepages=32\n",
};

static const char *generated_name(const void *arg, size_t i)
{
	(void)arg;
	return generated[i];
}

static const char *near_name(const char *name)
{
	const char *near = nearest(name, ARRAY_SIZE(generated), generated_name, NULL);

	return near ? near : work_nearest(name);
}

/* By name. -1 to go on, or an exit code. */
static int choose_workload(const struct run_args *a, const char *name, struct lab_source *ret)
{
	const char *near;

	for (size_t i = 0; i < ARRAY_SIZE(generated); i++)
		if (!strcmp(name, generated[i])) {
			if (a->size & OPT_PERCENT)
				return usage_error("run", "--size in per cent of memory is for workloads; %s takes bytes", name);
			*ret = (struct lab_source){ .kind = LAB_GENERATED, .name = name, .bytes = a->size ? a->size : 1ULL << 30,
						    .count = a->count };
			return -1;
		}
	if (workload_find(name)) {
		*ret = (struct lab_source){ .kind = LAB_WORKLOAD, .name = name, .workload = workload_find(name) };
		return work_args_get("run", &a->work, a->size, a->repeat, &ret->work);
	}
	near = near_name(name);
	return usage_error("run", "no such workload: %s; %s%s%s (a file's name has a / or a ., a program goes after --)", name,
			   near ? "did you mean " : "'quire workload list' shows them, and there are stream and random",
			   near ? near : "", near ? "?" : "");
}

/* What is to be run. -1 to go on, or an exit code. */
static int choose_source(const struct run_args *a, struct lab_source *ret)
{
	const char *name = a->operands.nr ? a->operands.v[0] : NULL;

	if (a->operands.nr > 1)
		return usage_error("run",
				   "one recording or workload at a time (a program and its arguments go after --)");
	if (a->program) {
		if (name)
			return usage_error("run", "%s and a program: only one can be run", name);
		if (!a->program[0])
			return usage_error("run", "no program after --");
		*ret = (struct lab_source){ .kind = LAB_PROGRAM, .name = a->program[0], .argv = a->program };
		return -1;
	}
	if (!name)
		return usage_error("run", "what? A recording, a workload, or a program after --");
	if (strchr(name, '/') || strchr(name, '.')) {
		*ret = (struct lab_source){ .kind = LAB_FILE, .name = name };
		return -1;
	}
	return choose_workload(a, name, ret);
}

struct progress_state {
	struct progress line;
	uint64_t last_refs, last_ns;
};

static void show_progress(void *arg, const struct lab_progress *p)
{
	struct progress_state *s = arg;
	uint64_t rate = p->host_ns ? (uint64_t)((unsigned __int128)p->refs_done * 1000000000ULL / p->host_ns) : 0;
	char left[24];

	if (p->refs_total && rate && p->refs_done <= p->refs_total) {
		format_duration(left, (p->refs_total - p->refs_done) / rate * 1000000000ULL);
		progress_line(&s->line, "%zu of %zu rows, %" PRIu64 " %%, %.1f M references/s, %s left", p->rows_done,
			      p->rows, p->refs_done * 100 / p->refs_total, (double)rate / 1e6, left);
	} else {
		progress_line(&s->line, "%.1f M references replayed, %.1f M/s", (double)p->refs_done / 1e6,
			      (double)rate / 1e6);
	}
}

static int report(const struct run_args *a, const struct lab_options *o, const struct lab_result *r,
		  struct output *json)
{
	FILE *f = text_stream(a->json);
	bool bold = want_bold(fileno(f));
	/* Before the table: whoever reads that may go away in its middle (a pager), which ends us. */
	int code = json_end(json, json->f ? report_run_json(o, r) : NULL);

	if (!a->quiet) {
		report_run_text(f, o, r, bold);
		if (a->profile) {
			fputc('\n', f);
			report_run_profile(f, o, r, bold);
		}
		report_run_proc(f, r);
		fflush(f);
	}
	return code;
}

static bool anything_done(const struct lab_result *r)
{
	for (size_t i = 0; i < r->nr_rows; i++)
		if (r->rows[i].replayed && (r->rows[i].finished || r->rows[i].replay.refs))
			return true;
	return false;
}

/* With --json - and a program, standard output is the result's alone: what the program prints goes where messages go. */
static int keep_stdout_for_json(struct output *json)
{
	int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "w");

	if (!f || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
		return failure("standard output cannot be set aside: %s", strerror(errno));
	json->f = f;
	return -1;
}

static int run_it(const struct run_args *a, const struct lab_options *given, struct output *json)
{
	struct lab_options mine = *given, *o = &mine;
	struct progress_state ps = { 0 };
	struct lab_result res;
	char err[300] = "";
	int rc, code = EXIT_DONE;

	progress_init(&ps.line);
	if (ps.line.on && !a->quiet) {
		o->progress = show_progress;
		o->progress_arg = &ps;
	}
	signals_catch();
	rc = lab_run(o, &res, err, sizeof(err));
	progress_clear(&ps.line);
	if (anything_done(&res))
		code = report(a, o, &res, json);
	else if (!rc && interrupted)
		code = failure("interrupted before anything was done");
	output_abort(json);
	if (rc)
		code = failure("%s", err);
	else if (interrupted && code == EXIT_DONE)
		code = EXIT_FAILED;
	else if (res.damaged && code == EXIT_DONE)
		code = failure("%s: damaged: the figures are those of what comes before", o->source.name);
	lab_result_done(&res);
	return code;
}

static bool is_host(const struct run_args *a)
{
	return a->machine && !strcmp(a->machine, "host");
}

/* Everything that can be wrong with the request is found before anything runs. */
static int prepare_and_run(const struct run_args *a, const struct machine_desc *machine)
{
	struct settings settings;
	struct inject_rules inject;
	struct era_sets sets;
	struct era era;
	struct lab_options o = {
		.machine = machine,
		.settings = &settings,
		.seed = a->seed,
		.repeat = (unsigned)a->repeat,
		.jobs = (unsigned)a->jobs,
		.keep_addresses = a->keep_addresses,
		.profile = a->profile,
		.inject = &inject,
		.stop = &interrupted,
	};
	struct output json;
	char err[400];
	const struct host_options host = { .memory = a->host_memory, .swap = a->swap == SWAP_NOT_GIVEN ? 0 : a->swap, .populate = true };
	int code = choose_source(a, &o.source);

	if (code < 0)
		code = inject_args_get("run", &a->inject, &inject);
	if (code >= 0)
		return code;
	if (o.source.kind != LAB_WORKLOAD && work_args_given(&a->work))
		return usage_error("run", "--%s is for the standard workloads", work_args_given(&a->work));
	if (is_host(a)) {
		if (o.source.kind != LAB_WORKLOAD)
			return usage_error("run", "--machine host runs the standard workloads; recordings and programs are replayed on a model");
		o.host = &host;
		o.jobs = 1; /* rows side by side would disturb each other */
	} else if (a->host_memory) {
		return usage_error("run", "--memory is for --machine host");
	}
	if (a->proc && memory_proc_parse(a->proc, &o.proc, err, sizeof(err)))
		return usage_error("run", "--proc: %s", err);
	if (era_find(a->era, &era, err, sizeof(err)))
		return usage_error("run", "%s", err);
	era_sets(&era, a->set.v, a->set.nr, a->vary.v, a->vary.nr, &sets);
	if (settings_expand(sets.v, sets.nr, a->vary.v, a->vary.nr, &settings, err, sizeof(err)))
		return usage_error("run", "%s", err);
	if (o.source.kind == LAB_FILE && access(o.source.name, R_OK))
		code = failure("%s: %s", o.source.name, strerror(errno));
	else if (o.source.kind == LAB_PROGRAM && record_check(err, sizeof(err)))
		code = failure("%s", err);
	if (code < 0)
		code = json_begin(&json, a->json);
	if (code < 0 && a->program && json.f == stdout)
		code = keep_stdout_for_json(&json);
	if (code < 0)
		code = run_it(a, &o, &json);
	settings_done(&settings);
	return code;
}

static int run(int argc, char **argv)
{
	struct run_args a = {
		.work = WORK_ARGS_INIT,
		.seed = 1,
		.count = 100000000,
		.repeat = 1,
		.swap = SWAP_NOT_GIVEN,
		.jobs = (uint64_t)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L),
	};
	struct machine_desc machine;
	int code;
	const struct opt opts[] = {
		{ "machine", 'm', OPT_TEXT, &a.machine, 0, 0, "NAME|FILE",
		  "the machine to model ('quire machine list'), or host; default: this computer's kind" },
		{ "set", 's', OPT_LIST, &a.set, 0, 0, "NAME=VALUE",
		  "a setting for all rows ('quire knobs' lists them); may be repeated" },
		{ "vary", 'v', OPT_LIST, &a.vary, 0, 0, "NAME=V,V...",
		  "a row for each value; several: each combination" },
		{ "era", 0, OPT_TEXT, &a.era, 0, 0, "RELEASE",
		  "what that release of Linux did ('quire knobs --era RELEASE' says what); --set and --vary come on top" },
		{ "json", 'j', OPT_TEXT, &a.json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ "profile", 'p', OPT_FLAG, &a.profile, 0, 0, NULL,
		  "print where the time went, by program and engine path" },
		{ "repeat", 'r', OPT_COUNT, &a.repeat, 1, 1000000, "N",
		  "replay the recording N times, one after another; usemem: times over its memory" },
		{ "keep-addresses", 0, OPT_FLAG, &a.keep_addresses, 0, 0, NULL,
		  "use the recorded addresses, not those that Linux would give" },
		{ "seed", 0, OPT_COUNT, &a.seed, 0, UINT64_MAX, "N",
		  "of the random draws; the same seed gives the same result" },
		{ "size", 0, OPT_SIZE_OR_PERCENT, &a.size, 4096, 1ULL << 46, "BYTES",
		  "memory used, all tasks together; workloads: or so much of the machine's memory (150%); default: 1G, or the workload's" },
		WORK_ARGS_OPTIONS(&a.work),
		{ "memory", 0, OPT_SIZE, &a.host_memory, 128ULL << 20, 1ULL << 46, "BYTES",
		  "--machine host: of this computer's memory; default: a quarter, at most 2G" },
		{ "host-memory", 0, OPT_SIZE, &a.host_memory, 128ULL << 20, 1ULL << 46, "BYTES", "the same" },
		{ "swap", 0, OPT_SIZE, &a.swap, 0, 1ULL << 44, "BYTES",
		  "a swap device of so much, on the host a file in $TMPDIR or /var/tmp; 0: none; default: the machine file's, "
		  "on the host none" },
		{ "count", 0, OPT_COUNT, &a.count, 1, 1ULL << 60, "N", "stream, random: loads; default 100M" },
		{ "jobs", 0, OPT_COUNT, &a.jobs, 1, 256, "N",
		  "rows replayed at once; default: as many as there are CPUs" },
		INJECT_ARGS_OPTION(&a.inject),
		{ "proc", 0, OPT_TEXT, &a.proc, 0, 0, "FILE,...",
		  "print the page allocator's state after each row, as Linux's buddyinfo, pagetypeinfo, zoneinfo, unusable_index "
		  "or extfrag_index" },
		{ "quiet", 'q', OPT_FLAG, &a.quiet, 0, 0, NULL, "no table and no progress" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &a.operands, &a.program);
	if (code >= 0)
		return code;
	if (is_host(&a)) {
		lab_host_desc(&machine);
		code = prepare_and_run(&a, &machine);
		return code;
	}
	code = machine_get(a.machine, &machine);
	if (code >= 0)
		return code;
	if (a.swap != SWAP_NOT_GIVEN)
		machine.swap.size = a.swap;
	code = prepare_and_run(&a, &machine);
	machine_desc_done(&machine);
	return code;
}

const struct command cmd_run = { .name = "run",
				 .help = "run a workload, a program or a recording under one or several settings",
				 .run = run };
