/*
 * Pools of huge pages: sizes, promises, surplus; what the calls refuse. After each step that matters everything is validated
 * (hugetlb.h HP1 to HP5). Faults, fork and copies: test_hugetlb_fault.c.
 */
#include "hugetlb_testing.h"

/* ---- pools ---- */

static void pool_grows_and_shrinks(void **state)
{
	struct world *w = pool_world(256 * MIB, 10, 0);
	struct mm *mm = mm_new(w);
	uint64_t free_before = world_free(w), most;
	vaddr_t va;

	(void)state;
	check_2m(w, 10, 10, 0, 0);
	assert_int_equal(w->free_at_boot - free_before >= 10 * 512, 1);
	va = map_ok(w, mm, 4 * HUGE, 0);
	store(w, va, 1);
	check_2m(w, 10, 9, 3, 0);
	/* One is in use and three are promised: they stay, the one in use as surplus when the pool goes below. */
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 2), 4);
	check_2m(w, 4, 3, 3, 2);
	/* Growing makes surplus persistent first. */
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 5), 5);
	check_2m(w, 5, 4, 3, 0);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 0), 4);
	check_2m(w, 4, 3, 3, 4);
	assert_ok(mm_munmap(w->c, mm, va, 4 * HUGE));
	check_2m(w, 0, 0, 0, 0);
	/* More than there is: what there is. */
	most = hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 1000);
	assert_true(most > 90 && most < 128);
	check_2m(w, most, most, 0, 0);
	assert_true(count_of(w, VM_htlb_buddy_alloc_success) >= (int64_t)most);
	assert_true(count_of(w, VM_htlb_buddy_alloc_fail) > 0);
	mm_end(w, mm);
	pool_end(w);
}

static void pools_are_per_node(void **state)
{
	struct null_options o = { .nr_cpus = 2, .nr_nodes = 2, .node_bytes = 256 * MIB };
	struct machine *m = NULL;
	struct knobs k;
	struct world *w;
	char err[200] = "";

	(void)state;
	assert_ok(null_create(&o, &m, err, sizeof(err)));
	w = world_on(m);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 7), 7);
	assert_int_equal(hugetlb_info(w->q, HUGETLB_2M, 0).total + hugetlb_info(w->q, HUGETLB_2M, 1).total, 7);
	assert_true(hugetlb_info(w->q, HUGETLB_2M, 0).total >= 3 && hugetlb_info(w->q, HUGETLB_2M, 1).total >= 3);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, 1, 20), 20);
	check_2m(w, hugetlb_info(w->q, HUGETLB_2M, 0).total + 20, hugetlb_info(w->q, HUGETLB_2M, 0).total + 20, 0, 0);
	/* A fault takes the CPU's own node first. */
	struct mm *mm = mm_new(w);
	vaddr_t va = map_ok(w, mm, HUGE, 0);

	store(w, va, 1);
	assert_int_equal(frame_nid(frame_of(m, info(mm, va).pfn)), 0);
	mm_end(w, mm);
	pool_end(w);
	/* Knobs fill them at boot; 1 GiB does not fit here. */
	assert_ok(null_create(&o, &m, err, sizeof(err)));
	knobs_default(&k);
	assert_ok(knob_set(&k, "hugepages-2048kB.nr_hugepages", "6", err, sizeof(err)));
	assert_ok(knob_set(&k, "hugepages-2048kB.nr_overcommit_hugepages", "3", err, sizeof(err)));
	assert_ok(knob_set(&k, "hugepages-1048576kB.nr_hugepages", "2", err, sizeof(err)));
	struct quire *q;

	assert_ok(quire_boot(m, &k, &q, err, sizeof(err)));
	assert_int_equal(hugetlb_info(q, HUGETLB_2M, NID_NONE).total, 6);
	assert_int_equal(hugetlb_info(q, HUGETLB_2M, 1).total, 3);
	assert_int_equal(hugetlb_info(q, HUGETLB_1G, NID_NONE).total, 0);
	assert_ok(quire_validate(q));
	assert_ok(quire_shutdown(q));
	null_destroy(m);
}

static void surplus_comes_and_goes(void **state)
{
	struct world *w = pool_world(256 * MIB, 2, 0);
	struct mm *mm = mm_new(w);
	vaddr_t a, b;

	(void)state;
	assert_int_equal(map_huge(w, mm, 3 * HUGE, 0), -ENOMEM);
	w->q->hugetlb.h[HUGETLB_2M].overcommit = 2;
	assert_int_equal(map_huge(w, mm, 5 * HUGE, 0), -ENOMEM);
	check_2m(w, 2, 2, 0, 0);
	a = map_ok(w, mm, 3 * HUGE, 0);
	check_2m(w, 3, 3, 3, 1);
	store(w, a, 1);
	check_2m(w, 3, 2, 2, 1);
	/* Without a promise the page is a surplus one of its own. */
	b = map_ok(w, mm, 2 * HUGE, UAPI_MAP_NORESERVE);
	store(w, b, 2);
	check_2m(w, 4, 2, 2, 2);
	assert_int_equal(try_store(w, b + HUGE, 3), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 1);
	assert_ok(mm_munmap(w->c, mm, b, 2 * HUGE));
	check_2m(w, 3, 2, 2, 1);
	assert_ok(mm_munmap(w->c, mm, a, 3 * HUGE));
	check_2m(w, 2, 2, 0, 0);
	check_fault_sum(w);
	mm_end(w, mm);
	pool_end(w);
}

/* ---- the calls ---- */

static void mmap_refuses(void **state)
{
	struct world *w = pool_world(256 * MIB, 4, 0);
	struct mm *mm = mm_new(w);
	struct mfile *file;
	int64_t va;

	(void)state;
	assert_int_equal(map_huge(w, mm, 0, 0), -EINVAL);
	assert_int_equal(map_huge(w, mm, HUGE, 20U << UAPI_MAP_HUGE_SHIFT), -EINVAL);
	assert_int_equal(map_huge(w, mm, HUGE, UAPI_MAP_GROWSDOWN), -EINVAL);
	assert_int_equal(map_huge(w, mm, GIB, LOG_1G), -ENOMEM);
	assert_int_equal(map_huge(w, mm, 5 * HUGE, 0), -ENOMEM);
	assert_int_equal(mm_mmap(w->c, mm, 0, HUGE, RW, TLB_FLAGS & ~UAPI_MAP_ANONYMOUS, NULL, 0), -EBADF);
	assert_int_equal(mm_mmap(w->c, mm, 0, HUGE, RW, TLB_FLAGS & ~UAPI_MAP_PRIVATE, NULL, 0), -EINVAL);
	assert_int_equal(mm_mmap(w->c, mm, 0, HUGE, RW, (TLB_FLAGS & ~UAPI_MAP_PRIVATE) | UAPI_MAP_SHARED, NULL, 0), -ENOENT);
	assert_int_equal(mm_mmap(w->c, mm, AREA + PAGE_SIZE, HUGE, RW, TLB_FLAGS | UAPI_MAP_FIXED, NULL, 0), -EINVAL);
	assert_ok(file_create(w->c, w->q, 0, HUGE, false, &file));
	assert_int_equal(mm_mmap(w->c, mm, 0, HUGE, RW, TLB_FLAGS & ~UAPI_MAP_ANONYMOUS, file, 0), -EINVAL);
	file_put(w->c, file);
	assert_int_equal(mm->map_count, 0);
	check_2m(w, 4, 4, 0, 0);
	/* Lengths are rounded up, hints to the next boundary, and whole pages promised. */
	va = mm_mmap(w->c, mm, AREA + 1, PAGE_SIZE, RW, TLB_FLAGS | LOG_2M, NULL, 0);
	assert_int_equal(va, AREA);
	assert_int_equal(mm->total_vm, 512);
	check_2m(w, 4, 4, 1, 0);
	/* Replaced, the old promise is given back. */
	assert_int_equal(mm_mmap(w->c, mm, AREA, 2 * HUGE, RW, TLB_FLAGS | UAPI_MAP_FIXED, NULL, 0), AREA);
	check_2m(w, 4, 4, 2, 0);
	assert_int_equal(mm_mmap(w->c, mm, AREA + PAGE_SIZE, HUGE, RW, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0),
			 -EINVAL);
	/* Areas of a pool don't merge, locked ones don't count as locked, populated ones are there. */
	assert_int_equal(mm_mmap(w->c, mm, AREA + 2 * HUGE, HUGE, RW, TLB_FLAGS | UAPI_MAP_FIXED | UAPI_MAP_LOCKED, NULL, 0), AREA + 2 * HUGE);
	assert_int_equal(mm->map_count, 2);
	assert_int_equal(mm->locked_vm, 0);
	assert_true(info(mm, AREA + 2 * HUGE).huge);
	check_2m(w, 4, 3, 2, 0);
	assert_int_equal(w->q->committed_pages, 0);
	mm_end(w, mm);
	check_2m(w, 4, 4, 0, 0);
	pool_end(w);
}

static void parts_of_a_page_are_refused(void **state)
{
	struct world *w = pool_world(256 * MIB, 6, 0);
	struct mm *mm = mm_new(w);
	vaddr_t va = map_ok(w, mm, 4 * HUGE, 0);

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		store(w, va + i * HUGE, i + 1);
	assert_int_equal(mm_munmap(w->c, mm, va, PAGE_SIZE), -EINVAL);
	assert_int_equal(mm_munmap(w->c, mm, va + PAGE_SIZE, HUGE), -EINVAL);
	assert_int_equal(mm_mprotect(w->c, mm, va + HUGE, PAGE_SIZE, UAPI_PROT_READ), -EINVAL);
	assert_int_equal(mm_mprotect(w->c, mm, va + PAGE_SIZE, HUGE, UAPI_PROT_READ), -EINVAL);
	assert_int_equal(mm_madvise(w->c, mm, va + PAGE_SIZE, HUGE, UAPI_MADV_DONTNEED), -EINVAL);
	assert_int_equal(mm_madvise(w->c, mm, va, HUGE, UAPI_MADV_FREE), -EINVAL);
	assert_int_equal(mm_madvise(w->c, mm, va, HUGE, UAPI_MADV_WIPEONFORK), -EINVAL);
	assert_int_equal(mm_madvise(w->c, mm, va, PAGE_SIZE, UAPI_MADV_DONTFORK), -EINVAL);
	assert_int_equal(mm_mremap(w->c, mm, va + PAGE_SIZE, HUGE, HUGE, UAPI_MREMAP_MAYMOVE, 0), -EINVAL);
	assert_int_equal(mm_mremap(w->c, mm, va, HUGE, 2 * HUGE, UAPI_MREMAP_MAYMOVE, 0), -EINVAL);
	assert_int_equal(mm_mremap(w->c, mm, va, HUGE, HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + PAGE_SIZE), -EINVAL);
	assert_int_equal(mm_mremap(w->c, mm, va, HUGE, HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_DONTUNMAP, 0), -EINVAL);
	/* The end of MADV_DONTNEED is rounded down: nothing goes here. */
	assert_ok(mm_madvise(w->c, mm, va, PAGE_SIZE, UAPI_MADV_DONTNEED));
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load(w, va + i * HUGE), i + 1);
	assert_int_equal(mm->map_count, 1);
	check_2m(w, 6, 2, 0, 0);
	/* Whole pages are fine. mlock brings pages in and counts nothing. */
	assert_ok(mm_mprotect(w->c, mm, va + HUGE, HUGE, UAPI_PROT_READ));
	assert_int_equal(mm->map_count, 3);
	assert_int_equal(try_store(w, va + HUGE, 9), -EFAULT);
	assert_int_equal(load(w, va + HUGE), 2);
	assert_ok(mm_mprotect(w->c, mm, va + HUGE, HUGE, RW));
	store(w, va + HUGE, 9);
	assert_ok(mm_mlock(w->c, mm, va, HUGE, false));
	assert_int_equal(mm->locked_vm, 0);
	assert_int_equal(count_of(w, VM_nr_mlock), 0);
	assert_ok(mm_munmap(w->c, mm, va + HUGE, HUGE));
	check_2m(w, 6, 3, 0, 0);
	check_fault_sum(w);
	mm_end(w, mm);
	pool_end(w);
}

static void promises_follow_the_pages(void **state)
{
	struct world *w = pool_world(256 * MIB, 8, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, 6 * HUGE, 0), to = AREA;

	(void)state;
	check_2m(w, 8, 8, 6, 0);
	store(w, va, 1);
	store(w, va + HUGE, 2);
	check_2m(w, 8, 6, 4, 0);
	/* Given back, the page is free for others; this place is promised nothing any more. */
	assert_ok(mm_madvise(w->c, mm, va, HUGE, UAPI_MADV_DONTNEED));
	check_2m(w, 8, 7, 4, 0);
	assert_ok(mm_madvise(w->c, mm, va, HUGE, UAPI_MADV_DONTNEED));
	check_2m(w, 8, 7, 4, 0);
	/* Unmapping a part gives back what that part was promised: a used place, a page, and two promises. */
	assert_ok(mm_munmap(w->c, mm, va + 4 * HUGE, 2 * HUGE));
	check_2m(w, 8, 7, 2, 0);
	assert_int_equal(load(w, va), 0);
	check_2m(w, 8, 6, 2, 0);
	/* A move takes pages, markers and promises along. */
	assert_ok(mm_madvise(w->c, mm, va, HUGE, UAPI_MADV_DONTNEED));
	assert_int_equal(mm_mremap(w->c, mm, va, 3 * HUGE, 3 * HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, to), to);
	check_2m(w, 8, 7, 2, 0);
	assert_int_equal(load(w, to + HUGE), 2);
	store(w, to + 2 * HUGE, 3);
	store(w, va + 3 * HUGE, 4);
	check_2m(w, 8, 5, 0, 0);
	/* A shrinking mremap rounds to whole pages. */
	assert_int_equal(mm_mremap(w->c, mm, to, 3 * HUGE, HUGE + PAGE_SIZE, 0, 0), to);
	check_2m(w, 8, 6, 0, 0);
	/* The child shares pages and is promised none. */
	child = fork_ok(w, mm);
	assert_int_equal(child->hugetlb_pages, 2 * 512);
	check_2m(w, 8, 6, 0, 0);
	mm_end(w, child);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(mm->hugetlb_pages, 2 * 512);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 0);
	mm_end(w, mm);
	check_2m(w, 8, 8, 0, 0);
	pool_end(w);
}

/* Two aligned GiB are free, the third has the kernel in it. One block in use is enough to be in the way. */
static void gigantic_range_has_to_be_free(void **state)
{
	struct world *w = world_new(1, 3 * GIB);
	struct alloc_req req = { .order = MAX_ORDER, .gfp = GFP_HIGHUSER_MOVABLE, .nid = 0 };
	struct frame *held[768], *in_the_way = NULL;
	unsigned nr = 0;

	(void)state;
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 9), 2);
	check_size(w, HUGETLB_1G, 2, 2, 0, 0);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 0), 0);
	assert_int_equal(world_free(w), w->free_at_boot);
	while (nr < ARRAY_SIZE(held) && (held[nr] = page_alloc(w->c, &req)))
		nr++;
	for (unsigned i = 0; i < nr; i++) {
		if (!in_the_way && frame_pfn(w->m, held[i]).v >= 2 * GIB / PAGE_SIZE)
			in_the_way = held[i];
		else
			frame_put(w->c, held[i]);
	}
	assert_non_null(in_the_way);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 2), 1);
	check_size(w, HUGETLB_1G, 1, 1, 0, 0);
	frame_put(w->c, in_the_way);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 2), 2);
	pool_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pool_grows_and_shrinks),
		cmocka_unit_test(pools_are_per_node),
		cmocka_unit_test(surplus_comes_and_goes),
		cmocka_unit_test(mmap_refuses),
		cmocka_unit_test(parts_of_a_page_are_refused),
		cmocka_unit_test(promises_follow_the_pages),
		cmocka_unit_test(gigantic_range_has_to_be_free),
	};

	return test_run(tests);
}
