/*
 * Collapse of anonymous memory.
 *
 *   1  mmap_lock for reading: the 512 entries are looked at, under their table's lock, against the limits
 *   2  no lock: a huge page is allocated, on the node that most of the pages are on
 *   3  mmap_lock for reading: what is not in memory is brought in
 *   4  mmap_lock for writing: no fault, call or pin comes in any more. The area is looked at again
 *   5  the anon_vma's lock for writing: nor does the reverse map. The PMD entry is cleared and flushed: nor does the hardware
 *   6  each page is locked and isolated, if mappings explain all its references: nobody else works on it or will write to it
 *   7  the anon_vma's lock goes; contents are copied, what was empty is cleared
 *   8  the entries and the old pages go, the PMD entry maps the new one, the emptied table is its deposit
 *
 * Invariants
 *  K1 From 5 to 8 the PMD entry is empty and the table is reached by nobody: its entries are ours alone.
 *  K2 Nothing of the old mapping is given up before the last step that can fail. Each failure puts the PMD entry back as it was; since
 *     nothing has been cached from an empty entry, without a flush.
 *  K3 A pin is a reference that no mapping explains, so what is pinned stays where it is (gup.c G4). New pins need mmap_lock.
 */
#include "mm/collapse.h"

#include "base/assert.h"
#include "mm/anon_vma.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/fork_shared.h"
#include "mm/lru.h"
#include "mm/rmap_walk.h"
#include "mm/swap.h"
#include "mm/vma_int.h"

const char *const scan_result_names[NR_SCAN_RESULTS] = {
#define R(n) #n,
	SCAN_RESULTS(R)
#undef R
};

struct collapse {
	struct cpu *c;
	struct mm *mm;
	const struct knobs *k;
	struct vma *v;
	vaddr_t base;
	bool by_daemon;
	/* what the look has found */
	unsigned referenced, away; /* pages used of late; entries that are neither empty nor present */
	unsigned on_node[MACHINE_MAX_NODES];
	/* the attempt */
	struct frame *head;        /* the new page */
	struct pt_ref pmd;
	struct frame *table;       /* the old table */
	pte_t was;                 /* the PMD entry */
	struct list_head isolated; /* folios, locked and off their lists (lru.h); by lru */
};

/* Entries of a kind seen so far, each against its limit. */
struct tally {
	unsigned none, away, shared;
};

bool collapse_allowed(const struct mm *mm, const struct vma *v, bool sysfs)
{
	uint32_t enabled = mm->q->knobs.thp_enabled;
	vaddr_t first = ALIGN_UP(v->start, PMD_SIZE);

	if (v->file || (v->flags & (VM_SHARED | VM_NOHUGEPAGE | VM_SPECIAL | VM_HUGETLB)) || mm->thp_disable || !v->anon_vma)
		return false;
	if (first >= v->end || v->end - first < PMD_SIZE)
		return false;
	return !sysfs || enabled == THP_ALWAYS || (enabled == THP_MADVISE && (v->flags & VM_HUGEPAGE));
}

/* After mmap_lock was taken anew: find the area again, if it still is one for this. */
static enum scan_result revalidate(struct collapse *s)
{
	struct vma *v;

	if (!__atomic_load_n(&s->mm->users, __ATOMIC_ACQUIRE))
		return SCAN_any_process;
	v = vma_find(s->c, s->mm, s->base);
	s->v = v;
	if (!v || v->start >= s->base + PMD_SIZE)
		return SCAN_vma_null;
	if (v->start > s->base || v->end - s->base < PMD_SIZE)
		return SCAN_address_range;
	if (!collapse_allowed(s->mm, v, s->by_daemon))
		return v->file || !v->anon_vma ? SCAN_page_anon : SCAN_vma_check;
	return SCAN_succeeded;
}

/* ---- 1: the look ---- */

static bool over(const struct collapse *s, unsigned nr, uint32_t limit)
{
	return s->by_daemon && nr > limit;
}

/* Counts an entry without a page: empty, or of zeros. */
static enum scan_result tally_none(const struct collapse *s, struct tally *t)
{
	if (!over(s, ++t->none, s->k->khugepaged_max_ptes_none))
		return SCAN_succeeded;
	vmstat_inc(s->c, VM_thp_scan_exceed_none_pte);
	return SCAN_exceed_none_pte;
}

/* Is the page one that could be replaced, as far as one can see without owning it? */
static enum scan_result look_page(const struct collapse *s, struct tally *t, const struct frame *page, const struct frame *head)
{
	frame_touch(s->c, page, TOUCH_READ);
	if (head != page)
		frame_touch(s->c, head, TOUCH_READ);
	if (!(frame_flags(head) & FRAME_ANON))
		return SCAN_page_anon;
	if (frame_mapcount(page) + (frame_flags(head) & FRAME_HEAD ? frame_entire_mapcount(head) : 0) > 1 &&
	    over(s, ++t->shared, s->k->khugepaged_max_ptes_shared)) {
		vmstat_inc(s->c, VM_thp_scan_exceed_share_pte);
		return SCAN_exceed_shared_pte;
	}
	return SCAN_succeeded;
}

static enum scan_result look_away(struct collapse *s, struct tally *t, pte_t e)
{
	if (!pte_is_swap(e) && !pte_is_migration(e))
		return SCAN_pte_non_present;
	if (!over(s, ++t->away, s->k->khugepaged_max_ptes_swap))
		return SCAN_succeeded;
	vmstat_inc(s->c, VM_thp_scan_exceed_swap_pte);
	return SCAN_exceed_swap_pte;
}

static enum scan_result look_entry(struct collapse *s, struct tally *t, pte_t e)
{
	enum scan_result r;

	if (!e || (e & PTE_SOFT_ZERO))
		return tally_none(s, t);
	if (!pte_present(e))
		return look_away(s, t, e);
	struct frame *page = frame_of(s->c->m, pte_pfn(e)), *head = frame_head(s->c->m, page);

	r = look_page(s, t, page, head);
	if (r != SCAN_succeeded)
		return r;
	if (!(frame_flags(head) & FRAME_LRU))
		return SCAN_page_lru;
	if (folio_locked(head))
		return SCAN_page_lock;
	if (frame_refcount(head) != folio_expected_refs(head))
		return SCAN_page_count;
	s->on_node[frame_nid(head)]++;
	s->referenced += (e & PTE_ACCESSED) || (frame_flags(head) & FRAME_REFERENCED);
	return SCAN_succeeded;
}

/* The table behind the PMD entry, in s->table. */
static enum scan_result find_table(struct collapse *s)
{
	pte_t e;

	if (pt_pmd(s->c, s->mm, s->base, false, &s->pmd))
		return SCAN_pmd_null;
	e = pte_read(s->c, &s->pmd);
	if (!e)
		return SCAN_no_pmd;
	if (pmd_huge(e))
		return SCAN_page_pmd_mapped;
	if (!pmd_table(e))
		return SCAN_pmd_null;
	s->was = e;
	s->table = frame_of(s->c->m, pte_pfn(e));
	return SCAN_succeeded;
}

ATTR_NOINLINE static enum scan_result look(struct collapse *s)
{
	struct cpu *c = s->c;
	struct tally t = { 0 };
	struct pt_ref r;
	enum scan_result res = find_table(s);

	if (res == SCAN_succeeded && pt_entry_shared(s->was)) {
		/* All that a shared table maps is shared, beyond any limit (fork_shared.h). */
		if (s->by_daemon)
			return SCAN_exceed_shared_pte;
		if (pt_unshare(c, s->mm, &s->pmd, s->base))
			return SCAN_alloc_huge_page_fail;
		res = find_table(s);
	}
	if (res != SCAN_succeeded)
		return res;
	r = pt_ref_at(c, s->table, s->base, PAGE_SHIFT);
	(void)machine_work(c, PATH_COLLAPSE_SCAN, PT_ENTRIES);
	pt_lock(c, s->table);
	for (unsigned i = 0; i < PT_ENTRIES && res == SCAN_succeeded; i++, pt_ref_next(&r)) {
		pt_touch_line(c, &r, !i);
		res = look_entry(s, &t, pte_peek(&r));
	}
	pt_unlock(c, s->table);
	s->away = t.away;
	if (res == SCAN_succeeded && s->by_daemon && (!s->referenced || (s->away && s->referenced < HPAGE_PMD_NR / 2)))
		return SCAN_lack_referenced_page;
	return res;
}

/* ---- 2, 3: what an attempt needs ---- */

/* The node that most pages are on. */
static int target_node(const struct collapse *s)
{
	int best = 0;

	for (unsigned n = 1; n < s->c->m->nr_nodes; n++)
		if (s->on_node[n] > s->on_node[best])
			best = (int)n;
	return s->on_node[best] ? best : NID_NONE;
}

static enum scan_result alloc_target(struct collapse *s)
{
	struct alloc_req req = { .order = HPAGE_PMD_ORDER, .gfp = GFP_TRANSHUGE, .nid = target_node(s) };

	if (s->by_daemon && !s->k->khugepaged_defrag)
		req.gfp = GFP_TRANSHUGE_LIGHT;
	if (req.nid != NID_NONE)
		req.gfp |= GFP_THISNODE;
	s->head = page_alloc(s->c, &req);
	vmstat_inc(s->c, s->head ? VM_thp_collapse_alloc : VM_thp_collapse_alloc_failed);
	return s->head ? SCAN_succeeded : SCAN_alloc_huge_page_fail;
}

/* Wait for what is on its way, read what is in swap. mmap_lock is held for reading, and still is. */
static enum scan_result bring_in(struct collapse *s)
{
	enum scan_result res = find_table(s);

	if (res != SCAN_succeeded)
		return res;
	for (unsigned i = 0; i < PT_ENTRIES; i++) {
		struct fault f = { .c = s->c, .q = s->c->q, .mm = s->mm, .v = s->v, .va = s->base + (vaddr_t)i * PAGE_SIZE, .pmd = s->pmd,
				   .kind = VM_quire_fault_spurious };

		if (pt_pte(s->c, s->mm, &s->pmd, f.va, false, &f.pte))
			return SCAN_pmd_null;
		f.orig = pte_read(s->c, &f.pte);
		if (!pte_is_swap(f.orig) && !pte_is_migration(f.orig))
			continue;
		if (fault_nonpresent(&f, &f.pte))
			return SCAN_fail;
	}
	lru_add_drain(s->c); /* what has just come has a reference of this CPU's batch */
	return SCAN_succeeded;
}

/* ---- 5: nobody comes to the table any more ---- */

static void close_range(struct collapse *s)
{
	pt_lock(s->c, s->pmd.table);
	s->was = pte_xchg(s->c, &s->pmd, 0);
	/* Walks that have come as far as the table end with it. */
	tlb_flush_for(s->c, s->mm, s->base, s->base + PMD_SIZE, PAGE_SHIFT, true, FLUSH_COLLAPSE);
	pt_unlock(s->c, s->pmd.table);
}

static void reopen_range(struct collapse *s)
{
	pt_lock(s->c, s->pmd.table);
	ASSERT(!pte_peek(&s->pmd)); /* K1 */
	pte_write(s->c, &s->pmd, s->was);
	pt_unlock(s->c, s->pmd.table);
}

/* ---- 6: the pages are ours ---- */

static bool is_isolated(const struct collapse *s, const struct frame *head)
{
	const struct list_head *l;

	for (l = s->isolated.next; l != &s->isolated; l = l->next)
		if (list_entry(l, const struct frame, lru) == head)
			return true;
	return false;
}

/* A folio that several entries map is taken once. */
static enum scan_result isolate_folio(struct collapse *s, struct frame *head)
{
	if (!folio_trylock(s->c, head))
		return is_isolated(s, head) ? SCAN_succeeded : SCAN_page_lock;
	if (frame_refcount(head) != folio_expected_refs(head)) {
		folio_unlock(s->c, head);
		return SCAN_page_count;
	}
	if (!folio_isolate_lru(s->c, head)) {
		folio_unlock(s->c, head);
		return SCAN_del_page_lru;
	}
	list_add_tail(&head->lru, &s->isolated);
	return SCAN_succeeded;
}

static void release_isolated(struct collapse *s)
{
	struct frame *head, *tmp;

	list_for_each_entry_safe(head, tmp, &s->isolated, lru) {
		list_del(&head->lru);
		folio_unlock(s->c, head);
		folio_try_free_swap(s->c, head);
		folio_putback_lru(s->c, head);
	}
}

static enum scan_result isolate_entry(struct collapse *s, struct tally *t, pte_t e, struct frame **last)
{
	enum scan_result res;

	if (!e || (e & PTE_SOFT_ZERO))
		return tally_none(s, t);
	if (!pte_present(e))
		return SCAN_pte_non_present;
	struct frame *page = frame_of(s->c->m, pte_pfn(e)), *head = frame_head(s->c->m, page);

	res = look_page(s, t, page, head);
	if (res == SCAN_succeeded && head != *last)
		res = isolate_folio(s, head);
	*last = head;
	s->referenced += (e & PTE_ACCESSED) || (frame_flags(head) & FRAME_REFERENCED);
	return res;
}

ATTR_NOINLINE static enum scan_result isolate_all(struct collapse *s)
{
	struct cpu *c = s->c;
	struct pt_ref r = pt_ref_at(c, s->table, s->base, PAGE_SHIFT);
	enum scan_result res = SCAN_succeeded;
	struct frame *last = NULL;
	struct tally t = { 0 };

	(void)machine_work(c, PATH_COLLAPSE, PT_ENTRIES);
	s->referenced = 0;
	pt_lock(c, s->table);
	for (unsigned i = 0; i < PT_ENTRIES && res == SCAN_succeeded; i++, pt_ref_next(&r)) {
		pt_touch_line(c, &r, !i);
		res = isolate_entry(s, &t, pte_peek(&r), &last);
	}
	pt_unlock(c, s->table);
	if (res == SCAN_succeeded && s->by_daemon && !s->referenced)
		res = SCAN_lack_referenced_page;
	if (res != SCAN_succeeded)
		release_isolated(s);
	return res;
}

/* ---- 7 ---- */

static int clear_part(struct cpu *c, struct frame *page)
{
	enum machine_path prev = machine_work(c, PATH_CLEAR_PAGE, 1);
	int rc = machine_clear_page(c, frame_pfn(c->m, page));

	if (!rc)
		vmstat_inc(c, VM_quire_pages_cleared);
	machine_path(c, prev);
	return rc;
}

/* The table is ours (K1): no lock. */
static enum scan_result copy_all(struct collapse *s)
{
	struct pt_ref r = pt_ref_at(s->c, s->table, s->base, PAGE_SHIFT);

	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		pte_t e = pte_peek(&r);
		bool none = !e || (e & PTE_SOFT_ZERO);

		pt_touch_line(s->c, &r, !i);
		if (none ? clear_part(s->c, s->head + i) : anon_copy(s->c, s->head + i, frame_of(s->c->m, pte_pfn(e))))
			return SCAN_copy_poisoned_page;
	}
	return SCAN_succeeded;
}

/* ---- 8 ---- */

/* The old pages are not mapped here any more. */
ATTR_NOINLINE static void drop_old(struct collapse *s)
{
	struct cpu *c = s->c;
	struct pt_ref r = pt_ref_at(c, s->table, s->base, PAGE_SHIFT);
	int64_t resident = 0;

	pt_lock(c, s->table);
	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&r)) {
		pte_t e = pte_peek(&r);

		if (!e)
			continue;
		pte_write(c, &r, 0);
		if (e & PTE_SOFT_ZERO)
			continue;
		struct frame *page = frame_of(c->m, pte_pfn(e)), *head = frame_head(c->m, page);

		rmap_remove_pte(c, head, page, s->v->flags);
		frame_put(c, head);
		resident++;
	}
	pt_unlock(c, s->table);
	mm_rss_add(c, s->mm, RSS_ANON, -resident); /* the new page makes up for it */
	frame_clear(s->table, FRAME_TABLE_MIXED | FRAME_TABLE_PINNED);
	release_isolated(s);
}

static void install(struct collapse *s)
{
	struct fault f = { .c = s->c, .q = s->c->q, .mm = s->mm, .v = s->v, .va = s->base, .pmd = s->pmd };

	pt_lock(s->c, s->pmd.table);
	ASSERT(!pte_peek(&s->pmd)); /* K1 */
	thp_map(&f, s->head);
	pt_deposit(s->c, s->pmd.table, s->table);
	pt_unlock(s->c, s->pmd.table);
	s->head = NULL;
}

/* mmap_lock is held for writing. */
ATTR_NOINLINE static enum scan_result replace(struct collapse *s)
{
	struct anon_vma *av;
	enum scan_result res = revalidate(s);

	if (res == SCAN_succeeded)
		res = find_table(s);
	if (res == SCAN_succeeded && pt_entry_shared(s->was))
		res = SCAN_page_count; /* a fork came in between */
	if (res != SCAN_succeeded)
		return res;
	av = s->v->anon_vma;
	anon_vma_lock_write(s->c, av);
	close_range(s);
	machine_path(s->c, PATH_COLLAPSE);
	res = isolate_all(s);
	if (res != SCAN_succeeded)
		reopen_range(s);
	anon_vma_unlock_write(s->c, av);
	if (res != SCAN_succeeded)
		return res;
	res = copy_all(s);
	machine_path(s->c, PATH_COLLAPSE);
	if (res != SCAN_succeeded) {
		reopen_range(s);
		release_isolated(s);
		return res;
	}
	drop_old(s);
	install(s);
	return SCAN_succeeded;
}

/* No lock is held. */
ATTR_NOINLINE static enum scan_result attempt(struct collapse *s)
{
	struct cpu *c = s->c;
	enum scan_result res = alloc_target(s);

	(void)machine_work(c, PATH_COLLAPSE, 1);
	if (res != SCAN_succeeded)
		return res;
	machine_read_lock(c, &s->mm->mmap_lock);
	res = revalidate(s);
	if (res == SCAN_succeeded && s->away)
		res = bring_in(s);
	machine_read_unlock(c, &s->mm->mmap_lock);
	if (res == SCAN_succeeded) {
		mm_write_lock(c, s->mm);
		res = replace(s);
		mm_write_unlock(c, s->mm);
	}
	if (s->head)
		frame_put(c, s->head);
	return res;
}

enum scan_result collapse_range(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t base, bool by_daemon, bool *ret_locked)
{
	struct collapse s = { .c = c, .mm = mm, .k = &c->q->knobs, .v = v, .base = base, .by_daemon = by_daemon };
	enum machine_path prev = machine_work(c, PATH_COLLAPSE_SCAN, 0);
	enum scan_result res;

	list_init(&s.isolated);
	res = look(&s);
	*ret_locked = res != SCAN_succeeded;
	if (res == SCAN_succeeded) {
		machine_read_unlock(c, &mm->mmap_lock);
		res = attempt(&s);
	}
	machine_path(c, prev);
	return res;
}

/* ---- MADV_COLLAPSE ---- */

static int collapse_errno(enum scan_result r)
{
	switch (r) {
	case SCAN_alloc_huge_page_fail:
		return -ENOMEM;
	case SCAN_cgroup_charge_fail:
		return -EBUSY;
	case SCAN_page_count:
	case SCAN_page_lock:
	case SCAN_page_lru:
	case SCAN_del_page_lru:
		return -EAGAIN;
	default:
		return -EINVAL;
	}
}

/* Is it worth going on with the next range after this? */
static bool goes_on(enum scan_result r)
{
	switch (r) {
	case SCAN_succeeded:
	case SCAN_page_pmd_mapped:
	case SCAN_pmd_null:
	case SCAN_pte_non_present:
	case SCAN_lack_referenced_page:
	case SCAN_page_null:
	case SCAN_page_count:
	case SCAN_page_lock:
	case SCAN_page_lru:
	case SCAN_del_page_lru:
		return true;
	default:
		return false;
	}
}

/* Memory of tmpfs, mapped so that huge pages of the file would fit: Linux would try. Here page caches have base pages only. */
static bool is_shmem(const struct mm *mm, const struct vma *v)
{
	vaddr_t first = ALIGN_UP(v->start, PMD_SIZE);

	return v->file && v->file->shmem && !(v->flags & (VM_NOHUGEPAGE | VM_HUGETLB)) && !mm->thp_disable && first < v->end &&
	       v->end - first >= PMD_SIZE && IS_ALIGNED(v->start - v->pgoff * PAGE_SIZE, PMD_SIZE);
}

/* [start, end) of v. mmap_lock is held for reading, and is again at the end, when v may be gone. */
static int collapse_area(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t start, vaddr_t end)
{
	vaddr_t va = ALIGN_UP(start, PMD_SIZE), last = ALIGN_DOWN(end, PMD_SIZE);
	enum scan_result res = SCAN_fail, bad = SCAN_succeeded;

	if (!collapse_allowed(mm, v, false) && !(is_shmem(mm, v) && va >= last))
		return -EINVAL;
	if (last < va) /* not even a boundary: Linux counts fewer than none done */
		return -EINVAL;
	for (; va < last; va += PMD_SIZE) {
		struct collapse again = { .c = c, .mm = mm, .v = v, .base = va };
		bool locked = true;

		if (!v) {
			res = revalidate(&again);
			v = again.v;
			if (res != SCAN_succeeded)
				return collapse_errno(res);
			last = MIN(last, ALIGN_DOWN(v->end, PMD_SIZE));
		}
		res = collapse_range(c, mm, v, va, false, &locked);
		if (!locked) {
			machine_read_lock(c, &mm->mmap_lock);
			v = NULL;
		}
		if (res != SCAN_succeeded && res != SCAN_page_pmd_mapped)
			bad = res;
		if (!goes_on(res))
			break;
	}
	return bad == SCAN_succeeded ? 0 : collapse_errno(bad);
}

int madvise_collapse(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end)
{
	int holes = 0, rc = 0;

	lru_add_drain_all(c);
	machine_read_lock(c, &mm->mmap_lock);
	while (!rc && start < end) {
		struct vma *v = vma_find(c, mm, start);
		vaddr_t stop;

		if (!v) {
			rc = -ENOMEM;
			break;
		}
		if (v->start > start)
			holes = -ENOMEM;
		start = MAX(start, v->start);
		if (start >= end)
			break;
		stop = MIN(v->end, end);
		rc = collapse_area(c, mm, v, start, stop);
		start = stop;
	}
	machine_read_unlock(c, &mm->mmap_lock);
	return rc ? rc : holes;
}
