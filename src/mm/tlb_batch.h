/*
 * Deferred flushing: one flush for many entries of many address spaces (tlb_batch.c), and the mark that tells others that one is
 * still to come.
 *
 * Rules
 *  D1 Who clears an entry into a batch has a duty: to call tlb_batch_flush before anything depends on nobody using the old
 *     translation: before the frame is freed, copied, or counted as unreachable. A batch that goes away while it needs a flush is a bug
 *     (tlb_batch_end checks).
 *  D2 Until then other CPUs may read through the old entry, and write if it was dirty (the frame then counts as dirty) or after
 *     the hardware has set the dirty bit, for which it looks at the entry again and finds it gone.
 *  D3 The address space is marked before the lock of the entry's table is let go. Who changes entries under the same lock later, and
 *     relies on a flush having been made, calls tlb_flush_batched_pending first, under the lock.
 * A batch belongs to one task; marks are atomic.
 */
#ifndef QUIRE_MM_TLB_BATCH_H
#define QUIRE_MM_TLB_BATCH_H

#include "mm/pagetable.h"

#define TLB_BATCH_CTX 8 /* address spaces whose CPUs need not flush again after the batch's flush; more are only slower */

struct tlb_batch {
	bool needed, writable; /* something was deferred; ... that may be written through until the flush */
	unsigned nr_ctx;
	struct {
		uint32_t ctx;
		uint64_t first, last; /* generations: before the first, and of the last deferred flush; first > last: not known any more */
	} ctx[TLB_BATCH_CTX];
	struct cpumask cpus;       /* who may hold what was cleared */
};

void tlb_batch_begin(struct tlb_batch *b);
/*
 * May the flush for an entry of mm be put off? Only if another CPU has used mm: one's own flush costs less than the book-keeping.
 * Where hardware broadcasts invalidations there is no such question: waiting is what is put off.
 */
bool tlb_should_defer(struct cpu *c, const struct mm *mm);
/* `old`, the entry of mm for va, has been cleared under its table's lock, which is still held. */
void tlb_batch_add(struct cpu *c, struct tlb_batch *b, struct mm *mm, pte_t old, vaddr_t va);
/* The one flush. No effect when nothing was deferred. */
void tlb_batch_flush(struct cpu *c, struct tlb_batch *b);
/* ... only if stale entries could still write: what must be done before the contents go to a device. */
void tlb_batch_flush_dirty(struct cpu *c, struct tlb_batch *b);
/* To be called when the batch goes away. */
void tlb_batch_end(const struct tlb_batch *b);

/* Under a table's lock of mm: flush now if somebody else put one off. */
void tlb_flush_batched_pending(struct cpu *c, struct mm *mm);
#endif
