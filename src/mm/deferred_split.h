/*
 * Huge pages worth splitting when memory is short (deferred_split.c): those of which parts are mapped by nobody any more, and, with
 * transparent_hugepage.shrink_underused, all others, of which some turn out to hold little but zeros. Splitting needs locks that
 * whoever unmaps or maps does not have, hence later. Gauge: len.
 *
 * A folio has FRAME_DEFERRED exactly while it is on its node's queue or in the hands of a shrinker that has not come to it yet; the link is
 * in the descriptor of its second frame. The queue's lock (RANK_LRU) guards both. It leaves when it is split or freed.
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
/* Put it there, if it isn't. partly: parts have just ceased to be mapped, for the first time; counted in thp_deferred_split_page. */
void deferred_split_folio(struct cpu *c, struct frame *folio, bool partly);
/* It is about to be split or freed. */
void deferred_split_unqueue(struct cpu *c, struct frame *folio);
/* How many could be split. */
uint64_t deferred_split_count(const struct quire *q, int nid);
/* The shrinker: try the oldest nr of a node. How many were split. Those that are neither partly mapped nor underused leave the queue for good. No locks held. */
uint64_t deferred_split_scan(struct cpu *c, int nid, uint64_t nr);
/* Lengths, links and flags. 0 or -EINVAL with q->err. */
int deferred_split_validate(struct quire *q);

#endif
