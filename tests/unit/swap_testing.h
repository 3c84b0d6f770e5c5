/* Putting pages out to swap by hand, as reclaim does, for tests. */
#ifndef QUIRE_TESTS_SWAP_TESTING_H
#define QUIRE_TESTS_SWAP_TESTING_H

#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/swap.h"
#include "mm/unmap.h"
#include "paging_world.h"

/* How far a folio is put out. */
enum swap_step { STEP_SLOTS, STEP_UNMAP, STEP_WRITE, STEP_DROP };

/* The folio is locked and the caller has a reference, which stays. 0, or why it went no further: -EBUSY: mapped, under transfer or in use. */
static inline int swap_out_folio(struct cpu *c, struct frame *folio, enum swap_step last)
{
	struct tlb_batch b;
	uint64_t done;
	int rc = 0;

	if ((frame_flags(folio) & (FRAME_ANON | FRAME_SWAPCACHE)) == FRAME_ANON)
		rc = folio_add_to_swap(c, folio);
	if (rc || last == STEP_SLOTS)
		return rc;
	tlb_batch_begin(&b);
	if (folio_mapped(folio) && !try_to_unmap(c, folio, TTU_SPLIT_HUGE_PMD, &b))
		rc = -EBUSY;
	tlb_batch_flush(c, &b);
	tlb_batch_end(&b);
	if (rc || last == STEP_UNMAP)
		return rc;
	if (folio_in_transfer(c, folio))
		return -EBUSY;
	if (frame_flags(folio) & FRAME_DIRTY)
		rc = swap_writeout(c, folio, &done);
	if (rc || last == STEP_WRITE)
		return rc;
	folio_wait_transfer(c, folio);
	return swap_cache_remove(c, folio) ? 0 : -EBUSY;
}

static inline struct frame *swap_folio_at(struct world *w, struct mm *mm, vaddr_t va)
{
	assert_true(info(mm, va).present);
	return frame_head(w->m, frame_of(w->m, info(mm, va).pfn));
}

/* What `mm` maps at va, out. */
static inline int swap_out(struct world *w, struct mm *mm, vaddr_t va, enum swap_step last)
{
	struct frame *folio = swap_folio_at(w, mm, va);
	int rc;

	lru_add_drain_all(w->c);
	frame_get(w->c, folio);
	folio_lock(w->c, folio);
	rc = swap_out_folio(w->c, folio, last);
	folio_unlock(w->c, folio);
	frame_put(w->c, folio);
	return rc;
}

static inline struct world *swap_world(unsigned nr_cpus, uint64_t bytes, uint64_t swap_bytes)
{
	struct null_options o = { .nr_cpus = nr_cpus, .node_bytes = bytes, .swap_bytes = swap_bytes };
	struct machine *m = NULL;
	char err[200] = "";

	if (null_create(&o, &m, err, sizeof(err)))
		fail_msg("machine: %s", err);
	return world_on(m);
}

static inline uint64_t swap_used(struct world *w)
{
	uint64_t total, free;

	swap_sizes(w->q, &total, &free);
	return total - free;
}

/* No address space is left: no slot either. */
static inline void swap_world_end(struct world *w)
{
	world_check(w);
	swap_shutdown(w->q, w->c);
	assert_int_equal(swap_used(w), 0);
	world_end(w);
}

#endif
