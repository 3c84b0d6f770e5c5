/*
 * The measurements of `quire bench alloc`: the patterns, on threads of this computer and on tasks of a modelled machine.
 *
 * On this computer a thread's own CPU time counts, so that other work disturbs little; a thread that sleeps for a lock is not charged
 * for it. Ours, the kernel's and the other allocator's samples are taken in turn; the first round of each is dropped. On the model
 * virtual time counts, locks included, after a warm-up of the same kind.
 */
#define _GNU_SOURCE
#include "lab/bench_alloc.h"

#include "base/rng.h"
#include "lab/bench_sides.h"
#include "lab/stats.h"
#include "machine/model/model.h"
#include "machine/run.h"
#include "mm/system.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 64U
#define HOST_PAIRS 400000U   /* of order 0 a task and sample, at least; of order 9 an eighth */
#define MODEL_BLOCKS 6144U   /* held at once by a modelled task, order 0; of order 9 a 32nd */
#define MODEL_REPEATS 1024U

struct work {
	enum alloc_pattern pattern;
	unsigned order;
	uint64_t blocks; /* held at once */
	unsigned rounds;
	struct frame **frame; /* [blocks] */
	uint32_t *turn;       /* [blocks]: in which order they go back */
};

static struct frame *get(struct cpu *c, unsigned order)
{
	const struct alloc_req r = { .order = order, .gfp = GFP_HIGHUSER_MOVABLE | GFP_NOWARN, .nid = NID_NONE };

	return page_alloc(c, &r);
}

/* May other tasks run? On the model the CPU may be another one afterwards. */
static struct cpu *pause_point(struct cpu *c)
{
	return unlikely(c->need_resched) ? machine_resched(c) : c;
}

static int take_and_give(struct cpu **c, const struct work *w)
{
	uint64_t n = 0;

	for (; n < w->blocks; n++) {
		w->frame[n] = get(*c, w->order);
		if (!w->frame[n])
			break;
		*c = pause_point(*c);
	}
	for (uint64_t i = 0; i < n; i++) {
		/* Not all were got: those that were, in order. */
		frame_put(*c, w->frame[n == w->blocks ? w->turn[i] : i]);
		*c = pause_point(*c);
	}
	return n == w->blocks ? 0 : -ENOMEM;
}

static int repeat_one(struct cpu **c, const struct work *w)
{
	for (uint64_t i = 0; i < w->blocks; i++) {
		struct frame *f = get(*c, w->order);

		if (!f)
			return -ENOMEM;
		frame_put(*c, f);
		*c = pause_point(*c);
	}
	return 0;
}

static int rounds(struct cpu **c, const struct work *w, unsigned n)
{
	int rc = 0;

	while (n-- && !rc)
		rc = w->pattern == ALLOC_REPEAT ? repeat_one(c, w) : take_and_give(c, w);
	return rc;
}

static int work_init(struct work *w, enum alloc_pattern pattern, unsigned order, uint64_t blocks, unsigned n, uint64_t seed)
{
	struct rng r;

	*w = (struct work){ .pattern = pattern, .order = order, .blocks = blocks, .rounds = n };
	w->frame = malloc(blocks * sizeof(struct frame *));
	w->turn = malloc(blocks * sizeof(uint32_t));
	if (!w->frame || !w->turn)
		return -ENOMEM;
	rng_init(&r, seed, "bench alloc");
	for (uint64_t i = 0; i < blocks; i++) {
		uint64_t j = pattern == ALLOC_RAND ? rng_below(&r, i + 1) : i;

		w->turn[i] = w->turn[j];
		w->turn[j] = (uint32_t)i;
	}
	return 0;
}

static void work_done(struct work *w)
{
	free(w->frame);
	free(w->turn);
}

/* ---- this computer ---- */

struct thread {
	pthread_t id;
	struct work w;
	struct machine *m;
	const bool *go; /* atomic: all have been started */
	unsigned real_cpu;
	double ns;
	int rc;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;
	uint64_t from;
	struct cpu *c;

	bench_pin(bench_real_cpu(t->real_cpu));
	t->rc = host_attach(t->m, &c);
	while (!__atomic_load_n(t->go, __ATOMIC_ACQUIRE))
		sched_yield();
	if (t->rc)
		return NULL;
	from = bench_cpu_ns();
	t->rc = rounds(&c, &t->w, t->w.rounds);
	t->ns = (double)(bench_cpu_ns() - from) / (double)(t->w.blocks * t->w.rounds);
	pcp_drain(c);
	host_detach(c);
	return NULL;
}

/* How many blocks a task holds, and how often, so that a sample lasts. */
static void host_amount(const struct bench_alloc_options *o, enum alloc_pattern pattern, unsigned order, unsigned tasks, uint64_t *ret_blocks,
			unsigned *ret_rounds)
{
	uint64_t pairs = order ? HOST_PAIRS / 8 : HOST_PAIRS, held = o->size / 2 / tasks / (PAGE_SIZE << order);

	*ret_blocks = pattern == ALLOC_REPEAT ? pairs : MAX(held, 1ULL);
	*ret_rounds = (unsigned)MAX(pairs / *ret_blocks, 1ULL);
}

static int sample_ours(const struct bench_alloc_options *o, struct machine *m, const struct bench_alloc_row *row, double *ret)
{
	struct thread t[BENCH_ALLOC_MAX_CPUS] = { 0 };
	uint64_t blocks;
	unsigned n = 0, turns;
	bool go = false;
	int rc = 0;

	host_amount(o, row->pattern, row->order, row->tasks, &blocks, &turns);
	for (unsigned i = 0; i < row->tasks && !rc; i++)
		rc = work_init(&t[i].w, row->pattern, row->order, blocks, turns, i + 1);
	while (!rc && n < row->tasks) {
		t[n].m = m;
		t[n].go = &go;
		t[n].real_cpu = n;
		if (pthread_create(&t[n].id, NULL, thread_main, &t[n]))
			rc = -EAGAIN;
		else
			n++;
	}
	__atomic_store_n(&go, true, __ATOMIC_RELEASE);
	*ret = 0;
	for (unsigned i = 0; i < n; i++) {
		pthread_join(t[i].id, NULL);
		rc = rc ? rc : t[i].rc;
		*ret += t[i].ns / row->tasks;
	}
	for (unsigned i = 0; i < row->tasks; i++)
		work_done(&t[i].w);
	return rc;
}

static double median(const double *v, unsigned n)
{
	double copy[MAX_REPEATS];

	memcpy(copy, v, n * sizeof(*v));
	return stats_median(copy, n);
}

static int measure_host(const struct bench_alloc_options *o, struct machine *m, struct bench_alloc_row *row, char *err, size_t errlen)
{
	double ours[MAX_REPEATS], kernel[MAX_REPEATS], peer[MAX_REPEATS], drop;
	bool with_kernel = true;
	struct stats_estimate e;
	int rc = 0;

	for (unsigned i = 0; i <= o->repeats && !rc; i++) {
		rc = sample_ours(o, m, row, i ? &ours[i - 1] : &drop);
		if (!rc && o->peer)
			rc = bench_alloc_peer(o->peer, row->pattern, row->order, row->tasks, o->size, i ? &peer[i - 1] : &drop, err, errlen);
		if (!rc && with_kernel) {
			rc = bench_alloc_kernel(row->pattern, row->order, row->tasks, o->size / 2, i ? &kernel[i - 1] : &drop);
			if (rc == -ENOTSUP) {
				with_kernel = false;
				rc = 0;
			}
		}
		if (!rc && o->stop && *o->stop)
			rc = -EINTR;
	}
	if (rc)
		return rc;
	row->ours = median(ours, o->repeats);
	row->kernel = with_kernel ? median(kernel, o->repeats) : NAN;
	row->ratio_kernel = with_kernel ? row->ours / row->kernel : NAN;
	row->peer = row->ratio = row->low = row->high = NAN;
	if (!o->peer)
		return 0;
	row->peer = median(peer, o->repeats);
	rc = stats_ratio(peer, ours, o->repeats, &e);
	row->ratio = e.value;
	row->low = e.low;
	row->high = e.high;
	return rc;
}

/* ---- the model ---- */

struct model_task {
	struct task t;
	struct cpumask on;
	struct work w;
	double ns;
	int rc;
};

static void model_main(struct cpu *c, struct task *t)
{
	struct model_task *mt = container_of(t, struct model_task, t);
	uint64_t from;

	mt->rc = rounds(&c, &mt->w, 1);
	from = machine_now_ns(c);
	if (!mt->rc)
		mt->rc = rounds(&c, &mt->w, mt->w.rounds);
	mt->ns = (double)(machine_now_ns(c) - from) / (double)(mt->w.blocks * mt->w.rounds);
}

static int model_run_tasks(struct machine *m, const struct bench_alloc_row *row, struct model_task *t, char *err, size_t errlen)
{
	uint64_t blocks = row->pattern == ALLOC_REPEAT ? MODEL_REPEATS : row->order ? MODEL_BLOCKS / 32 : MODEL_BLOCKS;
	int rc = 0;

	for (unsigned i = 0; i < row->tasks && !rc; i++) {
		rc = work_init(&t[i].w, row->pattern, row->order, blocks, row->pattern != ALLOC_REPEAT && row->order ? 4 : 1, i + 1);
		cpumask_set(&t[i].on, i);
		t[i].t = (struct task){ .fn = model_main, .affinity = &t[i].on, .name = "alloc" };
		if (!rc)
			rc = machine_task_start(m, &t[i].t);
	}
	if (!rc)
		rc = machine_run(m, err, errlen);
	for (unsigned i = 0; i < row->tasks && !rc; i++)
		rc = t[i].rc;
	return rc;
}

static int measure_model(const struct bench_alloc_options *o, struct bench_alloc_row *row, char *err, size_t errlen)
{
	const struct model_options mo = { .seed = 1 };
	struct model_task *t = calloc(row->tasks, sizeof(*t));
	struct machine *m = NULL;
	struct quire *q = NULL;
	int rc = t ? model_create(o->machine, &mo, &m, err, errlen) : -ENOMEM;

	if (!rc)
		rc = quire_boot(m, o->knobs, &q, err, errlen);
	if (!rc)
		rc = model_run_tasks(m, row, t, err, errlen);
	row->ours = 0;
	row->kernel = row->peer = row->ratio = row->low = row->high = row->ratio_kernel = NAN;
	for (unsigned i = 0; t && i < row->tasks; i++) {
		row->ours += t[i].ns / row->tasks;
		work_done(&t[i].w);
	}
	if (q)
		(void)quire_shutdown(q);
	if (m)
		machine_destroy(m);
	free(t);
	return rc;
}

/* ---- the list ---- */

struct bench {
	const struct bench_alloc_options *o;
	struct bench_alloc_result *ret;
	struct bench_side ours;
};

static bool wanted(const struct bench *b, const char *name)
{
	return !b->o->only || !strcmp(b->o->only, name);
}

static int one_row(struct bench *b, enum alloc_pattern p, unsigned order, unsigned tasks, bool model, char *err, size_t errlen)
{
	struct bench_alloc_row *row = &b->ret->row[b->ret->nr];
	int rc;

	*row = (struct bench_alloc_row){ .pattern = p, .order = order, .tasks = tasks, .model = model };
	snprintf(row->name, sizeof(row->name), "alloc_%s_%u_%u", alloc_pattern_names[p], order, tasks);
	if (!wanted(b, row->name))
		return 0;
	if (b->o->stop && *b->o->stop)
		return -EINTR;
	if (b->o->say)
		b->o->say(b->o->say_arg, row->name);
	rc = model ? measure_model(b->o, row, err, errlen) : measure_host(b->o, b->ours.m, row, err, errlen);
	if (!rc)
		b->ret->nr++;
	else if (rc != -EINTR && !err[0])
		snprintf(err, errlen, "%s: %s", row->name, strerror(-rc));
	return rc;
}

static int all_rows(struct bench *b, unsigned most, bool model, char *err, size_t errlen)
{
	static const unsigned orders[] = { 0, HPAGE_PMD_ORDER };
	int rc = 0;

	for (unsigned p = 0; p < NR_ALLOC_PATTERNS; p++)
		for (unsigned i = 0; i < 2; i++)
			for (unsigned tasks = 1; tasks <= most && !rc; tasks *= 2)
				rc = one_row(b, (enum alloc_pattern)p, orders[i], tasks, model, err, errlen);
	return rc;
}

static int on_host(struct bench *b, char *err, size_t errlen)
{
	const struct bench_alloc_options *o = b->o;
	const struct host_options ho = { .memory = o->size, .nr_nodes = 1, .nr_cpus = 8 };
	int rc = host_create(&ho, &b->ours.m, err, errlen);

	if (rc)
		return rc;
	rc = quire_boot(b->ours.m, o->knobs, &b->ours.q, err, errlen);
	if (!rc) {
		rc = all_rows(b, bench_real_cpu(1) < 0 ? 1 : 2, false, err, errlen);
		(void)quire_shutdown(b->ours.q);
	}
	host_destroy(b->ours.m);
	return rc;
}

int bench_alloc(const struct bench_alloc_options *o, struct bench_alloc_result *ret, char *err, size_t errlen)
{
	struct bench b = { .o = o, .ret = ret };
	int rc = 0;

	memset(ret, 0, sizeof(*ret));
	err[0] = 0;
	if (!o->repeats || o->repeats > MAX_REPEATS || o->model_cpus > BENCH_ALLOC_MAX_CPUS) {
		snprintf(err, errlen, "1 to %u repeats, at most %u modelled CPUs", MAX_REPEATS, BENCH_ALLOC_MAX_CPUS);
		return -EINVAL;
	}
	if (o->host)
		rc = on_host(&b, err, errlen);
	if (!rc && o->machine && o->model_cpus)
		rc = all_rows(&b, MIN(o->model_cpus, o->machine->sockets * o->machine->cores_per_socket * o->machine->threads_per_core), true, err, errlen);
	if (!rc && !ret->nr) {
		snprintf(err, errlen, "no measurement is called '%s' here", o->only ? o->only : "");
		return -EINVAL;
	}
	snprintf(ret->note, sizeof(ret->note), "%s",
		 o->host && !o->peer ? "no other allocator was given (--llfree PROGRAM): there is nothing to compare ours with but the kernel" : "");
	return rc;
}
