/*
 * The lists of reclaim: what is on which, batches, isolation, locking in memory, lazily freed pages, the end of a folio, splits; and
 * that the validator sees each kind of damage.
 */
#include "damage.h"

#include "mm/alloc_int.h"
#include "mm/lru.h"

static int64_t on_list(struct world *w, enum lru_list l)
{
	return count_of(w, (enum vm_counter)(VM_nr_inactive_anon + l));
}

static void expect_lists(struct world *w, int64_t inactive_anon, int64_t active_anon, int64_t inactive_file, int64_t active_file,
			 int64_t unevictable, int line)
{
	int64_t want[NR_LRU_LISTS] = { inactive_anon, active_anon, inactive_file, active_file, unevictable };

	for (unsigned l = 0; l < NR_LRU_LISTS; l++)
		if (on_list(w, (enum lru_list)l) != want[l])
			fail_msg("line %d: list %u has %ld pages instead of %ld", line, l, (long)on_list(w, (enum lru_list)l), (long)want[l]);
	world_check(w);
}

#define LISTS(w, ...) expect_lists(w, __VA_ARGS__, __LINE__)

static struct frame *page_at(struct world *w, struct mm *mm, vaddr_t va)
{
	return frame_of(w->m, info(mm, va).pfn);
}

static void faults_fill_batches(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(64), RW);
	for (unsigned i = 0; i < LRU_BATCH_SIZE - 1; i++)
		store(w, AREA + PAGES(i), i);
	LISTS(w, 0, 0, 0, 0, 0);
	assert_int_equal(page_at(w, mm, AREA)->refcount, 2); /* the mapping's and the batch's */
	store(w, AREA + PAGES(LRU_BATCH_SIZE - 1), 1); /* full */
	LISTS(w, LRU_BATCH_SIZE, 0, 0, 0, 0);
	assert_int_equal(page_at(w, mm, AREA)->refcount, 1);
	store(w, AREA + PAGES(40), 1);
	lru_add_drain(w->c);
	LISTS(w, LRU_BATCH_SIZE + 1, 0, 0, 0, 0);
	store(w, AREA + PAGES(41), 1); /* still in a batch when it is unmapped */
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(64)));
	LISTS(w, 0, 0, 0, 0, 0);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 2 * MIB, RW);
	store(w, AREA, 1);
	LISTS(w, 512, 0, 0, 0, 0); /* large ones do not wait */
	mm_end(w, mm);
	LISTS(w, 0, 0, 0, 0, 0);
	world_end(w);
}

/* Any CPU can empty the batches of another, which may be idle. */
static void another_cpus_batch(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 1);
	struct frame *f = page_at(w, mm, AREA);
	struct cpu *other = w->m->cpus[1];

	lru_add_drain(other);
	assert_int_equal(f->refcount, 2);
	lru_add_drain_all(other);
	assert_int_equal(f->refcount, 1);
	LISTS(w, 1, 0, 0, 0, 0);
	/* Slots that were emptied by somebody else are filled again. */
	for (unsigned i = 1; i < 4; i++)
		store(w, AREA + PAGES(i), 1);
	lru_add_drain(w->c);
	LISTS(w, 4, 0, 0, 0, 0);
	mm_end(w, mm);
	world_end(w);
}

static void read_file(struct world *w, struct mfile *f, unsigned page)
{
	assert_ok(file_rw(w->c, f, PAGES(page), PAGE_SIZE, false));
}

static void second_use_activates(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mfile *f;

	(void)state;
	w->q->knobs.read_ahead_kb = 0;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	read_file(w, f, 0);
	read_file(w, f, 0); /* the same use goes on */
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 1, 0, 0);
	read_file(w, f, 1);
	read_file(w, f, 0);
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 1, 1, 0);
	assert_int_equal(count_of(w, VM_pgactivate), 1);
	/* Used twice before it has come to a list: active from the start. */
	read_file(w, f, 2);
	read_file(w, f, 3);
	read_file(w, f, 2);
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 2, 2, 0);
	assert_int_equal(count_of(w, VM_pgactivate), 1);
	/* What is written is not thereby used. */
	for (unsigned i = 0; i < 3; i++)
		for (unsigned p = 4; p < 6; p++)
			assert_ok(file_rw(w->c, f, PAGES(p), PAGE_SIZE, true));
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 4, 2, 0);
	file_put(w->c, f);
	LISTS(w, 0, 0, 0, 0, 0);
	world_end(w);
}

static void deactivation(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f;
	struct frame *page[3];

	(void)state;
	w->q->knobs.read_ahead_kb = 0;
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
	for (unsigned round = 0; round < 2; round++)
		for (unsigned i = 0; i < 3; i++)
			read_file(w, f, i);
	lru_add_drain(w->c);
	for (unsigned i = 0; i < 3; i++) {
		page[i] = file_lookup(w->c, f, i);
		assert_non_null(page[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		frame_put(w->c, page[i]);
	LISTS(w, 0, 0, 0, 3, 0);
	assert_ok(file_rw(w->c, f, PAGES(1), PAGE_SIZE, true));
	(void)load(w, AREA + PAGES(2)); /* mapped: wanted */
	for (unsigned i = 0; i < 3; i++)
		folio_deactivate_file(w->c, page[i]);
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 2, 1, 0);
	assert_int_equal(count_of(w, VM_pgdeactivate), 2);
	assert_int_equal(count_of(w, VM_pgrotated), 1);
	const struct lruvec *lv = folio_lruvec(w->q, page[0]);

	/* The clean one is the next to go, the dirty one has a whole life before it. */
	assert_ptr_equal(list_last_entry(&lv->list[LRU_INACTIVE_FILE], struct frame, lru), page[0]);
	assert_ptr_equal(list_first_entry(&lv->list[LRU_INACTIVE_FILE], struct frame, lru), page[1]);
	/* Anonymous ones, and only active ones. */
	map_at(w, mm, AREA + MIB, PAGES(1), RW);
	store(w, AREA + MIB, 1);
	lru_add_drain(w->c);
	struct frame *anon = page_at(w, mm, AREA + MIB);

	folio_deactivate(w->c, anon);
	assert_true(anon->flags & FRAME_LRU);
	folio_activate(w->c, anon);
	assert_false(anon->flags & FRAME_LRU); /* a batch has it; another job has to wait for another time */
	folio_activate(w->c, anon);
	assert_int_equal(anon->refcount, 2);
	lru_add_drain(w->c);
	LISTS(w, 0, 1, 2, 1, 0);
	folio_deactivate(w->c, anon);
	lru_add_drain(w->c);
	LISTS(w, 1, 0, 2, 1, 0);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

static void unmapping_tells_of_use(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f;

	(void)state;
	w->q->knobs.read_ahead_kb = 0;
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
		(void)load(w, AREA);
		lru_add_drain(w->c);
		assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	}
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 0, 1, 0);
	/* Those who said that they go through it once do not tell. */
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
		assert_ok(mm_madvise(w->c, mm, AREA, PAGES(8), UAPI_MADV_RANDOM));
		(void)load(w, AREA + PAGES(1));
		assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	}
	lru_add_drain(w->c);
	LISTS(w, 0, 0, 1, 1, 0);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

static void locked_in_memory(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	store(w, AREA + PAGES(1), 1);
	assert_ok(mm_mlock(w->c, mm, AREA, PAGES(4), true));
	LISTS(w, 0, 0, 0, 0, 2);
	store(w, AREA + PAGES(2), 1); /* into a locked area */
	store(w, AREA + PAGES(5), 1);
	lru_add_drain(w->c);
	LISTS(w, 1, 0, 0, 0, 3);
	/* A child does not inherit the lock; the page stays where its parent wants it. */
	assert_ok(mm_fork(w->c, mm, &child));
	LISTS(w, 1, 0, 0, 0, 3);
	assert_ok(mm_munlock(w->c, mm, AREA, PAGES(1)));
	LISTS(w, 2, 0, 0, 0, 2);
	assert_int_equal(count_of(w, VM_unevictable_pgs_rescued), 1);
	assert_int_equal(count_of(w, VM_unevictable_pgs_culled), 3);
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	lru_add_drain(w->c);
	LISTS(w, 4, 0, 0, 0, 0); /* the child's */
	mm_end(w, child);
	/* A page that is locked while a batch has it. */
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	lru_add_drain(w->c);
	struct frame *f = page_at(w, mm, AREA);

	folio_activate(w->c, f);
	rmap_mlock(w->c, f);
	lru_add_drain(w->c);
	assert_true(f->flags & FRAME_UNEVICTABLE);
	assert_false(f->flags & FRAME_ACTIVE);
	/* ... or isolated. */
	assert_true(folio_isolate_lru(w->c, f));
	rmap_munlock(w->c, f);
	folio_putback_lru(w->c, f);
	LISTS(w, 1, 0, 0, 0, 0);
	mm_end(w, mm);
	world_end(w);
}

static void huge_and_locked(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 2 * MIB, RW);
	store(w, AREA, 1);
	assert_ok(mm_mlock(w->c, mm, AREA, 2 * MIB, false));
	LISTS(w, 0, 0, 0, 0, 512);
	assert_ok(mm_munlock(w->c, mm, AREA, PAGES(1))); /* its parts can't be locked by themselves */
	LISTS(w, 512, 0, 0, 0, 0);
	mm_end(w, mm);
	world_end(w);
}

static void lazily_freed(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, AREA + PAGES(i), 1);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(3), UAPI_MADV_FREE));
	LISTS(w, 1, 0, 3, 0, 0);
	assert_int_equal(count_of(w, VM_pglazyfree), 3);
	store(w, AREA, 2); /* nobody is told */
	LISTS(w, 1, 0, 3, 0, 0);
	mm_end(w, mm);
	LISTS(w, 0, 0, 0, 0, 0);
	world_end(w);
}

static void isolation(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 4 * MIB, RW);
	store(w, AREA, 1);
	assert_ok(mm_munmap(w->c, mm, AREA + 2 * MIB, 2 * MIB));
	struct frame *head = page_at(w, mm, AREA);

	assert_true(folio_isolate_lru(w->c, head));
	assert_false(folio_isolate_lru(w->c, head));
	LISTS(w, 0, 0, 0, 0, 0);
	assert_int_equal(count_of(w, VM_nr_isolated_anon), 512);
	assert_int_equal(head->refcount, 2);
	folio_activate(w->c, head); /* no job can be had with it */
	assert_int_equal(head->refcount, 2);
	folio_putback_lru(w->c, head);
	LISTS(w, 512, 0, 0, 0, 0);
	assert_int_equal(count_of(w, VM_nr_isolated_anon), 0);
	/* Its last mapping goes while it is isolated: putting it back frees it. */
	assert_true(folio_isolate_lru(w->c, head));
	mm_end(w, mm);
	assert_int_equal(head->refcount, 1);
	folio_putback_lru(w->c, head);
	LISTS(w, 0, 0, 0, 0, 0);
	world_end(w);
}

/* References that only a batch has do not make a page shared. */
static void batches_do_not_share(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	assert_ok(mm_fork(w->c, mm, &child));
	mm_end(w, child);
	struct frame *f = page_at(w, mm, AREA);

	folio_activate(w->c, f);
	assert_int_equal(f->refcount, 2);
	store(w, AREA, 2);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 1);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 0);
	assert_ptr_equal(page_at(w, mm, AREA), f);
	mm_end(w, mm);
	world_end(w);
}

/* A compound of four on a list, or isolated, made four frames by hand as a split does. */
static struct frame *four(struct world *w, bool isolated)
{
	struct frame *f = page_alloc(w->c, &(struct alloc_req){ .order = 2, .gfp = GFP_HIGHUSER_MOVABLE | GFP_COMP, .nid = NID_NONE });

	assert_non_null(f);
	frame_set(f, FRAME_ANON | FRAME_SWAPBACKED);
	folio_add_lru(w->c, f);
	assert_int_equal(on_list(w, LRU_INACTIVE_ANON), 4);
	if (isolated)
		assert_true(folio_isolate_lru(w->c, f));
	uint64_t place = f->flags & FRAME_PLACE_MASK;

	f->flags &= ~(FRAME_HEAD | 0xffULL << FRAME_ORDER_SHIFT);
	f->memcg = 0;
	for (unsigned i = 1; i < 4; i++) {
		f[i].flags = place | FRAME_ANON | FRAME_SWAPBACKED;
		list_init(&f[i].lru);
		f[i].refcount = 1;
	}
	return f;
}

static void split_folios(void **state)
{
	struct world *w = world_new(1, 128 * MIB);

	(void)state;
	for (unsigned isolated = 0; isolated < 2; isolated++) {
		struct frame *f = four(w, isolated), *all[4] = { f, f + 1, f + 2, f + 3 };

		f[2].nr_locked = 1;
		lru_split(w->c, f, 4, false);
		assert_int_equal(lru_validate(w->q), 0);
		assert_int_equal(on_list(w, LRU_INACTIVE_ANON), isolated ? 2 : 3);
		assert_int_equal(on_list(w, LRU_UNEVICTABLE), 1);
		assert_int_equal(count_of(w, VM_nr_isolated_anon), isolated);
		f[2].nr_locked = 0;
		if (isolated)
			folio_putback_lru(w->c, f);
		frames_put(w->c, all, 4);
		assert_int_equal(lru_validate(w->q), 0);
		assert_int_equal(on_list(w, LRU_INACTIVE_ANON) + on_list(w, LRU_UNEVICTABLE), 0);
	}
	world_end(w);
}

static void damage_is_seen(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(64), RW);
	for (unsigned i = 0; i < LRU_BATCH_SIZE + 1; i++)
		store(w, AREA + PAGES(i), i);
	struct frame *f = page_at(w, mm, AREA + PAGES(3)), *waiting = page_at(w, mm, AREA + PAGES(LRU_BATCH_SIZE));
	struct lruvec *lv = folio_lruvec(w->q, f);

#define BAD(lvalue, bad, what) DAMAGE(w, lru_validate(w->q), lvalue, bad, "lists of reclaim: " what)
	BAD(lv->size[LRU_INACTIVE_ANON], 30, "a list's size (L3)");
	BAD(lv->size[LRU_INACTIVE_ANON], 29, "a list is damaged");
	BAD(lv->size[LRU_ACTIVE_FILE], 1, "a list's size (L3)");
	BAD(f->lru.prev, &waiting->lru, "a list is damaged");
	BAD(f->flags, f->flags & ~FRAME_LRU, "a frame that can't be on a list");
	BAD(f->flags, f->flags | FRAME_ISOLATED, "a frame that can't be on a list");
	BAD(f->flags, f->flags | FRAME_SLAB, "a frame that can't be on a list");
	BAD(f->refcount, 0, "a frame that can't be on a list");
	BAD(f->flags, f->flags | FRAME_ACTIVE, "a folio on another list");
	BAD(f->flags, f->flags & ~FRAME_SWAPBACKED, "a folio on another list");
	BAD(waiting->flags, waiting->flags | FRAME_LRU, "a folio in a batch is also elsewhere");
	BAD(w->c->pc->lru[LRU_BATCH_ADD].folio[0], NULL, "a user page is not in one place");
	BAD(lv->isolated[0], 1, "nr_isolated_anon");
	BAD(w->c->pc->vmstat.v[VM_nr_isolated_file], 1, "nr_isolated_file");
	for (unsigned l = 0; l < NR_LRU_LISTS; l++)
		DAMAGE(w, lru_validate(w->q), w->c->pc->vmstat.v[VM_nr_inactive_anon + l], w->c->pc->vmstat.v[VM_nr_inactive_anon + l] + 1,
		       "lists of reclaim: nr_");
#undef BAD
	DAMAGE(w, quire_validate(w->q), lv->isolated[1], 1, "lists of reclaim: nr_isolated_file");
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(faults_fill_batches), cmocka_unit_test(another_cpus_batch), cmocka_unit_test(second_use_activates),
		cmocka_unit_test(deactivation), cmocka_unit_test(unmapping_tells_of_use), cmocka_unit_test(locked_in_memory),
		cmocka_unit_test(huge_and_locked), cmocka_unit_test(lazily_freed), cmocka_unit_test(isolation),
		cmocka_unit_test(batches_do_not_share), cmocka_unit_test(split_folios), cmocka_unit_test(damage_is_seen),
	};

	return test_run(tests);
}
