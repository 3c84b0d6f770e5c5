/*
 * Running a program under the recorder: the loop that drains, watches, reports and, when asked or when the output's
 * limit is reached, ends the program: SIGINT, after two seconds SIGTERM, after two more SIGKILL.
 */
#define _GNU_SOURCE
#include "record/record_int.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_NS (200 * NS_PER_MS)
#define WATCH_NS (5 * NS_PER_MS)
#define LIMIT_NS (500 * NS_PER_MS)
#define PATIENCE_NS (2 * NS_PER_S)
#define SLEEP_FIRST_NS (50 * 1000ULL)
#define SLEEP_LONGEST_NS (2 * NS_PER_MS)

/* How far the ending of the program has gone. */
enum ending { RUNNING, INTERRUPTED, TERMINATED, KILLED };

struct run {
	const struct record_options *o;
	struct drain d;
	enum ending ending;
	uint64_t start_ns, ending_ns, progress_ns, watch_ns, limit_ns;
	const char *why; /* the limit that ended it; NULL: it was not a limit */
};

/* Ctrl-C on a terminal reaches the whole foreground group, the program too: a second SIGINT makes many programs give up. */
static bool terminal_interrupts(void)
{
	return tcgetpgrp(STDIN_FILENO) == getpgrp() || tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void advance_ending(struct run *run, uint64_t now, bool begin)
{
	static const int signals[] = { [INTERRUPTED] = SIGINT, [TERMINATED] = SIGTERM, [KILLED] = SIGKILL };

	if (run->ending == RUNNING && !begin)
		return;
	if (run->ending != RUNNING && now < run->ending_ns + (run->ending == KILLED ? NS_PER_S / 10 : PATIENCE_NS))
		return;
	if (run->ending != KILLED)
		run->ending++;
	run->ending_ns = now;
	if (run->ending == INTERRUPTED && !run->why && !run->d.error && terminal_interrupts())
		return;
	procs_signal(&run->d.procs, signals[run->ending], run->ending == INTERRUPTED);
}

static const char *over_limit(struct run *run, uint64_t now)
{
	const struct record_options *o = run->o;
	struct statvfs fs;

	if (now < run->limit_ns)
		return NULL;
	run->limit_ns = now + LIMIT_NS;
	if (o->max_bytes && (o->output_bytes ? o->output_bytes(o->output_arg) : run->d.words * 8) > o->max_bytes)
		return "the size limit was reached";
	if (!o->max_bytes && o->output_dir && statvfs(o->output_dir, &fs) == 0 && fs.f_bavail < fs.f_blocks / 20)
		return "the disk is nearly full";
	return NULL;
}

static void chores(struct run *run, uint64_t now)
{
	bool stop = run->o->stop && *run->o->stop;

	if (!run->why && run->ending == RUNNING)
		run->why = over_limit(run, now);
	advance_ending(run, now, stop || run->why || run->d.error);
	if (now >= run->watch_ns) {
		run->watch_ns = now + WATCH_NS;
		procs_poll(&run->d.procs);
		drain_watch(&run->d, now);
	}
	if (run->o->progress && now >= run->progress_ns) {
		struct record_result r = { 0 };

		run->progress_ns = now + PROGRESS_NS;
		drain_totals(&run->d, &r);
		run->o->progress(run->o->progress_arg, r.refs, now - run->start_ns, drain_live(&run->d));
	}
}

static void loop(struct run *run)
{
	uint64_t sleep_ns = SLEEP_FIRST_NS;

	run->start_ns = record_now_ns();
	run->progress_ns = run->start_ns + PROGRESS_NS;
	for (;;) {
		uint64_t now = record_now_ns();
		/* Nobody is left to write: the pass after this sees everything. */
		bool last = run->d.procs.no_children;

		if (drain_pass(&run->d, now, last)) {
			sleep_ns = SLEEP_FIRST_NS;
		} else if (last && !drain_live(&run->d)) {
			return;
		} else {
			struct timespec ts = { .tv_nsec = (long)sleep_ns };

			nanosleep(&ts, NULL);
			sleep_ns = MIN(sleep_ns * 2, SLEEP_LONGEST_NS);
		}
		chores(run, now);
	}
}

static void add_note(struct record_result *ret, const char *text, unsigned n)
{
	size_t k = strlen(ret->note);

	snprintf(ret->note + k, sizeof(ret->note) - k, "%s", k ? "; " : "");
	k = strlen(ret->note);
	if (n > 1)
		snprintf(ret->note + k, sizeof(ret->note) - k, "%s (%u times)", text, n);
	else
		snprintf(ret->note + k, sizeof(ret->note) - k, "%s", text);
}

static void fill_result(struct run *run, struct record_result *ret)
{
	const struct drain *d = &run->d;
	int st = d->procs.first_status;

	*ret = (struct record_result){ .exit_status = -1 };
	drain_totals(d, ret);
	if (d->procs.first_ended && WIFSIGNALED(st))
		ret->signal = WTERMSIG(st);
	else if (d->procs.first_ended)
		ret->exit_status = WEXITSTATUS(st);
	ret->stopped = run->ending != RUNNING;
	ret->hung = d->hung > 0;
	if (run->why)
		add_note(ret, run->why, 1);
	if (d->hung)
		add_note(ret, "a child forked beside other threads hung in QEMU 7.2 when it made a thread, and was ended",
			 d->hung);
	if (d->aborted)
		add_note(ret, "a child forked beside other threads was aborted by QEMU 7.2 when it made a thread",
			 d->aborted);
	if (d->unrecorded)
		add_note(ret, "a program ran unrecorded: not for x86-64, or its user or root can't reach the recording",
			 d->unrecorded);
	if (d->shared->lost_threads)
		add_note(ret, "too many threads at once: some ran unrecorded", d->shared->lost_threads);
}

/* Why nothing came: the plugin's own words, or the emulator's end. */
static int nothing_ran(const struct run *run, char *err, size_t errlen)
{
	const struct ring_shared *sh = run->d.shared;

	if (run->d.streams)
		return 0;
	if (sh->has_error)
		snprintf(err, errlen, "the recorder could not start: %.200s", sh->error);
	else
		snprintf(err, errlen, "%s ended before the program began (its message is above)", sh->qemu);
	return run->ending != RUNNING ? -EINTR : -EIO;
}

int record_run(const struct record_options *o, struct trace_sink *sink, struct record_result *ret, char *err, size_t errlen)
{
	char qemu[RING_PATH_MAX], plugin[RING_PATH_MAX];
	struct run run = { .o = o };
	int was_subreaper = 0, e;
	struct session s;

	err[0] = '\0';
	*ret = (struct record_result){ .exit_status = -1 };
	e = launch_find(o, qemu, plugin, sizeof(qemu), err, errlen);
	if (e < 0)
		return e;
	e = session_create(&s, o, qemu, plugin, err, errlen);
	if (e < 0)
		return e;
	e = drain_init(&run.d, &s, sink);
	if (e == 0) {
		prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		e = session_start(&s, o, err, errlen);
		run.d.procs.first = s.first;
		if (e == 0) {
			loop(&run);
			fill_result(&run, ret);
			e = nothing_ran(&run, err, errlen);
		}
		prctl(PR_SET_CHILD_SUBREAPER, was_subreaper);
		if (e == 0 && run.d.error) {
			e = run.d.error;
			snprintf(err, errlen, "the trace could not be written: %s", strerror(-e));
		}
	} else {
		snprintf(err, errlen, "out of memory");
	}
	drain_done(&run.d);
	session_destroy(&s);
	return e;
}

int record_check(char *err, size_t errlen)
{
	char qemu[RING_PATH_MAX], plugin[RING_PATH_MAX];
	struct record_options o = { 0 };

	err[0] = '\0';
	return launch_find(&o, qemu, plugin, sizeof(qemu), err, errlen);
}
