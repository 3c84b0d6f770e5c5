/*
 * Translation: the walker on hand-made tables, Accessed and Dirty, rights, faults and their retries, stale entries until a
 * flush, page-walk caches, contexts, hardware threads, capacity.
 */
#include "testing.h"

#include "base/rng.h"
#include "core_fixture.h"

#include <errno.h>

const uint32_t machine_work_table[NR_MACHINE_PATHS] = { 0 };

#define U ACCESS_USER
#define UW (ACCESS_USER | ACCESS_WRITE)
#define RIGHTS (PTE_WRITE | PTE_USER)
#define VA 0x7f0000000000ULL
#define PA(n) ((64ULL << 20) + (n) * PAGE_SIZE)

static struct fixture f;

static int setup(void **state)
{
	struct machine_desc d = fix_desc();
	char err[200];

	(void)state;
	d.threads_per_core = 2;
	return fix_create(&f, &d, false, err, sizeof(err));
}

static int teardown(void **state)
{
	(void)state;
	fix_destroy(&f);
	return 0;
}

static uint64_t translate(unsigned cpu, vaddr_t va)
{
	pfn_t p = pfn(0);
	bool w, huge;

	return core_tlb_probe(fix_cpu(&f, cpu), 1, va, &p, &w, &huge) ? p.v : ~0ULL;
}

static void flush(unsigned cpu, vaddr_t start, uint64_t len, bool tables)
{
	const struct tlb_flush fl = { .ctx = 1, .stride_shift = 12, .start = start, .end = start + len, .freed_tables = tables };

	core_flush_local(fix_cpu(&f, cpu), &fl);
}

static void test_sizes_and_bits(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);
	uint64_t *e4 = fix_map(&f, FIX_ROOT_PFN, VA, PA(3), 0, RIGHTS);
	uint64_t *e2 = fix_map(&f, FIX_ROOT_PFN, VA + PMD_SIZE, 128ULL << 20, 1, RIGHTS);
	uint64_t *e1 = fix_map(&f, FIX_ROOT_PFN, VA + PUD_SIZE, 0, 2, RIGHTS);

	(void)state;
	assert_int_equal(core_access(c, VA + 8, 8, U), 0);
	assert_int_equal(core_access(c, VA + PMD_SIZE + 0x12345, 4, U), 0);
	assert_int_equal(core_access(c, VA + PUD_SIZE + 0x2345678, 4, U), 0);
	assert_int_equal(translate(0, VA), PA(3) >> PAGE_SHIFT);
	assert_int_equal(translate(0, VA + PMD_SIZE + 0x12345), (128ULL << 8) + 0x12);
	assert_int_equal(translate(0, VA + PUD_SIZE + 0x2345678), 0x2345);
	assert_int_equal(*e4 & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED);
	assert_int_equal(*e2 & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED);
	assert_int_equal(*e1 & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED);
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	assert_int_equal(core_access(c, VA + PMD_SIZE, 8, UW), 0);
	assert_int_equal(core_access(c, VA + PUD_SIZE, 8, UW), 0);
	assert_int_equal(*e4 & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED | PTE_DIRTY);
	assert_int_equal(*e2 & PTE_DIRTY, PTE_DIRTY);
	assert_int_equal(*e1 & PTE_DIRTY, PTE_DIRTY);
	assert_int_equal(f.faults, 0);
	/* the walk for Dirty is a walk too */
	assert_int_equal(fix_stat(&f, "tlb_misses_4k"), 2);
	assert_int_equal(fix_stat(&f, "tlb_misses_2m"), 2);
	assert_int_equal(fix_stat(&f, "tlb_misses_1g"), 2);
	assert_true(fix_stat(&f, "walk_ns_4k") > 0);
	/* an entry cleared of Dirty while the TLB has it: stores go on without setting it, until flushed */
	*e4 &= ~PTE_DIRTY;
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	assert_int_equal(*e4 & PTE_DIRTY, 0);
	flush(0, VA, PAGE_SIZE, false);
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	assert_int_equal(*e4 & PTE_DIRTY, PTE_DIRTY);
}

static void test_upper_accessed(void **state)
{
	uint64_t *pgd = fix_entry(&f, FIX_ROOT_PFN, VA, 3);

	(void)state;
	fix_map(&f, FIX_ROOT_PFN, VA, PA(0), 0, RIGHTS);
	assert_int_equal(*pgd & PTE_ACCESSED, 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 1, U), 0);
	assert_int_equal(*pgd & PTE_ACCESSED, PTE_ACCESSED);
}

/* What the hook is told, by access and entry. */
static void check_fault(vaddr_t va, unsigned flags, unsigned err)
{
	f.answer = -EFAULT;
	f.last_err = ~0U;
	assert_int_equal(core_access(fix_cpu(&f, 0), va, 1, flags), -EFAULT);
	assert_int_equal(f.last_err, err);
}

static void test_rights(void **state)
{
	(void)state;
	fix_map(&f, FIX_ROOT_PFN, VA, PA(0), 0, PTE_USER);                              /* read-only */
	fix_map(&f, FIX_ROOT_PFN, VA + PAGE_SIZE, PA(1), 0, PTE_WRITE);                 /* the kernel's */
	fix_map(&f, FIX_ROOT_PFN, VA + 2 * PAGE_SIZE, PA(2), 0, RIGHTS | PTE_NX);
	check_fault(VA, UW, ACCESS_PRESENT | UW);
	check_fault(VA, ACCESS_WRITE, ACCESS_PRESENT | ACCESS_WRITE); /* a kernel copy honours it too */
	check_fault(VA + PAGE_SIZE, U, ACCESS_PRESENT | U);
	check_fault(VA + 2 * PAGE_SIZE, U | ACCESS_EXEC, ACCESS_PRESENT | U | ACCESS_EXEC);
	check_fault(VA + 3 * PAGE_SIZE, U, U);
	check_fault(VA + 3 * PAGE_SIZE, UW, UW);
	check_fault(VA + PUD_SIZE * 7, 0, 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 1, U), 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA + PAGE_SIZE, 1, ACCESS_WRITE), 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA + 2 * PAGE_SIZE, 1, UW), 0);
	/* a level above takes rights away */
	*fix_entry(&f, FIX_ROOT_PFN, VA, 3) &= ~PTE_WRITE;
	{
		const struct tlb_flush all = { .ctx = 1, .full = true };

		core_flush_local(fix_cpu(&f, 0), &all);
	}
	check_fault(VA + 2 * PAGE_SIZE, UW, ACCESS_PRESENT | UW);
	*fix_entry(&f, FIX_ROOT_PFN, VA, 3) |= PTE_WRITE;
}

static void test_fault_retry(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);
	uint64_t before = c->now_ps, value = 1;

	(void)state;
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	assert_int_equal(f.faults, 1);
	assert_true(c->fault_start_ps > before && c->now_ps >= c->fault_start_ps + f.md->desc.cost.exception_ps);
	assert_int_equal(translate(0, VA), FIX_ROOT_PFN + 8192);
	/* an access over two missing pages faults for each; its contents are those of the page it begins in */
	assert_int_equal(core_access(c, VA + 3 * PAGE_SIZE - 4, 8, UW), 0);
	assert_int_equal(f.faults, 3);
	assert_int_equal(core_store_value(c, VA, 77), 0);
	assert_int_equal(core_load_value(c, VA, &value), 0);
	assert_int_equal(value, 77);
	/* raising rights without a flush: the store walks again and needs no fault */
	fix_map(&f, FIX_ROOT_PFN, VA + 8 * PAGE_SIZE, PA(9), 0, PTE_USER);
	assert_int_equal(core_access(c, VA + 8 * PAGE_SIZE, 8, U), 0);
	fix_map(&f, FIX_ROOT_PFN, VA + 8 * PAGE_SIZE, PA(9), 0, RIGHTS);
	assert_int_equal(core_access(c, VA + 8 * PAGE_SIZE, 8, UW), 0);
	assert_int_equal(f.faults, 3);
	f.answer = -ENOMEM;
	assert_int_equal(core_access(c, VA + 20 * PAGE_SIZE, 8, UW), -ENOMEM);
}

static void test_run_stops_at_a_failing_page(void **state)
{
	uint64_t done = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		fix_map(&f, FIX_ROOT_PFN, VA + i * PAGE_SIZE, PA(i), 0, RIGHTS);
	f.answer = -EFAULT;
	assert_int_equal(core_access_run(fix_cpu(&f, 0), VA, 8, 3 * PAGE_SIZE / 8, 8, UW, 3, &done), -EFAULT);
	assert_int_equal(done, 2 * PAGE_SIZE / 8);
}

static void test_stale_until_flushed(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);
	uint64_t *e = fix_map(&f, FIX_ROOT_PFN, VA, PA(0), 0, RIGHTS);

	(void)state;
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	*e = 0;
	assert_int_equal(core_access(c, VA, 8, UW), 0); /* nobody has told the TLB */
	assert_int_equal(f.faults, 0);
	flush(0, VA + PAGE_SIZE, PAGE_SIZE, true);
	assert_int_equal(translate(0, VA), PA(0) >> PAGE_SHIFT);
	flush(0, VA, PAGE_SIZE, false);
	assert_int_equal(translate(0, VA), ~0ULL);
	f.answer = -EFAULT;
	assert_int_equal(core_access(c, VA, 8, UW), -EFAULT);
	/* nor the other hardware thread of the core */
	f.answer = 0;
	e = fix_map(&f, FIX_ROOT_PFN, VA, PA(1), 0, RIGHTS);
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	assert_int_equal(core_access(fix_cpu(&f, 2), VA, 8, UW), 0);
	assert_ptr_equal(fix_core(&f, 0)->phys, fix_core(&f, 2)->phys);
	flush(0, VA, PAGE_SIZE, false);
	assert_int_equal(translate(0, VA), ~0ULL);
	assert_int_equal(translate(2, VA), PA(1) >> PAGE_SHIFT);
}

static void test_flush_wide_and_huge(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		fix_map(&f, FIX_ROOT_PFN, VA + i * PAGE_SIZE, PA(i), 0, RIGHTS);
		assert_int_equal(core_access(c, VA + i * PAGE_SIZE, 8, UW), 0);
	}
	fix_map(&f, FIX_ROOT_PFN, VA + PMD_SIZE, 128ULL << 20, 1, RIGHTS);
	assert_int_equal(core_access(c, VA + PMD_SIZE, 8, U), 0);
	flush(0, VA + 10 * PAGE_SIZE, PMD_SIZE, false); /* a wide range, into the huge page */
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(translate(0, VA + i * PAGE_SIZE), i < 10 ? PA(i) >> PAGE_SHIFT : ~0ULL);
	assert_int_equal(translate(0, VA + PMD_SIZE), ~0ULL);
	assert_int_equal(core_access(c, VA + PMD_SIZE, 8, U), 0);
	flush(0, VA + PMD_SIZE + 5 * PAGE_SIZE, PAGE_SIZE, false); /* any page of a huge one takes it */
	assert_int_equal(translate(0, VA + PMD_SIZE), ~0ULL);
}

/* A table is replaced: the walker goes on with the old one until a flush says that tables were freed. */
static void test_walk_cache(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);
	uint64_t *pmd, old;

	(void)state;
	fix_map(&f, FIX_ROOT_PFN, VA, PA(0), 0, RIGHTS);
	fix_map(&f, FIX_ROOT_PFN, VA + PAGE_SIZE, PA(1), 0, RIGHTS);
	pmd = fix_entry(&f, (*fix_entry(&f, (*fix_entry(&f, FIX_ROOT_PFN, VA, 3) & PTE_ADDR_MASK) >> PAGE_SHIFT, VA, 2) &
			     PTE_ADDR_MASK) >> PAGE_SHIFT, VA, 1);
	assert_int_equal(core_access(c, VA, 8, U), 0);
	old = *pmd;
	*pmd = 0;
	flush(0, VA, PAGE_SIZE, false);
	assert_int_equal(core_access(c, VA + PAGE_SIZE, 8, U), 0);
	assert_int_equal(translate(0, VA + PAGE_SIZE), PA(1) >> PAGE_SHIFT);
	assert_int_equal(f.faults, 0);
	flush(0, VA, 2 * PAGE_SIZE, true);
	f.answer = -EFAULT;
	assert_int_equal(core_access(c, VA + PAGE_SIZE, 8, U), -EFAULT);
	*pmd = old;
	f.answer = 0;
	/* walks with a warm cache read one entry, from nothing four */
	{
		uint64_t refs = fix_stat(&f, "walk_refs");

		assert_int_equal(core_access(c, VA, 8, U), 0);
		assert_true(fix_stat(&f, "walk_refs") - refs <= 4 && fix_stat(&f, "walk_refs") - refs >= 2);
		refs = fix_stat(&f, "walk_refs");
		assert_int_equal(core_access(c, VA + PAGE_SIZE, 8, U), 0);
		assert_int_equal(fix_stat(&f, "walk_refs") - refs, 1);
	}
}

static void test_contexts(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);
	uint64_t other = f.next_table++, value;

	(void)state;
	fix_map(&f, FIX_ROOT_PFN, VA, PA(0), 0, RIGHTS);
	fix_map(&f, other, VA, PA(1), 0, RIGHTS);
	assert_int_equal(core_store_value(c, VA, 10), 0);
	core_load_context(c, pfn(other), 2);
	assert_int_equal(core_store_value(c, VA, 11), 0);
	core_load_context(c, pfn(FIX_ROOT_PFN), 1);
	assert_int_equal(core_load_value(c, VA, &value), 0);
	assert_int_equal(value, 10);
	assert_int_equal(fix_stat(&f, "tlb_misses_4k"), 2); /* entries of both stayed */
	core_load_context(c, pfn(0), 0);
	f.answer = -EFAULT;
	assert_int_equal(core_access(c, VA, 8, U), -EFAULT);
	{
		const struct tlb_flush all = { .ctx = 2, .full = true };

		core_flush_nocharge(c, &all);
	}
	assert_int_equal(translate(0, VA), PA(0) >> PAGE_SHIFT);
}

/* n pages round and round: L1 holds 16, L2 64, true LRU. */
static uint64_t misses_of_loop(unsigned n, const char *counter)
{
	uint64_t before = fix_stat(&f, counter);

	for (unsigned round = 0; round < 5; round++)
		for (unsigned i = 0; i < n; i++)
			assert_int_equal(core_access(fix_cpu(&f, 0), VA + i * PAGE_SIZE, 8, U), 0);
	return fix_stat(&f, counter) - before;
}

static void test_capacity(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 80; i++)
		fix_map(&f, FIX_ROOT_PFN, VA + i * PAGE_SIZE, PA(i), 0, RIGHTS);
	assert_int_equal(misses_of_loop(16, "tlb_l1_misses_4k"), 16);
	assert_int_equal(misses_of_loop(64, "tlb_misses_4k"), 48);
	/* one page too many in each L2 set: with true LRU each page pushes out the one needed next */
	assert_int_equal(misses_of_loop(72, "tlb_misses_4k"), 8 + 72 * 4);
}

static void test_direct_map(void **state)
{
	struct cpu *c = fix_cpu(&f, 0);

	(void)state;
	core_touch(c, PA(0), 8, TOUCH_READ);
	assert_int_equal(fix_stat(&f, "walk_kernel"), 1);
	core_touch(c, PA(5000), 8, TOUCH_WRITE); /* the same gigabyte */
	assert_int_equal(fix_stat(&f, "walk_kernel"), 1);
	assert_int_equal(fix_stat(&f, "kernel_touches"), 2);
	core_touch(c, PA(0) + 60, 8, TOUCH_READ); /* two lines */
	assert_int_equal(fix_stat(&f, "kernel_touches"), 4);
	assert_int_equal(translate(0, PA(0)), ~0ULL); /* no program sees it */
}

static void test_direct_map_2m(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture g, save = f;
	char err[200];

	(void)state;
	d.dtlb.entries_1g = 0;
	assert_int_equal(fix_create(&g, &d, false, err, sizeof(err)), 0);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 8; i++)
			core_touch(fix_cpu(&g, 0), (64ULL << 20) + i * PMD_SIZE, 8, TOUCH_READ);
	assert_int_equal(fix_stat(&g, "walk_kernel"), 8);
	fix_destroy(&g);
	f = save;
	fix_current = &f;
}

/* Keys against a map from page to frame, with random flushes: a hit never has a frame that it should not have. */
static void test_random_against_map(void **state)
{
	uint64_t frame[64] = { 0 };
	struct rng r;

	(void)state;
	rng_init(&r, 3, "tlb");
	for (unsigned i = 0; i < 20000; i++) {
		unsigned p = (unsigned)rng_below(&r, 64);
		vaddr_t va = VA + p * PAGE_SIZE;

		if (!frame[p] || rng_below(&r, 20) == 0) {
			frame[p] = PA(100 + i) >> PAGE_SHIFT;
			fix_map(&f, FIX_ROOT_PFN, va, frame[p] << PAGE_SHIFT, 0, RIGHTS);
			flush(0, va, PAGE_SIZE, false);
			flush(1, va, PAGE_SIZE, false);
		}
		assert_int_equal(core_access(fix_cpu(&f, i & 1), va, 8, rng_below(&r, 2) ? UW : U), 0);
		assert_int_equal(translate(i & 1, va), frame[p]);
	}
}

int main(void)
{
#define T(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_sizes_and_bits), T(test_upper_accessed), T(test_rights), T(test_fault_retry),
		T(test_run_stops_at_a_failing_page), T(test_stale_until_flushed), T(test_flush_wide_and_huge),
		T(test_walk_cache), T(test_contexts), T(test_capacity), T(test_direct_map), T(test_direct_map_2m),
		T(test_random_against_map),
	};

	return test_run(tests);
}
