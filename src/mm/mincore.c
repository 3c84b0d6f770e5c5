/*
 * mincore: which pages are in memory. Mapped pages are; for the rest of a file mapping the page cache is asked.
 * mmap_lock for reading.
 */
#include "mm/vma_int.h"

static bool in_core(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t va)
{
	struct mm_page_info info;
	struct frame *f;

	mm_page_info(mm, va, &info);
	if (info.present)
		return true;
	if (!v->file)
		return false;
	f = file_lookup(c, v->file, v->pgoff + ((va - v->start) >> PAGE_SHIFT));
	if (f)
		frame_put(c, f);
	return f != NULL;
}

/* Lock held. -ENOMEM at a hole; the pages before it have been reported. */
static int mincore_locked(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, uint8_t *vec)
{
	struct vma *v = vma_find(c, mm, start);

	for (vaddr_t va = start; va < end; va += PAGE_SIZE) {
		if (v && va >= v->end)
			v = vma_next(v);
		if (!v || v->start > va)
			return -ENOMEM;
		*vec++ = in_core(c, mm, v, va);
	}
	return 0;
}

int64_t mm_mincore(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, uint8_t *vec)
{
	enum machine_path outer;
	int err;

	if (addr & ~PAGE_MASK)
		return -EINVAL;
	if (len > TASK_SIZE || addr > TASK_SIZE - len)
		return -ENOMEM;
	if (!len)
		return 0;
	if (!vec)
		return -EFAULT;
	outer = machine_work(c, PATH_MINCORE, ALIGN_UP(len, PAGE_SIZE) >> PAGE_SHIFT);
	machine_read_lock(c, &mm->mmap_lock);
	err = mincore_locked(c, mm, addr, addr + ALIGN_UP(len, PAGE_SIZE), vec);
	machine_read_unlock(c, &mm->mmap_lock);
	machine_path(c, outer);
	return err;
}
