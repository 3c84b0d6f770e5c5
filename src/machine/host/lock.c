/*
 * Locks between threads. Whoever waits is quiescent first: a flusher that holds the lock need not wait for it (shootdown.c S7).
 *
 * A spinlock is a futex lock in one word: it is spun for a few microseconds, then slept on, because the holder may have lost its
 * CPU. (Lock words of page tables lie in their descriptors; a wake-up that comes late may reach a word that is used for something
 * else by now, which is harmless, since all sleepers look again.)
 *
 * A reader-writer lock keeps its readers a CPU: a reader writes the lock's address into a slot of its own CPU and then looks
 * whether a writer is there, so that threads that fault write no shared line. A writer takes the lock's word and then waits until
 * no CPU has the lock in a slot. A reader that meets a writer queues on the word like a writer, so neither side starves.
 *   mrwlock.seq    the word, as of a spinlock: held by a writer throughout, by a queued reader for a moment
 *   mrwlock.state  CPU number + 1 of a writer that sleeps until readers leave, else 0
 * A reader leaves without a fence. So a writer that is about to sleep issues a membarrier after it has written `state`: a reader
 * either is seen to have left, or sees `state` when it leaves. Ranks are checked in debug builds.
 */
#include "machine/host/host_int.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOCK_SPINS 200   /* pauses before sleeping: some 10 us */
#define WRITER_SPINS 400

void host_futex_wait(uint32_t *w, uint32_t v, uint64_t ns)
{
	struct timespec ts = { .tv_sec = (time_t)(ns / 1000000000ULL), .tv_nsec = (long)(ns % 1000000000ULL) };

	syscall(__NR_futex, w, FUTEX_WAIT_PRIVATE, v, ns == UINT64_MAX ? NULL : &ts, NULL, 0);
}

void host_futex_wake(uint32_t *w, int n)
{
	syscall(__NR_futex, w, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

static bool word_try(uint32_t *w)
{
	uint32_t free = 0;

	/* Sequentially consistent for host_write_lock, which looks for readers next. */
	return __atomic_compare_exchange_n(w, &free, 1, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

ATTR_NOINLINE static unsigned word_lock_slow(uint32_t *w)
{
	unsigned sleeps = 0;

	for (unsigned i = 0; i < LOCK_SPINS; i++) {
		if (!__atomic_load_n(w, __ATOMIC_RELAXED) && word_try(w))
			return 0;
		cpu_relax();
	}
	while (__atomic_exchange_n(w, 2, __ATOMIC_SEQ_CST)) {
		host_futex_wait(w, 2, UINT64_MAX);
		sleeps++;
	}
	return sleeps;
}

unsigned host_word_lock(uint32_t *w)
{
	return likely(word_try(w)) ? 0 : word_lock_slow(w);
}

void host_word_unlock(uint32_t *w)
{
	if (unlikely(__atomic_exchange_n(w, 0, __ATOMIC_RELEASE) == 2))
		host_futex_wake(w, 1);
}

/* ---- ranks ---- */

#ifdef QUIRE_DEBUG
/* tried: a trylock cannot deadlock, so its rank may be anything. */
static void hold(struct cpu *c, const void *lock, uint16_t rank, bool tried)
{
	struct host_cpu *h = host_cpu(c);

	ASSERT(rank < NR_LOCK_RANKS && c->lock_depth < HOST_MAX_HELD);
	for (unsigned i = 0; i < c->lock_depth; i++)
		ASSERT(h->held[i].lock != lock);
	if (c->lock_depth && !tried) {
		uint16_t last = h->held[c->lock_depth - 1].rank;

		ASSERT(rank > last || (rank == last && (rank == RANK_MMAP_LOCK || rank == RANK_PTL)));
	}
	h->held[c->lock_depth].lock = lock;
	h->held[c->lock_depth].rank = rank;
	c->lock_depth++;
}

static void release(struct cpu *c, const void *lock)
{
	struct host_cpu *h = host_cpu(c);
	unsigned i = c->lock_depth;

	while (i > 0 && h->held[i - 1].lock != lock)
		i--;
	ASSERT(i > 0);
	for (; i < c->lock_depth; i++)
		h->held[i - 1] = h->held[i];
	c->lock_depth--;
}
#else
#define hold(c, lock, rank, tried) ((void)0)
#define release(c, lock) ((void)0)
#endif

/* ---- spinlocks ---- */

void host_lock(struct cpu *c, struct mlock *l)
{
	hold(c, l, l->rank, false);
	if (likely(word_try(&l->state)))
		return;
	host_quiesce(host_cpu(c));
	host_cpu(c)->stats.lock_sleeps += word_lock_slow(&l->state);
}

bool host_trylock(struct cpu *c, struct mlock *l)
{
	if (!word_try(&l->state))
		return false;
	hold(c, l, l->rank, true);
	(void)c;
	return true;
}

void host_unlock(struct cpu *c, struct mlock *l)
{
	ASSERT_DEBUG(__atomic_load_n(&l->state, __ATOMIC_RELAXED));
	release(c, l);
	(void)c;
	host_word_unlock(&l->state);
}

/* ---- reader-writer locks ---- */

static const struct mrwlock **read_slot(struct host_cpu *h, const struct mrwlock *l)
{
	for (unsigned i = 0; i < HOST_READ_SLOTS; i++)
		if (__atomic_load_n(&h->reading[i], __ATOMIC_RELAXED) == l)
			return &h->reading[i];
	/* No free slot, or a lock that is not held. */
	quire_bug(__FILE__, __LINE__, "reader's slot");
}

static void reader_left(struct host_cpu *h, const struct mrwlock *l, const struct mrwlock **slot)
{
	uint64_t writer;

	__atomic_store_n(slot, NULL, __ATOMIC_RELEASE);
	compiler_barrier();
	writer = __atomic_load_n(&l->state, __ATOMIC_RELAXED);
	if (unlikely(writer && writer <= h->c.m->nr_cpus)) {
		struct host_cpu *w = h->hm->cpu[writer - 1];

		__atomic_add_fetch(&w->rw_wake, 1, __ATOMIC_RELEASE);
		host_futex_wake(&w->rw_wake, 1);
	}
}

/* A writer is there: wait in its queue. */
ATTR_NOINLINE static void read_lock_slow(struct host_cpu *h, struct mrwlock *l, const struct mrwlock **slot)
{
	reader_left(h, l, slot);
	host_quiesce(h);
	h->stats.lock_sleeps += host_word_lock(&l->seq);
	__atomic_store_n(slot, l, __ATOMIC_RELAXED);
	host_word_unlock(&l->seq);
}

void host_read_lock(struct cpu *c, struct mrwlock *l)
{
	struct host_cpu *h = host_cpu(c);
	const struct mrwlock **slot = read_slot(h, NULL);

	hold(c, l, l->rank, false);
	(void)__atomic_exchange_n(slot, l, __ATOMIC_SEQ_CST);
	if (unlikely(__atomic_load_n(&l->seq, __ATOMIC_SEQ_CST)))
		read_lock_slow(h, l, slot);
}

void host_read_unlock(struct cpu *c, struct mrwlock *l)
{
	struct host_cpu *h = host_cpu(c);

	release(c, l);
	reader_left(h, l, read_slot(h, l));
}

static bool has_reader(const struct host_cpu *h, const struct mrwlock *l)
{
	for (unsigned i = 0; i < HOST_READ_SLOTS; i++)
		if (__atomic_load_n(&h->reading[i], __ATOMIC_SEQ_CST) == l)
			return true;
	return false;
}

/* Sleep until h no longer reads. */
static void await_reader(struct host_cpu *me, const struct host_cpu *h, struct mrwlock *l)
{
	for (unsigned spin = 0; spin < WRITER_SPINS; spin++) {
		if (!has_reader(h, l))
			return;
		cpu_relax();
	}
	__atomic_store_n(&l->state, me->c.id + 1, __ATOMIC_SEQ_CST);
	host_barrier();
	for (;;) {
		uint32_t before = __atomic_load_n(&me->rw_wake, __ATOMIC_ACQUIRE);

		if (!has_reader(h, l))
			break;
		me->stats.lock_sleeps++;
		host_futex_wait(&me->rw_wake, before, UINT64_MAX);
	}
	__atomic_store_n(&l->state, 0, __ATOMIC_RELAXED);
}

void host_write_lock(struct cpu *c, struct mrwlock *l)
{
	struct host_cpu *h = host_cpu(c);
	unsigned used;

	hold(c, l, l->rank, false);
	host_quiesce(h);
	h->stats.lock_sleeps += host_word_lock(&l->seq);
	/* After the lock: a CPU that is new since cannot have found it free. */
	used = __atomic_load_n(&h->hm->nr_used, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < used; i++)
		if (unlikely(has_reader(h->hm->cpu[i], l)))
			await_reader(h, h->hm->cpu[i], l);
}

void host_write_unlock(struct cpu *c, struct mrwlock *l)
{
	release(c, l);
	(void)c;
	host_word_unlock(&l->seq);
}

void host_downgrade(struct cpu *c, struct mrwlock *l)
{
	struct host_cpu *h = host_cpu(c);

	__atomic_store_n(read_slot(h, NULL), l, __ATOMIC_RELAXED);
	host_word_unlock(&l->seq);
}
