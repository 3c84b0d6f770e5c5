/*
 * The model machine: a described computer in virtual time (design, 'Rules that decide whether an answer is true', 1 to 7).
 * One host thread runs one model; several models can run in several threads. Deterministic: same description, seed and calls give the
 * same counts and times on any computer.
 *
 *   cache.c   L1, L2, last level, directory coherence, prefetch   tlb.c   L1/L2 TLBs, page-walk caches, the walker
 *   dram.c    controllers, links, queueing                        core.c  instruction window, overlapping misses, charging
 *   fiber.c   contexts    sched.c  tasks on CPUs, virtual time    lock.c  locks, IPIs and shootdowns
 *   desc.c    machine files (YAML)                                stats.c counters by name
 */
#ifndef QUIRE_MACHINE_MODEL_MODEL_H
#define QUIRE_MACHINE_MODEL_MODEL_H

#include "machine/desc.h"
#include "machine/machine.h"

struct model_options {
	uint64_t seed;
	uint64_t quantum_ps;  /* how far a CPU may run ahead between synchronisation points; 0: default (1 us) */
	bool profile;         /* keep time by path (cheap, but not free) */
	bool scheduled;       /* no prices, and a schedule instead of virtual time (schedule.h) */
};

int model_create(const struct machine_desc *d, const struct model_options *o, struct machine **ret, char *err, size_t errlen);
void model_destroy(struct machine *m);

/*
 * Tasks. Before machine_run, start the first ones with model_task_start(m, NULL, t); afterwards tasks start others through
 * ops->task_start (c: the starter's CPU; NULL: started from outside). 0, -EINVAL (no function, or no CPU it may use) or -ENOMEM.
 * model_run returns 0 when all tasks are dead, -EDEADLK when all that are left are blocked (text in err),
 * -EINTR when m->stop was set.
 */
int model_task_start(struct machine *m, struct cpu *c, struct task *t);
int model_run(struct machine *m, char *err, size_t errlen);

/*
 * A synchronisation point for what stands above the engine: let the CPUs that are behind go first. Until c's clock moves, what
 * follows is one action: wake and task_start do not let others in between.
 */
void model_sync(struct cpu *c);

/* A borrowed CPU for calls outside of tasks (boot, teardown, tests): CPU 0, time advancing, tasks not running. */
struct cpu *model_boot_cpu(struct machine *m);

/* Counters by name, for reports: calls fn for each, in a fixed order. Names carry units. */
void machine_stats_each(struct machine *m, void (*fn)(void *arg, const char *name, uint64_t value), void *arg);
/* Elapsed virtual time: the furthest CPU that ran anything, in ns. */
uint64_t model_elapsed_ns(const struct machine *m);
/* Time and instructions by path (options.profile). */
struct model_path_stat {
	uint64_t ps, insns, units;
};
const struct model_path_stat *model_path_stats(const struct machine *m); /* [NR_MACHINE_PATHS] */

/*
 * The replay fast path: consume trace words while they are plain references, at most nr, translating addresses with the caller's
 * window. Returns how many words were consumed; stops before a control word, at a reference outside the window, when c needs
 * to let others run (need_resched or beyond run_until_ps), or after a fault that failed (*ret_err).
 */
struct replay_window {
	uint64_t start, end;  /* recorded addresses [start, end) ... */
	uint64_t delta;       /* ... are replayed at address + delta (mod 2^64) */
};
#define REPLAY_WINDOWS 8
struct replay_windows {
	struct replay_window w[REPLAY_WINDOWS]; /* most recently used first; the function reorders them */
	unsigned nr;
};
/* n user instructions that touch no memory. */
void model_insns(struct cpu *c, uint64_t n);
size_t model_replay(struct cpu *c, const uint64_t *words, size_t nr, struct replay_windows *win, int *ret_err);

#endif
