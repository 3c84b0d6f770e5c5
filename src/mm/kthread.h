/*
 * Kernel daemons (kthread.c): tasks that belong to the engine, as kswapd or khugepaged. A daemon lives as long as the engine, its task as
 * long as a run of the machine (machine.h, task.daemon): in each run its function is called anew, and returns when
 * kthread_should_stop says so, or when it has nothing more to do in this run.
 *
 *     static void kswapd(struct cpu *c, void *arg)
 *     {
 *             while (!kthread_should_stop(c)) {
 *                     balance(c, arg);
 *                     c = kthread_wait(c, node->kswapd, UINT64_MAX);
 *             }
 *     }
 *
 * On the null machine daemons do nothing: they begin when it is time to end.
 */
#ifndef QUIRE_MM_KTHREAD_H
#define QUIRE_MM_KTHREAD_H

#include "mm/system.h"

#define KTHREAD_NAME_MAX 16

struct kthread {
	struct task task;
	struct list_head link; /* q->kthreads */
	void (*fn)(struct cpu *c, void *arg);
	void *arg;
	uint64_t earlier_ps;   /* CPU time in earlier runs */
	bool woken;            /* atomic: since it last began to wait */
	bool started;          /* in this run */
	bool on_demand;        /* c */
	bool starting;         /* (on demand) atomic: somebody has seen to its start in this run */
	char name[KTHREAD_NAME_MAX];
	struct cpumask affinity;
};

/*
 * A daemon called name (cut at 15 characters), on the CPUs of affinity (NULL: on any). It begins at once where a run is on (called by a task),
 * else with the next. Not for use inside of locks. 0; -ENOMEM, or -EINVAL (affinity has no CPU): nothing was started.
 */
int kthread_start(struct quire *q, struct cpu *c, const char *name, void (*fn)(struct cpu *c, void *arg), void *arg,
		  const struct cpumask *affinity, struct kthread **ret);
/*
 * One that begins with the first wake-up of a run, at boot, in memory of the caller's, zeroed, that is there as long as the engine. It
 * then runs to the end of the run. affinity as above, with a CPU in it.
 */
void kthread_add_on_demand(struct kthread *kt, struct quire *q, const char *name, void (*fn)(struct cpu *c, void *arg), void *arg,
			   const struct cpumask *affinity);
/* The same, one of a node: called name and the node's number, on its CPUs if it has any, with the node for argument. NULL: none. */
void kthread_add_for_node(struct kthread *kt, struct quire *q, const char *name, unsigned nid, void (*fn)(struct cpu *c, void *arg));
/* Do tasks run, so that a daemon would too? */
bool kthread_run_is_on(const struct quire *q);
/* Asked by a daemon at places where it holds nothing. */
static inline bool kthread_should_stop(const struct cpu *c)
{
	return __atomic_load_n(&c->m->daemons_stop, __ATOMIC_RELAXED);
}
/*
 * The daemon itself, holding no lock: until it is woken, it is time to end, or timeout_ns have passed (UINT64_MAX: never). At once if it
 * was woken since the last call. Returns the CPU that it goes on at.
 */
struct cpu *kthread_wait(struct cpu *c, struct kthread *kt, uint64_t timeout_ns);
/* Anybody, any lock held. Never sleeps. Outside of a run: it will be found woken in the next. */
void kthread_wake(struct cpu *c, struct kthread *kt);

/* The machine's hook run_begin. */
int kthreads_begin(struct cpu *c);
/* Shutdown. Not while a run is on. */
void kthreads_free(struct cpu *c, struct quire *q);
/* CPU time so far, for reports; exact while no run is on. fn returns non-zero to stop, which is returned. */
int kthreads_each(const struct quire *q, int (*fn)(void *arg, const char *name, uint64_t cpu_ns), void *arg);

#endif
