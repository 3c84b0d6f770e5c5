/*
 * Running the rows. Files and generated traces: `jobs` threads take row after row. A live program: one thread a row,
 * all reading the live store that the recorder fills from the calling thread.
 *
 * Shared between the threads: `next` and `refs` (atomic), and under `lock` the progress report. A row is touched by its
 * thread only until that has been joined.
 */
#include "lab/run.h"

#include "base/compiler.h"
#include "trace/live.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PROGRESS_NS 200000000ULL
#define LIVE_MEMORY (512ULL << 20)

struct job {
	const struct lab_options *o;
	struct lab_result *res;
	struct trace_source *s;
	size_t next;
	size_t rows_done;
	uint64_t *refs; /* by row, as last reported */
	uint64_t start_ns;
	pthread_mutex_t lock;
	uint64_t reported_ns;
};

/* What a row's progress callback is given. */
struct row_progress {
	struct job *j;
	size_t row;
};

static uint64_t host_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static void report(struct job *j)
{
	struct lab_progress p = { .rows = j->res->nr_rows };
	uint64_t now = host_now_ns();

	if (!j->o->progress || pthread_mutex_trylock(&j->lock))
		return;
	if (now - j->reported_ns >= PROGRESS_NS) {
		j->reported_ns = now;
		for (size_t i = 0; i < p.rows; i++)
			p.refs_done += __atomic_load_n(&j->refs[i], __ATOMIC_RELAXED);
		p.refs_total = j->res->source_refs * MAX(j->o->repeat, 1U) * p.rows;
		p.rows_done = __atomic_load_n(&j->rows_done, __ATOMIC_RELAXED);
		p.host_ns = now - j->start_ns;
		j->o->progress(j->o->progress_arg, &p);
	}
	pthread_mutex_unlock(&j->lock);
}

static void row_progress(void *arg, uint64_t refs)
{
	const struct row_progress *p = arg;

	__atomic_store_n(&p->j->refs[p->row], refs, __ATOMIC_RELAXED);
	report(p->j);
}

static bool stopped(const struct job *j)
{
	return j->o->stop && *j->o->stop;
}

static void run_row(struct job *j, size_t i)
{
	struct row_progress p = { j, i };
	struct lab_row *row = &j->res->rows[i];

	lab_run_row(j->o, j->s, row, row_progress, &p);
	__atomic_store_n(&j->refs[i], row->replay.refs, __ATOMIC_RELAXED);
	__atomic_add_fetch(&j->rows_done, 1, __ATOMIC_RELAXED);
	report(j);
}

static void *take_rows(void *arg)
{
	struct job *j = arg;
	size_t i;

	while ((i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED)) < j->res->nr_rows && !stopped(j))
		run_row(j, i);
	return NULL;
}

/* A live program's row. A store that waits for a cursor which never comes would keep everything: give it one. */
static void *take_one_row(void *arg)
{
	struct job *j = arg;
	size_t i = __atomic_fetch_add(&j->next, 1, __ATOMIC_RELAXED);
	struct trace_cursor *cur;

	run_row(j, i);
	if (!j->res->rows[i].replayed && !j->s->ops->cursor_open(j->s, &cur))
		j->s->ops->cursor_close(j->s, cur);
	return NULL;
}

/* Threads leave signals to the caller's. Returns how many could be started. */
static size_t start_threads(struct job *j, pthread_t *threads, size_t n, void *(*fn)(void *))
{
	sigset_t all, old;
	size_t i;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, fn, j))
			break;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return i;
}

static int run_stored(struct job *j, char *err, size_t errlen)
{
	size_t n = MIN((size_t)MAX(j->o->jobs, 1U), j->res->nr_rows), started;
	pthread_t *threads = calloc(n, sizeof(*threads));

	if (!threads) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	started = start_threads(j, threads, n, take_rows);
	if (!started)
		take_rows(j);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	return 0;
}

static int run_live(struct job *j, struct trace_sink *sink, char *err, size_t errlen)
{
	const struct record_options ro = { .argv = j->o->source.argv, .stop = j->o->stop };
	size_t n = j->res->nr_rows, started;
	pthread_t *threads = calloc(n, sizeof(*threads));
	int rc;

	if (!threads) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	started = start_threads(j, threads, n, take_one_row);
	if (started == n) {
		rc = record_run(&ro, sink, &j->res->record, j->res->record_error, sizeof(j->res->record_error));
	} else {
		rc = -EAGAIN;
		snprintf(j->res->record_error, sizeof(j->res->record_error),
			 "too many rows for this computer's threads");
	}
	trace_live_end(j->s);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	free(threads);
	j->res->source_refs = j->res->record.refs;
	if (rc)
		snprintf(err, errlen, "%s", j->res->record_error);
	return rc;
}

static int open_source(const struct lab_options *o, size_t rows, struct trace_source **ret,
		       struct trace_sink **ret_sink, char *err, size_t errlen)
{
	switch (o->source.kind) {
	case LAB_FILE:
		return trace_file_open(o->source.name, ret, err, errlen);
	case LAB_GENERATED:
		return trace_synthetic_open(o->source.name, o->source.bytes, o->source.count, o->seed, ret, err,
					    errlen);
	case LAB_PROGRAM:
		return trace_live_create((unsigned)rows, o->live_memory ? o->live_memory : LIVE_MEMORY, ret, ret_sink,
					 err, errlen);
	case LAB_WORKLOAD:
		*ret = NULL; /* nothing is read */
		return 0;
	}
	return -EINVAL;
}

/* over's to under's, of one metric. */
static void add_ratio(const struct lab_row *over, const struct lab_row *under, struct metrics *to, const char *of,
		      const char *name, const char *help)
{
	uint64_t a = metrics_u64(&over->metrics, of), b = metrics_u64(&under->metrics, of);

	if (a && b && over->finished && under->finished)
		metrics_add(to, name, (uint64_t)((unsigned __int128)a * 10000 / b), 4, "ratio", help);
}

/* Metrics that compare rows, and the first row's error. A workload's rate is what it is about: this row's over the first one's. */
static int conclude(const struct lab_options *o, struct lab_result *res, char *err, size_t errlen)
{
	const char *rate = o->source.kind == LAB_WORKLOAD ? o->source.workload->metric : NULL;
	int rc = 0;

	for (size_t i = 0; i < res->nr_rows; i++) {
		struct lab_row *row = &res->rows[i];

		if (rate)
			add_ratio(row, &res->rows[0], &row->metrics, rate, "rate_ratio",
				  "this row's rate over the first one's: above 1 is faster");
		add_ratio(&res->rows[0], row, &row->metrics, "time_ns", "time_ratio",
			  "the first row's time over this one's: above 1 is faster");
		add_ratio(&res->rows[0], row, &row->metrics, "cpu_time_ns", "cpu_time_ratio",
			  "the same of the time on CPUs, without think time");
		if (row->error && !rc) {
			rc = row->error;
			snprintf(err, errlen, "row %zu: %s", i + 1, row->err[0] ? row->err : strerror(-rc));
		}
	}
	return rc;
}

static int run_rows(const struct lab_options *o, struct lab_result *ret, char *err, size_t errlen)
{
	struct job j = { .o = o, .res = ret, .start_ns = host_now_ns() };
	struct trace_sink *sink = NULL;
	int rc = open_source(o, ret->nr_rows, &j.s, &sink, err, errlen), rc2;

	if (rc)
		return rc;
	if (j.s)
		ret->source_refs = j.s->total_refs;
	j.refs = calloc(ret->nr_rows, sizeof(*j.refs));
	pthread_mutex_init(&j.lock, NULL);
	if (!j.refs) {
		snprintf(err, errlen, "out of memory");
		rc = -ENOMEM;
	} else {
		rc = sink ? run_live(&j, sink, err, errlen) : run_stored(&j, err, errlen);
	}
	ret->stopped = stopped(&j);
	pthread_mutex_destroy(&j.lock);
	if (j.s) {
		ret->damaged = j.s->damaged;
		memcpy(ret->damage, j.s->error, sizeof(ret->damage));
		j.s->ops->close(j.s);
	}
	free(j.refs);
	rc2 = conclude(o, ret, rc ? (char[256]){ 0 } : err, rc ? 256 : errlen);
	return rc ? rc : rc2;
}

int lab_run(const struct lab_options *o, struct lab_result *ret, char *err, size_t errlen)
{
	*ret = (struct lab_result){ 0 };
	ret->rows = calloc(o->settings->nr, sizeof(*ret->rows));
	if (!ret->rows) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	ret->nr_rows = o->settings->nr;
	for (size_t i = 0; i < ret->nr_rows; i++)
		ret->rows[i].settings = &o->settings->rows[i];
	return run_rows(o, ret, err, errlen);
}

void lab_result_done(struct lab_result *r)
{
	for (size_t i = 0; i < r->nr_rows; i++) {
		metrics_done(&r->rows[i].metrics);
		for (unsigned p = 0; p < NR_MEMORY_PROCS; p++)
			free(r->rows[i].proc[p]);
	}
	free(r->rows);
	*r = (struct lab_result){ 0 };
}
