/*
 * Zones' limits: watermarks and their boost, reserves for lower zones, the test that an allocation makes against them.
 *
 * Linux's rules, in integers. 'Low memory' is what the zones up to NORMAL manage.
 *  vm.min_free_kbytes 0 = computed: sqrt(16 * kB of low memory), within [128, 262144] (khugepaged, when it runs, raises it)
 *  min  = the zone's share, managed / low memory, of min_free_kbytes; of a MOVABLE zone instead managed / 1024, within
 *         [32, 128]: kernel memory, which the reserve is for, never comes from there
 *  step = max(share / 4, managed * vm.watermark_scale_factor / 10000)
 *  low = min + step, high = low + step, promo = high + step
 *  boost: a pageblock's frames more for each request that was about to mix types in a pageblock, up to high *
 *         vm.watermark_boost_factor / 10000; none in a zone of fewer than 4 pageblocks. It ends when reclaim has been woken
 *         and has done its round (zone_boost_end): here, where nothing can be reclaimed yet, at once when a request that may
 *         wake it finds every zone below its low watermark.
 *  lowmem_reserve[h] of a zone, for a request that may use zones up to h: frames managed by the zones above it up to h,
 *  over vm.lowmem_reserve_ratio_dma32 or _normal (0: none): what only lower zones can give is kept for requests that need it.
 */
#include "mm/alloc_int.h"

#define MOVABLE_MIN_LEAST 32ULL
#define MOVABLE_MIN_MOST 128ULL

static uint64_t isqrt(uint64_t v)
{
	uint64_t r = 0;

	for (uint64_t bit = 1ULL << 31; bit; bit >>= 1)
		if ((r + bit) * (r + bit) <= v)
			r += bit;
	return r;
}

static uint64_t low_memory(const struct quire *q)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t <= ZONE_NORMAL; t++)
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

static void node_setup_reserve(const struct knobs *k, struct node *n)
{
	const uint32_t ratio[NR_ZONES] = { [ZONE_DMA32] = k->lowmem_reserve_dma32, [ZONE_NORMAL] = k->lowmem_reserve_normal };

	for (unsigned t = 0; t < NR_ZONES; t++) {
		uint64_t above = 0;

		for (unsigned h = t + 1; h < NR_ZONES; h++) {
			above += n->zones[h].managed;
			n->zones[t].lowmem_reserve[h] = n->zones[t].managed && ratio[t] ? above / ratio[t] : 0;
		}
	}
}

/* a * b / c of which the product may not fit: Linux's mult_frac. */
static uint64_t fraction(uint64_t a, uint64_t b, uint64_t c)
{
	return a / c * b + a % c * b / c;
}

void zone_setup_watermarks(struct quire *q)
{
	uint64_t low = low_memory(q), pages_min = min_free_pages(q, low);

	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = &q->nodes[i].zones[t];
			/* 2^24 (the knob's limit) times 2^40 at most. */
			uint64_t share = low ? pages_min * z->managed / low : 0, min = share,
				 step = MAX(share / 4, fraction(z->managed, q->knobs.watermark_scale_factor, 10000));

			if (t == ZONE_MOVABLE)
				min = MIN(MAX(z->managed / 1024, MOVABLE_MIN_LEAST), MOVABLE_MIN_MOST);

			for (unsigned w = 0; w < NR_WMARK; w++)
				z->watermark[w] = min + w * step;
		}
		node_setup_reserve(&q->knobs, &q->nodes[i]);
	}
}

void zone_boost(struct cpu *c, struct zone *z)
{
	uint64_t most = fraction(z->watermark[WMARK_HIGH], c->q->knobs.watermark_boost_factor, 10000);

	if (!most || z->managed < 4 * PAGEBLOCK_FRAMES)
		return;
	most = MAX(most, PAGEBLOCK_FRAMES);
	__atomic_store_n(&z->watermark_boost, MIN(z->watermark_boost + PAGEBLOCK_FRAMES, most), __ATOMIC_RELAXED);
	machine_touch(c, machine_pa(c->m, &z->watermark_boost), sizeof(z->watermark_boost), TOUCH_WRITE);
}

void zone_boost_end(struct cpu *c, struct zone *z)
{
	if (!__atomic_load_n(&z->watermark_boost, __ATOMIC_RELAXED))
		return;
	machine_lock(c, &z->lock);
	__atomic_store_n(&z->watermark_boost, 0, __ATOMIC_RELAXED);
	machine_touch(c, machine_pa(c->m, &z->watermark_boost), sizeof(z->watermark_boost), TOUCH_WRITE);
	machine_unlock(c, &z->lock);
}

/* What Linux lets requests take that may go below the mark: half of it; of the rest a quarter too; half again. */
static uint64_t lower_mark(uint64_t mark, unsigned alloc_flags)
{
	if (alloc_flags & ALLOC_MIN_RESERVE) {
		mark -= mark / 2;
		if (alloc_flags & ALLOC_NON_BLOCK)
			mark -= mark / 4;
	}
	if (alloc_flags & ALLOC_OOM)
		mark -= mark / 2;
	return mark;
}

/* Boost and free_pages lie on one line, which is charged here. */
static ATTR_ALWAYS_INLINE uint64_t free_look(struct cpu *c, const struct zone *z)
{
	machine_touch(c, machine_pa(c->m, &z->free_pages), sizeof(z->free_pages), TOUCH_READ);
	return __atomic_load_n(&z->free_pages, __ATOMIC_RELAXED);
}

static ATTR_ALWAYS_INLINE bool watermark_ok(struct cpu *c, const struct zone *z, unsigned order, uint64_t mark, enum zone_type highest,
					    unsigned alloc_flags, uint64_t free)
{
	if (unlikely(alloc_flags & ALLOC_RESERVES))
		mark = lower_mark(mark, alloc_flags);
	/* More than the mark must be left beside the block itself, of which one frame counts as still there. */
	if (free < 1ULL << order || free - ((1ULL << order) - 1) <= mark + z->lowmem_reserve[highest])
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

bool zone_watermark_ok(struct cpu *c, struct zone *z, unsigned order, uint64_t mark, enum zone_type highest, unsigned alloc_flags)
{
	return watermark_ok(c, z, order, mark, highest, alloc_flags, free_look(c, z));
}

bool zone_watermark_ok_free(struct cpu *c, struct zone *z, unsigned order, uint64_t mark, enum zone_type highest, unsigned alloc_flags,
			    uint64_t free)
{
	return watermark_ok(c, z, order, mark, highest, alloc_flags, free);
}

bool zone_watermark_ok_bulk(struct cpu *c, struct zone *z, uint64_t n, uint64_t mark, enum zone_type highest)
{
	uint64_t free = free_look(c, z);

	return free >= n && free - n > mark + z->lowmem_reserve[highest];
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
