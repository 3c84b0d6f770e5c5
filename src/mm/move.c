/*
 * Moving mappings to other addresses (mremap): huge entries and whole PTE tables where both addresses are 2 MiB
 * aligned, else entry by entry. Frames stay as they are: an anonymous page's index names it, not its address.
 *
 * A table that others share moves as it is where it moves whole; else it is made this address space's own first.
 * Locks: mmap_lock for writing; those of the trees that lead to the pages (so that nobody who looks for a page misses it between its
 * two places, or has its table moved away: rmap_walk.h R2); the source table's lock, then the destination's. The old range is flushed before they
 * are dropped, so that no CPU can write through the old address once the new one is there to be written through.
 */
#include "base/errno.h"
#include "mm/anon_vma.h"
#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/hugetlb.h"
#include "mm/tlb_batch.h"

static void lock_pair(struct cpu *c, const struct vma *from, struct frame *src, struct frame *dst)
{
	vma_rmap_lock(c, from);
	pt_lock(c, src);
	if (dst != src)
		pt_lock(c, dst);
}

static void unlock_pair(struct cpu *c, const struct vma *from, struct frame *src, struct frame *dst)
{
	if (dst != src)
		pt_unlock(c, dst);
	pt_unlock(c, src);
	vma_rmap_unlock(c, from);
}

ATTR_NOINLINE static void move_pte(struct cpu *c, const struct pt_ref *src, const struct pt_ref *dst)
{
	pte_t e = pte_xchg(c, src, 0);

	(void)machine_work(c, PATH_MOVE_TABLES, 1);
	pte_write(c, dst, e);
}

/* The entries of one PTE table on both sides. */
static void move_ptes(struct cpu *c, const struct vma *from, struct pt_ref src, struct pt_ref dst, vaddr_t old, uint64_t len)
{
	bool moved = false;

	lock_pair(c, from, src.table, dst.table);
	tlb_flush_batched_pending(c, from->mm);
	pt_mark(dst.table, frame_flags(src.table) & (FRAME_TABLE_MIXED | FRAME_TABLE_PINNED));
	for (uint64_t off = 0; off < len; off += PAGE_SIZE, pt_ref_next(&src), pt_ref_next(&dst)) {
		pt_touch_line(c, &src, off == 0);
		if (!pte_peek(&src))
			continue;
		move_pte(c, &src, &dst);
		moved = true;
	}
	if (moved)
		tlb_flush_for(c, from->mm, old, old + len, PAGE_SHIFT, false, FLUSH_MREMAP);
	unlock_pair(c, from, src.table, dst.table);
}

/* A huge entry with its deposited table, or a whole PTE table. false: the destination is taken. */
static bool move_pmd(struct cpu *c, const struct vma *from, const struct pt_ref *src, const struct pt_ref *dst, vaddr_t old)
{
	bool ok;

	(void)machine_work(c, PATH_MOVE_TABLES, 1);
	lock_pair(c, from, src->table, dst->table);
	ok = !pte_read(c, dst);
	if (ok) {
		pte_t e = pte_xchg(c, src, 0);

		if (pmd_leaf(e) && src->table != dst->table)
			pt_deposit(c, dst->table, pt_withdraw(c, src->table));
		pte_write(c, dst, e);
		tlb_flush_for(c, from->mm, old, old + PMD_SIZE, pmd_leaf(e) ? PMD_SHIFT : PAGE_SHIFT, !pmd_leaf(e), FLUSH_MREMAP);
	}
	unlock_pair(c, from, src->table, dst->table);
	return ok;
}

/* What one PMD entry of the source and one of the destination cover. 0 or -ENOMEM. */
static int move_step(struct cpu *c, struct vma *from, struct pt_ref *src, vaddr_t old, vaddr_t new_addr, uint64_t len)
{
	struct mm *mm = from->mm;
	struct pt_ref dst, dst_pte, src_pte;
	pte_t e = pte_read(c, src);

	if (!e)
		return 0;
	int rc = pt_pmd(c, mm, new_addr, true, &dst);

	if (rc)
		return rc;
	if (len == PMD_SIZE && move_pmd(c, from, src, &dst, old))
		return 0;
	if (pmd_leaf(e))
		thp_split_pmd(c, from, src, old);
	rc = pt_unshare_part(c, mm, src, old, old + len);
	if (rc)
		return rc;
	if (pt_entry_shared(pte_read(c, src)))
		return 0; /* nothing to move there */
	rc = pt_unshare(c, mm, &dst, new_addr);
	if (!rc)
		rc = pt_pte(c, mm, &dst, new_addr, true, &dst_pte);
	if (rc)
		return rc;
	rc = pt_pte(c, mm, src, old, false, &src_pte);
	if (rc)
		return rc;
	move_ptes(c, from, src_pte, dst_pte, old, len);
	return 0;
}

int64_t move_range(struct cpu *c, struct vma *from, struct vma *to, vaddr_t old, vaddr_t new_addr, uint64_t len)
{
	enum machine_path prev = machine_work(c, PATH_MOVE_TABLES, 0);
	uint64_t off = 0, step;

	if (from->flags & VM_HUGETLB) {
		machine_path(c, prev);
		return hugetlb_move(c, from, to, old, new_addr, len);
	}
	for (; off < len; off += step) {
		vaddr_t o = old + off, n = new_addr + off, next;
		struct frame *table = pt_pmd_table(c, from->mm, o, &next);

		step = MIN(len - off, table ? PMD_SIZE : next - o);
		if (!table)
			continue;
		/* The next boundary of a table on either side ends the step. */
		step = MIN(step, PMD_SIZE - (o & ~PMD_MASK));
		step = MIN(step, PMD_SIZE - (n & ~PMD_MASK));
		struct pt_ref src = pt_ref_at(c, table, o, PMD_SHIFT);

		if (move_step(c, from, &src, o, n, step))
			break;
	}
	machine_path(c, prev);
	return (int64_t)off;
}
