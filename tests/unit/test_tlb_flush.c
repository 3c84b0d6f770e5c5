/* TLB flushing: gathering, the ceiling, generations, remembered contexts, lazy CPUs, and what is counted. */
#include "paging_world.h"

static struct null_counts before;

static void mark(struct world *w)
{
	before = *null_counts(w->m);
}

#define since(w, field) (null_counts((w)->m)->field - before.field)

static void activate_on(struct world *w, unsigned cpu, struct mm *mm)
{
	mm_activate(w->m->cpus[cpu], mm);
}

static bool runs_on(const struct mm *mm, unsigned cpu)
{
	return cpumask_test(&mm->cpus, cpu);
}

static uint64_t slot_gen(struct world *w, unsigned cpu, const struct mm *mm)
{
	const struct percpu *pc = w->q->percpu[cpu];

	for (unsigned i = 0; i < PERCPU_CTX_SLOTS; i++)
		if (pc->ctx[i].ctx == mm->ctx)
			return pc->ctx[i].tlb_gen;
	return 0;
}

static void single_entries_up_to_the_ceiling(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	assert_int_equal(w->q->knobs.tlb_flush_ceiling, 33);
	mark(w);
	tlb_flush_mm_range(w->c, mm, AREA, AREA + PAGES(33), PAGE_SHIFT, false);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_one), 33);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_all), 0);
	tlb_flush_mm_range(w->c, mm, AREA, AREA + PAGES(34), PAGE_SHIFT, false);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_one), 33);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_all), 1);
	assert_int_equal(since(w, local_flushes), 2);
	assert_int_equal(since(w, full_flushes), 1);
	/* Huge entries count as one each. */
	tlb_flush_mm_range(w->c, mm, AREA, AREA + 40 * MIB, PMD_SHIFT, false);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_one), 33 + 20);
	assert_int_equal(since(w, remote_flushes), 0);
	mm_end(w, mm);
	world_end(w);
}

static void others_are_told(void **state)
{
	struct world *w = world_new(4, 128 * MIB);
	struct mm *mm = mm_new(w), *other = NULL;

	(void)state;
	assert_ok(mm_create(w->c, w->q, &other));
	activate_on(w, 1, mm);
	activate_on(w, 2, mm);
	activate_on(w, 3, other);
	mark(w);
	tlb_flush_page(w->c, mm, AREA + 5);
	assert_int_equal(since(w, ipis), 2);
	assert_int_equal(since(w, local_flushes), 1);
	assert_int_equal(count_of(w, VM_nr_tlb_remote_flush), 1);
	assert_int_equal(count_of(w, VM_nr_tlb_remote_flush_received), 2);
	assert_int_equal(slot_gen(w, 1, mm), mm->tlb_gen);
	/* From a CPU that isn't running it: no flush of its own. */
	mark(w);
	tlb_flush_page(w->m->cpus[3], mm, AREA);
	assert_int_equal(since(w, ipis), 3);
	assert_int_equal(since(w, local_flushes), 0);
	/* Nobody else runs the other one. */
	mark(w);
	tlb_flush_page(w->m->cpus[3], other, AREA);
	assert_int_equal(since(w, ipis), 0);
	assert_int_equal(since(w, local_flushes), 1);
	mm_end(w, mm);
	mm_end(w, other);
	world_end(w);
}

static void switching_keeps_contexts(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm[PERCPU_CTX_SLOTS + 1];

	(void)state;
	for (unsigned i = 0; i <= PERCPU_CTX_SLOTS; i++)
		assert_ok(mm_create(w->c, w->q, &mm[i]));
	mark(w);
	mm_activate(w->c, mm[0]);
	mm_activate(w->c, mm[1]);
	assert_int_equal(since(w, local_flushes), 2); /* contexts that this CPU never had */
	assert_false(runs_on(mm[0], 0));
	assert_true(runs_on(mm[1], 0));
	mm_activate(w->c, mm[0]);
	mm_activate(w->c, mm[1]);
	assert_int_equal(since(w, local_flushes), 2); /* remembered */
	assert_int_equal(since(w, context_loads), 4);
	mm_activate(w->c, mm[1]); /* the same again: nothing */
	assert_int_equal(since(w, context_loads), 4);
	/* Flushed while it was away: caught up with when it comes back, without an interrupt. */
	mark(w);
	activate_on(w, 1, mm[0]);
	tlb_flush_page(w->m->cpus[1], mm[0], AREA);
	assert_int_equal(since(w, ipis), 0);
	mark(w);
	mm_activate(w->c, mm[0]);
	assert_int_equal(since(w, local_flushes), 1);
	assert_int_equal(since(w, full_flushes), 1);
	/* More than the slots: the oldest is forgotten. */
	for (unsigned i = 1; i <= PERCPU_CTX_SLOTS; i++)
		mm_activate(w->c, mm[i]);
	mark(w);
	mm_activate(w->c, mm[0]);
	assert_int_equal(since(w, local_flushes), 1);
	for (unsigned i = 0; i <= PERCPU_CTX_SLOTS; i++)
		mm_end(w, mm[i]);
	assert_null(percpu_mm(w->q->percpu[0]));
	assert_null(percpu_mm(w->q->percpu[1]));
	world_end(w);
}

static void lazy_cpus(void **state)
{
	struct world *w = world_new(3, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct task user = { .mm = mm }, kernel = { .mm = NULL };

	(void)state;
	mm_switch(w->m->cpus[1], NULL, &user);
	mm_switch(w->m->cpus[2], NULL, &user);
	mark(w);
	mm_switch(w->m->cpus[1], &user, &kernel);
	mm_switch(w->m->cpus[2], &user, NULL);
	assert_int_equal(since(w, context_loads), 0);
	assert_true(percpu_lazy(w->q->percpu[1]));
	/* Lazy ones are not disturbed ... */
	tlb_flush_page(w->c, mm, AREA);
	assert_int_equal(since(w, ipis), 0);
	/* ... and catch up when they return. */
	mark(w);
	mm_switch(w->m->cpus[1], &kernel, &user);
	assert_int_equal(since(w, context_loads), 0);
	assert_int_equal(since(w, full_flushes), 1);
	mm_switch(w->m->cpus[1], &user, &kernel);
	mm_switch(w->m->cpus[1], &kernel, &user);
	assert_int_equal(since(w, full_flushes), 1);
	/* Freed tables: everybody, and a lazy CPU lets go. */
	mark(w);
	tlb_flush_mm_range(w->c, mm, AREA, AREA + PAGES(1), PAGE_SHIFT, true);
	assert_int_equal(since(w, ipis), 2);
	assert_null(percpu_mm(w->q->percpu[2]));
	assert_false(runs_on(mm, 2));
	assert_true(runs_on(mm, 1));
	mm_end(w, mm);
	assert_null(percpu_mm(w->q->percpu[1]));
	world_end(w);
}

static void faults_need_an_address_space(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t v;

	(void)state;
	map_at(w, mm, AREA, PAGES(2), RW);
	mm_activate(w->c, NULL);
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	mm_activate(w->c, mm);
	assert_int_equal(load(w, AREA), 0);
	mm_end(w, mm);
	world_end(w);
}

static void broadcast_interrupts_nobody(void **state)
{
	struct world *w = world_new(4, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->m->broadcast_tlbi = true;
	activate_on(w, 1, mm);
	activate_on(w, 2, mm);
	mm_activate(w->m->cpus[2], NULL);
	mark(w);
	tlb_flush_page(w->c, mm, AREA);
	assert_int_equal(since(w, ipis), 0);
	assert_int_equal(since(w, remote_flushes), 1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(slot_gen(w, i, mm), mm->tlb_gen);
	mm_end(w, mm);
	world_end(w);
}

/* ---- gathering ---- */

static void frames_outlive_the_flush(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mmu_gather g;

	(void)state;
	map_at(w, mm, AREA, PAGES(64), RW);
	for (unsigned i = 0; i < 64; i++)
		store(w, AREA + PAGES(i), i + 1);
	struct frame *f = frame_of(w->m, info(mm, AREA + PAGES(40)).pfn);
	int64_t freed = count_of(w, VM_pgfree);

	mark(w);
	tlb_gather_begin(w->c, &g, mm, false);
	zap_range(w->c, &g, vma_first(mm), AREA, AREA + PAGES(64));
	assert_int_equal(since(w, local_flushes), 0);
	assert_int_equal(frame_refcount(f), 1);
	assert_int_equal(f->mapcount, -1);
	assert_int_equal(count_of(w, VM_pgfree), freed);
	assert_int_equal(g.start, AREA);
	assert_int_equal(g.end, AREA + PAGES(64));
	tlb_gather_end(w->c, &g);
	assert_int_equal(since(w, local_flushes), 1);
	assert_int_equal(since(w, full_flushes), 1);
	assert_int_equal(frame_refcount(f), 0);
	assert_int_equal(count_of(w, VM_pgfree), freed + 64 + 1); /* and the batch page */
	world_check(w);
	/* Nothing gathered: nothing flushed. */
	mark(w);
	tlb_gather_begin(w->c, &g, mm, false);
	tlb_gather_end(w->c, &g);
	assert_int_equal(since(w, local_flushes), 0);
	mm_end(w, mm);
	world_end(w);
}

static void batches(void **state)
{
	const uint64_t nr = 12000;
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(nr), RW);
	for (uint64_t i = 0; i < nr; i++)
		store(w, AREA + PAGES(i), i + 1);
	mark(w);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(nr), UAPI_MADV_DONTNEED));
	/* About 10,000 frames fit; the rest come with the second flush. */
	assert_int_equal(since(w, local_flushes), 2);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

static void gather_without_memory(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct inject *in;

	(void)state;
	map_at(w, mm, AREA, PAGES(100), RW);
	for (unsigned i = 0; i < 100; i++)
		store(w, AREA + PAGES(i), i + 1);
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_EVERY, 1));
	mark(w);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(100), UAPI_MADV_DONTNEED));
	assert_int_equal(since(w, local_flushes), (100 + MMU_GATHER_BUNDLE - 1) / MMU_GATHER_BUNDLE);
	inject_detach(in);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

static void huge_stride(void **state)
{
	struct world *w = world_new(1, 256 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 8 * MIB, RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, AREA + i * 2 * MIB, i + 1);
	int64_t one = count_of(w, VM_nr_tlb_local_flush_one), all = count_of(w, VM_nr_tlb_local_flush_all);

	assert_ok(mm_madvise(w->c, mm, AREA, 8 * MIB, UAPI_MADV_DONTNEED));
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_one) - one, 4);
	assert_int_equal(count_of(w, VM_nr_tlb_local_flush_all) - all, 0);
	mm_end(w, mm);
	world_end(w);
}

static void tables_are_freed_after_the_flush(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mmu_gather g;

	(void)state;
	activate_on(w, 1, mm);
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 1);
	tlb_gather_begin(w->c, &g, mm, false);
	zap_range(w->c, &g, vma_first(mm), AREA, AREA + PAGES(4));
	pt_free_range(w->c, mm, &g, AREA, AREA + PAGES(4), 0, 0);
	assert_true(g.freed_tables);
	assert_int_equal(mm->pgtables_bytes, 4 * PAGE_SIZE); /* unlinked, not yet freed */
	mark(w);
	tlb_gather_end(w->c, &g);
	assert_int_equal(since(w, ipis), 1);
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Flushes that one call or store makes, on this CPU and all others that run the address space. */
#define assert_flushes(w, n, what)                                                                                     \
	do {                                                                                                           \
		mark(w);                                                                                               \
		what;                                                                                                  \
		assert_int_equal(since(w, local_flushes), n);                                                          \
		assert_int_equal(since(w, ipis), n);                                                                   \
	} while (0)

static void whatever_takes_rights_flushes(void **state)
{
	struct world *w = world_new(2, 256 * MIB);
	struct mm *mm = mm_new(w), *child;
	vaddr_t to = AREA + 64 * MIB;

	(void)state;
	activate_on(w, 1, mm);
	map_at(w, mm, AREA, PAGES(16), RW);
	assert_flushes(w, 0, store(w, AREA, 1));
	assert_flushes(w, 0, (void)load(w, AREA + PAGES(1)));
	assert_flushes(w, 1, store(w, AREA + PAGES(1), 1)); /* the zero page goes */
	assert_flushes(w, 1, assert_ok(mm_fork(w->c, mm, &child)));
	assert_flushes(w, 1, store(w, AREA, 2)); /* copied */
	mm_end(w, child);
	assert_flushes(w, 0, store(w, AREA + PAGES(1), 2)); /* kept */
	assert_flushes(w, 1, assert_ok(mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE)));
	assert_flushes(w, 0, assert_ok(mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE))); /* clean already */
	assert_flushes(w, 2,
		       assert_true(mm_mremap(w->c, mm, AREA, PAGES(16), PAGES(16),
					     UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, to) > 0));
	assert_flushes(w, 1, assert_ok(mm_munmap(w->c, mm, to, PAGES(16))));
	mm_end(w, mm);
	world_end(w);
}

static void whatever_takes_huge_rights_flushes(void **state)
{
	struct world *w = world_new(2, 256 * MIB);
	struct mm *mm = mm_new(w), *child;
	vaddr_t to = AREA + 64 * MIB;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	w->q->knobs.huge_cow = HUGE_COW_COPY;
	activate_on(w, 1, mm);
	map_at(w, mm, AREA, 4 * MIB, RW);
	assert_flushes(w, 0, (void)load(w, AREA));
	assert_flushes(w, 1, store(w, AREA, 1));
	store(w, AREA + 2 * MIB, 1);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_flushes(w, 1, store(w, AREA, 2));
	mm_end(w, child);
	assert_flushes(w, 0, store(w, AREA + 2 * MIB, 2));
	/* Each entry; unmapping the source finds nothing more to do. */
	assert_flushes(w, 2,
		       assert_true(mm_mremap(w->c, mm, AREA, 4 * MIB, 4 * MIB, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
					     to) > 0));
	assert_flushes(w, 2,
		       assert_ok(mm_madvise(w->c, mm, to, PAGES(1), UAPI_MADV_DONTNEED))); /* the split, the page */
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(single_entries_up_to_the_ceiling),
		cmocka_unit_test(others_are_told),
		cmocka_unit_test(switching_keeps_contexts),
		cmocka_unit_test(lazy_cpus),
		cmocka_unit_test(faults_need_an_address_space),
		cmocka_unit_test(broadcast_interrupts_nobody),
		cmocka_unit_test(frames_outlive_the_flush),
		cmocka_unit_test(batches),
		cmocka_unit_test(gather_without_memory),
		cmocka_unit_test(huge_stride),
		cmocka_unit_test(tables_are_freed_after_the_flush),
		cmocka_unit_test(whatever_takes_rights_flushes),
		cmocka_unit_test(whatever_takes_huge_rights_flushes),
	};

	return test_run(tests);
}
