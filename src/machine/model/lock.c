/*
 * Locks in virtual time. Taking and releasing are synchronisation points (sched.c), so that what looks uncontended is uncontended:
 * nobody who is further behind could still have come first.
 *
 *   mlock    a queued spinlock: the CPU spins, first come first served; state is the holder's CPU id + 1
 *   mrwlock  sleeps; first come first served, but readers at the head of the queue go together; nobody overtakes the queue, so
 *            neither side starves. state: readers, MRW_WRITER, number of waiters. (Linux's optimistic spinning is not modelled.)
 *
 * Prices: one locked access to the lock's line to take it, one more after a wait (the line comes from the one who released), a
 * store to release a spinlock, a locked access to release a sleeping one. Waiting of a spinning CPU is booked under
 * PATH_LOCK_WAIT; a CPU that spins takes interrupts. Waiting of a sleeping task costs no CPU time and is counted only.
 *
 * Outside of tasks (boot, teardown) nothing can wait: a lock must be free, or its holder abandoned by a run that ended early.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/model/schedule_int.h"

#include <stdio.h>

#define MRW_READERS 0x3fffffffULL
#define MRW_WRITER (1ULL << 30)
#define MRW_WAITER (1ULL << 32)
#define MRW_WAITERS(state) ((state) >> 32)

const char *sched_rank_name(unsigned rank)
{
	static const char *const name[NR_LOCK_RANKS] = {
		[RANK_MMLIST] = "mmlist", [RANK_MMAP_LOCK] = "mmap_lock", [RANK_FOLIO] = "folio",
		[RANK_HUGETLB] = "hugetlb", [RANK_I_MMAP] = "i_mmap", [RANK_ANON_VMA] = "anon_vma", [RANK_FILE] = "file", [RANK_PTL] = "ptl",
		[RANK_FOLIO_WAIT] = "folio_wait", [RANK_SWAP_CACHE] = "swap_cache", [RANK_SWAP] = "swap",
		[RANK_SWAP_CLUSTER] = "swap_cluster", [RANK_LRU] = "lru", [RANK_SLAB] = "slab", [RANK_ZONE] = "zone",
	};

	return rank < NR_LOCK_RANKS ? name[rank] : "lock";
}

static struct sched_lock_stat *stat_of(struct cpu *c, unsigned rank)
{
	return &model_of(c)->sched.lock[rank < NR_LOCK_RANKS ? rank : NR_LOCK_RANKS - 1];
}

static void count_wait(struct sched_lock_stat *ls, uint64_t ps)
{
	ls->contended++;
	ls->wait_ps += ps;
	ls->max_wait_ps = MAX(ls->max_wait_ps, ps);
}

/* ---- order of ranks, in debug builds ---- */

#ifdef QUIRE_DEBUG
static struct sched_held *held_sleeping(struct cpu *c)
{
	return c->current ? &sched_task(c->current)->held : &model_cpu(c)->sched.held;
}

static unsigned count_rank(const struct sched_held *h, unsigned rank, unsigned *max)
{
	unsigned same = 0;

	for (unsigned i = 0; i < h->nr; i++) {
		*max = MAX(*max, h->rank[i] + 1U);
		same += h->rank[i] == rank;
	}
	return same;
}

static void check_order(struct cpu *c, unsigned rank)
{
	const struct sched_held *spin = &model_cpu(c)->sched.held, *sleep = held_sleeping(c);
	unsigned limit = rank == RANK_MMAP_LOCK || rank == RANK_PTL ? 1 : 0, max = 0, same;
	char line[96];

	same = count_rank(spin, rank, &max);
	if (sleep != spin)
		same += count_rank(sleep, rank, &max);
	if (max <= rank || (max == rank + 1 && same <= limit))
		return;
	snprintf(line, sizeof(line), "lock order: %s taken while %s is held", sched_rank_name(rank),
		 sched_rank_name(max - 1));
	quire_bug(__FILE__, __LINE__, line);
}

static void held_add(struct sched_held *h, unsigned rank)
{
	ASSERT(h->nr < SCHED_MAX_HELD);
	h->rank[h->nr++] = (uint16_t)rank;
}

static void held_del(struct sched_held *h, unsigned rank)
{
	unsigned i = h->nr;

	while (i && h->rank[i - 1] != rank)
		i--;
	ASSERT(i); /* released what was not held */
	for (h->nr--; i <= h->nr; i++)
		h->rank[i - 1] = h->rank[i];
}

#define rank_check(c, l) check_order(c, (l)->rank)
#define spin_held(c, l) held_add(&model_cpu(c)->sched.held, (l)->rank)
#define spin_released(c, l) held_del(&model_cpu(c)->sched.held, (l)->rank)
#define sleep_held(c, l) held_add(held_sleeping(c), (l)->rank)
#define sleep_released(c, l) held_del(held_sleeping(c), (l)->rank)
#else
#define rank_check(c, l) ((void)0)
#define spin_held(c, l) ((void)0)
#define spin_released(c, l) ((void)0)
#define sleep_held(c, l) ((void)0)
#define sleep_released(c, l) ((void)0)
#endif

static void touch_line(struct cpu *c, paddr_t pa, enum touch_kind kind)
{
	if (unlikely(model_of(c)->sched.schedule != NULL))
		schedule_point(c, kind == TOUCH_ATOMIC ? POINT_ATOMIC : POINT_CHARGE);
	else if (pa)
		core_touch(c, pa, 8, kind);
}

/* ---- spinlocks ---- */

static void spin(struct cpu *c, struct mlock *l)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	uint64_t since = c->now_ps;
	enum machine_path path = core_work(c, PATH_LOCK_WAIT, 0);

	ASSERT(l->state != c->id + 1); /* spins on a lock that it holds */
	sc->spin_lock = l;
	list_add_tail(&sc->spin_link, &model_of(c)->sched.spinners);
	l->waiters++;
	touch_line(c, l->pa, TOUCH_ATOMIC); /* joins the queue; the lock may be handed over meanwhile */
	sched_park(c, PARK_SPIN);
	ASSERT(l->state == c->id + 1);
	touch_line(c, l->pa, TOUCH_ATOMIC);
	count_wait(stat_of(c, l->rank), c->now_ps - since);
	(void)core_work(c, path, 0);
}

void sched_lock(struct cpu *c, struct mlock *l)
{
	struct model *md = model_of(c);

	rank_check(c, l);
	sched_sync(c);
	if (!l->state || (!sched_on_fiber(c) && md->sched.abandoned)) {
		l->state = c->id + 1;
		touch_line(c, l->pa, TOUCH_ATOMIC);
	} else {
		ASSERT(sched_on_fiber(c)); /* outside of tasks nobody can wait */
		spin(c, l);
	}
	c->lock_depth++;
	spin_held(c, l);
}

bool sched_trylock(struct cpu *c, struct mlock *l)
{
	sched_sync(c);
	if (l->state && (sched_on_fiber(c) || !model_of(c)->sched.abandoned)) {
		touch_line(c, l->pa, TOUCH_READ);
		return false;
	}
	l->state = c->id + 1;
	touch_line(c, l->pa, TOUCH_ATOMIC);
	c->lock_depth++;
	spin_held(c, l);
	return true;
}

void sched_unlock(struct cpu *c, struct mlock *l)
{
	struct sched_cpu *w;

	ASSERT(l->state == c->id + 1 && c->lock_depth);
	touch_line(c, l->pa, TOUCH_WRITE);
	sched_sync(c);
	spin_released(c, l);
	c->lock_depth--;
	l->state = 0;
	if (!l->waiters)
		return;
	list_for_each_entry(w, &model_of(c)->sched.spinners, spin_link) {
		struct cpu *next = &container_of(w, struct model_cpu, sched)->c;

		if (w->spin_lock != l)
			continue;
		list_del(&w->spin_link);
		w->spin_lock = NULL;
		l->waiters--;
		l->state = next->id + 1;
		sched_unpark(next, c->now_ps);
		return;
	}
	l->waiters = 0; /* they were abandoned by a run that ended early */
}

/* ---- sleeping locks ---- */

static bool rw_free(const struct mrwlock *l, bool write)
{
	return write ? !(l->state & (MRW_READERS | MRW_WRITER)) : !(l->state & MRW_WRITER);
}

static void rw_take(struct mrwlock *l, bool write)
{
	if (write)
		l->state |= MRW_WRITER;
	else
		l->state++;
}

/* Hand the lock to the head of its queue: a writer, or the readers up to the next writer. */
static void rw_grant(struct cpu *c, struct mrwlock *l)
{
	struct sched_task *st, *tmp;

	if (!MRW_WAITERS(l->state))
		return;
	list_for_each_entry_safe(st, tmp, &model_of(c)->sched.rw_waiters, rw_link) {
		if (st->rw_lock != l)
			continue;
		if (!rw_free(l, st->rw_write))
			return;
		rw_take(l, st->rw_write);
		l->state -= MRW_WAITER;
		list_del(&st->rw_link);
		st->rw_lock = NULL;
		st->rw_granted = true;
		if (st->t->state == TASK_BLOCKED)
			sched_task_wake(st, c->now_ps);
	}
}

static void rw_wait(struct cpu *c, struct mrwlock *l, bool write)
{
	struct sched_task *st = sched_task(c->current);
	uint64_t since = c->now_ps;

	st->rw_lock = l;
	st->rw_write = write;
	st->rw_granted = false;
	list_add_tail(&st->rw_link, &model_of(c)->sched.rw_waiters);
	l->state += MRW_WAITER;
	touch_line(c, l->pa, TOUCH_ATOMIC); /* joins the queue; the lock may be handed over meanwhile */
	while (!st->rw_granted)
		sched_task_block(c);
	touch_line(c, l->pa, TOUCH_ATOMIC);
	count_wait(stat_of(c, l->rank), c->now_ps - since);
}

static void rw_lock(struct cpu *c, struct mrwlock *l, bool write)
{
	rank_check(c, l);
	sched_sync(c);
	if (!sched_on_fiber(c)) {
		if (model_of(c)->sched.abandoned && (!rw_free(l, write) || MRW_WAITERS(l->state)))
			l->state = 0;
		ASSERT(rw_free(l, write)); /* outside of tasks nobody can wait */
		rw_take(l, write);
		touch_line(c, l->pa, TOUCH_ATOMIC);
	} else if (!MRW_WAITERS(l->state) && rw_free(l, write)) {
		rw_take(l, write);
		touch_line(c, l->pa, TOUCH_ATOMIC);
	} else {
		rw_wait(c, l, write);
	}
	sleep_held(c, l);
}

void sched_read_lock(struct cpu *c, struct mrwlock *l)
{
	rw_lock(c, l, false);
}

void sched_write_lock(struct cpu *c, struct mrwlock *l)
{
	rw_lock(c, l, true);
}

void sched_read_unlock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(l->state & MRW_READERS);
	touch_line(c, l->pa, TOUCH_ATOMIC);
	sched_sync(c);
	sleep_released(c, l);
	l->state--;
	rw_grant(c, l);
}

void sched_write_unlock(struct cpu *c, struct mrwlock *l)
{
	ASSERT(l->state & MRW_WRITER);
	touch_line(c, l->pa, TOUCH_ATOMIC);
	sched_sync(c);
	sleep_released(c, l);
	l->state &= ~MRW_WRITER;
	rw_grant(c, l);
}

void sched_downgrade(struct cpu *c, struct mrwlock *l)
{
	ASSERT(l->state & MRW_WRITER);
	touch_line(c, l->pa, TOUCH_ATOMIC);
	sched_sync(c);
	l->state = (l->state & ~MRW_WRITER) + 1;
	rw_grant(c, l);
}
