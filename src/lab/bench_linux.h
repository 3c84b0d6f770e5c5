/*
 * `quire bench linux`: the engine on the host machine against the kernel underneath. The same operations, in turn, in one process; what
 * one thread does is measured by its CPU time, so that other work on this computer disturbs neither side; what two threads do to
 * each other by the clock.
 */
#ifndef QUIRE_LAB_BENCH_LINUX_H
#define QUIRE_LAB_BENCH_LINUX_H

#include "mm/knobs.h"

#define BENCH_LINUX_ROWS 24

struct bench_linux_options {
	unsigned repeats;    /* pairs a figure; from 6 on the interval holds with 95 % */
	uint64_t size;       /* memory faulted in, copied and unmapped at once; a multiple of 2 MiB */
	uint64_t fork_size;  /* memory that is forked */
	const struct knobs *knobs;
	const char *only;    /* a row's name, or NULL: all */
	void (*say)(void *arg, const char *line); /* progress; may be NULL */
	void *say_arg;
	const volatile bool *stop; /* may be NULL */
};

struct bench_linux_row {
	const char *name, *peer_name, *unit; /* peer_name NULL: none */
	bool higher_is_better;
	double ours, peer;       /* medians */
	double ratio, low, high; /* ours over peer: the median of the pairs and its 95 % interval */
};

struct bench_linux_result {
	struct bench_linux_row row[BENCH_LINUX_ROWS];
	size_t nr;
	char note[512]; /* what could not be done and why; "" otherwise */
};

/* 0, -EINTR, or negative errno with one line in err. */
int bench_linux(const struct bench_linux_options *o, struct bench_linux_result *ret, char *err, size_t errlen);

#endif
