/*
 * Nodes, zones, and the page allocator's interface: memmap.c (boot, deferred sections), zone.c (watermarks), zonelist.c
 * (fallback order, movable zone), buddy.c, pcp.c, page_alloc.c (policy), alloc_slow.c (when memory is short), fragment.c
 * (indices), memory_validate.c.
 *
 * Zone fields, by key letter: c = constant after boot, z = guarded by zone->lock, a = written under zone->lock, read
 * atomically without it. The three groups lie on different cache lines, as in Linux, so that reading limits does not
 * bounce the lock.
 */
#ifndef QUIRE_MM_ZONE_H
#define QUIRE_MM_ZONE_H

#include "mm/deferred_split.h"
#include "mm/frame.h"
#include "mm/lruvec.h"

#define MAX_ORDER 10 /* largest buddy block: 4 MiB */
#define PAGEBLOCK_ORDER HPAGE_PMD_ORDER
#define PAGEBLOCK_SKIP 0x80 /* beside the migrate type: compaction found nothing here of late */

/*
 * MOVABLE is the upper part of a node where quire.kernelcore or quire.movablecore ask for it. DEVICE is for memory that
 * is added later; nothing is ever allocated from it.
 */
enum zone_type { ZONE_DMA32, ZONE_NORMAL, ZONE_MOVABLE, ZONE_DEVICE, NR_ZONES };
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
#define GFP_IO (1U << 8)            /* freeing memory for it may start I/O; compaction needs it too */
#define GFP_FS (1U << 9)            /* ... and call into files */
#define GFP_NORETRY (1U << 10)      /* one round of reclaim and compaction, then fail */
#define GFP_RETRY_MAYFAIL (1U << 11) /* try as long as there is progress, but kill nobody */
#define GFP_HIGH (1U << 12)         /* half of the min watermark may be used; with no reclaim, more */
#define GFP_MEMALLOC (1U << 13)     /* no watermark holds: the caller is freeing memory */
#define GFP_NOMEMALLOC (1U << 14)   /* ... not even for a task that is (PF_MEMALLOC) */
#define GFP_RECLAIM (GFP_DIRECT_RECLAIM | GFP_KSWAPD_RECLAIM)
#define GFP_NOWAIT GFP_KSWAPD_RECLAIM
#define GFP_ATOMIC (GFP_HIGH | GFP_KSWAPD_RECLAIM)
#define GFP_NOIO GFP_RECLAIM
#define GFP_NOFS (GFP_RECLAIM | GFP_IO)
#define GFP_KERNEL (GFP_RECLAIM | GFP_IO | GFP_FS)
#define GFP_HIGHUSER_MOVABLE (GFP_KERNEL | GFP_MOVABLE)
#define GFP_TRANSHUGE_LIGHT ((GFP_HIGHUSER_MOVABLE | GFP_COMP | GFP_NOMEMALLOC | GFP_NOWARN) & ~GFP_RECLAIM)
#define GFP_TRANSHUGE (GFP_TRANSHUGE_LIGHT | GFP_DIRECT_RECLAIM)

enum zone_watermark { WMARK_MIN, WMARK_LOW, WMARK_HIGH, WMARK_PROMO, NR_WMARK };

struct free_area {
	struct list_head list[NR_MIGRATE_TYPES];
	uint64_t nr_free; /* blocks */
};

/*
 * Where compaction goes on in a zone, and whether it pays (compact.c, compact_defer.c). All but a hint: atomic, no lock. Whoever finds
 * one out of date scans a pageblock too many or too few.
 */
struct zone_compact {
	uint64_t migrate_pfn[2]; /* where the scanner for pages to move goes on: asynchronous compactions', others' */
	uint64_t free_pfn;       /* where the one for free blocks does, downwards */
	uint32_t considered;     /* since the last failure, requests that would have been worth a try... */
	uint32_t defer_shift;    /* ... of which the first 2^this - 1 are spared it */
	uint32_t order_failed;   /* smallest order that failed; nothing below is deferred */
	bool flush_skip;         /* a direct compaction has gone through it all: forget which pageblocks were to be skipped */
};

struct zone {
	int nid;                /* c */
	enum zone_type type;    /* c */
	uint64_t start_pfn, end_pfn; /* c: start is the first frame of a section; end may be ragged */
	uint64_t first_pfn;     /* c: what is below was taken at boot (kernel image, descriptors, structures) */
	uint64_t managed;       /* c: frames given to the allocator, deferred ones included: end_pfn - first_pfn */
	uint64_t watermark[NR_WMARK];      /* c: without the boost */
	uint64_t lowmem_reserve[NR_ZONES]; /* c: frames kept back from requests that could use the higher zone [i] */
	bool below_high;        /* a: was below its high watermark when last looked at: lists give back (pcp.c). Linux's ZONE_BELOW_HIGH */
	/*
	 * By pageblock from start_pfn, in kernel memory of the machine: migrate type (a), and PAGEBLOCK_SKIP, which is compaction's, set and
	 * cleared without the lock.
	 */
	uint8_t *pageblock_mt;

	struct mlock lock __attribute__((aligned(64)));
	uint64_t deferred_pfn;  /* z: first frame whose section is not yet materialised; end_pfn when all are */
	struct free_area free_area[MAX_ORDER + 1]; /* z */

	uint64_t free_pages __attribute__((aligned(64))); /* a: in free lists and deferred sections, not per-CPU lists */
	uint64_t watermark_boost; /* a: added to every watermark after pageblocks were mixed (zone_boost) */

	struct zone_compact compact __attribute__((aligned(64)));
};

struct kthread;

struct node {
	int nid;
	struct zone zones[NR_ZONES];
	int fallback[MACHINE_MAX_NODES]; /* nodes by distance, itself first */
	unsigned nr_fallback;
	struct deferred_queue deferred; /* huge pages to split when memory is short */
	struct kthread *kcompactd; /* c: kcompactd.c; NULL: the node has no memory */
	uint32_t kcompactd_order, kcompactd_highest; /* atomic: the largest block that was asked of it, 0: none; the highest zone to use */
	uint64_t movable_pfn; /* c: where ZONE_MOVABLE starts; the node's end where it has none */
	paddr_t boot_next, boot_limit; /* memmap.c, while booting: where this node's next structure goes */
	struct lruvec lruvec;
	/* kswapd.c; atomic */
	struct kthread *kswapd;      /* c: begins when it is first needed; NULL: there was no memory for it */
	uint8_t kswapd_order, kswapd_highest; /* asked of it since it last looked; highest: enum zone_type + 1, 0: nothing */
	uint32_t kswapd_failures;    /* times in a row that it found nothing to free */
	uint64_t shrink_deferred;    /* huge pages to split that were too few to begin with (vmscan.c) */
};

struct alloc_req {
	unsigned order;
	unsigned gfp;
	int nid; /* preferred node, NID_NONE: the CPU's */
	uint64_t nodes; /* 0: any; else only these, a bit each, of which nid is one */
};

/*
 * Allocate 2^order frames; refcount 1; compound when GFP_COMP and order > 0. NULL when there is none (the caller
 * reports -ENOMEM or falls back). Takes the zone lock (rank ZONE). With GFP_DIRECT_RECLAIM it may sleep once reclaim or
 * compaction have registered (alloc_slow.h): not under a spinlock then.
 * frame_order() of the first frame is the allocation's order, compound or not; mapcounts are -1, everything else is 0,
 * and node and zone are set in each frame. With GFP_ZERO a user page (GFP_MOVABLE) is counted in quire_pages_cleared
 * here, nowhere else.
 */
struct frame *page_alloc(struct cpu *c, const struct alloc_req *req);
/*
 * Up to n single frames into ret, under one look at the watermarks and as few lock acquisitions as they need. How many:
 * fewer than n when the preferred node's zones cannot give all of them; the caller takes the rest one by one. req->order
 * is 0, GFP_ZERO and GFP_COMP are not allowed. Each counts as an allocation in all counters.
 */
unsigned page_alloc_bulk(struct cpu *c, const struct alloc_req *req, unsigned n, struct frame **ret);
/* Free a block whose refcount has reached 0 (frame_put does this). order must be that of the allocation. */
void page_free(struct cpu *c, struct frame *f, unsigned order);
/* Give this CPU's per-CPU lists back to the buddy lists (shutdown, tests, the last try before an allocation fails). */
void pcp_drain(struct cpu *c);

/*
 * Boot and shutdown (memmap.c). q->nodes has been carved, everything in it is zero. 0, or -EINVAL/-ENOMEM with q->err
 * set. memory_shutdown leaves the machine's memory map as it was found, all zero; nothing may be allocated any more.
 */
int memory_boot(struct cpu *c, struct quire *q);
void memory_shutdown(struct quire *q);
/* Whole-allocator check: F1, counts, no overlaps. 0 or -EINVAL with q->err set. */
int memory_validate(struct quire *q);

uint64_t memory_free_pages(const struct quire *q, int nid /* NID_NONE: all */);

#endif
