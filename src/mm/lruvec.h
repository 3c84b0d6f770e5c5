/*
 * The lists of reclaim of one node (lru.c), after Linux's struct lruvec. lru.h says what is on which list.
 *
 * Key letters: l = under lock, a = written under lock, read without it; r = atomic, a hint.
 */
#ifndef QUIRE_MM_LRUVEC_H
#define QUIRE_MM_LRUVEC_H

#include "base/list.h"
#include "base/types.h"
#include "machine/machine.h"

enum lru_list { LRU_INACTIVE_ANON, LRU_ACTIVE_ANON, LRU_INACTIVE_FILE, LRU_ACTIVE_FILE, LRU_UNEVICTABLE, NR_LRU_LISTS };

#define LRU_ACTIVE 1 /* from an inactive list to its active one */
#define LRU_FILE 2   /* from an anonymous list to the file's */
#define NR_LRU_TYPES 2 /* anonymous, file */
#define NR_LRU_ZONES 4 /* NR_ZONES */

static inline bool lru_is_file(enum lru_list l)
{
	return l == LRU_INACTIVE_FILE || l == LRU_ACTIVE_FILE;
}

static inline bool lru_is_active(enum lru_list l)
{
	return l == LRU_ACTIVE_ANON || l == LRU_ACTIVE_FILE;
}

struct lruvec {
	struct mlock lock __attribute__((aligned(64))); /* rank LRU: one at a time */
	struct list_head list[NR_LRU_LISTS]; /* l: the newest first */
	uint64_t size[NR_LRU_LISTS];         /* a: pages */
	uint64_t zone_size[NR_LRU_ZONES][NR_LRU_LISTS]; /* a: the same by zone */
	uint64_t cost[NR_LRU_TYPES];         /* l, read without: what reclaim of each has cost of late: writes, and pages that were wanted (vmscan.c) */
	int32_t nid;                         /* constant */
	uint64_t isolated[NR_LRU_TYPES];     /* r: pages taken off the lists for a while, to be put back or freed */
};

#endif
