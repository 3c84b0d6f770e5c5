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

/* Periodic work of Linux that the run was too short to meet; the engine does not have it yet either way. */
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
		say(n, "khugepaged and NUMA balancing, which Linux would have run within the modelled %s, are not in this engine yet.", t);
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
