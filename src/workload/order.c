/*
 * Who must wait for whom. A recording gives every system call's entry and return a ticket from one counter, so the order in which
 * things happened is known; replay keeps the part of it that is a dependency and lets the modelled machine decide the rest:
 *
 *   O1 A call that waited (futex, pipe, child's exit, vfork) returns after the event that ended the wait has been replayed: an
 *      event on the same key whose entry ticket lies above the waiter's entry ticket.
 *   O2 When every other live stream is known to be past the waiter's return ticket, the waker was outside the recording: go on.
 *   O3 A call that takes memory away (munmap, mremap, ...) happens after the other threads of its process have passed those of their
 *      tickets that are known to be lower.
 *   O4 A reference to memory that is not there waits while another thread of its process may still make it.
 *   O5 A call that waited for one of many things (poll and its kind) while other threads of its process were at work most likely
 *      waited for them: it returns when they have passed their tickets below its return's. Only when none of them is at work
 *      did it wait for the outside, and the recorded time is replayed (replay_sys.c).
 *   O6 When all live streams wait, the one with the lowest ticket goes on (it is the one that went on in the recording).
 * By O6 there is always progress, also for a damaged or invented recording.
 */
#include "workload/replay_int.h"

#include <errno.h>
#include <stdlib.h>

static bool key_equal(struct order_key a, struct order_key b)
{
	return a.kind == b.kind && a.a == b.a && a.b == b.b;
}

static size_t key_hash(struct order_key k)
{
	uint64_t h = (k.a * 0x9e3779b97f4a7c15ULL) ^ (k.b * 0xc2b2ae3d27d4eb4fULL) ^ ((uint64_t)k.kind << 59);

	h ^= h >> 29;
	h *= 0xbf58476d1ce4e5b9ULL;
	return (size_t)(h ^ (h >> 32));
}

int order_init(struct order *o)
{
	list_init(&o->waiters);
	o->cap = 1024;
	o->used = 0;
	o->ev = calloc(o->cap, sizeof(*o->ev));
	return o->ev ? 0 : -ENOMEM;
}

void order_done(struct order *o)
{
	free(o->ev);
	o->ev = NULL;
}

/* The slot of key: its own, or the empty one where it belongs. Tickets start at 1, so ticket 0 marks an empty slot. */
static struct order_event *slot(const struct order *o, struct order_key k)
{
	size_t i = key_hash(k) & (o->cap - 1);

	while (o->ev[i].ticket && !key_equal(o->ev[i].key, k))
		i = (i + 1) & (o->cap - 1);
	return &o->ev[i];
}

static int grow(struct order *o)
{
	struct order bigger = { .cap = o->cap * 2, .used = o->used };

	bigger.ev = calloc(bigger.cap, sizeof(*bigger.ev));
	if (!bigger.ev)
		return -ENOMEM;
	for (size_t i = 0; i < o->cap; i++)
		if (o->ev[i].ticket)
			*slot(&bigger, o->ev[i].key) = o->ev[i];
	free(o->ev);
	o->ev = bigger.ev;
	o->cap = bigger.cap;
	return 0;
}

static void let_go(struct cpu *c, struct replay_stream *s)
{
	ASSERT_DEBUG(s->waiting);
	s->waiting = false;
	s->rp->order_waiting--;
	list_del(&s->wait_link);
	if (c->current != &s->task) /* else it has not gone to sleep yet */
		c->m->ops->wake(c, &s->task);
}

void order_event(struct cpu *c, struct replay *rp, struct order_key key, uint64_t ticket)
{
	struct order_event *e;
	struct replay_stream *s, *tmp;

	if (!ticket)
		return;
	model_sync(c); /* the walk below is one action: wakes let nobody in between */
	e = slot(&rp->order, key);
	if (!e->ticket) {
		if (rp->order.used * 2 >= rp->order.cap) {
			if (grow(&rp->order)) {
				replay_fail(rp, -ENOMEM, "out of memory for the order of %zu events", rp->order.used);
				return;
			}
			e = slot(&rp->order, key);
		}
		rp->order.used++;
		e->key = key;
	}
	e->ticket = MAX(e->ticket, ticket);
	list_for_each_entry_safe(s, tmp, &rp->order.waiters, wait_link)
		if (key_equal(s->wait_key, key) && ticket > s->wait_from)
			let_go(c, s);
}

/* O2: can a stream still replay anything with a ticket below `until`? */
static bool may_still_come(const struct replay *rp, const struct replay_stream *waiter, uint64_t until)
{
	const struct replay_stream *s;

	list_for_each_entry(s, &rp->streams, link) {
		if (s == waiter || s->ended)
			continue;
		if (!s->started || (s->passed < until && (s->next == 0 || s->next < until)))
			return true;
	}
	return false;
}

/* O3: has some other thread of the process a known ticket below `ticket` still before it? */
static bool process_behind(const struct replay_stream *me, uint64_t ticket)
{
	const struct replay_stream *s;

	list_for_each_entry(s, &me->rp->streams, link)
		if (s != me && s->started && !s->ended && s->proc == me->proc && s->next && s->next < ticket)
			return true;
	return false;
}

/* O4: is the address still unknown, and some other thread of the process at a place from which it may yet make it known? */
static bool area_may_come(const struct replay_stream *me, uint64_t addr)
{
	const struct replay_stream *s;

	if (reloc_find(&me->proc->map, addr))
		return false;
	list_for_each_entry(s, &me->rp->streams, link)
		if (s != me && s->started && !s->ended && s->proc == me->proc && (!s->next || !me->next || s->next < me->next))
			return true;
	return false;
}

/* O5: has some other thread of the process tickets below `ticket` before it, for all that is known? */
static bool process_may_be_behind(const struct replay_stream *me, uint64_t ticket)
{
	const struct replay_stream *s;

	list_for_each_entry(s, &me->rp->streams, link)
		if (s != me && s->started && !s->ended && s->proc == me->proc && (s->next ? s->next : s->passed) < ticket)
			return true;
	return false;
}

static bool worked_between(const struct replay_stream *s, uint64_t from, uint64_t until)
{
	for (unsigned i = 0; i < MIN(s->nr_work, (unsigned)WORK_STRETCHES); i++)
		if (s->work[i].after < until && s->work[i].before > from)
			return true;
	return false;
}

bool order_others_at_work(const struct replay_stream *me, uint64_t from, uint64_t until)
{
	const struct replay_stream *s;

	list_for_each_entry(s, &me->rp->streams, link)
		if (s != me && s->started && (s->proc == me->proc || s->last_proc == me->proc->id) &&
		    ((!s->ended && !s->waiting && !s->thinking) || worked_between(s, from, until)))
			return true;
	return false;
}

static bool satisfied(const struct replay_stream *s)
{
	if (s->wait_key.kind == ORDER_TICKET)
		return !process_may_be_behind(s, s->wait_until);
	if (s->wait_key.kind == ORDER_AREA)
		return !area_may_come(s, s->wait_key.a);
	if (s->wait_key.kind == ORDER_MM)
		return !process_behind(s, s->wait_until);
	return slot(&s->rp->order, s->wait_key)->ticket > s->wait_from || !may_still_come(s->rp, s, s->wait_until);
}

/* O6. */
static void release_lowest(struct cpu *c, struct replay *rp)
{
	struct replay_stream *s, *low = NULL;

	list_for_each_entry(s, &rp->order.waiters, wait_link)
		if (!low || s->wait_until < low->wait_until || (s->wait_until == low->wait_until && s->nr < low->nr))
			low = s;
	if (low) {
		low->released = true;
		rp->res->order_released++;
		let_go(c, low);
	}
}

void order_progress(struct cpu *c, struct replay *rp)
{
	struct replay_stream *s, *tmp;

	if (list_empty(&rp->order.waiters))
		return;
	model_sync(c);
	list_for_each_entry_safe(s, tmp, &rp->order.waiters, wait_link)
		if (satisfied(s))
			let_go(c, s);
	if (rp->order_waiting && rp->order_waiting + rp->sleeping >= rp->live && !rp->sleeping)
		release_lowest(c, rp);
}

static struct cpu *wait_for(struct cpu *c, struct replay_stream *s)
{
	struct replay *rp = s->rp;

	s->released = false;
	while (!s->released && !satisfied(s) && !rp->m->stop && !rp->error) {
		s->waiting = true;
		rp->order_waiting++;
		list_add_tail(&s->wait_link, &rp->order.waiters);
		order_progress(c, rp); /* we may be the last one that ran: O6, and it may be us */
		while (s->waiting && !rp->m->stop)
			c = machine_wait(c, UINT64_MAX);
		if (s->waiting) { /* the run is being stopped */
			s->waiting = false;
			rp->order_waiting--;
			list_del(&s->wait_link);
		}
	}
	return c;
}

struct cpu *order_wait(struct cpu *c, struct replay_stream *s, struct order_key key, uint64_t from, uint64_t until)
{
	s->wait_key = key;
	s->wait_from = from;
	s->wait_until = until;
	return wait_for(c, s);
}

struct cpu *order_wait_process(struct cpu *c, struct replay_stream *s, uint64_t ticket)
{
	return order_wait(c, s, (struct order_key){ .kind = ORDER_MM, .a = s->proc->id }, 0, ticket);
}

struct cpu *order_wait_area(struct cpu *c, struct replay_stream *s, uint64_t addr)
{
	return order_wait(c, s, (struct order_key){ .kind = ORDER_AREA, .a = addr }, 0, s->next ? s->next : ~0ULL);
}
