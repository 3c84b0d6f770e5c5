/*
 * One run of a program under a schedule, and every check (docs/checking.md, 'What is checked').
 *
 * Invariants
 *  R1 An operation announces the address range that it concerns (struct running) from its begin to its end. Outside of all announced
 *     ranges TLBs agree with the tables: looked at whenever an operation ends.
 *  R2 A task that is changing its CPU's address space announces that too (switching): what the CPU holds is not used then.
 *  R3 After a failure nothing of the engine or the machine is used again: both go.
 */
#include "lab/schedules.h"
#include "lab/schedules_oracle.h"

#include "base/assert.h"
#include "machine/model/model.h"
#include "mm/fault.h"
#include "mm/gup.h"
#include "mm/tlb.h"
#include "mm/tlb_check.h"
#include "mm/uapi.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA_BASE 0x100000000000ULL
#define AREA_STEP (1ULL << 30)
#define EVENTS 65536
#define TAG_JUNK 0xdeadbeefdeadbeefULL /* what frames hold that nobody has cleared */
#define MEMORY_SMALL (21ULL << 20) /* 16 are the kernel's; the less there is, the quicker it is validated */
#define MEMORY_HUGE (48ULL << 20)

struct running {
	struct schedules_world *w;
	const struct schedules_task *t;
	struct task task;
	struct cpumask cpus;
	const struct schedules_op *op;
	unsigned space;    /* of the announced range */
	vaddr_t start, end; /* start == end: none */
	pfn_t pinned;
	unsigned pin_page, pin_area; /* what is pinned */
	bool has_pin, switching;
};

struct space {
	struct mm *mm; /* with a reference of ours; NULL: not yet, or no longer */
	uint32_t ctx;
	bool made;
	struct oracle_page *page; /* [pages of all areas] */
};

struct explained {
	const struct schedules_task *t;
	const struct schedules_op *op;
	bool exact;
};

struct schedules_world {
	const struct schedules_program *p;
	struct knobs knobs;
	struct machine *m;
	struct quire *q;
	struct oracle o;
	struct space space[SCHEDULES_MAX_SPACES];
	struct running task[SCHEDULES_MAX_TASKS + 1]; /* the last: the setup */
	uint32_t nr_pages, first_page[SCHEDULES_MAX_AREAS];
	uint64_t grain; /* what an access may change besides its page: 2 MiB with huge pages */
	bool failed;
	char *why;
	const struct schedule *s;
	struct explained *explained;
};

ATTR_PRINTF(2, 3) static void fail(struct schedules_world *w, const char *fmt, ...)
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

static vaddr_t page_va(unsigned area, uint64_t page)
{
	return AREA_BASE + area * AREA_STEP + page * PAGE_SIZE;
}

static struct oracle_page *page_of(struct schedules_world *w, unsigned space, unsigned area, uint64_t page)
{
	return &w->space[space].page[w->first_page[area] + page];
}

static const char *doing(const struct running *r)
{
	return r->op ? r->op->text : "its end";
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

		if (r->start < r->end && w->space[r->space].ctx == h->ctx && h->va < r->end && h->va + (1ULL << h->shift) > r->start)
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
			bad = "a frame that is being written for a new owner";
	} else if (!l->exact) {
		bad = tlb_held_alive(l->w->q, l->cpu, &t);
	} else if (!announced(l->w, h)) {
		bad = tlb_held_granted(l->w->q, l->cpu, &t);
	}
	if (bad)
		fail(l->w, "CPU %u holds %s: %s %#llx of context %u, frame %#llx%s", l->cpu, bad, h->table ? "table for" : "address",
		     (unsigned long long)h->va, h->ctx, (unsigned long long)h->pfn.v, h->write ? ", writable" : "");
	return bad != NULL;
}

static void look_at_tlbs(struct schedules_world *w, struct look l)
{
	l.w = w;
	for (l.cpu = 0; l.cpu < w->m->nr_cpus; l.cpu++) {
		bool switching = false;

		for (unsigned i = 0; i < w->p->nr_tasks; i++)
			switching |= w->task[i].switching && w->task[i].task.cpu == w->m->cpus[l.cpu];
		if (l.exact && tlb_loaded_alive(w->q, l.cpu)) {
			fail(w, "CPU %u has %s loaded", l.cpu, tlb_loaded_alive(w->q, l.cpu));
			return;
		}
		if (!switching && model_schedule_each_held(w->m, l.cpu, look_at, &l))
			return;
	}
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

/* ---- operations ---- */

static void announce(struct running *r, unsigned space, vaddr_t start, vaddr_t end)
{
	r->space = space;
	r->start = start;
	r->end = end;
	oracle_tick(&r->w->o);
}

static void announce_pages(struct running *r, const struct schedules_op *op, unsigned area)
{
	uint64_t g = r->w->grain;

	announce(r, r->t->space, ALIGN_DOWN(page_va(area, op->first), g), ALIGN_UP(page_va(area, (uint64_t)op->first + op->nr), g));
}

static void announce_all(struct running *r, unsigned space)
{
	announce(r, space, 0, TASK_SIZE);
}

static void over(struct running *r)
{
	oracle_tick(&r->w->o);
	r->end = r->start = 0;
	look_at_tlbs(r->w, (struct look){ .exact = true });
}

static void do_access(struct running *r, struct cpu *c, unsigned space, unsigned area, uint64_t page, bool write)
{
	struct schedules_world *w = r->w;
	struct oracle_page *op = page_of(w, space, area, page);
	struct oracle_event *e = NULL;
	vaddr_t va = page_va(area, page);
	unsigned right = write ? RIGHT_WRITE : RIGHT_READ;
	uint64_t begin, end, value;
	int rc;

	announce(r, space, ALIGN_DOWN(va, w->grain), ALIGN_DOWN(va, w->grain) + w->grain);
	begin = w->o.now;
	value = (uint64_t)(r - w->task + 1) << 32 | begin;
	if (write) {
		e = oracle_write(&w->o, &op->contents, value);
		rc = c->m->ops->store_value(c, va, value);
	} else {
		rc = c->m->ops->load_value(c, va, &value);
	}
	end = oracle_tick(&w->o);
	if (rc)
		oracle_cancel(e);
	else
		oracle_end(&w->o, e);
	if (rc && rc != -EFAULT)
		fail(w, "%s, '%s': page %llu: error %d", r->t->name, doing(r), (unsigned long long)page, rc);
	else if (!oracle_allows(&op->rights, begin, end, right, rc ? 0 : right))
		fail(w, "%s, '%s': page %llu %s, which its rights %s", r->t->name, doing(r), (unsigned long long)page,
		     rc ? "cannot be accessed" : write ? "was written" : "was read", rc ? "allow" : "forbid");
	else if (!rc && !write && !oracle_allows(&op->contents, begin, end, ~0ULL, value))
		fail(w, "%s, '%s': page %llu shows %#llx, which is %s", r->t->name, doing(r), (unsigned long long)page,
		     (unsigned long long)value, value == TAG_JUNK ? "memory that nobody has cleared" : "stale, or somebody else's");
	over(r);
}

enum effect { EFFECT_NONE, EFFECT_ZERO = 1, EFFECT_RIGHTS = 2 };

/* Calls on a range of pages: what becomes of contents and rights. Returns the call's result. */
static int64_t do_range(struct running *r, struct cpu *c, const struct schedules_op *op)
{
	struct schedules_world *w = r->w;
	struct mm *mm = r->task.mm;
	vaddr_t va = page_va(op->area, op->first);
	uint64_t len = (uint64_t)op->nr * PAGE_SIZE, rights = 0;
	struct oracle_mark mark;
	unsigned effect = EFFECT_NONE;
	int64_t rc;

	announce_pages(r, op, op->area);
	mark = oracle_mark(&w->o);
	if (op->kind == SOP_MAP) {
		effect = EFFECT_ZERO | EFFECT_RIGHTS;
		rights = RIGHT_READ | RIGHT_WRITE;
	} else if (op->kind == SOP_UNMAP) {
		effect = EFFECT_RIGHTS;
	} else if (op->kind == SOP_PROTECT) {
		effect = EFFECT_RIGHTS;
		rights = (op->prot & UAPI_PROT_READ ? RIGHT_READ : 0U) | (op->prot & UAPI_PROT_WRITE ? RIGHT_WRITE : 0U);
	} else if (op->kind == SOP_DONTNEED) {
		effect = EFFECT_ZERO;
	}
	for (uint32_t i = 0; i < op->nr && effect; i++) {
		struct oracle_page *pg = page_of(w, r->t->space, op->area, op->first + i);

		if (effect & EFFECT_ZERO)
			(void)oracle_write(&w->o, &pg->contents, 0);
		if (effect & EFFECT_RIGHTS)
			(void)oracle_write(&w->o, &pg->rights, rights);
	}
	switch (op->kind) {
	case SOP_MAP:
		rc = mm_mmap(c, mm, va, len, UAPI_PROT_READ | UAPI_PROT_WRITE, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0);
		rc = rc == (int64_t)va ? 0 : rc;
		break;
	case SOP_UNMAP:
		rc = mm_munmap(c, mm, va, len);
		break;
	case SOP_PROTECT:
		rc = mm_mprotect(c, mm, va, len, op->prot);
		break;
	case SOP_LOCK:
		rc = mm_mlock(c, mm, va, len, false);
		break;
	case SOP_UNLOCK:
		rc = mm_munlock(c, mm, va, len);
		break;
	default:
		rc = mm_madvise(c, mm, va, len,
				op->kind == SOP_DONTNEED ? UAPI_MADV_DONTNEED :
				op->kind == SOP_POPULATE ? UAPI_MADV_POPULATE_WRITE :
				op->kind == SOP_HUGE	 ? UAPI_MADV_HUGEPAGE :
							   UAPI_MADV_NOHUGEPAGE);
	}
	oracle_tick(&w->o);
	/* A call that failed half-way has had its effect, perhaps: its events stay open. */
	if (!rc)
		oracle_end_all(&w->o, mark, true);
	if (rc && (op->kind == SOP_MAP || op->kind == SOP_UNMAP))
		fail(w, "%s, '%s': error %lld", r->t->name, doing(r), (long long)rc);
	over(r);
	return rc;
}

static void do_move(struct running *r, struct cpu *c, const struct schedules_op *op)
{
	struct schedules_world *w = r->w;
	uint64_t len = (uint64_t)op->nr * PAGE_SIZE;
	struct oracle_mark mark;
	int64_t rc;

	/* One announcement must cover both ends. */
	announce(r, r->t->space, ALIGN_DOWN(page_va(MIN(op->area, op->to), op->first), w->grain),
		 ALIGN_UP(page_va(MAX(op->area, op->to), (uint64_t)op->first + op->nr), w->grain));
	mark = oracle_mark(&w->o);
	for (uint32_t i = 0; i < op->nr; i++) {
		struct oracle_page *from = page_of(w, r->t->space, op->area, op->first + i), *to = page_of(w, r->t->space, op->to, op->first + i);

		(void)oracle_copy(&w->o, &to->contents, &from->contents);
		(void)oracle_copy(&w->o, &to->rights, &from->rights);
		(void)oracle_write(&w->o, &from->rights, 0);
	}
	rc = mm_mremap(c, r->task.mm, page_va(op->area, op->first), len, len, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, page_va(op->to, op->first));
	oracle_tick(&w->o);
	oracle_end_all(&w->o, mark, rc >= 0);
	over(r);
}

static void start_task(struct schedules_world *w, struct cpu *c, unsigned i);

static void do_fork(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op)
{
	struct schedules_world *w = r->w;
	struct space *kid = &w->space[op->space], *parent = &w->space[r->t->space];
	struct oracle_mark mark;
	int rc;

	if (kid->made)
		return;
	kid->made = true;
	announce_all(r, r->t->space);
	mark = oracle_mark(&w->o);
	for (uint32_t i = 0; i < w->nr_pages; i++) {
		(void)oracle_copy(&w->o, &kid->page[i].contents, &parent->page[i].contents);
		(void)oracle_copy(&w->o, &kid->page[i].rights, &parent->page[i].rights);
	}
	rc = mm_fork(c, mm, &kid->mm);
	oracle_tick(&w->o);
	if (rc) {
		fail(w, "%s, '%s': error %d", r->t->name, doing(r), rc);
	} else {
		kid->ctx = kid->mm->ctx;
		oracle_end_all(&w->o, mark, true);
		for (unsigned i = 0; i < w->p->nr_tasks; i++)
			if (w->p->task[i].child && w->p->task[i].space == op->space)
				start_task(w, c, i);
	}
	over(r);
}

/* The task's CPU takes another address space (NULL: kernel work). */
static void take_mm(struct running *r, struct cpu *c, struct mm *mm)
{
	r->switching = true;
	if (c->current && mm)
		c->current->mm = mm;
	mm_activate(c, mm);
	r->switching = false;
}

static void do_visit(struct running *r, struct cpu *c, struct mm *own, const struct schedules_op *op)
{
	struct space *s = &r->w->space[op->space];
	struct mm *mm = s->mm;

	if (!mm)
		return;
	mm_get(mm);
	take_mm(r, c, mm);
	do_access(r, c, op->space, op->area, op->first, false);
	take_mm(r, c, own);
	announce_all(r, op->space); /* this may be the last user */
	mm_put(c, mm);
	over(r);
}

static void do_drop(struct running *r, struct cpu *c, unsigned space)
{
	struct mm *mm = r->w->space[space].mm;

	if (!mm)
		return;
	r->w->space[space].mm = NULL;
	announce_all(r, space);
	mm_put(c, mm);
	over(r);
}

static void do_pin(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op)
{
	if (r->has_pin)
		return;
	announce_pages(r, op, op->area);
	r->has_pin = !mm_pin(c, mm, page_va(op->area, op->first), 1, op->kind == SOP_PIN, &r->pinned);
	r->pin_area = op->area;
	r->pin_page = op->first;
	over(r);
}

/* What a device would do: it writes the frame, not the address. */
static void do_poke(struct running *r, struct cpu *c)
{
	struct schedules_world *w = r->w;
	struct oracle_event *e;
	uint64_t value;

	if (!r->has_pin)
		return;
	c->m->ops->touch(c, 0, 8, TOUCH_READ);
	oracle_tick(&w->o);
	value = (uint64_t)(r - w->task + 1) << 32 | w->o.now;
	e = oracle_write(&w->o, &page_of(w, r->t->space, r->pin_area, r->pin_page)->contents, value);
	w->m->tags[r->pinned.v] = value;
	oracle_tick(&w->o);
	oracle_end(&w->o, e);
}

static void do_kernel(struct running *r, struct cpu *c, struct mm *own)
{
	take_mm(r, c, NULL);
	for (unsigned i = 0; i < 6; i++)
		c->m->ops->touch(c, 0, 8, TOUCH_READ);
	take_mm(r, c, own);
}

static struct cpu *do_op(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op)
{
	r->op = op;
	switch (op->kind) {
	case SOP_READ:
	case SOP_WRITE:
		for (uint32_t i = 0; i < op->nr && !r->w->failed; i++)
			do_access(r, c, r->t->space, op->area, op->first + i, op->kind == SOP_WRITE);
		break;
	case SOP_MOVE:
		do_move(r, c, op);
		break;
	case SOP_FORK:
		do_fork(r, c, mm, op);
		break;
	case SOP_VISIT:
		do_visit(r, c, mm, op);
		break;
	case SOP_DROP:
	case SOP_EXIT:
		do_drop(r, c, op->kind == SOP_EXIT ? r->t->space : op->space);
		break;
	case SOP_PIN:
	case SOP_PINREAD:
		do_pin(r, c, mm, op);
		break;
	case SOP_POKE:
		do_poke(r, c);
		break;
	case SOP_UNPIN:
		if (r->has_pin)
			mm_unpin(c, &r->pinned, 1);
		r->has_pin = false;
		break;
	case SOP_KERNEL:
		do_kernel(r, c, mm);
		break;
	case SOP_YIELD:
		c = machine_resched(c);
		break;
	default:
		(void)do_range(r, c, op);
	}
	return c;
}

static void task_main(struct cpu *c, struct task *t)
{
	struct running *r = t->arg;
	struct mm *mm = t->mm;

	for (unsigned i = 0; i < r->t->nr && !r->w->failed; i++)
		c = do_op(r, c, mm, &r->w->p->op[r->t->first + i]);
	r->op = NULL;
	if (r->w->failed)
		return;
	if (r->has_pin)
		mm_unpin(c, &r->pinned, 1);
	r->has_pin = false;
	t->mm = NULL;
	mm_activate(c, NULL);
	announce_all(r, r->t->space);
	mm_put(c, mm);
	over(r);
}

static void start_task(struct schedules_world *w, struct cpu *c, unsigned i)
{
	struct running *r = &w->task[i];
	struct mm *mm = w->space[r->t->space].mm;
	int rc;

	r->task = (struct task){ .fn = task_main, .arg = r, .mm = mm, .name = r->t->name, .affinity = &r->cpus };
	mm_get(mm);
	rc = model_task_start(w->m, c, &r->task);
	if (rc)
		fail(w, "%s: cannot be started: error %d", r->t->name, rc);
}

/* ---- after the tasks ---- */

static void check_contents(struct schedules_world *w)
{
	const struct schedules_program *p = w->p;

	oracle_tick(&w->o);
	for (unsigned s = 0; s < p->nr_spaces && !w->failed; s++) {
		for (unsigned a = 0; w->space[s].mm && a < p->nr_areas; a++) {
			for (unsigned i = 0; i < p->pages[a]; i++) {
				struct oracle_page *pg = page_of(w, s, a, i);
				struct mm_page_info info;

				if (!pg->contents.last && !pg->rights.last)
					continue;
				mm_page_info(w->space[s].mm, page_va(a, i), &info);
				if (!info.present && oracle_allows(&pg->rights, w->o.now, w->o.now, RIGHT_READ, 0))
					continue;
				if (!oracle_allows(&pg->contents, w->o.now, w->o.now, ~0ULL, info.present ? info.tag : 0))
					fail(w, "at the end page %u of %s in %s holds %#llx, which was never last", i, p->area[a], p->space[s],
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
		fail(w, "pgfault is %lld, and its kinds are %lld together", (long long)vmstat_read(w->q, VM_pgfault), (long long)sum);
	for (size_t i = 0; i < ARRAY_SIZE(gone); i++)
		if (vmstat_read(w->q, gone[i]))
			fail(w, "%s is %lld after the end of all address spaces", vm_counter_names[gone[i]],
			     (long long)vmstat_read(w->q, gone[i]));
	if (vmstat_read(w->q, VM_unevictable_pgs_mlocked) != vmstat_read(w->q, VM_unevictable_pgs_munlocked))
		fail(w, "unevictable_pgs_mlocked and unevictable_pgs_munlocked differ");
	if (w->q->committed_pages)
		fail(w, "%lld pages are still promised", (long long)w->q->committed_pages);
}

static void validate(struct schedules_world *w, const char *when)
{
	if (!w->failed && quire_validate(w->q))
		fail(w, "%s: %s", when, w->q->err);
}

static void check_after(struct schedules_world *w)
{
	struct cpu *c = model_boot_cpu(w->m);

	look_at_tlbs(w, (struct look){ .exact = true });
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
		fail(w, "the program does too much for its oracle");
}

/* ---- a run ---- */

static void set_up(struct schedules_world *w, struct cpu *c)
{
	struct running *r = &w->task[SCHEDULES_MAX_TASKS];
	static const struct schedules_task setup = { .name = "setup" };
	struct mm *mm;

	*r = (struct running){ .w = w, .t = &setup };
	if (mm_create(c, w->q, &mm)) {
		fail(w, "no memory for the first address space");
		return;
	}
	w->space[0] = (struct space){ .mm = mm, .ctx = mm->ctx, .made = true, .page = w->space[0].page };
	r->task.mm = mm;
	mm_activate(c, mm);
	for (unsigned i = 0; i < w->p->nr_setup && !w->failed; i++)
		(void)do_op(r, c, mm, &w->p->op[i]);
	r->task.mm = NULL;
	mm_activate(c, NULL);
}

static void begin(struct schedules_world *w)
{
	oracle_clear(&w->o);
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
		snprintf(why, SCHEDULES_TEXT, "boot: %s", err);
		return 1;
	}
	w->explained = explain && s->nr_list ? calloc(s->nr_list, sizeof(*w->explained)) : NULL;
	c = model_boot_cpu(w->m);
	set_up(w, c);
	for (unsigned i = 0; i < w->p->nr_tasks && !w->failed; i++)
		if (!w->p->task[i].child)
			start_task(w, NULL, i);
	rc = w->failed ? 0 : model_run(w->m, err, sizeof(err));
	if (s->no_progress)
		fail(w, "no progress: %llu points, and tasks have not ended", (unsigned long long)s->points);
	else if (rc && !w->failed)
		fail(w, "%s", err);
	if (!w->failed)
		check_after(w);
	if (!w->failed && quire_shutdown(w->q))
		fail(w, "shutdown: address spaces are left");
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
