/* quire bench alloc: the page allocator by pattern, order and tasks, on this computer and on a modelled one. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/bench_alloc.h"
#include "lab/settings.h"
#include "report/json.h"
#include "report/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct opt_help help = {
	.usage = "quire bench alloc [OPTIONS]",
	.text = "What a block of the page allocator costs a task, taken and given back, in ns. Patterns: bulk (take\n"
		"much, give it back in order), repeat (one at a time), rand (as bulk, given back in random order);\n"
		"blocks of order 0 (4 KiB) and 9 (2 MiB). First on this computer with one task and two, beside the\n"
		"kernel's own page faults (which also clear), and another allocator where --llfree names a program\n"
		"for it, in turn; then on a modelled machine with 1 to 64 CPUs at work.\n\n"
		"--llfree PROGRAM is called as PROGRAM bulk|repeat|rand ORDER TASKS BYTES, runs the pattern over\n"
		"BYTES of memory (half of them taken at once) and prints one number, the ns of a task for one block.\n",
};

static void show(void *arg, const char *line)
{
	progress_line(arg, "%s", line);
}

static void number_cell(struct table *t, const char *format, double v)
{
	char buf[32] = "-";

	if (!isnan(v))
		snprintf(buf, sizeof(buf), format, v);
	table_cell(t, buf);
}

static void print_host(FILE *f, const struct bench_alloc_result *r, bool peer)
{
	static const char *const heads[] = { "ns", "quire", "linux fault", "quire/linux", "llfree", "quire/llfree", "95 % interval" };
	unsigned columns = peer ? 7 : 4;
	struct table t;

	table_init(&t, columns);
	for (unsigned i = 0; i < columns; i++)
		table_cell(&t, heads[i]);
	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_alloc_row *row = &r->row[i];
		char buf[64] = "-";

		if (row->model)
			continue;
		table_cell(&t, row->name);
		number_cell(&t, "%.1f", row->ours);
		number_cell(&t, "%.1f", row->kernel);
		number_cell(&t, "%.3f", row->ratio_kernel);
		if (!peer)
			continue;
		number_cell(&t, "%.1f", row->peer);
		number_cell(&t, "%.3f", row->ratio);
		if (!isnan(row->ratio))
			snprintf(buf, sizeof(buf), "%.3f to %.3f", row->low, row->high);
		table_cell(&t, buf);
	}
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	table_done(&t);
}

/* A line a pattern and order, a column a number of CPUs. */
static void print_model(FILE *f, const struct bench_alloc_result *r)
{
	unsigned most = 0, columns = 1;
	char buf[64];
	struct table t;

	for (size_t i = 0; i < r->nr; i++)
		if (r->row[i].model && r->row[i].tasks > most)
			most = r->row[i].tasks;
	for (unsigned n = 1; n <= most; n *= 2)
		columns++;
	table_init(&t, columns);
	table_cell(&t, "ns by CPUs");
	for (unsigned n = 1; n <= most; n *= 2) {
		snprintf(buf, sizeof(buf), "%u", n);
		table_cell(&t, buf);
	}
	for (unsigned line = 0; line < 2 * NR_ALLOC_PATTERNS; line++) {
		double v[32];
		bool any = false;
		unsigned i = 0;

		for (unsigned n = 1; n <= most; n *= 2, i++) {
			v[i] = NAN;
			for (size_t k = 0; k < r->nr; k++) {
				const struct bench_alloc_row *row = &r->row[k];

				if (row->model && row->pattern == line / 2 && !row->order == !(line % 2) && row->tasks == n)
					v[i] = row->ours;
			}
			any |= !isnan(v[i]);
		}
		if (!any)
			continue;
		snprintf(buf, sizeof(buf), "alloc_%s_%u", alloc_pattern_names[line / 2], line % 2 ? 9U : 0U);
		table_cell(&t, buf);
		for (i = 0; i + 1 < columns; i++)
			number_cell(&t, "%.0f", v[i]);
	}
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	table_done(&t);
}

static bool any_row(const struct bench_alloc_result *r, bool model)
{
	for (size_t i = 0; i < r->nr; i++)
		if (r->row[i].model == model)
			return true;
	return false;
}

static void print_result(FILE *f, const struct bench_alloc_options *o, const struct bench_alloc_result *r)
{
	if (any_row(r, false)) {
		print_host(f, r, o->peer != NULL);
		fprintf(f, "\nMeasured on this computer, CPU time of a task for one block taken and given back, median of %u.\n", o->repeats);
		if (o->peer && o->repeats < 6)
			fputs("Fewer than 6 repeats: the interval is the range seen, and holds with less than 95 %.\n", f);
	}
	if (any_row(r, true)) {
		if (any_row(r, false))
			fputc('\n', f);
		print_model(f, r);
		fprintf(f, "\nModelled: %s, virtual time of a task for one block, by how many CPUs are at it.\n", o->machine->name);
	}
	if (r->note[0])
		fprintf(f, "%s\n", r->note);
}

static json_t *number(double v)
{
	return isnan(v) ? json_null() : json_real(v);
}

static json_t *result_json(const struct bench_alloc_options *o, const struct bench_alloc_result *r)
{
	json_t *root = report_json("bench"), *list = json_array();

	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_alloc_row *row = &r->row[i];

		json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:i, s:f, s:o, s:s?, s:o, s:o, s:s, s:s, s:o, s:o, s:o}", "name", row->name,
						      "machine", row->model ? o->machine->name : "host", "order", (int)row->order, "tasks",
						      (int)row->tasks, "ours", row->ours, "peer", number(row->peer), "peer_name",
						      isnan(row->peer) ? NULL : "llfree", "linux", number(row->kernel), "ratio_linux",
						      number(row->ratio_kernel), "unit", "ns", "better", "lower", "ratio", number(row->ratio), "low",
						      number(row->low), "high", number(row->high)));
	}
	json_object_set_new(root, "results", list);
	json_object_set_new(root, "machine", json_pack("{s:s, s:s}", "name", "host", "kind", "host"));
	if (r->note[0])
		json_object_set_new(root, "note", json_string(r->note));
	return root;
}

static int bench(const struct bench_alloc_options *o, const char *json_path, struct progress *line)
{
	struct bench_alloc_result r;
	struct output json;
	char err[300] = "";
	int rc, code = json_begin(&json, json_path);

	if (code >= 0)
		return code;
	signals_catch();
	rc = bench_alloc(o, &r, err, sizeof(err));
	progress_clear(line);
	if (r.nr)
		print_result(text_stream(json_path), o, &r);
	if (rc) {
		output_abort(&json);
		return rc == -EINTR ? failure("interrupted") : failure("%s", err);
	}
	return json_end(&json, json.f ? result_json(o, &r) : NULL);
}

int bench_alloc_command(int argc, char **argv)
{
	const char *json = NULL, *only = NULL, *llfree = NULL, *machine_name = "x86-384g-2n";
	uint64_t repeats = 7, size = 1ULL << 30, cpus = BENCH_ALLOC_MAX_CPUS;
	struct opt_list args = { 0 }, set = { 0 };
	bool no_host = false;
	struct machine_desc machine;
	struct progress line;
	struct knobs k;
	char err[300], **rest;
	int code;
	const struct opt opts[] = {
		{ "repeats", 'r', OPT_COUNT, &repeats, 1, 64, "N", "samples of each figure on this computer; default 7" },
		{ "size", 0, OPT_SIZE, &size, 128ULL << 20, 1ULL << 36, "BYTES", "memory of the engine on this computer; default 1G" },
		{ "llfree", 0, OPT_TEXT, &llfree, 0, 0, "PROGRAM", "another allocator to measure beside ours, see above" },
		{ "machine", 'm', OPT_TEXT, &machine_name, 0, 0, "NAME|FILE", "the machine to model; default x86-384g-2n" },
		{ "cpus", 0, OPT_COUNT, &cpus, 0, BENCH_ALLOC_MAX_CPUS, "N", "modelled: 1, 2, 4... up to N CPUs; default 64, 0: no model" },
		{ "no-host", 0, OPT_FLAG, &no_host, 0, 0, NULL, "only the model" },
		{ "only", 0, OPT_TEXT, &only, 0, 0, "NAME", "one measurement: alloc_<pattern>_<order>_<tasks>" },
		{ "set", 's', OPT_LIST, &set, 0, 0, "NAME=VALUE", "a setting of the engine" },
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code >= 0)
		return code;
	if (args.nr != 1 || rest)
		return usage_error("bench", "alloc takes options only");
	if (no_host && !cpus)
		return usage_error("bench", "--no-host and --cpus 0: nothing is left to measure");
	if (llfree && access(llfree, X_OK))
		return failure("%s: %s", llfree, strerror(errno));
	knobs_default(&k);
	for (size_t i = 0; i < set.nr; i++)
		if (settings_apply(&k, "--set", set.v[i], err, sizeof(err)))
			return usage_error("bench", "%s", err);
	code = machine_get(machine_name, &machine);
	if (code >= 0)
		return code;
	progress_init(&line);

	const struct bench_alloc_options o = {
		.repeats = (unsigned)repeats,
		.size = ALIGN_DOWN(size, 128ULL << 20),
		.knobs = &k,
		.machine = &machine,
		.model_cpus = (unsigned)cpus,
		.host = !no_host,
		.peer = llfree,
		.only = only,
		.say = show,
		.say_arg = &line,
		.stop = &interrupted,
	};

	code = bench(&o, json, &line);
	machine_desc_done(&machine);
	return code;
}
