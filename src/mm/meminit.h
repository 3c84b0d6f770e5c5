/*
 * Boot-time initialisation of frame descriptors: every step that Linux published between 2018 and 2025, behind quire.memmap_init, and
 * hot-plugged memory behind quire.hotplug_init. What comes out is the same for all of them, byte for byte:
 *
 *   free frame       place (zone, node), no reference, mapcount -1, lru linked to itself; the first frame of a block is on a free list
 *   reserved frame   place, FRAME_RESERVED, one reference, mapcount -1, lru linked to itself
 *   absent frame     as reserved, where its block of the largest order has memory; else never touched
 *
 * The machine's own memory is not booted this way (memmap.c writes its descriptors when they are needed): this works on any map and array
 * of descriptors, by any number of workers.
 *
 * Invariants
 *  I1 A descriptor is written before it is read: when a block is freed, all of the block of the largest order around it is initialised.
 *  I2 first_deferred is the first frame that nobody has begun with, or MEMBLOCK_NONE once a worker took over or nothing is left. Who
 *     takes frames moves it under the node's lock first, so no frame is initialised twice.
 *  I3 first_deferred is at a section boundary, but for the zone's start.
 * Locks: meminit_node.lock (rank LRU) for first_deferred and the job; meminit_zone.lock (rank ZONE) for free lists.
 */
#ifndef QUIRE_MM_MEMINIT_H
#define QUIRE_MM_MEMINIT_H

#include "mm/alloc_int.h"
#include "mm/memblock.h"

#define MEMINIT_POISON (~0ULL) /* tests: flags word of a descriptor that nobody may read yet */

struct meminit_zone {
	int nid;
	unsigned type;       /* enum zone_type; ZONE_DEVICE has no free lists */
	uint64_t start, end; /* frames */
	paddr_t pa;          /* modelled address of this structure */
	struct mlock lock __attribute__((aligned(64)));
	struct list_head free[MAX_ORDER + 1];
	uint64_t nr_free[MAX_ORDER + 1];
	uint64_t top[MAX_ORDER + 1]; /* the block last put on a list: where descriptors have no lasting place, this is all there is of it */
	uint64_t free_pages;
} __attribute__((aligned(64)));

struct meminit_node {
	struct mlock lock;
	uint64_t first_deferred;    /* I2; written under lock, atomic */
	unsigned deferred;          /* zone type that is initialised late: the last one with memory */
	uint64_t job_start;         /* where the worker that took over began */
	uint64_t job_next, job_end; /* frames that are still to be handed out; of the part that workers are at */
	bool begun;                 /* somebody has taken over what boot left: nobody else may */
	unsigned job_pass;          /* 0, and in steps that go over the whole node twice 1: the frames are freed */
	unsigned job_busy;          /* pieces being worked on */
	uint64_t initialised, freed; /* atomic: frames so far */
	paddr_t desc_pa;            /* modelled address of the descriptor of frame desc_base */
	uint64_t desc_base;
	struct meminit_zone zone[NR_ZONES];
} __attribute__((aligned(64)));

struct meminit {
	struct machine *m;
	const struct memblock *mb;
	unsigned nr_nodes;
	struct meminit_node *node; /* [nr_nodes] */
	uint8_t *section;          /* [sections] 1: the section has memory; by frame number, from 0 */
	uint32_t step;             /* enum memmap_init */
	uint32_t hotplug;          /* enum hotplug_init */
	bool transient;            /* descriptors do not last (meminit_worker.mask): free lists are counted, not linked */
	bool find_poison;          /* tests: count reads of MEMINIT_POISON */
	uint64_t poison_read;
	uint64_t block, block_shift; /* tests: frames a chunk, and by how many its limits are off; 0: the largest order */
};

/*
 * Who initialises: its CPU, and where it sees descriptors. On the model a section's descriptors can be represented once: `mask` then
 * makes all sections lie at the same place, and charges go to the addresses of each.
 */
struct meminit_worker {
	struct meminit *mi;
	struct cpu *c;
	struct frame *desc;  /* of frame `base` */
	uint64_t base, mask; /* mask ~0: every frame has its own */
	uint64_t window;     /* transient: the section that desc holds, plus 1, times 2, plus pass */
	struct memblock_region cache; /* the range that the last node test found */
};

static inline struct frame *meminit_desc(const struct meminit_worker *w, uint64_t p)
{
	return w->desc + ((p - w->base) & w->mask);
}

/*
 * Set up over a map: zones, markers, sections. mi->m, mb, nr_nodes, node, section, step, hotplug are set. -EINVAL: the map breaks M1 or M2,
 * or a zone's limit is no multiple of the largest block.
 */
ATTR_MUST_CHECK int meminit_setup(struct meminit *mi);
/* Reserved frames, and those that are absent from blocks with memory; then the zones of a node that are not deferred. */
void meminit_early(struct meminit_worker *w, int nid);

/* What may be done by one CPU a node, and what by several. */
bool meminit_is_parallel(uint32_t step);
/* Take over what is deferred. False: nothing was left, or somebody else has. */
bool meminit_begin(struct meminit_worker *w, int nid);
/* Do a piece of it, up to a section. 1: there is more, 0: nothing left to take, -EAGAIN: others have to finish first. */
int meminit_piece(struct meminit_worker *w, int nid);
/* All taken and done? */
bool meminit_done(struct meminit *mi, int nid);

/*
 * An allocation of so many frames found too little: initialise as many, up to a section boundary. False: nothing was deferred any more,
 * waiting and trying again are useless.
 */
bool meminit_grow(struct meminit_worker *w, int nid, uint64_t frames);

/* A block from a node's free lists, or MEMBLOCK_NONE; giving it back. Not with transient descriptors. */
uint64_t meminit_alloc(struct meminit_worker *w, int nid, unsigned order);
void meminit_free(struct meminit_worker *w, int nid, uint64_t p, unsigned order);

/* ---- meminit_hotplug.c: [start, start + n), multiples of a section, which nobody else deals with ---- */
/* Initialise descriptors: reserved, and for ZONE_DEVICE with `pgmap` in place of a list link. */
void meminit_hot_add(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n, void *pgmap);
/* Give them to the free lists. */
void meminit_online(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n);
/*
 * Take all frames off the free lists and forget them. -EBUSY: some are in use, nothing has changed. Device memory is on no list: its frames
 * must have no references but the first.
 */
ATTR_MUST_CHECK int meminit_hot_remove(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n);

/* ---- meminit_gigantic.c ---- */
#define MEMINIT_KEPT (PAGE_SIZE / sizeof(struct frame)) /* descriptors in the one frame that is kept */
/* A page of 2^order frames, nobody else's: all of its descriptors, or those that stay when the rest will be shared. */
void meminit_gigantic(struct meminit_worker *w, int nid, unsigned zone, uint64_t head, unsigned order, bool shared);
/* Sharing failed: those that were skipped. */
void meminit_gigantic_rest(struct meminit_worker *w, int nid, unsigned zone, uint64_t head, unsigned order);

/* ---- meminit_run.c: loops over descriptors, without charges ---- */
void meminit_run_memset(struct frame *f, uint64_t n, uint64_t flags);
void meminit_run_words(struct frame *f, uint64_t n, uint64_t flags);
/* In the state of a free frame at once; the second by stores past the caches. */
void meminit_run_free(struct frame *f, uint64_t n, uint64_t flags);
void meminit_run_free_nt(struct frame *f, uint64_t n, uint64_t flags);
/* The same in parts: who lets others see the descriptors fences first. */
void meminit_run_stream(struct frame *f, uint64_t n, uint64_t flags);
void meminit_stream_fence(void);
/* Hot-plugged: the last first; pgmap or, where it is NULL, a list link; the reserved bit in the store of the flags, or set afterwards. */
void meminit_run_backwards(struct frame *first, uint64_t n, uint64_t flags, void *pgmap, bool folded);
void meminit_one_memset(struct frame *f, uint64_t flags);
void meminit_one_words(struct frame *f, uint64_t flags);
/* Zeroing one descriptor of 56, 64, 72 or 80 bytes by word stores. False: no such size. */
bool meminit_zero_sized(void *p, size_t size);

/* ---- shared by the files ---- */
static inline uint64_t meminit_place(unsigned type, int nid)
{
	return ((uint64_t)type << FRAME_ZONE_SHIFT) | ((uint64_t)nid << FRAME_NID_SHIFT);
}

void meminit_charge(struct meminit_worker *w, int nid, enum machine_path path, uint64_t p, uint64_t n);
/* z->lock held: merge with free buddies, put on a list. */
void meminit_insert(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order);
void meminit_delete(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order);
/* Free [s, e): naturally aligned pageblocks in one go, the rest frame by frame. */
void meminit_free_range(struct meminit_worker *w, struct meminit_zone *z, uint64_t s, uint64_t e);

#endif
