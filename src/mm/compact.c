/*
 * Compaction of a zone, and of the zones that a request may use. compact.h says what it is; the scanners are in compact_scan.c, when it is
 * over in compact_finish.c.
 *
 * A round: pages are isolated, free blocks found for them as they are asked for, and moved. When the scanner for pages has left the
 * block of the wanted order in which it moved some, what was freed on this CPU's lists is given back, so that it merges: then the block is
 * captured for the request (buddy.c), or seen by compact_finished.
 */
#include "mm/compact_int.h"

#include "base/errno.h"
#include "mm/lru.h"

static bool begin(struct compact *k)
{
	struct zone_compact *zc = &k->z->compact;
	unsigned sync = k->mode != MIGRATE_ASYNC;

	list_init(&k->migratepages);
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		list_init(&k->freepages[o]);
	k->start = k->z->first_pfn;
	k->end = __atomic_load_n(&k->z->deferred_pfn, __ATOMIC_RELAXED); /* beyond, everything is free */
	if (k->end <= k->start)
		return false;
	k->migrate_pfn = k->start;
	k->free_pfn = pageblock_start(k->end - 1);
	if (!k->whole) {
		uint64_t m = __atomic_load_n(&zc->migrate_pfn[sync], __ATOMIC_RELAXED), f = __atomic_load_n(&zc->free_pfn, __ATOMIC_RELAXED);

		if (m < k->start || m >= k->end || f < k->start || f >= k->end) {
			compact_reset_positions(k->z);
		} else {
			k->migrate_pfn = m;
			k->free_pfn = pageblock_start(f);
		}
		k->whole = k->migrate_pfn <= k->start;
	}
	return true;
}

/* What was freed becomes whole blocks again, once the scanner is out of the block that it worked on. */
static void settle(struct compact *k, uint64_t *last)
{
	if (k->order > 0 && *last && *last < ALIGN_DOWN(k->migrate_pfn, 1ULL << k->order)) {
		lru_add_drain(k->c);
		pcp_drain(k->c);
		*last = 0;
	}
}

/* false: there is no room for what was isolated. */
static bool move(struct compact *k, uint64_t *last)
{
	const struct migrate_target t = { .get = compact_take_target, .put = compact_put_target, .arg = k };
	int rc = migrate_pages(k->c, &k->migratepages, &t, k->mode, MR_COMPACTION, NULL);

	migrate_putback(k->c, &k->migratepages);
	k->nr_migratepages = 0;
	if (rc > 0 && k->direct && k->mode == MIGRATE_ASYNC && k->order > 0) {
		/* Something stayed where the block should have been. */
		k->migrate_pfn = MAX(k->migrate_pfn, MIN(ALIGN_UP(k->migrate_pfn, 1ULL << k->order), k->end));
		*last = 0;
	}
	return rc != -ENOMEM || compact_scanners_met(k);
}

static enum compact_result rounds(struct compact *k)
{
	enum compact_result res;
	uint64_t last = 0; /* the pageblock in which pages were moved, 0: given back since */

	while ((res = compact_finished(k)) == COMPACT_CONTINUE) {
		(void)machine_work(k->c, PATH_COMPACT, 1);
		k->finish_pageblock = last && pageblock_start(last) == pageblock_start(k->migrate_pfn);
		switch (isolate_migratepages(k)) {
		case ISOLATE_ABORT:
			migrate_putback(k->c, &k->migratepages);
			k->nr_migratepages = 0;
			return COMPACT_CONTENDED;
		case ISOLATE_SUCCESS:
			last = MAX(k->start, pageblock_start(k->migrate_pfn - 1));
			if (!move(k, &last))
				return COMPACT_CONTENDED;
			break;
		case ISOLATE_NONE:
			break;
		}
		if (k->capture && k->capture->block)
			return COMPACT_SUCCESS;
		settle(k, &last);
		if (k->capture && k->capture->block)
			return COMPACT_SUCCESS;
		if (k->daemon && k->c->need_resched)
			k->c = machine_resched(k->c); /* holds no lock */
	}
	return res;
}

ATTR_NOINLINE enum compact_result compact_zone(struct compact *k)
{
	enum machine_path prev = machine_work(k->c, PATH_COMPACT, 0);
	enum compact_result res = COMPACT_CONTINUE;
	uint64_t high;

	if (k->order != COMPACT_ALL) {
		res = compact_suitability(k->c, k->z, (unsigned)k->order, k->highest, k->alloc_flags);
		if (res == COMPACT_CONTINUE && compact_restarting(k->z, (unsigned)k->order))
			compact_reset_zone_skipped(k->c, k->z);
	}
	if (res == COMPACT_CONTINUE && !begin(k))
		res = COMPACT_SKIPPED;
	if (res == COMPACT_CONTINUE) {
		lru_add_drain(k->c);
		res = rounds(k);
		pcp_drain(k->c);
		high = k->nr_freepages ? pageblock_start(release_freepages(k)) : 0;
		if (high > __atomic_load_n(&k->z->compact.free_pfn, __ATOMIC_RELAXED))
			__atomic_store_n(&k->z->compact.free_pfn, high, __ATOMIC_RELAXED);
	}
	machine_path(k->c, prev);
	return res;
}

/* ---- for a request ---- */

/* Only this CPU's tasks come here; one that sleeps meanwhile may be overtaken by others. */
static void capture_end(struct cpu *c, struct buddy_capture *k)
{
	struct buddy_capture **at = &c->pc->captures;

	while (*at != k)
		at = &(*at)->next;
	*at = k->next;
}

static enum compact_result compact_zone_for(struct cpu *c, struct zone *z, const struct alloc_context *ac, unsigned alloc_flags,
					    enum compact_priority prio, struct frame **ret_capture)
{
	enum migrate_type mt = gfp_migrate_type(ac->gfp);
	bool full = prio == COMPACT_PRIO_SYNC_FULL;
	struct buddy_capture capture = { .next = c->pc->captures, .z = z, .order = ac->order, .mt = mt };
	struct compact k = {
		.c = c, .z = z, .order = (int)ac->order, .mt = mt, .highest = ac->highest, .alloc_flags = alloc_flags,
		.mode = prio == COMPACT_PRIO_ASYNC ? MIGRATE_ASYNC : MIGRATE_SYNC_LIGHT,
		.direct = true, .whole = full, .ignore_skip = full, .ignore_type = full,
	};
	enum compact_result res;

	if (c->q->knobs.compact_capture) {
		k.capture = &capture;
		c->pc->captures = &capture;
	}
	res = compact_zone(&k);
	if (k.capture)
		capture_end(c, &capture);
	*ret_capture = capture.block;
	return capture.block ? COMPACT_SUCCESS : res;
}

ATTR_NOINLINE enum compact_result compact_direct(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags,
						 enum compact_priority prio, struct frame **ret_capture)
{
	enum machine_path prev = machine_work(c, PATH_COMPACT, 0);
	const struct node *home = &c->q->nodes[ac->nid];
	unsigned nr = ac->gfp & GFP_THISNODE ? 1 : home->nr_fallback;
	enum compact_result res = COMPACT_SKIPPED, r;
	bool end = false;

	for (unsigned i = 0; i < nr && !end; i++) {
		for (int t = (int)ac->highest; t >= 0 && !end; t--) {
			struct zone *z = &c->q->nodes[home->fallback[i]].zones[t];

			if (!z->managed || !ac_allows(ac, home->fallback[i]))
				continue;
			if (prio > COMPACT_PRIO_SYNC_FULL && compact_deferred(z, ac->order)) {
				res = MAX(res, COMPACT_DEFERRED);
				continue;
			}
			r = compact_zone_for(c, z, ac, alloc_flags, prio, ret_capture);
			res = MAX(res, r);
			if (r == COMPACT_SUCCESS) {
				compact_defer_reset(z, ac->order, false);
				end = true;
			} else if (prio != COMPACT_PRIO_ASYNC && (r == COMPACT_COMPLETE || r == COMPACT_PARTIAL_SKIPPED)) {
				compact_defer(z, ac->order);
			}
			end = end || (prio == COMPACT_PRIO_ASYNC && c->need_resched) || *cpu_pf(c) & PF_OOM_VICTIM;
		}
	}
	machine_path(c, prev);
	return res;
}

void compact_alloc_succeeded(struct cpu *c, struct zone *z, unsigned order)
{
	(void)c;
	compact_defer_reset(z, order, true);
}

/* ---- for nobody in particular ---- */

void quire_compact_node(struct cpu *c, int nid)
{
	for (unsigned i = 0; i < c->m->nr_nodes; i++) {
		for (unsigned t = 0; t < NR_ZONES && (nid == NID_NONE || nid == (int)i); t++) {
			struct compact k = {
				.c = c, .z = &c->q->nodes[i].zones[t], .order = COMPACT_ALL, .mode = MIGRATE_SYNC, .whole = true, .ignore_skip = true
			};

			if (k.z->managed)
				(void)compact_zone(&k);
		}
	}
}
