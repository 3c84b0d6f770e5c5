/* Locks of the model machine: exclusion, order and fairness in virtual time, ranks, locks left behind. */
#include "tiny_machine.h"

#include "base/rng.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- mutual exclusion ---- */

#define RACERS 12
#define LAPS 300

struct race {
	struct task t[RACERS];
	struct rng rng[RACERS];
	struct mlock lock;
	struct mrwlock rw;
	uint64_t free_ps; /* when the last holder let go */
	unsigned inside, overlaps, total, readers, max_readers;
	uint64_t sum;
};

static struct race *race_new(struct machine *m, void (*fn)(struct cpu *, struct task *))
{
	struct race *r = calloc(1, sizeof(*r));

	mlock_init(&r->lock, RANK_PTL, 64 << 20);
	mrwlock_init(&r->rw, RANK_MMAP_LOCK, (64 << 20) + 64);
	for (unsigned i = 0; i < RACERS; i++) {
		rng_init(&r->rng[i], i, "racer");
		r->t[i] = (struct task){ .fn = fn, .arg = r };
		start(m, &r->t[i]);
	}
	return r;
}

static void enter(struct race *r, const struct cpu *c)
{
	r->overlaps += r->inside++ != 0 || c->now_ps < r->free_ps;
}

static void leave(struct race *r, const struct cpu *c)
{
	r->inside--;
	r->free_ps = c->now_ps;
	r->total++;
}

static void spin_fn(struct cpu *c, struct task *t)
{
	struct race *r = t->arg;
	struct rng *rng = &r->rng[t - r->t];

	for (unsigned i = 0; i < LAPS; i++) {
		c = compute(c, rng_below(rng, 2 * US));
		if (rng_below(rng, 4)) {
			machine_lock(c, &r->lock);
		} else if (!machine_trylock(c, &r->lock)) {
			i--;
			continue;
		}
		enter(r, c);
		busy(c, rng_below(rng, US));
		r->sum += i;
		leave(r, c);
		machine_unlock(c, &r->lock);
	}
}

static void test_spinlock_excludes(void **state)
{
	/* Far fewer than a quantum's worth of work inside: contention must be seen all the same. */
	for (unsigned quantum_us = 1; quantum_us <= 100; quantum_us *= 10) {
		struct machine *m = tiny_machine_quantum(2, 2, quantum_us * US);
		struct race *r = race_new(m, spin_fn);

		(void)state;
		run_ok(m);
		assert_int_equal(r->overlaps, 0);
		assert_int_equal(r->total, RACERS * LAPS);
		assert_true(stat(m, "lock_contended_ptl") > RACERS * LAPS / 4);
		assert_true(stat(m, "lock_wait_ptl_ns") > 0);
		assert_int_equal(stat(m, "lock_contended_zone"), 0);
		assert_true(stat(m, "path_lock_wait_ns") > 0);
		assert_int_equal(r->lock.state, 0);
		free(r);
		model_destroy(m);
	}
}

static void write_fn(struct cpu *c, struct task *t)
{
	struct race *r = t->arg;
	struct rng *rng = &r->rng[t - r->t];

	for (unsigned i = 0; i < LAPS; i++) {
		c = compute(c, rng_below(rng, 2 * US));
		if (rng_below(rng, 3)) {
			machine_read_lock(c, &r->rw);
			r->overlaps += r->inside != 0;
			r->readers++;
			r->max_readers = MAX(r->max_readers, r->readers);
			busy(c, rng_below(rng, US));
			r->total++;
			r->readers--;
			machine_read_unlock(c, &r->rw);
			continue;
		}
		machine_write_lock(c, &r->rw);
		enter(r, c);
		r->overlaps += r->readers != 0;
		busy(c, rng_below(rng, US));
		if (rng_below(rng, 8) == 0)
			c->m->ops->sleep_ns(c, 3000); /* allowed with a sleeping lock */
		leave(r, c);
		if (rng_below(rng, 2)) {
			r->readers++;
			machine_downgrade(c, &r->rw);
			busy(c, rng_below(rng, US));
			r->readers--;
			machine_read_unlock(c, &r->rw);
		} else {
			machine_write_unlock(c, &r->rw);
		}
	}
}

static void test_rwlock_excludes(void **state)
{
	struct machine *m = tiny_machine(2, 2);
	struct race *r = race_new(m, write_fn);

	(void)state;
	run_ok(m);
	assert_int_equal(r->overlaps, 0);
	assert_int_equal(r->total, RACERS * LAPS);
	assert_true(r->max_readers > 1);
	assert_true(stat(m, "lock_contended_mmap_lock") > 100);
	assert_int_equal(r->rw.state, 0);
	free(r);
	model_destroy(m);
}

/* A commutative workload's results do not depend on the quantum, and times only slightly. */
static void test_quantum_halved(void **state)
{
	uint64_t sum[3], elapsed[3];

	(void)state;
	for (unsigned q = 0; q < 3; q++) {
		struct machine *m = tiny_machine_quantum(2, 2, US >> q);
		struct race *r = race_new(m, spin_fn);

		run_ok(m);
		sum[q] = r->sum;
		elapsed[q] = model_elapsed_ns(m);
		free(r);
		model_destroy(m);
	}
	assert_int_equal(sum[1], sum[0]);
	assert_int_equal(sum[2], sum[0]);
	for (unsigned q = 1; q < 3; q++)
		assert_in_range(elapsed[q], elapsed[0] * 95 / 100, elapsed[0] * 105 / 100);
}

static void hash_stat(void *arg, const char *name, uint64_t value)
{
	uint64_t *h = arg;

	for (; *name; name++)
		*h = (*h ^ (uint8_t)*name) * 0x100000001b3ULL;
	*h = (*h ^ value) * 0x100000001b3ULL;
}

static void test_same_again(void **state)
{
	uint64_t h[2] = { 1, 1 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct machine *m = tiny_machine(2, 3);
		char *shift = malloc(100000 * i + 1); /* other host addresses */
		struct race *r = race_new(m, write_fn);

		run_ok(m);
		machine_stats_each(m, hash_stat, &h[i]);
		free(shift);
		free(r);
		model_destroy(m);
	}
	assert_int_equal(h[0], h[1]);
}

/* ---- order of waiters ---- */

struct queue {
	struct task t[8];
	struct mlock lock;
	struct mrwlock rw;
	unsigned order[8], at;
	uint64_t got_ps[8];
};

static void fifo_fn(struct cpu *c, struct task *t)
{
	struct queue *q = t->arg;
	unsigned me = (unsigned)(t - q->t), turn = (me * 5) % 8;

	/* arrive 2 us apart, in an order that is not that of CPUs or creation; the first holds it for long */
	c = compute(c, (1 + 2 * turn) * US);
	machine_lock(c, &q->lock);
	q->got_ps[q->at] = c->now_ps;
	q->order[q->at++] = turn;
	busy(c, turn ? US : 100 * US);
	machine_unlock(c, &q->lock);
}

static void test_spinners_are_served_in_order(void **state)
{
	struct machine *m = tiny_machine(2, 4);
	struct queue q = { .at = 0 };

	(void)state;
	mlock_init(&q.lock, RANK_ZONE, 0);
	for (unsigned i = 0; i < 8; i++) {
		q.t[i] = (struct task){ .fn = fifo_fn, .arg = &q };
		start(m, &q.t[i]);
	}
	run_ok(m);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(q.order[i], i);
	/* Without a priced line the next holder has it at the time of the release, exactly. */
	for (unsigned i = 1; i < 8; i++)
		assert_int_equal(q.got_ps[i] - q.got_ps[i - 1], i == 1 ? 100 * US : US);
	assert_int_equal(stat(m, "lock_contended_zone"), 7);
	model_destroy(m);
}

/* Arrivals at 0..5: R W R R W R. Fair: R, then W, then the two R together, then W, then R. */
static void fair_fn(struct cpu *c, struct task *t)
{
	struct queue *q = t->arg;
	unsigned me = (unsigned)(t - q->t);
	bool write = me == 1 || me == 4;

	c = compute(c, (1 + 2 * me) * US);
	if (write)
		machine_write_lock(c, &q->rw);
	else
		machine_read_lock(c, &q->rw);
	q->got_ps[me] = c->now_ps;
	q->order[q->at++] = me;
	busy(c, 50 * US);
	if (write)
		machine_write_unlock(c, &q->rw);
	else
		machine_read_unlock(c, &q->rw);
}

static void test_rwlock_is_fair(void **state)
{
	struct machine *m = tiny_machine(1, 6);
	struct queue q = { .at = 0 };

	(void)state;
	mrwlock_init(&q.rw, RANK_MMAP_LOCK, 0);
	for (unsigned i = 0; i < 6; i++) {
		q.t[i] = (struct task){ .fn = fair_fn, .arg = &q };
		start(m, &q.t[i]);
	}
	run_ok(m);
	assert_int_equal(q.order[0], 0);
	assert_int_equal(q.order[1], 1);
	assert_int_equal(q.order[2] + q.order[3], 5);
	assert_int_equal(q.order[4], 4);
	assert_int_equal(q.order[5], 5);
	assert_true(q.got_ps[2] < q.got_ps[1] + 55 * US && q.got_ps[3] < q.got_ps[1] + 55 * US);
	assert_true(q.got_ps[4] >= q.got_ps[3] + 50 * US);
	model_destroy(m);
}

/* A task that waits for a sleeping lock leaves its CPU to others; a wake-up meant for its block does not give it the lock. */
struct handoff {
	struct task holder, waiter, other;
	struct mrwlock rw;
	uint64_t other_end_ps, got_ps, released_ps;
	bool woken;
};

static void holder_fn(struct cpu *c, struct task *t)
{
	struct handoff *h = t->arg;

	machine_write_lock(c, &h->rw);
	busy(c, 50 * US);
	c->m->ops->wake(c, &h->waiter);
	busy(c, 150 * US);
	h->released_ps = c->now_ps;
	machine_write_unlock(c, &h->rw);
}

static void waiting_fn(struct cpu *c, struct task *t)
{
	struct handoff *h = t->arg;

	c = compute(c, 5 * US);
	machine_read_lock(c, &h->rw);
	h->got_ps = c->now_ps;
	machine_read_unlock(c, &h->rw);
	c->m->ops->block(c); /* the wake-up was kept */
	h->woken = true;
}

static void other_fn(struct cpu *c, struct task *t)
{
	struct handoff *h = t->arg;

	c = compute(c, 100 * US);
	h->other_end_ps = c->now_ps;
}

static void test_rwlock_waiter_sleeps(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct cpumask first = { { 1 } }, second = { { 2 } };
	struct handoff h = { .holder = { .fn = holder_fn, .arg = &h, .affinity = &first },
			     .waiter = { .fn = waiting_fn, .arg = &h, .affinity = &second },
			     .other = { .fn = other_fn, .arg = &h, .affinity = &second } };

	(void)state;
	mrwlock_init(&h.rw, RANK_MMAP_LOCK, 0);
	start(m, &h.holder);
	start(m, &h.waiter);
	start(m, &h.other);
	run_ok(m);
	assert_true(h.other_end_ps < h.released_ps);
	assert_true(h.got_ps >= h.released_ps);
	assert_true(h.woken);
	model_destroy(m);
}

/* ---- locks left behind, order of ranks ---- */

static void abandon_fn(struct cpu *c, struct task *t)
{
	struct queue *q = t->arg;

	machine_write_lock(c, &q->rw);
	c->m->ops->block(c);
}

static void test_abandoned_lock_can_be_taken_outside(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct queue q = { .at = 0 };
	char err[200] = "";

	(void)state;
	mrwlock_init(&q.rw, RANK_MMAP_LOCK, 0);
	for (unsigned i = 0; i < 2; i++) {
		q.t[i] = (struct task){ .fn = abandon_fn, .arg = &q, .name = i ? "second" : "first" };
		start(m, &q.t[i]);
	}
	assert_int_equal(model_run(m, err, sizeof(err)), -EDEADLK);
	assert_string_equal(err, "deadlock: first waits for a wake-up, second waits for mmap_lock (write)");
	machine_write_lock(model_boot_cpu(m), &q.rw);
	machine_write_unlock(model_boot_cpu(m), &q.rw);
	model_destroy(m);
}

static void take(struct machine *m, enum lock_rank a, enum lock_rank b, enum lock_rank last)
{
	struct mlock l[3];
	struct cpu *c = model_boot_cpu(m);

	mlock_init(&l[0], a, 0);
	mlock_init(&l[1], b, 0);
	mlock_init(&l[2], last, 0);
	for (unsigned i = 0; i < 3; i++)
		machine_lock(c, &l[i]);
	for (unsigned i = 0; i < 3; i++)
		machine_unlock(c, &l[i]);
}

static bool dies(struct machine *m, enum lock_rank a, enum lock_rank b, enum lock_rank last)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGABRT, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		take(m, a, b, last);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void test_rank_order(void **state)
{
	struct machine *m = tiny_machine(1, 1);

	(void)state;
	take(m, RANK_MMLIST, RANK_PTL, RANK_ZONE);
	take(m, RANK_PTL, RANK_PTL, RANK_LRU);
#ifdef QUIRE_DEBUG
	assert_true(dies(m, RANK_MMLIST, RANK_ZONE, RANK_PTL));
	assert_true(dies(m, RANK_PTL, RANK_PTL, RANK_PTL));
	assert_true(dies(m, RANK_FILE, RANK_ZONE, RANK_ZONE));
#endif
	assert_false(dies(m, RANK_FILE, RANK_PTL, RANK_ZONE));
	model_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spinlock_excludes),
		cmocka_unit_test(test_rwlock_excludes),
		cmocka_unit_test(test_quantum_halved),
		cmocka_unit_test(test_same_again),
		cmocka_unit_test(test_spinners_are_served_in_order),
		cmocka_unit_test(test_rwlock_is_fair),
		cmocka_unit_test(test_rwlock_waiter_sleeps),
		cmocka_unit_test(test_abandoned_lock_can_be_taken_outside),
		cmocka_unit_test(test_rank_order),
	};

	return test_run(tests);
}
