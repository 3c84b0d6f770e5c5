/*
 * Splitting what a range of addresses maps, as Linux's debugfs file split_huge_pages does. One folio after the other, each with a reference
 * taken under its table's lock and its own lock only if that is free.
 * Locks: mmap_lock for reading throughout; the folio's inside.
 */
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/split.h"

/* The huge page of which va maps a part, with a reference, or NULL. *ret_next: behind what was found out. */
static struct frame *huge_folio_at(struct cpu *c, struct mm *mm, vaddr_t va, vaddr_t *ret_next)
{
	struct frame *head = NULL;
	struct pt_ref pmd, r;
	bool huge;
	pte_t e;

	*ret_next = ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE;
	if (pt_pmd(c, mm, va, false, &pmd))
		return NULL;
	e = pte_read(c, &pmd);
	huge = pmd_huge(e);
	r = pmd;
	if (!huge) {
		if (pt_entry_shared(e) || pt_pte(c, mm, &pmd, va, false, &r))
			return NULL;
		*ret_next = va + PAGE_SIZE;
	}
	pt_lock(c, r.table);
	e = pte_peek(&r);
	if (pte_present(e) && !(e & PTE_SOFT_ZERO) && (!huge || pmd_huge(e))) {
		head = frame_head(c->m, frame_of(c->m, pte_pfn(e)));
		if (frame_flags(head) & FRAME_HEAD)
			frame_get(c, head);
		else
			head = NULL;
	}
	pt_unlock(c, r.table);
	return head;
}

uint64_t quire_split_range(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len)
{
	vaddr_t va = start & PAGE_MASK, end = start + len, next;
	uint64_t done = 0;

	machine_read_lock(c, &mm->mmap_lock);
	while (va < end) {
		struct vma *v = vma_find(c, mm, va);

		if (!v || v->start >= end)
			break;
		for (va = MAX(va, v->start); va < end && va < v->end; va = next) {
			struct frame *head = v->flags & (VM_HUGETLB | VM_SPECIAL) ? NULL : huge_folio_at(c, mm, va, &next);

			if (v->flags & (VM_HUGETLB | VM_SPECIAL))
				next = v->end;
			if (!head)
				continue;
			if (folio_trylock(c, head)) {
				done += !folio_split(c, head, NULL, NULL);
				folio_unlock(c, head);
			}
			frame_put(c, head);
		}
	}
	machine_read_unlock(c, &mm->mmap_lock);
	return done;
}
