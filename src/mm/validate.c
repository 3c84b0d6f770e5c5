/*
 * Validators of address spaces: a full walk of one (mm_validate), sums over all (quire_validate_mappings), and what a
 * page is (mm_page_info). Nothing here charges, locks or changes anything that outlasts the call.
 */
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/lru.h"
#include "mm/swap.h"
#include "mm/text.h"

/* The first thing found wrong, as text in q->err. */
static void fail(struct quire *q, int *rc, const char *what, uint64_t at, uint64_t is, uint64_t should)
{
	if (*rc)
		return;
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, what);
	text_field(&t, "at", at);
	text_field(&t, "is", is);
	text_field(&t, "should", should);
	*rc = -EINVAL;
}

/* ---- one address space ---- */

struct check {
	struct mm *mm;
	struct quire *q;
	const struct vma *v; /* the area at or after the last entry seen */
	int64_t rss[NR_RSS], huge, hugetlb, tables, swap;
	uint64_t pmd_huge; /* in the PMD table being walked */
	struct frame *table; /* the PTE table being walked, and what it was found to map */
	uint64_t table_rss[NR_RSS];
	int64_t shared;
	int rc;
};

static void check_rights(struct check *k, vaddr_t va, pte_t e)
{
	const struct vma *v = k->v;
	bool none = !(v->flags & VM_ACCESS_FLAGS);
	bool owned = (e & PTE_SOFT_EXCLUSIVE) || (v->flags & VM_SHARED);

	/* Without access in an area that has some: the NUMA scanner's mark. */
	bool marked = (e & PTE_PROTNONE) && !(e & PTE_PRESENT) && k->mm->numa_marked && !(v->flags & VM_HUGETLB);

	if (!marked && (none != !(e & PTE_PRESENT) || none != ((e & PTE_PROTNONE) != 0)))
		fail(k->q, &k->rc, "entry: present against rights", va, e, v->flags);
	if (((e & PTE_NX) != 0) != !(v->flags & VM_EXEC))
		fail(k->q, &k->rc, "entry: NX", va, e, v->flags);
	if ((e & PTE_WRITE) && (!(v->flags & VM_WRITE) || (e & PTE_SOFT_ZERO) || !owned))
		fail(k->q, &k->rc, "entry: writable", va, e, v->flags);
}

static void check_zero(struct check *k, vaddr_t va, pte_t e, unsigned shift)
{
	uint64_t zero = k->q->zero_pfn.v;

	if (shift == PMD_SHIFT)
		zero = k->q->huge_zero ? frame_pfn(k->q->m, k->q->huge_zero).v : 0;
	if (pte_pfn(e).v != zero)
		fail(k->q, &k->rc, "entry: not the zero page", va, pte_pfn(e).v, zero);
	if (k->v->file || (e & PTE_SOFT_EXCLUSIVE))
		fail(k->q, &k->rc, "entry: zero page in a file area or owned", va, e, 0);
	if (shift == PAGE_SHIFT && !(k->table->flags & FRAME_TABLE_MIXED))
		fail(k->q, &k->rc, "entry: zero page in a table that isn't marked", va, e, k->table->flags);
}

/* What fork needs to know of a table without looking at its entries (fork_shared.c, H4). */
static void check_marks(struct check *k, vaddr_t va, pte_t e, const struct frame *head)
{
	bool pinned = (e & PTE_SOFT_EXCLUSIVE) && frame_pinned(head), shared = k->table->pt_sharers != 0;

	k->table_rss[frame_rss(head)]++;
	if (frame_rss(head) != RSS_ANON && !(k->table->flags & FRAME_TABLE_MIXED))
		fail(k->q, &k->rc, "entry: a file's page in a table that isn't marked", va, e, k->table->flags);
	if (pinned && (shared || !(k->table->flags & FRAME_TABLE_PINNED)))
		fail(k->q, &k->rc, "entry: a pinned page in a table that isn't marked, or shared", va, e, k->table->flags);
	if (shared && (k->v->flags & (VM_SHARED | VM_LOCKED)))
		fail(k->q, &k->rc, "entry: in a shared table against the area", va, e, k->v->flags);
}

static void check_frame(struct check *k, vaddr_t va, pte_t e, unsigned shift)
{
	struct frame *page = frame_of(k->q->m, pte_pfn(e)), *head = frame_head(k->q->m, page);
	uint64_t bad = FRAME_RESERVED | FRAME_BUDDY | FRAME_PCP | FRAME_TABLE | FRAME_SLAB | FRAME_HUGE_ZERO;
	bool anon = (frame_flags(head) & FRAME_ANON) != 0;

	if (frame_refcount(head) <= 0 || (frame_flags(head) & bad) || anon == ((frame_flags(head) & FRAME_FILE) != 0)) {
		fail(k->q, &k->rc, "entry: maps a frame that is no user page", va, head->flags, pte_pfn(e).v);
		return;
	}
	if (shift == PMD_SHIFT ? frame_entire_mapcount(head) < 1 || head != page || frame_order(head) != HPAGE_PMD_ORDER
			       : frame_mapcount(page) < 1)
		fail(k->q, &k->rc, "entry: maps a frame that isn't counted", va, pte_pfn(e).v, 0);
	if (anon ? (k->v->flags & VM_SHARED) || !k->v->anon_touched : head->file != k->v->file)
		fail(k->q, &k->rc, "entry: a page that the area can't have", va, head->flags, k->v->flags);
	if (!anon && head->index != vma_page_index(k->v, va))
		fail(k->q, &k->rc, "entry: another page of the file", va, head->index, vma_page_index(k->v, va));
	if ((e & PTE_SOFT_EXCLUSIVE) &&
	    (!anon ||
	     (shift == PMD_SHIFT
		      ? frame_entire_mapcount(head) != 1 || head->nr_pages_mapped != FOLIO_ENTIRELY_MAPPED
		      : frame_mapcount(page) + (frame_flags(head) & FRAME_HEAD ? frame_entire_mapcount(head) : 0) != 1)))
		fail(k->q, &k->rc, "entry: owned alone but shared", va, pte_pfn(e).v, 1);
	if ((k->v->flags & VM_LOCKED) && (shift == PMD_SHIFT || !(frame_flags(head) & FRAME_HEAD)) &&
	    !frame_mlocked(head))
		fail(k->q, &k->rc, "entry: not counted as locked", va, head->flags, k->v->flags);
	if (shift == PAGE_SHIFT)
		check_marks(k, va, e, head);
	k->rss[frame_rss(head)] += 1LL << (shift - PAGE_SHIFT);
	k->huge += shift == PMD_SHIFT;
}

/* An entry of an area of a pool of huge pages: a page of the pool with a record of it (hugetlb.h HP4), or a marker. */
static void check_hugetlb(struct check *k, vaddr_t va, pte_t e, unsigned shift)
{
	const struct vma *v = k->v;
	struct frame *head = frame_of(k->q->m, pte_pfn(e));
	const struct hugetlb_rmap *rec;
	int nr = 0, own = 0;

	if (e == HUGETLB_GONE || (e == HUGETLB_USED && (v->flags & VM_HUGETLB_RESV)))
		return;
	if (!pmd_huge(e) || shift != vm_page_shift(v->flags) || (va & (vm_page_size(v->flags) - 1))) {
		fail(k->q, &k->rc, "hugetlb entry: neither a page nor a marker", va, e, shift);
		return;
	}
	check_rights(k, va, e);
	if ((frame_flags(head) & (FRAME_HUGETLB | FRAME_HUGETLB_FREE | FRAME_ANON)) != (FRAME_HUGETLB | FRAME_ANON) ||
	    frame_order(head) != shift - PAGE_SHIFT || frame_refcount(head) <= 0 || !v->anon_touched) {
		fail(k->q, &k->rc, "hugetlb entry: maps no page in use", va, head->flags, pte_pfn(e).v);
		return;
	}
	list_for_each_entry(rec, &head->lru, link) {
		nr++;
		own += rec->mm == k->mm && rec->va == va && *(pte_t *)machine_ptr(k->q->m, rec->entry) == e;
	}
	if (nr != frame_entire_mapcount(head) || own != 1)
		fail(k->q, &k->rc, "hugetlb entry: records of the page", va, (uint64_t)nr, (uint64_t)frame_entire_mapcount(head));
	if ((e & PTE_SOFT_EXCLUSIVE) && nr != 1)
		fail(k->q, &k->rc, "hugetlb entry: owned alone but shared", va, (uint64_t)nr, 1);
	k->hugetlb += 1LL << (shift - PAGE_SHIFT);
}

static void check_swap(struct check *k, vaddr_t va, pte_t e)
{
	uint64_t slot = swap_entry_slot(e);

	k->swap++;
	if (!k->v || va < k->v->start || (k->v->flags & VM_SHARED) || !k->v->anon_touched)
		fail(k->q, &k->rc, "swap entry: outside of any area, or in one that can't have it", va, e, k->v ? k->v->flags : 0);
	if (slot >= k->q->swap.nr_slots || !swap_count(k->q, slot))
		fail(k->q, &k->rc, "swap entry: names no slot in use (W1)", va, e, k->q->swap.nr_slots);
	else if ((e & PTE_SOFT_EXCLUSIVE) && swap_count(k->q, slot) != 1)
		fail(k->q, &k->rc, "swap entry: exclusive, but another names the slot (W6)", va, e, swap_count(k->q, slot));
	if (!(k->table->flags & FRAME_TABLE_PINNED) || k->table->pt_sharers)
		fail(k->q, &k->rc, "swap entry: in a table that isn't marked, or shared (W5)", va, e, k->table->flags);
}

static void check_leaf(void *arg, vaddr_t va, pte_t e, unsigned shift)
{
	struct check *k = arg;

	while (k->v && k->v->end <= va)
		k->v = vma_next(k->v);
	if (k->v && k->v->start <= va && (k->v->flags & VM_HUGETLB)) {
		check_hugetlb(k, va, e, shift);
		return;
	}
	if (shift == PAGE_SHIFT && pte_is_swap(e)) {
		check_swap(k, va, e);
		return;
	}
	if (shift > PMD_SHIFT || !pte_present(e) || (shift == PMD_SHIFT && !(e & PTE_HUGE))) {
		fail(k->q, &k->rc, "entry: neither a page nor a table", va, e, shift);
		return;
	}
	k->pmd_huge += shift == PMD_SHIFT;
	if (!k->v || va < k->v->start || k->v->end - va < (1ULL << shift)) {
		fail(k->q, &k->rc, "entry: outside of any area", va, e, k->v ? k->v->start : 0);
		return;
	}
	check_rights(k, va, e);
	if (e & PTE_SOFT_ZERO)
		check_zero(k, va, e, shift);
	else
		check_frame(k, va, e, shift);
}

static bool check_enter(void *arg, pte_t e, struct frame *t, unsigned shift)
{
	struct check *k = arg;

	if (shift > PAGE_SHIFT ? !(e & PTE_WRITE) : pt_entry_shared(e) != (t->pt_sharers != 0))
		fail(k->q, &k->rc, "table: writable against its sharers", frame_pfn(k->q->m, t).v, e, t->pt_sharers);
	if (shift > PAGE_SHIFT)
		return true;
	k->table = t;
	k->shared += pt_entry_shared(e);
	for (unsigned i = 0; i < NR_RSS; i++)
		k->table_rss[i] = 0;
	return true;
}

/* What was counted when it became shared is what it maps. */
static void check_shared(struct check *k, const struct frame *t, uint64_t at)
{
	if (t->pt_mm)
		fail(k->q, &k->rc, "table: shared, but somebody's own", at, t->pt_sharers, 0);
	for (unsigned i = 0; i < NR_RSS; i++)
		if (t->pt_rss[i] != k->table_rss[i])
			fail(k->q, &k->rc, "table: shared, and maps otherwise than counted", at, k->table_rss[i], t->pt_rss[i]);
}

static void check_table(void *arg, struct frame *t, unsigned shift, uint64_t nr, bool deposited)
{
	struct check *k = arg;
	uint64_t at = frame_pfn(k->q->m, t).v;

	k->tables++;
	bool shared = shift == PAGE_SHIFT && t->pt_sharers;

	if (shared)
		check_shared(k, t, at);
	if (!(t->flags & FRAME_TABLE) || t->pt_mm != (shared ? NULL : k->mm) || frame_refcount(t) != 1)
		fail(k->q, &k->rc, "table: not a table of this address space", at, t->flags, FRAME_TABLE);
	if (t->nr_tables != nr)
		fail(k->q, &k->rc, "table: entries in use", at, t->nr_tables, nr);
	if (deposited) {
		k->pmd_huge--;
		return;
	}
	if (shift > PMD_SHIFT && k->pmd_huge)
		fail(k->q, &k->rc, "table: deposited tables against huge entries, short by", at, k->pmd_huge, 0);
}

int mm_validate(struct mm *mm)
{
	static const char *const rss_names[NR_RSS] = { "rss: anonymous", "rss: file", "rss: shmem" };
	struct check k = { .mm = mm, .q = mm->q, .v = vma_first(mm), .rc = vma_validate(mm) };
	struct pt_visitor visitor = { .arg = &k, .leaf = check_leaf, .table = check_table, .enter = check_enter };

	if (k.rc)
		return k.rc;
	pt_visit(mm, &visitor);
	for (unsigned i = 0; i < NR_RSS; i++)
		if (mm_rss(mm, (enum rss_kind)i) != k.rss[i])
			fail(mm->q, &k.rc, rss_names[i], mm->ctx, (uint64_t)mm_rss(mm, (enum rss_kind)i), (uint64_t)k.rss[i]);
	if (mm->huge_mapped != k.huge)
		fail(mm->q, &k.rc, "huge_mapped", mm->ctx, (uint64_t)mm->huge_mapped, (uint64_t)k.huge);
	if (mm->swapents != k.swap)
		fail(mm->q, &k.rc, "swapents (W5)", mm->ctx, (uint64_t)mm->swapents, (uint64_t)k.swap);
	if (mm->shared_tables != k.shared)
		fail(mm->q, &k.rc, "shared_tables", mm->ctx, (uint64_t)mm->shared_tables, (uint64_t)k.shared);
	if (mm->hugetlb_pages != k.hugetlb)
		fail(mm->q, &k.rc, "hugetlb_pages", mm->ctx, (uint64_t)mm->hugetlb_pages, (uint64_t)k.hugetlb);
	if (mm->pgtables_bytes != k.tables << PAGE_SHIFT)
		fail(mm->q, &k.rc, "pgtables_bytes", mm->ctx, (uint64_t)mm->pgtables_bytes,
		     (uint64_t)k.tables << PAGE_SHIFT);
	return k.rc;
}

/* ---- all address spaces ---- */

/*
 * A shared table's entries count once, whoever comes to it first. How many come is added to the table's mapcount, which
 * has no other use, and must be pt_sharers.
 *
 * Every mapping is taken off the counts of the frame that it maps; what is left must be the known holders. Then
 * everything is put back. That needs no memory, and compares exactly.
 */
struct tally {
	struct quire *q;
	const struct vma *v; /* the area at or after the last entry seen */
	int32_t sign;
	int64_t tables;
};

static void tally_leaf(void *arg, vaddr_t va, pte_t e, unsigned shift)
{
	struct tally *t = arg;

	if (pte_is_swap(e))
		swap_tally_entry(t->q, e, t->sign);
	if (!pte_present(e) || (e & PTE_SOFT_ZERO))
		return;
	struct frame *page = frame_of(t->q->m, pte_pfn(e)), *head = frame_head(t->q->m, page);

	while (t->v && t->v->end <= va)
		t->v = vma_next(t->v);
	if (t->v && (t->v->flags & VM_LOCKED) && (shift == PMD_SHIFT || !(frame_flags(head) & FRAME_HEAD)))
		head->nr_locked += (uint32_t)t->sign;
	head->refcount += t->sign;
	if (shift > PAGE_SHIFT)
		head->entire_mapcount += t->sign;
	else
		page->mapcount += t->sign;
}

static bool tally_enter(void *arg, pte_t e, struct frame *t, unsigned shift)
{
	struct tally *k = arg;
	int32_t before = t->mapcount;

	(void)e;
	if (shift > PAGE_SHIFT || !t->pt_sharers)
		return true;
	t->mapcount += -k->sign; /* up in the first pass, back down in the second */
	return k->sign < 0 ? before == -1 : t->mapcount == -1;
}

static void tally_table(void *arg, struct frame *f, unsigned shift, uint64_t nr, bool deposited)
{
	struct tally *t = arg;

	(void)f, (void)shift, (void)nr, (void)deposited;
	t->tables++;
}

static void tally_all(struct tally *t, int32_t sign)
{
	struct pt_visitor visitor = { .arg = t, .leaf = tally_leaf, .table = tally_table, .enter = tally_enter };
	struct mm *mm;

	t->sign = sign;
	list_for_each_entry(mm, &t->q->mms, link) {
		t->v = vma_first(mm);
		pt_visit(mm, &visitor);
	}
}

/* With the mappings taken off: are only the known holders left? */
static void check_left(struct quire *q, int *rc, const struct frame *f, uint64_t p)
{
	const struct frame *head = frame_head(q->m, (struct frame *)(uintptr_t)f);

	if ((frame_flags(f) & FRAME_TABLE) && f->mapcount + 1 != (int32_t)f->pt_sharers && f->pt_sharers)
		fail(q, rc, "table: sharers", p, f->pt_sharers, (uint64_t)(f->mapcount + 1));
	if (!(frame_flags(head) & (FRAME_ANON | FRAME_FILE | FRAME_SWAPCACHE)))
		return;
	if (f->mapcount != -1)
		fail(q, rc, "frame: mapcount without mapping", p, (uint64_t)(f->mapcount + 1), 0);
	if (f != head)
		return;
	if ((f->flags & FRAME_HEAD) && f->entire_mapcount != -1)
		fail(q, rc, "frame: entire mapcount without mapping", p, (uint64_t)(f->entire_mapcount + 1), 0);
	if (f->nr_locked)
		fail(q, rc, "frame: counted as locked without a locked mapping", p, f->nr_locked, 0);
	uint32_t held = f->nr_pins + ((f->flags & FRAME_FILE) != 0) + ((f->flags & FRAME_ISOLATED) != 0) + (uint32_t)folio_swap_refs(f);

	if (f->refcount != (int32_t)held)
		fail(q, rc, "frame: reference without holder", p, (uint64_t)f->refcount, held);
}

struct totals {
	int64_t anon, mapped, thp, mlocked;
};

/* With all counts as they are: how many frames count as what. */
static void count_frame(struct quire *q, int *rc, const struct frame *f, uint64_t p, struct totals *t)
{
	const struct frame *head = frame_head(q->m, (struct frame *)(uintptr_t)f);
	bool compound = (frame_flags(head) & FRAME_HEAD) != 0, entire = compound && head->entire_mapcount >= 0;

	if (!(frame_flags(head) & (FRAME_ANON | FRAME_FILE)) || (frame_flags(head) & FRAME_HUGETLB))
		return;
	if (f->mapcount >= 0 || entire)
		*(frame_flags(head) & FRAME_ANON ? &t->anon : &t->mapped) += 1;
	if (frame_mlocked(head))
		t->mlocked++;
	if (f != head || !compound)
		return;
	int64_t ptes = 0;

	for (unsigned i = 0; i < frame_nr_pages(f); i++)
		ptes += f[i].mapcount >= 0;
	t->thp += entire;
	if (f->nr_pages_mapped != ptes + (entire ? FOLIO_ENTIRELY_MAPPED : 0))
		fail(q, rc, "frame: nr_pages_mapped", p, (uint64_t)f->nr_pages_mapped, (uint64_t)ptes);
}

static void each_frame(struct quire *q, int *rc, struct totals *t)
{
	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++) {
		for (unsigned zt = 0; zt < NR_ZONES; zt++) {
			const struct zone *z = &q->nodes[nid].zones[zt];

			for (uint64_t p = z->first_pfn; z->managed && p < MIN(z->deferred_pfn, z->end_pfn); p++) {
				const struct frame *f = frame_of(q->m, pfn(p));

				if (t)
					count_frame(q, rc, f, p, t);
				else
					check_left(q, rc, f, p);
			}
		}
	}
}

static void check_gauge(struct quire *q, int *rc, enum vm_counter k, int64_t should)
{
	if (vmstat_read(q, k) != should)
		fail(q, rc, vm_counter_names[k], 0, (uint64_t)vmstat_read(q, k), (uint64_t)should);
}

int quire_validate_mappings(struct quire *q)
{
	struct tally t = { .q = q };
	struct totals sum = { 0 };
	int rc = 0;

	tally_all(&t, -1);
	lru_tally_refs(q, -1);
	each_frame(q, &rc, NULL);
	if (!rc)
		rc = swap_validate_counts(q);
	check_gauge(q, &rc, VM_nr_page_table_pages, t.tables);
	lru_tally_refs(q, 1);
	tally_all(&t, 1);
	each_frame(q, &rc, &sum);
	check_gauge(q, &rc, VM_nr_anon_pages, sum.anon);
	check_gauge(q, &rc, VM_nr_anon_transparent_hugepages, sum.thp);
	check_gauge(q, &rc, VM_nr_mapped, sum.mapped);
	check_gauge(q, &rc, VM_nr_mlock, sum.mlocked);
	return rc;
}

/* ---- one page ---- */

/* The leaf entry for va; 0 where there is none. */
static pte_t find_leaf(const struct mm *mm, vaddr_t va, unsigned *ret_shift)
{
	const struct machine *m = mm->q->m;
	pfn_t table = mm->pgd;
	bool shared = false;

	for (unsigned shift = PGDIR_SHIFT;; shift -= 9) {
		struct pt_ref r = { .entry = (pte_t *)machine_ptr(m, pfn_to_paddr(table)) + pt_index(va, shift) };
		pte_t e = pte_peek(&r);

		*ret_shift = shift;
		if (shift == PAGE_SHIFT || !pmd_table(e))
			return shared ? e & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE) : e;
		shared |= pt_entry_shared(e);
		table = pte_pfn(e);
	}
}

void mm_page_info(struct mm *mm, vaddr_t va, struct mm_page_info *ret)
{
	const struct machine *m = mm->q->m;
	unsigned shift;
	pte_t e = va < TASK_SIZE ? find_leaf(mm, va, &shift) : 0;

	*ret = (struct mm_page_info){ .present = pte_present(e), .swapped = pte_is_swap(e) };
	if (ret->swapped) {
		ret->slot = swap_entry_slot(e);
		ret->exclusive = (e & PTE_SOFT_EXCLUSIVE) != 0;
	}
	if (!ret->present)
		return;
	ret->huge = shift > PAGE_SHIFT;
	ret->writable = (e & PTE_WRITE) != 0;
	ret->dirty = (e & PTE_DIRTY) != 0;
	ret->accessed = (e & PTE_ACCESSED) != 0;
	ret->zero_page = (e & PTE_SOFT_ZERO) != 0;
	ret->exclusive = (e & PTE_SOFT_EXCLUSIVE) != 0;
	ret->pfn = pfn_add(pte_pfn(e), (va & ((1ULL << shift) - 1)) >> PAGE_SHIFT);
	ret->anon = (frame_head(m, frame_of(m, ret->pfn))->flags & FRAME_ANON) != 0;
	if (m->tags)
		ret->tag = m->tags[ret->pfn.v];
}
