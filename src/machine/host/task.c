/*
 * Threads on CPU slots; blocking, waking and the clock.
 *
 * A task is a thread that owns a slot for its life. Tasks given to task_start wait in hm->pending until host_run is at work and a
 * slot that their affinity allows is free. Slot 0 is the creator's, who waits in host_run meanwhile: tasks may have it, as the last choice.
 * A wake-up is a word: set by wake, taken by block. The word of a task lies in its thread's slot (host_cpu.wake), so a wake-up that
 * comes while the task has no slot, being new or a daemon that waits, is kept in task.wake_pending.
 * Locks: hm->lock guards slots, pending, live, *_daemons, task.cpu, task.state and task.wake_pending. It is never held while engine code runs.
 */
#define _GNU_SOURCE
#include "machine/host/host_int.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#define NS_PER_S 1000000000ULL
#define SLICE_NS 50000000ULL /* how often whoever sleeps looks whether it was told to stop */
#define STOPPED_NS 1000000ULL /* what is left of a wait after that */
#define HUNG_NS (120 * NS_PER_S) /* tasks wait, and only daemons' timers run: as long as Linux lets a task hang */

/* ---- time ---- */

static uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

#if defined(__x86_64__)
/*
 * A fault is timed twice, and the C library's clock costs a good part of what the rest of a small fault does. So the time is read
 * from the counter behind it, and from the clock again as soon as that is TSC_WINDOW_NS old: what the rate is wrong by has summed up
 * to some ns then. The rate is taken over the first TSC_RATE_NS at least; until then, and where the counter may stop, the clock tells.
 */
#define TSC_WINDOW_NS 100000ULL
#define TSC_RATE_NS 2000000ULL

void host_clock_setup(struct host_machine *hm)
{
	unsigned a, b, c, d;

	if (__get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1U << 8)))
		hm->tsc_start = __rdtsc();
	hm->clock_start = clock_ns();
}

/* From the clock; this CPU counts on from here. */
ATTR_NOINLINE static uint64_t now_anchored(struct host_cpu *h)
{
	struct host_machine *hm = h->hm;
	uint64_t tsc = __rdtsc(), now = clock_ns(), passed = now - hm->clock_start;

	if (hm->tsc_start && passed > TSC_RATE_NS && tsc > hm->tsc_start) {
		double rate = (double)passed / (double)(tsc - hm->tsc_start);

		h->clock_mult = (uint64_t)(rate * (double)(1ULL << 32));
		h->clock_window = (uint64_t)((double)TSC_WINDOW_NS / rate);
	}
	h->clock_tsc = tsc;
	h->clock_ns = now;
	return now;
}

uint64_t host_now_ns(struct cpu *c)
{
	struct host_cpu *h = host_cpu(c);
	uint64_t passed = __rdtsc() - h->clock_tsc;

	if (unlikely(passed >= h->clock_window))
		return now_anchored(h);
	return h->clock_ns + (passed * h->clock_mult >> 32);
}
#else
void host_clock_setup(struct host_machine *hm)
{
	(void)hm;
}

uint64_t host_now_ns(struct cpu *c)
{
	(void)c;
	return clock_ns();
}
#endif

struct cpu *host_resched(struct cpu *c)
{
	c->need_resched = false;
	return c;
}

static struct cpu *daemon_wait(struct cpu *c, uint64_t ns);

static bool stopped(const struct machine *m)
{
	return __atomic_load_n(&m->stop, __ATOMIC_RELAXED);
}

/* Daemons are not asked by Ctrl-C alone: they go on until all others have ended. */
static bool told(const struct machine *m, const struct task *t)
{
	return t && t->daemon ? __atomic_load_n(&m->daemons_stop, __ATOMIC_RELAXED) : stopped(m);
}

/*
 * Wait for a wake-up until `deadline` (UINT64_MAX: none), or until told to stop; then not at once: whoever waits for somebody inside the
 * engine, and waits again when that one is not done, shall not spin.
 */
static void await(struct host_cpu *h, uint64_t deadline)
{
	host_quiesce(h);
	while (!__atomic_exchange_n(&h->wake, 0, __ATOMIC_ACQUIRE)) {
		uint64_t now = deadline == UINT64_MAX ? 0 : clock_ns();

		if (deadline != UINT64_MAX && now >= deadline)
			break;
		if (told(h->c.m, h->c.current)) {
			host_futex_wait(&h->wake, 0, STOPPED_NS);
			__atomic_store_n(&h->wake, 0, __ATOMIC_RELAXED);
			break;
		}
		host_futex_wait(&h->wake, 0, deadline == UINT64_MAX ? SLICE_NS : MIN(SLICE_NS, deadline - now));
	}
}

void host_block(struct cpu *c)
{
	struct host_cpu *h = host_cpu(c);

	__atomic_add_fetch(&h->hm->blocked, 1, __ATOMIC_SEQ_CST);
	await(h, UINT64_MAX);
	__atomic_sub_fetch(&h->hm->blocked, 1, __ATOMIC_SEQ_CST);
}

struct cpu *host_wait(struct cpu *c, uint64_t ns)
{
	if (c->current && c->current->daemon)
		return daemon_wait(c, ns);
	if (ns == UINT64_MAX)
		host_block(c);
	else
		await(host_cpu(c), clock_ns() + ns);
	return c;
}

void host_sleep_ns(struct cpu *c, uint64_t ns)
{
	struct host_cpu *h = host_cpu(c);
	uint64_t now = clock_ns(), end = now + ns;
	uint32_t never = 0;

	host_quiesce(h);
	for (; now < end && !stopped(c->m); now = clock_ns())
		host_futex_wait(&never, 0, MIN(SLICE_NS, end - now));
}

static void wake_slot(struct host_cpu *h)
{
	__atomic_store_n(&h->wake, 1, __ATOMIC_RELEASE);
	host_futex_wake(&h->wake, 1);
}

void host_wake(struct cpu *c, struct task *t)
{
	struct host_machine *hm = host_of(c);

	__atomic_add_fetch(&hm->wakes, 1, __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&hm->lock);
	if (t->cpu && t->state == TASK_RUNNING) {
		wake_slot(host_cpu(t->cpu));
	} else {
		t->wake_pending = true;
		if (t->state == TASK_BLOCKED)
			pthread_cond_broadcast(&hm->called);
	}
	pthread_mutex_unlock(&hm->lock);
}

/* ---- slots ---- */

/* The thread that will own the slot may run only where it belongs. Best effort: a refusal costs speed only. */
static void place(const struct host_machine *hm, const struct host_cpu *h)
{
	cpu_set_t set;

	if (!hm->place || !hm->nr_real_cpus)
		return;
	CPU_ZERO(&set);
	CPU_SET((size_t)hm->real_cpus[h->c.id % hm->nr_real_cpus], &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

struct host_cpu *host_slot_take(struct host_machine *hm, const struct cpumask *allowed, bool zero)
{
	struct host_cpu *found = NULL;

	for (unsigned i = zero ? 0 : 1; i < hm->m.nr_cpus; i++) {
		struct host_cpu *h = hm->cpu[i];

		if (h->taken || (allowed && !cpumask_test(allowed, i)))
			continue;
		found = h;
		if (i)
			break;
	}
	if (!found)
		return NULL;
	found->taken = true;
	found->wake = 0;
	if (found->c.id >= __atomic_load_n(&hm->nr_used, __ATOMIC_RELAXED))
		__atomic_store_n(&hm->nr_used, found->c.id + 1, __ATOMIC_SEQ_CST);
	return found;
}

/*
 * Slots are ours, real CPUs are not: a daemon whose own are all taken, for as long as their tasks live, goes to another rather than do
 * nothing for them.
 */
static struct host_cpu *slot_for(struct host_machine *hm, const struct task *t)
{
	struct host_cpu *h = host_slot_take(hm, t->affinity, true);

	return h || !t->daemon ? h : host_slot_take(hm, NULL, true);
}

int host_attach(struct machine *m, struct cpu **ret)
{
	struct host_machine *hm = (struct host_machine *)(void *)m;
	struct host_cpu *h;

	pthread_mutex_lock(&hm->lock);
	h = host_slot_take(hm, NULL, false);
	pthread_mutex_unlock(&hm->lock);
	if (!h)
		return -EBUSY;
	h->self = (struct task){ .name = "attached", .state = TASK_RUNNING, .cpu = &h->c };
	h->c.current = &h->self;
	place(hm, h);
	*ret = &h->c;
	return 0;
}

void host_detach(struct cpu *c)
{
	struct host_cpu *h = host_cpu(c);

	ASSERT(h->taken && c->id);
	host_quiesce(h);
	pthread_mutex_lock(&h->hm->lock);
	c->current = NULL;
	h->taken = false;
	pthread_mutex_unlock(&h->hm->lock);
}

/* ---- tasks ---- */

static void start_pending(struct host_machine *hm);

static void context_switch(struct cpu *c, struct task *prev, struct task *next)
{
	c->current = next;
	if (c->m->hooks.context_switch)
		c->m->hooks.context_switch(c, prev, next);
}

/* Sleep on `cond` for at most ns. hm->lock held. */
static void cond_wait_ns(struct host_machine *hm, pthread_cond_t *cond, uint64_t ns)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += (time_t)(ns / NS_PER_S);
	ts.tv_nsec += (long)(ns % NS_PER_S);
	ts.tv_sec += ts.tv_nsec / (long)NS_PER_S;
	ts.tv_nsec %= (long)NS_PER_S;
	pthread_cond_timedwait(cond, &hm->lock, &ts);
}

/* A slot is free again. hm->lock held. */
static void slot_free(struct host_machine *hm, struct host_cpu *h)
{
	h->taken = false;
	start_pending(hm);
	pthread_cond_broadcast(&hm->changed);
	if (hm->live_daemons)
		pthread_cond_broadcast(&hm->called);
}

/* Until woken, told to end, or `deadline`; then until there is a slot. hm->lock held. */
static struct host_cpu *daemon_sleep(struct host_machine *hm, struct task *t, uint64_t deadline)
{
	struct host_cpu *h;
	uint64_t now;

	hm->idle_daemons++;
	hm->timed_daemons += deadline != UINT64_MAX;
	while (!t->wake_pending && !told(&hm->m, t) && (now = clock_ns()) < deadline)
		cond_wait_ns(hm, &hm->called, MIN(deadline - now, NS_PER_S));
	hm->timed_daemons -= deadline != UINT64_MAX;
	hm->idle_daemons--;
	while (!(h = slot_for(hm, t)))
		cond_wait_ns(hm, &hm->called, NS_PER_S);
	return h;
}

/* A daemon's wait: without a slot. */
static struct cpu *daemon_wait(struct cpu *c, uint64_t ns)
{
	struct host_cpu *h = host_cpu(c);
	struct host_machine *hm = h->hm;
	struct task *t = c->current;
	uint64_t now = clock_ns();

	if (__atomic_exchange_n(&h->wake, 0, __ATOMIC_ACQUIRE) || told(c->m, t))
		return c;
	context_switch(c, t, NULL);
	host_quiesce(h);
	pthread_mutex_lock(&hm->lock);
	t->state = TASK_BLOCKED;
	t->wake_pending = h->wake; /* come meanwhile */
	slot_free(hm, h);
	h = daemon_sleep(hm, t, ns < UINT64_MAX - now ? now + ns : UINT64_MAX);
	t->cpu = &h->c;
	t->state = TASK_RUNNING;
	t->wake_pending = false;
	pthread_mutex_unlock(&hm->lock);
	place(hm, h);
	context_switch(&h->c, NULL, t);
	return &h->c;
}

/* A daemon waits most of the time, so what counts is its thread's time on real CPUs; of other tasks it is the time they took. */
static uint64_t task_clock_ns(const struct task *t)
{
	struct timespec ts;

	if (!t->daemon)
		return clock_ns();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void *task_main(void *arg)
{
	struct task *t = arg;
	struct cpu *c = t->cpu;
	struct host_machine *hm = host_of(c);
	void (*on_exit_fn)(struct task *) = t->on_exit;
	bool daemon = t->daemon;
	uint64_t start = task_clock_ns(t);
	struct host_cpu *h;

	place(hm, host_cpu(c));
	context_switch(c, NULL, t);
	t->fn(c, t);
	c = t->cpu; /* a daemon may have got another */
	h = host_cpu(c);
	context_switch(c, t, NULL);
	host_quiesce(h);
	t->cpu_time_ps += (task_clock_ns(t) - start) * PS_PER_NS;
	pthread_mutex_lock(&hm->lock);
	t->state = TASK_DEAD;
	pthread_mutex_unlock(&hm->lock);
	if (on_exit_fn)
		on_exit_fn(t);
	pthread_mutex_lock(&hm->lock);
	hm->live--;
	hm->live_daemons -= daemon;
	slot_free(hm, h);
	pthread_mutex_unlock(&hm->lock);
	return NULL;
}

/* hm->lock held. The slot is the task's. 0 or -EAGAIN. */
static int start_thread(struct host_machine *hm, struct host_cpu *h, struct task *t)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	t->cpu = &h->c;
	t->state = TASK_RUNNING;
	h->wake = t->wake_pending;
	t->wake_pending = false;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, task_main, t);
	pthread_attr_destroy(&attr);
	if (rc) {
		t->state = TASK_DEAD;
		h->taken = false;
		return -EAGAIN;
	}
	hm->live++;
	hm->live_daemons += t->daemon;
	return 0;
}

static void start_pending(struct host_machine *hm)
{
	struct task *t, *next;

	if (!hm->running)
		return;
	list_for_each_entry_safe(t, next, &hm->pending, link) {
		struct host_cpu *h = told(&hm->m, t) ? NULL : slot_for(hm, t);

		if (!h)
			continue;
		list_del(&t->link);
		if (start_thread(hm, h, t))
			hm->thread_error = -EAGAIN;
	}
}

int host_task_start(struct cpu *c, struct task *t)
{
	struct host_machine *hm = host_of(c);

	if (!t->fn || (t->affinity && cpumask_next(t->affinity, 0, hm->m.nr_cpus) == hm->m.nr_cpus))
		return -EINVAL;
	pthread_mutex_lock(&hm->lock);
	t->state = TASK_RUNNABLE;
	t->cpu = NULL;
	t->cpu_time_ps = 0;
	t->wake_pending = false;
	t->seq = hm->next_seq++;
	list_add_tail(&t->link, &hm->pending);
	start_pending(hm);
	pthread_mutex_unlock(&hm->lock);
	return 0;
}

/* What is_stuck saw when it last looked. */
struct look {
	uint64_t wakes, since_ns; /* since when it has looked stuck but for daemons' timers; 0: it has not */
};

/*
 * All tasks that are left have blocked, daemons have nothing to do, and nothing has woken anybody since the last look. While a daemon
 * has a timer somebody may still be woken, so then it takes longer.
 */
static bool is_stuck(struct host_machine *hm, struct look *last)
{
	uint64_t wakes = __atomic_load_n(&hm->wakes, __ATOMIC_SEQ_CST), now = clock_ns();
	bool same = wakes == last->wakes, all = hm->live > hm->live_daemons;

	all = all && __atomic_load_n(&hm->blocked, __ATOMIC_SEQ_CST) + hm->idle_daemons == hm->live;
	last->wakes = wakes;
	for (unsigned i = 0; all && i < hm->m.nr_cpus; i++)
		all = !__atomic_load_n(&hm->cpu[i]->wake, __ATOMIC_RELAXED);
	if (!same || !all)
		last->since_ns = 0;
	else if (!last->since_ns)
		last->since_ns = now;
	return same && all && (!hm->timed_daemons || now - last->since_ns > HUNG_NS);
}

/* Are there tasks that are no daemons, with a thread or waiting for one? */
static bool tasks_left(const struct host_machine *hm)
{
	const struct task *t;

	if (hm->live > hm->live_daemons)
		return true;
	if (stopped(&hm->m) || hm->thread_error)
		return false;
	list_for_each_entry(t, &hm->pending, link)
		if (!t->daemon)
			return true;
	return false;
}

/* Once. hm->lock held. */
static void stop_daemons(struct host_machine *hm)
{
	if (hm->m.daemons_stop)
		return;
	__atomic_store_n(&hm->m.daemons_stop, true, __ATOMIC_SEQ_CST);
	pthread_cond_broadcast(&hm->called);
}

int host_run(struct machine *m, char *err, size_t errlen)
{
	struct host_machine *hm = (struct host_machine *)(void *)m;
	struct look last = { 0 };
	int rc;

	__atomic_store_n(&m->daemons_stop, false, __ATOMIC_RELAXED);
	rc = m->hooks.run_begin ? m->hooks.run_begin(m->cpus[0]) : 0;
	if (rc) {
		snprintf(err, errlen, "the kernel's daemons could not be started");
		list_init(&hm->pending);
		return rc;
	}
	pthread_mutex_lock(&hm->lock);
	host_quiesce(hm->cpu[0]);
	hm->cpu[0]->taken = false;
	hm->running = true;
	hm->thread_error = 0;
	start_pending(hm);
	for (;;) {
		if (!tasks_left(hm))
			stop_daemons(hm);
		if (!hm->live && !tasks_left(hm))
			break;
		cond_wait_ns(hm, &hm->changed, 2 * SLICE_NS);
		if (!rc && !stopped(m) && is_stuck(hm, &last)) {
			snprintf(err, errlen, "all %u tasks that are left have blocked and nobody is left to wake them",
				 hm->live - hm->live_daemons);
			rc = -EDEADLK;
			__atomic_store_n(&m->stop, true, __ATOMIC_RELAXED);
		}
	}
	hm->running = false;
	hm->cpu[0]->taken = true;
	if (!rc && hm->thread_error) {
		rc = hm->thread_error;
		snprintf(err, errlen, "the system refused a thread: too many, or a limit (ulimit -u)");
	} else if (!rc && stopped(m)) {
		rc = -EINTR;
		snprintf(err, errlen, "stopped");
	}
	/* Tasks that never got a thread are forgotten: they stay their owners'. */
	list_init(&hm->pending);
	pthread_mutex_unlock(&hm->lock);
	return rc;
}
