/*
 * Orders of clearing and copying a huge page. The oracle is written from the description of each order, independently
 * of the code: converging is 'repeatedly take whichever end is farther from the target; at equal distance the right
 * one'.
 */
#include "booted.h"

#include "mm/hugecopy.h"

#include <errno.h>
#include <string.h>

#define MAX_N 2048

struct record {
	unsigned n, order[MAX_N];
	vaddr_t base;
	unsigned fail_at; /* the k-th call fails, from 1; 0: none */
};

static int note(struct cpu *c, unsigned index, vaddr_t va, void *arg)
{
	struct record *r = arg;

	(void)c;
	assert_true(r->n < MAX_N);
	assert_int_equal(va, r->base + (uint64_t)index * PAGE_SIZE);
	r->order[r->n++] = index;
	return r->fail_at == r->n ? -EHWPOISON : 0;
}

static void run(enum huge_order_policy policy, unsigned nr, vaddr_t hint, struct record *r)
{
	r->n = 0;
	r->fail_at = 0;
	r->base = hint & ~((vaddr_t)nr * PAGE_SIZE - 1);
	assert_int_equal(hugecopy_process(NULL, policy, hint, nr, note, r), 0);
	assert_int_equal(r->n, nr);
}

static unsigned distance(unsigned a, unsigned b)
{
	return a > b ? a - b : b - a;
}

static void expect_converging(unsigned nr, unsigned n, unsigned *want)
{
	unsigned left = 0, right = nr - 1, i = 0;

	while (left < right)
		want[i++] = n - left > right - n ? left++ : right--;
	want[i] = left;
}

static void expect_neighbourhood(unsigned nr, unsigned n, unsigned *want)
{
	unsigned i = 0;

	for (unsigned p = 0; p < nr; p++)
		if (p > n && distance(p, n) > 2)
			want[i++] = p;
	for (unsigned p = 0; p < nr; p++)
		if (p < n && distance(p, n) > 2)
			want[i++] = p;
	for (unsigned p = 0; p < nr; p++)
		if (distance(p, n) <= 2)
			want[i++] = p;
}

#define BASE 0x7f1234000000ULL /* 64 MiB aligned */

static void test_every_hint(void **state)
{
	static const unsigned sizes[] = { 1, 2, 4, 8, 16, 512, 1024 };
	static struct record r;
	static unsigned want[MAX_N];

	(void)state;
	for (unsigned s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (unsigned n = 0; n < sizes[s]; n++) {
			unsigned nr = sizes[s];
			vaddr_t hint = BASE + (uint64_t)n * PAGE_SIZE + (n * 37) % PAGE_SIZE; /* inside of the page */

			run(HUGE_ORDER_LINEAR, nr, hint, &r);
			for (unsigned i = 0; i < nr; i++)
				assert_int_equal(r.order[i], i);

			run(HUGE_ORDER_TARGET_LAST, nr, hint, &r);
			expect_converging(nr, n, want);
			assert_memory_equal(r.order, want, nr * sizeof(*want));
			assert_int_equal(r.order[nr - 1], n);
			for (unsigned i = 1; i < nr; i++)
				assert_true(distance(r.order[i], n) <= distance(r.order[i - 1], n));

			run(HUGE_ORDER_NEIGHBOURHOOD_LAST, nr, hint, &r);
			expect_neighbourhood(nr, n, want);
			assert_memory_equal(r.order, want, nr * sizeof(*want));
		}
	}
}

/* Each order is a permutation: counted, not trusted to the oracle. */
static void test_each_once(void **state)
{
	static struct record r;

	(void)state;
	for (int policy = HUGE_ORDER_LINEAR; policy <= HUGE_ORDER_NEIGHBOURHOOD_LAST; policy++) {
		for (unsigned n = 0; n < 512; n++) {
			uint8_t seen[512] = { 0 };

			run((enum huge_order_policy)policy, 512, BASE + n * PAGE_SIZE, &r);
			for (unsigned i = 0; i < 512; i++)
				assert_int_equal(seen[r.order[i]]++, 0);
		}
	}
}

static void starts(unsigned n, const unsigned *first, unsigned nr_first, const unsigned *last, unsigned nr_last)
{
	static struct record r;

	run(HUGE_ORDER_TARGET_LAST, 512, BASE + n * PAGE_SIZE, &r);
	for (unsigned i = 0; i < nr_first; i++)
		assert_int_equal(r.order[i], first[i]);
	for (unsigned i = 0; i < nr_last; i++)
		assert_int_equal(r.order[512 - nr_last + i], last[i]);
}

#define LIST(...) (const unsigned[]){ __VA_ARGS__ }, sizeof((const unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned)

/* The published cases of the converging order, by hand. */
static void test_named_cases(void **state)
{
	static struct record r;

	(void)state;
	starts(0, LIST(511, 510, 509), LIST(2, 1, 0));
	starts(1, LIST(511, 510), LIST(3, 2, 0, 1));
	starts(255, LIST(511, 510, 0, 509, 1, 508), LIST(256, 254, 255));
	starts(256, LIST(0, 511, 1, 510),
	       LIST(257, 255, 256)); /* exactly half counts as the first half: no first phase */
	starts(257, LIST(0, 1, 2, 511, 3, 510), LIST(258, 256, 257));
	starts(510, LIST(0, 1, 2), LIST(508, 511, 509, 510));
	starts(511, LIST(0, 1, 2), LIST(509, 510, 511));
	run(HUGE_ORDER_NEIGHBOURHOOD_LAST, 512, BASE + 100 * PAGE_SIZE, &r);
	assert_int_equal(r.order[0], 103);
	assert_int_equal(r.order[408], 511);
	assert_int_equal(r.order[409], 0);
	assert_int_equal(r.order[506], 97);
	assert_int_equal(r.order[507], 98); /* the target is not last here: two follow it */
	assert_int_equal(r.order[511], 102);
	run(HUGE_ORDER_NEIGHBOURHOOD_LAST, 512, BASE, &r);
	assert_int_equal(r.order[0], 3);
	assert_int_equal(r.order[508], 511);
	assert_int_equal(r.order[509], 0);
	assert_int_equal(r.order[511], 2);
}

/* A gigantic page ignores the hint, and its addresses start at the aligned base all the same. */
static int note_gigantic(struct cpu *c, unsigned index, vaddr_t va, void *arg)
{
	unsigned *next = arg;

	(void)c;
	assert_int_equal(index, *next);
	assert_int_equal(va, 0x7f0000000000ULL + (uint64_t)index * PAGE_SIZE);
	++*next;
	return 0;
}

static void test_gigantic(void **state)
{
	(void)state;
	for (int policy = HUGE_ORDER_LINEAR; policy <= HUGE_ORDER_NEIGHBOURHOOD_LAST; policy++) {
		unsigned next = 0;

		assert_int_equal(hugecopy_process(NULL, (enum huge_order_policy)policy, 0x7f0012345678ULL, 1 << 18,
						  note_gigantic, &next),
				 0);
		assert_int_equal(next, 1 << 18);
	}
}

/* An error at any place: nothing after it is done, what was done before is the order's beginning. */
static void test_error_stops(void **state)
{
	static struct record whole, part;

	(void)state;
	for (int policy = HUGE_ORDER_LINEAR; policy <= HUGE_ORDER_NEIGHBOURHOOD_LAST; policy++) {
		for (unsigned n = 0; n < 16; n++) {
			vaddr_t hint = BASE + n * PAGE_SIZE;

			run((enum huge_order_policy)policy, 16, hint, &whole);
			for (unsigned k = 1; k <= 16; k++) {
				part = (struct record){ .base = BASE, .fail_at = k };
				assert_int_equal(hugecopy_process(NULL, (enum huge_order_policy)policy, hint, 16, note,
								  &part),
						 -EHWPOISON);
				assert_int_equal(part.n, k);
				assert_memory_equal(part.order, whole.order, k * sizeof(unsigned));
			}
		}
	}
}

/* ---- on frames ---- */

/* How many whole ones have been timed. */
static uint64_t timed(const struct booted *b, enum bulk_kind kind)
{
	struct hist h;

	quire_bulk_ns(b->q, kind, &h);
	return h.count;
}

static void test_contents(void **state)
{
	struct booted b;
	struct knobs k;

	(void)state;
	knobs_default(&k);
	for (uint32_t policy = HUGE_ORDER_LINEAR; policy <= HUGE_ORDER_NEIGHBOURHOOD_LAST; policy++) {
		struct frame *src, *dst;
		const struct null_counts *n;
		uint64_t s, d;

		k.huge_copy_order = k.huge_clear_order = policy;
		boot_with(&b, &(struct null_options){ .node_bytes = 128 << 20 }, &k);
		n = null_counts(b.m);
		src = take(b.c, 9, GFP_TRANSHUGE, NID_NONE);
		dst = take(b.c, 9, GFP_TRANSHUGE, NID_NONE);
		s = frame_pfn(b.m, src).v;
		d = frame_pfn(b.m, dst).v;
		for (unsigned hint = 0; hint < 512; hint += 73) {
			for (unsigned i = 0; i < 512; i++) {
				b.m->tags[s + i] = 1000 + i;
				b.m->tags[d + i] = 5;
			}
			/* Sentinels around the destination, where that is not the source. */
			if (d != s + 512)
				b.m->tags[d - 1] = 99;
			if (s != d + 512)
				b.m->tags[d + 512] = 99;
			null_counts_reset(b.m);
			assert_int_equal(hugecopy_copy(b.c, dst, src, 512, BASE + hint * PAGE_SIZE), 0);
			for (unsigned i = 0; i < 512; i++) {
				assert_int_equal(b.m->tags[d + i], 1000 + i);
				assert_int_equal(b.m->tags[s + i], 1000 + i);
			}
			assert_int_equal(n->path[PATH_COPY_PAGE].copies, 512);
			assert_int_equal(n->path[PATH_HUGECOPY].units, 512);
			assert_int_equal(hugecopy_clear(b.c, dst, 512, BASE + hint * PAGE_SIZE), 0);
			for (unsigned i = 0; i < 512; i++)
				assert_int_equal(b.m->tags[d + i], 0);
			assert_int_equal(n->path[PATH_CLEAR_PAGE].clears, 512);
			assert_true(b.m->tags[d - 1] == 99 || d == s + 512);
			assert_true(b.m->tags[d + 512] == 99 || s == d + 512);
		}
		assert_int_equal(counter(&b, VM_quire_pages_copied), 8 * 512);
		assert_int_equal(counter(&b, VM_quire_pages_cleared), 8 * 512);
		assert_int_equal(timed(&b, BULK_COPY_2M), 8);
		assert_int_equal(timed(&b, BULK_CLEAR_2M), 8);
		frame_put(b.c, src);
		frame_put(b.c, dst);
		shut_down(&b);
	}
}

static void test_injected(void **state)
{
	struct booted b;
	struct inject *in;
	struct frame *src, *dst;
	uint64_t d;

	(void)state;
	boot_small(&b, 128);
	src = take(b.c, 9, GFP_TRANSHUGE, NID_NONE);
	dst = take(b.c, 9, GFP_TRANSHUGE, NID_NONE);
	d = frame_pfn(b.m, dst).v;
	assert_int_equal(inject_attach(b.m, 1, &in), 0);
	for (unsigned k = 1; k <= 512; k += 51) {
		int64_t copied = counter(&b, VM_quire_pages_copied), cleared = counter(&b, VM_quire_pages_cleared);
		unsigned changed = 0;

		for (unsigned i = 0; i < 512; i++) {
			b.m->tags[frame_pfn(b.m, src).v + i] = 8;
			b.m->tags[d + i] = 5;
		}
		inject_set(in, INJECT_COPY, INJECT_NTH, k);
		assert_int_equal(hugecopy_copy(b.c, dst, src, 512, BASE + 300 * PAGE_SIZE), -EHWPOISON);
		for (unsigned i = 0; i < 512; i++)
			changed += b.m->tags[d + i] == 8;
		assert_int_equal(changed, k - 1);
		assert_int_equal(counter(&b, VM_quire_pages_copied) - copied, k - 1);
		inject_set(in, INJECT_CLEAR, INJECT_NTH, k);
		assert_int_equal(hugecopy_clear(b.c, dst, 512, BASE), -ENOMEM);
		assert_int_equal(counter(&b, VM_quire_pages_cleared) - cleared, k - 1);
	}
	assert_int_equal(timed(&b, BULK_COPY_2M) + timed(&b, BULK_CLEAR_2M), 0); /* halves are not times of anything */
	inject_detach(in);
	frame_put(b.c, src);
	frame_put(b.c, dst);
	shut_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_hint),  cmocka_unit_test(test_each_once),
		cmocka_unit_test(test_named_cases), cmocka_unit_test(test_gigantic),
		cmocka_unit_test(test_error_stops), cmocka_unit_test(test_contents),
		cmocka_unit_test(test_injected),
	};

	return test_run(tests);
}
