/* Reclaim of lists of folios, and MADV_COLD and MADV_PAGEOUT: what goes, what stays, and that contents are as they were. */
#include "paging_world.h"

#include "mm/alloc_int.h"
#include "mm/gup.h"
#include "mm/lru.h"
#include "mm/rmap.h"

static struct frame *page_at(struct world *w, struct mm *mm, vaddr_t va)
{
	struct mm_page_info i = info(mm, va);

	return i.present ? frame_of(w->m, i.pfn) : NULL;
}

static int64_t lists(struct world *w, enum lru_list l)
{
	lru_add_drain_all(w->c);
	return count_of(w, (enum vm_counter)(VM_nr_inactive_anon + l));
}

static void advise(struct world *w, struct mm *mm, vaddr_t va, uint64_t pages, int advice)
{
	assert_ok(mm_madvise(w->c, mm, va, PAGES(pages), advice));
	world_check(w);
	assert_int_equal(count_of(w, VM_nr_isolated_anon) + count_of(w, VM_nr_isolated_file), 0);
}

static void map_shared(struct world *w, struct mm *mm, vaddr_t va, struct mfile *f)
{
	assert_int_equal(mm_mmap(w->c, mm, va, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)va);
}

static void pages_of_files(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *other;
	struct mfile *f;
	uint64_t was[8];

	(void)state;
	w->q->knobs.read_ahead_kb = 0;
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	map_shared(w, mm, AREA, f);
	for (unsigned i = 0; i < 6; i++)
		was[i] = load(w, AREA + PAGES(i));
	store(w, AREA + PAGES(1), 77); /* dirty, as its entry says */
	assert_ok(file_rw(w->c, f, PAGES(2), PAGE_SIZE, true)); /* dirty, as its frame says */
	was[2] = load(w, AREA + PAGES(2));
	pfn_t pin;

	assert_int_equal(mm_pin(w->c, mm, AREA + PAGES(3), 1, false, &pin), 0);
	assert_ok(mm_create(w->c, w->q, &other));
	mm_activate(w->c, other);
	map_shared(w, other, AREA, f);
	assert_int_equal(load(w, AREA + PAGES(4)), was[4]); /* somebody else's too */
	mm_activate(w->c, mm);
	lru_add_drain(w->c);
	int64_t rss = mm_rss(mm, RSS_FILE), cached = count_of(w, VM_nr_file_pages);

	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	/* Pages 0 and 5 went: out of the tables, the cache and the lists. */
	assert_int_equal(cached - count_of(w, VM_nr_file_pages), 2);
	assert_null(page_at(w, mm, AREA));
	assert_null(page_at(w, mm, AREA + PAGES(5)));
	assert_null(file_lookup(w->c, f, 0));
	assert_non_null(page_at(w, mm, AREA + PAGES(3)));
	assert_non_null(page_at(w, mm, AREA + PAGES(4)));
	/* The dirty ones were unmapped before it was known, and are active again. */
	assert_true(lists(w, LRU_ACTIVE_FILE) >= 2);
	assert_true(count_of(w, VM_pgactivate) >= 2);
	assert_true(mm_rss(mm, RSS_FILE) < rss);
	assert_int_equal(load(w, AREA + PAGES(1)), 77);
	for (unsigned i = 0; i < 6; i++)
		if (i != 1)
			assert_int_equal(load(w, AREA + PAGES(i)), was[i]);
	assert_int_equal(count_of(w, VM_pgmajfault), 8); /* 6 at first, and the 2 that went */
	mm_unpin(w->c, &pin, 1);
	world_check(w);
	mm_end(w, other);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

/* Written, and clean since it was written back: what the device is said to hold for the file is not that. */
static void written_back_pages_stay(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f;

	(void)state;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	map_shared(w, mm, AREA, f);
	store(w, AREA, 77);
	store(w, AREA + PAGES(1), 78);
	assert_ok((int)mm_msync(w->c, mm, AREA, PAGES(8), UAPI_MS_SYNC));
	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	assert_null(page_at(w, mm, AREA));
	assert_int_equal(load(w, AREA), 77);
	assert_int_equal(load(w, AREA + PAGES(1)), 78);
	file_put(w->c, f);
	mm_end(w, mm);
	world_end(w);
}

static void lazily_freed(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	for (unsigned i = 0; i < 5; i++)
		store(w, AREA + PAGES(i), i + 1);
	advise(w, mm, AREA, 4, UAPI_MADV_FREE);
	store(w, AREA + PAGES(1), 9); /* wanted after all */
	assert_int_equal(load(w, AREA + PAGES(2)), 3); /* reading does not keep it */
	struct frame *kept = page_at(w, mm, AREA + PAGES(1));

	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	assert_int_equal(count_of(w, VM_pglazyfreed), 3);
	assert_int_equal(mm_rss(mm, RSS_ANON), 2);
	assert_int_equal(load(w, AREA + PAGES(2)), 0);
	assert_int_equal(load(w, AREA + PAGES(1)), 9);
	assert_int_equal(load(w, AREA + PAGES(4)), 5); /* was never freed: there is no swap */
	assert_ptr_equal(page_at(w, mm, AREA + PAGES(1)), kept);
	assert_int_equal(kept->flags & (FRAME_SWAPBACKED | FRAME_LAZYFREE), FRAME_SWAPBACKED);
	assert_int_equal(lists(w, LRU_ACTIVE_ANON), 2);
	assert_int_equal(lists(w, LRU_INACTIVE_FILE), 0);
	/* What a child has too is not this mapping's to give away. */
	advise(w, mm, AREA + PAGES(4), 1, UAPI_MADV_FREE);
	assert_ok(mm_fork(w->c, mm, &child));
	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	assert_int_equal(count_of(w, VM_pglazyfreed), 3);
	mm_end(w, child);
	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	assert_int_equal(count_of(w, VM_pglazyfreed), 4);
	mm_end(w, mm);
	world_end(w);
}

static void huge_pages(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 4 * MIB, RW);
	store(w, AREA, 1);
	store(w, AREA + 2 * MIB, 2);
	store(w, AREA + 2 * MIB + PAGES(7), 3);
	/* A split leaves no page for what holds only zeros. */
	store(w, AREA + 2 * MIB + PAGES(3), 4);
	store(w, AREA + 2 * MIB + PAGES(4), 5);
	/* Whole and lazily freed: split, and all of it goes. */
	advise(w, mm, AREA, 512, UAPI_MADV_FREE);
	advise(w, mm, AREA, 512, UAPI_MADV_PAGEOUT);
	assert_int_equal(count_of(w, VM_pglazyfreed), 512);
	assert_int_equal(count_of(w, VM_thp_split_page), 1);
	assert_int_equal(mm_rss(mm, RSS_ANON), 512);
	/* In part: split, and only the part is touched. */
	advise(w, mm, AREA + 2 * MIB, 4, UAPI_MADV_COLD);
	assert_int_equal(count_of(w, VM_thp_split_page), 2);
	assert_false(info(mm, AREA + 2 * MIB).huge);
	assert_false(info(mm, AREA + 2 * MIB + PAGES(3)).accessed);
	assert_true(info(mm, AREA + 2 * MIB + PAGES(4)).accessed);
	assert_int_equal(load(w, AREA + 2 * MIB), 2);
	assert_int_equal(load(w, AREA + 2 * MIB + PAGES(7)), 3);
	assert_int_equal(load(w, AREA), 0);
	mm_end(w, mm);
	world_end(w);
}

/* A huge page that small entries map: all of it in the range goes as one, a part is split off, and what others map stays whole. */
static void huge_pages_by_small_entries(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 4 * MIB, RW);
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned p = 0; p < 16; p++)
			store(w, AREA + i * 2 * MIB + PAGES(p), 100 * i + p + 1);
		/* The entry of 2 MiB becomes 512, the page stays. */
		assert_ok(mm_mprotect(w->c, mm, AREA + i * 2 * MIB, PAGES(1), UAPI_PROT_READ));
		assert_ok(mm_mprotect(w->c, mm, AREA + i * 2 * MIB, PAGES(1), UAPI_PROT_READ | UAPI_PROT_WRITE));
		assert_false(info(mm, AREA + i * 2 * MIB).huge);
	}
	advise(w, mm, AREA, 512, UAPI_MADV_COLD);
	assert_int_equal(count_of(w, VM_thp_split_page), 0);
	for (unsigned p = 0; p < 512; p++)
		assert_false(info(mm, AREA + PAGES(p)).accessed);
	assert_ok(mm_fork(w->c, mm, &child));
	advise(w, mm, AREA + 2 * MIB, 8, UAPI_MADV_COLD);
	assert_int_equal(count_of(w, VM_thp_split_page), 0);
	assert_true(info(mm, AREA + 2 * MIB).accessed);
	mm_end(w, child);
	advise(w, mm, AREA + 2 * MIB, 8, UAPI_MADV_COLD);
	assert_int_equal(count_of(w, VM_thp_split_page), 1);
	assert_false(info(mm, AREA + 2 * MIB + PAGES(7)).accessed);
	assert_true(info(mm, AREA + 2 * MIB + PAGES(8)).accessed);
	/* MADV_FREE: the same. */
	advise(w, mm, AREA, 512, UAPI_MADV_FREE);
	assert_int_equal(count_of(w, VM_pglazyfree), 512);
	assert_int_equal(count_of(w, VM_thp_split_page), 1);
	for (unsigned p = 0; p < 16; p++)
		assert_int_equal(load(w, AREA + 2 * MIB + PAGES(p)), 100 + p + 1);
	mm_end(w, mm);
	world_end(w);
}

static void cold_pages(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, AREA + PAGES(i), i + 1);
	lru_add_drain(w->c);
	for (unsigned i = 0; i < 4; i++)
		folio_activate(w->c, page_at(w, mm, AREA + PAGES(i)));
	assert_int_equal(lists(w, LRU_ACTIVE_ANON), 4);
	advise(w, mm, AREA, 2, UAPI_MADV_COLD);
	assert_int_equal(lists(w, LRU_ACTIVE_ANON), 2);
	assert_int_equal(lists(w, LRU_INACTIVE_ANON), 2);
	assert_false(info(mm, AREA).accessed);
	assert_true(info(mm, AREA + PAGES(2)).accessed);
	assert_true(page_at(w, mm, AREA)->flags & FRAME_WORKINGSET);
	assert_ok(mm_fork(w->c, mm, &child));
	advise(w, mm, AREA, 4, UAPI_MADV_COLD);
	assert_int_equal(lists(w, LRU_ACTIVE_ANON), 2);
	mm_end(w, child);
	assert_ok(mm_mlock(w->c, mm, AREA, PAGE_SIZE, true));
	assert_int_equal(mm_madvise(w->c, mm, AREA, PAGES(4), UAPI_MADV_COLD), -EINVAL);
	assert_int_equal(mm_madvise(w->c, mm, AREA, PAGES(4), UAPI_MADV_PAGEOUT), -EINVAL);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), i + 1);
	mm_end(w, mm);
	world_end(w);
}

static void shared_memory(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f;

	(void)state;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), true, &f));
	map_shared(w, mm, AREA, f);
	store(w, AREA, 5);
	assert_int_equal(load(w, AREA + PAGES(1)), 0);
	assert_int_equal(load(w, AREA + PAGES(2)), 0);
	store(w, AREA + PAGES(2), 6); /* only the entry knows */
	advise(w, mm, AREA, 8, UAPI_MADV_PAGEOUT);
	assert_int_equal(mm_rss(mm, RSS_SHMEM), 0);
	assert_int_equal(count_of(w, VM_nr_shmem), 2); /* what was written has no other place */
	assert_int_equal(load(w, AREA), 5);
	assert_int_equal(load(w, AREA + PAGES(1)), 0);
	assert_int_equal(load(w, AREA + PAGES(2)), 6);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

/* ---- memory that runs short ---- */

/* Frames until there are none; all are given back. */
static uint64_t take_all(struct world *w, unsigned gfp)
{
	struct alloc_req r = { .gfp = gfp, .nid = NID_NONE };
	struct list_head all;
	uint64_t n = 0;
	struct frame *f;

	list_init(&all);
	while ((f = page_alloc(w->c, &r))) {
		list_add(&f->lru, &all);
		n++;
	}
	while (!list_empty(&all)) {
		f = list_first_entry(&all, struct frame, lru);
		list_del(&f->lru);
		frame_put(w->c, f);
	}
	return n;
}

/* Pages of a file until memory is full of them. */
static struct mfile *fill_cache(struct world *w, uint64_t pages)
{
	struct mfile *f;

	w->q->knobs.read_ahead_kb = 0;
	assert_ok(file_create(w->c, w->q, 0, PAGES(pages), false, &f));
	for (uint64_t i = 0; i < pages; i++)
		assert_ok(file_rw(w->c, f, PAGES(i), 1, false));
	return f;
}

static void cache_gives_way(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f, *dirty;
	uint64_t free = memory_free_pages(w->q, NID_NONE), cached;
	pfn_t pin;

	(void)state;
	/* Of a file twice as large as memory all pages can be read, one after another. */
	f = fill_cache(w, 2 * free);
	world_check(w);
	cached = (uint64_t)count_of(w, VM_nr_file_pages);
	assert_true(cached > free / 2 && cached < free);
	assert_int_equal(count_of(w, VM_pgsteal_direct) + count_of(w, VM_pgsteal_kswapd), 2 * free - cached);
	assert_int_equal(count_of(w, VM_pgsteal_file), count_of(w, VM_pgsteal_direct) + count_of(w, VM_pgsteal_kswapd));
	assert_int_equal(count_of(w, VM_pgsteal_anon) + count_of(w, VM_pgscan_anon), 0);
	assert_true(count_of(w, VM_pgscan_file) >= count_of(w, VM_pgsteal_file));
	assert_true(count_of(w, VM_allocstall_normal) + count_of(w, VM_allocstall_movable) + count_of(w, VM_allocstall_dma32) > 0);
	/* Pinned, locked in memory, written: these stay when all else goes. */
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &dirty));
	map_shared(w, mm, AREA, dirty);
	for (unsigned i = 0; i < 3; i++)
		assert_true(load(w, AREA + PAGES(i)) != 0);
	store(w, AREA + PAGES(2), 42);
	assert_int_equal(mm_pin(w->c, mm, AREA, 1, false, &pin), 0);
	assert_ok(mm_mlock(w->c, mm, AREA + PAGES(1), PAGE_SIZE, false));
	struct frame *kept[3] = { page_at(w, mm, AREA), page_at(w, mm, AREA + PAGES(1)), page_at(w, mm, AREA + PAGES(2)) };

	assert_true(take_all(w, GFP_HIGHUSER_MOVABLE) > free - 3 * free / 100);
	world_check(w);
	assert_int_equal(count_of(w, VM_nr_isolated_anon) + count_of(w, VM_nr_isolated_file), 0);
	assert_true(count_of(w, VM_nr_file_pages) <= 32 + 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_equal(file_lookup(w->c, dirty, i), kept[i]);
		frame_put(w->c, kept[i]);
	}
	assert_int_equal(load(w, AREA + PAGES(2)), 42);
	mm_unpin(w->c, &pin, 1);
	mm_end(w, mm);
	file_put(w->c, dirty);
	file_put(w->c, f);
	world_end(w);
}

/* Pages that are used stay, those that were read once go. */
static void used_pages_stay(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	uint64_t free = memory_free_pages(w->q, NID_NONE), hot = free / 8, there = 0;
	struct mfile *f, *stream;

	(void)state;
	f = fill_cache(w, hot);
	for (unsigned k = 0; k < 2; k++)
		for (uint64_t i = 0; i < hot; i++)
			assert_ok(file_rw(w->c, f, PAGES(i), 1, false));
	stream = fill_cache(w, 2 * free);
	for (uint64_t i = 0; i < hot; i++) {
		struct frame *page = file_lookup(w->c, f, i);

		there += page != NULL;
		if (page)
			frame_put(w->c, page);
	}
	assert_int_equal(there, hot);
	assert_true(lists(w, LRU_ACTIVE_FILE) >= (int64_t)hot);
	file_put(w->c, stream);
	file_put(w->c, f);
	world_end(w);
}

/* Parts of huge pages that nobody maps are memory that can be had back. */
static void shrinker(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t free, got;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 32 * MIB, RW);
	for (unsigned i = 0; i < 16; i++)
		store(w, AREA + i * 2 * MIB, i + 1);
	assert_int_equal(count_of(w, VM_thp_fault_alloc), 16);
	for (unsigned i = 0; i < 16; i++)
		assert_ok(mm_madvise(w->c, mm, AREA + i * 2 * MIB + PAGES(1), PAGES(511), UAPI_MADV_DONTNEED));
	assert_int_equal(deferred_split_count(w->q, 0), 16);
	free = memory_free_pages(w->q, NID_NONE);
	got = take_all(w, GFP_HIGHUSER_MOVABLE);
	assert_true(got > free);
	assert_int_equal(count_of(w, VM_thp_split_page), 16);
	assert_true(count_of(w, VM_slabs_scanned) >= 16);
	assert_int_equal(deferred_split_count(w->q, 0), 0);
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(load(w, AREA + i * 2 * MIB), i + 1);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Who may not wait gets what is there, and nothing is freed for him. */
static void no_reclaim_for_those_who_cannot_wait(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	uint64_t free = memory_free_pages(w->q, NID_NONE);
	struct mfile *f = fill_cache(w, 2 * free);
	int64_t cached = count_of(w, VM_nr_file_pages);

	(void)state;
	assert_true(take_all(w, GFP_NOWAIT | GFP_MOVABLE) < free / 10);
	assert_int_equal(count_of(w, VM_nr_file_pages), cached);
	file_put(w->c, f);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_of_files), cmocka_unit_test(written_back_pages_stay),
		cmocka_unit_test(lazily_freed), cmocka_unit_test(huge_pages), cmocka_unit_test(huge_pages_by_small_entries), cmocka_unit_test(cold_pages),
		cmocka_unit_test(shared_memory), cmocka_unit_test(cache_gives_way), cmocka_unit_test(used_pages_stay), cmocka_unit_test(shrinker),
		cmocka_unit_test(no_reclaim_for_those_who_cannot_wait),
	};

	return test_run(tests);
}
