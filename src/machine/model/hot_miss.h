/*
 * What L1 could not answer, for a machine whose shape is known at compile time (shape.h): L2, the common ways through the last level, the
 * prefetcher, and what they push out. Everything else is llc.c's. Included by hot.h only.
 */
#ifndef QUIRE_MACHINE_MODEL_HOT_MISS_H
#define QUIRE_MACHINE_MODEL_HOT_MISS_H

#include "machine/model/clock.h"
#include "machine/model/llc.h"
#include "machine/model/prefetch.h"
#include "machine/model/shape.h"

static ATTR_ALWAYS_INLINE bool hot_inclusive(enum core_shape shape, const struct model *md)
{
	return shape_inclusion(shape, md->desc.llc.inclusion) == INCL_INCLUSIVE;
}

/* dram_read where the line's node hangs off the reader's socket and the slot of time has room. */
static ATTR_ALWAYS_INLINE uint64_t hot_dram_read(struct model *md, struct core_cpu *cc, unsigned socket, uint64_t line,
						 uint64_t t)
{
	unsigned node = md->core.node_of_section[line >> (SECTION_SHIFT + PAGE_SHIFT - CACHE_LINE_SHIFT)];
	struct dram_node *n = &md->core.node[node];
	unsigned shift = n->srv.shift;
	uint64_t number = t >> shift, room = 256ULL << shift, used;
	struct dram_slot *d = &n->srv.slot[number % DRAM_SLOTS];

	used = d->number == number ? d->used : 0;
	if (unlikely(n->socket != socket || d->number > number || used + n->read_service > room))
		return dram_read(md, cc, socket, node, t);
	md->core.dram_reads[node]++;
	d->number = number;
	d->used = used + n->read_service;
	return MAX(t, (number << shift) + (used >> 8)) + n->read_latency_ps;
}

/* ---- the last level ---- */

/* The way of a directory to fill with a line that this core alone will have; the old occupant is thrown out. */
static ATTR_ALWAYS_INLINE unsigned hot_make_room(enum core_shape shape, struct model *md, struct core_cpu *cc,
						 struct cache_arr *a, struct cache_geo g, bool filter,
						 const struct cache_pos *p, uint64_t t)
{
	struct core_phys *core = cc->phys;
	unsigned way = geo_victim(a, g, p->set);
	uint8_t flags = p->set[g.off_flags + way], sharers = p->set[g.off_sharers + way];
	bool gone = false;

	if (hot_inclusive(shape, md) && !(flags & DIR_DIRTY) && sharers == core->index + 1) {
		uint64_t old = geo_line_of(a, g, p->index, cache_tags(p->set)[way]);
		struct cache_pos p1 = geo_pos(&core->l1, shape_l1(shape, &core->l1), old);
		struct cache_pos p2 = geo_pos(&core->l2, shape_l2(shape, &core->l2), old);

		/* This core had it, and has it no more. */
		gone = geo_find(shape_l1(shape, &core->l1), &p1) < 0 && geo_find(shape_l2(shape, &core->l2), &p2) < 0;
	}
	if (!gone && ((flags & DIR_DIRTY) || sharers))
		llc_evict(md, cc, core->socket, filter, p, way, t);
	cache_tags(p->set)[way] = p->tag;
	return way;
}

static ATTR_ALWAYS_INLINE void hot_fill_dir(struct cache_arr *a, struct cache_geo g, const struct cache_pos *p,
					    unsigned way, uint8_t flags, unsigned index)
{
	p->set[g.off_flags + way] = flags;
	p->set[g.off_sharers + way] = (uint8_t)(index + 1);
	geo_inserted(a, g, p->set, way);
}

/* No socket has the line; *ever says so. Returns when memory has delivered it. */
static ATTR_ALWAYS_INLINE uint64_t hot_from_memory(struct model *md, struct core_cpu *cc, uint64_t line, uint64_t t,
						   enum mem_op op, uint8_t *ever)
{
	*ever |= (uint8_t)(1U << cc->phys->socket);
	cc->stats.llc_misses += op != MEM_PREFETCH;
	return hot_dram_read(md, cc, cc->phys->socket, line, t);
}

/* False, and nothing has changed: the general way. */
static ATTR_ALWAYS_INLINE bool hot_load_inclusive(enum core_shape shape, struct model *md, struct core_cpu *cc,
						  uint64_t line, uint64_t t, enum mem_op op, uint8_t *ret_state,
						  uint64_t *ret_ready)
{
	struct core_phys *core = cc->phys;
	struct cache_arr *a = &md->core.socket[core->socket].llc;
	struct cache_geo g = shape_llc(shape, a);
	struct cache_pos p = geo_pos(a, g, line);
	int way = geo_find(g, &p);

	if (way >= 0) {
		uint8_t *s = &p.set[g.off_sharers + (unsigned)way], *f = &p.set[g.off_flags + (unsigned)way];

		if (*s && *s != core->index + 1)
			return false;
		geo_touch(a, g, p.set, (unsigned)way);
		cc->stats.llc_hits += op != MEM_PREFETCH;
		*ret_ready = t;
		*s = (uint8_t)(core->index + 1);
		*f = (uint8_t)((*f & ~DIR_OWNED) | (*f & DIR_GLOBAL ? DIR_OWNED : 0));
		*ret_state = (uint8_t)(*f & DIR_GLOBAL ? LINE_W : 0);
	} else {
		uint8_t *ever = &md->core.ever[line >> 10];
		unsigned to;

		if (*ever & (uint8_t) ~(1U << core->socket))
			return false;
		*ret_ready = hot_from_memory(md, cc, line, t, op, ever);
		to = hot_make_room(shape, md, cc, a, g, false, &p, t);
		hot_fill_dir(a, g, &p, to, DIR_GLOBAL | DIR_OWNED, core->index);
		*ret_state = LINE_W;
	}
	return true;
}

static ATTR_ALWAYS_INLINE bool hot_load_filtered(enum core_shape shape, struct model *md, struct core_cpu *cc,
						 uint64_t line, uint64_t t, enum mem_op op, uint8_t *ret_state,
						 uint64_t *ret_ready)
{
	struct core_phys *core = cc->phys;
	struct cache_arr *l = &md->core.socket[core->socket].llc, *d = &md->core.socket[core->socket].filter;
	struct cache_geo gl = shape_llc(shape, l), gd = shape_filter(shape, d);
	struct cache_pos pl = geo_pos(l, gl, line), pd = geo_pos(d, gd, line);
	int way = geo_find(gl, &pl);
	uint8_t flags = DIR_OWNED | DIR_GLOBAL;
	unsigned to;

	if (unlikely(geo_find(gd, &pd) >= 0))
		return false;
	*ret_state = LINE_W;
	if (way >= 0) {
		uint8_t was = pl.set[gl.off_flags + (unsigned)way];

		geo_touch(l, gl, pl.set, (unsigned)way);
		cc->stats.llc_hits += op != MEM_PREFETCH;
		*ret_ready = t;
		if (!(was & DIR_GLOBAL)) {
			flags = 0;
			*ret_state = 0;
		}
		if (shape_inclusion(shape, md->desc.llc.inclusion) == INCL_EXCLUSIVE) {
			*ret_state |= was & DIR_DIRTY ? LINE_D : 0;
			cache_drop_way(l, pl.set, (unsigned)way);
		}
	} else {
		uint8_t *ever = &md->core.ever[line >> 10];

		if (*ever & (uint8_t) ~(1U << core->socket))
			return false;
		*ret_ready = hot_from_memory(md, cc, line, t, op, ever);
	}
	to = hot_make_room(shape, md, cc, d, gd, true, &pd, t);
	hot_fill_dir(d, gd, &pd, to, flags, core->index);
	return true;
}

static ATTR_ALWAYS_INLINE uint64_t hot_llc(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t,
					   enum mem_op op, uint8_t *ret_state)
{
	struct model *md = cc->md;
	uint64_t ready, at = t + md->desc.llc.latency_ps;

	if (!mem_op_writes(op)) {
		if (hot_inclusive(shape, md)) {
			if (likely(hot_load_inclusive(shape, md, cc, line, at, op, ret_state, &ready)))
				return ready;
		} else if (likely(hot_load_filtered(shape, md, cc, line, at, op, ret_state, &ready))) {
			return ready;
		}
	}
	return llc_access(cc, line, t, op, ret_state);
}

/* llc_put where the last level is not inclusive and this core alone had the line. */
static ATTR_ALWAYS_INLINE void hot_put(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t,
				       bool dirty)
{
	struct model *md = cc->md;
	struct core_phys *core = cc->phys;
	struct cache_arr *l = &md->core.socket[core->socket].llc, *d = &md->core.socket[core->socket].filter;
	struct cache_geo gl = shape_llc(shape, l), gd = shape_filter(shape, d);
	struct cache_pos pl, pd, p1;
	uint8_t flags;
	unsigned to;
	int way;

	if (hot_inclusive(shape, md)) {
		llc_put(cc, line, t, dirty);
		return;
	}
	pd = geo_pos(d, gd, line);
	way = geo_find(gd, &pd);
	if (unlikely(way < 0 || pd.set[gd.off_sharers + (unsigned)way] != core->index + 1)) {
		llc_put(cc, line, t, dirty);
		return;
	}
	flags = (uint8_t)((pd.set[gd.off_flags + (unsigned)way] & DIR_GLOBAL) | (dirty ? DIR_DIRTY : 0));
	p1 = geo_pos(&core->l1, shape_l1(shape, &core->l1), line);
	if (likely(geo_find(shape_l1(shape, &core->l1), &p1) < 0)) {
		if (gd.kind == KIND_LRU) {
			uint64_t *order = geo_order(gd, pd.set);

			cache_tags(pd.set)[way] = TAG_NONE;
			pd.set[gd.off_flags + (unsigned)way] = 0;
			pd.set[gd.off_sharers + (unsigned)way] = 0;
			*order = assoc_lru_demote(*order, (unsigned)way, gd.ways);
		} else {
			cache_drop_way(d, pd.set, (unsigned)way);
		}
	}
	pl = geo_pos(l, gl, line);
	way = geo_find(gl, &pl);
	if (way >= 0) {
		pl.set[gl.off_flags + (unsigned)way] |= flags;
		return;
	}
	to = hot_make_room(shape, md, cc, l, gl, false, &pl, t);
	pl.set[gl.off_flags + to] = flags;
	pl.set[gl.off_sharers + to] = 0;
	geo_inserted(l, gl, pl.set, to);
}

/* ---- L2 and L1 ---- */

/* Put a line into L2, whose old occupant goes down. */
static ATTR_ALWAYS_INLINE void hot_l2_fill(enum core_shape shape, struct core_cpu *cc, const struct cache_pos *p,
					   uint64_t t, uint8_t state, uint64_t ready)
{
	struct cache_arr *a = &cc->phys->l2;
	struct cache_geo g = shape_l2(shape, a);
	unsigned way = geo_victim(a, g, p->set);
	uint32_t old = cache_tags(p->set)[way];
	uint8_t *flags = &p->set[g.off_flags + way], was = *flags;

	cache_tags(p->set)[way] = p->tag;
	*flags = state;
	geo_inserted(a, g, p->set, way);
	if (state & LINE_FLIGHT)
		a->ready_ps[p->index * g.ways + way] = ready;
	if (old == TAG_NONE)
		return;
	if (was & LINE_PREF)
		cc->stats.prefetches_useless++;
	if ((was & LINE_D) || !hot_inclusive(shape, cc->md))
		hot_put(shape, cc, geo_line_of(a, g, p->index, old), t, was & LINE_D);
}

/* A modified line leaves L1. */
static ATTR_ALWAYS_INLINE void hot_l1_writeback(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t)
{
	struct cache_arr *a = &cc->phys->l2;
	struct cache_geo g = shape_l2(shape, a);
	struct cache_pos p = geo_pos(a, g, line);
	int way = geo_find(g, &p);

	if (way >= 0)
		p.set[g.off_flags + (unsigned)way] |= LINE_W | LINE_D;
	else
		hot_l2_fill(shape, cc, &p, t, LINE_W | LINE_D, 0);
}

static ATTR_ALWAYS_INLINE uint8_t *hot_l1_fill(enum core_shape shape, struct core_cpu *cc, const struct cache_pos *p,
					       uint64_t t, uint8_t state)
{
	struct cache_arr *a = &cc->phys->l1;
	struct cache_geo g = shape_l1(shape, a);
	unsigned way = geo_victim(a, g, p->set);
	uint32_t old = cache_tags(p->set)[way];
	uint8_t *flags = &p->set[g.off_flags + way], was = *flags;

	cache_tags(p->set)[way] = p->tag;
	*flags = state;
	geo_inserted(a, g, p->set, way);
	if (was & LINE_D)
		hot_l1_writeback(shape, cc, geo_line_of(a, g, p->index, old), t);
	return flags;
}

static ATTR_ALWAYS_INLINE uint64_t hot_l2_hit(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t,
					      enum mem_op op, const struct cache_pos *p, unsigned way,
					      uint8_t *ret_state)
{
	struct cache_arr *a = &cc->phys->l2;
	struct cache_geo g = shape_l2(shape, a);
	uint8_t *flags = &p->set[g.off_flags + way];
	uint64_t ready = t + cc->md->desc.l2.latency_ps;

	geo_touch(a, g, p->set, way);
	if (*flags & (LINE_FLIGHT | LINE_PREF)) {
		if (*flags & LINE_FLIGHT)
			ready = MAX(ready, a->ready_ps[p->index * g.ways + way]);
		if (*flags & LINE_PREF)
			cc->stats.prefetches_useful++;
		*flags &= (uint8_t) ~(LINE_FLIGHT | LINE_PREF);
	}
	*ret_state = *flags & LINE_W;
	if (mem_op_writes(op) && !(*flags & LINE_W)) {
		uint64_t owned = cache_upgrade(cc, line, t);

		ready = MAX(ready, owned);
		*ret_state = LINE_W;
	}
	return ready;
}

/* Bring a line into L2 for the prefetcher. */
static ATTR_ALWAYS_INLINE void hot_prefetch(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t)
{
	struct core_phys *core = cc->phys;
	struct cache_geo g1 = shape_l1(shape, &core->l1), g2 = shape_l2(shape, &core->l2);
	struct cache_pos p = geo_pos(&core->l2, g2, line), p1 = geo_pos(&core->l1, g1, line);
	uint64_t ready;
	uint8_t state;

	if (geo_find(g2, &p) >= 0 || geo_find(g1, &p1) >= 0)
		return;
	ready = hot_llc(shape, cc, line, t, MEM_PREFETCH, &state);
	if (ready == LLC_REFUSED)
		return;
	cc->stats.prefetches++;
	hot_l2_fill(shape, cc, &p, t, state | LINE_PREF | LINE_FLIGHT, ready);
}

/* A demand access to `line` missed L1: follow its stream and bring in what comes next. False: nothing was asked for. */
static ATTR_ALWAYS_INLINE bool hot_train(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t)
{
	struct prefetch_wish w;

	if (likely(!prefetch_train(cc, line, &w)))
		return false;
	for (; w.nr; w.nr--, w.line += (uint64_t)(int64_t)w.step)
		hot_prefetch(shape, cc, w.line, t);
	return true;
}

/* See cache_miss in cache.h. */
static ATTR_ALWAYS_INLINE uint64_t hot_miss(enum core_shape shape, struct core_cpu *cc, uint64_t line, uint64_t t,
					    enum mem_op op, const struct cache_pos *p1, int way, uint8_t **ret_flags)
{
	struct core_phys *core = cc->phys;
	struct cache_geo g1 = shape_l1(shape, &core->l1), g2 = shape_l2(shape, &core->l2);
	struct cache_pos p2;
	uint64_t ready;
	uint8_t state;

	if (mem_op_writes(op) && way >= 0) {
		ready = cache_upgrade(cc, line, t);
		*ret_flags = &p1->set[g1.off_flags + (unsigned)way];
		**ret_flags |= LINE_W | LINE_D;
		geo_touch(&core->l1, g1, p1->set, (unsigned)way);
		return ready;
	}
	cc->stats.l1d_misses++;
	p2 = geo_pos(&core->l2, g2, line);
	way = geo_find(g2, &p2);
	if (way >= 0) {
		ready = hot_l2_hit(shape, cc, line, t, op, &p2, (unsigned)way, &state);
	} else {
		cc->stats.l2_misses++;
		ready = hot_llc(shape, cc, line, t, op, &state);
		hot_l2_fill(shape, cc, &p2, t, state, 0);
		state &= LINE_W;
	}
	if (mem_op_writes(op))
		state |= LINE_W | LINE_D;
	*ret_flags = hot_l1_fill(shape, cc, p1, t, state);
	/* Under inclusion a prefetch may have pushed even this line out again, unless replacement is LRU. */
	if (op <= MEM_STORE && core->streams && hot_train(shape, cc, line, t) &&
	    unlikely(cc->md->desc.llc.replacement != REPL_LRU) && geo_find(g1, p1) < 0)
		*ret_flags = NULL;
	if (unlikely(cc->write_ready_ps > ready))
		ready = cc->write_ready_ps;
	return ready;
}

#endif
