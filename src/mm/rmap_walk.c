/*
 * From a folio to the areas that may map it, and from an area to the entries that do: rmap_walk.h.
 *
 * A folio that only a reference is held on may lose its last mapping at any time, and its anon_vma may be freed then. So an
 * anon_vma is got by a reference from above zero (its memory stays one: anon_vma.h N4), and is the right one if the folio
 * is mapped, and leads to it, after that.
 */
#include "mm/rmap_walk.h"

#include "base/assert.h"
#include "mm/anon_vma.h"
#include "mm/rmap.h"
#include "mm/swap.h"
#include "mm/vma_int.h"

/* ---- what a folio leads to ---- */

static uint64_t mapping_of(const struct frame *folio)
{
	return __atomic_load_n(&folio->mapping, __ATOMIC_ACQUIRE);
}

static struct anon_vma *mapping_anon(uint64_t mapping)
{
	return mapping & MAPPING_ANON ? (struct anon_vma *)(uintptr_t)(mapping - MAPPING_ANON) : NULL;
}

struct anon_vma *folio_get_anon_vma(struct cpu *c, struct frame *folio)
{
	uint64_t mapping = mapping_of(folio);
	struct anon_vma *av = mapping_anon(mapping);

	frame_touch(c, folio, TOUCH_READ);
	if (!av || !folio_mapped(folio))
		return NULL;
	machine_touch(c, machine_pa(c->m, &av->refcount), sizeof(av->refcount), TOUCH_ATOMIC);
	if (!anon_vma_tryget(av))
		return NULL;
	/* Mapped now: it has been all the time, or has been mapped anew by whoever took it from somebody's hands; and leads here. */
	if (folio_mapped(folio) && mapping_of(folio) == mapping)
		return av;
	anon_vma_put(c, av);
	return NULL;
}

struct anon_vma *folio_lock_anon_vma_read(struct cpu *c, struct frame *folio)
{
	struct anon_vma *av = folio_get_anon_vma(c, folio);

	if (!av)
		return NULL;
	anon_vma_lock_read(c, av);
	if (folio_mapped(folio))
		return av;
	folio_unlock_anon_vma_read(c, av);
	return NULL;
}

void folio_unlock_anon_vma_read(struct cpu *c, struct anon_vma *av)
{
	anon_vma_unlock_read(c, av);
	anon_vma_put(c, av);
}

/* ---- areas ---- */

static struct vma *link_area(const struct interval_node *n)
{
	return container_of(n, struct anon_vma_chain, node)->vma;
}

static struct vma *file_area(const struct interval_node *n)
{
	return &container_of(n, struct vma_object, i_mmap)->v;
}

ATTR_NOINLINE static void walk_areas(struct cpu *c, struct frame *folio, const struct interval_tree *t,
				     struct vma *(*area)(const struct interval_node *n), const struct rmap_walk *w)
{
	uint64_t first = folio->index, last = first + frame_nr_pages(folio) - 1;

	for (struct interval_node *n = interval_first(c, t, first, last); n; n = interval_next(c, n, first, last)) {
		struct vma *v = area(n);

		(void)machine_work(c, PATH_RMAP_WALK, 1);
		vma_touch(c, v, TOUCH_READ);
		if (w->skip && w->skip(v, w->arg))
			continue;
		if (!w->one(c, folio, v, v->start + (MAX(first, v->pgoff) - v->pgoff) * PAGE_SIZE, w->arg))
			return;
		if (w->done && w->done(folio, w->arg))
			return;
	}
}

ATTR_NOINLINE void rmap_walk(struct cpu *c, struct frame *folio, const struct rmap_walk *w)
{
	enum machine_path outer = machine_work(c, PATH_RMAP_WALK, 1);
	uint64_t mapping = mapping_of(folio);

	if (!mapping || (frame_flags(folio) & (FRAME_HUGETLB | FRAME_TABLE | FRAME_SLAB))) {
		/* in no area */
	} else if (mapping & MAPPING_ANON) {
		struct anon_vma *av = w->locked ? mapping_anon(mapping) : folio_lock_anon_vma_read(c, folio);

		if (av)
			walk_areas(c, folio, &av->tree, link_area, w);
		if (av && !w->locked)
			folio_unlock_anon_vma_read(c, av);
	} else {
		struct mfile *f = (struct mfile *)(uintptr_t)mapping;

		if (!w->locked)
			machine_read_lock(c, &f->i_mmap_lock);
		walk_areas(c, folio, &f->i_mmap, file_area, w);
		if (!w->locked)
			machine_read_unlock(c, &f->i_mmap_lock);
	}
	machine_path(c, outer);
}

/* ---- entries ---- */

struct pvmw pvmw_range(struct cpu *c, uint64_t pfn, uint64_t nr_pages, struct vma *v, vaddr_t va, unsigned flags)
{
	vaddr_t end = va + nr_pages * PAGE_SIZE;
	struct pvmw w = { .c = c, .pfn = pfn, .nr_pages = nr_pages, .v = v, .base = va, .flags = flags };

	/* va may lie below 0, as it were. */
	w.next = (int64_t)va < (int64_t)v->start ? v->start : va;
	w.end = (int64_t)end < (int64_t)v->end ? end : v->end;
	return w;
}

struct pvmw pvmw_begin(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, unsigned flags)
{
	(void)va;
	return pvmw_range(c, frame_pfn(c->m, folio).v, frame_nr_pages(folio), v, v->start + (folio->index - v->pgoff) * PAGE_SIZE,
			  flags);
}

static void lock_table(struct pvmw *w, struct frame *table)
{
	pt_lock(w->c, table);
	w->locked[w->locked[0] != NULL] = table;
}

void pvmw_done(struct pvmw *w)
{
	for (unsigned i = 2; i-- > 0;) {
		if (w->locked[i])
			pt_unlock(w->c, w->locked[i]);
		w->locked[i] = NULL;
	}
}

void pvmw_restart(struct pvmw *w)
{
	pvmw_done(w);
	w->next = MAX(w->va, w->v->start);
	w->found = false;
}

/* Does an entry for va map, or stand for, the page that would be there? */
static bool matches(const struct pvmw *w, pte_t e, vaddr_t va)
{
	if (pte_present(e) ? (e & PTE_SOFT_ZERO) != 0 : !(w->flags & PVMW_MIGRATION) || !pte_is_migration(e))
		return false;
	return pte_pfn(e).v == w->pfn + (uint64_t)((int64_t)(va - w->base) >> PAGE_SHIFT);
}

/* A huge entry, as it seemed without a lock. true: it is one of ours, and locked. */
static bool look_huge(struct pvmw *w)
{
	vaddr_t at = ALIGN_DOWN(w->next, PMD_SIZE);

	lock_table(w, w->pmd.table);
	w->entry = pte_peek(&w->pmd);
	if (pmd_leaf(w->entry) && matches(w, w->entry, at)) {
		w->is_pmd = true;
		w->va = at;
		w->next = at + PMD_SIZE;
		return true;
	}
	if (pmd_leaf(w->entry) || !w->entry)
		w->next = at + PMD_SIZE; /* else it is a table by now: look again */
	pvmw_done(w);
	return false;
}

/*
 * Lock the table that e, read without a lock, points to. Who may have to do with a shared one holds the PMD table's lock too, since
 * others can free it (fork_shared.c).
 */
static bool lock_ptes(struct pvmw *w, pte_t e)
{
	struct frame *t = frame_of(w->c->m, pte_pfn(e));

	if (pt_entry_shared(e) || w->c->q->knobs.fork_tables == FORK_TABLES_SHARED) {
		lock_table(w, w->pmd.table);
		if (pte_peek(&w->pmd) != e) {
			pvmw_done(w);
			return false;
		}
	}
	lock_table(w, t);
	pte_t now = pte_peek(&w->pmd);

	if (!pmd_table(now) || pte_pfn(now).v != pte_pfn(e).v) {
		pvmw_done(w);
		return false;
	}
	w->shared_table = __atomic_load_n(&t->pt_sharers, __ATOMIC_RELAXED) != 0;
	w->pte = pt_ref_at(w->c, t, w->next, PAGE_SHIFT);
	return true;
}

/*
 * From w->next on: the PTE table that serves it, locked, or a huge entry (true, is_pmd). false: w->next is further on, or where it
 * was when something changed under our eyes.
 */
ATTR_NOINLINE static bool find_table(struct pvmw *w)
{
	struct cpu *c = w->c;
	vaddr_t beyond;
	struct frame *table = pt_pmd_table(c, w->v->mm, w->next, &beyond);

	machine_path(c, PATH_RMAP_WALK);
	if (!table) {
		w->next = beyond;
		return false;
	}
	w->pmd = pt_ref_at(c, table, w->next, PMD_SHIFT);
	pte_t e = pte_read(c, &w->pmd);

	if (pmd_leaf(e))
		return look_huge(w);
	if (pmd_table(e))
		return lock_ptes(w, e);
	w->next = ALIGN_DOWN(w->next, PMD_SIZE) + PMD_SIZE;
	return false;
}

/* In the table that is locked, w->pte being next's entry. */
ATTR_NOINLINE static bool next_pte(struct pvmw *w)
{
	vaddr_t stop = MIN(ALIGN_DOWN(w->next, PMD_SIZE) + PMD_SIZE, w->end);
	bool first = true;

	for (; w->next < stop; pt_ref_next(&w->pte), first = false) {
		vaddr_t va = w->next;

		(void)machine_work(w->c, PATH_RMAP_WALK, 1);
		pt_touch_line(w->c, &w->pte, first);
		w->next += PAGE_SIZE;
		w->entry = pte_peek(&w->pte);
		if (!matches(w, w->entry, va))
			continue;
		w->va = va;
		return true;
	}
	return false;
}

ATTR_NOINLINE bool pvmw_next(struct pvmw *w)
{
	enum machine_path outer = machine_work(w->c, PATH_RMAP_WALK, 0);
	bool found = false;

	if (w->found && !w->is_pmd && w->locked[0] && !IS_ALIGNED(w->next, PMD_SIZE)) {
		pt_ref_next(&w->pte);
		found = next_pte(w);
	}
	if (!found)
		pvmw_done(w);
	while (!found && w->next < w->end) {
		w->is_pmd = w->shared_table = false;
		found = find_table(w);
		if (found && !w->is_pmd)
			found = next_pte(w);
		if (!found)
			pvmw_done(w);
	}
	w->found = found;
	machine_path(w->c, outer);
	return found;
}

/* ---- counts ---- */

int folio_mapcount(const struct frame *folio)
{
	int n = 0;

	if (!(frame_flags(folio) & FRAME_HEAD))
		return frame_mapcount(folio);
	n = frame_entire_mapcount(folio);
	for (uint64_t i = 0; i < frame_nr_pages(folio); i++)
		n += frame_mapcount(folio + i);
	return n;
}

bool folio_mapped(const struct frame *folio)
{
	if (!(frame_flags(folio) & FRAME_HEAD))
		return frame_mapcount(folio) > 0;
	return __atomic_load_n(&folio->nr_pages_mapped, __ATOMIC_RELAXED) > 0;
}

int folio_expected_refs(const struct frame *folio)
{
	return folio_mapcount(folio) + ((frame_flags(folio) & FRAME_FILE) != 0) + folio_swap_refs(folio);
}
