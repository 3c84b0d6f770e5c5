/* What the caller and its agents share. Private to kernel_agent.c and kernel_agent_child.c. */
#ifndef QUIRE_SCRIPT_KERNEL_AGENT_INT_H
#define QUIRE_SCRIPT_KERNEL_AGENT_INT_H

#include <sys/types.h>
#include <time.h>

#include "script/kernel_agent.h"

enum order { ORDER_SYSCALL, ORDER_ACCESS, ORDER_FORK, ORDER_EXIT, ORDER_REAP };

struct slot {
	uint32_t asked, done; /* futexes: numbers of the last order and the last answer */
	uint32_t order;
	int32_t pid;
	uint64_t a[7];
	int64_t result;
	uint64_t value, nr_done;
	int32_t signal;
};

struct shared {
	struct slot slot[KAGENT_MAX];
	uint64_t top, heap;
	int32_t setup_error;
	uint8_t buf[KAGENT_MAX][KAGENT_BUF] __attribute__((aligned(4096)));
};

/* In the child of a fork: be agent number 0 of `caller`, until it is told to end or the caller is gone. */
__attribute__((noreturn)) void kagent_start(struct shared *s, pid_t caller, const struct kagent_limits *l, uint64_t heap, uint64_t top);
long kagent_futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout);

#endif
