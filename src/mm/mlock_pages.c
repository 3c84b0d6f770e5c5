/*
 * Counting what is resident as locked, when an area becomes VM_LOCKED or ceases to be. Under mmap_lock for writing. What is being
 * moved is counted when its mapping is put back, by the area's flags of then.
 */
#include "mm/fault.h"
#include "mm/rmap.h"

static inline void mlock_folio(struct pt_range *w, struct frame *head)
{
	const bool *lock = w->arg;

	(void)machine_work(w->c, PATH_MLOCK_PAGE, 1);
	if (*lock)
		rmap_mlock(w->c, head);
	else
		rmap_munlock(w->c, head);
}

ATTR_NOINLINE static bool mlock_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	pte_t e = pte_peek(r);

	(void)va;
	if ((e & PTE_SOFT_ZERO) || !pte_present(e))
		return false;
	struct frame *page = frame_of(w->c->m, pte_pfn(e));

	frame_touch(w->c, page, TOUCH_READ);
	if (!(frame_flags(page) & (FRAME_HEAD | FRAME_TAIL)))
		mlock_folio(w, page);
	return false;
}

ATTR_NOINLINE static bool mlock_huge_pmd(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	pte_t e = pte_peek(r);

	(void)va;
	if (!(e & PTE_SOFT_ZERO) && pte_present(e))
		mlock_folio(w, frame_of(w->c->m, pte_pfn(e)));
	return false;
}

void mlock_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool lock)
{
	struct pt_range w = { .c = c, .v = v, .arg = &lock, .huge = mlock_huge_pmd, .pte = mlock_pte };

	lru_add_drain(c); /* what is on no list yet goes to the right one at once */
	pt_for_range(&w, start, end);
	lru_add_drain(c);
}
