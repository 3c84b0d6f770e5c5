/*
 * The null machine's locks, clock and tasks.
 *
 * Only one CPU executes at a time, so a lock that is found taken can never be released by anybody else: it was taken twice, and
 * that is a bug of ours. Each CPU keeps the locks that it holds in the order in which it took them.
 *
 * Lock state: mlock.state is the owner's CPU number + 1, or 0. mrwlock.state is the number of readers in the low half and the
 * writer's CPU number + 1 in the high half.
 */
#include "machine/null_int.h"

#include <errno.h>
#include <stdio.h>

/* tried: a trylock cannot deadlock, so its rank may be anything. */
static void hold(struct cpu *c, const void *lock, uint16_t rank, bool tried)
{
	struct null_cpu *nc = null_cpu(c);

	ASSERT(rank < NR_LOCK_RANKS);
	ASSERT(nc->nr_held < NULL_MAX_HELD);
	for (unsigned i = nc->base; i < nc->nr_held; i++)
		ASSERT(nc->held[i].lock != lock);
	if (nc->nr_held > nc->base && !tried) {
		uint16_t last = nc->held[nc->nr_held - 1].rank;

		/* Two of one rank: fork takes two mmap_locks, mremap and fork two page tables' locks. */
		ASSERT(rank > last || (rank == last && (rank == RANK_MMAP_LOCK || rank == RANK_PTL)));
	}
	nc->held[nc->nr_held].lock = lock;
	nc->held[nc->nr_held].rank = rank;
	nc->nr_held++;
	c->lock_depth++;
}

/* Locks are mostly, but not always, released in reverse order. The order of the others is kept. */
static void release(struct cpu *c, const void *lock)
{
	struct null_cpu *nc = null_cpu(c);
	unsigned i = nc->nr_held;

	while (i > 0 && nc->held[i - 1].lock != lock)
		i--;
	ASSERT(i > 0);
	for (; i < nc->nr_held; i++)
		nc->held[i - 1] = nc->held[i];
	nc->nr_held--;
	c->lock_depth--;
}

unsigned null_locks_held(const struct cpu *c)
{
	return ((const struct null_cpu *)(const void *)c)->nr_held;
}

static void take(struct cpu *c, struct mlock *l, bool tried)
{
	ASSERT(l->state == 0);
	hold(c, l, l->rank, tried);
	l->state = c->id + 1;
	null_of(c)->counts.locks++;
}

void null_lock(struct cpu *c, struct mlock *l)
{
	take(c, l, false);
}

bool null_trylock(struct cpu *c, struct mlock *l)
{
	if (l->state) {
		null_of(c)->counts.failed_trylocks++;
		return false;
	}
	take(c, l, true);
	return true;
}

void null_unlock(struct cpu *c, struct mlock *l)
{
	ASSERT(l->state == c->id + 1);
	release(c, l);
	l->state = 0;
}

static uint32_t writer(const struct mrwlock *l)
{
	return (uint32_t)(l->state >> 32);
}

void null_read_lock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(!writer(l));
	hold(c, l, l->rank, false);
	l->state++;
	null_of(c)->counts.read_locks++;
}

void null_read_unlock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(!writer(l) && l->state > 0);
	release(c, l);
	l->state--;
}

void null_write_lock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(l->state == 0);
	hold(c, l, l->rank, false);
	l->state = (uint64_t)(c->id + 1) << 32;
	null_of(c)->counts.write_locks++;
}

void null_write_unlock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(writer(l) == c->id + 1);
	release(c, l);
	l->state = 0;
}

void null_downgrade(struct cpu *c, struct mrwlock *l)
{
	ASSERT(writer(l) == c->id + 1);
	l->state = 1;
}

/* ---- time ---- */

uint64_t null_now_ns(struct cpu *c)
{
	return c->now_ps / PS_PER_NS;
}

void null_advance_ns(struct machine *m, uint64_t ns)
{
	for (unsigned i = 0; i < m->nr_cpus; i++)
		m->cpus[i]->now_ps += ns * PS_PER_NS;
}

void null_sleep_ns(struct cpu *c, uint64_t ns)
{
	null_of(c)->counts.sleeps++;
	null_advance_ns(c->m, ns);
}

/* ---- tasks ---- */

struct cpu *null_resched(struct cpu *c)
{
	c->need_resched = false;
	return c;
}

/* Runs where its affinity allows, else on the starter's CPU. */
int null_task_start(struct cpu *c, struct task *t)
{
	struct cpu *on = c;
	struct null_machine *nm = null_of(c);

	if (t->affinity) {
		unsigned first = cpumask_next(t->affinity, 0, c->m->nr_cpus);

		if (first == c->m->nr_cpus)
			return -EINVAL;
		if (!cpumask_test(t->affinity, c->id))
			on = c->m->cpus[first];
	}
	t->cpu = on;
	t->state = TASK_RUNNABLE;
	t->seq = nm->next_seq++;
	list_add_tail(&t->link, t->daemon ? &nm->daemons : &nm->runnable);
	nm->counts.tasks_started++;
	return 0;
}

static void switch_to(struct cpu *c, struct task *prev, struct task *next)
{
	c->current = next;
	if (c->m->hooks.context_switch)
		c->m->hooks.context_switch(c, prev, next);
}

/* Take the first runnable task, put it on its CPU and run it to its end. */
static void run_one(const struct list_head *queue)
{
	struct task *t = list_first_entry(queue, struct task, link);
	struct cpu *c = t->cpu;
	struct null_cpu *nc = null_cpu(c);
	struct task *below = c->current;
	enum machine_path path = nc->path;
	unsigned base = nc->base, held = nc->nr_held;

	list_del(&t->link);
	t->state = TASK_RUNNING;
	nc->base = held;
	switch_to(c, below, t);
	t->fn(c, t);
	ASSERT(nc->nr_held == held);
	t->state = TASK_DEAD;
	switch_to(c, t, below);
	nc->base = base;
	nc->path = path;
	if (t->on_exit)
		t->on_exit(t);
}

/* Others run on top of the one that blocks until one of them wakes it. */
void null_block(struct cpu *c)
{
	struct null_machine *nm = null_of(c);
	struct task *t = c->current;

	ASSERT(t);
	t->state = TASK_BLOCKED;
	while (!t->wake_pending && !list_empty(&nm->runnable))
		run_one(&nm->runnable);
	if (!t->wake_pending && !nm->stuck && !t->daemon)
		nm->stuck = t->name ? t->name : "a task";
	t->wake_pending = false;
	t->state = TASK_RUNNING;
}

/* A task that is not blocked finds the wake-up waiting when it blocks, as the contract says. */
void null_wake(struct cpu *c, struct task *t)
{
	null_of(c)->counts.wakes++;
	t->wake_pending = true;
}

int null_run(struct machine *m, char *err, size_t errlen)
{
	struct null_machine *nm = (struct null_machine *)(void *)m;

	m->daemons_stop = false;
	if (m->hooks.run_begin) {
		int res = m->hooks.run_begin(m->cpus[0]);

		if (res) {
			snprintf(err, errlen, "the kernel's daemons could not be started");
			list_init(&nm->daemons);
			return res;
		}
	}
	while (!list_empty(&nm->runnable) && !m->stop)
		run_one(&nm->runnable);
	m->daemons_stop = true;
	while (!list_empty(&nm->daemons))
		run_one(&nm->daemons);
	if (nm->stuck) {
		snprintf(err, errlen, "%s blocked and nobody was left to wake it", nm->stuck);
		nm->stuck = NULL;
		return -EDEADLK;
	}
	return m->stop ? -EINTR : 0;
}
