/* quire bench linux: the engine on this computer against the kernel underneath. */
#include "cli/bench.h"
#include "cli/cli.h"
#include "cli/common.h"
#include "lab/bench_linux.h"
#include "lab/settings.h"
#include "report/json.h"
#include "report/table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct opt_help help = {
	.usage = "quire bench linux [OPTIONS]",
	.text = "Faults, copy on write, fork, unmapping and one-page shootdowns by the engine on the host machine,\n"
		"and by the kernel underneath: the same operations in turn, in one process. What one thread does is\n"
		"measured by its CPU time, shootdowns with a busy second thread by the clock. The engine clears past\n"
		"the caches (quire.host_clear=nt) unless --set says otherwise. Nothing of this computer's settings is\n"
		"changed.\n",
};

static void show(void *arg, const char *line)
{
	progress_line(arg, "%s", line);
}

static void value_cell(struct table *t, const struct bench_linux_row *r, double v, bool there)
{
	char buf[32] = "-";

	if (there && !strcmp(r->unit, "bytes/s"))
		snprintf(buf, sizeof(buf), "%.2f GB/s", v / 1e9);
	else if (there && !strcmp(r->unit, "ratio"))
		snprintf(buf, sizeof(buf), "%.2f x", v);
	else if (there)
		snprintf(buf, sizeof(buf), v < 100 ? "%.2f ns" : "%.0f ns", v);
	table_cell(t, buf);
}

static void print_result(FILE *f, const struct bench_linux_options *o, const struct bench_linux_result *r)
{
	static const char *const heads[] = { "", "quire", "peer", "quire/peer", "95 % interval", "peer is", "better" };
	struct table t;
	char buf[64];

	table_init(&t, 7);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		table_cell(&t, heads[i]);
	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_linux_row *row = &r->row[i];

		table_cell(&t, row->name);
		value_cell(&t, row, row->ours, true);
		value_cell(&t, row, row->peer, row->peer_name != NULL);
		snprintf(buf, sizeof(buf), "%.3f", row->ratio);
		table_cell(&t, row->peer_name ? buf : "-");
		snprintf(buf, sizeof(buf), "%.3f to %.3f", row->low, row->high);
		table_cell(&t, row->peer_name ? buf : "-");
		table_cell(&t, row->peer_name ? row->peer_name : "-");
		table_cell(&t, row->higher_is_better ? "higher" : "lower");
	}
	table_print(&t, f, TABLE_WIDTH, want_bold(fileno(f)));
	fprintf(f, "\nMeasured on this computer, median of %u pairs.\n", o->repeats);
	if (o->repeats < 6)
		fputs("Fewer than 6 repeats: the interval is the range seen, and holds with less than 95 %.\n", f);
	if (r->note[0])
		fprintf(f, "%s\n", r->note);
	table_done(&t);
}

static json_t *number(double v, bool there)
{
	return there ? json_real(v) : json_null();
}

static json_t *result_json(const struct bench_linux_result *r)
{
	json_t *root = report_json("bench"), *list = json_array();

	for (size_t i = 0; i < r->nr; i++) {
		const struct bench_linux_row *row = &r->row[i];
		bool p = row->peer_name != NULL;

		json_array_append_new(list, json_pack("{s:s, s:f, s:o, s:s?, s:s, s:s, s:o, s:o, s:o}", "name", row->name, "ours", row->ours,
						      "peer", number(row->peer, p), "peer_name", row->peer_name, "unit", row->unit,
						      "better", row->higher_is_better ? "higher" : "lower", "ratio", number(row->ratio, p),
						      "low", number(row->low, p), "high", number(row->high, p)));
	}
	json_object_set_new(root, "results", list);
	json_object_set_new(root, "machine", json_pack("{s:s, s:s}", "name", "host", "kind", "host"));
	if (r->note[0])
		json_object_set_new(root, "note", json_string(r->note));
	return root;
}

static int bench(const struct bench_linux_options *o, const char *json_path, struct progress *line)
{
	struct bench_linux_result r;
	struct output json;
	char err[300] = "";
	int rc, code = json_begin(&json, json_path);

	if (code >= 0)
		return code;
	signals_catch();
	rc = bench_linux(o, &r, err, sizeof(err));
	progress_clear(line);
	if (r.nr)
		print_result(text_stream(json_path), o, &r);
	if (rc) {
		output_abort(&json);
		return rc == -EINTR ? failure("interrupted") : failure("%s", err);
	}
	return json_end(&json, json.f ? result_json(&r) : NULL);
}

int bench_linux_command(int argc, char **argv)
{
	const char *json = NULL, *only = NULL;
	uint64_t repeats = 7, size = 256ULL << 20, fork_size = 1ULL << 30;
	struct opt_list args = { 0 }, set = { 0 };
	struct progress line;
	struct knobs k;
	char err[300], **rest;
	int code;
	const struct opt opts[] = {
		{ "repeats", 'r', OPT_COUNT, &repeats, 1, 64, "N", "pairs of each measurement; default 7" },
		{ "size", 0, OPT_SIZE, &size, 8ULL << 20, 1ULL << 36, "BYTES", "memory faulted in and unmapped at once; default 256M" },
		{ "fork-size", 0, OPT_SIZE, &fork_size, 2ULL << 20, 1ULL << 36, "BYTES", "memory of the process that forks; default 1G" },
		{ "only", 0, OPT_TEXT, &only, 0, 0, "NAME", "one measurement: a name of the table's first column" },
		{ "set", 0, OPT_LIST, &set, 0, 0, "NAME=VALUE", "a setting of the engine" },
		{ "json", 'j', OPT_TEXT, &json, 0, 0, "FILE", "write the result as JSON too; - is standard output" },
		{ 0 },
	};

	code = opt_parse(argc, argv, opts, &help, &args, &rest);
	if (code >= 0)
		return code;
	if (args.nr != 1 || rest)
		return usage_error("bench", "linux takes options only");
	knobs_default(&k);
	k.host_clear = CLEAR_NT;
	for (size_t i = 0; i < set.nr; i++)
		if (settings_apply(&k, "--set", set.v[i], err, sizeof(err)))
			return usage_error("bench", "%s", err);
	progress_init(&line);

	const struct bench_linux_options o = {
		.repeats = (unsigned)repeats,
		.size = ALIGN_DOWN(size, 8ULL << 20),
		.fork_size = ALIGN_DOWN(fork_size, 2ULL << 20),
		.knobs = &k,
		.only = only,
		.say = show,
		.say_arg = &line,
		.stop = &interrupted,
	};

	return bench(&o, json, &line);
}
