/*
 * Collapse: 512 base pages of anonymous memory become one huge page (collapse.c). Who asks: khugepaged (khugepaged.h), which keeps to
 * its limits and to transparent_hugepage.enabled, and MADV_COLLAPSE, which keeps to neither.
 * Source: the kernel's description of transparent huge pages, madvise(2).
 */
#ifndef QUIRE_MM_COLLAPSE_H
#define QUIRE_MM_COLLAPSE_H

#include "mm/pagetable.h"

/* What came of a range of 2 MiB; names as Linux's tracepoints give them. */
#define SCAN_RESULTS(R)                                                                                                 \
	R(succeeded)             /* there is a huge page now */                                                         \
	R(pmd_null)              /* no table, or what can't be touched now */                                           \
	R(no_pmd)                /* nothing was ever there */                                                           \
	R(page_pmd_mapped)       /* there is a huge page already */                                                     \
	R(exceed_none_pte)                                                                                              \
	R(exceed_swap_pte)                                                                                              \
	R(exceed_shared_pte)                                                                                            \
	R(pte_non_present)                                                                                              \
	R(lack_referenced_page)                                                                                         \
	R(page_null)                                                                                                    \
	R(page_count)            /* somebody holds a reference: a pin, another's look */                                \
	R(page_lru)              /* on no list of reclaim */                                                            \
	R(page_lock)             /* somebody works on it */                                                             \
	R(page_anon)             /* not anonymous memory */                                                             \
	R(any_process)           /* the address space is at its end */                                                  \
	R(vma_null)                                                                                                     \
	R(vma_check)             /* the area may have no huge pages */                                                  \
	R(address_range)         /* the 2 MiB are not all in the area */                                                \
	R(del_page_lru)          /* could not be taken off its list */                                                  \
	R(alloc_huge_page_fail)                                                                                         \
	R(cgroup_charge_fail)                                                                                           \
	R(copy_poisoned_page)                                                                                           \
	R(fail)

enum scan_result {
#define R(n) SCAN_##n,
	SCAN_RESULTS(R)
#undef R
	NR_SCAN_RESULTS
};

extern const char *const scan_result_names[NR_SCAN_RESULTS];

/* May the area have huge pages made of what it has? sysfs: also by transparent_hugepage.enabled. mmap_lock held. */
bool collapse_allowed(const struct mm *mm, const struct vma *v, bool sysfs);

/*
 * Look at [base, base + 2 MiB) of v, and collapse it if it may and can be. by_daemon: within khugepaged's limits. mmap_lock is held for
 * reading; *ret_locked: whether it still is: once an attempt has begun it is not, and v may be gone.
 */
enum scan_result collapse_range(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t base, bool by_daemon, bool *ret_locked);

/*
 * MADV_COLLAPSE on [start, end), page-aligned; holes make it -ENOMEM. 0: all whole 2 MiB of the range are huge pages; else, for the last that is
 * not: -ENOMEM (no huge page), -EBUSY (a limit of memory), -EAGAIN (somebody is at work there), -EINVAL (the area can't have them, and
 * everything else). mmap_lock is not held.
 */
int madvise_collapse(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end);

#endif
