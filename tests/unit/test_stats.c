/* Statistics of comparisons: known answers, and whether intervals cover as often as they say. */
#include "base/compiler.h"
#include "base/rng.h"
#include "lab/stats.h"
#include "testing.h"

#include <errno.h>
#include <string.h>

static void near(double got, double want)
{
	if (got > want + 1e-12 || got < want - 1e-12)
		fail_msg("%.15f instead of %.15f", got, want);
}

static void test_median(void **state)
{
	double odd[] = { 5, 1, 3 }, even[] = { 4, 1, 3, 2 }, one[] = { 7 };

	(void)state;
	near(stats_median(odd, 3), 3);
	near(stats_median(even, 4), 2.5);
	near(stats_median(one, 1), 7);
	near(stats_median(one, 0), 0);
}

static void test_ratio(void **state)
{
	const double a[] = { 10, 20, 40, 10, 10, 10, 10 }, b[] = { 11, 24, 44, 11, 12, 9, 11 };
	struct stats_estimate e, inverse;

	(void)state;
	assert_int_equal(stats_ratio(a, b, 7, &e), 0);
	near(e.value, 1.1);
	assert_true(e.bounded && e.low >= 0.9 && e.low <= 1.1 && e.high >= 1.1 && e.high <= 1.2);
	inverse = stats_inverse(e);
	near(inverse.value, 1 / 1.1);
	near(inverse.low, 1 / e.high);
	near(inverse.high, 1 / e.low);
	near(stats_width(&e), (e.high - e.low) / 2 / 1.1);
}

/* Below six pairs: what was seen, and no claim of 95 %. */
static void test_few(void **state)
{
	const double v[] = { 1.2, 1.0, 1.1, 1.3, 0.9 };
	struct stats_estimate e;

	(void)state;
	assert_int_equal(stats_estimate(v, 5, &e), 0);
	near(e.value, 1.1);
	near(e.low, 0.9);
	near(e.high, 1.3);
	assert_false(e.bounded);
	near(stats_width(&e), 1);
	assert_int_equal(stats_estimate(v, 1, &e), 0);
	near(e.low, 1.2);
	near(e.high, 1.2);
	assert_int_equal(stats_estimate(v, 0, &e), -EINVAL);
	assert_int_equal(stats_estimate(v, STATS_MAX_PAIRS + 1, &e), -EINVAL);
}

static void test_not_positive(void **state)
{
	const double a[] = { 1, 0, 1 }, b[] = { 1, 1, 1 };
	struct stats_estimate e;

	(void)state;
	assert_int_equal(stats_ratio(a, b, 3, &e), -EDOM);
	assert_int_equal(stats_ratio(b, a, 3, &e), -EDOM);
}

/* The same digits whenever, and whatever the order of the samples. */
static void test_repeatable(void **state)
{
	double v[20], w[20];
	struct stats_estimate e1, e2, e3;
	struct rng r;

	(void)state;
	rng_init(&r, 5, "test");
	for (size_t i = 0; i < 20; i++)
		v[i] = 1 + (double)rng_below(&r, 1000) / 1e4;
	for (size_t i = 0; i < 20; i++)
		w[i] = v[(i * 7 + 3) % 20];
	assert_int_equal(stats_estimate(v, 20, &e1), 0);
	assert_int_equal(stats_estimate(v, 20, &e2), 0);
	assert_int_equal(stats_estimate(w, 20, &e3), 0);
	assert_memory_equal(&e1, &e2, sizeof(e1));
	near(e3.low, e1.low);
	near(e3.high, e1.high);
}

/* Of samples around a known median, whose distribution has a long tail on one side. */
static double draw(struct rng *r)
{
	double u = (double)(rng_next(r) >> 11) / 9007199254740992.0;

	return 1 / (2.5 - u); /* median 0.5 */
}

static double coverage(size_t n, unsigned trials, const char *stream)
{
	unsigned covered = 0;
	struct rng r;

	rng_init(&r, 11, stream);
	for (unsigned t = 0; t < trials; t++) {
		struct stats_estimate e;
		double v[64];

		for (size_t i = 0; i < n; i++)
			v[i] = draw(&r);
		assert_int_equal(stats_estimate(v, n, &e), 0);
		assert_true(e.bounded && e.low <= e.value && e.value <= e.high);
		covered += e.low <= 0.5 && 0.5 <= e.high;
	}
	return (double)covered / trials;
}

static void test_coverage(void **state)
{
	static const size_t sizes[] = { 6, 7, 9, 12, 20 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		double c = coverage(sizes[i], 400, "coverage");

		printf("%zu pairs: the interval covers the true median in %.1f %%\n", sizes[i], c * 100);
		assert_true(c >= 0.93 && c < 1);
	}
}

static void test_permutation(void **state)
{
	const double a[] = { 1, 1, 1, 1, 1, 1 }, b[] = { 2, 2, 2, 2, 2, 2 }, c[] = { 2, 0.5, 2, 0.5, 2, 0.5 };
	double many_a[40], many_b[40];

	(void)state;
	near(stats_permutation(a, b, 6), 2.0 / 64);  /* all one way, or all the other */
	near(stats_permutation(b, a, 6), 2.0 / 64);
	near(stats_permutation(a, a, 6), 1);
	near(stats_permutation(a, c, 6), 1);         /* the sum is 0: any is as far */
	for (size_t i = 0; i < 40; i++) {
		many_a[i] = 1;
		many_b[i] = 1.01;
	}
	near(stats_permutation(many_a, many_b, 40), 1.0 / 20001);
}

/* With no difference, p is below 5 % in 5 % of cases, exact and drawn alike. */
static void test_permutation_level(void **state)
{
	static const size_t sizes[] = { 10, 20 };
	struct rng r;

	(void)state;
	rng_init(&r, 3, "level");
	for (size_t s = 0; s < ARRAY_SIZE(sizes); s++) {
		unsigned below = 0;

		for (unsigned t = 0; t < 200; t++) {
			double a[20], b[20];

			for (size_t i = 0; i < sizes[s]; i++) {
				a[i] = draw(&r);
				b[i] = draw(&r);
			}
			below += stats_permutation(a, b, sizes[s]) < 0.05;
		}
		printf("%zu pairs without a difference: p below 5 %% in %.1f %%\n", sizes[s], below / 2.0);
		assert_true(below >= 2 && below <= 20);
	}
}

static void test_holm(void **state)
{
	const double p[] = { 0.01, 0.04, 0.03, 0.005 };
	double adjusted[4];

	(void)state;
	stats_holm(p, 4, adjusted); /* the textbook's example */
	near(adjusted[0], 0.03);
	near(adjusted[1], 0.06);
	near(adjusted[2], 0.06);
	near(adjusted[3], 0.02);
	stats_holm((const double[]){ 0.9, 0.8 }, 2, adjusted);
	near(adjusted[0], 1);
	near(adjusted[1], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_median),      cmocka_unit_test(test_ratio),       cmocka_unit_test(test_few),
		cmocka_unit_test(test_not_positive), cmocka_unit_test(test_repeatable), cmocka_unit_test(test_coverage),
		cmocka_unit_test(test_permutation), cmocka_unit_test(test_permutation_level), cmocka_unit_test(test_holm),
	};

	return test_run(tests);
}
