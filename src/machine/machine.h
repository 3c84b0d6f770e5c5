/*
 * The machine contract: all that the engine may ask of the computer it manages.
 *
 * A machine gives CPUs, NUMA nodes, frames, time, locks, user accesses, TLB flushes, tasks, and a price for everything
 * that costs something in a kernel. The engine (src/mm) knows nothing else of the outside world. Machines:
 *   model   caches, TLBs, memory and scheduler simulated in virtual time, deterministic   (src/machine/model)
 *   null    counts calls, costs nothing, one CPU                                           (src/machine/null.c)
 *   fault   a wrapper by which the n-th injectable call fails                              (src/machine/inject.c)
 *   host    this computer: real memory, threads, a software TLB a thread                   (src/machine/host)
 *
 * Conventions
 *  - `struct cpu *c` comes first everywhere: it is 'the CPU that executes this'. A task stays on its CPU while it is inside
 *    the engine, even across a sleep; it changes CPU only in machine_resched(), which returns the CPU it then runs on.
 *  - All physical addresses are modelled (rule 1). Kernel frames (page tables, slabs) have bytes behind them at
 *    m->direct + pa on every machine; user frames have contents on the host only, on the model a 64-bit tag (rule 10).
 *  - Charges: machine_touch for data lines, machine_work for instructions. They never fail and never sleep.
 *  - Locks, atomics on contended lines, IPIs: synchronisation points (rule 6). Between them a CPU may run ahead by a quantum.
 *  - Errors are negative errno. Nothing here allocates on behalf of the engine except machine_create of each machine.
 */
#ifndef QUIRE_MACHINE_MACHINE_H
#define QUIRE_MACHINE_MACHINE_H

#include "base/compiler.h"
#include "base/cpumask.h"
#include "base/list.h"
#include "base/types.h"
#include "machine/paths.h"

struct machine;
struct cpu;
struct task;
struct quire;      /* the engine's whole state; opaque here */
struct percpu;     /* the engine's per-CPU state; opaque here */
struct mm;         /* an address space; opaque here */
struct frame;      /* a 64-byte frame descriptor; opaque here */

#define MACHINE_MAX_NODES 64
#define SECTION_SHIFT 15 /* frames a section: 128 MiB of 4 KiB frames, as x86-64 SPARSEMEM */
#define SECTION_FRAMES (1ULL << SECTION_SHIFT)

enum touch_kind {
	TOUCH_READ,
	TOUCH_WRITE,
	TOUCH_ATOMIC, /* locked read-modify-write: takes the line exclusively and drains earlier stores */
};

/* Flags of a user access, and error code handed to the fault hook (meaning as in x86's page-fault error code). */
enum {
	ACCESS_PRESENT = 1 << 0, /* (error code only) the entry was present: a protection fault */
	ACCESS_WRITE = 1 << 1,
	ACCESS_USER = 1 << 2, /* set for the program's own accesses; clear for the kernel's copies to and from user */
	ACCESS_EXEC = 1 << 4,
	ACCESS_LOOP = 1 << 8, /* (runs only) their instructions are a simple loop's: no misprediction, little that depends */
};

/* Page-table entry bits that the hardware walker knows: the x86-64 format. */
#define PTE_PRESENT (1ULL << 0)
#define PTE_WRITE (1ULL << 1)
#define PTE_USER (1ULL << 2)
#define PTE_ACCESSED (1ULL << 5)
#define PTE_DIRTY (1ULL << 6)
#define PTE_HUGE (1ULL << 7) /* in a PMD or PUD entry: maps a page */
#define PTE_NX (1ULL << 63)
#define PTE_ADDR_MASK 0x000ffffffffff000ULL

/* How the CPU enters and leaves the kernel; priced by the machine file (rule 3). */
enum machine_entry {
	ENTRY_SYSCALL,
	ENTRY_EXCEPTION,
	ENTRY_IRQ,
	NR_ENTRIES
};

/* Places at which a call can be made to fail (machine `fault`). */
enum inject_site {
	INJECT_FRAME_ALLOC,
	INJECT_SLAB_ALLOC,
	INJECT_TRYLOCK,
	INJECT_COPY,
	INJECT_CLEAR,
	INJECT_IO, /* a read from a device, or a transfer to or from the swap device */
	NR_INJECT_SITES
};

/*
 * Lock ranks, outermost first: a CPU may take a lock only of a higher rank than those it holds (same rank only where
 * the comment says so). Checked in debug builds. docs/architecture.md has the table.
 */
enum lock_rank {
	RANK_MMLIST,
	RANK_MMAP_LOCK, /* two of these only in fork: parent, then child */
	RANK_FOLIO,     /* a folio (mm/folio_lock.h); of several, all but the first are only tried for */
	RANK_HUGETLB,   /* faults on one page of a pool of huge pages */
	RANK_I_MMAP,    /* areas that map a file */
	RANK_ANON_VMA,  /* areas that may map an anonymous page: a tree's root */
	RANK_FILE,      /* page cache of a file */
	RANK_PTL,       /* page-table locks; two of these only source before destination (mremap, fork) */
	RANK_FOLIO_WAIT, /* queues of who waits for a folio (mm/folio_lock.h) */
	RANK_SWAP_CACHE, /* a tree of the swap cache (mm/swap.h) */
	RANK_SWAP,       /* lists of clusters of slots */
	RANK_SWAP_CLUSTER, /* a cluster of slots */
	RANK_LRU,
	RANK_SLAB,
	RANK_ZONE,
	NR_LOCK_RANKS
};

/* A spinlock. `pa` is the modelled address of its cache line (0: not priced). Contents private to the machine. */
struct mlock {
	uint32_t state;
	uint16_t rank;
	uint16_t waiters;
	paddr_t pa;
};

/* A sleeping reader-writer lock (mmap_lock). */
struct mrwlock {
	uint64_t state;
	uint16_t rank;
	uint16_t waiters;
	uint32_t seq;
	paddr_t pa;
};

/*
 * What to drop from the TLBs. ctx is the address space's hardware context number, unique for each live mm; 0, which is nobody's, with
 * full: everything of all of them.
 */
struct tlb_flush {
	uint32_t ctx;
	bool full;         /* everything of ctx; start, end and stride are ignored */
	bool freed_tables; /* page tables were freed: page-walk caches too, and lazy CPUs must not be skipped */
	uint8_t stride_shift;
	vaddr_t start, end;
};

/* One node of memory. Ranges are [start, end), section-aligned at the start, ordered, not overlapping. */
struct machine_node {
	uint64_t start_pfn, end_pfn;
	uint32_t first_cpu, nr_cpus; /* CPUs whose node this is: contiguous; nr_cpus may be 0 */
};

/* How the machine calls the engine. Set once by the engine at boot. */
struct machine_hooks {
	/*
	 * A user (or kernel-on-behalf-of-user) access missed: bring the page in. err: ACCESS_* bits. 0: retry the access;
	 * -EFAULT: no such mapping or no right (SIGSEGV); -ENOMEM: out of memory.
	 * Exception entry and exit have both been charged by the machine before the call, and c->fault_start_ps is set, so
	 * that now - fault_start_ps at the end of the hook is what the program felt.
	 */
	int (*fault)(struct cpu *c, vaddr_t va, unsigned err);
	/* The scheduler puts next on c in place of prev (either may be NULL: idle). */
	void (*context_switch)(struct cpu *c, struct task *prev, struct task *next);
	/* A run of tasks begins, none runs yet: the engine starts its daemons, from c. 0, or negative errno, which ends the run. */
	int (*run_begin)(struct cpu *c);
};

struct machine_ops {
	const char *kind; /* "model", "null", "host" */

	/* charges */
	void (*touch)(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind);
	enum machine_path (*work)(struct cpu *c, enum machine_path path, uint64_t units);
	void (*enter)(struct cpu *c, enum machine_entry e);
	void (*leave)(struct cpu *c, enum machine_entry e);

	/* frames */
	int (*clear_page)(struct cpu *c, pfn_t p);            /* 0, or negative errno when injected */
	int (*copy_page)(struct cpu *c, pfn_t dst, pfn_t src); /* 0, or -EHWPOISON: source unreadable */

	/* user accesses through the current address space of c */
	int (*access)(struct cpu *c, vaddr_t va, unsigned size, unsigned flags);
	/* n accesses of `size` bytes, `stride` bytes apart (stride > 0), `insns` instructions each. *done: how many were completed. */
	int (*access_run)(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags,
			  unsigned insns, uint64_t *ret_done);
	/* scripted contents: the page's first word on the host, the frame's tag on the model (rule 10) */
	int (*load_value)(struct cpu *c, vaddr_t va, uint64_t *ret_value);
	int (*store_value)(struct cpu *c, vaddr_t va, uint64_t value);

	/* locks */
	void (*lock)(struct cpu *c, struct mlock *l);
	bool (*trylock)(struct cpu *c, struct mlock *l);
	void (*unlock)(struct cpu *c, struct mlock *l);
	void (*read_lock)(struct cpu *c, struct mrwlock *l);
	void (*read_unlock)(struct cpu *c, struct mrwlock *l);
	void (*write_lock)(struct cpu *c, struct mrwlock *l);
	void (*write_unlock)(struct cpu *c, struct mrwlock *l);
	void (*downgrade)(struct cpu *c, struct mrwlock *l); /* writer becomes reader */

	/* MMU */
	void (*load_context)(struct cpu *c, pfn_t root, uint32_t ctx); /* root.v == 0: no user address space */
	void (*flush_local)(struct cpu *c, const struct tlb_flush *f);
	/*
	 * Drop on every CPU of `targets` (c itself may be among them) and return when none can use an old translation
	 * any more. Sender and receivers pay. *ret_remote: CPUs other than c that were interrupted.
	 */
	void (*flush_remote)(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote);
	/*
	 * The same in two steps, for all CPUs, where hardware broadcasts (broadcast_tlbi; else never called): order the
	 * invalidation without waiting (TLBI), and wait until all that this CPU has ordered is done everywhere (DSB). In between others may
	 * still use the old translations. flush_remote is one order for each page and one wait.
	 */
	void (*flush_issue)(struct cpu *c, const struct tlb_flush *f);
	void (*flush_sync)(struct cpu *c);

	/*
	 * Transfer nr frames, nr > 0, to or from as many consecutive slots of the swap device. What the frames hold is taken, or
	 * is there, at the latest when the device is done, which is at *ret_done_ns; the CPU does not wait: whoever must, sleeps until
	 * then. Until then a frame that is read is nobody else's, and one that is written is not stored to. 0, or -EIO: nothing was
	 * transferred that may be relied on.
	 */
	int (*swap_io)(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns);

	/* time and tasks */
	uint64_t (*now_ns)(struct cpu *c);
	struct cpu *(*resched)(struct cpu *c); /* at a user boundary; see machine_resched */
	/*
	 * Off the CPU until woken; goes on on c. May return without the wake-up that was waited for (another's, m->stop): whoever blocks
	 * looks at what he waits for before and afterwards. A wake-up that finds the task not blocked is kept for its next block.
	 */
	void (*block)(struct cpu *c);
	struct cpu *(*wait)(struct cpu *c, uint64_t ns); /* may be NULL; see machine_wait */
	void (*wake)(struct cpu *c, struct task *t); /* never sleeps: also while spinlocks are held */
	void (*sleep_ns)(struct cpu *c, uint64_t ns);
	int (*task_start)(struct cpu *c, struct task *t);

	bool (*inject)(struct cpu *c, enum inject_site site, size_t bytes);
};

/* The part of a CPU that every machine has first in its own. */
struct cpu {
	struct machine *m;
	struct quire *q;
	struct percpu *pc;
	struct task *current;
	uint32_t id;
	int32_t nid;
	uint64_t now_ps;       /* virtual time of this CPU (model) */
	uint64_t run_until_ps; /* beyond this, let CPUs that are behind go first (model); ~0 when alone */
	uint64_t fault_start_ps; /* when the exception being handled began (set by the machine before hooks.fault) */
	/*
	 * How many more frames the engine may clear while it clears one for a fault (host: clearing several past the caches costs
	 * less each than one by one). 0: none.
	 */
	uint32_t clear_ahead;
	uint32_t fault_offset; /* (clear_ahead) where in its page the access was that has faulted: the next one may be likewise */
	/* The last-level entry of a base page that the engine filled last; the host machine, which sets it to NULL, is spared a walk. */
	const uint64_t *fault_entry;
	bool uncharged;        /* charges are free here (host): they are not even called */
	bool need_resched;     /* the time slice is over or somebody waits: call machine_resched at the next user boundary */
	uint32_t lock_depth;   /* debug: locks held */
	uint32_t spin_depth;   /* debug: spinlocks held, under which nobody may sleep (machine_lock) */
};

enum task_state {
	TASK_NEW,
	TASK_RUNNABLE,
	TASK_RUNNING,
	TASK_BLOCKED,
	TASK_SLEEPING,
	TASK_DEAD,
};

/*
 * A task: what runs on CPUs (rule 7). Owned by whoever starts it, must stay valid until TASK_DEAD has been reported through
 * on_exit or machine_run has returned. fn runs in the task's own context and ends the task by returning.
 */
struct task {
	void (*fn)(struct cpu *c, struct task *t); /* c is valid until the next machine_resched */
	void *arg;
	void (*on_exit)(struct task *t); /* may be NULL; runs on the scheduler's stack, may free t */
	struct mm *mm;                   /* NULL: kernel task */
	const struct cpumask *affinity;  /* NULL: any CPU */
	const char *name;
	/*
	 * A daemon works for others: a run ends when all tasks that are none have ended. Then m->daemons_stop is set, daemons that wait
	 * in machine_wait or block are woken, and end at their next look at it. Daemons that wait are no deadlock.
	 */
	bool daemon;
	enum task_state state;
	struct cpu *cpu;        /* where it runs or last ran */
	uint64_t cpu_time_ps;   /* time on a CPU so far */
	uint64_t wake_time_ps;  /* when it became runnable or will wake */
	uint64_t seq;           /* order of creation: the last tie-break */
	bool wake_pending;      /* a wake arrived before the block */
	unsigned pf;            /* the engine's: PF_* (alloc_slow.h) */
	struct list_head link;  /* run queue or sleepers; private to the machine */
	void *priv;             /* private to the machine */
};

struct machine {
	const struct machine_ops *ops;
	struct machine_hooks hooks;
	const char *name;
	unsigned nr_cpus, nr_nodes;
	struct cpu **cpus;
	struct machine_node nodes[MACHINE_MAX_NODES];
	uint8_t distance[MACHINE_MAX_NODES][MACHINE_MAX_NODES]; /* SLIT: 10 is local */
	uint64_t max_pfn;
	/*
	 * Host addresses. direct: bytes of kernel frames (sparse, zero when first touched). memmap: room for max_pfn 64-byte
	 * descriptors (sparse, zero). tags: a 64-bit content tag a frame, or NULL where frames have real contents.
	 */
	char *direct;
	struct frame *memmap;
	uint64_t *tags;
	bool broadcast_tlbi; /* Arm: invalidations are broadcast by hardware, no interrupts */
	uint64_t seed;
	uint64_t swap_slots; /* of the swap device, a page each; 0: there is none */
	bool stop; /* set asynchronously (Ctrl-C): tasks end at their next user boundary */
	bool daemons_stop; /* (atomic) only daemons are left of this run, or nobody: they end at their next look */
};

/* ---- inline wrappers: what the engine calls ---------------------------------------------------------------- */

static inline void *machine_ptr(const struct machine *m, paddr_t pa)
{
	return m->direct + pa;
}

/* The modelled address of a byte in a kernel frame, given where it is. */
static inline paddr_t machine_pa(const struct machine *m, const void *p)
{
	return (paddr_t)((const char *)p - m->direct);
}

#ifndef QUIRE_NO_CHARGES
static inline void machine_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	if (likely(!c->uncharged))
		c->m->ops->touch(c, pa, len, kind);
}

/* Charge `units` of a path and make it the one that following charges are booked under; returns the one before. */
static inline enum machine_path machine_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	return likely(!c->uncharged) ? c->m->ops->work(c, path, units) : PATH_USER;
}

/* Book following charges under `path` again, at no cost (units 0). For callers that return into an outer path. */
static inline void machine_path(struct cpu *c, enum machine_path path)
{
	if (likely(!c->uncharged))
		(void)c->m->ops->work(c, path, 0);
}
#else /* scripts/measure-work counts the engine's own instructions, without those that charge for them */
static inline void machine_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	(void)c, (void)pa, (void)len, (void)kind;
}

static inline enum machine_path machine_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	(void)c, (void)path, (void)units;
	return PATH_USER;
}

static inline void machine_path(struct cpu *c, enum machine_path path)
{
	(void)c, (void)path;
}
#endif

static inline void machine_enter(struct cpu *c, enum machine_entry e)
{
	c->m->ops->enter(c, e);
}

static inline void machine_leave(struct cpu *c, enum machine_entry e)
{
	c->m->ops->leave(c, e);
}

ATTR_MUST_CHECK static inline int machine_clear_page(struct cpu *c, pfn_t p)
{
	return c->m->ops->clear_page(c, p);
}

ATTR_MUST_CHECK static inline int machine_copy_page(struct cpu *c, pfn_t dst, pfn_t src)
{
	return c->m->ops->copy_page(c, dst, src);
}

ATTR_MUST_CHECK static inline int machine_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags)
{
	return c->m->ops->access(c, va, size, flags);
}

static inline void machine_lock(struct cpu *c, struct mlock *l)
{
	c->m->ops->lock(c, l);
#ifdef QUIRE_DEBUG
	c->spin_depth++;
#endif
}

ATTR_MUST_CHECK static inline bool machine_trylock(struct cpu *c, struct mlock *l)
{
	bool mine = c->m->ops->trylock(c, l);

#ifdef QUIRE_DEBUG
	c->spin_depth += mine;
#endif
	return mine;
}

static inline void machine_unlock(struct cpu *c, struct mlock *l)
{
#ifdef QUIRE_DEBUG
	c->spin_depth--;
#endif
	c->m->ops->unlock(c, l);
}

static inline void mlock_init(struct mlock *l, enum lock_rank rank, paddr_t pa)
{
	*l = (struct mlock){ .rank = (uint16_t)rank, .pa = pa };
}

static inline void mrwlock_init(struct mrwlock *l, enum lock_rank rank, paddr_t pa)
{
	*l = (struct mrwlock){ .rank = (uint16_t)rank, .pa = pa };
}

static inline void machine_read_lock(struct cpu *c, struct mrwlock *l)
{
	c->m->ops->read_lock(c, l);
}

static inline void machine_read_unlock(struct cpu *c, struct mrwlock *l)
{
	c->m->ops->read_unlock(c, l);
}

static inline void machine_write_lock(struct cpu *c, struct mrwlock *l)
{
	c->m->ops->write_lock(c, l);
}

static inline void machine_write_unlock(struct cpu *c, struct mrwlock *l)
{
	c->m->ops->write_unlock(c, l);
}

static inline void machine_downgrade(struct cpu *c, struct mrwlock *l)
{
	c->m->ops->downgrade(c, l);
}

static inline uint64_t machine_now_ns(struct cpu *c)
{
	return c->m->ops->now_ns(c);
}

/*
 * To be called by a task between user-level steps when c->need_resched: other tasks may run, and this one may continue on
 * another CPU, which is returned. Never called inside the engine.
 */
static inline struct cpu *machine_resched(struct cpu *c)
{
	return c->m->ops->resched(c);
}

/*
 * Block at a user boundary until woken, or until ns have passed (UINT64_MAX: never). Unlike after block and sleep_ns, which keep
 * the CPU since they may be called inside the engine, the task may go on on another CPU, which is returned.
 */
static inline struct cpu *machine_wait(struct cpu *c, uint64_t ns)
{
	if (c->m->ops->wait)
		return c->m->ops->wait(c, ns);
	if (ns == UINT64_MAX)
		c->m->ops->block(c);
	else
		c->m->ops->sleep_ns(c, ns);
	return c;
}

/* See ops->swap_io. slot + nr lies within m->swap_slots. */
ATTR_MUST_CHECK static inline int machine_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write,
						  uint64_t *ret_done_ns)
{
	return c->m->ops->swap_io(c, slot, frames, nr, write, ret_done_ns);
}

/* Should this call, for so many bytes (0: it has no size), fail? Only the fault wrapper ever says so. */
static inline bool machine_inject(struct cpu *c, enum inject_site site, size_t bytes)
{
	return unlikely(c->m->ops->inject != NULL) && c->m->ops->inject(c, site, bytes);
}

#endif
