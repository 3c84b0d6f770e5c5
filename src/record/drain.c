/*
 * From rings to the sink: looks at every ring in turn, hands over full chunks at once and the rest when it has waited a
 * while, writes W_EXIT for threads that could not write it themselves, gives emptied rings free. Invariants in ring.h.
 *
 * Order: a pass first notes how far each known ring is, then looks for new streams and hands over their beginnings,
 * then hands over what it noted. So a child's stream is known to the sink before any word that its parent wrote after
 * it began (R5).
 */
#define _GNU_SOURCE
#include "record/record_int.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREAD_WORDS 8
#define PARTIAL_NS (100 * NS_PER_MS)
#define DOOMED_NS (5 * NS_PER_S)
#define UNRECORDED_NS (100 * NS_PER_MS)

uint64_t record_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

int drain_init(struct drain *d, const struct session *s, struct trace_sink *sink)
{
	*d = (struct drain){ .shared = s->shared, .sink = sink };
	procs_init(&d->procs, s->first);
	d->rings = calloc(s->shared->nr_rings, sizeof(*d->rings));
	return d->rings ? 0 : -ENOMEM;
}

void drain_done(struct drain *d)
{
	procs_done(&d->procs);
	free(d->rings);
	d->rings = NULL;
}

static uint32_t state_of(const struct drain *d, unsigned i)
{
	return __atomic_load_n(&d->shared->state[i], __ATOMIC_ACQUIRE);
}

static void give(struct drain *d, uint64_t stream, const uint64_t *words, size_t nr)
{
	int e;

	if (d->error || !nr)
		return;
	e = d->sink->block(d->sink, (uint32_t)stream, words, nr);
	d->words += nr;
	if (e < 0) {
		d->error = e;
		__atomic_store_n(&d->shared->off, 1, __ATOMIC_RELAXED);
	}
}

/* The program may write anywhere in its address space, so also here: nonsense is taken as no news. */
static uint64_t head_of(const struct drain *d, unsigned i)
{
	uint64_t head = __atomic_load_n(&ring_at(d->shared, i)->head, __ATOMIC_ACQUIRE);
	uint64_t taken = d->rings[i].taken;

	return head >= taken && head - taken <= d->shared->ring_words ? head : taken;
}

/* Hand over words up to head: whole chunks, or, with `all`, everything. True: some. */
static bool flush(struct drain *d, unsigned i, uint64_t head, bool all)
{
	struct drain_ring *dr = &d->rings[i];
	struct ring *r = ring_at(d->shared, i);
	uint64_t chunk = d->shared->chunk_words, mask = d->shared->ring_words - 1;
	bool moved = false;

	while (dr->taken < head) {
		uint64_t end = (dr->taken / chunk + 1) * chunk, n = MIN(head, end) - dr->taken;

		if (head < end && !all)
			break;
		give(d, dr->stream, ring_words(r) + (dr->taken & mask), n);
		dr->taken += n;
		__atomic_store_n(&r->tail, dr->taken, __ATOMIC_RELEASE);
		moved = true;
	}
	if (dr->taken == head)
		dr->since_ns = 0;
	return moved;
}

static int by_stream(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (x[0] > y[0]) - (x[0] < y[0]);
}

static void open_stream(struct drain *d, unsigned i)
{
	struct ring *r = ring_at(d->shared, i);
	struct proc *p = procs_add(&d->procs, r->pid);

	d->rings[i] = (struct drain_ring){ .open = true, .stream = r->stream, .pid = r->pid };
	d->streams++;
	d->execs += r->how == THREAD_EXEC;
	if (p)
		p->rings++;
	if (r->how == THREAD_FIRST || r->how == THREAD_FORK || r->how == THREAD_VFORK)
		d->processes++;
	/* The W_THREAD only: what follows may already speak of streams that this pass has not found. */
	flush(d, i, THREAD_WORDS, true);
}

/* New streams, lowest number first. */
static bool find_new(struct drain *d)
{
	uint64_t found[RING_MAX][2];
	size_t n = 0;

	for (unsigned i = 0; i < d->shared->nr_rings; i++) {
		uint32_t st = d->rings[i].open ? RING_FREE : state_of(d, i);

		if (st != RING_FREE && st != RING_CLAIMED) {
			found[n][0] = ring_at(d->shared, i)->stream;
			found[n++][1] = i;
		}
	}
	qsort(found, n, sizeof(found[0]), by_stream);
	for (size_t k = 0; k < n; k++)
		open_stream(d, (unsigned)found[k][1]);
	return n > 0;
}

static void count(const struct ring *r, uint64_t head, uint64_t *refs, uint64_t *insns, uint64_t *syscalls)
{
	*refs += head > r->control ? head - r->control : 0;
	*insns += r->insns_done;
	*syscalls += r->syscalls;
}

static void put_exit(struct drain *d, uint64_t stream, uint32_t how, uint64_t status, uint64_t ticket)
{
	uint64_t w[3] = { word_control(W_EXIT, 2, how), ticket ? ticket : ring_ticket(d->shared), status };

	give(d, stream, w, ARRAY_SIZE(w));
}

static void note_doomed(struct drain *d, const struct ring *r)
{
	if (r->doomed_ns)
		d->aborted++;
}

/* The ring's owner was gone or done when the pass began: everything out, the ring free. */
static void close_stream(struct drain *d, unsigned i, uint32_t state)
{
	struct ring *r = ring_at(d->shared, i);
	struct drain_ring *dr = &d->rings[i];
	struct proc *p = procs_find(&d->procs, dr->pid);
	uint64_t head = MAX(dr->seen_head, dr->taken);

	flush(d, i, head, true);
	if (state == RING_EXECED)
		put_exit(d, dr->stream, r->exit_how, r->exit_status, r->exit_ticket);
	else if (state == RING_LIVE && r->unrecorded_ns) {
		/* Its execve did not come back: another image lived and died between two looks of drain_watch. */
		d->unrecorded++;
		put_exit(d, dr->stream, EXIT_EXEC, 0, 0);
	} else if (state == RING_LIVE) {
		note_doomed(d, r);
		put_exit(d, dr->stream, p && p->known ? p->how : EXIT_UNKNOWN, p && p->known ? p->status : 0, 0);
	} else if (p && !p->known && r->exit_how == EXIT_PROCESS) {
		p->known = true;
		p->how = EXIT_PROCESS;
		p->status = r->exit_status;
	}
	count(r, head, &d->refs, &d->insns, &d->syscalls);
	if (p && --p->rings == 0 && p->gone)
		procs_drop(&d->procs, p);
	*dr = (struct drain_ring){ 0 };
	__atomic_store_n(&d->shared->state[i], RING_FREE, __ATOMIC_RELEASE);
}

bool drain_pass(struct drain *d, uint64_t now_ns, bool all)
{
	unsigned n = d->shared->nr_rings;
	bool moved = false;

	for (unsigned i = 0; i < n; i++) {
		if (!d->rings[i].open)
			continue;
		/* In this order: of a stream that has ended, the head is its last. */
		d->rings[i].seen_state = state_of(d, i);
		d->rings[i].seen_head = head_of(d, i);
	}
	moved |= find_new(d);
	for (unsigned i = 0; i < n; i++) {
		struct drain_ring *dr = &d->rings[i];
		struct proc *p;

		if (!dr->open || dr->seen_state == RING_FREE) /* the latter: found in this pass */
			continue;
		if (dr->seen_head > dr->taken && !dr->since_ns)
			dr->since_ns = now_ns;
		moved |= flush(d, i, MAX(dr->seen_head, dr->taken), all || now_ns - dr->since_ns > PARTIAL_NS);
		p = procs_find(&d->procs, dr->pid);
		if (dr->seen_state != RING_LIVE || (p && p->gone)) {
			close_stream(d, i, dr->seen_state);
			moved = true;
		}
	}
	return moved;
}

/* Has the process left the emulator? Its program file says so. */
static bool left_emulator(const struct drain *d, pid_t pid)
{
	char path[64], exe[PATH_MAX], qemu[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	n = readlink(path, exe, sizeof(exe) - 1);
	if (n <= 0 || !realpath(d->shared->qemu, qemu))
		return false;
	exe[n] = '\0';
	return strcmp(exe, qemu) != 0;
}

/* What needs no haste: the emulator's hang in a fragile process, images that went on outside the recorder. */
void drain_watch(struct drain *d, uint64_t now_ns)
{
	for (unsigned i = 0; i < d->shared->nr_rings; i++) {
		struct ring *r = ring_at(d->shared, i);

		if (!d->rings[i].open || state_of(d, i) != RING_LIVE)
			continue;
		if (r->doomed_ns && now_ns > r->doomed_ns + DOOMED_NS) {
			d->hung++;
			if (d->rings[i].pid > 1) /* it comes from memory that a wild store of the program can reach */
				kill(d->rings[i].pid, SIGKILL);
			r->doomed_ns = 0;
		}
		if (r->unrecorded_ns && now_ns > r->unrecorded_ns + UNRECORDED_NS && left_emulator(d, r->pid)) {
			/* The owner is gone; the next pass closes the stream. */
			r->exit_how = EXIT_EXEC;
			r->exit_status = 0;
			r->exit_ticket = ring_ticket(d->shared);
			d->unrecorded++;
			__atomic_store_n(&d->shared->state[i], RING_EXECED, __ATOMIC_RELEASE);
		}
	}
}

unsigned drain_live(const struct drain *d)
{
	unsigned n = 0;

	for (unsigned i = 0; i < d->shared->nr_rings; i++)
		n += d->rings[i].open;
	return n;
}

void drain_totals(const struct drain *d, struct record_result *ret)
{
	ret->refs = d->refs;
	ret->insns = d->insns;
	ret->syscalls = d->syscalls;
	ret->streams = d->streams;
	ret->execs = d->execs;
	ret->processes = d->processes;
	ret->lost = d->lost + d->shared->lost_threads;
	for (unsigned i = 0; i < d->shared->nr_rings; i++)
		if (d->rings[i].open)
			count(ring_at(d->shared, i), head_of(d, i), &ret->refs, &ret->insns, &ret->syscalls);
}
