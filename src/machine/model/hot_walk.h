/*
 * Translation for a machine whose shape is known at compile time (shape.h): the TLB levels, the hardware page walker with its caches,
 * Accessed and Dirty. Rules in walk.c. Included by hot.h only.
 */
#ifndef QUIRE_MACHINE_MODEL_HOT_WALK_H
#define QUIRE_MACHINE_MODEL_HOT_WALK_H

#include "base/assert.h"
#include "machine/model/hint.h"
#include "machine/model/hot_miss.h"
#include "machine/model/walk.h"

#include <errno.h>

#define WALK_RETRIES_MAX 100U

/*
 * The walker loads the line of an entry. `inlined`: what misses L1 is dealt with here, for the level where that is common; else by
 * the instance's function.
 */
static ATTR_ALWAYS_INLINE uint64_t walk_load(enum core_shape shape, miss_fn miss, struct model *md, struct core_cpu *cc,
					     paddr_t pa, uint64_t t, bool inlined)
{
	struct cache_arr *l1 = &cc->phys->l1;
	struct cache_geo g = shape_l1(shape, l1);
	struct cache_pos p = geo_pos(l1, g, pa >> CACHE_LINE_SHIFT);
	int way = geo_find(g, &p);
	uint8_t *flags;

	cc->stats.walk_refs++;
	if (way >= 0) {
		geo_touch(l1, g, p.set, (unsigned)way);
		return t + md->desc.l1d.latency_ps;
	}
	return inlined ? hot_miss(shape, cc, pa >> CACHE_LINE_SHIFT, t, MEM_WALK, &p, way, &flags)
		       : miss(cc, pa >> CACHE_LINE_SHIFT, t, MEM_WALK, &p, way, &flags);
}

/* TLB_W and TLB_U are bits 0 and 1, where an entry has its write and user bits one further up. */
static ATTR_ALWAYS_INLINE uint64_t rights_of(uint64_t e)
{
	return (e / PTE_WRITE & (TLB_W | TLB_U)) | (~e >> 63) * TLB_X;
}

/* Where to begin: the table below the lowest entry that the page-walk caches have. Returns its level: 0 PTE table .. 3 root. */
static ATTR_ALWAYS_INLINE unsigned walk_begin(enum core_shape shape, struct core_cpu *cc, vaddr_t va,
					      uint64_t *ret_table)
{
	struct tlb_arr *pwc = cc->phys->tlb.pwc;
	uint32_t tag = cc->tag;
	uint64_t *v = tlb_find(&pwc[0], shape_pwc(shape, &pwc[0]), va >> PMD_SHIFT, tag);
	unsigned level = 0;

	if (!v) {
		v = tlb_find(&pwc[1], shape_pwc(shape, &pwc[1]), va >> PUD_SHIFT, tag);
		level = 1;
	}
	if (unlikely(!v)) {
		v = tlb_find(&pwc[2], pwc[2].g, va >> PGDIR_SHIFT, tag);
		level = v ? 2 : 3;
	}
	*ret_table = v ? *v : cc->root | TLB_RIGHTS;
	return level;
}

/* The entry that maps the page: rights, then Accessed and Dirty. */
static ATTR_ALWAYS_INLINE int walk_leaf(struct model *md, struct core_cpu *cc, struct walk *w, paddr_t pa,
					uint64_t rights, unsigned level)
{
	uint64_t *e = (uint64_t *)(void *)(md->m.direct + pa), v = *e;
	uint64_t set = PTE_ACCESSED | (w->need & TLB_D) * (PTE_DIRTY / TLB_D);

	if (unlikely((rights & w->need & TLB_RIGHTS) != (w->need & TLB_RIGHTS))) {
		w->present = true;
		return -EFAULT;
	}
	if (unlikely((v & set) != set)) {
		*e = v |= set;
		w->t = walk_update(md, cc, pa, w->t);
	}
	w->size = (enum tlb_size)level;
	w->value = (v & PTE_ADDR_MASK & ~((1ULL << tlb_shift(w->size)) - 1)) | rights |
		   (v & PTE_DIRTY) / (PTE_DIRTY / TLB_D);
	if (level < 2)
		hint_note(cc, w->va, level ? v & PTE_ADDR_MASK & PMD_MASK : pa & PAGE_MASK, level);
	return 0;
}

/* One level: 1: on to the table in *table; 0: found; else -EFAULT. */
static ATTR_ALWAYS_INLINE int walk_level(enum core_shape shape, miss_fn miss, struct model *md, struct core_cpu *cc,
					 struct walk *w, uint64_t *table, unsigned level)
{
	unsigned shift = PAGE_SHIFT + 9 * level;
	paddr_t pa = (*table & PTE_ADDR_MASK) + ((w->va >> shift) & 511) * 8;
	uint64_t *at = (uint64_t *)(void *)(md->m.direct + pa), e, rights;
	struct tlb_arr *pwc;

	ASSERT(pa >> PAGE_SHIFT < md->m.max_pfn);
	w->t = walk_load(shape, miss, md, cc, pa, w->t, level == 0);
	e = *at;
	if (unlikely(!(e & PTE_PRESENT)))
		return -EFAULT;
	rights = *table & TLB_RIGHTS & rights_of(e);
	if (!level || (level < 3 && unlikely(e & PTE_HUGE)))
		return walk_leaf(md, cc, w, pa, rights, level);
	if (unlikely(!(e & PTE_ACCESSED))) {
		*at |= PTE_ACCESSED;
		w->t = walk_update(md, cc, pa, w->t);
	}
	*table = (e & PTE_ADDR_MASK) | rights;
	pwc = &cc->phys->tlb.pwc[level - 1];
	tlb_add(pwc, level < 3 ? shape_pwc(shape, pwc) : pwc->g, w->va >> shift, cc->tag, *table);
	return 1;
}

static ATTR_ALWAYS_INLINE int walk_tables(enum core_shape shape, miss_fn miss, struct model *md, struct core_cpu *cc,
					  struct walk *w)
{
	uint64_t table;
	unsigned level = walk_begin(shape, cc, w->va, &table);
	int r;

	w->present = false;
	if (unlikely(!cc->root))
		return -EFAULT;
	/* An upper entry that forbids it, as cached: the ones in memory decide, as for TLB_WEAK. */
	if (unlikely((table & w->need & TLB_RIGHTS) != (w->need & TLB_RIGHTS))) {
		walk_drop_upper(cc, w->va);
		table = cc->root | TLB_RIGHTS;
		level = 3;
	}
	for (; unlikely(level > 1); level--) {
		r = walk_level(shape, miss, md, cc, w, &table, level);
		if (r <= 0)
			return r;
	}
	if (level) {
		r = walk_level(shape, miss, md, cc, w, &table, 1);
		if (r <= 0)
			return r;
	}
	return walk_level(shape, miss, md, cc, w, &table, 0);
}

static ATTR_ALWAYS_INLINE void use_page(struct core_cpu *cc, vaddr_t va, enum tlb_size s, uint64_t value)
{
	cc->page_mask = ~((1ULL << tlb_shift(s)) - 1);
	cc->page_va = va & cc->page_mask;
	cc->page_value = value;
}

static ATTR_ALWAYS_INLINE void count_l1_miss(struct core_cpu *cc, enum tlb_size s)
{
	if (likely(s == TLB_4K))
		cc->stats.tlb_l1_misses_4k++;
	else if (s == TLB_2M)
		cc->stats.tlb_l1_misses_2m++;
	else
		cc->stats.tlb_l1_misses_1g++;
}

static ATTR_ALWAYS_INLINE void count_walk(struct core_cpu *cc, enum tlb_size s, uint64_t ps)
{
	if (likely(s == TLB_4K)) {
		cc->stats.tlb_misses_4k++;
		cc->stats.walk_ps_4k += ps;
	} else if (s == TLB_2M) {
		cc->stats.tlb_misses_2m++;
		cc->stats.walk_ps_2m += ps;
	} else {
		cc->stats.tlb_misses_1g++;
		cc->stats.walk_ps_1g += ps;
	}
}

static ATTR_ALWAYS_INLINE void insert_l2(enum core_shape shape, struct core_tlb *tlb, vaddr_t va, enum tlb_size s,
					 uint32_t tag, uint64_t value)
{
	if (s == TLB_4K)
		tlb_add(&tlb->l2_4k, shape_stlb(shape, &tlb->l2_4k), va >> PAGE_SHIFT, tag, value);
	else if (s == TLB_1G)
		tlb_add(&tlb->l2_1g, tlb->l2_1g.g, va >> PUD_SHIFT, tag, value);
	else if (tlb->shared_2m)
		tlb_add(&tlb->l2_4k, shape_stlb(shape, &tlb->l2_4k), (va >> PMD_SHIFT) | TLB_VPN_2M, tag, value);
	else
		tlb_add(&tlb->l2_2m, tlb->l2_2m.g, va >> PMD_SHIFT, tag, value);
}

static ATTR_ALWAYS_INLINE uint64_t *find_l2(enum core_shape shape, struct core_tlb *tlb, vaddr_t va, enum tlb_size s,
					    uint32_t tag)
{
	if (likely(s == TLB_4K))
		return tlb_find(&tlb->l2_4k, shape_stlb(shape, &tlb->l2_4k), va >> PAGE_SHIFT, tag);
	if (s == TLB_1G)
		return tlb_find(&tlb->l2_1g, tlb->l2_1g.g, va >> PUD_SHIFT, tag);
	if (tlb->shared_2m)
		return tlb_find(&tlb->l2_4k, shape_stlb(shape, &tlb->l2_4k), (va >> PMD_SHIFT) | TLB_VPN_2M, tag);
	return tlb_find(&tlb->l2_2m, tlb->l2_2m.g, va >> PMD_SHIFT, tag);
}

enum tlb_answer { TLB_HIT, TLB_MISS, TLB_WEAK };

static ATTR_ALWAYS_INLINE enum tlb_answer find_l1(enum core_shape shape, struct core_cpu *cc, const struct walk *w,
						  enum tlb_size s)
{
	struct tlb_arr *a = &cc->phys->tlb.l1[s];
	uint64_t *v = tlb_find(a, s == TLB_4K ? shape_dtlb(shape, a) : a->g, w->va >> tlb_shift(s), cc->tag);

	if (!v)
		return TLB_MISS;
	if ((*v & w->need) != w->need)
		return TLB_WEAK;
	use_page(cc, w->va, s, *v);
	return TLB_HIT;
}

static ATTR_ALWAYS_INLINE enum tlb_answer find_l1_l2(enum core_shape shape, struct model *md, struct core_cpu *cc,
						     struct walk *w, enum tlb_size s)
{
	struct tlb_arr *a = &cc->phys->tlb.l1[s];
	uint64_t *v = find_l2(shape, &cc->phys->tlb, w->va, s, cc->tag);

	if (!v)
		return TLB_MISS;
	if ((*v & w->need) != w->need)
		return TLB_WEAK;
	w->t += md->desc.stlb.latency_ps;
	tlb_add(a, s == TLB_4K ? shape_dtlb(shape, a) : a->g, w->va >> tlb_shift(s), cc->tag, *v);
	count_l1_miss(cc, s);
	use_page(cc, w->va, s, *v);
	return TLB_HIT;
}

/*
 * Does a TLB have it, with the rights needed? TLB_WEAK: there is an entry, with fewer; the one in memory decides. Sizes
 * that this CPU has never found in tables cannot be there.
 */
static ATTR_ALWAYS_INLINE enum tlb_answer find_in_tlb(enum core_shape shape, struct model *md, struct core_cpu *cc,
						      struct walk *w)
{
	bool more = cc->sizes_seen & ~(1U << TLB_4K);
	enum tlb_answer r = find_l1(shape, cc, w, TLB_4K);

	if (more && r == TLB_MISS)
		r = find_l1(shape, cc, w, TLB_2M);
	if (more && r == TLB_MISS)
		r = find_l1(shape, cc, w, TLB_1G);
	if (r == TLB_MISS)
		r = find_l1_l2(shape, md, cc, w, TLB_4K);
	if (more && r == TLB_MISS)
		r = find_l1_l2(shape, md, cc, w, TLB_2M);
	if (more && r == TLB_MISS)
		r = find_l1_l2(shape, md, cc, w, TLB_1G);
	return r;
}

/* The new entry into both levels, with its counts. */
static ATTR_ALWAYS_INLINE void walked(enum core_shape shape, struct core_cpu *cc, const struct walk *w, enum tlb_size s,
				      uint64_t ps)
{
	struct tlb_arr *a = &cc->phys->tlb.l1[s];

	count_l1_miss(cc, s);
	count_walk(cc, s, ps);
	insert_l2(shape, &cc->phys->tlb, w->va, s, cc->tag, w->value);
	tlb_add(a, s == TLB_4K ? shape_dtlb(shape, a) : a->g, w->va >> tlb_shift(s), cc->tag, w->value);
	use_page(cc, w->va, s, w->value);
}

static ATTR_ALWAYS_INLINE int translate(enum core_shape shape, miss_fn miss, struct model *md, struct core_cpu *cc,
					struct walk *w)
{
	enum tlb_answer answer;
	unsigned walker;
	uint64_t start;
	int r;

	answer = find_in_tlb(shape, md, cc, w);
	if (answer == TLB_HIT)
		return 0;
	walker = pick_walker(cc);
	start = w->t = MAX(w->t, cc->walker_free[walker]);
	if (unlikely(answer == TLB_WEAK))
		walk_drop(cc, w->va);
	r = walk_tables(shape, miss, md, cc, w);
	cc->walker_free[walker] = w->t;
	if (unlikely(r))
		return r;
	cc->sizes_seen |= 1U << w->size;
	if (likely(w->size == TLB_4K))
		walked(shape, cc, w, TLB_4K, w->t - start);
	else
		walked(shape, cc, w, w->size, w->t - start);
	return 0;
}

/* See walk_user in walk.h. */
static ATTR_ALWAYS_INLINE int hot_walk(enum core_shape shape, miss_fn miss, struct cpu *c, struct core_cpu *cc,
				       vaddr_t va, unsigned flags, uint64_t *t)
{
	struct walk w = { .va = va, .need = access_need(flags), .t = *t };

	if (cc->phys->nr_threads > 1)
		walk_forget(cc->phys);
	for (unsigned tries = 0; unlikely(translate(shape, miss, model_of(c), cc, &w)); tries++) {
		int r;

		ASSERT(tries < WALK_RETRIES_MAX);
		cc->page_va = cc->page_mask = ~0ULL;
		r = walk_fault(c, cc, va, flags | (w.present ? ACCESS_PRESENT : 0U), w.t);
		if (r)
			return r;
		cc->stats.fault_retries++;
		if (unlikely(tries)) /* a fault drops what the walker has cached of the way there; seldom of any use */
			walk_drop_upper(cc, va);
		w.t = c->now_ps;
	}
	*t = w.t;
	return 0;
}

#endif
