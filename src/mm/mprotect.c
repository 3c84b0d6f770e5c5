/*
 * mprotect. Works area by area from below; an error (hole: -ENOMEM, no such right: -EACCES, limits and memory: -ENOMEM, a
 * part of a page of a pool: -EINVAL) leaves what was done before it, as on Linux. mmap_lock for writing.
 */
#include "mm/vma_int.h"

#include "mm/fault.h"
#include "mm/fork_shared.h"

struct mprotect_run {
	struct mmu_gather *g;
	uint64_t rights; /* VM_READ, ... */
};

/* Private memory that becomes writable is promised; anonymous memory that was never written gives the promise back. */
static int change_promise(struct mm *mm, const struct vma *v, uint64_t pages, uint64_t *flags, uint64_t *ret_charged)
{
	uint64_t old = v->flags;

	*ret_charged = 0;
	if (!(*flags & VM_WRITE)) {
		if ((old & VM_ACCOUNT) && vma_is_anon(v) && !v->anon_touched)
			*flags &= ~VM_ACCOUNT;
		return 0;
	}
	if (!vm_may_expand(mm, *flags, pages) && vm_may_expand(mm, old, pages))
		return -ENOMEM;
	if (old & (VM_ACCOUNT | VM_WRITE | VM_SHARED | VM_NORESERVE | VM_HUGETLB))
		return 0;
	if (vm_commit(mm, pages))
		return -ENOMEM;
	*ret_charged = pages;
	*flags |= VM_ACCOUNT;
	return 0;
}

/* [start, end) of v gets the flags. *ret: the area that covers the range afterwards. */
static int protect_area(struct cpu *c, struct mm *mm, struct mprotect_run *run, struct vma *v, vaddr_t start,
			vaddr_t end, uint64_t flags, struct vma **ret)
{
	uint64_t old = v->flags, pages = (end - start) >> PAGE_SHIFT, charged;
	int err;

	*ret = v;
	if (flags == old)
		return 0;
	err = pt_unshare_range(c, mm, start, end, UNSHARE_ALL);
	if (err)
		return err;
	err = change_promise(mm, v, pages, &flags, &charged);
	if (err)
		return err;
	err = vma_modify(c, v, start, end, flags, ret);
	if (err) {
		vm_uncommit(mm->q, charged);
		return err;
	}
	if ((old & VM_ACCOUNT) && !(flags & VM_ACCOUNT))
		vm_uncommit(mm->q, pages);
	vm_account(mm, old, -(int64_t)pages);
	vm_account(mm, flags, (int64_t)pages);
	err = protect_range(c, run->g, *ret, start, end, flags);
	/* Locked private pages that become writable are copied now, not at the access. As in Linux, under the lock. */
	if (!err && (old & (VM_WRITE | VM_SHARED | VM_LOCKED)) == VM_LOCKED && (flags & VM_WRITE))
		(void)populate_area(c, mm, *ret, start, end, POPULATE_MAP, end);
	return err;
}

/* Areas from v on. tables: inside a gather. */
static int protect_areas(struct cpu *c, struct mm *mm, struct mprotect_run *run, struct vma *v, vaddr_t start,
			 vaddr_t end)
{
	uint64_t flags;
	vaddr_t stop;
	int err;

	for (;;) {
		flags = run->rights | (v->flags & ~VM_ACCESS_FLAGS);
		if ((flags & ~(flags >> 4)) & VM_ACCESS_FLAGS) /* VM_MAYx is VM_x shifted by 4 */
			return -EACCES;
		stop = MIN(v->end, end);
		err = protect_area(c, mm, run, v, start, stop, flags, &v);
		if (err)
			return err;
		start = stop;
		if (start >= end)
			return 0;
		if (v->end <= start)
			v = vma_next_charged(c, v);
		if (!v || v->start > start)
			return -ENOMEM;
	}
}

/* Lock held. grows: PROT_GROWSDOWN: from the beginning of a stack that the range lies in. */
static int mprotect_locked(struct cpu *c, struct mm *mm, struct mprotect_run *run, vaddr_t start, vaddr_t end,
			   unsigned grows)
{
	struct vma *v = vma_find(c, mm, start);
	int err;

	if (!v)
		return -ENOMEM;
	if (grows & UAPI_PROT_GROWSDOWN) {
		if (v->start >= end)
			return -ENOMEM;
		start = v->start;
		if (!(v->flags & VM_GROWSDOWN))
			return -EINVAL;
	} else {
		if (v->start > start)
			return -ENOMEM;
		if (grows & UAPI_PROT_GROWSUP)
			return -EINVAL; /* no area grows upwards on x86 */
	}
	run->g = c->pc->gather;
	tlb_gather_begin(c, run->g, mm, false);
	run->g->why = FLUSH_MPROTECT;
	err = protect_areas(c, mm, run, v, start, end);
	tlb_gather_end(c, run->g);
	return err;
}

int64_t mm_mprotect(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned prot)
{
	enum machine_path outer = machine_work(c, PATH_MPROTECT, 1);
	unsigned grows = prot & (UAPI_PROT_GROWSDOWN | UAPI_PROT_GROWSUP);
	struct mprotect_run run = { .rights = vm_prot_flags(prot) };
	vaddr_t end = addr + ALIGN_UP(len, PAGE_SIZE);
	int err;

	prot &= ~grows;
	if (grows == (UAPI_PROT_GROWSDOWN | UAPI_PROT_GROWSUP) || (addr & ~PAGE_MASK)) {
		err = -EINVAL;
	} else if (!len) {
		err = 0;
	} else if (end <= addr) {
		err = -ENOMEM;
	} else if (prot & ~(UAPI_PROT_READ | UAPI_PROT_WRITE | UAPI_PROT_EXEC | UAPI_PROT_SEM)) {
		err = -EINVAL;
	} else {
		mm_write_lock(c, mm);
		err = mprotect_locked(c, mm, &run, addr, end, grows);
		mm_write_unlock(c, mm);
	}
	machine_path(c, outer);
	return err;
}
