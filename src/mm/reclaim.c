/*
 * Freeing the pages of a list of isolated folios: unmap all, one flush, then free what nobody else refers to.
 *
 *   clean page of a file          dropped: it can be read again
 *   dirty page of a file          active again: writing back is not reclaim's business. One that was written back, too: a file has no bytes of
 *                                 its own that would give it back
 *   lazily freed and not written  dropped; a huge one is split first
 *   anonymous                     to swap: slots, unmapped, written, and dropped when that is done; active again where there are no slots
 *   shared memory                 unmapped; active again if it was ever written, else dropped: it will be zero again
 *   locked in memory, pinned      put back
 *   used since it was last asked  (for a scan of the lists) active, or put back for another round
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

struct shrink {
	struct list_head *folios;
	const struct scan_control *sc; /* NULL: everything goes */
	struct reclaim_stat *stat;
	struct tlb_batch batch;
	struct list_head unmapped, keep, rotate; /* rotate: to the end of their list */
};

static void activate(struct cpu *c, struct shrink *s, struct frame *f)
{
	if (!folio_evictable(f) || (frame_flags(f) & FRAME_ACTIVE))
		return;
	frame_set(f, FRAME_ACTIVE);
	vmstat_add(c, VM_pgactivate, (int64_t)frame_nr_pages(f));
	s->stat->activated += frame_nr_pages(f);
}

static void keep(struct cpu *c, struct shrink *s, struct frame *f)
{
	folio_unlock(c, f);
	list_add_tail(&f->lru, &s->keep);
}

/*
 * Was it used of late? Twice, or by several, or as code: it becomes active. Once: it stays for another round. What a file's page was used for
 * by calls is worth no round.
 */
static bool stays_for_use(struct cpu *c, struct shrink *s, struct frame *f)
{
	uint64_t vm_flags;
	int entries = folio_referenced(c, f, &vm_flags);
	bool before = (frame_flags(f) & FRAME_REFERENCED) != 0;

	frame_clear(f, FRAME_REFERENCED);
	if (vm_flags & VM_LOCKED)
		return true; /* who locks it moves it */
	if (!entries)
		return false;
	frame_set(f, FRAME_REFERENCED);
	if (before || entries > 1 || ((vm_flags & VM_EXEC) && folio_is_file_lru(f)))
		activate(c, s, f);
	return true;
}

/*
 * It goes on using memory. With slots scarce those that it has in swap are given back.
 */
static void keep_active(struct cpu *c, struct shrink *s, struct frame *f)
{
	if (swap_full(c->q))
		(void)folio_free_swap(c, f);
	activate(c, s, f);
}

/* Slots for an anonymous folio. A huge one for which there are not so many together is split: its parts go to the end of the list. */
static bool add_to_swap(struct cpu *c, struct shrink *s, struct frame *f)
{
	if (!swap_possible(c->q) || frame_pinned(f))
		return false;
	int rc = folio_add_to_swap(c, f);

	if (rc && (frame_flags(f) & FRAME_HEAD) && !folio_split(c, f, NULL, s->folios)) {
		vmstat_inc(c, VM_thp_swpout_fallback);
		rc = folio_add_to_swap(c, f);
	}
	return !rc;
}

/* Locked. Is it a folio that nothing maps any more? */
static bool unmap(struct cpu *c, struct shrink *s, struct frame *f)
{
	uint64_t swapped = FRAME_ANON | FRAME_SWAPBACKED;

	/* A file's page that has left the cache meanwhile: whose it was is not to be asked any more. */
	if (!folio_evictable(f) || !(frame_flags(f) & (FRAME_ANON | FRAME_FILE)))
		return false;
	if (s->sc && stays_for_use(c, s, f))
		return false;
	if ((frame_flags(f) & (swapped | FRAME_SWAPCACHE)) == swapped && !add_to_swap(c, s, f)) {
		activate(c, s, f);
		return false;
	}
	/* Lazily freed. */
	if ((frame_flags(f) & FRAME_HEAD) && !(frame_flags(f) & FRAME_SWAPCACHE) && folio_split(c, f, NULL, s->folios))
		return false;
	if (folio_mapped(f) && !try_to_unmap(c, f, TTU_SPLIT_HUGE_PMD, &s->batch)) {
		keep_active(c, s, f);
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
static bool drop_swapped(struct cpu *c, struct shrink *s, struct frame *f)
{
	uint64_t done_ns;

	if (folio_in_transfer(c, f))
		return false;
	if (frame_flags(f) & FRAME_DIRTY) {
		if (swap_writeout(c, f, &done_ns)) {
			keep_active(c, s, f);
			return false;
		}
		s->stat->pageout += frame_nr_pages(f);
	}
	if (!swap_cache_remove(c, f))
		return false;
	folio_forget_isolated(c, f);
	folio_unlock(c, f);
	frame_clear(f, FRAME_ACTIVE | FRAME_UNEVICTABLE | FRAME_REFERENCED | FRAME_WORKINGSET);
	frame_put(c, f);
	return true;
}

/* Locked and unmapped, and no translation is left. */
static bool drop(struct cpu *c, struct shrink *s, struct frame *f)
{
	bool anon = (frame_flags(f) & FRAME_ANON) != 0;

	if (frame_flags(f) & FRAME_SWAPCACHE)
		return drop_swapped(c, s, f);
	if (!anon && (frame_flags(f) & (FRAME_DIRTY | FRAME_REWRITTEN))) {
		activate(c, s, f);
		return false;
	}
	if (anon ? !freeze_anon(c, f) : !file_drop(c, f))
		return false;
	if (anon)
		vmstat_inc(c, VM_pglazyfreed);
	folio_forget_isolated(c, f);
	folio_unlock(c, f);
	frame_clear(f, FRAME_ACTIVE | FRAME_UNEVICTABLE | FRAME_REFERENCED | FRAME_WORKINGSET);
	page_free(c, f, 0);
	return true;
}

/* Unmapped, and on its way to its slots: whoever looks at the list's end next finds it first. */
static bool rotates(struct cpu *c, struct shrink *s, struct frame *f)
{
	if (!s->sc || !(frame_flags(f) & FRAME_SWAPCACHE) || (frame_flags(f) & FRAME_ACTIVE) || !folio_in_transfer(c, f))
		return false;
	s->stat->in_transfer += frame_nr_pages(f);
	s->stat->done_ns = MAX(s->stat->done_ns, __atomic_load_n(&c->q->swap.done_ns[folio_swap_slot(f)], __ATOMIC_RELAXED));
	return true;
}

static void rotate(struct cpu *c, struct shrink *s, struct frame *f)
{
	folio_unlock(c, f);
	list_add_tail(&f->lru, &s->rotate);
}

static void unmap_all(struct cpu *c, struct shrink *s)
{
	while (!list_empty(s->folios)) {
		struct frame *f = list_first_entry(s->folios, struct frame, lru);

		(void)machine_work(c, PATH_RECLAIM, 1);
		list_del(&f->lru);
		if (!folio_trylock(c, f))
			list_add_tail(&f->lru, &s->keep);
		else if (unmap(c, s, f))
			list_add_tail(&f->lru, &s->unmapped);
		else
			keep(c, s, f);
	}
}

ATTR_NOINLINE uint64_t reclaim_folio_list(struct cpu *c, struct list_head *folios, const struct scan_control *sc, struct reclaim_stat *stat)
{
	enum machine_path prev = machine_work(c, PATH_RECLAIM, 0);
	struct shrink s = { .folios = folios, .sc = sc, .stat = stat };

	*stat = (struct reclaim_stat){ 0 };
	list_init(&s.unmapped);
	list_init(&s.keep);
	list_init(&s.rotate);
	tlb_batch_begin(&s.batch);
	unmap_all(c, &s);
	tlb_batch_flush(c, &s.batch);
	tlb_batch_end(&s.batch);
	while (!list_empty(&s.unmapped)) {
		struct frame *f = list_first_entry(&s.unmapped, struct frame, lru);

		list_del(&f->lru);
		uint64_t nr = frame_nr_pages(f);

		if (drop(c, &s, f))
			stat->reclaimed += nr;
		else if (rotates(c, &s, f))
			rotate(c, &s, f);
		else
			keep(c, &s, f);
	}
	lru_putback_list(c, &s.keep, false);
	lru_putback_list(c, &s.rotate, true);
	machine_path(c, prev);
	return stat->reclaimed;
}
