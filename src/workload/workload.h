/*
 * The standard memory-management workloads, on any machine: vm-scalability's usemem cases and will-it-scale's memory tests, with
 * the published programs' parameters and metrics. They use the machine contract and the engine's calls only, so the same code runs
 * on the model and on the host.
 *
 * All begin alike: a parent sets up, forks its tasks, waits until all are ready and lets them go at once. On the model the order of
 * everything is a function of options and seed. Nothing here is global: several runs may go on at once, each on its own engine.
 */
#ifndef QUIRE_WORKLOAD_WORKLOAD_H
#define QUIRE_WORKLOAD_WORKLOAD_H

#include "mm/system.h"
#include "workload/draw.h"

enum workload_placement {
	PLACEMENT_DEFAULT, /* spread while there is a CPU a task, none beyond */
	PLACEMENT_NONE,    /* the scheduler's choice */
	PLACEMENT_SPREAD,  /* a CPU a task, node after node in turn: what load balancing comes to when all keep running */
	PLACEMENT_COMPACT, /* a CPU a task, one node's CPUs before the next's */
};

struct workload_kind; /* private to src/workload */

struct workload {
	const char *name;
	const char *origin; /* the published program and its call */
	const char *help;   /* one line */
	const char *metric, *unit; /* of result.total */
	uint64_t size;      /* default in bytes: of all tasks together, or of each where per_task is set */
	bool per_task;
	bool threads;       /* tasks are threads of one process, else processes */
	const struct workload_kind *kind;
	bool sampled;       /* its operations are 2 MiB blocks: as many as its memory has and its settings give, at most --ops */
	bool boot;          /* initialises descriptors; --size is what they describe, no memory that is used */
};

extern const struct workload workload_table[];
extern const size_t workload_count;

/* Its default size is so many per cent of the machine's memory, 0: a number of bytes. */
unsigned work_memory_percent(const struct workload *w);
const struct workload *workload_find(const char *name);

struct workload_options {
	unsigned tasks;       /* 0: as many as the machine has CPUs */
	uint64_t size;        /* bytes, all tasks together (copy-on-write cases: the parent's included); 0: the workload's default */
	unsigned size_percent; /* ... or so many per cent of the machine's memory; 0: see size */
	uint64_t step;        /* usemem: bytes from access to access; a multiple of 8; 0: 8 */
	uint64_t think_ns;    /* usemem: busy on each page that is entered */
	uint64_t stagger_ns;  /* each task waits a random time below this after the go: out of step, as long runs get by themselves */
	unsigned passes;      /* usemem: times over the memory; 0: the workload's, which is once but for usemem-pressure */
	uint64_t limit_ns;    /* the machine's time from the go on; 0: usemem none, will-it-scale 50 ms on the model, 5 s on the host */
	uint64_t ops;         /* limit of each task in will-it-scale's operations, or usemem's accesses; 0: none */
	uint64_t seed;
	enum workload_placement placement;
	const char *map;      /* boot: a file with the map of memory, as /proc/iomem has it; NULL: the machine's, of `size` bytes */
	const char *zoneinfo; /* the same computer's /proc/zoneinfo; NULL: all is one node's */
	uint64_t early;       /* boot: bytes whose descriptors are wanted before the workers begin */
	uint64_t gigantic;    /* boot, on the model: 1 GiB pages behind memory, of which these descriptors are initialised early: */
	enum boot_tails { BOOT_TAILS_EAGER, BOOT_TAILS_SHARED, BOOT_TAILS_FAILED } tails; /* all; those not shared; sharing fails */
	enum draw_pattern pattern; /* pmbench, as all that follow */
	uint64_t shape;       /* in millionths; 0: the pattern's own */
	uint64_t working_set; /* bytes of the map that are accessed; 0: all */
	bool reads_given, fixed_word, cold; /* see reads; see word; no warm-up */
	unsigned reads;       /* with reads_given: of 100 accesses those that load; else 50 */
	unsigned word;        /* with fixed_word: the 32-bit word of each page, 0 to 1023; else any */
	bool check;           /* store values that can be told apart, verify them at the end */
	bool phases;          /* time first passes over 4 KiB pages on the host too, where reading the clock is felt */
	void (*progress)(void *arg, uint64_t refs_done); /* may be NULL; from any task */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL; set asynchronously to end early */
};

/* First touches of fresh memory by sequential walks: the access that faulted, and those over the rest of that page. */
struct workload_phase {
	uint64_t count;    /* pages */
	uint64_t fault_ns; /* the accesses that faulted, all together */
	uint64_t near_ns;  /* the accesses after that one up to the next multiple of 64 KiB; of 2 MiB pages only */
	uint64_t pass_ns;  /* the rest of each page, those included, where it took no further fault */
};

/*
 * Staggered walks in order, from when all tasks have begun until the first one ends: what a long run is nearly all the time. A block is a
 * first touch of a page as above.
 */
struct workload_steady {
	uint64_t KBps; /* of accesses, all tasks together; 0: there was no such time, or it was not looked for */
	uint64_t blocks, fault_ns, pass_ns;
};

struct workload_task_result {
	uint64_t value; /* in the workload's unit */
	uint64_t ops, bytes, ns; /* what it is made of */
};

/* A figure of one workload only. */
struct workload_extra {
	const char *name, *unit, *help; /* static text */
	uint64_t value; /* times 10^decimals */
	unsigned decimals;
};

#define WORKLOAD_MAX_EXTRA 16

/* pmbench's buckets: below 2^8 ns; 16 for each of 2^8 to 2^22; one for each of 2^23 to 2^29; and all from 2^30 on. */
#define PMBENCH_FIRST 8U
#define PMBENCH_LAST_SPLIT 22U
#define PMBENCH_END 30U
#define PMBENCH_BUCKETS (1U + (PMBENCH_LAST_SPLIT - PMBENCH_FIRST + 1) * 16 + (PMBENCH_END - PMBENCH_LAST_SPLIT - 1) + 1)

struct pmbench_hist {
	uint64_t count, sum, max;
	uint64_t bucket[PMBENCH_BUCKETS];
};

unsigned pmbench_bucket(uint64_t ns);
/* The shortest time that falls into bucket i. */
uint64_t pmbench_bucket_from(unsigned i);

/* Boot: descriptors and times. */
struct workload_boot {
	uint64_t descriptors; /* of memory, all of which are initialised */
	uint64_t reserved;    /* of them those of frames that early boot has taken */
	uint64_t early;       /* initialised before the workers began, the former included */
	uint64_t grown;       /* of the early ones those on demand, whole sections */
	uint64_t gigantic;    /* written for gigantic pages, besides */
	uint64_t free;        /* frames that the free lists have in the end */
	uint64_t early_ns, gigantic_ns, ready_ns; /* by one CPU; the same; from when the workers begin until the last is done */
	uint64_t sum_ns, slowest_ns;              /* of all workers, of one */
};

struct workload_result {
	uint64_t total, min, median, max; /* the workload's metric: sum over tasks, and a task's */
	uint64_t total_from_go;           /* usemem: the sum if the clock ran from the go on, without the forks */
	struct workload_task_result *task; /* [tasks] */
	unsigned tasks, processes;        /* that ran; the parent is a process too */
	uint64_t task_bytes;              /* memory of a task */
	uint64_t refs, loads, stores, ops, bytes;
	uint64_t elapsed_ns;              /* whole; setup_ns: until the go */
	uint64_t setup_ns, work_ns;       /* work_ns: from the go until the last task had done its work */
	uint64_t free_ns;                 /* usemem: giving the memory back, all tasks together */
	uint64_t cpu_ns;                  /* of all tasks */
	uint64_t task_user_ns, task_kernel_ns; /* CPU time of the tasks but the parent; kernel: in faults and system calls */
	struct workload_phase phase_4k, phase_2m;
	struct workload_steady steady;
	uint64_t checked, wrong;          /* pages whose contents were compared, and those that were not as they must be */
	uint64_t rss_peak_bytes, anon_peak_bytes, anon_huge_peak_bytes, memory_peak_bytes, pgtables_peak_bytes; /* as in replay_result */
	bool stopped, out_of_memory;
	struct workload_boot boot;
	struct workload_extra extra[WORKLOAD_MAX_EXTRA];
	unsigned nr_extra;
	struct pmbench_hist *pmbench; /* [2]: of loads, of stores; or NULL */
};

/*
 * Run it. 0, or negative errno with one line in err: -EINVAL for options that make no sense, -EDEADLK, -EFAULT (a bug of ours), -ENOMEM
 * of this computer, -EBADMSG when check found wrong contents. Memory of the modelled machine running out is no error:
 * ret->out_of_memory. *ret is valid in any case and to be freed by workload_result_done.
 */
int workload_run(struct quire *q, const struct workload *w, const struct workload_options *o, struct workload_result *ret, char *err,
		 size_t errlen);
void workload_result_done(struct workload_result *r);

#endif
