/*
 * pmbench's draws against the exact distributions (chi-square with statistics in floating point, which only the test may use), its buckets,
 * and runs: counts by kind, histograms, contents, warm-up.
 */
#include "tiny_machine.h"

#include "workload/workload.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)
#define DRAWS 400000U
#define CELLS 64U

/* The exact chance of a page below p. */
typedef double (*below_fn)(double p, double n, double shape);

static double below_uniform(double p, double n, double shape)
{
	(void)shape;
	return p / n;
}

static double phi(double x)
{
	return 0.5 * erfc(-x / sqrt(2.0));
}

/* What falls outside is the page in the middle. */
static double below_normal(double p, double n, double shape)
{
	double half = floor(n / 2), low = phi(-half / shape), high = phi((n - half) / shape);

	return phi((p - half) / shape) - low + (p > half ? low + 1 - high : 0);
}

static double below_pareto(double p, double n, double alpha)
{
	return (1 - pow(p + 1, -alpha)) / (1 - pow(n, -alpha));
}

/* Cells of about equal chance, whole pages each; 0.1 % is 4.2 deviations beyond the mean here with room for 64 cells. */
static void follows(enum draw_pattern pattern, uint64_t n, uint64_t millionths, double shape, below_fn below)
{
	uint64_t edge[CELLS + 1] = { 0 }, seen[CELLS] = { 0 };
	unsigned cells = 0;
	double chi = 0, mass = 0;
	struct draw d;
	struct rng r;

	rng_init(&r, 7, "draw");
	assert_null(draw_init(&d, pattern, n, millionths));
	for (uint64_t p = 1; p <= n; p++)
		if (p == n || (below((double)p, (double)n, shape) - mass >= 1.0 / CELLS && cells < CELLS - 1)) {
			edge[++cells] = p;
			mass = below((double)p, (double)n, shape);
		}
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t page = draw_page(&d, &r);
		unsigned c = 0;

		assert_true(page < n);
		while (page >= edge[c + 1])
			c++;
		seen[c]++;
	}
	for (unsigned c = 0; c < cells; c++) {
		double at = c + 1 == cells ? 1.0 : below((double)edge[c + 1], (double)n, shape);
		double want = DRAWS * (at - (c ? below((double)edge[c], (double)n, shape) : 0));

		if (want > 1)
			chi += ((double)seen[c] - want) * ((double)seen[c] - want) / want;
	}
	if (cells < 2 || chi > cells - 1 + 4.2 * sqrt(2.0 * cells))
		fail_msg("pattern %d, %lu pages: chi-square %.1f of %u cells", pattern, (unsigned long)n, chi, cells);
}

static void draws_follow_their_distributions(void **state)
{
	(void)state;
	follows(DRAW_UNIFORM, 1000, 0, 0, below_uniform);
	follows(DRAW_NORMAL, 4096, 512 * DRAW_SHAPE_ONE, 512, below_normal);
	follows(DRAW_NORMAL, 1001, 700 * DRAW_SHAPE_ONE, 700, below_normal); /* half lies outside */
	follows(DRAW_NORMAL, 64, 0, 1, below_normal);
	follows(DRAW_PARETO, 65536, 0, 1.00001, below_pareto);
	follows(DRAW_PARETO, 5000, 1161000, 1.161, below_pareto);
	follows(DRAW_PARETO, 1000, 100000, 0.1, below_pareto);
}

/* Mean of 12 uniform ones: its two moments and how much lies within one deviation. */
static void irwin_hall_has_its_moments(void **state)
{
	double sum = 0, squares = 0, mean, deviation;
	unsigned within = 0;
	struct draw d;
	struct rng r;

	(void)state;
	rng_init(&r, 3, "ih");
	assert_null(draw_init(&d, DRAW_NORMAL_IH, 12000, 0));
	for (unsigned i = 0; i < DRAWS; i++) {
		uint64_t page = draw_page(&d, &r);

		assert_true(page < 12000);
		sum += (double)page;
		squares += (double)page * (double)page;
		within += page >= 5000 && page < 7000;
	}
	mean = sum / DRAWS;
	deviation = sqrt(squares / DRAWS - mean * mean);
	assert_true(fabs(mean - 5999) < 8);
	assert_true(fabs(deviation - 1000) < 6);
	assert_true(fabs((double)within / DRAWS - 0.6788) < 0.004); /* Irwin-Hall's, a little less than normal's 0.6827 */
}

static void linear_goes_by_stride_and_phase(void **state)
{
	static const uint64_t want[] = { 0, 3, 6, 9, 1, 4, 7, 2, 5, 8, 0, 3 };
	struct draw d;
	struct rng r;

	(void)state;
	rng_init(&r, 1, "linear");
	assert_null(draw_init(&d, DRAW_LINEAR, 10, 3 * DRAW_SHAPE_ONE));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++)
		assert_int_equal(draw_page(&d, &r), want[i]);
}

static void shapes_that_make_no_sense(void **state)
{
	struct draw d;

	(void)state;
	assert_non_null(draw_init(&d, DRAW_UNIFORM, 10, DRAW_SHAPE_ONE));
	assert_non_null(draw_init(&d, DRAW_LINEAR, 10, 11 * DRAW_SHAPE_ONE));
	assert_non_null(draw_init(&d, DRAW_NORMAL, 10, DRAW_SHAPE_ONE + 1));
	assert_non_null(draw_init(&d, DRAW_PARETO, 10, 1));
	assert_non_null(draw_init(&d, DRAW_PARETO, 0, 0));
	assert_int_equal(draw_pattern("zipf"), DRAW_PARETO);
	assert_int_equal(draw_pattern("normal_ih"), DRAW_NORMAL_IH);
	assert_int_equal(draw_pattern("zip"), -1);
}

static void the_smallest_and_largest_sets(void **state)
{
	static const enum draw_pattern all[] = { DRAW_UNIFORM, DRAW_LINEAR, DRAW_NORMAL, DRAW_NORMAL_IH, DRAW_PARETO };
	struct draw d;
	struct rng r;

	(void)state;
	rng_init(&r, 1, "edges");
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (unsigned n = 0; n < 2; n++) {
			assert_null(draw_init(&d, all[i], n ? DRAW_PAGES_MAX : 1, 0));
			for (unsigned k = 0; k < 1000; k++)
				assert_true(draw_page(&d, &r) < d.n);
		}
}

static void buckets_are_the_published_ones(void **state)
{
	(void)state;
	assert_int_equal(PMBENCH_BUCKETS, 1 + 15 * 16 + 7 + 1);
	assert_int_equal(pmbench_bucket(0), 0);
	assert_int_equal(pmbench_bucket(255), 0);
	assert_int_equal(pmbench_bucket(256), 1);
	assert_int_equal(pmbench_bucket(271), 1);
	assert_int_equal(pmbench_bucket(272), 2);
	assert_int_equal(pmbench_bucket((1 << 23) - 1), 240);
	assert_int_equal(pmbench_bucket(1 << 23), 241);
	assert_int_equal(pmbench_bucket((1 << 30) - 1), 247);
	assert_int_equal(pmbench_bucket(1 << 30), 248);
	assert_int_equal(pmbench_bucket(~0ULL), 248);
	for (unsigned i = 0; i < PMBENCH_BUCKETS; i++) {
		assert_int_equal(pmbench_bucket(pmbench_bucket_from(i)), i);
		if (i)
			assert_int_equal(pmbench_bucket(pmbench_bucket_from(i) - 1), i - 1);
	}
}

/* ---- runs ---- */

static struct workload_result run(const struct workload_options *o, int64_t *ret_faults)
{
	struct machine *m = tiny_machine(1, 2);
	struct workload_result r;
	char err[300] = "";
	struct knobs k;
	struct quire *q;

	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	assert_int_equal(quire_boot(m, &k, &q, err, sizeof(err)), 0);
	if (workload_run(q, workload_find("pmbench"), o, &r, err, sizeof(err)))
		fail_msg("%s", err);
	*ret_faults = vmstat_read(q, VM_quire_fault_anon_4k);
	assert_int_equal(quire_validate(q), 0);
	assert_int_equal(quire_shutdown(q), 0);
	model_destroy(m);
	return r;
}

static uint64_t in_buckets(const struct pmbench_hist *h)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < PMBENCH_BUCKETS; i++)
		n += h->bucket[i];
	return n;
}

static void a_cold_linear_run_faults_each_page_once(void **state)
{
	const struct workload_options o = { .tasks = 1, .size = 4 * MIB, .working_set = 2 * MIB, .ops = 512, .pattern = DRAW_LINEAR,
					    .reads_given = true, .cold = true };
	int64_t faults;
	struct workload_result r = run(&o, &faults);

	(void)state;
	assert_int_equal(faults, 512); /* of a map of 1024 pages */
	assert_int_equal(r.ops, 512);
	assert_int_equal(r.stores, 512);
	assert_int_equal(r.loads, 0);
	assert_int_equal(r.pmbench[0].count, 0);
	assert_int_equal(r.pmbench[1].count, 512);
	assert_int_equal(in_buckets(&r.pmbench[1]), 512);
	assert_true(r.pmbench[1].sum > 0 && r.total > 0);
	workload_result_done(&r);
}

static void a_warm_run_times_no_faults(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 2 * MIB, .ops = 3000, .pattern = DRAW_LINEAR, .reads_given = true,
					    .check = true };
	int64_t faults;
	struct workload_result r = run(&o, &faults);

	(void)state;
	assert_int_equal(faults, 512);
	assert_int_equal(r.ops, 6000);
	assert_int_equal(r.stores, 6000 + 2 * 512); /* the warm-up is no operation */
	assert_int_equal(r.pmbench[1].count, 6000);
	workload_result_done(&r);
}

static void reads_and_writes_are_counted_apart(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 2 * MIB, .ops = 20000, .reads_given = true, .reads = 80, .check = true,
					    .seed = 4 };
	int64_t faults;
	struct workload_result r = run(&o, &faults), again = run(&o, &faults);

	(void)state;
	assert_int_equal(r.pmbench[0].count + r.pmbench[1].count, 40000);
	assert_true(r.pmbench[0].count > 31600 && r.pmbench[0].count < 32400); /* five deviations of 80 */
	assert_int_equal(in_buckets(&r.pmbench[0]), r.pmbench[0].count);
	assert_int_equal(in_buckets(&r.pmbench[1]), r.pmbench[1].count);
	assert_true(r.checked > 0);
	assert_int_equal(r.wrong, 0);
	assert_memory_equal(r.pmbench, again.pmbench, 2 * sizeof(*r.pmbench)); /* the same seed, the same run */
	assert_int_equal(r.work_ns, again.work_ns);
	workload_result_done(&r);
	workload_result_done(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draws_follow_their_distributions),
		cmocka_unit_test(irwin_hall_has_its_moments),
		cmocka_unit_test(linear_goes_by_stride_and_phase),
		cmocka_unit_test(shapes_that_make_no_sense),
		cmocka_unit_test(the_smallest_and_largest_sets),
		cmocka_unit_test(buckets_are_the_published_ones),
		cmocka_unit_test(a_cold_linear_run_faults_each_page_once),
		cmocka_unit_test(a_warm_run_times_no_faults),
		cmocka_unit_test(reads_and_writes_are_counted_apart),
	};

	return test_run(tests);
}
