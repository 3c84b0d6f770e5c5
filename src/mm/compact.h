/*
 * Compaction: making large free blocks by moving pages, for requests that need one and in the background.
 *
 * Two scanners go through a zone: one from its start for pages that can be moved, one from its end for free blocks to move them to.
 * Where they meet the zone has been gone through. Both remember where they were, by zone (zone.h, struct zone_compact), and
 * pageblocks where there was nothing to be had are skipped (PAGEBLOCK_SKIP) until compaction starts anew.
 * Source: the kernel's documentation of vm sysctls and transparent huge pages; Linux 6.12 as far as its behaviour is described.
 *
 * Counters: compact_migrate_scanned and compact_free_scanned (frames looked at; a block or folio that is passed over whole is
 * one), compact_isolated (frames taken, by both scanners), and compact_daemon_* of them by kcompactd; compact_stall, _fail and
 * _success are the slow path's (alloc_slow.c).
 * Locks: none may be held but mmap_lock, and locks of a rank up to it.
 */
#ifndef QUIRE_MM_COMPACT_H
#define QUIRE_MM_COMPACT_H

#include "mm/system.h"

#define COMPACT_MAX_DEFER_SHIFT 6U
#define COMPACT_CLUSTER 32U /* frames that are looked at under one hold of a lock, or isolated before they are moved */

/* ---- hooks of the page allocator (alloc_slow.h) ---- */

enum compact_result compact_direct(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags, enum compact_priority prio,
				   struct frame **ret_capture);
bool compact_zonelist_suitable(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags);
void compact_alloc_succeeded(struct cpu *c, struct zone *z, unsigned order);
/* For who wants a block of this order soon. Never sleeps; also kswapd's, when it has done its part. */
void wakeup_kcompactd(struct cpu *c, int nid, unsigned order, enum zone_type highest);

/* ---- deferral (compact_defer.c): after failures most requests are spared another try, up to 63 of 64 ---- */

void compact_defer(struct zone *z, unsigned order);
/* Is this request to be spared? Counts it. */
bool compact_deferred(struct zone *z, unsigned order);
/* It worked. allocated: and the block was had. */
void compact_defer_reset(struct zone *z, unsigned order, bool allocated);
/* Has it been put off as long as can be, and is about to be tried again? */
bool compact_restarting(const struct zone *z, unsigned order);

/* ---- the rest ---- */

/*
 * Is it worth compacting the zone for a block of this order? COMPACT_SUCCESS: there is one; COMPACT_SKIPPED: too little is free, or
 * it isn't fragmentation that a large request would fail of (vm.extfrag_threshold); COMPACT_CONTINUE: yes.
 */
enum compact_result compact_suitability(struct cpu *c, struct zone *z, unsigned order, enum zone_type highest, unsigned alloc_flags);
/* Skipped pageblocks of zones that a direct compaction went through are looked at again (kswapd, before it sleeps). */
void compact_reset_skipped(struct cpu *c, int nid);
/* Share of the node's free memory, in percent, that is in blocks too small for a huge page; by zones' sizes. */
unsigned compact_fragmentation(struct cpu *c, int nid);

/* All of a node's memory (NID_NONE: of every node's), waiting where need be. As vm.compact_memory. By a task, or where no task runs. */
void quire_compact_node(struct cpu *c, int nid);

/* A run of tasks begins: the daemons kcompactdN are there from now on if they have something to do, asked before or unasked; else from when they are needed. */
void kcompactd_begin(struct cpu *c);
/* At boot. */
void kcompactd_boot(struct quire *q);

#endif
