/*
 * Nodes, zones, and the page allocator's interface: memmap.c (boot, deferred sections), buddy.c, pcp.c, page_alloc.c (policy).
 * Zone fields are guarded by zone->lock except where atomic is said.
 */
#ifndef QUIRE_MM_ZONE_H
#define QUIRE_MM_ZONE_H

#include "mm/frame.h"

#define MAX_ORDER 10 /* largest buddy block: 4 MiB */
#define PAGEBLOCK_ORDER HPAGE_PMD_ORDER

enum zone_type { ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE, NR_ZONES };
enum migrate_type { MIGRATE_UNMOVABLE, MIGRATE_MOVABLE, MIGRATE_RECLAIMABLE, NR_MIGRATE_TYPES };

/* gfp flags: what an allocation may do. Names and meaning as in Linux. */
#define GFP_MOVABLE (1U << 0)     /* user page */
#define GFP_RECLAIMABLE (1U << 1)
#define GFP_ZERO (1U << 2)        /* clear it (kernel frames: bytes; user frames: machine_clear_page) */
#define GFP_COMP (1U << 3)        /* compound folio */
#define GFP_DIRECT_RECLAIM (1U << 4)
#define GFP_KSWAPD_RECLAIM (1U << 5)
#define GFP_THISNODE (1U << 6)
#define GFP_NOWARN (1U << 7)
#define GFP_KERNEL (GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM)
#define GFP_HIGHUSER_MOVABLE (GFP_KERNEL | GFP_MOVABLE)
#define GFP_TRANSHUGE_LIGHT ((GFP_HIGHUSER_MOVABLE | GFP_COMP | GFP_NOWARN) & ~GFP_KERNEL)
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | GFP_DIRECT_RECLAIM)

enum zone_watermark { WMARK_MIN, WMARK_LOW, WMARK_HIGH, WMARK_PROMO, NR_WMARK };

struct free_area {
	struct list_head list[NR_MIGRATE_TYPES];
	uint64_t nr_free; /* blocks */
};

struct zone {
	struct mlock lock;
	int nid;
	enum zone_type type;
	uint64_t start_pfn, end_pfn;
	uint64_t managed;       /* frames given to the allocator, deferred ones included */
	uint64_t free_pages;    /* in free lists and in deferred sections; per-CPU lists not included. Atomic. */
	uint64_t deferred_pfn;  /* first frame whose section is not yet materialised; end_pfn when all are */
	uint64_t watermark[NR_WMARK];
	struct free_area free_area[MAX_ORDER + 1];
	uint8_t *pageblock_mt;  /* migrate type by pageblock from start_pfn, in kernel memory of the machine */
	struct mlock *pad;
};

struct node {
	int nid;
	struct zone zones[NR_ZONES];
	int fallback[MACHINE_MAX_NODES]; /* nodes by distance, itself first */
	unsigned nr_fallback;
};

struct alloc_req {
	unsigned order;
	unsigned gfp;
	int nid; /* preferred node, NID_NONE: the CPU's */
};

/*
 * Allocate 2^order frames; refcount 1; compound when GFP_COMP and order > 0. NULL when there is none (the caller
 * reports -ENOMEM or falls back). Takes the zone lock (rank ZONE); never sleeps in this step.
 */
struct frame *page_alloc(struct cpu *c, const struct alloc_req *req);
/* Free a block whose refcount has reached 0 (frame_put does this). order must be that of the allocation. */
void page_free(struct cpu *c, struct frame *f, unsigned order);
/* Give a CPU's per-CPU lists back to the buddy lists (tests, exact accounting). */
void pcp_drain(struct cpu *c);

/* Boot and shutdown (memmap.c, page_alloc.c). 0 or negative errno. */
int memory_boot(struct cpu *c, struct quire *q);
/* Whole-allocator check: F1, counts, no overlaps. 0 or -EINVAL with q->err set. */
int memory_validate(struct quire *q);

uint64_t memory_free_pages(const struct quire *q, int nid /* NID_NONE: all */);

#endif
