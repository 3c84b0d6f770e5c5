/*
 * What the tasks of a program do, and what the oracle is told of it.
 *
 * Each operation announces what it concerns (announce), tells the oracle what it may write, makes the call, tells what came of it, and
 * has everything looked at (over). Invariants R1 and R2 of schedules_run.c are kept here.
 */
#include "lab/schedules_int.h"

#include "machine/model/model.h"
#include "mm/gup.h"
#include "mm/tlb.h"
#include "mm/uapi.h"

#include <errno.h>

static const char *doing(const struct running *r)
{
	return r->op ? r->op->text : "its end";
}

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

	announce(r, r->t->space, ALIGN_DOWN(schedules_va(area, op->first), g), ALIGN_UP(schedules_va(area, (uint64_t)op->first + op->nr), g));
}

static void announce_all(struct running *r, unsigned space)
{
	announce(r, space, 0, TASK_SIZE);
}

static void over(struct running *r)
{
	oracle_tick(&r->w->o);
	r->end = r->start = 0;
	schedules_look_exactly(r->w);
}

static void do_access(struct running *r, struct cpu *c, unsigned space, unsigned area, uint64_t page, bool write)
{
	struct schedules_world *w = r->w;
	struct oracle_page *op = schedules_page(w, space, area, page);
	struct oracle_event *e = NULL;
	vaddr_t va = schedules_va(area, page);
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
		schedules_fail(w, "%s, '%s': page %llu: error %d", r->t->name, doing(r), (unsigned long long)page, rc);
	else if (!oracle_allows(&op->rights, begin, end, right, rc ? 0 : right))
		schedules_fail(w, "%s, '%s': page %llu %s, which its rights %s", r->t->name, doing(r), (unsigned long long)page,
		     rc ? "cannot be accessed" : write ? "was written" : "was read", rc ? "allow" : "forbid");
	else if (!rc && !write && !oracle_allows(&op->contents, begin, end, ~0ULL, value))
		schedules_fail(w, "%s, '%s': page %llu shows %#llx, which is %s", r->t->name, doing(r), (unsigned long long)page,
		     (unsigned long long)value, value == TAG_JUNK ? "memory that nobody has cleared" : "stale, or somebody else's");
	over(r);
}

enum effect { EFFECT_NONE, EFFECT_ZERO = 1, EFFECT_RIGHTS = 2 };

/* Calls on a range of pages: what becomes of contents and rights. Returns the call's result. */
static int64_t do_range(struct running *r, struct cpu *c, const struct schedules_op *op)
{
	struct schedules_world *w = r->w;
	struct mm *mm = r->task.mm;
	vaddr_t va = schedules_va(op->area, op->first);
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
		struct oracle_page *pg = schedules_page(w, r->t->space, op->area, op->first + i);

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
				op->kind == SOP_COLLAPSE ? UAPI_MADV_COLLAPSE :
							   UAPI_MADV_NOHUGEPAGE);
	}
	oracle_tick(&w->o);
	/* A call that failed half-way has had its effect, perhaps: its events stay open. */
	if (!rc)
		oracle_end_all(&w->o, mark, true);
	if (rc && (op->kind == SOP_MAP || op->kind == SOP_UNMAP))
		schedules_fail(w, "%s, '%s': error %lld", r->t->name, doing(r), (long long)rc);
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
	announce(r, r->t->space, ALIGN_DOWN(schedules_va(MIN(op->area, op->to), op->first), w->grain),
		 ALIGN_UP(schedules_va(MAX(op->area, op->to), (uint64_t)op->first + op->nr), w->grain));
	mark = oracle_mark(&w->o);
	for (uint32_t i = 0; i < op->nr; i++) {
		struct oracle_page *from = schedules_page(w, r->t->space, op->area, op->first + i), *to = schedules_page(w, r->t->space, op->to, op->first + i);

		(void)oracle_copy(&w->o, &to->contents, &from->contents);
		(void)oracle_copy(&w->o, &to->rights, &from->rights);
		(void)oracle_write(&w->o, &from->rights, 0);
	}
	rc = mm_mremap(c, r->task.mm, schedules_va(op->area, op->first), len, len, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, schedules_va(op->to, op->first));
	oracle_tick(&w->o);
	oracle_end_all(&w->o, mark, rc >= 0);
	over(r);
}

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
		schedules_fail(w, "%s, '%s': error %d", r->t->name, doing(r), rc);
	} else {
		kid->ctx = kid->mm->ctx;
		oracle_end_all(&w->o, mark, true);
		for (unsigned i = 0; i < w->p->nr_tasks; i++)
			if (w->p->task[i].child && w->p->task[i].space == op->space)
				schedules_start_task(w, c, i);
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
	r->has_pin = !mm_pin(c, mm, schedules_va(op->area, op->first), 1, op->kind == SOP_PIN, &r->pinned);
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
	e = oracle_write(&w->o, &schedules_page(w, r->t->space, r->pin_area, r->pin_page)->contents, value);
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

/* Contents and rights stay as they are, for everybody. */
static void do_folio(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op)
{
	vaddr_t va = schedules_va(op->area, op->first);

	r->everywhere = true;
	if (op->kind == SOP_SHRINK)
		announce_all(r, r->t->space);
	else
		announce_pages(r, op, op->area);
	if (op->kind == SOP_SPLIT)
		schedules_split(c, mm, va);
	else if (op->kind == SOP_MIGRATE)
		schedules_migrate(c, mm, va, op->nr);
	else
		schedules_shrink(c);
	over(r);
	r->everywhere = false;
}

struct cpu *schedules_do(struct running *r, struct cpu *c, struct mm *mm, const struct schedules_op *op)
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
	case SOP_SPLIT:
	case SOP_MIGRATE:
	case SOP_SHRINK:
		do_folio(r, c, mm, op);
		break;
	case SOP_DEFER:
		schedules_defer(r, c, mm, schedules_va(op->area, op->first));
		break;
	case SOP_PENDING:
		schedules_pending(r, c, mm);
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
		c = schedules_do(r, c, mm, &r->w->p->op[r->t->first + i]);
	r->op = NULL;
	if (r->w->failed)
		return;
	if (r->has_pin)
		mm_unpin(c, &r->pinned, 1);
	r->has_pin = false;
	schedules_undefer(r, c);
	t->mm = NULL;
	mm_activate(c, NULL);
	announce_all(r, r->t->space);
	mm_put(c, mm);
	over(r);
}

void schedules_start_task(struct schedules_world *w, struct cpu *c, unsigned i)
{
	struct running *r = &w->task[i];
	struct mm *mm = w->space[r->t->space].mm;
	int rc;

	r->task = (struct task){ .fn = task_main, .arg = r, .mm = mm, .name = r->t->name, .affinity = &r->cpus };
	mm_get(mm);
	rc = model_task_start(w->m, c, &r->task);
	if (rc)
		schedules_fail(w, "%s: cannot be started: error %d", r->t->name, rc);
}
