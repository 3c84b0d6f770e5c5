/*
 * Are the pools of huge pages what hugetlb.h says: HP1 (lists, counts), HP2, HP3 (promises against areas), HP5. HP4 is checked entry by
 * entry in validate.c. Charges nothing and changes nothing; not while tasks run.
 */
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/hugetlb.h"
#include "mm/text.h"

struct pool_tally {
	struct quire *q;
	uint64_t in_use[NR_HUGETLB_SIZES][MACHINE_MAX_NODES], promised[NR_HUGETLB_SIZES];
	const struct vma *v; /* the area at or after the last entry seen */
};

static int invalid(struct quire *q, const char *what, uint64_t size, uint64_t is, uint64_t should)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "hugetlb: ");
	text_str(&t, what);
	text_field(&t, "size", size);
	text_field(&t, "is", is);
	text_field(&t, "should", should);
	return -EINVAL;
}

/* Every head of a page of a pool that is in use, by node. */
static void count_in_use(struct pool_tally *t)
{
	struct quire *q = t->q;

	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++) {
		for (unsigned zt = 0; zt < NR_ZONES; zt++) {
			const struct zone *z = &q->nodes[nid].zones[zt];
			uint64_t p = ALIGN_UP(z->first_pfn, PAGEBLOCK_FRAMES);

			for (; z->managed && p < z->deferred_pfn; p += PAGEBLOCK_FRAMES) {
				const struct frame *f = frame_of(q->m, pfn(p));

				if ((frame_flags(f) & (FRAME_HUGETLB | FRAME_HUGETLB_FREE)) == FRAME_HUGETLB)
					t->in_use[frame_order(f) > MAX_ORDER ? HUGETLB_1G : HUGETLB_2M][nid]++;
			}
		}
	}
}

/* A promise is used up by each entry that isn't empty. */
static void entry_used(void *arg, vaddr_t va, pte_t e, unsigned shift)
{
	struct pool_tally *t = arg;

	(void)e, (void)shift;
	while (t->v && t->v->end <= va)
		t->v = vma_next(t->v);
	if (t->v && t->v->start <= va && (t->v->flags & VM_HUGETLB_RESV))
		t->promised[hugetlb_size_of(t->v->flags)]--;
}

static void no_table(void *arg, struct frame *f, unsigned shift, uint64_t nr, bool deposited)
{
	(void)arg, (void)f, (void)shift, (void)nr, (void)deposited;
}

static void count_promises(struct pool_tally *t)
{
	struct pt_visitor visitor = { .arg = t, .leaf = entry_used, .table = no_table };
	struct mm *mm;

	list_for_each_entry(mm, &t->q->mms, link) {
		bool any = false;

		for (const struct vma *v = vma_first(mm); v; v = vma_next(v)) {
			if (!(v->flags & VM_HUGETLB_RESV))
				continue;
			any = true;
			t->promised[hugetlb_size_of(v->flags)] += (v->end - v->start) >> vm_page_shift(v->flags);
		}
		t->v = vma_first(mm);
		if (any)
			pt_visit(mm, &visitor);
	}
}

static int check_list(struct quire *q, const struct hstate *h, unsigned nid)
{
	const struct hugetlb_node *n = &h->node[nid];
	const struct frame *f;
	uint64_t nr = 0;

	list_for_each_entry(f, &n->free, lru) {
		uint64_t flags = frame_flags(f);

		if (!(flags & FRAME_HUGETLB) || !(flags & FRAME_HUGETLB_FREE) || !(flags & FRAME_HEAD) || (flags & FRAME_ANON) ||
		    frame_order(f) != h->order || frame_nid(f) != (int)nid || f->refcount || f->entire_mapcount != -1)
			return invalid(q, "a page on a free list is not free (HP1)", h->order, frame_pfn(q->m, f).v, flags);
		if (++nr > n->nr_free)
			break;
	}
	return nr == n->nr_free ? 0 : invalid(q, "free pages (HP1)", h->order, nr, n->nr_free);
}

static int check_size(const struct pool_tally *t, unsigned s)
{
	struct quire *q = t->q;
	const struct hstate *h = &q->hugetlb.h[s];
	uint64_t nr = 0, nr_free = 0, surplus = 0;

	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++) {
		const struct hugetlb_node *n = &h->node[nid];

		if (check_list(q, h, nid))
			return -EINVAL;
		if (n->nr != n->nr_free + t->in_use[s][nid])
			return invalid(q, "pages in use (HP1)", h->order, t->in_use[s][nid], n->nr - n->nr_free);
		if (n->surplus > n->nr)
			return invalid(q, "surplus (HP5)", h->order, n->surplus, n->nr);
		nr += n->nr;
		nr_free += n->nr_free;
		surplus += n->surplus;
	}
	if (nr != h->nr || nr_free != h->nr_free || surplus != h->surplus)
		return invalid(q, "sums over nodes (HP1)", h->order, nr, h->nr);
	if (h->resv > h->nr_free)
		return invalid(q, "promised pages that are not there (HP2)", h->order, h->resv, h->nr_free);
	if (h->resv != t->promised[s])
		return invalid(q, "promises (HP3)", h->order, h->resv, t->promised[s]);
	return 0;
}

int hugetlb_validate(struct quire *q)
{
	struct pool_tally t = { .q = q };

	count_in_use(&t);
	count_promises(&t);
	for (unsigned s = 0; s < NR_HUGETLB_SIZES; s++)
		if (check_size(&t, s))
			return -EINVAL;
	return 0;
}
