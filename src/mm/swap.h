/*
 * Taking a folio out of use for good: its mappings, and (with a swap device) its contents. Counterpart of unmap.h, which only moves.
 * Source: the kernel's documentation of page reclaim.
 */
#ifndef QUIRE_MM_SWAP_H
#define QUIRE_MM_SWAP_H

#include "mm/tlb_batch.h"

struct quire;

/* Is there a slot to be had? Where not, pages that are backed by swap only stay. There is no swap yet: false. */
bool swap_possible(const struct quire *q);

/*
 * Take away every mapping of a base page: of a file, or anonymous and lazily freed (FRAME_LAZYFREE). The caller has isolated it, and has its lock
 * and no other reference. Flushes that concern other CPUs are put off to the batch (tlb_batch.h D1). Dirty entries make the folio dirty. true: nothing maps
 * it any more. false: locked in memory, pinned, in a shared page table, of another kind, or lazily freed and written since: that one
 * has FRAME_SWAPBACKED again and stays.
 */
bool try_to_unmap(struct cpu *c, struct frame *folio, struct tlb_batch *batch);

#endif
