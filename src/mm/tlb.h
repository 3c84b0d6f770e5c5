/*
 * TLB flushing: gathering (mmu_gather), ranges, context numbers and generations, lazy CPUs (tlb.c).
 *
 * Rules
 *  T1 After a present entry was removed or lost rights, no CPU may use the old one once the call returns.
 *  T2 A frame or table taken out of the tables is freed only after the flush: mmu_gather holds it until then.
 *  T3 mm->tlb_gen is raised before the flush; a CPU that switches to the mm compares generations and flushes if behind.
 */
#ifndef QUIRE_MM_TLB_H
#define QUIRE_MM_TLB_H

#include "mm/mm.h"

#define MMU_GATHER_BUNDLE 8 /* frames held in the structure itself */
#define MMU_GATHER_BATCH 510 /* frames a batch page holds */
#define MMU_GATHER_BATCHES 19 /* batch pages before an intermediate flush: about 10,000 frames, as in Linux */

/* What a flush is for; counted by it (quire_flush_*, quire_ipi_*). */
enum flush_why {
	FLUSH_OTHER, FLUSH_COW, FLUSH_SPLIT, FLUSH_FORK, FLUSH_UNSHARE, FLUSH_MUNMAP, FLUSH_MPROTECT, FLUSH_MADVISE, FLUSH_MREMAP,
	FLUSH_UNMAP,         /* an entry that the reverse map led to */
	FLUSH_BATCH,         /* many of these at once (tlb_batch.h) */
	FLUSH_BATCH_PENDING, /* by somebody who found such a batch's mark */
	FLUSH_COLLAPSE,      /* 512 entries make way for a huge one */
	FLUSH_EXIT,
	NR_FLUSH_WHYS
};

struct gather_batch;

/* Frames and tables on their way out. Fits a stack: beyond the first few frames, batches are pages of their own. */
struct mmu_gather {
	struct mm *mm;
	vaddr_t start, end; /* range to flush; start > end: nothing yet */
	bool full_mm, freed_tables, huge_only;
	enum flush_why why; /* FLUSH_OTHER unless set after tlb_gather_begin */
	unsigned nr; /* in frames[] */
	unsigned nr_batches;
	struct gather_batch *first, *last;
	struct frame *frames[MMU_GATHER_BUNDLE];
};

void tlb_gather_begin(struct cpu *c, struct mmu_gather *g, struct mm *mm, bool full_mm);
/* An entry for [va, va + size) was removed or reduced. */
void tlb_gather_range(struct mmu_gather *g, vaddr_t va, uint64_t size);
/* Drop the mapping's reference after the flush. true: no room for another; drop spinlocks, call tlb_gather_flush. */
bool tlb_gather_add(struct cpu *c, struct mmu_gather *g, struct frame *f);
/* The same, flushing now when it is full. */
void tlb_gather_frame(struct cpu *c, struct mmu_gather *g, struct frame *f);
void tlb_gather_table(struct cpu *c, struct mmu_gather *g, struct frame *table);
void tlb_gather_flush(struct cpu *c, struct mmu_gather *g);
void tlb_gather_end(struct cpu *c, struct mmu_gather *g);

/* Flush a range on all CPUs that may hold it: single entries up to tlb_flush_ceiling, else the whole context. */
void tlb_flush_mm_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned stride_shift,
			bool freed_tables);
void tlb_flush_for(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned stride_shift, bool freed_tables, enum flush_why why);
/*
 * May CPUs still hold what mm's tables no longer grant, because a flush has been put off (and will come before anything depends on
 * it)? Answered by the mark (tlb_batch.h), so it may be said for longer than it is true. The checkers of tlb_check.h ask.
 */
bool tlb_deferred(const struct mm *mm);

/* One page, after a copy on write. */
void tlb_flush_page(struct cpu *c, struct mm *mm, vaddr_t va);

/* CPU `id` has dropped everything that it had of context ctx when the address space was at generation `last`, if it was at `first` before. */
void tlb_acknowledge(struct cpu *c, unsigned id, uint32_t ctx, uint64_t first, uint64_t last);

/* c is about to free mm: nobody may keep it as the address space that it lazily left loaded. */
void tlb_forget_mm(struct cpu *c, struct mm *mm);

/* The scheduler's hook (machine_hooks.context_switch): loads contexts, keeps mm->cpus, lazy for kernel tasks. */
void mm_switch(struct cpu *c, struct task *prev, struct task *next);
/* The current task takes another mm (exec, or the task's first). */
void mm_activate(struct cpu *c, struct mm *mm);

#endif
