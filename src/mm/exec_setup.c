/*
 * What exec gives a new address space: the stack, the start of the heap, the top of the mmap area. And the growth of
 * stacks afterwards.
 *
 * No randomisation: addresses are those of Linux with it switched off (setarch -R), so that runs repeat.
 */
#include "mm/vma_int.h"

#include "base/assert.h"

#define MMAP_GAP_MIN (128ULL << 20)
#define MMAP_GAP_MAX (TASK_SIZE / 6 * 5)

/* Below the stack's limit and its guard, but at least 128 MiB and at most five sixths below the top. */
static vaddr_t top_of_mmap(uint64_t stack_rlimit)
{
	uint64_t gap = stack_rlimit;

	if (gap + STACK_GUARD_GAP > gap)
		gap += STACK_GUARD_GAP;
	gap = MIN(MAX(gap, MMAP_GAP_MIN), MMAP_GAP_MAX);
	return ALIGN_UP(TASK_SIZE - gap, PAGE_SIZE);
}

int mm_setup_exec(struct cpu *c, struct mm *mm, vaddr_t start_brk, vaddr_t stack_top, uint64_t stack_len)
{
	uint64_t len = ALIGN_UP(stack_len, PAGE_SIZE),
		 flags = VM_READ | VM_WRITE | VM_MAY_MASK | VM_GROWSDOWN | VM_ACCOUNT | VM_STACK;
	struct vma *v, *prev, *next;
	int err = -ENOMEM;

	if ((stack_top & ~PAGE_MASK) || stack_top > TASK_SIZE || !len || len >= stack_top || start_brk > TASK_SIZE)
		return -EINVAL;
	mm_write_lock(c, mm);
	next = vma_find_prev(c, mm, stack_top - len, &prev);
	flags |= mm->def_flags;
	if (next && next->start < stack_top) {
		err = -EEXIST;
	} else if (vm_may_expand(mm, flags, len >> PAGE_SHIFT) && !vm_commit(mm, len >> PAGE_SHIFT)) {
		v = vma_alloc(c, mm);
		if (v) {
			v->start = stack_top - len;
			v->end = stack_top;
			v->flags = flags;
			v->pgoff = v->start >> PAGE_SHIFT;
			vma_insert(c, v, prev);
			vma_mark_apart(v);
			vm_account(mm, flags, (int64_t)(len >> PAGE_SHIFT));
			mm->start_brk = mm->brk = start_brk;
			mm->stack_top = stack_top;
			mm->mmap_base = top_of_mmap(mm->stack_rlimit);
			err = 0;
		} else {
			vm_uncommit(mm->q, len >> PAGE_SHIFT);
		}
	}
	mm_write_unlock(c, mm);
	return err;
}

/* May v, which grows downwards, begin at addr? Limits, the guard to what lies below, and the promise. */
static bool may_grow(struct mm *mm, const struct vma *v, vaddr_t addr)
{
	const struct vma *below = vma_prev(v);
	uint64_t pages = (v->start - addr) >> PAGE_SHIFT;

	if (addr < mm->q->knobs.mmap_min_addr || pages > v->pgoff)
		return false;
	if (below && (below->end > addr ||
		      (!(below->flags & VM_GROWSDOWN) && vma_accessible(below) && addr - below->end < STACK_GUARD_GAP)))
		return false;
	if (v->end - addr > mm->stack_rlimit || !vm_may_expand(mm, v->flags, pages) ||
	    !vm_lock_ok(mm, v->flags, pages << PAGE_SHIFT))
		return false;
	return vm_commit(mm, pages) == 0;
}

/* v, the area above addr, begins at addr from now on, where it may. Lock held for writing. */
static bool stack_grow(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t addr)
{
	uint64_t pages = (v->start - addr) >> PAGE_SHIFT;

	if (!may_grow(mm, v, addr))
		return false;
	vma_set_range(c, v, addr, v->end, v->pgoff - pages);
	vm_account(mm, v->flags, (int64_t)pages);
	vma_mark_apart(v);
	return true;
}

struct vma *vma_for_fault(struct cpu *c, struct mm *mm, vaddr_t addr)
{
	struct vma *v = vma_find(c, mm, addr);

	if (!v || v->start <= addr)
		return v;
	if (!(v->flags & VM_GROWSDOWN))
		return NULL;
	/* Areas change under the write lock only, so that lookups need no more than the read lock. Linux: since 6.5. */
	machine_read_unlock(c, &mm->mmap_lock);
	mm_write_lock(c, mm);
	v = vma_find(c, mm, addr);
	if (v && v->start > addr && !((v->flags & VM_GROWSDOWN) && stack_grow(c, mm, v, addr & PAGE_MASK)))
		v = NULL;
	machine_downgrade(c, &mm->mmap_lock);
	return v;
}
