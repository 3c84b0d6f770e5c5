/* What a reader of a run must know to judge its figures: what was cut short, skipped, lost, or too short to show. */
#include "report/run_report.h"

#include "base/compiler.h"
#include "report/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define KHUGEPAGED_NS 10000000000ULL
#define NUMA_SCAN_NS 1000000000ULL

struct notes {
	void (*note)(void *arg, const char *line);
	void *arg;
	const char *machine; /* how it is called */
};

ATTR_PRINTF(2, 3) static void say(const struct notes *n, const char *fmt, ...)
{
	char line[600];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	n->note(n->arg, line);
}

/* Periodic work that the run was too short to meet, or that the engine does not have yet. */
static void note_short(const struct notes *n, const struct lab_options *o, const struct lab_result *r)
{
	uint64_t longest = 0;
	char t[UNIT_MAX];

	for (size_t i = 0; i < r->nr_rows; i++)
		longest = MAX(longest, r->rows[i].replay.elapsed_ns);
	if (!longest || o->host)
		return;
	unit_format(t, STYLE_NS, longest, 0);
	if (longest < KHUGEPAGED_NS)
		say(n,
		    "The modelled time, %s, ends before khugepaged's first pass at 10 s%s: on Linux too such periodic work would "
		    "not have come yet.",
		    t, longest < NUMA_SCAN_NS ? " and the first NUMA scan at 1 s" : "");
	else
		say(n, "NUMA balancing, which Linux would have run within the modelled %s on several nodes, is off here unless kernel.numa_balancing is set.",
		    t);
}

/* "name N, name N": those of the counters that are not 0. Their sum. */
static uint64_t list_counts(const struct metrics *ms, const char *const (*list)[2], size_t nr, char *buf, size_t len)
{
	uint64_t sum = 0;
	size_t at = 0;
	char n[32];

	buf[0] = 0;
	for (size_t i = 0; i < nr && at < len; i++) {
		uint64_t v = metrics_u64(ms, list[i][0]);

		if (!v)
			continue;
		unit_grouped(n, v);
		sum += v;
		at += (size_t)snprintf(buf + at, len - at, "%s%s %s", at ? ", " : "", n, list[i][1]);
	}
	return sum;
}

/* Memory that looked as if it should be huge and could not be; that memory was there for it says thp_fault_fallback. */
static void note_ineligible(const struct notes *n, const struct metrics *ms, const char *label)
{
	static const char *const reasons[][2] = {
		{ "quire_thp_ineligible_alignment", "at an area's edge" },
		{ "quire_thp_ineligible_small", "in areas without an aligned 2 MiB" },
		{ "quire_thp_ineligible_prctl", "of a process that huge pages are disabled for" },
	};
	char list[300], sum[32];
	uint64_t nr = list_counts(ms, reasons, ARRAY_SIZE(reasons), list, sizeof(list));

	unit_grouped(sum, nr);
	if (nr)
		say(n, "%s: %s range%s of 2 MiB could not be huge pages, which is no lack of memory: %s.", label, sum, nr == 1 ? "" : "s", list);
}

#define UNWRITTEN_PERCENT 10

static void note_unwritten(const struct notes *n, const struct metrics *ms, const char *label)
{
	uint64_t huge = metrics_u64(ms, "quire_thp_freed"), parts = metrics_u64(ms, "quire_thp_freed_unwritten");
	char bytes[UNIT_MAX], nr[32];

	if (parts * 100 < huge * 512 * UNWRITTEN_PERCENT || !parts)
		return;
	unit_grouped(nr, huge);
	unit_format(bytes, STYLE_BYTES, parts * 4096, 0);
	say(n, "%s: of %s huge page%s, %" PRIu64 " %% (%s) had never been written when freed.", label, nr, huge == 1 ? "" : "s",
	    parts * 100 / (huge * 512), bytes);
}

static void note_flushes(const struct notes *n, const struct metrics *ms, const char *label)
{
	static const char *const callers[][2] = {
		{ "quire_ipi_cow", "for copies on write" }, { "quire_ipi_split", "for splits" }, { "quire_ipi_fork", "for forks" },
		{ "quire_ipi_unshare", "for page tables shared by forks" }, { "quire_ipi_munmap", "for munmap" },
		{ "quire_ipi_mprotect", "for mprotect" }, { "quire_ipi_madvise", "for madvise" }, { "quire_ipi_mremap", "for mremap" },
		{ "quire_ipi_exit", "for exits" }, { "quire_ipi_other", "for others" },
	};
	char list[500], sum[32];
	uint64_t nr = list_counts(ms, callers, ARRAY_SIZE(callers), list, sizeof(list));

	unit_grouped(sum, nr);
	if (nr)
		say(n, "%s: other CPUs had to flush %s time%s: %s.", label, sum, nr == 1 ? "" : "s", list);
}

/* Linux says it in the log at boot, and goes on. */
static void note_pool(const struct notes *n, const struct lab_row *row, const char *label)
{
	static const char *const names[NR_HUGETLB_SIZES] = { [HUGETLB_2M] = "hugepages-2048kB", [HUGETLB_1G] = "hugepages-1048576kB" };
	const uint64_t asked[NR_HUGETLB_SIZES] = { [HUGETLB_2M] = row->settings->knobs.hugetlb_2m_nr,
						   [HUGETLB_1G] = row->settings->knobs.hugetlb_1g_nr };

	for (unsigned i = 0; i < NR_HUGETLB_SIZES && row->replayed; i++)
		if (row->pool[i] < asked[i])
			say(n, "%s: %s.nr_hugepages is %" PRIu64 ", not %" PRIu64 ": the %s's memory has no more free ranges of that size.",
			    label, names[i], row->pool[i], asked[i], n->machine);
}

static void note_row(const struct notes *n, const struct lab_result *r, size_t i)
{
	const struct lab_row *row = &r->rows[i];
	const struct replay_result *p = &row->replay;
	char label[200];

	report_row_label(row, label, sizeof(label));
	if (row->error)
		say(n, "%s: failed: %s", label, row->err);
	else if (!row->started)
		say(n, "%s: not run: interrupted before", label);
	else if (p->stopped)
		say(n, "%s: interrupted after %" PRIu64 " references; its figures are those of this part.", label,
		    p->refs);
	if (p->out_of_memory)
		say(n,
		    "%s: the %s ran out of memory; what came after that is not what the program would "
		    "have done.",
		    label, n->machine);
	if (p->refs_unmapped)
		say(n, "%s: %" PRIu64 " references lay in no known area and were skipped.", label, p->refs_unmapped);
	if (p->refs_failed && !p->out_of_memory)
		say(n, "%s: %" PRIu64 " references ended in a signal.", label, p->refs_failed);
	if (p->mm_call_diffs)
		say(n, "%s: %" PRIu64 " memory calls ended otherwise than when recorded.", label, p->mm_call_diffs);
	if (metrics_u64(&row->metrics, "injected_failures"))
		say(n, "%s: %" PRIu64 " calls inside the engine were made to fail (--inject): that is no run of an undisturbed program.",
		    label, metrics_u64(&row->metrics, "injected_failures"));
	if (p->order_released)
		say(n, "%s: %" PRIu64 " waits had no waker in the recording and were let go.", label,
		    p->order_released);
	note_pool(n, row, label);
	note_ineligible(n, &row->metrics, label);
	note_unwritten(n, &row->metrics, label);
	note_flushes(n, &row->metrics, label);
}

void report_run_notes(const struct lab_options *o, const struct lab_result *r,
		      void (*note)(void *arg, const char *line), void *arg)
{
	const struct notes n = { note, arg, o->host ? "machine" : "modelled machine" };

	if (r->damaged)
		say(&n, "The recording is damaged: %s. What comes before was replayed.", r->damage);
	if (r->record_error[0])
		say(&n, "The recording ended early: %s", r->record_error);
	if (o->source.kind == LAB_PROGRAM) {
		if (r->record.signal)
			say(&n, "The program was ended by signal %d.", r->record.signal);
		else if (r->record.exit_status)
			say(&n, "The program ended with status %d.", r->record.exit_status);
		if (r->record.note[0])
			say(&n, "%s", r->record.note);
	}
	for (size_t i = 0; i < r->nr_rows; i++)
		note_row(&n, r, i);
	note_short(&n, o, r);
}
