/*
 * Processes of the kernel underneath that do as they are told: make one system call, touch one page, fork, end.
 *
 * The first one is forked from the caller, the others from each other when a script forks. All are in a process group of their own,
 * without capabilities, under resource limits, and end when the caller does. Orders and answers go through shared memory
 * (a slot a process) and futexes; an agent allocates nothing and writes no memory but its stack and its slot, so that what
 * /proc shows of it is what the script did. Not for several threads.
 */
#ifndef QUIRE_SCRIPT_KERNEL_AGENT_H
#define QUIRE_SCRIPT_KERNEL_AGENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define KAGENT_MAX 16
#define KAGENT_BUF (1U << 18)

struct kagents;

struct kagent_limits {
	uint64_t as_bytes;      /* address space beyond what the agent has itself */
	uint64_t memlock_bytes; /* RLIMIT_MEMLOCK */
	uint64_t stack_bytes;   /* RLIMIT_STACK */
	unsigned timeout_ms;    /* for one order */
	bool may_lock;          /* keep CAP_IPC_LOCK, for which RLIMIT_MEMLOCK does not count */
};

/* Where the first agent's memory begins: known to be empty around. */
struct kagent_layout {
	uint64_t top;       /* mmap without a hint places below this */
	uint64_t heap;      /* the break, both start and now; 0: could not be set */
};

/*
 * Start the first agent, as number 0. Files that the caller has open are theirs too. heap: where its break is to begin (0: as it
 * is). top: mmap is to place
 * downwards from this address or one that differs by a multiple of 1 GiB. 0, or -errno with one line in err.
 */
int kagents_start(const struct kagent_limits *l, uint64_t heap, uint64_t top, struct kagents **ret,
		  char *err, size_t errlen);
/* Kills what is left. */
void kagents_stop(struct kagents *k);

const struct kagent_layout *kagents_layout(const struct kagents *k);
pid_t kagents_pid(const struct kagents *k, unsigned who);

/* Is [start, end) a part of the agent's own memory, which was there before the script? Cut to the first foreign part. */
bool kagents_own(const struct kagents *k, uint64_t start, uint64_t end);

/* Fault in all that agent `who` has itself, for calls that concern all of its memory. Older kernels (before 5.14) don't. */
void kagents_bring_in_own(struct kagents *k, unsigned who);

/* A system call by `who`. *ret_result: its result, or -errno. 0, -ETIMEDOUT or -ECHILD: it is gone (killed). */
int kagent_syscall(struct kagents *k, unsigned who, long nr, const uint64_t args[6], int64_t *ret_result);
/*
 * Accesses by the program at nr addresses from va on, stride apart. STORE stores value, value + 1, ...; TOUCH_WRITE writes without a change,
 * in one access. Stops at the first signal, of which *ret_signal tells: SIGSEGV, SIGBUS, or 0. *ret_done: how many were made. *ret_value: what
 * the last LOAD saw.
 */
enum kagent_access { KAGENT_LOAD, KAGENT_STORE, KAGENT_TOUCH_READ, KAGENT_TOUCH_WRITE };
struct kagent_accesses {
	enum kagent_access how;
	uint64_t va, stride, nr, value;
};
int kagent_access(struct kagents *k, unsigned who, const struct kagent_accesses *a, uint64_t *ret_done, uint64_t *ret_value,
		  int *ret_signal);

/* A system call one of whose arguments is a buffer of the agent's (args[arg]); the buffer is k's until the next order. */
void *kagent_buffer(struct kagents *k, unsigned who);
uint64_t kagent_buffer_va(const struct kagents *k, unsigned who);

/* who forks; the child is number `child`. *ret_result: 0 or -errno. */
int kagent_fork(struct kagents *k, unsigned who, unsigned child, int64_t *ret_result);
/* who ends. It is gone when this returns, but for its parent's right to wait for it. */
int kagent_exit(struct kagents *k, unsigned who);
/* who waits for that child of its, which has ended, to make its number usable again. */
int kagent_wait(struct kagents *k, unsigned who, pid_t child);

#endif
