/*
 * Where a simulated machine's memory lives in this process: sparse mappings that cost memory only where they are touched.
 *
 *   m->direct    max_pfn * 4096 bytes   contents of kernel frames (page tables, slabs), zero when first touched
 *   m->memmap    max_pfn * 64 bytes     frame descriptors, zero; aligned so that a section's descriptors are 2 MiB of their own
 *   m->tags      max_pfn * 8 bytes      content tags, zero; only when asked for, else NULL
 */
#ifndef QUIRE_MACHINE_ARENA_H
#define QUIRE_MACHINE_ARENA_H

#include "machine/machine.h"

/*
 * Sets m->max_pfn, direct, memmap and tags. 0, or -EINVAL (no frames, or more than can be mapped), -ENOMEM (refused by the
 * kernel: overcommit or a limit) with one line in err; then m's four fields are 0 and NULL.
 */
ATTR_MUST_CHECK int machine_arena_create(struct machine *m, uint64_t max_pfn, bool tags, char *err, size_t errlen);
/* Unmaps all of it. Harmless on a machine without an arena. */
void machine_arena_destroy(struct machine *m);

#endif
