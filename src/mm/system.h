/*
 * struct quire: the whole state of one memory manager. No globals anywhere: ten of these can live side by side.
 * Created over a machine by quire_boot; the machine outlives it.
 */
#ifndef QUIRE_MM_SYSTEM_H
#define QUIRE_MM_SYSTEM_H

#include "mm/alloc_slow.h"
#include "mm/file.h"
#include "mm/folio_lock.h"
#include "mm/hugetlb.h"
#include "mm/khugepaged.h"
#include "mm/knobs.h"
#include "mm/mempolicy.h"
#include "mm/mm.h"
#include "mm/slab.h"
#include "mm/swap_state.h"
#include "mm/vmstat.h"
#include "mm/zone.h"

#include "base/hist.h"

#define PERCPU_CTX_SLOTS 6 /* address-space contexts a CPU keeps apart, as Linux on x86 */

struct buddy_capture;

#define PCP_COSTLY_ORDER 3U /* the largest order, beside huge pages, that per-CPU lists keep */
#define NR_PCP_ORDERS (PCP_COSTLY_ORDER + 2)

struct pcp_list {
	uint32_t high, batch; /* frames; high is between the next two */
	uint32_t high_min, high_max;
	uint32_t total;       /* frames on all lists */
	uint16_t free_count;  /* frames freed of late: halved by each allocation */
	uint8_t alloc_factor; /* order 0: batch << this comes at once, more with each refill, less with each free */
	bool freed_large;     /* the last block freed was of order 1 to 3 */
	uint32_t count[NR_MIGRATE_TYPES][NR_PCP_ORDERS]; /* blocks by list */
	paddr_t pa;           /* modelled address of this structure */
	struct list_head list[NR_MIGRATE_TYPES][NR_PCP_ORDERS];
} __attribute__((aligned(64)));

/* Its CPU sets it to another context; flushers raise tlb_gen on its behalf. Both atomic: see tlb.c. */
struct ctx_slot {
	uint32_t ctx;
	uint64_t tlb_gen;
};

/* In the low bits of percpu.loaded. */
#define LOADED_LAZY 1UL    /* a kernel task, or none, runs; the address space was only left loaded */
#define LOADED_LEAVING 2UL /* somebody is taking the CPU out of the address space's mask */
#define LOADED_MM (~(LOADED_LAZY | LOADED_LEAVING))

/* Jobs for the lists of reclaim that a CPU collects (lru_batch.c), in the order in which they are done. */
#define LRU_BATCH_SIZE 31
enum lru_batch_kind {
	LRU_BATCH_ADD, LRU_BATCH_DEACTIVATE_FILE, LRU_BATCH_DEACTIVATE, LRU_BATCH_LAZYFREE, LRU_BATCH_ACTIVATE, LRU_BATCH_MLOCK,
	NR_LRU_BATCHES
};

struct lru_batch {
	uint32_t nr;  /* slots that its CPU has filled since it emptied them last; only its CPU looks */
	bool draining; /* atomic: somebody is emptying it */
	struct frame *folio[LRU_BATCH_SIZE]; /* atomic: NULL, or a folio with a reference of the batch's */
};

enum fault_kind { FK_ANON_4K, FK_ANON_2M, FK_ZERO, FK_COW_4K, FK_COW_2M, FK_FILE, FK_OTHER, NR_FAULT_KINDS };

/*
 * Where a fault's time goes: waiting for mmap_lock and page-table locks; the allocator, its locks included; clearing; copying; and all
 * else: entry and exit, finding and changing entries, flushing, counting. The parts add up to the fault.
 */
/* Each without what another of them takes inside it. */
enum fault_phase { PHASE_WAIT, PHASE_ALLOC, PHASE_RECLAIM, PHASE_COMPACT, PHASE_CLEAR, PHASE_COPY, PHASE_MAP, NR_FAULT_PHASES };
extern const char *const fault_phase_names[NR_FAULT_PHASES];

struct fault_phases {
	uint64_t sum[NR_FAULT_PHASES];            /* of all faults */
	uint64_t longest[NR_FAULT_PHASES], most;  /* of the one that took longest, and how long that was */
};

/*
 * A CPU's own area, in memory of the CPU's node where there is some. Only its CPU writes it, but for `loaded` and `ctx`, of
 * which tlb.c says who else does.
 */
struct percpu {
	struct vmstat_cpu vmstat;
	struct pcp_list *pcp; /* [nr_nodes * NR_ZONES] */
	struct {
		void *free;
		uint32_t count;
	} magazine[NR_SLABS];
	paddr_t pa; /* modelled address of this CPU's area */
	struct lru_batch lru[NR_LRU_BATCHES];
	/* tlb.c */
	uintptr_t loaded; /* the address space that is loaded, 0 none, and LOADED_* */
	struct ctx_slot ctx[PERCPU_CTX_SLOTS];
	uint32_t next_ctx;
	struct mmu_gather *gather; /* a CPU's own gather buffer */
	struct hist *fault_ns; /* [NR_TIMES], latency by kind, exception entry and exit included; as found until... */
	bool fault_ns_used;    /* ... the first one clears it, so that CPUs that never run cost no memory here */
	struct buddy_capture *captures; /* of direct compactions on this CPU (alloc_int.h); only its own tasks look */
	unsigned pf;           /* PF_* of who runs here when that is no task (alloc_slow.c) */
	uint64_t flushes_received; /* atomic: by others, which wait for it */
	uint64_t phase_ns[NR_FAULT_PHASES]; /* with q->time_phases: time so far in each, on this CPU */
	struct fault_phases phases[NR_FAULT_KINDS]; /* ... and in faults that ended, by what they were */
};

_Static_assert(offsetof(struct percpu, vmstat) == 0, "vmstat_add counts at the start of struct percpu");

/* Counted beside the kinds of faults: 2 MiB pages cleared and copied whole (hugecopy.c), which is a part of a fault or of a fork. */
enum bulk_kind { BULK_CLEAR_2M = NR_FAULT_KINDS, BULK_COPY_2M, NR_TIMES };

struct quire {
	struct machine *m;
	struct knobs knobs;
	struct node *nodes; /* [m->nr_nodes] */
	struct percpu **percpu;
	paddr_t *section_map; /* by section: modelled address of its descriptors */
	struct slab_cache slab[NR_SLABS];

	struct mlock list_lock; /* mms, ctx numbers; rank MMLIST */
	struct mlock file_lock; /* files; rank FILE, since a file goes with the last area that maps it; not inside a file's own lock */
	struct list_head mms, files;
	uint32_t next_ctx;
	uint64_t next_file_id;
	uint64_t committed_pages; /* atomic: vm.overcommit accounting */

	const struct alloc_hooks *alloc_hooks; /* NULL: none; from boot on reclaim's (kswapd.c) */
	uint32_t oom_waits;       /* atomic: times that somebody waited for the victim to end (oom.c) */

	bool time_phases;         /* set after boot by whoever wants phases; costs two looks at the clock for each on the host */

	pfn_t zero_pfn;
	struct mlock huge_zero_lock;
	struct frame *huge_zero; /* NULL until first needed; kept afterwards */

	struct hugetlb hugetlb;
	struct swap_state swap;
	struct khugepaged khugepaged;
	struct mpol_table mpol;

	struct list_head kthreads; /* kthread.h; list_lock */
	bool kthreads_begun;       /* a run of tasks has begun: with machine.daemons_stop, whether one is on */
	struct folio_waitq folio_waitq[FOLIO_WAIT_QUEUES];

	/*
	 * For checkers, who look into TLBs in their own way: called where nobody may be able to use a translation to the n frames from
	 * `folio` on any more, since they are about to be split up or copied. NULL: nobody asks.
	 */
	void (*check_unreachable)(void *arg, struct cpu *c, const struct frame *folio, uint64_t n);
	void *check_arg;

	char *boot_mem;           /* host address of the first boot-time structure: this one, in a reserved frame of node 0 */
	char err[200];            /* detail of the last error or failed validation */
};

/* The address space that a CPU has loaded, if any, lazily or not. */
static inline struct mm *percpu_mm(const struct percpu *pc)
{
	return (struct mm *)(__atomic_load_n(&pc->loaded, __ATOMIC_SEQ_CST) & LOADED_MM);
}

static inline bool percpu_lazy(const struct percpu *pc)
{
	return (__atomic_load_n(&pc->loaded, __ATOMIC_SEQ_CST) & LOADED_LAZY) != 0;
}

/* Latencies of faults of one kind on all CPUs; and the time in faults of all kinds. Exact while no task runs. */
void quire_fault_ns(const struct quire *q, enum fault_kind k, struct hist *ret);
void quire_bulk_ns(const struct quire *q, enum bulk_kind k, struct hist *ret);
uint64_t quire_fault_time_ns(const struct quire *q);

/* Of one kind on all CPUs; zeros unless q->time_phases. */
void quire_fault_phases(const struct quire *q, enum fault_kind k, struct fault_phases *ret);
/* The clock for phases, 0 when they are not wanted; and what has passed since goes to a phase. */
static inline uint64_t phase_begin(struct cpu *c)
{
	return unlikely(c->q->time_phases) ? machine_now_ns(c) : 0;
}
static inline void phase_end(struct cpu *c, enum fault_phase p, uint64_t since)
{
	if (unlikely(c->q->time_phases))
		c->pc->phase_ns[p] += machine_now_ns(c) - since;
}
/* For a phase in which others may lie: what they take is theirs alone. inside: phase_sum when it began. */
static inline uint64_t phase_sum(const struct cpu *c)
{
	uint64_t n = 0;

	for (unsigned i = 0; unlikely(c->q->time_phases) && i < NR_FAULT_PHASES; i++)
		n += c->pc->phase_ns[i];
	return n;
}
static inline void phase_end_outer(struct cpu *c, enum fault_phase p, uint64_t since, uint64_t inside)
{
	if (unlikely(c->q->time_phases)) {
		uint64_t ns = machine_now_ns(c) - since, theirs = phase_sum(c) - inside;

		c->pc->phase_ns[p] += ns > theirs ? ns - theirs : 0;
	}
}

/* One more of FK_* or BULK_*. The books of the experimenter, not of the kernel: costs nothing there. */
void quire_time_add(struct cpu *c, unsigned kind, uint64_t ns);

/* Boot a memory manager on a machine. knobs NULL: defaults. -ENOMEM, -EINVAL (q->err not available: text in err). */
int quire_boot(struct machine *m, const struct knobs *knobs, struct quire **ret_q, char *err, size_t errlen);
/* Tear down; the machine is then as before the boot. All mms and files must be gone (else -EBUSY, and nothing is changed). */
int quire_shutdown(struct quire *q);
/* All validators. 0 or -EINVAL with q->err. Not while tasks run. */
int quire_validate(struct quire *q);

#endif
