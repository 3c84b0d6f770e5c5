/*
 * The kernel executor's state and parts.
 *   kernel.c          runs, settings, processes        kernel_calls.c    calls and accesses     kernel_files.c  files
 *   kernel_observe.c  what is seen                     kernel_limits.c   how much memory a run may have
 */
#ifndef QUIRE_SCRIPT_KERNEL_INT_H
#define QUIRE_SCRIPT_KERNEL_INT_H

#include "script/kernel.h"
#include "script/kernel_agent.h"
#include "script/kernel_proc.h"
#include "script/kernel_settings.h"

#define KERNEL_MAX_PROCS 64 /* in one run, ended ones included */
#define KERNEL_ARENA 0x200000000000ULL
#define KERNEL_ARENA_LEN 0x100000000000ULL
#define KERNEL_FILES 16
#define KERNEL_COUNTERS 16 /* at most, of script_kernel_counters */

struct kernel_proc {
	bool known, waited;
	uint32_t parent; /* number */
	unsigned slot;   /* KAGENT_MAX: ended */
	pid_t pid;
	uint64_t minor, major; /* faults at the last look */
	uint64_t shmem;        /* resident shared memory at the last check, bytes */
};

struct kernel_file {
	int fd;
	uint64_t inode;
	uint32_t number; /* the script's, SCRIPT_NONE: not in use */
	bool shmem, closed;
};

/* Shared anonymous memory of one mmap. */
struct kernel_object {
	uint64_t inode, bytes;
};

struct kernel_exec {
	struct script_kernel_options o;
	struct kagents *k;
	struct kernel_proc proc[KERNEL_MAX_PROCS];
	struct kernel_file file[KERNEL_FILES];
	unsigned nr_files;
	uint64_t memlock; /* of this run */
	uint64_t as_bytes; /* address space of a process beyond the agent's own */
	bool lock_all;     /* the script may lock all of its memory */
	struct kernel_object *object;
	size_t nr_objects;
	uint64_t dropped;  /* at most this much memory is there that no process has resident */
	bool slot_used[KAGENT_MAX];
	struct kproc_areas areas;
	void *drain; /* of this process's memory, for kernel_drain; MAP_FAILED: not possible here */
	struct kernel_settings settings;
	int64_t before[KERNEL_COUNTERS], after[KERNEL_COUNTERS]; /* the step; owned */
	int64_t own_faults;     /* owned: of this process, at the last reading */
	bool reuse_unknown;     /* owned: this process had faults in the step, which may have counted in pgreuse */
	char vmstat_text[16384];
};

/* One line why it cannot be done here; -EOPNOTSUPP. */
ATTR_PRINTF(3, 4) int kernel_unsupported(char *err, size_t errlen, const char *fmt, ...);

/* ---- kernel_calls.c: 0 with *ret, or what the executor itself ran into ---- */
int kernel_access(struct kernel_exec *x, const struct script_call *c, struct script_result *ret);
int kernel_mincore(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen);
int kernel_move_pages(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen);
int kernel_policy(struct kernel_exec *x, const struct script_call *c, struct script_result *ret);
int kernel_sbrk(struct kernel_exec *x, const struct script_call *c, struct script_result *ret);
int kernel_mmap(struct kernel_exec *x, const struct script_call *c, int fd, struct script_result *ret, char *err, size_t errlen);
int kernel_plain(struct kernel_exec *x, const struct script_call *c, struct script_result *ret);

/* ---- kernel_files.c ---- */
int kernel_open_files(struct kernel_exec *x);
void kernel_close_files(struct kernel_exec *x);
int kernel_file_create(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen);
int kernel_file_step(struct kernel_exec *x, const struct script_call *c, struct script_result *ret, char *err, size_t errlen);
/* Where bdi.read_ahead_kb of the device is that ordinary files are on. 0 or -ENOENT. */
int kernel_disk_read_ahead(char *path, size_t len);
/* What has been asked of that device has been read. */
void kernel_settle(const struct kernel_exec *x);
uint64_t kernel_files_in_memory(const struct kernel_exec *x);

/* ---- kernel_limits.c ---- */

/* How much one call brings in, in the midst of which nobody can look. */
uint64_t kernel_brings_in(const struct script_call *c);
/* The process has mapped `bytes` of new shared anonymous memory at `at`. 0 or -errno. */
int kernel_note_object(struct kernel_exec *x, const struct kernel_proc *p, uint64_t at, uint64_t bytes);
/* Have all together as much as they may? 0 or -ENOMEM. */
int kernel_check_memory(struct kernel_exec *x);

/* ---- the rest ---- */

/* NULL: it has ended. */
struct kernel_proc *kernel_proc(struct kernel_exec *x, uint32_t number);
int kernel_observe(struct script_exec *x, uint32_t proc, unsigned what, struct script_obs *ret, char *err, size_t errlen);
/*
 * Pages on their way to the lists of reclaim wait in batches of each CPU, and what MADV_FREE and being used a second time do to a page waits there too:
 * until the batch is full or something empties it. This empties them all, so that what is seen does not depend on what else a CPU does.
 */
void kernel_drain(struct kernel_exec *x);
void kernel_drain_done(struct kernel_exec *x);
/* From here on faults are counted for the next observation. */
void kernel_count_from_here(struct kernel_exec *x, struct kernel_proc *p);
/* The step is over: what this process does itself from here on, looking and running the other side, does not count. */
void kernel_count_to_here(struct kernel_exec *x);
/* What the step left in a CPU's batches has been dealt with: what is counted only then (pglazyfree) is the step's too. */
void kernel_count_drained(struct kernel_exec *x);

#endif
