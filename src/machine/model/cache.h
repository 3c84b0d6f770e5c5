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

static inline unsigned core_set_first(core_set s)
{
	uint64_t low = (uint64_t)s;

	return (unsigned)(low ? __builtin_ctzll(low) : 64 + __builtin_ctzll((uint64_t)(s >> 64)));
}

#define TAG_NONE 0xffffffffU
#define SHARERS_MANY 0xffU /* in the sharers byte: look at the mask; else 0: none, 1 + n: core n of the socket */

/* How replacement is done. */
enum cache_kind {
	KIND_LRU,   /* up to 16 ways: one word of nibbles */
	KIND_PLRU,  /* up to 16 ways: tree bits 1..15 of a word; bit 0: some way may be invalid */
	KIND_RRIP,  /* in the flags bytes */
	KIND_OTHER, /* replacement.c */
};

/*
 * One array. A set is a block of host memory: tags, flags, sharers (directories only), replacement state; one or two
 * host cache lines for the usual shapes.
 */
struct cache_arr {
	unsigned char *base;
	uint64_t sets, magic;    /* line / sets == mulhi(line, magic) for non-powers of two */
	uint32_t ways, wpad;     /* wpad: rounded up to 4, the rest never matches */
	uint32_t stride;         /* host bytes a set */
	uint32_t off_flags, off_sharers, off_repl;
	uint32_t shift;          /* log2 of sets; 0: not a power of two */
	bool fold;               /* the set index is hashed with the tag (last levels) */
	uint32_t kind;           /* enum cache_kind */
	enum replacement policy;
	uint16_t plru_path[16], plru_away[16]; /* bits on a way's path, and their values that point away from it */
	uint32_t plru_leaves;
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

static ATTR_ALWAYS_INLINE struct cache_pos cache_pos(const struct cache_arr *a, uint64_t line)
{
	uint64_t tag, index;

	if (likely(a->shift)) {
		tag = line >> a->shift;
		index = line;
		if (a->fold)
			index ^= tag ^ (tag >> a->shift);
		index &= a->sets - 1;
	} else {
		tag = (uint64_t)(((unsigned __int128)line * a->magic) >> 64);
		index = line - tag * a->sets;
	}
	return (struct cache_pos){ .set = a->base + index * a->stride, .index = index, .tag = (uint32_t)tag };
}

static ATTR_ALWAYS_INLINE uint32_t *cache_tags(unsigned char *set)
{
	return (uint32_t *)(void *)set;
}

static ATTR_ALWAYS_INLINE uint8_t *cache_flags(const struct cache_arr *a, unsigned char *set)
{
	return set + a->off_flags;
}

static ATTR_ALWAYS_INLINE uint64_t *cache_order(const struct cache_arr *a, unsigned char *set)
{
	return (uint64_t *)(void *)(set + a->off_repl);
}

/* The line number of a way: the inverse of cache_pos. */
static ATTR_ALWAYS_INLINE uint64_t cache_line_of(const struct cache_arr *a, uint64_t index, uint64_t tag)
{
	if (likely(a->shift)) {
		if (a->fold)
			index ^= (tag ^ (tag >> a->shift)) & (a->sets - 1);
		return (tag << a->shift) | index;
	}
	return tag * a->sets + index;
}

/* Way of the line, or -1. */
static ATTR_ALWAYS_INLINE int cache_find(const struct cache_arr *a, const struct cache_pos *p)
{
	uint64_t m = assoc_match32(cache_tags(p->set), a->wpad, p->tag);

	return m ? __builtin_ctzll(m) : -1;
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
static ATTR_ALWAYS_INLINE void cache_touch(const struct cache_arr *a, unsigned char *set, unsigned way)
{
	uint64_t *o = cache_order(a, set);

	if (a->kind == KIND_PLRU)
		*o = (*o & ~(uint64_t)a->plru_path[way]) | a->plru_away[way];
	else if (a->kind == KIND_RRIP)
		cache_flags(a, set)[way] &= (uint8_t)~REPL_BITS;
	else if (a->kind == KIND_LRU)
		*o = assoc_lru_touch(*o, way);
	else
		cache_touch_other(a, set, way);
}

/* A guess at what cache_victim will say, without side effects. */
static ATTR_ALWAYS_INLINE unsigned cache_next_victim(const struct cache_arr *a, unsigned char *set)
{
	if (likely(a->kind == KIND_PLRU))
		return assoc_plru_victim((unsigned)*cache_order(a, set) & ~(unsigned)a->plru_left, a->plru_leaves);
	return a->kind == KIND_LRU ? assoc_lru_victim(*cache_order(a, set), a->ways) : 0;
}

/* The way to fill next: an invalid one when there is one. */
static ATTR_ALWAYS_INLINE unsigned cache_victim(struct cache_arr *a, unsigned char *set)
{
	if (a->kind == KIND_PLRU) {
		if (likely(!(*cache_order(a, set) & 1)))
			return assoc_plru_victim((unsigned)*cache_order(a, set) & ~(unsigned)a->plru_left, a->plru_leaves);
	} else if (a->kind == KIND_RRIP) {
		uint64_t m = assoc_match_bits(cache_flags(a, set), a->ways, RRPV_INVALID);

		if (unlikely(m))
			return (unsigned)__builtin_ctzll(m);
		m = assoc_match_bits(cache_flags(a, set), a->ways, RRPV_MAX);
		if (likely(m))
			return (unsigned)__builtin_ctzll(m);
	} else if (a->kind == KIND_LRU) {
		return assoc_lru_victim(*cache_order(a, set), a->ways);
	}
	return cache_victim_other(a, set);
}

/* `way` has been filled, and its flags written. */
static ATTR_ALWAYS_INLINE void cache_inserted(struct cache_arr *a, unsigned char *set, unsigned way)
{
	if (a->kind == KIND_RRIP && a->policy == REPL_SRRIP) {
		uint8_t *f = &cache_flags(a, set)[way];

		*f = (uint8_t)((*f & ~REPL_BITS) | (RRPV_MAX - RRPV_ONE));
	} else if (a->kind == KIND_RRIP || a->kind == KIND_OTHER) {
		cache_inserted_other(a, set, way);
	} else {
		cache_touch(a, set, way);
	}
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
/* Bring a line into L2 for the prefetcher. */
void cache_prefetch(struct core_cpu *cc, uint64_t line, uint64_t t);

/* What a probe from outside found in a core. */
#define PROBE_HAD 1U
#define PROBE_DIRTY 2U
unsigned cache_probe_drop(struct core_phys *core, uint64_t line);   /* remove */
unsigned cache_probe_share(struct core_phys *core, uint64_t line);  /* keep, clean and not writable */
bool cache_core_has(struct core_phys *core, uint64_t line);
bool cache_l1_has(struct core_phys *core, uint64_t line);

/* llc.c: a line wanted by a core beyond its L2. Returns when; *ret_state: LINE_W and LINE_D as granted. */
#define LLC_REFUSED (~0ULL) /* a prefetch that would have disturbed another core */
uint64_t llc_access(struct core_cpu *cc, uint64_t line, uint64_t t, enum mem_op op,
		    uint8_t *ret_state);
/* A line leaves L2. */
void llc_put(struct core_cpu *cc, uint64_t line, uint64_t t, bool dirty);

int cache_init(struct model *md, char *err, size_t errlen);
void cache_done(struct model *md);
/* Walks every array and asserts C1 to C4; for tests. */
void cache_validate(struct model *md);

#endif
