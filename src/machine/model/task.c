/*
 * Tasks on virtual CPUs (design rule 7): run queues, time slices, placement, stealing, blocking, sleeping.
 *
 *   NEW -> RUNNABLE <-> RUNNING -> DEAD        RUNNING -> BLOCKED or SLEEPING -> RUNNABLE
 *
 * Rules
 *  K1 A task changes CPU only at a user boundary: before its first instruction, in machine_resched and in machine_wait. One that
 *     blocked or slept inside the engine (st->boundary clear) goes on on the CPU it left, ahead of what is queued there.
 *  K2 Queues are first in, first out. A slice ends only when somebody is queued; what is woken inside the engine ends the
 *     current task's slice at its next user boundary, as it may hold what others wait for.
 *  K3 A wake-up at a boundary goes to the CPU last run on when that is idle, else to an idle CPU of its node (one with an idle core
 *     first), else to an idle CPU of another node, nearest first, else to the shortest queue of its node.
 *  K4 A new task stays in its starter's node while at most a quarter of that node's CPUs are busy (Linux's allowed imbalance), then
 *     goes to the node with most idle CPUs.
 *  K5 A CPU that runs dry takes the oldest movable task of the longest queue: its own node first, then by distance.
 *  K7 Daemons are tasks like others, but the run ends without them: when no others are left they are told so (sched.c).
 *  K6 Wake-ups are not lost: one that finds its task not blocked is kept for the next block. machine sleep is not cut short.
 *  Ties go to the lower number; no address of the host takes part in any choice.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/fiber.h"

#include <errno.h>
#include <stdlib.h>

static bool allowed(const struct task *t, unsigned cpu)
{
	return !t->affinity || cpumask_test(t->affinity, cpu);
}

static bool is_idle(const struct cpu *c)
{
	return model_of(c)->sched.nr_idle && cpumask_test(&model_of(c)->sched.idle, c->id);
}

static unsigned load_of(struct cpu *c)
{
	return model_cpu(c)->sched.nr_queued + (c->current != NULL);
}

/* ---- placement ---- */

/* Hardware threads of a core are `cores_per_socket` ids apart (core_int.h). */
static bool core_is_idle(const struct model *md, unsigned cpu)
{
	unsigned cores = md->desc.cores_per_socket, per_socket = cores * md->desc.threads_per_core;
	unsigned first = cpu / per_socket * per_socket + cpu % per_socket % cores;

	for (unsigned i = first; i < first + per_socket - cpu % per_socket % cores; i += cores)
		if (!cpumask_test(&md->sched.idle, i))
			return false;
	return true;
}

/* An idle CPU of node n that t may use, on an idle core if there is one; nr_cpus: none. */
static unsigned idle_in_node(struct model *md, const struct task *t, unsigned n)
{
	const struct machine_node *node = &md->m.nodes[n];
	unsigned end = node->first_cpu + node->nr_cpus, second = md->m.nr_cpus;

	for (unsigned i = cpumask_next(&md->sched.idle, node->first_cpu, end); i < end;
	     i = cpumask_next(&md->sched.idle, i + 1, end)) {
		if (!allowed(t, i))
			continue;
		if (core_is_idle(md, i))
			return i;
		if (second == md->m.nr_cpus)
			second = i;
	}
	return second;
}

/* The k-th nearest node, k from 0, ties by number: the one after `prev` in that order (prev negative: the first); -1: no more. */
static int next_nearest(const struct machine *m, int from, int prev)
{
	int best = -1;

	for (int n = 0; n < (int)m->nr_nodes; n++) {
		unsigned d = m->distance[from][n];

		if (prev >= 0 && (d < m->distance[from][prev] || (d == m->distance[from][prev] && n <= prev)))
			continue;
		if (best < 0 || d < m->distance[from][best])
			best = n;
	}
	return best;
}

static unsigned idle_anywhere(struct model *md, const struct task *t, int from)
{
	if (!md->sched.nr_idle)
		return md->m.nr_cpus;
	for (int n = next_nearest(&md->m, from, -1); n >= 0; n = next_nearest(&md->m, from, n)) {
		unsigned i = idle_in_node(md, t, (unsigned)n);

		if (i < md->m.nr_cpus)
			return i;
	}
	return md->m.nr_cpus;
}

/* The shortest queue in [first, end) that t may use, `prefer` among equals. */
static unsigned shortest_queue(struct model *md, const struct task *t, unsigned first, unsigned end, unsigned prefer)
{
	unsigned best = md->m.nr_cpus;

	for (unsigned i = first; i < end; i++) {
		if (!allowed(t, i))
			continue;
		if (best == md->m.nr_cpus || load_of(md->m.cpus[i]) < load_of(md->m.cpus[best]) ||
		    (i == prefer && load_of(md->m.cpus[i]) == load_of(md->m.cpus[best])))
			best = i;
	}
	return best;
}

static struct cpu *place_woken(struct model *md, const struct task *t)
{
	const struct machine_node *node = &md->m.nodes[t->cpu->nid];
	unsigned i;

	if (allowed(t, t->cpu->id) && is_idle(t->cpu))
		return t->cpu;
	i = idle_anywhere(md, t, t->cpu->nid);
	if (i == md->m.nr_cpus)
		i = shortest_queue(md, t, node->first_cpu, node->first_cpu + node->nr_cpus, t->cpu->id);
	if (i == md->m.nr_cpus)
		i = shortest_queue(md, t, 0, md->m.nr_cpus, t->cpu->id);
	return md->m.cpus[i];
}

static unsigned idle_count(const struct model *md, unsigned n)
{
	const struct machine_node *node = &md->m.nodes[n];
	unsigned nr = 0;

	for (unsigned i = node->first_cpu; i < node->first_cpu + node->nr_cpus; i++)
		nr += cpumask_test(&md->sched.idle, i);
	return nr;
}

static struct cpu *place_new(struct model *md, const struct task *t, struct cpu *starter)
{
	const struct machine_node *home = &md->m.nodes[starter->nid];
	unsigned idle = idle_count(md, (unsigned)starter->nid), best = (unsigned)starter->nid, i;

	/* The starter itself is busy, or will be: it is counted. */
	if ((home->nr_cpus - idle) * 4 > home->nr_cpus) {
		for (int n = next_nearest(&md->m, starter->nid, -1); n >= 0; n = next_nearest(&md->m, starter->nid, n)) {
			unsigned nr = idle_count(md, (unsigned)n);

			if (nr > idle) {
				best = (unsigned)n;
				idle = nr;
			}
		}
	}
	i = idle_in_node(md, t, best);
	if (i == md->m.nr_cpus)
		i = idle_anywhere(md, t, starter->nid);
	if (i == md->m.nr_cpus)
		i = shortest_queue(md, t, 0, md->m.nr_cpus, md->m.nr_cpus);
	return md->m.cpus[i];
}

/* ---- queues ---- */

/* t becomes runnable on c at `ps`. */
static void enqueue(struct cpu *c, struct sched_task *st, uint64_t ps, bool first)
{
	struct model *md = model_of(c);
	struct sched_cpu *sc = &model_cpu(c)->sched;
	struct task *t = st->t;

	st->moved = t->cpu && t->cpu != c;
	t->cpu = c;
	t->state = TASK_RUNNABLE;
	t->wake_time_ps = ps;
	if (first)
		list_add(&t->link, &sc->runq);
	else
		list_add_tail(&t->link, &sc->runq);
	sc->nr_queued++;
	md->sched.nr_queued++;
	if (sc->idle) {
		sched_idle_until(c, ps);
		sc->idle = false;
		cpumask_clear(&md->sched.idle, c->id);
		md->sched.nr_idle--;
		sched_ready(c);
	} else if (first && c->current) {
		c->need_resched = true;
	}
	sched_horizon(md);
}

static void dequeue(struct sched_task *st)
{
	struct cpu *c = st->t->cpu;

	list_del(&st->t->link);
	model_cpu(c)->sched.nr_queued--;
	model_of(c)->sched.nr_queued--;
}

/* The oldest task that may leave c's queue for `to`. */
static struct sched_task *movable(struct cpu *c, const struct cpu *to)
{
	struct task *t;

	list_for_each_entry(t, &model_cpu(c)->sched.runq, link)
		if (sched_task(t)->boundary && allowed(t, to->id))
			return sched_task(t);
	return NULL;
}

static struct sched_task *steal_from_node(struct cpu *to, unsigned n)
{
	struct model *md = model_of(to);
	const struct machine_node *node = &md->m.nodes[n];
	struct sched_task *best = NULL;
	unsigned best_load = 1; /* one alone on its queue with no current task is about to run there */

	for (unsigned i = node->first_cpu; i < node->first_cpu + node->nr_cpus; i++) {
		struct cpu *c = md->m.cpus[i];
		struct sched_task *st;

		if (c == to || !model_cpu(c)->sched.nr_queued || load_of(c) <= best_load)
			continue;
		st = movable(c, to);
		if (!st)
			continue;
		best = st;
		best_load = load_of(c);
	}
	return best;
}

static struct sched_task *steal(struct cpu *to)
{
	const struct machine *m = to->m;

	if (!model_of(to)->sched.nr_queued)
		return NULL;
	for (int n = next_nearest(m, to->nid, -1); n >= 0; n = next_nearest(m, to->nid, n)) {
		struct sched_task *st = steal_from_node(to, (unsigned)n);

		if (st)
			return st;
	}
	return NULL;
}

/* ---- on and off a CPU ---- */

static void go_idle(struct cpu *c)
{
	struct model *md = model_of(c);
	struct sched_cpu *sc = &model_cpu(c)->sched;

	if (sc->last && md->m.hooks.context_switch) {
		sc->no_yield = true;
		md->m.hooks.context_switch(c, sc->last, NULL);
		sc->no_yield = false;
	}
	sc->last = NULL;
	sc->idle = true;
	cpumask_set(&md->sched.idle, c->id);
	md->sched.nr_idle++;
	ipi_take(c, SCHED_NEVER);
}

static void put_on(struct cpu *c, struct sched_task *st)
{
	struct model *md = model_of(c);
	struct sched_cpu *sc = &model_cpu(c)->sched;
	struct task *t = st->t;

	sched_idle_until(c, t->wake_time_ps);
	c->current = t;
	t->state = TASK_RUNNING;
	c->need_resched = false;
	sc->context_switches++;
	sc->migrations += st->moved;
	sc->no_yield = true;
	core_drain(c);
	core_charge(c, md->desc.cost.context_switch_ps, PATH_SCHED);
	if (md->m.hooks.context_switch)
		md->m.hooks.context_switch(c, sc->last, t);
	(void)core_work(c, st->path, 0);
	sc->no_yield = false;
	sc->last = t;
	c->fault_start_ps = st->fault_start_ps;
	sc->on_since_ps = c->now_ps;
	sc->slice_end_ps = c->now_ps + MAX(md->desc.timeslice_ps, 1);
}

void sched_task_pick(struct cpu *c)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	struct sched_task *st;

	ASSERT(!c->current);
	if (!list_empty(&sc->runq)) {
		st = sched_task(list_first_entry(&sc->runq, struct task, link));
		dequeue(st);
	} else {
		st = steal(c);
		if (!st) {
			go_idle(c);
			return;
		}
		dequeue(st);
		st->moved = true;
		st->t->cpu = c;
		sc->steals++;
	}
	put_on(c, st);
}

static void take_off(struct cpu *c, struct sched_task *st)
{
	st->t->cpu_time_ps += c->now_ps - model_cpu(c)->sched.on_since_ps;
	st->path = core_work(c, PATH_SCHED, 0);
	st->fault_start_ps = c->fault_start_ps;
	c->current = NULL;
	c->need_resched = false;
	ASSERT(!c->lock_depth); /* no spinlock may be held over a sleep */
}

static void forget(struct sched_task *st)
{
	struct sched_shared *s = &st->md->sched;

	sched_timer_del(st);
	list_del(&st->all);
	list_del(&st->rw_link);
	s->nr_tasks--;
	s->nr_daemons -= st->t->daemon;
	fiber_free(st->fiber);
	st->t->priv = NULL;
	st->t->state = TASK_DEAD;
	free(st);
}

void sched_task_left(struct cpu *c, struct sched_task *st)
{
	struct task *t = st->t;
	enum sched_leave leave = st->leave;

	take_off(c, st);
	if (leave == LEAVE_RESCHED) {
		/* Whoever is queued here goes first; an idle CPU is better than waiting. */
		unsigned i = allowed(t, c->id) ? idle_anywhere(st->md, t, c->nid) : st->md->m.nr_cpus;
		struct cpu *to = c;

		if (i < st->md->m.nr_cpus)
			to = st->md->m.cpus[i];
		else if (!allowed(t, c->id))
			to = place_woken(st->md, t);
		enqueue(to, st, c->now_ps, false);
	}
	sched_task_pick(c);
	if (c->current)
		sched_ready(c);
	if (leave == LEAVE_EXIT) {
		/* The hook has seen it go; nobody knows it any more. */
		forget(st);
		if (t->on_exit)
			t->on_exit(t);
	}
}

/* ---- what tasks do ---- */

static void task_main(void *arg)
{
	struct sched_task *st = arg;
	struct task *t = st->t;

	t->fn(t->cpu, t);
	ASSERT(!st->held.nr);
	sched_sync(t->cpu);
	st->leave = LEAVE_EXIT;
	fiber_yield(st->fiber, 1);
}

/* Off the CPU. Returns where the task goes on. */
static struct cpu *leave_cpu(struct cpu *c, enum sched_leave how, enum task_state state, bool boundary)
{
	struct task *t = c->current;
	struct sched_task *st = sched_task(t);

	st->boundary = boundary;
	st->leave = how;
	t->state = state;
	fiber_yield(st->fiber, 0);
	return t->cpu;
}

void sched_task_wake(struct sched_task *st, uint64_t ps)
{
	struct task *t = st->t;

	sched_timer_del(st);
	if (st->boundary)
		enqueue(place_woken(st->md, t), st, ps, false);
	else
		enqueue(t->cpu, st, ps, true);
}

void sched_task_block(struct cpu *c)
{
	(void)leave_cpu(c, LEAVE_BLOCK, TASK_BLOCKED, false);
}

void sched_op_block(struct cpu *c)
{
	ASSERT(sched_on_fiber(c));
	sched_sync(c);
	if (c->current->wake_pending)
		c->current->wake_pending = false;
	else
		sched_task_block(c);
}

struct cpu *sched_op_wait(struct cpu *c, uint64_t ns)
{
	struct task *t = c->current;

	ASSERT(sched_on_fiber(c));
	sched_sync(c);
	if (t->wake_pending) {
		t->wake_pending = false;
		return c;
	}
	if (ns <= (SCHED_NEVER - c->now_ps) / PS_PER_NS) {
		t->wake_time_ps = c->now_ps + ns * PS_PER_NS;
		sched_timer_add(sched_task(t), t->wake_time_ps);
	}
	return leave_cpu(c, LEAVE_BLOCK, TASK_BLOCKED, true);
}

void sched_op_wake(struct cpu *c, struct task *t)
{
	sched_sync(c);
	if (t->state == TASK_DEAD)
		return;
	if (t->state == TASK_BLOCKED && !sched_task(t)->rw_lock)
		sched_task_wake(sched_task(t), c->now_ps);
	else
		t->wake_pending = true;
}

void sched_op_sleep_ns(struct cpu *c, uint64_t ns)
{
	uint64_t room = (SCHED_NEVER - 1 - c->now_ps) / PS_PER_NS;
	uint64_t until = c->now_ps + MIN(ns, room) * PS_PER_NS;

	if (!sched_on_fiber(c)) {
		core_drain(c);
		sched_idle_until(c, until);
		return;
	}
	c->current->wake_time_ps = until;
	sched_timer_add(sched_task(c->current), until);
	(void)leave_cpu(c, LEAVE_BLOCK, TASK_SLEEPING, false);
}

struct cpu *sched_op_resched(struct cpu *c)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;

	if (!sched_on_fiber(c))
		return c;
	sched_sync(c);
	c->need_resched = false;
	if (!sc->nr_queued && allowed(c->current, c->id)) {
		sc->slice_end_ps = c->now_ps + MAX(model_of(c)->desc.timeslice_ps, 1);
		sched_horizon(model_of(c));
		return c;
	}
	return leave_cpu(c, LEAVE_RESCHED, TASK_RUNNABLE, true);
}

static int reserve_timers(struct sched_shared *s)
{
	uint32_t cap = s->cap_tasks ? 2 * s->cap_tasks : 64;
	struct event *e;

	if (s->nr_tasks < s->cap_tasks)
		return 0;
	e = realloc(s->timers.e, cap * sizeof(*e));
	if (!e)
		return -ENOMEM;
	s->timers.e = e;
	s->cap_tasks = cap;
	return 0;
}

int sched_task_start(struct model *md, struct cpu *c, struct task *t)
{
	struct sched_shared *s = &md->sched;
	struct cpu *starter = c ? c : md->m.cpus[0];
	struct sched_task *st;

	if (!t->fn || (t->affinity && cpumask_next(t->affinity, 0, md->m.nr_cpus) == md->m.nr_cpus))
		return -EINVAL;
	if (reserve_timers(s))
		return -ENOMEM;
	st = calloc(1, sizeof(*st));
	if (!st)
		return -ENOMEM;
	st->fiber = fiber_create(s->pool, task_main, st);
	if (!st->fiber) {
		free(st);
		return -ENOMEM;
	}
	if (c)
		sched_sync(c);
	st->t = t;
	st->md = md;
	st->timer_pos = EVENT_ABSENT;
	st->boundary = true;
	st->path = PATH_USER;
	list_init(&st->rw_link);
	list_add_tail(&st->all, &s->tasks);
	s->nr_tasks++;
	s->nr_daemons += t->daemon;
	s->tasks_started++;
	t->priv = st;
	t->seq = s->next_seq++;
	t->cpu_time_ps = 0;
	t->wake_pending = false;
	t->cpu = NULL;
	enqueue(place_new(md, t, starter), st, c ? c->now_ps : MAX(starter->now_ps, s->in_run ? s->event.time_ps : 0), false);
	return 0;
}

int sched_op_task_start(struct cpu *c, struct task *t)
{
	return sched_task_start(model_of(c), c, t);
}

void sched_tasks_abandon(struct model *md)
{
	struct sched_shared *s = &md->sched;
	struct sched_task *st, *tmp;

	s->abandoned |= s->nr_tasks != 0;
	list_for_each_entry_safe(st, tmp, &s->tasks, all) {
		if (st->t->state == TASK_RUNNABLE && st->t->cpu->current != st->t)
			dequeue(st);
		forget(st);
	}
	for (unsigned i = 0; i < md->m.nr_cpus; i++) {
		struct cpu *c = md->m.cpus[i];
		struct sched_cpu *sc = &model_cpu(c)->sched;

		if (sc->pos != EVENT_ABSENT)
			event_heap_remove(&s->cpus, sc->pos);
		ipi_take(c, SCHED_NEVER);
		list_del(&sc->spin_link);
		sc->park = PARK_NONE;
		sc->unparked = false;
		sc->held.nr = 0;
		c->lock_depth = 0;
		c->spin_depth = 0;
		c->current = NULL;
		c->need_resched = false;
		c->run_until_ps = SCHED_NEVER;
		if (!sc->idle)
			go_idle(c);
	}
}
