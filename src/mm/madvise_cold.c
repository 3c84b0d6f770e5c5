/*
 * MADV_COLD: pages lose their marks of use and go to the inactive lists. MADV_PAGEOUT: they are reclaimed at once, as far as reclaim can.
 *
 * Only pages that one mapping has are touched: others may want theirs. A huge page that lies in the range in part is split first, if
 * nobody else maps or holds it (split_range.c); what of one could not be is passed over.
 */
#include "mm/fault.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/reclaim.h"
#include "mm/rmap.h"
#include "mm/rmap_walk.h"
#include "mm/split.h"
#include "mm/tlb.h"

struct cold {
	struct mmu_gather *g;
	bool pageout;
	struct list_head folios; /* to be reclaimed, isolated */
	vaddr_t end;
	const struct frame *whole; /* a huge page, mapped by small entries, that the walk has met the first of */
};

/* Under the lock of the table whose entry maps it. */
static void cold_folio(struct cpu *c, struct cold *k, struct frame *head, const struct pt_ref *r, pte_t e, vaddr_t va, uint64_t size)
{
	if (!k->pageout && (e & PTE_ACCESSED)) {
		pte_clear_bits(c, r, PTE_ACCESSED);
		tlb_gather_range(k->g, va, size);
	}
	frame_touch(c, head, TOUCH_ATOMIC);
	frame_clear(head, FRAME_REFERENCED);
	if (frame_flags(head) & FRAME_ACTIVE)
		frame_set(head, FRAME_WORKINGSET);
	if (!k->pageout)
		folio_deactivate(c, head);
	else if (!(frame_flags(head) & FRAME_UNEVICTABLE) && folio_isolate_lru(c, head))
		list_add_tail(&head->lru, &k->folios);
}

static void clear_accessed(struct cpu *c, struct cold *k, const struct pt_ref *r, pte_t e, vaddr_t va)
{
	if (!(e & PTE_ACCESSED))
		return;
	pte_clear_bits(c, r, PTE_ACCESSED);
	tlb_gather_range(k->g, va, PAGE_SIZE);
}

ATTR_NOINLINE static bool cold_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	struct cold *k = w->arg;
	pte_t e = pte_peek(r);

	(void)machine_work(c, PATH_LAZYFREE, 1);
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *page = frame_of(c->m, pte_pfn(e));

	frame_touch(c, page, TOUCH_READ);
	if (frame_flags(page) & FRAME_TAIL) {
		if (k->whole == frame_head(c->m, page) && !k->pageout)
			clear_accessed(c, k, r, e, va);
		return false;
	}
	k->whole = (frame_flags(page) & FRAME_HEAD) && pte_maps_whole_folio(c, r, va, k->end, page) ? page : NULL;
	if ((frame_flags(page) & FRAME_LRU) && (k->whole || (!(frame_flags(page) & FRAME_HEAD) && folio_mapcount(page) == 1)))
		cold_folio(c, k, page, r, e, va, PAGE_SIZE);
	return false;
}

ATTR_NOINLINE static bool cold_huge_pmd(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	pte_t e = pte_peek(r);

	(void)machine_work(c, PATH_LAZYFREE, 1);
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *head = frame_of(c->m, pte_pfn(e));

	frame_touch(c, head, TOUCH_READ);
	if (folio_mapcount(head) == 1)
		cold_folio(c, w->arg, head, r, e, va, PMD_SIZE);
	return false;
}

static bool cold_keeps(struct pt_range *w, const struct pt_ref *r)
{
	(void)w, (void)r;
	return true;
}

void madvise_cold(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool pageout)
{
	struct cold k = { .g = c->pc->gather, .pageout = pageout, .end = end };
	struct reclaim_stat stat;
	struct pt_range w = { .c = c, .v = v, .arg = &k, .huge = cold_huge_pmd, .pte = cold_pte, .keeps = cold_keeps };

	list_init(&k.folios);
	lru_add_drain(c); /* what is on no list yet can't be taken from one */
	split_partly_covered(c, v, start, end);
	tlb_gather_begin(c, k.g, v->mm, false);
	k.g->why = FLUSH_MADVISE;
	pt_for_range(&w, start, end);
	tlb_gather_end(c, k.g);
	lru_add_drain(c); /* Linux leaves the last few for later */
	(void)reclaim_folio_list(c, &k.folios, NULL, &stat);
}
