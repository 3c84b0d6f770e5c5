/*
 * mlock, mlock2 (on_fault), munlock, mlockall, munlockall.
 *
 * The areas are marked under the write lock, area by area from below (a hole is -ENOMEM after the first part was done),
 * then pages are brought in without it. Running out of memory there is -EAGAIN, pages that cannot be had at all
 * (PROT_NONE) are -ENOMEM; the areas stay locked either way, as POSIX and Linux have it.
 */
#include "mm/vma_int.h"

#include "mm/fault.h"
#include "mm/fork_shared.h"

bool mm_can_lock(const struct mm *mm)
{
	return mm->memlock_rlimit != 0;
}

/* [start, end) of *v gets these lock flags; *v: the area that covers it afterwards. 0 or -ENOMEM. */
static int lock_area(struct cpu *c, struct mm *mm, struct vma **v, vaddr_t start, vaddr_t end, uint64_t lock)
{
	uint64_t old = (*v)->flags, flags = (old & ~VM_LOCKED_MASK) | lock;
	int64_t pages = (int64_t)((end - start) >> PAGE_SHIFT);

	if (flags == old || (old & (VM_SPECIAL | VM_HUGETLB))) /* pages of a pool stay in memory anyway */
		return 0;
	if ((flags & ~old & VM_LOCKED) && pt_unshare_range(c, mm, start, end, UNSHARE_ALL))
		return -ENOMEM;
	if (vma_modify(c, *v, start, end, flags, v))
		return -ENOMEM;
	vm_account(mm, old, -pages);
	vm_account(mm, flags, pages);
	if ((flags ^ old) & VM_LOCKED)
		mlock_range(c, *v, start, end, (flags & VM_LOCKED) != 0);
	return 0;
}

static int lock_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, uint64_t lock)
{
	struct vma *v;
	vaddr_t stop;

	if (end < start)
		return -EINVAL;
	if (end == start)
		return 0;
	v = vma_lookup(c, mm, start);
	while (v && v->start <= start) {
		stop = MIN(v->end, end);
		if (lock_area(c, mm, &v, start, stop, lock))
			return -ENOMEM;
		start = stop;
		if (start >= end)
			return 0;
		if (v->end <= start)
			v = vma_next_charged(c, v);
	}
	return -ENOMEM;
}

/* Pages of [start, end) that are locked already. */
static uint64_t locked_within(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end)
{
	uint64_t n = 0;

	for (struct vma *v = vma_find(c, mm, start); v && v->start < end; v = vma_next_charged(c, v))
		if (v->flags & VM_LOCKED)
			n += (MIN(v->end, end) - MAX(v->start, start)) >> PAGE_SHIFT;
	return n;
}

int64_t mm_mlock(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, bool on_fault)
{
	enum machine_path outer = machine_work(c, PATH_MLOCK, 1);
	vaddr_t start = addr & PAGE_MASK;
	uint64_t whole = ALIGN_UP(len + (addr & ~PAGE_MASK), PAGE_SIZE), wanted = whole >> PAGE_SHIFT;
	uint64_t limit = mm->memlock_rlimit >> PAGE_SHIFT;
	int err = -ENOMEM;

	if (!mm_can_lock(mm)) {
		machine_path(c, outer);
		return -EPERM;
	}
	mm_write_lock(c, mm);
	wanted += mm->locked_vm;
	if (wanted > limit)
		wanted -= locked_within(c, mm, start, start + whole);
	if (wanted <= limit)
		err = lock_range(c, mm, start, start + whole, VM_LOCKED | (on_fault ? VM_LOCKONFAULT : 0));
	mm_write_unlock(c, mm);
	if (!err) {
		err = populate_range(c, mm, start, start + whole, POPULATE_LOCK);
		err = err == -EFAULT ? -ENOMEM : err == -ENOMEM ? -EAGAIN : err;
	}
	machine_path(c, outer);
	return err;
}

int64_t mm_munlock(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len)
{
	enum machine_path outer = machine_work(c, PATH_MLOCK, 1);
	vaddr_t start = addr & PAGE_MASK;
	int err;

	mm_write_lock(c, mm);
	err = lock_range(c, mm, start, start + ALIGN_UP(len + (addr & ~PAGE_MASK), PAGE_SIZE), 0);
	mm_write_unlock(c, mm);
	machine_path(c, outer);
	return err;
}

static uint64_t lock_flags(unsigned flags)
{
	return VM_LOCKED | (flags & UAPI_MCL_ONFAULT ? VM_LOCKONFAULT : 0);
}

/*
 * Future mappings by def_flags, present ones area by area; those for which memory runs out stay as they are. flags 0:
 * unlock.
 */
static void lock_all(struct cpu *c, struct mm *mm, unsigned flags)
{
	uint64_t lock = flags & UAPI_MCL_CURRENT ? lock_flags(flags) : 0;

	mm->def_flags &= ~VM_LOCKED_MASK;
	if (flags & UAPI_MCL_FUTURE) {
		mm->def_flags |= lock_flags(flags);
		if (!(flags & UAPI_MCL_CURRENT))
			return;
	}
	for (struct vma *v = vma_first(mm); v; v = vma_next_charged(c, v))
		(void)lock_area(c, mm, &v, v->start, v->end, lock);
}

int64_t mm_mlockall(struct cpu *c, struct mm *mm, unsigned flags)
{
	enum machine_path outer = machine_work(c, PATH_MLOCK, 1);
	bool current = (flags & UAPI_MCL_CURRENT) != 0;
	int err = -ENOMEM;

	if (!flags || (flags & ~(UAPI_MCL_CURRENT | UAPI_MCL_FUTURE | UAPI_MCL_ONFAULT)) || flags == UAPI_MCL_ONFAULT) {
		err = -EINVAL;
	} else if (!mm_can_lock(mm)) {
		err = -EPERM;
	} else {
		mm_write_lock(c, mm);
		if (!current || mm->total_vm <= mm->memlock_rlimit >> PAGE_SHIFT) {
			lock_all(c, mm, flags);
			err = 0;
		}
		mm_write_unlock(c, mm);
		if (!err && current)
			(void)populate_range(c, mm, 0, TASK_SIZE, POPULATE_MAP);
	}
	machine_path(c, outer);
	return err;
}

int64_t mm_munlockall(struct cpu *c, struct mm *mm)
{
	enum machine_path outer = machine_work(c, PATH_MLOCK, 1);

	mm_write_lock(c, mm);
	lock_all(c, mm, 0);
	mm_write_unlock(c, mm);
	machine_path(c, outer);
	return 0;
}
