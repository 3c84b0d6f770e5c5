/*
 * Folio locks (rules in folio_lock.h).
 *
 * Invariants
 *  L1 Whoever is on a queue has, under its lock, set FRAME_WAITERS and found the bit that he waits for set, in one atomic operation on the
 *     flags. Whoever clears the bit does so, in one atomic operation too, only if FRAME_WAITERS is not set, and goes through
 *     the queue otherwise. So nobody waits for a bit that is clear.
 *  L2 Only under the queue's lock does a waiter leave the queue, is told so, and is woken. He looks under that lock: so when he knows,
 *     nobody will touch him or his task any more.
 *  L3 A folio that is unlocked with waiters for the lock stays locked: it is the first one's.
 *  L4 After all waiters of a folio have left its queue, FRAME_WAITERS is clear.
 *  L5 While a folio is waited for without a reference it is locked, by somebody who has one, who wakes all when he unlocks it.
 */
#include "mm/folio_lock.h"

#include "base/assert.h"
#include "mm/pagetable.h"
#include "mm/swap.h"
#include "mm/system.h"

/*
 * How often somebody else's wake-up may end a wait: each sort of caller wakes a task once before it has seen the last one. Beyond it
 * whoever should unlock the folio can't run (the null machine goes on as if woken).
 */
#define STRAY_WAKES_MAX 65536U

struct folio_waiter {
	struct list_head link;
	struct frame *folio;
	struct task *task;
	uint64_t bit;     /* FRAME_LOCKED or FRAME_WRITEBACK */
	bool wants_lock;  /* and is to have the lock */
	bool done;
};

static struct folio_waitq *waitq_of(struct cpu *c, const struct frame *f)
{
	uint64_t h = frame_pfn(c->m, f).v * 0x9e3779b97f4a7c15ULL;

	return &c->q->folio_waitq[h >> 58];
}

_Static_assert(FOLIO_WAIT_QUEUES == 1 << (64 - 58), "the hash has as many values");

void folio_waitq_init(struct quire *q)
{
	for (unsigned i = 0; i < FOLIO_WAIT_QUEUES; i++) {
		struct folio_waitq *wq = &q->folio_waitq[i];

		mlock_init(&wq->lock, RANK_FOLIO_WAIT, machine_pa(q->m, &wq->lock));
		list_init(&wq->waiters);
	}
}

static bool any_waiter(const struct folio_waitq *wq, const struct frame *f)
{
	const struct folio_waiter *w;

	list_for_each_entry(w, &wq->waiters, link)
		if (w->folio == f)
			return true;
	return false;
}

/*
 * wq's lock held. Onto the queue, if the bit is set. Otherwise false; who wants the lock has it then.
 */
static bool enqueue(struct cpu *c, struct folio_waitq *wq, struct folio_waiter *w)
{
	uint64_t set = FRAME_WAITERS | (w->wants_lock ? FRAME_LOCKED : 0);

	frame_touch(c, w->folio, TOUCH_ATOMIC);
	if (__atomic_fetch_or(&w->folio->flags, set, __ATOMIC_ACQUIRE) & w->bit) {
		ASSERT(c->current);
		w->task = c->current;
		list_add_tail(&w->link, &wq->waiters);
		return true;
	}
	if (!any_waiter(wq, w->folio))
		frame_clear(w->folio, FRAME_WAITERS);
	return false;
}

/* The queue's lock is not held, nor any other spinlock. */
static void sleep_until_done(struct cpu *c, struct folio_waitq *wq, const struct folio_waiter *w)
{
	uint64_t since = phase_begin(c);
	bool done = false;

	for (unsigned n = 0; !done; n++) {
		ASSERT(n < STRAY_WAKES_MAX);
		c->m->ops->block(c);
		machine_lock(c, &wq->lock);
		done = w->done;
		machine_unlock(c, &wq->lock);
	}
	phase_end(c, PHASE_WAIT, since);
}

static void wait_on(struct cpu *c, struct folio_waiter *w)
{
	struct folio_waitq *wq = waitq_of(c, w->folio);
	bool queued;

	machine_lock(c, &wq->lock);
	queued = enqueue(c, wq, w);
	machine_unlock(c, &wq->lock);
	if (queued)
		sleep_until_done(c, wq, w);
}

/* `bit` is over: hand the lock to the first who wants it, or clear the bit; all others that waited for it go on. */
ATTR_NOINLINE static void finish_slow(struct cpu *c, struct frame *f, uint64_t bit)
{
	struct folio_waitq *wq = waitq_of(c, f);
	struct folio_waiter *w, *tmp, *next = NULL;
	bool left = false;

	machine_lock(c, &wq->lock);
	list_for_each_entry(w, &wq->waiters, link) {
		if (w->folio != f)
			continue;
		if (w->bit == bit && w->wants_lock && !next)
			next = w;
		else
			left |= w->bit != bit || w->wants_lock;
	}
	frame_touch(c, f, TOUCH_ATOMIC);
	__atomic_and_fetch(&f->flags, ~((next ? 0 : bit) | (left ? 0 : FRAME_WAITERS)), __ATOMIC_RELEASE);
	list_for_each_entry_safe(w, tmp, &wq->waiters, link) {
		if (w->folio != f || w->bit != bit || (w->wants_lock && w != next))
			continue;
		list_del(&w->link);
		w->done = true;
		c->m->ops->wake(c, w->task);
	}
	machine_unlock(c, &wq->lock);
}

static void finish(struct cpu *c, struct frame *f, uint64_t bit)
{
	uint64_t flags = frame_flags(f);

	ASSERT(flags & bit);
	while (!(flags & FRAME_WAITERS)) {
		if (__atomic_compare_exchange_n(&f->flags, &flags, flags & ~bit, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
			frame_touch(c, f, TOUCH_ATOMIC);
			return;
		}
	}
	finish_slow(c, f, bit);
}

static bool try_lock(struct cpu *c, struct frame *f)
{
	ASSERT_DEBUG(!(frame_flags(f) & FRAME_TAIL));
	frame_touch(c, f, TOUCH_ATOMIC);
	return !(__atomic_fetch_or(&f->flags, FRAME_LOCKED, __ATOMIC_ACQUIRE) & FRAME_LOCKED);
}

void folio_lock(struct cpu *c, struct frame *f)
{
	if (!try_lock(c, f))
		wait_on(c, &(struct folio_waiter){ .folio = f, .bit = FRAME_LOCKED, .wants_lock = true });
}

bool folio_trylock(struct cpu *c, struct frame *f)
{
	return !machine_inject(c, INJECT_TRYLOCK, 0) && try_lock(c, f);
}

void folio_unlock(struct cpu *c, struct frame *f)
{
	finish(c, f, FRAME_LOCKED);
}

static void wait_bit(struct cpu *c, struct frame *f, uint64_t bit)
{
	frame_touch(c, f, TOUCH_READ);
	if (!(__atomic_load_n(&f->flags, __ATOMIC_ACQUIRE) & bit))
		return;
	frame_get(c, f);
	wait_on(c, &(struct folio_waiter){ .folio = f, .bit = bit });
	frame_put(c, f);
}

void folio_wait_locked(struct cpu *c, struct frame *f)
{
	wait_bit(c, f, FRAME_LOCKED);
}

void folio_wait_entry(struct cpu *c, struct frame *f, struct frame *table)
{
	struct folio_waiter w = { .folio = f, .bit = FRAME_LOCKED };
	struct folio_waitq *wq = waitq_of(c, f);
	bool queued;

	machine_lock(c, &wq->lock);
	queued = enqueue(c, wq, &w);
	machine_unlock(c, &wq->lock);
	pt_unlock(c, table);
	if (queued)
		sleep_until_done(c, wq, &w);
}

void folio_start_writeback(struct cpu *c, struct frame *f)
{
	ASSERT_DEBUG(folio_locked(f) && !folio_writeback(f));
	frame_touch(c, f, TOUCH_ATOMIC);
	frame_set(f, FRAME_WRITEBACK);
}

void folio_end_writeback(struct cpu *c, struct frame *f)
{
	finish(c, f, FRAME_WRITEBACK);
}

void folio_wait_writeback(struct cpu *c, struct frame *f)
{
	if (frame_flags(f) & FRAME_SWAPCACHE) { /* whose transfers end at a time: nobody will wake us */
		folio_wait_transfer(c, f);
		return;
	}
	wait_bit(c, f, FRAME_WRITEBACK);
}
