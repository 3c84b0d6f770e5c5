/*
 * `quire bench replay`: references replayed a second by the whole engine on one thread, beside what valgrind's
 * cachegrind and lackey do with the same program in the same session. CPU time is compared, not the clock's: both
 * sides run on one CPU, and other work on this computer then disturbs neither.
 */
#ifndef QUIRE_LAB_BENCH_REPLAY_H
#define QUIRE_LAB_BENCH_REPLAY_H

#include "lab/run.h"

#define BENCH_MAX_ROWS 16

struct bench_options {
	const struct machine_desc *machine;
	unsigned repeats; /* pairs a figure; from 6 on the interval holds with 95 % */
	uint64_t size; /* memory of the generated workloads */
	uint64_t count; /* loads we replay; the peers get a part of them */
	const char *trace; /* a recording; NULL: redis is recorded, if it is here */
	char *const *program; /* what trace was recorded from, for the peers; NULL: no peers for it */
	const char *self; /* the quire binary, which the peers run as the generated workloads' program */
	bool no_peers;
	void (*say)(void *arg, const char *line); /* progress */
	void *say_arg;
	const volatile bool *stop;
};

/* One line of the result; names as the design gives them: replay_streaming, replay_random, replay_NAME. */
struct bench_row {
	char name[80];
	const char *peer_name; /* NULL: none */
	double ours, peer; /* references a second, medians */
	double ratio, low, high; /* ours over peer: the median of the pairs and its 95 % interval */
};

struct bench_result {
	struct bench_row row[BENCH_MAX_ROWS];
	size_t nr;
	char note[512]; /* what could not be done and why; "" otherwise */
};

/* 0, -EINTR, or negative errno with one line in err. */
int bench_replay(const struct bench_options *o, struct bench_result *ret, char *err, size_t errlen);

/*
 * The program behind the generated workloads: fills `size` bytes, one store a page, and does `count` loads; what it
 * computes is returned so that no compiler drops it.
 */
uint64_t bench_load(bool random, uint64_t size, uint64_t count);

#endif
