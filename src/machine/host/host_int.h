/*
 * What the files of the host machine share.
 *
 *   host.c       creation, nodes, the table of operations
 *   guest.h      the one place where program data is touched
 *   access.c     software TLB, walker, accesses
 *   shootdown.c  quiescence, requests, acknowledgement
 *   lock.c       spinlocks and reader-writer locks
 *   task.c       threads on CPU slots, blocking, time
 *   pages.c      clearing and copying frames
 *   swap.c       the swap file
 */
#ifndef QUIRE_MACHINE_HOST_HOST_INT_H
#define QUIRE_MACHINE_HOST_HOST_INT_H

#include "machine/host/host.h"

#include "base/assert.h"

#include <pthread.h>

#define HOST_MAX_CPUS 256
#define HOST_MAX_HELD 32
#define HOST_READ_SLOTS 4 /* reader-writer locks that a CPU may hold for reading at once */

/* ---- software TLB ---- */

#define TLB_4K_ENTRIES 1024U
#define TLB_2M_ENTRIES 256U

/*
 * A tag is the virtual page's address with the bits below it used so: bit 0 valid, bit 1 writable (and dirty in the page table, so
 * that a store need not go there), then the epoch. Host address of a byte: addend + va.
 */
#define TLB_VALID 1ULL
#define TLB_WRITE 2ULL
#define TLB_EPOCH_SHIFT 2
#define TLB_EPOCHS (1U << (PAGE_SHIFT - TLB_EPOCH_SHIFT))

struct tlb_entry {
	uint64_t tag, addend;
};

/* ---- shootdown requests ---- */

#define HOST_MAIL 8
#define HOST_SEEN_NONE (~0ULL)

enum host_state { HOST_QUIESCENT, HOST_ACTIVE };

struct host_mail {
	uint32_t lock; /* futex lock, see lock.c */
	uint32_t nr;
	bool all; /* more than fitted: drop everything */
	struct tlb_flush flush[HOST_MAIL];
};

struct host_cpu {
	struct cpu c; /* must be first */

	/* the owner's: read and written at each access */
	uint32_t in_access __attribute__((aligned(64))); /* written by the owner, read by flushers after a membarrier */
	uint64_t seen;  /* value of `req` that has been dealt with; HOST_SEEN_NONE while quiescent */
	uint64_t key;   /* TLB_VALID and the epoch, as in a tag */
	uint64_t done;  /* last request that was applied */
	pfn_t root;
	uint32_t ctx;
	uint32_t epoch;
	uint32_t keep; /* line of the faulting access, for the first page that is cleared or copied; PAGE_SIZE: none */
	struct host_machine *hm;

	/* flushers write, the owner reads at each access */
	uint64_t req __attribute__((aligned(64)));

	/* the owner writes now and then, flushers poll */
	uint64_t ack __attribute__((aligned(64)));
	uint32_t state; /* enum host_state */

	struct host_mail mail __attribute__((aligned(64)));

	/* reader-writer locks that this CPU holds for reading: written by the owner, searched by writers */
	const struct mrwlock *reading[HOST_READ_SLOTS] __attribute__((aligned(64)));
	uint32_t rw_wake; /* futex: a writer on this CPU that waits for readers */

	/* the owner's clock: time at a reading of the counter, ns for each count in 2^-32, how long that holds (task.c) */
	uint64_t clock_ns, clock_tsc, clock_mult, clock_window;

	/* the thread */
	uint32_t wake __attribute__((aligned(64))); /* futex: a wake-up has arrived (CPUs without a task) */
	bool taken;  /* hm->lock */
	struct task self; /* stands for the thread where no task was started on it */
	struct host_stats stats;
#ifdef QUIRE_DEBUG
	struct {
		const void *lock;
		uint16_t rank;
	} held[HOST_MAX_HELD];
#endif

	struct tlb_entry tlb4k[TLB_4K_ENTRIES] __attribute__((aligned(64)));
	struct tlb_entry tlb2m[TLB_2M_ENTRIES];
} __attribute__((aligned(64)));

struct host_machine {
	struct machine m; /* must be first */
	enum host_shootdown shootdown;
	/* keep: offset of the line in the page that is wanted next, or PAGE_SIZE (pages.c) */
	void (*clear)(void *page, unsigned keep);
	void (*copy)(void *dst, const void *src, unsigned keep);
	uint32_t clear_ahead;
	bool place;
	uint64_t tsc_start, clock_start; /* counter (0: not to be used) and clock at the beginning */
	int *real_cpus; /* that this process may use */
	unsigned nr_real_cpus;
	struct host_cpu *cpu[HOST_MAX_CPUS];
	unsigned nr_used; /* atomic: slots below were taken at some time */

	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct list_head pending; /* tasks that wait for host_run or for a slot */
	unsigned live;            /* tasks that have a thread */
	unsigned live_daemons;    /* of these: daemons ... */
	unsigned idle_daemons;    /* ... that wait, without a slot ... */
	unsigned timed_daemons;   /* ... but for some time only */
	pthread_cond_t called;    /* a daemon has been woken, or is told to end */
	int swap_fd;              /* -1: none */
	unsigned blocked;         /* atomic: of these, inside block without a time limit */
	uint64_t wakes;           /* atomic: wake-ups so far */
	uint64_t next_seq;
	bool running;             /* host_run is at work */
	int thread_error;
};

static inline struct host_cpu *host_cpu(struct cpu *c)
{
	return (struct host_cpu *)(void *)c;
}

static inline struct host_machine *host_of(const struct cpu *c)
{
	return (struct host_machine *)(void *)c->m;
}

#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ volatile("yield" ::: "memory")
#else
#define cpu_relax() __asm__ volatile("" ::: "memory")
#endif

#define compiler_barrier() __asm__ volatile("" ::: "memory")

/* ---- shootdown.c ---- */

int host_barrier_register(void);
void host_barrier(void); /* every thread of this process that runs has executed a full barrier */
/* Before the next access: become active, apply what is asked. Called with in_access set. */
void host_sync(struct host_cpu *h);
void host_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote);

/* From here to h's next access nobody has to wait for it. */
static inline void host_quiesce(struct host_cpu *h)
{
	if (h->seen == HOST_SEEN_NONE)
		return;
	ASSERT_DEBUG(!h->in_access);
	h->seen = HOST_SEEN_NONE;
	__atomic_store_n(&h->state, HOST_QUIESCENT, __ATOMIC_RELEASE);
}

/* An access: nothing between these two blocks or runs engine code. */
static ATTR_ALWAYS_INLINE void host_access_begin(struct host_cpu *h)
{
	__atomic_store_n(&h->in_access, 1, __ATOMIC_RELAXED);
	compiler_barrier();
	if (unlikely(__atomic_load_n(&h->req, __ATOMIC_ACQUIRE) != h->seen))
		host_sync(h);
}

static ATTR_ALWAYS_INLINE void host_access_end(struct host_cpu *h)
{
	__atomic_store_n(&h->in_access, 0, __ATOMIC_RELEASE);
}

/* ---- access.c ---- */

void host_tlb_flush(struct host_cpu *h, const struct tlb_flush *f);
void host_tlb_flush_all(struct host_cpu *h);
int host_access(struct cpu *c, vaddr_t va, unsigned size, unsigned flags);
int host_access_run(struct cpu *c, vaddr_t va, uint64_t stride, uint64_t n, unsigned size, unsigned flags, unsigned insns,
		    uint64_t *ret_done);
int host_load_value(struct cpu *c, vaddr_t va, uint64_t *ret_value);
int host_store_value(struct cpu *c, vaddr_t va, uint64_t value);
void host_load_context(struct cpu *c, pfn_t root, uint32_t ctx);
void host_flush_local(struct cpu *c, const struct tlb_flush *f);

/* ---- lock.c ---- */

/* A futex lock in one word: 0 free, 1 taken, 2 taken and waited for. Returns how often it slept. */
unsigned host_word_lock(uint32_t *w);
void host_word_unlock(uint32_t *w);
/* Sleep while *w is still v, at most ns (UINT64_MAX: no limit). May return early. */
void host_futex_wait(uint32_t *w, uint32_t v, uint64_t ns);
void host_futex_wake(uint32_t *w, int n);

void host_lock(struct cpu *c, struct mlock *l);
bool host_trylock(struct cpu *c, struct mlock *l);
void host_unlock(struct cpu *c, struct mlock *l);
void host_read_lock(struct cpu *c, struct mrwlock *l);
void host_read_unlock(struct cpu *c, struct mrwlock *l);
void host_write_lock(struct cpu *c, struct mrwlock *l);
void host_write_unlock(struct cpu *c, struct mrwlock *l);
void host_downgrade(struct cpu *c, struct mrwlock *l);

/* ---- task.c ---- */

void host_clock_setup(struct host_machine *hm);
uint64_t host_now_ns(struct cpu *c);
struct cpu *host_resched(struct cpu *c);
void host_block(struct cpu *c);
struct cpu *host_wait(struct cpu *c, uint64_t ns);
void host_wake(struct cpu *c, struct task *t);
void host_sleep_ns(struct cpu *c, uint64_t ns);
int host_task_start(struct cpu *c, struct task *t);
/* A free slot among `allowed` (NULL: any but 0, or 0 too when `zero`), now taken; NULL: none. hm->lock held. */
struct host_cpu *host_slot_take(struct host_machine *hm, const struct cpumask *allowed, bool zero);

/* ---- swap.c ---- */

int host_swap_open(struct host_machine *hm, uint64_t bytes, char *err, size_t errlen);
void host_swap_close(struct host_machine *hm);
int host_swap_io(struct cpu *c, uint64_t slot, const pfn_t *frames, unsigned nr, bool write, uint64_t *ret_done_ns);

/* ---- pages.c ---- */

void host_pages_choose(struct host_machine *hm, enum host_clear how);
int host_clear_page(struct cpu *c, pfn_t p);
int host_copy_page(struct cpu *c, pfn_t dst, pfn_t src);

#endif
