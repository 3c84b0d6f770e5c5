/*
 * msync. Only MS_SYNC writes, and only what shared mappings of files have dirty; MS_ASYNC has had nothing to do since write-back finds dirty pages by
 * itself; MS_INVALIDATE is a question whether anything is locked. mmap_lock for reading, let go of while a file is written.
 */
#include "mm/uapi.h"
#include "mm/vma_int.h"

#define KNOWN_FLAGS (UAPI_MS_ASYNC | UAPI_MS_INVALIDATE | UAPI_MS_SYNC)

/* From v on. Lock held. A hole makes the result -ENOMEM, but what is mapped beyond it is written; MS_ASYNC alone ends there. */
static int msync_walk(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned flags)
{
	struct vma *v = vma_find(c, mm, start);
	int holes = 0;

	for (;;) {
		struct mfile *f;
		uint64_t first, nr;
		int rc;

		if (!v)
			return -ENOMEM;
		if (v->start > start) {
			if (flags == UAPI_MS_ASYNC)
				return -ENOMEM;
			holes = -ENOMEM;
			start = v->start;
			if (start >= end)
				return holes;
		}
		if ((flags & UAPI_MS_INVALIDATE) && (v->flags & VM_LOCKED))
			return -EBUSY;
		f = v->file;
		first = v->pgoff + ((start - v->start) >> PAGE_SHIFT);
		nr = (MIN(v->end, end) - start) >> PAGE_SHIFT;
		start = v->end;
		if ((flags & UAPI_MS_SYNC) && f && (v->flags & VM_SHARED)) {
			file_get(f);
			machine_read_unlock(c, &mm->mmap_lock);
			rc = file_sync(c, f, first, nr);
			file_put(c, f);
			machine_read_lock(c, &mm->mmap_lock);
			if (rc)
				return rc;
		}
		if (start >= end)
			return holes;
		v = vma_find(c, mm, start);
	}
}

int64_t mm_msync(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned flags)
{
	enum machine_path outer;
	uint64_t whole = ALIGN_UP(len, PAGE_SIZE);
	int rc;

	if ((flags & ~KNOWN_FLAGS) || (addr & ~PAGE_MASK) || ((flags & UAPI_MS_ASYNC) && (flags & UAPI_MS_SYNC)))
		return -EINVAL;
	if (addr + whole < addr)
		return -ENOMEM;
	if (!whole)
		return 0;
	outer = machine_work(c, PATH_MADVISE, 1);
	machine_read_lock(c, &mm->mmap_lock);
	rc = msync_walk(c, mm, addr, addr + whole, flags);
	machine_read_unlock(c, &mm->mmap_lock);
	machine_path(c, outer);
	return rc;
}
