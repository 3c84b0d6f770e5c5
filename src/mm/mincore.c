/*
 * mincore: which pages are in memory. Mapped pages are, and swapped ones that the swap cache has; for the rest of a file mapping the page cache is asked.
 * mmap_lock for reading.
 */
#include "mm/pagetable.h"
#include "mm/swap.h"
#include "mm/vma_int.h"

static bool in_cache(struct cpu *c, const struct vma *v, vaddr_t va)
{
	struct frame *f;

	if (!v->file)
		return false;
	f = file_lookup(c, v->file, v->pgoff + ((va - v->start) >> PAGE_SHIFT));
	if (f)
		frame_put(c, f);
	return f != NULL;
}

/* [start, end) lies in one area and under one PMD entry. */
static void in_core(struct cpu *c, const struct vma *v, vaddr_t start, vaddr_t end, uint8_t *vec)
{
	struct pt_ref r;
	pte_t pmd = v->flags & VM_HUGETLB		     ? hugetlb_peek(c, v, start)
		    : pt_pmd(c, v->mm, start, false, &r) ? 0
							 : pte_read(c, &r);
	bool table = pmd_table(pmd);
	struct frame *locked = pt_entry_shared(pmd) ? r.table : NULL; /* keeps a shared table there (fork_shared.c) */

	if (locked) {
		pt_lock(c, locked);
		pmd = pte_read(c, &r);
		table = pmd_table(pmd);
	}
	if (table)
		r = pt_ref_at(c, frame_of(c->m, pte_pfn(pmd)), start, PAGE_SHIFT);
	for (vaddr_t va = start; va < end; va += PAGE_SIZE) {
		bool mapped = pmd_leaf(pmd), swapped = false;

		if (table) {
			pt_touch_line(c, &r, va == start);
			pte_t e = pte_peek(&r);

			mapped = pte_present(e) || pte_is_migration(e) || (pte_is_swap(e) && swap_in_core(c, swap_entry_slot(e)));
			swapped = pte_is_swap(e);
			pt_ref_next(&r);
		}
		*vec++ = mapped || (!swapped && in_cache(c, v, va));
	}
	if (locked)
		pt_unlock(c, locked);
}

/* Lock held. -ENOMEM at a hole; the pages before it have been reported. */
static int mincore_locked(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, uint8_t *vec)
{
	struct vma *v = vma_find(c, mm, start);
	vaddr_t stop;

	for (vaddr_t va = start; va < end; va = stop) {
		if (v && va >= v->end)
			v = vma_next_charged(c, v);
		if (!v || v->start > va)
			return -ENOMEM;
		stop = MIN(MIN(v->end, end), ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE);
		in_core(c, v, va, stop, vec);
		vec += (stop - va) >> PAGE_SHIFT;
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
