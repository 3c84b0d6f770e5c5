/* Median, bootstrap interval, permutation test, Holm's correction. See stats.h for what makes them repeatable. */
#include "lab/stats.h"

#include "base/compiler.h"
#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RESAMPLES 4000
#define PERMUTATIONS 20000
#define EXACT_PAIRS 16
#define SEED 1

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double stats_median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/*
 * How many samples to leave out at each end so that the median lies between the rest in 95 % of cases: it is below the k-th of n in as many
 * cases as fewer than k of n coins fall heads.
 */
static size_t outside(size_t n)
{
	double p = 1, below = 0;
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		p /= 2;
	for (; k < n / 2 && below + p <= 0.025; k++) {
		below += p;
		p = p * (double)(n - k) / (double)(k + 1);
	}
	return k ? k - 1 : 0;
}

/* v in order; medians: room for RESAMPLES, draw: room for n. */
static void bootstrap(const double *v, size_t n, double *medians, double *draw, struct stats_estimate *ret)
{
	size_t out = outside(n);
	struct rng r;

	rng_init(&r, SEED, "lab.stats.bootstrap");
	for (size_t i = 0; i < RESAMPLES; i++) {
		for (size_t k = 0; k < n; k++)
			draw[k] = v[rng_below(&r, n)];
		medians[i] = stats_median(draw, n);
	}
	qsort(medians, RESAMPLES, sizeof(*medians), by_value);
	ret->low = MIN(medians[RESAMPLES / 40 - 1], v[out]);
	ret->high = MAX(medians[RESAMPLES - RESAMPLES / 40], v[n - 1 - out]);
	ret->bounded = true;
}

int stats_estimate(const double *v, size_t n, struct stats_estimate *ret)
{
	double *room;

	*ret = (struct stats_estimate){ 0 };
	if (!n || n > STATS_MAX_PAIRS)
		return -EINVAL;
	room = calloc(RESAMPLES + 2 * n, sizeof(*room));
	if (!room)
		return -ENOMEM;
	memcpy(room, v, n * sizeof(*v));
	ret->n = n;
	ret->value = stats_median(room, n); /* room is v in order from here on: the order of the samples means nothing */
	ret->low = room[0];
	ret->high = room[n - 1];
	if (n >= STATS_MIN_PAIRS)
		bootstrap(room, n, room + 2 * n, room + n, ret);
	free(room);
	return 0;
}

int stats_ratio(const double *a, const double *b, size_t n, struct stats_estimate *ret)
{
	double *v;
	int rc;

	*ret = (struct stats_estimate){ 0 };
	if (!n || n > STATS_MAX_PAIRS)
		return -EINVAL;
	v = calloc(n, sizeof(*v));
	if (!v)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		if (!(a[i] > 0) || !(b[i] > 0)) {
			free(v);
			return -EDOM;
		}
		v[i] = b[i] / a[i];
	}
	rc = stats_estimate(v, n, ret);
	free(v);
	return rc;
}

struct stats_estimate stats_inverse(struct stats_estimate e)
{
	double low = e.low;

	if (e.value > 0 && e.low > 0) {
		e.value = 1 / e.value;
		e.low = 1 / e.high;
		e.high = 1 / low;
	}
	return e;
}

double stats_width(const struct stats_estimate *e)
{
	return e->bounded && e->value > 0 ? (e->high - e->low) / 2 / e->value : 1;
}

/* A pair's difference, which changes its sign and nothing else when the two are exchanged. */
static double difference(double a, double b)
{
	return a + b > 0 ? (b - a) / (b + a) : 0;
}

/* Sums that are equal but for rounding must count as equal. */
static bool as_far(double sum, double seen)
{
	return (sum < 0 ? -sum : sum) >= seen * (1 - 1e-9);
}

double stats_permutation(const double *a, const double *b, size_t n)
{
	size_t far = 0, of = n < EXACT_PAIRS ? (size_t)1 << n : PERMUTATIONS;
	double seen = 0;
	struct rng r;

	for (size_t i = 0; i < n; i++)
		seen += difference(a[i], b[i]);
	seen = seen < 0 ? -seen : seen;
	rng_init(&r, SEED, "lab.stats.permutation");
	for (size_t w = 0; w < of; w++) {
		uint64_t exchange = w;
		double sum = 0;

		for (size_t i = 0; i < n; i++) {
			double d = difference(a[i], b[i]);

			if (n >= EXACT_PAIRS && i % 64 == 0)
				exchange = rng_next(&r);
			sum += exchange >> i % 64 & 1 ? -d : d;
		}
		far += as_far(sum, seen);
	}
	/* What was seen is one of the random ways too: p is never 0. */
	return n < EXACT_PAIRS ? (double)far / (double)of : (double)(far + 1) / (double)(of + 1);
}

void stats_holm(const double *p, size_t n, double *ret)
{
	double least = 0;

	for (size_t i = 0; i < n; i++)
		ret[i] = -1;
	for (size_t k = 0; k < n; k++) {
		size_t best = n;

		for (size_t i = 0; i < n; i++)
			if (ret[i] < 0 && (best == n || p[i] < p[best]))
				best = i;
		least = MAX(least, MIN(p[best] * (double)(n - k), 1.0));
		ret[best] = least;
	}
}
