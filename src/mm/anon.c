/*
 * Anonymous base pages: the zero page, new pages, and copy on write for every kind of base page.
 *
 * Who owns: PTE_SOFT_EXCLUSIVE says that no other mapping shares the page, so a write may simply be allowed. It is set
 * when a page is made for one mapping or found to have no other reference, and lost when fork shares the page. Writable
 * implies exclusive or shared area.
 * Locks: all entries under their table's lock; memory is prepared before it is taken.
 */
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/swap.h"

ATTR_NOINLINE void map_anon(struct fault *f, struct frame *page)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_MAP_ANON, 1);

	frame_set_anon(page, f->v, vma_page_index(f->v, f->va));
	frame_flags_put(page, frame_flags(page) | FRAME_ANON | FRAME_SWAPBACKED); /* nobody else has it yet */
	rmap_add_new(c, page);
	if (f->v->flags & VM_LOCKED)
		rmap_mlock(c, page);
	folio_add_lru(c, page);
	mm_rss_add(c, f->mm, RSS_ANON, 1);
	/* Clean where nobody may write: a read that found no zero page to map (quire.zero_page). */
	pte_write(c, &f->pte, pte_owned(c->m, page, f->v->flags) & (f->v->flags & VM_WRITE ? ~0ULL : ~PTE_DIRTY));
	c->fault_entry = f->pte.entry;
	machine_path(c, prev);
}

ATTR_NOINLINE int fault_anon(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_ANON, 1);
	struct frame *page = anon_prepare(c, f->v) ? NULL : anon_alloc_zeroed(c, f->v, f->va);

	machine_path(c, PATH_FAULT_ANON);
	if (page) {
		fault_pt_lock(c, f->pte.table);
		bool done = !pte_read(c, &f->pte);

		if (done) {
			map_anon(f, page);
			f->kind = VM_quire_fault_anon_4k;
		}
		pt_unlock(c, f->pte.table);
		if (!done)
			frame_put(c, page);
	}
	machine_path(c, prev);
	return page ? 0 : -ENOMEM;
}

ATTR_NOINLINE int fault_zero_page(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_ZERO, 1);

	fault_pt_lock(c, f->pte.table);
	if (!pte_read(c, &f->pte)) {
		pte_write(c, &f->pte,
			  pfn_to_paddr(f->q->zero_pfn) | (pte_prot(f->v->flags) & ~PTE_WRITE) | PTE_SOFT_ZERO);
		pt_mark(f->pte.table, FRAME_TABLE_MIXED);
		f->kind = VM_quire_fault_zero_4k;
	}
	pt_unlock(c, f->pte.table);
	machine_path(c, prev);
	return 0;
}

/* The write is allowed where the page lies. Under the table's lock. */
ATTR_NOINLINE static void wp_reuse(struct fault *f, struct frame *head)
{
	struct cpu *c = f->c;
	pte_t bits = (f->v->flags & VM_WRITE ? PTE_WRITE | PTE_DIRTY : 0) | PTE_ACCESSED;

	if (frame_flags(head) & FRAME_ANON) {
		bits |= PTE_SOFT_EXCLUSIVE; /* also of a lazily freed one: reclaim will find it dirty */
		if (!(f->orig & PTE_SOFT_EXCLUSIVE))
			page_move_anon_rmap(head, f->v);
	} else {
		frame_set(head, FRAME_DIRTY);
	}
	pte_set_bits(c, &f->pte, bits);
	f->kind = VM_quire_fault_reuse_4k;
	vmstat_inc(c, VM_pgreuse);
}

/* A frame with the contents of `old` (NULL: the zero page), not yet mapped. */
static int wp_new_page(struct fault *f, struct frame *old, struct frame **ret)
{
	struct cpu *c = f->c;

	struct frame *page = old ? anon_alloc(c, f->v, f->va) : anon_alloc_zeroed(c, f->v, f->va);
	int rc = page ? 0 : -ENOMEM;

	if (page && old)
		rc = anon_copy(c, page, old);
	if (rc && page)
		frame_put(c, page);
	*ret = page;
	return rc;
}

/*
 * Give the writer its own copy of `old` (NULL: the zero page). The caller holds a reference on old's folio, which goes.
 * The entry is emptied and flushed before the new page appears, so that no CPU reads the old page after another one has
 * written the new.
 */
ATTR_NOINLINE static int wp_copy(struct fault *f, struct frame *old)
{
	struct cpu *c = f->c;
	struct frame *page = NULL, *head = old ? frame_head(c->m, old) : NULL;
	bool done = false;

	int rc = anon_prepare(c, f->v);

	if (!rc)
		rc = wp_new_page(f, old, &page);

	machine_path(c, PATH_FAULT_WP);
	if (!rc) {
		fault_pt_lock(c, f->pte.table);
		if (pte_read(c, &f->pte) == f->orig) {
			pte_xchg(c, &f->pte, 0);
			tlb_flush_page(c, f->mm, f->va);
			if (old) {
				mm_rss_add(c, f->mm, frame_rss(head), -1); /* the new page makes up for it */
				rmap_remove_pte(c, head, old, f->v->flags);
			}
			map_anon(f, page);
			f->kind = VM_quire_fault_cow_4k;
			done = true;
		}
		pt_unlock(c, f->pte.table);
		if (!done)
			frame_put(c, page);
	}
	if (head) {
		if (done)
			frame_put(c, head); /* the mapping's */
		folio_put_swap(c, head);
	}
	return rc;
}

#define REFS_MAYBE_BATCHES 3 /* the mapping's, and those of two batches or of one and the swap cache: above that, emptying this CPU's can't help */

/* Nobody else has a reference; where only the swap cache does, it is asked to let go. */
static bool wp_only_user(struct cpu *c, struct frame *head)
{
	if ((frame_flags(head) & FRAME_SWAPCACHE) && folio_swap_refs(head) == frame_refcount(head) - 1 && folio_trylock(c, head)) {
		(void)folio_free_swap(c, head);
		folio_unlock(c, head);
	}
	return frame_refcount(head) == 1;
}

/* May the page be written in place? Nobody else maps or holds it. Under the table's lock. */
static bool wp_may_reuse(const struct fault *f, struct frame *head)
{
	if (f->v->flags & VM_SHARED)
		return true;
	if (!(frame_flags(head) & FRAME_ANON))
		return false;
	if (f->orig & PTE_SOFT_EXCLUSIVE)
		return true;
	if (frame_refcount(head) > REFS_MAYBE_BATCHES)
		return false;
	/* On no list: in a batch, this CPU's most likely. Others' are not worth waiting for. */
	if (!(frame_flags(head) & FRAME_LRU))
		lru_add_drain(f->c);
	return wp_only_user(f->c, head);
}

ATTR_NOINLINE int fault_wp(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_WP, 1);
	struct frame *old = NULL, *head;
	bool copy = false;
	int rc = 0;

	fault_pt_lock(c, f->pte.table);
	if (pte_read(c, &f->pte) == f->orig) {
		copy = true;
		if (!(f->orig & PTE_SOFT_ZERO)) {
			old = frame_of(c->m, pte_pfn(f->orig));
			head = frame_head(c->m, old);
			frame_touch(c, head, TOUCH_READ);
			copy = !wp_may_reuse(f, head);
			if (copy)
				frame_get(c, head);
			else
				wp_reuse(f, head);
		}
	}
	pt_unlock(c, f->pte.table);
	if (copy)
		rc = wp_copy(f, old);
	machine_path(c, prev);
	return rc;
}
