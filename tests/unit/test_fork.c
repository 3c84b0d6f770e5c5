/* Fork: what is shared, who copies, what is left out, and undoing one that fails. */
#include "paging_world.h"

static void share_then_copy(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	const struct null_counts *n = null_counts(w->m);

	(void)state;
	map_at(w, mm, AREA, PAGES(16), RW);
	for (unsigned i = 0; i < 8; i++)
		store(w, AREA + PAGES(i), i + 1);
	(void)load(w, AREA + PAGES(10));
	null_counts_reset(w->m);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(n->path[PATH_FORK_PTE].units, 9);
	assert_int_equal(n->full_flushes, 1); /* the parent lost its write rights */
	assert_int_equal(count_of(w, VM_quire_fork), 1);
	assert_int_equal(mm_rss(child, RSS_ANON), 8);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 8);
	assert_int_equal(info(mm, AREA).pfn.v, info(child, AREA).pfn.v);
	assert_false(info(mm, AREA).writable || info(mm, AREA).exclusive);
	assert_false(info(child, AREA).writable || info(child, AREA).exclusive);
	assert_false(info(child, AREA).accessed);
	world_check(w);
	/* The child writes: a copy. The parent then is alone: it keeps the page. */
	mm_activate(w->c, child);
	store(w, AREA, 100);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 1);
	mm_activate(w->c, mm);
	assert_int_equal(load(w, AREA), 1);
	store(w, AREA, 200);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 1);
	assert_int_equal(count_of(w, VM_pgreuse), 1);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), 100);
	assert_int_equal(load(w, AREA + PAGES(1)), 2);
	assert_int_equal(load(w, AREA + PAGES(10)), 0);
	world_check(w);
	mm_put(w->c, mm);
	assert_int_equal(load(w, AREA + PAGES(7)), 8);
	store(w, AREA + PAGES(7), 9);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 2);
	mm_put(w->c, child);
	check_fault_sum(w);
	world_end(w);
}

static void generations(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm[6] = { mm_new(w) };

	(void)state;
	map_at(w, mm[0], AREA, PAGES(4), RW);
	store(w, AREA, 1);
	for (unsigned i = 1; i < 6; i++) {
		assert_ok(mm_fork(w->c, mm[i - 1], &mm[i]));
		mm_activate(w->c, mm[i]);
		assert_int_equal(load(w, AREA), i);
		store(w, AREA, i + 1);
	}
	world_check(w);
	for (unsigned i = 0; i < 6; i++) {
		mm_activate(w->c, mm[i]);
		assert_int_equal(load(w, AREA), i + 1);
	}
	for (unsigned i = 0; i < 6; i += 2)
		mm_put(w->c, mm[i]);
	world_check(w);
	for (unsigned i = 1; i < 6; i += 2)
		mm_put(w->c, mm[i]);
	world_end(w);
}

static void left_out(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	uint64_t v;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		map_at(w, mm, AREA + i * MIB, PAGES(4), RW);
		store(w, AREA + i * MIB, i + 1);
	}
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(4), UAPI_MADV_DONTFORK));
	assert_ok(mm_madvise(w->c, mm, AREA + MIB, PAGES(4), UAPI_MADV_WIPEONFORK));
	assert_ok(mm_mlock(w->c, mm, AREA + 2 * MIB, PAGES(4), false));
	assert_ok(mm_set_thp_disable(w->c, mm, true));
	assert_ok(mm_fork(w->c, mm, &child));
	mm_activate(w->c, child);
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	assert_int_equal(load(w, AREA + MIB), 0);
	assert_int_equal(load(w, AREA + 2 * MIB), 3);
	assert_int_equal(load(w, AREA + 3 * MIB), 4);
	assert_int_equal(child->locked_vm, 0);
	assert_true(child->thp_disable);
	assert_int_equal(child->mmap_base, mm->mmap_base);
	assert_int_equal(count_of(w, VM_nr_mlock), 4);
	world_check(w);
	mm_put(w->c, child);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

static void untouched_memory_costs_nothing(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, 16 * MIB, RW);
	for (unsigned i = 0; i < 100; i++)
		(void)load(w, AREA + PAGES(i)); /* zero pages only: found again by themselves */
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(child->pgtables_bytes, PAGE_SIZE);
	mm_put(w->c, child);
	mm_put(w->c, mm);
	world_end(w);
}

static void private_file_pages(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct mfile *f;

	(void)state;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, 0), AREA);
	(void)load(w, AREA);
	store(w, AREA + PAGES(1), 7);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(mm_rss(child, RSS_FILE), mm_rss(mm, RSS_FILE));
	assert_int_equal(mm_rss(child, RSS_ANON), 1);
	world_check(w);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), file_tag(f, 0));
	store(w, AREA, 8);
	store(w, AREA + PAGES(1), 9);
	mm_activate(w->c, mm);
	assert_int_equal(load(w, AREA), file_tag(f, 0));
	assert_int_equal(load(w, AREA + PAGES(1)), 7);
	world_check(w);
	mm_put(w->c, mm);
	mm_put(w->c, child);
	file_put(w->c, f);
	world_end(w);
}

static void huge_pages_are_shared_whole(void **state)
{
	struct world *w = world_new(1, 256 * MIB);
	struct mm *mm = mm_new(w), *child;
	const struct null_counts *n = null_counts(w->m);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 6 * MIB, RW);
	store(w, AREA, 1);
	(void)load(w, AREA + 2 * MIB);
	store(w, AREA + 4 * MIB, 3);
	assert_ok(mm_madvise(w->c, mm, AREA + 4 * MIB, PAGES(1), UAPI_MADV_DONTNEED)); /* base mappings of a folio */
	null_counts_reset(w->m);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(n->path[PATH_FORK_HUGE].units, 2);
	assert_int_equal(n->path[PATH_FORK_PTE].units, 511);
	assert_int_equal(child->huge_mapped, 1);
	assert_int_equal(mm_rss(child, RSS_ANON), 512 + 511);
	assert_true(info(child, AREA).huge && info(child, AREA + 2 * MIB).zero_page);
	assert_false(info(mm, AREA).writable || info(child, AREA).writable);
	world_check(w);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), 1);
	mm_put(w->c, mm);
	world_check(w);
	mm_put(w->c, child);
	world_end(w);
}

static void failed_fork_leaves_nothing(void **state)
{
	bool failed = true;

	(void)state;
	for (unsigned site = INJECT_FRAME_ALLOC; site <= INJECT_SLAB_ALLOC; site++, failed = true) {
		for (uint64_t n = 1; failed && n < 100; n++) {
			struct world *w = world_new(1, 256 * MIB);
			struct mm *mm = mm_new(w), *child = NULL;
			struct inject *in;
			int rc;

			w->q->knobs.thp_enabled = THP_ALWAYS;
			for (unsigned i = 0; i < 3; i++) {
				map_at(w, mm, AREA + (i << 30), 2 * MIB + PAGES(4), RW);
				store(w, AREA + (i << 30), i + 1);
				store(w, AREA + (i << 30) + 2 * MIB, i + 10);
			}
			uint64_t before = world_free(w);

			assert_ok(inject_attach(w->m, 1, &in));
			assert_ok(inject_set(in, (enum inject_site)site, INJECT_NTH, n));
			rc = mm_fork(w->c, mm, &child);
			failed = inject_failures(in, (enum inject_site)site) != 0;
			inject_detach(in);
			world_check(w);
			if (failed) {
				assert_int_equal(rc, -ENOMEM);
				assert_null(child);
				assert_int_equal(world_free(w), before);
			} else {
				assert_ok(rc);
				mm_put(w->c, child);
			}
			for (unsigned i = 0; i < 3; i++) {
				assert_int_equal(load(w, AREA + (i << 30)), i + 1);
				store(w, AREA + (i << 30), i + 2); /* alone again: no copy */
			}
			assert_int_equal(count_of(w, VM_quire_pages_copied), 0);
			mm_put(w->c, mm);
			world_end(w);
		}
		assert_false(failed);
	}
}

static void memory_is_what_it_was(void **state)
{
	struct world *w = world_new(1, 256 * MIB);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	for (unsigned round = 0; round < 3; round++) {
		struct mm *mm = mm_new(w), *child, *grandchild;

		map_at(w, mm, AREA, 16 * MIB, RW);
		for (unsigned i = 0; i < 8; i++)
			store(w, AREA + i * 2 * MIB + PAGES(i), i);
		assert_ok(mm_fork(w->c, mm, &child));
		mm_activate(w->c, child);
		store(w, AREA, 3);
		assert_ok(mm_fork(w->c, child, &grandchild));
		mm_put(w->c, mm);
		mm_activate(w->c, grandchild);
		store(w, AREA + 4 * MIB, 4);
		mm_put(w->c, grandchild);
		mm_put(w->c, child);
		assert_int_equal(count_of(w, VM_nr_anon_pages), 0);
		assert_int_equal(count_of(w, VM_nr_page_table_pages), 0);
		assert_int_equal(world_free(w), w->free_at_boot);
	}
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_then_copy),
		cmocka_unit_test(generations),
		cmocka_unit_test(left_out),
		cmocka_unit_test(untouched_memory_costs_nothing),
		cmocka_unit_test(private_file_pages),
		cmocka_unit_test(huge_pages_are_shared_whole),
		cmocka_unit_test(failed_fork_leaves_nothing),
		cmocka_unit_test(memory_is_what_it_was),
	};

	return test_run(tests);
}
