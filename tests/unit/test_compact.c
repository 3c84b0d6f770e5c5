/*
 * Compaction: a zone in pieces becomes one of large blocks, nothing is lost on the way, pages that can't be moved stay, and it ends when it
 * should. On the null machine but for the last part, which runs tasks on the model.
 */
#include "mm/alloc_int.h"
#include "mm/compact.h"
#include "mm/gup.h"
#include "mm/lru.h"
#include "paging_world.h"

#define BLOCKS 24U /* pageblocks that a test fills */
#define FILL 0x40000000ULL
#define NOTHING 0

struct room {
	struct frame **taken;
	size_t nr;
};

/* Take all memory but what a filled area leaves: then every further block has to be made. */
static void use_up(struct world *w, struct room *r, unsigned order)
{
	struct alloc_req req = { .order = order, .gfp = GFP_NOWARN, .nid = NID_NONE };
	struct frame *f;

	while ((f = page_alloc(w->c, &req))) {
		r->taken = realloc(r->taken, (r->nr + 1) * sizeof(f));
		r->taken[r->nr++] = f;
	}
}

static void give_back(struct world *w, struct room *r)
{
	while (r->nr)
		frame_put(w->c, r->taken[--r->nr]);
	free(r->taken);
	*r = (struct room){ 0 };
}

/*
 * A zone as thpscale leaves it: an area of base pages, of which the first half of each 2 MiB is unmapped, or one page of every `gap`; all
 * else is in use.
 */
static struct mm *fragmented(struct world *w, unsigned gap, struct room *r)
{
	struct mm *mm = mm_new(w);
	vaddr_t va;

	map_at(w, mm, FILL, BLOCKS * PMD_SIZE, RW);
	for (va = FILL; va < FILL + BLOCKS * PMD_SIZE; va += PAGE_SIZE)
		store(w, va, va);
	use_up(w, r, 9);
	use_up(w, r, 0);
	for (va = FILL; va < FILL + BLOCKS * PMD_SIZE; va += gap ? gap * PAGE_SIZE : PMD_SIZE)
		assert_ok((int)mm_munmap(w->c, mm, va, gap ? PAGE_SIZE : PMD_SIZE / 2));
	world_free(w);
	return mm;
}

static bool there(vaddr_t va, unsigned gap)
{
	return gap ? (va - FILL) / PAGE_SIZE % gap != 0 : (va - FILL) % PMD_SIZE >= PMD_SIZE / 2;
}

static void contents_are_kept(struct world *w, unsigned gap)
{
	for (vaddr_t va = FILL; va < FILL + BLOCKS * PMD_SIZE; va += PAGE_SIZE)
		if (there(va, gap))
			assert_int_equal(load(w, va), va);
}

static struct frame *huge(struct world *w, unsigned gfp)
{
	return page_alloc(w->c, &(struct alloc_req){ .order = HPAGE_PMD_ORDER, .gfp = GFP_TRANSHUGE_LIGHT | gfp, .nid = NID_NONE });
}

static void nothing_isolated(struct world *w)
{
	assert_int_equal(count_of(w, VM_nr_isolated_anon), 0);
	assert_int_equal(count_of(w, VM_nr_isolated_file), 0);
	world_check(w);
}

static void done(struct world *w, struct mm *mm, struct room *r)
{
	nothing_isolated(w);
	give_back(w, r);
	mm_end(w, mm);
	world_end(w);
}

static void huge_pages_where_there_were_none(void **state)
{
	(void)state;
	for (unsigned gap = 0; gap <= 2; gap += 2) {
		struct world *w = world_new(1, 128 * MIB);
		struct room r = { 0 }, got = { 0 };
		struct mm *mm = fragmented(w, gap, &r);
		struct frame *f;

		assert_null(huge(w, NOTHING));
		assert_int_equal(count_of(w, VM_compact_stall), 0);
		while ((f = huge(w, GFP_DIRECT_RECLAIM))) {
			got.taken = realloc(got.taken, (got.nr + 1) * sizeof(f));
			got.taken[got.nr++] = f;
		}
		/* Of 24 half empty pageblocks half, but for what the watermark keeps. */
		assert_in_range(got.nr, BLOCKS / 2 - 3, BLOCKS / 2);
		assert_int_equal(count_of(w, VM_compact_success), got.nr);
		assert_int_equal(count_of(w, VM_compact_stall), count_of(w, VM_compact_success) + count_of(w, VM_compact_fail));
		assert_true(count_of(w, VM_pgmigrate_success) > 0);
		assert_true(count_of(w, VM_compact_migrate_scanned) >= count_of(w, VM_pgmigrate_success));
		assert_true(count_of(w, VM_compact_isolated) >= 2 * count_of(w, VM_pgmigrate_success));
		contents_are_kept(w, gap);
		give_back(w, &got);
		done(w, mm, &r);
	}
}

/* Who may wait for compaction, by transparent_hugepage.defrag. */
static void defrag_modes(void **state)
{
	static const struct {
		enum thp_defrag mode;
		bool advised, compacts;
	} t[] = {
		{ THP_DEFRAG_NEVER, true, false },         { THP_DEFRAG_NEVER, false, false },  { THP_DEFRAG_MADVISE, true, true },
		{ THP_DEFRAG_MADVISE, false, false },      { THP_DEFRAG_DEFER, true, false },   { THP_DEFRAG_DEFER, false, false },
		{ THP_DEFRAG_DEFER_MADVISE, true, true },  { THP_DEFRAG_DEFER_MADVISE, false, false },
		{ THP_DEFRAG_ALWAYS, true, true },         { THP_DEFRAG_ALWAYS, false, true },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		struct world *w = world_new(1, 128 * MIB);
		struct room r = { 0 };
		struct mm *mm = fragmented(w, 0, &r);
		bool defers = t[i].mode == THP_DEFRAG_DEFER || (t[i].mode == THP_DEFRAG_DEFER_MADVISE && !t[i].advised);

		w->q->knobs.thp_enabled = THP_ALWAYS;
		w->q->knobs.thp_defrag = t[i].mode;
		map_at(w, mm, AREA, 2 * PMD_SIZE, RW);
		if (t[i].advised)
			assert_ok((int)mm_madvise(w->c, mm, AREA, 2 * PMD_SIZE, UAPI_MADV_HUGEPAGE));
		store(w, AREA, 1);
		assert_int_equal(info(mm, AREA).huge, t[i].compacts);
		assert_int_equal(count_of(w, VM_compact_stall) > 0, t[i].compacts);
		assert_int_equal(count_of(w, VM_thp_fault_fallback), !t[i].compacts);
		assert_int_equal(w->q->nodes[0].kcompactd_order, defers ? HPAGE_PMD_ORDER : 0);
		done(w, mm, &r);
	}
}

/* A page that can't be moved in every pageblock: all stay where they are, and after some failures hardly anybody tries any more. */
static void pinned_pages_stay(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct room r = { 0 };
	struct mm *mm = fragmented(w, 2, &r);
	struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
	int64_t scanned, stalls = 0, tried = 0;
	pfn_t pin[BLOCKS * 4];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(pin); i++)
		assert_ok(mm_pin(w->c, mm, FILL + i * PMD_SIZE / 4 + PAGE_SIZE, 1, true, &pin[i]));
	lru_add_drain(w->c);
	for (unsigned i = 0; i < 1000; i++) {
		scanned = count_of(w, VM_compact_migrate_scanned);
		assert_null(huge(w, GFP_DIRECT_RECLAIM));
		tried += count_of(w, VM_compact_migrate_scanned) > scanned;
	}
	stalls = count_of(w, VM_compact_stall);
	assert_int_equal(count_of(w, VM_compact_fail), stalls);
	assert_int_equal(z->compact.defer_shift, COMPACT_MAX_DEFER_SHIFT);
	/* Doubling from 1 to 64, then every 64th: of two attempts a request only the second, which waits, counts as a failure. */
	assert_in_range(tried, 10, 40);
	for (unsigned i = 0; i < ARRAY_SIZE(pin); i++)
		assert_int_equal(info(mm, FILL + i * PMD_SIZE / 4 + PAGE_SIZE).pfn.v, pin[i].v);
	contents_are_kept(w, 2);
	mm_unpin(w->c, pin, ARRAY_SIZE(pin));
	/* All can be moved now, but that is found out only by who is not put off. */
	quire_compact_node(w->c, NID_NONE);
	struct frame *f = huge(w, NOTHING);

	assert_non_null(f);
	frame_put(w->c, f);
	contents_are_kept(w, 2);
	done(w, mm, &r);
}

static void deferral_counts(void **state)
{
	struct zone z = { .nid = 0 };
	unsigned n;

	(void)state;
	assert_false(compact_deferred(&z, 9));
	compact_defer_reset(&z, 8, true); /* nothing is known to work at first */
	for (unsigned shift = 1; shift <= 8; shift++) {
		compact_defer(&z, 9);
		assert_int_equal(z.compact.defer_shift, MIN(shift, 6));
		assert_false(compact_restarting(&z, 9));
		for (n = 0; compact_deferred(&z, 9); n++)
			;
		assert_int_equal(n, (1U << MIN(shift, 6)) - 1);
		assert_int_equal(compact_restarting(&z, 9), shift >= 6);
		assert_false(compact_restarting(&z, 8));
	}
	assert_false(compact_deferred(&z, 8));
	compact_defer(&z, 4);
	assert_int_equal(z.compact.order_failed, 4);
	compact_defer_reset(&z, 5, false);
	assert_int_equal(z.compact.order_failed, 6);
	assert_false(compact_deferred(&z, 5));
	assert_true(compact_deferred(&z, 6));
	compact_defer_reset(&z, 9, true);
	assert_int_equal(z.compact.order_failed, 10);
	assert_int_equal(z.compact.defer_shift + z.compact.considered, 0);
}

/* Little is free, or in one piece: another way must be found. Where compaction is for pieces only. */
static void not_worth_it(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
	struct room r = { 0 };
	struct mm *mm = fragmented(w, 0, &r);

	(void)state;
	assert_int_equal(compact_suitability(w->c, z, 9, ZONE_MOVABLE, WMARK_LOW), COMPACT_CONTINUE);
	assert_int_equal(compact_suitability(w->c, z, 2, ZONE_MOVABLE, WMARK_LOW), COMPACT_SUCCESS);
	w->q->knobs.extfrag_threshold = 1000;
	assert_int_equal(compact_suitability(w->c, z, 9, ZONE_MOVABLE, WMARK_LOW), COMPACT_SKIPPED);
	assert_null(huge(w, GFP_DIRECT_RECLAIM));
	assert_int_equal(count_of(w, VM_compact_stall) + count_of(w, VM_compact_migrate_scanned), 0);
	w->q->knobs.extfrag_threshold = 500;
	use_up(w, &r, 0);
	assert_int_equal(compact_suitability(w->c, z, 9, ZONE_MOVABLE, WMARK_LOW), COMPACT_SKIPPED);
	assert_null(huge(w, GFP_DIRECT_RECLAIM));
	assert_int_equal(count_of(w, VM_compact_stall), 0);
	done(w, mm, &r);
}

/* A direct compaction takes its block before anybody sees it; without, it is on the lists. */
static void capture(void **state)
{
	(void)state;
	for (unsigned on = 0; on < 2; on++) {
		struct world *w = world_new(1, 128 * MIB);
		struct room r = { 0 };
		struct mm *mm = fragmented(w, 0, &r);
		struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
		struct alloc_context ac = { .order = 9, .gfp = GFP_TRANSHUGE, .nid = 0, .highest = ZONE_MOVABLE };
		struct frame *f = NULL;

		w->q->knobs.compact_capture = on;
		assert_int_equal(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_SYNC_LIGHT, &f), COMPACT_SUCCESS);
		assert_null(w->c->pc->captures);
		assert_int_equal(f != NULL, on);
		assert_int_equal(z->free_area[9].nr_free + z->free_area[10].nr_free, !on);
		if (f) {
			frame_prep(w->c, f, 9, true);
			frame_put(w->c, f);
		}
		done(w, mm, &r);
	}
}

/* An asynchronous compaction gives up at the first lock that somebody has, and when the CPU is wanted. */
static void async_aborts(void **state)
{
	struct alloc_context ac = { .order = 9, .gfp = GFP_TRANSHUGE, .nid = 0, .highest = ZONE_MOVABLE };
	struct frame *f = NULL;

	(void)state;
	struct world *w = world_new(1, 128 * MIB);
	struct room r = { 0 };
	struct mm *mm = fragmented(w, 0, &r);

	w->c->need_resched = true;
	assert_int_equal(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_ASYNC, &f), COMPACT_CONTENDED);
	assert_int_equal(count_of(w, VM_compact_isolated), 0);
	assert_null(f);
	*cpu_pf(w->c) |= PF_OOM_VICTIM;
	assert_int_equal(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_SYNC_LIGHT, &f), COMPACT_CONTENDED);
	*cpu_pf(w->c) = 0;
	assert_int_equal(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_SYNC_LIGHT, &f), COMPACT_SUCCESS);
	assert_non_null(f);
	frame_prep(w->c, f, 9, true);
	frame_put(w->c, f);
	w->c->need_resched = false;
	done(w, mm, &r);
}

/* Pages of a file move too, and are found in its cache; locked ones as well. */
static void files_and_locked_pages(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *file = NULL;
	struct room r = { 0 };
	uint64_t len = BLOCKS * PMD_SIZE / 2;

	(void)state;
	assert_ok(file_create(w->c, w->q, 1, len, true, &file));
	map_at(w, mm, FILL, len, RW);
	assert_int_equal(mm_mmap(w->c, mm, AREA, len, RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, file, 0), (int64_t)AREA);
	/* Turn by turn, so that what is freed lies between pages of the file. */
	for (uint64_t at = 0; at < len; at += PAGE_SIZE) {
		store(w, FILL + at, 1);
		store(w, AREA + at, AREA + at);
	}
	assert_ok((int)mm_mlock(w->c, mm, AREA, len / 2, 0));
	use_up(w, &r, 9);
	use_up(w, &r, 0);
	assert_ok((int)mm_munmap(w->c, mm, FILL, len));
	world_free(w);
	use_up(w, &r, 9);
	assert_null(huge(w, NOTHING));
	struct frame *f = huge(w, GFP_DIRECT_RECLAIM);

	assert_non_null(f);
	frame_put(w->c, f);
	assert_true(count_of(w, VM_pgmigrate_success) >= HPAGE_PMD_NR / 2);
	assert_ok((int)mm_munmap(w->c, mm, AREA, len));
	assert_int_equal(mm_mmap(w->c, mm, AREA, len, RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, file, 0), (int64_t)AREA);
	for (uint64_t at = 0; at < len; at += PAGE_SIZE)
		assert_int_equal(load(w, AREA + at), AREA + at);
	file_put(w->c, file);
	done(w, mm, &r);
}

/* All of a node; the pieces that a compaction can't help for are where it began. */
static void a_node(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct room r = { 0 };
	struct mm *mm = fragmented(w, 2, &r);
	struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
	unsigned before = compact_fragmentation(w->c, 0);

	(void)state;
	quire_compact_node(w->c, 0);
	assert_true(compact_fragmentation(w->c, 0) < before / 4);
	assert_in_range(z->free_area[9].nr_free + 2 * z->free_area[10].nr_free, BLOCKS / 2 - 2, BLOCKS / 2);
	assert_int_equal(count_of(w, VM_compact_stall), 0);
	contents_are_kept(w, 2);
	done(w, mm, &r);
}

/* Pageblocks in which nothing was found are left out until the zone has been gone through and somebody says so. */
static void skipped_pageblocks(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct room r = { 0 };
	struct mm *mm = fragmented(w, 2, &r);
	struct zone *z = &w->q->nodes[0].zones[ZONE_DMA32];
	struct alloc_context ac = { .order = 9, .gfp = GFP_TRANSHUGE, .nid = 0, .highest = ZONE_MOVABLE };
	struct frame *f = NULL;
	pfn_t pin[BLOCKS];
	int64_t first, n;

	(void)state;
	for (unsigned i = 0; i < BLOCKS; i++)
		assert_ok(mm_pin(w->c, mm, FILL + i * PMD_SIZE + PAGE_SIZE, 1, true, &pin[i]));
	lru_add_drain(w->c);
	assert_true(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_ASYNC, &f) < COMPACT_SUCCESS);
	first = count_of(w, VM_compact_migrate_scanned);
	assert_true(first > 0);
	while (!z->compact.flush_skip)
		assert_true(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_ASYNC, &f) < COMPACT_SUCCESS);
	n = count_of(w, VM_compact_migrate_scanned);
	assert_true(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_ASYNC, &f) < COMPACT_SUCCESS);
	assert_true(count_of(w, VM_compact_migrate_scanned) - n < first / 4);
	compact_reset_skipped(w->c, 0);
	assert_false(z->compact.flush_skip);
	n = count_of(w, VM_compact_migrate_scanned);
	assert_true(compact_direct(w->c, &ac, WMARK_MIN, COMPACT_PRIO_ASYNC, &f) < COMPACT_SUCCESS);
	assert_true(count_of(w, VM_compact_migrate_scanned) - n >= first / 2);
	mm_unpin(w->c, pin, BLOCKS);
	done(w, mm, &r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_pages_where_there_were_none),
		cmocka_unit_test(defrag_modes),
		cmocka_unit_test(pinned_pages_stay),
		cmocka_unit_test(deferral_counts),
		cmocka_unit_test(not_worth_it),
		cmocka_unit_test(capture),
		cmocka_unit_test(async_aborts),
		cmocka_unit_test(files_and_locked_pages),
		cmocka_unit_test(a_node),
		cmocka_unit_test(skipped_pageblocks),
	};

	return test_run(tests);
}
