/*
 * Mappings of a page that is to go, through the reverse map (swap.h).
 *
 * One mapping, under its table's lock: the entry is cleared, so that the accessed and dirty bits that the hardware set last are seen. A
 * lazily freed page may only go while no entry says that it was written since, and nobody but mappings and the caller refers to it; else
 * the entry is put back as it was. What a stale translation could still do is read: to write it would have to set the dirty bit of an entry
 * that is gone.
 */
#include "mm/swap.h"

#include "mm/anon_vma.h"
#include "mm/fault_int.h"
#include "mm/lru.h"
#include "mm/rmap_walk.h"
#include "mm/tlb.h"

struct unmap_walk {
	struct tlb_batch *batch;
	bool failed;
};

bool swap_possible(const struct quire *q)
{
	(void)q;
	return false;
}

static void flush_later(struct cpu *c, struct tlb_batch *b, struct pvmw *w, pte_t e)
{
	struct mm *mm = w->v->mm;

	if (!(e & PTE_PRESENT))
		return;
	if (tlb_should_defer(c, mm))
		tlb_batch_add(c, b, mm, e, w->va);
	else
		tlb_flush_for(c, mm, w->va, w->va + PAGE_SIZE, PAGE_SHIFT, false, FLUSH_UNMAP);
}

/* Has it been written since it was freed, or does somebody hold it? Its entry has been cleared and was `e`. */
static bool lazyfree_wanted(struct cpu *c, struct frame *folio, pte_t e)
{
	if ((e & PTE_DIRTY) || (frame_flags(folio) & FRAME_DIRTY)) {
		folio_keep_lazyfree(c, folio);
		frame_set(folio, FRAME_DIRTY);
		return true;
	}
	return frame_refcount(folio) != folio_expected_refs(folio) + 1;
}

ATTR_NOINLINE static bool unmap_pte(struct unmap_walk *u, struct frame *folio, struct pvmw *w)
{
	struct cpu *c = w->c;
	bool anon = (frame_flags(folio) & FRAME_ANON) != 0;
	pte_t e = pte_xchg(c, &w->pte, 0);

	(void)machine_work(c, PATH_UNMAP, 1);
	if (anon && lazyfree_wanted(c, folio, e)) {
		pte_write(c, &w->pte, e);
		return false;
	}
	flush_later(c, u->batch, w, e);
	if (e & PTE_DIRTY)
		frame_set(folio, FRAME_DIRTY);
	mm_rss_note_peak(w->v->mm);
	mm_rss_add(c, w->v->mm, frame_rss(folio), -1);
	rmap_remove_pte(c, folio, folio, w->v->flags);
	frame_put(c, folio);
	return true;
}

static bool unmap_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct unmap_walk *u = arg;
	struct pvmw w = pvmw_begin(c, folio, v, va, 0);

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

bool try_to_unmap(struct cpu *c, struct frame *folio, struct tlb_batch *batch)
{
	uint64_t flags = frame_flags(folio);
	struct unmap_walk u = { .batch = batch };
	struct rmap_walk walk = { .arg = &u, .one = unmap_one, .done = unmap_done };

	if ((flags & FRAME_HEAD) || frame_pinned(folio) || ((flags & FRAME_ANON) && (flags & FRAME_SWAPBACKED)))
		return false;
	enum machine_path prev = machine_work(c, PATH_UNMAP, 0);

	rmap_walk(c, folio, &walk);
	machine_path(c, prev);
	return !u.failed && !folio_mapped(folio);
}
