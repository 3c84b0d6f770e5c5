/*
 * A radix tree from page index to frame: the page cache of one file (radix.c). 64 slots a node, nodes from SLAB_RADIX.
 *
 * Changes need the file's lock. Lookups need none: the root and each slot are published whole, and a node lives until
 * radix_free, which only the file's last user calls. So an emptied node stays (a truncated file keeps its tree until
 * it is dropped).
 */
#ifndef QUIRE_MM_RADIX_H
#define QUIRE_MM_RADIX_H

#include "mm/frame.h"

#define RADIX_SHIFT 6
#define RADIX_SLOTS (1U << RADIX_SHIFT)

struct radix_node {
	uint32_t shift; /* index bits below this node's: 0 at the lowest level, whose slots are frames */
	uint32_t pad;
	void *slots[RADIX_SLOTS];
};

struct frame *radix_lookup(struct cpu *c, struct radix_node *const *root, uint64_t index);
/* The first entry at or after *index, which is set to its place. NULL: none. c NULL: uncharged, for validators. */
struct frame *radix_next(struct cpu *c, struct radix_node *const *root, uint64_t *index);
/*
 * So many nodes at hand on this CPU as one insertion may need, so that it does not go to the page allocator, which may sleep, while
 * the caller has a spinlock. 0 or -ENOMEM.
 */
ATTR_MUST_CHECK int radix_preload(struct cpu *c);
/* 0, -EEXIST or -ENOMEM (the tree is then as before but for empty nodes). */
int radix_insert(struct cpu *c, struct radix_node **root, uint64_t index, struct frame *f);
/* Takes an entry out and returns it; NULL: there was none. */
struct frame *radix_erase(struct cpu *c, struct radix_node **root, uint64_t index);
/* Another frame in place of the one that is there. */
void radix_replace(struct cpu *c, struct radix_node **root, uint64_t index, struct frame *f);
/* Free all nodes of a tree without entries. */
void radix_free(struct cpu *c, struct radix_node **root);

#endif
