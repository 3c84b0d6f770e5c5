/*
 * Huge pages of which parts are mapped by nobody any more: kept on their node's queue, so that the unmapped parts can be had back when
 * memory is short (deferred_split.c). Gauge: len. Splitting needs locks that whoever unmaps does not have, hence later.
 *
 * A folio is on its node's queue exactly while it has FRAME_DEFERRED; the link is in the descriptor of its second frame. The queue's
 * lock (RANK_LRU) guards both. A folio leaves it when it is split or freed.
 */
#ifndef QUIRE_MM_DEFERRED_SPLIT_H
#define QUIRE_MM_DEFERRED_SPLIT_H

#include "mm/frame.h"

struct deferred_queue {
	struct mlock lock;
	struct list_head list;
	uint64_t len;
};

void deferred_split_boot(struct quire *q);
/* The folio is worth splitting when memory is short. Counted in thp_deferred_split_page when it was not on the queue yet. */
void deferred_split_folio(struct cpu *c, struct frame *folio);
/* It is about to be split or freed. */
void deferred_split_unqueue(struct cpu *c, struct frame *folio);
/* How many could be split. */
uint64_t deferred_split_count(const struct quire *q, int nid);
/* The shrinker: try the oldest nr of a node. How many were split. No locks held. */
uint64_t deferred_split_scan(struct cpu *c, int nid, uint64_t nr);
/* Lengths, links and flags. 0 or -EINVAL with q->err. */
int deferred_split_validate(struct quire *q);

#endif
