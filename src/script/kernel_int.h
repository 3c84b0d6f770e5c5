/* The kernel executor's state, for kernel.c and kernel_observe.c. */
#ifndef QUIRE_SCRIPT_KERNEL_INT_H
#define QUIRE_SCRIPT_KERNEL_INT_H

#include "script/kernel.h"
#include "script/kernel_agent.h"
#include "script/kernel_proc.h"

#define KERNEL_MAX_PROCS 64 /* in one run, ended ones included */
#define KERNEL_ARENA 0x200000000000ULL
#define KERNEL_ARENA_LEN 0x100000000000ULL
#define KERNEL_FILES 16

struct kernel_proc {
	bool known, waited;
	uint32_t parent; /* number */
	unsigned slot;   /* KAGENT_MAX: ended */
	pid_t pid;
	uint64_t minor, major; /* faults at the last look */
	bool sigbus;           /* the step ended in one */
};

struct kernel_file {
	int fd;
	uint64_t inode;
	uint32_t number; /* the script's, SCRIPT_NONE: not in use */
	bool shmem, closed;
};

struct kernel_exec {
	struct script_kernel_options o;
	struct kagents *k;
	struct kernel_proc proc[KERNEL_MAX_PROCS];
	struct kernel_file file[KERNEL_FILES];
	unsigned nr_files;
	uint64_t memlock; /* of this run */
	uint64_t as_bytes; /* address space of a process beyond the agent's own */
	bool slot_used[KAGENT_MAX];
	struct kproc_areas areas;
};

/* NULL: it has ended. */
struct kernel_proc *kernel_proc(struct kernel_exec *x, uint32_t number);
int kernel_observe(struct script_exec *x, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen);
/* From here on faults are counted for the next observation. */
void kernel_count_from_here(struct kernel_exec *x, struct kernel_proc *p);

#endif
