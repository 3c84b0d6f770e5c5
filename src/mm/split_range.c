/*
 * Splitting what a range of addresses maps: all of it, as Linux's debugfs file split_huge_pages does, or what it covers in part, for advice that
 * goes for some pages of a folio and not for the others. One folio after the other, each with a reference
 * taken under its table's lock and its own lock only if that is free.
 * Locks: mmap_lock for reading throughout; the folio's inside.
 */
#include "mm/folio_lock.h"
#include "mm/follow.h"
#include "mm/pagetable.h"
#include "mm/rmap.h"
#include "mm/rmap_walk.h"
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

/* How many pages of its folio do the entries from va on map in order, up to end and the end of their table? Under the table's lock. */
static uint64_t batch_at(struct cpu *c, const struct pt_ref *r, vaddr_t va, vaddr_t end, const struct frame *page, const struct frame *head)
{
	uint64_t most = frame_nr_pages(head) - (uint64_t)(page - head), n = 0;
	struct pt_ref at = *r;

	end = MIN(end, ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE);
	for (; n < most && va < end; n++, va += PAGE_SIZE, pt_ref_next(&at)) {
		pt_touch_line(c, &at, !n);
		pte_t e = pte_peek(&at);

		if (!pte_present(e) || (e & PTE_SOFT_ZERO) || frame_of(c->m, pte_pfn(e)) != page + n)
			break;
	}
	return n;
}

bool pte_maps_whole_folio(struct cpu *c, const struct pt_ref *r, vaddr_t va, vaddr_t end, const struct frame *head)
{
	return batch_at(c, r, va, end, head, head) == frame_nr_pages(head) && folio_mapcount(head) == (int)frame_nr_pages(head);
}

/* Does this table alone map the folio? Then no other process does. Under the table's lock. */
static bool one_tables(struct cpu *c, const struct frame *table, const struct frame *head)
{
	struct pt_ref at = pt_ref_at(c, (struct frame *)table, 0, PAGE_SHIFT);
	int n = 0;

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&at)) {
		pte_t e = pte_peek(&at);

		pt_touch_line(c, &at, !i);
		n += pte_present(e) && !(e & PTE_SOFT_ZERO) && frame_head(c->m, frame_of(c->m, pte_pfn(e))) == head;
	}
	return n == folio_mapcount(head);
}

/* The first one in a table of base pages; as below. */
static uint64_t partly_covered_in(struct cpu *c, struct pt_ref pte, vaddr_t va, vaddr_t end, struct frame **ret)
{
	vaddr_t start = va, stop = MIN(end, ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE);
	bool first = true;

	pt_lock(c, pte.table);
	while (va < stop && !*ret) {
		uint64_t n = 1;

		pt_touch_line(c, &pte, first);
		first = false;
		pte_t e = pte_peek(&pte);

		if (pte_present(e) && !(e & PTE_SOFT_ZERO)) {
			struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

			frame_touch(c, page, TOUCH_READ);
			if ((frame_flags(head) & (FRAME_HEAD | FRAME_ANON)) == (FRAME_HEAD | FRAME_ANON)) {
				n = batch_at(c, &pte, va, end, page, head);
				if (n < frame_nr_pages(head) && one_tables(c, pte.table, head)) {
					frame_get(c, head);
					*ret = head;
				}
			}
		}
		va += n << PAGE_SHIFT;
		pte.pa += n * sizeof(pte_t);
		pte.entry += n;
	}
	pt_unlock(c, pte.table);
	return va - start;
}

/*
 * How far from va on nothing more is to be split, in bytes; in *ret, unless it is NULL then, the folio that ends that stretch, with a reference of
 * the caller's: the range covers it in part, the process is alone with it, and it is anonymous memory's.
 */
static uint64_t partly_covered_at(struct cpu *c, struct vma *v, vaddr_t va, vaddr_t end, struct frame **ret)
{
	struct pt_ref pmd, pte;
	uint64_t covers;

	*ret = NULL;
	if (pt_pmd(c, v->mm, va, false, &pmd))
		return ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE - va;
	pt_lock(c, pmd.table);
	pte_t e = pte_read(c, &pmd);

	if (!pmd_table(e) || pt_entry_shared(e)) {
		covers = ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE - va;
		if (pmd_huge(e) && pte_present(e) && !(e & PTE_SOFT_ZERO) && (covers < PMD_SIZE || va + covers > end)) {
			struct frame *head = frame_of(c->m, pte_pfn(e));

			if (folio_mapcount(head) == 1)
				*ret = head;
		}
		if (*ret)
			frame_get(c, *ret);
		pt_unlock(c, pmd.table);
		return covers;
	}
	pt_unlock(c, pmd.table);
	return pt_pte(c, v->mm, &pmd, va, false, &pte) ? PAGE_SIZE : partly_covered_in(c, pte, va, end, ret);
}

void split_partly_covered(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end)
{
	uint64_t covers;

	for (vaddr_t va = start; va < end; va += covers) {
		struct frame *folio;

		covers = partly_covered_at(c, v, va, end, &folio);
		if (!folio)
			continue;
		if (folio_trylock(c, folio)) {
			(void)folio_split(c, folio, NULL, NULL);
			folio_unlock(c, folio);
		}
		frame_put(c, folio);
	}
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
