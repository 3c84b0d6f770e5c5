/*
 * The walker: from an address to its entries, over a range, and over everything.
 *
 * Upper levels are read without a lock: a table is only freed under mmap_lock for writing, which whoever walks holds at
 * least for reading. Every level's entry is charged as the load that it is; loops charge each cache line of entries
 * once.
 */
#include "mm/pagetable.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/system.h"
#include "mm/tlb_batch.h"
#include "mm/walk_int.h"

ATTR_NOINLINE struct frame *pt_pmd_table(struct cpu *c, struct mm *mm, vaddr_t va, vaddr_t *ret_next)
{
	enum machine_path prev = machine_work(c, PATH_WALK, 1);
	struct frame *t = frame_of(c->m, mm->pgd);

	for (unsigned shift = PGDIR_SHIFT; shift > PMD_SHIFT; shift -= 9) {
		struct pt_ref r = pt_ref_at(c, t, va, shift);
		pte_t e = pte_read(c, &r);

		if (!pmd_table(e)) {
			*ret_next = ALIGN_DOWN(va, 1ULL << shift) + (1ULL << shift);
			t = NULL;
			break;
		}
		t = frame_of(c->m, pte_pfn(e));
	}
	machine_path(c, prev);
	return t;
}

ATTR_NOINLINE int pt_pmd(struct cpu *c, struct mm *mm, vaddr_t va, bool alloc, struct pt_ref *ret)
{
	enum machine_path prev = machine_work(c, PATH_WALK, 1);
	struct frame *t = frame_of(c->m, mm->pgd);
	int rc = 0;

	for (unsigned shift = PGDIR_SHIFT; shift > PMD_SHIFT; shift -= 9) {
		struct pt_ref r = pt_ref_at(c, t, va, shift);
		pte_t e = pte_read(c, &r);

		if (!pmd_table(e)) {
			rc = alloc ? pt_alloc(c, mm, &r, &mm->ptl, &e) : -ENOENT;
			machine_path(c, PATH_WALK);
			if (rc)
				break;
		}
		t = frame_of(c->m, pte_pfn(e));
	}
	if (!rc)
		*ret = pt_ref_at(c, t, va, PMD_SHIFT);
	machine_path(c, prev);
	return rc;
}

ATTR_NOINLINE struct frame *pt_pud_table(struct cpu *c, struct mm *mm, vaddr_t va, vaddr_t *ret_next)
{
	enum machine_path prev = machine_work(c, PATH_WALK, 1);
	struct pt_ref r = pt_ref_at(c, frame_of(c->m, mm->pgd), va, PGDIR_SHIFT);
	pte_t e = pte_read(c, &r);

	*ret_next = ALIGN_DOWN(va, 1ULL << PGDIR_SHIFT) + (1ULL << PGDIR_SHIFT);
	machine_path(c, prev);
	return pmd_table(e) ? frame_of(c->m, pte_pfn(e)) : NULL;
}

ATTR_NOINLINE int pt_pud(struct cpu *c, struct mm *mm, vaddr_t va, bool alloc, struct pt_ref *ret)
{
	enum machine_path prev = machine_work(c, PATH_WALK, 1);
	struct pt_ref r = pt_ref_at(c, frame_of(c->m, mm->pgd), va, PGDIR_SHIFT);
	pte_t e = pte_read(c, &r);
	int rc = 0;

	if (!pmd_table(e))
		rc = alloc ? pt_alloc(c, mm, &r, &mm->ptl, &e) : -ENOENT;
	if (!rc)
		*ret = pt_ref_at(c, frame_of(c->m, pte_pfn(e)), va, PUD_SHIFT);
	machine_path(c, prev);
	return rc;
}

ATTR_NOINLINE int pt_pte(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va, bool alloc,
			 struct pt_ref *ret)
{
	pte_t e = pte_read(c, pmd);

	if (!e) {
		enum machine_path prev = machine_work(c, PATH_WALK, 0);
		int rc = alloc ? pt_alloc(c, mm, pmd, &pmd->table->ptl, &e) : -ENOENT;

		machine_path(c, prev);
		if (rc)
			return rc;
	}
	if (!pmd_table(e))
		return -EISDIR;
	*ret = pt_ref_at(c, frame_of(c->m, pte_pfn(e)), va, PAGE_SHIFT);
	return 0;
}

/* The entries of one PTE table for [start, end). */
ATTR_NOINLINE static void range_ptes(struct pt_range *w, struct frame *table, vaddr_t start, vaddr_t end)
{
	struct cpu *c = w->c;
	struct pt_ref r = pt_ref_at(c, table, start, PAGE_SHIFT);

	machine_work(c, PATH_SCAN_TABLES, (end - start) >> PAGE_SHIFT);
	pt_lock(c, table);
	tlb_flush_batched_pending(c, w->v->mm);
	for (vaddr_t va = start; va < end; va += PAGE_SIZE, pt_ref_next(&r)) {
		pt_touch_line(c, &r, va == start);
		if (!pte_peek(&r) || !w->pte(w, &r, va))
			continue;
		pt_unlock(c, table);
		w->relax(w);
		pt_lock(c, table);
	}
	pt_unlock(c, table);
}

/* A huge entry was seen. true: it has been dealt with; false: it is a table by now, or nothing. */
static bool range_huge(struct pt_range *w, const struct pt_ref *pmd, vaddr_t start, vaddr_t end)
{
	struct cpu *c = w->c;

	if (end - start < PMD_SIZE) {
		if (w->keeps) {
			pt_lock(c, pmd->table);
			bool keep = pmd_leaf(pte_peek(pmd)) && w->keeps(w, pmd);

			pt_unlock(c, pmd->table);
			if (keep)
				return true;
		}
		thp_split_pmd(c, w->v, pmd, start);
		return false;
	}
	pt_lock(c, pmd->table);
	bool huge = pmd_leaf(pte_peek(pmd));
	bool relax = huge && w->huge(w, pmd, start);

	pt_unlock(c, pmd->table);
	if (relax)
		w->relax(w);
	return huge;
}

void pt_for_range(struct pt_range *w, vaddr_t start, vaddr_t end)
{
	struct cpu *c = w->c;
	enum machine_path prev = machine_work(c, PATH_SCAN_TABLES, 0);
	struct frame *table = NULL;
	struct pt_ref pmd = { .pa = 0 };

	for (vaddr_t va = start, next; va < end; va = next) {
		bool first = !table || IS_ALIGNED(va, PUD_SIZE);

		if (first) {
			table = pt_pmd_table(c, w->v->mm, va, &next);
			if (!table)
				continue;
			pmd = pt_ref_at(c, table, va, PMD_SHIFT);
		} else {
			pt_ref_next(&pmd);
		}
		next = MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, end);
		pt_touch_line(c, &pmd, first);
		pte_t e = pte_peek(&pmd);

		if (pmd_leaf(e)) {
			if (range_huge(w, &pmd, va, next))
				continue;
			e = pte_read(c, &pmd);
		}
		/* In a shared table the range has no entries any more, which is not looked at: that would take the lock that keeps it. */
		if (pmd_table(e) && likely(!pt_entry_shared(e)))
			range_ptes(w, frame_of(c->m, pte_pfn(e)), va, next);
	}
	machine_path(c, prev);
}

static void visit_level(const struct mm *mm, const struct pt_visitor *v, struct frame *t, unsigned shift, vaddr_t base)
{
	const struct machine *m = mm->q->m;
	struct pt_ref r = { .entry = machine_ptr(m, pfn_to_paddr(frame_pfn(m, t))), .table = t };
	uint64_t nr = 0;

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		vaddr_t va = base + ((vaddr_t)i << shift);
		pte_t e = pte_peek(&r);

		if (!e)
			continue;
		nr++;
		if (shift > PAGE_SHIFT && pmd_table(e)) {
			struct frame *below = frame_of(m, pte_pfn(e));

			if (!v->enter || v->enter(v->arg, e, below, shift - 9))
				visit_level(mm, v, below, shift - 9, va);
		} else {
			v->leaf(v->arg, va, e, shift);
		}
	}
	v->table(v->arg, t, shift, nr, false);
	for (uint64_t p = shift == PMD_SHIFT ? t->priv : 0; p; p = frame_of(m, pfn(p))->priv)
		v->table(v->arg, frame_of(m, pfn(p)), PAGE_SHIFT, 0, true);
}

void pt_visit(const struct mm *mm, const struct pt_visitor *v)
{
	visit_level(mm, v, frame_of(mm->q->m, mm->pgd), PGDIR_SHIFT, 0);
}
