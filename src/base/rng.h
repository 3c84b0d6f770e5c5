/*
 * Named random streams. Each consumer asks for a stream by name, so that one more consumer does not shift
 * the draws of the others; both sides of a comparison that use the same seed draw the same numbers.
 * Integers only (design rule 2). xoshiro256** (Blackman and Vigna), seeded by splitmix64 of seed and name.
 */
#ifndef QUIRE_BASE_RNG_H
#define QUIRE_BASE_RNG_H

#include <stdint.h>

struct rng {
	uint64_t s[4];
};

static inline uint64_t rng_splitmix(uint64_t *x)
{
	uint64_t z = (*x += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline void rng_init(struct rng *r, uint64_t seed, const char *name)
{
	uint64_t x = seed ^ 0xcbf29ce484222325ULL;

	for (; *name; name++)
		x = (x ^ (uint8_t)*name) * 0x100000001b3ULL;
	for (int i = 0; i < 4; i++)
		r->s[i] = rng_splitmix(&x);
}

static inline uint64_t rng_rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

static inline uint64_t rng_next(struct rng *r)
{
	uint64_t *s = r->s, res = rng_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return res;
}

/* Uniform in [0, n), n > 0, by multiply-shift (bias below 2^-32 for n < 2^32, irrelevant here and the same everywhere). */
static inline uint64_t rng_below(struct rng *r, uint64_t n)
{
	return (uint64_t)(((unsigned __int128)rng_next(r) * n) >> 64);
}

#endif
