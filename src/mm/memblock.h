/*
 * The map of memory as firmware and early boot know it: ranges of frames that exist, each on a node, and ranges of them that are taken.
 * What boot-time descriptor initialisation (meminit.h) walks. Storage is the caller's; nothing is allocated.
 *
 * Invariants (memblock_validate)
 *  M1 A list's ranges are not empty, ordered and apart; neighbours that touch are of different nodes.
 *  M2 Of the memory list, ranges of different nodes share no block of the largest order: a buddy never lies on another node.
 * No locks: it changes during boot only, by one CPU, and is read by many after that. A range that is hot-added or removed is its caller's
 * to keep out of what a worker still walks.
 */
#ifndef QUIRE_MM_MEMBLOCK_H
#define QUIRE_MM_MEMBLOCK_H

#include "mm/zone.h"

#define MEMBLOCK_NONE (~0ULL)

struct memblock_region {
	uint64_t start, end; /* frames */
	int nid;
};

struct memblock_list {
	struct memblock_region *r; /* [max] */
	unsigned nr, max;
};

struct memblock {
	struct memblock_list memory, reserved;
	uint64_t dma32_end;      /* frames below are DMA32, a multiple of the largest block; 0: there is no such zone */
	uint64_t *movable_start; /* [nodes] frames of the node from here on are MOVABLE, the same multiple; NULL or 0: none */
};

/*
 * Add or remove [start, end). What is there already keeps its node. Merges with neighbours of the same node; splits. 0, -EINVAL (an empty
 * range), or -ENOMEM when the list has no room: then nothing has changed.
 */
ATTR_MUST_CHECK int memblock_add(struct memblock_list *l, uint64_t start, uint64_t end, int nid);
ATTR_MUST_CHECK int memblock_remove(struct memblock_list *l, uint64_t start, uint64_t end);
/* The range that frame p is in, or NULL. */
const struct memblock_region *memblock_find(const struct memblock_list *l, uint64_t p);
/* M1, and M2 where `nodes`. 0 or -EINVAL. */
int memblock_validate(const struct memblock_list *l, bool nodes);

/* Where a walk over free ranges stands; all zero: at the beginning. */
struct memblock_iter {
	unsigned m, r;
};

/* The next part of [lo, hi) that is memory of nid (NID_NONE: any) and not reserved. hi > lo must not go back from call to call. */
bool memblock_next_free(const struct memblock *mb, struct memblock_iter *it, int nid, uint64_t lo, uint64_t hi, uint64_t *ret_start,
			uint64_t *ret_end);

/* Which zone a frame of a node's memory belongs to. */
enum zone_type memblock_zone(const struct memblock *mb, int nid, uint64_t p);
/* From the first to behind the last frame of a node's memory in a zone; both 0 where it has none. */
void memblock_zone_span(const struct memblock *mb, int nid, enum zone_type t, uint64_t *ret_start, uint64_t *ret_end);

#endif
