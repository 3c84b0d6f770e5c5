/*
 * What the page allocator does when memory is short, and the doors by which reclaim, compaction and the OOM killer come in.
 *
 * They register a table (q->alloc_hooks) while no task runs, and take it away likewise; a missing hook frees nothing. Hooks are called
 * by the CPU that allocates, inside its allocation, without the zone's lock. All but wake_kswapd, wake_kcompactd and compact_defer_reset may sleep, but
 * are called only for requests with GFP_DIRECT_RECLAIM. While one runs that frees memory, its task has PF_MEMALLOC: what it
 * allocates ignores watermarks and comes back to no hook.
 */
#ifndef QUIRE_MM_ALLOC_SLOW_H
#define QUIRE_MM_ALLOC_SLOW_H

#include "mm/zone.h"

/* Of tasks (task.pf), by Linux's names. */
#define PF_MEMALLOC (1U << 0)   /* frees memory: may use all of it, and is not sent to free some */
#define PF_KSWAPD (1U << 1)
#define PF_OOM_VICTIM (1U << 2) /* is being killed: may use more of the reserves, and gives up early */

/* A request, decoded. */
struct alloc_context {
	unsigned order, gfp;
	int nid;                /* preferred */
	uint64_t nodes;         /* that it may use, a bit each; 0: all */
	enum zone_type highest; /* that it may use */
};

static inline bool ac_allows(const struct alloc_context *ac, int nid)
{
	return !ac->nodes || (ac->nodes >> nid & 1);
}

/* From what costs most to what costs least. */
enum compact_priority { COMPACT_PRIO_SYNC_FULL, COMPACT_PRIO_SYNC_LIGHT, COMPACT_PRIO_ASYNC };

/* Of a compaction of several zones, the highest of their results. */
enum compact_result {
	COMPACT_NOT_SUITABLE_ZONE,
	COMPACT_SKIPPED,  /* too little memory is free for it to work, or there is enough as it is */
	COMPACT_DEFERRED, /* failed too often of late */
	COMPACT_NO_SUITABLE_PAGE,
	COMPACT_CONTINUE,
	COMPACT_COMPLETE, /* the whole zone was gone through, to no avail */
	COMPACT_PARTIAL_SKIPPED,
	COMPACT_CONTENDED, /* given up for a lock's or a signal's sake */
	COMPACT_SUCCESS,   /* there should be a block now */
};

struct alloc_hooks {
	/* Some zone of the node, up to `highest`, is low for blocks of this order. Never sleeps. The hook decides whether to wake anybody. */
	void (*wake_kswapd)(struct cpu *c, int nid, unsigned order, unsigned gfp, enum zone_type highest);
	/* There may be plenty of memory, in pieces: of a request that will not compact itself. Never sleeps. */
	void (*wake_kcompactd)(struct cpu *c, int nid, unsigned order, enum zone_type highest);
	/* Free some memory for the request; how many frames were freed. */
	uint64_t (*direct_reclaim)(struct cpu *c, const struct alloc_context *ac);
	/* Frames of the zone that reclaim could free. */
	uint64_t (*reclaimable_pages)(struct cpu *c, const struct zone *z);
	/*
	 * Make a block of ac->order. *ret_capture, NULL before: a block that was taken for the request on the way, as buddy_alloc gives
	 * it (off the lists, no longer in free_pages, not prepared), or left alone.
	 */
	enum compact_result (*direct_compact)(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags,
					      enum compact_priority prio, struct frame **ret_capture);
	/* Would compaction work, given what reclaim could free? Asked after COMPACT_SKIPPED. */
	bool (*compact_suitable)(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags);
	/* A block of this order came out of the zone after a compaction: its deferral ends. */
	void (*compact_defer_reset)(struct cpu *c, struct zone *z, unsigned order);
	/* Nothing else helped. True: something was done that will free memory, try again. */
	bool (*oom)(struct cpu *c, const struct alloc_context *ac);
};

/* PF_* of what runs on the CPU: its task's, or its own. Of others' nobody's business. */
unsigned *cpu_pf(struct cpu *c);

#endif
