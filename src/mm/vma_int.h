/*
 * What the files of the address-space calls share and nobody else needs: vma.c, vma_merge.c, vma_gap.c, limits.c,
 * mmap.c, munmap.c, mprotect.c, mremap.c, madvise.c, brk.c, mlock.c, mincore.c, populate.c, exec_setup.c. Unless said
 * otherwise mmap_lock is held for writing.
 */
#ifndef QUIRE_MM_VMA_INT_H
#define QUIRE_MM_VMA_INT_H

#include "base/errno.h"
#include "mm/anon_vma.h"
#include "mm/system.h"
#include "mm/uapi.h"

#define USER_TABLES_END (1ULL << 47) /* page tables of user addresses end here, one page above TASK_SIZE */

static inline uint64_t vma_pages(const struct vma *v)
{
	return (v->end - v->start) >> PAGE_SHIFT;
}

/* The lowest address that must stay free below the area: its start, or the end of its guard gap. */
static inline vaddr_t vma_start_gap(const struct vma *v)
{
	if (!(v->flags & VM_GROWSDOWN))
		return v->start;
	return v->start > STACK_GUARD_GAP ? v->start - STACK_GUARD_GAP : 0;
}

static inline bool vma_accessible(const struct vma *v)
{
	return (v->flags & VM_ACCESS_FLAGS) != 0;
}

/* Private memory with no file behind it; shared anonymous memory has a file (shmem), and so have, in Linux, pools of huge pages. */
static inline bool vma_is_anon(const struct vma *v)
{
	return !v->file && !(v->flags & VM_HUGETLB);
}

static inline uint64_t vm_prot_flags(unsigned prot)
{
	return (prot & UAPI_PROT_READ ? VM_READ : 0) | (prot & UAPI_PROT_WRITE ? VM_WRITE : 0) |
	       (prot & UAPI_PROT_EXEC ? VM_EXEC : 0);
}

/* Counted write lock of the address space, and its end. */
static inline void mm_write_lock(struct cpu *c, struct mm *mm)
{
	machine_write_lock(c, &mm->mmap_lock);
	vmstat_inc(c, VM_quire_mmap_lock_write);
}

static inline void mm_write_unlock(struct cpu *c, struct mm *mm)
{
	machine_write_unlock(c, &mm->mmap_lock);
}

/* ---- vma.c: the tree ---- */
/* What vma_alloc makes room for: an area and its place in the tree of its file. Areas that only describe have none. */
struct vma_object {
	struct vma v;
	struct interval_node i_mmap;
	uint64_t swap_ra; /* a hint: what swap_fault.c remembers of the last fault */
};
_Static_assert(sizeof(struct vma_object) == 192, "an area begins at a cache line");

struct vma *vma_alloc(struct cpu *c, struct mm *mm);
/* Cuts its links and drops the file's reference as well. The area is in no address space's tree. */
void vma_free(struct cpu *c, struct vma *v);
/*
 * Make v, which vma_alloc made, what `want` describes, but without links: a touched one has to be linked. Takes a reference on the
 * file.
 */
void vma_assign(struct vma *v, const struct vma *want);
/*
 * Put v into v->mm's tree right after prev (NULL: first), and into its file's. Raises map_count; no other accounting.
 */
void vma_insert(struct cpu *c, struct vma *v, struct vma *prev);
void vma_erase(struct cpu *c, struct vma *v);
/* Change the bounds of an area in the tree; its place among the others stays. */
void vma_set_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, uint64_t pgoff);
/* vma_find, and the last area that ends at or below addr (NULL: none). */
struct vma *vma_find_prev(struct cpu *c, struct mm *mm, vaddr_t addr, struct vma **ret_prev);
/* The area that contains addr or NULL. */
struct vma *vma_lookup(struct cpu *c, struct mm *mm, vaddr_t addr);
/* Charge a look at, or a write to, all of an area's descriptor. */
void vma_touch(struct cpu *c, const struct vma *v, enum touch_kind kind);
/* The next area, for those who go on to look at it. */
static inline struct vma *vma_next_charged(struct cpu *c, const struct vma *v)
{
	struct vma *next = vma_next(v);

	if (next)
		vma_touch(c, next, TOUCH_READ);
	return next;
}

/* ---- vma_merge.c ---- */
/*
 * Could a and b, where b begins at a's end, be one area? Anonymous memory of both: equal, or one of them untouched and
 * unforked.
 */
bool vma_can_merge(const struct vma *a, const struct vma *b);
/*
 * Make the free range that `want` describes (range, flags, pgoff, file, anon_*) part of its neighbours where they
 * allow. Returns the area that now covers it, or NULL: an area of its own is needed. Allocates nothing, takes no
 * reference. Where `want` has links they may be taken.
 */
struct vma *vma_merge_new(struct cpu *c, struct vma *prev, struct vma *next, struct vma *want);
/*
 * Give [start, end) of v other flags: splits and merges as needed. *ret: the area that now covers the range (v itself
 * may be gone). 0, or with nothing changed -ENOMEM, -EINVAL (a part of a huge page of a pool). No accounting but map_count.
 */
int vma_modify(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, uint64_t flags, struct vma **ret);
/* Set `apart` on v and on the area after it where they could merge downwards now and are not going to. */
void vma_mark_apart(struct vma *v);

/* ---- vma_gap.c ---- */
/*
 * Where a mapping of len bytes (page-aligned, not 0) goes: addr with MAP_FIXED, else the hint if it is free, else a
 * gap. The address, or -ENOMEM, -EINVAL, -EPERM. mmap_lock held.
 */
int64_t vma_get_unmapped(struct cpu *c, struct mm *mm, const struct mfile *file, vaddr_t addr, uint64_t len,
			 uint64_t pgoff, unsigned map_flags);
/* The same for an area of a pool of huge pages: at a multiple of `size`, as is len. */
int64_t vma_get_unmapped_huge(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, uint64_t size, unsigned map_flags);
/* Round a hint as mmap does: to a page, and up to mmap_min_addr unless 0. */
vaddr_t vma_round_hint(const struct mm *mm, vaddr_t addr);

/* ---- limits.c ---- */
bool vm_may_expand(const struct mm *mm, uint64_t flags, uint64_t pages); /* RLIMIT_AS, RLIMIT_DATA */
bool vm_lock_ok(const struct mm *mm, uint64_t flags, uint64_t bytes); /* RLIMIT_MEMLOCK */
/* Does a mapping with these flags promise memory? */
bool vm_accountable(uint64_t flags);
/* Promise pages, by the rules of vm.overcommit_memory. 0 or -ENOMEM. */
int vm_commit(struct mm *mm, uint64_t pages);
void vm_uncommit(struct quire *q, uint64_t pages);
/* Count pages (negative: no longer) of an area with these flags in total_vm, data_vm, stack_vm, locked_vm. */
void vm_account(struct mm *mm, uint64_t flags, int64_t pages);

/* ---- munmap.c ---- */
/*
 * Unmapping in three strokes, so that whoever replaces a mapping can look at everything that may fail before the first
 * change: unmap_plan allocates and counts, unmap_detach takes the range out of the tree, unmap_finish removes the
 * pages.
 *
 *        start                 end
 *   [ first   |head] [whole] [tail|  last  ]      head and tail: descriptions of the parts that go, not in any tree
 *   [ first   |head..............|  spare  ]      a hole in one area
 */
struct unmap_plan {
	struct mm *mm;
	vaddr_t start, end;
	struct vma *first; /* first area in the range; NULL: nothing is mapped there */
	struct vma *spare; /* becomes the part above a hole */
	uint64_t pages; /* mapped in the range */
	uint64_t accounted; /* ... of which promised (VM_ACCOUNT); giving them back is up to the caller */
	struct vma head, tail; /* start == end: none */
	struct vma *whole, *whole_last; /* chained by ->right */
	vaddr_t floor, ceiling;
};

/*
 * spare: an area allocated before, with what links it will need, or NULL. It belongs to the plan from now on, even on error. 0, -ENOMEM, or -EINVAL: an end lies
 * within a huge page of a pool.
 */
int unmap_plan(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, struct vma *spare, struct unmap_plan *p);
void unmap_abort(struct cpu *c, struct unmap_plan *p);
void unmap_detach(struct cpu *c, struct unmap_plan *p);
/* mmap_lock held for writing, or for reading after a downgrade. */
void unmap_finish(struct cpu *c, struct unmap_plan *p);
/* munmap(2) with the lock held for writing; *ret_unlocked (may be NULL: keep it) says that it has been dropped. */
int munmap_locked(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len, bool *ret_unlocked);

/* ---- mlock.c ---- */
bool mm_can_lock(const struct mm *mm); /* -EPERM if not */

/* ---- populate.c ---- */
enum populate_mode {
	POPULATE_MAP, /* mmap, brk, mremap, mlockall: holes and errors are skipped */
	POPULATE_LOCK, /* mlock: the first error ends it */
	POPULATE_READ, /* MADV_POPULATE_READ */
	POPULATE_WRITE, /* MADV_POPULATE_WRITE */
};
/* One area's part, mmap_lock held. A fault that fails behind `first` is made again before it is the answer. */
int populate_area(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t va, vaddr_t end, enum populate_mode mode, vaddr_t first);
/* mmap_lock not held. 0, -ENOMEM (hole, or out of memory), -EINVAL (no such right; READ and WRITE), -EFAULT. */
int populate_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, enum populate_mode mode);

#endif
