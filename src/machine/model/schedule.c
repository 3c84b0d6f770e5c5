/*
 * Who goes on: the strategies of schedule.h. The scheduler (sched.c) asks here instead of comparing clocks, which stand still.
 *
 * Decisions are made in two places. schedule_point: the running CPU could go on; if the answer is another one, it pauses. schedule_pick: the
 * main loop needs a CPU, either the one just chosen, or, when the last one had to stop, one that is chosen now. Both note what
 * differs from the default in schedule.taken, under the CPU's own count of points, which changes elsewhere do not shift.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/model/schedule_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE_MAX_POINTS 1000000ULL

const char *schedule_point_name(unsigned point)
{
	static const char *const name[NR_SCHEDULE_POINTS] = {
		[POINT_SYNC] = "lock", [POINT_CHARGE] = "line", [POINT_ATOMIC] = "atomic", [POINT_ACCESS] = "access",
		[POINT_COPY] = "copy", [POINT_FLUSH] = "flush", [POINT_WAIT] = "wait",
	};

	return point < NR_SCHEDULE_POINTS ? name[point] : "?";
}

int schedule_init(struct model *md)
{
	md->sched.schedule = calloc(1, sizeof(struct schedule_state) + md->m.nr_cpus * sizeof(struct schedule_cpu));
	if (!md->sched.schedule)
		return -ENOMEM;
	md->sched.schedule->next = -1;
	return 0;
}

void schedule_done(struct model *md)
{
	free(md->sched.schedule);
	md->sched.schedule = NULL;
}

static void begin_pct(struct schedule_state *st, unsigned nr_cpus)
{
	const struct schedule *s = st->s;

	/* A random order of CPUs above `lowest`, which goes down with each change. */
	st->lowest = SCHEDULE_MAX_DEPTH + 1;
	for (unsigned i = 0; i < nr_cpus; i++) {
		unsigned j = (unsigned)rng_below(&st->rng, i + 1);

		st->cpu[i].priority = st->cpu[j].priority;
		st->cpu[j].priority = st->lowest + (int32_t)i + 1;
	}
	for (uint32_t i = 0; i < s->depth; i++) {
		uint64_t at = 1 + rng_below(&st->rng, MAX(s->length, 1));
		uint32_t k = i;

		for (; k && st->change[k - 1] > at; k--)
			st->change[k] = st->change[k - 1];
		st->change[k] = at;
	}
	st->next_change = 0;
}

void model_schedule(struct machine *m, struct schedule *s)
{
	struct schedule_state *st = container_of(m, struct model, m)->sched.schedule;

	ASSERT(st && m->nr_cpus <= SCHEDULE_MAX_CPUS);
	st->s = s;
	st->next = -1;
	st->last = 0;
	st->stop = false;
	for (unsigned i = 0; i < m->nr_cpus; i++)
		st->cpu[i].points = st->cpu[i].list_at = 0;
	if (!s)
		return;
	ASSERT(s->depth <= SCHEDULE_MAX_DEPTH);
	s->points = s->crowded = 0;
	s->nr_taken = s->nr_crowds = 0;
	s->truncated = s->no_progress = false;
	rng_init(&st->rng, s->seed, "schedule");
	st->per_4096 = 2048U >> 2 * rng_below(&st->rng, 5);
	if (s->strategy == SCHEDULE_PCT)
		begin_pct(st, m->nr_cpus);
}

void model_schedule_stop(struct machine *m)
{
	container_of(m, struct model, m)->sched.schedule->stop = true;
}

void model_schedule_reset(struct machine *m)
{
	struct schedule_state *st = container_of(m, struct model, m)->sched.schedule;

	for (unsigned i = 0; i < m->nr_cpus; i++) {
		st->cpu[i].nr_held = st->cpu[i].oldest = 0;
		st->cpu[i].root = 0;
		st->cpu[i].ctx = 0;
	}
}

uint32_t model_schedule_at(const struct cpu *c)
{
	return model_of(c)->sched.schedule->cpu[c->id].points;
}

/* What the list says about this CPU's point; else `otherwise`. */
static unsigned from_list(struct schedule_state *st, unsigned cpu, unsigned otherwise)
{
	struct schedule_cpu *sc = &st->cpu[cpu];
	const struct schedule *s = st->s;

	for (; sc->list_at < s->nr_list; sc->list_at++) {
		const struct schedule_choice *ch = &s->list[sc->list_at];

		if (ch->cpu != cpu || ch->at < sc->points)
			continue;
		return ch->at == sc->points ? ch->to : otherwise;
	}
	return otherwise;
}

static unsigned ready_cpu(const struct model *md, uint64_t i)
{
	return (unsigned)md->sched.cpus.e[i].seq;
}

static unsigned most_important(const struct model *md, int running)
{
	const struct schedule_state *st = md->sched.schedule;
	unsigned best = running >= 0 ? (unsigned)running : ready_cpu(md, 0);

	for (uint32_t i = 0; i < md->sched.cpus.nr; i++)
		if (st->cpu[ready_cpu(md, i)].priority > st->cpu[best].priority)
			best = ready_cpu(md, i);
	return best;
}

/* Whom the strategy wants at this point of `cpu`. The answer need not be ready. must: cpu cannot go on, the default is `otherwise`. */
static unsigned wanted(struct model *md, unsigned cpu, bool must, unsigned otherwise)
{
	struct schedule_state *st = md->sched.schedule;
	const struct schedule *s = st->s;
	uint32_t n = md->sched.cpus.nr;

	switch (s->strategy) {
	case SCHEDULE_RANDOM:
		if (!must && rng_below(&st->rng, 4096) >= st->per_4096)
			return otherwise;
		return ready_cpu(md, rng_below(&st->rng, n));
	case SCHEDULE_PCT:
		while (st->next_change < s->depth && s->points >= st->change[st->next_change]) {
			st->next_change++;
			st->cpu[cpu].priority = --st->lowest;
		}
		return most_important(md, must ? -1 : (int)cpu);
	default:
		return from_list(st, cpu, otherwise);
	}
}

static void note(struct schedule *s, const struct schedule_state *st, unsigned cpu, unsigned to, enum schedule_point p)
{
	if (s->nr_taken == SCHEDULE_MAX_CHOICES) {
		s->truncated = true;
		return;
	}
	s->taken[s->nr_taken++] = (struct schedule_choice){
		.at = st->cpu[cpu].points, .cpu = (uint8_t)cpu, .to = (uint8_t)to, .point = (uint8_t)p,
	};
}

static void note_crowd(struct model *md, unsigned cpu, unsigned usual)
{
	struct schedule_state *st = md->sched.schedule;
	struct schedule *s = st->s;
	uint32_t ready = 0;

	s->crowded++;
	if (!s->crowds || s->nr_crowds == s->max_crowds)
		return;
	for (uint32_t i = 0; i < md->sched.cpus.nr; i++)
		ready |= 1U << ready_cpu(md, i);
	s->crowds[s->nr_crowds++] = (struct schedule_crowd){
		.at = st->cpu[cpu].points, .cpu = (uint8_t)cpu, .usual = (uint8_t)usual, .ready = (uint16_t)ready,
	};
}

static bool is_ready(struct model *md, unsigned cpu)
{
	return cpu < md->m.nr_cpus && model_cpu(md->m.cpus[cpu])->sched.pos != EVENT_ABSENT;
}

void schedule_point(struct cpu *c, enum schedule_point p)
{
	struct model *md = model_of(c);
	struct schedule_state *st = md->sched.schedule;
	struct schedule *s = st->s;
	unsigned to = c->id;

	if (md->sched.running != c || model_cpu(c)->sched.no_yield || !s)
		return;
	st->cpu[c->id].points++;
	if (++s->points > (s->max_points ? s->max_points : SCHEDULE_MAX_POINTS)) {
		s->no_progress = true;
		st->stop = true;
	}
	if (s->at_point && !st->stop)
		s->at_point(s->arg, c, p);
	if (md->sched.cpus.nr && !st->stop) {
		note_crowd(md, c->id, c->id);
		to = wanted(md, c->id, false, c->id);
		if (!is_ready(md, to))
			to = c->id;
	}
	if (to == c->id && !st->stop)
		return;
	if (to != c->id) {
		note(s, st, c->id, to, p);
		st->next = (int)to;
	}
	sched_pause(c); /* when the run is being stopped: for ever */
}

void schedule_give_way(struct cpu *c)
{
	struct model *md = model_of(c);
	struct schedule_state *st = md->sched.schedule;

	if (md->sched.running != c || model_cpu(c)->sched.no_yield || !st->s)
		return;
	schedule_point(c, POINT_ACCESS); /* counts, and ends a run without progress */
	st->cpu[c->id].priority = --st->lowest;
	if (md->sched.cpus.nr)
		sched_pause(c); /* next is open: whoever comes after it */
}

uint32_t schedule_pick(struct model *md)
{
	struct schedule_state *st = md->sched.schedule;
	const struct event_heap *h = &md->sched.cpus;
	unsigned to, from = st->last, nr = md->m.nr_cpus;

	if (st->next >= 0 && is_ready(md, (unsigned)st->next)) {
		to = (unsigned)st->next;
	} else {
		for (to = (from + 1) % nr; !is_ready(md, to); to = (to + 1) % nr)
			;
		if (st->s) {
			unsigned usual = to;

			st->cpu[from].points++;
			if (h->nr > 1) {
				note_crowd(md, from, usual);
				to = wanted(md, from, true, usual);
			}
			if (!is_ready(md, to))
				to = usual;
			if (to != usual)
				note(st->s, st, from, to, POINT_WAIT);
		}
	}
	st->next = -1;
	st->last = to;
	return model_cpu(md->m.cpus[to])->sched.pos;
}
