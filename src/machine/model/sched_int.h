/*
 * The scheduling half of the model machine: who runs when. sched.c has virtual time and the rules, task.c the tasks; lock.c and
 * ipi.c build on both. One host thread runs a model, so nothing here is locked; what a function may change while a fiber
 * runs is said where it matters.
 */
#ifndef QUIRE_MACHINE_MODEL_SCHED_INT_H
#define QUIRE_MACHINE_MODEL_SCHED_INT_H

#include "machine/machine.h"
#include "machine/model/event_heap.h"

#define SCHED_NEVER UINT64_MAX
#define SCHED_QUANTUM_PS 1000000ULL
#define SCHED_MAX_HELD 24
#define SCHED_HUNG_PS (120ULL * 1000000000000ULL) /* as long as Linux lets a task hang before it says so */
#define SCHED_ISSUED 16

struct model;
struct fiber;
struct fiber_pool;
struct schedule_state;
struct ipi_node;

/* Ranks of locks held, innermost last (kept in debug builds). */
struct sched_held {
	uint16_t rank[SCHED_MAX_HELD];
	uint16_t nr;
};

/* What a CPU waits for without making progress: then it is not in the heap, and whoever it waits for puts it back. */
enum sched_park {
	PARK_NONE,
	PARK_SPIN, /* a spinlock, until it is handed over */
	PARK_ACK,  /* it has sent interrupts, until the last acknowledgement */
};

struct sched_cpu {
	uint32_t pos;          /* in the heap of CPUs */
	struct list_head runq; /* tasks that wait for this CPU, next first */
	uint32_t nr_queued;
	uint64_t slice_end_ps; /* of the current task */
	uint64_t on_since_ps;  /* when the current task came on, or its time was last booked */
	struct task *last;     /* whom hooks.context_switch put here last; NULL: idle */
	bool idle;             /* neither a current nor a queued task */
	bool no_yield;         /* in an interrupt or a context switch: sched_catch_up does nothing */
	uint64_t synced_ps;    /* since it was resumed: no event was before it when its clock was this; SCHED_NEVER: not known */
	enum sched_park park;
	bool unparked;          /* what it waits for has come ... */
	uint64_t unpark_ps;     /* ... at this time */
	struct mlock *spin_lock;
	struct list_head spin_link; /* on shared.spinners */
	unsigned acks_left;     /* of the interrupts that it has sent ... */
	uint64_t ack_ps;        /* ... and the latest acknowledgement so far */
	struct list_head irqs;  /* interrupts sent to it and not handled, by (deliver_ps, sender) */
	uint64_t irq_end_ps;    /* when the last one that it handled was over */
	struct ipi_node *nodes; /* one a target, for what it sends */
	struct tlb_flush issued[SCHED_ISSUED]; /* broadcasts that it has not waited for ... */
	unsigned nr_issued;
	uint64_t issued_done_ps; /* ... and when the last of them is done */
	struct sched_held held; /* spinlocks, and outside of tasks all locks */
	uint64_t context_switches, migrations, steals;
	uint64_t ipi_sent, ipi_received, idle_ps;
};

struct sched_lock_stat {
	uint64_t contended, wait_ps, max_wait_ps;
};

struct sched_shared {
	struct fiber_pool *pool;
	struct event_heap cpus;   /* CPUs with something to run, except the running one; seq is the CPU's id */
	struct event_heap timers; /* sleepers; room for one a task */
	struct event event;       /* the last that the main loop took */
	struct cpu *running;      /* whose task's fiber runs; NULL: the scheduler, or outside of model_run */
	struct list_head tasks;   /* all live tasks, oldest first */
	struct list_head spinners; /* CPUs that spin, first come first */
	struct list_head rw_waiters; /* tasks that wait for sleeping locks, first come first */
	uint32_t nr_tasks, cap_tasks;
	uint32_t nr_daemons;      /* of the tasks */
	uint32_t nr_task_timers;  /* of tasks that are no daemons */
	bool daemons_told;        /* in this run: to end */
	uint64_t last_task_ps;    /* how far tasks that are no daemons have got */
	uint64_t broadcast_free_ps; /* when the last broadcast invalidation is done */
	uint32_t nr_queued; /* on all run queues */
	uint32_t nr_idle;
	struct cpumask idle;
	uint64_t next_seq, timer_seq, quantum_ps;
	bool in_run, stopping;
	bool abandoned; /* a run ended with tasks left: locks may be held by nobody */
	struct ipi_node *ipi_nodes;
	struct sched_lock_stat lock[NR_LOCK_RANKS];
	struct schedule_state *schedule; /* who goes on instead of the CPU furthest behind (schedule.h); NULL: usual */
	uint64_t resumes, tasks_started;
};

/* How a task's fiber left its CPU. */
enum sched_leave {
	LEAVE_PAUSE, /* still current: lets others go first, or parked */
	LEAVE_RESCHED,
	LEAVE_BLOCK,
	LEAVE_EXIT,
};

struct sched_task {
	struct task *t;
	struct model *md;
	struct fiber *fiber;
	struct list_head all;
	struct list_head rw_link; /* on shared.rw_waiters */
	uint32_t timer_pos;
	enum sched_leave leave;
	bool boundary; /* off its CPU at a user boundary: may go on on another */
	bool moved;    /* put on a queue other than that of the CPU it last ran on */
	struct mrwlock *rw_lock;
	bool rw_write, rw_granted;
	enum machine_path path;  /* what it was booked under, and its fault, while it is off */
	uint64_t fault_start_ps;
	struct sched_held held;  /* sleeping locks */
};

static inline struct sched_task *sched_task(const struct task *t)
{
	return t->priv;
}

/* ---- sched.c: virtual time ---- */
/* Wait until c is the CPU furthest behind. A compare when it is alone; nothing outside of tasks. */
void sched_sync(struct cpu *c);
/* Recompute how far the running CPU may go: after anything that changed heaps, queues or interrupts. */
void sched_horizon(struct model *md);
void sched_pause(struct cpu *c);               /* back to the main loop, to go on when c is the furthest behind */
void sched_park(struct cpu *c, enum sched_park why); /* to the main loop, until unparked; c's clock is then advanced, booked */
void sched_unpark(struct cpu *c, uint64_t ps); /* what c is parked for came at ps; also just before c parks */
void sched_ready(struct cpu *c);               /* into the heap, with its clock */
void sched_ready_again(struct cpu *c);         /* its clock has moved while in the heap */
void sched_timer_add(struct sched_task *st, uint64_t ps);
void sched_timer_del(struct sched_task *st);
bool sched_stop_seen(struct model *md);
/* Are we on c's task's fiber, so that c can wait? Else boot, teardown or a hook of the scheduler. */
bool sched_on_fiber(const struct cpu *c);

/* ---- sched_check.c: what is wrong, between two events; NULL: nothing ---- */
const char *sched_validate(struct model *md);

/* ---- task.c ---- */
int sched_task_start(struct model *md, struct cpu *c, struct task *t);
void sched_task_left(struct cpu *c, struct sched_task *st); /* after its fiber gave c up: book it, put another on */
void sched_task_pick(struct cpu *c);                         /* c has no current task: put one on, or go idle */
void sched_task_wake(struct sched_task *st, uint64_t ps);    /* blocked or asleep: make it runnable */
void sched_tasks_abandon(struct model *md);
void sched_idle_until(struct cpu *c, uint64_t ps);
/* Off the CPU until woken, inside the engine: goes on on c. */
void sched_task_block(struct cpu *c);

void sched_op_block(struct cpu *c);
void sched_op_wake(struct cpu *c, struct task *t);
void sched_op_sleep_ns(struct cpu *c, uint64_t ns);
int sched_op_task_start(struct cpu *c, struct task *t);
struct cpu *sched_op_resched(struct cpu *c);
struct cpu *sched_op_wait(struct cpu *c, uint64_t ns);

/* ---- lock.c ---- */
void sched_lock(struct cpu *c, struct mlock *l);
bool sched_trylock(struct cpu *c, struct mlock *l);
void sched_unlock(struct cpu *c, struct mlock *l);
void sched_read_lock(struct cpu *c, struct mrwlock *l);
void sched_read_unlock(struct cpu *c, struct mrwlock *l);
void sched_write_lock(struct cpu *c, struct mrwlock *l);
void sched_write_unlock(struct cpu *c, struct mrwlock *l);
void sched_downgrade(struct cpu *c, struct mrwlock *l);
const char *sched_rank_name(unsigned rank);

/* ---- ipi.c ---- */
int ipi_init(struct model *md);
void ipi_done(struct model *md);
void ipi_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote);
void ipi_flush_issue(struct cpu *c, const struct tlb_flush *f);
void ipi_flush_sync(struct cpu *c);
/* Handle what has been delivered up to `ps`; a later delivery than c's clock is waited for (c is idle or parked). */
void ipi_take(struct cpu *c, uint64_t ps);
uint64_t ipi_next_ps(const struct cpu *c); /* SCHED_NEVER: none */

#endif
