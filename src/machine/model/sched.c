/*
 * Virtual time: which CPU goes on next, and how far (design rule 6).
 *
 * The design speaks of fibers, one a virtual CPU. Here a fiber belongs to a task, because a task that sleeps inside the engine keeps
 * its stack; a CPU lends its clock to the fiber of its current task. The meaning is the same: among the CPUs that have something
 * to run, the one furthest behind in virtual time goes on.
 *
 * Order of events. Total, and independent of the host: by (time, class, sequence).
 *   class 0   a timer; sequence: the order in which timers were set
 *   class 1   a CPU with something to run; sequence: its id
 * Interrupts are no events of their own: the CPU that is interrupted takes them, in the order (delivery, sender), see ipi.c.
 *
 * Words
 *   running   the CPU whose task's fiber executes. It is not in the heap: its clock moves.
 *   ready     has something to run: in the heap, under the clock at which it stopped
 *   parked    spins on a lock or waits for acknowledgements: not in the heap; whoever it waits for puts it back (unpark)
 *   idle      nothing to run: not in the heap; its clock stands where it went idle and is moved up by the next wake-up
 *
 * Invariants
 *  S1 When the main loop lets a CPU run, no ready CPU and no timer is before it.
 *  S2 Between synchronisation points the running CPU is at most a quantum ahead of the next event (run_until_ps). At one
 *     (sched_sync) no other event is before it, exactly, except what it has itself caused at that very time: several
 *     actions at one time (wake this, wake that) are not torn apart.
 *  S3 Nothing an event does lies before its own time: clocks that it moves up become at least its time.
 *  S4 A CPU's clock moves only by charges while it runs, or through sched_idle_until, unparking and interrupts when it does not.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/fiber.h"
#include "machine/model/schedule_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool sched_on_fiber(const struct cpu *c)
{
	const struct sched_shared *s = &model_of(c)->sched;

	/* Another CPU's fiber is running: somebody uses a CPU that is not his (kept it across machine_resched). */
	ASSERT(!s->running || s->running == c);
	return s->running == c;
}

void sched_ready(struct cpu *c)
{
	struct sched_shared *s = &model_of(c)->sched;
	uint32_t *pos = &model_cpu(c)->sched.pos;

	ASSERT(*pos == EVENT_ABSENT && s->running != c);
	event_heap_insert(&s->cpus, (struct event){ .time_ps = c->now_ps, .seq = c->id, .pos = pos });
}

void sched_ready_again(struct cpu *c)
{
	struct sched_shared *s = &model_of(c)->sched;
	uint32_t *pos = &model_cpu(c)->sched.pos;
	struct event e = s->cpus.e[*pos];

	if (e.time_ps >= c->now_ps)
		return; /* unparked for later */
	event_heap_remove(&s->cpus, *pos);
	e.time_ps = c->now_ps;
	event_heap_insert(&s->cpus, e);
	sched_horizon(model_of(c));
}

void sched_timer_add(struct sched_task *st, uint64_t ps)
{
	struct sched_shared *s = &st->md->sched;

	ASSERT(st->timer_pos == EVENT_ABSENT);
	event_heap_insert(&s->timers,
			  (struct event){ .time_ps = ps, .seq = s->timer_seq++, .pos = &st->timer_pos });
	s->nr_task_timers += !st->t->daemon;
}

void sched_timer_del(struct sched_task *st)
{
	if (st->timer_pos == EVENT_ABSENT)
		return;
	event_heap_remove(&st->md->sched.timers, st->timer_pos);
	st->md->sched.nr_task_timers -= !st->t->daemon;
}

static uint64_t next_event_ps(const struct sched_shared *s)
{
	uint64_t ps = SCHED_NEVER;

	if (s->cpus.nr)
		ps = s->cpus.e[0].time_ps;
	if (s->timers.nr && s->timers.e[0].time_ps < ps)
		ps = s->timers.e[0].time_ps;
	return ps;
}

/* Is an event before c, which runs? */
static bool behind_others(const struct sched_shared *s, const struct cpu *c)
{
	if (s->timers.nr && s->timers.e[0].time_ps <= c->now_ps)
		return true;
	return s->cpus.nr && event_before(&s->cpus.e[0], &(struct event){ .time_ps = c->now_ps, .seq = c->id });
}

void sched_horizon(struct model *md)
{
	struct sched_shared *s = &md->sched;
	struct cpu *c = s->running;
	const struct sched_cpu *sc;
	uint64_t until, irq;

	if (!c || s->schedule)
		return;
	sc = &model_cpu(c)->sched;
	until = next_event_ps(s);
	if (until != SCHED_NEVER)
		until += s->quantum_ps;
	/* catch_up acts when the clock is beyond run_until, at these two already when it is there */
	if (sc->nr_queued && !c->need_resched && sc->slice_end_ps - 1 < until)
		until = sc->slice_end_ps - 1;
	irq = ipi_next_ps(c);
	if (irq != SCHED_NEVER && irq <= until)
		until = irq ? irq - 1 : 0;
	c->run_until_ps = until;
}

/* To the main loop. It comes back with c (or, after a user boundary, its task's new CPU) running. */
static void to_main_loop(struct cpu *c)
{
	struct sched_task *st = sched_task(c->current);

	st->leave = LEAVE_PAUSE;
	fiber_yield(st->fiber, 0);
}

void sched_pause(struct cpu *c)
{
	struct sched_shared *s = &model_of(c)->sched;

	s->running = NULL;
	sched_ready(c);
	to_main_loop(c);
}

void sched_catch_up(struct cpu *c)
{
	struct model *md = model_of(c);
	struct sched_cpu *sc = &model_cpu(c)->sched;

	if (md->sched.running != c || sc->no_yield || md->sched.schedule)
		return;
	for (;;) {
		ipi_take(c, c->now_ps);
		if (sc->nr_queued && c->now_ps >= sc->slice_end_ps)
			c->need_resched = true;
		sched_horizon(md);
		if (c->now_ps <= c->run_until_ps)
			return;
		sched_pause(c);
	}
}

void sched_sync(struct cpu *c)
{
	struct sched_shared *s = &model_of(c)->sched;
	struct sched_cpu *sc = &model_cpu(c)->sched;

	if (!sched_on_fiber(c))
		return;
	ASSERT(!sc->no_yield);
	if (unlikely(s->schedule != NULL)) {
		schedule_point(c, POINT_SYNC);
		return;
	}
	while (sc->synced_ps != c->now_ps) {
		if (ipi_next_ps(c) <= c->now_ps)
			ipi_take(c, c->now_ps);
		if (!behind_others(s, c))
			sc->synced_ps = c->now_ps;
		else
			sched_pause(c);
	}
}

void model_sync(struct cpu *c)
{
	sched_sync(c);
}

void sched_park(struct cpu *c, enum sched_park why)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	enum machine_path path = why == PARK_SPIN ? PATH_LOCK_WAIT : PATH_IPI;

	sc->park = why;
	if (!sc->unparked) {
		/* Interrupts on their way are taken now, as those will be that are sent later (ipi.c). */
		ipi_take(c, SCHED_NEVER);
		model_of(c)->sched.running = NULL;
		to_main_loop(c);
	}
	ASSERT(sc->unparked);
	sc->park = PARK_NONE;
	sc->unparked = false;
	if (sc->unpark_ps > c->now_ps)
		core_charge(c, sc->unpark_ps - c->now_ps, path);
	sched_horizon(model_of(c));
}

void sched_unpark(struct cpu *c, uint64_t ps)
{
	struct sched_shared *s = &model_of(c)->sched;
	struct sched_cpu *sc = &model_cpu(c)->sched;

	sc->unparked = true;
	sc->unpark_ps = ps;
	if (sc->park == PARK_NONE)
		return; /* not parked yet: it will see */
	event_heap_insert(&s->cpus,
			  (struct event){ .time_ps = MAX(c->now_ps, ps), .seq = c->id, .pos = &sc->pos });
	sched_horizon(model_of(c));
}

void sched_idle_until(struct cpu *c, uint64_t ps)
{
	if (ps > c->now_ps) {
		model_cpu(c)->sched.idle_ps += ps - c->now_ps;
		c->now_ps = ps;
	}
}

/* m->stop is set from a signal handler or another thread. */
bool sched_stop_seen(struct model *md)
{
	return __atomic_load_n(&md->m.stop, __ATOMIC_RELAXED);
}

/* The first time that stop is seen: wake all that sleep, so that they can end. Who sleeps again is abandoned. */
static void stop_sleepers(struct model *md)
{
	struct sched_shared *s = &md->sched;

	s->stopping = true;
	while (s->timers.nr) {
		struct sched_task *st = container_of(s->timers.e[0].pos, struct sched_task, timer_pos);

		sched_task_wake(st, MIN(s->timers.e[0].time_ps, s->event.time_ps));
	}
}

/* Only daemons are left: whoever waits is woken to see it, whoever doesn't will not wait any more. Sleeps end by themselves. */
static void stop_daemons(struct model *md)
{
	struct sched_shared *s = &md->sched;
	struct sched_task *st;

	s->daemons_told = true;
	__atomic_store_n(&md->m.daemons_stop, true, __ATOMIC_RELAXED);
	list_for_each_entry(st, &s->tasks, all) {
		if (st->t->state == TASK_BLOCKED && !st->rw_lock)
			sched_task_wake(st, MAX(s->event.time_ps, s->last_task_ps));
		else
			st->t->wake_pending = true;
	}
}

/* Daemons look again and again, but what the others wait for has not come for so long that it never will. */
static bool is_hung(const struct sched_shared *s)
{
	return !s->cpus.nr && !s->nr_task_timers && s->nr_tasks > s->nr_daemons &&
	       s->timers.e[0].time_ps > s->last_task_ps + SCHED_HUNG_PS;
}

static void run_cpu(struct model *md, struct cpu *c)
{
	struct sched_shared *s = &md->sched;
	struct sched_task *st;

	if (!c->current) {
		sched_task_pick(c);
		if (!c->current)
			return; /* what it was woken for has been taken by another CPU */
	}
	st = sched_task(c->current);
	s->running = c;
	model_cpu(c)->sched.synced_ps = SCHED_NEVER;
	s->resumes++;
	sched_horizon(md);
	if (unlikely(s->schedule != NULL))
		ipi_take(c, SCHED_NEVER);
	fiber_switch(st->fiber);
	s->running = NULL;
	c->run_until_ps = SCHED_NEVER;
	if (!st->t->daemon)
		s->last_task_ps = MAX(s->last_task_ps, c->now_ps);
	if (st->leave != LEAVE_PAUSE)
		sched_task_left(c, st);
}

/* One event. false: there is none. */
static bool step(struct model *md)
{
	struct sched_shared *s = &md->sched;
	uint32_t next;

	if (unlikely(!s->stopping && sched_stop_seen(md)))
		stop_sleepers(md);
	if (unlikely(s->nr_tasks == s->nr_daemons && !s->daemons_told))
		stop_daemons(md);
	if (s->timers.nr && is_hung(s))
		return false;
	if (s->timers.nr && (!s->cpus.nr || s->timers.e[0].time_ps <= s->cpus.e[0].time_ps)) {
		s->event = s->timers.e[0];
		if (s->stopping)
			sched_timer_del(container_of(s->event.pos, struct sched_task, timer_pos));
		else
			sched_task_wake(container_of(s->event.pos, struct sched_task, timer_pos), s->event.time_ps);
		return true;
	}
	if (!s->cpus.nr || (s->schedule && s->schedule->stop))
		return false;
	next = s->schedule ? schedule_pick(md) : 0;
	s->event = s->cpus.e[next];
	event_heap_remove(&s->cpus, next);
	run_cpu(md, md->m.cpus[s->event.seq]);
	return true;
}

/* "deadlock: NAME waits for mmap_lock (write), NAME waits for a wake-up" */
static void explain_deadlock(struct model *md, char *err, size_t errlen)
{
	struct sched_task *st;
	size_t at = 0;

	if (!errlen)
		return;
	list_for_each_entry(st, &md->sched.tasks, all) {
		const char *what = "a wake-up", *how = "";
		const struct cpu *c = st->t->cpu;
		int n;

		if (st->t->daemon && st->boundary && c->current != st->t)
			continue; /* has nothing to do */
		if (st->rw_lock) {
			what = sched_rank_name(st->rw_lock->rank);
			how = st->rw_write ? " (write)" : " (read)";
		} else if (c->current == st->t && model_cpu(st->t->cpu)->sched.park == PARK_SPIN) {
			what = sched_rank_name(model_cpu(st->t->cpu)->sched.spin_lock->rank);
			how = " (spinning)";
		} else if (c->current == st->t) {
			what = "acknowledgements";
		}
		n = snprintf(err + at, errlen - at, "%s%s waits for %s%s", at ? ", " : "deadlock: ",
			     st->t->name ? st->t->name : "a task", what, how);
		if (n < 0 || (size_t)n >= errlen - at)
			return;
		at += (size_t)n;
	}
}

int model_run(struct machine *m, char *err, size_t errlen)
{
	struct model *md = container_of(m, struct model, m);
	struct sched_shared *s = &md->sched;
	int r = 0;

	ASSERT(!s->in_run);
	s->daemons_told = false;
	m->daemons_stop = false;
	r = m->hooks.run_begin ? m->hooks.run_begin(m->cpus[0]) : 0;
	if (r) {
		if (errlen)
			snprintf(err, errlen, "the kernel's daemons could not be started");
		sched_tasks_abandon(md);
		return r;
	}
	s->in_run = true;
	s->stopping = false;
	while (s->nr_tasks && step(md))
		ASSERT_EXPENSIVE(!sched_validate(md));
	ASSERT_DEBUG(!sched_validate(md));
	if (s->stopping || sched_stop_seen(md)) {
		r = -EINTR;
		if (errlen)
			snprintf(err, errlen, "stopped");
	} else if (s->schedule && s->schedule->stop) {
		r = -ECANCELED;
		if (errlen)
			snprintf(err, errlen, "ended by the schedule");
	} else if (s->nr_tasks) {
		r = -EDEADLK;
		explain_deadlock(md, err, errlen);
	}
	sched_tasks_abandon(md);
	m->daemons_stop = true; /* also after a run that ended early */
	s->in_run = false;
	return r;
}

struct cpu *model_boot_cpu(struct machine *m)
{
	struct model *md = container_of(m, struct model, m);

	ASSERT(!md->sched.running);
	/* Whoever acts after a run comes after all that tasks did. */
	for (unsigned i = 1; i < m->nr_cpus && !md->sched.in_run; i++)
		sched_idle_until(m->cpus[0], m->cpus[i]->now_ps);
	return m->cpus[0];
}

int sched_init(struct model *md, char *err, size_t errlen)
{
	struct sched_shared *s = &md->sched;

	s->quantum_ps = md->opt.quantum_ps ? md->opt.quantum_ps : SCHED_QUANTUM_PS;
	list_init(&s->tasks);
	list_init(&s->spinners);
	list_init(&s->rw_waiters);
	for (unsigned i = 0; i < md->m.nr_cpus; i++) {
		struct cpu *c = md->m.cpus[i];
		struct sched_cpu *sc = &model_cpu(c)->sched;

		c->run_until_ps = SCHED_NEVER;
		sc->pos = EVENT_ABSENT;
		sc->idle = true;
		list_init(&sc->runq);
		list_init(&sc->spin_link);
		list_init(&sc->irqs);
		cpumask_set(&s->idle, i);
	}
	s->nr_idle = md->m.nr_cpus;
	s->pool = fiber_pool_create();
	s->cpus.e = calloc(md->m.nr_cpus, sizeof(*s->cpus.e));
	if (!s->pool || !s->cpus.e || ipi_init(md) || (md->opt.scheduled && schedule_init(md))) {
		if (errlen)
			snprintf(err, errlen, "out of memory for the scheduler of %u CPUs", md->m.nr_cpus);
		sched_done(md);
		return -ENOMEM;
	}
	return 0;
}

void sched_done(struct model *md)
{
	struct sched_shared *s = &md->sched;

	if (s->pool)
		sched_tasks_abandon(md);
	ipi_done(md);
	schedule_done(md);
	fiber_pool_destroy(s->pool);
	free(s->cpus.e);
	free(s->timers.e);
	s->pool = NULL;
	s->cpus.e = NULL;
	s->timers.e = NULL;
}
