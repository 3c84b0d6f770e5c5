/*
 * Giving initialised frames to free lists, as a boot-time kernel gives them to its buddy allocator: each frame loses the reference that its
 * initialisation gave it, then its block merges with free buddies, whose descriptors are looked at (I1).
 */
#include "mm/meminit.h"

static uint64_t block_flags(const struct meminit_zone *z, unsigned order)
{
	return meminit_place(z->type, z->nid) | FRAME_BUDDY | ((uint64_t)order << FRAME_ORDER_SHIFT) |
	       ((uint64_t)MIGRATE_MOVABLE << FRAME_MT_SHIFT);
}

static paddr_t desc_pa(const struct meminit_worker *w, int nid, uint64_t p)
{
	const struct meminit_node *n = &w->mi->node[nid];

	return n->desc_pa + (p - n->desc_base) * sizeof(struct frame);
}

void meminit_charge(struct meminit_worker *w, int nid, enum machine_path path, uint64_t p, uint64_t n)
{
	if (w->c->uncharged)
		return;
	for (uint64_t i = 0; i < n; i++) {
		machine_work(w->c, path, 1);
		machine_touch(w->c, desc_pa(w, nid, p + i), sizeof(struct frame), TOUCH_WRITE);
	}
}

/* A descriptor that is read or written as part of a list. */
static void touch_desc(struct meminit_worker *w, const struct meminit_zone *z, uint64_t p, enum touch_kind kind)
{
	if (!w->c->uncharged)
		machine_touch(w->c, desc_pa(w, z->nid, p), sizeof(struct frame), kind);
}

static void touch_head(struct meminit_worker *w, const struct meminit_zone *z, unsigned order)
{
	machine_touch(w->c, z->pa + offsetof(struct meminit_zone, free) + order * sizeof(struct list_head), sizeof(struct list_head),
		      TOUCH_WRITE);
}

/* The entry that a new one is put before: its back link is written too. */
static void add(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order)
{
	struct frame *f = meminit_desc(w, p);

	frame_flags_put(f, block_flags(z, order));
	if (z->nr_free[order] && z->top[order] != MEMBLOCK_NONE)
		touch_desc(w, z, z->top[order], TOUCH_WRITE);
	if (!w->mi->transient)
		list_add(&f->lru, &z->free[order]);
	z->top[order] = p;
	z->nr_free[order]++;
	touch_desc(w, z, p, TOUCH_WRITE);
	touch_head(w, z, order);
}

void meminit_delete(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order)
{
	struct frame *f = meminit_desc(w, p);

	if (!w->mi->transient)
		list_del(&f->lru);
	frame_flags_put(f, meminit_place(z->type, z->nid));
	if (z->top[order] == p)
		z->top[order] = MEMBLOCK_NONE;
	z->nr_free[order]--;
	touch_desc(w, z, p, TOUCH_WRITE);
	touch_head(w, z, order);
}

static bool is_free_block(struct meminit_worker *w, const struct frame *f, unsigned order)
{
	uint64_t flags = frame_flags(f);

	if (unlikely(w->mi->find_poison) && flags == MEMINIT_POISON) {
		__atomic_add_fetch(&w->mi->poison_read, 1, __ATOMIC_RELAXED);
		return false;
	}
	return (flags & FRAME_BUDDY) && frame_order(f) == order;
}

void meminit_insert(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order)
{
	enum machine_path outer = machine_work(w->c, PATH_MEMINIT_BUDDY, 1);

	z->free_pages += 1ULL << order;
	for (; order < MAX_ORDER; order++) {
		uint64_t b = p ^ (1ULL << order);
		const struct frame *f = meminit_desc(w, b);

		touch_desc(w, z, b, TOUCH_READ);
		if (!is_free_block(w, f, order))
			break;
		meminit_delete(w, z, b, order);
		p &= b;
	}
	add(w, z, p, order);
	machine_path(w->c, outer);
}

static bool is_one_pass(const struct meminit_worker *w)
{
	return w->mi->step == MEMMAP_ONE_PASS || w->mi->step == MEMMAP_STREAMED;
}

ATTR_NOINLINE static void free_one(struct meminit_worker *w, struct meminit_zone *z, uint64_t p, unsigned order)
{
	struct frame *f = meminit_desc(w, p);

	if (!is_one_pass(w)) {
		for (uint64_t i = 0; i < 1ULL << order; i++) {
			/* Not locked yet: who frees a neighbour may be looking whether it is a free block. */
			frame_flags_put(&f[i], frame_flags(&f[i]) & ~FRAME_RESERVED);
			f[i].refcount = 0;
		}
		meminit_charge(w, z->nid, PATH_MEMINIT_FREE, p, 1ULL << order);
	}
	machine_lock(w->c, &z->lock);
	meminit_insert(w, z, p, order);
	machine_unlock(w->c, &z->lock);
}

void meminit_free_range(struct meminit_worker *w, struct meminit_zone *z, uint64_t s, uint64_t e)
{
	uint64_t n = e - s;

	while (s < e) {
		unsigned order = IS_ALIGNED(s, PAGEBLOCK_FRAMES) && e - s >= PAGEBLOCK_FRAMES ? PAGEBLOCK_ORDER : 0;

		free_one(w, z, s, order);
		s += 1ULL << order;
	}
	__atomic_add_fetch(&w->mi->node[z->nid].freed, n, __ATOMIC_RELAXED);
}

static uint64_t take(struct meminit_worker *w, struct meminit_zone *z, unsigned order)
{
	uint64_t p = MEMBLOCK_NONE;

	machine_lock(w->c, &z->lock);
	for (unsigned o = order; o <= MAX_ORDER && p == MEMBLOCK_NONE; o++) {
		struct frame *f;

		if (list_empty(&z->free[o]))
			continue;
		f = list_first_entry(&z->free[o], struct frame, lru);
		p = w->base + (uint64_t)(f - w->desc);
		meminit_delete(w, z, p, o);
		while (o > order) {
			o--;
			add(w, z, p + (1ULL << o), o);
		}
		z->free_pages -= 1ULL << order;
		f->refcount = 1;
		break;
	}
	machine_unlock(w->c, &z->lock);
	return p;
}

uint64_t meminit_alloc(struct meminit_worker *w, int nid, unsigned order)
{
	uint64_t p = MEMBLOCK_NONE;

	for (unsigned t = ZONE_DEVICE; t-- && p == MEMBLOCK_NONE;)
		p = take(w, &w->mi->node[nid].zone[t], order);
	return p;
}

void meminit_free(struct meminit_worker *w, int nid, uint64_t p, unsigned order)
{
	struct meminit_zone *z = &w->mi->node[nid].zone[frame_zone(meminit_desc(w, p))];

	machine_lock(w->c, &z->lock);
	meminit_desc(w, p)->refcount = 0;
	meminit_insert(w, z, p, order);
	machine_unlock(w->c, &z->lock);
}
