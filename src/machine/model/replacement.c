/*
 * Cache arrays: their layout, and what of replacement is not inline in cache.h.
 *
 * Replacement state at off_repl: LRU of up to 16 ways: nibbles (assoc.h); of more: way numbers, most recent first, a byte each. PLRU: the
 * bits of a binary tree over the next power of two of ways, node n has children 2n and 2n + 1, a bit points to the older half; bit 0 says
 * that some way may be invalid. SRRIP, BRRIP: in the flags bytes. Invalid ways are always filled first.
 */
#include "machine/model/cache.h"

#include "base/assert.h"
#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PLRU_HOLES 1ULL
#define HOST_HUGE (2UL << 20)
#define BRRIP_RARE 32U

static uint8_t *repl_bytes(const struct cache_arr *a, unsigned char *set)
{
	return set + a->g.off_repl;
}

static void bytes_to_front(uint8_t *b, unsigned way)
{
	unsigned i = 0;

	while (b[i] != way)
		i++;
	memmove(b + 1, b, i);
	b[0] = (uint8_t)way;
}

static void bytes_to_back(uint8_t *b, unsigned way, unsigned ways)
{
	unsigned i = 0;

	while (b[i] != way)
		i++;
	memmove(b + i, b + i + 1, ways - 1 - i);
	b[ways - 1] = (uint8_t)way;
}

static unsigned plru_leaves(unsigned ways)
{
	unsigned n = 1;

	while (n < ways)
		n *= 2;
	return n;
}

/* away: point the path's bits to the other side (a use); else towards the way (it should go next). */
static void plru_point(uint64_t *tree, unsigned way, unsigned ways, bool away)
{
	unsigned node = plru_leaves(ways) + way;

	while (node > 1) {
		uint64_t bit = 1ULL << (node / 2);
		bool right = node & 1;

		*tree = (right != away) ? *tree | bit : *tree & ~bit;
		node /= 2;
	}
}

static unsigned plru_victim(uint64_t tree, unsigned ways)
{
	unsigned span = plru_leaves(ways), node = 1, lo = 0;

	while (span > 1) {
		span /= 2;
		if ((tree >> node & 1) && lo + span < ways) {
			lo += span;
			node = node * 2 + 1;
		} else {
			node = node * 2;
		}
	}
	return lo;
}

/* Nobody has the largest value: all age until somebody has. */
static unsigned rrip_age(struct cache_arr *a, unsigned char *set)
{
	uint8_t *f = cache_flags(a, set), max = 0;

	for (unsigned i = 0; i < a->g.ways; i++)
		max = MAX(max, f[i] & RRPV_MAX);
	for (unsigned i = 0; i < a->g.ways; i++)
		f[i] = (uint8_t)(f[i] + (RRPV_MAX - max));
	return (unsigned)__builtin_ctzll(assoc_match_bits(f, a->g.ways, RRPV_MAX));
}

void cache_touch_other(const struct cache_arr *a, unsigned char *set, unsigned way)
{
	if (a->g.policy == REPL_LRU)
		bytes_to_front(repl_bytes(a, set), way);
	else if (a->g.policy == REPL_PLRU)
		plru_point(cache_order(a, set), way, a->g.ways, true);
}

unsigned cache_victim_other(struct cache_arr *a, unsigned char *set)
{
	uint64_t invalid;

	if (a->g.kind == KIND_RRIP)
		return rrip_age(a, set);
	invalid = assoc_match32(cache_tags(set), a->g.wpad, TAG_NONE) & (~0ULL >> (64 - a->g.ways));
	if (invalid)
		return (unsigned)__builtin_ctzll(invalid);
	if (a->g.policy == REPL_LRU)
		return repl_bytes(a, set)[a->g.ways - 1];
	if (a->g.policy == REPL_PLRU) {
		*cache_order(a, set) &= ~PLRU_HOLES;
		return plru_victim(*cache_order(a, set), a->g.ways);
	}
	return (unsigned)(((unsigned __int128)rng_splitmix(&a->random) * a->g.ways) >> 64);
}

void cache_inserted_other(struct cache_arr *a, unsigned char *set, unsigned way)
{
	uint8_t *f = &cache_flags(a, set)[way];

	if (a->g.policy == REPL_BRRIP)
		*f = (uint8_t)((*f & ~REPL_BITS) |
			       (rng_splitmix(&a->random) % BRRIP_RARE ? RRPV_MAX : RRPV_MAX - RRPV_ONE));
	else
		cache_touch_other(a, set, way);
}

void cache_drop_way(struct cache_arr *a, unsigned char *set, unsigned way)
{
	cache_tags(set)[way] = TAG_NONE;
	cache_flags(a, set)[way] = a->g.kind == KIND_RRIP ? RRPV_INVALID : 0;
	if (a->g.off_sharers)
		set[a->g.off_sharers + way] = 0;
	if (a->g.kind == KIND_LRU) {
		*cache_order(a, set) = assoc_lru_demote(*cache_order(a, set), way, a->g.ways);
	} else if (a->g.policy == REPL_LRU) {
		bytes_to_back(repl_bytes(a, set), way, a->g.ways);
	} else if (a->g.policy == REPL_PLRU) {
		plru_point(cache_order(a, set), way, a->g.ways, false);
		*cache_order(a, set) |= PLRU_HOLES;
	}
}

static void set_init(struct cache_arr *a, unsigned char *set)
{
	memset(set, 0xff, a->g.wpad * 4);
	if (a->g.kind == KIND_RRIP)
		memset(cache_flags(a, set), RRPV_INVALID, a->g.ways);
	else if (a->g.kind == KIND_LRU)
		*cache_order(a, set) = ASSOC_LRU_INIT;
	else if (a->g.policy == REPL_PLRU)
		*cache_order(a, set) = PLRU_HOLES;
	else if (a->g.policy == REPL_LRU)
		for (unsigned w = 0; w < a->g.ways; w++)
			repl_bytes(a, set)[w] = (uint8_t)w;
}

/* Zeroed. Large arrays are visited at random: on huge pages where the computer has them. */
static unsigned char *sets_alloc(size_t size)
{
	size_t align = size >= HOST_HUGE ? HOST_HUGE : 64;
	unsigned char *p = aligned_alloc(align, ALIGN_UP(size, align));

	if (!p)
		return NULL;
#ifdef MADV_HUGEPAGE
	if (align == HOST_HUGE)
		(void)madvise(p, ALIGN_UP(size, align), MADV_HUGEPAGE); /* only a matter of speed */
#endif
	memset(p, 0, size);
	return p;
}

static void plru_init(struct cache_arr *a)
{
	unsigned leaves = plru_leaves(a->g.ways);

	for (unsigned w = 0; w < a->g.ways; w++) {
		uint64_t ones = 0;

		for (unsigned node = (leaves + w) / 2; node; node /= 2)
			a->plru_path[w] |= (uint16_t)(1U << node);
		plru_point(&ones, w, a->g.ways, true);
		a->plru_away[w] = (uint16_t)ones;
	}
	for (unsigned node = 1, span = leaves, n = 1; span > 1; span /= 2, n *= 2)
		for (unsigned i = 0; i < n; i++, node++)
			if (i * span + span / 2 >= a->g.ways)
				a->plru_left |= (uint16_t)(1U << node);
}

int cache_arr_init(struct cache_arr *a, uint64_t size, uint32_t ways, enum replacement policy, bool directory, bool fold,
		   uint64_t seed)
{
	*a = (struct cache_arr){ .random = seed };
	if (!ways || ways > ASSOC_MAX_WAYS)
		return -EINVAL;
	a->sets = size / CACHE_LINE / ways;
	if (a->sets < 2 || a->sets > 1U << 26)
		return -EINVAL;
	a->g = cache_geometry(ways, policy, directory, !(a->sets & (a->sets - 1)), fold);
	if (a->g.kind == KIND_PLRU)
		plru_init(a);
	a->magic = ~0ULL / a->sets + 1;
	if (a->g.pow2)
		a->shift = (uint32_t)__builtin_ctzll(a->sets);
	a->base = sets_alloc(a->sets * a->g.stride);
	if (!a->base)
		return -ENOMEM;
	for (uint64_t s = 0; s < a->sets; s++)
		set_init(a, a->base + s * a->g.stride);
	if (directory) {
		a->mask = calloc(a->sets * ways, sizeof(*a->mask));
		if (!a->mask)
			return -ENOMEM;
	}
	return 0;
}

void cache_arr_done(struct cache_arr *a)
{
	free(a->base);
	free(a->mask);
	free(a->ready_ps);
	*a = (struct cache_arr){ 0 };
}
