/*
 * MADV_COLD: pages lose their marks of use and go to the inactive lists. MADV_PAGEOUT: they are reclaimed at once, as far as reclaim can.
 *
 * Only pages that one mapping has are touched: others may want theirs. A huge page that lies in the range in part is split first, if
 * nobody else maps or holds it. Differs from Linux: parts of a huge page that is mapped by small entries are passed over, where
 * Linux splits it.
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

ATTR_NOINLINE static bool cold_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	struct cpu *c = w->c;
	pte_t e = pte_peek(r);

	(void)machine_work(c, PATH_LAZYFREE, 1);
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *page = frame_of(c->m, pte_pfn(e));

	frame_touch(c, page, TOUCH_READ);
	if (!(frame_flags(page) & (FRAME_HEAD | FRAME_TAIL)) && (frame_flags(page) & FRAME_LRU) && folio_mapcount(page) == 1)
		cold_folio(c, w->arg, page, r, e, va, PAGE_SIZE);
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

/* The range begins or ends at va, within a huge page: it becomes small ones, if it can. */
static void split_edge(struct cpu *c, struct vma *v, vaddr_t va)
{
	struct frame *head = NULL;
	struct pt_ref pmd;

	if (IS_ALIGNED(va, PMD_SIZE) || pt_pmd(c, v->mm, va, false, &pmd))
		return;
	pt_lock(c, pmd.table);
	pte_t e = pte_read(c, &pmd);

	if (pmd_huge(e) && !(e & PTE_SOFT_ZERO) && folio_mapcount(frame_of(c->m, pte_pfn(e))) == 1) {
		head = frame_of(c->m, pte_pfn(e));
		frame_get(c, head);
	}
	pt_unlock(c, pmd.table);
	if (!head)
		return;
	if (folio_trylock(c, head)) {
		(void)folio_split(c, head, NULL, NULL);
		folio_unlock(c, head);
	}
	frame_put(c, head);
}

void madvise_cold(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool pageout)
{
	struct cold k = { .g = c->pc->gather, .pageout = pageout };
	struct reclaim_stat stat;
	struct pt_range w = { .c = c, .v = v, .arg = &k, .huge = cold_huge_pmd, .pte = cold_pte, .keeps = cold_keeps };

	list_init(&k.folios);
	lru_add_drain(c); /* what is on no list yet can't be taken from one */
	split_edge(c, v, start);
	split_edge(c, v, end);
	tlb_gather_begin(c, k.g, v->mm, false);
	k.g->why = FLUSH_MADVISE;
	pt_for_range(&w, start, end);
	tlb_gather_end(c, k.g);
	lru_add_drain(c); /* Linux leaves the last few for later */
	(void)reclaim_folio_list(c, &k.folios, NULL, &stat);
}
