/*
 * Caches: tag arrays, the private L1 and L2 of a core, the last level of a socket with its directory (replacement.c,
 * cache.c, llc.c).
 *
 * Invariants
 *  C1 A private line with LINE_W is in no other core's L1 or L2, and the directory of its socket names that core as the only
 *     sharer with DIR_OWNED.
 *  C2 The directory's sharers are a superset of the cores that hold the line: clean lines leave L1 and L2 silently.
 *  C3 DIR_GLOBAL on a socket's entry: no other socket holds the line.
 *  C4 Inclusive: a line in a private cache is in the last level. Otherwise: it is in the snoop filter.
 *  C5 L1 and L2 of a core are independent (neither inclusive nor exclusive); a line dirty in L1 is newer than L2's copy.
 */
#ifndef QUIRE_MACHINE_MODEL_CACHE_H
#define QUIRE_MACHINE_MODEL_CACHE_H

#include "machine/desc.h"
#include "machine/model/assoc.h"

struct model;
struct core_cpu;
struct core_phys;

/* State of a line in L1 or L2. */
#define LINE_W 0x01U       /* may be written without asking (exclusive or modified) */
#define LINE_D 0x02U       /* modified */
#define LINE_TAGGED 0x04U  /* (L1) the frame's content tag already says 'not zero' (design rule 10) */
#define LINE_PREF 0x08U    /* (L2) brought by the prefetcher and not used yet */
#define LINE_FLIGHT 0x10U  /* (L2) may not have arrived yet: see the ready time */
#define LINE_STORABLE (LINE_W | LINE_D | LINE_TAGGED)

/* State of a line in the last level or the snoop filter. */
#define DIR_DIRTY 0x01U
#define DIR_OWNED 0x02U  /* the one sharer may hold it exclusive or modified */
#define DIR_GLOBAL 0x04U /* no other socket has it */

/*
 * The upper bits of a flags byte are replacement's: with SRRIP and BRRIP the re-reference value, and whether the way is invalid. Whoever
 * writes flags keeps them, except where a way is filled, before cache_inserted.
 */
#define REPL_BITS 0xe0U
#define RRPV_ONE 0x40U
#define RRPV_MAX 0xc0U
#define RRPV_INVALID 0xe0U

/* Cores of one socket, for directories. */
typedef unsigned __int128 core_set;
#define CORE_SET_MAX 128U
#define CORE_BIT(n) ((core_set)1 << (n))

static ATTR_ALWAYS_INLINE unsigned core_set_first(core_set s)
{
	uint64_t low = (uint64_t)s;

	return (unsigned)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(s >> 64)));
}

#define TAG_NONE ASSOC_NO_TAG
#define SHARERS_MANY 0xffU /* in the sharers byte: look at the mask; else 0: none, 1 + n: core n of the socket */

/* How replacement is done. */
enum cache_kind {
	KIND_LRU,   /* up to 16 ways: one word of nibbles */
	KIND_PLRU,  /* up to 16 ways: tree bits 1..15 of a word; bit 0: some way may be invalid */
	KIND_RRIP,  /* in the flags bytes */
	KIND_OTHER, /* replacement.c */
};

/*
 * Where things are in a set: a block of host memory with tags, flags, sharers (directories only) and replacement state; one or two
 * host cache lines for the usual shapes. Passed by value: where the shape is known at compile time (shape.h), all of it folds away.
 */
struct cache_geo {
	uint32_t ways, wpad; /* wpad: rounded up to 4, the rest never matches */
	uint32_t stride;     /* host bytes a set */
	uint32_t off_flags, off_sharers, off_repl;
	enum cache_kind kind;
	enum replacement policy;
	bool pow2;           /* so many sets */
	bool fold;           /* the set index is hashed with the tag (last levels) */
};

static ATTR_ALWAYS_INLINE enum cache_kind cache_kind_of(enum replacement policy, uint32_t ways)
{
	if (policy == REPL_SRRIP || policy == REPL_BRRIP)
		return KIND_RRIP;
	if (ways > 16 || policy == REPL_RANDOM)
		return KIND_OTHER;
	return policy == REPL_LRU ? KIND_LRU : KIND_PLRU;
}

static ATTR_ALWAYS_INLINE struct cache_geo cache_geometry(uint32_t ways, enum replacement policy, bool directory, bool pow2,
							  bool fold)
{
	struct cache_geo g = {
		.ways = ways,
		.wpad = ALIGN_UP(ways, 4U),
		.kind = cache_kind_of(policy, ways),
		.policy = policy,
		.pow2 = pow2,
		.fold = pow2 && fold,
	};
	uint32_t off = g.wpad * 5;

	g.off_flags = g.wpad * 4;
	if (directory) {
		g.off_sharers = off;
		off += g.wpad;
	}
	g.off_repl = ALIGN_UP(off, 8U);
	off = g.off_repl + (policy == REPL_LRU && g.kind == KIND_OTHER ? ALIGN_UP(ways, 8U) : 8U);
	off = MAX(off, g.off_flags + ALIGN_UP(ways, ASSOC_BYTES)); /* assoc_match_bits reads that far */
	g.stride = ALIGN_UP(off, 64U);
	return g;
}

struct cache_arr {
	unsigned char *base;
	uint64_t sets, magic;    /* line / sets == mulhi(line, magic) for non-powers of two */
	uint32_t shift;          /* log2 of sets; 0: not a power of two */
	struct cache_geo g;
	uint16_t plru_path[16], plru_away[16]; /* bits on a way's path, and their values that point away from it */
	uint16_t plru_left;      /* bits that are read as 0: what is to the right does not exist */
	uint64_t random;         /* state for REPL_RANDOM and REPL_BRRIP */
	core_set *mask;          /* directories: sharers when there are several */
	uint64_t *ready_ps;      /* L2: when a line in flight arrives */
};

/* A set and a tag to look for in it. */
struct cache_pos {
	unsigned char *set;
	uint64_t index;
	uint32_t tag;
};

enum mem_op {
	MEM_LOAD,
	MEM_STORE,      /* read for ownership */
	MEM_STORE_FULL, /* a whole line: ownership without reading */
	MEM_WALK,       /* a load by the page walker: does not train the prefetcher */
	MEM_PREFETCH,
};

static ATTR_ALWAYS_INLINE bool mem_op_writes(enum mem_op op)
{
	return op == MEM_STORE || op == MEM_STORE_FULL;
}

/* The functions named geo_* take the array's geometry apart, which may be a constant. */
static ATTR_ALWAYS_INLINE struct cache_pos geo_pos(const struct cache_arr *a, struct cache_geo g, uint64_t line)
{
	uint64_t tag, index;

	if (likely(g.pow2)) {
		tag = line >> a->shift;
		index = line;
		if (g.fold)
			index ^= tag ^ (tag >> a->shift);
		index &= a->sets - 1;
	} else {
		tag = (uint64_t)(((unsigned __int128)line * a->magic) >> 64);
		index = line - tag * a->sets;
	}
	return (struct cache_pos){ .set = a->base + index * g.stride, .index = index, .tag = (uint32_t)tag };
}

static ATTR_ALWAYS_INLINE struct cache_pos cache_pos(const struct cache_arr *a, uint64_t line)
{
	return geo_pos(a, a->g, line);
}

static ATTR_ALWAYS_INLINE uint32_t *cache_tags(unsigned char *set)
{
	return (uint32_t *)(void *)set;
}

static ATTR_ALWAYS_INLINE uint8_t *cache_flags(const struct cache_arr *a, unsigned char *set)
{
	return set + a->g.off_flags;
}

static ATTR_ALWAYS_INLINE uint64_t *geo_order(struct cache_geo g, unsigned char *set)
{
	return (uint64_t *)(void *)(set + g.off_repl);
}

static ATTR_ALWAYS_INLINE uint64_t *cache_order(const struct cache_arr *a, unsigned char *set)
{
	return geo_order(a->g, set);
}

/* The line number of a way: the inverse of cache_pos. */
static ATTR_ALWAYS_INLINE uint64_t geo_line_of(const struct cache_arr *a, struct cache_geo g, uint64_t index, uint64_t tag)
{
	if (likely(g.pow2)) {
		if (g.fold)
			index ^= (tag ^ (tag >> a->shift)) & (a->sets - 1);
		return (tag << a->shift) | index;
	}
	return tag * a->sets + index;
}

static ATTR_ALWAYS_INLINE uint64_t cache_line_of(const struct cache_arr *a, uint64_t index, uint64_t tag)
{
	return geo_line_of(a, a->g, index, tag);
}

/* Way of the line, or -1. */
static ATTR_ALWAYS_INLINE int geo_find(struct cache_geo g, const struct cache_pos *p)
{
	uint64_t m = assoc_match32(cache_tags(p->set), g.wpad, p->tag);

	return m ? __builtin_ctzll(m) : -1;
}

static ATTR_ALWAYS_INLINE int cache_find(const struct cache_arr *a, const struct cache_pos *p)
{
	return geo_find(a->g, p);
}

/* replacement.c */
int cache_arr_init(struct cache_arr *a, uint64_t size, uint32_t ways, enum replacement policy, bool directory, bool fold,
		   uint64_t seed);
void cache_arr_done(struct cache_arr *a);
void cache_touch_other(const struct cache_arr *a, unsigned char *set, unsigned way);
unsigned cache_victim_other(struct cache_arr *a, unsigned char *set);
void cache_inserted_other(struct cache_arr *a, unsigned char *set, unsigned way);
void cache_drop_way(struct cache_arr *a, unsigned char *set, unsigned way);

/* A hit on `way`. */
static ATTR_ALWAYS_INLINE void geo_touch(const struct cache_arr *a, struct cache_geo g, unsigned char *set, unsigned way)
{
	uint64_t *o = geo_order(g, set);

	if (g.kind == KIND_PLRU)
		*o = (*o & ~(uint64_t)a->plru_path[way]) | a->plru_away[way];
	else if (g.kind == KIND_RRIP)
		set[g.off_flags + way] &= (uint8_t)~REPL_BITS;
	else if (g.kind == KIND_LRU)
		*o = assoc_lru_touch(*o, way);
	else
		cache_touch_other(a, set, way);
}

static ATTR_ALWAYS_INLINE void cache_touch(const struct cache_arr *a, unsigned char *set, unsigned way)
{
	geo_touch(a, a->g, set, way);
}

static ATTR_ALWAYS_INLINE unsigned geo_plru_leaves(struct cache_geo g)
{
	return g.ways > 8 ? 16 : g.ways > 4 ? 8 : g.ways > 2 ? 4 : g.ways;
}

static ATTR_ALWAYS_INLINE unsigned geo_plru_victim(const struct cache_arr *a, struct cache_geo g, unsigned char *set)
{
	unsigned tree = (unsigned)*geo_order(g, set);

	if (g.ways != geo_plru_leaves(g))
		tree &= ~(unsigned)a->plru_left;
	return assoc_plru_victim(tree, geo_plru_leaves(g));
}

/* A guess at what cache_victim will say, without side effects. */
static ATTR_ALWAYS_INLINE unsigned geo_next_victim(const struct cache_arr *a, struct cache_geo g, unsigned char *set)
{
	if (likely(g.kind == KIND_PLRU))
		return geo_plru_victim(a, g, set);
	return g.kind == KIND_LRU ? assoc_lru_victim(*geo_order(g, set), g.ways) : 0;
}

/* The way to fill next: an invalid one when there is one. */
static ATTR_ALWAYS_INLINE unsigned geo_victim(struct cache_arr *a, struct cache_geo g, unsigned char *set)
{
	if (g.kind == KIND_PLRU) {
		if (likely(!(*geo_order(g, set) & 1)))
			return geo_plru_victim(a, g, set);
	} else if (g.kind == KIND_RRIP) {
		uint64_t invalid, max;

		assoc_match_rrpv(set + g.off_flags, g.ways, &invalid, &max);
		if (unlikely(invalid))
			return (unsigned)__builtin_ctzll(invalid);
		if (likely(max))
			return (unsigned)__builtin_ctzll(max);
	} else if (g.kind == KIND_LRU) {
		return assoc_lru_victim(*geo_order(g, set), g.ways);
	}
	return cache_victim_other(a, set);
}

static ATTR_ALWAYS_INLINE unsigned cache_victim(struct cache_arr *a, unsigned char *set)
{
	return geo_victim(a, a->g, set);
}

/* `way`, which geo_victim has just named, has been filled, and its flags written. */
static ATTR_ALWAYS_INLINE void geo_inserted(struct cache_arr *a, struct cache_geo g, unsigned char *set, unsigned way)
{
	if (g.kind == KIND_RRIP && g.policy == REPL_SRRIP) {
		uint8_t *f = &set[g.off_flags + way];

		*f = (uint8_t)((*f & ~REPL_BITS) | (RRPV_MAX - RRPV_ONE));
	} else if (g.kind == KIND_LRU) {
		*geo_order(g, set) = assoc_lru_rotate(*geo_order(g, set), g.ways, way);
	} else if (g.kind == KIND_RRIP || g.kind == KIND_OTHER) {
		cache_inserted_other(a, set, way);
	} else {
		geo_touch(a, g, set, way);
	}
}

static ATTR_ALWAYS_INLINE void cache_inserted(struct cache_arr *a, unsigned char *set, unsigned way)
{
	geo_inserted(a, a->g, set, way);
}

/*
 * An access that L1 could not answer: `way` < 0: absent; else a store to a line there that it may not write. Returns when the data or the
 * ownership is there; the line is then in L1 and *ret_flags points to its state, or is NULL when it has been pushed out again.
 */
uint64_t cache_miss(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,
		    const struct cache_pos *p1, int way, uint8_t **ret_flags);
/* Any access, L1 included; an L1 hit costs `hit_ps`. */
uint64_t cache_access(struct core_cpu *cc, uint64_t line, uint64_t t, uint64_t hit_ps,
		      enum mem_op op, uint8_t **ret_flags);
/* A store to a line that is here but shared: ask the directory. */
uint64_t cache_upgrade(struct core_cpu *cc, uint64_t line, uint64_t t);

/* What a probe from outside found in a core. */
#define PROBE_HAD 1U
#define PROBE_DIRTY 2U
unsigned cache_probe_drop(struct core_phys *core, uint64_t line);   /* remove */
unsigned cache_probe_share(struct core_phys *core, uint64_t line);  /* keep, clean and not writable */
bool cache_core_has(struct core_phys *core, uint64_t line);
bool cache_l1_has(struct core_phys *core, uint64_t line);

int cache_init(struct model *md, char *err, size_t errlen);
void cache_done(struct model *md);
/* Walks every array and asserts C1 to C4; for tests. */
void cache_validate(struct model *md);

#endif
