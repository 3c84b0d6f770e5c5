/*
 * What a system with a swap device keeps of it (swap_slots.c, swap_cache.c, swap_io.c). Part of struct quire.
 * Carved at boot, 12 bytes a slot; empty where the machine has no device.
 */
#ifndef QUIRE_MM_SWAP_STATE_H
#define QUIRE_MM_SWAP_STATE_H

#include "machine/machine.h"

#define SWAP_CLUSTER_SLOTS 512U /* of one 2 MiB page */
#define SWAP_SPACE_SHIFT 14     /* slots a tree of the swap cache: 64 MiB */

struct radix_node;

/* 512 slots. lock guards the slots' words and `used`; the list is the state's. */
struct swap_cluster {
	struct mlock lock;
	struct list_head link; /* by `on` */
	uint32_t used;         /* slots that are somebody's; grows under swap.lock only */
	uint8_t on;            /* enum swap_list */
};

enum swap_list { SWAP_LIST_NONE, SWAP_LIST_FREE, SWAP_LIST_SOME };

/* One tree of the swap cache. */
struct swap_space {
	struct mlock lock;
	struct radix_node *root;
};

/* Where a CPU takes its next slot from, so that what it puts out one after another lies together. */
struct swap_next {
	uint64_t slot; /* UINT64_MAX: nowhere yet */
} __attribute__((aligned(64)));

struct swap_state {
	uint64_t nr_slots; /* whole clusters: what is left of a device beyond them is not used */
	uint64_t nr_free;  /* atomic */
	uint32_t *map;     /* [nr_slots]: entries that name the slot, and SWAP_HAS_CACHE; 0: free */
	uint64_t *done_ns; /* [nr_slots]: when the last transfer of the folio whose first slot this is was, or will be, done */
	struct swap_cluster *cluster;
	struct swap_space *space;
	struct swap_next *next; /* [nr_cpus] */
	struct mlock lock;      /* lists of clusters */
	struct list_head free, some; /* clusters with none of their slots used, and with some */
};

#endif
