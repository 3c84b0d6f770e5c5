/*
 * Page faults and the per-page operations that the calls on address spaces need.
 *   fault.c  dispatch and rights        anon.c  anonymous 4K pages, zero page, copy on write
 *   file_fault.c  page-cache pages     thp.c  huge faults, PMD split    thp_cow.c  huge copy on write
 *   zap.c  unmapping    protect.c  rights    move.c  mremap    fork.c  copying
 *   mm_life.c  creation and exit    copy_user.c  kernel copies
 */
#ifndef QUIRE_MM_FAULT_H
#define QUIRE_MM_FAULT_H

#include "mm/pagetable.h"
#include "mm/tlb.h"

/* The machine's hook. Takes mmap_lock for reading. 0, -EFAULT, -ENOMEM; counters say which kind it was. */
int mm_fault(struct cpu *c, vaddr_t va, unsigned err);
/* The same with mmap_lock already held for reading and the area known (populate). */
int fault_handle(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t va, unsigned err);

/* Kernel copies to (write) or from user memory through c's current address space, with faults. 0 or -EFAULT/-ENOMEM. */
int mm_copy_user(struct cpu *c, vaddr_t va, uint64_t len, bool write);

/* Remove all mappings in [start, end) of an area, and what it was promised of a pool. mmap_lock held. Frames go to the gather. */
void zap_range(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end);
/* MADV_FREE on a range: clear young and dirty, mark lazyfree; splits huge mappings partly covered. */
void zap_lazyfree_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end);
/* Give every present entry in [start, end) the rights of new_flags; flushes what lost rights through g. */
int protect_range(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, uint64_t new_flags);
/*
 * Move entries (mremap): from old area [old, old+len) to new addresses, where nothing is mapped. Returns the bytes
 * dealt with; less than len when memory for tables ran out, and then calling it the other way round with that length
 * puts everything back.
 */
int64_t move_range(struct cpu *c, struct vma *from, struct vma *to, vaddr_t old, vaddr_t new_addr, uint64_t len);
/* Replace the huge entry at *pmd that covers va, if it is one, by 512 base entries. Never fails. */
void thp_split_pmd(struct cpu *c, struct vma *v, const struct pt_ref *pmd, vaddr_t va);
/*
 * The same for a mapping of `folio` only, and with migration entries for its pages (unmap.h), since the folio is being split; if it is
 * pinned, present ones.
 */
void thp_split_folio_pmd(struct cpu *c, struct vma *v, struct frame *folio, vaddr_t va);
/* Split the huge mapping that covers va but would straddle va (if va is not 2 MiB aligned and one is there). */
void thp_split_boundary(struct cpu *c, struct vma *v, vaddr_t va);
/* Copy one area's entries for fork. 0 or -ENOMEM. */
int fork_copy_range(struct cpu *c, struct mm *child, struct mm *parent, struct vma *child_vma, struct vma *parent_vma);
/*
 * Set or clear FRAME_MLOCKED and nr_mlock on what is resident in [start, end). Once for each change of VM_LOCKED: the
 * mappings that come and go while the area has VM_LOCKED are counted by the fault and unmap paths. Under mmap_lock for
 * writing. Frames of huge pages that PTEs map are not counted.
 */
void mlock_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool lock);

/*
 * Sums over all address spaces: each frame's mapcount and reference count are exactly the mappings found plus the known
 * holders, and the gauges that count mapped frames are right. 0 or -EINVAL with q->err. Not while tasks run.
 */
int quire_validate_mappings(struct quire *q);

#endif
