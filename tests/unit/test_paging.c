/* Base pages: faults of every kind, unmapping, rights, moves, locking, files, kernel copies, running out of memory. */
#include "paging_world.h"

static struct hist latency(struct world *w, enum fault_kind k)
{
	struct hist h;

	quire_fault_ns(w->q, k, &h);
	return h;
}

static void first_touch(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	assert_int_equal(load(w, AREA), 0);
	assert_true(info(mm, AREA).zero_page);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(count_of(w, VM_quire_fault_zero_4k), 1);
	store(w, AREA, 42);
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 0);
	store(w, AREA + PAGE_SIZE, 43);
	assert_int_equal(count_of(w, VM_quire_fault_anon_4k), 1);
	assert_int_equal(load(w, AREA), 42);
	assert_int_equal(load(w, AREA + PAGE_SIZE), 43);
	struct mm_page_info i = info(mm, AREA + PAGE_SIZE);

	assert_true(i.present && i.writable && i.dirty && i.accessed && i.anon && i.exclusive && !i.huge &&
		    !i.zero_page);
	assert_int_equal(i.tag, 43);
	assert_int_equal(mm_rss(mm, RSS_ANON), 2);
	assert_int_equal(count_of(w, VM_nr_anon_pages), 2);
	world_check(w);
	assert_int_equal(mm_munmap(w->c, mm, AREA, PAGES(8)), 0);
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(mm_rss_peak(mm), 2);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

static void charges_name_their_path(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	const struct null_counts *n = null_counts(w->m);

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	null_counts_reset(w->m);
	store(w, AREA + PAGE_SIZE, 2);
	assert_int_equal(n->path[PATH_FAULT].units, 1);
	assert_int_equal(n->path[PATH_FAULT_ANON].units, 1);
	assert_int_equal(n->path[PATH_MAP_ANON].units, 1);
	assert_int_equal(n->path[PATH_WALK].units, 1);
	assert_int_equal(n->path[PATH_WALK].lines[TOUCH_READ], 2); /* PGD and PUD entries */
	assert_int_equal(n->path[PATH_CLEAR_PAGE].clears, 1);
	assert_true(n->path[PATH_FAULT].lines[TOUCH_READ] >= 2); /* PMD entry and PTE */
	assert_int_equal(n->path[PATH_MAP_ANON].lines[TOUCH_WRITE], 2); /* the entry, and a place in a batch for the lists of reclaim */
	null_counts_reset(w->m);
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	assert_int_equal(n->path[PATH_ZAP].units, 2);
	assert_int_equal(n->path[PATH_FREE_TABLES].units, 4); /* the call, and a table of each level */
	mm_put(w->c, mm);
	world_end(w);
}

static void latency_is_kept_by_kind(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	w->c->fault_start_ps = 0;
	null_advance_ns(w->m, 700);
	assert_ok(mm_fault(w->c, AREA, ACCESS_USER | ACCESS_WRITE));
	assert_int_equal(latency(w, FK_ANON_4K).count, 1);
	assert_int_equal(latency(w, FK_ANON_4K).sum, 700);
	(void)load(w, AREA + PAGE_SIZE);
	assert_int_equal(latency(w, FK_ZERO).count, 1);
	store(w, AREA + PAGE_SIZE, 1);
	assert_int_equal(latency(w, FK_COW_4K).count, 1);
	mm_put(w->c, mm);
	world_end(w);
}

static void rights(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t v;

	(void)state;
	map_at(w, mm, AREA, PAGES(2), UAPI_PROT_READ);
	map_at(w, mm, AREA + PAGES(2), PAGES(2), 0);
	map_at(w, mm, AREA + PAGES(4), PAGES(1), UAPI_PROT_WRITE);
	assert_int_equal(try_store(w, AREA, 1), -EFAULT);
	assert_int_equal(load(w, AREA), 0);
	assert_int_equal(try_store(w, AREA, 1), -EFAULT);
	assert_int_equal(try_load(w, AREA + PAGES(2), &v), -EFAULT);
	assert_int_equal(try_load(w, AREA + PAGES(9), &v), -EFAULT);
	assert_int_equal(try_load(w, TASK_SIZE, &v), -EFAULT);
	assert_int_equal(load(w, AREA + PAGES(4)), 0); /* what may be written may be read */
	assert_int_equal(machine_access(w->c, AREA, 1, ACCESS_USER | ACCESS_EXEC), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigsegv), 6);
	world_check(w);
	mm_put(w->c, mm);
	/* No address space at all. */
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	check_fault_sum(w);
	world_end(w);
}

static void spurious(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(2), RW);
	store(w, AREA, 7);
	assert_ok(mm_fault(w->c, AREA, ACCESS_USER | ACCESS_WRITE | ACCESS_PRESENT));
	assert_ok(mm_fault(w->c, AREA, ACCESS_USER));
	assert_int_equal(count_of(w, VM_quire_fault_spurious), 2);
	assert_int_equal(load(w, AREA), 7);
	mm_put(w->c, mm);
	world_end(w);
}

static void mprotect_keeps_what_is_there(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t v;

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 5);
	(void)load(w, AREA + PAGES(1));
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(4), 0));
	world_check(w);
	assert_true(info(mm, AREA).present);
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	assert_int_equal(mm_rss(mm, RSS_ANON), 1);
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(4), UAPI_PROT_READ));
	world_check(w);
	int64_t faults = count_of(w, VM_pgfault);

	assert_int_equal(load(w, AREA), 5);
	assert_int_equal(load(w, AREA + PAGES(1)), 0);
	assert_int_equal(count_of(w, VM_pgfault), faults);
	assert_int_equal(try_store(w, AREA, 6), -EFAULT);
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(4), RW));
	world_check(w);
	/* Owned alone: writable at once. The zero page: copied when written. */
	assert_true(info(mm, AREA).writable);
	assert_false(info(mm, AREA + PAGES(1)).writable);
	store(w, AREA, 6);
	store(w, AREA + PAGES(1), 7);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 0);
	mm_put(w->c, mm);
	world_end(w);
}

static void mprotect_flushes_only_what_lost_rights(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	const struct null_counts *n = null_counts(w->m);

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 5);
	null_counts_reset(w->m);
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(4), UAPI_PROT_READ));
	assert_int_equal(n->local_flushes, 1);
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(4), RW));
	assert_int_equal(n->local_flushes, 1);
	mm_put(w->c, mm);
	world_end(w);
}

static void dontneed_and_free(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 5);
	store(w, AREA + PAGES(1), 6);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(1), UAPI_MADV_DONTNEED));
	assert_int_equal(load(w, AREA), 0);
	assert_int_equal(mm_rss(mm, RSS_ANON), 1);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE));
	assert_int_equal(count_of(w, VM_pglazyfree), 1);
	struct mm_page_info i = info(mm, AREA + PAGES(1));
	struct frame *f = frame_of(w->m, i.pfn);

	assert_true(i.present && !i.dirty && !i.accessed);
	assert_true(f->flags & FRAME_LAZYFREE);
	assert_int_equal(load(w, AREA + PAGES(1)), 6); /* nobody took it */
	store(w, AREA + PAGES(1), 7);
	assert_true(info(mm, AREA + PAGES(1)).dirty);
	assert_int_equal(load(w, AREA + PAGES(1)), 7);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE));
	assert_int_equal(count_of(w, VM_pglazyfree), 1);
	world_check(w);
	/* Write-protected and allowed again through the fault: it stays among what may be dropped, but dirty. */
	struct mm *child;

	assert_ok(mm_fork(w->c, mm, &child));
	mm_put(w->c, child);
	store(w, AREA + PAGES(1), 8);
	assert_true((f->flags & FRAME_LAZYFREE) && info(mm, AREA + PAGES(1)).dirty);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 1);
	mm_put(w->c, mm);
	world_end(w);
}

static void tables_are_freed_exactly(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	vaddr_t far_away = AREA + (600ULL << 30);

	(void)state;
	map_at(w, mm, AREA, MIB, RW);
	map_at(w, mm, AREA + MIB, PAGES(8), UAPI_PROT_READ);
	map_at(w, mm, far_away, PAGES(4), RW);
	store(w, AREA, 1);
	(void)load(w, AREA + MIB);
	store(w, far_away, 3);
	assert_int_equal(mm->pgtables_bytes, 7 * PAGE_SIZE);
	assert_ok(mm_munmap(w->c, mm, AREA, MIB)); /* the neighbour needs the tables */
	assert_int_equal(mm->pgtables_bytes, 7 * PAGE_SIZE);
	world_check(w);
	assert_ok(mm_munmap(w->c, mm, AREA + MIB, PAGES(8)));
	assert_int_equal(mm->pgtables_bytes, 4 * PAGE_SIZE);
	world_check(w);
	assert_ok(mm_munmap(w->c, mm, far_away, PAGES(4)));
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	assert_int_equal(count_of(w, VM_nr_page_table_pages), 1);
	/* The very top of the address space. */
	map_at(w, mm, TASK_SIZE - PAGES(2), PAGES(2), RW);
	store(w, TASK_SIZE - PAGES(1), 3);
	assert_ok(mm_munmap(w->c, mm, TASK_SIZE - PAGES(2), PAGES(2)));
	assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	mm_put(w->c, mm);
	world_end(w);
}

static void move_pages(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	vaddr_t to = AREA + 64 * MIB;

	(void)state;
	/* Unaligned to each other: entry by entry. Then aligned: the whole table goes. */
	for (unsigned round = 0; round < 2; round++) {
		vaddr_t at = to + (round ? 0 : PAGES(5));
		uint64_t faults;

		map_at(w, mm, AREA, 4 * MIB, RW);
		for (unsigned i = 0; i < 1024; i += 3)
			store(w, AREA + PAGES(i), i + 1);
		int64_t r = mm_mremap(w->c, mm, AREA, 4 * MIB, 4 * MIB, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, at);

		assert_int_equal(r, (int64_t)at);
		world_check(w);
		faults = (uint64_t)count_of(w, VM_pgfault);
		for (unsigned i = 0; i < 1024; i += 3)
			assert_int_equal(load(w, at + PAGES(i)), i + 1);
		assert_int_equal(count_of(w, VM_pgfault), (int64_t)faults);
		assert_false(info(mm, AREA).present);
		assert_int_equal(mm_rss(mm, RSS_ANON), 342);
		assert_ok(mm_munmap(w->c, mm, at, 4 * MIB));
		assert_int_equal(mm->pgtables_bytes, PAGE_SIZE);
	}
	mm_put(w->c, mm);
	world_end(w);
}

static void mlock_counts(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	assert_ok(mm_mlock(w->c, mm, AREA, PAGES(4), false));
	assert_int_equal(count_of(w, VM_nr_mlock), 4);
	world_check(w);
	/* The child's mappings are not locked; the parent's copy stays so. */
	assert_ok(mm_fork(w->c, mm, &child));
	store(w, AREA, 2);
	assert_int_equal(count_of(w, VM_nr_mlock), 4);
	world_check(w);
	mm_put(w->c, child);
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(1)));
	assert_int_equal(count_of(w, VM_nr_mlock), 3);
	assert_ok(mm_munlock(w->c, mm, AREA + PAGES(1), PAGES(1)));
	assert_int_equal(count_of(w, VM_nr_mlock), 2);
	world_check(w);
	mm_put(w->c, mm);
	assert_int_equal(count_of(w, VM_nr_mlock), 0);
	world_end(w);
}

/* ---- files ---- */

static struct mfile *file_new(struct world *w, uint64_t pages, bool shmem)
{
	struct mfile *f = NULL;

	assert_ok(file_create(w->c, w->q, 0, PAGES(pages), shmem, &f));
	return f;
}

static vaddr_t map_file_at(struct world *w, struct mm *mm, vaddr_t va, struct mfile *f, uint64_t pages, unsigned prot,
			   unsigned how)
{
	int64_t r = mm_mmap(w->c, mm, va, PAGES(pages), prot, how | UAPI_MAP_FIXED, f, 0);

	assert_int_equal(r, (int64_t)va);
	return va;
}

static void file_read_and_around(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f = file_new(w, 64, false);

	(void)state;
	map_file_at(w, mm, AREA, f, 64, UAPI_PROT_READ, UAPI_MAP_PRIVATE);
	assert_int_equal(load(w, AREA + PAGES(20)), file_tag(f, 20));
	assert_int_equal(count_of(w, VM_pgmajfault), 1);
	assert_int_equal(count_of(w, VM_quire_fault_file), 1);
	assert_int_equal(mm_rss(mm, RSS_FILE), 15); /* what was read beside it within 64 KiB, but for page 28, whose use reads on */
	world_check(w);
	assert_ok(file_rw(w->c, f, 0, PAGES(64), false));
	assert_int_equal(load(w, AREA + PAGES(33)), file_tag(f, 33));
	assert_int_equal(count_of(w, VM_pgmajfault), 1);
	assert_int_equal(mm_rss(mm, RSS_FILE), 31); /* 64 KiB around it */
	assert_true(info(mm, AREA + PAGES(32)).present);
	assert_true(info(mm, AREA + PAGES(47)).present);
	assert_false(info(mm, AREA + PAGES(48)).present);
	assert_false(info(mm, AREA + PAGES(28)).present);
	world_check(w);
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_int_equal(load(w, AREA + PAGES(50)), file_tag(f, 50));
	assert_int_equal(mm_rss(mm, RSS_FILE), 32);
	assert_int_equal(count_of(w, VM_nr_mapped), 32);
	mm_put(w->c, mm);
	file_put(w->c, f);
	check_fault_sum(w);
	world_end(w);
}

static void file_beyond_end(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f = file_new(w, 3, false);
	uint64_t v;

	(void)state;
	map_file_at(w, mm, AREA, f, 8, RW, UAPI_MAP_PRIVATE);
	assert_int_equal(load(w, AREA + PAGES(2)), file_tag(f, 2));
	assert_int_equal(try_load(w, AREA + PAGES(3), &v), -EFAULT);
	assert_int_equal(try_store(w, AREA + PAGES(4), 1), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 2);
	world_check(w);
	mm_put(w->c, mm);
	file_put(w->c, f);
	check_fault_sum(w);
	world_end(w);
}

static void file_private_write(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f = file_new(w, 16, false);

	(void)state;
	map_file_at(w, mm, AREA, f, 16, RW, UAPI_MAP_PRIVATE);
	store(w, AREA, 100); /* at once */
	assert_int_equal(load(w, AREA + PAGES(1)), file_tag(f, 1));
	assert_false(info(mm, AREA + PAGES(1)).writable);
	store(w, AREA + PAGES(1), 101); /* after having read it */
	assert_int_equal(count_of(w, VM_quire_fault_cow_4k), 2);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 2);
	assert_int_equal(mm_rss(mm, RSS_ANON), 2);
	world_check(w);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_DONTNEED));
	assert_int_equal(load(w, AREA), file_tag(f, 0)); /* the file never saw it */
	assert_int_equal(load(w, AREA + PAGES(1)), file_tag(f, 1));
	world_check(w);
	mm_put(w->c, mm);
	file_put(w->c, f);
	world_end(w);
}

static void file_shared_write(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct mfile *f = file_new(w, 16, false), *s = file_new(w, 16, true);

	(void)state;
	map_file_at(w, mm, AREA, f, 16, RW, UAPI_MAP_SHARED);
	map_file_at(w, mm, AREA + MIB, s, 16, RW, UAPI_MAP_SHARED);
	(void)load(w, AREA);
	assert_false(info(mm, AREA).writable); /* the file wants to know of the first write */
	store(w, AREA, 1);
	assert_int_equal(count_of(w, VM_quire_fault_reuse_4k), 1);
	store(w, AREA + PAGES(1), 2);
	assert_true(info(mm, AREA + PAGES(1)).writable && info(mm, AREA + PAGES(1)).dirty);
	assert_true(frame_of(w->m, info(mm, AREA).pfn)->flags & FRAME_DIRTY);
	assert_int_equal(load(w, AREA + MIB), 0);
	assert_true(info(mm, AREA + MIB).writable); /* memory doesn't */
	store(w, AREA + MIB, 3);
	assert_true(mm_rss(mm, RSS_SHMEM) >= 1);
	world_check(w);
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(16), UAPI_PROT_READ));
	assert_ok(mm_mprotect(w->c, mm, AREA, PAGES(16), RW));
	assert_true(info(mm, AREA).writable); /* dirty already */
	world_check(w);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(child->pgtables_bytes, PAGE_SIZE); /* it can find them by itself */
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), 1);
	assert_int_equal(load(w, AREA + MIB), 3);
	store(w, AREA + MIB, 4);
	mm_activate(w->c, mm);
	assert_int_equal(load(w, AREA + MIB), 4);
	world_check(w);
	mm_put(w->c, child);
	mm_put(w->c, mm);
	file_put(w->c, f);
	file_put(w->c, s);
	check_fault_sum(w);
	world_end(w);
}

/* ---- kernel copies ---- */

static void copy_user(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(16), RW);
	assert_ok(mm_copy_user(w->c, AREA + 1, PAGES(4), true)); /* five pages */
	assert_int_equal(mm_rss(mm, RSS_ANON), 5);
	assert_ok(mm_copy_user(w->c, AREA + PAGES(8), PAGES(2), false));
	assert_true(info(mm, AREA + PAGES(9)).zero_page);
	assert_ok(mm_copy_user(w->c, AREA + PAGES(12) + 63, 2, true));
	assert_ok(mm_copy_user(w->c, AREA, 0, true));
	assert_int_equal(mm_copy_user(w->c, AREA + PAGES(15), PAGES(2), true), -EFAULT);
	assert_true(info(mm, AREA + PAGES(15)).present);
	assert_int_equal(mm_copy_user(w->c, TASK_SIZE - 8, 16, false), -EFAULT);
	assert_int_equal(mm_copy_user(w->c, ~0ULL - 3, 16, false), -EFAULT);
	mm_put(w->c, mm);
	world_end(w);
}

/* ---- running out ---- */

static void out_of_memory(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t n = 0;
	int rc = 0;

	(void)state;
	map_at(w, mm, AREA, 256 * MIB, RW);
	for (; !rc && n < 65536; n++)
		rc = try_store(w, AREA + PAGES(n), n + 1);
	assert_int_equal(rc, -ENOMEM);
	assert_int_equal(count_of(w, VM_quire_fault_oom), 1);
	world_check(w);
	for (uint64_t i = 0; i < n - 1; i += 97)
		assert_int_equal(load(w, AREA + PAGES(i)), i + 1);
	/* Some memory back: it goes on. */
	assert_ok(mm_madvise(w->c, mm, AREA, 8 * MIB, UAPI_MADV_DONTNEED));
	store(w, AREA + PAGES(n), 5);
	mm_put(w->c, mm);
	check_fault_sum(w);
	world_end(w);
}

/* Everything that allocates, with the n-th allocation failing, for all n. */
static int alloc_scenario(struct world *w, struct mm *mm, struct mfile *f)
{
	vaddr_t a = AREA, b = AREA + (1ULL << 39);
	uint64_t v;
	struct mm *child;
	int rc;

	if ((rc = try_store(w, a, 1)) || (rc = try_load(w, a + PAGES(1), &v)) || (rc = try_store(w, a + PAGES(1), 2)) ||
	    (rc = try_store(w, b, 3)) || (rc = try_load(w, AREA + 64 * MIB, &v)) ||
	    (rc = try_store(w, AREA + 64 * MIB, 4)) || (rc = try_store(w, AREA + 64 * MIB + PAGES(2), 4)))
		return rc;
	(void)f;
	rc = mm_fork(w->c, mm, &child);
	if (rc)
		return rc;
	rc = try_store(w, a, 5);
	mm_put(w->c, child);
	int64_t r =
		mm_mremap(w->c, mm, b, PAGES(4), PAGES(4), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, b + (1ULL << 40));

	return rc ? rc : r < 0 ? (int)r : 0;
}

static void nth_allocation_fails(void **state)
{
	static const enum inject_site sites[] = { INJECT_FRAME_ALLOC, INJECT_SLAB_ALLOC, INJECT_CLEAR, INJECT_COPY };

	(void)state;
	for (unsigned s = 0; s < ARRAY_SIZE(sites); s++) {
		bool failed = true;

		for (uint64_t n = 1; failed && n < 200; n++) {
			struct world *w = world_new(1, 128 * MIB);
			struct mm *mm = mm_new(w);
			struct mfile *f = file_new(w, 16, false);
			struct inject *in;
			int rc;

			map_at(w, mm, AREA, PAGES(4), RW);
			map_at(w, mm, AREA + (1ULL << 39), PAGES(4), RW);
			map_file_at(w, mm, AREA + 64 * MIB, f, 16, RW, UAPI_MAP_PRIVATE);
			assert_ok(inject_attach(w->m, 1, &in));
			assert_ok(inject_set(in, sites[s], INJECT_NTH, n));
			rc = alloc_scenario(w, mm, f);
			failed = inject_failures(in, sites[s]) != 0;
			if (rc)
				assert_true(failed && (rc == -ENOMEM || (sites[s] == INJECT_COPY && rc == -EFAULT)));
			inject_detach(in);
			world_check(w);
			world_check(w);
			mm_put(w->c, mm);
			file_put(w->c, f);
			check_fault_sum(w);
			world_end(w);
		}
		assert_false(failed);
	}
}

/* Truncation leaves mappings to the caller; one who forgets them can still unmap. */
static void truncated_under_a_mapping(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f;
	uint64_t v;

	(void)state;
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), AREA);
	store(w, AREA, 1);
	file_set_size(w->c, f, 0);
	assert_int_equal(count_of(w, VM_nr_file_pages), 0);
	assert_int_equal(try_load(w, AREA + PAGES(4), &v), -EFAULT); /* SIGBUS */
	/* Populating fails a second time when it had come some way. */
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 1);
	assert_int_equal(mm_madvise(w->c, mm, AREA, PAGES(8), UAPI_MADV_POPULATE_READ), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 3); /* the first page is still mapped */
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(8), UAPI_MADV_DONTNEED));
	assert_int_equal(mm_madvise(w->c, mm, AREA, PAGES(8), UAPI_MADV_POPULATE_READ), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 4);
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	assert_int_equal(mm_rss(mm, RSS_FILE), 0);
	assert_int_equal(count_of(w, VM_nr_mapped), 0);
	mm_put(w->c, mm);
	file_put(w->c, f);
	world_end(w);
}

/* Where the page of zeroes is forbidden a read takes memory: dirty and writable at once where it may be written, else clean. */
static void no_zero_page(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.zero_page = false;
	map_at(w, mm, AREA, PAGES(2), RW);
	map_at(w, mm, AREA + PAGES(4), PAGES(2), UAPI_PROT_READ);
	assert_int_equal(load(w, AREA), 0);
	assert_int_equal(load(w, AREA + PAGES(4)), 0);
	assert_true(info(mm, AREA).exclusive && info(mm, AREA).writable && info(mm, AREA).dirty && !info(mm, AREA).zero_page);
	assert_true(info(mm, AREA + PAGES(4)).exclusive && !info(mm, AREA + PAGES(4)).writable && !info(mm, AREA + PAGES(4)).dirty);
	assert_int_equal(count_of(w, VM_quire_fault_anon_4k), 2);
	assert_int_equal(count_of(w, VM_quire_fault_zero_4k), 0);
	store(w, AREA, 1);
	assert_int_equal(count_of(w, VM_pgfault), 2);
	world_check(w);
	mm_put(w->c, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_zero_page),
		cmocka_unit_test(first_touch),
		cmocka_unit_test(charges_name_their_path),
		cmocka_unit_test(latency_is_kept_by_kind),
		cmocka_unit_test(rights),
		cmocka_unit_test(spurious),
		cmocka_unit_test(mprotect_keeps_what_is_there),
		cmocka_unit_test(mprotect_flushes_only_what_lost_rights),
		cmocka_unit_test(dontneed_and_free),
		cmocka_unit_test(tables_are_freed_exactly),
		cmocka_unit_test(move_pages),
		cmocka_unit_test(mlock_counts),
		cmocka_unit_test(file_read_and_around),
		cmocka_unit_test(file_beyond_end),
		cmocka_unit_test(file_private_write),
		cmocka_unit_test(file_shared_write),
		cmocka_unit_test(copy_user),
		cmocka_unit_test(out_of_memory),
		cmocka_unit_test(nth_allocation_fails),
		cmocka_unit_test(truncated_under_a_mapping),
	};

	return test_run(tests);
}
