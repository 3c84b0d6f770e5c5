/*
 * Rings from the owner's side: claiming one for a thread, waiting for room, writing words. Invariants R1 to R4 of
 * ring.h. Only a ring's owner calls these for it, so there are no locks.
 */
#define _GNU_SOURCE
#include "record/plugin/plugin.h"

#include "trace/check.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_ROUNDS 2000
#define PAUSE_FIRST_US 50
#define PAUSE_LONGEST_US 400
#define CLAIM_ROUNDS 500 /* of a millisecond, for a ring to become free */
#define DRAIN_CHECK_ROUNDS 2500 /* about a second of pauses between looks whether quire is still there */

void plugin_pause_us(unsigned us)
{
	struct timespec ts = { .tv_nsec = (long)us * 1000 };

	syscall(SYS_nanosleep, &ts, NULL);
}

uint64_t plugin_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static bool drain_gone(const struct ring_shared *s)
{
	return kill(s->drain_pid, 0) < 0 && errno == ESRCH;
}

/* Acquire the chunk that begins at chunk_end (R4), or, when nobody reads, use the last one again. */
static void next_chunk(struct ring *r)
{
	struct ring_shared *s = own.shared;
	uint64_t need = r->chunk_end + s->chunk_words - s->ring_words;
	unsigned us = PAUSE_FIRST_US;

	for (unsigned round = 0; !r->discard && !__atomic_load_n(&s->off, __ATOMIC_RELAXED); round++) {
		if ((int64_t)(__atomic_load_n(&r->tail, __ATOMIC_ACQUIRE) - need) >= 0) {
			r->chunk_end += s->chunk_words;
			r->limit = r->chunk_end;
			return;
		}
		if (round < SPIN_ROUNDS) {
			__builtin_ia32_pause();
			continue;
		}
		plugin_pause_us(us);
		us = MIN(us * 2, (unsigned)PAUSE_LONGEST_US);
		if (round % DRAIN_CHECK_ROUNDS == 0 && drain_gone(s))
			r->discard = 1;
	}
	r->head = r->chunk_end - s->chunk_words;
	r->limit = r->chunk_end;
}

uint64_t *ring_room(struct ring *r, unsigned n)
{
	if (r->head + n > r->chunk_end) {
		uint64_t pad = r->chunk_end - r->head;

		for (uint64_t i = 0; i < pad; i++)
			ring_words(r)[(r->head + i) & r->mask] = word_control(W_NOP, 0, 0);
		r->control += pad;
		__atomic_store_n(&r->head, r->chunk_end, __ATOMIC_RELEASE);
		next_chunk(r);
	}
	return &ring_words(r)[r->head & r->mask];
}

void ring_commit(struct ring *r, unsigned n)
{
	r->control += n;
	__atomic_store_n(&r->head, r->head + n, __ATOMIC_RELEASE);
}

void ring_put(struct ring *r, enum word_type type, uint64_t arg, const uint64_t *payload, unsigned n)
{
	uint64_t *w = ring_room(r, n + 1);

	w[0] = word_control(type, n, arg);
	for (unsigned i = 0; i < n; i++)
		w[i + 1] = payload[i];
	ring_commit(r, n + 1);
}

void ring_put_name(struct ring *r, const char *text)
{
	size_t len = strnlen(text, 255 * 8);
	unsigned n = (unsigned)(len + 7) / 8;
	uint64_t *w = ring_room(r, n + 1);

	w[0] = word_control(W_NAME, n, len);
	if (n)
		w[n] = 0;
	memcpy(w + 1, text, len);
	ring_commit(r, n + 1);
}

static void put_insns(struct ring *r, uint64_t n)
{
	for (uint64_t part; n; n -= part) {
		part = MIN(n, WORD_INSNS_LONG);
		ring_put(r, W_INSNS, part, NULL, 0);
	}
}

void ring_flush_insns(struct ring *r)
{
	uint64_t now = MAX(r->insns_begin + r->insns_block, r->insns_done), n = now - r->insns_done;

	r->insns_done = now;
	put_insns(r, n);
}

/* The chunk is full, the image is not described yet, or the count does not fit into the word. */
void ring_ref_slow(struct ring *r, uint64_t ref, uint64_t insns)
{
	if (!own.image_described)
		image_describe(r, word_addr(ref));
	r->limit = r->chunk_end;
	if (insns > WORD_INSNS_MAX) {
		put_insns(r, insns - WORD_INSNS_MAX);
		insns = WORD_INSNS_MAX;
	}
	if (r->head == r->chunk_end)
		next_chunk(r);
	ring_words(r)[r->head & r->mask] = ref | insns << WORD_INSNS_SHIFT;
	__atomic_store_n(&r->head, r->head + 1, __ATOMIC_RELEASE);
}

/* No ring is free, and none became free: the thread runs on, unrecorded, into memory that nobody reads. */
static struct ring *private_ring(void)
{
	struct ring_shared *s = own.shared;
	struct ring *r = mmap(NULL, s->stride, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			      -1, 0);

	__atomic_add_fetch(&s->lost_threads, 1, __ATOMIC_RELAXED);
	if (r == MAP_FAILED)
		_exit(127); /* no memory for a thread's few pages: the program could not go on either */
	r->discard = 1;
	return r;
}

static bool take(uint32_t *state)
{
	uint32_t want = RING_FREE;

	return __atomic_load_n(state, __ATOMIC_RELAXED) == RING_FREE &&
	       __atomic_compare_exchange_n(state, &want, RING_CLAIMED, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static struct ring *claim(void)
{
	struct ring_shared *s = own.shared;

	for (int round = 0; round < CLAIM_ROUNDS; round++) {
		for (unsigned i = 0; i < s->nr_rings; i++) {
			struct ring *r = ring_at(s, i);

			if (!take(&s->state[i]))
				continue;
			memset(r, 0, sizeof(*r));
			r->index = i;
			return r;
		}
		if (s->off || drain_gone(s))
			break;
		plugin_pause_us(1000);
	}
	return private_ring();
}

struct ring *stream_open(enum thread_how how, uint64_t parent, uint64_t clone_ticket, uint64_t clone_flags)
{
	struct ring_shared *s = own.shared;
	struct ring *r = claim();

	r->pid = getpid();
	r->tid = (int32_t)syscall(SYS_gettid);
	r->parent = parent;
	r->clone_ticket = clone_ticket;
	r->clone_flags = clone_flags;
	r->how = how;
	r->mask = s->ring_words - 1;
	r->chunk_end = r->limit = s->chunk_words;
	r->stream = r->discard ? RING_NO_STREAM : __atomic_fetch_add(&s->next_stream, 1, __ATOMIC_SEQ_CST);
	ring_put(r, W_THREAD, r->stream,
		 (uint64_t[]){ ring_ticket(s), (uint64_t)r->pid, (uint64_t)r->tid, parent, clone_ticket, clone_flags, how }, 7);
	if (!own.image_described)
		r->limit = r->head; /* the first reference takes the slow path */
	if (!r->discard)
		__atomic_store_n(&s->state[r->index], RING_LIVE, __ATOMIC_RELEASE);
	if (clone_ticket)
		__atomic_store_n(&s->announced[clone_ticket % RING_ANNOUNCE], clone_ticket, __ATOMIC_RELEASE);
	__atomic_add_fetch(&own.live_threads, 1, __ATOMIC_RELAXED);
	return r;
}

/* The calling thread ends; it executes no further block. */
void stream_close(struct ring *r, enum exit_how how, uint64_t status)
{
	struct ring_shared *s = own.shared;

	ring_put(r, W_EXIT, how, (uint64_t[]){ ring_ticket(s), status }, 2);
	r->exit_how = how;
	r->exit_status = status;
	__atomic_sub_fetch(&own.live_threads, 1, __ATOMIC_RELAXED);
	if (r->stream == RING_NO_STREAM)
		munmap(r, s->stride);
	else
		__atomic_store_n(&s->state[r->index], RING_ENDED, __ATOMIC_RELEASE);
}
