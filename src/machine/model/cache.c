/*
 * The private caches of a core: L1 and L2, what leaves them, and probes from outside. Invariants C1 to C5 in cache.h.
 */
#include "machine/model/cache.h"

#include "base/assert.h"
#include "machine/model/model_int.h"
#include "machine/model/hot.h"
#include "machine/model/llc.h"
#include "machine/model/prefetch.h"
#include "machine/model/shape.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A store to a line that is here but shared: ask the directory. */
uint64_t cache_upgrade(struct core_cpu *cc, uint64_t line, uint64_t t)
{
	uint8_t state;

	return llc_access(cc, line, t, MEM_STORE_FULL, &state);
}

uint64_t cache_miss(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,
		    const struct cache_pos *p1, int way, uint8_t **ret_flags)
{
	return cc->md->core.hot->miss(cc, line, t, op, p1, way, ret_flags);
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
	core->l2.ready_ps = calloc(core->l2.sets * core->l2.g.ways, sizeof(uint64_t));
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
	return cache_arr_init(&sh->socket[s].filter, private_bytes + private_bytes / 2, SNOOP_FILTER_WAYS, REPL_LRU, true, true, 0);
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
	if (!r)
		sh->hot = core_hot_pick(md);
	else
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
