/*
 * A sink for the recorder's tests: keeps every word, and checks on arrival what holds for any recording: blocks end
 * at whole words, streams begin and end as they should, tickets rise, a child is there before its parent's clone
 * returns. Afterwards rec_undescribed() says how many pages were used that no area, map or break describes.
 */
#ifndef QUIRE_TESTS_RECORD_TESTING_H
#define QUIRE_TESTS_RECORD_TESTING_H

#include "testing.h"

#include "base/compiler.h"
#include "record/record.h"
#include "trace/word.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define REC_STREAMS 1024

struct rec_stream {
	uint64_t *w;
	size_t nr, cap;
	bool ended, in_call;
	uint64_t call, last_ticket;
	uint64_t pid, parent, clone_ticket, how, exit_how, exit_status;
	uint64_t refs, insns;
};

struct rec_sink {
	struct trace_sink sink;
	struct rec_stream *s;
	size_t nr;            /* streams */
	unsigned fail_at;     /* this block, from 1, is refused; 0: none */
	unsigned blocks;
	bool marked;          /* a marker call has come */
	volatile bool stop;   /* set by a progress callback */
};

/* A place in a stream's words; rec_next moves to the next control word or reference. */
struct rec_pos {
	const struct rec_stream *s;
	size_t i;
	uint64_t w;
	const uint64_t *pay;
};

static inline struct rec_pos rec_begin(const struct rec_stream *s)
{
	return (struct rec_pos){ .s = s };
}

static inline bool rec_next(struct rec_pos *p)
{
	if (p->i >= p->s->nr)
		return false;
	p->w = p->s->w[p->i];
	p->pay = p->s->w + p->i + 1;
	p->i += 1 + (p->w & WORD_CONTROL ? word_payload(p->w) : 0);
	return true;
}

static inline bool rec_is(const struct rec_pos *p, enum word_type type)
{
	return p->w & WORD_CONTROL && word_type(p->w) == type;
}

static inline struct rec_stream *rec_child(struct rec_sink *k, uint64_t clone_ticket)
{
	for (size_t i = 0; i < k->nr; i++)
		if (k->s[i].nr && k->s[i].clone_ticket == clone_ticket)
			return &k->s[i];
	return NULL;
}

static inline void rec_ticket(struct rec_stream *s, uint64_t ticket)
{
	assert_true(ticket > s->last_ticket);
	s->last_ticket = ticket;
}

static inline void rec_see_return(struct rec_sink *k, struct rec_stream *s, uint64_t nr, const uint64_t *pay)
{
	int64_t ret = (int64_t)pay[1];

	assert_true(s->in_call && s->call == nr);
	if ((nr == 56 || nr == 57 || nr == 58) && ret > 0)
		assert_non_null(rec_child(k, s->last_ticket));
	s->in_call = false;
	rec_ticket(s, pay[0]);
}

static inline void rec_see(struct rec_sink *k, struct rec_stream *s, const struct rec_pos *p)
{
	if (!(p->w & WORD_CONTROL)) {
		s->refs++;
		s->insns += word_insns(p->w);
		return;
	}
	switch (word_type(p->w)) {
	case W_INSNS:
		s->insns += word_arg(p->w);
		break;
	case W_THREAD:
		assert_int_equal(p->i, 8);
		assert_int_equal(word_arg(p->w), s - k->s);
		s->pid = p->pay[1];
		s->parent = p->pay[3];
		s->clone_ticket = p->pay[4];
		s->how = p->pay[6];
		rec_ticket(s, p->pay[0]);
		break;
	case W_SYSCALL:
		s->in_call = true;
		s->call = word_arg(p->w);
		k->marked |= s->call == 121;
		rec_ticket(s, p->pay[0]);
		break;
	case W_SYSRET:
		rec_see_return(k, s, word_arg(p->w), p->pay);
		break;
	case W_EXEC:
		rec_ticket(s, p->pay[0]);
		break;
	case W_EXIT:
		rec_ticket(s, p->pay[0]);
		s->exit_how = word_arg(p->w);
		s->exit_status = p->pay[1];
		s->ended = true;
		break;
	case W_LOST:
		fail_msg("something was lost");
		break;
	default:
		assert_true(word_type(p->w) < NR_WORD_TYPES);
		break;
	}
}

static inline int rec_block(struct trace_sink *sink, uint32_t stream, const uint64_t *words, size_t nr)
{
	struct rec_sink *k = container_of(sink, struct rec_sink, sink);
	struct rec_stream *s;
	struct rec_pos p;

	if (++k->blocks == k->fail_at)
		return -ENOSPC;
	assert_true(stream < REC_STREAMS && nr > 0 && nr <= 65536);
	s = &k->s[stream];
	assert_false(s->ended);
	assert_true(s->nr || (words[0] & WORD_CONTROL && word_type(words[0]) == W_THREAD));
	k->nr = MAX(k->nr, (size_t)stream + 1);
	if (s->nr + nr > s->cap) {
		s->cap = MAX(s->cap * 2, s->nr + nr);
		s->w = realloc(s->w, s->cap * sizeof(*s->w));
		assert_non_null(s->w);
	}
	memcpy(s->w + s->nr, words, nr * sizeof(*words));
	p = (struct rec_pos){ .s = s, .i = s->nr };
	s->nr += nr;
	while (rec_next(&p)) {
		assert_true(p.i <= s->nr); /* no word is cut */
		rec_see(k, s, &p);
	}
	return 0;
}

static inline void rec_init(struct rec_sink *k)
{
	*k = (struct rec_sink){ .sink = { .block = rec_block }, .s = calloc(REC_STREAMS, sizeof(*k->s)) };
	assert_non_null(k->s);
}

static inline void rec_free(struct rec_sink *k)
{
	for (size_t i = 0; i < REC_STREAMS; i++)
		free(k->s[i].w);
	free(k->s);
}

/* ---- which pages are described ---- */

#define REC_RANGES 4096

struct rec_space {
	uint64_t r[REC_RANGES][2];
	size_t nr;
};

static inline void rec_add(struct rec_space *sp, uint64_t start, uint64_t len)
{
	if (len && sp->nr < REC_RANGES) {
		sp->r[sp->nr][0] = start & ~4095ULL;
		sp->r[sp->nr++][1] = (start + len + 4095) & ~4095ULL;
	}
}

/* Everything that the stream's own calls and areas describe at any time. */
static inline void rec_describe(const struct rec_stream *s, struct rec_space *sp)
{
	struct rec_pos p = rec_begin(s);
	uint64_t a[6] = { 0 }, brk = 0;

	while (rec_next(&p)) {
		int64_t ret;

		if (rec_is(&p, W_AREA))
			rec_add(sp, p.pay[0], p.pay[1]);
		else if (rec_is(&p, W_EXEC))
			brk = p.pay[1];
		else if (rec_is(&p, W_SYSCALL))
			memcpy(a, p.pay + 1, sizeof(a));
		if (!rec_is(&p, W_SYSRET))
			continue;
		ret = (int64_t)p.pay[1];
		if (ret < 0 && ret > -4096)
			continue;
		if (word_arg(p.w) == 9)
			rec_add(sp, (uint64_t)ret, a[1]);
		else if (word_arg(p.w) == 25)
			rec_add(sp, (uint64_t)ret, a[2]);
		else if (word_arg(p.w) == 12 && !brk)
			brk = (uint64_t)ret; /* a forked child: known from its parent's stream */
		else if (word_arg(p.w) == 12 && (uint64_t)ret > brk)
			rec_add(sp, brk, (uint64_t)ret - brk);
	}
}

static inline bool rec_described(const struct rec_space *sp, uint64_t addr)
{
	for (size_t i = 0; i < sp->nr; i++)
		if (addr >= sp->r[i][0] && addr < sp->r[i][1])
			return true;
	return false;
}

/* References to nowhere, counted once for each run of them in a page. */
static inline uint64_t rec_undescribed(struct rec_sink *k)
{
	struct rec_space *sp = calloc(1, sizeof(*sp));
	uint64_t bad = 0;

	assert_non_null(sp);
	for (size_t i = 0; i < k->nr; i++) {
		struct rec_pos p = rec_begin(&k->s[i]);
		uint64_t last = 0, at = i;

		/* Its own, its siblings' and its ancestors' up to the image's first stream. */
		sp->nr = 0;
		for (;;) {
			for (size_t j = 0; j < k->nr; j++)
				if (j == at || (k->s[j].pid == k->s[at].pid && k->s[j].how == THREAD_CLONE))
					rec_describe(&k->s[j], sp);
			if (k->s[at].how == THREAD_FIRST || k->s[at].how == THREAD_EXEC)
				break;
			at = k->s[at].parent;
		}
		while (rec_next(&p)) {
			if (p.w & WORD_CONTROL || word_addr(p.w) >> 12 == last)
				continue;
			last = word_addr(p.w) >> 12;
			if (!rec_described(sp, word_addr(p.w))) {
				print_message("stream %zu: %llx is in no area\n", i, (unsigned long long)word_addr(p.w));
				bad++;
			}
		}
	}
	free(sp);
	return bad;
}

#endif
