/*
 * The last level of a socket, its directory, and coherence between cores and sockets.
 *
 * Inclusive: the last level's own entries are the directory, and an eviction takes the line out of every core. Otherwise the last level
 * receives what leaves L2, and a snoop filter is the directory; its evictions take lines out of the cores. Exclusive: a line that
 * one core takes leaves the last level.
 *
 * Priced: the last level's latency, a transfer between cores when another core had to be asked, another socket's answer when one may
 * hold the line, memory otherwise. Which sockets may hold a line is known by 64 KiB of memory (core_shared.ever): a superset.
 */
#include "machine/model/llc.h"

#include "base/assert.h"
#include "machine/model/model_int.h"

/* A line's entry in an array; way < 0: absent. */
struct entry {
	struct cache_arr *a;
	struct cache_pos pos;
	int way;
};

/* What a request found out on its way. */
struct outcome {
	uint64_t ready;
	bool data;   /* somebody delivers it: no read of memory */
	bool shared; /* other sockets keep it */
};

static ATTR_ALWAYS_INLINE struct entry entry_find(struct cache_arr *a, uint64_t line)
{
	struct entry e = { .a = a, .pos = cache_pos(a, line) };

	e.way = cache_find(a, &e.pos);
	return e;
}

static ATTR_ALWAYS_INLINE uint8_t *entry_flags(const struct entry *e)
{
	return &cache_flags(e->a, e->pos.set)[e->way];
}

/* Replace the state, keep replacement's bits. */
static ATTR_ALWAYS_INLINE void entry_set_flags(const struct entry *e, uint8_t flags)
{
	uint8_t *f = entry_flags(e);

	*f = (uint8_t)((*f & REPL_BITS) | (flags & ~REPL_BITS));
}

static ATTR_ALWAYS_INLINE core_set sharers_at(const struct cache_arr *a, const unsigned char *set, uint64_t index,
					      unsigned way)
{
	uint8_t s = set[a->g.off_sharers + way];

	if (likely(s != SHARERS_MANY))
		return s ? CORE_BIT(s - 1) : 0;
	return a->mask[index * a->g.ways + way];
}

static ATTR_ALWAYS_INLINE core_set entry_sharers(const struct entry *e)
{
	return e->way < 0 ? 0 : sharers_at(e->a, e->pos.set, e->pos.index, (unsigned)e->way);
}

static ATTR_ALWAYS_INLINE void entry_set_sharers(const struct entry *e, core_set mask)
{
	uint8_t *s = &e->pos.set[e->a->g.off_sharers + (unsigned)e->way];

	if (likely(!(mask & (mask - 1)))) {
		*s = mask ? (uint8_t)(1 + core_set_first(mask)) : 0;
		return;
	}
	*s = SHARERS_MANY;
	e->a->mask[e->pos.index * e->a->g.ways + (unsigned)e->way] = mask;
}

static ATTR_ALWAYS_INLINE struct core_phys *core_at(struct core_shared *sh, unsigned socket, unsigned index)
{
	return &sh->phys[socket * sh->cores_per_socket + index];
}

static ATTR_ALWAYS_INLINE unsigned node_of(const struct core_shared *sh, uint64_t line)
{
	return sh->node_of_section[line >> (SECTION_SHIFT + PAGE_SHIFT - CACHE_LINE_SHIFT)];
}

static void write_memory(struct model *md, struct core_cpu *cc, unsigned socket, uint64_t line, uint64_t t)
{
	cc->stats.llc_writebacks++;
	dram_write(md, cc, socket, node_of(&md->core, line), t);
}

/* Read at t for somebody who has to wait until `ready` anyhow. */
static uint64_t read_memory(struct model *md, struct core_cpu *cc, unsigned socket, uint64_t line, uint64_t t, uint64_t ready)
{
	uint64_t done = dram_read(md, cc, socket, node_of(&md->core, line), t);

	return MAX(done, ready);
}

/* Take the line from every core in `mask`; PROBE_* of all. */
static unsigned drop_sharers(struct model *md, unsigned socket, core_set mask, uint64_t line, uint64_t *count)
{
	unsigned r = 0;

	for (; mask; mask &= mask - 1) {
		unsigned p = cache_probe_drop(core_at(&md->core, socket, core_set_first(mask)), line);

		if (p)
			(*count)++;
		r |= p;
	}
	return r;
}

/* The entry to fill for a line in the last level (or, with `filter`, the snoop filter) of a socket; its old occupant is thrown out. */
static void make_room(struct model *md, struct core_cpu *cc, unsigned socket, bool filter, struct entry *e, uint64_t t);

void llc_evict(struct model *md, struct core_cpu *cc, unsigned socket, bool filter, const struct cache_pos *p, unsigned way,
	       uint64_t t)
{
	struct core_socket *so = &md->core.socket[socket];
	struct cache_arr *a = filter ? &so->filter : &so->llc;
	uint64_t line = cache_line_of(a, p->index, cache_tags(p->set)[way]);
	uint8_t flags = cache_flags(a, p->set)[way];
	bool dirty = flags & DIR_DIRTY;

	if (md->core.inclusive || filter) {
		core_set mask = sharers_at(a, p->set, p->index, way);

		if (mask && (drop_sharers(md, socket, mask, line, &cc->stats.back_invalidations) & PROBE_DIRTY))
			dirty = true;
	}
	if (!dirty)
		return;
	if (filter) {
		/* What the filter drops from the cores goes where every victim of L2 goes. */
		struct entry v = entry_find(&so->llc, line);

		if (v.way < 0)
			make_room(md, cc, socket, false, &v, t);
		*entry_flags(&v) |= (uint8_t)(DIR_DIRTY | (flags & DIR_GLOBAL));
		return;
	}
	write_memory(md, cc, socket, line, t);
}

static void make_room(struct model *md, struct core_cpu *cc, unsigned socket, bool filter, struct entry *e, uint64_t t)
{
	struct cache_arr *a = e->a;
	unsigned char *set = e->pos.set;
	unsigned way = cache_victim(a, set);
	uint8_t *flags = &cache_flags(a, set)[way], *sharers = &set[a->g.off_sharers + way];

	/* A clean line that no core has leaves nothing to do. */
	if ((*flags & DIR_DIRTY) || *sharers)
		llc_evict(md, cc, socket, filter, &e->pos, way, t);
	cache_tags(set)[way] = e->pos.tag;
	*flags = 0;
	*sharers = 0;
	cache_inserted(a, set, way);
	e->way = (int)way;
}

/* ---- other sockets ---- */

/* One other socket is asked on behalf of a request from `from`. Returns false when a prefetch had better leave it alone. */
static bool ask_socket(struct model *md, struct core_cpu *cc, unsigned from, unsigned o, uint64_t line, uint64_t t,
		       enum mem_op op, struct outcome *out)
{
	struct core_shared *sh = &md->core;
	struct core_socket *so = &sh->socket[o];
	struct entry l = entry_find(&so->llc, line), d = l;
	core_set mask;
	unsigned p = 0;
	bool dirty, owned;

	if (!sh->inclusive)
		d = entry_find(&so->filter, line);
	if (l.way < 0 && d.way < 0)
		return true;
	mask = entry_sharers(&d);
	owned = d.way >= 0 && (*entry_flags(&d) & DIR_OWNED);
	dirty = l.way >= 0 && (*entry_flags(&l) & DIR_DIRTY);
	if (op == MEM_PREFETCH && (owned || dirty))
		return false;
	if (mem_op_writes(op)) {
		p = drop_sharers(md, o, mask, line, &cc->stats.coherence_invalidations);
		if (d.way >= 0)
			cache_drop_way(d.a, d.pos.set, (unsigned)d.way);
		if (!sh->inclusive && l.way >= 0)
			cache_drop_way(l.a, l.pos.set, (unsigned)l.way);
	} else {
		if (owned)
			p = cache_probe_share(core_at(sh, o, core_set_first(mask)), line);
		if (d.way >= 0)
			*entry_flags(&d) &= (uint8_t)~(DIR_OWNED | DIR_GLOBAL);
		if (l.way >= 0)
			*entry_flags(&l) &= (uint8_t)~(DIR_DIRTY | DIR_GLOBAL);
		if (dirty || (p & PROBE_DIRTY))
			write_memory(md, cc, o, line, t);
		out->shared = true;
	}
	dirty |= (p & PROBE_DIRTY) != 0;
	if (dirty || (owned && (p & PROBE_HAD))) {
		out->data = true;
		cc->stats.remote_c2c_transfers++;
		cc->stats.remote_accesses++;
	}
	/* A store waits for every answer; a load only for whoever delivers. */
	if (mem_op_writes(op) || out->data) {
		uint64_t far = (sh->hops[o][from] - 1ULL) * md->desc.link_latency_ps;
		uint64_t at = sh->link_service && out->data ?
				      dram_serve(&sh->link[o * sh->nr_sockets + from], t, sh->link_service) :
				      t;

		out->ready = MAX(out->ready, at + md->desc.remote_c2c_latency_ps + far);
	}
	return true;
}

static bool ask_sockets(struct model *md, struct core_cpu *cc, unsigned socket, uint64_t line, uint64_t t, enum mem_op op,
			struct outcome *out)
{
	uint8_t others = md->core.ever[line >> 10] & (uint8_t)~(1U << socket);

	for (; others; others &= (uint8_t)(others - 1))
		if (!ask_socket(md, cc, socket, (unsigned)__builtin_ctz(others), line, t, op, out))
			return false;
	return true;
}

/* ---- a request inside its socket ---- */

/* The line is nowhere in the socket. */
static ATTR_ALWAYS_INLINE uint64_t miss(struct model *md, struct core_cpu *cc, struct core_phys *core, uint64_t line,
					uint64_t t, enum mem_op op, struct entry *dir, uint8_t *ret_state)
{
	struct core_shared *sh = &md->core;
	struct outcome out = { .ready = t };
	uint8_t *ever = &sh->ever[line >> 10];

	if (op != MEM_PREFETCH)
		cc->stats.llc_misses++;
	if (unlikely(*ever & (uint8_t)~(1U << core->socket)) && !ask_sockets(md, cc, core->socket, line, t, op, &out))
		return LLC_REFUSED;
	*ever |= (uint8_t)(1U << core->socket);
	if (!out.data && op != MEM_STORE_FULL)
		out.ready = read_memory(md, cc, core->socket, line, t, out.ready);
	make_room(md, cc, core->socket, !sh->inclusive, dir, t);
	entry_set_sharers(dir, CORE_BIT(core->index));
	if (!out.shared)
		entry_set_flags(dir, DIR_OWNED | DIR_GLOBAL);
	*ret_state = (uint8_t)(out.shared ? 0 : LINE_W);
	return out.ready;
}

/* A store: every other copy goes. `l`: the last level's entry where it is not the directory's. */
static uint64_t take(struct model *md, struct core_cpu *cc, struct core_phys *core, uint64_t line, uint64_t t, enum mem_op op,
		     struct entry *dir, struct entry *l, uint8_t *ret_state)
{
	struct core_shared *sh = &md->core;
	core_set self = CORE_BIT(core->index), others = entry_sharers(dir) & ~self;
	struct outcome out = { .ready = t, .data = l->way >= 0 };
	uint8_t flags = dir->way >= 0 ? *entry_flags(dir) : *entry_flags(l);
	unsigned p;

	if (others) {
		p = drop_sharers(md, core->socket, others, line, &cc->stats.coherence_invalidations);
		out.ready += md->desc.c2c_latency_ps;
		if (p & PROBE_DIRTY)
			flags |= DIR_DIRTY;
		if (p && (flags & DIR_OWNED))
			cc->stats.c2c_transfers++;
		out.data |= p != 0;
	}
	if (!(flags & DIR_GLOBAL))
		(void)ask_sockets(md, cc, core->socket, line, out.ready, op, &out);
	if (!sh->inclusive) {
		if (!out.data && !cache_core_has(core, line)) {
			cc->stats.llc_misses++;
			if (op != MEM_STORE_FULL)
				out.ready = read_memory(md, cc, core->socket, line, t, out.ready);
		} else {
			cc->stats.llc_hits++;
		}
		if (l->way >= 0)
			cache_drop_way(l->a, l->pos.set, (unsigned)l->way);
		flags &= (uint8_t)~DIR_DIRTY; /* the newest copy is the writer's */
		if (dir->way < 0)
			make_room(md, cc, core->socket, true, dir, t);
	} else {
		cc->stats.llc_hits++;
	}
	entry_set_sharers(dir, self);
	entry_set_flags(dir, flags | DIR_OWNED | DIR_GLOBAL);
	*ret_state = LINE_W;
	return out.ready;
}

/* Another core of the socket owns the line and a load wants it: it becomes shared. Returns PROBE_*. */
static unsigned share_owner(struct model *md, struct core_cpu *cc, struct core_phys *core, uint64_t line, core_set owner,
			    struct entry *dir, struct entry *l, uint64_t t)
{
	struct core_shared *sh = &md->core;
	unsigned p = cache_probe_share(core_at(sh, core->socket, core_set_first(owner)), line);

	if (p)
		cc->stats.c2c_transfers++;
	if (p & PROBE_DIRTY) {
		if (l->way < 0)
			make_room(md, cc, core->socket, false, l, t);
		*entry_flags(l) |= (uint8_t)(DIR_DIRTY | (*entry_flags(dir) & DIR_GLOBAL));
	}
	*entry_flags(dir) &= (uint8_t)~DIR_OWNED;
	return p;
}

/* A load of a line that the socket has, or whose directory entry says so. */
static uint64_t share(struct model *md, struct core_cpu *cc, struct core_phys *core, uint64_t line, uint64_t t, enum mem_op op,
		      struct entry *dir, struct entry *l, uint8_t *ret_state)
{
	struct core_shared *sh = &md->core;
	core_set self = CORE_BIT(core->index), others = entry_sharers(dir) & ~self;
	uint64_t ready = t;
	uint8_t flags = dir->way >= 0 ? *entry_flags(dir) : *entry_flags(l), state = 0;
	bool data = l->way >= 0;

	if (others) {
		if (op == MEM_PREFETCH && (flags & DIR_OWNED))
			return LLC_REFUSED;
		if (flags & DIR_OWNED) {
			unsigned p = share_owner(md, cc, core, line, others, dir, l, t);

			ready += md->desc.c2c_latency_ps;
			data |= p != 0;
			if (!p)
				others = 0;
		} else if (!data) {
			for (core_set m = others; m && !data; m &= m - 1)
				data = cache_core_has(core_at(sh, core->socket, core_set_first(m)), line);
			if (data)
				ready += md->desc.c2c_latency_ps;
			else
				others = 0;
		}
	}
	if (op != MEM_PREFETCH) {
		cc->stats.llc_hits += data;
		cc->stats.llc_misses += !data;
	}
	if (!data)
		ready = read_memory(md, cc, core->socket, line, t, ready);
	flags = (flags & DIR_GLOBAL) | (sh->inclusive ? *entry_flags(dir) & DIR_DIRTY : 0);
	if (!others && (flags & DIR_GLOBAL)) {
		flags |= DIR_OWNED;
		state = LINE_W;
	}
	if (sh->exclusive && !others && l->way >= 0) {
		/* A dirty line is in no other socket, so the core may own it. */
		if (*entry_flags(l) & DIR_DIRTY)
			state |= LINE_D;
		cache_drop_way(l->a, l->pos.set, (unsigned)l->way);
	}
	if (dir->way < 0) /* last: it may move entries of the last level */
		make_room(md, cc, core->socket, true, dir, t);
	entry_set_flags(dir, flags);
	entry_set_sharers(dir, others | self);
	*ret_state = state;
	return ready;
}

uint64_t llc_access(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op, uint8_t *ret_state)
{
	struct model *md = cc->md;
	struct core_phys *core = cc->phys;
	struct core_shared *sh = &md->core;
	struct core_socket *so = &sh->socket[core->socket];
	struct entry l = entry_find(&so->llc, line), dir;

	t += md->desc.llc.latency_ps;
	dir = sh->inclusive ? l : entry_find(&so->filter, line);
	if (l.way < 0 && dir.way < 0)
		return miss(md, cc, core, line, t, op, &dir, ret_state);
	if (l.way >= 0)
		cache_touch(l.a, l.pos.set, (unsigned)l.way);
	if (!sh->inclusive && dir.way >= 0)
		cache_touch(dir.a, dir.pos.set, (unsigned)dir.way);
	if (mem_op_writes(op))
		return take(md, cc, core, line, t, op, &dir, sh->inclusive ? &dir : &l, ret_state);
	return share(md, cc, core, line, t, op, &dir, sh->inclusive ? &dir : &l, ret_state);
}

void llc_put(struct core_cpu *cc, uint64_t line, uint64_t t, bool dirty)
{
	struct model *md = cc->md;
	struct core_phys *core = cc->phys;
	struct core_shared *sh = &md->core;
	struct core_socket *so = &sh->socket[core->socket];
	struct entry l = entry_find(&so->llc, line), dir;
	uint8_t global = 0;
	core_set mask;

	if (sh->inclusive) {
		ASSERT_DEBUG(l.way >= 0);
		if (l.way >= 0)
			*entry_flags(&l) |= DIR_DIRTY;
		return;
	}
	dir = entry_find(&so->filter, line);
	ASSERT_DEBUG(dir.way >= 0);
	if (likely(dir.way >= 0)) {
		global = *entry_flags(&dir) & DIR_GLOBAL;
		mask = entry_sharers(&dir);
		if (!cache_l1_has(core, line))
			mask &= ~CORE_BIT(core->index);
		entry_set_sharers(&dir, mask);
		if (!mask)
			cache_drop_way(dir.a, dir.pos.set, (unsigned)dir.way);
	}
	if (l.way < 0)
		make_room(md, cc, core->socket, false, &l, t);
	*entry_flags(&l) |= (uint8_t)(global | (dirty ? DIR_DIRTY : 0));
}

/* ---- validation ---- */

static void validate_line(struct model *md, struct core_phys *core, uint64_t line, uint8_t flags)
{
	struct core_shared *sh = &md->core;
	struct core_socket *so = &sh->socket[core->socket];
	struct entry dir = entry_find(sh->inclusive ? &so->llc : &so->filter, line);
	core_set mask;

	ASSERT(dir.way >= 0); /* C4 */
	mask = entry_sharers(&dir);
	ASSERT(mask & CORE_BIT(core->index)); /* C2 */
	ASSERT(!(flags & LINE_D) || (flags & LINE_W));
	if (flags & LINE_W) { /* C1 */
		ASSERT(mask == CORE_BIT(core->index));
		ASSERT((*entry_flags(&dir) & (DIR_OWNED | DIR_GLOBAL)) == (DIR_OWNED | DIR_GLOBAL));
		for (unsigned i = 0; i < sh->nr_cores; i++)
			ASSERT(&sh->phys[i] == core || !cache_core_has(&sh->phys[i], line));
	}
}

static void validate_core(struct model *md, struct core_phys *core, struct cache_arr *a)
{
	for (uint64_t s = 0; s < a->sets; s++) {
		unsigned char *set = a->base + s * a->g.stride;

		for (unsigned w = 0; w < a->g.ways; w++)
			if (cache_tags(set)[w] != TAG_NONE)
				validate_line(md, core, cache_line_of(a, s, cache_tags(set)[w]), cache_flags(a, set)[w]);
	}
}

static void validate_global(struct model *md, unsigned socket, struct cache_arr *a)
{
	struct core_shared *sh = &md->core;

	for (uint64_t s = 0; s < a->sets; s++) {
		unsigned char *set = a->base + s * a->g.stride;

		for (unsigned w = 0; w < a->g.ways; w++) {
			uint32_t tag = cache_tags(set)[w];
			uint64_t line = cache_line_of(a, s, tag);

			if (tag == TAG_NONE || !(cache_flags(a, set)[w] & DIR_GLOBAL))
				continue;
			for (unsigned o = 0; o < sh->nr_sockets; o++) /* C3 */
				ASSERT(o == socket || (entry_find(&sh->socket[o].llc, line).way < 0 &&
						       (sh->inclusive || entry_find(&sh->socket[o].filter, line).way < 0)));
		}
	}
}

void cache_validate(struct model *md)
{
	struct core_shared *sh = &md->core;

	for (unsigned i = 0; i < sh->nr_cores; i++) {
		validate_core(md, &sh->phys[i], &sh->phys[i].l1);
		validate_core(md, &sh->phys[i], &sh->phys[i].l2);
	}
	for (unsigned s = 0; s < sh->nr_sockets; s++) {
		validate_global(md, s, &sh->socket[s].llc);
		if (!sh->inclusive)
			validate_global(md, s, &sh->socket[s].filter);
	}
}
