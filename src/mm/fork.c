/*
 * Copying an address space's mappings for fork: the child maps what the parent maps, and neither may write without
 * asking.
 *
 * Pages of private areas lose WRITE and PTE_SOFT_EXCLUSIVE on both sides. What the child can find again by itself is
 * not copied: areas that never had an anonymous page (shared and read-only file mappings, untouched memory) are
 * refaulted, as in Linux.
 * Locks: both mmap_locks for writing; the parent's table, then the child's. The parent is flushed once, by mm_fork,
 * after all.
 */
#include "base/errno.h"
#include "mm/fault.h"
#include "mm/rmap.h"

struct fork_copy {
	struct cpu *c;
	struct mm *child;
	int64_t rss[NR_RSS];
};

/* Take from the parent's entry what sharing takes; what remains goes to the child, not yet accessed. */
static inline pte_t fork_share(struct cpu *c, const struct pt_ref *src, pte_t e)
{
	if (e & (PTE_WRITE | PTE_SOFT_EXCLUSIVE))
		e = pte_clear_bits(c, src, PTE_WRITE | PTE_SOFT_EXCLUSIVE);
	return e & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE | PTE_ACCESSED);
}

ATTR_NOINLINE static void fork_copy_pte(struct fork_copy *k, const struct pt_ref *src, const struct pt_ref *dst)
{
	struct cpu *c = k->c;
	pte_t e = pte_peek(src);

	(void)machine_work(c, PATH_FORK_PTE, 1);
	if (!(e & PTE_SOFT_ZERO)) {
		struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

		frame_get(c, head);
		rmap_add_pte(c, head, page);
		k->rss[frame_rss(head)]++;
		e = fork_share(c, src, e);
	}
	pte_write(c, dst, e);
}

/* One PTE table's entries for [va, end). 0 or -ENOMEM. */
ATTR_NOINLINE static int fork_copy_table(struct fork_copy *k, struct frame *table, const struct pt_ref *dst_pmd,
					 vaddr_t va, vaddr_t end)
{
	struct cpu *c = k->c;
	struct pt_ref src = pt_ref_at(c, table, va, PAGE_SHIFT), dst;
	int rc = pt_pte(c, k->child, dst_pmd, va, true, &dst);

	if (rc)
		return rc;
	pt_lock(c, src.table);
	pt_lock(c, dst.table);
	for (vaddr_t at = va; at < end; at += PAGE_SIZE, pt_ref_next(&src), pt_ref_next(&dst)) {
		pt_touch_line(c, &src, at == va);
		if (pte_peek(&src))
			fork_copy_pte(k, &src, &dst);
	}
	pt_unlock(c, dst.table);
	pt_unlock(c, src.table);
	return 0;
}

/* 0, -ENOMEM, or -EAGAIN: the entry isn't huge any more. */
ATTR_NOINLINE static int fork_copy_huge_pmd(struct fork_copy *k, const struct pt_ref *src, const struct pt_ref *dst)
{
	struct cpu *c = k->c;
	struct frame *table = pt_alloc_table(c, k->child);

	(void)machine_work(c, PATH_FORK_HUGE, 1);
	if (!table)
		return -ENOMEM;
	pt_lock(c, src->table);
	pt_lock(c, dst->table);
	pte_t e = pte_read(c, src);
	bool huge = pmd_huge(e);

	if (huge) {
		if (!(e & PTE_SOFT_ZERO)) {
			struct frame *head = frame_of(c->m, pte_pfn(e));

			frame_get(c, head);
			rmap_add_pmd(c, head);
			k->rss[RSS_ANON] += HPAGE_PMD_NR;
			__atomic_add_fetch(&k->child->huge_mapped, 1, __ATOMIC_RELAXED);
			e = fork_share(c, src, e);
		}
		pt_deposit(c, dst->table, table);
		pte_write(c, dst, e);
	}
	pt_unlock(c, dst->table);
	pt_unlock(c, src->table);
	if (!huge)
		pt_free_table(c, k->child, table);
	return huge ? 0 : -EAGAIN;
}

/* What one PMD entry of the parent covers. */
static int fork_copy_pmd(struct fork_copy *k, const struct pt_ref *src, vaddr_t va, vaddr_t end)
{
	struct cpu *c = k->c;
	pte_t e = pte_peek(src);
	struct pt_ref dst;

	if (!e)
		return 0;
	int rc = pt_pmd(c, k->child, va, true, &dst);

	if (!rc && pmd_huge(e)) {
		rc = fork_copy_huge_pmd(k, src, &dst);
		if (rc != -EAGAIN)
			return rc;
		e = pte_read(c, src);
		rc = 0;
	}
	if (!rc && pmd_table(e))
		rc = fork_copy_table(k, frame_of(c->m, pte_pfn(e)), &dst, va, end);
	return rc;
}

int fork_copy_range(struct cpu *c, struct mm *child, struct mm *parent, struct vma *child_vma, struct vma *parent_vma)
{
	struct fork_copy k = { .c = c, .child = child };
	int rc = 0;

	if (!parent_vma->anon_touched || (parent_vma->flags & (VM_WIPEONFORK | VM_SHARED)))
		return 0;
	for (vaddr_t va = child_vma->start, next; va < child_vma->end && !rc; va = next) {
		struct frame *table = pt_pmd_table(c, parent, va, &next);

		if (!table)
			continue;
		vaddr_t stop = MIN(ALIGN_DOWN(va, PUD_SIZE) + PUD_SIZE, child_vma->end);
		struct pt_ref src = pt_ref_at(c, table, va, PMD_SHIFT);

		for (bool first = true; va < stop && !rc; va = next, first = false, pt_ref_next(&src)) {
			next = MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, stop);
			pt_touch_line(c, &src, first);
			rc = fork_copy_pmd(&k, &src, va, next);
		}
	}
	for (unsigned i = 0; i < NR_RSS; i++)
		if (k.rss[i])
			mm_rss_add(child, (enum rss_kind)i, k.rss[i]);
	return rc;
}
