/*
 * What letting others go first costs on this computer: one switch of fibers, and one pause of a virtual CPU through the
 * scheduler's main loop by number of CPUs. Prints "name value unit", the least of several repeats.
 */
#include "machine/fiber.h"
#include "machine/model/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define REPEATS 5

static uint64_t host_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void report(const char *name, unsigned n, uint64_t least_ns, uint64_t per)
{
	printf("%s%u %.1f ns\n", name, n, (double)least_ns / (double)per);
}

struct bouncer {
	struct fiber *f;
};

static void bounce(void *arg)
{
	struct bouncer *b = arg;

	for (;;)
		fiber_yield(b->f, 0);
}

static int bench_switch(void)
{
	const unsigned rounds = 1000000;
	struct fiber_pool *pool = fiber_pool_create();
	struct bouncer b = { NULL };
	uint64_t least = UINT64_MAX;

	if (pool)
		b.f = fiber_create(pool, bounce, &b);
	if (!b.f) {
		fiber_pool_destroy(pool);
		return -1;
	}
	for (unsigned r = 0; r < REPEATS; r++) {
		uint64_t start = host_ns(), took;

		for (unsigned i = 0; i < rounds; i++)
			fiber_switch(b.f);
		took = host_ns() - start;
		least = MIN(least, took);
	}
	fiber_free(b.f);
	fiber_pool_destroy(pool);
	report("fiber_switch_", 1, least, 2ULL * rounds); /* there and back */
	return 0;
}

static void pause_fn(struct cpu *c, struct task *t)
{
	const unsigned *rounds = t->arg;

	for (unsigned i = 0; i < *rounds; i++) {
		core_charge(c, 1000, PATH_USER);
		model_sync(c);
	}
}

static int bench_pause(const struct machine_desc *d)
{
	unsigned cpus = d->sockets * d->cores_per_socket * d->threads_per_core, rounds = 400000 / cpus;
	uint64_t least = UINT64_MAX;

	for (unsigned r = 0; r < REPEATS; r++) {
		struct machine *m;
		struct task *t = calloc(cpus, sizeof(*t));
		char err[200] = "out of memory";
		uint64_t start, took;
		int e = t ? model_create(d, NULL, &m, err, sizeof(err)) : -1;

		for (unsigned i = 0; i < cpus && !e; i++) {
			t[i] = (struct task){ .fn = pause_fn, .arg = &rounds };
			e = model_task_start(m, NULL, &t[i]);
		}
		start = host_ns();
		if (!e)
			e = model_run(m, err, sizeof(err));
		took = host_ns() - start;
		least = MIN(least, took);
		if (e)
			fprintf(stderr, "bench_fiber: %u CPUs: %s\n", cpus, err);
		else
			model_destroy(m);
		free(t);
		if (e)
			return -1;
	}
	report("sync_cpus_", cpus, least, (uint64_t)rounds * cpus);
	return 0;
}

int main(void)
{
	static const struct {
		uint32_t sockets, cores, threads;
	} shape[] = { { 1, 1, 1 }, { 1, 2, 1 }, { 1, 8, 1 }, { 2, 18, 2 }, { 8, 64, 2 } };
	struct machine_desc d;
	char err[200];
	int r = bench_switch();

	if (machine_desc_find(machine_desc_default(), &d, err, sizeof(err))) {
		fprintf(stderr, "bench_fiber: %s\n", err);
		return 1;
	}
	for (unsigned i = 0; i < ARRAY_SIZE(shape) && !r; i++) {
		d.sockets = d.nr_nodes = shape[i].sockets;
		d.cores_per_socket = shape[i].cores;
		d.threads_per_core = shape[i].threads;
		for (unsigned n = 0; n < d.nr_nodes; n++) {
			d.nodes[n] = d.nodes[0];
			d.nodes[n].socket = (int32_t)n;
			for (unsigned o = 0; o < d.nr_nodes; o++)
				d.distance[n][o] = o == n ? 10 : 20;
		}
		r = bench_pause(&d);
	}
	machine_desc_done(&d);
	return r ? 1 : 0;
}
