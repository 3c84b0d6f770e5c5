/*
 * Freeing the pages of a list of isolated folios: unmap all, one flush, then free what nobody else refers to.
 *
 *   clean page of a file          dropped: it can be read again
 *   dirty page of a file          active again: writing back is not reclaim's business
 *   lazily freed and not written  dropped; a huge one is split first
 *   anonymous                     to swap: slots, unmapped, written, and dropped when that is done; active again where there are no slots
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
#include "mm/unmap.h"

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

/*
 * It goes on using memory. With slots scarce those that it has in swap are given back.
 */
static void keep(struct cpu *c, struct frame *f)
{
	if (swap_full(c->q))
		(void)folio_free_swap(c, f);
	activate(c, f);
}

/* Slots for an anonymous folio. A huge one for which there are not so many together is split: its parts go to the end of `folios`. */
static bool add_to_swap(struct cpu *c, struct frame *f, struct list_head *folios)
{
	if (!swap_possible(c->q) || frame_pinned(f))
		return false;
	int rc = folio_add_to_swap(c, f);

	if (rc && (frame_flags(f) & FRAME_HEAD) && !folio_split(c, f, NULL, folios)) {
		vmstat_inc(c, VM_thp_swpout_fallback);
		rc = folio_add_to_swap(c, f);
	}
	return !rc;
}

/* Locked. Is it a folio that nothing maps any more? */
static bool unmap(struct cpu *c, struct frame *f, struct list_head *folios, struct tlb_batch *b)
{
	uint64_t swapped = FRAME_ANON | FRAME_SWAPBACKED;

	if (!folio_evictable(f))
		return false;
	if ((frame_flags(f) & (swapped | FRAME_SWAPCACHE)) == swapped && !add_to_swap(c, f, folios)) {
		activate(c, f);
		return false;
	}
	/* Lazily freed. */
	if ((frame_flags(f) & FRAME_HEAD) && !(frame_flags(f) & FRAME_SWAPCACHE) && folio_split(c, f, NULL, folios))
		return false;
	if (folio_mapped(f) && !try_to_unmap(c, f, TTU_SPLIT_HUGE_PMD, b)) {
		keep(c, f);
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

/* The same, of the swap cache: once its contents are in its slots. While they are on their way it stays; the next look frees it. */
static bool drop_swapped(struct cpu *c, struct frame *f)
{
	uint64_t done_ns;

	if (folio_in_transfer(c, f))
		return false;
	if ((frame_flags(f) & FRAME_DIRTY) && swap_writeout(c, f, &done_ns)) {
		keep(c, f);
		return false;
	}
	if (!swap_cache_remove(c, f))
		return false;
	folio_forget_isolated(c, f);
	folio_unlock(c, f);
	frame_clear(f, FRAME_ACTIVE | FRAME_UNEVICTABLE);
	frame_put(c, f);
	return true;
}

/* Locked and unmapped, and no translation is left. */
static bool drop(struct cpu *c, struct frame *f)
{
	bool anon = (frame_flags(f) & FRAME_ANON) != 0;

	if (frame_flags(f) & FRAME_SWAPCACHE)
		return drop_swapped(c, f);
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
		uint64_t nr = frame_nr_pages(f);

		if (drop(c, f))
			freed += nr;
		else
			put_back(c, f);
	}
	machine_path(c, prev);
	return freed;
}
