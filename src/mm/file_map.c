/*
 * What happens to a file, for those that map it: truncation, and write-back to where it came from. Files have no list of their areas: all
 * address spaces are looked through, each under its mmap_lock for reading. No address space comes or goes meanwhile, which is for the caller to see to.
 */
#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/system.h"

/* Where v maps pages [first, last) of f. */
static bool maps_part(const struct vma *v, const struct mfile *f, uint64_t first, uint64_t last, vaddr_t *ret_start, vaddr_t *ret_end)
{
	uint64_t pages = (v->end - v->start) >> PAGE_SHIFT, from, to;

	if (v->file != f || last <= v->pgoff)
		return false;
	from = first > v->pgoff ? first - v->pgoff : 0;
	to = MIN(pages, last - v->pgoff);
	if (from >= to)
		return false;
	*ret_start = v->start + (from << PAGE_SHIFT);
	*ret_end = v->start + (to << PAGE_SHIFT);
	return true;
}

/* All tables that a change of these pages' entries will reach become their address space's own: what can fail comes first. */
static int unshare_mm(struct cpu *c, struct mm *mm, const struct mfile *f, uint64_t first, uint64_t last)
{
	vaddr_t start, end;
	int rc = 0;

	machine_read_lock(c, &mm->mmap_lock);
	for (struct vma *v = vma_first(mm); v && !rc; v = vma_next(v))
		if (maps_part(v, f, first, last, &start, &end))
			rc = pt_unshare_range(c, mm, start, end, UNSHARE_ALL);
	machine_read_unlock(c, &mm->mmap_lock);
	return rc;
}

static int unshare_all(struct cpu *c, const struct mfile *f, uint64_t first, uint64_t last)
{
	struct mm *mm;
	int rc = 0;

	list_for_each_entry(mm, &f->q->mms, link)
		if (!rc)
			rc = unshare_mm(c, mm, f, first, last);
	return rc;
}

/* ---- truncation ---- */

static void unmap_mm(struct cpu *c, struct mm *mm, const struct mfile *f, uint64_t first)
{
	struct mmu_gather *g = c->pc->gather;
	vaddr_t start, end;

	machine_read_lock(c, &mm->mmap_lock);
	for (struct vma *v = vma_first(mm); v; v = vma_next(v)) {
		if (!maps_part(v, f, first, UINT64_MAX, &start, &end))
			continue;
		tlb_gather_begin(c, g, mm, false);
		zap_range(c, g, v, start, end);
		tlb_gather_end(c, g);
	}
	machine_read_unlock(c, &mm->mmap_lock);
}

int file_truncate(struct cpu *c, struct mfile *f, uint64_t size)
{
	uint64_t first = (size >> PAGE_SHIFT) + !IS_ALIGNED(size, PAGE_SIZE);
	struct mm *mm;
	int rc;

	if (size < f->size) {
		rc = unshare_all(c, f, first, UINT64_MAX);
		if (rc)
			return rc;
		list_for_each_entry(mm, &f->q->mms, link)
			unmap_mm(c, mm, f, first);
	}
	file_set_size(c, f, size);
	return 0;
}

/* ---- write-back ---- */

/* Shared entries lose the right to write with their dirty bit, so that the next write is noticed. */
static bool clean_pte(struct pt_range *w, const struct pt_ref *r, vaddr_t va)
{
	pte_t e = pte_peek(r);

	(void)machine_work(w->c, PATH_PROTECT, 1);
	if (!pte_present(e) || (e & PTE_SOFT_ZERO) || !(e & (PTE_DIRTY | PTE_WRITE)))
		return false;
	pte_clear_bits(w->c, r, PTE_DIRTY | PTE_WRITE);
	tlb_gather_range(w->arg, va, PAGE_SIZE);
	return false;
}

static bool clean_huge(struct pt_range *w, const struct pt_ref *pmd, vaddr_t va)
{
	(void)w, (void)pmd, (void)va; /* files have no huge pages */
	return false;
}

static void clean_mm(struct cpu *c, struct mm *mm, const struct mfile *f, uint64_t first, uint64_t last)
{
	struct mmu_gather *g = c->pc->gather;
	vaddr_t start, end;

	machine_read_lock(c, &mm->mmap_lock);
	for (struct vma *v = vma_first(mm); v; v = vma_next(v)) {
		struct pt_range w = { .c = c, .v = v, .arg = g, .huge = clean_huge, .pte = clean_pte };

		if (!(v->flags & VM_SHARED) || !maps_part(v, f, first, last, &start, &end))
			continue;
		tlb_gather_begin(c, g, mm, false);
		pt_for_range(&w, start, end);
		tlb_gather_end(c, g);
	}
	machine_read_unlock(c, &mm->mmap_lock);
}

int file_sync(struct cpu *c, struct mfile *f, uint64_t first, uint64_t nr)
{
	uint64_t last = first + nr < first ? UINT64_MAX : first + nr;
	struct mm *mm;
	int rc;

	if (f->shmem)
		return 0;
	rc = unshare_all(c, f, first, last);
	if (rc)
		return rc;
	list_for_each_entry(mm, &f->q->mms, link)
		clean_mm(c, mm, f, first, last);
	file_clean(c, f, first, last);
	return 0;
}
