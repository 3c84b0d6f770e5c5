/*
 * Trace words straight into the model, for a machine whose shape is known at compile time (shape.h). Included by hot.h only.
 *
 * A word is one reference. Runs of references to one line are summed up and taken as one step where nothing can happen in
 * between (access_batch_ok); results do not depend on how the words are cut into blocks, nor on where runs are cut.
 */
#ifndef QUIRE_MACHINE_MODEL_HOT_REPLAY_H
#define QUIRE_MACHINE_MODEL_HOT_REPLAY_H

#include "machine/model/access.h"
#include "machine/model/hot_walk.h"

/*
 * The layout of trace words, as in trace/word.h, which lies in a layer above this one; a test compares the two.
 * bit 63: control word. Else: 62..60 log2 of size, 59 store, 58..47 instructions, 46..0 address.
 */
#include "machine/model/replay_word.h"

/* How many words ahead the host is asked for page-table entries, for sets, and for the sets of what will be pushed out. */
#define AHEAD_FAR 40U
#define AHEAD_NEAR 24U
#define AHEAD_SOON 8U

/* A run is cut here, so that its instructions times the clock's rate fit in 64 bits. */
#define RUN_MAX 64U

static ATTR_ALWAYS_INLINE bool replay_has(const struct replay_windows *win, uint64_t addr)
{
	return win->nr && addr >= win->w[0].start && addr < win->w[0].end;
}

static ATTR_ALWAYS_INLINE bool replay_in_line(uint64_t w)
{
	return (w % CACHE_LINE) + (1ULL << REPLAY_LOG2_SIZE(w)) <= CACHE_LINE;
}

/* What an instance of hot_replay calls rather than having it inline. */
struct replay_calls {
	walk_fn walk;
	miss_fn miss;
};

/* access_line of access.h, for a user's load or store. */
static ATTR_ALWAYS_INLINE int replay_line(enum core_shape shape, struct replay_calls calls, struct cpu *c,
					  struct core_cpu *cc, vaddr_t va, bool write, bool *ret_easy)
{
	const uint64_t need = TLB_U | (write ? TLB_W | TLB_D : 0);
	struct cache_arr *a = &cc->phys->l1;
	struct cache_geo g = shape_l1(shape, a);
	uint64_t t, start, done;
	struct cache_pos p;
	uint8_t *lf = NULL;
	paddr_t pa;
	int way;

	if (write)
		store_count(c, cc);
	t = c->now_ps;
	if (((va ^ cc->page_va) & cc->page_mask) || (cc->page_value & need) != need) {
		int r = calls.walk(c, cc, va, ACCESS_USER | (write ? ACCESS_WRITE : 0U), &t);

		if (unlikely(r))
			return r;
	}
	pa = (cc->page_value & PTE_ADDR_MASK) | (va & ~cc->page_mask);
	p = geo_pos(a, g, pa >> CACHE_LINE_SHIFT);
	way = geo_find(g, &p);
	if (way >= 0)
		lf = &p.set[g.off_flags + (unsigned)way];
	if (lf && (!write || (*lf & LINE_W))) {
		geo_touch(a, g, p.set, (unsigned)way);
		if (write)
			*lf |= LINE_D;
		done = t;
	} else {
		start = mshr_wait(cc, t);
		if (start > t && !write)
			clock_stall(c, cc, start);
		done = write ? calls.miss(cc, pa >> CACHE_LINE_SHIFT, start, MEM_STORE, &p, way, &lf)
			     : hot_miss(shape, cc, pa >> CACHE_LINE_SHIFT, start, MEM_LOAD, &p, way, &lf);
		mshr_take(cc, done);
	}
	if (write)
		access_tag(c, pa, lf);
	if (done > c->now_ps) {
		if (write)
			store_push(c, cc, done);
		else
			window_push(c, cc, done);
	}
	*ret_easy = lf != NULL;
	return 0;
}

/* One reference. Same rules as access_one in access.c. */
static ATTR_ALWAYS_INLINE int replay_ref(enum core_shape shape, struct replay_calls calls, struct cpu *c,
					 struct core_cpu *cc, uint64_t w, uint64_t delta, bool write, bool *ret_easy)
{
	vaddr_t va = (w & REPLAY_ADDR_MASK) + delta;
	unsigned size = 1U << MIN(REPLAY_LOG2_SIZE(w), (uint64_t)CACHE_LINE_SHIFT);
	int r;

	if (write)
		cc->stats.stores++;
	else
		cc->stats.loads++;
	r = replay_line(shape, calls, c, cc, va, write, ret_easy);
	if (unlikely((va % CACHE_LINE) + size > CACHE_LINE) && !r)
		r = access_line(c, cc, (va | (CACHE_LINE - 1)) + 1, ACCESS_USER | (write ? ACCESS_WRITE : 0U),
				ret_easy);
	return r;
}

/*
 * The words after words[0] (which has just been done and is easy) that are references to its line and of a kind that is easy too: takes
 * them as one step, or none of them. After a store, loads are easy as well. Returns how many.
 */
static ATTR_ALWAYS_INLINE size_t replay_follow(struct cpu *c, struct core_cpu *cc, const uint64_t *words, size_t nr)
{
	uint64_t first = words[0], stores = 0, insns = 0;
	uint64_t mask = REPLAY_CONTROL | (REPLAY_ADDR_MASK & ~(uint64_t)(CACHE_LINE - 1)) |
			(first & REPLAY_STORE ? 0 : REPLAY_STORE);
	size_t k, end = MIN(nr, (size_t)RUN_MAX);

	first &= mask;
	for (k = 1; k < end; k++) {
		uint64_t w = words[k];

		if ((w & mask) != first || !replay_in_line(w))
			break;
		insns += REPLAY_INSNS(w);
		stores += w / REPLAY_STORE & 1;
	}
	if (--k == 0 || !access_batch_ok(c, cc, insns, stores))
		return 0;
	clock_raw(c, cc, insns);
	cc->stats.stores += stores;
	cc->stats.loads += k - stores;
	cc->st_seq += stores;
	return k;
}

/* The pages that were last asked for. */
struct ahead {
	uint64_t far, near, soon;
};

static ATTR_ALWAYS_INLINE uint64_t ahead_va(const struct replay_windows *win, uint64_t w)
{
	return (w & REPLAY_ADDR_MASK) + win->w[0].delta;
}

/* Ask the host for what the words from words[0] on will need. Guesses that all lie in the window of the moment. */
static ATTR_ALWAYS_INLINE void look_ahead(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					  const uint64_t *words, const struct replay_windows *win, struct ahead *a)
{
	uint64_t va = ahead_va(win, words[AHEAD_FAR]);

	if (va >> PAGE_SHIFT != a->far) {
		a->far = va >> PAGE_SHIFT;
		hint_far(shape, md, cc, va);
	}
	va = ahead_va(win, words[AHEAD_NEAR]);
	if (va >> PAGE_SHIFT != a->near) {
		a->near = va >> PAGE_SHIFT;
		hint_near(shape, md, cc, va);
	}
	va = ahead_va(win, words[AHEAD_SOON]);
	if (va >> PAGE_SHIFT != a->soon && !hot_inclusive(shape, md)) {
		a->soon = va >> PAGE_SHIFT;
		hint_soon(shape, md, cc, va);
	}
}

/* See model_replay in model.h. */
static ATTR_ALWAYS_INLINE size_t hot_replay(enum core_shape shape, struct replay_calls calls, struct cpu *c,
					    const uint64_t *words, size_t nr, struct replay_windows *win, int *ret_err)
{
	struct model *md = model_of(c);
	struct core_cpu *cc = core_of(c);
	struct ahead ahead = { 0 };
	size_t i = 0;

	*ret_err = 0;
	(void)path_set(c, cc, PATH_USER);
	while (i < nr && likely(!c->need_resched)) {
		uint64_t w = words[i], addr = w & REPLAY_ADDR_MASK, delta;
		bool easy;

		if ((w & REPLAY_CONTROL) || (unlikely(!replay_has(win, addr)) && !replay_window_find(win, addr)))
			break;
		if (likely(nr - i > AHEAD_FAR))
			look_ahead(shape, md, cc, words + i, win, &ahead);
		delta = win->w[0].delta;
		clock_insns(c, cc, REPLAY_INSNS(w));
		*ret_err = w & REPLAY_STORE ? replay_ref(shape, calls, c, cc, w, delta, true, &easy)
					    : replay_ref(shape, calls, c, cc, w, delta, false, &easy);
		if (unlikely(*ret_err))
			break;
		if (likely(easy && replay_in_line(w) && !(delta % CACHE_LINE)))
			i += replay_follow(c, cc, words + i, nr - i);
		i++;
		if (unlikely(c->now_ps > c->run_until_ps)) {
			sched_catch_up(c);
			(void)path_set(c, cc, PATH_USER);
		}
	}
	return i;
}

#endif
