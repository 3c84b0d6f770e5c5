/* Draws of pages. Qn: fixed point with n bits behind the point. See draw.h. */
#include "workload/draw.h"

#include <string.h>

#define LN2_Q32 2977044472U
#define ONE_Q62 (1ULL << 62)
#define ALPHA_DEFAULT 1000010U

typedef unsigned __int128 u128;

static uint64_t root(u128 x)
{
	u128 r = 0, bit = (u128)1 << 126;

	while (bit > x)
		bit >>= 2;
	for (; bit; bit >>= 2) {
		if (x >= r + bit) {
			x -= r + bit;
			r = (r >> 1) + bit;
		} else {
			r >>= 1;
		}
	}
	return (uint64_t)r;
}

/* -log2 of x, Q62 in (0, 1], as Q32. */
static uint64_t minus_log2(uint64_t x)
{
	unsigned down = (unsigned)__builtin_clzll(x) - 1;
	uint64_t m = x << down, frac = 0;

	for (int i = 0; i < 32; i++) {
		u128 sq = (u128)m * m >> 62;

		frac <<= 1;
		if (sq >> 63) {
			frac |= 1;
			sq >>= 1;
		}
		m = (uint64_t)sq;
	}
	return ((uint64_t)down << 32) - frac;
}

/* 2^(f/2^32), f below 2^32: Q62 in [1, 2). */
static uint64_t power_fraction(const struct draw *d, uint64_t f)
{
	uint64_t p = ONE_Q62;

	for (unsigned i = 1; i <= 32; i++)
		if (f >> (32 - i) & 1)
			p = (uint64_t)((u128)p * d->half_power[i] >> 62);
	return p;
}

int draw_pattern(const char *name)
{
	static const char *const names[] = { "uniform", "linear", "normal", "normal_ih", "pareto", "zipf" };

	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (!strcmp(name, names[i]))
			return i > DRAW_PARETO ? DRAW_PARETO : i;
	return -1;
}

/* n^-alpha = 2^-(alpha log2 n), by the logarithm of n scaled down to (0, 1]. */
static void pareto_init(struct draw *d)
{
	uint64_t log_n = (62ULL << 32) - minus_log2(d->n), e, low;
	u128 product = (u128)log_n * d->shape / DRAW_SHAPE_ONE;

	d->half_power[0] = ONE_Q62; /* not used */
	for (unsigned i = 1; i <= 32; i++)
		d->half_power[i] = root(i == 1 ? (u128)ONE_Q62 << 63 : (u128)d->half_power[i - 1] << 62);
	d->span = ONE_Q62;
	if (product >> 32 >= 62)
		return;
	e = (uint64_t)(product >> 32);
	low = (uint64_t)product & 0xffffffffU;
	/* 2^-(e + f) = 2^(1 - f) / 2^(e + 1) */
	d->span -= low ? power_fraction(d, (1ULL << 32) - low) >> (e + 1) : ONE_Q62 >> e;
}

const char *draw_init(struct draw *d, enum draw_pattern pattern, uint64_t n, uint64_t shape)
{
	memset(d, 0, sizeof(*d));
	d->pattern = pattern;
	d->n = n;
	if (!n || n > DRAW_PAGES_MAX)
		return "from 1 to 2^34 pages";
	if (pattern == DRAW_PARETO) {
		d->shape = shape ? shape : ALPHA_DEFAULT;
		if (d->shape < DRAW_ALPHA_MIN || d->shape > DRAW_ALPHA_MAX)
			return "pareto's shape is alpha, 0.01 to 100";
		pareto_init(d);
		return NULL;
	}
	if ((pattern == DRAW_UNIFORM || pattern == DRAW_NORMAL_IH) && shape)
		return "uniform and normal_ih have no shape";
	d->shape = shape ? shape / DRAW_SHAPE_ONE : 1;
	if (!d->shape || shape % DRAW_SHAPE_ONE || d->shape > n)
		return pattern == DRAW_LINEAR ? "linear's shape is its stride: whole, from 1 to the pages of the working set" :
						"normal's shape is its deviation in pages: whole, from 1 to the pages of the working set";
	return NULL;
}

static uint64_t linear(struct draw *d)
{
	uint64_t page = d->at;

	d->at += d->shape;
	if (d->at >= d->n) {
		d->phase = (d->phase + 1) % d->shape;
		d->at = d->phase;
	}
	return page;
}

/* Uniform in (-1, 1), Q31, never 0. */
static int64_t signed_uniform(struct rng *r)
{
	return (int64_t)(rng_next(r) >> 32 | 1) - (1LL << 31);
}

/* Box and Muller's polar method: two deviates at once, Q28. What lies beyond 6.4 deviations is not drawn. */
static int64_t deviate(struct draw *d, struct rng *r)
{
	int64_t a, b;
	uint64_t s, scale;

	if (d->has_other) {
		d->has_other = false;
		return d->other;
	}
	do {
		a = signed_uniform(r);
		b = signed_uniform(r);
		s = (uint64_t)(a * a) + (uint64_t)(b * b);
	} while (s >= ONE_Q62 || s < 1ULL << 32);
	/* sqrt(-2 ln s / s): the logarithm Q32, the quotient Q56 */
	scale = root(((u128)minus_log2(s) * LN2_Q32 >> 31 << 86) / s);
	d->other = (int64_t)((__int128)b * scale >> 31);
	d->has_other = true;
	return (int64_t)((__int128)a * scale >> 31);
}

static uint64_t normal(struct draw *d, struct rng *r)
{
	__int128 at = (__int128)(d->n / 2) + ((__int128)deviate(d, r) * (int64_t)d->shape >> 28);

	return at < 0 || at >= (__int128)d->n ? d->n / 2 : (uint64_t)at;
}

static uint64_t irwin_hall(const struct draw *d, struct rng *r)
{
	uint64_t range = d->n >= 12 ? d->n / 12 * 12 : d->n, sum = 0;

	for (int i = 0; i < 12; i++)
		sum += rng_below(r, range);
	return sum / 12;
}

/* (1 - u (1 - n^-alpha))^(-1/alpha), rounded down, less one. */
static uint64_t pareto(const struct draw *d, struct rng *r)
{
	uint64_t u = rng_next(r) >> 2, rest = ONE_Q62 - (uint64_t)((u128)u * d->span >> 62), page;
	u128 product = (u128)minus_log2(rest) * DRAW_SHAPE_ONE / d->shape;
	uint64_t e = (uint64_t)(product >> 32);

	if (e >= 62)
		return d->n - 1;
	page = power_fraction(d, (uint64_t)product & 0xffffffffU) >> (62 - e);
	return page > d->n ? d->n - 1 : page - 1;
}

uint64_t draw_page(struct draw *d, struct rng *r)
{
	switch (d->pattern) {
	case DRAW_LINEAR:
		return linear(d);
	case DRAW_NORMAL:
		return normal(d, r);
	case DRAW_NORMAL_IH:
		return irwin_hall(d, r);
	case DRAW_PARETO:
		return pareto(d, r);
	default:
		return rng_below(r, d->n);
	}
}

unsigned draw_warmup(enum draw_pattern pattern)
{
	return pattern == DRAW_UNIFORM ? 4 : pattern == DRAW_PARETO ? 8 : 1;
}
