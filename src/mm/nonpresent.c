/*
 * Entries that are not empty and map nothing: zap, mprotect and fork of them, and faults on them.
 *
 * A swap entry holds its count of the slot (swap.h W1) and counts in mm->swapents.
 *
 * A migration entry holds no reference and no mapcount, only a place among the resident pages of its address space, of a kind that it
 * names. Whoever moves a folio has it locked, and removes all migration entries that he can find before he unlocks it: so who comes to one
 * by a fault may look at the folio, under the table's lock. What he cannot find are entries of ranges that an munmap has already cut off
 * their areas, and will come to: they may name a folio that has gone. Entries may be zapped, moved and copied like any others.
 */
#include "mm/nonpresent.h"

#include "base/assert.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/swap.h"

static struct frame *entry_folio(const struct cpu *c, pte_t e)
{
	return frame_head(c->m, frame_of(c->m, pte_pfn(e)));
}

unsigned nonpresent_zap(struct cpu *c, const struct vma *v, pte_t e)
{
	if (pte_is_swap(e)) {
		__atomic_sub_fetch(&v->mm->swapents, 1, __ATOMIC_RELAXED);
		swap_free_entry(c, swap_entry_slot(e));
		return NR_RSS;
	}
	ASSERT(pte_is_migration(e));
	return pte_migration_rss(e); /* the folio may have gone */
}

void nonpresent_protect(struct cpu *c, const struct pt_ref *r, pte_t e)
{
	ASSERT(pte_is_migration(e) || pte_is_swap(e)); /* the latter keeps none */
	if (e & PTE_WRITE)
		pte_write(c, r, e & ~PTE_WRITE);
}

pte_t nonpresent_fork(struct cpu *c, const struct pt_ref *src, const struct pt_ref *dst, pte_t e, struct mm *child, int64_t *rss)
{
	pte_t shared = e & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE);

	if (!(e & PTE_HUGE))
		pt_mark(dst->table, FRAME_TABLE_PINNED);
	if (e != shared)
		pte_write(c, src, shared);
	if (pte_is_swap(e)) {
		swap_duplicate(c, swap_entry_slot(e));
		__atomic_add_fetch(&child->swapents, 1, __ATOMIC_RELAXED);
		return shared;
	}
	ASSERT(pte_is_migration(e));
	rss[pte_migration_rss(e)] += e & PTE_HUGE ? HPAGE_PMD_NR : 1;
	return shared & ~PTE_ACCESSED;
}

/* Wait until the page has been moved, or left where it was. No reference is held meanwhile: that would keep it from being moved. */
static void migration_entry_wait(struct fault *f, const struct pt_ref *r)
{
	struct cpu *c = f->c;
	uint64_t since = phase_begin(c);

	pt_lock(c, r->table);
	pte_t e = pte_read(c, r);

	if (pte_is_migration(e)) {
		vmstat_inc(c, VM_quire_migration_waits);
		folio_wait_entry(c, entry_folio(c, e), r->table);
	} else {
		pt_unlock(c, r->table);
	}
	phase_end(c, PHASE_WAIT, since);
}

int fault_nonpresent(struct fault *f, const struct pt_ref *r)
{
	if (pte_is_swap(f->orig))
		return fault_swap(f);
	ASSERT(pte_is_migration(f->orig));
	migration_entry_wait(f, r);
	return 0;
}
