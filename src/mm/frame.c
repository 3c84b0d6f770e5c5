/*
 * Frame descriptors: references, and what a frame looks like when it is handed out and when it comes back.
 *
 * Allocated: node and zone set in every frame of the block, mapcounts -1, flags and references 0, in the first all else 0 too;
 * then the first frame has refcount 1 and the order of the allocation. A compound block's head has FRAME_HEAD, the others
 * FRAME_TAIL and head_pfn. Freed: nothing but node and zone, in every frame.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"
#include "mm/deferred_split.h"
#include "mm/lru.h"

void frame_touch_charged(struct cpu *c, const struct frame *f, enum touch_kind kind)
{
	machine_touch(c, frame_desc_pa(c->q, f), sizeof(*f), kind);
}

/* Where contents are tags, 0 is what clearing leaves, and any store changes it. */
bool frame_looks_zero(const struct machine *m, pfn_t p)
{
	const uint64_t *w;

	if (m->tags)
		return !__atomic_load_n(&m->tags[p.v], __ATOMIC_RELAXED);
	w = machine_ptr(m, pfn_to_paddr(p));
	for (unsigned i = 0; i < PAGE_SIZE / sizeof(*w); i++)
		if (__atomic_load_n(&w[i], __ATOMIC_RELAXED))
			return false;
	return true;
}

ATTR_NOINLINE bool frame_is_zero(struct cpu *c, pfn_t p)
{
	bool zero = frame_looks_zero(c->m, p);
	enum machine_path prev = machine_work(c, PATH_PAGE_IS_ZERO, zero);

	machine_touch(c, pfn_to_paddr(p), zero ? PAGE_SIZE : CACHE_LINE, TOUCH_READ);
	machine_path(c, prev);
	return zero;
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
	ASSERT(!(frame_flags(head) & (FRAME_TAIL | FRAME_RESERVED | FRAME_BUDDY | FRAME_PCP)));
	now = __atomic_sub_fetch(&head->refcount, 1, __ATOMIC_ACQ_REL);
	ASSERT(now >= 0);
	frame_touch(c, head, TOUCH_ATOMIC);
	if (!now) {
		if (unlikely(frame_flags(head) & FRAME_HUGETLB)) {
			hugetlb_free(c, head);
			return;
		}
		if (frame_flags(head) & FRAME_LRU)
			lru_release(c, head);
		page_free(c, head, frame_order(head));
	}
}

/* A frame that has just been taken from the allocator, refcount 0. Its refcount is not written: a lookup may be looking at it. */
static ATTR_ALWAYS_INLINE void frame_reset(struct frame *f, uint64_t flags, uint64_t head_pfn)
{
	frame_flags_put(f, flags);
	f->tail.head_pfn = head_pfn;
	f->tail.pad = 0;
	f->mapping = f->index = f->priv = f->memcg = 0;
	f->mapcount = -1;
}

ATTR_NOINLINE static void frame_prep_compound(struct cpu *c, struct frame *head, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_PREP_COMPOUND, 1ULL << order);
	uint64_t place = frame_flags(head) & FRAME_PLACE_MASK, head_pfn = frame_pfn(c->m, head).v, n = 1ULL << order;

	frame_flags_put(head, frame_flags(head) | FRAME_HEAD);
	head->entire_mapcount = -1;
	head->nr_pages_mapped = 0;
	for (uint64_t i = 1; i < n; i++)
		frame_reset(head + i, place | FRAME_TAIL, head_pfn);
	list_init(&head[1].deferred);
	machine_touch(c, frame_desc_pa(c->q, head + 1), (n - 1) * sizeof(*head), TOUCH_WRITE);
	machine_path(c, outer);
}

void frame_prep(struct cpu *c, struct frame *f, unsigned order, bool compound)
{
	uint64_t place = frame_flags(f) & FRAME_PLACE_MASK;
	bool fresh = frame_flags(f) & FRAME_FRESH;

	frame_reset(f, place | ((uint64_t)order << FRAME_ORDER_SHIFT), 0);
	list_init(&f->lru);
	frame_touch(c, f, TOUCH_WRITE);
	if (compound && order) {
		frame_prep_compound(c, f, order);
	} else if (fresh) {
		/* Linux leaves these as boot made them; here they may be seen for the first time. Uncharged. */
		for (uint64_t i = 1; i < 1ULL << order; i++)
			frame_reset(f + i, place, 0);
	}
	__atomic_store_n(&f->refcount, 1, __ATOMIC_RELEASE); /* F6 */
}

ATTR_NOINLINE static void frame_clear_compound(struct cpu *c, struct frame *head, unsigned order)
{
	enum machine_path outer = machine_work(c, PATH_CLEAR_COMPOUND, 1ULL << order);
	uint64_t place = frame_flags(head) & FRAME_PLACE_MASK, n = 1ULL << order;

	ASSERT(head->entire_mapcount == -1 && head->nr_pages_mapped == 0 && list_empty(&head[1].deferred));
	head[1].mapping = head[1].index = 0;
	for (uint64_t i = 1; i < n; i++) {
		ASSERT((frame_flags(head + i) & FRAME_TAIL) && head[i].mapcount == -1);
		frame_flags_put(head + i, place);
		head[i].tail.head_pfn = 0;
	}
	machine_touch(c, frame_desc_pa(c->q, head + 1), (n - 1) * sizeof(*head), TOUCH_WRITE);
	machine_path(c, outer);
}

/* What a huge page was good for. Free of charge, so only where contents need not be looked through. */
static void count_unwritten(struct cpu *c, const struct frame *head, unsigned order)
{
	const uint64_t *tags = c->m->tags ? c->m->tags + frame_pfn(c->m, head).v : NULL;
	int64_t n = 0;

	if (!tags || order != HPAGE_PMD_ORDER || !(frame_flags(head) & FRAME_ANON))
		return;
	for (unsigned i = 0; i < 1U << order; i++)
		n += !__atomic_load_n(&tags[i], __ATOMIC_RELAXED);
	vmstat_inc(c, VM_quire_thp_freed);
	vmstat_add(c, VM_quire_thp_freed_unwritten, n);
}

void frame_unprep(struct cpu *c, struct frame *f, unsigned order)
{
	ASSERT(f->refcount == 0 && f->mapcount == -1 && frame_order(f) == order);
	ASSERT(!(frame_flags(f) & (FRAME_TAIL | FRAME_RESERVED | FRAME_BUDDY | FRAME_PCP | FRAME_FILE | FRAME_LRU | FRAME_ISOLATED | FRAME_SWAPCACHE)));
	ASSERT(f->priv == 0);
	frame_touch(c, f, TOUCH_WRITE);
	if (frame_flags(f) & FRAME_HEAD) {
		deferred_split_unqueue(c, f);
		count_unwritten(c, f, order);
		frame_clear_compound(c, f, order);
	} else {
		for (uint64_t i = 1; i < 1ULL << order; i++)
			ASSERT_DEBUG(frame_flags(f + i) == (frame_flags(f) & FRAME_PLACE_MASK) && f[i].mapcount == -1 && !f[i].refcount);
	}
	frame_flags_put(f, frame_flags(f) & FRAME_PLACE_MASK);
	f->mapping = 0;
	f->index = 0;
}
