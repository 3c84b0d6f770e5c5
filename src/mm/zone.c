/*
 * Zones' limits: watermarks, reserves for lower zones, the test that an allocation makes against them.
 *
 * Linux's rules, in integers:
 *  vm.min_free_kbytes 0 = computed: sqrt(16 * kB of memory), within [128, 262144] (khugepaged, when it runs, raises it)
 *  min  = the zone's share, by managed frames, of min_free_kbytes
 *  step = max(min / 4, managed * vm.watermark_scale_factor / 10000)
 *  low = min + step, high = low + step, promo = high + step
 *  lowmem_reserve[h] of a zone, for a request that may use zones up to h: frames managed by the zones above it up to h,
 *  over 256 for DMA32 and over 32 for NORMAL: what only lower zones can give is kept for requests that need it.
 */
#include "mm/alloc_int.h"

static uint64_t isqrt(uint64_t v)
{
	uint64_t r = 0;

	for (uint64_t bit = 1ULL << 31; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= v)
			r += bit;
	return r;
}

static uint64_t total_managed(const struct quire *q)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			n += q->nodes[i].zones[t].managed;
	return n;
}

static uint64_t min_free_pages(const struct quire *q, uint64_t managed)
{
	uint64_t kb = q->knobs.min_free_kbytes;

	if (!kb) {
		kb = isqrt(managed * (PAGE_SIZE / 1024) * 16);
		kb = MIN(MAX(kb, 128ULL), 262144ULL);
	}
	return kb / (PAGE_SIZE / 1024);
}

static void node_setup_reserve(struct node *n)
{
	static const uint32_t ratio[NR_ZONES] = { [ZONE_DMA32] = 256, [ZONE_NORMAL] = 32 };

	for (unsigned t = 0; t < ZONE_MOVABLE; t++) {
		uint64_t above = 0;

		for (unsigned h = t + 1; h < NR_ZONES; h++) {
			above += n->zones[h].managed;
			n->zones[t].lowmem_reserve[h] = n->zones[t].managed ? above / ratio[t] : 0;
		}
	}
}

void zone_setup_watermarks(struct quire *q)
{
	uint64_t all = total_managed(q), pages_min = min_free_pages(q, all);

	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = &q->nodes[i].zones[t];
			uint64_t min =
				all ? pages_min * z->managed / all : 0; /* 2^24 (the knob's limit) times 2^40 at most */
			uint64_t scaled = z->managed * q->knobs.watermark_scale_factor / 10000,
				 step = MAX(min / 4, scaled);

			for (unsigned w = 0; w < NR_WMARK; w++)
				z->watermark[w] = min + w * step;
		}
		node_setup_reserve(&q->nodes[i]);
	}
}

bool zone_watermark_ok(struct cpu *c, struct zone *z, unsigned order, enum zone_watermark mark, enum zone_type highest)
{
	uint64_t free = __atomic_load_n(&z->free_pages, __ATOMIC_RELAXED), need = 1ULL << order;

	machine_touch(c, machine_pa(c->m, &z->free_pages), sizeof(z->free_pages), TOUCH_READ);
	/* More than the mark must be left beside the block itself, of which one frame counts as still there. */
	if (free < need || free - (need - 1) <= z->watermark[mark] + z->lowmem_reserve[highest])
		return false;
	if (!order || __atomic_load_n(&z->deferred_pfn, __ATOMIC_RELAXED) < z->end_pfn)
		return true;
	for (unsigned o = order; o <= MAX_ORDER; o++) {
		machine_touch(c, machine_pa(c->m, &z->free_area[o]), sizeof(z->free_area[o]), TOUCH_READ);
		if (__atomic_load_n(&z->free_area[o].nr_free, __ATOMIC_RELAXED))
			return true;
	}
	return false;
}

uint64_t memory_free_pages(const struct quire *q, int nid)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			if (nid == NID_NONE || nid == (int)i)
				n += __atomic_load_n(&q->nodes[i].zones[t].free_pages, __ATOMIC_RELAXED);
	return n;
}
