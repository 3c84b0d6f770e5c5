/*
 * The page allocator's policy: which zone gives a block, and what is counted.
 *
 * Nodes are tried by distance from the preferred one, in each the higher zone first (MOVABLE for what can be moved, NORMAL
 * before DMA32, whose memory others may need). A zone is passed over when giving the block would take it to its low
 * watermark. Where NORMAL has DMA32 below it, a first round on the preferred node mixes no types within a pageblock: it is DMA32's
 * turn before that. When all were passed over, memory is short: alloc_slow.c.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"

#include <string.h>

static struct frame *zone_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment)
{
	struct frame *f;

	if (pcp_index(order) >= 0)
		return pcp_alloc(c, z, order, mt, nofragment);
	machine_lock(c, &z->lock);
	f = buddy_alloc(c, z, order, mt, nofragment);
	machine_unlock(c, &z->lock);
	return f;
}

/* The highest zone that a request may use: only movable pages may go to ZONE_MOVABLE. */
static enum zone_type highest_zone(const struct alloc_req *r)
{
	return r->gfp & GFP_MOVABLE ? ZONE_MOVABLE : ZONE_NORMAL;
}

struct frame *zonelist_alloc(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags)
{
	const struct node *home = &c->q->nodes[ac->nid];
	bool nofragment = (alloc_flags & ALLOC_NOFRAGMENT) != 0;
	unsigned nr = ac->gfp & GFP_THISNODE || nofragment ? 1 : home->nr_fallback;
	enum zone_watermark mark = (enum zone_watermark)(alloc_flags & ALLOC_WMARK_MASK);

	for (unsigned i = 0; i < nr; i++) {
		for (int t = (int)ac->highest; t >= 0; t--) {
			struct zone *z = &c->q->nodes[home->fallback[i]].zones[t];
			struct frame *f;

			if (!z->managed || !ac_allows(ac, home->fallback[i]) || (!(alloc_flags & ALLOC_NO_WATERMARKS) &&
					    !zone_watermark_ok(c, z, ac->order, zone_wmark_pages(z, mark), ac->highest, alloc_flags)))
				continue;
			f = zone_alloc(c, z, ac->order, gfp_migrate_type(ac->gfp), nofragment);
			if (f)
				return f;
		}
	}
	return NULL;
}

/* As zone_statistics: hit where it was wanted, miss and foreign otherwise; local or other as seen from the CPU. */
static void count_alloc(struct cpu *c, const struct frame *f, unsigned order, int preferred)
{
	static const enum vm_counter by_zone[ZONE_DEVICE] = { VM_pgalloc_dma32, VM_pgalloc_normal, VM_pgalloc_movable };
	int nid = frame_nid(f);

	vmstat_add(c, by_zone[frame_zone(f)], (int64_t)(1ULL << order));
	if (nid == preferred) {
		vmstat_inc(c, VM_numa_hit);
	} else {
		vmstat_inc(c, VM_numa_miss);
		vmstat_inc(c, VM_numa_foreign);
	}
	vmstat_inc(c, nid == c->nid ? VM_numa_local : VM_numa_other);
}

/*
 * Kernel frames have bytes that must be zero, also where the machine keeps tags only; the machine is asked in either case, for
 * the price and for the content tag.
 */
static int clear_block(struct cpu *c, struct frame *f, const struct alloc_req *r)
{
	enum machine_path outer = machine_work(c, PATH_CLEAR_PAGE, 0); /* the machine counts the pages */
	pfn_t first = frame_pfn(c->m, f);
	int err = 0;

	for (uint64_t i = 0; i < 1ULL << r->order && !err; i++) {
		pfn_t p = pfn_add(first, i);

		if (!(r->gfp & GFP_MOVABLE) && c->m->tags)
			memset(machine_ptr(c->m, pfn_to_paddr(p)), 0, PAGE_SIZE);
		err = machine_clear_page(c, p);
		if (!err && r->gfp & GFP_MOVABLE)
			vmstat_inc(c, VM_quire_pages_cleared);
	}
	machine_path(c, outer);
	return err;
}

/*
 * A user's frame of order 0, on a machine where clearing several at once pays: it has been cleared with an earlier one, or those
 * that follow are cleared with it. Counted when they are used.
 */
static int clear_with_others(struct cpu *c, struct frame *f, const struct alloc_req *r, bool cleared)
{
	struct zone *z = frame_zone_of(c->q, f);
	int err = 0;

	if (cleared) {
		vmstat_inc(c, VM_quire_pages_cleared);
	} else {
		err = clear_block(c, f, r);
		if (!err)
			pcp_clear_ahead(c, z);
	}
	pcp_fetch_next(c, z);
	return err;
}

static int clear_new(struct cpu *c, struct frame *f, const struct alloc_req *r, bool cleared)
{
	if (unlikely(c->clear_ahead) && !r->order && r->gfp & GFP_MOVABLE)
		return clear_with_others(c, f, r, cleared);
	return clear_block(c, f, r);
}

bool zonelist_keeps_types_apart(const struct quire *q, const struct alloc_context *ac)
{
	const struct node *home = &q->nodes[ac->nid];

	return home->zones[ZONE_NORMAL].managed && home->zones[ZONE_DMA32].managed &&
	       (ac->highest < ZONE_MOVABLE || !home->zones[ZONE_MOVABLE].managed);
}

static struct frame *find_block(struct cpu *c, const struct alloc_req *r, int nid)
{
	const struct alloc_context ac = { .order = r->order, .gfp = r->gfp, .nid = nid, .nodes = r->nodes, .highest = highest_zone(r) };
	bool apart = zonelist_keeps_types_apart(c->q, &ac);
	struct frame *f = zonelist_alloc(c, &ac, WMARK_LOW | (apart ? ALLOC_NOFRAGMENT : 0));

	if (unlikely(!f) && apart)
		f = zonelist_alloc(c, &ac, WMARK_LOW);
	return likely(f != NULL) ? f : alloc_slow(c, &ac);
}

struct frame *page_alloc(struct cpu *c, const struct alloc_req *req)
{
	int nid = req->nid == NID_NONE ? c->nid : req->nid;
	enum machine_path outer;
	bool cleared = false;
	uint64_t since, inside;
	struct frame *f;

	ASSERT_DEBUG(!(req->gfp & GFP_DIRECT_RECLAIM) || !c->spin_depth);
	if (req->order > MAX_ORDER || nid < 0 || (unsigned)nid >= c->m->nr_nodes ||
	    machine_inject(c, INJECT_FRAME_ALLOC, PAGE_SIZE << req->order))
		return NULL;
	outer = machine_work(c, PATH_PAGE_ALLOC, 1);
	since = phase_begin(c);
	inside = phase_sum(c);
	f = find_block(c, req, nid);
	if (f) {
		cleared = (frame_flags(f) & FRAME_CLEARED) != 0;
		count_alloc(c, f, req->order, nid);
		frame_prep(c, f, req->order, req->gfp & GFP_COMP);
	}
	phase_end_outer(c, PHASE_ALLOC, since, inside);
	if (f && req->gfp & GFP_ZERO) {
		since = phase_begin(c);
		if (clear_new(c, f, req, cleared)) {
			frame_put(c, f);
			f = NULL;
		}
		phase_end(c, PHASE_CLEAR, since);
	}
	machine_path(c, outer);
	return f;
}

unsigned page_alloc_bulk(struct cpu *c, const struct alloc_req *req, unsigned n, struct frame **ret)
{
	int nid = req->nid == NID_NONE ? c->nid : req->nid;
	enum zone_type highest = highest_zone(req);
	enum machine_path outer = machine_work(c, PATH_PAGE_ALLOC, 1);
	unsigned done = 0;

	ASSERT(!req->order && !(req->gfp & (GFP_ZERO | GFP_COMP)));
	if (nid < 0 || (unsigned)nid >= c->m->nr_nodes || machine_inject(c, INJECT_FRAME_ALLOC, (size_t)n << PAGE_SHIFT))
		n = 0;
	for (int t = (int)highest; n && t >= 0 && !done; t--) {
		struct zone *z = &c->q->nodes[nid].zones[t];

		if (z->managed && zone_watermark_ok_bulk(c, z, n, zone_wmark_pages(z, WMARK_LOW), highest))
			done = pcp_alloc_bulk(c, z, gfp_migrate_type(req->gfp), n, ret);
	}
	for (unsigned i = 0; i < done; i++) {
		count_alloc(c, ret[i], 0, nid);
		frame_prep(c, ret[i], 0, false);
	}
	machine_path(c, outer);
	return done;
}

void page_free(struct cpu *c, struct frame *f, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_PAGE_FREE, 1);
	struct zone *z = frame_zone_of(c->q, f);

	frame_unprep(c, f, order);
	vmstat_add(c, VM_pgfree, (int64_t)(1ULL << order));
	if (pcp_index(order) >= 0) {
		pcp_free(c, z, f, order);
	} else {
		machine_lock(c, &z->lock);
		buddy_free(c, z, f, order);
		machine_unlock(c, &z->lock);
	}
	machine_path(c, outer);
}
