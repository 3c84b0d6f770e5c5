/*
 * Table pages: allocation, deposits, installing, freeing, and the meaning of protection bits (invariants P1 to P3 of
 * pagetable.h).
 *
 * Locks: entries of PGD and PUD tables under mm->ptl, of PMD and PTE tables under the table's own lock. A table becomes
 * visible only zeroed and complete, so that walkers read upper levels without a lock. Tables are freed under mmap_lock
 * for writing.
 */
#include "mm/pagetable.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/system.h"
#include "mm/tlb.h"
#include "mm/walk_int.h"

#define PT_TOP (1ULL << 47) /* the first address above user space that no user table serves */

struct frame *pt_alloc_table(struct cpu *c, struct mm *mm)
{
	struct alloc_req req = { .order = 0, .gfp = GFP_KERNEL | GFP_ZERO, .nid = NID_NONE };
	struct frame *t = page_alloc(c, &req);

	if (!t)
		return NULL;
	frame_touch(c, t, TOUCH_WRITE);
	frame_flags_put(t, frame_flags(t) | FRAME_TABLE);
	mlock_init(&t->ptl, RANK_PTL, frame_desc_pa(mm->q, t));
	t->pt_mm = mm;
	t->nr_tables = 0;
	t->priv = 0;
	__atomic_add_fetch(&mm->pgtables_bytes, (int64_t)PAGE_SIZE, __ATOMIC_RELAXED);
	vmstat_inc(c, VM_nr_page_table_pages);
	return t;
}

void pt_free_table(struct cpu *c, struct mm *mm, struct frame *t)
{
	ASSERT(frame_flags(t) & FRAME_TABLE);
	ASSERT(t->nr_tables == 0);
	ASSERT(t->priv == 0);
	frame_touch(c, t, TOUCH_WRITE);
	ASSERT(t->pt_sharers == 0);
	frame_flags_put(t, frame_flags(t) & ~(FRAME_TABLE | FRAME_TABLE_MIXED | FRAME_TABLE_PINNED));
	t->pt_mm = NULL;
	list_init(&t->lru);
	__atomic_sub_fetch(&mm->pgtables_bytes, (int64_t)PAGE_SIZE, __ATOMIC_RELAXED);
	vmstat_add(c, VM_nr_page_table_pages, -1);
	frame_put(c, t);
}

void pt_deposit(struct cpu *c, struct frame *pmd_table, struct frame *pte_table)
{
	frame_touch(c, pte_table, TOUCH_WRITE);
	pte_table->priv = pmd_table->priv;
	pmd_table->priv = frame_pfn(c->m, pte_table).v;
}

struct frame *pt_withdraw(struct cpu *c, struct frame *pmd_table)
{
	ASSERT(pmd_table->priv != 0);
	struct frame *t = frame_of(c->m, pfn(pmd_table->priv));

	frame_touch(c, t, TOUCH_WRITE);
	pmd_table->priv = t->priv;
	t->priv = 0;
	return t;
}

pte_t pt_table_entry(const struct machine *m, const struct frame *t)
{
	return pfn_to_paddr(frame_pfn(m, t)) | PTE_PRESENT | PTE_WRITE | PTE_USER | PTE_ACCESSED | PTE_DIRTY;
}

/*
 * Make the missing table behind *r and install it under `lock`; *ret is what the entry holds afterwards, which may be a
 * table or a huge page that somebody else put there first.
 */
ATTR_NOINLINE int pt_alloc(struct cpu *c, struct mm *mm, const struct pt_ref *r, struct mlock *lock, pte_t *ret)
{
	struct frame *t = pt_alloc_table(c, mm);

	if (!t)
		return -ENOMEM;
	machine_lock(c, lock);
	*ret = pte_read(c, r);
	if (!*ret) {
		*ret = pt_table_entry(c->m, t);
		pte_write(c, r, *ret);
		t = NULL;
	}
	machine_unlock(c, lock);
	if (t)
		pt_free_table(c, mm, t);
	return 0;
}

pte_t pte_prot(uint64_t vm_flags)
{
	pte_t e = PTE_USER | PTE_ACCESSED;

	if (!(vm_flags & VM_ACCESS_FLAGS))
		return PTE_PROTNONE | PTE_USER | PTE_NX;
	e |= PTE_PRESENT;
	if (!(vm_flags & VM_EXEC))
		e |= PTE_NX;
	if ((vm_flags & (VM_SHARED | VM_WRITE)) == (VM_SHARED | VM_WRITE))
		e |= PTE_WRITE;
	return e;
}

struct free_walk {
	struct mm *mm;
	struct mmu_gather *tlb;
	vaddr_t start, end, floor, ceiling;
};

static void free_level(struct cpu *c, const struct free_walk *w, struct frame *table, unsigned shift, vaddr_t start,
		       vaddr_t end)
{
	uint64_t span = 1ULL << shift;
	struct pt_ref r = pt_ref_at(c, table, start, shift);
	struct mlock *lock = shift == PMD_SHIFT ? &table->ptl : &w->mm->ptl;

	for (vaddr_t va = start, next; va < end; va = next, pt_ref_next(&r)) {
		vaddr_t base = ALIGN_DOWN(va, span);

		next = MIN(base + span, end);
		pt_touch_line(c, &r, va == start);
		pte_t e = pte_peek(&r);

		if (!pmd_table(e))
			continue;
		struct frame *child = frame_of(c->m, pte_pfn(e));

		if (shift > PMD_SHIFT)
			free_level(c, w, child, shift - 9, va, next);
		if (base < w->floor || base + span > w->ceiling)
			continue;
		ASSERT(!pt_entry_shared(e)); /* dropped, or made ours, before */
		machine_lock(c, lock);
		pte_write(c, &r, 0);
		machine_unlock(c, lock);
		machine_work(c, PATH_FREE_TABLES, 1);
		tlb_gather_range(w->tlb, va, next - va);
		tlb_gather_table(c, w->tlb, child);
		machine_path(c, PATH_FREE_TABLES);
	}
}

ATTR_NOINLINE void pt_free_range(struct cpu *c, struct mm *mm, struct mmu_gather *tlb, vaddr_t start, vaddr_t end,
				 vaddr_t floor, vaddr_t ceiling)
{
	struct free_walk w = { .mm = mm, .tlb = tlb, .start = start, .end = end, .floor = floor, .ceiling = ceiling };
	enum machine_path prev = machine_work(c, PATH_FREE_TABLES, 1);

	if (!ceiling || ceiling >= TASK_SIZE)
		w.ceiling = PT_TOP;
	if (start < end)
		free_level(c, &w, frame_of(c->m, mm->pgd), PGDIR_SHIFT, start, end);
	machine_path(c, prev);
}

ATTR_NOINLINE void pt_free_empty(struct cpu *c, struct mm *mm, struct mmu_gather *tlb, vaddr_t start, vaddr_t end)
{
	enum machine_path prev = machine_work(c, PATH_FREE_TABLES, 1);

	end = ALIGN_DOWN(end, PMD_SIZE);
	for (vaddr_t va = ALIGN_UP(start, PMD_SIZE), next; va < end; va = next) {
		struct frame *table = pt_pmd_table(c, mm, va, &next);

		if (!table)
			continue;
		struct pt_ref r = pt_ref_at(c, table, va, PMD_SHIFT);
		pte_t e = pte_read(c, &r);

		next = va + PMD_SIZE;
		if (!pmd_table(e) || pt_entry_shared(e) || frame_of(c->m, pte_pfn(e))->nr_tables)
			continue;
		pt_lock(c, table);
		pte_write(c, &r, 0);
		pt_unlock(c, table);
		machine_work(c, PATH_FREE_TABLES, 1);
		tlb_gather_range(tlb, va, PMD_SIZE);
		tlb_gather_table(c, tlb, frame_of(c->m, pte_pfn(e)));
		machine_path(c, PATH_FREE_TABLES);
	}
	machine_path(c, prev);
}
