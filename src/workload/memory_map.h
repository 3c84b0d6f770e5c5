/*
 * The map of memory of a running Linux, from what it prints: /proc/iomem has ranges and holes, /proc/zoneinfo which node and zone they
 * belong to. Text of this computer or of another one; anything else is refused in one line that names file, line and value.
 *
 * What is taken from /proc/iomem: 'System RAM' lines, wherever they are nested, are memory; lines nested in them (kernel code, crash kernel,
 * reserved, ...) are reserved memory; all else is no memory. A frame that is memory in part only is none, one that is reserved in
 * part is reserved. Addresses of memory are below 64 TiB. What early boot took and gave no name (descriptors, initrd) is not in it.
 */
#ifndef QUIRE_WORKLOAD_MEMORY_MAP_H
#define QUIRE_WORKLOAD_MEMORY_MAP_H

#include "mm/memblock.h"

#include <stddef.h>

#define MEMORY_MAP_MAX_NODES 64U
#define MEMORY_MAP_MAX_BYTES (1ULL << 46)
#define MEMORY_MAP_MAX_TEXT (8U << 20)

/* A zone as /proc/zoneinfo has it, all in frames. */
struct memory_map_zone {
	int nid;
	char name[16];
	uint64_t start, spanned, present, managed;
};

struct memory_map {
	struct memblock mb; /* with room for one more reserved range a node */
	uint64_t movable[MEMORY_MAP_MAX_NODES]; /* mb.movable_start */
	unsigned nr_nodes;
	struct memory_map_zone *zone; /* [nr_zones] those with frames; none without a zoneinfo */
	unsigned nr_zones;
};

/*
 * zoneinfo NULL: all is node 0's. 0, or with one line in err -EINVAL (the text), -EACCES (addresses are hidden from who isn't root), -ENOMEM,
 * or what opening and reading said. *ret is valid in any case and to be freed by memory_map_done.
 */
ATTR_MUST_CHECK int memory_map_read(const char *iomem, const char *zoneinfo, struct memory_map *ret, char *err, size_t errlen);
void memory_map_done(struct memory_map *m);

/* Frames of memory in [lo, hi) of a node (NID_NONE: any); those of them that are reserved. */
uint64_t memory_map_frames(const struct memory_map *m, int nid, uint64_t lo, uint64_t hi, uint64_t *ret_reserved);

#endif
