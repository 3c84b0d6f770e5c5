/*
 * Taking away all mappings of a folio through the reverse map, and putting them back (unmap.c).
 *
 * Between try_to_migrate and remove_migration_ptes migration entries stand where pages were mapped; whoever comes across one waits
 * until the folio is unlocked. The caller holds a reference and the folio's lock throughout.
 */
#ifndef QUIRE_MM_UNMAP_H
#define QUIRE_MM_UNMAP_H

#include "mm/rmap_walk.h"
#include "mm/tlb_batch.h"

enum ttu_flags {
	TTU_SPLIT_HUGE_PMD = 1 << 0, /* a PMD that maps the folio becomes 512 PTEs first, migration entries at once */
	TTU_RMAP_LOCKED = 1 << 1,    /* the caller holds the anon_vma's or the file's lock */
};

/*
 * Replace every mapping of the folio by a migration entry. batch NULL: each entry is flushed when it is cleared; else where another
 * CPU has used the address space the flush is left to the batch (tlb_batch.h D1: before anything depends on it, the caller calls
 * tlb_batch_flush). true: nothing maps the folio any more. false: something could not be changed, since the page is pinned or its page
 * table shared; what had been replaced stays so, until remove_migration_ptes.
 */
bool try_to_migrate(struct cpu *c, struct frame *folio, unsigned ttu_flags, struct tlb_batch *batch);

/*
 * Map dst, of as many pages, where migration entries stand for src (the same folio: undo, or after a split, one of the parts). locked:
 * the caller holds the lock of the tree that dst leads to; else he has a reference on its anon_vma, since no mapping keeps it. How many
 * entries there were.
 */
unsigned remove_migration_ptes(struct cpu *c, struct frame *src, struct frame *dst, bool locked);
/*
 * The same after a split, for one base page; the lock is held. Where it holds only zeros the shared page of zeros is mapped instead, but
 * for areas locked in memory, so that it may be freed (quire.split_zero_to_shared).
 */
unsigned remap_split_page(struct cpu *c, struct frame *page);

/*
 * Take every mapping of the folio away for good (unmap_swap.c): of a file's; of an anonymous one that is in the swap cache, swap entries
 * take its place; or one that is lazily freed and not written since. With TTU_SPLIT_HUGE_PMD for one that a PMD maps. batch: as above; to be
 * flushed before the folio is freed or, if it is dirty, written. Dirty entries make the folio dirty. The caller has its lock and one
 * reference. true: nothing maps it any more. false: something does: it is locked in memory, pinned, in a shared page table, has no slots, or
 * is lazily freed and was written: that one has FRAME_SWAPBACKED again. What had been replaced stays so.
 */
bool try_to_unmap(struct cpu *c, struct frame *folio, unsigned ttu_flags, struct tlb_batch *batch);

/* Clear the entry that w has found; old translations are gone, or the batch's owner has the duty to see to it. What it was. */
pte_t unmap_clear_pte(struct cpu *c, struct tlb_batch *batch, struct pvmw *w);

#endif
