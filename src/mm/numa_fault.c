/*
 * Hinting faults: the use of a page that the scanner has marked (numa.h), by which it may come to the node that uses it.
 *
 * The entry stays marked while its folio is moved, so that taking it away for the move needs no flush; only when nothing is moved is
 * access given back. Whoever finds the entry changed has not served the fault and counts nothing for it.
 * Base pages and huge ones go the same way, the generic one of migrate.c.
 * Locks: mmap_lock for reading; the table's lock, never while a folio is moved.
 */
#include "mm/numa.h"

#include "mm/alloc_int.h"
#include "mm/fault_int.h"
#include "mm/lru.h"
#include "mm/migrate.h"
#include "mm/tlb.h"

/* Where the folio should be; NID_NONE: where it is. The one place that knows of policies: the default one, local to the CPU that uses it. */
static int misplaced(const struct fault *f, const struct frame *folio)
{
	int here = f->c->nid;

	if (!(f->q->knobs.numa_balancing & NUMA_BALANCING_NORMAL) && f->c->m->nodes[frame_nid(folio)].nr_cpus)
		return NID_NONE;
	return frame_nid(folio) == here ? NID_NONE : here;
}

/* Could the folio be moved for locality's sake? Several users would only tear at it. */
static bool movable(const struct fault *f, const struct frame *folio, bool huge)
{
	uint64_t flags = frame_flags(folio);

	if (huge)
		return frame_entire_mapcount(folio) == 1 && folio->nr_pages_mapped == FOLIO_ENTIRELY_MAPPED;
	if (flags & FRAME_HEAD)
		return false; /* of which this mapping is a part only */
	if ((flags & FRAME_FILE) && (((flags & FRAME_DIRTY) && !(flags & FRAME_SWAPBACKED)) || ((f->v->flags & VM_EXEC) && frame_mapcount(folio) > 1)))
		return false;
	return true;
}

/* Is there room on the node without making it reclaim? */
static bool node_has_room(const struct fault *f, int nid, uint64_t pages)
{
	for (unsigned i = 0; i < NR_ZONES; i++) {
		struct zone *z = &f->q->nodes[nid].zones[i];

		if (z->managed && zone_watermark_ok(f->c, z, 0, z->watermark[WMARK_HIGH] + pages, ZONE_MOVABLE, 0))
			return true;
	}
	return false;
}

static struct frame *get_target(struct cpu *c, const struct frame *src, void *arg)
{
	const int *nid = arg;
	bool huge = frame_nr_pages(src) > 1;
	struct alloc_req req = {
		.order = frame_order(src), .nid = *nid,
		.gfp = (huge ? GFP_TRANSHUGE_LIGHT : (GFP_HIGHUSER_MOVABLE | GFP_NOMEMALLOC | GFP_NORETRY | GFP_NOWARN) & ~GFP_RECLAIM) | GFP_THISNODE,
	};

	return page_alloc(c, &req);
}

/* The caller's reference is used up. */
static bool move_to(struct fault *f, struct frame *folio, int nid)
{
	struct migrate_target t = { .get = get_target, .arg = &nid };
	struct migrate_stats stats = { 0 };
	struct list_head l;
	uint64_t n = frame_nr_pages(folio);
	int rc;

	list_init(&l);
	rc = node_has_room(f, nid, n) ? migrate_isolate(f->c, folio, &l) : -EAGAIN;
	frame_put(f->c, folio);
	if (rc)
		return false;
	rc = migrate_pages(f->c, &l, &t, MIGRATE_ASYNC, MR_NUMA_MISPLACED, &stats);
	migrate_putback(f->c, &l);
	if (stats.nr_succeeded)
		vmstat_add(f->c, VM_numa_pages_migrated, (int64_t)stats.nr_succeeded);
	return !rc;
}

/* Still what faulted? Its lock is then held. */
static bool lock_unchanged(struct fault *f, const struct pt_ref *r)
{
	fault_pt_lock(f->c, r->table);
	if (likely(pte_read(f->c, r) == f->orig))
		return true;
	pt_unlock(f->c, r->table);
	return false;
}

ATTR_NOINLINE static int hinting_fault(struct fault *f, const struct pt_ref *r, bool huge)
{
	uint64_t size = huge ? PMD_SIZE : PAGE_SIZE;
	vaddr_t base = ALIGN_DOWN(f->va, size);
	struct frame *folio;
	int target = NID_NONE;

	if (!lock_unchanged(f, r))
		return 0;
	if (unlikely(__atomic_load_n(&f->mm->numa_flush_pending, __ATOMIC_ACQUIRE)))
		tlb_flush_for(f->c, f->mm, base, base + size, huge ? PMD_SHIFT : PAGE_SHIFT, false, FLUSH_OTHER);
	if (!(f->orig & PTE_SOFT_ZERO)) {
		folio = frame_of(f->c->m, pte_pfn(f->orig));
		frame_touch(f->c, folio, TOUCH_READ);
		folio = frame_head(f->c->m, folio);
		vmstat_inc(f->c, VM_numa_hint_faults);
		if (frame_nid(folio) == f->c->nid)
			vmstat_inc(f->c, VM_numa_hint_faults_local);
		target = misplaced(f, folio);
		if (target != NID_NONE && movable(f, folio, huge)) {
			frame_get(f->c, folio); /* no split meanwhile */
			pt_unlock(f->c, r->table);
			f->kind = VM_quire_fault_numa;
			if (move_to(f, folio, target) || !lock_unchanged(f, r))
				return 0;
		}
	}
	f->kind = VM_quire_fault_numa;
	(void)machine_work(f->c, PATH_REMAP, 1);
	pte_write(f->c, r, pte_numa_restore(f->orig)); /* nothing to flush: without access nothing was cached */
	pt_unlock(f->c, r->table);
	return 0;
}

int numa_fault_pte(struct fault *f)
{
	return hinting_fault(f, &f->pte, false);
}

int numa_fault_pmd(struct fault *f)
{
	return hinting_fault(f, &f->pmd, true);
}
