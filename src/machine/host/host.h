/*
 * The host machine: this computer. Frames are real memory, CPUs are threads, translation goes through a software TLB a thread, and
 * a shootdown makes the other threads drop an entry for real (shootdown.c has the protocol).
 *
 * CPUs. A `struct cpu` is a slot that one thread owns at a time. Slot 0 belongs to whoever created the machine: it boots and shuts
 * down the engine. The others are given to tasks by host_run, or to the program's own threads by host_attach.
 */
#ifndef QUIRE_MACHINE_HOST_HOST_H
#define QUIRE_MACHINE_HOST_HOST_H

#include "machine/machine.h"

#define HOST_DEFAULT_CPUS 64
#define HOST_MAX_DEFAULT_BYTES (2ULL << 30) /* the arena where nobody asked for more (design rule 12) */

/* How a flusher makes sure of a thread that runs but makes no access; values of the setting quire.shootdown. */
enum host_shootdown { HOST_SHOOTDOWN_POLL, HOST_SHOOTDOWN_MEMBARRIER };
/* How pages are cleared and copied; values of the setting quire.host_clear. */
enum host_clear { HOST_CLEAR_REP, HOST_CLEAR_NT, HOST_CLEAR_MEMSET };

struct host_options {
	uint64_t memory;  /* bytes, a multiple of 128 MiB a node; 0: a quarter of this computer's, at most 2 GiB */
	uint64_t swap;    /* bytes of the swap device, a file without a name in $TMPDIR or /var/tmp; 0: none */
	unsigned nr_nodes; /* 0: this computer's nodes with memory; else so many emulated ones, a part of the memory each */
	unsigned nr_cpus; /* threads at once, the creator's included; 0: 64 */
	enum host_shootdown shootdown;
	enum host_clear clear;
	bool populate; /* touch all memory now, so that no later fault of this computer's kernel is measured with ours */
	bool place;    /* pin slot i's thread to the i-th CPU that this process may use, round robin */
	uint64_t seed;
};

/* 0; -EINVAL (options), -ENOMEM, -EOPNOTSUPP (no expedited membarrier), or why there can be no swap file, with one line in err. */
ATTR_MUST_CHECK int host_create(const struct host_options *o, struct machine **ret, char *err, size_t errlen);
/* No thread may be attached and no task alive. */
void host_destroy(struct machine *m);

/*
 * Start the tasks that were given to ops->task_start, and those that they start, and wait for all. A task is a thread that owns one
 * slot for its life; tasks beyond the number of slots wait for one. 0; -EINTR when m->stop was set; -EDEADLK when all that were
 * left had blocked (text in err; they were told to stop); -EAGAIN when the system refused a thread.
 *
 * A daemon has a slot only while it works: it gives it up in machine_wait and takes one afterwards, of its affinity if there is a free one, so
 * that daemons never keep tasks from their slots. With all of them taken by tasks, daemons wait until one ends.
 */
ATTR_MUST_CHECK int host_run(struct machine *m, char *err, size_t errlen);

/* The calling thread becomes a CPU. -EBUSY: all slots are taken. */
ATTR_MUST_CHECK int host_attach(struct machine *m, struct cpu **ret);
/* The thread that owns c gives it back; it must have left its address space (mm_activate(c, NULL)). */
void host_detach(struct cpu *c);

/*
 * Program data through the current address space of c: 1 to 8 bytes, or a buffer. 0 or the fault's -EFAULT or -ENOMEM. *ret_done:
 * bytes dealt with before the fault. A piece that lies in one page is read or written under one translation.
 */
int host_load(struct cpu *c, vaddr_t va, unsigned size, uint64_t *ret_value);
int host_store(struct cpu *c, vaddr_t va, unsigned size, uint64_t value);
int host_read(struct cpu *c, vaddr_t va, void *buf, size_t len, size_t *ret_done);
int host_write(struct cpu *c, vaddr_t va, const void *buf, size_t len, size_t *ret_done);

/* What happened on this CPU. Read by its thread, or when it is idle. */
struct host_stats {
	uint64_t tlb_misses, faults;
	uint64_t flushes;         /* shootdowns sent */
	uint64_t targets;         /* CPUs told, over all of them */
	uint64_t targets_idle;    /* of these: were outside of accesses, nothing to wait for */
	uint64_t targets_polled;  /* acknowledged at their next access */
	uint64_t barriers;        /* membarriers */
	uint64_t requests;        /* received and applied */
	uint64_t lock_sleeps;     /* times a lock was waited for asleep */
};
const struct host_stats *host_stats(const struct cpu *c);

#endif
