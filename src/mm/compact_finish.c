/*
 * When compaction is worth beginning, and when it is over.
 *
 * Worth it: the zone has no block for the request above its watermark, but enough free memory to work with (twice the block beyond
 * the low watermark, of small orders the min one), and, for orders above 3, fails for its pieces rather than for lack of memory.
 * Over: the scanners met; a pageblock is done and a block is there of the wanted type, or of one that such a request may take with its
 * pageblock (buddy.c); or somebody wants the lock or the CPU.
 */
#include "mm/compact_int.h"
#include "mm/fragment.h"

#define PROACTIVE_LEAST 5U /* percent of fragmentation that is always let be */
#define PROACTIVE_ABOVE 10U

/* Enough for pages to be moved while others go on allocating. */
static bool enough_free(struct cpu *c, struct zone *z, unsigned order, enum zone_type highest, uint64_t free)
{
	uint64_t mark = zone_wmark_pages(z, order > PCP_COSTLY_ORDER ? WMARK_LOW : WMARK_MIN);

	return zone_watermark_ok_free(c, z, 0, mark + (2ULL << order), highest, 0, free);
}

static uint64_t free_pages(const struct zone *z)
{
	return __atomic_load_n(&z->free_pages, __ATOMIC_RELAXED);
}

ATTR_NOINLINE enum compact_result compact_suitability(struct cpu *c, struct zone *z, unsigned order, enum zone_type highest,
						      unsigned alloc_flags)
{
	enum zone_watermark mark = (enum zone_watermark)(alloc_flags & ALLOC_WMARK_MASK);
	int index;

	if (zone_watermark_ok(c, z, order, zone_wmark_pages(z, mark), highest, alloc_flags))
		return COMPACT_SUCCESS;
	if (!enough_free(c, z, order, highest, free_pages(z)))
		return COMPACT_SKIPPED;
	if (order > PCP_COSTLY_ORDER) {
		index = zone_extfrag_index(c, z, order);
		if (index >= 0 && (uint32_t)index <= c->q->knobs.extfrag_threshold)
			return COMPACT_SKIPPED;
	}
	return COMPACT_CONTINUE;
}

bool compact_zonelist_suitable(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags)
{
	const struct node *home = &c->q->nodes[ac->nid];
	unsigned nr = ac->gfp & GFP_THISNODE ? 1 : home->nr_fallback;
	const struct alloc_hooks *h = c->q->alloc_hooks;

	(void)alloc_flags;
	for (unsigned i = 0; i < nr; i++) {
		for (int t = (int)ac->highest; t >= 0; t--) {
			struct zone *z = &c->q->nodes[home->fallback[i]].zones[t];
			uint64_t reclaimable;

			if (!z->managed || !ac_allows(ac, home->fallback[i]))
				continue;
			/* Part of it only: in a large request's time nobody frees all of that. */
			reclaimable = h && h->reclaimable_pages ? h->reclaimable_pages(c, z) / MAX(ac->order, 1U) : 0;
			if (enough_free(c, z, ac->order, ac->highest, reclaimable + free_pages(z)))
				return true;
		}
	}
	return false;
}

/* As steal_from in buddy.c: what a request of type mt finds on lists of another type, and may take the pageblock of. */
static bool may_claim(unsigned order, enum migrate_type mt)
{
	return order >= PAGEBLOCK_ORDER || order >= PAGEBLOCK_ORDER / 2U || mt != MIGRATE_MOVABLE;
}

/* Without the lock: a list that is just being changed is looked at again after the next pageblock. */
static bool list_has(const struct zone *z, unsigned order, unsigned mt)
{
	const struct list_head *l = &z->free_area[order].list[mt];

	return __atomic_load_n(&l->next, __ATOMIC_RELAXED) != l;
}

static bool zone_has_block(const struct compact *k)
{
	for (unsigned o = (unsigned)k->order; o <= MAX_ORDER; o++) {
		machine_touch(k->c, machine_pa(k->c->m, &k->z->free_area[o]), sizeof(k->z->free_area[o]), TOUCH_READ);
		for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++)
			if (list_has(k->z, o, mt) && (mt == k->mt || may_claim(o, k->mt)))
				return true;
	}
	return false;
}

void compact_reset_positions(struct zone *z)
{
	uint64_t end = __atomic_load_n(&z->deferred_pfn, __ATOMIC_RELAXED);

	__atomic_store_n(&z->compact.migrate_pfn[0], z->first_pfn, __ATOMIC_RELAXED);
	__atomic_store_n(&z->compact.migrate_pfn[1], z->first_pfn, __ATOMIC_RELAXED);
	__atomic_store_n(&z->compact.free_pfn, end ? pageblock_start(end - 1) : 0, __ATOMIC_RELAXED);
}

void compact_reset_zone_skipped(struct cpu *c, struct zone *z)
{
	uint64_t end = __atomic_load_n(&z->deferred_pfn, __ATOMIC_RELAXED);

	for (uint64_t p = z->first_pfn; p < end; p = pageblock_start(p) + PAGEBLOCK_FRAMES) {
		uint8_t *t = pageblock_of(z, p);

		if (__atomic_load_n(t, __ATOMIC_RELAXED) & PAGEBLOCK_SKIP)
			__atomic_and_fetch(t, (uint8_t)~PAGEBLOCK_SKIP, __ATOMIC_RELAXED);
	}
	if (end > z->first_pfn)
		machine_touch(c, machine_pa(c->m, pageblock_of(z, z->first_pfn)),
			      (size_t)(pageblock_of(z, end - 1) - pageblock_of(z, z->first_pfn)) + 1, TOUCH_WRITE);
	compact_reset_positions(z);
	__atomic_store_n(&z->compact.flush_skip, false, __ATOMIC_RELAXED);
}

void compact_reset_skipped(struct cpu *c, int nid)
{
	for (unsigned t = 0; t < NR_ZONES; t++) {
		struct zone *z = &c->q->nodes[nid].zones[t];

		if (z->managed && __atomic_load_n(&z->compact.flush_skip, __ATOMIC_RELAXED))
			compact_reset_zone_skipped(c, z);
	}
}

/* ---- proactively ---- */

/* Deferred sections are large blocks. */
static unsigned fragmented_percent(struct cpu *c, const struct zone *z)
{
	uint64_t large = z->end_pfn - __atomic_load_n(&z->deferred_pfn, __ATOMIC_RELAXED), small = 0;

	machine_touch(c, machine_pa(c->m, z->free_area), sizeof(z->free_area), TOUCH_READ);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		uint64_t n = __atomic_load_n(&z->free_area[o].nr_free, __ATOMIC_RELAXED) << o;

		*(o < HPAGE_PMD_ORDER ? &small : &large) += n;
	}
	return small ? (unsigned)(small * 100 / (small + large)) : 0;
}

static uint64_t node_managed(const struct node *n)
{
	uint64_t sum = 0;

	for (unsigned t = 0; t < NR_ZONES; t++)
		sum += n->zones[t].managed;
	return sum;
}

unsigned compact_score(struct cpu *c, const struct zone *z)
{
	return (unsigned)(z->managed * fragmented_percent(c, z) / (node_managed(&c->q->nodes[z->nid]) + 1));
}

unsigned compact_fragmentation(struct cpu *c, int nid)
{
	unsigned sum = 0;

	for (unsigned t = 0; t < NR_ZONES; t++)
		if (c->q->nodes[nid].zones[t].managed)
			sum += compact_score(c, &c->q->nodes[nid].zones[t]);
	return sum;
}

unsigned compact_score_target(const struct quire *q, bool low)
{
	unsigned wanted = MAX(100 - q->knobs.compaction_proactiveness, PROACTIVE_LEAST);

	return low ? wanted : MIN(wanted + PROACTIVE_ABOVE, 100U);
}

/* ---- over? ---- */

ATTR_NOINLINE enum compact_result compact_finished(struct compact *k)
{
	enum compact_result res = COMPACT_CONTINUE;

	if (compact_scanners_met(k)) {
		compact_reset_positions(k->z);
		if (k->direct)
			__atomic_store_n(&k->z->compact.flush_skip, true, __ATOMIC_RELAXED);
		return k->whole ? COMPACT_COMPLETE : COMPACT_PARTIAL_SKIPPED;
	}
	if (k->proactive)
		res = compact_score(k->c, k->z) > compact_score_target(k->c->q, true) ? COMPACT_CONTINUE : COMPACT_SUCCESS;
	else if (k->order != COMPACT_ALL && IS_ALIGNED(k->migrate_pfn, PAGEBLOCK_FRAMES) && zone_has_block(k))
		/* Whole pageblocks only: what is left of one would be a trap for pages that can't be moved. */
		res = COMPACT_SUCCESS;
	if (compact_should_abort(k))
		res = res == COMPACT_SUCCESS ? res : COMPACT_CONTENDED;
	return res;
}
