/*
 * Checks of the reverse map: links, trees and counts (anon_vma.h N1 to N5), and that a walk from every mapped page finds exactly the
 * entries that map it (rmap_walk.h R1). Charges nothing, locks nothing, changes nothing that outlasts the call, needs no memory.
 */
#include "mm/anon_vma.h"
#include "mm/rmap.h"
#include "mm/text.h"
#include "mm/vma_int.h"
#include "mm/pagetable.h"

static int invalid(struct quire *q, const char *what, uint64_t at, uint64_t is, uint64_t should)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "reverse map: ");
	text_str(&t, what);
	text_field(&t, "at", at);
	text_field(&t, "is", is);
	text_field(&t, "should", should);
	return -EINVAL;
}

static struct anon_vma_chain *link_of(const struct interval_node *n)
{
	return container_of(n, struct anon_vma_chain, node);
}

static struct interval_node *tree_first(const struct interval_tree *t)
{
	return interval_first(NULL, t, 0, UINT64_MAX);
}

static struct interval_node *tree_next(const struct interval_node *n)
{
	return interval_next(NULL, n, 0, UINT64_MAX);
}

static bool covers(const struct interval_node *n, const struct vma *v)
{
	return interval_linked(n) && n->start == v->pgoff && n->last == v->pgoff + vma_pages(v) - 1;
}

static bool linked_to(const struct vma *v, const struct anon_vma *av)
{
	const struct anon_vma_chain *avc;

	list_for_each_entry(avc, &v->anon_vma_chain, same_vma)
		if (avc->anon_vma == av)
			return true;
	return false;
}

/* ---- areas ---- */

static int check_links(struct quire *q, const struct vma *v)
{
	const struct vma *prev = vma_prev(v);
	const struct anon_vma_chain *avc;

	if (v->anon_touched != (v->anon_vma != NULL) || list_empty(&v->anon_vma_chain) != !v->anon_vma)
		return invalid(q, "N1 an area with pages without links, or the other way round", v->start, v->anon_touched, v->anon_vma != NULL);
	if (v->anon_vma && !linked_to(v, v->anon_vma))
		return invalid(q, "N1 an area that is not linked to its own", v->start, 0, 1);
	if (v->anon_vma && prev && prev->anon_id == v->anon_id && prev->anon_vma != v->anon_vma)
		return invalid(q, "N1 one anon_id for two", v->start, v->anon_id, 0);
	list_for_each_entry(avc, &v->anon_vma_chain, same_vma) {
		if (avc->vma != v || !avc->anon_vma || !covers(&avc->node, v))
			return invalid(q, "a link that does not say what its area covers", v->start, avc->node.start, v->pgoff);
		if (avc->anon_vma->root != v->anon_vma->root)
			return invalid(q, "N2 links to two families", v->start, 0, 1);
	}
	if (v->file && !covers(&container_of(v, struct vma_object, v)->i_mmap, v))
		return invalid(q, "an area that its file's tree does not know", v->start, 0, v->pgoff);
	return 0;
}

/* ---- each anon_vma once ---- */

struct families {
	struct quire *q;
	uint64_t areas, links, anon_vmas; /* areas: with a file */
	int rc;
};

/* Each has links: it is come to by the first one of its tree. */
static void each_anon_vma(struct families *k, void (*fn)(struct families *k, struct anon_vma *av))
{
	const struct anon_vma_chain *avc;
	struct mm *mm;

	list_for_each_entry(mm, &k->q->mms, link)
		for (struct vma *v = vma_first(mm); v; v = vma_next(v))
			list_for_each_entry(avc, &v->anon_vma_chain, same_vma)
				if (&avc->node == tree_first(&avc->anon_vma->tree))
					fn(k, avc->anon_vma);
}

static void check_anon_vma(struct families *k, struct anon_vma *av)
{
	uint64_t active = 0;

	k->anon_vmas++;
	if (!interval_ok(&av->tree) && !k->rc)
		k->rc = invalid(k->q, "a tree of links is out of order", tree_first(&av->tree)->start, 0, 0);
	for (const struct interval_node *n = tree_first(&av->tree); n; n = tree_next(n)) {
		const struct vma *v = link_of(n)->vma;

		k->links++;
		active += v->anon_vma == av;
		if ((link_of(n)->anon_vma != av || !linked_to(v, av->parent)) && !k->rc)
			k->rc = invalid(k->q, "N5 links to a child without links to its parent", v->start, 0, 1);
	}
	if (active != av->num_active_vmas && !k->rc)
		k->rc = invalid(k->q, "N3 num_active_vmas", tree_first(&av->tree)->start, av->num_active_vmas, active);
	if (av->parent->root != av->root && !k->rc)
		k->rc = invalid(k->q, "N2 a parent of another family", tree_first(&av->tree)->start, 0, 1);
}

/* What each contributes to the counts is taken off, and put back when they have been looked at. */
static void take_counts(struct families *k, struct anon_vma *av)
{
	(void)k;
	av->parent->num_children--;
	av->root->refcount -= av->root != av;
	av->refcount--;
}

static void give_counts(struct families *k, struct anon_vma *av)
{
	(void)k;
	av->parent->num_children++;
	av->root->refcount += av->root != av;
	av->refcount++;
}

static void check_counts(struct families *k, struct anon_vma *av)
{
	if ((av->num_children || av->refcount) && !k->rc)
		k->rc = invalid(k->q, "N3, N4 children or references beyond those that are known", tree_first(&av->tree)->start,
				av->num_children, (uint64_t)av->refcount);
}

/* Objects in somebody's use. */
static uint64_t in_use(const struct quire *q, enum slab_id id)
{
	uint64_t n = q->slab[id].nr_objects;

	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		n -= q->percpu[i]->magazine[id].count;
	return n;
}

static int check_files(struct quire *q, uint64_t areas)
{
	uint64_t found = 0;
	struct mfile *f;

	list_for_each_entry(f, &q->files, link) {
		if (!interval_ok(&f->i_mmap))
			return invalid(q, "a file's tree of areas is out of order", f->id, 0, 0);
		for (const struct interval_node *n = tree_first(&f->i_mmap); n; n = tree_next(n), found++)
			if (container_of(n, struct vma_object, i_mmap)->v.file != f)
				return invalid(q, "an area in the tree of another file", f->id, 0, 0);
	}
	return found == areas ? 0 : invalid(q, "areas in files' trees", 0, found, areas);
}

/* ---- every mapped page against its walk ---- */

/* The entry that serves va, the table that holds it and its level. */
static pte_t find_entry(const struct mm *mm, vaddr_t va, struct frame **ret_table, unsigned *ret_shift)
{
	const struct machine *m = mm->q->m;
	struct frame *t = frame_of(m, mm->pgd);

	for (unsigned shift = PGDIR_SHIFT;; shift -= 9) {
		const pte_t *e = (const pte_t *)machine_ptr(m, pfn_to_paddr(frame_pfn(m, t))) + pt_index(va, shift);

		*ret_table = t;
		*ret_shift = shift;
		if (shift == PAGE_SHIFT || !pmd_table(*e))
			return *e;
		t = frame_of(m, pte_pfn(*e));
	}
}

struct found {
	int64_t ptes, pmds;
};

/*
 * Entries that map `page`, at `index`, in the areas of t. An entry of a shared table counts once: the mapcount of a table, which has
 * no other use, says that it has been seen. mark: 1 count, -1 forget the marks.
 */
static void count_entries(const struct quire *q, const struct interval_tree *t, bool anon, const struct frame *page, uint64_t index,
			  int32_t mark, struct found *ret)
{
	for (const struct interval_node *n = interval_first(NULL, t, index, index); n; n = interval_next(NULL, n, index, index)) {
		const struct vma *v = anon ? link_of(n)->vma : &container_of(n, struct vma_object, i_mmap)->v;
		struct frame *table;
		unsigned shift;
		pte_t e = find_entry(v->mm, v->start + (index - v->pgoff) * PAGE_SIZE, &table, &shift);

		if (!pte_present(e) || (e & PTE_SOFT_ZERO) || pte_pfn(e).v != frame_pfn(q->m, page).v)
			continue;
		if (shift == PMD_SHIFT) {
			ret->pmds += mark;
		} else if (!table->pt_sharers) {
			ret->ptes += mark;
		} else if ((mark > 0) == (table->mapcount == -1)) {
			table->mapcount += mark;
			ret->ptes += mark;
		}
	}
}

static int check_page(struct quire *q, const struct frame *head, const struct frame *page, uint64_t p)
{
	bool anon = (head->mapping & MAPPING_ANON) != 0, whole = page == head && (frame_flags(head) & FRAME_HEAD);
	const struct interval_tree *t = anon ? &((const struct anon_vma *)(uintptr_t)(head->mapping - MAPPING_ANON))->tree : &head->file->i_mmap;
	uint64_t index = head->index + (uint64_t)(page - head);
	struct found f = { 0 }, undone = { 0 };

	count_entries(q, t, anon, page, index, 1, &f);
	count_entries(q, t, anon, page, index, -1, &undone);
	if (f.ptes != frame_mapcount(page))
		return invalid(q, "R1 entries found from a page, and its mapcount", p, (uint64_t)f.ptes, (uint64_t)frame_mapcount(page));
	if (whole && f.pmds != frame_entire_mapcount(head))
		return invalid(q, "R1 huge entries found from a folio, and its mapcount", p, (uint64_t)f.pmds, (uint64_t)frame_entire_mapcount(head));
	return 0;
}

static int check_frame(struct quire *q, uint64_t p)
{
	struct frame *page = frame_of(q->m, pfn(p)), *head = frame_head(q->m, page);
	uint64_t flags = frame_flags(head);

	if (!(flags & (FRAME_ANON | FRAME_FILE)) || (flags & FRAME_HUGETLB))
		return 0;
	if (frame_mapcount(page) <= 0 && (page != head || !(flags & FRAME_HEAD) || frame_entire_mapcount(head) <= 0))
		return 0;
	if (!head->mapping || ((flags & FRAME_ANON) != 0) != ((head->mapping & MAPPING_ANON) != 0))
		return invalid(q, "a mapped page that leads nowhere", p, head->mapping, flags);
	return check_page(q, head, page, p);
}

static int check_frames(struct quire *q)
{
	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++) {
		for (unsigned zt = 0; zt < NR_ZONES; zt++) {
			const struct zone *z = &q->nodes[nid].zones[zt];

			for (uint64_t p = z->first_pfn; z->managed && p < MIN(z->deferred_pfn, z->end_pfn); p++)
				if (check_frame(q, p))
					return -EINVAL;
		}
	}
	return 0;
}

int anon_vma_validate(struct quire *q)
{
	struct families k = { .q = q };
	struct mm *mm;

	list_for_each_entry(mm, &q->mms, link) {
		for (struct vma *v = vma_first(mm); v; v = vma_next(v)) {
			if (check_links(q, v))
				return -EINVAL;
			k.areas += v->file != NULL;
		}
	}
	each_anon_vma(&k, check_anon_vma);
	each_anon_vma(&k, take_counts);
	each_anon_vma(&k, check_counts);
	each_anon_vma(&k, give_counts);
	if (k.rc)
		return k.rc;
	if (k.anon_vmas != in_use(q, SLAB_ANON_VMA) || k.links != in_use(q, SLAB_ANON_VMA_CHAIN))
		return invalid(q, "anon_vmas, or links, that nobody leads to", k.anon_vmas, in_use(q, SLAB_ANON_VMA), in_use(q, SLAB_ANON_VMA_CHAIN));
	return check_files(q, k.areas) ? -EINVAL : check_frames(q);
}
