/* Recordings made by hand, for the tests of replay: streams of words in memory behind the source interface. */
#ifndef QUIRE_TESTS_REPLAY_TESTING_H
#define QUIRE_TESTS_REPLAY_TESTING_H

#include "tiny_machine.h"

#include "mm/lru.h"
#include "trace/word.h"
#include "workload/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HAND_STREAMS 16
#define HAND_BLOCK 64 /* words a block at most: small, so that block boundaries are met often */

#define EXE 0x4000000000ULL
#define STACK_TOP 0x4000900000ULL
#define ANON 0x4001000000ULL

struct hand_stream {
	uint64_t *w;
	size_t nr, cap;
};

struct hand {
	struct trace_source s;
	struct hand_stream st[HAND_STREAMS];
	unsigned nr;
	uint64_t ticket, now_ns;
};

struct trace_cursor {
	size_t pos[HAND_STREAMS];
};

static inline void put(struct hand *h, unsigned st, uint64_t w)
{
	struct hand_stream *s = &h->st[st];

	if (s->nr == s->cap) {
		s->cap = s->cap ? s->cap * 2 : 256;
		s->w = realloc(s->w, s->cap * sizeof(*s->w));
		assert_non_null(s->w);
	}
	s->w[s->nr++] = w;
}

static inline void control(struct hand *h, unsigned st, enum word_type t, uint64_t arg, unsigned n, const uint64_t *pay)
{
	put(h, st, word_control(t, n, arg));
	for (unsigned i = 0; i < n; i++)
		put(h, st, pay[i]);
}

#define CONTROL(h, st, type, arg, ...)                                                                                 \
	control(h, st, type, (uint64_t)(arg), sizeof((uint64_t[]){ __VA_ARGS__ }) / 8, (uint64_t[]){ __VA_ARGS__ })

/* Returns the entry ticket. */
static inline uint64_t call_enter(struct hand *h, unsigned st, unsigned nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3,
				  uint64_t a4, uint64_t a5)
{
	uint64_t t = ++h->ticket;

	CONTROL(h, st, W_SYSCALL, nr, t, a0, a1, a2, a3, a4, a5, h->now_ns);
	return t;
}

static inline void call_return(struct hand *h, unsigned st, unsigned nr, int64_t ret, uint64_t took_ns)
{
	h->now_ns += took_ns;
	CONTROL(h, st, W_SYSRET, nr, ++h->ticket, (uint64_t)ret, h->now_ns, 0);
}

static inline void rec_mmap(struct hand *h, unsigned st, uint64_t at, uint64_t len)
{
	call_enter(h, st, 9, 0, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0);
	call_return(h, st, 9, (int64_t)at, 1000);
}

static inline void rec_munmap(struct hand *h, unsigned st, uint64_t at, uint64_t len)
{
	call_enter(h, st, 11, at, len, 0, 0, 0, 0);
	call_return(h, st, 11, 0, 1000);
}

/* One reference a page. */
static inline void rec_touch(struct hand *h, unsigned st, uint64_t at, uint64_t len, bool store)
{
	for (uint64_t o = 0; o < len; o += PAGE_SIZE)
		put(h, st, word_ref(at + o, 3, store, 4));
}

static inline void rec_exit(struct hand *h, unsigned st, enum exit_how how)
{
	CONTROL(h, st, W_EXIT, how, ++h->ticket, 0);
}

static inline void rec_thread(struct hand *h, unsigned st, uint64_t pid, uint64_t tid, uint64_t parent, uint64_t clone_ticket,
			      uint64_t flags, enum thread_how how)
{
	h->nr = st >= h->nr ? st + 1 : h->nr;
	CONTROL(h, st, W_THREAD, st, ++h->ticket, pid, tid, parent, clone_ticket, flags, how);
}

static inline void rec_image(struct hand *h, unsigned st)
{
	CONTROL(h, st, W_EXEC, 0, ++h->ticket, 0, STACK_TOP - 64);
	CONTROL(h, st, W_NAME, 8, 0x6b6c617461746174ULL);
	CONTROL(h, st, W_AREA, AREA_EXE, EXE, 0x4000, PROT_READ | PROT_EXEC, 1, 77, 0, 0x6000);
	CONTROL(h, st, W_AREA, AREA_EXE, EXE + 0x4000, 0x3000, PROT_READ | PROT_WRITE, 0, 0, 0, 0);
	CONTROL(h, st, W_AREA, AREA_STACK, STACK_TOP - (8 << 20), 8 << 20, PROT_READ | PROT_WRITE, 0, 0, 0, 0);
}

/* A first stream with its image. */
static inline struct hand *hand_new(void);

static int hand_cursor_open(struct trace_source *s, struct trace_cursor **ret)
{
	(void)s;
	*ret = calloc(1, sizeof(**ret));
	return *ret ? 0 : -ENOMEM;
}

static void hand_cursor_close(struct trace_source *s, struct trace_cursor *cur)
{
	(void)s;
	free(cur);
}

/* Whole items, copied, so that a sanitizer sees a read beyond the block or after its put. */
static int hand_next(struct trace_source *s, struct trace_cursor *cur, uint32_t st, struct trace_block *ret)
{
	struct hand *h = (struct hand *)(void *)s;
	size_t from = cur->pos[st], n = from;
	uint64_t *copy;

	while (n < h->st[st].nr) {
		uint64_t w = h->st[st].w[n];
		size_t item = w & WORD_CONTROL ? 1 + word_payload(w) : 1;

		if (n > from && n - from + item > HAND_BLOCK)
			break;
		n += item;
	}
	if (n == from)
		return 0;
	copy = malloc((n - from) * sizeof(*copy));
	assert_non_null(copy);
	memcpy(copy, h->st[st].w + from, (n - from) * sizeof(*copy));
	cur->pos[st] = n;
	*ret = (struct trace_block){ copy, n - from, copy };
	return 1;
}

static void hand_put(struct trace_source *s, struct trace_cursor *cur, struct trace_block *b)
{
	(void)s;
	(void)cur;
	free(b->priv);
}

static bool hand_has_stream(struct trace_source *s, struct trace_cursor *cur, uint32_t st)
{
	(void)cur;
	return st < ((struct hand *)(void *)s)->nr;
}

static void hand_close(struct trace_source *s)
{
	struct hand *h = (struct hand *)(void *)s;

	for (unsigned i = 0; i < HAND_STREAMS; i++)
		free(h->st[i].w);
	free(h);
}

static inline struct hand *hand_new(void)
{
	static const struct trace_source_ops ops = { hand_cursor_open, hand_cursor_close, hand_next, hand_put, hand_has_stream,
						     hand_close };
	struct hand *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->s.ops = &ops;
	h->s.name = "by hand";
	h->now_ns = 1000000;
	rec_thread(h, 0, 100, 100, ~0ULL, 0, 0, THREAD_FIRST);
	rec_image(h, 0);
	return h;
}

/* What a replay came to. */
struct outcome {
	struct replay_result r;
	int64_t counter[NR_VM_COUNTERS];
	int error;
	char err[200];
	int64_t free_before, free_after; /* frames; what slabs and the huge zero page keep counts as free */
};

static inline struct outcome replay_hand(struct hand *h, unsigned cores, const struct replay_options *o)
{
	struct machine *m = tiny_machine(1, cores);
	struct quire *q = NULL;
	struct outcome out = { 0 };

	assert_int_equal(quire_boot(m, NULL, &q, out.err, sizeof(out.err)), 0);
	pcp_drain(model_boot_cpu(m));
	out.free_before = (int64_t)memory_free_pages(q, NID_NONE) + vmstat_read(q, VM_nr_slab_pages);
	out.error = replay_run(q, &h->s, o, &out.r, out.err, sizeof(out.err));
	lru_add_drain_all(model_boot_cpu(m));
	for (unsigned i = 0; i < m->nr_cpus; i++)
		pcp_drain(m->cpus[i]);
	out.free_after = (int64_t)memory_free_pages(q, NID_NONE) + vmstat_read(q, VM_nr_slab_pages) +
			 (q->huge_zero ? HPAGE_PMD_NR : 0);
	for (int k = 0; k < NR_VM_COUNTERS; k++)
		out.counter[k] = vmstat_read(q, (enum vm_counter)k);
	if (quire_validate(q))
		fail_msg("%s", q->err);
	if (quire_shutdown(q))
		fail_msg("address spaces were left over");
	model_destroy(m);
	return out;
}

#endif
