/*
 * Areas of an address space: the tree (vma.c), merging and splitting (vma_merge.c), gaps (vma_gap.c).
 *
 * Invariants
 *  V1 Areas do not overlap, start < end, both page-aligned; the tree is ordered by start.
 *  V2 Two neighbours that could merge (same flags, same file with continuing offsets, ...) are merged, unless the upper
 *     one has `apart` set. Areas of pools of huge pages never merge.
 *  V3 mm->total_vm is the sum of the areas' pages; mm->locked_vm that of VM_LOCKED ones; mm->map_count the number of
 *     areas; data_vm and stack_vm those of the areas that count as such.
 *  V4 The tree is an AVL tree; gap and subtree_gap are what they say.
 * Guarded by mm->mmap_lock: read to look, write to change. Exceptions: anon_vma, anon_id, anon_touched and anon_forked are set
 * once under the read lock, with mm->ptl held (vma_anon_prepare); and where an area is in trees of the reverse map (anon_vma.h), start,
 * end and pgoff change under their locks as well.
 */
#ifndef QUIRE_MM_VMA_H
#define QUIRE_MM_VMA_H

#include "mm/frame.h"

#define VM_READ (1ULL << 0)
#define VM_WRITE (1ULL << 1)
#define VM_EXEC (1ULL << 2)
#define VM_SHARED (1ULL << 3)
#define VM_MAYREAD (1ULL << 4)
#define VM_MAYWRITE (1ULL << 5)
#define VM_MAYEXEC (1ULL << 6)
#define VM_GROWSDOWN (1ULL << 8)
#define VM_LOCKED (1ULL << 13)
#define VM_LOCKONFAULT (1ULL << 14)
#define VM_DONTCOPY (1ULL << 17) /* MADV_DONTFORK */
#define VM_DONTEXPAND (1ULL << 18)
#define VM_ACCOUNT (1ULL << 20)
#define VM_NORESERVE (1ULL << 21)
#define VM_HUGETLB (1ULL << 22)
#define VM_WIPEONFORK (1ULL << 25)
#define VM_DONTDUMP (1ULL << 26)
#define VM_HUGEPAGE (1ULL << 29)
#define VM_NOHUGEPAGE (1ULL << 30)
#define VM_SEQ_READ (1ULL << 31)
#define VM_RAND_READ (1ULL << 32)
#define VM_STACK (1ULL << 33)
#define VM_HEAP (1ULL << 34)
#define VM_SPECIAL (1ULL << 35) /* vdso and the like: always present, never accounted */
#define VM_HUGETLB_1G (1ULL << 36) /* with VM_HUGETLB: pages of 1 GiB, else of 2 MiB */
#define VM_HUGETLB_RESV (1ULL << 37) /* with VM_HUGETLB: its empty entries are promised a page (hugetlb.h HP3) */

#define VM_LOCKED_MASK (VM_LOCKED | VM_LOCKONFAULT)
#define VM_MAY_MASK (VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC)
#define VM_STICKY (VM_HEAP | VM_STACK) /* say where an area comes from: no obstacle to merging, the result has both */
#define STACK_GUARD_GAP (256 * PAGE_SIZE) /* kept free below an area that grows downwards */

#define VM_ACCESS_FLAGS (VM_READ | VM_WRITE | VM_EXEC)

/* An area. What a lookup reads is on its first cache line. */
struct vma {
	vaddr_t start, end;
	struct vma *left, *right; /* tree, private to vma.c and vma_gap.c */
	uint64_t subtree_gap; /* largest gap of the subtree */
	uint64_t gap;         /* free bytes between the area before and this one, less the guard below a stack */
	uint64_t flags;
	struct vma *parent;

	uint64_t pgoff; /* file offset in pages; anonymous: start >> 12 when it was made */
	struct mfile *file; /* NULL: anonymous. Holds a reference. */
	struct mm *mm;
	uint64_t anon_id;  /* a name for anon_vma in this address space; 0 none */
	int32_t height;    /* of the subtree; a leaf has 1 */
	/* has had an anonymous page ('anon_vma' present in Linux): limits merging, decides about fork */
	bool anon_touched;
	bool anon_forked; /* ... and is a copy made by fork: does not merge with untouched areas */
	/* could merge with the area before, but was made by what never merges (fork, stack growth, DONTUNMAP) */
	bool apart;
	struct anon_vma *anon_vma; /* its own; NULL until anon_touched */
	struct list_head anon_vma_chain; /* its links (anon_vma.h), also those reserved for it */
};

_Static_assert(sizeof(struct vma) == 128, "an area is two cache lines");

/* The area that contains addr, or the first one above it, or NULL. Charges the lookup. mmap_lock held. */
struct vma *vma_find(struct cpu *c, struct mm *mm, vaddr_t addr);
/* Neighbours in address order; NULL at the ends. */
struct vma *vma_first(const struct mm *mm);
struct vma *vma_next(const struct vma *v);
struct vma *vma_prev(const struct vma *v);

/*
 * The area is about to get its first anonymous page: give it an anon_vma, a neighbour's where both could be one area but
 * for their access rights (so that a later mprotect can merge them). No effect when it has one. mmap_lock held. 0 or
 * -ENOMEM.
 */
ATTR_MUST_CHECK int vma_anon_prepare(struct cpu *c, struct vma *v);

/*
 * The area for a fault at addr: vma_find, stack growth included (for the kernel's accesses as well). NULL: no such
 * area. mmap_lock held for reading; where a stack has to grow it is let go and taken for writing in between.
 */
struct vma *vma_for_fault(struct cpu *c, struct mm *mm, vaddr_t addr);

/* Free all areas of mm and give back what they committed (exit); page tables have been torn down. */
void vma_free_all(struct cpu *c, struct mm *mm);
/*
 * Copy the tree of `from` into the empty `to`, all but VM_DONTCOPY areas, and their accounting (total_vm, ... of `to`
 * are set here). Copies are not locked; touched ones get an anon_id of their own, links and anon_touched, except
 * VM_WIPEONFORK ones, which start untouched: nothing of them is to be copied. On -ENOMEM `to` is left empty. mmap_lock
 * of both held for writing.
 */
int vma_dup_all(struct cpu *c, struct mm *to, struct mm *from);

/* V1 to V4. 0, or -EINVAL with mm->q->err set. */
int vma_validate(const struct mm *mm);

#endif
