/*
 * Faults on huge pages of a pool: fork, pins, copy on write and its order, pages taken back by their owner, errors in the middle; all
 * is validated (hugetlb.h HP1 to HP5).
 */
#include "hugetlb_testing.h"

#include "machine/desc.h"
#include "machine/model/model.h"
#include "mm/gup.h"

static void seen_by_mincore_and_pins(void **state)
{
	struct world *w = pool_world(256 * MIB, 4, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, 2 * HUGE, 0);
	uint8_t vec[1024];
	pfn_t f[3];

	(void)state;
	assert_int_equal(load(w, va + PAGES(5)), 0);
	assert_false(info(mm, va).writable);
	assert_ok(mm_mincore(w->c, mm, va, 2 * HUGE, vec));
	for (unsigned i = 0; i < 1024; i++)
		assert_int_equal(vec[i], i < 512);
	assert_ok(mm_pin(w->c, mm, va + PAGES(510), 3, true, f));
	assert_int_equal(f[0].v, info(mm, va).pfn.v + 510);
	assert_int_equal(f[2].v, info(mm, va + HUGE).pfn.v);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_reuse), 1);
	store(w, va, 7);
	store(w, va + HUGE, 8);
	/* What is pinned stays the parent's: the child gets copies, 512 sub-pages each, from what nobody was promised. */
	child = fork_ok(w, mm);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 1024);
	check_2m(w, 4, 0, 0, 0);
	store(w, va, 70);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_cow_2m), 0);
	assert_int_equal(info(mm, va).pfn.v, f[0].v - 510);
	mm_activate(w->c, child);
	assert_int_equal(load(w, va), 7);
	assert_int_equal(load(w, va + HUGE), 8);
	mm_activate(w->c, mm);
	mm_end(w, child);
	/* Without a page for the copy there is no fork. */
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 2), 2);
	assert_int_equal(mm_fork(w->c, mm, &child), -ENOMEM);
	/* A pinned page outlives its mapping. */
	mm_end(w, mm);
	check_2m(w, 2, 0, 0, 0);
	mm_unpin(w->c, f, 3);
	check_2m(w, 2, 2, 0, 0);
	pool_end(w);
}

/* ---- copy on write ---- */

static void write_copies_all_of_it(void **state)
{
	struct world *w = pool_world(256 * MIB, 4, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, HUGE, 0);

	(void)state;
	for (unsigned i = 0; i < 512; i++)
		store(w, va + PAGES(i), i + 1);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_2m), 1);
	assert_int_equal(count_of(w, VM_quire_pages_cleared), 512);
	child = fork_ok(w, mm);
	w->q->knobs.huge_cow = HUGE_COW_SPLIT; /* is about transparent huge pages */
	mm_activate(w->c, child);
	store(w, va + PAGES(77), 1000);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_cow_2m), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 512);
	assert_int_equal(count_of(w, VM_thp_split_pmd), 0);
	check_2m(w, 4, 2, 0, 0);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, va + PAGES(i)), i == 77 ? 1000 : i + 1);
	mm_activate(w->c, mm);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, va + PAGES(i)), i + 1);
	store(w, va, 5); /* alone again: in place */
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_reuse), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 512);
	check_fault_sum(w);
	mm_end(w, child);
	mm_end(w, mm);
	pool_end(w);
}

static void owner_takes_its_page_back(void **state)
{
	struct world *w = pool_world(256 * MIB, 2, 0);
	struct mm *mm = mm_new(w), *child, *grand;
	vaddr_t va = map_ok(w, mm, 2 * HUGE, 0);

	(void)state;
	store(w, va, 1);
	store(w, va + HUGE, 2);
	child = fork_ok(w, mm);
	grand = fork_ok(w, child);
	/* The pool is empty. Who is not the owner is refused. */
	mm_activate(w->c, child);
	assert_int_equal(try_store(w, va, 10), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 1);
	assert_int_equal(load(w, va), 1);
	/* The owner is not: the others lose the page, of which nothing is copied. */
	mm_activate(w->c, mm);
	store(w, va, 11);
	assert_int_equal(load(w, va), 11);
	assert_int_equal(count_of(w, VM_quire_hugetlb_taken_back), 2);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 0);
	check_2m(w, 2, 0, 0, 0);
	uint64_t v;

	mm_activate(w->c, child);
	assert_int_equal(try_load(w, va, &v), -EFAULT);
	assert_int_equal(load(w, va + HUGE), 2);
	assert_int_equal(child->hugetlb_pages, 512);
	assert_ok(mm_madvise(w->c, child, va, HUGE, UAPI_MADV_DONTNEED));
	assert_int_equal(try_load(w, va, &v), -EFAULT);
	mm_activate(w->c, grand);
	assert_int_equal(try_store(w, va, 12), -EFAULT);
	/* What is mapped anew there is another page's place. */
	assert_ok(mm_munmap(w->c, grand, va, 2 * HUGE));
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 3), 3);
	assert_int_equal(mm_mmap(w->c, grand, va, HUGE, RW, TLB_FLAGS | UAPI_MAP_FIXED, NULL, 0), (int64_t)va);
	store(w, va, 13);
	world_check(w);
	mm_end(w, grand);
	mm_end(w, child);
	mm_end(w, mm);
	check_2m(w, 3, 3, 0, 0);
	check_fault_sum(w);
	pool_end(w);
}

/* ---- the order of copies and clears, as the machine is asked for them ---- */

static struct {
	struct machine_ops ops;
	const struct machine_ops *below;
	unsigned nr, max;
	uint64_t dst[1024], src[1024]; /* the first ones */
	uint64_t last, ascending;
} seen;

static void saw(uint64_t dst, uint64_t src)
{
	seen.ascending += seen.nr && dst == seen.last + 1;
	seen.last = dst;
	if (seen.nr < seen.max) {
		seen.dst[seen.nr] = dst;
		seen.src[seen.nr] = src;
	}
	seen.nr++;
}

static int seen_copy(struct cpu *c, pfn_t dst, pfn_t src)
{
	saw(dst.v, src.v);
	return seen.below->copy_page(c, dst, src);
}

static int seen_clear(struct cpu *c, pfn_t p)
{
	saw(p.v, 0);
	return seen.below->clear_page(c, p);
}

static void look_at(struct world *w)
{
	seen.below = w->m->ops;
	seen.ops = *w->m->ops;
	seen.ops.copy_page = seen_copy;
	seen.ops.clear_page = seen_clear;
	w->m->ops = &seen.ops;
	seen.max = 1024;
	seen.nr = 0;
	seen.ascending = 0;
}

/* What the i-th step of the order is for target n of 512 sub-pages, written down anew. */
static unsigned wanted(enum huge_order_policy policy, unsigned n, unsigned i)
{
	unsigned lo = n > 2 ? n - 2 : 0, hi = MIN(n + 3, 512U), before, j;

	if (policy == HUGE_ORDER_LINEAR)
		return i;
	if (policy == HUGE_ORDER_NEIGHBOURHOOD_LAST)
		return i < 512 - hi ? hi + i : i < 512 - hi + lo ? i - (512 - hi) : lo + i - (512 - hi + lo);
	before = 2 * n <= 512 ? 512 - 2 * n : 2 * n - 512;
	if (i < before)
		return 2 * n <= 512 ? 511 - i : i;
	j = i - before;
	if (2 * n <= 512)
		return j % 2 ? 2 * n - 1 - j / 2 : j / 2;
	return j % 2 ? 511 - j / 2 : 2 * n - 512 + j / 2;
}

static unsigned last_wanted(enum huge_order_policy policy, unsigned n)
{
	return policy == HUGE_ORDER_LINEAR ? 511 : policy == HUGE_ORDER_TARGET_LAST ? n : MIN(n + 2, 511U);
}

static void order_of_every_hint(void **state)
{
	struct world *w = pool_world(256 * MIB, 4, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, HUGE, 0), fresh;

	(void)state;
	store(w, va, 1);
	for (unsigned policy = HUGE_ORDER_LINEAR; policy <= HUGE_ORDER_NEIGHBOURHOOD_LAST; policy++) {
		w->q->knobs.huge_copy_order = w->q->knobs.huge_clear_order = policy;
		for (unsigned n = 0; n < 512; n++) {
			uint64_t dst, src = info(mm, va).pfn.v;

			child = fork_ok(w, mm);
			mm_activate(w->c, child);
			look_at(w);
			assert_ok(w->m->ops->access(w->c, va + PAGES(n) + 2041, 1, ACCESS_USER | ACCESS_WRITE));
			w->m->ops = seen.below;
			assert_int_equal(seen.nr, 512);
			dst = info(child, va).pfn.v;
			for (unsigned i = 0; i < 512; i++) {
				assert_int_equal(seen.dst[i] - dst, wanted(policy, n, i));
				assert_int_equal(seen.src[i] - src, wanted(policy, n, i));
			}
			assert_int_equal(seen.last - dst, last_wanted(policy, n));
			mm_end(w, child);
			mm_activate(w->c, mm);
			if (n % 51)
				continue;
			/* The first touch passes the true address as well. */
			fresh = map_ok(w, mm, HUGE, 0);
			look_at(w);
			store(w, fresh + PAGES(n), 1);
			w->m->ops = seen.below;
			assert_true(seen.nr >= 512); /* and tables */
			assert_int_equal(seen.last - info(mm, fresh).pfn.v, last_wanted(policy, n));
			assert_ok(mm_munmap(w->c, mm, fresh, HUGE));
		}
	}
	mm_end(w, mm);
	pool_end(w);
}

/* ---- pages of 1 GiB ---- */

static void gigantic_pages(void **state)
{
	struct world *w = pool_world(4 * GIB, 0, 2);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va;
	uint8_t vec[1];
	pfn_t f;

	(void)state;
	check_size(w, HUGETLB_1G, 2, 2, 0, 0);
	assert_int_equal(map_huge(w, mm, 3 * GIB, LOG_1G), -ENOMEM);
	va = map_ok(w, mm, GIB - 5, LOG_1G);
	assert_true(IS_ALIGNED(va, GIB));
	check_size(w, HUGETLB_1G, 2, 2, 1, 0);
	assert_int_equal(mm_munmap(w->c, mm, va, HUGE), -EINVAL);
	w->q->knobs.huge_copy_order = w->q->knobs.huge_clear_order = HUGE_ORDER_TARGET_LAST;
	store(w, va + PAGES(123456), 6);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_1g), 1);
	assert_int_equal(count_of(w, VM_quire_pages_cleared), 262144);
	assert_int_equal(info(mm, va + PAGES(123456)).pfn.v - info(mm, va).pfn.v, 123456);
	assert_ok(mm_mincore(w->c, mm, va + PAGES(262143), PAGE_SIZE, vec));
	assert_int_equal(vec[0], 1);
	assert_ok(mm_pin(w->c, mm, va + PAGES(123456), 1, true, &f));
	assert_int_equal(w->m->tags[f.v], 6);
	mm_unpin(w->c, &f, 1);
	/* The copy ignores the hint and begins at the aligned base, whatever byte was written. */
	child = fork_ok(w, mm);
	mm_activate(w->c, child);
	look_at(w);
	assert_ok(w->m->ops->access(w->c, va + PAGES(200000) + 777, 1, ACCESS_USER | ACCESS_WRITE));
	w->m->ops = seen.below;
	assert_int_equal(seen.nr, 262144);
	assert_int_equal(seen.ascending, 262143);
	assert_int_equal(seen.dst[0], info(child, va).pfn.v);
	assert_int_equal(seen.src[0], info(mm, va).pfn.v);
	assert_int_equal(load(w, va + PAGES(123456)), 6);
	assert_int_equal(count_of(w, VM_quire_fault_hugetlb_cow_1g), 1);
	check_size(w, HUGETLB_1G, 2, 0, 0, 0);
	/* It moves as a whole. */
	assert_int_equal(mm_mremap(w->c, child, va, GIB, GIB, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, 8 * GIB), 8 * GIB);
	assert_int_equal(load(w, 8 * GIB + PAGES(123456)), 6);
	assert_ok(mm_mprotect(w->c, child, 8 * GIB, GIB, UAPI_PROT_READ));
	assert_int_equal(try_store(w, 8 * GIB, 1), -EFAULT);
	world_check(w);
	mm_end(w, child);
	mm_end(w, mm);
	check_size(w, HUGETLB_1G, 2, 2, 0, 0);
	pool_end(w);
}

/* ---- errors in the middle ---- */

static void unreadable_source_is_undone(void **state)
{
	static const unsigned at[] = { 1, 2, 255, 256, 257, 511, 512 };
	struct world *w = pool_world(256 * MIB, 2, 0);
	struct mm *mm = mm_new(w), *child;
	vaddr_t va = map_ok(w, mm, HUGE, 0);
	struct inject *in = NULL;

	(void)state;
	for (unsigned i = 0; i < 512; i++)
		store(w, va + PAGES(i), i + 1);
	child = fork_ok(w, mm);
	mm_activate(w->c, child);
	assert_ok(inject_attach(w->m, 1, &in));
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		struct mm_page_info was = info(child, va), now;
		int64_t copied = count_of(w, VM_quire_pages_copied);

		assert_ok(inject_set(in, INJECT_COPY, INJECT_NTH, at[i]));
		assert_int_equal(try_store(w, va + PAGES(100), 9), -EFAULT);
		assert_int_equal(count_of(w, VM_quire_fault_sigbus), i + 1);
		assert_int_equal(count_of(w, VM_quire_pages_copied) - copied, at[i] - 1);
		now = info(child, va);
		assert_memory_equal(&was, &now, sizeof(now));
		check_2m(w, 2, 1, 0, 0);
	}
	assert_ok(inject_set(in, INJECT_COPY, INJECT_NEVER, 1));
	store(w, va + PAGES(100), 9);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, va + PAGES(i)), i == 100 ? 9 : i + 1);
	mm_end(w, child);
	/* A surplus page goes back to where it came from; a first touch keeps its promise. */
	mm_activate(w->c, mm);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 1), 1);
	w->q->hugetlb.h[HUGETLB_2M].overcommit = 1;
	vaddr_t more = map_ok(w, mm, HUGE, 0);

	check_2m(w, 2, 1, 1, 1);
	/* The table for it exists: the first page of a pool is cleared next. */
	assert_ok(inject_set(in, INJECT_CLEAR, INJECT_NTH, 300));
	assert_int_equal(try_store(w, more, 1), -ENOMEM);
	check_2m(w, 2, 1, 1, 1);
	store(w, more, 1);
	check_2m(w, 2, 0, 0, 1);
	inject_detach(in);
	check_fault_sum(w);
	mm_end(w, mm);
	check_2m(w, 1, 1, 0, 0);
	pool_end(w);
}

/* All that allocates: the n-th time it fails, for each n. */
static int some_of_everything(struct world *w, struct mm *mm)
{
	struct mm *child = NULL;
	int64_t va = mm_mmap(w->c, mm, AREA, 3 * HUGE, RW, TLB_FLAGS, NULL, 0);
	int rc = va < 0 ? (int)va : 0;

	for (unsigned i = 0; i < 2 && !rc; i++)
		rc = try_store(w, AREA + i * HUGE, 7 + i);
	if (!rc)
		rc = mm_fork(w->c, mm, &child);
	if (!rc)
		rc = try_store(w, AREA, 70);
	if (!rc) {
		va = mm_mremap(w->c, mm, AREA, 3 * HUGE, 3 * HUGE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, 64 * GIB);
		rc = va < 0 ? (int)va : 0;
	}
	world_check(w);
	if (!rc) {
		assert_int_equal(load(w, 64 * GIB), 70);
		assert_int_equal(load(w, 64 * GIB + HUGE), 8);
	}
	if (child)
		mm_end(w, child);
	return rc;
}

static void each_allocation_may_fail(void **state)
{
	static const enum inject_site sites[] = { INJECT_FRAME_ALLOC, INJECT_SLAB_ALLOC, INJECT_TRYLOCK };

	(void)state;
	for (unsigned s = 0; s < ARRAY_SIZE(sites); s++) {
		unsigned n = 1;

		for (int rc = -1; rc; n++) {
			struct world *w = pool_world(128 * MIB, 3, 0);
			struct mm *mm = mm_new(w);
			struct inject *in = NULL;

			w->q->hugetlb.h[HUGETLB_2M].overcommit = s == 0;
			assert_ok(inject_attach(w->m, 1, &in));
			assert_ok(inject_set(in, sites[s], INJECT_NTH, n));
			rc = some_of_everything(w, mm);
			assert_true(rc == 0 || rc == -ENOMEM || rc == -EFAULT);
			if (sites[s] == INJECT_TRYLOCK)
				assert_int_equal(rc, 0);
			if (!rc && inject_failures(in, sites[s]))
				rc = 1; /* done without it, as a busy table tried again */
			inject_detach(in);
			mm_end(w, mm);
			check_2m(w, 3, 3, 0, 0);
			pool_end(w);
		}
		assert_true(n > 2);
	}
}

/* ---- a machine with TLBs: what outlives its flush shows as wrong contents ---- */

static void under_tlbs(void **state)
{
	struct model_options o = { .seed = 1 };
	struct machine_desc d;
	struct machine *m;
	char err[200] = "";

	(void)state;
	if (machine_desc_find("laptop", &d, err, sizeof(err)))
		fail_msg("%s", err);
	d.nodes[0].memory = 4 * GIB;
	assert_ok(model_create(&d, &o, &m, err, sizeof(err)));
	struct world *w = world_on(m);

	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 2), 2);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 3), 3);
	for (unsigned s = 0; s < NR_HUGETLB_SIZES; s++) {
		struct mm *mm = mm_new(w), *child;
		uint64_t size = s ? GIB : HUGE;
		vaddr_t va = map_ok(w, mm, size, s ? LOG_1G : LOG_2M);

		for (unsigned i = 0; i < 4; i++)
			store(w, va + i * size / 4, 10 + i);
		child = fork_ok(w, mm);
		store(w, va, 20); /* a copy: the TLB had the old page, writable */
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(load(w, va + i * size / 4), i ? 10 + i : 20);
		assert_int_equal(mm_mremap(w->c, mm, va, size, size, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, 8 * GIB), 8 * GIB);
		assert_int_equal(try_store(w, va + size / 2, 1), -EFAULT);
		assert_int_equal(load(w, 8 * GIB + size / 4), 11);
		assert_ok(mm_mprotect(w->c, mm, 8 * GIB, size, UAPI_PROT_READ));
		assert_int_equal(try_store(w, 8 * GIB + size / 4, 1), -EFAULT);
		mm_activate(w->c, child);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(load(w, va + i * size / 4), 10 + i);
		world_check(w);
		mm_end(w, child);
		mm_end(w, mm);
	}
	hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 0);
	hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 0);
	world_leave(w);
	model_destroy(m);
	machine_desc_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seen_by_mincore_and_pins),
		cmocka_unit_test(write_copies_all_of_it),
		cmocka_unit_test(owner_takes_its_page_back),
		cmocka_unit_test(order_of_every_hint),
		cmocka_unit_test(gigantic_pages),
		cmocka_unit_test(unreadable_source_is_undone),
		cmocka_unit_test(each_allocation_may_fail),
		cmocka_unit_test(under_tlbs),
	};

	return test_run(tests);
}
