/*
 * The buddy allocator of one zone: blocks of 2^0 to 2^10 frames, on free lists by order and migrate type.
 *
 * Invariants (all under zone->lock; memory_validate checks them)
 *  A1 A free block's first frame has FRAME_BUDDY, its order and the migrate type of the list it is on; no frame inside
 *     it has.
 *  A2 A block is aligned to its size and lies within [first_pfn, deferred_pfn).
 *  A3 No two free buddies of one order below MAX_ORDER exist: they would have been merged.
 *  A4 free_pages is the sum of the blocks and the deferred frames.
 *  A5 A free block is on the list of its pageblock's type (of all its pageblocks' type, when it is that large).
 *  A6 A pageblock changes its type only while it is claimed (all its free blocks move with it) or merged into a larger
 *     free block.
 * A pageblock (2 MiB) has a migrate type: freed blocks go to that type's lists, so that movable and unmovable frames
 * do not mix. A type that has run out falls back, by Linux's rules:
 *  1. Claim: the largest foreign block first, since then the fewest pageblocks become mixed. What covers whole pageblocks
 *     is taken with them. Of a smaller one, the pageblock is taken over when at least half of it is free or already used
 *     in our way. Movable requests claim from blocks of 64 KiB (order 4) up only: they do no lasting harm elsewhere.
 *  2. Steal: the smallest foreign block that will do, whose pageblock stays what it is.
 * Before a pageblock is mixed the zone's watermarks are boosted. Deferred sections are movable blocks of the largest order
 * that are written just in time.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"

static paddr_t area_pa(const struct cpu *c, const struct zone *z, unsigned order)
{
	return machine_pa(c->m, &z->free_area[order]);
}

static uint64_t buddy_flags(const struct zone *z, unsigned order, enum migrate_type mt)
{
	return zone_place(z) | FRAME_BUDDY | ((uint64_t)order << FRAME_ORDER_SHIFT) | ((uint64_t)mt << FRAME_MT_SHIFT);
}

/* Readers of the watermarks look without the lock. */
static ATTR_ALWAYS_INLINE void count_blocks(struct free_area *a, uint64_t n)
{
	__atomic_store_n(&a->nr_free, a->nr_free + n, __ATOMIC_RELAXED);
}

void buddy_seed(struct quire *q, struct zone *z, uint64_t pfn_v, unsigned order, enum migrate_type mt)
{
	struct frame *f = frame_of(q->m, pfn(pfn_v));

	frame_flags_put(f, buddy_flags(z, order, mt) | FRAME_FRESH);
	list_add_tail(&f->lru, &z->free_area[order].list[mt]);
	count_blocks(&z->free_area[order], 1);
}

/* Inline, as is area_del: shared by two paths that are priced apart. */
static ATTR_ALWAYS_INLINE void area_add(struct cpu *c, struct zone *z, struct frame *f, unsigned order,
					enum migrate_type mt)
{
	struct free_area *a = &z->free_area[order];

	frame_flags_put(f, buddy_flags(z, order, mt) | (frame_flags(f) & FRAME_FRESH));
	list_add(&f->lru, &a->list[mt]);
	count_blocks(a, 1);
	frame_touch(c, f, TOUCH_WRITE);
	memmap_touch_link(c, f->lru.next);
	machine_touch(c, area_pa(c, z, order), sizeof(*a), TOUCH_WRITE);
}

static ATTR_ALWAYS_INLINE void area_del(struct cpu *c, struct zone *z, struct frame *f, unsigned order)
{
	struct free_area *a = &z->free_area[order];
	const struct list_head *prev = f->lru.prev, *next = f->lru.next;

	list_del(&f->lru);
	frame_flags_put(f, zone_place(z) | (frame_flags(f) & FRAME_FRESH));
	count_blocks(a, -1ULL);
	frame_touch(c, f, TOUCH_WRITE);
	memmap_touch_link(c, prev);
	memmap_touch_link(c, next);
	machine_touch(c, area_pa(c, z, order), sizeof(*a), TOUCH_WRITE);
}

/* Give back what is too much of a block: its upper half, then the upper half of the rest, down to the order wanted. */
static void buddy_expand(struct cpu *c, struct zone *z, struct frame *f, unsigned high, unsigned low,
			 enum migrate_type mt)
{
	uint64_t fresh = frame_flags(f) & FRAME_FRESH;

	while (high > low) {
		high--;
		if (fresh)
			frame_flags_put(f + (1ULL << high), fresh);
		area_add(c, z, f + (1ULL << high), high, mt);
	}
}

/*
 * From the lists of one type, the smallest block that is large enough. Of it the first part of up to *order_io, or, where it is
 * smaller, all; *order_io then is its order.
 */
static struct frame *take_upto(struct cpu *c, struct zone *z, unsigned order, unsigned *order_io, enum migrate_type mt)
{
	for (unsigned o = order; o <= MAX_ORDER; o++) {
		struct free_area *a = &z->free_area[o];

		machine_touch(c, machine_pa(c->m, &a->list[mt]), sizeof(a->list[mt]), TOUCH_READ);
		if (list_empty(&a->list[mt]))
			continue;
		struct frame *f = list_first_entry(&a->list[mt], struct frame, lru);

		*order_io = MIN(*order_io, o);
		area_del(c, z, f, o);
		buddy_expand(c, z, f, o, *order_io, mt);
		return f;
	}
	return NULL;
}

static struct frame *buddy_take(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt)
{
	unsigned exact = order;

	return take_upto(c, z, order, &exact, mt);
}

/* Set the type of the pageblocks that a block of at least a pageblock covers. */
static void pageblocks_retype(struct cpu *c, struct zone *z, uint64_t start, uint64_t frames, enum migrate_type mt)
{
	for (uint64_t p = start; p < start + frames; p += PAGEBLOCK_FRAMES) {
		uint8_t *t = pageblock_of(z, p);

		/* A PAGEBLOCK_SKIP that comes or goes in between is lost, which does no harm. */
		__atomic_store_n(t, (uint8_t)((__atomic_load_n(t, __ATOMIC_RELAXED) & PAGEBLOCK_SKIP) | mt), __ATOMIC_RELAXED);
		machine_touch(c, machine_pa(c->m, t), 1, TOUCH_WRITE);
	}
}

/*
 * How many of a pageblock's frames are free, and how many of the others can be moved. Frames in use belong to others, who
 * may change them meanwhile: only their flags are looked at, and the answer is an estimate, as in Linux.
 */
static void pageblock_count(struct cpu *c, const struct zone *z, uint64_t start, uint64_t *ret_free, uint64_t *ret_movable)
{
	uint64_t end = start + PAGEBLOCK_FRAMES;

	*ret_free = *ret_movable = 0;
	for (uint64_t p = MAX(start, z->first_pfn); p < end;) {
		const struct frame *f = frame_of(c->m, pfn(p));
		uint64_t flags = frame_flags(f), n = 1;

		frame_touch(c, f, TOUCH_READ);
		if (flags & (FRAME_BUDDY | FRAME_HEAD))
			n = MIN(1ULL << ((flags >> FRAME_ORDER_SHIFT) & 0xff), end - p);
		if (flags & FRAME_BUDDY)
			*ret_free += n;
		else if (flags & (FRAME_ANON | FRAME_FILE | FRAME_LRU))
			*ret_movable += n;
		p += n;
	}
}

static void pageblock_move_free(struct cpu *c, struct zone *z, uint64_t start, enum migrate_type mt)
{
	for (uint64_t p = MAX(start, z->first_pfn); p < start + PAGEBLOCK_FRAMES;) {
		struct frame *f = frame_of(c->m, pfn(p));
		unsigned order = frame_order(f);

		if (!(frame_flags(f) & FRAME_BUDDY)) {
			p++;
			continue;
		}
		area_del(c, z, f, order);
		area_add(c, z, f, order, mt);
		p += 1ULL << order;
	}
}

/*
 * Take over the pageblock around a free block of type `from`, where that is worth it. What unmovable and reclaimable
 * requests find of use in a movable pageblock is all that cannot be moved; in each other's they can't tell.
 */
static bool pageblock_claim(struct cpu *c, struct zone *z, uint64_t pfn_v, enum migrate_type mt, enum migrate_type from)
{
	uint64_t start = ALIGN_DOWN(pfn_v, PAGEBLOCK_FRAMES), free, movable, alike = 0;

	if (start < z->start_pfn || start + PAGEBLOCK_FRAMES > z->deferred_pfn)
		return false;
	pageblock_count(c, z, start, &free, &movable);
	if (mt == MIGRATE_MOVABLE)
		alike = movable;
	else if (from == MIGRATE_MOVABLE)
		alike = PAGEBLOCK_FRAMES - free - movable;
	if (free + alike < PAGEBLOCK_FRAMES / 2)
		return false;
	pageblock_move_free(c, z, start, mt);
	pageblocks_retype(c, z, start, PAGEBLOCK_FRAMES, mt);
	return true;
}

/*
 * The type from which to steal a block of this order: unmovable and reclaimable take from each other before they take
 * movable.
 */
static int steal_from(struct cpu *c, const struct zone *z, unsigned order, enum migrate_type mt)
{
	static const uint8_t others[NR_MIGRATE_TYPES][NR_MIGRATE_TYPES - 1] = {
		[MIGRATE_UNMOVABLE] = { MIGRATE_RECLAIMABLE, MIGRATE_MOVABLE },
		[MIGRATE_MOVABLE] = { MIGRATE_RECLAIMABLE, MIGRATE_UNMOVABLE },
		[MIGRATE_RECLAIMABLE] = { MIGRATE_UNMOVABLE, MIGRATE_MOVABLE },
	};

	machine_touch(c, area_pa(c, z, order), sizeof(z->free_area[order]), TOUCH_READ);
	for (unsigned i = 0; i < NR_MIGRATE_TYPES - 1; i++)
		if (!list_empty(&z->free_area[order].list[others[mt][i]]))
			return others[mt][i];
	return -1;
}

/*
 * One block of another type without its pageblock; what is left of it stays with that type. The smallest that will do.
 */
static struct frame *steal_block(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt)
{
	for (unsigned o = order; o <= MAX_ORDER; o++) {
		int from = steal_from(c, z, o, mt);

		if (from < 0)
			continue;
		vmstat_inc(c, VM_quire_fallback_steal);
		return buddy_take(c, z, order, (enum migrate_type)from);
	}
	return NULL;
}

/* A block whose pageblock, or pageblocks, come along. Only whole ones with nofragment. */
static struct frame *claim_block(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment)
{
	unsigned least = nofragment ? MAX(order, (unsigned)PAGEBLOCK_ORDER) : order;

	if (mt == MIGRATE_MOVABLE)
		least = MAX(least, PAGEBLOCK_ORDER / 2U);
	for (unsigned o = MAX_ORDER + 1; o-- > least;) {
		int from = steal_from(c, z, o, mt);

		if (from < 0)
			continue;
		struct frame *f = list_first_entry(&z->free_area[o].list[from], struct frame, lru);
		uint64_t p = frame_pfn(c->m, f).v;

		if (o >= PAGEBLOCK_ORDER) {
			pageblocks_retype(c, z, p, 1ULL << o, mt);
			area_del(c, z, f, o);
			buddy_expand(c, z, f, o, order, mt);
			vmstat_inc(c, VM_quire_fallback_claim);
			return f;
		}
		zone_boost(c, z);
		if (pageblock_claim(c, z, p, mt, (enum migrate_type)from)) {
			vmstat_inc(c, VM_quire_fallback_claim);
			return buddy_take(c, z, order, mt);
		}
	}
	return NULL;
}

struct frame *buddy_alloc(struct cpu *c, struct zone *z, unsigned order, enum migrate_type mt, bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_BUDDY_ALLOC, 1);
	struct frame *f = buddy_take(c, z, order, mt);

	/* Deferred sections come before theft: they are the largest movable blocks there are. */
	while (!f && list_empty(&z->free_area[MAX_ORDER].list[MIGRATE_MOVABLE])) {
		if (!memmap_materialise(c->q, z))
			break;
		if (mt == MIGRATE_MOVABLE)
			f = buddy_take(c, z, order, mt);
	}
	if (!f)
		f = claim_block(c, z, order, mt, nofragment);
	if (!f && !nofragment)
		f = steal_block(c, z, order, mt);
	if (f)
		__atomic_store_n(&z->free_pages, z->free_pages - (1ULL << order), __ATOMIC_RELAXED);
	machine_path(c, outer);
	return f;
}

struct frame *buddy_alloc_upto(struct cpu *c, struct zone *z, unsigned order, unsigned *order_io, enum migrate_type mt,
			       bool nofragment)
{
	enum machine_path outer = machine_work(c, PATH_BUDDY_ALLOC, 1);
	struct frame *f = take_upto(c, z, order, order_io, mt);

	if (f) {
		__atomic_store_n(&z->free_pages, z->free_pages - (1ULL << *order_io), __ATOMIC_RELAXED);
	} else {
		*order_io = order;
		f = buddy_alloc(c, z, order, mt, nofragment);
	}
	machine_path(c, outer);
	return f;
}

uint64_t isolate_free_block(struct cpu *c, struct zone *z, uint64_t pfn_v, unsigned *ret_order)
{
	uint64_t start = ALIGN_DOWN(pfn_v, PAGEBLOCK_FRAMES), n;
	struct frame *f = frame_of(c->m, pfn(pfn_v));

	if (pfn_v < z->first_pfn || pfn_v >= z->deferred_pfn)
		return 0;
	frame_touch(c, f, TOUCH_READ);
	if (!(frame_flags(f) & FRAME_BUDDY))
		return 0;
	*ret_order = frame_order(f);
	n = 1ULL << *ret_order;
	/* As if it were allocated, by a request for the lowest zone; the boost is not for this. */
	if (!zone_watermark_ok(c, z, 0, z->watermark[WMARK_MIN] + n, ZONE_DMA32, 0))
		return 0;
	buddy_take_block(c, z, f, *ret_order);
	/* Its pageblock, half of it at least, will hold pages that can be moved. */
	if (*ret_order >= PAGEBLOCK_ORDER - 1 && start >= z->start_pfn && start + PAGEBLOCK_FRAMES <= z->deferred_pfn) {
		if (*ret_order < PAGEBLOCK_ORDER)
			pageblock_move_free(c, z, start, MIGRATE_MOVABLE);
		pageblocks_retype(c, z, start, MAX(n, PAGEBLOCK_FRAMES), MIGRATE_MOVABLE);
	}
	return n;
}

void split_free_block(struct cpu *c, struct frame *f, unsigned order, unsigned to)
{
	uint64_t flags = frame_flags(f) & (FRAME_PLACE_MASK | FRAME_FRESH);

	for (uint64_t at = 0; at < 1ULL << order; at += 1ULL << to) {
		frame_flags_put(f + at, flags);
		frame_touch(c, f + at, TOUCH_WRITE);
	}
}

void buddy_take_block(struct cpu *c, struct zone *z, struct frame *f, unsigned order)
{
	ASSERT((frame_flags(f) & FRAME_BUDDY) && frame_order(f) == order);
	area_del(c, z, f, order);
	__atomic_store_n(&z->free_pages, z->free_pages - (1ULL << order), __ATOMIC_RELAXED);
}

/*
 * Is a compaction on this CPU waiting for this very block? Then it is its own, as if it had been allocated: nobody else gets it in
 * between. Small requests do not take pieces out of movable pageblocks in this way.
 */
ATTR_NOINLINE static bool captured(struct cpu *c, struct zone *z, struct frame *freed, struct frame *f, uint64_t fresh, unsigned order)
{
	enum migrate_type mt = pageblock_type(z, frame_pfn(c->m, f).v);

	for (struct buddy_capture *k = c->pc->captures; k; k = k->next) {
		if (k->block || k->z != z || k->order != order)
			continue;
		if (order < PAGEBLOCK_ORDER && mt == MIGRATE_MOVABLE && k->mt != MIGRATE_MOVABLE)
			continue;
		if (order >= PAGEBLOCK_ORDER && mt != k->mt)
			pageblocks_retype(c, z, frame_pfn(c->m, f).v, 1ULL << order, k->mt);
		frame_flags_put(freed, zone_place(z));
		frame_flags_put(f, zone_place(z) | fresh);
		frame_touch(c, f, TOUCH_WRITE);
		k->block = f;
		return true;
	}
	return false;
}

void buddy_free(struct cpu *c, struct zone *z, struct frame *f, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_BUDDY_FREE, 1);
	uint64_t p = frame_pfn(c->m, f).v, freed = 1ULL << order, fresh = frame_flags(f) & FRAME_FRESH;
	enum migrate_type mt = pageblock_type(z, p);

	ASSERT_DEBUG(IS_ALIGNED(p, freed) && p >= z->first_pfn && p + freed <= z->deferred_pfn);
	for (; order < MAX_ORDER; order++) {
		uint64_t b = p ^ (1ULL << order);
		struct frame *bf = frame_of(c->m, pfn(b));

		if (unlikely(c->pc->captures) && captured(c, z, f, frame_of(c->m, pfn(p)), fresh, order)) {
			__atomic_store_n(&z->free_pages, z->free_pages + freed - (1ULL << order), __ATOMIC_RELAXED);
			machine_path(c, outer);
			return;
		}
		if (b < z->first_pfn || b + (1ULL << order) > z->deferred_pfn)
			break;
		frame_touch(c, bf, TOUCH_READ);
		if (!(frame_flags(bf) & FRAME_BUDDY) || frame_order(bf) != order)
			break;
		if (order >= PAGEBLOCK_ORDER && frame_mt(bf) != mt)
			pageblocks_retype(c, z, b, 1ULL << order, mt);
		area_del(c, z, bf, order);
		fresh |= frame_flags(bf) & FRAME_FRESH;
		frame_flags_put(bf, zone_place(z));
		p &= b;
	}
	if (fresh) {
		frame_flags_put(f, zone_place(z)); /* it may be inside of the block now */
		frame_flags_put(frame_of(c->m, pfn(p)), fresh);
	}
	area_add(c, z, frame_of(c->m, pfn(p)), order, mt);
	__atomic_store_n(&z->free_pages, z->free_pages + freed, __ATOMIC_RELAXED);
	machine_path(c, outer);
}
