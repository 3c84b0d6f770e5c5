/*
 * Following page tables to a folio. The reference is taken under the lock of the table that holds the entry, which keeps the page from being
 * freed until then; of a shared table under the lock that keeps that there (fork_shared.c).
 */
#include "mm/follow.h"

#include "mm/fault_int.h"
#include "mm/fork_shared.h"

static struct frame *take(struct cpu *c, pte_t e, vaddr_t va, unsigned shift, struct frame **ret_page)
{
	struct frame *page, *head;

	if (!pte_present(e) || (e & PTE_SOFT_ZERO))
		return NULL;
	page = frame_of(c->m, pfn_add(pte_pfn(e), (va & ((1ULL << shift) - 1)) >> PAGE_SHIFT));
	head = frame_head(c->m, page);
	frame_get(c, head);
	if (ret_page)
		*ret_page = page;
	return head;
}

struct frame *follow_folio(struct cpu *c, const struct vma *v, vaddr_t va, struct frame **ret_page)
{
	struct frame *folio = NULL;
	struct pt_ref pmd, pte;

	if ((v->flags & VM_HUGETLB) || pt_pmd(c, v->mm, va, false, &pmd))
		return NULL;
	pt_lock(c, pmd.table);
	pte_t e = pte_read(c, &pmd);

	if (pmd_leaf(e)) {
		folio = pmd_huge(e) ? take(c, e, va, PMD_SHIFT, ret_page) : NULL;
		pt_unlock(c, pmd.table);
		return folio;
	}
	if (pt_entry_shared(e)) {
		pte = pt_ref_at(c, frame_of(c->m, pte_pfn(e)), va, PAGE_SHIFT);
		pt_lock(c, pte.table);
		folio = take(c, pte_read(c, &pte), va, PAGE_SHIFT, ret_page);
		pt_unlock(c, pte.table);
		pt_unlock(c, pmd.table);
		return folio;
	}
	pt_unlock(c, pmd.table);
	if (pt_pte(c, v->mm, &pmd, va, false, &pte))
		return NULL; /* nothing there, or a huge page by now */
	pt_lock(c, pte.table);
	folio = take(c, pte_read(c, &pte), va, PAGE_SHIFT, ret_page);
	pt_unlock(c, pte.table);
	return folio;
}

struct frame *mm_follow_folio(struct cpu *c, struct mm *mm, vaddr_t va, struct frame **ret_page)
{
	struct frame *folio = NULL;

	machine_read_lock(c, &mm->mmap_lock);
	const struct vma *v = va < TASK_SIZE ? vma_find(c, mm, va) : NULL;

	if (v && v->start <= va)
		folio = follow_folio(c, v, va, ret_page);
	machine_read_unlock(c, &mm->mmap_lock);
	return folio;
}
