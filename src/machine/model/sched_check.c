/*
 * Is the scheduler's state in order? Between two events of the main loop each CPU is idle, ready or parked, and each task is in exactly
 * one place. Called by tests, and after every event in builds with expensive checks.
 */
#include "machine/model/model_int.h"

static const char *check_heap(const struct event_heap *h)
{
	for (uint32_t i = 0; i < h->nr; i++) {
		if (*h->e[i].pos != i)
			return "an event does not know its place";
		if (i && event_before(&h->e[i], &h->e[(i - 1) / 2]))
			return "events are out of order";
	}
	return NULL;
}

static const char *check_queue(struct cpu *c)
{
	const struct sched_cpu *sc = &model_cpu(c)->sched;
	const struct task *t;
	uint32_t n = 0;

	list_for_each_entry(t, &sc->runq, link) {
		n++;
		if (t->state != TASK_RUNNABLE || t->cpu != c || t == c->current)
			return "a queued task is not runnable here";
		if (sched_task(t)->timer_pos != EVENT_ABSENT || sched_task(t)->rw_lock)
			return "a queued task still waits";
	}
	if (n != sc->nr_queued)
		return "a queue is miscounted";
	if (c->current && (c->current->state != TASK_RUNNING || c->current->cpu != c))
		return "the current task does not run here";
	return NULL;
}

static const char *check_cpu(struct model *md, struct cpu *c)
{
	const struct sched_cpu *sc = &model_cpu(c)->sched;
	bool ready = sc->pos != EVENT_ABSENT;

	if (sc->idle != cpumask_test(&md->sched.idle, c->id))
		return "the idle set is wrong";
	if (sc->no_yield)
		return "an interrupt or a switch has not ended";
	if (ready && (sc->pos >= md->sched.cpus.nr || md->sched.cpus.e[sc->pos].pos != &sc->pos ||
		      md->sched.cpus.e[sc->pos].time_ps < c->now_ps))
		return "a ready CPU is not in the heap, or too early";
	if (sc->idle && (ready || c->current || sc->nr_queued || sc->park != PARK_NONE))
		return "an idle CPU has something to do";
	if (!sc->idle && ready == (sc->park != PARK_NONE && !sc->unparked))
		return "a CPU is neither idle nor ready nor parked, or two of them";
	if (sc->park != PARK_NONE && !c->current)
		return "a parked CPU has no task";
	if (sc->park == PARK_ACK && !sc->unparked != (sc->acks_left != 0))
		return "a sender waits for nothing";
	if (sc->park == PARK_SPIN && !sc->unparked != (sc->spin_lock != NULL))
		return "a CPU spins on nothing";
	if ((sc->idle || (sc->park != PARK_NONE && !sc->unparked)) && !list_empty(&sc->irqs))
		return "an idle or parked CPU has not taken an interrupt";
	return check_queue(c);
}

static const char *check_task(const struct sched_task *st)
{
	const struct task *t = st->t;
	bool waits = t->state == TASK_BLOCKED || t->state == TASK_SLEEPING;

	if (t->priv != st)
		return "a task has lost its scheduler's half";
	if (t->state == TASK_NEW || t->state == TASK_DEAD)
		return "a task on the list is not alive";
	if (t->state == TASK_RUNNING && t->cpu->current != t)
		return "a running task is not current";
	if (t->state == TASK_SLEEPING && st->timer_pos == EVENT_ABSENT && !st->md->sched.stopping)
		return "a sleeper has no timer";
	if (st->timer_pos != EVENT_ABSENT && !waits)
		return "a task that does not wait has a timer";
	if (list_empty(&st->rw_link) != !st->rw_lock)
		return "a task waits for a lock, or is on the list, but not both";
	return NULL;
}

const char *sched_validate(struct model *md)
{
	const struct sched_shared *s = &md->sched;
	const struct sched_task *st;
	const char *bad = check_heap(&s->cpus);
	uint32_t tasks = 0, queued = 0, idle = 0, daemons = 0, timers = 0;

	if (!bad)
		bad = check_heap(&s->timers);
	for (unsigned i = 0; i < md->m.nr_cpus && !bad; i++) {
		const struct sched_cpu *sc = &model_cpu(md->m.cpus[i])->sched;

		bad = check_cpu(md, md->m.cpus[i]);
		queued += sc->nr_queued;
		idle += sc->idle;
	}
	if (bad)
		return bad;
	list_for_each_entry(st, &s->tasks, all) {
		bad = check_task(st);
		if (bad)
			return bad;
		tasks++;
		daemons += st->t->daemon;
		timers += !st->t->daemon && st->timer_pos != EVENT_ABSENT;
	}
	if (daemons != s->nr_daemons || timers != s->nr_task_timers)
		return "daemons or timers are miscounted";
	if (tasks != s->nr_tasks || queued != s->nr_queued || idle != s->nr_idle)
		return "tasks, queued tasks or idle CPUs are miscounted";
	return NULL;
}
