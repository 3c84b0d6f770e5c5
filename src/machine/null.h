/*
 * The null machine: the contract with nothing behind it. Costs nothing and counts everything, so that a test of the engine can ask
 * what was charged, and scripts/measure-work can set instructions against units.
 *
 * One CPU or several, but never two at once: the caller picks the CPU that executes. Its MMU has no TLB: each access walks the
 * page tables as the hardware would, sets accessed and dirty bits, and calls hooks.fault. Its locks catch our bugs: taking a lock
 * twice, out of rank order, or releasing one that is not held ends in ASSERT. Time stands still unless somebody sleeps or a test
 * moves it.
 */
#ifndef QUIRE_MACHINE_NULL_H
#define QUIRE_MACHINE_NULL_H

#include "machine/machine.h"

struct null_options {
	unsigned nr_cpus;      /* 0: one */
	unsigned nr_nodes;     /* nodes with CPUs, which are shared out evenly; 0: one */
	unsigned nr_far_nodes; /* nodes without CPUs, behind the others */
	uint64_t node_bytes;   /* memory of each node, a multiple of 128 MiB; 0: 1 GiB */
	uint64_t swap_bytes;   /* of the swap device, which is done at once; 0: none */
	uint64_t seed;
};

/* By the path that charges were booked under. */
struct null_path_count {
	uint64_t calls, units;   /* machine_work with units > 0, and their sum */
	uint64_t lines[3];       /* cache lines touched, by enum touch_kind */
	uint64_t clears, copies; /* pages */
};

struct null_counts {
	struct null_path_count path[NR_MACHINE_PATHS];
	uint64_t enters[NR_ENTRIES], leaves[NR_ENTRIES];
	uint64_t accesses, writes; /* user and kernel-on-behalf accesses that were completed, and those that wrote */
	uint64_t walk_steps;       /* entries that the hardware walker read */
	uint64_t insns;            /* of access_run */
	uint64_t faults, failed_faults;
	uint64_t locks, failed_trylocks, read_locks, write_locks;
	uint64_t local_flushes, remote_flushes, full_flushes, ipis;
	uint64_t issued_flushes, flush_syncs; /* broadcast, in two steps */
	uint64_t swap_reads, swap_writes;     /* frames */
	uint64_t context_loads, tasks_started, wakes, sleeps;
};

ATTR_MUST_CHECK int null_create(const struct null_options *o, struct machine **ret, char *err, size_t errlen);
void null_destroy(struct machine *m);

/* All counts since creation or the last reset, over all CPUs. */
const struct null_counts *null_counts(const struct machine *m);
void null_counts_reset(struct machine *m);

/* Move the clock of all CPUs forward. */
void null_advance_ns(struct machine *m, uint64_t ns);
/* Locks that c holds now (also in debug builds' c->lock_depth). */
unsigned null_locks_held(const struct cpu *c);

/*
 * Run started tasks, in order of creation, each to its end. A task that blocks lets others run meanwhile on top of it. 0, or
 * -EDEADLK when a task blocked and nothing was left that could wake it (err names it; it went on as if woken), or -EINTR when
 * m->stop was set. Start the first tasks with ops->task_start on any CPU.
 *
 * A daemon that blocked could not go on before those above it have ended, who may wait for it. So here daemons run when all
 * other tasks have ended, with m->daemons_stop set: they look at it and end. What a daemon does is tested by calling it.
 */
ATTR_MUST_CHECK int null_run(struct machine *m, char *err, size_t errlen);

#endif
