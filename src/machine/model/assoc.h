/*
 * Set-associative arrays: tag match and replacement, shared by caches (32-bit tags) and TLBs (64-bit keys).
 *
 * Entries never move inside a set; replacement state is beside them. For true LRU of up to 16 ways it is one 64-bit word, a
 * permutation of way numbers in nibbles, most recent lowest. An invalidated way goes to the LRU end, so that under LRU
 * the victim is an invalid way as long as there is one.
 */
#ifndef QUIRE_MACHINE_MODEL_ASSOC_H
#define QUIRE_MACHINE_MODEL_ASSOC_H

#include "base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ASSOC_NIBBLES 0x1111111111111111ULL
#define ASSOC_LRU_INIT 0xfedcba9876543210ULL
#define ASSOC_LRU_WAYS 16U
#define ASSOC_MAX_WAYS 64U

/* Bit i is set when tags[i] == tag. n is a multiple of 4, at most 64; tags is 16-byte aligned. */
static ATTR_ALWAYS_INLINE uint64_t assoc_match32(const uint32_t *tags, unsigned n, uint32_t tag)
{
	uint64_t m = 0;

#ifdef __SSE2__
	__m128i k = _mm_set1_epi32((int)tag);

	for (unsigned i = 0; i < n; i += 4) {
		__m128i v = _mm_load_si128((const __m128i *)(const void *)(tags + i));

		m |= (uint64_t)(unsigned)_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(v, k))) << i;
	}
#else
	for (unsigned i = 0; i < n; i++)
		m |= (uint64_t)(tags[i] == tag) << i;
#endif
	return m;
}

/* Bit i is set when (bytes[i] & mask) == mask. n is at most 64; reads up to the next multiple of 16. */
static ATTR_ALWAYS_INLINE uint64_t assoc_match_bits(const uint8_t *bytes, unsigned n, uint8_t mask)
{
	uint64_t m = 0;

#ifdef __SSE2__
	__m128i k = _mm_set1_epi8((char)mask);

	for (unsigned i = 0; i < n; i += 16) {
		__m128i v = _mm_loadu_si128((const __m128i *)(const void *)(bytes + i));

		m |= (uint64_t)(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_and_si128(v, k), k)) << i;
	}
#else
	for (unsigned i = 0; i < n; i++)
		m |= (uint64_t)((bytes[i] & mask) == mask) << i;
#endif
	return m & (~0ULL >> (64 - n));
}

/* All ones in the nibbles up to and including the one that holds `way`. */
static ATTR_ALWAYS_INLINE uint64_t assoc_lru_upto(uint64_t order, unsigned way)
{
	uint64_t x = order ^ (ASSOC_NIBBLES * way);
	uint64_t zero = (x - ASSOC_NIBBLES) & ~x & (ASSOC_NIBBLES << 3); /* the lowest bit set is exact */

	return zero ^ (zero - 1);
}

static ATTR_ALWAYS_INLINE uint64_t assoc_lru_touch(uint64_t order, unsigned way)
{
	uint64_t upto = assoc_lru_upto(order, way);

	return (order & ~upto) | ((order << 4) & upto) | way;
}

static ATTR_ALWAYS_INLINE unsigned assoc_lru_victim(uint64_t order, unsigned ways)
{
	return (unsigned)(order >> (4 * (ways - 1))) & 15;
}

/* Make `way` the next victim. */
static inline uint64_t assoc_lru_demote(uint64_t order, unsigned way, unsigned ways)
{
	uint64_t below = assoc_lru_upto(order, way) >> 4;
	uint64_t in_set = ways == 16 ? ~0ULL : (1ULL << (4 * ways)) - 1;
	uint64_t moved = (order & below) | ((order >> 4) & ~below & (in_set >> 4)) | ((uint64_t)way << (4 * (ways - 1)));

	return (order & ~in_set) | (moved & in_set);
}

#endif
