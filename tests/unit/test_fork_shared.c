/*
 * quire.fork_tables=shared: which tables are shared and which copied at once, what makes a table one's own, that it costs
 * exactly the tables that it must, what happens without memory, and that contents and results are those of a fork that copies.
 */
#include "paging_world.h"

#include "base/rng.h"
#include "machine/host/host.h"
#include "machine/run.h"
#include "mm/gup.h"
#include "mm/rmap.h"

#include <string.h>

#define TABLE(n) (AREA + (uint64_t)(n) * PMD_SIZE)

static struct world *world_shared(uint64_t bytes)
{
	struct world *w = world_new(2, bytes);

	w->q->knobs.fork_tables = FORK_TABLES_SHARED;
	return w;
}

struct tables {
	int64_t shared, unshared, taken, dropped;
};

static void assert_tables(struct world *w, struct tables t)
{
	assert_int_equal(count_of(w, VM_quire_fork_table_shared), t.shared);
	assert_int_equal(count_of(w, VM_quire_fork_table_unshared), t.unshared);
	assert_int_equal(count_of(w, VM_quire_fork_table_taken), t.taken);
	assert_int_equal(count_of(w, VM_quire_fork_table_dropped), t.dropped);
}

/* nr tables of an area, a few pages in each: their number plus `from`. */
static struct mm *mm_filled(struct world *w, unsigned nr, uint64_t from)
{
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, nr * PMD_SIZE, RW);
	for (unsigned i = 0; i < nr; i++)
		for (unsigned p = 0; p < 4; p++)
			store(w, TABLE(i) + PAGES(p * 100), from + i * 4 + p);
	return mm;
}

static struct mm *forked(struct world *w, struct mm *mm)
{
	struct mm *child = NULL;

	assert_ok(mm_fork(w->c, mm, &child));
	return child;
}

static void store_in(struct world *w, struct mm *mm, vaddr_t va, uint64_t value)
{
	mm_activate(w->c, mm);
	store(w, va, value);
}

static uint64_t load_in(struct world *w, struct mm *mm, vaddr_t va)
{
	mm_activate(w->c, mm);
	return load(w, va);
}

static void exact_counts(void **state)
{
	struct world *w = world_shared(128 * MIB);
	struct mm *mm = mm_filled(w, 4, 1), *child;
	const struct null_counts *n = null_counts(w->m);
	int64_t tables = count_of(w, VM_nr_page_table_pages);

	(void)state;
	null_counts_reset(w->m);
	child = forked(w, mm);
	assert_tables(w, (struct tables){ .shared = 4 });
	assert_int_equal(n->path[PATH_FORK_PTE].units + n->path[PATH_FORK_UNSHARE].units, 0);
	assert_int_equal(n->full_flushes, 1);
	assert_int_equal(count_of(w, VM_nr_page_table_pages), tables + 3); /* the child's upper levels */
	assert_int_equal(child->pgtables_bytes, mm->pgtables_bytes);
	assert_int_equal(mm_rss(child, RSS_ANON), 16);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 16);
	assert_false(info(mm, AREA).writable || info(mm, AREA).exclusive || info(child, AREA).writable || info(child, AREA).exclusive);
	world_check(w);
	/* Reading costs nothing. */
	assert_int_equal(load_in(w, child, TABLE(3) + PAGES(300)), 16);
	assert_int_equal(count_of(w, VM_pgfault), 16);
	/* The child writes: a table and a page. The parent then is alone with the old table, but not with its pages. */
	store_in(w, child, AREA, 100);
	assert_tables(w, (struct tables){ .shared = 4, .unshared = 1 });
	assert_int_equal(n->path[PATH_FORK_UNSHARE].units, 4);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 1);
	store_in(w, mm, AREA, 200);
	store_in(w, mm, AREA + PAGES(100), 201);
	assert_tables(w, (struct tables){ .shared = 4, .unshared = 1, .taken = 1 });
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 1);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 2);
	assert_int_equal(load_in(w, child, AREA + PAGES(100)), 2);
	world_check(w);
	/* It goes: three tables are let go of. What nobody copied the parent has as before the fork. */
	mm_put(w->c, child);
	assert_tables(w, (struct tables){ .shared = 4, .unshared = 1, .taken = 1, .dropped = 3 });
	assert_int_equal(count_of(w, VM_nr_page_table_pages), tables);
	world_check(w);
	for (unsigned p = 0; p < 4; p++)
		store_in(w, mm, TABLE(1) + PAGES(p * 100), 7);
	assert_tables(w, (struct tables){ .shared = 4, .unshared = 1, .taken = 2, .dropped = 3 });
	assert_int_equal(count_of(w, VM_quire_pages_copied), 2);
	assert_int_equal(count_of(w, VM_quire_fault_spurious), 1); /* the table alone; its pages are writable */
	world_check(w);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

static void grandchildren(void **state)
{
	struct world *w = world_shared(128 * MIB);
	struct mm *mm[5] = { mm_filled(w, 2, 1) };

	(void)state;
	for (unsigned i = 1; i < 5; i++)
		mm[i] = forked(w, mm[i - 1]);
	assert_tables(w, (struct tables){ .shared = 8 });
	assert_int_equal(frame_mapcount(frame_of(w->m, info(mm[2], AREA).pfn)), 1); /* one entry of one table */
	world_check(w);
	store_in(w, mm[2], AREA, 100);
	mm_put(w->c, mm[1]);
	world_check(w);
	mm[1] = forked(w, mm[2]); /* a table of its own, and one that others share */
	assert_tables(w, (struct tables){ .shared = 10, .unshared = 1, .dropped = 2 });
	world_check(w);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(load_in(w, mm[i], AREA), i == 2 || i == 1 ? 100 : 1);
	for (unsigned i = 0; i < 5; i++)
		store_in(w, mm[i], TABLE(1), 1000 + i);
	assert_tables(w, (struct tables){ .shared = 10, .unshared = 5, .taken = 1, .dropped = 2 });
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(load_in(w, mm[i], TABLE(1)), 1000 + i);
		assert_int_equal(load_in(w, mm[i], TABLE(1) + PAGES(100)), 6);
	}
	world_check(w);
	for (unsigned i = 0; i < 5; i++) {
		mm_put(w->c, mm[i]);
		world_check(w);
	}
	world_end(w);
}

/* What fork must copy or leave out keeps its whole table from being shared; an area without entries does not. */
static void what_is_copied_at_once(void **state)
{
	struct world *w = world_shared(256 * MIB);
	struct mm *mm = mm_filled(w, 8, 1), *child;
	struct mfile *f;
	pfn_t pin[2];

	(void)state;
	assert_ok(mm_mlock(w->c, mm, TABLE(0) + PAGES(100), PAGES(1), false));
	assert_ok(mm_madvise(w->c, mm, TABLE(1) + PAGES(100), PAGES(1), UAPI_MADV_DONTFORK));
	assert_ok(mm_madvise(w->c, mm, TABLE(2) + PAGES(100), PAGES(1), UAPI_MADV_WIPEONFORK));
	assert_ok(mm_pin(w->c, mm, TABLE(3) + PAGES(100), 1, true, &pin[0]));
	assert_int_equal(mm_mmap(w->c, mm, TABLE(4) + PAGES(100), PAGES(1), RW,
				 UAPI_MAP_SHARED | UAPI_MAP_FIXED | UAPI_MAP_ANONYMOUS, NULL, 0),
			 TABLE(4) + PAGES(100));
	store_in(w, mm, TABLE(4) + PAGES(100), 5);
	/* These are no obstacles: no entries, a pin that has ended, a file's pages and zero pages. */
	assert_ok(mm_madvise(w->c, mm, TABLE(5) + PAGES(10), PAGES(1), UAPI_MADV_DONTFORK));
	assert_ok(mm_mlock(w->c, mm, TABLE(5) + PAGES(20), PAGES(1), true));
	assert_ok(mm_pin(w->c, mm, TABLE(6), 1, false, &pin[1]));
	mm_unpin(w->c, &pin[1], 1);
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	assert_int_equal(mm_mmap(w->c, mm, TABLE(7) + PAGES(8), PAGES(8), RW, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, 0), TABLE(7) + PAGES(8));
	store_in(w, mm, TABLE(7) + PAGES(8), 5);
	(void)load_in(w, mm, TABLE(7) + PAGES(9));
	(void)load_in(w, mm, TABLE(7) + PAGES(50));
	world_check(w);
	child = forked(w, mm);
	assert_tables(w, (struct tables){ .shared = 3 });
	assert_int_equal(mm->shared_tables, 3);
	assert_int_equal(mm_rss(child, RSS_FILE), mm_rss(mm, RSS_FILE));
	assert_int_equal(mm_rss(child, RSS_ANON), mm_rss(mm, RSS_ANON) - 2); /* DONTFORK's and WIPEONFORK's */
	assert_int_not_equal(info(child, TABLE(3) + PAGES(100)).pfn.v, pin[0].v);
	assert_int_equal(load_in(w, child, TABLE(3) + PAGES(100)), 14);
	assert_int_equal(load_in(w, child, TABLE(4) + PAGES(100)), 5);
	world_check(w);
	/* The pin is over: the next fork shares that table. */
	mm_unpin(w->c, &pin[0], 1);
	mm_put(w->c, child);
	child = forked(w, mm);
	assert_tables(w, (struct tables){ .shared = 7, .dropped = 3 });
	world_check(w);
	mm_put(w->c, mm);
	assert_int_equal(load_in(w, child, TABLE(7) + PAGES(9)), file_tag(f, 1));
	mm_put(w->c, child);
	file_put(w->c, f);
	world_end(w);
}

/* ---- everything that changes a table, and some that don't ---- */

enum op {
	READ, READ_EMPTY, WRITE, UNMAP_PART, UNMAP_WHOLE, UNMAP_EMPTY, PROTECT, DISCARD_PART, DISCARD_WHOLE, LAZYFREE, LOCK, PIN_READ, PIN_WRITE,
	POPULATE_R, POPULATE_W, MOVE_PART, MOVE_WHOLE, MOVE_ASKEW, INCORE, MAP_OVER, REPLACE_WHOLE, NR_OPS
};

struct op_case {
	const char *name;
	struct tables counts; /* of one table that two share */
};

static const struct op_case op_cases[NR_OPS] = {
	[READ] = { "read", { .shared = 1 } },
	[READ_EMPTY] = { "read of an empty entry", { .shared = 1, .unshared = 1 } },
	[WRITE] = { "write", { .shared = 1, .unshared = 1 } },
	[UNMAP_PART] = { "munmap of a part", { .shared = 1, .unshared = 1 } },
	[UNMAP_WHOLE] = { "munmap of all", { .shared = 1, .dropped = 1 } },
	[UNMAP_EMPTY] = { "munmap where nothing is", { .shared = 1 } },
	[PROTECT] = { "mprotect", { .shared = 1, .unshared = 1 } },
	[DISCARD_PART] = { "MADV_DONTNEED of a part", { .shared = 1, .unshared = 1 } },
	[DISCARD_WHOLE] = { "MADV_DONTNEED of all", { .shared = 1, .dropped = 1 } },
	[LAZYFREE] = { "MADV_FREE", { .shared = 1, .unshared = 1 } },
	[LOCK] = { "mlock", { .shared = 1, .unshared = 1 } },
	[PIN_READ] = { "pin for reading", { .shared = 1, .unshared = 1 } },
	[PIN_WRITE] = { "pin for writing", { .shared = 1, .unshared = 1 } },
	[POPULATE_R] = { "populate for reading", { .shared = 1 } },
	[POPULATE_W] = { "populate for writing", { .shared = 1, .unshared = 1 } },
	[MOVE_PART] = { "mremap of a part", { .shared = 1, .unshared = 1 } },
	[MOVE_WHOLE] = { "mremap of a whole table", { .shared = 1 } },
	[MOVE_ASKEW] = { "mremap to another place in tables", { .shared = 1, .unshared = 1 } },
	[INCORE] = { "mincore", { .shared = 1 } },
	[MAP_OVER] = { "mmap over a part", { .shared = 1, .unshared = 1 } },
	[REPLACE_WHOLE] = { "mmap over all", { .shared = 1, .dropped = 1 } },
};

static int move_to(struct world *w, struct mm *mm, vaddr_t from, uint64_t len, vaddr_t to)
{
	int64_t r = mm_mremap(w->c, mm, from, len, len, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, to);

	return r < 0 ? (int)r : 0;
}

static int map_over(struct world *w, struct mm *mm, vaddr_t va, uint64_t len)
{
	int64_t r = mm_mmap(w->c, mm, va, len, RW, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0);

	return r < 0 ? (int)r : 0;
}

static int pin_once(struct world *w, struct mm *mm, bool write)
{
	pfn_t f;
	int rc = mm_pin(w->c, mm, AREA, 1, write, &f);

	if (!rc)
		mm_unpin(w->c, &f, 1);
	return rc;
}

/* On the table at AREA, whose pages 0, 100, 200, 300 are there. mm is loaded. */
static int do_op(struct world *w, struct mm *mm, enum op op)
{
	uint8_t vec[512];
	uint64_t v;

	switch (op) {
	case READ:
		return try_load(w, AREA, &v);
	case READ_EMPTY:
		return try_load(w, AREA + PAGES(1), &v);
	case WRITE:
		return try_store(w, AREA, 99);
	case UNMAP_PART:
		return (int)mm_munmap(w->c, mm, AREA, PAGES(1));
	case UNMAP_WHOLE:
		return (int)mm_munmap(w->c, mm, AREA, PMD_SIZE);
	case UNMAP_EMPTY:
		return (int)mm_munmap(w->c, mm, AREA + PAGES(1), PAGES(10));
	case PROTECT:
		return (int)mm_mprotect(w->c, mm, AREA, PAGES(1), UAPI_PROT_READ);
	case DISCARD_PART:
		return (int)mm_madvise(w->c, mm, AREA, PAGES(1), UAPI_MADV_DONTNEED);
	case DISCARD_WHOLE:
		return (int)mm_madvise(w->c, mm, AREA, PMD_SIZE, UAPI_MADV_DONTNEED);
	case LAZYFREE:
		return (int)mm_madvise(w->c, mm, AREA, PMD_SIZE, UAPI_MADV_FREE);
	case LOCK:
		return (int)mm_mlock(w->c, mm, AREA, PAGES(1), true);
	case PIN_READ:
	case PIN_WRITE:
		return pin_once(w, mm, op == PIN_WRITE);
	case POPULATE_R:
	case POPULATE_W:
		return mm_populate(w->c, mm, AREA, AREA + PAGES(1), op == POPULATE_W);
	case MOVE_PART:
		return move_to(w, mm, AREA, PAGES(101), TABLE(8) + PAGES(50));
	case MOVE_WHOLE:
		return move_to(w, mm, AREA, PMD_SIZE, TABLE(8));
	case MOVE_ASKEW:
		return move_to(w, mm, AREA, PMD_SIZE, TABLE(8) + PAGES(50));
	case INCORE:
		return (int)mm_mincore(w->c, mm, AREA, PMD_SIZE, vec);
	case MAP_OVER:
		return map_over(w, mm, AREA, PAGES(1));
	case REPLACE_WHOLE:
		return map_over(w, mm, AREA, PMD_SIZE);
	default:
		fail();
		return 0;
	}
}

static void assert_intact(struct world *w, struct mm *mm)
{
	for (unsigned p = 0; p < 4; p++)
		assert_int_equal(load_in(w, mm, AREA + PAGES(p * 100)), p + 1);
}

/* By either side, and where there is no other any more. */
static void each_operation(void **state)
{
	(void)state;
	for (unsigned op = 0; op < NR_OPS; op++) {
		for (unsigned side = 0; side < 3; side++) {
			struct world *w = world_shared(128 * MIB);
			struct mm *mm[2] = { mm_filled(w, 1, 1) }, *own, *other;
			struct tables t = op_cases[op].counts;

			mm[1] = forked(w, mm[0]);
			own = mm[side % 2];
			other = mm[1 - side % 2];
			if (side == 2) {
				mm_put(w->c, other);
				t.taken = t.unshared;
				t.unshared = 0;
				t.dropped++;
			}
			mm_activate(w->c, own);
			if (do_op(w, own, (enum op)op))
				fail_msg("%s failed", op_cases[op].name);
			assert_tables(w, t);
			world_check(w);
			if (side < 2) {
				assert_intact(w, other);
				store_in(w, other, AREA, 1);
				assert_intact(w, other);
				mm_put(w->c, other);
			}
			world_check(w);
			if (op == MOVE_WHOLE) {
				store_in(w, own, TABLE(8), 5);
				assert_int_equal(load_in(w, own, TABLE(8) + PAGES(300)), 4);
			}
			mm_put(w->c, own);
			world_end(w);
		}
	}
}

/* Out of memory wherever a table is copied: an error, and nothing has changed; then it works. */
static void without_memory(void **state)
{
	(void)state;
	for (unsigned op = 0; op < NR_OPS; op++) {
		bool failed = true;

		for (uint64_t n = 1; failed; n++) {
			struct world *w = world_shared(128 * MIB);
			struct mm *mm = mm_filled(w, 1, 1), *child = forked(w, mm);
			struct inject *in;

			assert_true(n < 50);
			assert_ok(inject_attach(w->m, 1, &in));
			assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, n));
			mm_activate(w->c, child);
			int rc = do_op(w, child, (enum op)op);

			failed = inject_failures(in, INJECT_FRAME_ALLOC) != 0;
			inject_detach(in);
			if (!failed)
				assert_ok(rc);
			else if (rc) /* a gather does without */
				assert_true(rc == -ENOMEM || rc == -EAGAIN);
			if (failed && n == 1 && op_cases[op].counts.unshared) {
				assert_int_not_equal(rc, 0);
				assert_tables(w, (struct tables){ .shared = 1 });
				assert_int_equal(count_of(w, VM_quire_fault_oom),
						 op == READ_EMPTY || op == WRITE || op == PIN_READ || op == PIN_WRITE || op == POPULATE_W);
			}
			world_check(w);
			if (rc)
				assert_intact(w, child);
			assert_intact(w, mm);
			mm_activate(w->c, child);
			if (rc)
				assert_ok(do_op(w, child, (enum op)op));
			world_check(w);
			mm_put(w->c, mm);
			mm_put(w->c, child);
			world_end(w);
		}
	}
}

static void failed_fork_is_undone(void **state)
{
	bool failed = true;

	(void)state;
	for (uint64_t n = 1; failed; n++) {
		struct world *w = world_shared(128 * MIB);
		struct mm *mm = mm_filled(w, 2, 1), *child = NULL;
		struct inject *in;

		for (unsigned i = 1; i < 4; i++) {
			map_at(w, mm, AREA + ((uint64_t)i << 30), PMD_SIZE, RW);
			store(w, AREA + ((uint64_t)i << 30), i);
		}
		uint64_t before = world_free(w);

		assert_true(n < 50);
		assert_ok(inject_attach(w->m, 1, &in));
		assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, n));
		int rc = mm_fork(w->c, mm, &child);

		failed = inject_failures(in, INJECT_FRAME_ALLOC) != 0;
		inject_detach(in);
		assert_int_equal(rc, failed ? -ENOMEM : 0);
		world_check(w);
		if (failed)
			assert_int_equal(world_free(w), before);
		else
			mm_put(w->c, child);
		assert_int_equal(count_of(w, VM_quire_fork_table_dropped), count_of(w, VM_quire_fork_table_shared));
		assert_intact(w, mm);
		for (unsigned i = 0; i < 4; i++)
			store_in(w, mm, AREA + ((uint64_t)i << 30), 9); /* alone again: no copy */
		assert_int_equal(count_of(w, VM_quire_pages_copied) + count_of(w, VM_quire_fork_table_unshared), 0);
		world_check(w);
		mm_put(w->c, mm);
		world_end(w);
	}
}

/* ---- the same as a fork that copies ---- */

enum { SPACES = 6, NR_PAGES = 1536, STEPS = 600, PINS = 4 };

/* What a script did: results, and what is where after each step; folded into one number a step. */
struct tree {
	struct world *w;
	struct rng r;
	struct mm *mm[SPACES];
	struct mfile *file;
	pfn_t pin[PINS];
	bool pinned[PINS];
	uint64_t log[STEPS], next;
};

static uint64_t fold(uint64_t h, uint64_t v)
{
	return (h ^ v) * 0x100000001b3ULL + (h >> 29);
}

static uint64_t look(struct tree *t)
{
	static uint8_t vec[NR_PAGES];
	uint64_t h = 1;

	for (unsigned k = 0; k < SPACES; k++) {
		if (!t->mm[k])
			continue;
		for (unsigned i = 0; i < NR_RSS; i++)
			h = fold(h, (uint64_t)mm_rss(t->mm[k], (enum rss_kind)i));
		h = fold(h, (uint64_t)mm_rss_peak(t->mm[k]));
		memset(vec, 0, sizeof(vec));
		h = fold(h, (uint64_t)mm_mincore(t->w->c, t->mm[k], AREA, PAGES(NR_PAGES), vec));
		for (unsigned p = 0; p < NR_PAGES; p++) {
			struct mm_page_info at = info(t->mm[k], AREA + PAGES(p));

			h = fold(h, vec[p] | (uint64_t)at.present << 1 | (uint64_t)at.anon << 2 | (uint64_t)at.zero_page << 3 |
					    (at.present ? at.tag << 4 : 0));
		}
	}
	return h;
}

static int64_t step_tree(struct tree *t, struct mm *mm)
{
	struct cpu *c = t->w->c;
	bool whole = rng_below(&t->r, 4) == 0;
	uint64_t first = whole ? rng_below(&t->r, 3) * 512 : rng_below(&t->r, NR_PAGES - 64), n = whole ? 512 : 1 + rng_below(&t->r, 60);
	uint64_t kind = rng_below(&t->r, 16), k = rng_below(&t->r, SPACES), i = rng_below(&t->r, PINS), v = 0, to;
	vaddr_t va = AREA + PAGES(first);
	int64_t rc = 0;

	switch (kind) {
	case 0:
		return mm_munmap(c, mm, va, PAGES(n));
	case 1:
		return mm_mmap(c, mm, va, PAGES(n), RW, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED | (k < 3 ? UAPI_MAP_ANONYMOUS : 0),
			       k < 3 ? NULL : t->file, 0);
	case 2:
		return mm_mprotect(c, mm, va, PAGES(n), k < 2 ? UAPI_PROT_READ : RW);
	case 3:
		return mm_madvise(c, mm, va, PAGES(n), k < 3 ? UAPI_MADV_DONTNEED : k < 5 ? UAPI_MADV_FREE : UAPI_MADV_DONTFORK);
	case 4:
		to = whole ? rng_below(&t->r, 3) * 512 : rng_below(&t->r, NR_PAGES - 64);
		return mm_mremap(c, mm, va, PAGES(n), PAGES(n), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + PAGES(to));
	case 5:
		return k < 3 ? mm_mlock(c, mm, va, PAGES(n), k == 0) : mm_munlock(c, mm, va, PAGES(n));
	case 6:
		if (t->pinned[i])
			mm_unpin(c, &t->pin[i], 1);
		t->pinned[i] = !t->pinned[i] && !(rc = mm_pin(c, mm, va, 1, k < 3, &t->pin[i]));
		return rc;
	case 7:
	case 8:
		if (!t->mm[k])
			return mm_fork(c, mm, &t->mm[k]);
		if (t->mm[k] != mm && kind == 7) {
			mm_put(c, t->mm[k]);
			t->mm[k] = NULL;
		}
		return 0;
	default:
		for (unsigned j = 0; j < 8; j++) {
			va = AREA + PAGES(rng_below(&t->r, NR_PAGES));
			rc += rng_below(&t->r, 3) ? try_store(t->w, va, ++t->next) : try_load(t->w, va, &v);
			rc += (int64_t)v;
		}
		return rc;
	}
}

/* These do not depend on whose tables the entries lie in. */
static const enum vm_counter same_counters[] = { VM_quire_fork,	     VM_quire_pages_copied,   VM_quire_fault_cow_4k, VM_quire_fault_anon_4k,
						 VM_quire_fault_zero_4k, VM_quire_fault_file, VM_quire_fault_sigsegv, VM_nr_anon_pages,
						 VM_nr_mapped,	     VM_nr_mlock };

static void play_tree(uint64_t seed, uint32_t tables, struct tree *t, int64_t *counts)
{
	*t = (struct tree){ .w = world_new(1, 256 * MIB) };
	t->w->q->knobs.fork_tables = tables;
	rng_init(&t->r, seed, "tree");
	assert_ok(file_create(t->w->c, t->w->q, 0, PAGES(512), false, &t->file));
	t->mm[0] = mm_new(t->w);
	map_at(t->w, t->mm[0], AREA, PAGES(NR_PAGES), RW);
	for (unsigned s = 0; s < STEPS; s++) {
		struct mm *mm;

		do {
			mm = t->mm[rng_below(&t->r, SPACES)];
		} while (!mm);
		mm_activate(t->w->c, mm);
		t->log[s] = fold((uint64_t)step_tree(t, mm), look(t));
		world_check(t->w);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(same_counters); i++)
		counts[i] = count_of(t->w, same_counters[i]);
	if (tables == FORK_TABLES_SHARED)
		assert_true(count_of(t->w, VM_quire_fork_table_unshared) > 5 && count_of(t->w, VM_quire_fork_table_taken) > 0 &&
			    count_of(t->w, VM_quire_fork_table_dropped) > 0);
	for (unsigned k = 0; k < SPACES; k++)
		if (t->mm[k])
			mm_put(t->w->c, t->mm[k]);
	for (unsigned i = 0; i < PINS; i++)
		if (t->pinned[i])
			mm_unpin(t->w->c, &t->pin[i], 1);
	file_put(t->w->c, t->file);
	check_fault_sum(t->w);
	world_end(t->w);
}

static void same_as_copied(void **state)
{
	static struct tree copied, shared;
	int64_t counts[2][ARRAY_SIZE(same_counters)];

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		play_tree(seed, FORK_TABLES_COPIED, &copied, counts[0]);
		play_tree(seed, FORK_TABLES_SHARED, &shared, counts[1]);
		for (unsigned s = 0; s < STEPS; s++)
			if (copied.log[s] != shared.log[s])
				fail_msg("seed %lu: step %u ends differently", (unsigned long)seed, s);
		for (unsigned i = 0; i < ARRAY_SIZE(same_counters); i++)
			if (counts[0][i] != counts[1][i])
				fail_msg("seed %lu: %s: %ld with copied tables, %ld with shared ones", (unsigned long)seed,
					 vm_counter_names[same_counters[i]], (long)counts[0][i], (long)counts[1][i]);
	}
}

/* ---- at the same time ---- */

enum { RACERS = 4, RACE_TABLES = 12, ROUNDS = 25 };

struct racer {
	struct task t;
	struct mm *mm;
	unsigned id, *ready;
	uint64_t wrong;
	bool leaves; /* goes without having written */
};

/* Each in an address space of its own, over the tables in the same order: whoever comes last to a table keeps it. */
static void race(struct cpu *c, struct task *task)
{
	struct racer *r = task->arg;

	__atomic_add_fetch(r->ready, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(r->ready, __ATOMIC_SEQ_CST) < RACERS) /* each has a CPU; in accesses, so that flushes get through */
		(void)host_store(c, AREA - PAGES(16), 8, 1);
	for (unsigned i = 0; i < RACE_TABLES && !r->leaves; i++) {
		uint64_t v;

		r->wrong += host_store(c, TABLE(i) + PAGES(r->id), 8, 100 + r->id) != 0;
		for (unsigned p = 0; p < 8; p++)
			r->wrong += host_load(c, TABLE(i) + PAGES(p), 8, &v) || v != (p == r->id ? 100 + r->id : i * 8 + p);
	}
	mm_activate(c, NULL);
	if (r->leaves)
		mm_put(c, r->mm);
}

static void race_round(struct world *w, bool leave)
{
	struct racer r[RACERS] = { 0 };
	struct tables before = { .unshared = count_of(w, VM_quire_fork_table_unshared), .taken = count_of(w, VM_quire_fork_table_taken),
				 .dropped = count_of(w, VM_quire_fork_table_dropped) }, t;
	struct mm *mm = mm_new(w);
	unsigned ready = 0;
	char err[200] = "";

	map_at(w, mm, AREA, RACE_TABLES * PMD_SIZE, RW);
	map_at(w, mm, AREA - PMD_SIZE, PMD_SIZE, RW);
	for (unsigned i = 0; i < RACE_TABLES * 8; i++)
		assert_ok(host_store(w->c, TABLE(i / 8) + PAGES(i % 8), 8, i));
	for (unsigned k = 0; k < RACERS; k++) {
		r[k] = (struct racer){ .mm = k ? forked(w, mm) : mm, .id = k, .ready = &ready, .leaves = leave && k == 1 };
		r[k].t = (struct task){ .fn = race, .arg = &r[k], .mm = r[k].mm, .name = "racer" };
	}
	mm_activate(w->c, NULL);
	for (unsigned k = 0; k < RACERS; k++)
		assert_ok(machine_task_start(w->m, &r[k].t));
	assert_ok(machine_run(w->m, err, sizeof(err)));
	for (unsigned k = 0; k < RACERS; k++)
		assert_int_equal(r[k].wrong, 0);
	world_check(w);
	t = (struct tables){ .unshared = count_of(w, VM_quire_fork_table_unshared) - before.unshared,
			     .taken = count_of(w, VM_quire_fork_table_taken) - before.taken,
			     .dropped = count_of(w, VM_quire_fork_table_dropped) - before.dropped };
	/* A table's four sharers: three copy it, or two and one lets go, and the last takes it or copies before that. */
	assert_int_equal(t.unshared + t.taken + t.dropped, RACERS * RACE_TABLES);
	assert_int_equal(t.dropped, leave ? RACE_TABLES : 0);
	if (!leave)
		assert_int_equal(t.taken, RACE_TABLES);
	for (unsigned k = 0; k < RACERS; k++)
		if (!r[k].leaves)
			mm_put(w->c, r[k].mm);
	world_check(w);
}

static void at_the_same_time(void **state)
{
	struct host_options o = { .memory = 256 * MIB, .nr_cpus = 6 };
	struct machine *m;
	char err[200] = "";

	(void)state;
	assert_ok(host_create(&o, &m, err, sizeof(err)));
	struct world *w = world_on(m);

	w->q->knobs.fork_tables = FORK_TABLES_SHARED;
	for (unsigned i = 0; i < ROUNDS; i++)
		race_round(w, i % 2);
	world_check(w);
	assert_ok(quire_shutdown(w->q));
	free(w);
	host_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exact_counts),
		cmocka_unit_test(grandchildren),
		cmocka_unit_test(what_is_copied_at_once),
		cmocka_unit_test(each_operation),
		cmocka_unit_test(without_memory),
		cmocka_unit_test(failed_fork_is_undone),
		cmocka_unit_test(same_as_copied),
		cmocka_unit_test(at_the_same_time),
	};

	return test_run(tests);
}
