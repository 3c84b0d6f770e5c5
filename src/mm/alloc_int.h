/*
 * What the files of the page allocator share: memmap.c, zone.c, buddy.c, pcp.c, page_alloc.c, alloc_slow.c,
 * frame.c, memory_validate.c.
 */
#ifndef QUIRE_MM_ALLOC_INT_H
#define QUIRE_MM_ALLOC_INT_H

#include "mm/system.h"

#define DMA32_END_PFN (1ULL << (32 - PAGE_SHIFT))
#define KERNEL_IMAGE_BYTES (16ULL << 20) /* kernel image and its own page tables, at the start of node 0 */
#define PAGEBLOCK_FRAMES (1ULL << PAGEBLOCK_ORDER)
#define MAX_ORDER_FRAMES (1ULL << MAX_ORDER)

/* The bits of the flags word that stay with a frame for good. */
#define FRAME_PLACE_MASK ((0xfULL << FRAME_ZONE_SHIFT) | (0xffULL << FRAME_NID_SHIFT))

static inline uint64_t zone_place(const struct zone *z)
{
	return ((uint64_t)z->type << FRAME_ZONE_SHIFT) | ((uint64_t)z->nid << FRAME_NID_SHIFT);
}

static inline struct zone *frame_zone_of(const struct quire *q, const struct frame *f)
{
	return &q->nodes[frame_nid(f)].zones[frame_zone(f)];
}

static inline enum migrate_type frame_mt(const struct frame *f)
{
	return (enum migrate_type)((frame_flags(f) >> FRAME_MT_SHIFT) & 0xf);
}

static inline enum migrate_type gfp_migrate_type(unsigned gfp)
{
	return gfp & GFP_MOVABLE ? MIGRATE_MOVABLE : gfp & GFP_RECLAIMABLE ? MIGRATE_RECLAIMABLE : MIGRATE_UNMOVABLE;
}

static inline uint8_t *pageblock_of(const struct zone *z, uint64_t pfn_v)
{
	return z->pageblock_mt + ((pfn_v - z->start_pfn) >> PAGEBLOCK_ORDER);
}

/* Without the zone's lock it may be out of date; then a frame ends up on another type's list, no more. */
static inline enum migrate_type pageblock_type(const struct zone *z, uint64_t pfn_v)
{
	return (enum migrate_type)(__atomic_load_n(pageblock_of(z, pfn_v), __ATOMIC_RELAXED) & ~PAGEBLOCK_SKIP);
}

/* ---- memmap.c ---- */
/*
 * A boot-time structure of nid's memory (node 0's where nid has none left), zeroed; NULL: no room. align a power of
 * two.
 */
void *boot_carve(struct quire *q, int nid, size_t size, size_t align);
/* Modelled address at which boot-time structures of a node must end. */
paddr_t node_boot_limit(const struct machine_node *mn);
/*
 * Write the descriptors of the zone's next deferred section and put it on the free lists. z->lock held. False: none
 * left.
 */
bool memmap_materialise(struct quire *q, struct zone *z);
/* Charge a write to the structure that a list link lies in: a frame's descriptor or a list head in kernel memory. */
void memmap_touch_link_charged(struct cpu *c, const struct list_head *l);

static inline void memmap_touch_link(struct cpu *c, const struct list_head *l)
{
#ifndef QUIRE_NO_CHARGES
	if (likely(!c->uncharged))
		memmap_touch_link_charged(c, l);
#else
	(void)c, (void)l;
#endif
}

/* ---- zone.c ---- */
/* Watermarks and reserves of all zones, sizes of the per-CPU lists; after the zones' extents are known. */
void zone_setup_watermarks(struct quire *q);
void pcp_setup(struct quire *q);
/* A watermark in frames, its boost included. */
static inline uint64_t zone_wmark_pages(const struct zone *z, enum zone_watermark mark)
{
	return z->watermark[mark] + __atomic_load_n(&z->watermark_boost, __ATOMIC_RELAXED);
}

/*
 * Can the zone give a block to a request that may use zones up to `highest`, and keep more than `mark` frames? alloc_flags: ALLOC_*
 * that lower the mark. Charges the look.
 */
bool zone_watermark_ok(struct cpu *c, struct zone *z, unsigned order, uint64_t mark, enum zone_type highest, unsigned alloc_flags);
/* The same if so many frames were free: what reclaim could make of it, or what compaction may count on. */
bool zone_watermark_ok_free(struct cpu *c, struct zone *z, unsigned order, uint64_t mark, enum zone_type highest, unsigned alloc_flags,
			    uint64_t free);
/* The same of n single frames. */
bool zone_watermark_ok_bulk(struct cpu *c, struct zone *z, uint64_t n, uint64_t mark, enum zone_type highest);
/*
 * Raise the watermarks for a while, since a pageblock was about to be mixed: memory freed meanwhile makes the next mixing
 * less likely. z->lock held. And the end of it, z->lock not held.
 */
void zone_boost(struct cpu *c, struct zone *z);
void zone_boost_end(struct cpu *c, struct zone *z);

/* ---- zonelist.c ---- */
/* Each node's order of fallback, and where its movable zone starts. Nothing but the machine's nodes and the knobs is needed. */
void zonelist_setup(struct quire *q);

/* ---- page_alloc.c ---- */
/* How an attempt is made: the watermark that must hold (enum zone_watermark, in the low bits), and Linux's ALLOC_*. */
#define ALLOC_WMARK_MASK 3U
#define ALLOC_NO_WATERMARKS (1U << 2)
#define ALLOC_OOM (1U << 3)         /* a task that is being killed: half of the mark */
#define ALLOC_NON_BLOCK (1U << 4)   /* with MIN_RESERVE: a quarter of what is left of the mark too */
#define ALLOC_MIN_RESERVE (1U << 5) /* GFP_HIGH: half of the mark */
#define ALLOC_NOFRAGMENT (1U << 8)  /* the preferred node only, and no mixing of types within a pageblock */
#define ALLOC_KSWAPD (1U << 11)
#define ALLOC_RESERVES (ALLOC_OOM | ALLOC_NON_BLOCK | ALLOC_MIN_RESERVE)

/* One look through the zones, nearest node first. NULL: none gives a block under these flags. */
struct frame *zonelist_alloc(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags);
/* Is there another zone to go to before types mix? */
bool zonelist_keeps_types_apart(const struct quire *q, const struct alloc_context *ac);

/* ---- alloc_slow.c ---- */
/* After the first look at the low watermark found nothing. */
struct frame *alloc_slow(struct cpu *c, const struct alloc_context *ac);

/* ---- frame.c ---- */
void frame_prep(struct cpu *c, struct frame *f, unsigned order, bool compound);
/* Checks that the block may be freed and takes away all state but its place. */
void frame_unprep(struct cpu *c, struct frame *f, unsigned order);

/* ---- buddy.c: z->lock held ---- */
/* nofragment: don't mix types within a pageblock, rather fail. */
struct frame *buddy_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment);
/*
 * The same, but of up to *order_io: where a block of the type is to be had without falling back, as large a part of the smallest
 * as that. *order_io: what it is.
 */
struct frame *buddy_alloc_upto(struct cpu *c, struct zone *z, unsigned order, unsigned *order_io, enum migrate_type mt,
			       bool nofragment);
void buddy_free(struct cpu *c, struct zone *z, struct frame *f, unsigned order);
/*
 * Take the free block that starts at pfn_v off its list, whatever its order, for who scans for free memory. Returns its frames, 0:
 * no free block starts there (deferred sections are not written yet: nor there), or the zone would fall to its min watermark.
 * Blocks of a pageblock or near it make their pageblock movable. The block is nobody's: split_free_block and frame_prep to use
 * it, buddy_free of its parts to give it back.
 */
uint64_t isolate_free_block(struct cpu *c, struct zone *z, uint64_t pfn_v, unsigned *ret_order);
/* Take this very block, which is free and of this order. */
void buddy_take_block(struct cpu *c, struct zone *z, struct frame *f, unsigned order);
/* Put a block on a free list, uncharged (boot). */
void buddy_seed(struct quire *q, struct zone *z, uint64_t pfn_v, unsigned order, enum migrate_type mt);

/*
 * Of an isolated block, which needs no lock: blocks of a smaller order, each as isolated and ready for frame_prep or buddy_free.
 */
void split_free_block(struct cpu *c, struct frame *f, unsigned order, unsigned to);

/*
 * A block of this order that buddy_free would put on a list is taken for whoever asked: while k is on c->pc->captures, where only
 * tasks on this CPU put it. k->block, NULL before: as buddy_alloc gives it.
 */
struct buddy_capture {
	struct buddy_capture *next;
	struct zone *z;
	unsigned order;
	enum migrate_type mt;
	struct frame *block;
};

/* ---- pcp.c ---- */
/* Which of a per-CPU list's orders (0 to 3, and huge pages), or -1: not kept there. */
static inline int pcp_index(unsigned order)
{
	return order <= PCP_COSTLY_ORDER ? (int)order : order == HPAGE_PMD_ORDER ? (int)PCP_COSTLY_ORDER + 1 : -1;
}

static inline unsigned pcp_order(int index)
{
	return index <= (int)PCP_COSTLY_ORDER ? (unsigned)index : HPAGE_PMD_ORDER;
}

/* Linux's sizes of the lists of a zone, in frames. */
uint32_t pcp_batch(uint64_t managed);
uint32_t pcp_high(const struct quire *q, const struct zone *z, uint32_t batch);
uint32_t pcp_high_max(const struct quire *q, const struct zone *z, uint32_t batch);
struct frame *pcp_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment);
/* Up to n single frames into ret; how many. */
unsigned pcp_alloc_bulk(struct cpu *c, struct zone *z, enum migrate_type mt, unsigned n, struct frame **ret);
void pcp_free(struct cpu *c, struct zone *z, struct frame *f, unsigned order);
/* Clear the user frames that this CPU's next faults will take, c->clear_ahead at most. */
void pcp_clear_ahead(struct cpu *c, struct zone *z);
/* The next fault will take the next of them, and the program write to it: fetch the line. */
void pcp_fetch_next(struct cpu *c, struct zone *z);

#endif
