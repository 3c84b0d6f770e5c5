/*
 * Copying an address space's mappings for fork: the child maps what the parent maps, and neither may write without
 * asking.
 *
 * Pages of private areas lose WRITE and PTE_SOFT_EXCLUSIVE on both sides. What the child can find again by itself is
 * not copied: areas that never had an anonymous page (shared and read-only file mappings, untouched memory) are
 * refaulted, as in Linux.
 * A pinned page stays the parent's alone, since whoever pinned it goes on writing to it: the child gets a copy now
 * (gup.c, G3). A pinned huge page is copied whole under quire.huge_cow=copy, else its mapping is split first.
 * With quire.fork_tables=shared a PTE table of which nothing needs to be copied is shared whole (fork_shared.c).
 * Locks: both mmap_locks for writing; the parent's table, then the child's. The parent is flushed once, by mm_fork,
 * after all.
 */
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/fork_shared.h"
#include "mm/hugecopy.h"
#include "mm/lru.h"
#include "mm/nonpresent.h"

struct fork_copy {
	struct cpu *c;
	struct mm *child;
	struct mm *parent;
	struct vma *v, *parent_vma; /* v: the child's */
	int64_t rss[NR_RSS];
	int64_t entries, huge, walked, made, pinned; /* counted at the end */
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
	if (unlikely(!pte_present(e))) {
		e = nonpresent_fork(c, src, dst, e, k->child, k->rss);
	} else if (!(e & PTE_SOFT_ZERO)) {
		struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

		frame_get(c, head);
		rmap_add_pte(c, head, page);
		k->rss[frame_rss(head)]++;
		e = fork_share(c, src, e);
	}
	pte_write(c, dst, e);
	k->entries++;
	if (unlikely(frame_flags(src->table) & FRAME_TABLE_MIXED))
		pt_mark(dst->table, FRAME_TABLE_MIXED);
}

/* Is the page to be copied instead of shared? */
static inline bool fork_is_pinned(const struct machine *m, pte_t e)
{
	return (e & PTE_SOFT_EXCLUSIVE) && pte_present(e) && frame_pinned(frame_head(m, frame_of(m, pte_pfn(e))));
}

/* Give the child `copy` of the pinned page that e maps. Under the tables' locks. */
ATTR_NOINLINE static int fork_copy_pinned(struct fork_copy *k, pte_t e, const struct pt_ref *dst, vaddr_t va, struct frame *copy)
{
	struct cpu *c = k->c;
	int rc = anon_copy(c, copy, frame_of(c->m, pte_pfn(e)));

	if (rc)
		return rc;
	frame_set_anon(copy, k->v, vma_page_index(k->v, va));
	frame_set(copy, FRAME_ANON | FRAME_SWAPBACKED);
	rmap_add_pte(c, copy, copy);
	folio_add_lru(c, copy);
	k->rss[RSS_ANON]++;
	k->entries++;
	k->pinned++;
	pte_write(c, dst, pte_owned(c->m, copy, k->v->flags));
	return 0;
}

/* One PTE table's entries for [va, end). 0, -ENOMEM or -EHWPOISON. */
ATTR_NOINLINE static int fork_copy_table(struct fork_copy *k, struct frame *table, const struct pt_ref *dst_pmd,
					 vaddr_t va, vaddr_t end)
{
	struct cpu *c = k->c;
	struct pt_ref src = pt_ref_at(c, table, va, PAGE_SHIFT), dst;
	struct frame *spare = NULL; /* for the next pinned page */
	bool made = !pte_peek(dst_pmd);
	int rc = pt_pte(c, k->child, dst_pmd, va, true, &dst);

	if (rc)
		return rc;
	k->walked++;
	k->made += made;
	pt_lock(c, src.table);
	pt_lock(c, dst.table);
	for (vaddr_t at = va; at < end && !rc; at += PAGE_SIZE, pt_ref_next(&src), pt_ref_next(&dst)) {
		pt_touch_line(c, &src, at == va);
		pte_t e = pte_peek(&src);

		if (likely(!e || !fork_is_pinned(c->m, e))) {
			if (e)
				fork_copy_pte(k, &src, &dst);
			continue;
		}
		if (!spare) {
			pt_unlock(c, dst.table);
			pt_unlock(c, src.table);
			spare = anon_alloc(c, k->v, va);
			pt_lock(c, src.table);
			pt_lock(c, dst.table);
		}
		rc = spare ? fork_copy_pinned(k, e, &dst, at, spare) : -ENOMEM;
		if (!rc)
			spare = NULL;
	}
	pt_unlock(c, dst.table);
	pt_unlock(c, src.table);
	if (spare)
		frame_put(c, spare);
	return rc;
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
	bool huge = pmd_leaf(e);

	if (huge) {
		if (!pte_present(e)) {
			e = nonpresent_fork(c, src, dst, e, k->child, k->rss);
		} else if (!(e & PTE_SOFT_ZERO)) {
			struct frame *head = frame_of(c->m, pte_pfn(e));

			frame_get(c, head);
			rmap_add_pmd(c, head);
			k->rss[RSS_ANON] += HPAGE_PMD_NR;
			__atomic_add_fetch(&k->child->huge_mapped, 1, __ATOMIC_RELAXED);
			e = fork_share(c, src, e);
		}
		pt_deposit(c, dst->table, table);
		pte_write(c, dst, e);
		k->huge++;
	}
	pt_unlock(c, dst->table);
	pt_unlock(c, src->table);
	if (!huge)
		pt_free_table(c, k->child, table);
	return huge ? 0 : -EAGAIN;
}

/* A pinned huge page: the child gets a huge copy. 0, -EHWPOISON, or -ENOMEM: nothing was done. */
ATTR_NOINLINE static int fork_copy_huge_pinned(struct fork_copy *k, pte_t e, const struct pt_ref *dst, vaddr_t va)
{
	struct fault f = { .c = k->c, .q = k->child->q, .mm = k->child, .v = k->v, .va = va, .pmd = *dst };
	struct cpu *c = k->c;
	struct frame *head = thp_alloc(c, k->v, va), *table = head ? pt_alloc_table(c, k->child) : NULL;
	int rc = table ? hugecopy_copy(c, head, frame_of(c->m, pte_pfn(e)), HPAGE_PMD_NR, va) : -ENOMEM;

	if (!rc) {
		pt_lock(c, dst->table);
		thp_map(&f, head);
		pt_deposit(c, dst->table, table);
		pt_unlock(c, dst->table);
		k->huge++;
		k->pinned += HPAGE_PMD_NR;
		return 0;
	}
	if (table)
		pt_free_table(c, k->child, table);
	if (head)
		frame_put(c, head);
	return rc;
}

/* Share the parent's table at *src, or find it shared for another area of its 2 MiB. false: copy. */
static bool fork_shared(struct fork_copy *k, const struct pt_ref *src, pte_t e, const struct pt_ref *dst, vaddr_t va)
{
	pte_t there = pte_peek(dst);

	if (there)
		return pt_entry_shared(there);
	return pmd_table(e) && fork_share_table(k->c, k->child, k->parent, k->parent_vma, src, dst, va, k->rss);
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

	if (!rc && k->child->q->knobs.fork_tables == FORK_TABLES_SHARED && fork_shared(k, src, e, &dst, va))
		return 0;
	if (!rc && pmd_huge(e) && unlikely(fork_is_pinned(c->m, e))) {
		if (k->child->q->knobs.huge_cow == HUGE_COW_COPY) {
			rc = fork_copy_huge_pinned(k, e, &dst, va);
			if (rc != -ENOMEM)
				return rc;
			rc = 0;
		}
		thp_split_pmd(c, k->parent_vma, src, va);
		e = pte_read(c, src);
	} else if (!rc && pmd_leaf(e)) {
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

static void fork_count(const struct fork_copy *k)
{
	vmstat_add(k->c, VM_quire_fork_entries_4k, k->entries);
	vmstat_add(k->c, VM_quire_fork_entries_2m, k->huge);
	vmstat_add(k->c, VM_quire_fork_tables_walked, k->walked);
	vmstat_add(k->c, VM_quire_fork_tables_made, k->made);
	vmstat_add(k->c, VM_quire_fork_pinned_copied, k->pinned);
}

int fork_copy_range(struct cpu *c, struct mm *child, struct mm *parent, struct vma *child_vma, struct vma *parent_vma)
{
	struct fork_copy k = { .c = c, .child = child, .parent = parent, .v = child_vma, .parent_vma = parent_vma };
	int rc = 0;

	if (parent_vma->flags & VM_HUGETLB)
		return hugetlb_fork(c, child_vma, parent_vma);
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
	fork_count(&k);
	for (unsigned i = 0; i < NR_RSS; i++)
		if (k.rss[i])
			mm_rss_add(c, child, (enum rss_kind)i, k.rss[i]);
	return rc;
}
