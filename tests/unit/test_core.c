/*
 * Time: the clock, overlap and its limits, bandwidth and queueing, stores, prefetch; runs and replay against single accesses; content
 * tags, clearing and copying, accounting by path.
 */
#include "testing.h"

#include "base/rng.h"
#include "core_fixture.h"
#include "machine/model/replay_word.h"
#include "trace/word.h"

#include <errno.h>

const uint32_t machine_work_table[NR_MACHINE_PATHS] = { [PATH_FAULT] = 100, [PATH_MMAP] = 7 };

#define U ACCESS_USER
#define UW (ACCESS_USER | ACCESS_WRITE)
#define RIGHTS (PTE_WRITE | PTE_USER | PTE_ACCESSED | PTE_DIRTY)
#define VA 0x7f0000000000ULL
#define BASE (256ULL << 20) /* physical */

static void create(struct fixture *f, const struct machine_desc *d)
{
	char err[200];

	if (fix_create(f, d, true, err, sizeof(err)))
		fail_msg("%s", err);
	for (unsigned i = 0; i < 256; i++)
		fix_map(f, FIX_ROOT_PFN, VA + i * PMD_SIZE, BASE + i * PMD_SIZE, 1, RIGHTS);
}

/* Everything that can be observed of a machine. */
struct print {
	char text[4096];
	size_t at;
};

static void print_cb(void *arg, const char *name, uint64_t value)
{
	struct print *p = arg;

	p->at += (size_t)snprintf(p->text + p->at, sizeof(p->text) - p->at, "%s %llu\n", name, (unsigned long long)value);
}

static void assert_same(struct fixture *a, struct fixture *b)
{
	struct print pa = { .at = 0 }, pb = { .at = 0 };

	core_stats_each(a->md, print_cb, &pa);
	core_stats_each(b->md, print_cb, &pb);
	assert_string_equal(pa.text, pb.text);
	for (unsigned i = 0; i < a->md->m.nr_cpus; i++)
		assert_int_equal(fix_cpu(a, i)->now_ps, fix_cpu(b, i)->now_ps);
}

static void test_clock(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	uint64_t n = 0;

	(void)state;
	d.freq_khz = 2300001;
	d.ipc_milli = 1777;
	create(&f, &d);
	n = fix_cpu(&f, 0)->now_ps;
	for (unsigned i = 1; i <= 100000; i++)
		(void)core_work(fix_cpu(&f, 0), PATH_USER, i % 7 + 1);
	/* sum of i % 7 + 1 over 100000: 14285 rounds of 28, then 1..5 left over: 2+3+4+5+6 */
	assert_int_equal(fix_core(&f, 0)->insn, 14285ULL * 28 + 20);
	n = fix_cpu(&f, 0)->now_ps - n;
	{
		unsigned __int128 exact = (unsigned __int128)(14285ULL * 28 + 20) * 1000000000000ULL / (2300001ULL * 1777);

		assert_true(n == (uint64_t)exact || n == (uint64_t)exact + 1);
	}
	/* a large count in one go, as in many */
	{
		struct fixture g;

		create(&g, &d);
		(void)core_work(fix_cpu(&g, 0), PATH_USER, 14285ULL * 28 + 20);
		assert_int_equal(fix_cpu(&g, 0)->now_ps, fix_cpu(&f, 0)->now_ps);
		fix_destroy(&g);
	}
	fix_destroy(&f);
}

/* n loads of different lines, far apart in pages of 2 MiB that are in the TLB; `insns` each; drained in between or not. */
static uint64_t time_loads(const struct machine_desc *d, unsigned n, unsigned insns, bool drain)
{
	struct fixture f;
	uint64_t start, done;

	create(&f, d);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	start = fix_cpu(&f, 0)->now_ps;
	for (unsigned i = 1; i <= n; i++) {
		assert_int_equal(core_access_run(fix_cpu(&f, 0), VA + i * 8192, 8, 1, 8, U, insns, &done), 0);
		if (drain)
			core_drain(fix_cpu(&f, 0));
	}
	core_drain(fix_cpu(&f, 0));
	start = fix_cpu(&f, 0)->now_ps - start;
	fix_destroy(&f);
	return start;
}

/* Eight loads of a cached line, 350 instructions each, as a loop's or as a program's: the time that they take on CPU 0. */
static uint64_t time_loop(const struct machine_desc *d, unsigned flags, bool sibling)
{
	struct fixture f;
	struct task other = { 0 };
	uint64_t start, done;

	create(&f, d);
	fix_cpu(&f, 0)->current = &other;
	fix_cpu(&f, d->cores_per_socket)->current = sibling ? &other : NULL; /* thread 1 of core 0 */
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	start = fix_cpu(&f, 0)->now_ps;
	assert_int_equal(core_access_run(fix_cpu(&f, 0), VA, 8, 8, 1, U | flags, 350, &done), 0);
	start = fix_cpu(&f, 0)->now_ps - start;
	/* what comes after the run is no loop */
	done = fix_cpu(&f, 0)->now_ps;
	(void)core_work(fix_cpu(&f, 0), PATH_USER, 1000);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - done, 1000 * 200);
	fix_destroy(&f);
	return start;
}

static void test_loop_rate(void **state)
{
	struct machine_desc d = fix_desc();

	(void)state;
	d.threads_per_core = 2;
	assert_int_equal(time_loop(&d, ACCESS_LOOP, false), 2800 * 200); /* the file says nothing */
	d.loop_ipc_milli = d.ipc_milli * 4;
	assert_int_equal(time_loop(&d, 0, false), 2800 * 200);
	assert_int_equal(time_loop(&d, ACCESS_LOOP, false), 2800 * 50);
	assert_int_equal(time_loop(&d, ACCESS_LOOP, true), 2800 * 100); /* two threads share the issue slots */
	d.loop_ipc_milli = d.ipc_milli * 3 / 2;
	assert_int_equal(time_loop(&d, ACCESS_LOOP, true), 2800 * 200); /* but never below a thread's usual rate */
}

static int fault_works(struct cpu *c, vaddr_t va, unsigned err)
{
	(void)core_work(c, PATH_USER, 1000);
	return fix_fault(c, va, err);
}

/* A fault inside of a loop runs at the usual rate, and so do instructions after the run. */
static void test_loop_fault(void **state)
{
	struct machine_desc d = fix_desc();
	uint64_t t[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fixture f;
		uint64_t start, done;

		create(&f, &d);
		f.md->m.hooks.fault = fault_works;
		start = fix_cpu(&f, 0)->now_ps;
		assert_int_equal(core_access_run(fix_cpu(&f, 0), VA + (64ULL << 30), 8, 1, 8, U | ACCESS_LOOP, 100, &done), 0);
		assert_int_equal(f.faults, 1);
		t[i] = fix_cpu(&f, 0)->now_ps - start;
		fix_destroy(&f);
		d.loop_ipc_milli = d.ipc_milli * 2;
	}
	assert_int_equal(t[0] - t[1], 100 * 100); /* the loop's instructions, not those of the fault */
}

static void test_overlap(void **state)
{
	struct machine_desc d = fix_desc();
	const uint64_t miss = 20000 + 60000;
	uint64_t t;

	(void)state;
	d.nodes[0].read_bw_MBps = 1000000;
	/* one by one: the sum */
	t = time_loads(&d, 10, 1, true);
	assert_int_equal(t, 10 * (miss + 200));
	/* all at once: about one */
	t = time_loads(&d, 10, 1, false);
	assert_true(t >= miss && t < miss + 10 * 400);
	/* line buffers: 20 in two batches of 10, or 10 of 2 */
	t = time_loads(&d, 20, 1, false);
	assert_true(t >= 2 * miss && t < 2 * miss + 20 * 400);
	d.mshrs = 2;
	t = time_loads(&d, 20, 1, false);
	assert_true(t >= 10 * miss && t < 10 * miss + 20 * 400);
	/* the window: loads 100 instructions apart, only two are ever in it */
	d.mshrs = 10;
	t = time_loads(&d, 20, 100, false);
	assert_true(t >= 9 * miss && t < 11 * miss);
	d.window_insns = 1000;
	t = time_loads(&d, 20, 100, false);
	assert_true(t >= 20 * 100 * 200 && t < 20 * 100 * 200 + 2 * miss);
}

/* A short miss after a long one: waiting for all is waiting for the long one. */
static void test_long_before_short(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	uint64_t start;

	(void)state;
	create(&f, &d);
	for (unsigned i = 0; i < 5; i++) /* five lines of one L1 set of four ways: the first is in L2 only */
		assert_int_equal(core_access(fix_cpu(&f, 0), VA + i * 1024, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	start = fix_cpu(&f, 0)->now_ps;
	assert_int_equal(core_access(fix_cpu(&f, 0), VA + (1 << 20), 8, U), 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	assert_int_equal(fix_cpu(&f, 0)->now_ps - start, 200 + 80000);
	fix_destroy(&f);
	/* of two line buffers the short one is free first */
	d.mshrs = 2;
	create(&f, &d);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(core_access(fix_cpu(&f, 0), VA + i * 1024, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	start = fix_cpu(&f, 0)->now_ps;
	assert_int_equal(core_access(fix_cpu(&f, 0), VA + (1 << 20), 8, U), 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, U), 0);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA + (1 << 20) + 8192, 8, U), 0);
	core_drain(fix_cpu(&f, 0));
	assert_true(fix_cpu(&f, 0)->now_ps - start < 120000);
	fix_destroy(&f);
}

static void test_store_buffer(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	uint64_t start, done;

	(void)state;
	d.nodes[0].read_bw_MBps = 1000000;
	d.store_buffer = 8;
	create(&f, &d);
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, UW), 0);
	core_drain(fix_cpu(&f, 0));
	/* 8 stores pass a missing one ... */
	start = fix_cpu(&f, 0)->now_ps;
	assert_int_equal(core_access_run(fix_cpu(&f, 0), VA + 8192, 8, 8, 8, UW, 1, &done), 0);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - start, 8 * 200);
	/* ... the next waits for its line */
	assert_int_equal(core_access(fix_cpu(&f, 0), VA, 8, UW), 0);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - start, 200 + 80000);
	fix_destroy(&f);
}

/* Bytes a microsecond (MB/s) that `cpus` CPUs stream, reading or clearing. */
static uint64_t stream(const struct machine_desc *d, unsigned cpus, bool clear)
{
	struct fixture f;
	uint64_t bytes = 8ULL << 20, start, end = 0, done;

	create(&f, d);
	start = fix_cpu(&f, 0)->now_ps;
	/* in small steps and in turn, as the scheduler would */
	for (uint64_t at = 0; at < bytes; at += 512) {
		for (unsigned i = 0; i < cpus; i++) {
			uint64_t off = i * bytes + at;

			if (!clear)
				assert_int_equal(core_access_run(fix_cpu(&f, i), VA + off, 8, 64, 8, U, 2, &done), 0);
			else if (at % PAGE_SIZE == 0)
				assert_int_equal(core_clear_page(fix_cpu(&f, i), pfn((BASE + off) >> PAGE_SHIFT)), 0);
		}
	}
	for (unsigned i = 0; i < cpus; i++)
		end = MAX(end, fix_cpu(&f, i)->now_ps);
	fix_destroy(&f);
	return cpus * bytes * 1000000 / (end - start);
}

static void test_bandwidth(void **state)
{
	struct machine_desc d = fix_desc();
	uint64_t r1, r8, w8;

	(void)state;
	d.cores_per_socket = 8;
	d.llc.size = 1 << 20;
	d.nodes[0].memory = 1ULL << 30;
	r1 = stream(&d, 1, false);
	assert_true(r1 > 5000 && r1 < 8500); /* ten misses in flight: 640 bytes each 80 ns */
	r8 = stream(&d, 8, false);
	assert_true(r8 > 16000 * 97 / 100 && r8 <= 16000 * 101 / 100);
	w8 = stream(&d, 8, true);
	assert_true(w8 > 12000 * 97 / 100 && w8 < 12000 * 106 / 100); /* the caches hold back a little */
	d.full_line_store_reads = true;
	/* each line then comes over the bus too: 1/16 + 1/12 ns a byte */
	assert_true(stream(&d, 8, true) < w8 * 2 / 3);
}

static void test_queueing(void **state)
{
	struct dram_slot slots[DRAM_SLOTS];
	struct dram_server s = { .shift = 16, .slot = slots };
	uint64_t t = 0;

	(void)state;
	memset(slots, 0, sizeof(slots));
	/* back to back from one time: each behind the one before; service 1000 ps */
	for (unsigned i = 0; i < 1000; i++) {
		t = dram_serve(&s, 10ULL << 16, 256000);
		assert_true(t + 1 >= (10ULL << 16) + i * 1000 && t <= (10ULL << 16) + i * 1000 + 1);
	}
	/* who comes later in the run but earlier in time does not wait for them */
	assert_int_equal(dram_serve(&s, 9ULL << 16, 256000), 9ULL << 16);
	/* who comes after they are done does not either */
	assert_int_equal(dram_serve(&s, 100ULL << 16, 256000), 100ULL << 16);
}

static void test_prefetch(void **state)
{
	struct machine_desc d = fix_desc();
	uint64_t without = stream(&d, 1, false), with;
	struct fixture f;
	uint64_t done;

	(void)state;
	d.prefetch.enabled = true;
	d.prefetch.streams = 16;
	d.prefetch.degree = 2;
	d.prefetch.distance = 16;
	with = stream(&d, 1, false);
	assert_true(with > without * 12 / 10);
	create(&f, &d);
	/* one page, up and down: never over its edge */
	assert_int_equal(core_access_run(fix_cpu(&f, 0), VA + PAGE_SIZE, 64, 64, 8, U, 200, &done), 0);
	assert_int_equal(fix_stat(&f, "dram_reads_node0"), 64 + 3); /* and three levels of tables */
	assert_true(fix_stat(&f, "prefetches") >= 58);
	assert_int_equal(fix_stat(&f, "prefetches"), fix_stat(&f, "prefetches_useful"));
	for (int i = 63; i >= 0; i--)
		assert_int_equal(core_access(fix_cpu(&f, 0), VA + 9 * PAGE_SIZE + (unsigned)i * 64, 8, U), 0);
	assert_int_equal(fix_stat(&f, "dram_reads_node0"), 128 + 3);
	assert_true(fix_stat(&f, "prefetches") >= 116);
	fix_destroy(&f);
}

/* ---- runs and replay ---- */

static const struct {
	uint64_t stride, n;
	unsigned size, insns;
	bool write;
} runs[] = {
	{ 8, 5000, 8, 3, false }, { 8, 5000, 8, 1, true },   { 1, 3000, 1, 2, true },   { 64, 800, 8, 5, false },
	{ 24, 2000, 8, 0, true }, { 12, 2000, 16, 7, false }, { 4096, 300, 8, 9, true }, { 8, 400, 8, 1000, false },
	{ 8, 700, 8, 5000, true }, { 3, 4000, 4, 40, false }, { 136, 900, 8, 4, true },
};

static void check_run_equality(const struct machine_desc *d)
{
	struct fixture a, b;
	uint64_t done;

	create(&a, d);
	create(&b, d);
	for (unsigned i = 0; i < ARRAY_SIZE(runs); i++) {
		vaddr_t va = VA + i * (1 << 20) + i * 5;

		fix_current = &a;
		fix_cpu(&a, 0)->run_until_ps = fix_cpu(&b, 0)->run_until_ps = i & 1 ? fix_cpu(&a, 0)->now_ps + 10000 : ~0ULL;
		assert_int_equal(core_access_run(fix_cpu(&a, 0), va, runs[i].stride, runs[i].n, runs[i].size, runs[i].write ? UW : U,
						 runs[i].insns, &done), 0);
		assert_int_equal(done, runs[i].n);
		fix_current = &b;
		for (uint64_t k = 0; k < runs[i].n; k++, va += runs[i].stride)
			assert_int_equal(core_access_run(fix_cpu(&b, 0), va, runs[i].stride, 1, runs[i].size, runs[i].write ? UW : U,
							 runs[i].insns, &done), 0);
		assert_same(&a, &b);
		assert_int_equal(a.catch_ups, b.catch_ups);
		assert_int_equal(a.catch_up_times, b.catch_up_times);
	}
	assert_true(a.catch_ups > 10);
	fix_destroy(&b);
	fix_current = &a;
	fix_destroy(&a);
}

static struct machine_desc shape(unsigned i)
{
	struct machine_desc d = fix_desc();

	d.prefetch.enabled = i & 1;
	d.prefetch.streams = 16;
	d.prefetch.degree = 4;
	d.prefetch.distance = 16;
	d.llc.inclusion = (enum inclusion)(i % 3);
	d.llc.replacement = (enum replacement)(i % 5);
	d.l1d.replacement = i & 2 ? REPL_PLRU : REPL_LRU;
	d.threads_per_core = 1 + (i & 1);
	return d;
}

static void test_run_equality(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		struct machine_desc d = shape(i);

		check_run_equality(&d);
	}
}

static uint64_t random_word(struct rng *r, uint64_t *at)
{
	unsigned log2 = (unsigned)rng_below(r, 7);

	if (rng_below(r, 4) == 0)
		*at = rng_below(r, rng_below(r, 2) ? 1 << 14 : 1 << 27);
	else
		*at += rng_below(r, 24);
	return word_ref((1ULL << 30) + *at, log2, rng_below(r, 3) == 0, rng_below(r, 50) ? rng_below(r, 6) : 4095);
}

static void replay_all(struct fixture *f, const uint64_t *words, size_t n, size_t cut, struct replay_windows *win)
{
	size_t i = 0;

	fix_current = f;
	while (i < n) {
		int err;
		size_t k = model_replay(fix_cpu(f, 0), words + i, MIN(cut, n - i), win, &err);

		assert_int_equal(err, 0);
		assert_true(k > 0);
		i += k;
	}
}

/* The same words in one block, in blocks of 7, one by one, and as single accesses. */
static void test_replay_equality(void **state)
{
	enum { N = 20000 };
	static uint64_t words[N];
	const struct replay_windows window = { .nr = 3, .w = {
		{ .start = 0, .end = 1 << 20, .delta = 5 },
		{ .start = 1ULL << 30, .end = (1ULL << 30) + (1 << 13), .delta = VA - (1ULL << 30) },
		{ .start = (1ULL << 30) + (1 << 13), .end = 1ULL << 31, .delta = VA - (1ULL << 30) },
	} };

	(void)state;
	for (unsigned s = 0; s < 10; s++) {
		struct machine_desc d = shape(s);
		struct replay_windows win;
		struct fixture f[4];
		uint64_t at = 0, done;
		struct rng r;

		rng_init(&r, s, "words");
		for (unsigned i = 0; i < N; i++)
			words[i] = random_word(&r, &at);
		for (unsigned i = 0; i < 4; i++) {
			create(&f[i], &d);
			fix_cpu(&f[i], 0)->run_until_ps = 500000;
		}
		for (unsigned i = 0; i < 3; i++) {
			win = window;
			replay_all(&f[i], words, N, i == 0 ? N : i == 1 ? 7 : 1, &win);
			assert_int_equal(win.nr, 3);
		}
		fix_current = &f[3];
		for (unsigned i = 0; i < N; i++)
			assert_int_equal(core_access_run(fix_cpu(&f[3], 0), word_addr(words[i]) + VA - (1ULL << 30), 1, 1,
							 word_size(words[i]), words[i] & WORD_STORE ? UW : U,
							 word_insns(words[i]), &done), 0);
		for (unsigned i = 1; i < 4; i++) {
			assert_same(&f[0], &f[i]);
			assert_int_equal(f[0].catch_ups, f[i].catch_ups);
			assert_int_equal(f[0].catch_up_times, f[i].catch_up_times);
		}
		assert_true(f[0].catch_ups > 10);
		for (unsigned i = 0; i < 4; i++) {
			fix_current = &f[i];
			fix_destroy(&f[i]);
		}
	}
}

static void test_replay_stops(void **state)
{
	struct machine_desc d = fix_desc();
	struct replay_windows win = { .nr = 1, .w = { { .start = 1 << 30, .end = (1 << 30) + (1 << 20), .delta = VA - (1 << 30) } } };
	uint64_t w[4] = { word_ref(1 << 30, 3, 0, 1), word_ref((1 << 30) + 8, 3, 1, 1), word_control(W_NOP, 0, 0), word_ref(1 << 30, 3, 0, 1) };
	struct fixture f;
	int err;

	(void)state;
	create(&f, &d);
	assert_int_equal(model_replay(fix_cpu(&f, 0), w, 4, &win, &err), 2);
	assert_int_equal(err, 0);
	assert_int_equal(model_replay(fix_cpu(&f, 0), w + 2, 2, &win, &err), 0);
	w[1] = word_ref((1 << 30) + (1 << 20), 3, 0, 1); /* outside of all windows */
	assert_int_equal(model_replay(fix_cpu(&f, 0), w, 4, &win, &err), 1);
	assert_int_equal(err, 0);
	win.w[0].delta = 0; /* nothing is mapped there, and the hook says no */
	f.answer = -EFAULT;
	assert_int_equal(model_replay(fix_cpu(&f, 0), w, 4, &win, &err), 0);
	assert_int_equal(err, -EFAULT);
	win.nr = 0;
	assert_int_equal(model_replay(fix_cpu(&f, 0), w, 4, &win, &err), 0);
	assert_int_equal(err, 0);
	fix_cpu(&f, 0)->need_resched = true;
	win.nr = 1;
	assert_int_equal(model_replay(fix_cpu(&f, 0), w, 4, &win, &err), 0);
	fix_destroy(&f);
}

/* The layout of words is written down twice, in two layers. */
static void test_word_layout(void **state)
{
	uint64_t w = word_ref(0x123456789abcULL, 5, 1, 0xabc);

	(void)state;
	assert_int_equal(REPLAY_CONTROL, WORD_CONTROL);
	assert_int_equal(REPLAY_STORE, WORD_STORE);
	assert_int_equal(REPLAY_ADDR_MASK, WORD_ADDR_MASK);
	assert_int_equal(REPLAY_INSNS(w), word_insns(w));
	assert_int_equal(1U << REPLAY_LOG2_SIZE(w), word_size(w));
	assert_int_equal(REPLAY_INSNS(~0ULL), WORD_INSNS_MAX);
}

/* ---- contents, clearing, copying, accounting ---- */

static void test_content_tags(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	struct cpu *c;
	uint64_t v = 1, p = BASE >> PAGE_SHIFT, *tags;

	(void)state;
	create(&f, &d);
	c = fix_cpu(&f, 0);
	tags = f.md->m.tags;
	assert_int_equal(core_load_value(c, VA, &v), 0);
	assert_int_equal(v, 0);
	assert_int_equal(core_access(c, VA + 100, 4, UW), 0);
	assert_int_equal(tags[p], ~0ULL);
	assert_int_equal(tags[p + 1], 0); /* a frame of the same huge page */
	assert_int_equal(core_store_value(c, VA, 1234), 0);
	assert_int_equal(core_access(c, VA + 100, 4, UW), 0);
	assert_int_equal(tags[p], 1234);
	assert_int_equal(core_copy_page(c, pfn(p + 1), pfn(p)), 0);
	assert_int_equal(core_load_value(c, VA + PAGE_SIZE, &v), 0);
	assert_int_equal(v, 1234);
	assert_int_equal(core_clear_page(c, pfn(p)), 0);
	assert_int_equal(tags[p], 0);
	assert_int_equal(core_access(c, VA + 100, 4, UW), 0); /* the line is still in L1, but its mark is gone */
	assert_int_equal(tags[p], ~0ULL);
	assert_int_equal(core_clear_page(c, pfn(p)), 0);
	assert_int_equal(core_access(c, VA + 100, 4, UW), 0);
	assert_int_equal(tags[p], ~0ULL);
	/* cleared by another CPU */
	assert_int_equal(core_clear_page(fix_cpu(&f, 1), pfn(p)), 0);
	assert_int_equal(core_access(c, VA + 100, 4, UW), 0);
	assert_int_equal(tags[p], ~0ULL);
	assert_int_equal(fix_stat(&f, "bytes_cleared"), 3 * PAGE_SIZE);
	assert_int_equal(fix_stat(&f, "bytes_copied"), PAGE_SIZE);
	fix_destroy(&f);
}

/* What was copied last is what the caches have: the order of sub-pages is visible. */
static void test_copy_order(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	struct cpu *c;
	uint64_t first, last, p = BASE >> PAGE_SHIFT;

	(void)state;
	create(&f, &d);
	c = fix_cpu(&f, 0);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(core_copy_page(c, pfn(p + 512 + i), pfn(p + i)), 0);
	assert_int_equal(core_access(c, VA + 1000 * PAGE_SIZE, 8, U), 0); /* the translation */
	core_drain(c);
	last = c->now_ps;
	assert_int_equal(core_access(c, VA + (512 + 63) * PAGE_SIZE + 4032, 8, U), 0);
	core_drain(c);
	last = c->now_ps - last;
	first = c->now_ps;
	assert_int_equal(core_access(c, VA + 512 * PAGE_SIZE, 8, U), 0);
	core_drain(c);
	first = c->now_ps - first;
	assert_true(first > last + 50000);
	assert_true(fix_stat(&f, "dram_reads_node0") < 64 * 64 + 10); /* destinations are not read */
	fix_destroy(&f);
}

static void test_accounting(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	struct cpu *c;
	uint64_t before;

	(void)state;
	create(&f, &d);
	c = fix_cpu(&f, 0);
	before = c->now_ps;
	(void)core_work(c, PATH_USER, 1000);
	core_enter(c, ENTRY_SYSCALL);
	assert_int_equal(core_work(c, PATH_MMAP, 10), PATH_SYSCALL);
	core_charge(c, 5000, PATH_IPI);
	assert_int_equal(core_work(c, PATH_LOCK_WAIT, 0), PATH_MMAP);
	core_leave(c, ENTRY_SYSCALL);
	core_enter(c, ENTRY_IRQ);
	core_leave(c, ENTRY_IRQ);
	assert_int_equal(core_work(c, PATH_USER, 0), PATH_USER);
	assert_int_equal(c->now_ps - before, 1000 * 200 + 100000 + 70 * 200 + 5000 + 300000);
	assert_int_equal(fix_stat(&f, "instructions"), 1070);
	assert_int_equal(fix_stat(&f, "user_ns"), 200 + 2 * 80); /* each CPU loaded its context */
	assert_int_equal(f.md->path[PATH_MMAP].ps, 70 * 200);
	assert_int_equal(f.md->path[PATH_MMAP].insns, 70);
	assert_int_equal(f.md->path[PATH_MMAP].units, 10);
	assert_int_equal(f.md->path[PATH_IPI].ps, 305000);
	assert_int_equal(f.md->path[PATH_SYSCALL].ps, 100000);
	/* all time is under some path, on every CPU */
	assert_int_equal(core_clear_page(fix_cpu(&f, 1), pfn(70000)), 0);
	assert_int_equal(core_access(c, VA, 8, UW), 0);
	core_touch(c, BASE, 8, TOUCH_ATOMIC);
	(void)fix_stat(&f, "refs");
	before = 0;
	for (unsigned p = 0; p < NR_MACHINE_PATHS; p++)
		before += f.md->path[p].ps;
	assert_int_equal(before, fix_cpu(&f, 0)->now_ps + fix_cpu(&f, 1)->now_ps);
	fix_destroy(&f);
}

static void test_atomic_waits(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	uint64_t t;

	(void)state;
	create(&f, &d);
	core_touch(fix_cpu(&f, 0), BASE, 8, TOUCH_ATOMIC);
	t = fix_cpu(&f, 0)->now_ps;
	core_touch(fix_cpu(&f, 0), BASE, 8, TOUCH_ATOMIC);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - t, d.cost.atomic_ps);
	core_touch(fix_cpu(&f, 1), BASE, 8, TOUCH_ATOMIC); /* walk, then from the other core */
	t = fix_cpu(&f, 0)->now_ps;
	core_touch(fix_cpu(&f, 0), BASE, 8, TOUCH_ATOMIC);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - t, d.cost.atomic_ps + 20000 + 25000);
	t = fix_cpu(&f, 0)->now_ps;
	core_touch(fix_cpu(&f, 0), BASE + 8192, 8, TOUCH_WRITE);
	assert_int_equal(fix_cpu(&f, 0)->now_ps, t); /* a plain store goes into the buffer, an atomic waits for it */
	core_touch(fix_cpu(&f, 0), BASE, 8, TOUCH_ATOMIC);
	assert_int_equal(fix_cpu(&f, 0)->now_ps - t, d.cost.atomic_ps + 20000 + 60000);
	fix_destroy(&f);
}

static void check_refused(struct machine_desc d, const char *what)
{
	struct fixture f;
	char err[200] = "";

	assert_true(fix_create(&f, &d, false, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, what));
	fix_destroy(&f);
}

static void test_refusals(void **state)
{
	struct machine_desc d = fix_desc();

	(void)state;
	d.mshrs = 65;
	check_refused(d, "mshrs");
	d = fix_desc();
	d.l1d.size = 64;
	check_refused(d, "cache");
	d = fix_desc();
	d.dtlb.ways_4k = 5;
	check_refused(d, "tlb");
	d = fix_desc();
	d.cores_per_socket = CORE_SET_MAX + 1;
	check_refused(d, "cores");
	d = fix_desc();
	d.nodes[0].write_bw_MBps = 0;
	check_refused(d, "bandwidth");
	d = fix_desc();
	d.walkers = 0;
	check_refused(d, "walkers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock),		cmocka_unit_test(test_loop_rate),
		cmocka_unit_test(test_loop_fault),
		cmocka_unit_test(test_overlap),
		cmocka_unit_test(test_long_before_short),
		cmocka_unit_test(test_store_buffer),	cmocka_unit_test(test_bandwidth),
		cmocka_unit_test(test_queueing),	cmocka_unit_test(test_prefetch),
		cmocka_unit_test(test_run_equality),	cmocka_unit_test(test_replay_equality),
		cmocka_unit_test(test_replay_stops),	cmocka_unit_test(test_word_layout),
		cmocka_unit_test(test_content_tags),	cmocka_unit_test(test_copy_order),
		cmocka_unit_test(test_accounting),	cmocka_unit_test(test_atomic_waits),
		cmocka_unit_test(test_refusals),
	};

	return test_run(tests);
}
