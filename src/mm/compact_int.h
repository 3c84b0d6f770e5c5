/* Shared by compact.c, compact_scan.c, compact_finish.c and kcompactd.c: one compaction of one zone. */
#ifndef QUIRE_MM_COMPACT_INT_H
#define QUIRE_MM_COMPACT_INT_H

#include "base/assert.h"
#include "mm/alloc_int.h"
#include "mm/compact.h"
#include "mm/migrate.h"

#define COMPACT_ALL (-1) /* for no block in particular: as much as can be had */

struct compact {
	struct cpu *c; /* kcompactd may go on on another between rounds */
	struct zone *z;
	/* What for and how */
	int order;               /* or COMPACT_ALL */
	enum migrate_type mt;    /* that the block is wanted for */
	enum zone_type highest;
	unsigned alloc_flags;
	enum migrate_mode mode;
	bool direct;             /* for a request that waits */
	bool ignore_skip;        /* pageblocks that are to be skipped too */
	bool ignore_type;        /* free blocks from pageblocks that are not movable too */
	bool proactive;          /* until the zone is less fragmented */
	bool daemon;             /* kcompactd: gives way between rounds */
	struct buddy_capture *capture;
	/* Where the scanners are */
	uint64_t start, end;     /* what there is to scan: [start, end) */
	uint64_t migrate_pfn;    /* goes up */
	uint64_t free_pfn;       /* goes down by pageblock, up within one */
	bool whole;              /* the scan began at the start */
	bool finish_pageblock;   /* the rest of this one at once, however much it is */
	bool contended;          /* give up: a lock was taken, or somebody wants the CPU */
	/* What they have */
	struct list_head migratepages;
	struct list_head freepages[MAX_ORDER + 1];
	uint64_t nr_migratepages, nr_freepages; /* frames */
	uint64_t migrate_scanned, free_scanned;
};

static inline uint64_t pageblock_start(uint64_t pfn_v)
{
	return ALIGN_DOWN(pfn_v, PAGEBLOCK_FRAMES);
}

static inline bool compact_scanners_met(const struct compact *k)
{
	return k->free_pfn >> PAGEBLOCK_ORDER <= k->migrate_pfn >> PAGEBLOCK_ORDER;
}

/* Must this compaction end soon, whatever it has achieved? */
static inline bool compact_should_abort(struct compact *k)
{
	if ((k->mode == MIGRATE_ASYNC && k->direct && k->c->need_resched) || (*cpu_pf(k->c) & PF_OOM_VICTIM) ||
	    __atomic_load_n(&k->c->m->stop, __ATOMIC_RELAXED))
		k->contended = true;
	return k->contended;
}

/* ---- compact_scan.c ---- */

enum isolate_result { ISOLATE_ABORT, ISOLATE_NONE, ISOLATE_SUCCESS };

/* Go on from migrate_pfn until some pages are on migratepages (SUCCESS), or a pageblock held none (NONE). */
enum isolate_result isolate_migratepages(struct compact *k);
/* Go on from free_pfn until there is room for nr_migratepages, or the scanners meet. */
void isolate_freepages(struct compact *k);
/* Give back what is left; where the free scanner should begin next time not to leave any of it behind (0: nothing was left). */
uint64_t release_freepages(struct compact *k);
/* A place for src, and taking it back. arg: the struct compact. */
struct frame *compact_take_target(struct cpu *c, const struct frame *src, void *arg);
void compact_put_target(struct cpu *c, struct frame *dst, void *arg);

/* ---- compact_finish.c ---- */

/* COMPACT_CONTINUE, or how it ended. */
enum compact_result compact_finished(struct compact *k);
/* Scanners begin at the zone's ends again. */
void compact_reset_positions(struct zone *z);
/* Pageblocks of the zone are looked at again, all of them. */
void compact_reset_zone_skipped(struct cpu *c, struct zone *z);
/* By how much the zone's free memory is fragmented, in percent, times its share of the node. */
unsigned compact_score(struct cpu *c, const struct zone *z);
unsigned compact_score_target(const struct quire *q, bool low);

/* ---- compact.c ---- */

enum compact_result compact_zone(struct compact *k);

#endif
