/* Folio locks: exclusion, order, sleeping and waiting, on the model, under schedules and between threads of the host. */
#include "host_testing.h"
#include "tiny_machine.h"

#include "machine/inject.h"
#include "machine/model/schedule.h"
#include "machine/null.h"
#include "machine/run.h"
#include "mm/folio_lock.h"

#include <errno.h>
#include <string.h>

#define TASKS 8
#define FOLIOS 3

struct world {
	struct machine *m;
	struct quire *q;
	struct task task[TASKS];
	struct frame *f[FOLIOS], *table;
	unsigned laps;
	uint64_t inside[FOLIOS], count[FOLIOS], overlaps; /* guarded by the folio's lock: plain on purpose */
	unsigned order[TASKS], nr_order;
	uint64_t held_until_ps, woken_ps[TASKS];
	bool at_once[TASKS];
};

static struct frame *get_frame(struct cpu *c)
{
	struct frame *f = page_alloc(c, &(struct alloc_req){ .gfp = GFP_MOVABLE, .nid = NID_NONE });

	assert_non_null(f);
	return f;
}

static void boot(struct world *w)
{
	char err[200] = "";
	struct cpu *c = w->m->cpus[0];

	if (quire_boot(w->m, NULL, &w->q, err, sizeof(err)))
		fail_msg("%s", err);
	for (unsigned i = 0; i < FOLIOS; i++)
		w->f[i] = get_frame(c);
	w->table = get_frame(c);
	mlock_init(&w->table->ptl, RANK_PTL, 0);
}

static void unboot(struct world *w, struct cpu *c)
{
	for (unsigned i = 0; i < FOLIOS; i++) {
		assert_false(frame_flags(w->f[i]) & (FRAME_LOCKED | FRAME_WAITERS | FRAME_WRITEBACK));
		assert_int_equal(frame_refcount(w->f[i]), 1);
		frame_put(c, w->f[i]);
	}
	frame_put(c, w->table);
	assert_int_equal(quire_validate(w->q), 0);
	assert_int_equal(quire_shutdown(w->q), 0);
}

static void open_model(struct world *w)
{
	*w = (struct world){ .m = tiny_machine(2, 2) };
	boot(w);
}

static void close_model(struct world *w)
{
	unboot(w, model_boot_cpu(w->m));
	model_destroy(w->m);
}

static unsigned index_of(const struct world *w, const struct task *t)
{
	return (unsigned)(t - w->task);
}

static void run_all(struct world *w, void (*fn)(struct cpu *, struct task *), unsigned n)
{
	char err[300] = "";
	int rc;

	for (unsigned i = 0; i < n; i++) {
		w->task[i] = (struct task){ .fn = fn, .arg = w, .name = "a task" };
		assert_int_equal(machine_task_start(w->m, &w->task[i]), 0);
	}
	rc = machine_run(w->m, err, sizeof(err));
	if (rc)
		fail_msg("%d: %s", rc, err);
}

static void work(struct cpu *c, uint64_t n)
{
	if (!strcmp(c->m->ops->kind, "model") && !model_of(c)->sched.schedule)
		busy(c, n * US / 8);
	else
		machine_touch(c, PAGE_SIZE, 8, TOUCH_READ);
}

static void locker(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;
	unsigned me = index_of(w, t);

	for (unsigned i = 0; i < w->laps; i++) {
		unsigned k = (i + me) % FOLIOS;

		if ((i * 7 + me) % 5) {
			folio_lock(c, w->f[k]);
		} else if (!folio_trylock(c, w->f[k])) {
			folio_wait_locked(c, w->f[k]);
			folio_lock(c, w->f[k]);
		}
		w->overlaps += w->inside[k]++ != 0;
		w->count[k]++;
		work(c, 1 + me);
		w->inside[k]--;
		folio_unlock(c, w->f[k]);
		work(c, 3);
	}
}

static void check_counts(const struct world *w, unsigned tasks)
{
	assert_int_equal(w->overlaps, 0);
	assert_int_equal(w->count[0] + w->count[1] + w->count[2], tasks * w->laps);
}

static void test_exclusion_and_same_again(void **state)
{
	uint64_t now[2];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct world w;

		open_model(&w);
		w.laps = 200;
		run_all(&w, locker, TASKS);
		check_counts(&w, TASKS);
		now[i] = model_boot_cpu(w.m)->now_ps;
		close_model(&w);
	}
	assert_int_equal(now[0], now[1]);
}

/* Task 0 has the lock for long; the others come one after the other, and get it so. */
static void queues(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;
	unsigned me = index_of(w, t);
	uint64_t on_cpu;

	if (!me) {
		folio_lock(c, w->f[0]);
		c->m->ops->sleep_ns(c, 100000);
		folio_unlock(c, w->f[0]);
		w->held_until_ps = c->now_ps;
		return;
	}
	c->m->ops->sleep_ns(c, 1000 * me);
	on_cpu = t->cpu_time_ps;
	if (me == 3) {
		folio_wait_locked(c, w->f[0]);
		assert_int_equal(frame_refcount(w->f[0]), 1);
	} else {
		folio_lock(c, w->f[0]);
		assert_false(folio_trylock(c, w->f[0]));
		w->order[w->nr_order++] = me;
		busy(c, US);
		folio_unlock(c, w->f[0]);
	}
	w->woken_ps[me] = c->now_ps;
	assert_true(t->cpu_time_ps - on_cpu < 20 * US); /* it has slept, not spun */
}

static void test_order_and_sleep(void **state)
{
	struct world w;

	(void)state;
	open_model(&w);
	run_all(&w, queues, 6);
	assert_int_equal(w.nr_order, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(w.order[i], i + 1 + (i >= 2));
	assert_true(w.held_until_ps >= 100 * US);
	/* who only waits goes on with the first unlock */
	assert_true(w.woken_ps[3] < w.woken_ps[2] && w.woken_ps[3] >= 100 * US);
	close_model(&w);
}

/* Task 0 migrates f[0]: the others find its entry in the table; then it frees it. */
static void entry_waiters(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;
	unsigned me = index_of(w, t);

	if (!me) {
		folio_lock(c, w->f[0]);
		c->m->ops->sleep_ns(c, 50000);
		assert_int_equal(frame_refcount(w->f[0]), 1); /* nobody's reference is in the way */
		folio_unlock(c, w->f[0]);
		return;
	}
	c->m->ops->sleep_ns(c, me == 1 ? 80000 : 1000 * me);
	machine_lock(c, &w->table->ptl);
	folio_wait_entry(c, w->f[0], w->table);
	w->at_once[me] = c->now_ps < 50 * US;
	w->woken_ps[me] = c->now_ps;
	machine_lock(c, &w->table->ptl); /* it was let go of */
	machine_unlock(c, &w->table->ptl);
}

static void test_entries(void **state)
{
	struct world w;

	(void)state;
	open_model(&w);
	run_all(&w, entry_waiters, 4);
	for (unsigned i = 1; i < 4; i++)
		assert_false(w.at_once[i]);
	assert_in_range(w.woken_ps[2], 50 * US, 70 * US);
	assert_in_range(w.woken_ps[3], 50 * US, 70 * US);
	assert_in_range(w.woken_ps[1], 80 * US, 90 * US); /* not locked any more: at once */
	close_model(&w);
}

/* Writeback outlasts the lock; waiters of both kinds on one queue. */
static void writes_back(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;
	unsigned me = index_of(w, t);

	if (!me) {
		folio_lock(c, w->f[0]);
		folio_start_writeback(c, w->f[0]);
		c->m->ops->sleep_ns(c, 30000);
		folio_unlock(c, w->f[0]);
		c->m->ops->sleep_ns(c, 30000);
		folio_end_writeback(c, w->f[0]);
		return;
	}
	c->m->ops->sleep_ns(c, 1000 * me);
	if (me % 2) {
		folio_wait_writeback(c, w->f[0]);
		assert_false(folio_writeback(w->f[0]));
	} else {
		folio_lock(c, w->f[0]);
		folio_unlock(c, w->f[0]);
	}
	w->woken_ps[me] = c->now_ps;
}

static void test_writeback(void **state)
{
	struct world w;

	(void)state;
	open_model(&w);
	run_all(&w, writes_back, 5);
	for (unsigned i = 1; i < 5; i++)
		assert_in_range(w.woken_ps[i], (i % 2 ? 60 : 30) * US, (i % 2 ? 75 : 45) * US);
	close_model(&w);
}

/* Somebody else's wake-up, meant for later, does not end a wait. */
static void stray(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;
	unsigned me = index_of(w, t);

	if (me == 0) {
		folio_lock(c, w->f[0]);
		c->m->ops->sleep_ns(c, 50000);
		w->held_until_ps = c->now_ps;
		folio_unlock(c, w->f[0]);
	} else if (me == 1) {
		c->m->ops->sleep_ns(c, 10000);
		folio_lock(c, w->f[0]);
		w->woken_ps[1] = c->now_ps;
		folio_unlock(c, w->f[0]);
	} else {
		c->m->ops->sleep_ns(c, 20000);
		c->m->ops->wake(c, &w->task[1]);
	}
}

static void test_stray_wake(void **state)
{
	struct world w;

	(void)state;
	open_model(&w);
	run_all(&w, stray, 3);
	assert_true(w.woken_ps[1] >= w.held_until_ps && w.held_until_ps >= 50 * US);
	close_model(&w);
}

/* ---- every kind of interleaving, at random ---- */

static void entries_scheduled(struct cpu *c, struct task *t)
{
	struct world *w = t->arg;

	if (index_of(w, t) == 0) {
		for (unsigned i = 0; i < 3; i++) {
			folio_lock(c, w->f[0]);
			machine_touch(c, PAGE_SIZE, 8, TOUCH_READ);
			folio_unlock(c, w->f[0]);
		}
		return;
	}
	locker(c, t);
	machine_lock(c, &w->table->ptl);
	folio_wait_entry(c, w->f[0], w->table);
}

static void test_schedules(void **state)
{
	struct machine_desc d = tiny_desc(1, 4);
	struct model_options o = { .seed = 1, .scheduled = true };
	static struct schedule s;
	char err[200] = "";

	(void)state;
	for (unsigned seed = 1; seed <= 150; seed++) {
		struct world w = { .laps = 4 };

		assert_int_equal(model_create(&d, &o, &w.m, err, sizeof(err)), 0);
		boot(&w);
		s = (struct schedule){ .strategy = seed % 2 ? SCHEDULE_RANDOM : SCHEDULE_PCT, .seed = seed, .depth = 3, .length = 400 };
		model_schedule(w.m, &s);
		run_all(&w, entries_scheduled, 4);
		assert_false(s.no_progress);
		check_counts(&w, 3);
		model_schedule(w.m, NULL);
		close_model(&w);
	}
}

/* ---- trylock fails on demand ---- */

static void test_trylock(void **state)
{
	struct world w = { 0 };
	struct inject *in;
	char err[200] = "";
	struct cpu *c;

	(void)state;
	assert_int_equal(null_create(&(struct null_options){ .nr_cpus = 1 }, &w.m, err, sizeof(err)), 0);
	boot(&w);
	c = w.m->cpus[0];
	assert_int_equal(inject_attach(w.m, 1, &in), 0);
	assert_int_equal(inject_set(in, INJECT_TRYLOCK, INJECT_NTH, 2), 0);
	assert_true(folio_trylock(c, w.f[0]));
	assert_true(folio_locked(w.f[0]));
	assert_false(folio_trylock(c, w.f[1]));
	assert_false(folio_locked(w.f[1]));
	assert_true(folio_trylock(c, w.f[1]));
	assert_false(folio_trylock(c, w.f[1]));
	folio_unlock(c, w.f[0]);
	folio_unlock(c, w.f[1]);
	inject_detach(in);
	folio_wait_locked(c, w.f[0]);
	machine_lock(c, &w.table->ptl);
	folio_wait_entry(c, w.f[0], w.table);
	unboot(&w, c);
	null_destroy(w.m);
}

/* ---- threads: what the lock guards is plain memory, which ThreadSanitizer watches ---- */

static void test_threads(void **state)
{
	struct world w = { .laps = 2000 };
	char err[200] = "";

	(void)state;
	assert_int_equal(host_create(&(struct host_options){ .memory = 128 << 20, .nr_cpus = TASKS + 1 }, &w.m, err, sizeof(err)), 0);
	boot(&w);
	run_all(&w, locker, TASKS);
	check_counts(&w, TASKS);
	unboot(&w, w.m->cpus[0]);
	host_destroy(w.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exclusion_and_same_again),
		cmocka_unit_test(test_order_and_sleep),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_writeback),
		cmocka_unit_test(test_stray_wake),
		cmocka_unit_test(test_schedules),
		cmocka_unit_test(test_trylock),
		cmocka_unit_test(test_threads),
	};

	return test_run(tests);
}
