/*
 * The private caches of a core: L1 and L2, what leaves them, and probes from outside. Invariants C1 to C5 in cache.h.
 */
#include "machine/model/cache.h"

#include "base/assert.h"
#include "machine/model/model_int.h"
#include "machine/model/prefetch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* Put a line into L2, whose old occupant goes down. */
static ATTR_ALWAYS_INLINE void l2_fill(struct core_cpu *cc, struct core_phys *core,
				       const struct cache_pos *p, uint64_t t, uint8_t state, uint64_t ready)
{
	struct cache_arr *a = &core->l2;
	unsigned way = cache_victim(a, p->set);
	uint32_t old = cache_tags(p->set)[way];
	uint8_t *flags = &cache_flags(a, p->set)[way], was = *flags;

	cache_tags(p->set)[way] = p->tag;
	*flags = state;
	cache_inserted(a, p->set, way);
	if (state & LINE_FLIGHT)
		a->ready_ps[p->index * a->ways + way] = ready;
	if (old == TAG_NONE)
		return;
	if (was & LINE_PREF)
		cc->stats.prefetches_useless++;
	if ((was & LINE_D) || !cc->md->core.inclusive)
		llc_put(cc, cache_line_of(a, p->index, old), t, was & LINE_D);
}

/* A modified line leaves L1. */
static void l1_writeback(struct core_cpu *cc, struct core_phys *core, uint64_t line, uint64_t t)
{
	struct cache_pos p = cache_pos(&core->l2, line);
	int way = cache_find(&core->l2, &p);

	if (way >= 0)
		cache_flags(&core->l2, p.set)[way] |= LINE_W | LINE_D;
	else
		l2_fill(cc, core, &p, t, LINE_W | LINE_D, 0);
}

static ATTR_ALWAYS_INLINE uint8_t *l1_fill(struct core_cpu *cc, struct core_phys *core,
					   const struct cache_pos *p, uint64_t t, uint8_t state)
{
	struct cache_arr *a = &core->l1;
	unsigned way = cache_victim(a, p->set);
	uint32_t old = cache_tags(p->set)[way];
	uint8_t *flags = &cache_flags(a, p->set)[way], was = *flags;

	cache_tags(p->set)[way] = p->tag;
	*flags = state;
	cache_inserted(a, p->set, way);
	if (was & LINE_D)
		l1_writeback(cc, core, cache_line_of(a, p->index, old), t);
	return flags;
}

/* A store to a line that is here but shared: ask the directory. */
static uint64_t upgrade(struct core_cpu *cc, uint64_t line, uint64_t t)
{
	uint8_t state;

	return llc_access(cc, line, t, MEM_STORE_FULL, &state);
}

static uint64_t l2_hit(struct core_cpu *cc, struct core_phys *core, uint64_t line, uint64_t t,
		       enum mem_op op, const struct cache_pos *p, unsigned way, uint8_t *ret_state)
{
	struct cache_arr *a = &core->l2;
	uint8_t *flags = &cache_flags(a, p->set)[way];
	uint64_t ready = t + cc->md->desc.l2.latency_ps;

	cache_touch(a, p->set, way);
	if (*flags & (LINE_FLIGHT | LINE_PREF)) {
		if (*flags & LINE_FLIGHT)
			ready = MAX(ready, a->ready_ps[p->index * a->ways + way]);
		if (*flags & LINE_PREF)
			cc->stats.prefetches_useful++;
		*flags &= (uint8_t)~(LINE_FLIGHT | LINE_PREF);
	}
	*ret_state = *flags & LINE_W;
	if (mem_op_writes(op) && !(*flags & LINE_W)) {
		uint64_t owned = upgrade(cc, line, t);

		ready = MAX(ready, owned);
		*ret_state = LINE_W;
	}
	return ready;
}

uint64_t cache_miss(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,
		    const struct cache_pos *p1, int way, uint8_t **ret_flags)
{
	struct core_phys *core = cc->phys;
	struct cache_pos p2;
	uint64_t ready;
	uint8_t state;

	if (way >= 0) {
		ready = upgrade(cc, line, t);
		*ret_flags = &cache_flags(&core->l1, p1->set)[way];
		**ret_flags |= LINE_W | LINE_D;
		cache_touch(&core->l1, p1->set, (unsigned)way);
		return ready;
	}
	cc->stats.l1d_misses++;
	p2 = cache_pos(&core->l2, line);
	way = cache_find(&core->l2, &p2);
	if (way >= 0) {
		ready = l2_hit(cc, core, line, t, op, &p2, (unsigned)way, &state);
	} else {
		cc->stats.l2_misses++;
		ready = llc_access(cc, line, t, op, &state);
		l2_fill(cc, core, &p2, t, state, 0);
		state &= LINE_W;
	}
	if (mem_op_writes(op))
		state |= LINE_W | LINE_D;
	*ret_flags = l1_fill(cc, core, p1, t, state);
	if (op <= MEM_STORE && core->streams) {
		prefetch_train(cc, line, t);
		/* Under inclusion a prefetch may have pushed even this line out again, unless replacement is LRU. */
		if (unlikely(cc->md->desc.llc.replacement != REPL_LRU) && cache_find(&core->l1, p1) < 0)
			*ret_flags = NULL;
	}
	if (unlikely(cc->write_ready_ps > ready))
		ready = cc->write_ready_ps;
	return ready;
}

uint64_t cache_access(struct core_cpu *cc, uint64_t line, uint64_t t,
		      uint64_t hit_ps, enum mem_op op, uint8_t **ret_flags)
{
	struct core_phys *core = cc->phys;
	struct cache_pos p = cache_pos(&core->l1, line);
	int way = cache_find(&core->l1, &p);

	if (likely(way >= 0)) {
		uint8_t *flags = &cache_flags(&core->l1, p.set)[way];

		if (!mem_op_writes(op) || (*flags & LINE_W)) {
			cache_touch(&core->l1, p.set, (unsigned)way);
			if (mem_op_writes(op))
				*flags |= LINE_D;
			*ret_flags = flags;
			return t + hit_ps;
		}
	}
	return cache_miss(cc, line, t, op, &p, way, ret_flags);
}

void cache_prefetch(struct core_cpu *cc, uint64_t line, uint64_t t)
{
	struct core_phys *core = cc->phys;
	struct cache_pos p = cache_pos(&core->l2, line), p1 = cache_pos(&core->l1, line);
	uint64_t ready;
	uint8_t state;

	if (cache_find(&core->l2, &p) >= 0 || cache_find(&core->l1, &p1) >= 0)
		return;
	ready = llc_access(cc, line, t, MEM_PREFETCH, &state);
	if (ready == LLC_REFUSED)
		return;
	cc->stats.prefetches++;
	l2_fill(cc, core, &p, t, state | LINE_PREF | LINE_FLIGHT, ready);
}

/* ---- probes ---- */

static unsigned probe(struct core_phys *core, struct cache_arr *a, uint64_t line, bool drop)
{
	struct cache_pos p = cache_pos(a, line);
	int way = cache_find(a, &p);
	uint8_t *flags;
	unsigned r;

	if (way < 0)
		return 0;
	flags = &cache_flags(a, p.set)[way];
	r = PROBE_HAD | (*flags & LINE_D ? PROBE_DIRTY : 0);
	if (!drop) {
		*flags &= (uint8_t)~(LINE_W | LINE_D);
		return r;
	}
	if (*flags & LINE_PREF)
		core->thread[0]->stats.prefetches_useless++;
	cache_drop_way(a, p.set, (unsigned)way);
	return r;
}

unsigned cache_probe_drop(struct core_phys *core, uint64_t line)
{
	return probe(core, &core->l1, line, true) | probe(core, &core->l2, line, true);
}

unsigned cache_probe_share(struct core_phys *core, uint64_t line)
{
	return probe(core, &core->l1, line, false) | probe(core, &core->l2, line, false);
}

bool cache_l1_has(struct core_phys *core, uint64_t line)
{
	struct cache_pos p = cache_pos(&core->l1, line);

	return cache_find(&core->l1, &p) >= 0;
}

bool cache_core_has(struct core_phys *core, uint64_t line)
{
	struct cache_pos p = cache_pos(&core->l2, line);

	return cache_l1_has(core, line) || cache_find(&core->l2, &p) >= 0;
}

/* ---- set-up ---- */

static int core_caches_init(struct model *md, struct core_phys *core)
{
	const struct machine_desc *d = &md->desc;
	uint64_t seed = md->opt.seed + core->index + 1000003ULL * core->socket;
	int r;

	r = cache_arr_init(&core->l1, d->l1d.size, d->l1d.ways, d->l1d.replacement, false, false, seed);
	if (r)
		return r;
	r = cache_arr_init(&core->l2, d->l2.size, d->l2.ways, d->l2.replacement, false, false, seed);
	if (r)
		return r;
	core->l2.ready_ps = calloc(core->l2.sets * core->l2.ways, sizeof(uint64_t));
	return core->l2.ready_ps ? prefetch_init(core, d) : -ENOMEM;
}

static int socket_init(struct model *md, unsigned s)
{
	const struct machine_desc *d = &md->desc;
	struct core_shared *sh = &md->core;
	uint64_t private_bytes = (d->l1d.size + d->l2.size) * d->cores_per_socket;
	int r;

	r = cache_arr_init(&sh->socket[s].llc, d->llc.size, d->llc.ways, d->llc.replacement, true, true,
			   md->opt.seed ^ (0xabcdULL + s));
	if (r || sh->inclusive)
		return r;
	/* Half as large again as what it has to cover, 12 ways: the proportions of Skylake's snoop filter. */
	return cache_arr_init(&sh->socket[s].filter, private_bytes + private_bytes / 2, 12, REPL_LRU, true, true, 0);
}

static bool tags_fit(const struct core_shared *sh, const struct cache_arr *a)
{
	return !a->sets || sh->nr_lines / a->sets < TAG_NONE;
}

int cache_init(struct model *md, char *err, size_t errlen)
{
	struct core_shared *sh = &md->core;
	int r = 0;

	sh->inclusive = md->desc.llc.inclusion == INCL_INCLUSIVE;
	sh->exclusive = md->desc.llc.inclusion == INCL_EXCLUSIVE;
	for (unsigned i = 0; i < sh->nr_cores && !r; i++)
		r = core_caches_init(md, &sh->phys[i]);
	for (unsigned s = 0; s < sh->nr_sockets && !r; s++)
		r = socket_init(md, s);
	if (!r && (!tags_fit(sh, &sh->phys[0].l1) || !tags_fit(sh, &sh->phys[0].l2)))
		r = -E2BIG;
	if (r)
		snprintf(err, errlen, "%s: %s", md->desc.name,
			 r == -ENOMEM ? "out of memory for the cache arrays" :
			 r == -E2BIG  ? "more memory than cache tags can name" :
					"a cache needs 1 to 64 ways and at least two sets");
	return r;
}

void cache_done(struct model *md)
{
	struct core_shared *sh = &md->core;

	for (unsigned i = 0; sh->phys && i < sh->nr_cores; i++) {
		cache_arr_done(&sh->phys[i].l1);
		cache_arr_done(&sh->phys[i].l2);
		prefetch_done(&sh->phys[i]);
	}
	for (unsigned s = 0; s < sh->nr_sockets; s++) {
		cache_arr_done(&sh->socket[s].llc);
		cache_arr_done(&sh->socket[s].filter);
	}
}
