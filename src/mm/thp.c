/*
 * Huge pages of anonymous memory: who gets one, the first touch, the huge zero page, and giving up a huge mapping.
 *
 * Invariants: pagetable.h P3 (a PTE table is deposited for every huge entry), frame.h F2 to F4 (counts). A split
 * replaces one mapping by 512 and leaves the folio whole. While an entry is being split it is neither present to the
 * hardware nor a table.
 * Locks: PMD entries under their table's lock. The huge zero page is made under q->huge_zero_lock and kept.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/hugecopy.h"
#include "mm/lru.h"
#include "mm/numa.h"

bool thp_allowed(const struct mm *mm, const struct vma *v, vaddr_t va)
{
	vaddr_t base = ALIGN_DOWN(va, PMD_SIZE);
	uint32_t enabled = mm->q->knobs.thp_enabled;

	if (v->file || (v->flags & (VM_SHARED | VM_NOHUGEPAGE | VM_SPECIAL)) || mm->thp_disable)
		return false;
	if (base < v->start || v->end - base < PMD_SIZE)
		return false;
	return enabled == THP_ALWAYS || (enabled == THP_MADVISE && (v->flags & VM_HUGEPAGE));
}

enum vm_counter thp_refusal(const struct mm *mm, const struct vma *v)
{
	uint32_t enabled = mm->q->knobs.thp_enabled;
	vaddr_t first = ALIGN_UP(v->start, PMD_SIZE);

	if (v->file || (v->flags & (VM_SHARED | VM_SPECIAL)))
		return VM_quire_thp_ineligible_kind;
	if (enabled == THP_NEVER)
		return VM_quire_thp_ineligible_disabled;
	if ((v->flags & VM_NOHUGEPAGE) || (enabled == THP_MADVISE && !(v->flags & VM_HUGEPAGE)))
		return VM_quire_thp_ineligible_advice;
	if (mm->thp_disable)
		return VM_quire_thp_ineligible_prctl;
	return first >= v->end || v->end - first < PMD_SIZE ? VM_quire_thp_ineligible_small : VM_quire_thp_ineligible_alignment;
}

ATTR_NOINLINE void thp_map(struct fault *f, struct frame *head)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_MAP_ANON, 1);
	pte_t e = pte_owned(c->m, head, f->v->flags) | PTE_HUGE;

	frame_set_anon(head, f->v, vma_page_index(f->v, ALIGN_DOWN(f->va, PMD_SIZE)));
	frame_set(head, FRAME_ANON | FRAME_SWAPBACKED);
	rmap_add_pmd(c, head);
	if (f->v->flags & VM_LOCKED)
		rmap_mlock(c, head);
	folio_add_lru(c, head);
	__atomic_add_fetch(&f->mm->huge_mapped, 1, __ATOMIC_RELAXED);
	mm_rss_add(c, f->mm, RSS_ANON, HPAGE_PMD_NR);
	pte_write(c, &f->pmd, e);
	machine_path(c, prev);
	if (f->q->knobs.thp_shrink_underused)
		deferred_split_folio(c, head, false);
}

ATTR_NOINLINE int thp_fault_anon(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_HUGE, 1);
	struct frame *head, *table = NULL;
	int rc = anon_prepare(c, f->v);

	if (rc)
		goto out;
	khugepaged_enter_vma(c, f->v);
	rc = FAULT_FALLBACK;
	head = thp_alloc(c, f->v, f->va);
	machine_path(c, PATH_FAULT_HUGE);
	if (!head) {
		vmstat_inc(c, VM_thp_fault_fallback);
		goto out;
	}
	table = pt_alloc_table(c, f->mm);
	rc = table ? hugecopy_clear(c, head, HPAGE_PMD_NR, f->va) : -ENOMEM;
	machine_path(c, PATH_FAULT_HUGE);
	if (!rc) {
		fault_pt_lock(c, f->pmd.table);
		if (!pte_read(c, &f->pmd)) {
			thp_map(f, head);
			pt_deposit(c, f->pmd.table, table);
			head = table = NULL;
			f->kind = VM_quire_fault_anon_2m;
			vmstat_inc(c, VM_thp_fault_alloc);
		}
		pt_unlock(c, f->pmd.table);
	}
	if (table)
		pt_free_table(c, f->mm, table);
	if (head)
		frame_put(c, head);
out:
	machine_path(c, prev);
	return rc;
}

/* The huge zero page, made when it is first needed. NULL: no memory. */
static struct frame *thp_zero_folio(struct cpu *c, struct quire *q)
{
	struct frame *z = __atomic_load_n(&q->huge_zero, __ATOMIC_ACQUIRE);

	if (z)
		return z;
	struct alloc_req req = { .order = HPAGE_PMD_ORDER, .gfp = GFP_TRANSHUGE & ~GFP_MOVABLE, .nid = NID_NONE };

	z = page_alloc(c, &req);
	if (!z || hugecopy_clear(c, z, HPAGE_PMD_NR, 0)) {
		if (z)
			frame_put(c, z);
		vmstat_inc(c, VM_thp_zero_page_alloc_failed);
		return NULL;
	}
	machine_lock(c, &q->huge_zero_lock);
	if (!q->huge_zero) {
		frame_set(z, FRAME_HUGE_ZERO);
		vmstat_inc(c, VM_thp_zero_page_alloc);
		__atomic_store_n(&q->huge_zero, z, __ATOMIC_RELEASE);
		z = NULL;
	}
	machine_unlock(c, &q->huge_zero_lock);
	if (z)
		frame_put(c, z);
	return __atomic_load_n(&q->huge_zero, __ATOMIC_ACQUIRE);
}

ATTR_NOINLINE int thp_fault_zero(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_HUGE, 1);
	struct frame *table = pt_alloc_table(c, f->mm), *zero;
	int rc = table ? anon_prepare(c, f->v) : -ENOMEM;

	machine_path(c, PATH_FAULT_HUGE);
	if (rc)
		goto out;
	khugepaged_enter_vma(c, f->v);
	zero = thp_zero_folio(c, f->q);
	machine_path(c, PATH_FAULT_HUGE);
	rc = FAULT_FALLBACK;
	if (!zero) {
		vmstat_inc(c, VM_thp_fault_fallback);
	} else {
		rc = 0;
		fault_pt_lock(c, f->pmd.table);
		if (!pte_read(c, &f->pmd)) {
			pte_write(c, &f->pmd,
				  pfn_to_paddr(frame_pfn(c->m, zero)) | (pte_prot(f->v->flags) & ~PTE_WRITE) |
					  PTE_HUGE | PTE_SOFT_ZERO);
			pt_deposit(c, f->pmd.table, table);
			table = NULL;
			f->kind = VM_quire_fault_zero_2m;
		}
		pt_unlock(c, f->pmd.table);
	}
out:
	if (table)
		pt_free_table(c, f->mm, table);
	machine_path(c, prev);
	return rc;
}

/* Fill an unused PTE table with 512 entries that mean what the huge entry `e` meant. */
static void split_fill(struct cpu *c, struct quire *q, struct frame *table, pte_t e)
{
	struct pt_ref r = pt_ref_at(c, table, 0, PAGE_SHIFT);
	pte_t bits = e & ~(PTE_HUGE | PTE_ADDR_MASK);
	pfn_t first = thp_is_zero(e) ? q->zero_pfn : pte_pfn(e);

	machine_touch(c, r.pa, PAGE_SIZE, TOUCH_WRITE);
	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r))
		pte_init(&r, pfn_to_paddr(pfn_add(first, thp_is_zero(e) ? 0 : i)) | bits);
	table->nr_tables = PT_ENTRIES;
	if (thp_is_zero(e))
		pt_mark(table, FRAME_TABLE_MIXED);
	else if (!pte_present(e) || frame_pinned(frame_of(c->m, first)))
		pt_mark(table, FRAME_TABLE_PINNED);
}

/* One mapping of the whole becomes one of each frame. */
static void split_counts(struct cpu *c, struct vma *v, struct frame *head)
{
	frame_touch(c, head, TOUCH_ATOMIC);
	__atomic_add_fetch(&head->refcount, (int32_t)HPAGE_PMD_NR - 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		rmap_add_pte(c, head, head + i);
	rmap_remove_pmd(c, head, v->flags);
	__atomic_sub_fetch(&v->mm->huge_mapped, 1, __ATOMIC_RELAXED);
}

/* The mapping of the whole goes; entries that hold nothing stand for its pages. */
static void split_frozen(struct cpu *c, struct vma *v, struct frame *head, pte_t e)
{
	if (e & PTE_DIRTY)
		frame_set(head, FRAME_DIRTY);
	rmap_remove_pmd(c, head, v->flags);
	__atomic_sub_fetch(&v->mm->huge_mapped, 1, __ATOMIC_RELAXED);
	frame_put(c, head);
}

/* freeze: only if it maps this folio, and with migration entries. */
ATTR_NOINLINE static void split_pmd(struct cpu *c, struct vma *v, const struct pt_ref *pmd, vaddr_t va, struct frame *freeze)
{
	enum machine_path prev = machine_work(c, PATH_SPLIT_PMD, 1);
	vaddr_t base = ALIGN_DOWN(va, PMD_SIZE);

	pt_lock(c, pmd->table);
	pte_t e = pte_read(c, pmd);

	if (freeze ? pmd_huge(e) && pte_pfn(e).v == frame_pfn(c->m, freeze).v : pmd_leaf(e)) {
		struct frame *table = pt_withdraw(c, pmd->table);

		/* Out of the hardware's reach, but still taken: no bit that it sets meanwhile is lost. */
		if (pte_present(e))
			e = pte_xchg(c, pmd, (e & ~PTE_PRESENT) | PTE_PROTNONE);
		if (pte_maybe_cached(v->mm, e))
			tlb_flush_for(c, v->mm, base, base + PMD_SIZE, PMD_SHIFT, false, FLUSH_SPLIT);
		machine_path(c, PATH_SPLIT_PMD);
		bool frozen = freeze && !((e & PTE_SOFT_EXCLUSIVE) && frame_pinned(freeze));

		split_fill(c, v->mm->q, table, frozen ? pte_to_migration(e, frame_rss(freeze)) : e);
		if (frozen)
			split_frozen(c, v, freeze, e);
		else if (!thp_is_zero(e) && pte_present(e))
			split_counts(c, v, frame_of(c->m, pte_pfn(e)));
		pte_write(c, pmd, pt_table_entry(c->m, table));
		vmstat_inc(c, VM_thp_split_pmd);
	}
	pt_unlock(c, pmd->table);
	machine_path(c, prev);
}

void thp_split_pmd(struct cpu *c, struct vma *v, const struct pt_ref *pmd, vaddr_t va)
{
	split_pmd(c, v, pmd, va, NULL);
}

void thp_split_folio_pmd(struct cpu *c, struct vma *v, struct frame *folio, vaddr_t va)
{
	struct pt_ref pmd;

	if (!pt_pmd(c, v->mm, va, false, &pmd) && pmd_huge(pte_read(c, &pmd)))
		split_pmd(c, v, &pmd, va, folio);
}

void thp_split_boundary(struct cpu *c, struct vma *v, vaddr_t va)
{
	struct pt_ref pmd;

	if (v->file || (v->flags & VM_HUGETLB) || IS_ALIGNED(va, PMD_SIZE) || pt_pmd(c, v->mm, va, false, &pmd))
		return;
	if (pmd_leaf(pte_read(c, &pmd)))
		thp_split_pmd(c, v, &pmd, va);
}
