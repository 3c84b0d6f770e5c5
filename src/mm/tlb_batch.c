/*
 * Deferred flushing, by Linux's design: a batch is a set of CPUs and a mark in each address space concerned.
 *
 * The mark (mm->tlb_flush_batched) is a pair of 15-bit counts, of flushes put off and of those among them that a flush since is known to
 * have covered. "Outstanding" is that they differ. Whoever flushes the address space because of it writes what he had read as
 * covered by compare-and-swap, so a flush that was put off meanwhile keeps the mark: with a boolean, as before Linux 5.17
 * (quire.tlb_batch_mark=flag), clearing it would lose that one.
 *
 *   CPU 0 (reclaims, table A)            CPU 1 (munmap, table B, or A later)
 *   clears an entry, marks               sees the mark, flushes
 *                                        <- here CPU 0 puts another one off, and marks: already marked
 *                                        clears the mark: the second one is lost
 *
 * A batch's own flush leaves the mark: it covers other address spaces too, and the next who asks pays for one flush too many.
 * On x86 the batch's flush drops everything on the CPUs that have used one of the address spaces. Where invalidations are broadcast each
 * one is issued at once, and the batch only waits for them; whoever finds the mark has to order one of his own.
 */
#include "mm/tlb_batch.h"

#include "base/assert.h"
#include "mm/system.h"
#include "mm/tlb.h"

#define MARK_BITS 16
#define MARK_MASK 0x7fffU              /* of the count of flushes put off; the other half holds those that are covered */
#define MARK_LARGE (MARK_MASK / 2)     /* from here on it begins anew, long before it could reach the covered one from behind */

void tlb_batch_begin(struct tlb_batch *b)
{
	*b = (struct tlb_batch){ .needed = false };
}

void tlb_batch_end(const struct tlb_batch *b)
{
	ASSERT(!b->needed); /* D1 */
}

ATTR_NOINLINE bool tlb_should_defer(struct cpu *c, const struct mm *mm)
{
	if (c->m->broadcast_tlbi)
		return true;
	machine_touch(c, machine_pa(c->m, &mm->cpus), (c->m->nr_cpus + 7) / 8, TOUCH_READ);
	for (unsigned i = 0; i * 64 < c->m->nr_cpus; i++) {
		uint64_t there = __atomic_load_n(&mm->cpus.bits[i], __ATOMIC_SEQ_CST);

		if (i == c->id / 64)
			there &= ~(1ULL << (c->id % 64));
		if (there)
			return true;
	}
	return false;
}

/* ---- the mark ---- */

static void mark_flag(struct mm *mm)
{
	__atomic_store_n(&mm->tlb_flush_batched, 1, __ATOMIC_SEQ_CST);
}

/* One more is put off. */
static void mark_generation(struct mm *mm)
{
	uint32_t was = __atomic_load_n(&mm->tlb_flush_batched, __ATOMIC_SEQ_CST), now;

	do
		now = (was & MARK_MASK) > MARK_LARGE ? 1 : was + 1; /* 1 put off, 0 covered: outstanding */
	while (!__atomic_compare_exchange_n(&mm->tlb_flush_batched, &was, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
}

bool tlb_deferred(const struct mm *mm)
{
	uint32_t mark = __atomic_load_n(&mm->tlb_flush_batched, __ATOMIC_SEQ_CST);

	return mm->q->knobs.tlb_batch_mark == TLB_BATCH_FLAG ? mark != 0 : (mark & MARK_MASK) != mark >> MARK_BITS;
}

/* Everything that had been put off when the mark was `seen` has been flushed. */
static void mark_covered(struct mm *mm, uint32_t seen)
{
	uint32_t covered = (seen & MARK_MASK) | (seen & MARK_MASK) << MARK_BITS;

	if (mm->q->knobs.tlb_batch_mark == TLB_BATCH_FLAG)
		__atomic_store_n(&mm->tlb_flush_batched, 0, __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(&mm->tlb_flush_batched, &seen, covered, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

ATTR_NOINLINE void tlb_flush_batched_pending(struct cpu *c, struct mm *mm)
{
	uint32_t seen = __atomic_load_n(&mm->tlb_flush_batched, __ATOMIC_SEQ_CST);

	if (likely(!tlb_deferred(mm)))
		return;
	/* Where hardware broadcasts too: waiting completes what this CPU has ordered, not what another one has. */
	tlb_flush_for(c, mm, 0, TASK_SIZE, PAGE_SHIFT, false, FLUSH_BATCH_PENDING);
	machine_touch(c, machine_pa(c->m, &mm->tlb_flush_batched), sizeof(mm->tlb_flush_batched), TOUCH_ATOMIC);
	mark_covered(mm, seen);
}

/* ---- the batch ---- */

/* Which generations of which address spaces the batch's flush covers, as far as there is room to remember. */
static void batch_remember(struct tlb_batch *b, const struct mm *mm, uint64_t gen)
{
	unsigned i = 0;

	while (i < b->nr_ctx && b->ctx[i].ctx != mm->ctx)
		i++;
	if (i == TLB_BATCH_CTX)
		return;
	if (i == b->nr_ctx) {
		b->ctx[b->nr_ctx++].ctx = mm->ctx;
		b->ctx[i].first = gen - 1;
		b->ctx[i].last = gen;
	} else if (b->ctx[i].last == gen - 1) {
		b->ctx[i].last = gen;
	} else {
		b->ctx[i].last = 0; /* somebody else flushed in between */
	}
}

static void batch_add_cpus(struct cpu *c, struct tlb_batch *b, const struct mm *mm)
{
	for (unsigned i = 0; i * 64 < c->m->nr_cpus; i++)
		b->cpus.bits[i] |= __atomic_load_n(&mm->cpus.bits[i], __ATOMIC_SEQ_CST);
}

ATTR_NOINLINE void tlb_batch_add(struct cpu *c, struct tlb_batch *b, struct mm *mm, pte_t old, vaddr_t va)
{
	enum machine_path prev = machine_work(c, PATH_TLB_BATCH, 1);
	uint64_t gen = __atomic_add_fetch(&mm->tlb_gen, 1, __ATOMIC_SEQ_CST);

	machine_touch(c, machine_pa(c->m, &mm->tlb_gen), sizeof(mm->tlb_gen), TOUCH_ATOMIC);
	if (c->m->broadcast_tlbi) {
		struct tlb_flush f = { .ctx = mm->ctx, .stride_shift = PAGE_SHIFT, .start = va, .end = va + PAGE_SIZE };

		c->m->ops->flush_issue(c, &f);
	} else {
		batch_add_cpus(c, b, mm);
	}
	batch_remember(b, mm, gen);
	b->needed = true;
	machine_touch(c, machine_pa(c->m, &mm->tlb_flush_batched), sizeof(mm->tlb_flush_batched), TOUCH_ATOMIC);
	if (mm->q->knobs.tlb_batch_mark == TLB_BATCH_FLAG)
		mark_flag(mm);
	else
		mark_generation(mm);
	if (old & PTE_DIRTY)
		b->writable = true;
	vmstat_inc(c, VM_quire_tlb_deferred);
	machine_path(c, prev);
}

/* CPU `id` has dropped everything: it need not do so again for what the batch covers. */
static void acknowledge(struct cpu *c, const struct tlb_batch *b, unsigned id)
{
	for (unsigned i = 0; i < b->nr_ctx; i++)
		if (b->ctx[i].last)
			tlb_acknowledge(c, id, b->ctx[i].ctx, b->ctx[i].first, b->ctx[i].last);
}

/* Who is to be told now: CPUs that run on an address space. Those that lazily have one look at its generation before they use it. */
static unsigned flush_targets(struct cpu *c, const struct tlb_batch *b, struct cpumask *ret)
{
	unsigned id, n = 0;

	for_each_cpu(id, &b->cpus, c->m->nr_cpus) {
		const struct percpu *pc = c->q->percpu[id];

		if (id == c->id)
			continue;
		machine_touch(c, pc->pa, 1, TOUCH_READ);
		if (percpu_lazy(pc))
			continue;
		cpumask_set(ret, id);
		n++;
	}
	return n;
}

static void flush_cpus(struct cpu *c, const struct tlb_batch *b)
{
	struct cpumask targets = { .bits = { 0 } };
	struct tlb_flush all = { .ctx = 0, .full = true };
	unsigned id, remote = 0;

	if (flush_targets(c, b, &targets)) {
		c->m->ops->flush_remote(c, &targets, &all, &remote);
		vmstat_inc(c, VM_nr_tlb_remote_flush);
		vmstat_add(c, VM_nr_tlb_remote_flush_received, remote);
		vmstat_add(c, VM_quire_ipi_batch, remote);
		for_each_cpu(id, &targets, c->m->nr_cpus) {
			__atomic_add_fetch(&c->q->percpu[id]->flushes_received, 1, __ATOMIC_RELAXED);
			acknowledge(c, b, id);
		}
	}
	if (!cpumask_test(&b->cpus, c->id) || percpu_lazy(c->pc))
		return;
	c->m->ops->flush_local(c, &all);
	vmstat_inc(c, VM_nr_tlb_local_flush_all);
	acknowledge(c, b, c->id);
}

ATTR_NOINLINE void tlb_batch_flush(struct cpu *c, struct tlb_batch *b)
{
	if (!b->needed)
		return;
	enum machine_path prev = machine_work(c, PATH_TLB_FLUSH, 1);

	if (c->m->broadcast_tlbi) {
		c->m->ops->flush_sync(c);
		for (unsigned id = 0; id < c->m->nr_cpus; id++)
			acknowledge(c, b, id);
	} else {
		flush_cpus(c, b);
	}
	vmstat_inc(c, VM_quire_flush_batch);
	tlb_batch_begin(b);
	machine_path(c, prev);
}

void tlb_batch_flush_dirty(struct cpu *c, struct tlb_batch *b)
{
	if (b->writable)
		tlb_batch_flush(c, b);
}
