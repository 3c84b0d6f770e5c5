/*
 * One run of a program under a schedule, and every check (docs/checking.md, 'What is checked').
 *
 * Invariants
 *  R1 An operation announces the address range that it concerns (struct running) from its begin to its end. Outside of all announced
 *     ranges TLBs agree with the tables: looked at whenever an operation ends.
 *  R2 A task that is changing its CPU's address space announces that too (switching): what the CPU holds is not used then.
 *  R3 After a failure nothing of the engine or the machine is used again: both go.
 */
#include "lab/schedules_int.h"

#include "base/assert.h"
#include "machine/model/model.h"
#include "mm/fault.h"
#include "mm/tlb.h"
#include "mm/tlb_check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS 65536
#define MEMORY_SMALL (21ULL << 20) /* 16 are the kernel's; the less there is, the quicker it is validated */
#define MEMORY_HUGE (48ULL << 20)

void schedules_fail(struct schedules_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	vsnprintf(w->why, SCHEDULES_TEXT, fmt, ap);
	va_end(ap);
	model_schedule_stop(w->m);
}


/* ---- TLBs ---- */

struct look {
	struct schedules_world *w;
	unsigned cpu;
	bool exact;
	pfn_t written;
	bool has_written;
};

static bool announced(const struct schedules_world *w, const struct schedule_held *h)
{
	for (unsigned i = 0; i < w->p->nr_tasks; i++) {
		const struct running *r = &w->task[i];

		if (r->start < r->end && (r->everywhere || w->space[r->space].ctx == h->ctx) && h->va < r->end && h->va + (1ULL << h->shift) > r->start)
			return true;
	}
	return false;
}

static int look_at(void *arg, const struct schedule_held *h)
{
	const struct look *l = arg;
	struct tlb_held t = { .ctx = h->ctx, .shift = h->shift, .table = h->table, .write = h->write, .va = h->va, .pfn = h->pfn };
	const struct percpu *pc = l->w->q->percpu[l->cpu];
	const struct mm *mm = percpu_mm(pc);
	const char *bad = NULL;

	if (l->has_written) {
		uint64_t nr = h->table ? 1 : 1ULL << (h->shift - PAGE_SHIFT);
		bool here = mm && mm->ctx == h->ctx && (h->table || !percpu_lazy(pc));

		if (here && l->written.v - h->pfn.v < nr)
			bad = "a frame that nobody should reach any more";
	} else if (!l->exact) {
		bad = tlb_held_alive(l->w->q, l->cpu, &t);
	} else if (!announced(l->w, h)) {
		bad = tlb_held_granted(l->w->q, l->cpu, &t);
	}
	if (bad)
		schedules_fail(l->w, "CPU %u holds %s: %s %#llx of context %u, frame %#llx%s", l->cpu, bad, h->table ? "table for" : "address",
		     (unsigned long long)h->va, h->ctx, (unsigned long long)h->pfn.v, h->write ? ", writable" : "");
	return bad != NULL;
}

static void look_at_tlbs(struct schedules_world *w, struct look l);

/* The engine says: nobody can reach these frames now (struct quire, check_unreachable). */
static void unreachable(void *arg, struct cpu *c, const struct frame *folio, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		look_at_tlbs(arg, (struct look){ .has_written = true, .written = pfn_add(frame_pfn(c->m, folio), i) });
}

static void look_at_tlbs(struct schedules_world *w, struct look l)
{
	l.w = w;
	for (l.cpu = 0; l.cpu < w->m->nr_cpus; l.cpu++) {
		bool switching = false;

		for (unsigned i = 0; i < w->p->nr_tasks; i++)
			switching |= w->task[i].switching && w->task[i].task.cpu == w->m->cpus[l.cpu];
		if (l.exact && tlb_loaded_alive(w->q, l.cpu)) {
			schedules_fail(w, "CPU %u has %s loaded", l.cpu, tlb_loaded_alive(w->q, l.cpu));
			return;
		}
		if (!switching && model_schedule_each_held(w->m, l.cpu, look_at, &l))
			return;
	}
}

void schedules_look_exactly(struct schedules_world *w)
{
	look_at_tlbs(w, (struct look){ .exact = true });
}

static void at_point(void *arg, struct cpu *c, enum schedule_point p)
{
	struct schedules_world *w = arg;

	if (p == POINT_SYNC || p == POINT_ACCESS || p == POINT_FLUSH)
		look_at_tlbs(w, (struct look){ .exact = false });
	if (w->explained && c->current) {
		const struct running *r = c->current->arg;
		uint32_t at = model_schedule_at(c);

		for (uint32_t i = 0; i < w->s->nr_list; i++) {
			const struct schedule_choice *ch = &w->s->list[i];
			struct explained *e = &w->explained[i];

			/* A CPU that has to wait is asked once more, after its last point. */
			if (ch->cpu == c->id && !e->exact && (ch->at == at || ch->at == at + 1))
				*e = (struct explained){ .t = r->t, .op = r->op, .exact = ch->at == at };
		}
	}
}

static void page_written(void *arg, struct cpu *c, pfn_t p)
{
	(void)c;
	look_at_tlbs(arg, (struct look){ .has_written = true, .written = p });
}

/* ---- after the tasks ---- */

static void check_contents(struct schedules_world *w)
{
	const struct schedules_program *p = w->p;

	oracle_tick(&w->o);
	for (unsigned s = 0; s < p->nr_spaces && !w->failed; s++) {
		for (unsigned a = 0; w->space[s].mm && a < p->nr_areas; a++) {
			for (unsigned i = 0; i < p->pages[a]; i++) {
				struct oracle_page *pg = schedules_page(w, s, a, i);
				struct mm_page_info info;

				if (!pg->contents.last && !pg->rights.last)
					continue;
				mm_page_info(w->space[s].mm, schedules_va(a, i), &info);
				if (!info.present && oracle_allows(&pg->rights, w->o.now, w->o.now, RIGHT_READ, 0))
					continue;
				if (!oracle_allows(&pg->contents, w->o.now, w->o.now, ~0ULL, info.present ? info.tag : 0))
					schedules_fail(w, "at the end page %u of %s in %s holds %#llx, which was never last", i, p->area[a], p->space[s],
					     (unsigned long long)(info.present ? info.tag : 0));
			}
		}
	}
}

static void check_counters(struct schedules_world *w)
{
	static const enum vm_counter gone[] = { VM_nr_anon_pages, VM_nr_anon_transparent_hugepages, VM_nr_mapped, VM_nr_mlock,
						VM_nr_page_table_pages };
	int64_t sum = 0;

	for (unsigned k = VM_quire_fault_anon_4k; k <= VM_quire_fault_oom; k++)
		sum += k == VM_quire_fault_sigsegv ? 0 : vmstat_read(w->q, (enum vm_counter)k);
	if (sum != vmstat_read(w->q, VM_pgfault))
		schedules_fail(w, "pgfault is %lld, and its kinds are %lld together", (long long)vmstat_read(w->q, VM_pgfault), (long long)sum);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		if (vmstat_read(w->q, gone[i]))
			schedules_fail(w, "%s is %lld after the end of all address spaces", vm_counter_names[gone[i]],
			     (long long)vmstat_read(w->q, gone[i]));
	if (vmstat_read(w->q, VM_unevictable_pgs_mlocked) != vmstat_read(w->q, VM_unevictable_pgs_munlocked))
		schedules_fail(w, "unevictable_pgs_mlocked and unevictable_pgs_munlocked differ");
	if (w->q->committed_pages)
		schedules_fail(w, "%lld pages are still promised", (long long)w->q->committed_pages);
}

static void validate(struct schedules_world *w, const char *when)
{
	if (!w->failed && quire_validate(w->q))
		schedules_fail(w, "%s: %s", when, w->q->err);
}

static void check_after(struct schedules_world *w)
{
	struct cpu *c = model_boot_cpu(w->m);

	schedules_look_exactly(w);
	validate(w, "at the end");
	check_contents(w);
	for (unsigned s = 0; s < w->p->nr_spaces && !w->failed; s++) {
		if (w->space[s].mm)
			mm_put(c, w->space[s].mm);
		w->space[s].mm = NULL;
	}
	validate(w, "after the end of all address spaces");
	if (!w->failed)
		check_counters(w);
	if (!w->failed && w->o.full)
		schedules_fail(w, "the program does too much for its oracle");
}

/* ---- a run ---- */

static void set_up(struct schedules_world *w, struct cpu *c)
{
	struct running *r = &w->task[SCHEDULES_MAX_TASKS];
	static const struct schedules_task setup = { .name = "setup" };
	struct mm *mm;

	*r = (struct running){ .w = w, .t = &setup };
	if (mm_create(c, w->q, &mm)) {
		schedules_fail(w, "no memory for the first address space");
		return;
	}
	w->space[0] = (struct space){ .mm = mm, .ctx = mm->ctx, .made = true, .page = w->space[0].page };
	r->task.mm = mm;
	mm_activate(c, mm);
	for (unsigned i = 0; i < w->p->nr_setup && !w->failed; i++)
		(void)schedules_do(r, c, mm, &w->p->op[i]);
	r->task.mm = NULL;
	mm_activate(c, NULL);
}

static void begin(struct schedules_world *w)
{
	oracle_clear(&w->o);
	w->looking = 0;
	w->put_off_gen = w->flushed_gen = 0;
	for (unsigned s = 0; s < w->p->nr_spaces; s++) {
		struct oracle_page *page = w->space[s].page;

		memset(page, 0, w->nr_pages * sizeof(*page));
		w->space[s] = (struct space){ .page = page };
	}
	for (unsigned i = 0; i < w->p->nr_tasks; i++) {
		w->task[i] = (struct running){ .w = w, .t = &w->p->task[i] };
		cpumask_set(&w->task[i].cpus, w->p->task[i].cpu);
	}
	for (uint64_t i = 0; i < w->m->max_pfn; i++)
		w->m->tags[i] = TAG_JUNK;
	model_schedule_reset(w->m);
}

static void write_explanation(const struct schedules_world *w, char *buf, size_t len)
{
	for (uint32_t i = 0; i < w->s->nr_list; i++) {
		const struct schedule_choice *ch = &w->s->list[i];
		const struct explained *e = &w->explained[i];
		const char *to = "";
		int n;

		for (unsigned k = 0; k < w->p->nr_tasks; k++)
			if (w->p->task[k].cpu == ch->to)
				to = w->p->task[k].name;
		if (e->t)
			n = snprintf(buf, len, "  CPU %u, point %u: %s, in '%s', %s; CPU %u, %s, goes on\n", ch->cpu, ch->at, e->t->name,
				     e->op ? e->op->text : "its end", e->exact ? "is interrupted" : "waits or has ended", ch->to, to);
		else
			n = snprintf(buf, len, "  CPU %u, point %u: begins; CPU %u, %s, goes on\n", ch->cpu, ch->at, ch->to, to);
		if (n < 0 || (size_t)n >= len)
			return;
		buf += n;
		len -= (size_t)n;
	}
}

int schedules_run(struct schedules_world *w, struct schedule *s, char *why, char *explain, size_t explain_len)
{
	char err[SCHEDULES_TEXT] = "";
	struct cpu *c;
	int rc;

	w->why = why;
	w->s = s;
	why[0] = 0;
	begin(w);
	s->at_point = at_point;
	s->page_written = page_written;
	s->arg = w;
	model_schedule(w->m, s);
	rc = quire_boot(w->m, &w->knobs, &w->q, err, sizeof(err));
	if (rc) {
		snprintf(why, SCHEDULES_TEXT, "boot: %.380s", err);
		return 1;
	}
	w->explained = explain && s->nr_list ? calloc(s->nr_list, sizeof(*w->explained)) : NULL;
	w->q->check_unreachable = unreachable;
	w->q->check_arg = w;
	c = model_boot_cpu(w->m);
	set_up(w, c);
	for (unsigned i = 0; i < w->p->nr_tasks && !w->failed; i++)
		if (!w->p->task[i].child)
			schedules_start_task(w, NULL, i);
	rc = w->failed ? 0 : model_run(w->m, err, sizeof(err));
	if (s->no_progress)
		schedules_fail(w, "no progress: %llu points, and tasks have not ended", (unsigned long long)s->points);
	else if (rc && !w->failed)
		schedules_fail(w, "%s", err);
	if (!w->failed)
		check_after(w);
	if (!w->failed && quire_shutdown(w->q))
		schedules_fail(w, "shutdown: address spaces are left");
	if (explain && explain_len && w->explained)
		write_explanation(w, explain, explain_len);
	free(w->explained);
	w->explained = NULL;
	return w->failed;
}

/* ---- the world ---- */

static void describe(struct machine_desc *d, unsigned cpus, uint64_t memory)
{
	*d = (struct machine_desc){
		.name = "schedules", .title = "for schedules", .sockets = 1, .cores_per_socket = cpus, .threads_per_core = 1,
		.freq_khz = 1000000, .ipc_milli = 1000, .window_insns = 16, .mshrs = 1, .walkers = 1, .store_buffer = 1,
		.l1d = { .size = 4096, .ways = 4 }, .l2 = { .size = 8192, .ways = 4 },
		.llc = { .size = 16384, .ways = 4, .inclusion = INCL_INCLUSIVE }, .llc_per_socket = true,
		.dtlb = { .entries_4k = 4, .ways_4k = 4, .entries_2m = 4, .ways_2m = 4, .entries_1g = 4, .ways_1g = 4 },
		.stlb = { .entries_4k = 8, .ways_4k = 4, .shared_2m = true }, .pwc_pmd = 2, .pwc_pud = 2, .pwc_pgd = 2,
		.timeslice_ps = 1, .nr_nodes = 1,
	};
	d->nodes[0] = (struct node_desc){ .memory = memory, .read_latency_ps = 1, .write_latency_ps = 1, .read_bw_MBps = 1000,
					  .write_bw_MBps = 1000, .channels = 1 };
	d->distance[0][0] = 10;
}

int schedules_world_create(const struct schedules_program *p, const struct knobs *k, struct schedules_world **ret, char *err, size_t errlen)
{
	struct schedules_world *w = calloc(1, sizeof(*w));
	struct model_options o = { .seed = 1, .scheduled = true };
	bool huge = k->thp_enabled != THP_NEVER;
	struct machine_desc d;
	int rc = -ENOMEM;

	if (errlen)
		snprintf(err, errlen, "out of memory");
	if (!w)
		return rc;
	w->p = p;
	w->knobs = *k;
	w->grain = huge ? PMD_SIZE : PAGE_SIZE;
	for (unsigned a = 0; a < p->nr_areas; a++) {
		w->first_page[a] = w->nr_pages;
		w->nr_pages += p->pages[a];
	}
	for (unsigned s = 0; s < p->nr_spaces; s++) {
		w->space[s].page = calloc(w->nr_pages + 1, sizeof(struct oracle_page));
		if (!w->space[s].page)
			goto fail;
	}
	if (oracle_init(&w->o, EVENTS))
		goto fail;
	describe(&d, p->nr_cpus, huge ? MEMORY_HUGE : MEMORY_SMALL);
	rc = model_create(&d, &o, &w->m, err, errlen);
	if (rc)
		goto fail;
	*ret = w;
	return 0;
fail:
	schedules_world_destroy(w);
	return rc;
}

void schedules_world_destroy(struct schedules_world *w)
{
	if (!w)
		return;
	model_destroy(w->m);
	oracle_done(&w->o);
	for (unsigned s = 0; s < w->p->nr_spaces; s++)
		free(w->space[s].page);
	free(w);
}
