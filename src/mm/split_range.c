/*
 * Splitting what a range of addresses maps, as Linux's debugfs file split_huge_pages does. One folio after the other, each with a reference
 * taken under its table's lock and its own lock only if that is free.
 * Locks: mmap_lock for reading throughout; the folio's inside.
 */
#include "mm/folio_lock.h"
#include "mm/follow.h"
#include "mm/pagetable.h"
#include "mm/split.h"

static bool split_at(struct cpu *c, const struct vma *v, vaddr_t va)
{
	struct frame *folio = follow_folio(c, v, va, NULL);
	bool done = false;

	if (!folio)
		return false;
	if ((frame_flags(folio) & FRAME_HEAD) && folio_trylock(c, folio)) {
		done = !folio_split(c, folio, NULL, NULL);
		folio_unlock(c, folio);
	}
	frame_put(c, folio);
	return done;
}

/* The address after va that may map another folio than it does: the next page's, or where there are no tables the next they would serve. */
static vaddr_t next_after(struct cpu *c, const struct vma *v, vaddr_t va)
{
	struct pt_ref pmd;

	if (pt_pmd(c, v->mm, va, false, &pmd) || !pmd_table(pte_read(c, &pmd)))
		return ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE;
	return va + PAGE_SIZE;
}

uint64_t quire_split_range(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len)
{
	vaddr_t va = start & PAGE_MASK, end = start + len;
	uint64_t done = 0;

	machine_read_lock(c, &mm->mmap_lock);
	while (va < end) {
		struct vma *v = vma_find(c, mm, va);

		if (!v || v->start >= end)
			break;
		for (va = MAX(va, v->start); va < end && va < v->end; va = next_after(c, v, va))
			done += split_at(c, v, va);
	}
	machine_read_unlock(c, &mm->mmap_lock);
	return done;
}
