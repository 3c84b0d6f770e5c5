/*
 * Many runs. They happen in child processes, which write what they are at into memory shared with us: so a failed assertion, a crash or an
 * endless loop is a finding like any other, with its seed and the choices made until then. What failed is then reduced to the
 * fewest choices that still fail (delta debugging), each attempt in a child of its own.
 */
#define _GNU_SOURCE
#include "lab/schedules.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_JOBS 64U
#define RUN_SECONDS 20U        /* a run takes about a millisecond */
#define REDUCE_TRIES 3000U
#define MAX_CROWDS 8192U
#define POLL_NS 20000000L

/* What a child tells. */
struct slot {
	uint64_t runs, points, seed;
	bool failed, complete, trouble; /* trouble: not the engine's: why has it */
	char why[SCHEDULES_TEXT];
	char explain[8192];
	struct schedule s;
};

struct shared {
	bool stop; /* children: begin nothing new */
	struct slot slot[];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static struct shared *map_shared(uint32_t slots, size_t *ret_len)
{
	struct shared *sh;

	*ret_len = sizeof(*sh) + slots * sizeof(sh->slot[0]);
	sh = mmap(NULL, *ret_len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return sh == MAP_FAILED ? NULL : sh;
}

/* ---- in a child ---- */

struct worker {
	const struct schedules_options *o;
	struct shared *sh;
	struct slot *slot;
	struct schedules_world *w;
	uint32_t job, jobs;
	uint64_t found; /* exhaustive: schedules so far, of all workers */
	struct schedule_crowd *crowds[SCHEDULES_MAX_EXHAUSTIVE + 1];
};

static bool should_stop(const struct worker *k)
{
	return __atomic_load_n(&k->sh->stop, __ATOMIC_RELAXED);
}

/* One run of slot->s. false: it failed. */
static bool run_one(struct worker *k)
{
	alarm(RUN_SECONDS);
	k->slot->failed = schedules_run(k->w, &k->slot->s, k->slot->why, NULL, 0);
	alarm(0);
	return !k->slot->failed;
}

static bool count_run(struct worker *k)
{
	__atomic_add_fetch(&k->slot->runs, 1, __ATOMIC_RELAXED);
	k->slot->points += k->slot->s.points;
	return !k->slot->failed;
}

static void search_seeds(struct worker *k)
{
	const struct schedules_options *o = k->o;
	struct schedule *s = &k->slot->s;

	/* How long a run is, by which PCT chooses where to change: one that nobody interrupts. */
	s->strategy = SCHEDULE_LIST;
	s->nr_list = 0;
	if (!run_one(k))
		return;
	s->length = s->points;
	s->strategy = o->search == SEARCH_PCT ? SCHEDULE_PCT : SCHEDULE_RANDOM;
	s->depth = o->search == SEARCH_PCT ? o->preemptions : 0;
	for (uint64_t i = k->job; i < o->count && !should_stop(k); i += k->jobs) {
		k->slot->seed = s->seed = o->seed + i;
		if (!run_one(k) || !count_run(k))
			return;
	}
	k->slot->complete = !should_stop(k);
}

/* All schedules that go on from list[0..nr) by exactly `more` further choices. false: stop. */
static bool extend(struct worker *k, struct schedule_choice *list, uint32_t nr, uint32_t more)
{
	struct schedule *s = &k->slot->s;
	struct schedule_crowd *crowds = k->crowds[nr];
	uint32_t n, from = 0;

	if (!more && (k->found++ % k->jobs != k->job || k->found > k->o->count))
		return k->found <= k->o->count;
	if (should_stop(k))
		return false;
	s->strategy = SCHEDULE_LIST;
	s->list = list;
	s->nr_list = nr;
	s->crowds = more ? crowds : NULL;
	s->max_crowds = MAX_CROWDS;
	if (!run_one(k))
		return false;
	if (!more)
		return count_run(k);
	n = s->nr_crowds;
	/* Further choices come after the last one. */
	while (nr && from < n && !(crowds[from].cpu == list[nr - 1].cpu && crowds[from].at == list[nr - 1].at))
		from++;
	from += nr != 0;
	for (uint32_t i = from; i < n; i++) {
		for (unsigned to = 0; to < SCHEDULE_MAX_CPUS; to++) {
			if (!(crowds[i].ready & 1U << to) || to == crowds[i].usual)
				continue;
			list[nr] = (struct schedule_choice){ .at = crowds[i].at, .cpu = crowds[i].cpu, .to = (uint8_t)to };
			if (!extend(k, list, nr + 1, more - 1))
				return false;
		}
	}
	return true;
}

static void search_all(struct worker *k)
{
	struct schedule_choice list[SCHEDULES_MAX_EXHAUSTIVE + 1];

	for (uint32_t i = 0; i <= k->o->preemptions; i++) {
		k->crowds[i] = calloc(MAX_CROWDS, sizeof(struct schedule_crowd));
		if (!k->crowds[i]) {
			k->slot->trouble = true;
			snprintf(k->slot->why, SCHEDULES_TEXT, "out of memory");
			return;
		}
	}
	for (uint32_t d = 0; d <= k->o->preemptions; d++)
		if (!extend(k, list, 0, d))
			return;
	k->slot->complete = true;
}

_Noreturn static void child(struct worker *k, int messages, const struct schedule_choice *list, uint32_t nr, bool one)
{
	char err[SCHEDULES_TEXT] = "";

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	if (messages >= 0)
		(void)dup2(messages, STDERR_FILENO);
	if (schedules_world_create(k->o->program, k->o->knobs, &k->w, err, sizeof(err))) {
		k->slot->trouble = true;
		snprintf(k->slot->why, SCHEDULES_TEXT, "%s", err);
		_exit(0);
	}
	if (one) {
		k->slot->s.list = list;
		k->slot->s.nr_list = nr;
		alarm(RUN_SECONDS);
		k->slot->failed = schedules_run(k->w, &k->slot->s, k->slot->why, k->slot->explain, sizeof(k->slot->explain));
		k->slot->complete = true;
	} else if (k->o->search == SEARCH_EXHAUSTIVE) {
		search_all(k);
	} else {
		search_seeds(k);
	}
	_exit(0);
}

/* ---- in the parent ---- */

static int memory_file(void)
{
	return memfd_create("quire-schedules", MFD_CLOEXEC);
}

/* What the child said last, of how it died. */
static void explain_death(struct slot *slot, int status, int messages)
{
	char text[SCHEDULES_TEXT] = "";
	ssize_t n = messages >= 0 ? pread(messages, text, sizeof(text) - 1, 0) : 0;

	text[n > 0 ? n : 0] = 0;
	text[strcspn(text, "\n")] = 0;
	slot->failed = true;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(slot->why, sizeof(slot->why), "the run does not end (%u seconds)", RUN_SECONDS);
	else if (text[0])
		snprintf(slot->why, sizeof(slot->why), "%s", text);
	else
		snprintf(slot->why, sizeof(slot->why), "the run ended with signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

/* One schedule in a child. 0: it ran, slot says how; -errno: it could not. */
static int try_one(const struct schedules_options *o, struct shared *sh, const struct schedule_choice *list, uint32_t nr)
{
	struct worker k = { .o = o, .sh = sh, .slot = &sh->slot[0], .jobs = 1 };
	int messages = memory_file(), status;
	pid_t pid;

	memset(k.slot, 0, offsetof(struct slot, s));
	memset(&k.slot->s, 0, offsetof(struct schedule, taken));
	k.slot->s.strategy = SCHEDULE_LIST;
	pid = fork();
	if (!pid)
		child(&k, messages, list, nr, true);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && (WIFSIGNALED(status) || WEXITSTATUS(status)))
		explain_death(k.slot, status, messages);
	if (messages >= 0)
		close(messages);
	return pid < 0 ? -errno : k.slot->trouble ? -EINVAL : 0;
}

struct reducer {
	const struct schedules_options *o;
	struct shared *sh;
	struct schedules_result *ret;
	struct schedule_choice *part;
	uint32_t tries;
};

static bool stopped(const struct schedules_options *o)
{
	return o->stop && *o->stop;
}

/* Does the list without [from, from + n) still fail? Then it becomes the list. */
static bool leave_out(struct reducer *d, uint32_t from, uint32_t n)
{
	struct schedules_result *r = d->ret;
	uint32_t left = r->nr - n;

	if (d->tries++ >= REDUCE_TRIES || stopped(d->o))
		return false;
	memcpy(d->part, r->list, from * sizeof(r->list[0]));
	memcpy(d->part + from, r->list + from + n, (left - from) * sizeof(r->list[0]));
	if (try_one(d->o, d->sh, d->part, left) || !d->sh->slot[0].failed)
		return false;
	memcpy(r->list, d->part, left * sizeof(r->list[0]));
	r->nr = left;
	memcpy(r->why, d->sh->slot[0].why, sizeof(r->why));
	return true;
}

/* Blocks of choices are left out, large ones first, until none of one choice can be. */
static void reduce(struct reducer *d)
{
	struct schedules_result *r = d->ret;
	uint32_t n = r->nr;

	while (n) {
		bool any = false;

		n = MIN(n, r->nr);
		for (uint32_t from = 0; n && from < r->nr;) {
			uint32_t here = MIN(n, r->nr - from);

			if (leave_out(d, from, here))
				any = true;
			else
				from += here;
		}
		if (n == 1 && !any)
			break;
		n = n > 1 ? n / 2 : MIN(r->nr, 1U);
	}
	r->minimal = d->tries < REDUCE_TRIES && !stopped(d->o);
}

/* The failure in `slot`: its choices, reduced, and what everybody was doing. */
static int report(const struct schedules_options *o, struct shared *sh, const struct slot *slot, struct schedules_result *ret)
{
	struct reducer d = { .o = o, .sh = sh, .ret = ret, .part = malloc(sizeof(ret->list)) };

	ret->failed = true;
	ret->seed = slot->seed;
	ret->nr = ret->nr_before = slot->s.nr_taken;
	memcpy(ret->list, slot->s.taken, ret->nr * sizeof(ret->list[0]));
	memcpy(ret->why, slot->why, sizeof(ret->why));
	if (!d.part)
		return -ENOMEM;
	/* Does it fail again? Only then is there something to reduce. */
	if (!try_one(o, sh, ret->list, ret->nr) && sh->slot[0].failed) {
		reduce(&d);
		if (!try_one(o, sh, ret->list, ret->nr))
			memcpy(ret->explain, sh->slot[0].explain, sizeof(ret->explain));
	}
	free(d.part);
	return 0;
}

static uint64_t runs_of(struct shared *sh, uint32_t jobs)
{
	uint64_t n = 0;

	for (uint32_t j = 0; j < jobs; j++)
		n += __atomic_load_n(&sh->slot[j].runs, __ATOMIC_RELAXED);
	return n;
}

/* Wait for all children; the first that failed or was in trouble stops the others. Returns its slot, or NULL. */
static struct slot *wait_all(const struct schedules_options *o, struct shared *sh, const pid_t *pid, const int *messages, uint32_t jobs)
{
	struct slot *bad = NULL;
	uint32_t left = jobs;
	bool gone[MAX_JOBS] = { false };

	while (left) {
		for (uint32_t j = 0; j < jobs; j++) {
			int status;

			if (gone[j] || waitpid(pid[j], &status, WNOHANG) != pid[j])
				continue;
			gone[j] = true;
			left--;
			if (WIFSIGNALED(status) || WEXITSTATUS(status))
				explain_death(&sh->slot[j], status, messages[j]);
			if ((sh->slot[j].failed || sh->slot[j].trouble) && !bad) {
				bad = &sh->slot[j];
				__atomic_store_n(&sh->stop, true, __ATOMIC_RELAXED);
			}
		}
		if (stopped(o))
			__atomic_store_n(&sh->stop, true, __ATOMIC_RELAXED);
		if (o->progress && left)
			o->progress(o->arg, runs_of(sh, jobs), o->count);
		if (left)
			nanosleep(&(struct timespec){ .tv_nsec = POLL_NS }, NULL);
	}
	return bad;
}

static int start_all(const struct schedules_options *o, struct shared *sh, pid_t *pid, int *messages, uint32_t jobs)
{
	for (uint32_t j = 0; j < jobs; j++) {
		struct worker k = { .o = o, .sh = sh, .slot = &sh->slot[j], .job = j, .jobs = jobs };

		messages[j] = memory_file();
		pid[j] = fork();
		if (!pid[j])
			child(&k, messages[j], NULL, 0, false);
		if (pid[j] < 0) {
			int e = -errno;

			__atomic_store_n(&sh->stop, true, __ATOMIC_RELAXED);
			for (uint32_t i = 0; i <= j; i++) {
				if (i < j)
					waitpid(pid[i], NULL, 0);
				if (messages[i] >= 0)
					close(messages[i]);
			}
			return e;
		}
	}
	return 0;
}

int schedules_check(const struct schedules_options *o, struct schedules_result *ret, char *err, size_t errlen)
{
	uint32_t jobs = MIN(MAX(o->jobs, 1U), MAX_JOBS);
	uint64_t start = now_ns();
	pid_t pid[MAX_JOBS];
	int messages[MAX_JOBS], rc;
	size_t len;
	struct shared *sh = map_shared(jobs + 1, &len);
	struct slot *bad, *copy = sh ? &sh->slot[jobs] : NULL;

	memset(ret, 0, sizeof(*ret));
	if (!sh) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	fflush(NULL); /* or the children say it again */
	rc = start_all(o, sh, pid, messages, jobs);
	if (rc) {
		snprintf(err, errlen, "no child process: %s", strerror(-rc));
		munmap(sh, len);
		return rc;
	}
	bad = wait_all(o, sh, pid, messages, jobs);
	ret->wall_ns = now_ns() - start;
	ret->complete = true;
	for (uint32_t j = 0; j < jobs; j++) {
		ret->runs += sh->slot[j].runs;
		ret->points += sh->slot[j].points;
		ret->complete &= sh->slot[j].complete;
		if (messages[j] >= 0)
			close(messages[j]);
	}
	if (bad && bad->trouble) {
		snprintf(err, errlen, "%s", bad->why);
		rc = -EINVAL;
	} else if (bad) {
		memcpy(copy, bad, sizeof(*copy)); /* attempts use the first slot */
		rc = report(o, sh, copy, ret);
		if (rc)
			snprintf(err, errlen, "out of memory");
	}
	munmap(sh, len);
	return rc;
}

int schedules_replay(const struct schedules_options *o, const struct schedule_choice *list, uint32_t nr, struct schedules_result *ret,
		     char *err, size_t errlen)
{
	size_t len;
	struct shared *sh = map_shared(1, &len);
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (!sh) {
		snprintf(err, errlen, "out of memory");
		return -ENOMEM;
	}
	fflush(NULL);
	rc = try_one(o, sh, list, nr);
	if (rc) {
		snprintf(err, errlen, "%s", sh->slot[0].why[0] ? sh->slot[0].why : strerror(-rc));
	} else {
		ret->runs = 1;
		ret->points = sh->slot[0].s.points;
		ret->failed = sh->slot[0].failed;
		ret->nr = ret->nr_before = MIN(nr, SCHEDULE_MAX_CHOICES);
		if (ret->nr)
			memcpy(ret->list, list, ret->nr * sizeof(*list));
		memcpy(ret->why, sh->slot[0].why, sizeof(ret->why));
		memcpy(ret->explain, sh->slot[0].explain, sizeof(ret->explain));
	}
	munmap(sh, len);
	return rc;
}

int schedules_parse_list(const char *text, struct schedule_choice *ret, uint32_t max, uint32_t *ret_nr, char *err, size_t errlen)
{
	uint32_t nr = 0;

	for (const char *at = text; *at;) {
		unsigned cpu, point, to;
		int used = 0;

		if (sscanf(at, "%u@%u:%u%n", &cpu, &point, &to, &used) != 3 || !used || cpu >= SCHEDULE_MAX_CPUS ||
		    to >= SCHEDULE_MAX_CPUS || !point || (at[used] && at[used] != ',')) {
			snprintf(err, errlen, "%.40s: a schedule is CPU@POINT:CPU,..., CPUs below %d, points from 1", at, SCHEDULE_MAX_CPUS);
			return -EINVAL;
		}
		if (nr == max) {
			snprintf(err, errlen, "at most %u choices", max);
			return -EINVAL;
		}
		ret[nr++] = (struct schedule_choice){ .at = point, .cpu = (uint8_t)cpu, .to = (uint8_t)to };
		at += used;
		at += *at == ',';
	}
	*ret_nr = nr;
	return 0;
}
