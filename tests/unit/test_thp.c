/* Huge pages: who gets one, the huge zero page, reuse, both copy policies, splits of the mapping, and their counts. */
#include "paging_world.h"

#define HUGE (2 * MIB)

static struct world *thp_world(enum thp_enabled enabled)
{
	struct world *w = world_new(1, 256 * MIB);

	w->q->knobs.thp_enabled = enabled;
	return w;
}

static struct frame *head_of(struct world *w, struct mm *mm, vaddr_t va)
{
	return frame_head(w->m, frame_of(w->m, info(mm, va).pfn));
}

static void enabled_decides(void **state)
{
	static const struct {
		enum thp_enabled enabled;
		int advice; /* 0: none */
		bool disable, huge;
	} cases[] = {
		{ THP_NEVER, 0, false, false },
		{ THP_NEVER, UAPI_MADV_HUGEPAGE, false, false },
		{ THP_MADVISE, 0, false, false },
		{ THP_MADVISE, UAPI_MADV_HUGEPAGE, false, true },
		{ THP_MADVISE, UAPI_MADV_NOHUGEPAGE, false, false },
		{ THP_ALWAYS, 0, false, true },
		{ THP_ALWAYS, UAPI_MADV_NOHUGEPAGE, false, false },
		{ THP_ALWAYS, UAPI_MADV_HUGEPAGE, true, false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct world *w = thp_world(cases[i].enabled);
		struct mm *mm = mm_new(w);

		map_at(w, mm, AREA, 2 * HUGE, RW);
		if (cases[i].advice)
			assert_ok(mm_madvise(w->c, mm, AREA, 2 * HUGE, cases[i].advice));
		if (cases[i].disable)
			assert_ok(mm_set_thp_disable(w->c, mm, true));
		store(w, AREA + HUGE + PAGES(7), 9);
		assert_int_equal(info(mm, AREA + HUGE).huge, cases[i].huge);
		assert_int_equal(mm_rss(mm, RSS_ANON), cases[i].huge ? 512 : 1);
		assert_int_equal(mm->huge_mapped, cases[i].huge);
		assert_int_equal(count_of(w, VM_nr_anon_transparent_hugepages), cases[i].huge);
		assert_int_equal(count_of(w, VM_thp_fault_alloc), cases[i].huge);
		assert_int_equal(load(w, AREA + HUGE + PAGES(7)), 9);
		assert_int_equal(load(w, AREA + HUGE + PAGES(8)), 0);
		world_check(w);
		mm_put(w->c, mm);
		check_fault_sum(w);
		world_end(w);
	}
}

static void area_must_contain_it(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA + PAGES(1), 2 * HUGE, RW);
	store(w, AREA + PAGES(3), 1); /* the area begins inside */
	store(w, AREA + HUGE + PAGES(3), 2);
	store(w, AREA + 2 * HUGE, 3); /* and ends inside */
	assert_false(info(mm, AREA + PAGES(3)).huge);
	assert_true(info(mm, AREA + HUGE + PAGES(3)).huge);
	assert_false(info(mm, AREA + 2 * HUGE).huge);
	assert_int_equal(count_of(w, VM_thp_fault_fallback), 0);
	/* A table that is there already stays. */
	map_at(w, mm, AREA + 16 * MIB, HUGE, RW);
	w->q->knobs.thp_enabled = THP_NEVER;
	store(w, AREA + 16 * MIB, 4);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	store(w, AREA + 16 * MIB + PAGES(1), 4);
	assert_false(info(mm, AREA + 16 * MIB).huge);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

static void cleared_around_the_target(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);
	const struct null_counts *n = null_counts(w->m);

	(void)state;
	map_at(w, mm, AREA, HUGE, RW);
	store(w, AREA + PAGES(300), 9);
	assert_int_equal(count_of(w, VM_quire_pages_cleared), 512);
	uint64_t clears = 0;

	for (unsigned p = 0; p < NR_MACHINE_PATHS; p++)
		clears += n->path[p].clears;
	assert_true(clears >= 512);
	assert_int_equal(n->path[PATH_FAULT_HUGE].units, 1);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), i == 300 ? 9 : 0);
	assert_int_equal(count_of(w, VM_pgfault), 1);
	mm_put(w->c, mm);
	world_end(w);
}

static void huge_zero_page(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, 3 * HUGE, RW);
	assert_int_equal(load(w, AREA + PAGES(5)), 0);
	assert_int_equal(load(w, AREA + HUGE), 0);
	assert_true(info(mm, AREA).huge && info(mm, AREA).zero_page);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(mm->huge_mapped, 0);
	assert_int_equal(count_of(w, VM_thp_zero_page_alloc), 1);
	assert_int_equal(count_of(w, VM_quire_fault_zero_2m), 2);
	world_check(w);
	/* Written: a huge page of its own. */
	store(w, AREA + PAGES(5), 6);
	assert_true(info(mm, AREA).huge && !info(mm, AREA).zero_page);
	assert_int_equal(load(w, AREA + PAGES(5)), 6);
	assert_int_equal(load(w, AREA + PAGES(6)), 0);
	assert_int_equal(count_of(w, VM_quire_fault_cow_2m), 1);
	world_check(w);
	/* A part of it unmapped: base zero pages remain. */
	assert_ok(mm_munmap(w->c, mm, AREA + HUGE, PAGES(3)));
	world_check(w);
	assert_int_equal(load(w, AREA + HUGE + PAGES(3)), 0);
	assert_true(info(mm, AREA + HUGE + PAGES(3)).zero_page);
	store(w, AREA + HUGE + PAGES(4), 8);
	assert_int_equal(mm_rss(mm, RSS_ANON), 513);
	w->q->knobs.thp_use_zero_page = false;
	assert_int_equal(load(w, AREA + 2 * HUGE), 0);
	assert_false(info(mm, AREA + 2 * HUGE).zero_page);
	assert_int_equal(count_of(w, VM_quire_fault_anon_2m), 1);
	world_check(w);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

static void fallback_without_huge_pages(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);
	struct inject *in;

	(void)state;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	assert_ok(inject_attach(w->m, 1, &in));
	store(w, AREA + HUGE, 0); /* upper tables */
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, 1));
	store(w, AREA, 3);
	assert_false(info(mm, AREA).huge);
	assert_int_equal(count_of(w, VM_thp_fault_fallback), 1);
	assert_int_equal(load(w, AREA), 3);
	/* The huge zero page can't be had either: its allocation comes after the deposited table's. */
	assert_ok(mm_madvise(w->c, mm, AREA + HUGE, HUGE, UAPI_MADV_DONTNEED));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, 2));
	assert_int_equal(load(w, AREA + HUGE), 0);
	assert_true(info(mm, AREA + HUGE).zero_page && !info(mm, AREA + HUGE).huge);
	assert_int_equal(count_of(w, VM_thp_zero_page_alloc_failed), 1);
	assert_int_equal(count_of(w, VM_thp_fault_fallback), 2);
	inject_detach(in);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

static void reuse_by_the_sole_owner(void **state)
{
	(void)state;
	for (unsigned policy = HUGE_COW_COPY; policy <= HUGE_COW_SPLIT; policy++) {
		struct world *w = thp_world(THP_ALWAYS);
		struct mm *mm = mm_new(w), *child;

		w->q->knobs.huge_cow = policy;
		map_at(w, mm, AREA, HUGE, RW);
		store(w, AREA, 1);
		pfn_t p = info(mm, AREA).pfn;

		assert_ok(mm_fork(w->c, mm, &child));
		mm_put(w->c, child);
		assert_false(info(mm, AREA).writable);
		store(w, AREA + PAGES(1), 2);
		assert_int_equal(count_of(w, VM_quire_fault_reuse_2m), 1);
		assert_int_equal(info(mm, AREA).pfn.v, p.v);
		assert_true(info(mm, AREA).writable && info(mm, AREA).exclusive);
		world_check(w);
		mm_put(w->c, mm);
		check_fault_sum(w);
		world_end(w);
	}
}

static void cow_copy(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	w->q->knobs.huge_cow = HUGE_COW_COPY;
	map_at(w, mm, AREA, HUGE, RW);
	for (unsigned i = 0; i < 512; i++)
		store(w, AREA + PAGES(i), i + 1);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(head_of(w, mm, AREA)->refcount, 2);
	assert_int_equal(head_of(w, mm, AREA)->entire_mapcount, 1);
	assert_int_equal(count_of(w, VM_nr_anon_transparent_hugepages), 1);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 512);
	mm_activate(w->c, child);
	store(w, AREA + PAGES(100), 5000);
	assert_true(info(child, AREA).huge);
	assert_int_equal(count_of(w, VM_quire_fault_cow_2m), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 512);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 0);
	assert_int_equal(mm_rss(child, RSS_ANON), 512);
	assert_int_equal(mm_rss_peak(child), 512);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), i == 100 ? 5000 : i + 1);
	world_check(w);
	mm_activate(w->c, mm);
	store(w, AREA + PAGES(100), 6000); /* the last one keeps it */
	assert_int_equal(count_of(w, VM_quire_fault_reuse_2m), 1);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA + PAGES(100)), 5000);
	mm_put(w->c, mm);
	mm_put(w->c, child);
	check_fault_sum(w);
	world_end(w);
}

static void cow_copy_falls_back(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w), *child;
	struct inject *in;

	(void)state;
	w->q->knobs.huge_cow = HUGE_COW_COPY;
	map_at(w, mm, AREA, HUGE, RW);
	store(w, AREA, 1);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, 1));
	store(w, AREA, 2);
	inject_detach(in);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 1);
	assert_int_equal(count_of(w, VM_thp_fault_fallback), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 1);
	assert_false(info(mm, AREA).huge);
	assert_true(info(child, AREA).huge);
	world_check(w);
	/* The only huge mapping now, but not the only one. */
	mm_activate(w->c, child);
	store(w, AREA + PAGES(1), 3);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_2m), 0);
	assert_int_equal(count_of(w, VM_quire_fault_cow_2m), 1);
	world_check(w);
	mm_activate(w->c, mm);
	assert_int_equal(load(w, AREA), 2);
	assert_int_equal(load(w, AREA + PAGES(1)), 0);
	mm_put(w->c, child);
	mm_put(w->c, mm);
	world_end(w);
}

static void cow_split(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	w->q->knobs.huge_cow = HUGE_COW_SPLIT;
	map_at(w, mm, AREA, HUGE, RW);
	for (unsigned i = 0; i < 512; i++)
		store(w, AREA + PAGES(i), i + 1);
	struct frame *head = head_of(w, mm, AREA);

	assert_ok(mm_fork(w->c, mm, &child));
	mm_activate(w->c, child);
	store(w, AREA + PAGES(100), 5000);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 1);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 1);
	assert_int_equal(count_of(w, VM_quire_fault_cow_2m), 0);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 1);
	/* 511 base mappings and the parent's. */
	assert_int_equal(head->refcount, 512);
	assert_int_equal(head->entire_mapcount, 0);
	assert_int_equal(head->nr_pages_mapped, 511 + FOLIO_ENTIRELY_MAPPED);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 513);
	assert_int_equal(child->huge_mapped, 0);
	assert_int_equal(mm_rss(child, RSS_ANON), 512);
	world_check(w);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), i == 100 ? 5000 : i + 1);
	/* The parent's is the only huge mapping now, but not the only one. */
	mm_activate(w->c, mm);
	store(w, AREA + PAGES(3), 3000);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 2);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_2m), 0);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA + PAGES(3)), 4);
	world_check(w);
	/* The parent goes: what the child replaced is mapped by nobody any more. */
	mm_put(w->c, mm);
	assert_int_equal(count_of(w, VM_thp_deferred_split_page), 1);
	assert_true(head->flags & FRAME_PARTIALLY_MAPPED);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 512);
	world_check(w);
	/* Base mappings of a folio that others reference are copied, as in Linux 6.12. */
	store(w, AREA + PAGES(7), 7000);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 3);
	mm_put(w->c, child);
	check_fault_sum(w);
	world_end(w);
}

static void unmap_parts(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, 3 * HUGE, RW);
	for (unsigned i = 0; i < 3; i++)
		store(w, AREA + i * HUGE + PAGES(20), i + 1);
	assert_ok(mm_madvise(w->c, mm, AREA + HUGE, HUGE, UAPI_MADV_DONTNEED)); /* whole */
	assert_int_equal(count_of(w, VM_thp_split_pmd), 0);
	assert_int_equal(mm->huge_mapped, 2);
	assert_int_equal(load(w, AREA + HUGE + PAGES(20)), 0);
	assert_ok(mm_madvise(w->c, mm, AREA + PAGES(10), PAGES(5), UAPI_MADV_DONTNEED)); /* part */
	assert_int_equal(count_of(w, VM_thp_split_pmd), 1);
	assert_int_equal(count_of(w, VM_thp_deferred_split_page), 1);
	assert_int_equal(mm_rss(mm, RSS_ANON), 512 - 5 + 512);
	assert_true(info(mm, AREA + PAGES(20)).writable && info(mm, AREA + PAGES(20)).exclusive);
	assert_int_equal(load(w, AREA + PAGES(20)), 1);
	assert_int_equal(load(w, AREA + PAGES(12)), 0);
	world_check(w);
	store(w, AREA + PAGES(20), 10); /* owned: no fault */
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 0);
	assert_ok(mm_munmap(w->c, mm, AREA + 2 * HUGE + PAGES(21), PAGES(1)));
	assert_int_equal(load(w, AREA + 2 * HUGE + PAGES(20)), 3);
	world_check(w);
	assert_ok(mm_munmap(w->c, mm, AREA, 3 * HUGE));
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	mm_put(w->c, mm);
	world_end(w);
}

static void protect_huge(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w), *child;
	uint64_t v;

	(void)state;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	store(w, AREA + PAGES(1), 1);
	store(w, AREA + HUGE, 2);
	assert_ok(mm_mprotect(w->c, mm, AREA, HUGE, 0));
	assert_true(info(mm, AREA).huge && info(mm, AREA).present);
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	world_check(w);
	assert_ok(mm_fork(w->c, mm, &child)); /* with no rights at all */
	world_check(w);
	assert_ok(mm_mprotect(w->c, mm, AREA, HUGE, RW));
	assert_true(info(mm, AREA).huge);
	assert_false(info(mm, AREA).writable); /* shared with the child since */
	assert_int_equal(load(w, AREA + PAGES(1)), 1);
	world_check(w);
	mm_put(w->c, child);
	/* A part, without rights, and back. */
	assert_ok(mm_mprotect(w->c, mm, AREA + HUGE, HUGE, 0));
	assert_ok(mm_mprotect(w->c, mm, AREA + HUGE + PAGES(8), PAGES(8), UAPI_PROT_READ));
	assert_false(info(mm, AREA + HUGE).huge);
	assert_int_equal(load(w, AREA + HUGE + PAGES(9)), 0);
	assert_int_equal(try_load(w, AREA + HUGE, &v), -EFAULT);
	world_check(w);
	assert_ok(mm_mprotect(w->c, mm, AREA + HUGE, HUGE, RW));
	assert_int_equal(load(w, AREA + HUGE), 2);
	store(w, AREA + HUGE, 3);
	world_check(w);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

static void move_huge(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);
	vaddr_t to = AREA + (1ULL << 39), odd = AREA + 128 * MIB + PAGES(3);
	int64_t r;

	(void)state;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	store(w, AREA + PAGES(9), 9);
	(void)load(w, AREA + HUGE);
	r = mm_mremap(w->c, mm, AREA, 2 * HUGE, 2 * HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, to);
	assert_int_equal(r, (int64_t)to);
	assert_true(info(mm, to).huge && info(mm, to + HUGE).zero_page);
	assert_int_equal(mm->huge_mapped, 1);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 0);
	assert_int_equal(load(w, to + PAGES(9)), 9);
	world_check(w);
	r = mm_mremap(w->c, mm, to, 2 * HUGE, 2 * HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, odd);
	assert_int_equal(r, (int64_t)odd);
	assert_false(info(mm, odd).huge);
	assert_int_equal(load(w, odd + PAGES(9)), 9);
	assert_int_equal(mm_rss(mm, RSS_ANON), 512);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

static void lazyfree_huge(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	store(w, AREA, 1);
	store(w, AREA + HUGE, 2);
	assert_ok(mm_madvise(w->c, mm, AREA, HUGE, UAPI_MADV_FREE));
	assert_int_equal(count_of(w, VM_pglazyfree), 512);
	assert_false(info(mm, AREA).dirty);
	assert_true(info(mm, AREA).huge);
	store(w, AREA + HUGE + PAGES(4), 3);
	assert_ok(mm_madvise(w->c, mm, AREA + HUGE, PAGES(4), UAPI_MADV_FREE));
	assert_int_equal(count_of(w, VM_thp_split_page), 1);
	assert_int_equal(count_of(w, VM_pglazyfree), 512 + 1); /* the other three were never written: the page of zeroes is there now */
	assert_false(info(mm, AREA + HUGE).dirty);
	assert_true(info(mm, AREA + HUGE + PAGES(1)).zero_page);
	assert_true(info(mm, AREA + HUGE + PAGES(4)).dirty);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

static void mlock_huge(void **state)
{
	struct world *w = thp_world(THP_ALWAYS);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	store(w, AREA, 1);
	assert_ok(mm_mlock(w->c, mm, AREA, 2 * HUGE, false));
	assert_int_equal(count_of(w, VM_nr_mlock), 1024);
	world_check(w);
	assert_ok(mm_munlock(w->c, mm, AREA, HUGE));
	assert_int_equal(count_of(w, VM_nr_mlock), 512);
	assert_ok(mm_munmap(w->c, mm, AREA + HUGE + PAGES(1), PAGES(1)));
	world_check(w);
	mm_put(w->c, mm);
	assert_int_equal(count_of(w, VM_nr_mlock), 0);
	world_end(w);
}

/* Huge pages run out first, then base pages fill what is left, then the caller is told. */
static void memory_runs_out(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t n = 0;
	int rc = 0;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 256 * MIB, RW);
	for (; !rc && n < 65536; n++)
		rc = try_store(w, AREA + PAGES(n), n + 1);
	assert_int_equal(rc, -ENOMEM);
	assert_true(count_of(w, VM_thp_fault_alloc) > 20);
	assert_true(count_of(w, VM_thp_fault_fallback) > 0);
	assert_true(count_of(w, VM_quire_fault_anon_4k) > 0);
	assert_int_equal(count_of(w, VM_quire_fault_oom), 1);
	world_check(w);
	for (uint64_t i = 0; i < n - 1; i += 61)
		assert_int_equal(load(w, AREA + PAGES(i)), i + 1);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

/* The n-th allocation, clear or copy fails: the caller is told, or base pages do it; nothing is lost. */
static int huge_scenario(struct world *w, struct mm *mm)
{
	struct mm *child;
	uint64_t v;
	int rc;

	if ((rc = try_store(w, AREA, 1)) || (rc = try_load(w, AREA + HUGE, &v)) ||
	    (rc = try_store(w, AREA + HUGE, 2)) || (rc = mm_fork(w->c, mm, &child)))
		return rc;
	rc = try_store(w, AREA, 3);
	if (!rc)
		rc = try_store(w, AREA + PAGES(1), 3);
	mm_activate(w->c, child);
	if (!rc)
		rc = try_load(w, AREA, &v);
	if (!rc)
		assert_int_equal(v, 1);
	mm_activate(w->c, mm);
	mm_put(w->c, child);
	return rc;
}

static void nth_failure(void **state)
{
	static const enum inject_site sites[] = { INJECT_FRAME_ALLOC, INJECT_SLAB_ALLOC, INJECT_CLEAR, INJECT_COPY };

	(void)state;
	for (unsigned k = 0; k < 2 * ARRAY_SIZE(sites); k++) {
		enum inject_site site = sites[k / 2];
		bool failed = true;

		/* Clears and copies come in thousands: every 61st is tried. */
		for (uint64_t n = 1; failed && n < 4000; n += site == INJECT_CLEAR || site == INJECT_COPY ? 61 : 1) {
			struct world *w = thp_world(THP_ALWAYS);
			struct mm *mm = mm_new(w);
			struct inject *in;

			w->q->knobs.huge_cow = k % 2 ? HUGE_COW_SPLIT : HUGE_COW_COPY;
			map_at(w, mm, AREA, 2 * HUGE, RW);
			assert_ok(inject_attach(w->m, 1, &in));
			assert_ok(inject_set(in, site, INJECT_NTH, n));
			int rc = huge_scenario(w, mm);

			failed = inject_failures(in, site) != 0;
			if (rc)
				assert_true(failed && (rc == -ENOMEM || (site == INJECT_COPY && rc == -EFAULT)));
			inject_detach(in);
			world_check(w);
			mm_put(w->c, mm);
			check_fault_sum(w);
			world_end(w);
		}
		assert_false(failed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(enabled_decides),
		cmocka_unit_test(area_must_contain_it),
		cmocka_unit_test(cleared_around_the_target),
		cmocka_unit_test(huge_zero_page),
		cmocka_unit_test(fallback_without_huge_pages),
		cmocka_unit_test(reuse_by_the_sole_owner),
		cmocka_unit_test(cow_copy),
		cmocka_unit_test(cow_copy_falls_back),
		cmocka_unit_test(cow_split),
		cmocka_unit_test(unmap_parts),
		cmocka_unit_test(protect_huge),
		cmocka_unit_test(move_huge),
		cmocka_unit_test(lazyfree_huge),
		cmocka_unit_test(mlock_huge),
		cmocka_unit_test(memory_runs_out),
		cmocka_unit_test(nth_failure),
	};

	return test_run(tests);
}
