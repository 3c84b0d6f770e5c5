/*
 * The hot code of each shape of machine against the code for any shape, and that with AVX2 against that without: the same operations
 * give the same times, counters and states.
 */
#include "testing.h"

#include "base/rng.h"
#include "core_fixture.h"
#include "machine/model/hot.h"

const uint32_t machine_work_table[NR_MACHINE_PATHS] = { [PATH_FAULT] = 300 };

#define VA (1ULL << 40)
#define HUGE_VA (VA + (1ULL << 30))
#define PAGES 3000U
#define WORDS 200U

/* What is common to all shapes, small enough for everything to be replaced often. */
static struct machine_desc any_desc(bool two_sockets)
{
	struct machine_desc d = fix_desc();

	d.cores_per_socket = 3;
	if (two_sockets) {
		fix_two_sockets(&d);
		d.cores_per_socket = d.threads_per_core = 2;
	}
	d.l1d = (struct cache_desc){ .size = 4096, .ways = 8, .latency_ps = 1700, .replacement = REPL_PLRU };
	d.l2 = (struct cache_desc){ .size = 16384, .ways = 8, .latency_ps = 5200, .replacement = REPL_PLRU };
	d.llc = (struct cache_desc){ .size = CACHE_LINE * 20 * 48,
				     .ways = 20,
				     .latency_ps = 21000,
				     .replacement = REPL_SRRIP,
				     .inclusion = INCL_INCLUSIVE };
	d.dtlb = (struct tlb_desc){
		.entries_4k = 64, .ways_4k = 4, .entries_2m = 32, .ways_2m = 4, .entries_1g = 4, .ways_1g = 4
	};
	d.stlb = (struct tlb_desc){ .entries_4k = 256, .ways_4k = 8, .shared_2m = true, .latency_ps = 3000 };
	d.pwc_pmd = 32;
	d.pwc_pud = 4;
	d.pwc_pgd = 2;
	d.prefetch.enabled = true;
	d.prefetch.streams = 32;
	d.prefetch.degree = 2;
	d.prefetch.distance = 20;
	return d;
}

static struct machine_desc shape_desc(enum core_shape shape, bool two_sockets)
{
	struct machine_desc d = any_desc(two_sockets);

	if (shape == SHAPE_ANY) { /* nothing as the shapes have it */
		d.l1d.replacement = REPL_LRU;
		d.llc.inclusion = INCL_EXCLUSIVE;
	}
	if (shape == SHAPE_BROADWELL)
		d.stlb.ways_4k = 6, d.stlb.entries_4k = 384;
	if (shape == SHAPE_SKYLAKE_CLIENT || shape == SHAPE_SKYLAKE)
		d.stlb.ways_4k = 12, d.stlb.entries_4k = 384;
	if (shape == SHAPE_SKYLAKE_CLIENT) {
		d.l2.ways = 4;
		d.llc.ways = 16;
		d.llc.size = CACHE_LINE * 16 * 64;
	}
	if (shape == SHAPE_SKYLAKE || shape == SHAPE_SAPPHIRE) {
		d.l2.ways = 16;
		d.llc.inclusion = INCL_NON_INCLUSIVE;
	}
	if (shape == SHAPE_SKYLAKE) {
		d.llc.ways = 11;
		d.llc.size = CACHE_LINE * 11 * 48;
	}
	if (shape == SHAPE_SAPPHIRE) {
		d.l1d.ways = 12;
		d.l1d.size = 6144;
		d.dtlb.ways_4k = 6;
		d.dtlb.entries_4k = 96;
		d.stlb.ways_4k = 16;
	}
	return d;
}

struct digest {
	uint64_t v;
};

static void mix(struct digest *d, uint64_t v)
{
	d->v = (d->v ^ v) * 0x100000001b3ULL;
	d->v ^= d->v >> 29;
}

static void mix_stat(void *arg, const char *name, uint64_t value)
{
	(void)name;
	mix(arg, value);
}

/* A run of words: random 4K pages, up, down, random lines of huge pages. */
static void replay_some(struct fixture *f, struct cpu *c, struct rng *r, struct digest *d)
{
	struct replay_windows win = { .nr = 1, .w = { { .start = 0, .end = 1ULL << 46 } } };
	unsigned nr = 1 + (unsigned)rng_below(r, WORDS), mode = (unsigned)rng_below(r, 4);
	uint64_t at = HUGE_VA + (1ULL << 20) + rng_below(r, 6ULL << 20), words[WORDS];
	int err;

	(void)f;
	for (unsigned i = 0; i < nr; i++) {
		bool store = mode && !rng_below(r, 3);

		at = mode == 0	 ? VA + rng_below(r, PAGES) * PAGE_SIZE + rng_below(r, 512) * 8
		     : mode == 1 ? at + 8
		     : mode == 2 ? at - 16
				 : HUGE_VA + rng_below(r, 8ULL << 20);
		words[i] = (rng_below(r, 4) << 60) | (store ? 1ULL << 59 : 0) | (rng_below(r, 6) << 47) | at;
	}
	for (size_t done = 0; done < nr;) {
		done += model_replay(c, words + done, nr - done, &win, &err);
		assert_int_equal(err, 0);
		mix(d, c->now_ps);
	}
}

static void one_operation(struct fixture *f, struct rng *r, struct digest *d)
{
	struct cpu *c = fix_cpu(f, rng_below(r, 4) ? (unsigned)rng_below(r, f->md->m.nr_cpus) : 0);
	uint64_t page = rng_below(r, rng_below(r, 3) ? 64 : PAGES),
		 va = VA + page * PAGE_SIZE + rng_below(r, PAGE_SIZE - 8), done;
	unsigned write = page % 7 && rng_below(r, 2) ? ACCESS_WRITE : 0;
	struct tlb_flush flush = { .start = va & PAGE_MASK,
				   .end = (va & PAGE_MASK) + PAGE_SIZE,
				   .full = page % 8 == 0 };

	switch (rng_below(r, 8)) {
	case 0:
	case 1:
		mix(d, (uint64_t)core_access(c, va, 8, ACCESS_USER | write));
		break;
	case 2:
		core_touch(c, (24ULL << 20) + rng_below(r, 1 << 17) * 8, 8, (enum touch_kind)rng_below(r, 3));
		break;
	case 3:
		(void)core_access_run(c, HUGE_VA + rng_below(r, 7 << 20), 8, rng_below(r, 200), 8, ACCESS_USER | write,
				      2, &done);
		mix(d, done);
		break;
	case 4:
		if (page % 16 == 0)
			(void)core_copy_page(c, pfn((22ULL << 8) + rng_below(r, 64)),
					     pfn((26ULL << 8) + rng_below(r, 512)));
		else if (page % 16 == 1)
			core_flush_local(c, &flush);
		break;
	default:
		replay_some(f, c, r, d);
	}
	mix(d, c->now_ps);
}

static uint64_t run(enum core_shape shape, bool two_sockets, const struct core_hot *hot)
{
	struct machine_desc desc = shape_desc(shape, two_sockets);
	struct digest d = { 1 };
	struct fixture f;
	struct rng r;
	char err[200];

	assert_int_equal(fix_create(&f, &desc, true, err, sizeof(err)), 0);
	assert_int_equal(core_shape_of(f.md), shape);
	f.md->core.hot = hot;
	rng_init(&r, shape, "shape");
	for (uint64_t p = 0; p < PAGES; p++)
		fix_map(&f, FIX_ROOT_PFN, VA + p * PAGE_SIZE, (20ULL << 20) + p * PAGE_SIZE, 0,
			PTE_USER | (p % 7 ? PTE_WRITE : 0) | (p % 3 ? PTE_ACCESSED : 0));
	for (uint64_t p = 0; p < 4; p++)
		fix_map(&f, FIX_ROOT_PFN, HUGE_VA + p * PMD_SIZE, (40ULL << 20) + p * PMD_SIZE, 1,
			PTE_USER | PTE_WRITE);
	for (unsigned i = 0; i < 6000; i++)
		one_operation(&f, &r, &d);
	cache_validate(f.md);
	core_stats_each(f.md, mix_stat, &d);
	fix_destroy(&f);
	return d.v;
}

static void test_shapes(void **state)
{
	(void)state;
	for (enum core_shape s = SHAPE_ANY; s < NR_SHAPES; s++) {
		for (unsigned two = 0; two < 2; two++) {
			uint64_t want = run(s, two, &core_hot_plain[SHAPE_ANY]);

			if (core_hot_plain[s].replay)
				assert_int_equal(run(s, two, &core_hot_plain[s]), want);
#ifdef CORE_HOT_AVX2
			if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("bmi2"))
				continue;
			assert_int_equal(run(s, two, &core_hot_avx2[SHAPE_ANY]), want);
			assert_int_equal(run(s, two, &core_hot_avx2[s]), want);
#endif
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shapes),
	};

	return test_run(tests);
}
