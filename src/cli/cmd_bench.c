/* quire bench: how fast quire is on this computer, beside its peers. And bench-load, the peers' program. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/bench_replay.h"
#include "report/json.h"
#include "report/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct opt_help help = {
	.usage = "quire bench replay [OPTIONS] [TRACE.qtr [-- PROGRAM ARGUMENTS]]\n"
		 "       quire bench linux [OPTIONS]\n"
		 "       quire bench alloc [OPTIONS]",
	.text = "replay: references replayed a second on one CPU, with the whole engine in the loop: a stream (stride\n"
		"of 8 bytes), uniformly random loads, and a recording: TRACE, or redis under its own benchmark,\n"
		"recorded for the purpose. Beside it stand valgrind's cachegrind and lackey on the same program\n"
		"(PROGRAM for TRACE), run in turn. Both are measured by their CPU time.\n"
		"linux: faults, copy on write, fork and unmapping beside this computer's kernel; alloc: the page\n"
		"allocator, here and by the number of modelled CPUs. 'quire bench linux --help' and 'quire bench\n"
		"alloc --help' say more; the options below are replay's.\n",
};

static void show(void *arg, const char *line)
{
	progress_line(arg, "%s", line);
}

static void rate_cell(struct table *t, double v, bool there)
{
	char buf[32] = "-";

	if (there)
		snprintf(buf, sizeof(buf), "%.2f", v / 1e6);
	table_cell(t, buf);
}

static void print_result(FILE *f, const struct bench_options *o, const struct bench_result *r)
{
	struct table t;

	table_init(&t, 6);
	table_cell(&t, "M references/s");
	table_cell(&t, "quire");
	table_cell(&t, "peer");
	table_cell(&t, "ratio");
	table_cell(&t, "95 % interval");
	table_cell(&t, "of the peer");
	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_row *b = &r->row[i];
		char buf[64] = "-";

		table_cell(&t, b->name);
		rate_cell(&t, b->ours, true);
		rate_cell(&t, b->peer, b->peer_name != NULL);
		if (b->peer_name)
			snprintf(buf, sizeof(buf), "%.2f", b->ratio);
		table_cell(&t, buf);
		if (b->peer_name)
			snprintf(buf, sizeof(buf), "%.2f to %.2f", b->low, b->high);
		table_cell(&t, buf);
		table_cell(&t, b->peer_name ? b->peer_name : "-");
	}
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	fprintf(f, "\nMeasured on this computer, CPU time of one thread, median of %u; the engine models %s.\n",
		o->repeats, o->machine->name);
	if (o->repeats < 6)
		fputs("Fewer than 6 repeats: the interval is the range seen, and holds with less than 95 %.\n", f);
	if (r->note[0])
		fprintf(f, "%s\n", r->note);
	table_done(&t);
}

static json_t *result_json(const struct bench_options *o, const struct bench_result *r)
{
	json_t *root = report_json("bench"), *list = json_array();

	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_row *b = &r->row[i];
		bool p = b->peer_name != NULL;

		json_array_append_new(list, json_pack("{s:s, s:f, s:o, s:s?, s:s, s:s, s:o, s:o, s:o}", "name", b->name,
						      "ours", b->ours, "peer", p ? json_real(b->peer) : json_null(),
						      "peer_name", b->peer_name, "unit", "references/s", "better",
						      "higher", "ratio", p ? json_real(b->ratio) : json_null(), "low",
						      p ? json_real(b->low) : json_null(), "high",
						      p ? json_real(b->high) : json_null()));
	}
	json_object_set_new(root, "results", list);
	json_object_set_new(root, "machine", json_pack("{s:s, s:s}", "name", o->machine->name, "kind", "model"));
	if (r->note[0])
		json_object_set_new(root, "note", json_string(r->note));
	return root;
}

static int bench(struct bench_options *o, const char *json_path, struct progress *line)
{
	struct bench_result r;
	struct output json;
	char err[300] = "";
	int rc, code = json_begin(&json, json_path);

	if (code >= 0)
		return code;
	signals_catch();
	rc = bench_replay(o, &r, err, sizeof(err));
	progress_clear(line);
	if (r.nr)
		print_result(text_stream(json_path), o, &r);
	if (rc) {
		output_abort(&json);
		return rc == -EINTR ? failure("interrupted") : failure("%s", err);
	}
	return json_end(&json, result_json(o, &r));
}

static int run(int argc, char **argv)
{
	const char *json = NULL, *machine_name = NULL;
	uint64_t repeats = 6, size = 1ULL << 30, count = 100000000;
	bool no_peers = false;
	struct opt_list args = { 0 };
	struct machine_desc machine;
	struct progress line;
	char self[4096], **program;
	ssize_t n;
	int code;
	const struct opt opts[] = {
		{ "machine", 'm', OPT_TEXT, &machine_name, 0, 0, "NAME|FILE",
		  "the machine to model; default: this computer's kind" },
		{ "repeats", 'r', OPT_COUNT, &repeats, 1, 64, "N", "how often each is measured; default 6" },
		{ "size", 0, OPT_SIZE, &size, 4096, 1ULL << 40, "BYTES",
		  "memory of the stream and the random loads; default 1G" },
		{ "count", 0, OPT_COUNT, &count, 10, 1ULL << 40, "N",
		  "loads replayed (peers do a part of them); default 100M" },
		{ "no-peers", 0, OPT_FLAG, &no_peers, 0, 0, NULL, "measure quire only" },
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ 0 },
	};

	if (argc > 1 && !strcmp(argv[1], "alloc"))
		return bench_alloc_command(argc, argv);
	if (argc > 1 && !strcmp(argv[1], "linux"))
		return bench_linux_command(argc, argv);
	code = opt_parse(argc, argv, opts, &help, &args, &program);
	if (code >= 0)
		return code;
	if (!args.nr || strcmp(args.v[0], "replay"))
		return usage_error("bench", "replay, linux or alloc? ('quire bench replay', 'quire bench linux', 'quire bench alloc')");
	if (args.nr > 2)
		return usage_error("bench", "one recording at a time");
	if (program && (args.nr < 2 || !program[0]))
		return usage_error(
			"bench",
			"a program stands for the recording that it is the source of: TRACE.qtr -- PROGRAM ...");
	if (args.nr > 1 && access(args.v[1], R_OK)) /* now, and not after minutes */
		return failure("%s: %s", args.v[1], strerror(errno));
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n < 0)
		return failure("/proc/self/exe: %s", strerror(errno));
	self[n] = 0;
	code = machine_get(machine_name, &machine);
	if (code >= 0)
		return code;
	progress_init(&line);
	struct bench_options o = {
		.machine = &machine,
		.repeats = (unsigned)repeats,
		.size = size,
		.count = count,
		.trace = args.nr > 1 ? args.v[1] : NULL,
		.program = program,
		.self = self,
		.no_peers = no_peers,
		.say = show,
		.say_arg = &line,
		.stop = &interrupted,
	};

	code = bench(&o, json, &line);
	machine_desc_done(&machine);
	return code;
}

const struct command cmd_bench = { .name = "bench", .help = "how fast quire is here, beside its peers", .run = run };

/* bench-load stream|random BYTES LOADS: what the peers watch. */
static int run_load(int argc, char **argv)
{
	uint64_t sum;

	if (argc != 4)
		return usage_error(NULL, "bench-load stream|random BYTES LOADS");
	sum = bench_load(!strcmp(argv[1], "random"), strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10));
	printf("%llu\n", (unsigned long long)sum);
	return EXIT_DONE;
}

const struct command cmd_bench_load = { .name = "bench-load", .help = "", .run = run_load, .hidden = true };
