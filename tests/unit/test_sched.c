/* The scheduler of the model machine: virtual time, tasks on CPUs, time slices, placement, sleeping, blocking, deadlock, stop. */
#include "tiny_machine.h"

#include "base/rng.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- virtual time ---- */

static void alone_fn(struct cpu *c, struct task *t)
{
	uint64_t *ret = t->arg;

	assert_true(c->run_until_ps == UINT64_MAX);
	*ret = c->now_ps;
	compute(c, 5 * US);
}

static void test_alone_runs_without_limit(void **state)
{
	struct machine *m = tiny_machine(1, 4);
	uint64_t began = 0;
	struct task t = { .fn = alone_fn, .arg = &began, .name = "alone" };

	(void)state;
	start(m, &t);
	run_ok(m);
	assert_int_equal(t.state, TASK_DEAD);
	assert_int_equal(began, TINY_SWITCH_PS);
	assert_int_equal(t.cpu_time_ps, 5 * US);
	assert_int_equal(model_elapsed_ns(m), 6000);
	assert_int_equal(stat(m, "context_switches"), 1);
	assert_int_equal(tiny_model(m)->sched.resumes, 1);
	model_destroy(m);
}

struct timeline {
	struct task t[8];
	uint64_t quantum_ps, last_ps;
	uint32_t last_cpu;
	unsigned nr, ahead, order;
	struct rng rng;
};

/* At a synchronisation point nobody is behind; in between nobody is further ahead than the quantum (and a step). */
static void timeline_fn(struct cpu *c, struct task *t)
{
	struct timeline *tl = t->arg;

	for (unsigned i = 0; i < 300; i++) {
		uint64_t n = 1 + rng_below(&tl->rng, 400);

		while (n--) {
			core_charge(c, 10000, PATH_USER);
			sched_point(c);
			for (unsigned k = 0; k < tl->nr; k++)
				if (tl->t[k].state == TASK_RUNNING &&
				    c->now_ps > tl->t[k].cpu->now_ps + tl->quantum_ps)
					tl->ahead++;
		}
		sched_sync(c);
		if (c->now_ps < tl->last_ps || (c->now_ps == tl->last_ps && c->id < tl->last_cpu))
			tl->order++;
		tl->last_ps = c->now_ps;
		tl->last_cpu = c->id;
	}
}

static void test_order_and_quantum(void **state)
{
	for (unsigned q = 0; q < 3; q++) {
		struct timeline tl = { .quantum_ps = US >> q, .nr = 8 };
		struct machine *m = tiny_machine_quantum(2, 4, tl.quantum_ps);

		(void)state;
		rng_init(&tl.rng, q, "timeline");
		for (unsigned i = 0; i < tl.nr; i++) {
			tl.t[i] = (struct task){ .fn = timeline_fn, .arg = &tl };
			start(m, &tl.t[i]);
		}
		run_ok(m);
		assert_int_equal(tl.ahead, 0);
		assert_int_equal(tl.order, 0);
		model_destroy(m);
	}
}

/* ---- many tasks, few CPUs ---- */

#define CROWD 100
#define CROWD_WORK (2000 * US)

struct crowd {
	struct task t[CROWD];
	uint64_t end_ps[CROWD];
	unsigned exits;
};

static void crowd_fn(struct cpu *c, struct task *t)
{
	struct crowd *w = t->arg;

	c = compute(c, CROWD_WORK);
	w->end_ps[t - w->t] = c->now_ps;
}

static void crowd_exit(struct task *t)
{
	assert_int_equal(t->state, TASK_DEAD);
	((struct crowd *)t->arg)->exits++;
}

static void test_hundred_tasks_on_four_cpus(void **state)
{
	struct machine *m = tiny_machine(1, 4);
	struct crowd *w = calloc(1, sizeof(*w));
	uint64_t first = UINT64_MAX, last = 0;

	(void)state;
	for (unsigned i = 0; i < CROWD; i++) {
		w->t[i] = (struct task){ .fn = crowd_fn, .arg = w, .on_exit = crowd_exit };
		start(m, &w->t[i]);
	}
	run_ok(m);
	assert_int_equal(w->exits, CROWD);
	for (unsigned i = 0; i < CROWD; i++) {
		assert_int_equal(w->t[i].cpu_time_ps, CROWD_WORK);
		first = MIN(first, w->end_ps[i]);
		last = MAX(last, w->end_ps[i]);
	}
	/* Perfect sharing: all end in the last round of slices (25 tasks a CPU), and no CPU idles before the end. */
	assert_true(last - first <= 26 * (TINY_SLICE_PS + TINY_SWITCH_PS));
	assert_true(last <= 25 * (CROWD_WORK + (CROWD_WORK / TINY_SLICE_PS + 1) * TINY_SWITCH_PS));
	assert_true(stat(m, "context_switches") >= CROWD * (CROWD_WORK / TINY_SLICE_PS) - CROWD);
	assert_true(stat(m, "idle_ns") < 4 * 26 * 101 * 1000);
	free(w);
	model_destroy(m);
}

/* On one CPU nothing but the end of the slice makes a task give way. */
static void test_slices_on_one_cpu(void **state)
{
	struct machine *m = tiny_machine(1, 1);
	struct crowd *w = calloc(1, sizeof(*w));

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		w->t[i] = (struct task){ .fn = crowd_fn, .arg = w };
		start(m, &w->t[i]);
	}
	run_ok(m);
	assert_true(w->end_ps[2] - w->end_ps[0] <= 3 * (TINY_SLICE_PS + TINY_SWITCH_PS));
	assert_in_range(stat(m, "context_switches"), 58, 63);
	free(w);
	model_destroy(m);
}

static void test_idle_cpu_takes_waiting_tasks(void **state)
{
	struct machine *m = tiny_machine(2, 1);
	struct crowd *w = calloc(1, sizeof(*w));
	struct cpumask second = { { 2 } };

	(void)state;
	/* Three on two CPUs, one of them bound: when the bound one ends, its CPU helps out. */
	for (unsigned i = 0; i < 3; i++) {
		w->t[i] = (struct task){ .fn = crowd_fn, .arg = w, .affinity = i == 1 ? &second : NULL };
		start(m, &w->t[i]);
	}
	run_ok(m);
	assert_int_equal(w->t[1].cpu->id, 1);
	assert_true(stat(m, "tasks_stolen") >= 1);
	assert_true(stat(m, "cpu_migrations") >= 1);
	assert_true(model_elapsed_ns(m) * PS_PER_NS < CROWD_WORK * 2);
	free(w);
	model_destroy(m);
}

static void bound_fn(struct cpu *c, struct task *t)
{
	for (unsigned i = 0; i < 50; i++) {
		c = compute(c, 20 * US);
		assert_true(cpumask_test(t->affinity, c->id));
		c = machine_wait(c, 1000);
		assert_true(cpumask_test(t->affinity, c->id));
	}
}

static void test_affinity(void **state)
{
	struct machine *m = tiny_machine(2, 2);
	struct cpumask pair = { { 0x6 } }, none = { { 0x10 } };
	struct task t[5];

	(void)state;
	for (unsigned i = 0; i < 5; i++) {
		t[i] = (struct task){ .fn = bound_fn, .affinity = &pair };
		start(m, &t[i]);
	}
	t[0].affinity = &none;
	assert_int_equal(model_task_start(m, NULL, &(struct task){ .fn = bound_fn, .affinity = &none }), -EINVAL);
	t[0].affinity = &pair;
	run_ok(m);
	assert_int_equal(m->cpus[0]->now_ps, 0);
	assert_int_equal(m->cpus[3]->now_ps, 0);
	model_destroy(m);
}

static void nothing_fn(struct cpu *c, struct task *t)
{
	*(uint64_t *)t->arg |= 1ULL << c->id;
	compute(c, 10 * US);
}

static void test_new_tasks_spread(void **state)
{
	struct machine *m = tiny_machine(2, 4);
	uint64_t cpus = 0;
	struct task t[8];

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		t[i] = (struct task){ .fn = nothing_fn, .arg = &cpus };
		start(m, &t[i]);
	}
	run_ok(m);
	assert_int_equal(cpus, 0xff);
	model_destroy(m);
}

/* ---- tasks that start tasks ---- */

struct child {
	struct task t;
	unsigned *alive, *ended, depth;
};

static void child_exit(struct task *t)
{
	struct child *ch = container_of(t, struct child, t);

	--*ch->alive;
	++*ch->ended;
	free(ch);
}

static void child_fn(struct cpu *c, struct task *t)
{
	struct child *me = container_of(t, struct child, t);

	for (unsigned i = 0; i < 3 && me->depth; i++) {
		struct child *ch = calloc(1, sizeof(*ch));
		uint64_t now;

		ch->t = (struct task){ .fn = child_fn, .on_exit = child_exit };
		ch->alive = me->alive;
		ch->ended = me->ended;
		ch->depth = me->depth - 1;
		++*me->alive;
		c = compute(c, 3 * US);
		now = c->now_ps;
		assert_int_equal(c->m->ops->task_start(c, &ch->t), 0);
		assert_true(ch->t.wake_time_ps == now); /* nobody may run before he was started */
	}
	compute(c, 7 * US);
}

static void test_tasks_start_tasks(void **state)
{
	struct machine *m = tiny_machine(1, 4);
	unsigned alive = 1, ended = 0;
	struct child *root = calloc(1, sizeof(*root));

	(void)state;
	*root = (struct child){ .t = { .fn = child_fn, .on_exit = child_exit }, .alive = &alive, .ended = &ended, .depth = 5 };
	start(m, &root->t);
	run_ok(m);
	assert_int_equal(alive, 0);
	assert_int_equal(ended, 364); /* 1 + 3 + ... + 3^5 */
	/* The machine can be used again. */
	root = calloc(1, sizeof(*root));
	alive = 1;
	*root = (struct child){ .t = { .fn = child_fn, .on_exit = child_exit }, .alive = &alive, .ended = &ended, .depth = 1 };
	start(m, &root->t);
	run_ok(m);
	assert_int_equal(ended, 368);
	model_destroy(m);
}

/* ---- sleeping ---- */

struct sleeper {
	struct task t;
	uint64_t ns;
	unsigned *order, *at, me;
};

static void sleeper_fn(struct cpu *c, struct task *t)
{
	struct sleeper *s = t->arg;
	uint64_t until = c->now_ps + s->ns * PS_PER_NS;
	struct cpu *before = c;

	c->m->ops->sleep_ns(c, s->ns);
	assert_ptr_equal(t->cpu, before);
	assert_true(c->now_ps >= until && c->now_ps <= until + 40 * TINY_SWITCH_PS);
	s->order[(*s->at)++] = s->me;
}

static void test_sleepers_wake_in_order(void **state)
{
	static const uint64_t ns[] = { 900000, 100000, 500000, 100000, 700000, 1, 0, 3600000000000ULL };
	struct machine *m = tiny_machine(1, 8);
	unsigned order[ARRAY_SIZE(ns)], at = 0;
	struct sleeper s[ARRAY_SIZE(ns)];

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ns); i++) {
		s[i] = (struct sleeper){ .t = { .fn = sleeper_fn, .arg = &s[i] }, .ns = ns[i], .order = order, .at = &at, .me = i };
		start(m, &s[i].t);
	}
	run_ok(m);
	assert_int_equal(at, ARRAY_SIZE(ns));
	for (unsigned i = 1; i < at; i++)
		assert_true(ns[order[i - 1]] < ns[order[i]] ||
			    (ns[order[i - 1]] == ns[order[i]] && order[i - 1] < order[i]));
	assert_true(model_elapsed_ns(m) >= 3600000000000ULL && model_elapsed_ns(m) < 3600001000000ULL);
	model_destroy(m);
}

/* Sleeping costs no CPU time: another task on the only CPU has it all. */
static void sleepy_fn(struct cpu *c, struct task *t)
{
	uint64_t *end_ps = t->arg;

	for (unsigned i = 0; i < 10; i++)
		c->m->ops->sleep_ns(c, 50000);
	*end_ps = c->now_ps;
}

static void test_sleeper_leaves_the_cpu(void **state)
{
	struct machine *m = tiny_machine(1, 1);
	struct crowd *w = calloc(1, sizeof(*w));
	uint64_t end_ps = 0;
	struct task t = { .fn = sleepy_fn, .arg = &end_ps };

	(void)state;
	w->t[0] = (struct task){ .fn = crowd_fn, .arg = w };
	start(m, &t);
	start(m, &w->t[0]);
	run_ok(m);
	assert_int_equal(t.cpu_time_ps, 0);
	assert_int_equal(w->t[0].cpu_time_ps, CROWD_WORK);
	assert_true(w->end_ps[0] <= CROWD_WORK + 24 * TINY_SWITCH_PS);
	/* A wake-up inside the engine ends the other's slice: ten sleeps did not wait for ten slices. */
	assert_true(end_ps < 10 * 50 * US + 25 * TINY_SWITCH_PS);
	free(w);
	model_destroy(m);
}

/* ---- blocking ---- */

#define ROUNDS 2000

struct pingpong {
	struct task t[2];
	unsigned turn, done[2];
	bool wait;
	struct rng rng[2];
};

static void pingpong_fn(struct cpu *c, struct task *t)
{
	struct pingpong *p = t->arg;
	unsigned me = (unsigned)(t - p->t);

	for (unsigned i = 0; i < ROUNDS; i++) {
		c = compute(c, rng_below(&p->rng[me], 3 * US));
		sched_sync(c);
		while (p->turn != me) {
			if (p->wait)
				c = machine_wait(c, UINT64_MAX);
			else
				c->m->ops->block(c);
		}
		p->done[me]++;
		p->turn = !me;
		c->m->ops->wake(c, &p->t[!me]);
	}
}

static void test_no_wakeup_is_lost(void **state)
{
	for (unsigned cpus = 1; cpus <= 2; cpus++) {
		for (unsigned wait = 0; wait < 2; wait++) {
			struct machine *m = tiny_machine(1, cpus);
			struct pingpong p = { .wait = wait };

			(void)state;
			for (unsigned i = 0; i < 2; i++) {
				rng_init(&p.rng[i], i, "delay");
				p.t[i] = (struct task){ .fn = pingpong_fn, .arg = &p };
				start(m, &p.t[i]);
			}
			run_ok(m);
			assert_int_equal(p.done[0], ROUNDS);
			assert_int_equal(p.done[1], ROUNDS);
			model_destroy(m);
		}
	}
}

struct timed {
	struct task waiter, waker;
	uint64_t waited_ns[3];
};

static void waiter_fn(struct cpu *c, struct task *t)
{
	struct timed *w = t->arg;

	for (unsigned i = 0; i < 3; i++) {
		uint64_t before = machine_now_ns(c);

		/* first woken, then timed out, then woken while asleep: kept for the wait that follows */
		if (i == 2)
			c->m->ops->sleep_ns(c, 100000);
		c = machine_wait(c, 200000);
		w->waited_ns[i] = machine_now_ns(c) - before;
	}
}

static void waker_fn(struct cpu *c, struct task *t)
{
	struct timed *w = t->arg;

	c->m->ops->sleep_ns(c, 50000);
	c->m->ops->wake(c, &w->waiter);
	c->m->ops->sleep_ns(c, 250000); /* 300 us: the second wait has ended at 250 */
	c->m->ops->wake(c, &w->waiter);
}

static void test_wait_with_timeout(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct timed w = { .waiter = { .fn = waiter_fn, .arg = &w }, .waker = { .fn = waker_fn, .arg = &w } };

	(void)state;
	start(m, &w.waiter);
	start(m, &w.waker);
	run_ok(m);
	assert_in_range(w.waited_ns[0], 49000, 55000);
	assert_in_range(w.waited_ns[1], 200000, 205000);
	assert_in_range(w.waited_ns[2], 100000, 105000);
	model_destroy(m);
}

/* After model_sync, what is done while the clock stands still is one action, though those who are woken have lower CPU ids. */
struct action {
	struct task waker, woken[3], started;
	unsigned inside, torn, ran;
};

static void woken_fn(struct cpu *c, struct task *t)
{
	struct action *a = t->arg;

	if (t != &a->started)
		c->m->ops->block(c);
	a->torn += a->inside;
	a->ran++;
}

static void action_fn(struct cpu *c, struct task *t)
{
	struct action *a = t->arg;

	c = compute(c, 50 * US);
	assert_int_equal(c->id, 3);
	model_sync(c);
	a->inside = 1;
	for (unsigned i = 0; i < 3; i++)
		c->m->ops->wake(c, &a->woken[i]);
	assert_int_equal(c->m->ops->task_start(c, &a->started), 0);
	a->inside = 0;
}

static void test_one_action_is_not_torn(void **state)
{
	struct machine *m = tiny_machine(1, 4);
	struct action a = { .waker = { .fn = action_fn, .arg = &a }, .started = { .fn = woken_fn, .arg = &a } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		a.woken[i] = (struct task){ .fn = woken_fn, .arg = &a };
		start(m, &a.woken[i]);
	}
	start(m, &a.waker);
	run_ok(m);
	assert_int_equal(a.ran, 4);
	assert_int_equal(a.torn, 0);
	model_destroy(m);
}

/* What a task was booked under, and its fault, are its own: whoever runs in between on the CPU leaves no trace. */
static void booked_fn(struct cpu *c, struct task *t)
{
	enum machine_path mine = t->arg ? PATH_FAULT_ANON : PATH_MUNMAP;
	uint64_t fault_ps = t->arg ? 11 : 22;

	(void)core_work(c, mine, 0);
	for (unsigned i = 0; i < 20; i++) {
		c->fault_start_ps = fault_ps;
		c->m->ops->sleep_ns(c, 1000 + i);
		assert_int_equal(c->fault_start_ps, fault_ps);
		assert_int_equal(core_work(c, mine, 0), mine);
	}
}

static void test_bookings_follow_the_task(void **state)
{
	struct machine *m = tiny_machine(1, 1);
	struct task t[2] = { { .fn = booked_fn, .arg = m }, { .fn = booked_fn } };

	(void)state;
	start(m, &t[0]);
	start(m, &t[1]);
	run_ok(m);
	model_destroy(m);
}

/* ---- deadlock, stop ---- */

static void forever_fn(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->ops->block(c);
}

static void test_deadlock_is_named(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct task t[2] = { { .fn = forever_fn, .name = "ping" }, { .fn = forever_fn, .name = "pong" } };
	char err[200] = "", tiny[12];

	(void)state;
	start(m, &t[0]);
	start(m, &t[1]);
	assert_int_equal(model_run(m, err, sizeof(err)), -EDEADLK);
	assert_string_equal(err, "deadlock: ping waits for a wake-up, pong waits for a wake-up");
	assert_int_equal(t[0].state, TASK_DEAD);
	start(m, &t[0]);
	assert_int_equal(model_run(m, tiny, sizeof(tiny)), -EDEADLK);
	assert_string_equal(tiny, "deadlock: p");
	start(m, &t[0]); /* never run: destroyed with the machine */
	model_destroy(m);
}

struct stopping {
	struct task t[4];
	unsigned ended;
};

static void stopping_fn(struct cpu *c, struct task *t)
{
	struct stopping *s = t->arg;
	unsigned me = (unsigned)(t - s->t);

	if (me == 3)
		c->m->ops->block(c); /* nobody will wake it: abandoned */
	while (!c->m->stop) {
		if (me == 2)
			c->m->ops->sleep_ns(c, 3600000000000ULL);
		c = compute(c, 10 * US);
		if (me == 0 && c->now_ps > 5000 * US)
			c->m->stop = true;
	}
	s->ended++;
}

static void test_stop(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct stopping s = { 0 };
	char err[200];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		s.t[i] = (struct task){ .fn = stopping_fn, .arg = &s };
		start(m, &s.t[i]);
	}
	assert_int_equal(model_run(m, err, sizeof(err)), -EINTR);
	assert_int_equal(s.ended, 3);
	assert_true(model_elapsed_ns(m) < 6000000);
	m->stop = false;
	model_destroy(m);
}

/* ---- the hook ---- */

struct seen {
	struct task *on[4];
	unsigned calls, wrong;
};

static void hook(struct cpu *c, struct task *prev, struct task *next)
{
	struct seen *s = (struct seen *)(void *)c->q;

	s->calls++;
	s->wrong += s->on[c->id] != prev || prev == next || c->current != next;
	s->on[c->id] = next;
}

static void test_context_switch_hook(void **state)
{
	struct machine *m = tiny_machine(1, 4);
	struct crowd *w = calloc(1, sizeof(*w));
	struct seen seen = { 0 };
	uint64_t end_ps;
	struct task sl = { .fn = sleepy_fn, .arg = &end_ps };

	(void)state;
	m->hooks.context_switch = hook;
	for (unsigned i = 0; i < m->nr_cpus; i++)
		m->cpus[i]->q = (struct quire *)(void *)&seen;
	for (unsigned i = 0; i < 10; i++) {
		w->t[i] = (struct task){ .fn = crowd_fn, .arg = w };
		start(m, &w->t[i]);
	}
	start(m, &sl);
	run_ok(m);
	assert_int_equal(seen.wrong, 0);
	assert_true(seen.calls > stat(m, "context_switches"));
	for (unsigned i = 0; i < 4; i++)
		assert_null(seen.on[i]);
	free(w);
	model_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone_runs_without_limit),
		cmocka_unit_test(test_order_and_quantum),
		cmocka_unit_test(test_hundred_tasks_on_four_cpus),
		cmocka_unit_test(test_slices_on_one_cpu),
		cmocka_unit_test(test_idle_cpu_takes_waiting_tasks),
		cmocka_unit_test(test_affinity),
		cmocka_unit_test(test_new_tasks_spread),
		cmocka_unit_test(test_tasks_start_tasks),
		cmocka_unit_test(test_sleepers_wake_in_order),
		cmocka_unit_test(test_sleeper_leaves_the_cpu),
		cmocka_unit_test(test_no_wakeup_is_lost),
		cmocka_unit_test(test_wait_with_timeout),
		cmocka_unit_test(test_one_action_is_not_torn),
		cmocka_unit_test(test_bookings_follow_the_task),
		cmocka_unit_test(test_deadlock_is_named),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_context_switch_hook),
	};

	return test_run(tests);
}
