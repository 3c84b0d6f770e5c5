/*
 * Writes to write-protected huge mappings: reuse, a copy of 2 MiB, or a split.
 *
 *   quire.huge_cow=copy   before Linux 5.8: a new huge page and a copy of all of it, aimed at the faulting byte; when there
 *                         is no huge page, the mapping is split and one base page is copied
 *   quire.huge_cow=split  since: always split and copy one base page
 * The huge zero page has nothing to copy: a huge page is allocated and cleared, or with quire.huge_zero_cow=split, as from 5.8 to 6.12,
 * the mapping is split here too.
 * Who may reuse differs too: since 5.8 whoever holds the only reference, before whoever has the only mapping.
 */
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/hugecopy.h"
#include "mm/swap.h"

/* Nobody else has a reference, the swap cache being asked to let go. Under the table's lock. */
static bool only_user(struct cpu *c, struct frame *head)
{
	if ((frame_flags(head) & FRAME_SWAPCACHE) && frame_refcount(head) == 1 + folio_swap_refs(head) && folio_trylock(c, head)) {
		(void)folio_free_swap(c, head);
		folio_unlock(c, head);
	}
	return frame_refcount(head) == 1;
}

static bool thp_may_reuse(const struct fault *f, struct frame *head)
{
	if (f->orig & PTE_SOFT_EXCLUSIVE)
		return true;
	if (f->q->knobs.huge_cow == HUGE_COW_COPY)
		return frame_mapped_once(head);
	return only_user(f->c, head);
}

static void thp_reuse(struct fault *f, struct frame *head)
{
	if (!(f->orig & PTE_SOFT_EXCLUSIVE))
		page_move_anon_rmap(head, f->v);
	pte_set_bits(f->c, &f->pmd,
		     (f->v->flags & VM_WRITE ? PTE_WRITE | PTE_DIRTY : 0) | PTE_ACCESSED | PTE_SOFT_EXCLUSIVE);
	f->kind = VM_quire_fault_reuse_2m;
}

/* Base pages from here on: one fault, one split, then the base page's own copy on write. */
static int thp_cow_split(struct fault *f)
{
	thp_split_pmd(f->c, f->v, &f->pmd, f->va);
	return FAULT_FALLBACK;
}

/* Replace the mapping of `old` (NULL: the huge zero page) by `head`, unless the entry changed. Was it done? */
static bool thp_cow_install(struct fault *f, struct frame *old, struct frame *head)
{
	struct cpu *c = f->c;
	vaddr_t base = ALIGN_DOWN(f->va, PMD_SIZE);
	bool done = false;

	fault_pt_lock(c, f->pmd.table);
	if (pte_read(c, &f->pmd) == f->orig) {
		pte_xchg(c, &f->pmd, 0);
		tlb_flush_for(c, f->mm, base, base + PMD_SIZE, PMD_SHIFT, false, FLUSH_COW);
		if (old) {
			mm_rss_add(c, f->mm, RSS_ANON, -(int64_t)HPAGE_PMD_NR);
			__atomic_sub_fetch(&f->mm->huge_mapped, 1, __ATOMIC_RELAXED);
			rmap_remove_pmd(c, old, f->v->flags);
		}
		thp_map(f, head);
		f->kind = VM_quire_fault_cow_2m;
		vmstat_inc(c, VM_thp_fault_alloc);
		done = true;
	}
	pt_unlock(c, f->pmd.table);
	return done;
}

/* `old` (NULL: the huge zero page) comes with a reference, which goes. */
static int thp_cow_copy(struct fault *f, struct frame *old)
{
	struct cpu *c = f->c;
	struct frame *head;
	bool done = false;
	int rc = anon_prepare(c, f->v);

	head = !rc && thp_allowed(f->mm, f->v, f->va) ? thp_alloc(c, f->v, f->va) : NULL;
	machine_path(c, PATH_FAULT_HUGE_WP);
	if (rc) {
		/* nothing has changed */
	} else if (!head) {
		vmstat_inc(c, VM_thp_fault_fallback);
		rc = thp_cow_split(f);
	} else {
		rc = old ? hugecopy_copy(c, head, old, HPAGE_PMD_NR, f->va)
			 : hugecopy_clear(c, head, HPAGE_PMD_NR, f->va);
		machine_path(c, PATH_FAULT_HUGE_WP);
		if (!rc)
			done = thp_cow_install(f, old, head);
		if (!done)
			frame_put(c, head);
	}
	if (old) {
		if (done)
			frame_put(c, old); /* the mapping's */
		frame_put(c, old);
	}
	return rc;
}

ATTR_NOINLINE int thp_fault_wp(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_HUGE_WP, 1);
	bool copy_huge = f->q->knobs.huge_cow == HUGE_COW_COPY, zero = thp_is_zero(f->orig), again = true;
	bool zero_huge = f->q->knobs.huge_zero_cow == HUGE_ZERO_COW_HUGE;
	struct frame *old = NULL;
	int rc = 0;

	fault_pt_lock(c, f->pmd.table);
	if (pte_read(c, &f->pmd) == f->orig) {
		again = false;
		if (!zero) {
			old = frame_of(c->m, pte_pfn(f->orig));
			frame_touch(c, old, TOUCH_READ);
			if (thp_may_reuse(f, old)) {
				thp_reuse(f, old);
				again = true;
			} else if (copy_huge) {
				frame_get(c, old);
			}
		}
	}
	pt_unlock(c, f->pmd.table);
	if (!again)
		rc = (zero ? zero_huge : copy_huge) ? thp_cow_copy(f, old) : thp_cow_split(f);
	machine_path(c, prev);
	return rc;
}
