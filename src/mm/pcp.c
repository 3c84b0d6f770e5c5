/*
 * Per-CPU lists in front of the buddy lists: a CPU takes and gives blocks of orders 0 to 3 and huge pages (order 9) without
 * the zone lock. Only its own CPU touches a list, and not across a sleep, so it needs no lock. Frames on it have
 * FRAME_PCP and are not in free_pages.
 *
 * Sizes as Linux has them since 6.7:
 *  batch = 2^floor(log2(1.5 * b)) - 1 where b = min(managed / 1024, 256) / 4, at least 1: 63 frames in any zone of 1
 *     GiB or more
 *  high_min = low watermark / CPUs of the node (all CPUs where it has none), or managed /
 *     vm.percpu_pagelist_high_fraction / CPUs where that is set; at least 4 * batch
 *  high_max = managed / 8 / CPUs; high_min where the fraction is set: then high is fixed, as before 6.7
 *  high, between them, rises with refills and bursts of frees while the zone is above its high watermark; below it, it falls
 *     and lists give back.
 * An empty list of order 0 takes batch << alloc_factor frames at once, which doubles with each refill up to 32 times; of larger
 * blocks as many as make up a batch, at least 2. Beyond high, as many frames go back as were freed in a row, at least
 * a batch, from the list just freed to first. So who uses much meets the zone's lock seldom.
 */
#include "mm/alloc_int.h"

#define LEAST_HIGH_FRACTION 8U
#define BATCH_SCALE_MAX 5U /* Linux's CONFIG_PCP_BATCH_SCALE_MAX */

static struct pcp_list *pcp_of(const struct cpu *c, const struct zone *z)
{
	return &c->pc->pcp[(unsigned)z->nid * NR_ZONES + z->type];
}

uint32_t pcp_batch(uint64_t managed)
{
	uint64_t b = MIN(managed / 1024, 256ULL) / 4;

	if (b < 1)
		b = 1;
	b += b / 2;
	b = (1ULL << (63 - __builtin_clzll(b))) - 1;
	return (uint32_t)MAX(b, 1ULL);
}

static uint32_t share_of(const struct quire *q, const struct zone *z, uint32_t batch, uint64_t total)
{
	uint32_t cpus = q->m->nodes[z->nid].nr_cpus;

	return (uint32_t)MIN(MAX(total / (cpus ? cpus : q->m->nr_cpus), 4ULL * batch), (uint64_t)UINT32_MAX / 2);
}

uint32_t pcp_high(const struct quire *q, const struct zone *z, uint32_t batch)
{
	uint32_t fraction = q->knobs.percpu_pagelist_high_fraction;

	return share_of(q, z, batch, fraction ? z->managed / fraction : z->watermark[WMARK_LOW]);
}

uint32_t pcp_high_max(const struct quire *q, const struct zone *z, uint32_t batch)
{
	uint32_t least = pcp_high(q, z, batch);

	return q->knobs.percpu_pagelist_high_fraction ? least : MAX(least, share_of(q, z, batch, z->managed / LEAST_HIGH_FRACTION));
}

void pcp_setup(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_nodes * NR_ZONES; i++) {
		const struct zone *z = &q->nodes[i / NR_ZONES].zones[i % NR_ZONES];
		uint32_t batch = pcp_batch(z->managed), high = pcp_high(q, z, batch), high_max = pcp_high_max(q, z, batch);

		if (!z->managed)
			continue;
		for (unsigned cpu = 0; cpu < q->m->nr_cpus; cpu++) {
			struct pcp_list *p = &q->percpu[cpu]->pcp[i];

			p->batch = batch;
			p->high = p->high_min = high;
			p->high_max = high_max;
			p->pa = machine_pa(q->m, p);
			for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++)
				for (unsigned o = 0; o < NR_PCP_ORDERS; o++)
					list_init(&p->list[mt][o]);
		}
	}
}

/* Inline, as is pcp_unlink: shared by paths that are priced apart. */
static ATTR_ALWAYS_INLINE void pcp_push(struct cpu *c, struct pcp_list *p, struct frame *f, enum migrate_type mt,
					int idx, bool tail)
{
	frame_flags_put(f, (frame_flags(f) & (FRAME_PLACE_MASK | FRAME_FRESH)) | FRAME_PCP | ((uint64_t)pcp_order(idx) << FRAME_ORDER_SHIFT) |
				   ((uint64_t)mt << FRAME_MT_SHIFT));
	if (tail)
		list_add_tail(&f->lru, &p->list[mt][idx]);
	else
		list_add(&f->lru, &p->list[mt][idx]);
	p->count[mt][idx]++;
	p->total += 1U << pcp_order(idx);
	frame_touch(c, f, TOUCH_WRITE);
	memmap_touch_link(c, tail ? f->lru.prev : f->lru.next);
	machine_touch(c, machine_pa(c->m, &p->list[mt][idx]), sizeof(struct list_head), TOUCH_WRITE);
}

static ATTR_ALWAYS_INLINE void pcp_unlink(struct cpu *c, struct pcp_list *p, struct frame *f, enum migrate_type mt,
					  int idx, uint64_t keep)
{
	const struct list_head *prev = f->lru.prev, *next = f->lru.next;

	list_del(&f->lru);
	frame_flags_put(f, frame_flags(f) & (FRAME_PLACE_MASK | FRAME_FRESH | keep));
	p->count[mt][idx]--;
	p->total -= 1U << pcp_order(idx);
	frame_touch(c, f, TOUCH_WRITE);
	memmap_touch_link(c, prev);
	memmap_touch_link(c, next);
}

/* The zone is asked anyway: is it short of memory? Its lock is held. */
static void look_at_high(struct cpu *c, struct zone *z)
{
	bool below = z->free_pages <= zone_wmark_pages(z, WMARK_HIGH);

	if (below == z->below_high)
		return;
	__atomic_store_n(&z->below_high, below, __ATOMIC_RELAXED);
	machine_touch(c, machine_pa(c->m, &z->below_high), sizeof(z->below_high), TOUCH_WRITE);
}

static bool below_high(const struct zone *z)
{
	return __atomic_load_n(&z->below_high, __ATOMIC_RELAXED);
}

/* Blocks on their way between the zone's lists and a CPU's. */
#define PCP_CHUNK 64U

struct pcp_chunk {
	unsigned nr;
	struct {
		struct frame *f;
		unsigned order;
	} b[PCP_CHUNK];
};

/*
 * Take up to `want` blocks of the list's order, as runs where the zone's smallest free block has several: one by one they would
 * come from there just the same, in this order, with the same rest. The lock is held for a run, not for each of its blocks.
 */
static void pcp_take_runs(struct cpu *c, struct zone *z, enum migrate_type mt, unsigned order, unsigned want, bool nofragment,
			  struct pcp_chunk *ret)
{
	/* Small ones stay within a pageblock; huge pages come as pairs. */
	unsigned largest = order < PAGEBLOCK_ORDER ? PAGEBLOCK_ORDER : MAX_ORDER + 1;

	ret->nr = 0;
	machine_lock(c, &z->lock);
	while (want && ret->nr < PCP_CHUNK) {
		unsigned run = order;

		while (run + 1 < largest && 2U << (run - order) <= want)
			run++;
		struct frame *f = buddy_alloc_upto(c, z, order, &run, mt, nofragment);

		if (!f)
			break;
		ret->b[ret->nr].f = f;
		ret->b[ret->nr++].order = run;
		want -= 1U << (run - order);
	}
	look_at_high(c, z);
	machine_unlock(c, &z->lock);
}

/* How many blocks to take at once. */
static unsigned refill_blocks(const struct zone *z, struct pcp_list *p, unsigned order)
{
	uint32_t want = order ? p->batch : p->batch << p->alloc_factor;

	if (p->high_min != p->high_max && !below_high(z))
		p->high = MIN(p->high + want, p->high_max);
	if (!order) {
		uint32_t room = MAX(p->high > p->total + p->batch ? p->high - p->total - p->batch : 0, p->batch);

		if (want <= room && p->alloc_factor < BATCH_SCALE_MAX)
			p->alloc_factor++;
		return MIN(want, room);
	}
	return want > 1 ? MAX(want >> order, 2U) : want;
}

static void pcp_refill(struct cpu *c, struct zone *z, struct pcp_list *p, enum migrate_type mt, int idx, bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_PCP_REFILL, 0);
	unsigned order = pcp_order(idx), want = refill_blocks(z, p, order);
	struct pcp_chunk k;

	do {
		pcp_take_runs(c, z, mt, order, want, nofragment, &k);
		for (unsigned i = 0; i < k.nr; i++) {
			uint64_t flags = frame_flags(k.b[i].f) & (FRAME_PLACE_MASK | FRAME_FRESH);

			/* In the order in which they came, so that a reader of new memory sees ascending addresses. */
			for (uint64_t at = 0; at < 1ULL << k.b[i].order; at += 1ULL << order) {
				machine_work(c, PATH_PCP_REFILL, 1);
				frame_flags_put(k.b[i].f + at, flags);
				pcp_push(c, p, k.b[i].f + at, mt, idx, true);
			}
			want -= 1U << (k.b[i].order - order);
		}
	} while (want && k.nr == PCP_CHUNK);
	machine_path(c, outer);
}

struct frame *pcp_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_PCP_ALLOC, 1);
	struct pcp_list *p = pcp_of(c, z);
	struct frame *f = NULL;
	int idx = pcp_index(order);

	machine_touch(c, p->pa, CACHE_LINE, TOUCH_ATOMIC);
	p->free_count >>= 1;
	if (list_empty(&p->list[mt][idx]))
		pcp_refill(c, z, p, mt, idx, nofragment);
	if (!list_empty(&p->list[mt][idx])) {
		f = list_first_entry(&p->list[mt][idx], struct frame, lru);
		pcp_unlink(c, p, f, mt, idx, FRAME_CLEARED);
	}
	machine_path(c, outer);
	return f;
}

void pcp_clear_ahead(struct cpu *c, struct zone *z)
{
	struct pcp_list *p = pcp_of(c, z);
	uint32_t left = c->clear_ahead;
	struct frame *f;

	list_for_each_entry(f, &p->list[MIGRATE_MOVABLE][0], lru) {
		if (!left-- || (frame_flags(f) & FRAME_CLEARED) || machine_clear_page(c, frame_pfn(c->m, f)))
			break;
		frame_flags_put(f, frame_flags(f) | FRAME_CLEARED);
	}
}

void pcp_fetch_next(struct cpu *c, struct zone *z)
{
	struct list_head *l = &pcp_of(c, z)->list[MIGRATE_MOVABLE][0];

	if (!list_empty(l)) {
		struct frame *f = list_first_entry(l, struct frame, lru);

		if (frame_flags(f) & FRAME_CLEARED)
			prefetch_write((const char *)machine_ptr(c->m, pfn_to_paddr(frame_pfn(c->m, f))) + c->fault_offset);
	}
}

unsigned pcp_alloc_bulk(struct cpu *c, struct zone *z, enum migrate_type mt, unsigned n, struct frame **ret)
{
	enum machine_path outer = machine_work(c, PATH_PCP_ALLOC, 1);
	struct pcp_list *p = pcp_of(c, z);
	unsigned done = 0;

	machine_touch(c, p->pa, CACHE_LINE, TOUCH_ATOMIC);
	p->free_count >>= 1;
	while (done < n) {
		if (list_empty(&p->list[mt][0]))
			pcp_refill(c, z, p, mt, 0, false);
		if (list_empty(&p->list[mt][0]))
			break;
		(void)machine_work(c, PATH_PCP_ALLOC, 1);
		ret[done] = list_first_entry(&p->list[mt][0], struct frame, lru);
		pcp_unlink(c, p, ret[done++], mt, 0, 0);
	}
	machine_path(c, outer);
	return done;
}

/*
 * May they be one block before the lock is taken? Within a pageblock always; two huge pages where their pageblocks are of one type, which
 * nobody changes while no part of them is free (A6).
 */
static bool may_merge(const struct cpu *c, struct frame *a, struct frame *b, unsigned order)
{
	const struct zone *z = frame_zone_of(c->q, a);
	uint64_t p = frame_pfn(c->m, a).v, other = frame_pfn(c->m, b).v;

	if ((p ^ 1ULL << order) != other || order >= MAX_ORDER)
		return false;
	return order + 1 < PAGEBLOCK_ORDER || (order == PAGEBLOCK_ORDER && pageblock_type(z, p) == pageblock_type(z, other));
}

/*
 * Add a block to those that go back, and merge it with the one before where they are buddies: what was freed in order goes back as few
 * large blocks, to the same result.
 */
static void chunk_add(const struct cpu *c, struct pcp_chunk *k, struct frame *f, unsigned order)
{
	while (k->nr && k->b[k->nr - 1].order == order && may_merge(c, k->b[k->nr - 1].f, f, order)) {
		struct frame *other = k->b[--k->nr].f, *low = MIN(f, other), *high = MAX(f, other);

		frame_flags_put(low, frame_flags(low) | (frame_flags(high) & FRAME_FRESH));
		frame_flags_put(high, frame_flags(high) & FRAME_PLACE_MASK);
		f = low;
		order++;
	}
	k->b[k->nr].f = f;
	k->b[k->nr++].order = order;
}

static void chunk_give(struct cpu *c, struct zone *z, struct pcp_chunk *k)
{
	/* The buddies' descriptors are looked at next, wherever they are: all at once on their way, before the lock. */
	for (unsigned i = 0; c->uncharged && i < k->nr; i++)
		prefetch_write((const char *)frame_of(c->m, pfn(frame_pfn(c->m, k->b[i].f).v ^ 1ULL << k->b[i].order)));
	machine_lock(c, &z->lock);
	for (unsigned i = 0; i < k->nr; i++)
		buddy_free(c, z, k->b[i].f, k->b[i].order);
	look_at_high(c, z);
	machine_unlock(c, &z->lock);
	k->nr = 0;
}

/* Give back at least `frames` frames, starting with one list and going round. */
static void pcp_trim(struct cpu *c, struct zone *z, struct pcp_list *p, uint32_t frames, unsigned mt, unsigned idx)
{
	enum machine_path outer = machine_work(c, PATH_PCP_REFILL, 0);
	uint32_t keep = p->total > frames ? p->total - frames : 0;
	struct pcp_chunk k = { .nr = 0 };

	while (p->total > keep) {
		struct list_head *l = &p->list[mt][idx];

		while (!list_empty(l) && p->total > keep) {
			struct frame *f = list_last_entry(l, struct frame, lru);

			machine_work(c, PATH_PCP_REFILL, 1);
			pcp_unlink(c, p, f, (enum migrate_type)mt, (int)idx, 0);
			chunk_add(c, &k, f, pcp_order((int)idx));
			if (k.nr == PCP_CHUNK)
				chunk_give(c, z, &k);
		}
		if (++mt == NR_MIGRATE_TYPES) {
			mt = 0;
			idx = (idx + 1) % NR_PCP_ORDERS;
		}
	}
	if (k.nr)
		chunk_give(c, z, &k);
	machine_path(c, outer);
}

/* Blocks of orders 1 to 3 freed in a long row would stay here as fragments. */
static bool frees_large(struct pcp_list *p, unsigned order)
{
	bool large = order && order <= PCP_COSTLY_ORDER,
	     all = large && p->freed_large && p->free_count >= p->batch + p->high_min / 2 && p->total >= p->batch;

	p->freed_large = large;
	return all;
}

/* A block has come. How many frames should go, 0: none. */
static uint32_t frames_to_trim(const struct zone *z, struct pcp_list *p, unsigned order)
{
	bool all = frees_large(p, order);
	uint32_t high, burst;

	p->alloc_factor >>= 1;
	if (p->free_count < p->batch << BATCH_SCALE_MAX)
		p->free_count = (uint16_t)(p->free_count + (1U << order));
	if (all) {
		p->high = MAX(p->high > p->batch << BATCH_SCALE_MAX ? p->high - (p->batch << BATCH_SCALE_MAX) : 0, p->high_min);
		return MIN(p->total, p->batch << BATCH_SCALE_MAX);
	}
	high = p->high;
	burst = MAX((uint32_t)p->free_count, p->batch);
	if (p->high_min != p->high_max && below_high(z)) {
		p->high = MAX(p->high > burst ? p->high - burst : 0, p->high_min);
		high = MAX(p->total, p->high_min);
	} else if (p->total >= high && high < p->free_count + p->batch) {
		p->high = MIN(MAX(p->free_count + p->batch, p->high_min), p->high_max);
	}
	if (p->total < high)
		return 0;
	return high <= 2 * p->batch ? p->batch : MIN(burst, high - p->batch);
}

void pcp_free(struct cpu *c, struct zone *z, struct frame *f, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_PCP_FREE, 1);
	struct pcp_list *p = pcp_of(c, z);
	uint64_t p_v = frame_pfn(c->m, f).v;
	enum migrate_type mt = pageblock_type(z, p_v);
	uint32_t frames;

	machine_touch(c, p->pa, CACHE_LINE, TOUCH_ATOMIC);
	machine_touch(c, machine_pa(c->m, pageblock_of(z, p_v)), 1, TOUCH_READ);
	pcp_push(c, p, f, mt, pcp_index(order), false);
	frames = frames_to_trim(z, p, order);
	if (frames)
		pcp_trim(c, z, p, frames, mt, (unsigned)pcp_index(order));
	machine_path(c, outer);
}

void pcp_drain(struct cpu *c)
{
	for (unsigned n = 0; n < c->m->nr_nodes; n++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = &c->q->nodes[n].zones[t];
			struct pcp_list *p = pcp_of(c, z);

			if (p->total)
				pcp_trim(c, z, p, p->total, 0, 0);
		}
	}
}
