/*
 * Log-linear histogram of unsigned 64-bit values: 16 sub-buckets an octave (error below 6.25 %), no allocation,
 * mergeable, integers only. Exact minimum, maximum, count and sum are kept beside the buckets. One thread adds; others may merge
 * it meanwhile, and get a picture in which the parts are each from some moment.
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

static inline void hist_put(uint64_t *word, uint64_t v)
{
	__atomic_store_n(word, v, __ATOMIC_RELAXED);
}

static inline uint64_t hist_get(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

static inline void hist_add(struct hist *h, uint64_t v)
{
	uint64_t *bucket = &h->bucket[hist_index(v)];

	if (!h->count || v < h->min)
		hist_put(&h->min, v);
	if (v > h->max)
		hist_put(&h->max, v);
	hist_put(&h->count, h->count + 1);
	hist_put(&h->sum, h->sum + v);
	hist_put(bucket, *bucket + 1);
}

static inline void hist_merge(struct hist *to, const struct hist *from)
{
	uint64_t count = hist_get(&from->count), min = hist_get(&from->min), max = hist_get(&from->max);

	if (!count)
		return;
	if (!to->count || min < to->min)
		to->min = min;
	if (max > to->max)
		to->max = max;
	to->count += count;
	to->sum += hist_get(&from->sum);
	for (unsigned i = 0; i < HIST_BUCKETS; i++)
		to->bucket[i] += hist_get(&from->bucket[i]);
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
