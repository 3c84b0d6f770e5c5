/*
 * What a program of schedules does to folios by address: split, migrate, and the shrinker of the deferred queue; and to the mark of an
 * outstanding batched flush (tlb_batch.h). That a folio is in use, or has
 * changed meanwhile, is no failure: then it stays.
 */
#include "lab/schedules_int.h"

#include "mm/deferred_split.h"
#include "mm/folio_lock.h"
#include "mm/follow.h"
#include "mm/migrate.h"
#include "mm/split.h"

void schedules_split(struct cpu *c, struct mm *mm, vaddr_t va)
{
	struct frame *page = NULL, *folio = mm_follow_folio(c, mm, va, &page);

	if (!folio)
		return;
	folio_lock(c, folio);
	if (frame_nr_pages(folio) > 1 && !folio_split(c, folio, page, NULL))
		folio = page;
	folio_unlock(c, folio);
	frame_put(c, folio);
}

static struct frame *any_frame(struct cpu *c, const struct frame *src, void *arg)
{
	struct alloc_req req = {
		.order = frame_order(src), .gfp = frame_nr_pages(src) > 1 ? GFP_TRANSHUGE_LIGHT : GFP_HIGHUSER_MOVABLE, .nid = NID_NONE
	};

	(void)arg;
	return page_alloc(c, &req);
}

void schedules_migrate(struct cpu *c, struct mm *mm, vaddr_t va, uint64_t nr)
{
	struct migrate_target t = { .get = any_frame };
	struct list_head l;

	list_init(&l);
	for (vaddr_t end = va + nr * PAGE_SIZE; va < end; va += PAGE_SIZE) {
		struct frame *folio = mm_follow_folio(c, mm, va, NULL);

		if (!folio)
			continue;
		(void)migrate_isolate(c, folio, &l);
		frame_put(c, folio);
	}
	(void)migrate_pages(c, &l, &t, MIGRATE_SYNC, MR_SYSCALL, NULL);
	migrate_putback(c, &l);
}

void schedules_shrink(struct cpu *c)
{
	(void)deferred_split_scan(c, 0, 10);
}

/* Nobody is at it: an address space without the mark has been flushed since the last time that a flush was put off. */
static void check_mark(struct running *r, const struct mm *mm)
{
	struct schedules_world *w = r->w;

	if (!w->looking && !tlb_deferred(mm) && w->put_off_gen > w->flushed_gen)
		schedules_fail(w, "%s, '%s': a flush was put off as generation %llu, the last one made was %llu, and no mark tells of it", r->t->name,
			       r->op ? r->op->text : "its end", (unsigned long long)(uint32_t)w->put_off_gen,
			       (unsigned long long)(uint32_t)w->flushed_gen);
}

void schedules_defer(struct running *r, struct cpu *c, struct mm *mm, vaddr_t va)
{
	struct schedules_world *w = r->w;

	struct tlb_batch one;

	tlb_batch_begin(&one);
	tlb_batch_add(c, &one, mm, PTE_PRESENT, va);
	w->put_off_gen = MAX(w->put_off_gen, one.ctx[0].last);
	r->batch.needed = true;
	for (unsigned i = 0; i < ARRAY_SIZE(one.cpus.bits); i++)
		r->batch.cpus.bits[i] |= one.cpus.bits[i];
	check_mark(r, mm);
}

/* The generation that this CPU's own part of a flush has reached. */
static uint64_t own_gen(const struct cpu *c, const struct mm *mm)
{
	for (unsigned i = 0; i < PERCPU_CTX_SLOTS; i++)
		if (c->pc->ctx[i].ctx == mm->ctx)
			return c->pc->ctx[i].tlb_gen;
	return 0;
}

void schedules_pending(struct running *r, struct cpu *c, struct mm *mm)
{
	struct schedules_world *w = r->w;

	w->looking++;
	tlb_flush_batched_pending(c, mm);
	w->looking--;
	w->flushed_gen = MAX(w->flushed_gen, own_gen(c, mm));
	check_mark(r, mm);
}

void schedules_undefer(struct running *r, struct cpu *c)
{
	tlb_batch_flush(c, &r->batch);
}
