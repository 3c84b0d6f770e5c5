/*
 * Memory policies and moving pages by hand: where pages go on three nodes, what keeps its contents when it moves, status, errors, and
 * failures. On the null machine.
 */
#include "mm/mempolicy.h"
#include "paging_world.h"

#define NODES 3
#define NR 12U

static struct world *three(void)
{
	struct null_options o = { .nr_cpus = NODES, .nr_nodes = NODES, .node_bytes = 128 * MIB };
	struct machine *m = NULL;
	char err[200] = "";

	if (null_create(&o, &m, err, sizeof(err)))
		fail_msg("machine: %s", err);
	return world_on(m);
}

static int node_at(struct world *w, struct mm *mm, vaddr_t va)
{
	struct mm_page_info p = info(mm, va);

	return p.present ? frame_nid(frame_head(w->m, frame_of(w->m, p.pfn))) : -1;
}

static void fill(struct world *w, vaddr_t va, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		store(w, va + PAGES(i), 100 + i);
}

static void check(struct world *w, vaddr_t va, unsigned n)
{
	uint64_t x;

	for (unsigned i = 0; i < n; i++) {
		assert_ok(try_load(w, va + PAGES(i), &x));
		assert_int_equal(x, 100 + i);
	}
}

static int64_t bind(struct world *w, struct mm *mm, vaddr_t va, uint64_t n, unsigned mode, uint64_t nodes, unsigned flags)
{
	return mm_mbind(w->c, mm, va, PAGES(n), mode, nodes, flags);
}

static void areas_place_their_pages(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(64), RW);
	assert_ok((int)bind(w, mm, AREA, NR, MPOL_BIND, 2, 0));
	assert_ok((int)bind(w, mm, AREA + PAGES(NR), NR, MPOL_INTERLEAVE, 5, 0));
	assert_ok((int)bind(w, mm, AREA + PAGES(2 * NR), NR, MPOL_PREFERRED, 4, 0));
	assert_ok((int)bind(w, mm, AREA + PAGES(3 * NR), NR, MPOL_WEIGHTED_INTERLEAVE, 3, 0));
	assert_ok(mpol_set_weight(w->q, 0, 3));
	assert_int_equal(mm->map_count, 5);
	map_at(w, mm, AREA + 2 * MIB, PAGES(3), RW); /* untouched: nothing but the policy keeps the parts asunder */
	assert_ok((int)bind(w, mm, AREA + 2 * MIB + PAGES(1), 1, MPOL_BIND, 2, 0));
	assert_int_equal(mm->map_count, 8);
	assert_ok((int)bind(w, mm, AREA + 2 * MIB, 3, MPOL_BIND, 2, 0));
	assert_int_equal(mm->map_count, 6);
	fill(w, AREA, 5 * NR);
	for (unsigned i = 0; i < NR; i++) {
		uint64_t at = (AREA >> PAGE_SHIFT) + i;

		assert_int_equal(node_at(w, mm, AREA + PAGES(i)), 1);
		assert_int_equal(node_at(w, mm, AREA + PAGES(NR + i)), (at + NR) % 2 ? 2 : 0);
		assert_int_equal(node_at(w, mm, AREA + PAGES(2 * NR + i)), 2);
		assert_int_equal(node_at(w, mm, AREA + PAGES(3 * NR + i)), (at + 3 * NR) % 4 == 3);
		assert_int_equal(node_at(w, mm, AREA + PAGES(4 * NR + i)), 0);
	}
	mm_end(w, mm);
	world_end(w);
}

static void tasks_place_theirs_and_children_inherit(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w), *child = NULL;
	uint64_t nodes = 0;
	int mode = -1;

	(void)state;
	map_at(w, mm, AREA, PAGES(NR), RW);
	assert_ok((int)mm_set_mempolicy(w->c, mm, MPOL_INTERLEAVE, 7));
	fill(w, AREA, 6);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(node_at(w, mm, AREA + PAGES(i)), (int)(i % 3));
	assert_ok((int)mm_get_mempolicy(w->c, mm, &mode, NULL, 0, MPOL_F_NODE));
	assert_int_equal(mode, 0);
	assert_ok((int)mm_set_mempolicy(w->c, mm, MPOL_BIND | MPOL_F_STATIC_NODES, 4 | 64));
	assert_ok(mm_fork(w->c, mm, &child));
	assert_ok((int)mm_get_mempolicy(w->c, child, &mode, &nodes, 0, 0));
	assert_int_equal(mode, MPOL_BIND | MPOL_F_STATIC_NODES);
	assert_int_equal(nodes, 4 | 64);
	mm_activate(w->c, child);
	store(w, AREA + PAGES(7), 1);
	assert_int_equal(node_at(w, child, AREA + PAGES(7)), 2);
	assert_ok((int)mm_get_mempolicy(w->c, child, &mode, NULL, AREA + PAGES(7), MPOL_F_NODE | MPOL_F_ADDR));
	assert_int_equal(mode, 2);
	mm_activate(w->c, mm);
	mm_end(w, child);
	mm_end(w, mm);
	world_end(w);
}

static void bind_ends_where_its_nodes_do(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);
	unsigned n = 0;

	(void)state;
	map_at(w, mm, AREA, 160 * MIB, RW);
	map_at(w, mm, AREA + 256 * MIB, 160 * MIB, RW);
	assert_ok((int)bind(w, mm, AREA, 160 * MIB >> PAGE_SHIFT, MPOL_PREFERRED, 2, 0));
	while (n < 40000 && !try_store(w, AREA + PAGES(n), 1))
		n++;
	assert_int_equal(n, 40000); /* more than the node has */
	assert_int_not_equal(node_at(w, mm, AREA + PAGES(n - 1)), 1);
	assert_ok((int)mm_munmap(w->c, mm, AREA, 160 * MIB));
	assert_ok((int)bind(w, mm, AREA + 256 * MIB, 160 * MIB >> PAGE_SHIFT, MPOL_BIND, 2, 0));
	mm->oom_score_adj = -1000; /* nobody to kill */
	for (n = 0; n < 40000 && !try_store(w, AREA + 256 * MIB + PAGES(n), 1); n++)
		assert_int_equal(node_at(w, mm, AREA + 256 * MIB + PAGES(n)), 1);
	assert_true(n > 1000 && n < 32768);
	mm_end(w, mm);
	world_end(w);
}

static void mbind_moves(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w), *child = NULL;

	(void)state;
	map_at(w, mm, AREA, PAGES(NR), RW);
	fill(w, AREA, NR);
	assert_int_equal(bind(w, mm, AREA, NR, MPOL_BIND, 2, MPOL_MF_STRICT), -EIO);
	assert_int_equal(node_at(w, mm, AREA), 0);
	assert_ok((int)bind(w, mm, AREA, NR, MPOL_BIND, 2, MPOL_MF_STRICT | MPOL_MF_MOVE));
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(node_at(w, mm, AREA + PAGES(i)), 1);
	assert_int_equal(count_of(w, VM_pgmigrate_success), NR);
	check(w, AREA, NR);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(bind(w, mm, AREA, NR, MPOL_BIND, 4, MPOL_MF_STRICT | MPOL_MF_MOVE), -EIO);
	assert_int_equal(node_at(w, mm, AREA), 1);
	assert_ok((int)bind(w, mm, AREA, NR, MPOL_BIND, 4, MPOL_MF_STRICT | MPOL_MF_MOVE_ALL));
	assert_int_equal(node_at(w, child, AREA), 2);
	check(w, AREA, NR);
	mm_end(w, child);
	mm_activate(w->c, mm);
	mm_end(w, mm);
	world_end(w);
}

static void pages_move_by_hand(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);
	vaddr_t va[4] = { AREA, AREA + PAGES(1), AREA + PAGES(NR - 1), AREA + PAGES(NR) };
	int to[4] = { 1, 2, 1, 1 }, st[4];

	(void)state;
	map_at(w, mm, AREA, PAGES(NR), RW);
	fill(w, AREA, NR - 1);
	assert_ok((int)mm_move_pages(w->c, mm, 4, va, to, st, MPOL_MF_MOVE));
	assert_int_equal(st[0], 1);
	assert_int_equal(st[1], 2);
	assert_int_equal(st[2], -ENOENT);
	assert_int_equal(st[3], -EFAULT);
	assert_ok((int)mm_move_pages(w->c, mm, 2, va, NULL, st, 0));
	assert_int_equal(st[0], 1);
	assert_int_equal(node_at(w, mm, AREA + PAGES(1)), 2);
	to[0] = NODES;
	assert_int_equal(mm_move_pages(w->c, mm, 1, va, to, st, MPOL_MF_MOVE), -ENODEV);
	assert_int_equal(mm_move_pages(w->c, mm, 1, va, to, st, MPOL_MF_STRICT), -EINVAL);
	assert_ok((int)mm_migrate_pages(w->c, mm, 3, 4));
	for (unsigned i = 0; i < NR - 1; i++)
		assert_int_equal(node_at(w, mm, AREA + PAGES(i)), 2);
	assert_int_equal(mm_migrate_pages(w->c, mm, 1, 8), -EINVAL);
	check(w, AREA, NR - 1);
	mm_end(w, mm);
	world_end(w);
}

static void huge_pages_obey(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, 4 * MIB, RW);
	assert_ok((int)mm_mbind(w->c, mm, AREA, 4 * MIB, MPOL_INTERLEAVE, 6, 0));
	store(w, AREA, 100);
	store(w, AREA + 2 * MIB, 100);
	assert_true(info(mm, AREA).huge);
	assert_int_not_equal(node_at(w, mm, AREA), node_at(w, mm, AREA + 2 * MIB));
	assert_ok((int)mm_mbind(w->c, mm, AREA, 4 * MIB, MPOL_BIND, 1, MPOL_MF_MOVE | MPOL_MF_STRICT));
	assert_true(info(mm, AREA).huge);
	assert_int_equal(node_at(w, mm, AREA), 0);
	assert_int_equal(node_at(w, mm, AREA + 2 * MIB), 0);
	check(w, AREA, 1);
	mm_end(w, mm);
	world_end(w);
}

static void errors(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);
	uint64_t nodes = 0;
	const struct {
		unsigned mode;
		uint64_t nodes;
	} bad[] = { { NR_MPOL, 1 }, { MPOL_DEFAULT, 1 }, { MPOL_BIND, 0 }, { MPOL_BIND, 8 }, { MPOL_INTERLEAVE, 0 }, { MPOL_LOCAL, 1 },
		    { MPOL_PREFERRED | MPOL_F_STATIC_NODES, 0 }, { MPOL_INTERLEAVE | MPOL_F_NUMA_BALANCING, 1 },
		    { MPOL_BIND | MPOL_F_STATIC_NODES | MPOL_F_RELATIVE_NODES, 1 } };

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(mm_set_mempolicy(w->c, mm, bad[i].mode, bad[i].nodes), -EINVAL);
		assert_int_equal(bind(w, mm, AREA, 4, bad[i].mode, bad[i].nodes, 0), -EINVAL);
	}
	assert_int_equal(bind(w, mm, AREA + 1, 1, MPOL_BIND, 1, 0), -EINVAL);
	assert_int_equal(bind(w, mm, AREA, 1, MPOL_BIND, 1, 8), -EINVAL);
	assert_int_equal(bind(w, mm, AREA, 5, MPOL_BIND, 1, 0), -EFAULT);
	assert_ok((int)bind(w, mm, AREA, 0, MPOL_BIND, 1, 0));
	assert_int_equal(mm_get_mempolicy(w->c, mm, NULL, NULL, 0, MPOL_F_NODE), -EINVAL);
	assert_int_equal(mm_get_mempolicy(w->c, mm, NULL, NULL, AREA, 0), -EINVAL);
	assert_int_equal(mm_get_mempolicy(w->c, mm, NULL, NULL, 4096, MPOL_F_ADDR), -EFAULT);
	assert_ok((int)mm_get_mempolicy(w->c, mm, NULL, &nodes, 0, MPOL_F_MEMS_ALLOWED));
	assert_int_equal(nodes, 7);
	mm_end(w, mm);
	world_end(w);
}

static void hinting_asks_where(void **state)
{
	struct world *w = three();
	struct mm *mm = mm_new(w);
	struct cpu *far = w->m->cpus[2];
	struct frame *f;
	struct vma *v;

	(void)state;
	map_at(w, mm, AREA, PAGES(1), RW);
	fill(w, AREA, 1);
	f = frame_of(w->m, info(mm, AREA).pfn);
	v = vma_first(mm);
	assert_int_equal(mpol_misplaced(w->c, f, v, AREA), NID_NONE);
	assert_int_equal(mpol_misplaced(far, f, v, AREA), far->nid);
	assert_ok((int)bind(w, mm, AREA, 1, MPOL_BIND, 1, 0));
	assert_int_equal(mpol_misplaced(far, f, vma_first(mm), AREA), NID_NONE);
	assert_ok((int)bind(w, mm, AREA, 1, MPOL_BIND | MPOL_F_NUMA_BALANCING, 5, 0));
	assert_int_equal(mpol_misplaced(far, f, vma_first(mm), AREA), 2);
	mm_end(w, mm);
	world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(areas_place_their_pages), cmocka_unit_test(tasks_place_theirs_and_children_inherit),
		cmocka_unit_test(bind_ends_where_its_nodes_do), cmocka_unit_test(mbind_moves), cmocka_unit_test(pages_move_by_hand),
		cmocka_unit_test(huge_pages_obey), cmocka_unit_test(errors), cmocka_unit_test(hinting_asks_where),
	};

	return test_run(tests);
}
