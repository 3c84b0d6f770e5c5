/*
 * Changing the rights of what is mapped (mprotect).
 *
 * Rights of an entry follow from the area's flags and from who owns the page: WRITE is given only to anonymous pages
 * that belong to this mapping alone, and in shared mappings to pages that were written before (or whose file doesn't
 * track writes); everything else asks by a fault. Without any right the entry stays, with PTE_PROTNONE in place of
 * PTE_PRESENT. A and D and the software bits are kept: the change is one atomic exchange against what the hardware may
 * set meanwhile.
 */
#include "mm/fault.h"
#include "mm/nonpresent.h"
#include "mm/numa.h"
#include "mm/rmap.h"

struct protect {
	struct mmu_gather *g;
	uint64_t flags;
};

#define PROTECT_KEEP (PTE_ADDR_MASK | PTE_ACCESSED | PTE_DIRTY | PTE_HUGE | PTE_SOFT_ZERO | PTE_SOFT_EXCLUSIVE)

static pte_t protect_entry(const struct vma *v, uint64_t flags, pte_t e)
{
	pte_t n = (e & PROTECT_KEEP) | (pte_prot(flags) & ~(PTE_WRITE | PTE_ACCESSED));

	if (!(flags & VM_WRITE) || (e & PTE_SOFT_ZERO))
		return n;
	if (flags & VM_SHARED)
		return (e & PTE_DIRTY) || v->file->shmem ? n | PTE_WRITE : n;
	return e & PTE_SOFT_EXCLUSIVE ? n | PTE_WRITE : n;
}

/* Could a TLB hold rights that the new entry doesn't give? */
static bool protect_must_flush(const struct mm *mm, pte_t old, pte_t n)
{
	if (!pte_maybe_cached(mm, old))
		return false;
	return !(n & PTE_PRESENT) || ((old & ~n) & PTE_WRITE) || ((n & ~old) & PTE_NX);
}

static inline void protect_one(struct pt_range *w, const struct pt_ref *r, vaddr_t va, uint64_t size)
{
	struct protect *p = w->arg;
	pte_t old = pte_peek(r), n;

	(void)machine_work(w->c, PATH_PROTECT, 1);
	if (unlikely(!pte_present(old))) {
		nonpresent_protect(w->c, r, old);
		return;
	}
	do {
		n = protect_entry(w->v, p->flags, old);
		if (n == old)
			return;
	} while (!pte_try_replace(r, &old, n));
	machine_touch(w->c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	if (protect_must_flush(w->v->mm, old, n))
		tlb_gather_range(p->g, va, size);
}

ATTR_NOINLINE static bool protect_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	protect_one(w, r, va, PAGE_SIZE);
	return false;
}

ATTR_NOINLINE static bool protect_huge_pmd(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	protect_one(w, r, va, PMD_SIZE);
	return false;
}

int protect_range(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, uint64_t new_flags)
{
	struct protect p = { .g = g, .flags = new_flags };
	struct pt_range w = { .c = c, .v = v, .arg = &p, .huge = protect_huge_pmd, .pte = protect_pte };

	if (v->flags & VM_HUGETLB) {
		hugetlb_protect(c, g, v, start, end, new_flags);
		return 0;
	}
	pt_for_range(&w, start, end);
	return 0;
}
