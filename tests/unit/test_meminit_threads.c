/*
 * Descriptors initialised by several threads: workers share a node, growers race the worker that takes over, memory comes and goes under
 * load. Meant for ThreadSanitizer as well. And the workloads on both kinds of machine: on the model, what a run charges.
 */
#include "host_testing.h"

#include "base/rng.h"
#include "machine/model/model.h"
#include "machine/run.h"
#include "mm/meminit.h"
#include "workload/workload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SECTIONS = 12, THREADS = 4 };
#define FRAMES (SECTIONS * SECTION_FRAMES)
#define MIB (1ULL << 20)

struct bench {
	struct machine *m;
	struct meminit mi;
	struct memblock mb;
	struct memblock_region memory[8], reserved[8];
	struct meminit_node node;
	uint8_t section[SECTIONS];
	struct frame *desc;
	bool go;
	uint64_t grown;
};

struct job {
	struct task t;
	struct bench *b;
	struct rng r;
	bool worker;
	uint64_t errors;
};

static void bench_open(struct bench *b, uint32_t step, uint64_t frames)
{
	const struct host_options ho = { .memory = 128 * MIB, .nr_cpus = THREADS + 2 };
	char err[200] = "";

	*b = (struct bench){ 0 };
	if (host_create(&ho, &b->m, err, sizeof(err)))
		fail_msg("%s", err);
	b->mb.memory = (struct memblock_list){ b->memory, 0, 8 };
	b->mb.reserved = (struct memblock_list){ b->reserved, 0, 8 };
	assert_int_equal(memblock_add(&b->mb.memory, 0, frames, 0), 0);
	for (unsigned i = 0; i < 3 && frames; i++)
		assert_int_equal(memblock_add(&b->mb.reserved, i * 70001, i * 70001 + 333, NID_NONE), 0);
	b->desc = aligned_alloc(4096, FRAMES * sizeof(*b->desc));
	assert_non_null(b->desc);
	memset(b->desc, 0xff, FRAMES * sizeof(*b->desc));
	b->mi = (struct meminit){ .m = b->m, .mb = &b->mb, .nr_nodes = 1, .node = &b->node, .section = b->section, .step = step,
				  .find_poison = true };
	assert_int_equal(meminit_setup(&b->mi), 0);
}

static struct meminit_worker worker_of(struct bench *b, struct cpu *c)
{
	return (struct meminit_worker){ .mi = &b->mi, .c = c, .desc = b->desc, .mask = ~0ULL };
}

static void bench_close(struct bench *b)
{
	machine_destroy(b->m);
	free(b->desc);
}

static void run_jobs(struct bench *b, struct job *j, unsigned n, void (*fn)(struct cpu *, struct task *))
{
	char err[200] = "";

	for (unsigned i = 0; i < n; i++) {
		j[i].b = b;
		j[i].t = (struct task){ .fn = fn, .arg = &j[i], .name = "job" };
		rng_init(&j[i].r, i + 1, "job");
		assert_int_equal(machine_task_start(b->m, &j[i].t), 0);
	}
	if (machine_run(b->m, err, sizeof(err)))
		fail_msg("%s", err);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(j[i].errors, 0);
}

/* Every frame once: whoever initialises one twice makes the sum wrong, and a second free finds it on a list. */
static void check(struct bench *b)
{
	uint64_t want = FRAMES - 3 * 333, listed = 0;

	assert_int_equal(b->node.initialised, want);
	assert_int_equal(b->node.freed, want);
	assert_int_equal(b->mi.poison_read, 0);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		struct meminit_zone *z = &b->node.zone[b->node.deferred];
		const struct frame *f;
		uint64_t n = 0;

		list_for_each_entry(f, &z->free[o], lru)
			n++;
		assert_int_equal(n, z->nr_free[o]);
		listed += n << o;
	}
	assert_int_equal(listed, want);
}

static void begin_early(struct bench *b)
{
	struct meminit_worker w = worker_of(b, machine_boot_cpu(b->m));

	meminit_early(&w, 0);
}

static void drain_node(struct job *j, struct meminit_worker *w)
{
	int r;

	while ((r = meminit_piece(w, 0)) != 0)
		if (r == -EAGAIN)
			w->c = machine_wait(w->c, 1000);
	(void)j;
}

static void work_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct meminit_worker w = worker_of(j->b, c);

	(void)meminit_begin(&w, 0);
	drain_node(j, &w);
}

/* 2. The same set of free frames from several threads as from one. */
static void test_2_parallel_workers(void **state)
{
	(void)state;
	for (uint32_t step = MEMMAP_PARALLEL; step <= MEMMAP_STREAMED; step++) {
		struct job j[THREADS] = { 0 };
		struct bench b;

		bench_open(&b, step, FRAMES);
		begin_early(&b);
		run_jobs(&b, j, THREADS, work_job);
		check(&b);
		bench_close(&b);
	}
}

/* One is the worker, after a while; the others allocate, and grow the node when they find nothing. */
static void grow_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct bench *b = j->b;
	struct meminit_worker w = worker_of(b, c);
	uint64_t mine[64];
	unsigned held = 0, failed = 0;

	if (j->worker) {
		while (__atomic_load_n(&b->grown, __ATOMIC_RELAXED) < 3)
			w.c = machine_wait(w.c, 1000);
		if (!meminit_begin(&w, 0))
			j->errors++; /* three sections of twelve: something is left */
		drain_node(j, &w);
		return;
	}
	for (unsigned i = 0; i < 400 && failed < 1000; i++) {
		unsigned order = (unsigned)rng_below(&j->r, MAX_ORDER + 1);
		uint64_t p = meminit_alloc(&w, 0, order);

		if (p == MEMBLOCK_NONE || i % 100 == 0) {
			if (__atomic_load_n(&b->grown, __ATOMIC_RELAXED) < 4 && meminit_grow(&w, 0, 1ULL << order))
				__atomic_add_fetch(&b->grown, 1, __ATOMIC_RELAXED);
		}
		if (p == MEMBLOCK_NONE) {
			failed++;
			continue;
		}
		if (held == ARRAY_SIZE(mine)) {
			uint64_t v = mine[--held];

			meminit_free(&w, 0, v >> 8, (unsigned)(v & 0xff));
		}
		mine[held++] = p << 8 | order;
	}
	while (held) {
		uint64_t v = mine[--held];

		meminit_free(&w, 0, v >> 8, (unsigned)(v & 0xff));
	}
}

/* 4. Two growers race the worker: nothing is initialised twice, nothing is left. */
static void test_4_growers_race_worker(void **state)
{
	static const uint32_t steps[] = { MEMMAP_MEMSET, MEMMAP_CHUNKED, MEMMAP_ZONE_JOB };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(steps); i++) {
		struct job j[3] = { { .worker = true } };
		struct bench b;

		bench_open(&b, steps[i], FRAMES);
		begin_early(&b);
		run_jobs(&b, j, 3, grow_job);
		check(&b);
		bench_close(&b);
	}
}

static void hot_job(struct cpu *c, struct task *t)
{
	struct job *j = t->arg;
	struct bench *b = j->b;
	struct meminit_worker w = worker_of(b, c);
	uint64_t at = (SECTIONS / 2) * SECTION_FRAMES;

	if (j->worker) { /* comes and goes; busy while others hold frames of it */
		for (unsigned i = 0; i < 20; i++) {
			unsigned tries = 0;

			meminit_hot_add(&w, 0, ZONE_MOVABLE, at, SECTION_FRAMES, NULL);
			meminit_online(&w, 0, ZONE_MOVABLE, at, SECTION_FRAMES);
			while (meminit_hot_remove(&w, 0, ZONE_MOVABLE, at, SECTION_FRAMES) == -EBUSY && tries++ < 1000000)
				w.c = machine_wait(w.c, 1000);
			j->errors += tries > 1000000;
		}
		return;
	}
	for (unsigned i = 0; i < 3000; i++) {
		uint64_t p = meminit_alloc(&w, 0, i % 5);

		if (p != MEMBLOCK_NONE)
			meminit_free(&w, 0, p, i % 5);
	}
}

static void test_hotplug_under_load(void **state)
{
	struct job j[3] = { { .worker = true } };
	struct bench b;
	struct meminit_worker w;

	(void)state;
	bench_open(&b, MEMMAP_ZONE_JOB, 2 * SECTION_FRAMES);
	begin_early(&b);
	w = worker_of(&b, machine_boot_cpu(b.m));
	assert_true(meminit_begin(&w, 0));
	while (meminit_piece(&w, 0) == 1)
		;
	run_jobs(&b, j, 3, hot_job);
	assert_int_equal(b.node.zone[ZONE_MOVABLE].free_pages, 0);
	assert_int_equal(b.node.zone[ZONE_NORMAL].free_pages, b.node.freed - 20 * SECTION_FRAMES);
	bench_close(&b);
}

/* ---- the workloads ---- */

static uint64_t extra(const struct workload_result *r, const char *name)
{
	for (unsigned i = 0; i < r->nr_extra; i++)
		if (!strcmp(r->extra[i].name, name))
			return r->extra[i].value;
	fail_msg("no %s", name);
	return 0;
}

static uint64_t model_ns(const char *workload, uint32_t step, uint32_t hotplug, unsigned tasks)
{
	const struct workload_options o = { .tasks = tasks, .size = 512 * MIB };
	struct workload_result r;
	struct machine_desc d;
	struct machine *m;
	struct quire *q;
	struct knobs k;
	char err[300] = "";
	uint64_t ns;

	knobs_default(&k);
	k.memmap_init = step;
	k.hotplug_init = hotplug;
	if (machine_desc_find("x86-384g-2n", &d, err, sizeof(err)) || model_create(&d, &(struct model_options){ .seed = 1 }, &m, err, sizeof(err)) ||
	    quire_boot(m, &k, &q, err, sizeof(err)) || workload_run(q, workload_find(workload), &o, &r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(r.boot.descriptors, 512 * MIB / PAGE_SIZE); /* reserved ones included */
	if (!strcmp(workload, "boot"))
		assert_int_equal(r.boot.free, r.boot.descriptors - (512 * MIB / PAGE_SIZE / 64 + (48 * MIB >> PAGE_SHIFT)));
	assert_int_equal(r.ops, r.boot.descriptors - r.boot.early);
	ns = extra(&r, "descriptor_ns");
	workload_result_done(&r);
	if (quire_validate(q))
		fail_msg("%s", q->err);
	assert_int_equal(quire_shutdown(q), 0);
	machine_destroy(m);
	machine_desc_done(&d);
	return ns;
}

/* In virtual time: the order of the steps, and that workers share the work. Ratios are the experiment's. */
static void test_workload_on_the_model(void **state)
{
	uint64_t memset_ns = model_ns("boot", MEMMAP_MEMSET, 0, 2), chunked = model_ns("boot", MEMMAP_CHUNKED, 0, 2);

	(void)state;
	assert_true(memset_ns > chunked);
	assert_int_equal(memset_ns, model_ns("boot", MEMMAP_MEMSET, 0, 2));
	assert_true(model_ns("boot", MEMMAP_ZONE_JOB, 0, 4) < model_ns("boot", MEMMAP_ZONE_JOB, 0, 2));
	assert_true(model_ns("hotplug", 0, HOTPLUG_PAGE, 2) > model_ns("hotplug", 0, HOTPLUG_FLAG_FOLDED, 2));
}

static void test_workload_on_the_host(void **state)
{
	const struct host_options ho = { .memory = 256 * MIB, .nr_cpus = 8 };

	(void)state;
	for (uint32_t i = 0; i <= MEMMAP_STREAMED; i++) {
		struct workload_options o = { .tasks = 1 + i % 2, .size = 512 * MIB };
		struct workload_result r;
		struct machine *m;
		struct quire *q;
		struct knobs k;
		char err[300] = "";

		knobs_default(&k);
		k.memmap_init = i;
		k.memmap_memory = i % 3;
		if (host_create(&ho, &m, err, sizeof(err)) || quire_boot(m, &k, &q, err, sizeof(err)))
			fail_msg("%s", err);
		if (workload_run(q, workload_find(i % 4 ? "boot" : "hotplug"), &o, &r, err, sizeof(err)))
			fail_msg("%s", err);
		assert_int_equal(r.boot.descriptors, 512 * MIB / PAGE_SIZE);
		assert_true(extra(&r, "store_line_ns") > 0);
		workload_result_done(&r);
		o.size = MIB;
		assert_int_equal(workload_run(q, workload_find("boot"), &o, &r, err, sizeof(err)), -EINVAL);
		o.size = 0;
		o.step = 64;
		assert_int_equal(workload_run(q, workload_find("boot"), &o, &r, err, sizeof(err)), -EINVAL);
		assert_int_equal(quire_shutdown(q), 0);
		machine_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_2_parallel_workers),   cmocka_unit_test(test_4_growers_race_worker),
		cmocka_unit_test(test_hotplug_under_load),   cmocka_unit_test(test_workload_on_the_model),
		cmocka_unit_test(test_workload_on_the_host),
	};

	return test_run(tests);
}
