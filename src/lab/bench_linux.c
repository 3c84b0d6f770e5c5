/*
 * The measurements of `quire bench linux`. Each is written once, over the table of bench_sides.h, and taken of both sides in turn, the
 * other one first each time; a figure is the median of the pairs' ratios with its interval.
 *
 * No state outside of struct bench. The engine's memory is touched once before anything is measured, and the kernel's is not: a kernel that
 * gets its memory from a hypervisor may pay for that in its first passes, so the first pair of each measurement is dropped.
 */
#define _GNU_SOURCE
#include "lab/bench_linux.h"

#include "lab/bench_sides.h"
#include "lab/stats.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 64U
#define SHOOTDOWNS 200U /* calls a sample, of which the median counts */
#define HIT_BYTES (256ULL << 10)
#define HIT_PASSES 200U
#define CACHED_BYTES (512ULL << 10) /* faulted in again and again: the same frames, which stay in the cache */
#define CACHED_PASSES 64U

struct bench {
	const struct bench_linux_options *o;
	struct bench_side ours, kernel;
	int cpu[2]; /* real ones: this thread's and the other's */
};

struct measure {
	const char *name, *unit, *peer_name; /* peer_name NULL: the kernel */
	bool higher, alone, two;             /* alone: there is no peer; two: on two CPUs */
	const char *setting;                 /* "name=value" that the engine must have; NULL: none */
	int (*ours)(struct bench *b, struct bench_side *s, double *ret);
	int (*peer)(struct bench *b, struct bench_side *s, double *ret); /* NULL: as ours, of the kernel */
};

/* ---- one thread ---- */

static double per(uint64_t ns, uint64_t n)
{
	return (double)ns / (double)n;
}

static int fault(struct bench_side *s, uint64_t size, bool huge, double *ret)
{
	uint64_t at, step = huge ? PMD_SIZE : PAGE_SIZE, from;
	int rc = s->ops->map(s, size, huge, &at);

	if (rc)
		return rc;
	from = bench_cpu_ns();
	rc = s->ops->write(s, at, size, step);
	*ret = per(bench_cpu_ns() - from, size / step);
	s->ops->unmap(s, at, size);
	return rc;
}

static int fault_4k(struct bench *b, struct bench_side *s, double *ret)
{
	return fault(s, b->o->size, false, ret);
}

/* What a fault costs beside the memory: frames that are cleared where they lie in the cache. */
static int fault_4k_cached(struct bench *b, struct bench_side *s, double *ret)
{
	uint64_t at, from, ns = 0;
	int rc = s->ops->map(s, CACHED_BYTES, false, &at);

	(void)b;
	if (rc)
		return rc;
	for (unsigned pass = 0; pass < CACHED_PASSES && !rc; pass++) {
		from = bench_cpu_ns();
		rc = s->ops->write(s, at, CACHED_BYTES, PAGE_SIZE);
		ns += bench_cpu_ns() - from;
		if (!rc)
			rc = s->ops->discard(s, at, CACHED_BYTES);
	}
	*ret = per(ns, CACHED_PASSES * (CACHED_BYTES >> PAGE_SHIFT));
	s->ops->unmap(s, at, CACHED_BYTES);
	return rc;
}

static int fault_2m(struct bench *b, struct bench_side *s, double *ret)
{
	return fault(s, b->o->size, true, ret);
}

static int unmapping(struct bench *b, struct bench_side *s, double *ret)
{
	uint64_t at, from;
	int rc = s->ops->map(s, b->o->size, false, &at);

	if (rc)
		return rc;
	rc = s->ops->write(s, at, b->o->size, PAGE_SIZE);
	from = bench_cpu_ns();
	if (!rc)
		rc = s->ops->unmap(s, at, b->o->size);
	*ret = per(bench_cpu_ns() - from, b->o->size >> PAGE_SHIFT);
	return rc;
}

/* A write to one page in each `step` after a fork. */
static int write_after_fork(struct bench_side *s, uint64_t size, uint64_t step, double *ret)
{
	uint64_t at, from;
	int rc = s->ops->map(s, size, false, &at);

	if (rc)
		return rc;
	rc = s->ops->write(s, at, size, PAGE_SIZE);
	if (!rc)
		rc = s->ops->fork(s);
	if (!rc) {
		from = bench_cpu_ns();
		rc = s->ops->write(s, at, size, step);
		*ret = per(bench_cpu_ns() - from, size / step);
		s->ops->end_child(s);
	}
	s->ops->unmap(s, at, size);
	return rc;
}

static int cow_4k(struct bench *b, struct bench_side *s, double *ret)
{
	return write_after_fork(s, b->o->size / 2, PAGE_SIZE, ret);
}

static int forking(struct bench *b, struct bench_side *s, double *ret)
{
	uint64_t at, from, size = b->o->fork_size;
	int rc = s->ops->map(s, size, false, &at);

	if (rc)
		return rc;
	rc = s->ops->write(s, at, size, PAGE_SIZE);
	if (!rc) {
		from = bench_cpu_ns();
		rc = s->ops->fork(s);
		*ret = (double)(bench_cpu_ns() - from);
		if (!rc)
			s->ops->end_child(s);
	}
	s->ops->unmap(s, at, size);
	return rc;
}

/* The first write to each 2 MiB after a fork: where tables are shared, it copies one. */
static int first_write(struct bench *b, struct bench_side *s, double *ret)
{
	return write_after_fork(s, b->o->fork_size, PMD_SIZE, ret);
}

static int tlb_hit(struct bench *b, struct bench_side *s, double *ret)
{
	uint64_t at, from, v, n = HIT_BYTES / 8;
	int rc = s->ops->map(s, HIT_BYTES, false, &at);

	(void)b;
	if (rc)
		return rc;
	rc = s->ops->write(s, at, HIT_BYTES, PAGE_SIZE);
	from = bench_cpu_ns();
	for (unsigned pass = 0; pass < HIT_PASSES && !rc; pass++)
		for (uint64_t i = 0; i < n && !rc; i++)
			rc = host_load(s->c, at + i * 8, 8, &v);
	*ret = per(bench_cpu_ns() - from, n * HIT_PASSES);
	s->ops->unmap(s, at, HIT_BYTES);
	return rc;
}

/* Bytes a second at which huge faults clear; and the clearing alone, of the same frames. */
static int fault_bandwidth(struct bench *b, struct bench_side *s, double *ret)
{
	double ns;
	int rc = fault(s, b->o->size, true, &ns);

	*ret = rc ? 0 : (double)PMD_SIZE / ns * 1e9;
	return rc;
}

static int clear_bandwidth(struct bench *b, struct bench_side *s, double *ret)
{
	uint64_t at, from, size = b->o->size;
	int rc = b->ours.ops->map(&b->ours, size, true, &at);

	(void)s;
	if (rc)
		return rc;
	rc = b->ours.ops->write(&b->ours, at, size, PMD_SIZE);
	from = bench_cpu_ns();
	if (!rc)
		rc = bench_clear_frames(b->ours.c, b->ours.mm, at, size);
	*ret = (double)size / (double)(bench_cpu_ns() - from) * 1e9;
	b->ours.ops->unmap(&b->ours, at, size);
	return rc;
}

/* ---- two threads ---- */

enum shot { SHOT_PROTECT, SHOT_DISCARD, SHOT_UNMAP };

/* One page that has been written is taken away or protected; only that is timed. */
static int shoot_one(struct bench_side *s, enum shot how, const struct bench_busy *busy, bool odd, double *ret)
{
	uint64_t at = busy->at + PMD_SIZE / 2, from; /* beside what the other thread reads, in the same table */
	int rc = how == SHOT_UNMAP ? s->ops->map(s, PAGE_SIZE, false, &at) : 0;

	if (!rc && (how != SHOT_PROTECT || !odd))
		rc = s->ops->write(s, at, PAGE_SIZE, PAGE_SIZE);
	if (rc)
		return rc;
	bench_busy_await(busy);
	from = bench_wall_ns();
	if (how == SHOT_PROTECT)
		rc = s->ops->protect(s, at, PAGE_SIZE, odd);
	else if (how == SHOT_DISCARD)
		rc = s->ops->discard(s, at, PAGE_SIZE);
	else
		rc = s->ops->unmap(s, at, PAGE_SIZE);
	*ret = (double)(bench_wall_ns() - from);
	return rc;
}

static int shootdown(const struct bench *b, struct bench_side *s, enum shot how, double *ret)
{
	struct bench_busy busy = { .side = s, .work = BUSY_LOADS, .real_cpu = b->cpu[1] };
	double ns[SHOOTDOWNS];
	unsigned n = 0;
	int rc = s->ops->map(s, PMD_SIZE, false, &busy.at), rc2;

	if (rc)
		return rc;
	rc = s->ops->write(s, busy.at, PMD_SIZE, PAGE_SIZE);
	if (!rc)
		rc = bench_busy_start(&busy);
	if (!rc) {
		while (n < SHOOTDOWNS && !rc) {
			rc = shoot_one(s, how, &busy, n & 1, &ns[n]);
			n++;
		}
		bench_busy_go(&busy);
		rc2 = bench_busy_join(&busy);
		rc = rc ? rc : rc2;
	}
	*ret = stats_median(ns, n);
	s->ops->unmap(s, busy.at, PMD_SIZE);
	return rc;
}

static int shootdown_mprotect(struct bench *b, struct bench_side *s, double *ret)
{
	return shootdown(b, s, SHOT_PROTECT, ret);
}

static int shootdown_madvise(struct bench *b, struct bench_side *s, double *ret)
{
	return shootdown(b, s, SHOT_DISCARD, ret);
}

static int shootdown_munmap(struct bench *b, struct bench_side *s, double *ret)
{
	return shootdown(b, s, SHOT_UNMAP, ret);
}

/* One thread's and two threads' time for a part of the memory each: how far two get in the time of one. */
static int scaling(struct bench *b, struct bench_side *s, enum busy_work work, double *ret)
{
	uint64_t part = ALIGN_DOWN(b->o->size / 2, PMD_SIZE), at, alone = 0, both = 0;
	bool huge = work == BUSY_CLEARS;
	int rc = 0;

	for (unsigned threads = 1; threads <= 2 && !rc; threads++) {
		struct bench_busy busy[2] = { { .side = s, .work = work, .real_cpu = b->cpu[1] },
					      { .side = s, .work = work, .real_cpu = b->cpu[0] } };

		rc = s->ops->map(s, 2 * part, huge, &at);
		if (rc)
			return rc;
		if (huge)
			rc = s->ops->write(s, at, 2 * part, PMD_SIZE);
		for (unsigned i = 0; i < threads && !rc; i++) {
			busy[i].at = at + i * part;
			busy[i].len = part;
			rc = bench_busy_start(&busy[i]);
		}
		for (unsigned i = 0; i < threads && !rc; i++)
			bench_busy_go(&busy[i]);
		for (unsigned i = 0; i < threads && !rc; i++)
			rc = bench_busy_join(&busy[i]);
		*(threads == 1 ? &alone : &both) = MAX(busy[0].ns, busy[1].ns);
		s->ops->unmap(s, at, 2 * part);
	}
	*ret = rc ? 0 : 2 * (double)alone / (double)both;
	return rc;
}

static int fault_scaling(struct bench *b, struct bench_side *s, double *ret)
{
	return scaling(b, s, BUSY_FAULTS, ret);
}

static int loop_scaling(struct bench *b, struct bench_side *s, double *ret)
{
	(void)s;
	return scaling(b, &b->ours, BUSY_CLEARS, ret);
}

/* ---- the list ---- */

static const struct measure measures[] = {
	{ "tlb_hit", "ns", NULL, false, true, false, NULL, tlb_hit, NULL },
	{ "fault_4k", "ns", NULL, false, false, false, NULL, fault_4k, NULL },
	{ "fault_4k_cached", "ns", NULL, false, false, false, "quire.host_clear=rep", fault_4k_cached, NULL },
	{ "fault_2m", "ns", NULL, false, false, false, NULL, fault_2m, NULL },
	{ "fault_2m_bandwidth", "bytes/s", "clearing the same frames", true, false, false, NULL, fault_bandwidth, clear_bandwidth },
	{ "cow_4k", "ns", NULL, false, false, false, NULL, cow_4k, NULL },
	{ "munmap", "ns", NULL, false, false, false, NULL, unmapping, NULL },
	{ "shootdown_mprotect", "ns", NULL, false, false, true, NULL, shootdown_mprotect, NULL },
	{ "shootdown_madvise", "ns", NULL, false, false, true, NULL, shootdown_madvise, NULL },
	{ "shootdown_munmap", "ns", NULL, false, false, true, NULL, shootdown_munmap, NULL },
	{ "fault_4k_two_threads", "ratio", "two loops that clear the same bytes", true, false, true, NULL, fault_scaling, loop_scaling },
	{ "fork_copy", "ns", NULL, false, false, false, NULL, forking, NULL },
	{ "fork_shared", "ns", NULL, false, false, false, "quire.fork_tables=shared", forking, NULL },
	{ "fork_shared_write", "ns", NULL, false, false, false, "quire.fork_tables=shared", first_write, NULL },
};

static void note(struct bench_linux_result *r, const char *text, const char *name)
{
	size_t n = strlen(r->note);

	snprintf(r->note + n, sizeof(r->note) - n, "%s%s: %s", n ? "; " : "", name, text);
}

static bool stopped(const struct bench *b)
{
	return b->o->stop && *b->o->stop;
}

/* One value of one side. */
static int take(struct bench *b, const struct measure *m, bool peer, double *ret)
{
	if (!peer)
		return m->ours(b, &b->ours, ret);
	return (m->peer ? m->peer : m->ours)(b, &b->kernel, ret);
}

static int measure(struct bench *b, const struct measure *m, struct bench_linux_result *ret)
{
	double ours[MAX_REPEATS], peer[MAX_REPEATS], dropped = 0;
	struct bench_linux_row *row = &ret->row[ret->nr];
	struct stats_estimate e;
	int rc = 0;

	for (unsigned i = 0; i <= b->o->repeats && !rc; i++) {
		double *o = i ? &ours[i - 1] : &dropped, *p = i ? &peer[i - 1] : &dropped;

		if (i % 2 && !m->alone)
			rc = take(b, m, true, p);
		if (!rc)
			rc = take(b, m, false, o);
		if (!rc && !(i % 2) && !m->alone)
			rc = take(b, m, true, p);
		if (!rc && stopped(b))
			rc = -EINTR;
	}
	if (rc)
		return rc;
	*row = (struct bench_linux_row){ .name = m->name, .unit = m->unit, .higher_is_better = m->higher };
	if (!m->alone) {
		rc = stats_ratio(peer, ours, b->o->repeats, &e);
		if (rc)
			return rc;
		row->peer_name = m->peer_name ? m->peer_name : "linux";
		row->ratio = e.value;
		row->low = e.low;
		row->high = e.high;
		row->peer = stats_median(peer, b->o->repeats);
	}
	row->ours = stats_median(ours, b->o->repeats);
	ret->nr++;
	return 0;
}

/* An engine with the setting that the measurement wants. -ENOENT: there is none of the kind. */
static int open_engine(struct bench *b, const char *setting, char *err, size_t errlen)
{
	uint64_t need = 2 * MAX(b->o->size, b->o->fork_size) + (256ULL << 20), memory = ALIGN_UP(need, SECTION_FRAMES << PAGE_SHIFT);
	struct knobs k = *b->o->knobs;
	char name[80], text[200];
	const char *eq = setting ? strchr(setting, '=') : NULL;

	k.thp_enabled = THP_MADVISE;
	if (eq) {
		snprintf(name, sizeof(name), "%.*s", (int)(eq - setting), setting);
		if (!knob_find(name) || knob_set(&k, name, eq + 1, text, sizeof(text)))
			return -ENOENT;
	}
	return bench_side_open(&b->ours, memory, &k, err, errlen);
}

static bool same_setting(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static int run_all(struct bench *b, struct bench_linux_result *ret, char *err, size_t errlen)
{
	const struct bench_linux_options *o = b->o;
	const char *open_with = NULL;
	bool open = false;
	int rc = 0;

	for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]) && !rc; i++) {
		const struct measure *m = &measures[i];

		if (o->only && strcmp(o->only, m->name))
			continue;
		if (m->two && b->cpu[1] < 0) {
			note(ret, "needs two CPUs", m->name);
			continue;
		}
		if (o->say)
			o->say(o->say_arg, m->name);
		if (!open || !same_setting(m->setting, open_with)) {
			if (open)
				bench_side_close(&b->ours);
			rc = open_engine(b, m->setting, err, errlen);
			open = !rc;
			open_with = m->setting;
		}
		if (rc == -ENOENT) {
			note(ret, "this engine has no such setting", m->setting);
			rc = 0;
			continue;
		}
		if (!rc) {
			rc = measure(b, m, ret);
			if (rc && rc != -EINTR)
				snprintf(err, errlen, "%s: %s", m->name, strerror(-rc));
		}
	}
	if (open)
		bench_side_close(&b->ours);
	if (!rc && !ret->nr && !ret->note[0]) {
		int n = snprintf(err, errlen, "no measurement is called '%s'; there are", o->only ? o->only : "");

		for (size_t i = 0; i < sizeof(measures) / sizeof(measures[0]) && n > 0 && (size_t)n < errlen; i++)
			n += snprintf(err + n, errlen - (size_t)n, "%s %s", i ? "," : "", measures[i].name);
		return -EINVAL;
	}
	return rc;
}

int bench_linux(const struct bench_linux_options *o, struct bench_linux_result *ret, char *err, size_t errlen)
{
	struct bench b = { .o = o, .kernel = { .ops = &bench_kernel }, .cpu = { bench_real_cpu(0), bench_real_cpu(1) } };
	cpu_set_t before;
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (!o->repeats || o->repeats > MAX_REPEATS || !o->size || o->size % (4 * PMD_SIZE) || !o->fork_size || o->fork_size % PMD_SIZE) {
		snprintf(err, errlen, "1 to 64 repeats, a size in multiples of 8 MiB, a size to fork in multiples of 2 MiB");
		return -EINVAL;
	}
	/* Two threads that the scheduler puts on one CPU measure nothing. */
	if (sched_getaffinity(0, sizeof(before), &before))
		return -errno;
	bench_pin(b.cpu[0]);
	rc = run_all(&b, ret, err, errlen);
	(void)sched_setaffinity(0, sizeof(before), &before);
	return rc;
}
