/*
 * Pages drawn from pmbench's distributions, in integers: logarithm, power and root are fixed point, bit by bit, so that the same stream
 * gives the same pages on every computer (no libm). Exact to about 2^-28 relative, far below the grain of a page.
 *
 * A source belongs to one task. No locks.
 */
#ifndef QUIRE_WORKLOAD_DRAW_H
#define QUIRE_WORKLOAD_DRAW_H

#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>

enum draw_pattern {
	DRAW_UNIFORM,   /* each page alike */
	DRAW_LINEAR,    /* 0, s, 2s, ... then 1, 1 + s, ...; the shape s is a stride */
	DRAW_NORMAL,    /* around the middle; the shape is the standard deviation in pages; draws outside become the middle */
	DRAW_NORMAL_IH, /* Irwin-Hall: the mean of 12 uniform draws; no shape */
	DRAW_PARETO,    /* bounded Pareto over [1, n]; the shape is alpha */
};

#define DRAW_SHAPE_ONE 1000000ULL /* shapes are in millionths */
#define DRAW_PAGES_MAX (1ULL << 34)
#define DRAW_SHAPE_MAX (DRAW_PAGES_MAX * DRAW_SHAPE_ONE)
#define DRAW_ALPHA_MIN 10000ULL /* 0.01 */
#define DRAW_ALPHA_MAX 100000000ULL /* 100 */

struct draw {
	enum draw_pattern pattern;
	uint64_t n, shape;      /* shape: whole for linear and normal, millionths for pareto */
	uint64_t at, phase;     /* linear */
	int64_t other;          /* normal: the second of a pair, Q28 */
	bool has_other;
	uint64_t span;          /* pareto: 1 - n^-alpha, Q62 */
	uint64_t half_power[33]; /* 2^(2^-i), Q62 */
};

/* The pattern of that name (zipf is pareto's other name), or -1. */
int draw_pattern(const char *name);
/* shape in millionths; 0: the pattern's own (1, pareto 1.00001). NULL, or what is wrong with it. n from 1 to DRAW_PAGES_MAX. */
const char *draw_init(struct draw *d, enum draw_pattern pattern, uint64_t n, uint64_t shape);
uint64_t draw_page(struct draw *d, struct rng *r);
/* Accesses that warm n pages up, in multiples of n: what is likely to have come by all that matter. */
unsigned draw_warmup(enum draw_pattern pattern);

#endif
