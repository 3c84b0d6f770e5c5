/*
 * Migration: contents, rights, counts and counters afterwards; who may not be moved; batches and their flushes; failures at every
 * step. On the null machine, of two nodes where a place to go to matters.
 */
#include "mm/deferred_split.h"
#include "mm/folio_lock.h"
#include "mm/gup.h"
#include "mm/migrate.h"
#include "mm/rmap_walk.h"
#include "paging_world.h"

struct room {
	unsigned limit, given, taken_back; /* how many folios there is room for */
	unsigned thp_limit;                /* ... of which huge */
};

static struct frame *get_room(struct cpu *c, const struct frame *src, void *arg)
{
	struct room *r = arg;
	bool huge = frame_nr_pages(src) > 1;
	struct alloc_req req = { .order = frame_order(src), .gfp = huge ? GFP_TRANSHUGE_LIGHT : GFP_HIGHUSER_MOVABLE, .nid = NID_NONE };

	if (r->given == r->limit || (huge && !r->thp_limit))
		return NULL;
	r->given++;
	r->thp_limit -= huge;
	return page_alloc(c, &req);
}

static void put_room(struct cpu *c, struct frame *dst, void *arg)
{
	struct room *r = arg;

	r->taken_back++;
	frame_put(c, dst);
}

static struct frame *folio_at(struct world *w, struct mm *mm, vaddr_t va)
{
	return frame_head(w->m, frame_of(w->m, info(mm, va).pfn));
}

static void isolate_at(struct world *w, struct mm *mm, vaddr_t va, struct list_head *l)
{
	assert_ok(migrate_isolate(w->c, folio_at(w, mm, va), l));
}

static int migrate(struct world *w, struct list_head *l, struct room *r, enum migrate_mode mode, enum migrate_reason why)
{
	struct migrate_target t = { .get = get_room, .put = put_room, .arg = r };
	int rc = migrate_pages(w->c, l, &t, mode, why, NULL);

	migrate_putback(w->c, l);
	return rc;
}

static struct room plenty(void)
{
	return (struct room){ .limit = ~0U, .thp_limit = ~0U };
}

#define NR 20

static void base_pages_move(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w), *child = NULL;
	struct room r = plenty();
	struct list_head l;
	pfn_t before[NR];

	(void)state;
	list_init(&l);
	map_at(w, mm, AREA, PAGES(NR), RW);
	for (unsigned i = 0; i < NR; i++)
		store(w, AREA + PAGES(i), 100 + i);
	assert_ok((int)mm_mprotect(w->c, mm, AREA + PAGES(4), PAGES(4), UAPI_PROT_READ));
	assert_ok((int)mm_mprotect(w->c, mm, AREA + PAGES(8), PAGES(4), 0));
	assert_ok(mm_fork(w->c, mm, &child));
	store(w, AREA + PAGES(1), 7);
	for (unsigned i = 0; i < NR; i++) {
		before[i] = info(mm, AREA + PAGES(i)).pfn;
		isolate_at(w, mm, AREA + PAGES(i), &l);
	}
	assert_ok(migrate(w, &l, &r, MIGRATE_SYNC, MR_SYSCALL));
	assert_int_equal(count_of(w, VM_pgmigrate_success), NR);
	assert_int_equal(count_of(w, VM_pgmigrate_fail), 0);
	for (unsigned i = 0; i < NR; i++) {
		struct mm_page_info p = info(mm, AREA + PAGES(i));

		assert_true(p.present);
		assert_true(p.pfn.v != before[i].v);
		assert_int_equal(p.writable, i == 1);
		assert_int_equal(p.exclusive, i == 1);
		if (i != 1)
			assert_int_equal(p.pfn.v, info(child, AREA + PAGES(i)).pfn.v);
	}
	world_check(w);
	assert_ok((int)mm_mprotect(w->c, mm, AREA, PAGES(NR), RW));
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), i == 1 ? 7 : 100 + i);
	mm_end(w, child);
	mm_end(w, mm);
	world_end(w);
}

/* A huge page moves whole, or is split where there is no room, but not for locality's sake. */
static void huge_pages_move(void **state)
{
	(void)state;
	for (unsigned what = 0; what < 3; what++) {
		struct world *w = world_new(2, 128 * MIB);
		struct room r = plenty();
		struct list_head l;

		list_init(&l);
		w->q->knobs.thp_enabled = THP_ALWAYS;
		struct mm *mm = mm_new(w);

		map_at(w, mm, AREA, PMD_SIZE, RW);
		for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
			store(w, AREA + PAGES(i), 100 + i);
		pfn_t before = info(mm, AREA).pfn;

		isolate_at(w, mm, AREA, &l);
		r.thp_limit = what ? 0 : 1;
		int rc = migrate(w, &l, &r, MIGRATE_SYNC, what == 2 ? MR_NUMA_MISPLACED : MR_SYSCALL);

		assert_int_equal(info(mm, AREA).huge, what != 1);
		assert_int_equal(info(mm, AREA).pfn.v == before.v, what == 2);
		assert_true(info(mm, AREA).writable);
		if (what == 0) {
			assert_ok(rc);
			assert_int_equal(count_of(w, VM_thp_migration_success), 1);
			assert_int_equal(count_of(w, VM_pgmigrate_success), HPAGE_PMD_NR);
		} else if (what == 1) {
			assert_int_equal(rc, 1); /* the huge page counts as one that was not moved; its parts were */
			assert_int_equal(count_of(w, VM_thp_migration_split), 1);
			assert_int_equal(count_of(w, VM_thp_migration_fail), 1);
			assert_int_equal(count_of(w, VM_pgmigrate_success), HPAGE_PMD_NR);
			assert_int_equal(count_of(w, VM_pgmigrate_fail), 0);
		} else {
			assert_int_equal(rc, -ENOMEM);
			assert_int_equal(count_of(w, VM_thp_migration_split) + count_of(w, VM_thp_split_page), 0);
			assert_int_equal(count_of(w, VM_thp_migration_fail), 1);
			assert_int_equal(count_of(w, VM_pgmigrate_fail), HPAGE_PMD_NR);
		}
		for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
			assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
		mm_end(w, mm);
		world_end(w);
	}
}

static void partly_mapped_huge_page_is_split(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct room r = plenty();
	struct list_head l;

	(void)state;
	list_init(&l);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, PMD_SIZE, RW);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		store(w, AREA + PAGES(i), 100 + i);
	assert_ok((int)mm_munmap(w->c, mm, AREA + PAGES(12), PAGES(500)));
	isolate_at(w, mm, AREA, &l);
	assert_int_equal(migrate(w, &l, &r, MIGRATE_ASYNC, MR_COMPACTION), 1); /* the huge page has not moved, as such */
	assert_int_equal(count_of(w, VM_thp_migration_split), 1);
	assert_int_equal(count_of(w, VM_thp_migration_fail), 1);
	assert_int_equal(count_of(w, VM_pgmigrate_fail), 0);
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
	mm_end(w, mm);
	world_end(w);
}

/* A huge page that had to be split counts as not moved, whatever becomes of others that are tried again. */
static void splits_are_not_forgotten(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct room r = plenty();
	struct list_head l;
	struct frame *busy;

	(void)state;
	list_init(&l);
	r.thp_limit = 0;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, PMD_SIZE, RW);
	map_at(w, mm, AREA + 2 * PMD_SIZE, PAGES(1), RW);
	store(w, AREA, 1);
	store(w, AREA + 2 * PMD_SIZE, 2);
	isolate_at(w, mm, AREA, &l);
	isolate_at(w, mm, AREA + 2 * PMD_SIZE, &l);
	busy = folio_at(w, mm, AREA + 2 * PMD_SIZE);
	frame_get(w->c, busy); /* in use: all passes, and then one by one, in vain */
	assert_int_equal(migrate(w, &l, &r, MIGRATE_SYNC, MR_SYSCALL), 2);
	assert_int_equal(count_of(w, VM_thp_migration_split), 1);
	assert_int_equal(count_of(w, VM_thp_migration_fail), 1);
	assert_int_equal(count_of(w, VM_pgmigrate_success), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_pgmigrate_fail), 1);
	frame_put(w->c, busy);
	assert_int_equal(load(w, AREA), 1);
	mm_end(w, mm);
	world_end(w);
}

/* Moved whole, it is still worth splitting. */
static void unmapped_parts_move_along(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct room r = plenty();
	struct list_head l;

	(void)state;
	list_init(&l);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, PMD_SIZE, RW);
	store(w, AREA, 1);
	assert_ok((int)mm_munmap(w->c, mm, AREA + PAGES(12), PAGES(500)));
	isolate_at(w, mm, AREA, &l);
	assert_ok(migrate(w, &l, &r, MIGRATE_ASYNC, MR_NUMA_MISPLACED));
	assert_int_equal(deferred_split_count(w->q, 0), 1);
	world_check(w);
	assert_int_equal(deferred_split_scan(w->c, 0, 10), 1);
	assert_int_equal(load(w, AREA), 1);
	mm_end(w, mm);
	world_end(w);
}

/* A pin, or somebody's reference: the page stays, whole and as it was, and counts as a failure. */
static void used_pages_stay(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct room r = plenty();
	struct list_head l;
	struct mm_page_info before, after;
	pfn_t pin;

	(void)state;
	list_init(&l);
	map_at(w, mm, AREA, PAGES(2), RW);
	store(w, AREA, 1);
	store(w, AREA + PAGES(1), 2);
	assert_ok(mm_pin(w->c, mm, AREA, 1, true, &pin));
	frame_get(w->c, folio_at(w, mm, AREA + PAGES(1)));
	for (unsigned i = 0; i < 2; i++) {
		before = info(mm, AREA + PAGES(i));
		isolate_at(w, mm, AREA + PAGES(i), &l);
		assert_int_equal(migrate(w, &l, &r, MIGRATE_SYNC, MR_SYSCALL), 1);
		after = info(mm, AREA + PAGES(i));
		assert_memory_equal(&before, &after, sizeof(before));
	}
	assert_int_equal(count_of(w, VM_pgmigrate_fail), 2);
	assert_int_equal(count_of(w, VM_pgmigrate_success), 0);
	assert_int_equal(r.given, r.taken_back);
	frame_put(w->c, folio_at(w, mm, AREA + PAGES(1)));
	mm_unpin(w->c, &pin, 1);
	mm_end(w, mm);
	world_end(w);
}

static void file_pages_move(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct room r = plenty();
	struct mfile *f = NULL;
	struct list_head l;

	(void)state;
	list_init(&l);
	assert_ok(file_create(w->c, w->q, 1, PAGES(8), true, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
	for (unsigned i = 0; i < 8; i++)
		store(w, AREA + PAGES(i), 50 + i);
	pfn_t before = info(mm, AREA).pfn;

	for (unsigned i = 0; i < 8; i++)
		isolate_at(w, mm, AREA + PAGES(i), &l);
	assert_ok(migrate(w, &l, &r, MIGRATE_ASYNC, MR_SYSCALL));
	assert_true(info(mm, AREA).pfn.v != before.v);
	assert_true(info(mm, AREA).writable);
	world_check(w);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 50 + i);
	assert_ok((int)mm_munmap(w->c, mm, AREA, PAGES(8)));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
	assert_int_equal(load(w, AREA + PAGES(5)), 55); /* found in the cache */
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

/* 512 pages, active on another CPU: a flush each, one by one; one for all in a batch. */
static void a_batch_flushes_once(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct room r = plenty();
	struct list_head l;

	(void)state;
	list_init(&l);
	map_at(w, mm, AREA, 3 * PMD_SIZE, RW);
	for (unsigned i = 0; i < 3 * HPAGE_PMD_NR; i++)
		store(w, AREA + PAGES(i), 1 + i);
	mm_activate(w->m->cpus[1], mm);
	for (unsigned i = 0; i < 3 * HPAGE_PMD_NR; i++)
		isolate_at(w, mm, AREA + PAGES(i), &l);
	int64_t before = count_of(w, VM_nr_tlb_remote_flush);

	assert_ok(migrate(w, &l, &r, MIGRATE_ASYNC, MR_SYSCALL));
	assert_int_equal(count_of(w, VM_nr_tlb_remote_flush) - before, 3);
	for (unsigned i = 0; i < 3 * HPAGE_PMD_NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 1 + i);
	mm_end(w, mm);
	world_end(w);
}

/* Room for some only: they have moved, the rest is where it was, nothing is lost. */
static void no_room(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct room r = { .limit = 5 };
	struct list_head l;

	(void)state;
	list_init(&l);
	map_at(w, mm, AREA, PAGES(NR), RW);
	for (unsigned i = 0; i < NR; i++) {
		store(w, AREA + PAGES(i), 100 + i);
		isolate_at(w, mm, AREA + PAGES(i), &l);
	}
	assert_int_equal(migrate(w, &l, &r, MIGRATE_SYNC, MR_SYSCALL), -ENOMEM);
	assert_int_equal(count_of(w, VM_pgmigrate_success), 5);
	world_check(w);
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base_pages_move),     cmocka_unit_test(huge_pages_move), cmocka_unit_test(partly_mapped_huge_page_is_split),
		cmocka_unit_test(used_pages_stay),     cmocka_unit_test(file_pages_move), cmocka_unit_test(a_batch_flushes_once),
		cmocka_unit_test(no_room),	       cmocka_unit_test(splits_are_not_forgotten), cmocka_unit_test(unmapped_parts_move_along),
	};

	return test_run(tests);
}
