/*
 * `quire bench alloc`: what it costs to take a block from the page allocator and give it back, on this computer beside the kernel's own
 * fault path and another allocator, and on a modelled machine by the number of CPUs at work.
 *
 * Patterns, of blocks of one order, on each of some tasks at once:
 *   bulk    take a part of the memory, block by block, then give it back in the same order
 *   repeat  take one and give it back at once, over and over
 *   rand    as bulk, but given back in random order
 * A figure is the time of a task for one block taken and given back. Results are called alloc_<pattern>_<order>_<tasks>.
 */
#ifndef QUIRE_LAB_BENCH_ALLOC_H
#define QUIRE_LAB_BENCH_ALLOC_H

#include "machine/desc.h"
#include "mm/knobs.h"

#define BENCH_ALLOC_ROWS 80
#define BENCH_ALLOC_MAX_CPUS 64U

enum alloc_pattern { ALLOC_BULK, ALLOC_REPEAT, ALLOC_RAND, NR_ALLOC_PATTERNS };

extern const char *const alloc_pattern_names[NR_ALLOC_PATTERNS];

struct bench_alloc_options {
	unsigned repeats;                   /* samples of a figure on this computer; of the model there is one */
	uint64_t size;                      /* memory of the engine; half of it is taken at once */
	const struct knobs *knobs;
	const struct machine_desc *machine; /* modelled; NULL: no model */
	unsigned model_cpus;                /* up to so many, at most BENCH_ALLOC_MAX_CPUS */
	bool host;                          /* measure on this computer */
	const char *peer;                   /* program of the other allocator (bench_alloc_peer.c); NULL: not given */
	const char *only;                   /* a row's name; NULL: all */
	void (*say)(void *arg, const char *line); /* may be NULL */
	void *say_arg;
	const volatile bool *stop; /* may be NULL */
};

/* NaN where there is none. */
struct bench_alloc_row {
	char name[32];
	bool model;
	enum alloc_pattern pattern;
	unsigned order, tasks;
	double ours, kernel, peer;   /* ns, medians */
	double ratio, low, high;     /* ours over peer's: median of the pairs and its 95 % interval */
	double ratio_kernel;         /* ours over the kernel's, medians */
};

struct bench_alloc_result {
	struct bench_alloc_row row[BENCH_ALLOC_ROWS];
	size_t nr;
	char note[512];
};

/* 0, -EINTR, or negative errno with one line in err. */
int bench_alloc(const struct bench_alloc_options *o, struct bench_alloc_result *ret, char *err, size_t errlen);

/* ---- bench_alloc_peer.c ---- */
/*
 * Another allocator's figure: PROGRAM PATTERN ORDER TASKS BYTES is run and says the time of a task for one block, taken and given
 * back, in ns, as a number on its first line. 0, -EPROTO: it said something else; or -errno. One line in err.
 */
int bench_alloc_peer(const char *program, enum alloc_pattern pattern, unsigned order, unsigned tasks, uint64_t bytes, double *ret_ns,
		     char *err, size_t errlen);
/*
 * The kernel's: a page, or a huge page, faulted in by a write and unmapped again, its clearing included. -ENOTSUP: not for this
 * pattern (the kernel has no order in which it would give back).
 */
int bench_alloc_kernel(enum alloc_pattern pattern, unsigned order, unsigned tasks, uint64_t bytes, double *ret_ns);

#endif
