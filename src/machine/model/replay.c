/*
 * Trace words straight into the model: what a replayed program spends nearly all its time in.
 *
 * A word is one reference. Runs of references to one line are summed up and taken as one step where nothing can happen in
 * between (access_batch_ok); results do not depend on how the words are cut into blocks, nor on where runs are cut.
 */
#include "base/assert.h"
#include "machine/model/access.h"
#include "machine/model/hint.h"

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

/* Puts the window that holds addr first. False: there is none. */
static ATTR_NOINLINE bool window_find(struct replay_windows *win, uint64_t addr)
{
	for (unsigned i = 1; i < win->nr; i++) {
		struct replay_window w = win->w[i];

		if (addr < w.start || addr >= w.end)
			continue;
		for (; i; i--)
			win->w[i] = win->w[i - 1];
		win->w[0] = w;
		return true;
	}
	return false;
}

static ATTR_ALWAYS_INLINE bool window_has(const struct replay_windows *win, uint64_t addr)
{
	return win->nr && addr >= win->w[0].start && addr < win->w[0].end;
}

static ATTR_ALWAYS_INLINE bool in_one_line(uint64_t w)
{
	return (w % CACHE_LINE) + (1ULL << REPLAY_LOG2_SIZE(w)) <= CACHE_LINE;
}

/* One reference. Same rules as access_one in access.c. */
static ATTR_ALWAYS_INLINE int ref(struct cpu *c, struct core_cpu *cc, uint64_t w, uint64_t delta, bool *ret_easy)
{
	vaddr_t va = (w & REPLAY_ADDR_MASK) + delta;
	unsigned flags = ACCESS_USER | (w & REPLAY_STORE ? ACCESS_WRITE : 0);
	unsigned size = 1U << MIN(REPLAY_LOG2_SIZE(w), (uint64_t)CACHE_LINE_SHIFT);
	int r;

	clock_insns(c, cc, REPLAY_INSNS(w));
	if (w & REPLAY_STORE)
		cc->stats.stores++;
	else
		cc->stats.loads++;
	r = access_line(c, cc, va, flags, ret_easy);
	if (unlikely((va % CACHE_LINE) + size > CACHE_LINE) && !r)
		r = access_line(c, cc, (va | (CACHE_LINE - 1)) + 1, flags, ret_easy);
	return r;
}

/*
 * The words after words[0] (which has just been done and is easy) that are references to its line and of a kind that is easy too: takes
 * them as one step, or none of them. After a store, loads are easy as well. Returns how many.
 */
static ATTR_ALWAYS_INLINE size_t follow(struct cpu *c, struct core_cpu *cc, const uint64_t *words, size_t nr)
{
	uint64_t first = words[0], stores = 0, insns = 0;
	uint64_t mask = REPLAY_CONTROL | (REPLAY_ADDR_MASK & ~(uint64_t)(CACHE_LINE - 1)) | (first & REPLAY_STORE ? 0 : REPLAY_STORE);
	size_t k, end = MIN(nr, (size_t)RUN_MAX);

	first &= mask;
	for (k = 1; k < end; k++) {
		uint64_t w = words[k];

		if ((w & mask) != first || !in_one_line(w))
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
static ATTR_ALWAYS_INLINE void look_ahead(const struct model *md, const struct core_cpu *cc, const uint64_t *words,
					  const struct replay_windows *win, struct ahead *a)
{
	uint64_t va = ahead_va(win, words[AHEAD_FAR]);

	if (va >> PAGE_SHIFT != a->far) {
		a->far = va >> PAGE_SHIFT;
		hint_far(md, cc, va);
	}
	va = ahead_va(win, words[AHEAD_NEAR]);
	if (va >> PAGE_SHIFT != a->near) {
		a->near = va >> PAGE_SHIFT;
		hint_near(md, cc, va);
	}
	va = ahead_va(win, words[AHEAD_SOON]);
	if (va >> PAGE_SHIFT != a->soon && !md->core.inclusive) {
		a->soon = va >> PAGE_SHIFT;
		hint_soon(md, cc, va);
	}
}

size_t model_replay(struct cpu *c, const uint64_t *words, size_t nr, struct replay_windows *win, int *ret_err)
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

		if ((w & REPLAY_CONTROL) || (unlikely(!window_has(win, addr)) && !window_find(win, addr)))
			break;
		if (likely(nr - i > AHEAD_FAR))
			look_ahead(md, cc, words + i, win, &ahead);
		delta = win->w[0].delta;
		*ret_err = ref(c, cc, w, delta, &easy);
		if (unlikely(*ret_err))
			break;
		if (likely(easy && in_one_line(w) && !(delta % CACHE_LINE)))
			i += follow(c, cc, words + i, nr - i);
		i++;
		if (unlikely(c->now_ps > c->run_until_ps)) {
			sched_catch_up(c);
			(void)path_set(c, cc, PATH_USER);
		}
	}
	return i;
}

void model_insns(struct cpu *c, uint64_t n)
{
	struct core_cpu *cc = core_of(c);

	(void)path_set(c, cc, PATH_USER);
	for (uint64_t step; n; n -= step) { /* as much at once as a run of references may have */
		step = MIN(n, RUN_MAX * 4095ULL);
		clock_insns(c, cc, step);
		sched_point(c);
	}
}
