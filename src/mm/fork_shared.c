/*
 * Fork that shares page tables (quire.fork_tables=shared): the last level is shared copy-on-write, and copied when
 * either side first needs to change it ("On-demand-fork", EuroSys 2021).
 *
 * A PMD entry that points to a table without PTE_WRITE says that the table is, or was, shared (pt_entry_shared). The
 * hardware then writes nothing below it, whatever the entries say, so they keep PTE_WRITE and PTE_SOFT_EXCLUSIVE: what
 * is exclusive is so to the table.
 *
 * Invariants
 *  H1 pt_sharers of a table is the number of PMD entries without PTE_WRITE that point to it, plus those address spaces
 *     that have taken theirs away and not yet flushed; 0: never shared, or one's own again, and then pt_mm's.
 *  H2 While pt_sharers is not 0, entries of the table neither appear nor vanish nor name another frame, and none gains a
 *     right. Rights (WRITE, EXCLUSIVE) may be lost, and the hardware sets ACCESSED. DIRTY is as it was at the fork.
 *  H3 A mapcount and a reference count an entry of a table, once however many share the table. Resident pages (rss) and
 *     table bytes count what an address space reaches: each sharer counts the whole table. nr_page_table_pages counts
 *     frames, hence once. pt_rss says what to count; it is made when a table becomes shared.
 *  H4 All entries of a shared table lie in private areas of each sharer that a fork copies, none VM_LOCKED, and none
 *     maps a pinned page or stands for one that is absent. FRAME_TABLE_PINNED (such a one may be in the table) tells
 *     that a look is needed; FRAME_TABLE_MIXED that not all entries are anonymous pages. Both may be set needlessly.
 *
 * Protocol
 *  The table's own lock guards pt_sharers, pt_rss, pt_mm, and the loss of rights. The lock of the PMD table, an address
 *  space's own, guards its PMD entry: it is outside of the shared table's, and whoever holds it and sees the entry knows
 *  that the table stays. Shared tables are therefore only looked into under it, never by a mere mmap_lock for reading:
 *  others can free a table once this address space has let go of it.
 *   share    (fork; mmap_locks for writing) count the child under the table's lock; PTE_WRITE out of the parent's PMD
 *            entry; the child's entry. The parent is flushed at the end of the fork, page-walk caches included.
 *   copy     (several sharers) both locks held: entries as fork copies them, the source loses WRITE and EXCLUSIVE; the
 *            PMD entry changes to the copy; flush, since page-walk caches know the old table; then pt_sharers falls. Old
 *            translations of pages stay valid: they read the frames that the copy holds too.
 *   take     (the only sharer) pt_sharers becomes 0 and PTE_WRITE comes back. Nothing to flush: rights only grow. No
 *            sharer can appear meanwhile, as only this address space's fork could make one, under mmap_lock for writing.
 *   drop     the PMD entry is emptied; after the flush (the gather's) pt_sharers falls. The last one unmaps the entries.
 *  pt_sharers falls after the flush, always: who is left alone may write to what the entries map.
 *
 * Whoever finds mappings by frame will have to know that one entry serves all sharers of its table: a change of it needs
 * the table copied, or all of them flushed.
 */
#include "mm/fork_shared.h"

#include "mm/fault_int.h"
#include "mm/vma_int.h"
#include "mm/swap.h"

static uint32_t sharers(const struct frame *t)
{
	return __atomic_load_n(&t->pt_sharers, __ATOMIC_RELAXED);
}

/* Under the table's lock. Atomic, since pt_put_table looks before it locks. */
static void set_sharers(struct frame *t, uint32_t n)
{
	__atomic_store_n(&t->pt_sharers, n, __ATOMIC_RELAXED);
}

static void count_shared(struct mm *mm, int n)
{
	__atomic_add_fetch(&mm->shared_tables, n, __ATOMIC_RELAXED);
}

static bool has_shared(const struct mm *mm)
{
	return __atomic_load_n(&mm->shared_tables, __ATOMIC_RELAXED) != 0;
}

static struct frame *table_of(const struct cpu *c, pte_t pmd)
{
	return frame_of(c->m, pte_pfn(pmd));
}

/* ---- may it be shared? ---- */

/* Does fork copy the area's entries, and copy them as they are? */
static bool area_copied(const struct vma *v)
{
	return v->anon_touched && !(v->flags & (VM_WIPEONFORK | VM_SHARED | VM_DONTCOPY | VM_LOCKED));
}

static bool has_entries(struct cpu *c, struct frame *t, vaddr_t start, vaddr_t end)
{
	struct pt_ref r = pt_ref_at(c, t, start, PAGE_SHIFT);

	for (vaddr_t va = start; va < end; va += PAGE_SIZE, pt_ref_next(&r)) {
		pt_touch_line(c, &r, va == start);
		if (pte_peek(&r))
			return true;
	}
	return false;
}

/* All areas of the table's 2 MiB: what fork does not copy may have no entries. */
ATTR_NOINLINE static bool areas_allow(struct cpu *c, struct mm *mm, struct frame *t, vaddr_t base)
{
	struct vma *v = vma_find(c, mm, base);

	for (; v && v->start < base + PMD_SIZE; v = vma_next_charged(c, v))
		if (!area_copied(v) && has_entries(c, t, MAX(v->start, base), MIN(v->end, base + PMD_SIZE)))
			return false;
	return true;
}

/* Under the table's lock, which is not shared. Forgets the mark where it is needless. */
ATTR_NOINLINE static bool has_special(struct cpu *c, struct frame *t)
{
	struct pt_ref r = pt_ref_at(c, t, 0, PAGE_SHIFT);

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		pt_touch_line(c, &r, i == 0);
		pte_t e = pte_peek(&r);

		if (e && !pte_present(e))
			return true;
		if ((e & PTE_SOFT_EXCLUSIVE) && frame_pinned(frame_head(c->m, frame_of(c->m, pte_pfn(e)))))
			return true;
	}
	frame_clear(t, FRAME_TABLE_PINNED);
	return false;
}

/* What the table's entries map, by kind. Under its lock. */
ATTR_NOINLINE static void count_entries(struct cpu *c, struct frame *t)
{
	struct pt_ref r = pt_ref_at(c, t, 0, PAGE_SHIFT);

	if (!(frame_flags(t) & FRAME_TABLE_MIXED)) {
		t->pt_rss[RSS_ANON] = (uint16_t)t->nr_tables;
		return;
	}
	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		pt_touch_line(c, &r, i == 0);
		pte_t e = pte_peek(&r);

		if (!e || (e & PTE_SOFT_ZERO))
			continue;
		struct frame *head = frame_head(c->m, frame_of(c->m, pte_pfn(e)));

		frame_touch(c, head, TOUCH_READ);
		t->pt_rss[frame_rss(head)]++;
	}
}

/* ---- sharing ---- */

/* One more sharer; a table that was the parent's own begins with two. false: no. */
static bool share_count(struct cpu *c, struct frame *t)
{
	bool ok = true;

	pt_lock(c, t);
	uint32_t n = sharers(t);

	if (!n) {
		ok = t->nr_tables && !((frame_flags(t) & FRAME_TABLE_PINNED) && has_special(c, t));
		if (ok) {
			count_entries(c, t);
			t->pt_mm = NULL;
			n = 1;
		}
	}
	if (ok)
		set_sharers(t, n + 1);
	pt_unlock(c, t);
	return ok;
}

ATTR_NOINLINE bool fork_share_table(struct cpu *c, struct mm *child, struct mm *parent, struct vma *parent_vma,
				    const struct pt_ref *src, const struct pt_ref *dst, vaddr_t va, int64_t *ret_rss)
{
	enum machine_path prev = machine_work(c, PATH_FORK_SHARE, 1);
	vaddr_t base = ALIGN_DOWN(va, PMD_SIZE);
	bool inside = parent_vma->start <= base && parent_vma->end - base >= PMD_SIZE, ok;
	pte_t e = pte_peek(src);
	struct frame *t = table_of(c, e);

	frame_touch(c, t, TOUCH_ATOMIC);
	ok = (inside ? area_copied(parent_vma) : areas_allow(c, parent, t, base)) && share_count(c, t);
	if (ok) {
		if (!pt_entry_shared(e)) {
			pt_lock(c, src->table);
			pte_clear_bits(c, src, PTE_WRITE);
			pt_unlock(c, src->table);
			count_shared(parent, 1);
		}
		pt_lock(c, dst->table);
		pte_write(c, dst, pt_table_entry(c->m, t) & ~PTE_WRITE);
		pt_unlock(c, dst->table);
		count_shared(child, 1);
		__atomic_add_fetch(&child->pgtables_bytes, (int64_t)PAGE_SIZE, __ATOMIC_RELAXED);
		for (unsigned i = 0; i < NR_RSS; i++)
			ret_rss[i] += t->pt_rss[i];
		vmstat_inc(c, VM_quire_fork_table_shared);
	}
	machine_path(c, prev);
	return ok;
}

/* ---- unsharing ---- */

ATTR_NOINLINE static void unshare_pte(struct cpu *c, const struct pt_ref *src, const struct pt_ref *dst, pte_t e)
{
	(void)machine_work(c, PATH_FORK_UNSHARE, 1);
	if (!(e & PTE_SOFT_ZERO)) {
		struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

		frame_get(c, head);
		rmap_add_pte(c, head, page);
		if (e & (PTE_WRITE | PTE_SOFT_EXCLUSIVE))
			pte_clear_bits(c, src, PTE_WRITE | PTE_SOFT_EXCLUSIVE);
	}
	pte_write(c, dst, e & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE | PTE_ACCESSED));
}

/* mm gets `own` in place of t. Under both locks. */
static void unshare_copy(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, struct frame *t, struct frame *own, vaddr_t va)
{
	struct pt_ref src = pt_ref_at(c, t, 0, PAGE_SHIFT), dst = pt_ref_at(c, own, 0, PAGE_SHIFT);

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&src), pt_ref_next(&dst)) {
		pt_touch_line(c, &src, i == 0);
		pte_t e = pte_peek(&src);

		if (e)
			unshare_pte(c, &src, &dst, e);
	}
	frame_set(own, frame_flags(t) & FRAME_TABLE_MIXED);
	pte_xchg(c, pmd, pt_table_entry(c->m, own));
	va = ALIGN_DOWN(va, PAGE_SIZE);
	tlb_flush_for(c, mm, va, va + PAGE_SIZE, PAGE_SHIFT, true, FLUSH_UNSHARE);
	set_sharers(t, sharers(t) - 1);
	__atomic_sub_fetch(&mm->pgtables_bytes, (int64_t)PAGE_SIZE, __ATOMIC_RELAXED);
	vmstat_inc(c, VM_quire_fork_table_unshared);
}

static void end_sharing(struct frame *t)
{
	set_sharers(t, 0);
	for (unsigned i = 0; i < NR_RSS; i++)
		t->pt_rss[i] = 0;
}

static void unshare_take(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, struct frame *t)
{
	end_sharing(t);
	t->pt_mm = mm;
	pte_set_bits(c, pmd, PTE_WRITE);
	vmstat_inc(c, VM_quire_fork_table_taken);
}

/* true: done, or nothing to do. false: a copy is needed, and *own is none. */
static bool unshare_try(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va, struct frame **own)
{
	bool done = true;

	pt_lock(c, pmd->table);
	pte_t e = pte_read(c, pmd);

	if (pt_entry_shared(e)) {
		struct frame *t = table_of(c, e);

		pt_lock(c, t);
		if (sharers(t) == 1) {
			unshare_take(c, mm, pmd, t);
		} else if (*own) {
			unshare_copy(c, mm, pmd, t, *own, va);
			*own = NULL;
		} else {
			done = false;
		}
		if (done)
			count_shared(mm, -1);
		pt_unlock(c, t);
	}
	pt_unlock(c, pmd->table);
	return done;
}

ATTR_NOINLINE int pt_unshare(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va)
{
	enum machine_path prev = machine_work(c, PATH_FORK_SHARE, 1);
	struct frame *own = NULL;
	int rc = 0;

	if (!unshare_try(c, mm, pmd, va, &own)) {
		own = pt_alloc_table(c, mm);
		rc = own ? 0 : -ENOMEM;
		machine_path(c, PATH_FORK_SHARE);
		if (own && !unshare_try(c, mm, pmd, va, &own))
			quire_bug(__FILE__, __LINE__, "a table to copy to is enough");
		if (own)
			pt_free_table(c, mm, own); /* the last other sharer has let go meanwhile */
	}
	machine_path(c, prev);
	return rc;
}

ATTR_NOINLINE int pt_unshare_part(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t start, vaddr_t end)
{
	bool needed;

	pt_lock(c, pmd->table);
	pte_t e = pte_read(c, pmd);

	needed = pt_entry_shared(e) && has_entries(c, table_of(c, e), start, end);
	pt_unlock(c, pmd->table);
	return needed ? pt_unshare(c, mm, pmd, start) : 0;
}

/* ---- ranges ---- */

struct shared_walk {
	struct cpu *c;
	struct mm *mm;
	struct mmu_gather *g;
	enum unshare_which which;
};

/* Each PMD entry of a shared table, with its part of [start, end). */
static int for_shared(struct shared_walk *w, vaddr_t start, vaddr_t end,
		      int (*fn)(struct shared_walk *w, const struct pt_ref *pmd, vaddr_t va, vaddr_t end))
{
	int rc = 0;

	for (vaddr_t va = start, next; va < end && !rc; va = next) {
		struct frame *table = pt_pmd_table(w->c, w->mm, va, &next);

		if (!table)
			continue;
		vaddr_t stop = MIN(ALIGN_DOWN(va, PUD_SIZE) + PUD_SIZE, end);
		struct pt_ref pmd = pt_ref_at(w->c, table, va, PMD_SHIFT);

		for (bool first = true; va < stop && !rc; va = next, first = false, pt_ref_next(&pmd)) {
			next = MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, stop);
			pt_touch_line(w->c, &pmd, first);
			if (pt_entry_shared(pte_peek(&pmd)))
				rc = fn(w, &pmd, va, next);
		}
		next = va;
	}
	return rc;
}

static int unshare_one(struct shared_walk *w, const struct pt_ref *pmd, vaddr_t va, vaddr_t end)
{
	if (w->which == UNSHARE_PARTIAL && end - va == PMD_SIZE)
		return 0;
	return pt_unshare_part(w->c, w->mm, pmd, va, end);
}

int pt_unshare_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, enum unshare_which which)
{
	struct shared_walk w = { .c = c, .mm = mm, .which = which };

	return has_shared(mm) ? for_shared(&w, start, end, unshare_one) : 0;
}

static int drop_one(struct shared_walk *w, const struct pt_ref *pmd, vaddr_t va, vaddr_t end)
{
	struct cpu *c = w->c;

	if (end - va < PMD_SIZE)
		return 0;
	pt_lock(c, pmd->table);
	pte_t e = pte_read(c, pmd);

	if (pt_entry_shared(e))
		pte_xchg(c, pmd, 0);
	pt_unlock(c, pmd->table);
	if (!pt_entry_shared(e))
		return 0;
	struct frame *t = table_of(c, e);

	for (unsigned i = 0; i < NR_RSS; i++)
		if (t->pt_rss[i])
			mm_rss_add(c, w->mm, (enum rss_kind)i, -(int64_t)t->pt_rss[i]);
	count_shared(w->mm, -1);
	vmstat_inc(c, VM_quire_fork_table_dropped);
	tlb_gather_range(w->g, va, PAGE_SIZE);
	tlb_gather_range(w->g, end - PAGE_SIZE, PAGE_SIZE);
	tlb_gather_table(c, w->g, t);
	return 0;
}

void pt_drop_shared(struct cpu *c, struct mmu_gather *g, struct mm *mm, vaddr_t start, vaddr_t end)
{
	struct shared_walk w = { .c = c, .mm = mm, .g = g };

	if (!has_shared(mm))
		return;
	enum machine_path prev = machine_work(c, PATH_FORK_SHARE, 1);

	mm_rss_note_peak(mm);
	(void)for_shared(&w, start, end, drop_one);
	machine_path(c, prev);
}

/* Nobody reaches the table any more: unmap what it maps. */
ATTR_NOINLINE static void unmap_entries(struct cpu *c, struct frame *t)
{
	struct pt_ref r = pt_ref_at(c, t, 0, PAGE_SHIFT);

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		pt_touch_line(c, &r, i == 0);
		pte_t e = pte_peek(&r);

		if (!e)
			continue;
		machine_work(c, PATH_FORK_UNSHARE, 1);
		pte_write(c, &r, 0);
		if (e & PTE_SOFT_ZERO)
			continue;
		struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

		rmap_remove_pte(c, head, page, 0); /* no locked areas: H4 */
		folio_put_swap(c, head);
	}
}

void pt_put_table(struct cpu *c, struct mm *mm, struct frame *t)
{
	if (sharers(t)) {
		pt_lock(c, t);
		bool last = sharers(t) == 1;

		if (!last)
			set_sharers(t, sharers(t) - 1);
		pt_unlock(c, t);
		if (!last) {
			__atomic_sub_fetch(&mm->pgtables_bytes, (int64_t)PAGE_SIZE, __ATOMIC_RELAXED);
			return;
		}
		enum machine_path prev = machine_work(c, PATH_FORK_UNSHARE, 0);

		unmap_entries(c, t);
		end_sharing(t);
		machine_path(c, prev);
	}
	pt_free_table(c, mm, t);
}

/* ---- looking ---- */

pte_t pt_read_shared(struct cpu *c, const struct pt_ref *pmd, vaddr_t va)
{
	pte_t e;

	pt_lock(c, pmd->table);
	e = pte_read(c, pmd);
	if (pmd_table(e)) {
		struct pt_ref r = pt_ref_at(c, table_of(c, e), va, PAGE_SHIFT);

		e = pte_read(c, &r) & (pt_entry_shared(e) ? ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE) : ~0ULL);
	} else {
		e = 0; /* it has been dropped */
	}
	pt_unlock(c, pmd->table);
	return e;
}
