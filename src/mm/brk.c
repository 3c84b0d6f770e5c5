/*
 * brk. Returns the break that holds afterwards: on any refusal the old one, as the system call does. mmap_lock for
 * writing; populates without it.
 */
#include "mm/vma_int.h"

#define HEAP_FLAGS (VM_READ | VM_WRITE | VM_MAY_MASK | VM_ACCOUNT | VM_HEAP)

/* [start, end) becomes heap: part of the area that ends at start where it can be, else an area of its own. */
static int heap_grow(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, struct vma *prev)
{
	uint64_t pages = (end - start) >> PAGE_SHIFT;
	struct vma want = {
		.start = start,
		.end = end,
		.flags = HEAP_FLAGS | mm->def_flags,
		.pgoff = start >> PAGE_SHIFT,
		.mm = mm,
	};
	struct vma *v;

	if (!vm_may_expand(mm, want.flags, pages) || mm->map_count > mm->q->knobs.max_map_count || vm_commit(mm, pages))
		return -ENOMEM;
	if (!vma_merge_new(c, prev && prev->end == start ? prev : NULL, NULL, &want)) {
		v = vma_alloc(c, mm);
		if (!v) {
			vm_uncommit(mm->q, pages);
			return -ENOMEM;
		}
		vma_assign(v, &want);
		vma_insert(c, v, prev);
	}
	vm_account(mm, want.flags, (int64_t)pages);
	return 0;
}

/* May the heap reach up to end? One page and the guard below a stack stay free. */
static bool heap_may_reach(const struct mm *mm, const struct vma *next, vaddr_t start, vaddr_t end)
{
	if (end > TASK_SIZE || !vm_lock_ok(mm, mm->def_flags, end - start))
		return false;
	return !next || end + PAGE_SIZE <= vma_start_gap(next);
}

/* Lock held. True when mm->brk is the new break. */
static bool brk_locked(struct cpu *c, struct mm *mm, vaddr_t brk, bool *ret_unlocked)
{
	vaddr_t from = ALIGN_UP(mm->brk, PAGE_SIZE), to = ALIGN_UP(brk, PAGE_SIZE), was = mm->brk;
	struct vma *next, *prev;

	if (brk < mm->start_brk || brk > TASK_SIZE || brk - mm->start_brk > mm->data_rlimit)
		return false;
	if (to < from) {
		next = vma_find(c, mm, to);
		if (!next || next->start >= from)
			return false;
		mm->brk = brk; /* first: the lock may be gone afterwards */
		if (munmap_locked(c, mm, to, from - to, ret_unlocked)) {
			mm->brk = was;
			return false;
		}
		return true;
	}
	if (to > from) {
		next = vma_find_prev(c, mm, from, &prev);
		if (!heap_may_reach(mm, next, from, to) || heap_grow(c, mm, from, to, prev))
			return false;
	}
	mm->brk = brk;
	return true;
}

int64_t mm_brk(struct cpu *c, struct mm *mm, vaddr_t brk)
{
	enum machine_path outer = machine_work(c, PATH_BRK, 1);
	bool unlocked = false, populate;
	vaddr_t from, ret;

	mm_write_lock(c, mm);
	from = ALIGN_UP(mm->brk, PAGE_SIZE);
	ret = mm->brk;
	if (brk_locked(c, mm, brk, &unlocked))
		ret = brk;
	populate = !unlocked && (mm->def_flags & VM_LOCKED) && ALIGN_UP(ret, PAGE_SIZE) > from;
	if (!unlocked)
		mm_write_unlock(c, mm);
	if (populate)
		(void)populate_range(c, mm, from, ALIGN_UP(ret, PAGE_SIZE), POPULATE_MAP);
	machine_path(c, outer);
	return (int64_t)ret;
}
