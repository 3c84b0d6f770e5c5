/* What programs seldom ask for: placement from below and beside hints, pages brought in again, smaps' lines, limits of heap and stack. */
#include "paging_world.h"

#include "mm/fault_int.h"
#include "mm/smaps.h"
#include "mm/vma_int.h"

#include <string.h>

#define HUGE (2 * MIB)
#define GIB (1024 * MIB)
#define ANON (UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS)

static int64_t map(struct world *w, struct mm *mm, vaddr_t hint, uint64_t len, unsigned flags)
{
	return mm_mmap(w->c, mm, hint, len, RW, ANON | flags, NULL, 0);
}

/* MAP_32BIT: the lowest gap of the second GiB that is large enough. */
static void placed_from_below(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	vaddr_t at = GIB;

	(void)state;
	assert_int_equal(map(w, mm, 0, PAGES(4), UAPI_MAP_32BIT), (int64_t)at);
	/* Gaps of 1 to 7 pages between areas of 2. */
	at += PAGES(4);
	for (unsigned gap = 1; gap < 8; gap++) {
		map_at(w, mm, at + PAGES(gap), PAGES(2), RW);
		at += PAGES(gap + 2);
	}
	for (unsigned n = 1; n < 8; n++) {
		vaddr_t want = GIB + PAGES(4);

		for (unsigned gap = 1; gap < n; gap++)
			want += PAGES(gap + 2);
		assert_int_equal(map(w, mm, 0, PAGES(n), UAPI_MAP_32BIT), (int64_t)want);
	}
	assert_int_equal(map(w, mm, 0, PAGES(9), UAPI_MAP_32BIT), (int64_t)at);
	/* A hint, rounded down, counts where it is free and below 2 GiB. */
	assert_int_equal(map(w, mm, GIB + 16 * MIB + 5, PAGES(2), UAPI_MAP_32BIT), (int64_t)(GIB + 16 * MIB));
	assert_int_equal(map(w, mm, GIB, PAGE_SIZE, UAPI_MAP_32BIT), (int64_t)(at + PAGES(9)));
	assert_int_equal(map(w, mm, 3 * GIB, PAGE_SIZE, UAPI_MAP_32BIT), (int64_t)(at + PAGES(10)));
	/* An area that reaches over the end leaves nothing above; what lies beyond does not help. */
	map_at(w, mm, GIB + 32 * MIB, 2 * GIB, RW);
	assert_int_equal(map(w, mm, 0, 64 * MIB, UAPI_MAP_32BIT), -ENOMEM);
	assert_int_equal(map(w, mm, 0, 2 * GIB + PAGE_SIZE, UAPI_MAP_32BIT), -ENOMEM);
	assert_int_equal(map(w, mm, 0, 16 * MIB - PAGES(2), UAPI_MAP_32BIT), (int64_t)(GIB + 16 * MIB + PAGES(2)));
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

static void placed_from_above(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct mfile *f = NULL;
	int64_t r, top;

	(void)state;
	/* Nothing fits below the base: from a third of the address space upwards. */
	mm->mmap_base = HUGE;
	top = map(w, mm, 0, PAGES(4), 0);
	assert_int_equal(top, (int64_t)(HUGE - PAGES(4)));
	r = map(w, mm, 0, 2 * HUGE + PAGE_SIZE, 0);
	assert_int_equal(r, (int64_t)ALIGN_UP(TASK_SIZE / 3, PAGE_SIZE));
	assert_int_equal(map(w, mm, 0, PAGES(2), UAPI_MAP_ABOVE4G), r + (int64_t)(2 * HUGE + PAGE_SIZE));
	mm->mmap_base = 0;
	assert_true(map(w, mm, 0, PAGES(2), UAPI_MAP_ABOVE4G) > (int64_t)(4 * GIB));
	/* Too long at all, too long for where it begins. */
	assert_int_equal(map(w, mm, 0, TASK_SIZE + PAGE_SIZE, 0), -ENOMEM);
	assert_int_equal(map(w, mm, 0, TASK_SIZE, 0), -ENOMEM);
	assert_int_equal(map(w, mm, TASK_SIZE - PAGE_SIZE, PAGES(2), UAPI_MAP_FIXED), -ENOMEM);
	/* A file is placed so that its huge pages would be aligned, but where the hint is free. */
	assert_ok(file_create(w->c, w->q, 0, 8 * MIB, false, &f));
	r = mm_mmap(w->c, mm, 0, 4 * MIB, RW, UAPI_MAP_PRIVATE, f, PAGES(3));
	assert_int_equal((uint64_t)r & (HUGE - 1), PAGES(3));
	assert_int_equal(mm_mmap(w->c, mm, AREA + PAGES(9), 4 * MIB, RW, UAPI_MAP_PRIVATE, f, 0), (int64_t)(AREA + PAGES(9)));
	r = mm_mmap(w->c, mm, 0, PAGES(5), RW, UAPI_MAP_PRIVATE, f, 0); /* too short for one */
	assert_true(r > 0);
	world_check(w);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

static void placed_pools(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	unsigned flags = UAPI_MAP_HUGETLB | UAPI_MAP_NORESERVE;

	(void)state;
	assert_int_equal(map(w, mm, AREA, HUGE, flags | UAPI_MAP_FIXED), (int64_t)AREA);
	assert_int_equal(map(w, mm, AREA + PAGE_SIZE, HUGE, flags | UAPI_MAP_FIXED), -EINVAL);
	assert_int_equal(map(w, mm, AREA + 3 * HUGE - 1, HUGE, flags), (int64_t)(AREA + 3 * HUGE));
	assert_true(IS_ALIGNED((uint64_t)map(w, mm, AREA, HUGE, flags), HUGE)); /* is taken */
	assert_int_equal(map(w, mm, 0, TASK_SIZE + PAGE_SIZE, flags), -ENOMEM);
	assert_int_equal(map(w, mm, 0, TASK_SIZE - HUGE + PAGE_SIZE, flags), -ENOMEM);
	assert_int_equal(map(w, mm, ALIGN_DOWN(TASK_SIZE, HUGE), HUGE, flags | UAPI_MAP_FIXED), -ENOMEM);
	assert_int_equal(map(w, mm, 0, HUGE, flags | UAPI_MAP_FIXED), -EPERM);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* What has become clean is dirty again; what only looks mapped is faulted in. */
static void populated_again(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child = NULL;
	int64_t faults;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 2 * HUGE, RW);
	store(w, AREA, 1);
	w->q->knobs.thp_enabled = THP_NEVER;
	store(w, AREA + HUGE, 2);
	assert_ok(mm_madvise(w->c, mm, AREA, 2 * HUGE, UAPI_MADV_FREE));
	assert_true(info(mm, AREA).huge && !info(mm, AREA).dirty && !info(mm, AREA + HUGE).dirty);
	faults = count_of(w, VM_pgalloc_dma32);
	assert_ok(mm_madvise(w->c, mm, AREA, HUGE + PAGE_SIZE, UAPI_MADV_POPULATE_WRITE));
	assert_true(info(mm, AREA).huge && info(mm, AREA).dirty);
	assert_true(frame_flags(frame_of(w->m, info(mm, AREA + HUGE).pfn)) & FRAME_DIRTY);
	assert_int_equal(count_of(w, VM_pgalloc_dma32), faults);
	assert_int_equal(load(w, AREA), 1);
	/* Shared with a child: to read, nothing is needed; to write, pages of one's own. */
	w->q->knobs.fork_tables = FORK_TABLES_SHARED;
	assert_ok(mm_fork(w->c, mm, &child));
	faults = count_of(w, VM_quire_pages_copied);
	assert_ok(mm_madvise(w->c, mm, AREA, HUGE + PAGE_SIZE, UAPI_MADV_POPULATE_READ));
	assert_int_equal(count_of(w, VM_quire_pages_copied), faults);
	assert_false(info(mm, AREA).writable || info(mm, AREA + HUGE).writable);
	assert_ok(mm_madvise(w->c, mm, AREA, HUGE + PAGE_SIZE, UAPI_MADV_POPULATE_WRITE));
	assert_true(info(mm, AREA).writable && info(mm, AREA + HUGE).writable);
	assert_true(info(mm, AREA + HUGE).pfn.v != info(child, AREA + HUGE).pfn.v);
	world_check(w);
	mm_end(w, child);
	mm_end(w, mm);
	world_end(w);
}

static void keep_first(void *arg, const struct vma *v, const struct mm_smaps *s)
{
	if (v->start == AREA)
		*(struct mm_smaps *)arg = *s;
}

static struct mm_smaps smaps_of(const struct mm *mm)
{
	struct mm_smaps s = { { 0 } };

	mm_smaps_each(mm, keep_first, &s);
	return s;
}

#define LINE(s, name, pages) assert_int_equal((s).bytes[SMAPS_##name], PAGES(pages))

static void smaps_lines(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child = NULL;
	struct mfile *f = NULL;
	struct mm_smaps s;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	for (unsigned i = 0; i < 4; i++)
		store(w, AREA + PAGES(i), i);
	(void)load(w, AREA + PAGES(5)); /* the zero page counts nowhere */
	s = smaps_of(mm);
	LINE(s, Rss, 4);
	LINE(s, Private_Dirty, 4);
	LINE(s, Referenced, 4);
	LINE(s, Pss_Dirty, 4);
	LINE(s, LazyFree, 0);
	assert_ok(mm_madvise(w->c, mm, AREA, PAGES(3), UAPI_MADV_FREE));
	s = smaps_of(mm);
	LINE(s, LazyFree, 3);
	LINE(s, Private_Clean, 3);
	LINE(s, Private_Dirty, 1);
	LINE(s, Anonymous, 4);
	LINE(s, Referenced, 1);
	assert_ok(mm_fork(w->c, mm, &child));
	s = smaps_of(child);
	LINE(s, Rss, 4);
	LINE(s, Pss, 2);
	LINE(s, Shared_Clean, 3);
	LINE(s, Shared_Dirty, 1);
	assert_int_equal(s.bytes[SMAPS_Pss_Dirty], PAGE_SIZE / 2);
	assert_ok(mm_mlock(w->c, mm, AREA, PAGES(8), false));
	s = smaps_of(mm);
	LINE(s, Locked, 8); /* its own copies by now, and pages instead of the zero page */
	mm_end(w, child);
	assert_ok(mm_munmap(w->c, mm, AREA, PAGES(8)));
	/* Of a file: clean when only read, and alone though the cache holds it too. */
	assert_ok(file_create(w->c, w->q, 0, PAGES(8), false, &f));
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(8), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
	assert_ok(file_rw(w->c, f, 0, PAGES(8), false));
	(void)load(w, AREA);
	store(w, AREA + PAGES(1), 7);
	s = smaps_of(mm);
	LINE(s, Rss, 2);
	LINE(s, Pss, 2);
	LINE(s, Private_Clean, 1);
	LINE(s, Private_Dirty, 1);
	LINE(s, Anonymous, 0);
	mm_end(w, mm);
	file_put(w->c, f);
	world_end(w);
}

/* How hard to try for a huge page, by transparent_hugepage.defrag and advice. */
static void defrag(void **state)
{
	static const struct {
		enum thp_defrag defrag;
		unsigned plain, advised;
	} cases[] = {
		{ THP_DEFRAG_ALWAYS, GFP_DIRECT_RECLAIM | GFP_NORETRY, GFP_DIRECT_RECLAIM },
		{ THP_DEFRAG_DEFER, GFP_KSWAPD_RECLAIM, GFP_KSWAPD_RECLAIM },
		{ THP_DEFRAG_DEFER_MADVISE, GFP_KSWAPD_RECLAIM, GFP_DIRECT_RECLAIM },
		{ THP_DEFRAG_MADVISE, 0, GFP_DIRECT_RECLAIM },
		{ THP_DEFRAG_NEVER, 0, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		struct knobs k = { .thp_defrag = cases[i].defrag };
		struct vma plain = { .flags = VM_READ }, advised = { .flags = VM_READ | VM_HUGEPAGE };

		assert_int_equal(thp_gfp(&k, &plain), GFP_TRANSHUGE_LIGHT | cases[i].plain);
		assert_int_equal(thp_gfp(&k, &advised), GFP_TRANSHUGE_LIGHT | cases[i].advised);
	}
}

#define TOP 0x7ffffffde000ULL

/* Each limit of a new stack, of its growth and of the heap. */
static void stack_and_heap(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	uint64_t heap = 0x600000000000ULL;

	(void)state;
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TOP + 1, PAGES(4)), -EINVAL);
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TASK_SIZE + PAGE_SIZE, PAGES(4)), -EINVAL);
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TOP, 0), -EINVAL);
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TOP, TOP), -EINVAL);
	assert_int_equal(mm_setup_exec(w->c, mm, TASK_SIZE + PAGE_SIZE, TOP, PAGES(4)), -EINVAL);
	mm->as_rlimit = PAGES(3);
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TOP, PAGES(4)), -ENOMEM);
	mm->as_rlimit = ~0ULL;
	map_at(w, mm, TOP - PAGES(2), PAGE_SIZE, RW);
	assert_int_equal(mm_setup_exec(w->c, mm, heap, TOP, PAGES(4)), -EEXIST);
	assert_ok(mm_munmap(w->c, mm, TOP - PAGES(2), PAGE_SIZE));
	assert_ok(mm_setup_exec(w->c, mm, heap, TOP, PAGES(4)));
	/* It grows to where something accessible is nearer than the guard, to the limits, and no further. */
	mm->as_rlimit = PAGES(5);
	assert_int_equal(try_store(w, TOP - PAGES(6), 1), -EFAULT);
	assert_ok(try_store(w, TOP - PAGES(5), 1));
	mm->as_rlimit = ~0ULL;
	mm->stack_rlimit = PAGES(8);
	assert_int_equal(try_store(w, TOP - PAGES(9), 1), -EFAULT);
	assert_ok(try_store(w, TOP - PAGES(8), 1));
	mm->stack_rlimit = 8 * MIB;
	map_at(w, mm, TOP - PAGES(300), PAGE_SIZE, RW);
	assert_int_equal(try_store(w, TOP - PAGES(50), 1), -EFAULT);
	assert_ok(try_store(w, TOP - PAGES(43), 1));
	assert_ok(mm_mprotect(w->c, mm, TOP - PAGES(300), PAGE_SIZE, 0));
	assert_ok(try_store(w, TOP - PAGES(299), 1)); /* what nobody can access needs no guard */
	/* The heap: below its start, beyond the limits, against what lies above. */
	assert_int_equal(mm_brk(w->c, mm, heap - PAGE_SIZE), (int64_t)heap);
	mm->data_rlimit = PAGES(4);
	assert_int_equal(mm_brk(w->c, mm, heap + PAGES(5)), (int64_t)heap);
	mm->data_rlimit = ~0ULL;
	w->q->knobs.max_map_count = 0;
	assert_int_equal(mm_brk(w->c, mm, heap + PAGES(5)), (int64_t)heap);
	w->q->knobs.max_map_count = 65530;
	map_at(w, mm, heap + PAGES(8), PAGE_SIZE, RW);
	assert_int_equal(mm_brk(w->c, mm, heap + PAGES(8)), (int64_t)heap);
	assert_int_equal(mm_brk(w->c, mm, heap + PAGES(7)), (int64_t)(heap + PAGES(7)));
	assert_int_equal(mm_brk(w->c, mm, heap + PAGES(2) + 5), (int64_t)(heap + PAGES(2) + 5));
	assert_ok(mm_munmap(w->c, mm, heap, PAGES(3))); /* from under it */
	assert_int_equal(mm_brk(w->c, mm, heap), (int64_t)(heap + PAGES(2) + 5));
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* Machines that no manager can run on. */
static void boot_refuses(void **state)
{
	struct machine *m = NULL;
	struct quire *q = NULL;
	char err[200] = "";
	unsigned cpus, nodes;

	(void)state;
	assert_ok(null_create(&(struct null_options){ .nr_cpus = 2, .node_bytes = 128 * MIB }, &m, err, sizeof(err)));
	cpus = m->nr_cpus, nodes = m->nr_nodes;
	m->nr_cpus = 0;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	m->nr_cpus = QUIRE_MAX_CPUS + 1;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	m->nr_cpus = cpus;
	m->nr_nodes = 0;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	m->nr_nodes = MACHINE_MAX_NODES + 1;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	m->nr_nodes = nodes;
	m->cpus[1]->nid = (int)nodes;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "no node"));
	m->cpus[1]->nid = 0;
	m->nodes[0].end_pfn = m->nodes[0].start_pfn + 16 * MIB / PAGE_SIZE; /* the kernel image and no more */
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -ENOMEM);
	assert_non_null(strstr(err, "too small"));
	assert_null(q);
	null_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(placed_from_below), cmocka_unit_test(placed_from_above), cmocka_unit_test(placed_pools),
		cmocka_unit_test(populated_again),   cmocka_unit_test(smaps_lines),	  cmocka_unit_test(defrag),
		cmocka_unit_test(stack_and_heap),    cmocka_unit_test(boot_refuses),
	};

	return test_run(tests);
}
