/*
 * Per-CPU lists in front of the buddy lists: a CPU takes and gives blocks of orders 0 to 3 and huge pages (order 9) without
 * the zone lock. Only its own CPU touches a list, and not across a sleep, so it needs no lock. Frames on it have
 * FRAME_PCP and are not in free_pages.
 *
 * Sizes as Linux has them (5.14 to 6.6, fixed; later ones also adapt between these and a higher mark):
 *  batch = 2^floor(log2(1.5 * b)) - 1 where b = min(managed / 1024, 256) / 4, at least 1: 63 frames in any zone of 1
 *     GiB or more
 *  high  = low watermark / CPUs of the node (all CPUs where it has none), or managed /
 *          vm.percpu_pagelist_high_fraction / CPUs where that is set; at least 4 * batch
 * An empty list takes `batch` frames at once (of larger blocks: as many as make up a batch, at least 2); beyond high,
 * `batch` frames go back, from the list just freed to first.
 */
#include "mm/alloc_int.h"

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

uint32_t pcp_high(const struct quire *q, const struct zone *z, uint32_t batch)
{
	uint32_t cpus = q->m->nodes[z->nid].nr_cpus, fraction = q->knobs.percpu_pagelist_high_fraction;
	uint64_t total = fraction ? z->managed / fraction : z->watermark[WMARK_LOW];

	return (uint32_t)MIN(MAX(total / (cpus ? cpus : q->m->nr_cpus), 4ULL * batch), (uint64_t)UINT32_MAX / 2);
}

void pcp_setup(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_nodes * NR_ZONES; i++) {
		const struct zone *z = &q->nodes[i / NR_ZONES].zones[i % NR_ZONES];
		uint32_t batch = pcp_batch(z->managed), high = pcp_high(q, z, batch);

		if (!z->managed)
			continue;
		for (unsigned cpu = 0; cpu < q->m->nr_cpus; cpu++) {
			struct pcp_list *p = &q->percpu[cpu]->pcp[i];

			p->batch = batch;
			p->high = high;
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
	ret->nr = 0;
	machine_lock(c, &z->lock);
	while (want && ret->nr < PCP_CHUNK) {
		unsigned run = order;

		while (run + 1 < PAGEBLOCK_ORDER && 2U << (run - order) <= want)
			run++;
		struct frame *f = buddy_alloc_upto(c, z, order, &run, mt, nofragment);

		if (!f)
			break;
		ret->b[ret->nr].f = f;
		ret->b[ret->nr++].order = run;
		want -= 1U << (run - order);
	}
	machine_unlock(c, &z->lock);
}

static void pcp_refill(struct cpu *c, struct zone *z, struct pcp_list *p, enum migrate_type mt, int idx, bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_PCP_REFILL, 0);
	unsigned order = pcp_order(idx), want = idx ? MAX(p->batch >> order, 2U) : p->batch;
	struct pcp_chunk k;

	pcp_take_runs(c, z, mt, order, want, nofragment, &k);
	for (unsigned i = 0; i < k.nr; i++) {
		uint64_t flags = frame_flags(k.b[i].f) & (FRAME_PLACE_MASK | FRAME_FRESH);

		/* In the order in which they came, so that a reader of new memory sees ascending addresses. */
		for (uint64_t at = 0; at < 1ULL << k.b[i].order; at += 1ULL << order) {
			machine_work(c, PATH_PCP_REFILL, 1);
			frame_flags_put(k.b[i].f + at, flags);
			pcp_push(c, p, k.b[i].f + at, mt, idx, true);
		}
	}
	machine_path(c, outer);
}

struct frame *pcp_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_PCP_ALLOC, 1);
	struct pcp_list *p = pcp_of(c, z);
	struct frame *f = NULL;
	int idx = pcp_index(order);

	machine_touch(c, p->pa, CACHE_LINE, TOUCH_ATOMIC);
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
 * Add a block to those that go back, and merge it with the one before where they are buddies, as long as both lie in a pageblock: what
 * was freed in order goes back as few large blocks, to the same result.
 */
static void chunk_add(const struct cpu *c, struct pcp_chunk *k, struct frame *f, unsigned order)
{
	while (k->nr && order + 1 < PAGEBLOCK_ORDER && k->b[k->nr - 1].order == order &&
	       frame_pfn(c->m, k->b[k->nr - 1].f).v == (frame_pfn(c->m, f).v ^ 1ULL << order)) {
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
	machine_lock(c, &z->lock);
	for (unsigned i = 0; i < k->nr; i++)
		buddy_free(c, z, k->b[i].f, k->b[i].order);
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

void pcp_free(struct cpu *c, struct zone *z, struct frame *f, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_PCP_FREE, 1);
	struct pcp_list *p = pcp_of(c, z);
	uint64_t p_v = frame_pfn(c->m, f).v;
	enum migrate_type mt = pageblock_type(z, p_v);

	machine_touch(c, p->pa, CACHE_LINE, TOUCH_ATOMIC);
	machine_touch(c, machine_pa(c->m, pageblock_of(z, p_v)), 1, TOUCH_READ);
	pcp_push(c, p, f, mt, pcp_index(order), false);
	if (p->total >= p->high)
		pcp_trim(c, z, p, p->batch, mt, (unsigned)pcp_index(order));
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
