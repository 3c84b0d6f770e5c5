/*
 * Areas of an address space: the tree, its invariants, and what is done with it (vma.c).
 *
 * Invariants
 *  V1 Areas do not overlap, start < end, both page-aligned; the tree is ordered by start.
 *  V2 Two neighbours that could merge (same flags, same file with continuing offsets, ...) are merged.
 *  V3 mm->total_vm is the sum of the areas' pages; mm->locked_vm that of VM_LOCKED ones; mm->map_count the number of areas.
 * Guarded by mm->mmap_lock: read to look, write to change.
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
#define VM_WIPEONFORK (1ULL << 25)
#define VM_DONTDUMP (1ULL << 26)
#define VM_HUGEPAGE (1ULL << 29)
#define VM_NOHUGEPAGE (1ULL << 30)
#define VM_SEQ_READ (1ULL << 31)
#define VM_RAND_READ (1ULL << 32)
#define VM_STACK (1ULL << 33)
#define VM_HEAP (1ULL << 34)
#define VM_SPECIAL (1ULL << 35) /* vdso and the like: always present, never accounted */

#define VM_ACCESS_FLAGS (VM_READ | VM_WRITE | VM_EXEC)

struct vma {
	vaddr_t start, end;
	uint64_t flags;
	uint64_t pgoff; /* file offset in pages; anonymous: start >> 12 when it was made */
	struct mfile *file; /* NULL: anonymous. Holds a reference. */
	struct mm *mm;
	bool anon_touched; /* has had an anonymous page ('anon_vma' present in Linux): limits merging, decides about fork */
	uint64_t anon_id;  /* which anon_vma; 0 none */
	/* tree, private to vma.c */
	struct vma *left, *right, *parent;
	uint64_t subtree_gap; /* largest gap below any area of the subtree */
	int32_t balance;
};

/* The area that contains addr, or the first one above it, or NULL. Charges the lookup. mmap_lock held. */
struct vma *vma_find(struct cpu *c, struct mm *mm, vaddr_t addr);
/* Neighbours in address order; NULL at the ends. */
struct vma *vma_first(const struct mm *mm);
struct vma *vma_next(const struct vma *v);
struct vma *vma_prev(const struct vma *v);

/* The area for a fault at addr: vma_find, stack growth included. NULL: no such area. mmap_lock held for reading. */
struct vma *vma_for_fault(struct cpu *c, struct mm *mm, vaddr_t addr, bool user);

/* Free all areas of mm (exit); page tables have been torn down. */
void vma_free_all(struct cpu *c, struct mm *mm);
/* Copy the tree of `from` into the empty `to`, all but VM_DONTCOPY areas; on -ENOMEM `to` is left empty. */
int vma_dup_all(struct cpu *c, struct mm *to, struct mm *from);

/* V1 to V3. 0 or -EINVAL. */
int vma_validate(const struct mm *mm);

#endif
