/*
 * NUMA balancing: what the scanner marks and what it looks at for that, and what the faults that follow do. On the null machine of two
 * nodes; counts only.
 */
#include "mm/fault_int.h"
#include "mm/numa.h"
#include "paging_world.h"

#define NR 64U

static struct world *two_nodes(void)
{
	struct null_options o = { .nr_cpus = 2, .nr_nodes = 2, .node_bytes = 128 * MIB };
	struct machine *m = NULL;
	char err[200] = "";

	if (null_create(&o, &m, err, sizeof(err)))
		fail_msg("machine: %s", err);
	struct world *w = world_on(m);

	w->q->knobs.numa_balancing = NUMA_BALANCING_NORMAL;
	return w;
}

/* From now on everything happens on the other node, or on the first. */
static void on_node(struct world *w, struct mm *mm, unsigned nid)
{
	w->c = w->m->cpus[nid];
	assert_int_equal(w->c->nid, nid);
	mm_activate(w->c, mm);
}

static struct vma *area(struct world *w, struct mm *mm)
{
	struct vma *v;

	machine_read_lock(w->c, &mm->mmap_lock);
	v = vma_find(w->c, mm, AREA);
	machine_read_unlock(w->c, &mm->mmap_lock);
	assert_non_null(v);
	return v;
}

static uint64_t scan(struct world *w, struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct vma *v = area(w, mm);
	uint64_t n;

	machine_read_lock(w->c, &mm->mmap_lock);
	n = numa_scan_range(w->c, v, start, end);
	machine_read_unlock(w->c, &mm->mmap_lock);
	return n;
}

static int nid_of(struct world *w, struct mm *mm, vaddr_t va)
{
	return frame_nid(frame_head(w->m, frame_of(w->m, info(mm, va).pfn)));
}

static void fill(struct world *w, struct mm *mm)
{
	map_at(w, mm, AREA, PAGES(NR), RW);
	for (unsigned i = 0; i < NR; i++)
		store(w, AREA + PAGES(i), 100 + i);
}

static int64_t lines_read(struct world *w)
{
	int64_t n = 0;

	for (unsigned p = 0; p < NR_MACHINE_PATHS; p++)
		n += (int64_t)null_counts(w->m)->path[p].lines[TOUCH_READ];
	return n;
}

/* Mechanism 3, 1 and 2: the same marks, counts and flushes either way; the descriptor of a marked page is touched in one only. */
static void scan_touches_no_descriptor_of_marked_pages(void **state)
{
	int64_t lines[2][3], updates[2][3];

	(void)state;
	for (unsigned check = NUMA_SCAN_FRAME_FIRST; check <= NUMA_SCAN_PTE_FIRST; check++) {
		struct world *w = two_nodes();
		struct mm *mm = mm_new(w);

		w->q->knobs.numa_scan_check = check;
		fill(w, mm);
		on_node(w, mm, 1);
		for (unsigned round = 0; round < 3; round++) { /* half of it, all, all again: 0, 50 and 100 % are marked */
			vaddr_t end = AREA + PAGES(round ? NR : NR / 2);
			int64_t before = lines_read(w);

			updates[check][round] = (int64_t)scan(w, mm, AREA, end);
			lines[check][round] = lines_read(w) - before;
		}
		assert_int_equal(count_of(w, VM_numa_pte_updates), NR);
		for (unsigned i = 0; i < NR; i++)
			assert_true(info(mm, AREA + PAGES(i)).present);
		world_check(w);
		mm_end(w, mm);
		world_end(w);
	}
	assert_memory_equal(updates[0], updates[1], sizeof(updates[0]));
	assert_int_equal(updates[0][0], NR / 2);
	assert_int_equal(updates[0][1], NR / 2);
	assert_int_equal(updates[0][2], 0);
	assert_int_equal(lines[0][0] - lines[1][0], 0);
	assert_int_equal(lines[0][1] - lines[1][1], NR / 2);
	assert_int_equal(lines[0][2] - lines[1][2], NR);
}

/* Mechanism 3, 3: each is passed over for its own reason. */
static void scan_passes_over(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = mm_new(w), *child = NULL;

	(void)state;
	fill(w, mm);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(NR)), 0); /* one thread, and the pages are on its node */
	mm_get(mm);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(4)), 4); /* two threads */
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(4)), 0); /* marked already */
	map_at(w, mm, AREA + PAGES(NR), PAGES(4), RW);
	(void)load(w, AREA + PAGES(NR));
	assert_int_equal(scan(w, mm, AREA + PAGES(NR), AREA + PAGES(NR + 4)), 0); /* zero page, empty entries */
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(NR)), 0); /* shared until written */
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	mm_end(w, child);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(NR)), NR - 3);
	assert_ok((int)mm_mprotect(w->c, mm, AREA, PAGES(NR), 0));
	machine_read_lock(w->c, &mm->mmap_lock);
	w->q->knobs.numa_scan_size_mb = 256;
	assert_int_equal(numa_scan_mm(w->c, mm), 0); /* no access at all */
	machine_read_unlock(w->c, &mm->mmap_lock);
	assert_int_equal(try_store(w, AREA, 1), -EFAULT);
	assert_ok((int)mm_mprotect(w->c, mm, AREA, PAGES(NR), RW));
	assert_int_equal(load(w, AREA), 100);
	world_check(w);
	__atomic_sub_fetch(&mm->users, 1, __ATOMIC_RELAXED);
	mm_end(w, mm);
	world_end(w);
}

/* The cursor goes on where the budget ended, and begins anew. */
static void scan_goes_on_at_the_cursor(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.numa_scan_size_mb = 2;
	map_at(w, mm, AREA, 4 * PMD_SIZE, RW);
	for (uint64_t i = 0; i < 4 * 512; i++)
		store(w, AREA + PAGES(i), i);
	on_node(w, mm, 1);
	machine_read_lock(w->c, &mm->mmap_lock);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(numa_scan_mm(w->c, mm), 512);
	assert_int_equal(mm->numa_scan_seq, 0);
	assert_int_equal(numa_scan_mm(w->c, mm), 0);
	assert_int_equal(mm->numa_scan_seq, 1);
	assert_int_equal(numa_scan_mm(w->c, mm), 0); /* all of it, eight times the budget of marks */
	assert_int_equal(mm->numa_scan_seq, 2);
	machine_read_unlock(w->c, &mm->mmap_lock);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Mechanism 2, 4 and 7, base pages: a page comes to its user, writable at once; local use gives access back. */
static void base_pages_follow_their_user(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = mm_new(w);

	(void)state;
	fill(w, mm);
	on_node(w, mm, 1);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(NR)), NR);
	int64_t faults = count_of(w, VM_pgfault);

	for (unsigned i = 0; i < NR; i++) {
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
		store(w, AREA + PAGES(i), 200 + i);
		assert_int_equal(nid_of(w, mm, AREA + PAGES(i)), 1);
	}
	assert_int_equal(count_of(w, VM_pgfault) - faults, NR); /* none for the writes */
	assert_int_equal(count_of(w, VM_quire_fault_numa), NR);
	assert_int_equal(count_of(w, VM_numa_hint_faults), NR);
	assert_int_equal(count_of(w, VM_numa_hint_faults_local), 0);
	assert_int_equal(count_of(w, VM_numa_pages_migrated), NR);
	assert_int_equal(count_of(w, VM_pgmigrate_success), NR);
	mm_get(mm);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(NR)), NR);
	for (unsigned i = 0; i < NR; i++)
		store(w, AREA + PAGES(i), 300 + i);
	assert_int_equal(count_of(w, VM_numa_hint_faults_local), NR);
	assert_int_equal(count_of(w, VM_numa_pages_migrated), NR);
	assert_int_equal(count_of(w, VM_pgfault) - faults, 2 * NR);
	assert_int_equal(count_of(w, VM_nr_isolated_anon), 0);
	world_check(w);
	__atomic_sub_fetch(&mm->users, 1, __ATOMIC_RELAXED);
	mm_end(w, mm);
	world_end(w);
}

/* Mechanism 2, 5: whoever finds the entry changed serves nothing and counts nothing. */
static void late_fault_counts_nothing(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = mm_new(w);

	(void)state;
	fill(w, mm);
	on_node(w, mm, 1);
	assert_int_equal(scan(w, mm, AREA, AREA + PAGES(1)), 1);
	struct fault f = { .c = w->c, .q = w->q, .mm = mm, .v = area(w, mm), .va = AREA, .kind = VM_quire_fault_spurious };

	machine_read_lock(w->c, &mm->mmap_lock);
	assert_ok(pt_pmd(w->c, mm, AREA, false, &f.pmd));
	assert_ok(pt_pte(w->c, mm, &f.pmd, AREA, false, &f.pte));
	machine_read_unlock(w->c, &mm->mmap_lock);
	f.orig = pte_peek(&f.pte);
	assert_int_equal(load(w, AREA), 100); /* somebody else was first */
	pte_t now = pte_peek(&f.pte);

	machine_read_lock(w->c, &mm->mmap_lock);
	assert_ok(numa_fault_pte(&f));
	machine_read_unlock(w->c, &mm->mmap_lock);
	assert_true(pte_peek(&f.pte) == now);
	assert_int_equal(f.kind, VM_quire_fault_spurious);
	assert_int_equal(count_of(w, VM_numa_hint_faults), 1);
	assert_int_equal(count_of(w, VM_numa_pages_migrated), 1);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

static struct mm *huge_mm(struct world *w)
{
	w->q->knobs.thp_enabled = THP_ALWAYS;
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, PMD_SIZE, RW);
	store(w, AREA, 5);
	store(w, AREA + PAGES(9), 6);
	assert_true(info(mm, AREA).huge);
	return mm;
}

/* Mechanism 2, 4 and 7, huge pages: moved whole, one fault, 512 pages, writable at once. */
static void huge_page_follows_its_user(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = huge_mm(w);

	(void)state;
	on_node(w, mm, 1);
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_numa_huge_pte_updates), 1);
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), 0);
	int64_t faults = count_of(w, VM_pgfault), ipis = (int64_t)null_counts(w->m)->ipis;

	assert_int_equal(load(w, AREA + PAGES(9)), 6);
	store(w, AREA, 7);
	assert_true(info(mm, AREA).huge);
	assert_int_equal(nid_of(w, mm, AREA), 1);
	assert_int_equal(count_of(w, VM_pgfault) - faults, 1);
	assert_int_equal((int64_t)null_counts(w->m)->ipis - ipis, 0); /* 8: it was out of reach already */
	assert_int_equal(count_of(w, VM_numa_hint_faults), 1);
	assert_int_equal(count_of(w, VM_numa_pages_migrated), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_pgmigrate_success), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_thp_migration_success), 1);
	assert_int_equal(count_of(w, VM_nr_isolated_anon), 0);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Mechanism 2, 2 and 3: shared, or held by somebody else, it stays whole where it is; then it can go. */
static void huge_page_of_others_stays(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = huge_mm(w), *child = NULL;
	struct frame *head = frame_of(w->m, info(mm, AREA).pfn);

	(void)state;
	on_node(w, mm, 1);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), HPAGE_PMD_NR);
	assert_int_equal(load(w, AREA), 5);
	assert_false(info(mm, AREA).writable);
	assert_int_equal(nid_of(w, mm, AREA), 0);
	assert_int_equal(count_of(w, VM_pgmigrate_fail), 0); /* not even tried */
	mm_end(w, child);
	frame_get(w->c, head);
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), HPAGE_PMD_NR);
	assert_int_equal(load(w, AREA), 5);
	assert_int_equal(nid_of(w, mm, AREA), 0);
	assert_int_equal(count_of(w, VM_numa_pages_migrated), 0);
	assert_int_equal(count_of(w, VM_pgmigrate_fail), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_thp_split_page) + count_of(w, VM_thp_migration_split), 0);
	frame_put(w->c, head);
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), HPAGE_PMD_NR);
	assert_int_equal(load(w, AREA), 5);
	assert_int_equal(nid_of(w, mm, AREA), 1);
	assert_int_equal(count_of(w, VM_numa_hint_faults), 3);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Every walker that meets a mark: split, fork, mremap, munmap. */
static void marks_in_other_calls(void **state)
{
	struct world *w = two_nodes();
	struct mm *mm = huge_mm(w), *child = NULL;
	uint8_t vec[512];

	(void)state;
	on_node(w, mm, 1);
	assert_int_equal(scan(w, mm, AREA, AREA + PMD_SIZE), HPAGE_PMD_NR);
	assert_ok((int)mm_mincore(w->c, mm, AREA, PMD_SIZE, vec));
	assert_int_equal(vec[9] & 1, 1);
	assert_ok((int)mm_munmap(w->c, mm, AREA + PAGES(100), PAGES(1))); /* splits the entry, marked */
	world_check(w);
	assert_int_equal(load(w, AREA + PAGES(9)), 6);
	store(w, AREA + PAGES(9), 8);
	assert_int_equal(nid_of(w, mm, AREA + PAGES(9)), 0); /* a part of a huge page does not go alone */
	assert_ok(mm_fork(w->c, mm, &child));
	world_check(w);
	store(w, AREA, 11);
	on_node(w, child, 1);
	assert_int_equal(load(w, AREA), 5);
	mm_end(w, child);
	on_node(w, mm, 1);
	int64_t to = mm_mremap(w->c, mm, AREA, PAGES(64), PAGES(64), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + 2 * PMD_SIZE);

	assert_int_equal(to, AREA + 2 * PMD_SIZE);
	assert_int_equal(load(w, AREA + 2 * PMD_SIZE + PAGES(9)), 8);
	assert_ok((int)mm_munmap(w->c, mm, AREA + PAGES(64), PAGES(10)));
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scan_touches_no_descriptor_of_marked_pages),
		cmocka_unit_test(scan_passes_over),
		cmocka_unit_test(scan_goes_on_at_the_cursor),
		cmocka_unit_test(base_pages_follow_their_user),
		cmocka_unit_test(late_fault_counts_nothing),
		cmocka_unit_test(huge_page_follows_its_user),
		cmocka_unit_test(huge_page_of_others_stays),
		cmocka_unit_test(marks_in_other_calls),
	};

	return test_run(tests);
}
