/*
 * Slab allocator: objects of one size carved from blocks of frames, with a magazine of free objects a CPU in front.
 *
 * Invariants
 *  S1 A slab's first frame has FRAME_SLAB, its cache, the list of its free objects (slab_free) and how many are handed
 *     out (priv).
 *  S2 A slab is on the cache's partial list while it has a free object, else on the full list.
 *  S3 Handed out = in somebody's use or in a magazine. A magazine is touched by its own CPU only, never across a sleep.
 * Free objects are linked through their first word. Slabs and lists are guarded by cache->lock; frames are allocated
 * without it.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/radix.h"
#include "mm/kthread.h"
#include "mm/system.h"
#include "mm/text.h"
#include "mm/vma_int.h"

#include <string.h>

#define SLAB_MAX_ORDER 3U
#define SLAB_MIN_OBJECTS 8U /* a slab has at least so many, if order 3 can */
#define SLAB_KEEP_EMPTY 2U /* partial slabs beyond which an empty one is freed */

static unsigned slab_gfp(unsigned id)
{
	return GFP_KERNEL | (id == SLAB_RADIX ? GFP_RECLAIMABLE : 0);
}

static uint32_t magazine_size(uint32_t object)
{
	return object <= 256 ? 32 : object <= 1024 ? 16 : 4;
}

static void cache_init(struct quire *q, unsigned id, const char *name, size_t size)
{
	struct slab_cache *s = &q->slab[id];
	unsigned order = 0;

	s->name = name;
	s->id = id;
	s->size = (uint32_t)MAX(ALIGN_UP(size, 8), 16UL);
	while (order < SLAB_MAX_ORDER && ((PAGE_SIZE << order) / s->size < SLAB_MIN_OBJECTS ||
					  (PAGE_SIZE << order) % s->size > (PAGE_SIZE << order) / 16))
		order++;
	s->order = order;
	s->per_slab = (uint32_t)((PAGE_SIZE << order) / s->size);
	ASSERT(s->per_slab > 0);
	s->magazine = magazine_size(s->size);
	mlock_init(&s->lock, RANK_SLAB, machine_pa(q->m, &s->lock));
	list_init(&s->partial);
	list_init(&s->full);
}

int slab_boot(struct cpu *c, struct quire *q)
{
	(void)c;
	cache_init(q, SLAB_MM, "mm", sizeof(struct mm));
	cache_init(q, SLAB_VMA, "vma", sizeof(struct vma_object));
	cache_init(q, SLAB_FILE, "file", sizeof(struct mfile));
	cache_init(q, SLAB_RADIX, "radix", sizeof(struct radix_node));
	cache_init(q, SLAB_HUGETLB_RMAP, "hugetlb_rmap", sizeof(struct hugetlb_rmap));
	cache_init(q, SLAB_KTHREAD, "kthread", sizeof(struct kthread));
	cache_init(q, SLAB_ANON_VMA, "anon_vma", sizeof(struct anon_vma));
	q->slab[SLAB_ANON_VMA].typesafe = true;
	cache_init(q, SLAB_ANON_VMA_CHAIN, "anon_vma_chain", sizeof(struct anon_vma_chain));
	return 0;
}

static void **object_next(void *obj)
{
	return (void **)obj;
}

static struct frame *object_slab(struct machine *m, const void *obj)
{
	return frame_head(m, frame_of(m, paddr_to_pfn(machine_pa(m, obj))));
}

/* A fresh slab, all objects linked in ascending order. The lock is not held. */
static struct frame *slab_new(struct cpu *c, struct slab_cache *s)
{
	struct alloc_req r = { .order = s->order, .gfp = slab_gfp(s->id) | GFP_COMP, .nid = NID_NONE };
	struct frame *f = page_alloc(c, &r);
	char *base;

	if (!f)
		return NULL;
	frame_flags_put(f, frame_flags(f) | FRAME_SLAB);
	f->slab = s;
	f->priv = 0;
	base = machine_ptr(c->m, pfn_to_paddr(frame_pfn(c->m, f)));
	f->slab_free = base;
	if (s->typesafe)
		memset(base, 0, PAGE_SIZE << s->order);
	for (uint32_t i = 0; i < s->per_slab; i++) {
		char *obj = base + (size_t)i * s->size;

		*object_next(obj) = i + 1 < s->per_slab ? obj + s->size : NULL;
		machine_touch(c, machine_pa(c->m, obj), sizeof(void *), TOUCH_WRITE);
	}
	vmstat_add(c, VM_nr_slab_pages, (int64_t)(1ULL << s->order));
	return f;
}

/* Move up to `want` objects from partial slabs into the magazine. Lock held. Returns how many are still wanted. */
static uint32_t magazine_fill(struct cpu *c, struct slab_cache *s, uint32_t want)
{
	while (want && !list_empty(&s->partial)) {
		struct frame *f = list_first_entry(&s->partial, struct frame, lru);

		frame_touch(c, f, TOUCH_WRITE);
		for (; want && f->slab_free; want--) {
			void *obj = f->slab_free;

			machine_work(c, PATH_SLAB_REFILL, 1);
			machine_touch(c, machine_pa(c->m, obj), sizeof(void *), TOUCH_WRITE);
			f->slab_free = *object_next(obj);
			*object_next(obj) = c->pc->magazine[s->id].free;
			c->pc->magazine[s->id].free = obj;
			c->pc->magazine[s->id].count++;
			f->priv++;
			s->nr_objects++;
		}
		if (!f->slab_free) {
			list_del(&f->lru);
			list_add(&f->lru, &s->full);
			s->nr_partial--;
		}
	}
	return want;
}

static void magazine_refill(struct cpu *c, struct slab_cache *s)
{
	enum machine_path outer = machine_work(c, PATH_SLAB_REFILL, 0);
	uint32_t half = s->magazine / 2, want;
	struct frame *f;

	machine_lock(c, &s->lock);
	want = magazine_fill(c, s, half);
	machine_unlock(c, &s->lock);
	/* One object is enough to go on with. */
	f = want == half ? slab_new(c, s) : NULL;
	if (f) {
		machine_lock(c, &s->lock);
		list_add(&f->lru, &s->partial);
		s->nr_partial++;
		s->nr_slabs++;
		(void)magazine_fill(c, s, want);
		machine_unlock(c, &s->lock);
	}
	machine_path(c, outer);
}

void *slab_alloc(struct cpu *c, enum slab_id id)
{
	enum machine_path outer = machine_work(c, PATH_SLAB_ALLOC, 1);
	struct slab_cache *s = &c->q->slab[id];
	void *obj = NULL;

	machine_touch(c, c->pc->pa + offsetof(struct percpu, magazine[id]), sizeof(c->pc->magazine[id]), TOUCH_WRITE);
	if (!machine_inject(c, INJECT_SLAB_ALLOC, s->size)) {
		if (!c->pc->magazine[id].free)
			magazine_refill(c, s);
		obj = c->pc->magazine[id].free;
	}
	if (obj) {
		c->pc->magazine[id].free = *object_next(obj);
		c->pc->magazine[id].count--;
		if (likely(!s->typesafe))
			memset(obj, 0, s->size);
		machine_touch(c, machine_pa(c->m, obj), s->size, TOUCH_WRITE);
	}
	machine_path(c, outer);
	return obj;
}

/* One object back to its slab. Lock held. A slab that is thereby empty and not needed goes to `empty`. */
static void slab_give(struct cpu *c, struct slab_cache *s, void *obj, struct list_head *empty)
{
	struct frame *f = object_slab(c->m, obj);

	ASSERT((frame_flags(f) & FRAME_SLAB) && f->slab == s && f->priv > 0);
	if (!f->slab_free) {
		list_del(&f->lru);
		list_add(&f->lru, &s->partial);
		s->nr_partial++;
	}
	*object_next(obj) = f->slab_free;
	f->slab_free = obj;
	f->priv--;
	s->nr_objects--;
	if (!f->priv && s->nr_partial > SLAB_KEEP_EMPTY && !s->typesafe) {
		list_del(&f->lru);
		list_add(&f->lru, empty);
		s->nr_partial--;
		s->nr_slabs--;
	}
	machine_touch(c, machine_pa(c->m, obj), sizeof(void *), TOUCH_WRITE);
	frame_touch(c, f, TOUCH_WRITE);
}

static void slabs_release(struct cpu *c, const struct slab_cache *s, struct list_head *empty)
{
	while (!list_empty(empty)) {
		struct frame *f = list_first_entry(empty, struct frame, lru);

		list_del(&f->lru);
		frame_flags_put(f, frame_flags(f) & ~FRAME_SLAB);
		vmstat_add(c, VM_nr_slab_pages, -(int64_t)(1ULL << s->order));
		frame_put(c, f);
	}
}

/* Give objects of the magazine back until `keep` are left. */
static void magazine_flush(struct cpu *c, struct slab_cache *s, uint32_t keep)
{
	enum machine_path outer = machine_work(c, PATH_SLAB_REFILL, 0);
	struct list_head empty;

	list_init(&empty);
	machine_lock(c, &s->lock);
	while (c->pc->magazine[s->id].count > keep) {
		void *obj = c->pc->magazine[s->id].free;

		machine_work(c, PATH_SLAB_REFILL, 1);
		c->pc->magazine[s->id].free = *object_next(obj);
		c->pc->magazine[s->id].count--;
		slab_give(c, s, obj, &empty);
	}
	machine_unlock(c, &s->lock);
	slabs_release(c, s, &empty);
	machine_path(c, outer);
}

void slab_free(struct cpu *c, enum slab_id id, void *obj)
{
	enum machine_path outer = machine_work(c, PATH_SLAB_FREE, 1);
	struct slab_cache *s = &c->q->slab[id];

	ASSERT_DEBUG(object_slab(c->m, obj)->slab == s);
	if (c->pc->magazine[id].count >= s->magazine)
		magazine_flush(c, s, s->magazine / 2);
	*object_next(obj) = c->pc->magazine[id].free;
	c->pc->magazine[id].free = obj;
	c->pc->magazine[id].count++;
	machine_touch(c, c->pc->pa + offsetof(struct percpu, magazine[id]), sizeof(c->pc->magazine[id]), TOUCH_WRITE);
	machine_touch(c, machine_pa(c->m, obj), sizeof(void *), TOUCH_WRITE);
	machine_path(c, outer);
}

/* With its magazine empty, give empty slabs back as well: what shutdown and exact accounting want. */
void slab_drain(struct cpu *c)
{
	for (unsigned id = 0; id < NR_SLABS; id++) {
		struct slab_cache *s = &c->q->slab[id];
		struct list_head empty;
		struct frame *f, *next;

		magazine_flush(c, s, 0);
		list_init(&empty);
		machine_lock(c, &s->lock);
		list_for_each_entry_safe(f, next, &s->partial, lru) {
			if (f->priv)
				continue;
			list_del(&f->lru);
			list_add(&f->lru, &empty);
			s->nr_partial--;
			s->nr_slabs--;
		}
		machine_unlock(c, &s->lock);
		slabs_release(c, s, &empty);
	}
}

static int invalid(struct quire *q, const struct slab_cache *s, const char *what, uint64_t n)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "slab ");
	text_str(&t, s->name);
	text_str(&t, ": ");
	text_str(&t, what);
	text_field(&t, "at", n);
	return -EINVAL;
}

/* A slab's free objects lie in it, at multiples of the size, and are as many as are not handed out. */
static int slab_check(struct quire *q, const struct slab_cache *s, const struct frame *f, bool full)
{
	uint64_t p = frame_pfn(q->m, f).v, nr = 0;
	const char *base = machine_ptr(q->m, pfn_to_paddr(pfn(p)));

	if (!(f->flags & FRAME_SLAB) || f->slab != s || f->refcount != 1 || frame_order(f) != s->order)
		return invalid(q, s, "a frame on its lists is not its slab", p);
	for (const char *o = f->slab_free; o; o = *(void *const *)(const void *)o) {
		if (o < base || o >= base + (size_t)s->per_slab * s->size || (size_t)(o - base) % s->size)
			return invalid(q, s, "a free object lies outside of the slab", p);
		if (++nr > s->per_slab)
			return invalid(q, s, "the free objects form a ring", p);
	}
	if (nr + f->priv != s->per_slab)
		return invalid(q, s, "free and handed-out objects don't add up", p);
	if (full != !nr)
		return invalid(q, s, "on the wrong list", p);
	return 0;
}

static int cache_check(struct quire *q, const struct slab_cache *s)
{
	uint64_t slabs = 0, out = 0, partial = 0, parked = 0;
	const struct frame *f;

	list_for_each_entry(f, &s->partial, lru) {
		if (slab_check(q, s, f, false))
			return -EINVAL;
		partial++;
		out += f->priv;
	}
	slabs = partial;
	list_for_each_entry(f, &s->full, lru) {
		if (slab_check(q, s, f, true))
			return -EINVAL;
		slabs++;
		out += f->priv;
	}
	if (slabs != s->nr_slabs || partial != s->nr_partial || out != s->nr_objects)
		return invalid(q, s, "counts differ from the lists", slabs);
	for (unsigned i = 0; i < q->m->nr_cpus; i++) {
		uint64_t nr = 0;

		for (const void *o = q->percpu[i]->magazine[s->id].free; o; o = *(void *const *)o) {
			const struct frame *h = object_slab(q->m, o);

			if (!(h->flags & FRAME_SLAB) || h->slab != s || ++nr > s->magazine)
				return invalid(q, s, "a magazine holds what is not its own, or too much; CPU", i);
		}
		if (nr != q->percpu[i]->magazine[s->id].count)
			return invalid(q, s, "a magazine's count is wrong; CPU", i);
		parked += nr;
	}
	return parked <= out ? 0 : invalid(q, s, "more objects in magazines than were handed out", parked);
}

int slab_validate(struct quire *q)
{
	uint64_t pages = 0;

	for (unsigned id = 0; id < NR_SLABS; id++) {
		if (cache_check(q, &q->slab[id]))
			return -EINVAL;
		pages += q->slab[id].nr_slabs << q->slab[id].order;
	}
	if ((int64_t)pages != vmstat_read(q, VM_nr_slab_pages))
		return invalid(q, &q->slab[0], "nr_slab_pages differs from the slabs' frames", pages);
	return 0;
}
