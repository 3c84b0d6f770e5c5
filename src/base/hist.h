/*
 * Log-linear histogram of unsigned 64-bit values: 16 sub-buckets an octave (error below 6.25 %), no allocation,
 * mergeable, integers only. Exact minimum, maximum, count and sum are kept beside the buckets.
 */
#ifndef QUIRE_BASE_HIST_H
#define QUIRE_BASE_HIST_H

#include <stdint.h>

#define HIST_SUB_BITS 4
#define HIST_SUB (1U << HIST_SUB_BITS)
#define HIST_BUCKETS ((64 - HIST_SUB_BITS + 1) * HIST_SUB)

struct hist {
	uint64_t count, sum, min, max;
	uint64_t bucket[HIST_BUCKETS];
};

static inline unsigned hist_index(uint64_t v)
{
	if (v < HIST_SUB)
		return (unsigned)v;
	unsigned e = 63U - (unsigned)__builtin_clzll(v);

	return (e - HIST_SUB_BITS + 1) * HIST_SUB + (unsigned)((v >> (e - HIST_SUB_BITS)) & (HIST_SUB - 1));
}

/* The smallest value that falls into bucket i. */
static inline uint64_t hist_lower(unsigned i)
{
	if (i < HIST_SUB)
		return i;
	unsigned e = i / HIST_SUB + HIST_SUB_BITS - 1;

	return (1ULL << e) | ((uint64_t)(i % HIST_SUB) << (e - HIST_SUB_BITS));
}

static inline void hist_add(struct hist *h, uint64_t v)
{
	if (!h->count || v < h->min)
		h->min = v;
	if (v > h->max)
		h->max = v;
	h->count++;
	h->sum += v;
	h->bucket[hist_index(v)]++;
}

static inline void hist_merge(struct hist *to, const struct hist *from)
{
	if (!from->count)
		return;
	if (!to->count || from->min < to->min)
		to->min = from->min;
	if (from->max > to->max)
		to->max = from->max;
	to->count += from->count;
	to->sum += from->sum;
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

/* Value at or below which per_mille of 1000 of the samples lie: the bucket's lower bound, clamped to [min, max]. 0 when empty. */
static inline uint64_t hist_quantile(const struct hist *h, unsigned per_mille)
{
	uint64_t want = (h->count * per_mille + 999) / 1000, seen = 0;

	if (!h->count)
		return 0;
	if (!want)
		want = 1;
	for (unsigned i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= want) {
			uint64_t v = hist_lower(i);

			return v < h->min ? h->min : v > h->max ? h->max : v;
		}
	}
	return h->max;
}

#endif
