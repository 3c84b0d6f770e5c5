/* What every layer stands on: histogram, random streams, CPU sets, lists. */
#include "testing.h"

#include "base/cpumask.h"
#include "base/hist.h"
#include "base/list.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* ---- hist ---- */

static void hist_buckets_tile_the_numbers(void **state)
{
	(void)state;
	assert_int_equal(hist_lower(0), 0);
	for (unsigned i = 1; i < HIST_BUCKETS; i++) {
		uint64_t low = hist_lower(i);

		assert_true(low > hist_lower(i - 1));
		assert_int_equal(hist_index(low), i);
		assert_int_equal(hist_index(low - 1), i - 1);
		/* 16 buckets an octave: a bucket is at most a sixteenth of its lower bound wide. */
		if (i >= HIST_SUB && i + 1 < HIST_BUCKETS)
			assert_true(hist_lower(i + 1) - low <= low / HIST_SUB);
	}
	assert_int_equal(hist_index(UINT64_MAX), HIST_BUCKETS - 1);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The k-th smallest of n is what the quantile says, up to its bucket: never above, never more than a sixteenth below. */
static void check_quantiles(const struct hist *h, uint64_t *v, size_t n)
{
	static const unsigned points[] = { 1, 10, 100, 250, 500, 501, 900, 990, 999, 1000 };
	uint64_t sum = 0;

	qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	assert_int_equal(h->count, n);
	assert_int_equal(h->sum, sum);
	assert_int_equal(h->min, v[0]);
	assert_int_equal(h->max, v[n - 1]);
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		size_t rank = (n * points[i] + 999) / 1000;
		uint64_t exact = v[rank - 1], got = hist_quantile(h, points[i]);

		if (got > exact || exact - got > exact / HIST_SUB)
			fail_msg("%zu samples, %u of 1000: %llu, not %llu", n, points[i], (unsigned long long)got,
				 (unsigned long long)exact);
	}
	assert_true(hist_quantile(h, 0) <= v[0]);
}

static uint64_t draw(struct rng *r, int shape)
{
	switch (shape) {
	case 0:
		return rng_below(r, 10);
	case 1:
		return rng_below(r, 1000000);
	case 2: /* all magnitudes alike */
		return rng_next(r) >> rng_below(r, 64);
	default: /* two heaps far apart */
		return rng_below(r, 100) ? 500 + rng_below(r, 100) : 1000000000 + rng_below(r, 100);
	}
}

static void hist_quantiles_are_those_of_the_sorted_samples(void **state)
{
	static const size_t sizes[] = { 1, 2, 3, 10, 999, 1000, 1001, 5000 };
	uint64_t v[5000];
	struct rng r;

	(void)state;
	rng_init(&r, 1, "quantiles");
	for (int shape = 0; shape < 4; shape++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct hist h = { 0 };

			for (size_t i = 0; i < sizes[s]; i++) {
				v[i] = draw(&r, shape);
				hist_add(&h, v[i]);
			}
			check_quantiles(&h, v, sizes[s]);
		}
}

static void hist_merged_is_as_if_added(void **state)
{
	uint64_t v[3000];
	struct hist parts[3] = { 0 }, all = { 0 }, merged = { 0 }, empty = { 0 };
	struct rng r;

	(void)state;
	rng_init(&r, 2, "merge");
	for (unsigned i = 0; i < 3000; i++) {
		v[i] = draw(&r, 2);
		hist_add(&all, v[i]);
		hist_add(&parts[v[i] % 7 ? i % 2 : 2], v[i]);
	}
	hist_merge(&merged, &empty); /* before there is anything: does not make a minimum of 0 */
	for (unsigned i = 0; i < 3; i++)
		hist_merge(&merged, &parts[i]);
	hist_merge(&merged, &empty);
	assert_memory_equal(&merged, &all, sizeof(all));
	check_quantiles(&merged, v, 3000);
}

static void hist_extremes(void **state)
{
	struct hist h = { 0 };

	(void)state;
	assert_int_equal(hist_quantile(&h, 500), 0);
	hist_add(&h, 0);
	assert_int_equal(h.min, 0);
	assert_int_equal(hist_quantile(&h, 1000), 0);
	hist_add(&h, UINT64_MAX);
	assert_int_equal(hist_quantile(&h, 500), 0);
	assert_int_equal(hist_quantile(&h, 1000), hist_lower(HIST_BUCKETS - 1));
	assert_true(h.max == UINT64_MAX);

	/* One sample inside a bucket: every quantile is that sample, not the bucket's bound. */
	struct hist one = { 0 };

	hist_add(&one, 1000003);
	assert_int_equal(hist_quantile(&one, 1), 1000003);
	assert_int_equal(hist_quantile(&one, 1000), 1000003);
}

/* ---- rng ---- */

/* Recorded results depend on these: a change of the generator is a change of every generated workload. */
static void rng_values_are_fixed(void **state)
{
	struct rng r;

	(void)state;
	rng_init(&r, 1, "synthetic");
	assert_true(rng_next(&r) == 8799727247409739140ULL);
	assert_true(rng_next(&r) == 13608376672888482387ULL);
	assert_true(rng_next(&r) == 10635418688170707071ULL);
	assert_true(rng_next(&r) == 12520068798999154005ULL);
	rng_init(&r, UINT64_MAX, "");
	assert_true(rng_next(&r) == 2894842807057919439ULL);
}

/* The generator itself, by its authors' definition from a state that can be followed by hand. */
static void rng_is_xoshiro256starstar(void **state)
{
	struct rng r = { { 1, 2, 3, 4 } };

	(void)state;
	assert_true(rng_next(&r) == 11520);
	assert_true(rng_next(&r) == 0);
	assert_true(rng_next(&r) == 1509978240);
	assert_true(rng_next(&r) == 1215971899390074240);
}

static void rng_streams_are_independent(void **state)
{
	struct rng a, b, again, other_seed;
	unsigned equal = 0, bits = 0;

	(void)state;
	rng_init(&a, 7, "pages");
	rng_init(&b, 7, "pagez");
	rng_init(&again, 7, "pages");
	rng_init(&other_seed, 8, "pages");
	for (int i = 0; i < 4096; i++) {
		uint64_t x = rng_next(&a), y = rng_next(&b), z = rng_next(&other_seed);

		/* What others draw shifts nothing. */
		if (x != rng_next(&again))
			fail_msg("draw %d differs between two streams of one name", i);
		equal += x == y || x == z || y == z;
		bits += (unsigned)__builtin_popcountll(x ^ y);
	}
	assert_int_equal(equal, 0);
	/* Half of the bits differ: 131072 of 262144, standard deviation 256. */
	assert_in_range(bits, 131072 - 1500, 131072 + 1500);
	/* Empty and prefix names are names too. */
	rng_init(&a, 7, "");
	rng_init(&b, 7, "p");
	assert_true(rng_next(&a) != rng_next(&b));
}

static void rng_below_is_uniform_in_range(void **state)
{
	static const uint64_t ranges[] = { 1, 2, 3, 10, 97, 1ULL << 32, (1ULL << 63) + 1, UINT64_MAX };
	struct rng r;
	unsigned count[97] = { 0 };

	(void)state;
	rng_init(&r, 3, "range");
	for (size_t k = 0; k < sizeof(ranges) / sizeof(ranges[0]); k++) {
		bool low = false, high = false;

		for (int i = 0; i < 2000; i++) {
			uint64_t x = rng_below(&r, ranges[k]);

			assert_true(x < ranges[k]);
			low |= x <= ranges[k] / 4;
			high |= x >= ranges[k] / 4 * 3;
		}
		assert_true(low && high);
	}
	for (int i = 0; i < 97000; i++)
		count[rng_below(&r, 97)]++;
	for (int i = 0; i < 97; i++) /* 1000 each, standard deviation 31.5 */
		assert_in_range(count[i], 850, 1150);
}

/* ---- cpumask ---- */

static void cpumask_bits(void **state)
{
	static const unsigned cpus[] = { 0, 1, 63, 64, 65, 127, 128, 500, 1022, 1023 };
	const size_t n = sizeof(cpus) / sizeof(cpus[0]);
	struct cpumask m = { 0 };
	size_t i = 0;
	unsigned c;

	(void)state;
	for_each_cpu(c, &m, QUIRE_MAX_CPUS)
		fail_msg("an empty set has CPU %u", c);
	for (i = 0; i < n; i++)
		cpumask_set(&m, cpus[i]);
	i = 0;
	for_each_cpu(c, &m, QUIRE_MAX_CPUS) {
		assert_true(i < n);
		assert_int_equal(c, cpus[i++]);
	}
	assert_int_equal(i, n);
	for (c = 0, i = 0; c < QUIRE_MAX_CPUS; c++) {
		bool is = i < n && cpus[i] == c;

		assert_int_equal(cpumask_test(&m, c), is);
		i += is;
	}
	for (i = 0; i < n; i++) {
		cpumask_clear(&m, cpus[i]);
		assert_false(cpumask_test(&m, cpus[i]));
		assert_int_equal(cpumask_next(&m, 0, QUIRE_MAX_CPUS), i + 1 < n ? cpus[i + 1] : QUIRE_MAX_CPUS);
	}
}

static void cpumask_next_against_one_bit_at_a_time(void **state)
{
	struct rng r;

	(void)state;
	rng_init(&r, 5, "mask");
	for (int round = 0; round < 200; round++) {
		struct cpumask m = { 0 };
		unsigned nr = 1 + (unsigned)rng_below(&r, QUIRE_MAX_CPUS), from = (unsigned)rng_below(&r, nr + 1), c = from;

		for (uint64_t k = rng_below(&r, 8); k; k--)
			cpumask_set(&m, (unsigned)rng_below(&r, QUIRE_MAX_CPUS)); /* also beyond nr */
		while (c < nr && !cpumask_test(&m, c))
			c++;
		assert_int_equal(cpumask_next(&m, from, nr), c);
	}
}

/* ---- list ---- */

struct item {
	int before; /* so that the link is not at offset 0 */
	struct list_head link;
	int nr;
};

static void expect(struct list_head *h, const char *want)
{
	char got[32] = "", back[32] = "";
	size_t n = 0, k = 0;
	struct item *it;

	list_for_each_entry(it, h, link)
		got[n++] = (char)('0' + it->nr);
	for (struct list_head *p = h->prev; p != h; p = p->prev)
		back[k++] = (char)('0' + list_entry(p, struct item, link)->nr);
	assert_string_equal(got, want);
	assert_int_equal(n, k);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(got[i], back[n - 1 - i]);
}

static void list_order(void **state)
{
	struct item it[6];
	struct list_head h;

	(void)state;
	list_init(&h);
	for (int i = 0; i < 6; i++) {
		it[i].nr = i;
		list_init(&it[i].link);
		assert_true(list_empty(&it[i].link));
	}
	assert_true(list_empty(&h));
	expect(&h, "");
	list_add(&it[1].link, &h);
	list_add(&it[0].link, &h);
	list_add_tail(&it[2].link, &h);
	list_add_tail(&it[3].link, &h);
	list_add(&it[4].link, &it[1].link);	 /* behind 1 */
	list_add_tail(&it[5].link, &it[0].link); /* before 0 */
	expect(&h, "501423");
	assert_int_equal(list_first_entry(&h, struct item, link)->nr, 5);
	assert_int_equal(list_last_entry(&h, struct item, link)->nr, 3);
	list_del(&it[4].link);
	expect(&h, "50123");
	list_del(&it[4].link); /* again: harmless */
	assert_true(list_empty(&it[4].link));
	expect(&h, "50123");
	list_del(&it[5].link);
	list_del(&it[3].link);
	expect(&h, "012");
}

static void list_entries_may_go_during_a_safe_walk(void **state)
{
	struct item it[9], *pos, *tmp;
	struct list_head h;
	int seen = 0;

	(void)state;
	list_init(&h);
	for (int i = 0; i < 9; i++) {
		it[i].nr = i;
		list_add_tail(&it[i].link, &h);
	}
	list_for_each_entry_safe(pos, tmp, &h, link) {
		assert_int_equal(pos->nr, seen++);
		if (pos->nr % 2 == 0) {
			list_del(&pos->link);
			memset(pos, 0x5a, sizeof(*pos));
		}
	}
	assert_int_equal(seen, 9);
	expect(&h, "1357");
	list_for_each_entry_safe(pos, tmp, &h, link)
		list_del(&pos->link);
	assert_true(list_empty(&h));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hist_buckets_tile_the_numbers),
		cmocka_unit_test(hist_quantiles_are_those_of_the_sorted_samples),
		cmocka_unit_test(hist_merged_is_as_if_added),
		cmocka_unit_test(hist_extremes),
		cmocka_unit_test(rng_values_are_fixed),
		cmocka_unit_test(rng_is_xoshiro256starstar),
		cmocka_unit_test(rng_streams_are_independent),
		cmocka_unit_test(rng_below_is_uniform_in_range),
		cmocka_unit_test(cpumask_bits),
		cmocka_unit_test(cpumask_next_against_one_bit_at_a_time),
		cmocka_unit_test(list_order),
		cmocka_unit_test(list_entries_may_go_during_a_safe_walk),
	};

	return test_run(tests);
}
