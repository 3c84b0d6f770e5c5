/* The report of a run. One list of columns says what the table shows; the JSON holds every metric. */
#include "report/run_report.h"

#include "base/compiler.h"
#include "report/json.h"
#include "report/table.h"
#include "report/units.h"

#include <inttypes.h>
#include <string.h>

struct column {
	const char *label, *metric;
	enum unit_style style;
	bool starts_block;
	const char *of; /* a count without which the figure means nothing; the metric itself: no column where all are 0 */
};

static const struct column columns[] = {
	{ "KB/s", "throughput_KBps", STYLE_COUNT, true, NULL },
	{ "ops/s", "operations_per_s", STYLE_COUNT, false, NULL },
	{ "ratio", "rate_ratio", STYLE_RATIO, false, NULL },
	{ "time", "time_ns", STYLE_NS, false, NULL },
	{ "ratio", "time_ratio", STYLE_RATIO, false, NULL },
	{ "CPU time", "cpu_time_ns", STYLE_NS, false, NULL },
	{ "ratio", "cpu_time_ratio", STYLE_RATIO, false, NULL },
	{ "user", "user_time_ns", STYLE_NS, false, NULL },
	{ "system", "system_time_ns", STYLE_NS, false, NULL },
	{ "in kernel", "kernel_ns", STYLE_NS, false, NULL },
	{ "in faults", "fault_time_ns", STYLE_NS, false, NULL },
	{ "IPC", "ipc", STYLE_RATIO, false, NULL },
	{ "4K fault", "first_touch_fault_4k_ns", STYLE_NS, true, NULL },
	{ "4K rest", "first_touch_rest_4k_ns", STYLE_NS, false, NULL },
	{ "2M fault", "first_touch_fault_2m_ns", STYLE_NS, false, NULL },
	{ "2M rest", "first_touch_rest_2m_ns", STYLE_NS, false, NULL },
	{ "faults", "pgfault", STYLE_COUNT, true, NULL },
	{ "4K new", "quire_fault_anon_4k", STYLE_COUNT, false, NULL },
	{ "2M new", "quire_fault_anon_2m", STYLE_COUNT, false, NULL },
	{ "zero 4K", "quire_fault_zero_4k", STYLE_COUNT, false, NULL },
	{ "zero 2M", "quire_fault_zero_2m", STYLE_COUNT, false, NULL },
	{ "copy 4K", "quire_fault_cow_4k", STYLE_COUNT, false, NULL },
	{ "copy 2M", "quire_fault_cow_2m", STYLE_COUNT, false, NULL },
	{ "pool 2M", "quire_fault_hugetlb_2m", STYLE_COUNT, false, "quire_fault_hugetlb_2m" },
	{ "pool copy 2M", "quire_fault_hugetlb_cow_2m", STYLE_COUNT, false, "quire_fault_hugetlb_cow_2m" },
	{ "reuse", "pgreuse", STYLE_COUNT, true, NULL },
	{ "file", "quire_fault_file", STYLE_COUNT, false, NULL },
	{ "major", "pgmajfault", STYLE_COUNT, false, NULL },
	{ "2M refused", "thp_fault_fallback", STYLE_COUNT, false, NULL },
	{ "mappings split", "thp_split_pmd", STYLE_COUNT, false, NULL },
	{ "fault p50", "fault_latency_p50_ns", STYLE_NS, true, "fault_count" },
	{ "p99", "fault_latency_p99_ns", STYLE_NS, false, "fault_count" },
	{ "max", "fault_latency_max_ns", STYLE_NS, false, "fault_count" },
	{ "4K new p50", "fault_latency_anon_4k_p50_ns", STYLE_NS, false, "fault_count_anon_4k" },
	{ "p99", "fault_latency_anon_4k_p99_ns", STYLE_NS, false, "fault_count_anon_4k" },
	{ "2M new p50", "fault_latency_anon_2m_p50_ns", STYLE_NS, false, "fault_count_anon_2m" },
	{ "p99", "fault_latency_anon_2m_p99_ns", STYLE_NS, false, "fault_count_anon_2m" },
	{ "TLB misses 4K", "tlb_misses_4k", STYLE_COUNT, true, NULL },
	{ "walks 4K", "walk_ns_4k", STYLE_NS, false, NULL },
	{ "TLB misses 2M", "tlb_misses_2m", STYLE_COUNT, false, NULL },
	{ "walks 2M", "walk_ns_2m", STYLE_NS, false, NULL },
	{ "peak RSS", "rss_peak_bytes", STYLE_BYTES, true, NULL },
	{ "final RSS", "rss_final_bytes", STYLE_BYTES, false, NULL },
	{ "on 2M pages", "huge_share", STYLE_PERCENT, false, NULL },
	{ "cleared", "bytes_cleared", STYLE_BYTES, false, NULL },
	{ "copied", "bytes_copied", STYLE_BYTES, false, NULL },
	{ "tables", "pgtables_peak_bytes", STYLE_BYTES, false, NULL },
};

#define LABEL_MAX 40

void report_row_label(const struct lab_row *row, char *buf, size_t len)
{
	size_t at = 0;

	buf[0] = 0;
	for (size_t i = 0; i < row->settings->nr && at < len; i++)
		if (row->settings->s[i].varied)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "", row->settings->s[i].value);
	if (!buf[0])
		snprintf(buf, len, "run");
}

/* The heading above the rows' labels: the settings that vary, their names shortened when there are several. */
static void label_heading(const struct lab_result *r, char *buf, size_t len)
{
	const struct settings_row *s = r->rows[0].settings;
	size_t at = 0, varied = 0;

	buf[0] = 0;
	for (size_t i = 0; i < s->nr; i++)
		varied += s->s[i].varied;
	for (size_t i = 0; i < s->nr && at < len; i++) {
		const char *name = s->s[i].knob->name, *dot = strrchr(name, '.');

		if (s->s[i].varied)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
					       varied > 1 && dot ? dot + 1 : name);
	}
}

static const char *row_mark(const struct lab_row *row)
{
	if (row->error)
		return " (failed)";
	if (!row->started)
		return " (not run)";
	if (!row->finished)
		return " (cut short)";
	return row->replay.out_of_memory ? " (out of memory)" : "";
}

static void label_cell(struct table *t, const char *label, const char *mark)
{
	char buf[128];

	snprintf(buf, sizeof(buf), "%.*s%s", LABEL_MAX, label, mark);
	table_cell(t, buf);
}

/* A count of what few runs have: a column of zeroes says nothing. */
static bool nothing_of(const struct metrics *ms, const struct column *c)
{
	return c->of && !strcmp(c->of, c->metric) && !metrics_u64(ms, c->metric);
}

/* Columns that no row has a figure for are left out. Returns how many are in. */
static size_t choose_columns(const struct lab_result *r, const struct column *shown[ARRAY_SIZE(columns)],
			     bool breaks[ARRAY_SIZE(columns)])
{
	size_t n = 0;
	bool starts = false;

	for (size_t c = 0; c < ARRAY_SIZE(columns); c++) {
		bool any = false;

		starts |= columns[c].starts_block;
		for (size_t i = 0; i < r->nr_rows && !any; i++)
			any = metrics_find(&r->rows[i].metrics, columns[c].metric) != NULL && !nothing_of(&r->rows[i].metrics, &columns[c]);
		if (!any)
			continue;
		breaks[n] = starts;
		shown[n++] = &columns[c];
		starts = false;
	}
	return n;
}

static void print_table(FILE *f, const struct lab_result *r, bool bold)
{
	const struct column *shown[ARRAY_SIZE(columns)];
	bool breaks[ARRAY_SIZE(columns)];
	size_t nr = choose_columns(r, shown, breaks);
	struct table t;
	char label[200];

	table_init(&t, nr + 1);
	label_heading(r, label, sizeof(label));
	label_cell(&t, label, "");
	for (size_t c = 0; c < nr; c++) {
		table_cell(&t, shown[c]->label);
		if (breaks[c])
			table_break_before(&t, c + 1);
	}
	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct lab_row *row = &r->rows[i];

		report_row_label(row, label, sizeof(label));
		label_cell(&t, label, row_mark(row));
		for (size_t c = 0; c < nr; c++) {
			const struct metric *m = metrics_find(&row->metrics, shown[c]->metric);
			char buf[UNIT_MAX] = "-";

			if (m && (!shown[c]->of || metrics_u64(&row->metrics, shown[c]->of)))
				unit_format(buf, shown[c]->style, m->value, m->decimals);
			table_cell(&t, buf);
		}
	}
	table_print(&t, f, TABLE_WIDTH, bold);
	table_done(&t);
}

static void print_note(void *arg, const char *line)
{
	const size_t width = TABLE_WIDTH - 2;
	FILE *f = arg;
	bool first = true;

	while (*line) { /* wrapped at spaces */
		size_t n = strlen(line);

		if (n > width)
			for (n = width; n > width / 2 && line[n] != ' '; n--)
				;
		fprintf(f, "%s%.*s\n", first ? "- " : "  ", (int)n, line);
		line += n + (line[n] == ' ');
		first = false;
	}
}

static void print_heading(FILE *f, const struct lab_options *o, const struct lab_result *r)
{
	const struct machine_desc *d = o->machine;
	const struct settings_row *s = r->rows[0].settings;
	char refs[32];

	unit_grouped(refs, r->source_refs ? r->source_refs : r->rows[0].replay.refs);
	fprintf(f, "%s: %s references", o->source.name, refs);
	if (r->rows[0].replay.streams)
		fprintf(f, ", %" PRIu64 " %s%s in %" PRIu64 " process%s", r->rows[0].replay.streams,
			o->source.kind == LAB_WORKLOAD ? "task" : "thread", r->rows[0].replay.streams == 1 ? "" : "s", r->rows[0].replay.processes,
			r->rows[0].replay.processes == 1 ? "" : "es");
	if (o->repeat > 1)
		fprintf(f, ", %u times over", o->repeat);
	fprintf(f, "\nmachine: %s (%.70s)\n", d->name, d->title);
	for (size_t i = 0; i < s->nr; i++)
		if (!s->s[i].varied)
			fprintf(f, "setting: %s=%s\n", s->s[i].knob->name, s->s[i].value);
	fputs(o->host ? "All figures are measured: what happened on this computer, with whatever else it was doing.\n\n" :
			"All figures are modelled: what this machine would do, not what a computer was measured to do.\n\n",
	      f);
}

void report_run_text(FILE *f, const struct lab_options *o, const struct lab_result *r, bool bold)
{
	print_heading(f, o, r);
	print_table(f, r, bold);
	fputc('\n', f);
	if (r->nr_rows > 1)
		print_note(f, o->source.kind == LAB_WORKLOAD ?
				      "ratio: of rates, this row's over the first one's; of times, the first one's over "
				      "this row's: above 1 is faster." :
				      "ratio: the first row's time over this row's; above 1 is faster.");
	report_run_notes(o, r, print_note, f);
}

void report_run_proc(FILE *f, const struct lab_result *r)
{
	for (size_t i = 0; i < r->nr_rows; i++) {
		char label[256];

		report_row_label(&r->rows[i], label, sizeof(label));
		for (unsigned p = 0; p < NR_MEMORY_PROCS; p++)
			if (r->rows[i].proc[p])
				fprintf(f, "\n%s after %s:\n%s", memory_proc_names[p], label, r->rows[i].proc[p]);
	}
}

/* NULL: nothing was asked for. */
static json_t *proc_json(const struct lab_row *row)
{
	json_t *proc = NULL;

	for (unsigned p = 0; p < NR_MEMORY_PROCS; p++) {
		if (!row->proc[p])
			continue;
		if (!proc)
			proc = json_object();
		json_object_set_new(proc, memory_proc_names[p], json_string(row->proc[p]));
	}
	return proc;
}

static json_t *row_json(const struct lab_row *row)
{
	json_t *settings = json_object();

	for (size_t i = 0; settings && i < row->settings->nr; i++)
		if (json_object_set_new(settings, row->settings->s[i].knob->name,
					json_string(row->settings->s[i].value))) {
			json_decref(settings);
			settings = NULL;
		}
	if (!settings)
		return NULL;
	return json_pack("{s:o, s:o, s:b, s:o*, s:o*}", "settings", settings, "metrics", report_json_metrics(&row->metrics),
			 "finished", row->finished, "error", row->error ? report_json_text(row->err) : NULL, "proc", proc_json(row));
}

static void add_note(void *arg, const char *line)
{
	json_array_append_new(arg, report_json_text(line));
}

json_t *report_run_json(const struct lab_options *o, const struct lab_result *r)
{
	static const char *const kinds[] = {
		[LAB_FILE] = "file", [LAB_GENERATED] = "generated", [LAB_PROGRAM] = "program",
		[LAB_WORKLOAD] = "workload",
	};
	json_t *root = report_json("run"), *rows = json_array(), *notes = json_array();

	for (size_t i = 0; rows && i < r->nr_rows; i++)
		if (json_array_append_new(rows, row_json(&r->rows[i]))) {
			json_decref(rows);
			rows = NULL;
		}
	if (notes)
		report_run_notes(o, r, add_note, notes);
	if (root && json_object_set_new(root, "rows", rows)) {
		json_decref(root);
		root = NULL;
	}
	if (root)
		json_object_set_new(root, "notes", notes);
	else
		json_decref(notes);
	if (root &&
	    (json_object_set_new(root, "machine",
				 json_pack("{s:s, s:s, s:s}", "name", o->machine->name, "kind", o->host ? "host" : "model", "title",
					   o->machine->title)) ||
	     json_object_set_new(root, "source",
				 json_pack("{s:o, s:s, s:o}", "name", report_json_text(o->source.name), "kind", kinds[o->source.kind],
					   "references", report_json_u64(r->source_refs))) ||
	     json_object_set_new(root, "seed", report_json_u64(o->seed)) ||
	     json_object_set_new(root, "repeat", report_json_u64(MAX(o->repeat, 1U))))) {
		json_decref(root);
		root = NULL;
	}
	return root;
}
