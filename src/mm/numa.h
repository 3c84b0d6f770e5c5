/*
 * Balancing memory between nodes: the scanner that takes access away for a while (numa_scan.c), and the faults that follow (numa_fault.c).
 *
 * Invariants
 *  N1 A marked entry has PTE_PROTNONE in place of PTE_PRESENT in an area that allows access; all else, PTE_WRITE too, stays as it was, so
 *     that giving access back is one exchange of the two bits and costs no further fault. In an area without any access the same bits
 *     mean PROT_NONE, and the fault is refused before it comes here.
 *  N2 From the first mark of a range to the end of its flush mm->numa_flush_pending is not 0: until then stale translations of marked
 *     entries may exist, and whoever takes such an entry away flushes (pte_maybe_cached).
 *  N3 mm->numa_marked once an entry may be marked, and in copies: validators accept marks only there.
 */
#ifndef QUIRE_MM_NUMA_H
#define QUIRE_MM_NUMA_H

#include "mm/pagetable.h"

#define NUMA_BALANCING_NORMAL 1U
#define NUMA_BALANCING_MEMORY_TIERING 2U

struct fault;

/* Takes access away (N1). The same with access. */
static inline pte_t pte_numa_mark(pte_t e)
{
	return (e & ~PTE_PRESENT) | PTE_PROTNONE;
}

static inline pte_t pte_numa_restore(pte_t e)
{
	return (e & ~PTE_PROTNONE) | PTE_PRESENT | PTE_ACCESSED;
}

/* Of an entry that maps a page: may some TLB hold it? */
static inline bool pte_maybe_cached(const struct mm *mm, pte_t e)
{
	return (e & PTE_PRESENT) || ((e & PTE_PROTNONE) && __atomic_load_n(&mm->numa_flush_pending, __ATOMIC_ACQUIRE));
}

/*
 * Mark what is mapped in [start, end) of the area, a part of it, and flush once if anything was. mmap_lock is held for reading. Pages
 * marked.
 */
uint64_t numa_scan_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end);
/* Go on with the address space as far as the budget of one period reaches. mmap_lock held for reading. Pages marked. */
uint64_t numa_scan_mm(struct cpu *c, struct mm *mm);
/* On the way back to the program: scan if the period is over and nobody else does. No locks held. */
void numa_task_work(struct cpu *c, struct mm *mm);

/* ---- faults: f->pte, or f->pmd, was found to be marked in an area that allows the access. 0: repeat it ---- */
int numa_fault_pte(struct fault *f);
int numa_fault_pmd(struct fault *f);

#endif
