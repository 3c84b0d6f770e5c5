/*
 * Moving folios to other frames under migration entries (migrate.c, migrate_folio.c).
 * Source: the kernel's documentation of page migration; "migrate_pages(): batch TLB flushing", 2023.
 *
 * Units of counters: pgmigrate_success and pgmigrate_fail in base pages; thp_migration_success, _fail and _split in huge pages.
 */
#ifndef QUIRE_MM_MIGRATE_H
#define QUIRE_MM_MIGRATE_H

#include "mm/tlb_batch.h"

enum migrate_mode {
	MIGRATE_ASYNC,      /* never blocks */
	MIGRATE_SYNC_LIGHT, /* waits for locks, not for devices */
	MIGRATE_SYNC,
};

/* Why: decides what happens when there is no room for a huge page (NUMA misplacement never splits for that). */
enum migrate_reason { MR_COMPACTION, MR_MEMORY_HOTPLUG, MR_SYSCALL, MR_MEMPOLICY_MBIND, MR_NUMA_MISPLACED, MR_CONTIG_RANGE, MR_LONGTERM_PIN, MR_DEMOTION };

#define MIGRATE_BATCH_PAGES 512U /* at most so many base pages are unmapped at a time: nobody waits longer than for a huge page */
#define MIGRATE_PASSES 10U
#define MIGRATE_ASYNC_PASSES 3U  /* ... of which so many as a batch before what is left is tried one by one, waiting */

/* Where folios go. get: a frame of the same order with one reference, or NULL (-ENOMEM). put: it was not needed. */
struct migrate_target {
	struct frame *(*get)(struct cpu *c, const struct frame *src, void *arg);
	void (*put)(struct cpu *c, struct frame *dst, void *arg); /* NULL: frame_put */
	void *arg;
};

struct migrate_stats {
	uint64_t nr_succeeded, nr_failed_pages; /* base pages */
	uint64_t nr_thp_succeeded, nr_thp_failed, nr_thp_split;
};

/*
 * Move the folios on `from` (isolated, linked by lru, one reference of the caller's each). Those that were moved leave the list and are
 * freed by their last user; the rest stays on it, also parts of huge pages that had to be split: the caller puts them back
 * (migrate_putback). 0: all moved, as they were; > 0: so many folios were not, those that were split among them whatever became of their parts; -ENOMEM: the target had no room, which ended it.
 * No locks held; mmap_lock for reading is allowed. ret_stats may be NULL.
 */
int migrate_pages(struct cpu *c, struct list_head *from, const struct migrate_target *t, enum migrate_mode mode, enum migrate_reason reason,
		  struct migrate_stats *ret_stats);

/* Take a folio out of circulation for a migration: a reference, and off the LRU lists. 0, or -EBUSY: it can't be now. */
int migrate_isolate(struct cpu *c, struct frame *folio, struct list_head *to);
/* Give back one, or what is still on the list. */
void migrate_putback_one(struct cpu *c, struct frame *folio);
void migrate_putback(struct cpu *c, struct list_head *from);

/* ---- migrate_folio.c: one folio, in steps; migrate_pages puts them together ---- */

struct anon_vma;

struct migration {
	struct frame *src, *dst;
	struct anon_vma *anon_vma; /* of src, with a reference: nothing else keeps it while nothing is mapped */
	bool was_mapped;
};

/*
 * Lock src and replace its mappings. batch: as in try_to_migrate. 0: *ret can be moved, src and dst are locked; 1: src had no other user
 * left, it is gone; -ENOMEM, -EAGAIN (try again later), -EBUSY: nothing is changed.
 */
int migrate_folio_unmap(struct cpu *c, struct frame *src, const struct migrate_target *t, enum migrate_mode mode, struct tlb_batch *batch,
			struct migration *ret);
/* Copy and map dst in src's place; the batch has been flushed. 0; -EAGAIN: somebody uses src, it stays unmapped; -EHWPOISON: likewise. */
int migrate_folio_move(struct cpu *c, struct migration *g);
/* Map src again and give dst back. */
void migrate_folio_undo(struct cpu *c, struct migration *g, const struct migrate_target *t);

#endif
