/*
 * The reverse map: who is found from a folio, through forks, splits, merges and moves; files; what walks are asked; and that
 * nothing is left or lost when memory runs out at any point. quire_validate compares every walk with a walk of all page tables.
 */
#include "paging_world.h"

#include "machine/inject.h"
#include "mm/anon_vma.h"
#include "mm/pagetable.h"
#include "mm/rmap.h"
#include "mm/rmap_walk.h"
#include "base/rng.h"

#include <string.h>

#define PRIVATE (UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED)

static struct frame *folio_at(struct world *w, struct mm *mm, vaddr_t va)
{
	struct mm_page_info i = info(mm, va);

	assert_true(i.present);
	return frame_head(w->m, frame_of(w->m, i.pfn));
}

struct seen {
	unsigned areas, entries, pmds, shared, migrating;
	unsigned flags;
	struct mm *mm[8];
	vaddr_t va[8];
};

static bool see(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct seen *s = arg;
	struct pvmw w = pvmw_begin(c, folio, v, va, s->flags);

	s->areas++;
	while (pvmw_next(&w)) {
		if (s->entries < 8) {
			s->mm[s->entries] = v->mm;
			s->va[s->entries] = w.va;
		}
		s->entries++;
		s->pmds += w.is_pmd;
		s->shared += w.shared_table;
		s->migrating += !pte_present(w.entry);
		assert_true(c->lock_depth > 0);
	}
	return true;
}

static struct seen walk(struct world *w, struct frame *folio)
{
	struct seen s = { 0 };
	struct rmap_walk how = { .arg = &s, .one = see };

	rmap_walk(w->c, folio, &how);
	assert_int_equal(w->c->lock_depth, 0);
	return s;
}

static uint64_t in_use(struct world *w, enum slab_id id)
{
	uint64_t n = w->q->slab[id].nr_objects;

	for (unsigned i = 0; i < w->m->nr_cpus; i++)
		n -= w->q->percpu[i]->magazine[id].count;
	return n;
}

static struct mm *fork_of(struct world *w, struct mm *mm)
{
	struct mm *child;

	assert_ok(mm_fork(w->c, mm, &child));
	return child;
}

/* ---- interval tree ---- */

#define NODES 200U

static void intervals(void **state)
{
	static struct interval_node n[NODES];
	struct interval_tree t = { 0 };
	struct rng r;

	(void)state;
	rng_init(&r, 5, "intervals");
	memset(n, 0, sizeof(n));
	for (unsigned step = 0; step < 6000; step++) {
		struct interval_node *x = &n[rng_below(&r, NODES)];
		uint64_t from = rng_below(&r, 300), to = from + rng_below(&r, 20), found = 0, before = 0;

		if (interval_linked(x)) {
			interval_remove(NULL, &t, x);
		} else {
			x->start = rng_below(&r, 300);
			x->last = x->start + (rng_below(&r, 10) ? rng_below(&r, 10) : rng_below(&r, 200));
			interval_insert(NULL, &t, x);
		}
		assert_true(interval_ok(&t));
		for (struct interval_node *i = interval_first(NULL, &t, from, to); i; i = interval_next(NULL, i, from, to)) {
			assert_true(i->start <= to && i->last >= from && i->start >= before && interval_linked(i));
			before = i->start;
			found++;
		}
		for (unsigned i = 0; i < NODES; i++)
			found -= interval_linked(&n[i]) && n[i].start <= to && n[i].last >= from;
		assert_int_equal(found, 0);
	}
	assert_true(t.root->height <= 11);
}

/* ---- forks ---- */

static void families(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child, *sister, *grandchild;
	struct frame *old, *young;
	struct seen s;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA + PAGES(2), 1);
	old = folio_at(w, mm, AREA + PAGES(2));
	s = walk(w, old);
	assert_int_equal(s.areas, 1);
	assert_int_equal(s.entries, 1);
	assert_ptr_equal(s.mm[0], mm);
	assert_int_equal(s.va[0], AREA + PAGES(2));
	child = fork_of(w, mm);
	grandchild = fork_of(w, child);
	sister = fork_of(w, mm);
	s = walk(w, old);
	assert_int_equal(s.entries, 4);
	assert_int_equal(folio_mapcount(old), 4);
	assert_int_equal(folio_expected_refs(old), 4);
	world_check(w);
	/* What the child makes is looked for in the child and its own children only. */
	mm_activate(w->c, child);
	store(w, AREA + PAGES(3), 2);
	young = folio_at(w, child, AREA + PAGES(3));
	s = walk(w, young);
	assert_int_equal(s.areas, 2);
	assert_int_equal(s.entries, 1);
	/* The middle goes: the others are still found. */
	mm_activate(w->c, NULL);
	mm_put(w->c, child);
	world_check(w);
	assert_int_equal(walk(w, old).entries, 3);
	mm_put(w->c, mm);
	world_check(w);
	assert_int_equal(walk(w, old).entries, 2);
	/* The last owner takes it over at his write: his own tree has one area. */
	mm_put(w->c, sister);
	mm_activate(w->c, grandchild);
	store(w, AREA + PAGES(2), 3);
	assert_ptr_equal(folio_at(w, grandchild, AREA + PAGES(2)), old);
	assert_ptr_equal((void *)(uintptr_t)(old->mapping - MAPPING_ANON), vma_first(grandchild)->anon_vma);
	world_check(w);
	mm_end(w, grandchild);
	assert_int_equal(in_use(w, SLAB_ANON_VMA) + in_use(w, SLAB_ANON_VMA_CHAIN), 0);
	world_end(w);
}

/* A line of forks whose elders go at once: their anon_vmas are used again. */
static void lines(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *next;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	store(w, AREA, 1);
	for (unsigned i = 0; i < 40; i++) {
		next = fork_of(w, mm);
		mm_end(w, mm);
		mm = next;
		mm_activate(w->c, mm);
		store(w, AREA + PAGES(i % 8), i);
		world_check(w);
		assert_true(in_use(w, SLAB_ANON_VMA) <= 3);
		assert_true(in_use(w, SLAB_ANON_VMA_CHAIN) <= 3);
	}
	mm_end(w, mm);
	world_end(w);
}

static void references(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct anon_vma *av, *again;
	struct frame *f;

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 1);
	f = folio_at(w, mm, AREA);
	frame_get(w->c, f);
	av = folio_get_anon_vma(w->c, f);
	assert_ptr_equal(av, vma_first(mm)->anon_vma);
	assert_int_equal(av->refcount, 2);
	again = folio_lock_anon_vma_read(w->c, f);
	assert_ptr_equal(again, av);
	folio_unlock_anon_vma_read(w->c, av);
	assert_int_equal(av->refcount, 2);
	assert_int_equal(mm_munmap(w->c, mm, AREA, PAGES(4)), 0);
	/* The page leads to what is only held by us, and says so to nobody. */
	assert_null(folio_get_anon_vma(w->c, f));
	assert_null(folio_lock_anon_vma_read(w->c, f));
	assert_int_equal(walk(w, f).areas, 0);
	assert_int_equal(av->refcount, 1);
	anon_vma_put(w->c, av);
	assert_int_equal(av->refcount, 0); /* its memory stays what it was */
	assert_int_equal(in_use(w, SLAB_ANON_VMA), 0);
	/* The same object again, for somebody else: the old page does not lead there. */
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 1);
	assert_ptr_equal(vma_first(mm)->anon_vma, av);
	assert_null(folio_get_anon_vma(w->c, f));
	assert_int_equal(av->refcount, 1);
	frame_put(w->c, f);
	mm_end(w, mm);
	world_end(w);
}

/* ---- splits, merges, moves ---- */

static void pieces(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct frame *f[8];
	struct seen s;

	(void)state;
	map_at(w, mm, AREA, PAGES(8), RW);
	for (unsigned i = 0; i < 8; i++) {
		store(w, AREA + PAGES(i), i);
		f[i] = folio_at(w, mm, AREA + PAGES(i));
	}
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(2), PAGES(4), UAPI_PROT_READ)); /* three areas */
	world_check(w);
	child = fork_of(w, mm);
	for (unsigned i = 0; i < 8; i++) {
		s = walk(w, f[i]);
		assert_int_equal(s.areas, 2);
		assert_int_equal(s.entries, 2);
	}
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(4), PAGES(2), RW)); /* a part joins the area above */
	world_check(w);
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(2), PAGES(2), RW)); /* one area */
	assert_int_equal(mm->map_count, 1);
	world_check(w);
	assert_ok(mm_munmap(w->c, mm, AREA + PAGES(3), PAGES(2))); /* a hole */
	world_check(w);
	assert_int_equal(walk(w, f[3]).entries, 1);
	assert_int_equal(walk(w, f[5]).entries, 2);
	/* Moved pages keep their offsets; the child's stay. */
	assert_int_equal(mm_mremap(w->c, mm, AREA + PAGES(5), PAGES(2), PAGES(2), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + PAGES(100)),
			 (int64_t)(AREA + PAGES(100)));
	world_check(w);
	s = walk(w, f[6]);
	assert_int_equal(s.entries, 2);
	assert_true(s.va[0] == AREA + PAGES(101) || s.va[1] == AREA + PAGES(101));
	assert_int_equal(walk(w, f[7]).entries, 2);
	assert_int_equal(mm_mremap(w->c, mm, AREA + PAGES(100), PAGES(2), PAGES(2),
				   UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP, AREA + PAGES(200)),
			 (int64_t)(AREA + PAGES(200)));
	world_check(w);
	assert_int_equal(walk(w, f[6]).entries, 2);
	mm_put(w->c, child);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* An untouched neighbour gets a part of a touched area: both have links to its pages afterwards. */
static void part_to_untouched(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW | UAPI_PROT_EXEC);
	map_at(w, mm, AREA + PAGES(4), PAGES(4), RW);
	store(w, AREA + PAGES(4), 1);
	store(w, AREA + PAGES(7), 1);
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(4), PAGES(2), RW | UAPI_PROT_EXEC));
	assert_int_equal(mm->map_count, 2);
	assert_ptr_equal(vma_first(mm)->anon_vma, vma_next(vma_first(mm))->anon_vma);
	world_check(w);
	map_at(w, mm, AREA + PAGES(8), PAGES(4), RW | UAPI_PROT_EXEC);
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(7), PAGES(1), RW | UAPI_PROT_EXEC)); /* upwards */
	world_check(w);
	/* A touched one that fills the hole between two that are not: they take its links as it goes. */
	map_at(w, mm, AREA + PAGES(20), PAGES(2), RW);
	map_at(w, mm, AREA + PAGES(22), PAGES(2), RW | UAPI_PROT_EXEC);
	map_at(w, mm, AREA + PAGES(24), PAGES(2), RW);
	store(w, AREA + PAGES(22), 1);
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(22), PAGES(2), RW));
	assert_int_equal(mm->map_count, 4);
	world_check(w);
	mm_end(w, mm);
	world_end(w);
}

/* ---- huge pages ---- */

static void huge(void **state)
{
	struct world *w = world_new(1, 256 * MIB);
	struct mm *mm, *child;
	struct frame *f;
	struct seen s;

	(void)state;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	mm = mm_new(w);
	map_at(w, mm, AREA, 2 * PMD_SIZE, RW);
	store(w, AREA, 1);
	f = folio_at(w, mm, AREA);
	assert_int_equal(frame_nr_pages(f), HPAGE_PMD_NR);
	child = fork_of(w, mm);
	s = walk(w, f);
	assert_int_equal(s.entries, 2);
	assert_int_equal(s.pmds, 2);
	world_check(w);
	/* The parent's is split and cut in two areas, with a hole between them. */
	assert_ok(mm_munmap(w->c, mm, AREA + PAGES(10), PAGES(2)));
	s = walk(w, f);
	assert_int_equal(s.areas, 3);
	assert_int_equal(s.entries, 1 + HPAGE_PMD_NR - 2);
	assert_int_equal(s.pmds, 1);
	assert_int_equal(folio_mapcount(f), 1 + HPAGE_PMD_NR - 2);
	world_check(w);
	/* A part moves elsewhere, to where entries and tables begin otherwise. */
	assert_true(mm_mremap(w->c, mm, AREA + PAGES(20), PAGES(30), PAGES(30), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
			      AREA + 4 * PMD_SIZE - PAGES(7)) > 0);
	assert_int_equal(walk(w, f).entries, 1 + HPAGE_PMD_NR - 2);
	world_check(w);
	mm_put(w->c, child);
	assert_int_equal(walk(w, f).entries, HPAGE_PMD_NR - 2);
	mm_end(w, mm);
	world_end(w);
}

/* ---- tables that fork shares ---- */

static void shared_tables(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct frame *f;
	struct seen s;
	uint64_t vm_flags;

	(void)state;
	w->q->knobs.fork_tables = FORK_TABLES_SHARED;
	map_at(w, mm, AREA, PMD_SIZE, RW);
	store(w, AREA, 1);
	store(w, AREA + PAGES(1), 1);
	f = folio_at(w, mm, AREA);
	child = fork_of(w, mm);
	s = walk(w, f);
	assert_int_equal(folio_mapcount(f), 1);
	assert_int_equal(s.entries, 2); /* one entry, by both who share it */
	assert_int_equal(s.shared, 2);
	assert_true(folio_referenced(w->c, f, &vm_flags) >= 1);
	world_check(w);
	store(w, AREA + PAGES(1), 2);
	s = walk(w, f);
	assert_int_equal(folio_mapcount(f), 2);
	assert_int_equal(s.entries, 2);
	assert_int_equal(s.shared, 1); /* the child's: it is the only sharer left */
	world_check(w);
	mm_put(w->c, child);
	mm_end(w, mm);
	world_end(w);
}

/* ---- files ---- */

static int64_t map_file(struct world *w, struct mm *mm, vaddr_t va, uint64_t len, unsigned type, struct mfile *file, uint64_t page)
{
	return mm_mmap(w->c, mm, va, len, RW, type | UAPI_MAP_FIXED, file, PAGES(page));
}

static void files(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct mfile *file;
	struct frame *f, *copy;

	(void)state;
	w->q->knobs.fault_around_bytes = PAGE_SIZE;
	assert_ok(file_create(w->c, w->q, 77, PAGES(64), false, &file));
	assert_int_equal(map_file(w, mm, AREA, PAGES(16), UAPI_MAP_SHARED, file, 8), (int64_t)AREA);
	assert_int_equal(map_file(w, mm, AREA + PAGES(100), PAGES(16), UAPI_MAP_PRIVATE, file, 0), (int64_t)(AREA + PAGES(100)));
	(void)load(w, AREA);
	(void)load(w, AREA + PAGES(108));
	f = folio_at(w, mm, AREA);
	assert_ptr_equal(folio_at(w, mm, AREA + PAGES(108)), f);
	assert_int_equal(walk(w, f).entries, 2);
	assert_int_equal(folio_expected_refs(f), 3);
	child = fork_of(w, mm); /* refaults by itself */
	assert_int_equal(walk(w, f).areas, 4);
	assert_int_equal(walk(w, f).entries, 2);
	world_check(w);
	/* A private copy is anonymous: its offset is the file's. */
	store(w, AREA + PAGES(108), 5);
	copy = folio_at(w, mm, AREA + PAGES(108));
	assert_int_equal(copy->index, 8);
	assert_int_equal(walk(w, copy).entries, 1);
	assert_int_equal(walk(w, f).entries, 1);
	world_check(w);
	/* Cleaning protects the shared one; the next write faults again. */
	store(w, AREA, 6);
	assert_true(info(mm, AREA).writable);
	assert_int_equal(folio_mkclean(w->c, f), 1);
	assert_false(info(mm, AREA).writable || info(mm, AREA).dirty);
	assert_int_equal(folio_mkclean(w->c, f), 0);
	store(w, AREA, 7);
	assert_true(info(mm, AREA).writable && info(mm, AREA).dirty);
	/* Cut, moved, merged again. */
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(4), PAGES(4), UAPI_PROT_READ));
	world_check(w);
	assert_true(mm_mremap(w->c, mm, AREA, PAGES(2), PAGES(2), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + PAGES(300)) > 0);
	world_check(w);
	assert_int_equal(walk(w, f).va[0], AREA + PAGES(300));
	assert_ok(mm_mprotect(w->c, mm, AREA + PAGES(2), PAGES(14), RW));
	world_check(w);
	mm_put(w->c, child);
	mm_end(w, mm);
	assert_int_equal(walk(w, f).areas, 0);
	file_put(w->c, file);
	world_end(w);
}

/* ---- asked of walks ---- */

static void used(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	uint64_t vm_flags;
	struct frame *f;

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA, 1);
	f = folio_at(w, mm, AREA);
	child = fork_of(w, mm); /* the child's entry is not accessed yet */
	assert_int_equal(folio_referenced(w->c, f, &vm_flags), 1);
	assert_true(vm_flags & VM_WRITE);
	assert_int_equal(folio_referenced(w->c, f, &vm_flags), 0);
	assert_int_equal(vm_flags, 0);
	tlb_flush_mm_range(w->c, mm, AREA, AREA + PAGES(1), PAGE_SHIFT, false); /* so that the walker comes to the entry again */
	(void)load(w, AREA);
	mm_activate(w->c, child);
	(void)load(w, AREA);
	assert_int_equal(folio_referenced(w->c, f, &vm_flags), 2);
	/* Who reads in order does not count. */
	assert_ok(mm_madvise(w->c, child, AREA, PAGES(4), UAPI_MADV_SEQUENTIAL));
	tlb_flush_mm_range(w->c, child, AREA, AREA + PAGES(1), PAGE_SHIFT, false);
	(void)load(w, AREA);
	assert_int_equal(folio_referenced(w->c, f, &vm_flags), 0);
	assert_ok(mm_mlock(w->c, mm, AREA, PAGES(1), false));
	assert_true(folio_referenced(w->c, folio_at(w, mm, AREA), &vm_flags) >= 1); /* a page of its own, for mlock breaks the sharing */
	assert_true(vm_flags & VM_LOCKED);
	mm_activate(w->c, NULL);
	mm_put(w->c, child);
	mm_end(w, mm);
	world_end(w);
}

/* Entries of a folio that is being moved are found when asked for. */
static void migrating(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct vma *v;
	struct frame *f;
	struct pt_ref pmd, pte;
	struct pvmw k;
	pte_t e;

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	store(w, AREA + PAGES(1), 1);
	f = folio_at(w, mm, AREA + PAGES(1));
	v = vma_first(mm);
	assert_ok(pt_pmd(w->c, mm, AREA, false, &pmd));
	assert_ok(pt_pte(w->c, mm, &pmd, AREA + PAGES(1), false, &pte));
	e = pte_xchg(w->c, &pte, pte_to_migration(pte_peek(&pte), RSS_ANON));
	k = pvmw_begin(w->c, f, v, AREA + PAGES(1), 0);
	assert_false(pvmw_next(&k));
	k = pvmw_begin(w->c, f, v, AREA + PAGES(1), PVMW_MIGRATION);
	assert_true(pvmw_next(&k));
	assert_int_equal(k.va, AREA + PAGES(1));
	pvmw_restart(&k);
	assert_int_equal(w->c->lock_depth, 0);
	assert_true(pvmw_next(&k));
	pvmw_done(&k);
	assert_int_equal(w->c->lock_depth, 0);
	pte_xchg(w->c, &pte, e);
	mm_end(w, mm);
	world_end(w);
}

/* ---- random ---- */

#define FAMILY 5U
#define SPAN 48U

struct soak {
	struct world *w;
	struct mm *mm[FAMILY];
	struct mfile *file;
	struct rng r;
};

static void soak_step(struct soak *k)
{
	struct world *w = k->w;
	unsigned who = (unsigned)rng_below(&k->r, FAMILY), from = (unsigned)rng_below(&k->r, FAMILY);
	uint64_t at = rng_below(&k->r, SPAN), n = 1 + rng_below(&k->r, 8);
	vaddr_t va = AREA + PAGES(at);
	unsigned prot = rng_below(&k->r, 3) ? RW : UAPI_PROT_READ;
	struct mm *mm = k->mm[who];

	if (!mm) {
		if (k->mm[from])
			(void)mm_fork(w->c, k->mm[from], &k->mm[who]);
		else
			(void)mm_create(w->c, w->q, &k->mm[who]);
		return;
	}
	mm_activate(w->c, mm);
	switch (rng_below(&k->r, 12)) {
	case 0:
		(void)mm_mmap(w->c, mm, va, PAGES(n), prot, PRIVATE, NULL, 0);
		break;
	case 1:
		(void)mm_mmap(w->c, mm, va, PAGES(n), prot, UAPI_MAP_FIXED | (rng_below(&k->r, 2) ? UAPI_MAP_PRIVATE : UAPI_MAP_SHARED),
			      k->file, PAGES(rng_below(&k->r, 8)));
		break;
	case 2:
		(void)mm_munmap(w->c, mm, va, PAGES(n));
		break;
	case 3:
	case 4:
		(void)mm_mprotect(w->c, mm, va, PAGES(n), prot);
		break;
	case 5:
		(void)mm_mremap(w->c, mm, va, PAGES(n), PAGES(n),
				UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | (rng_below(&k->r, 4) ? 0 : UAPI_MREMAP_DONTUNMAP),
				AREA + PAGES(rng_below(&k->r, SPAN)));
		break;
	case 6:
		mm_activate(w->c, NULL);
		mm_put(w->c, mm);
		k->mm[who] = NULL;
		break;
	case 7:
		(void)mm_madvise(w->c, mm, va, PAGES(n), rng_below(&k->r, 2) ? UAPI_MADV_DONTNEED : UAPI_MADV_WIPEONFORK);
		break;
	default:
		for (uint64_t i = 0; i < n; i++)
			(void)try_store(w, va + PAGES(i), i);
	}
}

static void soak_end(struct soak *k)
{
	mm_activate(k->w->c, NULL);
	for (unsigned i = 0; i < FAMILY; i++)
		if (k->mm[i])
			mm_put(k->w->c, k->mm[i]);
	if (k->file)
		file_put(k->w->c, k->file);
}

static void random_families(void **state)
{
	(void)state;
	for (unsigned seed = 1; seed <= 4; seed++) {
		struct soak k = { .w = world_new(1, 128 * MIB) };

		rng_init(&k.r, seed, "rmap");
		k.w->q->knobs.fork_tables = seed % 2 ? FORK_TABLES_COPIED : FORK_TABLES_SHARED;
		assert_ok(file_create(k.w->c, k.w->q, 7, PAGES(64), false, &k.file));
		for (unsigned i = 0; i < 400; i++) {
			soak_step(&k);
			if (anon_vma_validate(k.w->q) || (i % 20 == 0 && quire_validate(k.w->q)))
				fail_msg("seed %u step %u: %s", seed, i, k.w->q->err);
		}
		world_check(k.w);
		soak_end(&k);
		assert_int_equal(in_use(k.w, SLAB_ANON_VMA) + in_use(k.w, SLAB_ANON_VMA_CHAIN), 0);
		world_end(k.w);
	}
}

/* ---- memory runs out ---- */

/* All that links areas to pages, a few calls each. What fails is not tried again. */
static void story(struct world *w, struct mm *mm, struct mm **child)
{
	map_at(w, mm, AREA, PAGES(4), RW | UAPI_PROT_EXEC);
	(void)mm_mmap(w->c, mm, AREA + PAGES(4), PAGES(12), RW, PRIVATE, NULL, 0);
	(void)try_store(w, AREA + PAGES(5), 1);
	(void)mm_mprotect(w->c, mm, AREA + PAGES(4), PAGES(2), RW | UAPI_PROT_EXEC);
	(void)mm_mprotect(w->c, mm, AREA + PAGES(8), PAGES(2), UAPI_PROT_READ);
	(void)try_store(w, AREA + PAGES(12), 1);
	(void)mm_munmap(w->c, mm, AREA + PAGES(13), PAGES(1));
	(void)mm_fork(w->c, mm, child);
	(void)mm_mremap(w->c, mm, AREA + PAGES(11), PAGES(1), PAGES(1), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + PAGES(40));
	(void)mm_mremap(w->c, mm, AREA + PAGES(12), PAGES(1), PAGES(1),
			UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP, AREA + PAGES(60));
	if (*child) {
		mm_activate(w->c, *child);
		(void)try_store(w, AREA + PAGES(12), 1);
		(void)mm_mprotect(w->c, *child, AREA + PAGES(10), PAGES(1), UAPI_PROT_READ);
		mm_activate(w->c, mm);
	}
}

static void out_of_memory(void **state)
{
	uint64_t points = 0;

	(void)state;
	for (uint64_t n = 1; !points || n <= points + 1; n++) {
		struct world *w = world_new(1, 128 * MIB);
		struct mm *mm = mm_new(w), *child = NULL;
		struct inject *in;

		map_at(w, mm, AREA + PAGES(400), PAGES(1), UAPI_PROT_READ); /* what story's first call will need is there */
		assert_ok(mm_munmap(w->c, mm, AREA + PAGES(400), PAGES(1)));
		assert_ok(inject_attach(w->m, 1, &in));
		inject_fail_point(in, n + 1); /* the first one is map_at's */
		story(w, mm, &child);
		points = MAX(points, inject_points(in));
		inject_fail_point(in, 0);
		if (quire_validate(w->q))
			fail_msg("point %llu: %s", (unsigned long long)n, w->q->err);
		if (child)
			mm_put(w->c, child);
		mm_end(w, mm);
		assert_int_equal(in_use(w, SLAB_ANON_VMA) + in_use(w, SLAB_ANON_VMA_CHAIN), 0);
		inject_detach(in);
		world_end(w);
	}
	assert_true(points > 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(intervals),	     cmocka_unit_test(families),      cmocka_unit_test(lines),
		cmocka_unit_test(references),	     cmocka_unit_test(pieces),	      cmocka_unit_test(part_to_untouched),
		cmocka_unit_test(huge),		     cmocka_unit_test(shared_tables), cmocka_unit_test(files),
		cmocka_unit_test(used),		     cmocka_unit_test(migrating),     cmocka_unit_test(random_families),
		cmocka_unit_test(out_of_memory),
	};

	return test_run(tests);
}
