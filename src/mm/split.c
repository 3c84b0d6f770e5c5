/*
 * Splitting a compound folio into base pages.
 *
 *   1  the anon_vma's lock for writing: no mapping appears or moves meanwhile
 *   2  references that mappings do not explain: somebody uses the folio, nothing is done
 *   3  every mapping becomes migration entries, a PMD 512 of them at once (unmap.c). Flushes: quire.split_flush=each: with every
 *      entry; batched: those that concern other CPUs are put off...
 *   4  ... and done once here, before anything depends on nobody reaching the folio any more
 *   5  the reference count is frozen: from its expected value to 0. Who took a reference meanwhile has won: everything is put back
 *   6  each frame becomes a folio: flags, order and place first, then its reference (frame.h F6)
 *   7  migration entries become mappings of the small folios, or of the shared page of zeros where they hold nothing else; these are unlocked, and the split's reference on each goes
 *
 * A failure after step 3 has paid for the flush and restores entries as they were.
 * Locks: the folio's lock, then the anon_vma's for writing; the deferred queue's inside.
 */
#include "mm/split.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/anon_vma.h"
#include "mm/deferred_split.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/rmap.h"
#include "mm/swap.h"
#include "mm/unmap.h"

/* What every part of the folio has in common with the whole. */
#define SPLIT_KEEP                                                                                                      \
	(FRAME_ANON | FRAME_SWAPBACKED | FRAME_DIRTY | FRAME_REFERENCED | FRAME_ACTIVE | FRAME_LAZYFREE | FRAME_WORKINGSET | FRAME_SWAPCACHE | FRAME_LOCKED)

/* Of the folio itself: where it is among the lists of reclaim. */
#define SPLIT_KEEP_PLACE (FRAME_LRU | FRAME_UNEVICTABLE | FRAME_ISOLATED)

bool folio_can_split(const struct frame *folio)
{
	return frame_refcount(folio) == folio_expected_refs(folio) + 1;
}

static void unmap_all(struct cpu *c, struct frame *folio)
{
	unsigned flags = TTU_SPLIT_HUGE_PMD | TTU_RMAP_LOCKED;
	struct tlb_batch batch;

	if (c->q->knobs.split_flush == SPLIT_FLUSH_EACH) {
		(void)try_to_migrate(c, folio, flags, NULL);
		return;
	}
	tlb_batch_begin(&batch);
	(void)try_to_migrate(c, folio, flags, &batch); /* what remains mapped makes the freeze fail */
	tlb_batch_flush(c, &batch);
	tlb_batch_end(&batch);
}

/* Take all references away, if they are as many as expected. */
static bool freeze(struct cpu *c, struct frame *folio, int32_t expected)
{
	frame_touch(c, folio, TOUCH_ATOMIC);
	return __atomic_compare_exchange_n(&folio->refcount, &expected, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* The folio, which nobody can reach, becomes n folios, locked, with one reference each, and one of the swap cache's, if it has them. */
ATTR_NOINLINE static void split_frames(struct cpu *c, struct frame *folio, uint64_t n, bool parts)
{
	bool cached = frame_flags(folio) & FRAME_SWAPCACHE;
	uint64_t slot = cached ? folio_swap_slot(folio) : 0, keep = frame_flags(folio) & SPLIT_KEEP;

	(void)machine_work(c, PATH_SPLIT_FRAMES, n);
	deferred_split_unqueue(c, folio);
	ASSERT(folio->entire_mapcount == -1 && folio->nr_pages_mapped == 0 && folio->nr_locked == 0 && folio->nr_pins == 0);
	for (uint64_t i = 1; i < n; i++) {
		struct frame *f = folio + i;

		ASSERT(f->mapcount == -1);
		f->mapping = folio->mapping;
		f->index = folio->index + i;
		f->priv = 0;
		f->swap_slot = cached ? slot + i : 0;
		list_init(&f->lru);
		frame_flags_put(f, (frame_flags(f) & FRAME_PLACE_MASK) | keep);
		__atomic_store_n(&f->refcount, 1 + cached, __ATOMIC_RELEASE);
	}
	machine_touch(c, frame_desc_pa(c->q, folio + 1), (n - 1) * sizeof(*folio), TOUCH_WRITE);
	folio->swap_slot = slot;
	frame_clear(folio, ~(FRAME_PLACE_MASK | SPLIT_KEEP | SPLIT_KEEP_PLACE | FRAME_WAITERS)); /* others may begin to wait for it meanwhile */
	lru_split(c, folio, (unsigned)n, parts);
	__atomic_store_n(&folio->refcount, 1 + cached, __ATOMIC_RELEASE);
	frame_touch(c, folio, TOUCH_WRITE);
}

/* Every part but `keep` is given to the caller or let go. */
static void release_parts(struct cpu *c, struct frame *folio, uint64_t n, struct frame *keep, struct list_head *parts)
{
	for (uint64_t i = 0; i < n; i++) {
		if (folio + i == keep)
			continue;
		folio_unlock(c, folio + i);
		if (parts)
			list_add_tail(&folio[i].lru, parts);
		else
			folio_put_swap(c, folio + i);
	}
}

static int split_locked(struct cpu *c, struct frame *folio, bool parts)
{
	uint64_t n = frame_nr_pages(folio);

	if (!folio_can_split(folio) || folio_in_transfer(c, folio))
		return -EAGAIN;
	unmap_all(c, folio);
	machine_path(c, PATH_SPLIT_FOLIO);
	swap_cache_split_begin(c, folio);
	bool frozen = !folio_mapped(folio) && freeze(c, folio, folio_expected_refs(folio) + 1);

	if (frozen && unlikely(c->q->check_unreachable != NULL))
		c->q->check_unreachable(c->q->check_arg, c, folio, n);
	if (frozen)
		split_frames(c, folio, n, parts);
	swap_cache_split_end(c, folio);
	if (!frozen) {
		remove_migration_ptes(c, folio, folio, true);
		return -EAGAIN;
	}
	for (uint64_t i = 0; i < n; i++)
		remap_split_page(c, folio + i);
	return 0;
}

ATTR_NOINLINE int folio_split(struct cpu *c, struct frame *folio, struct frame *keep, struct list_head *parts)
{
	uint64_t n = frame_nr_pages(folio);
	enum machine_path prev = machine_work(c, PATH_SPLIT_FOLIO, n);
	struct anon_vma *av = NULL;
	int rc = -EINVAL;

	ASSERT(folio_locked(folio));
	if ((frame_flags(folio) & (FRAME_HEAD | FRAME_ANON)) == (FRAME_HEAD | FRAME_ANON) &&
	    !(frame_flags(folio) & (FRAME_HUGETLB | FRAME_HUGE_ZERO))) {
		rc = -EBUSY;
		av = folio_get_anon_vma(c, folio);
	}
	if (av) {
		machine_write_lock(c, &av->root->lock);
		rc = split_locked(c, folio, parts != NULL);
		machine_write_unlock(c, &av->root->lock);
		anon_vma_put(c, av);
	}
	if (!rc)
		release_parts(c, folio, n, keep ? keep : folio, parts);
	vmstat_inc(c, rc ? VM_thp_split_page_failed : VM_thp_split_page);
	machine_path(c, prev);
	return rc;
}
