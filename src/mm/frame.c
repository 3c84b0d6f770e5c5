/*
 * Frame descriptors: references, and what a frame looks like when it is handed out and when it comes back.
 *
 * Allocated: node and zone set in every frame of the block, mapcounts -1, all else 0; the first frame has refcount 1
 * and the order of the allocation. A compound block's head has FRAME_HEAD, the others FRAME_TAIL and head_pfn. Freed:
 * nothing but node and zone.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"

void frame_touch(struct cpu *c, const struct frame *f, enum touch_kind kind)
{
	machine_touch(c, frame_desc_pa(c->q, f), sizeof(*f), kind);
}

void frame_get(struct cpu *c, struct frame *head)
{
	int32_t now = __atomic_add_fetch(&head->refcount, 1, __ATOMIC_RELAXED);

	ASSERT(now > 1);
	frame_touch(c, head, TOUCH_ATOMIC);
}

bool frame_tryget(struct cpu *c, struct frame *head)
{
	int32_t old = __atomic_load_n(&head->refcount, __ATOMIC_RELAXED);

	frame_touch(c, head, TOUCH_ATOMIC);
	while (old > 0)
		if (__atomic_compare_exchange_n(&head->refcount, &old, old + 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

void frame_put(struct cpu *c, struct frame *head)
{
	int32_t now;

	/* Looked at before the reference goes: afterwards the frame may be somebody else's. */
	ASSERT(!(head->flags & (FRAME_TAIL | FRAME_RESERVED | FRAME_BUDDY | FRAME_PCP)));
	now = __atomic_sub_fetch(&head->refcount, 1, __ATOMIC_ACQ_REL);
	ASSERT(now >= 0);
	frame_touch(c, head, TOUCH_ATOMIC);
	if (!now)
		page_free(c, head, frame_order(head));
}

ATTR_NOINLINE static void frame_prep_compound(struct cpu *c, struct frame *head, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_PREP_COMPOUND, 1ULL << order);
	uint64_t place = head->flags & FRAME_PLACE_MASK, head_pfn = frame_pfn(c->m, head).v, n = 1ULL << order;

	head->flags |= FRAME_HEAD;
	head->entire_mapcount = -1;
	head->nr_pages_mapped = 0;
	for (uint64_t i = 1; i < n; i++)
		head[i] = (struct frame){ .flags = place | FRAME_TAIL, .tail.head_pfn = head_pfn, .mapcount = -1 };
	machine_touch(c, frame_desc_pa(c->q, head + 1), (n - 1) * sizeof(*head), TOUCH_WRITE);
	machine_path(c, outer);
}

void frame_prep(struct cpu *c, struct frame *f, unsigned order, bool compound)
{
	uint64_t place = f->flags & FRAME_PLACE_MASK;

	*f = (struct frame){ .flags = place | ((uint64_t)order << FRAME_ORDER_SHIFT), .mapcount = -1, .refcount = 1 };
	list_init(&f->lru);
	frame_touch(c, f, TOUCH_WRITE);
	if (compound && order) {
		frame_prep_compound(c, f, order);
		return;
	}
	/* Linux leaves these as boot made them; here they may be seen for the first time. Uncharged. */
	for (uint64_t i = 1; i < 1ULL << order; i++)
		f[i] = (struct frame){ .flags = place, .mapcount = -1 };
}

ATTR_NOINLINE static void frame_clear_compound(struct cpu *c, struct frame *head, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_CLEAR_COMPOUND, 1ULL << order);
	uint64_t place = head->flags & FRAME_PLACE_MASK, n = 1ULL << order;

	ASSERT(head->entire_mapcount == -1 && head->nr_pages_mapped == 0);
	for (uint64_t i = 1; i < n; i++) {
		ASSERT((head[i].flags & FRAME_TAIL) && head[i].mapcount == -1);
		head[i].flags = place;
		head[i].tail.head_pfn = 0;
	}
	machine_touch(c, frame_desc_pa(c->q, head + 1), (n - 1) * sizeof(*head), TOUCH_WRITE);
	machine_path(c, outer);
}

void frame_unprep(struct cpu *c, struct frame *f, unsigned order)
{
	ASSERT(f->refcount == 0 && f->mapcount == -1 && frame_order(f) == order);
	ASSERT(!(f->flags & (FRAME_TAIL | FRAME_RESERVED | FRAME_BUDDY | FRAME_PCP | FRAME_FILE)));
	frame_touch(c, f, TOUCH_WRITE);
	if (f->flags & FRAME_HEAD)
		frame_clear_compound(c, f, order);
	f->flags &= FRAME_PLACE_MASK;
	f->mapping = 0;
	f->index = 0;
	f->priv = 0;
}
