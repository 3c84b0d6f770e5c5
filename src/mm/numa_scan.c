/*
 * The scanner of NUMA balancing: takes access away from mapped pages, so that the next use of each tells where it is used from.
 *
 * Runs as work of a task on its way back to the program. Each period one task of an address space wins by a compare-and-swap on the time of
 * the next scan, and goes on at a cursor until so many pages are marked (scan_size_mb) or eight times as many addresses are passed.
 * What an entry itself tells is asked before what its page tells: the descriptor of a page that is marked already is not touched
 * (quire.numa_scan_check=pte_first; frame_first is as before Linux 5.5). The result is the same either way.
 * Locks: mmap_lock for reading; tables one at a time. Tables that others share (fork_shared.h) are passed over.
 */
#include "mm/numa.h"

#include "mm/fault_int.h"
#include "mm/tlb.h"

struct scan {
	struct cpu *c;
	struct vma *v;
	bool frame_first;
	uint64_t marked, huge;
};

/* Does the page say no? Reads its descriptor, and its head's. */
static bool page_refuses(struct scan *s, pte_t e, bool huge)
{
	struct cpu *c = s->c;
	unsigned mode = s->v->mm->q->knobs.numa_balancing;
	struct frame *page, *head;
	int nid;

	if (e & PTE_SOFT_ZERO)
		return true; /* told by the entry, here as in Linux by its number */
	page = frame_of(c->m, pte_pfn(e));
	frame_touch(c, page, TOUCH_READ);
	head = frame_head(c->m, page);
	if (head != page)
		frame_touch(c, head, TOUCH_READ);
	if (frame_flags(head) & FRAME_RESERVED)
		return true;
	if (!huge && !(s->v->flags & VM_SHARED) && frame_mapcount(page) != 1)
		return true; /* copied on the next write: where it is read from says little */
	if ((frame_flags(head) & (FRAME_FILE | FRAME_DIRTY | FRAME_SWAPBACKED)) == (FRAME_FILE | FRAME_DIRTY))
		return true; /* could not be moved without being written first */
	nid = frame_nid(head);
	if (!huge && nid == c->nid && __atomic_load_n(&s->v->mm->users, __ATOMIC_RELAXED) == 1)
		return true; /* one thread, and it is where its memory is */
	return !(mode & NUMA_BALANCING_NORMAL) && c->m->nodes[nid].nr_cpus; /* tiering alone: fast memory has nowhere to go to */
}

static bool mark(struct scan *s, const struct pt_ref *r, bool huge)
{
	pte_t e = pte_peek(r);

	(void)machine_work(s->c, PATH_PROTECT, 1);
	if (!pte_present(e))
		return false;
	if (!s->frame_first && (e & PTE_PROTNONE))
		return false;
	if (page_refuses(s, e, huge) || (e & PTE_PROTNONE))
		return false;
	machine_touch(s->c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	while (!pte_try_replace(r, &e, pte_numa_mark(e)))
		; /* the hardware has set a bit; nobody else may change it */
	return true;
}

ATTR_NOINLINE static void scan_table(struct scan *s, const struct pt_ref *pmd, vaddr_t start, vaddr_t end)
{
	struct pt_ref r;

	if (pt_pte(s->c, s->v->mm, pmd, start, false, &r))
		return;
	pt_lock(s->c, r.table);
	for (vaddr_t va = start; va < end; va += PAGE_SIZE, pt_ref_next(&r)) {
		pt_touch_line(s->c, &r, va == start);
		s->marked += mark(s, &r, false);
	}
	pt_unlock(s->c, r.table);
}

static void scan_pmd(struct scan *s, vaddr_t va, vaddr_t end)
{
	struct pt_ref pmd;
	pte_t e;

	if (pt_pmd(s->c, s->v->mm, va, false, &pmd))
		return;
	e = pte_read(s->c, &pmd);
	if (pmd_leaf(e)) {
		bool whole = IS_ALIGNED(va, PMD_SIZE) && end - va == PMD_SIZE, done = false;

		pt_lock(s->c, pmd.table);
		if (whole && pmd_huge(pte_read(s->c, &pmd)))
			done = mark(s, &pmd, true);
		e = pte_read(s->c, &pmd);
		pt_unlock(s->c, pmd.table);
		s->marked += done ? HPAGE_PMD_NR : 0;
		s->huge += done;
	}
	if (pmd_table(e) && !pt_entry_shared(e))
		scan_table(s, &pmd, va, end);
}

uint64_t numa_scan_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end)
{
	enum machine_path prev = machine_work(c, PATH_PROTECT, 0);
	struct mm *mm = v->mm;
	struct scan s = { .c = c, .v = v, .frame_first = mm->q->knobs.numa_scan_check == NUMA_SCAN_FRAME_FIRST };

	__atomic_store_n(&mm->numa_marked, true, __ATOMIC_RELAXED);
	__atomic_add_fetch(&mm->numa_flush_pending, 1, __ATOMIC_SEQ_CST);
	for (vaddr_t va = start, next; va < end; va = next) {
		next = ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE;
		if (next > end)
			next = end;
		scan_pmd(&s, va, next);
	}
	if (s.marked)
		tlb_flush_for(c, mm, start, end, PAGE_SHIFT, false, FLUSH_OTHER);
	__atomic_sub_fetch(&mm->numa_flush_pending, 1, __ATOMIC_SEQ_CST);
	vmstat_add(c, VM_numa_pte_updates, (int64_t)s.marked);
	vmstat_add(c, VM_numa_huge_pte_updates, (int64_t)s.huge);
	machine_path(c, prev);
	return s.marked;
}

/* Areas where a hinting fault could do no good, or can't happen. */
static bool area_scanned(const struct vma *v)
{
	if (v->flags & (VM_HUGETLB | VM_SPECIAL))
		return false;
	if (v->file && (v->flags & (VM_READ | VM_WRITE)) == VM_READ)
		return false; /* libraries: everybody reads them */
	return (v->flags & VM_ACCESS_FLAGS) != 0;
}

uint64_t numa_scan_mm(struct cpu *c, struct mm *mm)
{
	uint64_t pages = (uint64_t)mm->q->knobs.numa_scan_size_mb << (20 - PAGE_SHIFT), addresses = pages * 8, marked = 0;
	vaddr_t at = __atomic_load_n(&mm->numa_scan_offset, __ATOMIC_RELAXED);
	struct vma *v = vma_find(c, mm, at);

	if (!v) {
		__atomic_add_fetch(&mm->numa_scan_seq, 1, __ATOMIC_RELAXED);
		at = 0;
		v = vma_find(c, mm, 0);
	}
	for (; v && marked < pages && addresses; v = at >= v->end ? vma_next(v) : v) {
		vaddr_t end;
		uint64_t n;

		if (at < v->start)
			at = v->start;
		if (!area_scanned(v)) {
			at = v->end;
			continue;
		}
		end = ALIGN_UP(at + ((pages - marked) << PAGE_SHIFT), PMD_SIZE);
		if (end > v->end || end < at)
			end = v->end;
		n = (end - at) >> PAGE_SHIFT;
		marked += numa_scan_range(c, v, at, end);
		addresses -= n < addresses ? n : addresses;
		at = end;
	}
	__atomic_store_n(&mm->numa_scan_offset, v ? at : TASK_SIZE, __ATOMIC_RELAXED); /* at the end: the next one begins anew */
	return marked;
}

ATTR_NOINLINE void numa_task_work(struct cpu *c, struct mm *mm)
{
	const struct knobs *k = &mm->q->knobs;
	uint64_t now = machine_now_ns(c), next = __atomic_load_n(&mm->numa_next_scan_ns, __ATOMIC_RELAXED);

	if (c->m->nr_nodes < 2 || now < next)
		return;
	if (!next) { /* its first: what ends soon is not worth it */
		(void)__atomic_compare_exchange_n(&mm->numa_next_scan_ns, &next, now + k->numa_scan_delay_ms * 1000000ULL + 1, false,
						  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		return;
	}
	if (!__atomic_compare_exchange_n(&mm->numa_next_scan_ns, &next, now + k->numa_scan_period_min_ms * 1000000ULL + 1, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	machine_read_lock(c, &mm->mmap_lock);
	(void)numa_scan_mm(c, mm);
	machine_read_unlock(c, &mm->mmap_lock);
}
