/*
 * Freeing pages that can be had again, or that nobody wants: lists of folios (reclaim.c), MADV_COLD and MADV_PAGEOUT (madvise_cold.c), the
 * lists of a node (vmscan.c), and who calls for it: kswapd and requests that find no memory (kswapd.c), the OOM killer (oom.c).
 */
#ifndef QUIRE_MM_RECLAIM_H
#define QUIRE_MM_RECLAIM_H

#include "mm/system.h"
#include "mm/vma.h"

#define SWAP_CLUSTER_MAX 32U /* pages that are isolated at once, and what a request wants to see freed */
#define DEF_PRIORITY 12      /* a 4096th part of each list is looked at first, and twice as much each time that it was not enough */
#define MAX_RECLAIM_RETRIES 16U

/* What became of a list of folios, in pages. */
struct reclaim_stat {
	uint64_t reclaimed, activated;
	uint64_t pageout;     /* writes to swap that have begun */
	uint64_t in_transfer; /* not freed yet for that */
	uint64_t done_ns;     /* ... and when all of them can be */
};

/* One attempt to free memory of a node. */
struct scan_control {
	/* in */
	enum zone_type highest;  /* pages of higher zones don't help */
	unsigned gfp, order;
	uint64_t nr_to_reclaim;
	bool kswapd;             /* else for a request that waits */
	bool may_swap;
	bool force_deactivate;   /* active pages are looked at even where there are inactive ones */
	int priority;            /* DEF_PRIORITY to 0 */
	/* out */
	uint64_t nr_scanned, nr_reclaimed;
	bool skipped_deactivate;
	/* of vmscan.c */
	bool deactivate[NR_LRU_TYPES], cache_trim_mode, file_is_tiny;
};

/* ---- reclaim.c ---- */
/*
 * Free what can be freed of isolated folios, linked by lru; the others are put back. All leave the list. How many pages were freed. Folio locks
 * are only tried. No spinlock held. sc NULL: whether they were used of late or not; else those that were stay.
 */
uint64_t reclaim_folio_list(struct cpu *c, struct list_head *folios, const struct scan_control *sc, struct reclaim_stat *stat);

/* ---- vmscan.c ---- */
/* Once through a node's lists at sc->priority, and its queue of huge pages to split. Progress is added to sc. */
void shrink_node(struct cpu *c, int nid, struct scan_control *sc);
/* Pages of the zone that reclaim could free, if nobody used them. */
uint64_t zone_reclaimable_pages(const struct quire *q, const struct zone *z);

/* ---- kswapd.c ---- */
/* At boot: daemons kswapdN, which begin when they are first needed. */
void reclaim_boot(struct quire *q);
/* Hooks of the page allocator (alloc_slow.h). */
void wakeup_kswapd(struct cpu *c, int nid, unsigned order, unsigned gfp, enum zone_type highest);
uint64_t try_to_free_pages(struct cpu *c, const struct alloc_context *ac);
uint64_t reclaimable_pages(struct cpu *c, const struct zone *z);

/* ---- oom.c ---- */
/* See alloc_hooks.oom. */
bool out_of_memory(struct cpu *c, const struct alloc_context *ac);

/* ---- madvise_cold.c ---- */
/*
 * The part of [start, end) that the area maps: not needed in the near future (pageout: or at all). mmap_lock held for reading; page
 * tables of the range are its own. Only what this mapping alone maps is touched.
 */
void madvise_cold(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool pageout);

#endif
