/*
 * Freeing the pages of a list of isolated folios: unmap all, one flush, then free what nobody else refers to.
 *
 *   clean page of a file          dropped: it can be read again
 *   dirty page of a file          active again: writing back is not reclaim's business
 *   lazily freed and not written  dropped; a huge one is split first
 *   anonymous                     active again, as there is no swap
 *   shared memory                 unmapped; active again if it was ever written, else dropped: it will be zero again
 *   locked in memory, pinned      put back
 * A page is freed from a reference count that is frozen: exactly the caller's, and the cache's, go from there to 0.
 */
#include "mm/reclaim.h"

#include "mm/folio_lock.h"
#include "mm/lru_int.h"
#include "mm/rmap.h"
#include "mm/rmap_walk.h"
#include "mm/split.h"
#include "mm/swap.h"

static void activate(struct cpu *c, struct frame *f)
{
	if (!folio_evictable(f) || (frame_flags(f) & FRAME_ACTIVE))
		return;
	frame_set(f, FRAME_ACTIVE);
	vmstat_add(c, VM_pgactivate, (int64_t)frame_nr_pages(f));
}

static void put_back(struct cpu *c, struct frame *f)
{
	folio_unlock(c, f);
	folio_putback_lru(c, f);
}

/* Locked. Is it a base page that nothing maps any more? A huge one's parts go to the end of `folios`. */
static bool unmap(struct cpu *c, struct frame *f, struct list_head *folios, struct tlb_batch *b)
{
	if (!folio_evictable(f))
		return false;
	if ((frame_flags(f) & (FRAME_ANON | FRAME_SWAPBACKED)) == (FRAME_ANON | FRAME_SWAPBACKED) && !swap_possible(c->q)) {
		activate(c, f);
		return false;
	}
	if ((frame_flags(f) & FRAME_HEAD) && folio_split(c, f, NULL, folios))
		return false;
	if (folio_mapped(f) && !try_to_unmap(c, f, b)) {
		activate(c, f);
		return false;
	}
	return true;
}

static bool freeze_anon(struct cpu *c, struct frame *f)
{
	int32_t refs = 1;

	frame_touch(c, f, TOUCH_ATOMIC);
	return __atomic_compare_exchange_n(&f->refcount, &refs, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Locked and unmapped, and no translation is left. */
static bool drop(struct cpu *c, struct frame *f)
{
	bool anon = (frame_flags(f) & FRAME_ANON) != 0;

	if (!anon && (frame_flags(f) & FRAME_DIRTY)) {
		activate(c, f);
		return false;
	}
	if (anon ? !freeze_anon(c, f) : !file_drop(c, f))
		return false;
	if (anon)
		vmstat_inc(c, VM_pglazyfreed);
	folio_forget_isolated(c, f);
	folio_unlock(c, f);
	frame_clear(f, FRAME_ACTIVE | FRAME_UNEVICTABLE);
	page_free(c, f, 0);
	return true;
}

ATTR_NOINLINE uint64_t reclaim_folio_list(struct cpu *c, struct list_head *folios)
{
	enum machine_path prev = machine_work(c, PATH_RECLAIM, 0);
	struct list_head unmapped;
	struct tlb_batch b;
	uint64_t freed = 0;

	list_init(&unmapped);
	tlb_batch_begin(&b);
	while (!list_empty(folios)) {
		struct frame *f = list_first_entry(folios, struct frame, lru);

		(void)machine_work(c, PATH_RECLAIM, 1);
		list_del(&f->lru);
		if (!folio_trylock(c, f))
			folio_putback_lru(c, f);
		else if (unmap(c, f, folios, &b))
			list_add_tail(&f->lru, &unmapped);
		else
			put_back(c, f);
	}
	tlb_batch_flush(c, &b);
	tlb_batch_end(&b);
	while (!list_empty(&unmapped)) {
		struct frame *f = list_first_entry(&unmapped, struct frame, lru);

		list_del(&f->lru);
		if (drop(c, f))
			freed++;
		else
			put_back(c, f);
	}
	machine_path(c, prev);
	return freed;
}
