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
#include <immintrin.h>
#endif

#define ASSOC_NIBBLES 0x1111111111111111ULL
#define ASSOC_LRU_INIT 0xfedcba9876543210ULL
#define ASSOC_LRU_WAYS 16U
#define ASSOC_MAX_WAYS 64U
#define ASSOC_NO_TAG 0xffffffffU
#define ASSOC_BYTES 32U /* at once, in a set's flags */

#ifdef __SSE2__
/* All ones in the lanes of tags[i .. i + 3] that equal k. */
static ATTR_ALWAYS_INLINE __m128i assoc_eq4(const uint32_t *tags, __m128i k)
{
	return _mm_cmpeq_epi32(_mm_load_si128((const __m128i *)(const void *)tags), k);
}

static ATTR_ALWAYS_INLINE uint64_t assoc_mask4(__m128i a)
{
	return (unsigned)_mm_movemask_ps(_mm_castsi128_ps(a));
}

static ATTR_ALWAYS_INLINE uint64_t assoc_mask8(__m128i a, __m128i b)
{
	__m128i w = _mm_packs_epi32(a, b);

	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(w, w)) & 0xff;
}

static ATTR_ALWAYS_INLINE uint64_t assoc_mask16(__m128i a, __m128i b, __m128i c, __m128i d)
{
	return (unsigned)_mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(a, b), _mm_packs_epi32(c, d)));
}
#endif

#ifdef ASSOC_AVX2
static ATTR_ALWAYS_INLINE uint64_t assoc_match8(const uint32_t *tags, uint32_t tag)
{
	__m256i t = _mm256_loadu_si256((const __m256i *)(const void *)tags);

	return (unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(t, _mm256_set1_epi32((int)tag))));
}
#endif

/* Bit i is set when tags[i] == tag. n is a multiple of 4, at most 64; tags is 16-byte aligned. */
static ATTR_ALWAYS_INLINE uint64_t assoc_match32(const uint32_t *tags, unsigned n, uint32_t tag)
{
	uint64_t m = 0;

#ifdef __SSE2__
	__m128i k = _mm_set1_epi32((int)tag);
	unsigned i = 0;

	if (n == 4)
		return assoc_mask4(assoc_eq4(tags, k));
#ifdef ASSOC_AVX2
	for (; i + 8 <= n; i += 8)
		m |= assoc_match8(tags + i, tag) << i;
	for (; i < n; i += 4)
		m |= assoc_mask4(assoc_eq4(tags + i, k)) << i;
	return m;
#endif
	if (n == 8)
		return assoc_mask8(assoc_eq4(tags, k), assoc_eq4(tags + 4, k));
	for (; i + 16 <= n; i += 16)
		m |= assoc_mask16(assoc_eq4(tags + i, k), assoc_eq4(tags + i + 4, k), assoc_eq4(tags + i + 8, k),
				  assoc_eq4(tags + i + 12, k)) << i;
	for (; i < n; i += 4)
		m |= assoc_mask4(assoc_eq4(tags + i, k)) << i;
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

/*
 * For re-reference values in the upper bits of flags bytes (cache.h): which have all of bits 7..5 set (invalid), which have 7 and 6 set.
 * n is at most 64; reads up to the next multiple of ASSOC_BYTES.
 */
static ATTR_ALWAYS_INLINE void assoc_match_rrpv(const uint8_t *bytes, unsigned n, uint64_t *ret_invalid, uint64_t *ret_max)
{
	uint64_t in_set = ~0ULL >> (64 - n);
#ifdef ASSOC_AVX2
	uint64_t invalid = 0, max = 0;

	for (unsigned i = 0; i < n; i += 32) {
		__m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(bytes + i)), v2 = _mm256_add_epi8(v, v);
		__m256i m = _mm256_and_si256(v, v2);

		max |= (uint64_t)(unsigned)_mm256_movemask_epi8(m) << i;
		invalid |= (uint64_t)(unsigned)_mm256_movemask_epi8(_mm256_and_si256(m, _mm256_add_epi8(v2, v2))) << i;
	}
	*ret_invalid = invalid & in_set;
	*ret_max = max & in_set;
#else
	*ret_invalid = assoc_match_bits(bytes, n, 0xe0) & in_set;
	*ret_max = assoc_match_bits(bytes, n, 0xc0) & in_set;
#endif
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

/* The least recent becomes the most recent: assoc_lru_touch(order, assoc_lru_victim(order, ways)). */
static ATTR_ALWAYS_INLINE uint64_t assoc_lru_rotate(uint64_t order, unsigned ways, unsigned victim)
{
	uint64_t in_set = ~0ULL >> (64 - 4 * ways);

	return (order & ~in_set) | ((order << 4) & in_set) | victim;
}

/* Make `way` the next victim. */
static ATTR_ALWAYS_INLINE uint64_t assoc_lru_demote(uint64_t order, unsigned way, unsigned ways)
{
	uint64_t below = assoc_lru_upto(order, way) >> 4;
	uint64_t in_set = ~0ULL >> (64 - 4 * ways);
	uint64_t moved = (order & below) | ((order >> 4) & ~below & (in_set >> 4)) | ((uint64_t)way << (4 * (ways - 1)));

	return (order & ~in_set) | (moved & in_set);
}

/*
 * The victim of a PLRU tree of 8 leaves whose bits are t's (node n is bit n - 1): three steps from the root as a table. Fewer leaves use
 * its first steps, 16 leaves take one more.
 */
#define PLRU_B(t, n) ((t) >> ((n) - 1) & 1U)
#define PLRU_2(t) (2U + PLRU_B(t, 1U))
#define PLRU_3(t) (2U * PLRU_2(t) + PLRU_B(t, PLRU_2(t)))
#define PLRU_WAY(t) (uint8_t)(2U * PLRU_3(t) + PLRU_B(t, PLRU_3(t)) - 8U)
#define PLRU_4(t) PLRU_WAY(t), PLRU_WAY((t) + 1U), PLRU_WAY((t) + 2U), PLRU_WAY((t) + 3U)
#define PLRU_16(t) PLRU_4(t), PLRU_4((t) + 4U), PLRU_4((t) + 8U), PLRU_4((t) + 12U)

static const uint8_t assoc_plru_way[128] = {
	PLRU_16(0U), PLRU_16(16U), PLRU_16(32U), PLRU_16(48U), PLRU_16(64U), PLRU_16(80U), PLRU_16(96U), PLRU_16(112U),
};

/* The victim of a tree of 2, 4, 8 or 16 leaves; node n's bit is bit n. */
static ATTR_ALWAYS_INLINE unsigned assoc_plru_victim(unsigned tree, unsigned leaves)
{
	unsigned w = assoc_plru_way[tree >> 1 & 127];

	if (likely(leaves == 8))
		return w;
	if (leaves == 16)
		return 2 * w + (tree >> (8 + w) & 1);
	return leaves == 4 ? w >> 1 : leaves == 2 ? w >> 2 : 0;
}

#endif
