/*
 * Migration entries in and out, for all mappings of a folio.
 *
 * One mapping goes in this order, under its table's lock: the entry is cleared, so that what the hardware has set last is seen; the flush
 * is done or put off (tlb_batch.h); only then is it looked whether exclusivity can be given up, which a pin forbids: then the entry is put back
 * as it was. Else dirty goes to the folio, the rights and marks of the entry into the migration entry, and mapcount and reference are
 * dropped. Resident pages (rss) stay counted: the page is on its way, not gone.
 * Locks: the tree's lock for reading (rmap_walk), the table's.
 */
#include "mm/unmap.h"

#include "base/assert.h"
#include "mm/anon_vma.h"
#include "mm/fault_int.h"
#include "mm/numa.h"

struct migrate_walk {
	unsigned flags;
	struct tlb_batch *batch;
	bool failed;
};

/* May what the entry maps cease to be this mapping's alone? Not while it is pinned: the pin's holder relies on it. */
static bool may_share(const struct frame *folio, pte_t e)
{
	return !(e & PTE_SOFT_EXCLUSIVE) || !frame_pinned(folio);
}

static void count_dirty(struct frame *folio, pte_t e)
{
	if (e & PTE_DIRTY)
		frame_set(folio, FRAME_DIRTY);
}

/* Clear the entry; old translations are gone, or somebody has the duty to see to it. */
pte_t unmap_clear_pte(struct cpu *c, struct tlb_batch *batch, struct pvmw *w)
{
	pte_t e = pte_xchg(c, &w->pte, 0);

	if (batch && tlb_should_defer(c, w->v->mm)) {
		/* Without access nothing can have been cached (PROT_NONE), but for marks not flushed yet (numa.h N2). */
		if (pte_maybe_cached(w->v->mm, e))
			tlb_batch_add(c, batch, w->v->mm, e, w->va);
	} else if (pte_maybe_cached(w->v->mm, e)) {
		tlb_flush_for(c, w->v->mm, w->va, w->va + PAGE_SIZE, PAGE_SHIFT, false, FLUSH_UNMAP);
	}
	return e;
}

ATTR_NOINLINE static bool migrate_pte(struct migrate_walk *m, struct frame *folio, struct pvmw *w)
{
	struct cpu *c = w->c;
	pte_t e = unmap_clear_pte(c, m->batch, w);

	(void)machine_work(c, PATH_UNMAP, 1);
	if (!may_share(folio, e)) {
		pte_write(c, &w->pte, e);
		return false;
	}
	count_dirty(folio, e);
	pt_mark(w->pte.table, FRAME_TABLE_PINNED);
	pte_write(c, &w->pte, pte_to_migration(e, frame_rss(folio)));
	rmap_remove_pte(c, folio, frame_of(c->m, pte_pfn(e)), w->v->flags);
	frame_put(c, folio);
	return true;
}

ATTR_NOINLINE static bool migrate_pmd(struct frame *folio, struct pvmw *w)
{
	struct cpu *c = w->c;
	struct mm *mm = w->v->mm;
	vaddr_t base = ALIGN_DOWN(w->va, PMD_SIZE);
	/* As in a split: out of the hardware's reach before the flush, still taken. */
	pte_t e = pte_xchg(c, &w->pmd, (w->entry & ~PTE_PRESENT) | PTE_PROTNONE);

	(void)machine_work(c, PATH_UNMAP, 1);
	if (pte_maybe_cached(mm, e))
		tlb_flush_for(c, mm, base, base + PMD_SIZE, PMD_SHIFT, false, FLUSH_UNMAP);
	if (!may_share(folio, e)) {
		pte_write(c, &w->pmd, e);
		return false;
	}
	count_dirty(folio, e);
	pte_write(c, &w->pmd, pte_to_migration(e, frame_rss(folio)));
	__atomic_sub_fetch(&mm->huge_mapped, 1, __ATOMIC_RELAXED);
	rmap_remove_pmd(c, folio, w->v->flags);
	frame_put(c, folio);
	return true;
}

static bool migrate_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct migrate_walk *m = arg;
	struct pvmw w;

	if (m->flags & TTU_SPLIT_HUGE_PMD)
		thp_split_folio_pmd(c, v, folio, va);
	w = pvmw_begin(c, folio, v, va, 0);
	while (!m->failed && pvmw_next(&w)) {
		if (w.shared_table || (w.is_pmd && (m->flags & TTU_SPLIT_HUGE_PMD)) ||
		    !(w.is_pmd ? migrate_pmd(folio, &w) : migrate_pte(m, folio, &w))) {
			m->failed = true;
			pvmw_done(&w);
		}
	}
	return !m->failed;
}

static bool migrate_done(struct frame *folio, void *arg)
{
	(void)arg;
	return !folio_mapped(folio);
}

bool try_to_migrate(struct cpu *c, struct frame *folio, unsigned ttu_flags, struct tlb_batch *batch)
{
	enum machine_path prev = machine_work(c, PATH_UNMAP, 0);
	struct migrate_walk m = { .flags = ttu_flags, .batch = batch };
	struct rmap_walk walk = {
		.arg = &m, .one = migrate_one, .done = migrate_done, .locked = (ttu_flags & TTU_RMAP_LOCKED) != 0
	};

	rmap_walk(c, folio, &walk);
	machine_path(c, prev);
	return !m.failed && !folio_mapped(folio);
}

/* ---- back ---- */

struct restore_walk {
	struct frame *src, *dst;
	bool zero; /* dst holds only zeros: the shared page of zeros will do */
	unsigned nr;
};

/* What the entry was, for the area as it is now, with another frame. */
static pte_t restored(const struct vma *v, pte_t e, pfn_t p)
{
	pte_t n = pfn_to_paddr(p) | (pte_prot(v->flags) & ~(PTE_WRITE | PTE_ACCESSED));

	n |= e & (PTE_SOFT_EXCLUSIVE | PTE_DIRTY | PTE_ACCESSED | PTE_HUGE);
	if ((e & PTE_WRITE) && (v->flags & VM_WRITE))
		n |= PTE_WRITE;
	return n;
}

static void restore_pte(struct restore_walk *r, struct pvmw *w)
{
	struct cpu *c = w->c;
	uint64_t off = pte_pfn(w->entry).v - frame_pfn(c->m, r->src).v;
	struct frame *page = r->dst + off;

	(void)machine_work(c, PATH_REMAP, 1);
	if (r->zero && !(w->v->flags & VM_LOCKED)) {
		pt_mark(w->pte.table, FRAME_TABLE_MIXED);
		pte_write(c, &w->pte, pfn_to_paddr(c->q->zero_pfn) | (pte_prot(w->v->flags) & ~PTE_WRITE) | PTE_SOFT_ZERO);
		mm_rss_note_peak(w->v->mm);
		mm_rss_add(c, w->v->mm, RSS_ANON, -1);
		return;
	}
	frame_get(c, r->dst);
	rmap_add_pte(c, r->dst, page);
	if ((w->v->flags & VM_LOCKED) && !(frame_flags(r->dst) & FRAME_HEAD))
		rmap_mlock(c, r->dst);
	pte_write(c, &w->pte, restored(w->v, w->entry, frame_pfn(c->m, page)));
}

static void restore_pmd(struct restore_walk *r, struct pvmw *w)
{
	struct cpu *c = w->c;

	(void)machine_work(c, PATH_REMAP, 1);
	frame_get(c, r->dst);
	rmap_add_pmd(c, r->dst);
	if (w->v->flags & VM_LOCKED)
		rmap_mlock(c, r->dst);
	__atomic_add_fetch(&w->v->mm->huge_mapped, 1, __ATOMIC_RELAXED);
	pte_write(c, &w->pmd, restored(w->v, w->entry, frame_pfn(c->m, r->dst)));
}

static bool restore_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct restore_walk *r = arg;
	struct pvmw w = pvmw_begin(c, folio, v, va, PVMW_MIGRATION);

	w.pfn = frame_pfn(c->m, r->src).v; /* which the entries still name */

	while (pvmw_next(&w)) {
		if (!pte_is_migration(w.entry))
			continue;
		if (w.is_pmd)
			restore_pmd(r, &w);
		else
			restore_pte(r, &w);
		r->nr++;
	}
	return true;
}

static unsigned restore(struct cpu *c, struct restore_walk *r, bool locked)
{
	enum machine_path prev = machine_work(c, PATH_REMAP, 0);
	struct anon_vma *av = locked ? NULL : folio_anon_vma(r->dst);
	struct rmap_walk walk = { .arg = r, .one = restore_one, .locked = locked || av };

	/* The walk's own way to the lock wants a folio that is mapped. */
	if (av)
		anon_vma_lock_read(c, av);
	rmap_walk(c, r->dst, &walk);
	if (av)
		anon_vma_unlock_read(c, av);
	machine_path(c, prev);
	return r->nr;
}

unsigned remove_migration_ptes(struct cpu *c, struct frame *src, struct frame *dst, bool locked)
{
	struct restore_walk r = { .src = src, .dst = dst };

	return restore(c, &r, locked);
}

unsigned remap_split_page(struct cpu *c, struct frame *page)
{
	struct restore_walk r = { .src = page, .dst = page };

	r.zero = c->q->knobs.split_zero_to_shared && frame_is_zero(c, frame_pfn(c->m, page));
	return restore(c, &r, true);
}
