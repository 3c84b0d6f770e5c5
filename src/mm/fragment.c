/*
 * Fragmentation: the indices, and shaping a zone.
 *
 * Shaping lays the wanted free blocks out from the zone's blocks of the largest order, large ones first. A block of order o gets the
 * lower half of a slot of order o + 1 whose upper half stays taken, so that nothing merges; blocks of the largest order are left as
 * they are. Slots are cut from the largest blocks without gaps, since their sizes only shrink.
 */
#include "mm/fragment.h"

#include "base/errno.h"
#include "mm/alloc_int.h"

static void count_deferred(const struct zone *z, struct free_blocks *ret)
{
	for (uint64_t p = z->deferred_pfn; p < z->end_pfn;) {
		unsigned order = p ? MIN((unsigned)__builtin_ctzll(p), (unsigned)MAX_ORDER) : MAX_ORDER;

		while (p + (1ULL << order) > z->end_pfn)
			order--;
		/* All of the largest at once: there may be millions. */
		if (order == MAX_ORDER) {
			uint64_t n = (z->end_pfn - p) >> MAX_ORDER;

			ret->nr[MAX_ORDER] += n;
			p += n << MAX_ORDER;
		} else {
			ret->nr[order]++;
			p += 1ULL << order;
		}
	}
}

void free_blocks_count(const struct zone *z, enum migrate_type mt, struct free_blocks *ret)
{
	*ret = (struct free_blocks){ 0 };
	if (mt == NR_MIGRATE_TYPES || mt == MIGRATE_MOVABLE)
		count_deferred(z, ret);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		const struct free_area *a = &z->free_area[o];

		if (mt == NR_MIGRATE_TYPES) {
			ret->nr[o] += a->nr_free;
			continue;
		}
		for (const struct list_head *l = a->list[mt].next; l != &a->list[mt]; l = l->next)
			ret->nr[o]++;
	}
}

uint64_t free_blocks_pages(const struct free_blocks *b)
{
	uint64_t n = 0;

	for (unsigned o = 0; o <= MAX_ORDER; o++)
		n += b->nr[o] << o;
	return n;
}

/* Blocks of this order that the free memory yields. */
static uint64_t suitable(const struct free_blocks *b, unsigned order)
{
	uint64_t n = 0;

	for (unsigned o = order; o <= MAX_ORDER; o++)
		n += b->nr[o] << (o - order);
	return n;
}

int unusable_index(const struct free_blocks *b, unsigned order)
{
	uint64_t free = free_blocks_pages(b);

	return free ? (int)((free - (suitable(b, order) << order)) * 1000 / free) : 1000;
}

int extfrag_index(const struct free_blocks *b, unsigned order)
{
	uint64_t free = free_blocks_pages(b), blocks = 0;

	for (unsigned o = 0; o <= MAX_ORDER; o++)
		blocks += b->nr[o];
	if (!blocks)
		return 0;
	if (suitable(b, order))
		return -1000;
	return 1000 - (int)((1000 + free * 1000 / (1ULL << order)) / blocks);
}

int zone_extfrag_index(struct cpu *c, const struct zone *z, unsigned order)
{
	struct free_blocks b = { 0 };

	/* Deferred sections are blocks of the largest order. */
	if (__atomic_load_n(&z->deferred_pfn, __ATOMIC_RELAXED) < z->end_pfn)
		return -1000;
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		b.nr[o] = __atomic_load_n(&z->free_area[o].nr_free, __ATOMIC_RELAXED);
	machine_touch(c, machine_pa(c->m, z->free_area), sizeof(z->free_area), TOUCH_READ);
	return extfrag_index(&b, order);
}

/* ---- shaping ---- */

/* Blocks of the largest order that are needed to lay `want` out, beside those that are wanted themselves. */
static uint64_t blocks_needed(const struct free_blocks *want)
{
	uint64_t frames = 0;

	for (unsigned o = 0; o < MAX_ORDER; o++)
		frames += want->nr[o] << (o + 1);
	return (frames + MAX_ORDER_FRAMES - 1) >> MAX_ORDER;
}

/* A block that has left the free lists is somebody's: a caller's, who keeps it on a list. */
static void hold(struct cpu *c, struct frame *f, unsigned order, struct list_head *held)
{
	frame_prep(c, f, order, false);
	list_add_tail(&f->lru, held);
}

/* Cut one block of the largest order into slots for what is still wanted. */
static void cut(struct cpu *c, struct zone *z, struct frame *f, struct free_blocks *left, struct list_head *held)
{
	unsigned order = MAX_ORDER - 1;

	for (uint64_t at = 0; at < MAX_ORDER_FRAMES;) {
		while (order && !left->nr[order])
			order--;
		if (!left->nr[order]) {
			/* What remains of the block, in the pieces that fit its alignment. */
			unsigned o = at ? (unsigned)__builtin_ctzll(at) : MAX_ORDER;

			hold(c, f + at, o, held);
			at += 1ULL << o;
			continue;
		}
		buddy_free(c, z, f + at, order);
		hold(c, f + at + (1ULL << order), order, held);
		left->nr[order]--;
		at += 1ULL << (order + 1);
	}
}

/* Every free block that there is, onto a list, linked by lru; how many of the largest order. */
static uint64_t take_all(struct cpu *c, struct zone *z, struct list_head *large, struct list_head *small)
{
	uint64_t n = 0;

	while (memmap_materialise(c->q, z))
		;
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++) {
			struct list_head *l = &z->free_area[o].list[mt];

			while (!list_empty(l)) {
				struct frame *f = list_first_entry(l, struct frame, lru);

				buddy_take_block(c, z, f, o);
				hold(c, f, o, o == MAX_ORDER ? large : small);
				n += o == MAX_ORDER;
			}
		}
	}
	return n;
}

static void give_back(struct cpu *c, struct zone *z, struct list_head *list)
{
	while (!list_empty(list)) {
		struct frame *f = list_first_entry(list, struct frame, lru);
		unsigned order = frame_order(f);

		list_del(&f->lru);
		f->refcount = 0;
		frame_unprep(c, f, order);
		buddy_free(c, z, f, order);
	}
}

int zone_shape(struct cpu *c, struct zone *z, const struct free_blocks *want, struct list_head *held)
{
	struct list_head large, small;
	struct free_blocks left = *want;
	int rc = 0;

	list_init(&large);
	list_init(&small);
	list_init(held);
	machine_lock(c, &z->lock);
	if (take_all(c, z, &large, &small) < want->nr[MAX_ORDER] + blocks_needed(want)) {
		give_back(c, z, &large);
		rc = -ENOSPC;
	}
	for (uint64_t i = 0; !list_empty(&large); i++) {
		struct frame *f = list_first_entry(&large, struct frame, lru);

		list_del(&f->lru);
		f->refcount = 0;
		frame_unprep(c, f, MAX_ORDER);
		if (i < want->nr[MAX_ORDER])
			buddy_free(c, z, f, MAX_ORDER);
		else
			cut(c, z, f, &left, held);
	}
	if (rc)
		give_back(c, z, &small);
	while (!list_empty(&small)) {
		struct frame *f = list_first_entry(&small, struct frame, lru);

		list_del(&f->lru);
		list_add_tail(&f->lru, held);
	}
	machine_unlock(c, &z->lock);
	return rc;
}

void zone_unshape(struct cpu *c, struct list_head *held)
{
	while (!list_empty(held)) {
		struct frame *f = list_first_entry(held, struct frame, lru);

		list_del(&f->lru);
		list_init(&f->lru);
		frame_put(c, f);
	}
}
