/*
 * A CPU's clock, and what lets it run on while memory is slow: the instruction window, line buffers, the store buffer.
 *
 * Instruction number n + window may not begin before the load at n has its data; a miss needs one of `mshrs` line buffers; store
 * number n + store_buffer may not retire before store n has its line. Both conditions are checked at exact instruction and store numbers, so that
 * accounting several instructions at once gives the same times as one by one.
 * Which loads need the result of which is not in a trace: all are taken as independent, so pointer chasing overlaps here up to
 * the window where a processor would wait.
 */
#ifndef QUIRE_MACHINE_MODEL_CLOCK_H
#define QUIRE_MACHINE_MODEL_CLOCK_H

#include "machine/model/model_int.h"

#define CORE_NEVER (~0ULL)

static ATTR_ALWAYS_INLINE struct core_cpu *core_of(struct cpu *c)
{
	return &model_cpu(c)->core;
}

static ATTR_ALWAYS_INLINE void clock_ps(struct cpu *c, struct core_cpu *cc, uint64_t ps)
{
	c->now_ps += ps;
	cc->run_ps += ps;
}

static ATTR_ALWAYS_INLINE void clock_stall(struct cpu *c, struct core_cpu *cc, uint64_t until_ps)
{
	if (until_ps > c->now_ps) {
		cc->stats.stall_ps += until_ps - c->now_ps;
		clock_ps(c, cc, until_ps - c->now_ps);
	}
}

/* n instructions that do not reach the window's boundary. */
static ATTR_ALWAYS_INLINE void clock_raw(struct cpu *c, struct core_cpu *cc, uint64_t n)
{
	uint64_t acc = cc->frac + n * cc->insn_rate;

	cc->insn += n;
	cc->frac = acc & 0xffffffffU;
	clock_ps(c, cc, acc >> 32);
}

static ATTR_ALWAYS_INLINE void window_head(struct core_cpu *cc)
{
	cc->stall_insn = cc->win_head == cc->win_tail ? CORE_NEVER :
							cc->win_insn[cc->win_head % CORE_WINDOW_RING] + cc->window;
}

/* core.c: any number of instructions. */
void clock_cross(struct cpu *c, struct core_cpu *cc, uint64_t n);

/* n instructions. n * insn_rate must fit in 64 bits: n below 2^20 or so; clock_cross takes any n. */
static ATTR_ALWAYS_INLINE void clock_insns(struct cpu *c, struct core_cpu *cc, uint64_t n)
{
	while (cc->insn + n >= cc->stall_insn && n) { /* the window's boundary lies within them */
		uint64_t k = cc->stall_insn - cc->insn;

		clock_raw(c, cc, k);
		clock_stall(c, cc, cc->win_done[cc->win_head % CORE_WINDOW_RING]);
		cc->win_head++;
		window_head(cc);
		n -= k;
	}
	clock_raw(c, cc, n);
}

/* ---- line buffers ---- */

/* Forget those that are free by t. */
static ATTR_ALWAYS_INLINE void mshr_expire(struct core_cpu *cc, uint64_t t)
{
	while (cc->mshr_head != cc->mshr_tail && cc->mshr_done[cc->mshr_head % CORE_MSHRS_MAX] <= t)
		cc->mshr_head++;
}

/* When one is free, at or after t; it is then no longer in the ring. */
static ATTR_ALWAYS_INLINE uint64_t mshr_wait(struct core_cpu *cc, uint64_t t)
{
	mshr_expire(cc, t);
	if (cc->mshr_tail - cc->mshr_head >= cc->mshrs)
		return cc->mshr_done[cc->mshr_head++ % CORE_MSHRS_MAX];
	return t;
}

static ATTR_ALWAYS_INLINE void mshr_take(struct core_cpu *cc, uint64_t done)
{
	uint32_t i = cc->mshr_tail++;

	while (i != cc->mshr_head && cc->mshr_done[(i - 1) % CORE_MSHRS_MAX] > done) {
		cc->mshr_done[i % CORE_MSHRS_MAX] = cc->mshr_done[(i - 1) % CORE_MSHRS_MAX];
		i--;
	}
	cc->mshr_done[i % CORE_MSHRS_MAX] = done;
}

/* ---- loads ---- */

/*
 * The load that has just been issued has its data at `done`. One that is ready before an older one can never be what the window waits
 * for, so it is not kept.
 */
static ATTR_ALWAYS_INLINE void window_push(struct cpu *c, struct core_cpu *cc, uint64_t done)
{
	while (cc->win_head != cc->win_tail && cc->win_done[cc->win_head % CORE_WINDOW_RING] <= c->now_ps)
		cc->win_head++;
	if (unlikely(cc->win_tail - cc->win_head == CORE_WINDOW_RING)) {
		clock_stall(c, cc, cc->win_done[cc->win_head % CORE_WINDOW_RING]);
		cc->win_head++;
	}
	if (done > c->now_ps && (cc->win_head == cc->win_tail || cc->win_done[(cc->win_tail - 1) % CORE_WINDOW_RING] < done)) {
		cc->win_insn[cc->win_tail % CORE_WINDOW_RING] = cc->insn;
		cc->win_done[cc->win_tail % CORE_WINDOW_RING] = done;
		cc->win_tail++;
	}
	window_head(cc);
}

/* ---- stores ---- */

static ATTR_ALWAYS_INLINE void store_head(struct core_cpu *cc)
{
	cc->st_stall = cc->st_head == cc->st_tail ? CORE_NEVER :
						    cc->st_num[cc->st_head % CORE_STORES_MAX] + cc->store_buffer;
}

/* One more store retires. */
static ATTR_ALWAYS_INLINE void store_count(struct cpu *c, struct core_cpu *cc)
{
	cc->st_seq++;
	while (unlikely(cc->st_seq >= cc->st_stall)) {
		clock_stall(c, cc, cc->st_done[cc->st_head % CORE_STORES_MAX]);
		cc->st_head++;
		store_head(cc);
	}
}

/* The store that has just been counted has its line at `done`; stores drain in order. */
static ATTR_ALWAYS_INLINE void store_push(struct cpu *c, struct core_cpu *cc, uint64_t done)
{
	while (cc->st_head != cc->st_tail && cc->st_done[cc->st_head % CORE_STORES_MAX] <= c->now_ps)
		cc->st_head++;
	if (done > c->now_ps) {
		if (cc->st_head != cc->st_tail && cc->st_done[(cc->st_tail - 1) % CORE_STORES_MAX] > done)
			done = cc->st_done[(cc->st_tail - 1) % CORE_STORES_MAX];
		cc->st_num[cc->st_tail % CORE_STORES_MAX] = cc->st_seq;
		cc->st_done[cc->st_tail % CORE_STORES_MAX] = done;
		cc->st_tail++;
	}
	store_head(cc);
}

/* ---- accounting ---- */

void path_book(struct cpu *c, struct core_cpu *cc); /* what has passed since the last switch, under the current path */

static ATTR_ALWAYS_INLINE enum machine_path path_set(struct cpu *c, struct core_cpu *cc, enum machine_path path)
{
	enum machine_path was = cc->path;

	if (was != path) {
		path_book(c, cc);
		cc->path = path;
	}
	return was;
}

#endif
