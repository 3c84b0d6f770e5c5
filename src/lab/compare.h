/*
 * Two or more sides of a comparison in one run: the same subject under other settings. Repeats are pairs (of more sides: rounds):
 * every side once, beginning with the first side in even rounds and with the last in odd ones.
 *
 * On the model the rounds draw from different seeds, the sides of one round from the same; the whole is a function of the options,
 * however many rounds run at once. On the host they are real repeats, one after another, and the first round is thrown away.
 */
#ifndef QUIRE_LAB_COMPARE_H
#define QUIRE_LAB_COMPARE_H

#include "lab/once.h"
#include "lab/settings.h"
#include "lab/stats.h"

#define COMPARE_MAX_SIDES 8

enum better { BETTER_NEITHER, BETTER_HIGHER, BETTER_LOWER };

struct compare_side {
	char label[160]; /* what is set on this side only */
	struct knobs knobs;
};

struct compare_progress {
	unsigned rounds_done, rounds; /* rounds: at most */
	uint64_t refs, host_ns;
	double width;                 /* of the interval so far, where one is waited for; 0: not yet known */
};

struct compare_options {
	struct subject subject;
	struct place place;
	const struct compare_side *sides; /* [nr_sides]; the first is what the others are held against */
	unsigned nr_sides;
	unsigned rounds;       /* at most; 0: once */
	double until;          /* stop when half the interval of the main metric's ratio is at most this part of it; 0: never */
	unsigned jobs;         /* runs at once on the model; 0: 1 */
	uint64_t seed;
	const struct inject_rules *inject; /* both sides; may be NULL */
	void (*progress)(void *arg, const struct compare_progress *p); /* may be NULL; about five times a second, from any thread */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL */
};

struct compare_metric {
	char *name;
	const char *unit, *help;
	enum better better;
	unsigned decimals;
	double median[COMPARE_MAX_SIDES];
	struct stats_estimate value[COMPARE_MAX_SIDES]; /* of the side alone, with its interval */
	/*
	 * From side 1 on. The gain: new over old for rates and plain counts, old over new for times, so that more than 1 is better where
	 * one of the two is. n 0: there is no ratio, since a value is 0.
	 */
	struct stats_estimate gain[COMPARE_MAX_SIDES];
	double p[COMPARE_MAX_SIDES], p_holm[COMPARE_MAX_SIDES]; /* permutation test; corrected over all metrics of the side */
	bool same;             /* equal on all sides in every round */
};

struct compare_result {
	struct compare_metric *m;
	size_t nr;
	unsigned rounds;       /* whole ones that count */
	uint64_t host_ns;
	bool stopped;          /* interrupted: what there was then */
	bool reached;          /* `until` was */
};

/*
 * 0; -EINTR: interrupted before one round was whole; else negative errno with one line in err. Figures of rounds that were whole
 * before an error are in *ret, which is to be freed in any case.
 */
int compare_run(const struct compare_options *o, struct compare_result *ret, char *err, size_t errlen);
void compare_result_done(struct compare_result *r);
const struct compare_metric *compare_find(const struct compare_result *r, const char *name);
/* The interval of a gain says that there is one. */
bool compare_differs(const struct stats_estimate *gain);
/* Which way is better, by name: times end in _ns or hold _ns_ (less is better), rates are few and listed. */
enum better compare_better(const char *metric);
/* What the subject is judged by: its own metric, or elapsed time of a recording. */
const char *compare_main_metric(const struct subject *s);

#endif
