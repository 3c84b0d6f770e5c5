/* Kernel daemons: when they run, are woken and end, on the model, the null machine and the host. */
#include "host_testing.h"
#include "tiny_machine.h"

#include "lab/run.h"
#include "machine/null.h"
#include "machine/run.h"
#include "mm/kthread.h"

#include <errno.h>
#include <string.h>

struct world {
	struct machine *m;
	struct quire *q;
	struct cpu *c;
	struct kthread *kt, *other;
	struct task task[8];
	struct mlock lock;
	uint64_t looks, wakes, begun, ended; /* of the daemons; atomic */
	uint64_t last_ns, period_ns;
	unsigned wrong_cpu;
};

static void open_model(struct world *w)
{
	char err[200] = "";

	*w = (struct world){ .m = tiny_machine(2, 2) };
	if (quire_boot(w->m, NULL, &w->q, err, sizeof(err)))
		fail_msg("%s", err);
	w->c = w->m->cpus[0];
	mlock_init(&w->lock, RANK_ZONE, 0);
}

static void close_model(struct world *w)
{
	w->c = model_boot_cpu(w->m);
	assert_int_equal(quire_validate(w->q), 0);
	assert_int_equal(quire_shutdown(w->q), 0);
	model_destroy(w->m);
}

/* Works a microsecond at a time, when woken or each period. */
static void worker(struct cpu *c, void *arg)
{
	struct world *w = arg;

	__atomic_add_fetch(&w->begun, 1, __ATOMIC_RELAXED);
	while (!kthread_should_stop(c)) {
		__atomic_add_fetch(&w->looks, 1, __ATOMIC_RELAXED);
		if (!strcmp(c->m->ops->kind, "model"))
			busy(c, US);
		c = kthread_wait(c, w->kt, w->period_ns);
		if (w->kt->task.affinity && !cpumask_test(w->kt->task.affinity, c->id))
			w->wrong_cpu++;
		w->last_ns = machine_now_ns(c);
	}
	__atomic_add_fetch(&w->ended, 1, __ATOMIC_RELAXED);
}

/* Nobody ever wakes it. */
static void idler(struct cpu *c, void *arg)
{
	struct world *w = arg;

	while (!kthread_should_stop(c))
		c = kthread_wait(c, w->other, UINT64_MAX);
	__atomic_add_fetch(&w->ended, 1, __ATOMIC_RELAXED);
}

static void idler_too(struct cpu *c, void *arg)
{
	struct world *w = arg;

	__atomic_add_fetch(&w->begun, 1, __ATOMIC_RELAXED);
	while (!kthread_should_stop(c))
		c = kthread_wait(c, w->kt, UINT64_MAX);
	__atomic_add_fetch(&w->ended, 1, __ATOMIC_RELAXED);
}

static void start_both(struct world *w, uint64_t period_ns, const struct cpumask *affinity)
{
	w->period_ns = period_ns;
	assert_int_equal(kthread_start(w->q, w->c, "worker", worker, w, affinity, &w->kt), 0);
	assert_int_equal(kthread_start(w->q, w->c, "a name that is far too long", idler, w, NULL, &w->other), 0);
}

static void computes(struct cpu *c, struct task *t)
{
	(void)t;
	(void)compute(c, 1000 * US);
}

static void wakes_it(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	for (unsigned i = 0; i < 50; i++) {
		c = compute(c, 20 * US);
		machine_lock(c, &w->lock);
		kthread_wake(c, w->kt);
		kthread_wake(c, w->kt); /* before it has looked: one and the same */
		machine_unlock(c, &w->lock);
	}
}

static void run_tasks(struct world *w, void (*fn)(struct cpu *, struct task *), unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		w->task[i] = (struct task){ .fn = fn, .arg = w, .name = "a program" };
		start(w->m, &w->task[i]);
	}
	run_ok(w->m);
}

static void test_run_ends_without_them(void **state)
{
	struct metrics ms = { 0 };
	struct world w;
	uint64_t before, reported;

	(void)state;
	open_model(&w);
	start_both(&w, 100000, NULL);
	assert_int_equal(w.begun, 0);
	run_tasks(&w, computes, 2);
	assert_int_equal(w.begun, 1);
	assert_int_equal(w.ended, 2);
	assert_in_range(w.looks, 9, 11); /* a millisecond, each 101 us */
	assert_in_range(w.last_ns, 1000000, 1010000);
	/* the next run begins them anew, and counts on */
	before = w.kt->task.cpu_time_ps;
	assert_in_range(before, 9 * US, 30 * US);
	run_tasks(&w, computes, 2);
	assert_int_equal(w.begun, 2);
	assert_int_equal(w.ended, 4);
	assert_true(w.kt->earlier_ps == before && w.kt->task.cpu_time_ps > 0);
	lab_collect_engine(&ms, w.m, w.q);
	reported = metrics_u64(&ms, "daemon_cpu_time_ns");
	metrics_done(&ms);
	assert_in_range(reported, (before + w.kt->task.cpu_time_ps) / PS_PER_NS, 60000);
	/* nothing but daemons: told at once */
	run_ok(w.m);
	assert_int_equal(w.ended, 6);
	close_model(&w);
}

static void test_wakes(void **state)
{
	struct cpumask node1 = { { 0xc } };
	struct world w;

	(void)state;
	open_model(&w);
	start_both(&w, UINT64_MAX, &node1);
	run_tasks(&w, wakes_it, 1);
	assert_in_range(w.looks, 50, 51);
	assert_int_equal(w.wrong_cpu, 0);
	assert_int_equal(w.kt->task.cpu->nid, 1);
	/* outside of a run nothing happens, and the next one finds it */
	kthread_wake(w.c, w.kt);
	w.looks = 0;
	run_tasks(&w, computes, 1);
	assert_int_equal(w.looks, 2);
	close_model(&w);
}

static void blocks(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->ops->block(c);
}

static void test_deadlock_is_seen(void **state)
{
	char err[300] = "";
	struct world w;

	(void)state;
	for (unsigned periodic = 0; periodic < 2; periodic++) {
		open_model(&w);
		start_both(&w, periodic ? 1000000000 : UINT64_MAX, NULL);
		w.task[0] = (struct task){ .fn = blocks, .name = "a program" };
		start(w.m, &w.task[0]);
		assert_int_equal(model_run(w.m, err, sizeof(err)), -EDEADLK);
		assert_string_equal(err, "deadlock: a program waits for a wake-up");
		assert_true(kthread_should_stop(w.c));
		/* its timer went on for two minutes */
		assert_in_range(w.looks, periodic ? 120 : 1, periodic ? 121 : 1);
		close_model(&w);
	}
}

static void starts_one(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	assert_int_equal(kthread_start(w->q, c, "late", worker, w, NULL, &w->kt), 0);
	c = compute(c, 100 * US);
	kthread_wake(c, w->kt);
	(void)compute(c, 100 * US);
}

static void test_start_in_a_run(void **state)
{
	struct cpumask none = { { 0 } };
	struct kthread *kt = NULL;
	struct world w;

	(void)state;
	open_model(&w);
	w.period_ns = UINT64_MAX;
	assert_int_equal(kthread_start(w.q, w.c, "nowhere", worker, &w, &none, &kt), -EINVAL);
	assert_null(kt);
	run_tasks(&w, starts_one, 1);
	assert_int_equal(w.begun, 1);
	assert_int_equal(w.looks, 2);
	assert_int_equal(w.ended, 1);
	close_model(&w);
}

static int sum_cpu(void *arg, const char *name, uint64_t cpu_ns)
{
	if (!strcmp(name, "khugepaged"))
		return 0; /* the engine's own */
	assert_true(!strcmp(name, "worker") || !strcmp(name, "a name that is "));
	*(uint64_t *)arg += cpu_ns;
	return 0;
}

static void test_same_again(void **state)
{
	uint64_t looks[2], now[2], cpu[2] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct world w;

		open_model(&w);
		start_both(&w, 7000, NULL);
		run_tasks(&w, wakes_it, 4);
		assert_int_equal(kthreads_each(w.q, sum_cpu, &cpu[i]), 0);
		looks[i] = w.looks;
		now[i] = model_boot_cpu(w.m)->now_ps;
		close_model(&w);
	}
	assert_int_equal(looks[0], looks[1]);
	assert_int_equal(now[0], now[1]);
	assert_int_equal(cpu[0], cpu[1]);
	assert_true(cpu[0] >= looks[0] * 1000);
}

static void stops(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->stop = true;
}

static void test_stopped(void **state)
{
	char err[100];
	struct world w;

	(void)state;
	open_model(&w);
	start_both(&w, 7000, NULL);
	w.task[0] = (struct task){ .fn = stops };
	start(w.m, &w.task[0]);
	assert_int_equal(model_run(w.m, err, sizeof(err)), -EINTR);
	assert_int_equal(w.ended, 2);
	w.m->stop = false;
	close_model(&w);
}

/* ---- the null machine ---- */

static void null_task(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	kthread_wake(c, w->kt);
	w->wakes++;
	assert_int_equal(w->ended, 0);
}

static void test_null(void **state)
{
	struct world w = { 0 };
	char err[200] = "";

	(void)state;
	assert_int_equal(null_create(&(struct null_options){ .nr_cpus = 2 }, &w.m, err, sizeof(err)), 0);
	assert_int_equal(quire_boot(w.m, NULL, &w.q, err, sizeof(err)), 0);
	w.c = w.m->cpus[0];
	start_both(&w, UINT64_MAX, NULL);
	w.task[0] = (struct task){ .fn = null_task, .arg = &w };
	assert_int_equal(machine_task_start(w.m, &w.task[0]), 0);
	assert_int_equal(null_run(w.m, err, sizeof(err)), 0);
	assert_int_equal(w.wakes, 1);
	assert_int_equal(w.begun, 1);
	assert_int_equal(w.looks, 0);
	assert_int_equal(w.ended, 2);
	assert_int_equal(quire_shutdown(w.q), 0);
	null_destroy(w.m);
}

/* ---- the host ---- */

static void host_child(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	kthread_wake(c, w->kt);
	__atomic_add_fetch(&w->last_ns, 1, __ATOMIC_RELAXED);
}

/* Starts the others when a daemon is there, and waits for them: each needs a slot, and there are three. */
static void host_parent(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	for (unsigned n = 0; n < 20000 && !__atomic_load_n(&w->begun, __ATOMIC_RELAXED); n++)
		c->m->ops->sleep_ns(c, 1000000);
	for (unsigned i = 1; i < 8; i++) {
		w->task[i] = (struct task){ .fn = host_child, .arg = w };
		assert_int_equal(c->m->ops->task_start(c, &w->task[i]), 0);
	}
	for (unsigned n = 0; n < 20000 && __atomic_load_n(&w->last_ns, __ATOMIC_RELAXED) < 7; n++)
		c->m->ops->sleep_ns(c, 1000000);
	w->wakes = __atomic_load_n(&w->last_ns, __ATOMIC_RELAXED);
}

/* A daemon that waits has no slot: tasks that come later find theirs. */
static void test_host_slots(void **state)
{
	struct host_world hw;
	char err[200] = "";
	struct world w = { 0 };

	(void)state;
	world_open(&hw, &(struct host_options){ .memory = 128 << 20, .nr_cpus = 3 }, NULL);
	w.m = hw.m;
	w.q = hw.q;
	w.c = hw.c;
	w.period_ns = UINT64_MAX;
	assert_int_equal(kthread_start(w.q, w.c, "worker", idler_too, &w, NULL, &w.kt), 0);
	assert_int_equal(kthread_start(w.q, w.c, "idler", idler, &w, NULL, &w.other), 0);
	w.task[0] = (struct task){ .fn = host_parent, .arg = &w };
	assert_int_equal(machine_task_start(w.m, &w.task[0]), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	assert_int_equal(w.wakes, 7);
	assert_int_equal(w.ended, 2);
	kthreads_free(hw.c, hw.q);
	world_close(&hw);
}

static void host_task(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	for (unsigned i = 0; i < 20; i++) {
		uint64_t looks = __atomic_load_n(&w->looks, __ATOMIC_RELAXED);

		kthread_wake(c, w->kt);
		/* with a slot for it there is somebody who looks */
		while (w->wakes && __atomic_load_n(&w->looks, __ATOMIC_RELAXED) == looks)
			c->m->ops->sleep_ns(c, 1000);
	}
}

/*
 * More tasks than slots: daemons keep none from them. With slots free, each wake-up is followed by a look, on CPUs of the affinity unless
 * tasks have them all.
 */
static void test_host(void **state)
{
	char err[200] = "";

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		struct cpumask some = { { round == 1 ? 0x30 : 0x6 } };
		struct host_world hw;
		struct world w = { .wakes = round };

		world_open(&hw, &(struct host_options){ .memory = 128 << 20, .nr_cpus = round ? 6 : 3 }, NULL);
		w.m = hw.m;
		w.q = hw.q;
		w.c = hw.c;
		start_both(&w, round ? UINT64_MAX : 1000000, &some);
		for (unsigned again = 1; again <= 2; again++) {
			for (unsigned i = 0; i < (round ? 2 : 8); i++) {
				w.task[i] = (struct task){ .fn = host_task, .arg = &w };
				assert_int_equal(machine_task_start(w.m, &w.task[i]), 0);
			}
			assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
			assert_in_range(w.begun, round ? again : 0, again);
			assert_true(round != 1 || !w.wrong_cpu);
			assert_true(!round || w.looks >= 20 * again);
		}
		kthreads_free(hw.c, hw.q); /* world_close counts frames before the shutdown does it */
		world_close(&hw);
	}
}

static void host_blocks(struct cpu *c, struct task *t)
{
	(void)t;
	c->m->ops->block(c);
}

static void test_host_deadlock(void **state)
{
	struct host_world hw;
	char err[200] = "";
	struct world w = { 0 };

	(void)state;
	world_open(&hw, &(struct host_options){ .memory = 128 << 20, .nr_cpus = 4 }, NULL);
	w.m = hw.m;
	w.q = hw.q;
	w.c = hw.c;
	start_both(&w, UINT64_MAX, NULL);
	w.task[0] = (struct task){ .fn = host_blocks };
	assert_int_equal(machine_task_start(w.m, &w.task[0]), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), -EDEADLK);
	assert_non_null(strstr(err, "all 1 tasks"));
	assert_int_equal(w.ended, 2);
	w.m->stop = false;
	kthreads_free(hw.c, hw.q);
	world_close(&hw);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_ends_without_them),
		cmocka_unit_test(test_wakes),
		cmocka_unit_test(test_deadlock_is_seen),
		cmocka_unit_test(test_start_in_a_run),
		cmocka_unit_test(test_same_again),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_null),
		cmocka_unit_test(test_host_slots),
		cmocka_unit_test(test_host),
		cmocka_unit_test(test_host_deadlock),
	};

	return test_run(tests);
}
