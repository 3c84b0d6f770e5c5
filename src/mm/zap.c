/*
 * Taking mappings away, and MADV_FREE.
 *
 * An entry is exchanged for nothing under its table's lock, so that the A and D bits that the hardware set last are
 * seen; the frame goes to the gather, which keeps it until no CPU can use the old translation any more (tlb.h T2). A
 * full gather is flushed with the lock dropped.
 */
#include "base/assert.h"
#include "mm/fault.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/nonpresent.h"
#include "mm/rmap.h"
#include "mm/split.h"
#include "mm/swap.h"
#include "mm/tlb.h"

struct zap {
	struct mmu_gather *g;
	int64_t rss[NR_RSS + 1]; /* the last one: what was no resident page */
};

ATTR_NOINLINE static bool zap_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	struct zap *z = w->arg;
	pte_t e = pte_xchg(c, r, 0);

	(void)machine_work(c, PATH_ZAP, 1);
	if (unlikely(!pte_present(e))) {
		z->rss[nonpresent_zap(c, w->v, e)] -= 1;
		return false;
	}
	tlb_gather_range(z->g, va, PAGE_SIZE);
	if (e & PTE_SOFT_ZERO)
		return false;
	struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

	if ((e & PTE_SOFT_EXCLUSIVE) && (frame_flags(page) & (FRAME_ANON | FRAME_HEAD | FRAME_TAIL)) == FRAME_ANON) {
		z->rss[RSS_ANON]--;
		rmap_remove_sole(c, page, w->v->flags);
		return tlb_gather_add(c, z->g, page);
	}
	if (!(frame_flags(head) & FRAME_ANON)) {
		if (e & PTE_DIRTY)
			frame_set(head, FRAME_DIRTY);
		/* Those who read in a known order, or in none, have said that what they used says nothing about what will be. */
		if ((e & PTE_ACCESSED) && !(w->v->flags & (VM_SEQ_READ | VM_RAND_READ)))
			folio_mark_accessed(c, head);
	}
	z->rss[frame_rss(head)]--;
	rmap_remove_pte(c, head, page, w->v->flags);
	return tlb_gather_add(c, z->g, head);
}

ATTR_NOINLINE static bool zap_huge_pmd(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	struct zap *z = w->arg;
	pte_t e = pte_xchg(c, r, 0);

	(void)machine_work(c, PATH_ZAP_HUGE, 1);
	pt_free_table(c, w->v->mm, pt_withdraw(c, r->table));
	machine_path(c, PATH_ZAP_HUGE);
	if (unlikely(!pte_present(e))) {
		z->rss[nonpresent_zap(c, w->v, e)] -= HPAGE_PMD_NR;
		return false;
	}
	tlb_gather_range(z->g, va, PMD_SIZE);
	if (e & PTE_SOFT_ZERO)
		return false;
	struct frame *head = frame_of(c->m, pte_pfn(e));

	z->rss[RSS_ANON] -= HPAGE_PMD_NR;
	__atomic_sub_fetch(&w->v->mm->huge_mapped, 1, __ATOMIC_RELAXED);
	rmap_remove_pmd(c, head, w->v->flags);
	return tlb_gather_add(c, z->g, head);
}

static void zap_relax(struct pt_range *w)
{
	struct zap *z = w->arg;

	tlb_gather_flush(w->c, z->g);
}

void zap_range(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end)
{
	struct zap z = { .g = g };
	struct pt_range w = { .c = c, .v = v, .arg = &z, .huge = zap_huge_pmd, .pte = zap_pte, .relax = zap_relax };

	if (v->flags & VM_HUGETLB) {
		hugetlb_zap(c, g, v, start, end, true);
		return;
	}
	pt_for_range(&w, start, end);
	if (z.rss[RSS_ANON] | z.rss[RSS_FILE] | z.rss[RSS_SHMEM])
		mm_rss_note_peak(v->mm);
	for (unsigned i = 0; i < NR_RSS; i++)
		if (z.rss[i])
			mm_rss_add(c, v->mm, (enum rss_kind)i, z.rss[i]);
}

/* ---- MADV_FREE ---- */

struct lazyfree {
	struct mmu_gather *g;
	vaddr_t end;
};

/* What may be dropped has nothing in swap. false: it can't give that up now. */
static bool lazyfree_unswap(struct cpu *c, struct frame *head)
{
	bool done = !(frame_flags(head) & FRAME_SWAPCACHE);

	if (!done && folio_trylock(c, head)) {
		done = !(frame_flags(head) & FRAME_SWAPCACHE) || folio_free_swap(c, head);
		folio_unlock(c, head);
	}
	return done;
}

/* Clean from now on: may be dropped unless it is written again. */
static void lazyfree_folio(struct cpu *c, struct frame *head)
{
	if (frame_mlocked(head) || !lazyfree_unswap(c, head))
		return;
	if (frame_flags(head) & FRAME_DIRTY)
		frame_clear(head, FRAME_DIRTY);
	folio_mark_lazyfree(c, head);
}

/* Frames of a huge page that others may use are only made clean: the folio as a whole is still wanted. */
ATTR_NOINLINE static bool lazyfree_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	struct lazyfree *k = w->arg;
	pte_t e = pte_peek(r);

	(void)machine_work(c, PATH_LAZYFREE, 1);
	if (unlikely(pte_is_swap(e))) {
		pte_write(c, r, 0);
		(void)nonpresent_zap(c, w->v, e);
		return false;
	}
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

	frame_touch(c, page, TOUCH_READ);
	if (head != page)
		frame_touch(c, head, TOUCH_READ);
	if (!(frame_flags(head) & FRAME_ANON))
		return false;
	if (e & (PTE_ACCESSED | PTE_DIRTY)) {
		pte_clear_bits(c, r, PTE_ACCESSED | PTE_DIRTY);
		tlb_gather_range(k->g, va, PAGE_SIZE);
	}
	/* Of a huge page only where all of it is advised: what could not be split is only made clean. */
	if (head == page && (!(frame_flags(head) & FRAME_HEAD) || pte_maps_whole_folio(c, r, va, k->end, head)))
		lazyfree_folio(c, head);
	return false;
}

ATTR_NOINLINE static bool lazyfree_huge_pmd(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	struct lazyfree *k = w->arg;
	pte_t e = pte_peek(r);

	(void)machine_work(c, PATH_LAZYFREE, 1);
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *head = frame_of(c->m, pte_pfn(e));

	frame_touch(c, head, TOUCH_READ);
	if (!frame_mapped_once(head))
		return false; /* shared: others still want it */
	if (e & (PTE_ACCESSED | PTE_DIRTY)) {
		pte_clear_bits(c, r, PTE_ACCESSED | PTE_DIRTY);
		tlb_gather_range(k->g, va, PMD_SIZE);
	}
	lazyfree_folio(c, head);
	return false;
}

/* Of what others still want, or nobody owns, no part is freed either: it is not split. */
static bool lazyfree_keeps(struct pt_range *w, const struct pt_ref *r)
{
	pte_t e = pte_peek(r);

	return (e & PTE_SOFT_ZERO) || !pte_present(e) || !frame_mapped_once(frame_of(w->c->m, pte_pfn(e)));
}

void zap_lazyfree_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end)
{
	struct lazyfree k = { .g = c->pc->gather, .end = end };
	struct pt_range w = { .c = c, .v = v, .arg = &k, .huge = lazyfree_huge_pmd, .pte = lazyfree_pte, .keeps = lazyfree_keeps };

	lru_add_drain(c); /* what is on no list yet can't be moved to another, nor split */
	split_partly_covered(c, v, start, end);
	tlb_gather_begin(c, k.g, v->mm, false);
	k.g->why = FLUSH_MADVISE;
	pt_for_range(&w, start, end);
	tlb_gather_end(c, k.g);
	lru_add_drain(c); /* Linux leaves the last few of them for later */
}
