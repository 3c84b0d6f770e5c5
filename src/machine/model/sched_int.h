/*
 * The scheduling half of the model machine: who runs when. sched.c has the rules; lock.c and ipi.c build on what is declared here.
 * Key letters behind fields: [r] changed only by the CPU that runs or by the scheduler, which is all there is: one host thread.
 */
#ifndef QUIRE_MACHINE_MODEL_SCHED_INT_H
#define QUIRE_MACHINE_MODEL_SCHED_INT_H

#include "machine/machine.h"

#define SCHED_NEVER UINT64_MAX
#define SCHED_NO_ID UINT32_MAX
#define SCHED_MAX_HELD 16

struct model;
struct fiber;
struct fiber_pool;
struct ipi_node;
struct ipi_request;

/* Ranks of locks held, innermost last (checked in debug builds). */
struct sched_held {
	uint16_t rank[SCHED_MAX_HELD];
	unsigned nr;
};

/* What a CPU does that is not making progress on its own: then it is not in the heap, whoever it waits for puts it back. */
enum sched_park {
	PARK_NONE,
	PARK_SPIN, /* spins on a lock; until it is handed over */
	PARK_ACK,  /* has sent interrupts; until the last acknowledgement */
};

struct sched_cpu {
	/* ready heap */
	uint32_t heap_index; /* SCHED_NO_ID: not in it */
	/* tasks */
	struct list_head runq;  /* tasks waiting for this CPU, next first */
	uint32_t nr_queued;     /* tasks on runq */
	uint64_t slice_end_ps;  /* of the current task */
	uint64_t on_since_ps;   /* when the current task came on */
	struct task *last;      /* the task that hooks.context_switch last put here; NULL: idle */
	bool idle;              /* neither a current nor a queued task */
	bool no_yield;          /* inside an interrupt or a context switch: catch_up does nothing */
	/* waiting */
	enum sched_park park;
	uint64_t unpark_ps;     /* when what it was parked for came */
	struct mlock *spin_lock;
	uint32_t spin_next;     /* next waiter of the lock: CPU id + 1; 0: last */
	uint32_t spin_tail;     /* first waiter only: last waiter's id + 1 */
	/* interrupts that have been sent but not handled, by (deliver_ps, sender) */
	struct list_head irqs;
	struct ipi_node *nodes; /* one a target, for what this CPU sends: [nr_cpus] */
	struct sched_held held;
	/* counters */
	uint64_t context_switches, migrations, steals, wakeups;
	uint64_t ipi_sent, ipi_received;
	uint64_t idle_ps;
};

struct sched_timer {
	uint64_t time_ps, seq;
	struct sched_task *st;
};

struct sched_lock_stat {
	uint64_t acquired, contended, wait_ps, max_wait_ps;
};

struct sched_shared {
	struct fiber_pool *pool;
	/* CPUs that have something to run, but for the one that runs: binary heap by (time, id) */
	struct cpu **heap;
	uint32_t nr_heap;
	struct sched_timer *timers; /* binary heap by (time, seq); room for one a task */
	uint32_t nr_timers;
	struct cpu *running;     /* whose task's fiber runs now; NULL: the scheduler, or outside of model_run */
	struct cpu *sched_cpu;   /* the CPU on whose behalf the scheduler acts (context switch, on_exit); else NULL */
	struct list_head tasks;  /* every live task, oldest first */
	struct sched_task **by_id; /* task numbers of sleeping locks' queues; [cap_tasks] */
	uint32_t nr_tasks, cap_tasks;
	uint32_t nr_queued;      /* tasks on all run queues */
	struct cpumask idle;
	uint64_t next_seq, timer_seq;
	uint64_t quantum_ps;
	bool in_run;
	bool stopping;           /* m->stop has been seen */
	bool abandoned;          /* a run ended with tasks left: locks may still be held by nobody */
	struct ipi_node *ipi_nodes;
	struct sched_lock_stat lock[NR_LOCK_RANKS];
	uint64_t events;         /* resumptions by the main loop */
};

#endif
