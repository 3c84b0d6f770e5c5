/* Where the time went: the program's own and each path of the engine, in per cent of all CPUs' time. */
#include "report/run_report.h"

#include "base/compiler.h"
#include "mm/system.h"
#include "report/table.h"
#include "report/units.h"

#include <stdio.h>
#include <stdlib.h>

#define LEAST_PER_MILLE 1 /* paths that no row spends so much in are summed as "other paths" */

static const char *const path_names[NR_MACHINE_PATHS] = {
#define PATH(id, name, functions) [PATH_##id] = name,
	MACHINE_PATHS(PATH)
#undef PATH
};

static uint64_t row_total(const struct lab_row *row)
{
	uint64_t sum = 0;

	for (unsigned p = 0; p < NR_MACHINE_PATHS; p++)
		sum += row->path[p].ps;
	return sum;
}

static bool worth_showing(const struct lab_result *r, unsigned p)
{
	for (size_t i = 0; i < r->nr_rows; i++) {
		uint64_t total = row_total(&r->rows[i]);

		if (total && r->rows[i].path[p].ps >= total / 1000 * LEAST_PER_MILLE && r->rows[i].path[p].ps)
			return true;
	}
	return false;
}

static void percent_cell(struct table *t, uint64_t part, uint64_t whole)
{
	char buf[UNIT_MAX] = "-";

	if (whole)
		unit_format(buf, STYLE_PERCENT, (uint64_t)((unsigned __int128)part * 100000 / whole), 5);
	table_cell(t, buf);
}

/* Paths in the order of the first row's time, the greatest first. */
static void sort_paths(const struct lab_row *row, unsigned order[NR_MACHINE_PATHS])
{
	for (unsigned i = 0; i < NR_MACHINE_PATHS; i++) {
		unsigned k = i;

		for (; k > 0 && row->path[order[k - 1]].ps < row->path[i].ps; k--)
			order[k] = order[k - 1];
		order[k] = i;
	}
}

/* Was any time spent on it, in some row? Reclaim and compaction are not even listed where not. */
static bool has_phase(const struct lab_result *r, const char *prefix, unsigned p)
{
	char name[64];
	bool has = p != PHASE_RECLAIM && p != PHASE_COMPACT;

	snprintf(name, sizeof(name), "%s_%s_ns", prefix, fault_phase_names[p]);
	for (size_t i = 0; i < r->nr_rows && !has; i++)
		has = metrics_u64(&r->rows[i].metrics, name) != 0;
	return has;
}

/* Of the time in faults, and of the fault that took longest: in which part it was spent. */
static void print_phases(FILE *f, const struct lab_result *r, bool bold)
{
	static const struct {
		const char *title, *prefix;
	} what[] = { { "share of time in faults", "fault_time" }, { "share of the longest fault", "fault_longest" } };
	static const char *const words[NR_FAULT_PHASES] = { "waiting for locks", "allocating", "reclaiming", "compacting", "clearing", "copying",
							  "all else" };
	char name[64];

	for (size_t w = 0; w < ARRAY_SIZE(what); w++) {
		struct table t;

		table_init(&t, r->nr_rows + 1);
		table_cell(&t, what[w].title);
		for (size_t i = 0; i < r->nr_rows; i++) {
			char label[40];

			report_row_label(&r->rows[i], label, sizeof(label));
			table_cell(&t, label);
		}
		for (unsigned p = 0; p < NR_FAULT_PHASES; p++) {
			if (!has_phase(r, what[w].prefix, p))
				continue;
			table_cell(&t, words[p]);
			for (size_t i = 0; i < r->nr_rows; i++) {
				uint64_t part = 0, sum = 0;

				for (unsigned k = 0; k < NR_FAULT_PHASES; k++) {
					snprintf(name, sizeof(name), "%s_%s_ns", what[w].prefix, fault_phase_names[k]);
					sum += metrics_u64(&r->rows[i].metrics, name);
					part = k == p ? metrics_u64(&r->rows[i].metrics, name) : part;
				}
				percent_cell(&t, part, sum);
			}
		}
		table_print(&t, f, TABLE_WIDTH, bold);
		fputc('\n', f);
		table_done(&t);
	}
}

void report_run_profile(FILE *f, const struct lab_options *o, const struct lab_result *r, bool bold)
{
	unsigned order[NR_MACHINE_PATHS];
	struct table t;

	(void)o;
	table_init(&t, r->nr_rows + 1);
	table_cell(&t, "share of CPU time");
	for (size_t i = 0; i < r->nr_rows; i++) {
		char label[40];

		report_row_label(&r->rows[i], label, sizeof(label));
		table_cell(&t, label);
	}
	sort_paths(&r->rows[0], order);
	for (unsigned k = 0; k < NR_MACHINE_PATHS; k++) {
		unsigned p = order[k];

		if (!worth_showing(r, p))
			continue;
		table_cell(&t, path_names[p]);
		for (size_t i = 0; i < r->nr_rows; i++)
			percent_cell(&t, r->rows[i].path[p].ps, row_total(&r->rows[i]));
	}
	table_cell(&t, "other paths");
	for (size_t i = 0; i < r->nr_rows; i++) {
		uint64_t rest = 0;

		for (unsigned p = 0; p < NR_MACHINE_PATHS; p++)
			rest += worth_showing(r, p) ? 0 : r->rows[i].path[p].ps;
		percent_cell(&t, rest, row_total(&r->rows[i]));
	}
	table_print(&t, f, TABLE_WIDTH, bold);
	fputc('\n', f);
	table_done(&t);
	print_phases(f, r, bold);
}
