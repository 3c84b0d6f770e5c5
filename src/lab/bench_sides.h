/* The two sides of `quire bench linux` as one table of calls: the engine on the host machine, and the kernel underneath. */
#ifndef QUIRE_LAB_BENCH_SIDES_H
#define QUIRE_LAB_BENCH_SIDES_H

#include "machine/host/host.h"
#include "mm/system.h"

#include <pthread.h>
#include <sys/types.h>

/* What the other thread does meanwhile. */
enum busy_work {
	BUSY_LOADS,  /* loads over a few pages, again and again */
	BUSY_FAULTS, /* writes to each page of its range, once */
	BUSY_CLEARS, /* clears the frames of its range, once */
};

struct bench_busy {
	pthread_t thread;
	struct bench_side *side;
	enum busy_work work;
	uint64_t at, len;
	bool ready, go, end; /* atomic */
	uint64_t rounds;     /* atomic, BUSY_LOADS: passes over its pages */
	int real_cpu;        /* where it is to run; -1: anywhere */
	int rc;
	uint64_t ns; /* from go until it was done */
};

struct bench_side {
	const struct bench_side_ops *ops;
	/* the engine's */
	struct machine *m;
	struct quire *q;
	struct mm *mm, *child;
	struct cpu *c;
	/* the kernel's */
	pid_t pid;
	int fd;
};

/* 0 or negative errno. `huge`: 2 MiB pages or none. */
struct bench_side_ops {
	const char *name;
	int (*map)(struct bench_side *s, uint64_t len, bool huge, uint64_t *ret);
	int (*unmap)(struct bench_side *s, uint64_t at, uint64_t len);
	int (*write)(struct bench_side *s, uint64_t at, uint64_t len, uint64_t step); /* a word at each step */
	int (*protect)(struct bench_side *s, uint64_t at, uint64_t len, bool write);
	int (*discard)(struct bench_side *s, uint64_t at, uint64_t len);
	int (*fork)(struct bench_side *s); /* the child waits */
	void (*end_child)(struct bench_side *s);
	int (*busy)(struct bench_side *s, struct bench_busy *b); /* in the busy thread: attach, work, detach */
};

extern const struct bench_side_ops bench_ours, bench_kernel;

/* An engine on this computer, all memory touched. */
int bench_side_open(struct bench_side *s, uint64_t memory, const struct knobs *k, char *err, size_t errlen);
void bench_side_close(struct bench_side *s);

/* Start the other thread and wait until it is ready, or at work (BUSY_LOADS). */
int bench_busy_start(struct bench_busy *b);
/* Tell it to begin, or to end (BUSY_LOADS). */
void bench_busy_go(struct bench_busy *b);
int bench_busy_join(struct bench_busy *b);
/* Returns while the thread is on a CPU, at its loads. */
void bench_busy_await(const struct bench_busy *b);

/* The n-th CPU that this process may use, or -1. */
int bench_real_cpu(unsigned n);
/* The calling thread runs there from now on; -1: wherever it may now. */
void bench_pin(int cpu);

/* Clear the frames that back [at, at + len), as a loop that does nothing else. */
int bench_clear_frames(struct cpu *c, struct mm *mm, uint64_t at, uint64_t len);

uint64_t bench_wall_ns(void);
uint64_t bench_cpu_ns(void); /* of the calling thread */

#endif
