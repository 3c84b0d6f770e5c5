/*
 * Shootdown between threads: quiescence, requests, acknowledgement, and membarrier as the last resort.
 *
 * Words of a CPU h and who writes them
 *   in_access  owner   1 while it may be using a translation
 *   seen       owner   the request number that it has dealt with; NONE while quiescent (private: nobody else reads it)
 *   state      owner   QUIESCENT or ACTIVE, for flushers
 *   ack        owner   the last request number that was applied while active
 *   req        flushers (under mail.lock)  number of the last request; read by the owner at each access
 *   mail       flushers and owner, under mail.lock: what to drop
 *
 * Invariants
 *  S1 The owner uses a translation only between in_access = 1 and in_access = 0, and only after it has, inside, read req and found
 *     it equal to seen. Walks of the page tables are accesses too.
 *  S2 seen is NONE whenever state is QUIESCENT, so the first access after a quiescent time goes through host_sync.
 *  S3 The owner writes state = ACTIVE before it reads req (both sequentially consistent); a flusher writes req before it reads
 *     state. So either the flusher sees ACTIVE and waits, or the owner sees the request before it uses a translation.
 *  S4 Applied means: every entry named is gone from the TLB, and whatever access was in progress when the request was made has
 *     ended, because the owner applies requests only at the begin of a later access, and stores ack with release.
 *  S5 After a membarrier that was issued after req was written: an access that began before it is visible as in_access == 1, and
 *     an access that begins after it reads the new req. So in_access == 0, or a change of it seen later, is an acknowledgement.
 *  S6 host_flush_remote returns when each target was seen QUIESCENT (S3), had ack >= its request (S4), or in_access == 0 after the
 *     barrier (S5). From then on no target uses an entry that was dropped, nor has a store through one that is not yet visible.
 *  S7 A flusher is itself quiescent while it waits, and so is whoever waits for a lock: no two wait for each other.
 *
 * Progress: a thread that makes accesses acknowledges at the next one; one that makes none is told apart by the membarrier; one that
 * was preempted inside an access gets the CPU by sched_yield. docs/shootdown.md has the same in prose, tests/spin/shootdown.pml as
 * a model. QUIRE_MUTANT_NO_WAIT leaves the waiting out, for the test that proves that tests notice.
 */
#include "machine/host/host_int.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define POLL_SPINS 40   /* pauses before a membarrier: half a microsecond or two; a thread at its accesses needs a third of that */
#define YIELD_SPINS 50   /* pauses between two sched_yields, where only an access in progress is waited for */

int host_barrier_register(void)
{
	return syscall(__NR_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ? -errno : 0;
}

void host_barrier(void)
{
	long rc = syscall(__NR_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);

	/* Registered at creation; without it S5 would not hold. */
	ASSERT(!rc);
}

/* ---- receiving ---- */

static void apply(struct host_cpu *h)
{
	struct host_mail *mail = &h->mail;
	struct tlb_flush flush[HOST_MAIL];
	unsigned nr;
	uint64_t req;
	bool all;

	host_word_lock(&mail->lock);
	req = __atomic_load_n(&h->req, __ATOMIC_RELAXED);
	nr = mail->nr;
	all = mail->all;
	for (unsigned i = 0; i < nr; i++)
		flush[i] = mail->flush[i];
	mail->nr = 0;
	mail->all = false;
	host_word_unlock(&mail->lock);
	if (all)
		host_tlb_flush_all(h);
	for (unsigned i = 0; i < nr && !all; i++)
		host_tlb_flush(h, &flush[i]);
	h->stats.requests += req - h->done;
	h->done = req;
}

ATTR_NOINLINE void host_sync(struct host_cpu *h)
{
	if (h->seen == HOST_SEEN_NONE)
		(void)__atomic_exchange_n(&h->state, HOST_ACTIVE, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&h->req, __ATOMIC_SEQ_CST) != h->done)
		apply(h);
	h->seen = h->done;
	__atomic_store_n(&h->ack, h->done, __ATOMIC_RELEASE);
}

/* ---- sending ---- */

/* Put the request into the target's mail. Returns its number. */
static uint64_t post(struct host_cpu *h, const struct tlb_flush *f)
{
	struct host_mail *mail = &h->mail;
	uint64_t req;

	host_word_lock(&mail->lock);
	if (f->full || mail->nr == HOST_MAIL)
		mail->all = true;
	else
		mail->flush[mail->nr++] = *f;
	req = __atomic_add_fetch(&h->req, 1, __ATOMIC_SEQ_CST);
	host_word_unlock(&mail->lock);
	return req;
}

static bool is_quiescent(const struct host_cpu *h)
{
	return __atomic_load_n(&h->state, __ATOMIC_SEQ_CST) == HOST_QUIESCENT;
}

static bool has_acked(const struct host_cpu *h, uint64_t req)
{
	return __atomic_load_n(&h->ack, __ATOMIC_ACQUIRE) >= req;
}

struct wait {
	struct host_cpu *h;
	uint64_t req;
};

/* Wait a bounded time for those in w[]. Who has acknowledged leaves the array; returns how many are left. */
static unsigned poll_targets(struct host_stats *s, struct wait *w, unsigned nr)
{
	for (unsigned spin = 0; nr && spin < POLL_SPINS; spin++) {
		unsigned left = 0;

		for (unsigned i = 0; i < nr; i++) {
			if (has_acked(w[i].h, w[i].req) || is_quiescent(w[i].h))
				s->targets_polled++;
			else
				w[left++] = w[i];
		}
		nr = left;
		cpu_relax();
	}
	return nr;
}

/* S5: after the barrier only accesses that are still in progress matter. */
static void barrier_targets(struct host_stats *s, const struct wait *w, unsigned nr)
{
	host_barrier();
	s->barriers++;
	for (unsigned i = 0; i < nr; i++) {
		const struct host_cpu *h = w[i].h;

		for (unsigned spin = 1; __atomic_load_n(&h->in_access, __ATOMIC_ACQUIRE) && !has_acked(h, w[i].req) && !is_quiescent(h);
		     spin++) {
			if (spin % YIELD_SPINS)
				cpu_relax();
			else
				sched_yield();
		}
	}
}

static void wait_for(struct host_cpu *me, struct wait *w, unsigned nr)
{
#ifdef QUIRE_MUTANT_NO_WAIT
	(void)me, (void)w, (void)nr, (void)poll_targets, (void)barrier_targets;
#else
	if (me->hm->shootdown == HOST_SHOOTDOWN_POLL)
		nr = poll_targets(&me->stats, w, nr);
	if (nr)
		barrier_targets(&me->stats, w, nr);
#endif
}

void host_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote)
{
	struct host_cpu *me = host_cpu(c);
	struct wait w[HOST_MAX_CPUS];
	unsigned id, nr = 0, remote = 0;

	host_quiesce(me); /* S7 */
	me->stats.flushes++;
	for_each_cpu(id, targets, c->m->nr_cpus) {
		struct host_cpu *h = me->hm->cpu[id];
		uint64_t req;

		if (id == c->id) {
			host_tlb_flush(h, f);
			continue;
		}
		req = post(h, f);
		if (is_quiescent(h)) {
			me->stats.targets_idle++;
		} else {
			w[nr++] = (struct wait){ .h = h, .req = req };
			remote++;
		}
		me->stats.targets++;
	}
	wait_for(me, w, nr);
	*ret_remote = remote;
}
