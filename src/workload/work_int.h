/*
 * What the files of the standard workloads share.
 *
 *   workload.c   parent and tasks: set-up, barrier, results       usemem.c   vm-scalability's access loops
 *   work_table.c the workloads                                    wis.c      will-it-scale's loops
 *   boot.c       initialisation of descriptors                   thpscale.c  mmtests' faults in fragmented memory
 *   pmbench.c    pmbench's accesses by a pattern (draw.c), timed one by one
 *   split.c      splits of huge pages
 *   work_step.c  what all loops do: accesses, system calls, giving way, limits, contents
 *
 * Shared between tasks, which are threads on the host: `ready`, `left`, `go`, `some_done`, `error`, `oom` and `refs` (atomic); peaks and the
 * progress report under `lock`, inside which the machine is not called. All else belongs to one task.
 */
#ifndef QUIRE_WORKLOAD_WORK_INT_H
#define QUIRE_WORKLOAD_WORK_INT_H

#include "base/rng.h"
#include "mm/tlb.h"
#include "mm/uapi.h"
#include "workload/workload.h"

#include <errno.h>
#include <pthread.h>

struct work_task;
struct work;

/* What makes a workload. */
struct workload_kind {
	bool (*run)(struct work_task *k); /* false: an error or an early end was noted */
	bool usemem;
	bool prealloc; /* usemem: the parent maps what all tasks then work on... */
	bool prefault; /* ...and populates it */
	bool random, readonly; /* usemem */
	bool hugetlb;  /* usemem: on 2 MiB pages of the pool */
	bool file, shared;     /* will-it-scale's maps: on a file; mapped shared */
	bool hotplug;          /* boot.c */
	bool advise;           /* thpscale: MADV_HUGEPAGE on what is faulted */
	unsigned passes;         /* usemem: default; 0: once */
	unsigned memory_percent; /* default size: of the machine's memory; 0: the table's */
	bool common_file;      /* a file of all tasks' bytes and 16 MiB */
	void (*conclude)(struct work *w); /* puts the workload's own figures together; may be NULL */
	const char *(*refuses)(const struct work *w); /* looks at options once sizes are known: what is wrong, or NULL; may be NULL */
	bool heap;             /* will-it-scale: the address space needs a heap */
};

struct work {
	struct quire *q;
	struct machine *m;
	const struct workload *w;
	const struct workload_kind *kind;
	const struct workload_options *o;
	struct workload_result *res;
	bool model;             /* virtual time: reading the clock costs nothing */
	unsigned nr;            /* tasks asked for */
	uint64_t task_bytes, step, passes, limit_ns, warmup_ns;
	struct work_task *t;    /* [nr] */
	struct task parent;
	struct cpumask parent_cpu;
	struct mm *parent_mm;
	struct mm *group_mm;    /* of threads; a reference of ours while they are started */
	vaddr_t area;           /* prealloc: where it is, in all address spaces */
	struct mfile *file;     /* common_file */
	unsigned at_barrier;    /* atomic */
	unsigned expected, ready, left;
	bool go, oom, stopping, some_done; /* some_done: a task has done its work */
	int error;
	uint64_t start_ns, fork_ns, go_ns, end_ns, done_ns; /* begin of all, of the forks, of the tasks' work; end of it, and of all */
	uint64_t fault_go_ns;   /* in faults until the go */
	uint64_t parent_checked, parent_wrong, parent_cpu_ns;
	uint64_t refs;
	pthread_mutex_t lock;
	char *err;
	size_t errlen;
};

/* How far a task was at a moment. */
struct work_mark {
	uint64_t ns, ops, blocks, fault_ns, pass_ns;
};

/* thpscale's samples: [0] blocks that got base pages, [1] a huge one. */
struct work_thp {
	uint64_t n[2], ns[2], max_ns[2], local, anoninit_ns, fileinit_ns;
};

/* split's: time in splits, those refused, shootdowns meanwhile. */
struct work_split {
	uint64_t ns, failed;
	int64_t rounds;
};

struct work_task {
	struct task task;
	struct work *w;
	struct cpu *c;      /* where it runs now */
	unsigned nr;
	struct mm *mm;      /* NULL once it has been left */
	struct cpumask cpu; /* placement */
	struct rng rng;
	bool started;
	uint64_t loads, stores, ops, bytes, reported;
	unsigned points; /* since the last report */
	uint64_t go_ns, done_ns; /* done: its work, before memory is given back */
	uint64_t value, value_from_go, value_ns;
	uint64_t sys_ns, free_ns;
	uint64_t warm_ns, warm_ops; /* will-it-scale: when counting began; 0: not yet */
	struct work_mark from, to;  /* usemem's walks in order: the time in which all tasks were at work; ns 0: not there yet */
	uint64_t checked, wrong, cpu_ns, wall_ns; /* the last two: from the go on, on the host */
	struct workload_phase phase_4k, phase_2m;
	struct work_thp thp;
	struct work_split split;
	struct work_pm *pm; /* pmbench */
} __attribute__((aligned(64)));

/* ---- work_step.c ---- */

/* An access or a call failed: note why. Always false. */
bool work_failed(struct work_task *k, int rc);
/*
 * At a user boundary, between two steps: give way, report, account. false: stop here (interrupted, or another task failed).
 */
bool work_point(struct work_task *k);
static inline uint64_t work_now(const struct work_task *k)
{
	return machine_now_ns(k->c);
}

/* n accesses of `size` bytes, insns instructions each. */
bool work_run(struct work_task *k, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, bool write, unsigned insns);
/* Scripted contents of the page at va. */
bool work_store(struct work_task *k, vaddr_t va, uint64_t value, unsigned insns);
bool work_load(struct work_task *k, vaddr_t va, uint64_t *ret, unsigned insns);
/* Compare the page at va with what it must hold (or, with or_zero, 0). */
bool work_verify(struct work_task *k, vaddr_t va, uint64_t value, bool or_zero);

/* System calls: time counted, errors not yet noted. */
int64_t work_mmap(struct work_task *k, uint64_t len, unsigned flags, struct mfile *file);
int64_t work_mmap_at(struct work_task *k, uint64_t len, unsigned prot, unsigned flags, struct mfile *file, uint64_t offset);
int64_t work_mincore(struct work_task *k, vaddr_t va, uint64_t len, uint8_t *vec);
int64_t work_mprotect(struct work_task *k, vaddr_t va, uint64_t len, unsigned prot);
int64_t work_munmap(struct work_task *k, vaddr_t va, uint64_t len);
int64_t work_brk(struct work_task *k, vaddr_t brk);
int64_t work_madvise(struct work_task *k, vaddr_t va, uint64_t len, int advice);
int work_file_create(struct work_task *k, uint64_t size, struct mfile **ret);
void work_file_put(struct work_task *k, struct mfile *f);

/*
 * usemem's memory is mapped with MAP_NORESERVE: the published driver sets vm.overcommit_memory to 1, which comes to the same without a
 * change of settings. Pools of huge pages keep promises of their own.
 */
static inline unsigned work_map_flags(const struct work *w)
{
	return UAPI_MAP_PRIVATE | (w->kind->hugetlb ? UAPI_MAP_HUGETLB : UAPI_MAP_NORESERVE);
}

/* Peaks of memory, over all address spaces of the run. */
void work_account(struct work *w);

/* ---- the loops ---- */
bool usemem_run(struct work_task *k);
bool wis_page_fault(struct work_task *k);
bool wis_mmap(struct work_task *k);
bool wis_malloc(struct work_task *k);
bool wis_brk(struct work_task *k);
bool wis_tlb_flush(struct work_task *k);

/* All tasks have come this far. false: stop here. Each task must come, also one that failed. */
bool work_barrier(struct work_task *k);

/* ---- pmbench.c ---- */
bool pmbench_run(struct work_task *k);
void pmbench_conclude(struct work *w);
const char *pmbench_refuses(const struct work *w);

/* ---- thpscale.c ---- */
bool thpscale_run(struct work_task *k);
void thpscale_conclude(struct work *w);

/* ---- split.c ---- */
bool split_run(struct work_task *k);
void split_conclude(struct work *w);

/* ---- boot.c: in place of parent and tasks ---- */
int boot_run(struct quire *q, const struct workload *wl, const struct workload_options *o, struct workload_result *ret, char *err,
	     size_t errlen);

#endif
