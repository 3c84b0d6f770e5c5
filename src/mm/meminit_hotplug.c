/*
 * Memory that comes and goes while the system runs: descriptors of a range that starts and ends at sections, all of it one node's and one
 * zone's, which is known beforehand. Device memory has no free lists; its descriptors hold a pointer where others have a list link.
 *
 * Steps, as published: page by page with the tests that boot needs, a list link that device memory overwrites, and the reserved bit set by
 * an atomic afterwards; by pageblock, backwards inside, without tests; the reserved bit in the one store of the flags word.
 */
#include "mm/meminit.h"

#include "base/errno.h"

#include <string.h>

ATTR_NOINLINE static void add_page(struct meminit_worker *w, int nid, unsigned zone, uint64_t p, void *pgmap)
{
	struct frame *f = meminit_desc(w, p);

	if (IS_ALIGNED(p, PAGEBLOCK_FRAMES) && !w->mi->section[p >> SECTION_SHIFT])
		return;
	meminit_one_words(f, meminit_place(zone, nid));
	frame_set(f, FRAME_RESERVED);
	if (zone == ZONE_DEVICE) {
		f->lru.next = pgmap;
		f->lru.prev = NULL;
	}
}

static void charge_add(struct meminit_worker *w, int nid, uint64_t s, uint64_t n)
{
	const struct meminit_node *node = &w->mi->node[nid];
	bool pages = w->mi->hotplug == HOTPLUG_PAGE, folded = w->mi->hotplug == HOTPLUG_FLAG_FOLDED;

	for (uint64_t i = 0; i < n && !w->c->uncharged; i++) {
		uint64_t p = s + (pages ? i : n - 1 - i);
		paddr_t pa = node->desc_pa + (p - node->desc_base) * sizeof(struct frame);

		machine_work(w->c, pages ? PATH_HOTPLUG_PAGE : PATH_HOTPLUG_BLOCK, 1);
		machine_touch(w->c, pa, sizeof(struct frame), TOUCH_WRITE);
		if (!folded)
			machine_touch(w->c, pa, sizeof(uint64_t), TOUCH_ATOMIC);
	}
}

void meminit_hot_add(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n, void *pgmap)
{
	struct meminit_zone *z = &w->mi->node[nid].zone[zone];
	uint64_t flags = meminit_place(zone, nid);
	bool folded = w->mi->hotplug == HOTPLUG_FLAG_FOLDED;
	enum machine_path outer = machine_work(w->c, PATH_HOTPLUG_PAGE, 0);

	memset(w->mi->section + (start >> SECTION_SHIFT), 1, n >> SECTION_SHIFT);
	machine_lock(w->c, &z->lock);
	z->start = z->end ? MIN(z->start, start) : start;
	z->end = MAX(z->end, start + n);
	machine_unlock(w->c, &z->lock);
	for (uint64_t s = start; s < start + n; s += PAGEBLOCK_FRAMES) {
		charge_add(w, nid, s, PAGEBLOCK_FRAMES);
		if (w->mi->hotplug == HOTPLUG_PAGE)
			for (uint64_t p = s; p < s + PAGEBLOCK_FRAMES; p++)
				add_page(w, nid, zone, p, pgmap);
		else
			meminit_run_backwards(meminit_desc(w, s), PAGEBLOCK_FRAMES, flags, zone == ZONE_DEVICE ? pgmap : NULL, folded);
	}
	__atomic_add_fetch(&w->mi->node[nid].initialised, n, __ATOMIC_RELAXED);
	machine_path(w->c, outer);
}

void meminit_online(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n)
{
	uint64_t end = start + n;

	for (; start < end; start += MAX_ORDER_FRAMES)
		meminit_free_range(w, &w->mi->node[nid].zone[zone], start, start + MAX_ORDER_FRAMES);
}

/* The free blocks of a range, which none of them leaves: are they all of it? With `take` they are taken off the lists. */
static bool all_free(struct meminit_worker *w, struct meminit_zone *z, uint64_t start, uint64_t end, bool take)
{
	for (uint64_t p = start; p < end;) {
		const struct frame *f = meminit_desc(w, p);
		unsigned order = frame_order(f);

		if (!(frame_flags(f) & FRAME_BUDDY))
			return false;
		if (take) {
			meminit_delete(w, z, p, order);
			z->free_pages -= 1ULL << order;
		}
		p += 1ULL << order;
	}
	return true;
}

static bool device_idle(const struct meminit_worker *w, uint64_t start, uint64_t end)
{
	for (uint64_t p = start; p < end; p++)
		if (meminit_desc(w, p)->refcount != 1)
			return false;
	return true;
}

int meminit_hot_remove(struct meminit_worker *w, int nid, unsigned zone, uint64_t start, uint64_t n)
{
	struct meminit_zone *z = &w->mi->node[nid].zone[zone];
	bool ok;

	machine_lock(w->c, &z->lock);
	if (zone == ZONE_DEVICE)
		ok = device_idle(w, start, start + n);
	else
		ok = all_free(w, z, start, start + n, false) && all_free(w, z, start, start + n, true);
	machine_unlock(w->c, &z->lock);
	if (!ok)
		return -EBUSY;
	memset(meminit_desc(w, start), 0, n * sizeof(struct frame));
	memset(w->mi->section + (start >> SECTION_SHIFT), 0, n >> SECTION_SHIFT);
	return 0;
}
