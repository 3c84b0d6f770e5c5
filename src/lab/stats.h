/*
 * Statistics of paired comparisons. Everything is deterministic: resampling draws from named streams of its own with a fixed seed, and
 * nothing but additions, multiplications, divisions and comparisons of doubles is used, so that the digits are the same everywhere.
 *
 * A sample is a pair: the same thing done on both sides, next to each other. What is estimated is the median of the pairs' ratios, new
 * over old. Its interval is the bootstrap's: pairs are drawn with replacement, as many as there are, many times over; the middle 95 % of
 * the medians bound it. Of few pairs that is too narrow (of seven it covers the true median in 90 of 100 cases), so it is never narrower
 * than the interval between order statistics that the binomial distribution grants 95 %. Of fewer than STATS_MIN_PAIRS pairs no method
 * that assumes no distribution gives 95 %: the interval then is the range of what was seen, and `bounded` is false.
 */
#ifndef QUIRE_LAB_STATS_H
#define QUIRE_LAB_STATS_H

#include <stdbool.h>
#include <stddef.h>

#define STATS_MIN_PAIRS 6 /* 2 * (1/2)^n falls below 5 % */
#define STATS_MAX_PAIRS 1000 /* 2^-1000 is still a double */

struct stats_estimate {
	double value, low, high; /* of fewer than two samples low and high are the value */
	size_t n;
	bool bounded;            /* low and high are an interval of 95 %, not just what was seen */
};

/* Sorts v. The mean of the middle two of an even number; 0 of none. */
double stats_median(double *v, size_t n);
/* Median of v and its interval. 0, -EINVAL (n of 0 or above STATS_MAX_PAIRS) or -ENOMEM. */
int stats_estimate(const double *v, size_t n, struct stats_estimate *ret);
/* The same of b[i] / a[i]. -EDOM: a value is not above 0. */
int stats_ratio(const double *a, const double *b, size_t n, struct stats_estimate *ret);
/* 1 / the ratio: its interval turned over. */
struct stats_estimate stats_inverse(struct stats_estimate e);
/* Half the interval's width over its value: 0.02 is "within 2 %". 1 where there is no interval yet. */
double stats_width(const struct stats_estimate *e);
/*
 * The chance of a difference as large as that between a and b if the sides' labels meant nothing: of all ways to exchange the two
 * values of pairs (of 16 pairs and more, of 20,000 random ones), the share with a sum of (b - a) / (b + a) at least as far from 0.
 */
double stats_permutation(const double *a, const double *b, size_t n);
/* Holm's correction of n p-values looked at together: each as it is to be held against the level wanted. */
void stats_holm(const double *p, size_t n, double *ret);

#endif
