/*
 * Trace words straight into the model: what a replayed program spends nearly all its time in.
 *
 * The work is in hot_replay.h, compiled for each shape of machine; here is what it needs rarely.
 */
#include "machine/model/clock.h"
#include "machine/model/hot.h"

/* Trace words have at most 12 bits of instructions, and so many of them are taken at once. */
#define INSNS_STEP (64U * 4095ULL)

/* Puts the window that holds addr first. False: there is none. */
bool replay_window_find(struct replay_windows *win, uint64_t addr)
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

size_t model_replay(struct cpu *c, const uint64_t *words, size_t nr, struct replay_windows *win, int *ret_err)
{
	return model_of(c)->core.hot->replay(c, words, nr, win, ret_err);
}

void model_insns(struct cpu *c, uint64_t n)
{
	struct core_cpu *cc = core_of(c);

	(void)path_set(c, cc, PATH_USER);
	for (uint64_t step; n; n -= step) { /* as much at once as a run of references may have */
		step = MIN(n, INSNS_STEP);
		clock_insns(c, cc, step);
		sched_point(c);
	}
}
