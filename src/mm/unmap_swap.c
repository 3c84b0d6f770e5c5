/*
 * Mappings of a folio that is to go, through the reverse map (unmap.h, swap.h).
 *
 * One mapping, under its table's lock: the entry is cleared, so that the accessed and dirty bits that the hardware set last are seen; the
 * flush is done or put off; then
 *   a page of a file               nothing takes its place
 *   lazily freed                   nothing, if no entry says that it was written since, and only mappings and the caller have it
 *   in the swap cache              an entry for its slot, which keeps whether the page was this mapping's alone. A pinned page is not given up
 *   else, or when that can't be    the entry is put back as it was
 * Dirty goes to the folio before the mapping is dropped. After a deferred flush a stale translation may still be written through if the
 * entry was dirty: then the folio is dirty, and the caller flushes before its contents go anywhere (tlb_batch_flush_dirty).
 * Locks: the tree's for reading (rmap_walk), the table's, the slot's cluster.
 */
#include "mm/unmap.h"

#include "base/assert.h"
#include "mm/anon_vma.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/swap.h"

struct unmap_walk {
	unsigned flags;
	struct tlb_batch *batch;
	bool failed;
};

/* Its entry has been cleared and was `e`. May it be dropped? */
static bool lazyfree_may_go(struct cpu *c, struct frame *folio, pte_t e)
{
	if ((e & PTE_DIRTY) || (frame_flags(folio) & FRAME_DIRTY)) {
		frame_set(folio, FRAME_DIRTY);
		folio_keep_lazyfree(c, folio);
		return false;
	}
	return frame_refcount(folio) == folio_expected_refs(folio) + 1;
}

/* The entry that takes its place: 0: none. false: it must stay mapped. */
static bool replacement(struct pvmw *w, struct frame *folio, pte_t e, pte_t *ret)
{
	uint64_t flags = frame_flags(folio);

	*ret = 0;
	if (!(flags & FRAME_ANON))
		return true;
	if (!(flags & FRAME_SWAPBACKED))
		return lazyfree_may_go(w->c, folio, e);
	if (!(flags & FRAME_SWAPCACHE) || ((e & PTE_SOFT_EXCLUSIVE) && frame_pinned(folio)))
		return false;
	uint64_t slot = folio_swap_slot(folio) + (uint64_t)(pvmw_page(w) - folio);

	swap_duplicate(w->c, slot);
	*ret = swap_entry(slot, (e & PTE_SOFT_EXCLUSIVE) != 0);
	return true;
}

ATTR_NOINLINE static bool unmap_pte(struct unmap_walk *u, struct frame *folio, struct pvmw *w)
{
	struct cpu *c = w->c;
	struct mm *mm = w->v->mm;
	pte_t e = unmap_clear_pte(c, u->batch, w), n;

	(void)machine_work(c, PATH_UNMAP, 1);
	if (!replacement(w, folio, e, &n)) {
		pte_write(c, &w->pte, e);
		return false;
	}
	if (e & PTE_DIRTY)
		frame_set(folio, FRAME_DIRTY);
	if (n) {
		pt_mark(w->pte.table, FRAME_TABLE_PINNED);
		pte_write(c, &w->pte, n);
		__atomic_add_fetch(&mm->swapents, 1, __ATOMIC_RELAXED);
	}
	mm_rss_note_peak(mm);
	mm_rss_add(c, mm, frame_rss(folio), -1);
	rmap_remove_pte(c, folio, pvmw_page(w), w->v->flags);
	frame_put(c, folio);
	return true;
}

/* A PMD that maps the folio becomes 512 entries. */
static void split_mapping(struct cpu *c, struct vma *v, struct frame *folio, vaddr_t va)
{
	struct pt_ref pmd;

	if (pt_pmd(c, v->mm, va, false, &pmd))
		return;
	pte_t e = pte_read(c, &pmd);

	if (pmd_huge(e) && pte_pfn(e).v == frame_pfn(c->m, folio).v)
		thp_split_pmd(c, v, &pmd, va);
}

static bool unmap_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct unmap_walk *u = arg;
	struct pvmw w;

	if (u->flags & TTU_SPLIT_HUGE_PMD)
		split_mapping(c, v, folio, va);
	w = pvmw_begin(c, folio, v, va, 0);
	while (!u->failed && pvmw_next(&w)) {
		if (w.shared_table || w.is_pmd || (v->flags & VM_LOCKED) || !unmap_pte(u, folio, &w)) {
			u->failed = true;
			pvmw_done(&w);
		}
	}
	return !u->failed;
}

static bool unmap_done(struct frame *folio, void *arg)
{
	(void)arg;
	return !folio_mapped(folio);
}

bool try_to_unmap(struct cpu *c, struct frame *folio, unsigned ttu_flags, struct tlb_batch *batch)
{
	enum machine_path prev = machine_work(c, PATH_UNMAP, 0);
	struct unmap_walk u = { .flags = ttu_flags, .batch = batch };
	struct rmap_walk walk = {
		.arg = &u, .one = unmap_one, .done = unmap_done, .locked = (ttu_flags & TTU_RMAP_LOCKED) != 0
	};

	ASSERT(folio_locked(folio));
	if (frame_pinned(folio)) /* in vain: it can't be freed */
		u.failed = true;
	else
		rmap_walk(c, folio, &walk);
	machine_path(c, prev);
	return !u.failed && !folio_mapped(folio);
}
