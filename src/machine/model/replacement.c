/*
 * Cache arrays: their layout, and the replacement policies other than LRU in one word (which is inline in cache.h).
 *
 * Replacement state at off_repl: LRU of more than 16 ways: way numbers, most recent first, a byte each. PLRU: the bits of a binary tree over
 * the next power of two of ways, a bit points to the older half. SRRIP, BRRIP: the re-reference value of each way, a byte each.
 * Invalid ways are always filled first.
 */
#include "machine/model/cache.h"

#include "base/assert.h"
#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RRPV_MAX 3U
#define BRRIP_RARE 32U

static uint8_t *repl_bytes(const struct cache_arr *a, unsigned char *set)
{
	return set + a->off_repl;
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

static unsigned rrip_victim(uint8_t *v, unsigned ways)
{
	for (;;) {
		for (unsigned i = 0; i < ways; i++)
			if (v[i] >= RRPV_MAX)
				return i;
		for (unsigned i = 0; i < ways; i++)
			v[i]++;
	}
}

void cache_touch_other(const struct cache_arr *a, unsigned char *set, unsigned way)
{
	switch (a->policy) {
	case REPL_LRU:
		bytes_to_front(repl_bytes(a, set), way);
		break;
	case REPL_PLRU:
		plru_point(cache_order(a, set), way, a->ways, true);
		break;
	case REPL_SRRIP:
	case REPL_BRRIP:
		repl_bytes(a, set)[way] = 0;
		break;
	case REPL_RANDOM:
		break;
	}
}

unsigned cache_victim_other(struct cache_arr *a, unsigned char *set)
{
	uint64_t invalid = assoc_match32(cache_tags(set), a->wpad, TAG_NONE) & (~0ULL >> (64 - a->ways));

	if (invalid)
		return (unsigned)__builtin_ctzll(invalid);
	switch (a->policy) {
	case REPL_LRU:
		return repl_bytes(a, set)[a->ways - 1];
	case REPL_PLRU:
		return plru_victim(*cache_order(a, set), a->ways);
	case REPL_SRRIP:
	case REPL_BRRIP:
		return rrip_victim(repl_bytes(a, set), a->ways);
	case REPL_RANDOM:
		break;
	}
	return (unsigned)(((unsigned __int128)rng_splitmix(&a->random) * a->ways) >> 64);
}

void cache_inserted_other(struct cache_arr *a, unsigned char *set, unsigned way)
{
	if (a->policy == REPL_SRRIP)
		repl_bytes(a, set)[way] = RRPV_MAX - 1;
	else if (a->policy == REPL_BRRIP)
		repl_bytes(a, set)[way] = rng_splitmix(&a->random) % BRRIP_RARE ? RRPV_MAX : RRPV_MAX - 1;
	else
		cache_touch_other(a, set, way);
}

void cache_drop_way(struct cache_arr *a, unsigned char *set, unsigned way)
{
	cache_tags(set)[way] = TAG_NONE;
	cache_flags(a, set)[way] = 0;
	if (a->off_sharers)
		set[a->off_sharers + way] = 0;
	if (a->lru_word)
		*cache_order(a, set) = assoc_lru_demote(*cache_order(a, set), way, a->ways);
	else if (a->policy == REPL_LRU)
		bytes_to_back(repl_bytes(a, set), way, a->ways);
	else if (a->policy == REPL_PLRU)
		plru_point(cache_order(a, set), way, a->ways, false);
	else if (a->policy != REPL_RANDOM)
		repl_bytes(a, set)[way] = RRPV_MAX;
}

static void layout(struct cache_arr *a, bool directory)
{
	uint32_t off = a->wpad * 4;

	a->off_flags = off;
	off += a->wpad;
	if (directory) {
		a->off_sharers = off;
		off += a->wpad;
	}
	a->off_repl = ALIGN_UP(off, 8U);
	off = a->off_repl + ALIGN_UP(MAX(a->ways, 8U), 8U);
	a->stride = ALIGN_UP(off, 64U);
}

static void set_init(struct cache_arr *a, unsigned char *set)
{
	memset(set, 0xff, a->wpad * 4);
	if (a->lru_word)
		*cache_order(a, set) = ASSOC_LRU_INIT;
	else if (a->policy == REPL_LRU)
		for (unsigned w = 0; w < a->ways; w++)
			repl_bytes(a, set)[w] = (uint8_t)w;
}

int cache_arr_init(struct cache_arr *a, uint64_t size, uint32_t ways, enum replacement policy, bool directory, bool fold,
		   uint64_t seed)
{
	*a = (struct cache_arr){ .ways = ways, .policy = policy, .random = seed };
	if (!ways || ways > ASSOC_MAX_WAYS)
		return -EINVAL;
	a->sets = size / CACHE_LINE / ways;
	if (a->sets < 2 || a->sets > 1U << 26)
		return -EINVAL;
	a->wpad = ALIGN_UP(ways, 4U);
	a->lru_word = policy == REPL_LRU && ways <= ASSOC_LRU_WAYS;
	a->magic = ~0ULL / a->sets + 1;
	if (!(a->sets & (a->sets - 1))) {
		a->shift = (uint32_t)__builtin_ctzll(a->sets);
		a->fold = fold;
	}
	layout(a, directory);
	a->base = aligned_alloc(64, a->sets * a->stride);
	if (!a->base)
		return -ENOMEM;
	memset(a->base, 0, a->sets * a->stride);
	for (uint64_t s = 0; s < a->sets; s++)
		set_init(a, a->base + s * a->stride);
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
