/*
 * Fragmentation: how scattered a zone's free memory is, as Linux's debugfs says it (extfrag/), and putting a zone into a given
 * state of it.
 */
#ifndef QUIRE_MM_FRAGMENT_H
#define QUIRE_MM_FRAGMENT_H

#include "mm/zone.h"

/* Free blocks by order, deferred sections as the blocks that they will be. */
struct free_blocks {
	uint64_t nr[MAX_ORDER + 1];
};

/* At rest, or under z->lock. mt NR_MIGRATE_TYPES: of all types. */
void free_blocks_count(const struct zone *z, enum migrate_type mt, struct free_blocks *ret);
uint64_t free_blocks_pages(const struct free_blocks *b);

/*
 * In thousandths. unusable: the share of free memory in blocks too small for a request of this order (1000 too where nothing is
 * free). extfrag: why such a request would fail: towards 0 for lack of memory, towards 1000 for fragmentation; -1000 where it
 * would not fail, 0 where nothing is free.
 */
int unusable_index(const struct free_blocks *b, unsigned order);
int extfrag_index(const struct free_blocks *b, unsigned order);
/*
 * extfrag of a zone as it is, for who decides whether to compact or to reclaim. Takes no lock, so it is an estimate while others
 * allocate; charges the look.
 */
int zone_extfrag_index(struct cpu *c, const struct zone *z, unsigned order);

/*
 * Take memory from a zone, in single frames and blocks, until its free lists hold exactly what is given, and nothing else is free.
 * Nothing must be on per-CPU lists. What was taken is on `held`, for zone_unshape. -ENOSPC: there are too few
 * free blocks of the largest order to lay the wanted ones out apart; then nothing is changed.
 */
int zone_shape(struct cpu *c, struct zone *z, const struct free_blocks *want, struct list_head *held);
void zone_unshape(struct cpu *c, struct list_head *held);

#endif
