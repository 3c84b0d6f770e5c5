/*
 * Rounds, and what comes out of them. Runs of a round are independent: on the model `jobs` threads take run after run; results are
 * kept by (round, side) and looked at in that order, so that threads change nothing.
 *
 * Shared between threads: `next`, `refs`, `failed` (atomic), the progress report under `lock`. A run's metrics are its thread's until it
 * has been joined.
 */
#include "lab/compare.h"

#include "base/compiler.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRESS_NS 200000000ULL

struct run {
	struct metrics ms;
	int rc;
	bool done;
	uint64_t refs;
	char err[256];
};

struct job {
	const struct compare_options *o;
	struct run *runs;      /* [(discard + rounds) * nr_sides] */
	unsigned rounds, discard; /* rounds that may be run, those thrown away included */
	size_t next, end;      /* runs handed out, and how far they may be */
	bool failed;
	struct once_hosts hosts;
	uint64_t start_ns, reported_ns;
	double width;
	pthread_mutex_t lock;
};

static uint64_t host_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static bool stopped(const struct job *j)
{
	return j->o->stop && *j->o->stop;
}

/* Which side is the k-th of a round. */
static unsigned side_of(const struct job *j, unsigned round, unsigned k)
{
	return round % 2 ? j->o->nr_sides - 1 - k : k;
}

/* ---- progress ---- */

struct run_progress {
	struct job *j;
	struct run *r;
};

static void report(struct job *j)
{
	struct compare_progress p = { .rounds = j->rounds - j->discard, .width = j->width };
	unsigned sides = j->o->nr_sides;
	uint64_t now = host_now_ns();

	if (!j->o->progress || pthread_mutex_trylock(&j->lock))
		return;
	if (now - j->reported_ns >= PROGRESS_NS) {
		j->reported_ns = now;
		for (size_t i = 0; i < (size_t)j->rounds * sides; i++)
			p.refs += __atomic_load_n(&j->runs[i].refs, __ATOMIC_RELAXED);
		for (unsigned r = j->discard; r < j->rounds; r++) {
			unsigned done = 0;

			for (unsigned s = 0; s < sides; s++)
				done += __atomic_load_n(&j->runs[r * sides + s].done, __ATOMIC_RELAXED);
			p.rounds_done += done == sides;
		}
		p.host_ns = now - j->start_ns;
		j->o->progress(j->o->progress_arg, &p);
	}
	pthread_mutex_unlock(&j->lock);
}

static void run_progress(void *arg, uint64_t refs)
{
	const struct run_progress *p = arg;

	__atomic_store_n(&p->r->refs, refs, __ATOMIC_RELAXED);
	report(p->j);
}

/* ---- runs ---- */

static void run_one(struct job *j, size_t i)
{
	unsigned sides = j->o->nr_sides, round = (unsigned)(i / sides), side = side_of(j, round, (unsigned)(i % sides));
	struct run *r = &j->runs[round * sides + side];
	struct run_progress p = { j, r };
	const struct once once = {
		.subject = &j->o->subject, .place = &j->o->place, .knobs = &j->o->sides[side].knobs, .seed = j->o->seed + round, .inject = j->o->inject,
		.hosts = &j->hosts, .progress = run_progress, .progress_arg = &p, .stop = j->o->stop,
	};

	r->rc = lab_once(&once, &r->ms, r->err, sizeof(r->err));
	if (r->rc)
		__atomic_store_n(&j->failed, true, __ATOMIC_RELAXED);
	else
		__atomic_store_n(&r->done, true, __ATOMIC_RELAXED);
	report(j);
}

static void *take_runs(void *arg)
{
	struct job *j = arg;
	size_t i;

	while (!stopped(j) && !__atomic_load_n(&j->failed, __ATOMIC_RELAXED) &&
	       (i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->end)
		run_one(j, i);
	return NULL;
}

/* All runs before `end`. The calling thread is one of those that take them. */
static void run_until(struct job *j, size_t end)
{
	unsigned jobs = j->o->place.model ? MIN(MAX(j->o->jobs, 1U), 64U) : 1, started = 0;
	pthread_t threads[64];

	j->end = end;
	while (started + 1 < jobs && !pthread_create(&threads[started], NULL, take_runs, j))
		started++;
	take_runs(j);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	j->next = MIN(j->next, end);
}

/* Rounds that are whole, from the first that counts on. */
static unsigned whole_rounds(const struct job *j)
{
	unsigned n = 0;

	for (unsigned r = j->discard; r < j->rounds; r++, n++)
		for (unsigned s = 0; s < j->o->nr_sides; s++)
			if (!j->runs[r * j->o->nr_sides + s].done)
				return n;
	return n;
}

/* ---- figures ---- */

static double value_of(const struct metric *m)
{
	double v = (double)m->value;

	for (unsigned i = 0; i < m->decimals; i++)
		v /= 10;
	return v;
}

const char *compare_main_metric(const struct subject *s)
{
	return s->workload ? s->workload->metric : "time_ns";
}

enum better compare_better(const char *metric)
{
	size_t n = strlen(metric);

	if ((n > 3 && !strcmp(metric + n - 3, "_ns")) || strstr(metric, "_ns_"))
		return BETTER_LOWER;
	if (!strcmp(metric, "ipc") || !strncmp(metric, "throughput", 10))
		return BETTER_HIGHER;
	for (size_t i = 0; i < workload_count; i++)
		if (!strncmp(metric, workload_table[i].metric, strlen(workload_table[i].metric)))
			return BETTER_HIGHER;
	return BETTER_NEITHER;
}

bool compare_differs(const struct stats_estimate *gain)
{
	return gain->n && (gain->low > 1 || gain->high < 1);
}

/* v: [nr_sides][n], from the rounds that count. */
static int figures(const struct compare_options *o, struct compare_metric *m, const double *v, size_t n)
{
	m->same = true;
	for (unsigned s = 0; s < o->nr_sides; s++) {
		const double *mine = v + s * n;
		int rc = stats_estimate(mine, n, &m->value[s]);

		if (rc)
			return rc;
		m->median[s] = m->value[s].value;
		for (size_t i = 0; i < n; i++)
			m->same = m->same && mine[i] == v[i];
		if (!s)
			continue;
		rc = stats_ratio(v, mine, n, &m->gain[s]);
		if (rc && rc != -EDOM)
			return rc;
		if (!rc && m->better == BETTER_LOWER)
			m->gain[s] = stats_inverse(m->gain[s]);
		m->p[s] = stats_permutation(v, mine, n);
	}
	return 0;
}

/* Values of a metric in all runs that count. false: some run does not have it. */
static bool gather(const struct job *j, const char *name, size_t n, double *v)
{
	for (unsigned s = 0; s < j->o->nr_sides; s++)
		for (size_t i = 0; i < n; i++) {
			const struct metric *m = metrics_find(&j->runs[(j->discard + i) * j->o->nr_sides + s].ms, name);

			if (!m)
				return false;
			v[s * n + i] = value_of(m);
		}
	return true;
}

/* Metrics that are the same everywhere are no tests: a correction for them would only blunt the others. */
static int correct(const struct compare_options *o, struct compare_result *r)
{
	double *p = calloc(2 * r->nr + 1, sizeof(*p)), *q;

	if (!p)
		return -ENOMEM;
	q = p + r->nr;
	for (unsigned s = 1; s < o->nr_sides; s++) {
		size_t n = 0;

		for (size_t i = 0; i < r->nr; i++)
			if (!r->m[i].same)
				p[n++] = r->m[i].p[s];
		stats_holm(p, n, q);
		n = 0;
		for (size_t i = 0; i < r->nr; i++)
			r->m[i].p_holm[s] = r->m[i].same ? 1 : q[n++];
	}
	free(p);
	return 0;
}

static int conclude(const struct job *j, struct compare_result *ret)
{
	unsigned n = whole_rounds(j);
	const struct metrics *first = &j->runs[j->discard * j->o->nr_sides].ms;
	double *v;
	int rc = 0;

	ret->rounds = n;
	if (!n)
		return 0;
	ret->m = calloc(MAX(first->nr, 1U), sizeof(*ret->m));
	v = calloc((size_t)n * j->o->nr_sides, sizeof(*v));
	if (!ret->m || !v)
		rc = -ENOMEM;
	for (size_t i = 0; !rc && i < first->nr; i++) {
		const struct metric *from = &first->m[i];
		struct compare_metric *m = &ret->m[ret->nr];

		if (!gather(j, from->name, n, v))
			continue;
		*m = (struct compare_metric){ .name = strdup(from->name), .unit = from->unit, .help = from->help,
					      .decimals = from->decimals, .better = compare_better(from->name) };
		if (!m->name) {
			rc = -ENOMEM;
			break;
		}
		ret->nr++;
		rc = figures(j->o, m, v, n);
	}
	free(v);
	return rc ? rc : correct(j->o, ret);
}

/* The widest interval of the main metric's gain, in parts of it. */
static double width_now(const struct job *j)
{
	const struct compare_options *o = j->o;
	unsigned n = whole_rounds(j);
	struct compare_metric m = { .better = compare_better(compare_main_metric(&o->subject)) };
	double *v = n ? calloc((size_t)n * o->nr_sides, sizeof(*v)) : NULL, width = 1;

	if (v && gather(j, compare_main_metric(&o->subject), n, v) && !figures(o, &m, v, n)) {
		width = 0;
		for (unsigned s = 1; s < o->nr_sides; s++)
			width = MAX(width, m.gain[s].n ? stats_width(&m.gain[s]) : 1);
	}
	free(v);
	return width;
}

/* ---- the whole ---- */

static int first_error(const struct job *j, char *err, size_t errlen)
{
	for (size_t i = 0; i < (size_t)j->rounds * j->o->nr_sides; i++)
		if (j->runs[i].rc && j->runs[i].rc != -EINTR) {
			snprintf(err, errlen, "%s", j->runs[i].err[0] ? j->runs[i].err : strerror(-j->runs[i].rc));
			return j->runs[i].rc;
		}
	return 0;
}

static void run_rounds(struct job *j, struct compare_result *ret)
{
	const struct compare_options *o = j->o;
	unsigned sides = o->nr_sides, step = o->until > 0 ? 1 : j->rounds;

	/* An interval is only looked at where there can be one; on the model as many rounds at a time as there are threads. */
	if (o->until > 0 && o->place.model)
		step = MAX(o->jobs / sides, 1U);
	for (unsigned round = 0; round < j->rounds && !stopped(j) && !j->failed;) {
		round = MIN(j->rounds, round < j->discard + STATS_MIN_PAIRS && o->until > 0 ? j->discard + STATS_MIN_PAIRS : round + step);
		run_until(j, (size_t)round * sides);
		if (o->until > 0 && !stopped(j) && !j->failed) {
			j->width = width_now(j);
			ret->reached = j->width <= o->until;
			if (ret->reached)
				break;
		}
	}
	ret->stopped = stopped(j);
}

int compare_run(const struct compare_options *o, struct compare_result *ret, char *err, size_t errlen)
{
	struct job j = { .o = o, .discard = o->place.model ? 0 : 1, .start_ns = host_now_ns() };
	int rc, rc2;

	*ret = (struct compare_result){ 0 };
	if (o->nr_sides < 2 || o->nr_sides > COMPARE_MAX_SIDES || o->rounds > STATS_MAX_PAIRS) {
		snprintf(err, errlen, "2 to %d sides and at most %d rounds can be compared", COMPARE_MAX_SIDES, STATS_MAX_PAIRS);
		return -EINVAL;
	}
	j.rounds = j.discard + MAX(o->rounds, 1U);
	j.runs = calloc((size_t)j.rounds * o->nr_sides, sizeof(*j.runs));
	if (!j.runs) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	pthread_mutex_init(&j.lock, NULL);
	run_rounds(&j, ret);
	rc = first_error(&j, err, errlen);
	rc2 = conclude(&j, ret);
	if (rc2 && !rc) {
		rc = rc2;
		snprintf(err, errlen, "out of memory");
	}
	if (!rc && !ret->rounds)
		rc = -EINTR;
	ret->host_ns = host_now_ns() - j.start_ns;
	once_hosts_done(&j.hosts);
	pthread_mutex_destroy(&j.lock);
	for (size_t i = 0; i < (size_t)j.rounds * o->nr_sides; i++)
		metrics_done(&j.runs[i].ms);
	free(j.runs);
	return rc;
}

void compare_result_done(struct compare_result *r)
{
	for (size_t i = 0; i < r->nr; i++)
		free(r->m[i].name);
	free(r->m);
	*r = (struct compare_result){ 0 };
}

const struct compare_metric *compare_find(const struct compare_result *r, const char *name)
{
	for (size_t i = 0; i < r->nr; i++)
		if (!strcmp(r->m[i].name, name))
			return &r->m[i];
	return NULL;
}
