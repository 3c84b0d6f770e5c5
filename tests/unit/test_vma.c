/*
 * Areas: the tree, merging, splitting, gaps, and a long random run against a naive oracle that keeps one record a page.
 * Invariants V1 to V4 are checked after every call.
 */
#include "vma_testing.h"

#include <stdio.h>

/* ---- tree ---- */

static void tree_stays_balanced(void **state)
{
	struct world w;
	struct rng r;

	(void)state;
	world_up(&w, NULL);
	rng_init(&r, 3, "tree");
	/* Every other page, so that nothing merges; then holes in random order. */
	for (unsigned i = 0; i < 400; i++)
		assert_true(map(&w, WIN + rng_below(&r, 4000) * 2 * PG, 1, RW, FIXED) > 0);
	for (unsigned i = 0; i < 4000; i += 1 + i % 3) {
		assert_int_equal(mm_munmap(w.c, w.mm, WIN + i * 2 * PG, PG), 0);
		world_check(&w);
	}
	for (unsigned i = 0; i < 1000; i++)
		assert_true(mm_mmap(w.c, w.mm, WIN + i * 2 * PG, PG, RW, FIXED, NULL, 0) > 0);
	world_check(&w);
	assert_true(w.mm->root->height <= 15); /* 1.44 log2(n) */
	world_down(&w);
}

static void find_gives_the_area_or_the_next(void **state)
{
	struct world w;
	struct vma *prev;

	(void)state;
	world_up(&w, NULL);
	assert_null(vma_find(w.c, w.mm, 0));
	map(&w, WIN, 2, RW, FIXED);
	map(&w, WIN + 4 * PG, 2, RW, FIXED);
	assert_int_equal(vma_find(w.c, w.mm, 0)->start, WIN);
	assert_int_equal(vma_find(w.c, w.mm, WIN + 2 * PG - 1)->start, WIN);
	assert_int_equal(vma_find(w.c, w.mm, WIN + 2 * PG)->start, WIN + 4 * PG);
	assert_null(vma_find(w.c, w.mm, WIN + 6 * PG));
	assert_null(vma_lookup(w.c, w.mm, WIN + 3 * PG));
	assert_null(vma_find_prev(w.c, w.mm, WIN + 6 * PG, &prev));
	assert_int_equal(prev->start, WIN + 4 * PG);
	assert_null(vma_prev(vma_find_prev(w.c, w.mm, WIN + 3 * PG, &prev) ? prev : NULL));
	world_down(&w);
}

static void lookups_are_charged_by_node(void **state)
{
	const struct null_path_count *n;
	struct world w;

	(void)state;
	world_up(&w, NULL);
	for (unsigned i = 0; i < 127; i++)
		map(&w, WIN + i * 2 * PG, 1, RW, FIXED);
	null_counts_reset(w.m);
	vma_find(w.c, w.mm, WIN);
	n = &null_counts(w.m)->path[PATH_VMA_FIND];
	assert_true(n->lines[TOUCH_READ] >= 6 && n->lines[TOUCH_READ] <= 9);
	assert_int_equal(n->units, n->lines[TOUCH_READ] + 1);
	assert_int_equal(n->lines[TOUCH_WRITE], 0);
	world_down(&w);
}

/* Breaks a field, expects the validator to notice, and repairs it. */
#define notices(w, field, value)                                                                                       \
	do {                                                                                                           \
		__typeof__(field) was_ = (field);                                                                      \
                                                                                                                       \
		(field) = (value);                                                                                     \
		assert_int_equal(vma_validate((w)->mm), -EINVAL);                                                      \
		(field) = was_;                                                                                        \
		assert_int_equal(vma_validate((w)->mm), 0);                                                            \
	} while (0)

static void validator_notices(void **state)
{
	struct world w;
	struct vma *v;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 2, RW, FIXED);
	map(&w, WIN + 2 * PG, 2, RO, FIXED);
	map(&w, WIN + 6 * PG, 2, RW, FIXED);
	map(&w, WIN + 10 * PG, 2, RW, FIXED);
	v = vma_find(w.c, w.mm, WIN + 2 * PG);
	notices(&w, v->start, WIN + PG);
	notices(&w, v->end, WIN + 8 * PG);
	notices(&w, v->end, v->start);
	notices(&w, v->gap, PG);
	notices(&w, v->subtree_gap, v->subtree_gap + PG);
	notices(&w, v->height, v->height + 1);
	notices(&w, v->flags, vma_first(w.mm)->flags); /* mergeable now, and data_vm is off */
	notices(&w, v->anon_id, 7);
	notices(&w, v->mm, NULL);
	notices(&w, w.mm->total_vm, w.mm->total_vm + 1);
	notices(&w, w.mm->locked_vm, 1);
	notices(&w, w.mm->data_vm, 1);
	notices(&w, w.mm->map_count, 3);
	world_down(&w);
}

/* ---- merging and splitting: strips in pages from WIN ---- */

static void neighbours_merge_on_mmap(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 4, RW, FIXED); /* [0 rw 4] */
	map(&w, WIN + 4 * PG, 4, RW, FIXED); /* left */
	assert_areas(&w, "0-8rw");
	map(&w, WIN + 12 * PG, 4, RW, FIXED);
	map(&w, WIN + 10 * PG, 2, RW, FIXED); /* right */
	assert_areas(&w, "0-8rw 10-16rw");
	map(&w, WIN + 8 * PG, 2, RW, FIXED); /* both */
	assert_areas(&w, "0-16rw");
	map(&w, WIN + 4 * PG, 2, RO, FIXED); /* a hole of other rights */
	assert_areas(&w, "0-4rw 4-6r 6-16rw");
	map(&w, WIN + 4 * PG, 2, RW, FIXED); /* and back: one area again */
	assert_areas(&w, "0-16rw");
	assert_int_equal(w.mm->map_count, 1);
	world_down(&w);
}

static void different_anon_ids_do_not_merge(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 2, RW, FIXED);
	map(&w, WIN + 4 * PG, 2, RW, FIXED);
	assert_int_equal(poke(&w, WIN, true), 0);
	assert_int_equal(poke(&w, WIN + 4 * PG, true), 0);
	map(&w, WIN + 2 * PG, 2, RW, FIXED); /* fits both sides, but they do not fit each other: the left one wins */
	assert_areas(&w, "0-4rw 4-6rw");
	assert_int_equal(vma_find(w.c, w.mm, WIN + 3 * PG)->start, WIN);
	world_down(&w);
}

static void neighbour_lends_its_anon_id(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 6, RW, FIXED);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 2 * PG, RO), 0);
	assert_areas(&w, "0-2rw 2-4r 4-6rw");
	/* Each part is touched by itself; the id wanders to the right neighbour first, so all get one. */
	assert_int_equal(poke(&w, WIN, true), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 2 * PG, RW | UAPI_PROT_EXEC), 0);
	assert_int_equal(poke(&w, WIN + 2 * PG, true), 0);
	assert_int_equal(poke(&w, WIN + 4 * PG, true), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 2 * PG, RW), 0);
	assert_areas(&w, "0-6rw");
	world_down(&w);
}

static void right_neighbour_lends_too(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 4, RW, FIXED);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 2 * PG, RW | UAPI_PROT_EXEC), 0);
	assert_int_equal(poke(&w, WIN + 2 * PG, true), 0);
	assert_int_equal(poke(&w, WIN, true), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 2 * PG, RW), 0);
	assert_areas(&w, "0-4rw");
	world_down(&w);
}

static void mprotect_splits_and_merges(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, FIXED);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 2 * PG, RO), 0); /* middle */
	assert_areas(&w, "0-2rw 2-4r 4-8rw");
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 4 * PG, PG, RO),
			 0); /* first page of an area joins the left one */
	assert_areas(&w, "0-2rw 2-5r 5-8rw");
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + PG, PG, RO), 0); /* last page joins the right one */
	assert_areas(&w, "0-1rw 1-5r 5-8rw");
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 8 * PG, RO), 0); /* several areas */
	assert_areas(&w, "0-8r");
	world_down(&w);
}

static void munmap_trims_and_punches(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 12, RW, FIXED);
	for (unsigned i = 0; i < 12; i++)
		assert_int_equal(poke(&w, WIN + i * PG, true), 0);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 4 * PG, 2 * PG), 0);
	assert_areas(&w, "0-4rw 6-12rw");
	assert_int_equal(vma_find(w.c, w.mm, WIN + 6 * PG)->pgoff, (WIN >> 12) + 6);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 3 * PG, 4 * PG), 0);
	assert_areas(&w, "0-3rw 7-12rw");
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 8);
	assert_int_equal(poke(&w, WIN + 3 * PG, true), -EFAULT);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN, 12 * PG), 0);
	assert_areas(&w, "");
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 0);
	assert_int_equal(w.mm->pgtables_bytes, PG); /* the top table alone */
	world_down(&w);
}

static void files_merge_by_offset(void **state)
{
	struct world w;
	struct mfile *f, *g;

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(file_create(w.c, w.q, 1, 64 * PG, false, &f), 0);
	assert_int_equal(file_create(w.c, w.q, 2, 64 * PG, false, &g), 0);
	mm_mmap(w.c, w.mm, WIN, 2 * PG, RO, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, 0);
	mm_mmap(w.c, w.mm, WIN + 2 * PG, 2 * PG, RO, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, 2 * PG); /* continues */
	mm_mmap(w.c, w.mm, WIN + 4 * PG, 2 * PG, RO, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, 5 * PG); /* does not */
	mm_mmap(w.c, w.mm, WIN + 6 * PG, 2 * PG, RO, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, g, 7 * PG); /* another file */
	mm_mmap(w.c, w.mm, WIN + 8 * PG, 2 * PG, RO, UAPI_MAP_SHARED | UAPI_MAP_FIXED, g, 9 * PG); /* shared */
	assert_areas(&w, "0-4r 4-6r 6-8r 8-10rs");
	assert_int_equal(f->refs, 3);
	assert_int_equal(g->refs, 3);
	mm_munmap(w.c, w.mm, WIN + PG, PG);
	assert_int_equal(f->refs, 4);
	mm_munmap(w.c, w.mm, WIN, 8 * PG);
	assert_int_equal(f->refs, 1);
	file_put(w.c, f);
	file_put(w.c, g);
	world_down(&w);
}

static void fork_leaves_areas_apart(void **state)
{
	struct world w;
	struct mm *child;
	struct vma *v;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 12, RW, FIXED);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + 4 * PG, 4 * PG, false), 0);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 10 * PG, 2 * PG, UAPI_MADV_DONTFORK), 0);
	assert_areas(&w, "0-4rw 4-8rwL 8-10rw 10-12rwD");
	assert_int_equal(mm_fork(w.c, w.mm, &child), 0);
	assert_int_equal(vma_validate(child), 0);
	assert_int_equal(child->map_count, 3); /* the lock is gone, the border is not */
	assert_int_equal(child->locked_vm, 0);
	assert_int_equal(child->total_vm, 10);
	assert_int_equal(w.q->committed_pages, 22);
	v = vma_next(vma_first(child));
	assert_true(v->anon_touched && v->anon_forked);
	assert_int_not_equal(v->anon_id, vma_next(vma_first(w.mm))->anon_id);
	/* The next change of the neighbourhood merges what may merge. */
	assert_int_equal(mm_mprotect(w.c, child, WIN, 10 * PG, RO), 0);
	if (vma_validate(child))
		fail_msg("%s", w.q->err);
	mm_put(w.c, child);
	world_down(&w);
}

/* In the child: areas that fork copied do not merge with fresh ones, except with what mremap brings along. */
static void forked_areas_keep_to_themselves(void **state)
{
	struct mm *parent, *child;
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 4, RW, FIXED);
	map(&w, WIN + 8 * PG, 2, RW, FIXED);
	map(&w, WIN + 20 * PG, 2, RW, FIXED);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 20 * PG, 2 * PG, UAPI_MADV_WIPEONFORK), 0);
	assert_int_equal(poke(&w, WIN, true), 0);
	assert_int_equal(poke(&w, WIN + 20 * PG, true), 0);
	assert_int_equal(mm_fork(w.c, w.mm, &child), 0);
	parent = w.mm;
	w.mm = w.task.mm = child;
	mm_activate(w.c, child);
	assert_false(vma_find(w.c, child, WIN + 20 * PG)->anon_touched); /* wiped */
	map(&w, WIN + 4 * PG, 1, RW, FIXED);
	assert_areas(&w, "0-4rw 4-5rw 8-10rw 20-22rwW");
	/* Both halves of a split are forked. */
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 4 * PG, PG), 0);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + PG, PG), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 3 * PG, PG, RO), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 3 * PG, PG, RW), 0);
	map(&w, WIN + 4 * PG, 1, RO, FIXED);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 2 * PG, RO), 0);
	assert_areas(&w, "0-1rw 2-4r 4-5r 8-10rw 20-22rwW");
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 3 * PG, PG, RW), 0);
	map(&w, WIN + 4 * PG, 1, RW, FIXED);
	assert_areas(&w, "0-1rw 2-3r 3-4rw 4-5rw 8-10rw 20-22rwW");
	/* Growing up to an untouched area merges with it nevertheless. */
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 4 * PG, PG), 0);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 3 * PG, PG, 5 * PG, 0, 0), WIN + 3 * PG);
	assert_areas(&w, "0-1rw 2-3r 3-10rw 20-22rwW");
	w.mm = w.task.mm = parent;
	mm_activate(w.c, parent);
	mm_put(w.c, child);
	world_down(&w);
}

/* ---- gaps ---- */

/* The highest (or lowest) page in [low, high) from which len pages are free, by trying them all; guards included. */
static int64_t naive_gap(struct world *w, uint64_t len, vaddr_t low, vaddr_t high)
{
	for (vaddr_t a = high - len; a >= low; a -= PG) {
		bool ok = true;

		for (struct vma *v = vma_first(w->mm); v && ok; v = vma_next(v))
			ok = a + len <= vma_start_gap(v) || a >= v->end;
		if (ok)
			return (int64_t)a;
	}
	return -ENOMEM;
}

static void topdown_finds_the_highest_gap(void **state)
{
	struct world w;
	struct rng r;
	vaddr_t base;

	(void)state;
	world_up(&w, NULL);
	rng_init(&r, 5, "gaps");
	w.mm->mmap_base = base = WIN + 600 * PG;
	for (unsigned i = 0; i < 300; i++) {
		uint64_t len = 1 + rng_below(&r, 12);
		int64_t want = naive_gap(&w, len * PG, WIN, base);

		if (want > 0)
			assert_int_equal(map(&w, 0, len, RW, ANON), want);
		if (rng_below(&r, 4))
			mm_munmap(w.c, w.mm, WIN + rng_below(&r, 600) * PG, (1 + rng_below(&r, 20)) * PG);
		world_check(&w);
	}
	world_down(&w);
}

static void stack_guard_stays_free(void **state)
{
	struct world w;
	vaddr_t base;

	(void)state;
	world_up(&w, NULL);
	base = w.mm->mmap_base;
	assert_int_equal(map(&w, base - 2 * PG, 2, RW, FIXED | UAPI_MAP_GROWSDOWN), base - 2 * PG);
	assert_int_equal(map(&w, 0, 1, RW, ANON), base - 259 * PG);
	/* A hint inside the guard is not taken, MAP_FIXED is. */
	assert_int_equal(map(&w, base - 100 * PG, 1, RO, ANON), base - 260 * PG);
	assert_int_equal(map(&w, base - 100 * PG, 1, RO, FIXED), base - 100 * PG);
	world_down(&w);
}

static void large_maps_are_aligned(void **state)
{
	struct world w;
	vaddr_t base, at;

	(void)state;
	world_up(&w, NULL);
	base = w.mm->mmap_base; /* ends in ...fff000: not aligned */
	at = (vaddr_t)map(&w, 0, 1024, RW, ANON);
	assert_int_equal(at, ALIGN_DOWN(base, PMD_SIZE) - 4 * (1ULL << 20));
	/* From an aligned top it goes right below, without a gap, and merges. */
	assert_int_equal(map(&w, 0, 512, RW, ANON), at - PMD_SIZE);
	assert_int_equal(w.mm->map_count, 1);
	/* Not a multiple of 2 MiB: the highest place that fits, above. */
	assert_int_equal(map(&w, 0, 3, RW, ANON), base - 3 * PG);
	assert_int_equal(map(&w, 0, 513, RW, ANON), at - PMD_SIZE - 513 * PG);
	w.q->knobs.thp_align_mmap = false;
	assert_int_equal(map(&w, 0, 512, RO, ANON), at - PMD_SIZE - 513 * PG - PMD_SIZE);
	world_down(&w);
}

static void bottomup_and_low_addresses(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(map(&w, 0, 16, RW, ANON | UAPI_MAP_32BIT), 0x40000000);
	assert_int_equal(map(&w, 0, 16, RO, ANON | UAPI_MAP_32BIT), 0x40010000);
	assert_int_equal(map(&w, 0x50000000, 16, RO, ANON | UAPI_MAP_32BIT), 0x50000000);
	assert_int_equal(map(&w, 0, 1 << 19, RO, ANON | UAPI_MAP_32BIT), -ENOMEM);
	/* The whole area below mmap_base is full: the search from below is tried above it. */
	w.mm->mmap_base = 1ULL << 30;
	assert_int_equal(map(&w, 0, 1 << 18, RO, ANON), ALIGN_UP(TASK_SIZE / 3, PMD_SIZE));
	world_down(&w);
}

/* ---- against a record a page ---- */

#define NPAGES 96U

struct page_rec {
	bool mapped;
	uint64_t flags, pgoff, anon_id;
	bool touched;
	const struct mfile *file;
};

struct oracle {
	uint64_t seed;
	struct page_rec p[NPAGES];
};

static bool rec_joins(const struct page_rec *a, const struct page_rec *b, bool a_touched, uint64_t a_id)
{
	if (!a->mapped || !b->mapped || a->flags != b->flags || a->file != b->file || a->pgoff + 1 != b->pgoff)
		return false;
	return !a_touched || !b->touched || a_id == b->anon_id;
}

/* Derive areas from the pages, greedily from below; pages of an area share what one of them brings. */
static unsigned oracle_areas(struct oracle *o, unsigned *start, unsigned *end)
{
	unsigned n = 0;

	for (unsigned i = 0; i < NPAGES;) {
		bool touched = o->p[i].touched;
		uint64_t id = o->p[i].anon_id;
		unsigned j = i + 1;

		if (!o->p[i].mapped) {
			i++;
			continue;
		}
		for (; j < NPAGES && rec_joins(&o->p[j - 1], &o->p[j], touched, id); j++) {
			touched = touched || o->p[j].touched;
			id = id ? id : o->p[j].anon_id;
		}
		start[n] = i;
		end[n++] = j;
		for (; i < j; i++) {
			o->p[i].touched = touched;
			o->p[i].anon_id = id;
		}
	}
	return n;
}

static void oracle_compare(struct world *w, struct oracle *o, unsigned step, const char *what)
{
	unsigned start[NPAGES], end[NPAGES], n = oracle_areas(o, start, end), i = 0;

	for (struct vma *v = vma_first(w->mm); v; v = vma_next(v), i++) {
		const struct page_rec *r;

		if (i >= n || v->start != WIN + start[i] * PG || v->end != WIN + end[i] * PG)
			fail_msg("QUIRE_SEED=%llu step %u %s: area %u is %llu-%llu, expected %u-%u",
				 (unsigned long long)o->seed, step, what, i, (unsigned long long)(v->start - WIN) >> 12,
				 (unsigned long long)(v->end - WIN) >> 12, i < n ? start[i] : 0, i < n ? end[i] : 0);
		r = &o->p[start[i]];
		if (v->flags != r->flags || v->file != r->file || v->pgoff != r->pgoff ||
		    v->anon_touched != r->touched || v->anon_id != r->anon_id)
			fail_msg("QUIRE_SEED=%llu step %u %s: area %u differs in kind", (unsigned long long)o->seed,
				 step, what, i);
	}
	assert_int_equal(i, n);
}

static void oracle_map(struct oracle *o, unsigned at, unsigned n, uint64_t flags, const struct mfile *f, uint64_t off)
{
	for (unsigned i = 0; i < n; i++)
		o->p[at + i] = (struct page_rec){
			.mapped = true, .flags = flags, .file = f, .pgoff = f ? off + i : (WIN >> 12) + at + i
		};
}

static uint64_t oracle_flags(unsigned prot)
{
	uint64_t f = vm_prot_flags(prot) | VM_MAY_MASK;

	return vm_accountable(f) ? f | VM_ACCOUNT : f;
}

static int oracle_protect(struct oracle *o, unsigned at, unsigned n, unsigned prot)
{
	for (unsigned i = at; i < at + n; i++) {
		struct page_rec *r = &o->p[i];
		uint64_t f = (r->flags & ~VM_ACCESS_FLAGS) | vm_prot_flags(prot);

		if (!r->mapped)
			return -ENOMEM;
		if (f != r->flags && (f & VM_WRITE) && !(r->flags & (VM_WRITE | VM_SHARED | VM_ACCOUNT)))
			f |= VM_ACCOUNT;
		else if (f != r->flags && !(f & VM_WRITE) && !r->file && !r->touched)
			f &= ~VM_ACCOUNT;
		r->flags = f;
	}
	return 0;
}

static int oracle_advise(struct oracle *o, unsigned at, unsigned n, int advice)
{
	int ret = 0;

	for (unsigned i = at; i < at + n; i++) {
		struct page_rec *r = &o->p[i];

		if (!r->mapped)
			ret = -ENOMEM;
		else if (advice == UAPI_MADV_SEQUENTIAL)
			r->flags = (r->flags & ~VM_RAND_READ) | VM_SEQ_READ;
		else if (advice == UAPI_MADV_NORMAL)
			r->flags &= ~(VM_RAND_READ | VM_SEQ_READ);
		else if (advice == UAPI_MADV_NOHUGEPAGE)
			r->flags |= VM_NOHUGEPAGE;
	}
	return ret;
}

/* MREMAP_FIXED of n pages from a to b, new length n too; the caller has made sure that the source is one area. */
static void oracle_move(struct oracle *o, unsigned a, unsigned b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		o->p[b + i] = o->p[a + i];
		if (!o->p[a].file && !o->p[a].touched)
			o->p[b + i].pgoff = (WIN >> 12) + b + i;
	}
	for (unsigned i = 0; i < n; i++)
		o->p[a + i].mapped = false;
}

static void oracle_touch(struct world *w, struct oracle *o, unsigned at)
{
	struct vma *v;

	if (poke(w, WIN + at * PG, true))
		return;
	v = vma_find(w->c, w->mm, WIN + at * PG);
	o->p[at].touched = v->anon_touched; /* the lending rule is checked against the kernel in test_mmap */
	o->p[at].anon_id = v->anon_id;
}

static bool one_area(struct world *w, vaddr_t from, vaddr_t to)
{
	struct vma *v = vma_lookup(w->c, w->mm, from);

	return v && v->end >= to;
}

static const char *random_step(struct world *w, struct oracle *o, struct rng *r, struct mfile *f)
{
	static const unsigned prots[] = { 0, RO, RW, RW | UAPI_PROT_EXEC };
	static const int advices[] = { UAPI_MADV_SEQUENTIAL, UAPI_MADV_NORMAL, UAPI_MADV_NOHUGEPAGE,
				       UAPI_MADV_DONTNEED };
	unsigned at = (unsigned)rng_below(r, NPAGES), n = 1 + (unsigned)rng_below(r, MIN(16U, NPAGES - at));
	unsigned prot = prots[rng_below(r, 4)], to;
	vaddr_t va = WIN + at * PG;
	int advice;

	switch (rng_below(r, 10)) {
	case 0:
	case 1:
	case 2:
		assert_int_equal(mm_mmap(w->c, w->mm, va, n * PG, prot, FIXED, NULL, 0), va);
		oracle_map(o, at, n, oracle_flags(prot), NULL, 0);
		return "mmap";
	case 3:
		assert_int_equal(mm_mmap(w->c, w->mm, va, n * PG, prot, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f, at * PG),
				 va);
		oracle_map(o, at, n, oracle_flags(prot), f, at);
		return "mmap of a file";
	case 4:
		assert_int_equal(mm_munmap(w->c, w->mm, va, n * PG), 0);
		for (unsigned i = 0; i < n; i++)
			o->p[at + i].mapped = false;
		return "munmap";
	case 5:
	case 6:
		assert_int_equal(mm_mprotect(w->c, w->mm, va, n * PG, prot), oracle_protect(o, at, n, prot));
		return "mprotect";
	case 7:
		advice = advices[rng_below(r, 4)];
		assert_int_equal(mm_madvise(w->c, w->mm, va, n * PG, advice), oracle_advise(o, at, n, advice));
		return "madvise";
	case 8:
		to = (unsigned)rng_below(r, NPAGES - n + 1);
		if ((to < at + n && at < to + n) || !one_area(w, va, va + n * PG))
			return "nothing";
		assert_int_equal(mm_mremap(w->c, w->mm, va, n * PG, n * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
					   WIN + to * PG),
				 WIN + to * PG);
		oracle_move(o, at, to, n);
		return "mremap";
	default:
		oracle_touch(w, o, at);
		return "write";
	}
}

static void random_calls_against_pages(void **state)
{
	struct world w;
	struct mfile *f;
	struct rng r;

	(void)state;
	for (uint64_t seed = test_seed(1), last = seed + 12; seed < last; seed++) {
		static struct oracle o;

		memset(&o, 0, sizeof(o));
		o.seed = seed;
		world_up(&w, NULL);
		assert_int_equal(file_create(w.c, w.q, 9, NPAGES * PG, false, &f), 0);
		rng_init(&r, seed, "calls");
		for (unsigned step = 0; step < 1500; step++) {
			const char *what = random_step(&w, &o, &r, f);

			world_check(&w);
			oracle_compare(&w, &o, step, what);
			if (step % 64 == 0 && mm_validate(w.mm))
				fail_msg("seed %u step %u: %s", (unsigned)seed, step, w.q->err);
		}
		file_put(w.c, f);
		world_down(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_stays_balanced),	       cmocka_unit_test(find_gives_the_area_or_the_next),
		cmocka_unit_test(lookups_are_charged_by_node), cmocka_unit_test(validator_notices),
		cmocka_unit_test(neighbours_merge_on_mmap),    cmocka_unit_test(different_anon_ids_do_not_merge),
		cmocka_unit_test(right_neighbour_lends_too),   cmocka_unit_test(forked_areas_keep_to_themselves),
		cmocka_unit_test(neighbour_lends_its_anon_id), cmocka_unit_test(mprotect_splits_and_merges),
		cmocka_unit_test(munmap_trims_and_punches),    cmocka_unit_test(files_merge_by_offset),
		cmocka_unit_test(fork_leaves_areas_apart),     cmocka_unit_test(topdown_finds_the_highest_gap),
		cmocka_unit_test(stack_guard_stays_free),      cmocka_unit_test(large_maps_are_aligned),
		cmocka_unit_test(bottomup_and_low_addresses),  cmocka_unit_test(random_calls_against_pages),
	};

	return test_run(tests);
}
