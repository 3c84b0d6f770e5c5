/*
 * Blocks larger than the buddy allocator's: a run of free blocks of the largest order, taken and given back together.
 *
 * A candidate is an aligned range of one zone of which each block of the largest order is free, or not materialised yet: then
 * nobody has used it. Nothing is moved to make room. Invariants A1 to A5 (buddy.c) hold before and after.
 * Locks: zone->lock for the search and the taking.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"
#include "mm/hugetlb.h"

/* Is every block of [start, start + nr) free, as far as it is materialised? */
static bool range_is_free(struct cpu *c, const struct zone *z, uint64_t start, uint64_t nr)
{
	for (uint64_t p = start; p < start + nr && p < z->deferred_pfn; p += MAX_ORDER_FRAMES) {
		struct frame *f = frame_of(c->m, pfn(p));

		frame_touch(c, f, TOUCH_READ);
		if (!(frame_flags(f) & FRAME_BUDDY) || frame_order(f) != MAX_ORDER)
			return false;
	}
	return true;
}

/* The zone keeps its min watermark beside the block. */
static bool zone_can_give(const struct zone *z, uint64_t nr)
{
	uint64_t keep = z->watermark[WMARK_MIN] + z->lowmem_reserve[ZONE_MOVABLE];

	return z->managed && z->free_pages >= nr && z->free_pages - nr > keep;
}

ATTR_NOINLINE static struct frame *zone_take(struct cpu *c, struct zone *z, unsigned order)
{
	uint64_t nr = 1ULL << order, start = ALIGN_UP(z->first_pfn, nr);

	if (!zone_can_give(z, nr))
		return NULL;
	for (; start + nr <= z->end_pfn; start += nr) {
		(void)machine_work(c, PATH_CONTIG, 1);
		if (range_is_free(c, z, start, nr))
			break;
	}
	if (start + nr > z->end_pfn)
		return NULL;
	while (z->deferred_pfn < start + nr && memmap_materialise(c->q, z))
		;
	for (uint64_t p = start; p < start + nr; p += MAX_ORDER_FRAMES)
		buddy_take_block(c, z, frame_of(c->m, pfn(p)), MAX_ORDER);
	return frame_of(c->m, pfn(start));
}

struct frame *contig_alloc(struct cpu *c, int nid, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_CONTIG, 1);
	struct frame *f = NULL;

	ASSERT(order > MAX_ORDER);
	pcp_drain(c);
	for (int t = ZONE_MOVABLE; t >= 0 && !f && !machine_inject(c, INJECT_FRAME_ALLOC, PAGE_SIZE << order); t--) {
		struct zone *z = &c->q->nodes[nid].zones[t];

		machine_lock(c, &z->lock);
		f = zone_take(c, z, order);
		machine_unlock(c, &z->lock);
	}
	if (f) {
		frame_prep(c, f, order, true);
		machine_path(c, PATH_CONTIG);
	}
	machine_path(c, outer);
	return f;
}

void contig_free(struct cpu *c, struct frame *head, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_CONTIG, 1);
	struct zone *z = frame_zone_of(c->q, head);

	frame_unprep(c, head, order);
	machine_lock(c, &z->lock);
	for (uint64_t i = 0; i < 1ULL << order; i += MAX_ORDER_FRAMES)
		buddy_free(c, z, head + i, MAX_ORDER);
	machine_unlock(c, &z->lock);
	machine_path(c, outer);
}
