/*
 * Kernel daemons (kthread.h). A wake-up is a flag of ours and one of the task's: the task's may be used up by whatever else the daemon
 * blocks on (a folio), ours is only taken by kthread_wait.
 * Locks: q->list_lock guards the list. Daemons are never taken off it before the shutdown, so walking needs it only against adding.
 */
#include "mm/kthread.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/text.h"

static void kthread_main(struct cpu *c, struct task *t)
{
	struct kthread *kt = t->arg;

	kt->fn(c, kt->arg);
}

static bool is_empty(const struct cpumask *m, const struct machine *on)
{
	return cpumask_next(m, 0, on->nr_cpus) == on->nr_cpus;
}

bool kthread_run_is_on(const struct quire *q)
{
	return q->kthreads_begun && !__atomic_load_n(&q->m->daemons_stop, __ATOMIC_RELAXED);
}

static int start_task(struct cpu *c, struct kthread *kt)
{
	int err;

	kt->earlier_ps += kt->task.cpu_time_ps;
	kt->task = (struct task){
		.fn = kthread_main,
		.arg = kt,
		.name = kt->name,
		.daemon = true,
		.affinity = is_empty(&kt->affinity, c->m) ? NULL : &kt->affinity,
	};
	err = c->m->ops->task_start(c, &kt->task);
	__atomic_store_n(&kt->started, !err, __ATOMIC_RELEASE);
	return err;
}

static void describe(struct kthread *kt, const char *name, void (*fn)(struct cpu *c, void *arg), void *arg, const struct cpumask *affinity)
{
	kt->fn = fn;
	kt->arg = arg;
	for (unsigned i = 0; i + 1 < KTHREAD_NAME_MAX && name[i]; i++)
		kt->name[i] = name[i];
	if (affinity)
		kt->affinity = *affinity;
}

int kthread_start(struct quire *q, struct cpu *c, const char *name, void (*fn)(struct cpu *c, void *arg), void *arg,
		  const struct cpumask *affinity, struct kthread **ret)
{
	struct kthread *kt;
	int err = 0;

	if (affinity && is_empty(affinity, q->m))
		return -EINVAL;
	kt = slab_alloc(c, SLAB_KTHREAD);
	if (!kt)
		return -ENOMEM;
	describe(kt, name, fn, arg, affinity);
	*ret = kt; /* before fn runs, which may look there */
	if (kthread_run_is_on(q))
		err = start_task(c, kt);
	if (err) {
		slab_free(c, SLAB_KTHREAD, kt);
		*ret = NULL;
		return err;
	}
	machine_lock(c, &q->list_lock);
	list_add_tail(&kt->link, &q->kthreads);
	machine_unlock(c, &q->list_lock);
	return 0;
}

void kthread_add_on_demand(struct kthread *kt, struct quire *q, const char *name, void (*fn)(struct cpu *c, void *arg), void *arg,
			   const struct cpumask *affinity)
{
	describe(kt, name, fn, arg, affinity);
	kt->on_demand = true;
	list_add_tail(&kt->link, &q->kthreads);
}

void kthread_add_for_node(struct kthread *kt, struct quire *q, const char *name, unsigned nid, void (*fn)(struct cpu *c, void *arg))
{
	const struct machine_node *mn = &q->m->nodes[nid];
	struct cpumask cpus = { .bits = { 0 } };
	char full[KTHREAD_NAME_MAX];
	struct text t = text_into(full, sizeof(full));

	if (!kt)
		return;
	text_str(&t, name);
	text_u64(&t, nid);
	for (unsigned i = 0; i < mn->nr_cpus; i++)
		cpumask_set(&cpus, mn->first_cpu + i);
	kthread_add_on_demand(kt, q, full, fn, &q->nodes[nid], mn->nr_cpus ? &cpus : NULL);
}

struct cpu *kthread_wait(struct cpu *c, struct kthread *kt, uint64_t timeout_ns)
{
	uint64_t now = machine_now_ns(c), end = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;

	while (!__atomic_exchange_n(&kt->woken, false, __ATOMIC_ACQUIRE) && !kthread_should_stop(c) && now < end) {
		c = machine_wait(c, end == UINT64_MAX ? UINT64_MAX : end - now);
		now = machine_now_ns(c);
	}
	machine_touch(c, machine_pa(c->m, &kt->woken), 1, TOUCH_WRITE);
	return c;
}

void kthread_wake(struct cpu *c, struct kthread *kt)
{
	machine_touch(c, machine_pa(c->m, &kt->woken), 1, TOUCH_READ);
	if (__atomic_load_n(&kt->woken, __ATOMIC_RELAXED) || __atomic_exchange_n(&kt->woken, true, __ATOMIC_RELEASE))
		return;
	machine_touch(c, machine_pa(c->m, &kt->woken), 1, TOUCH_ATOMIC);
	if (!kthread_run_is_on(c->q))
		return;
	if (__atomic_load_n(&kt->started, __ATOMIC_ACQUIRE))
		c->m->ops->wake(c, &kt->task);
	else if (kt->on_demand && !__atomic_exchange_n(&kt->starting, true, __ATOMIC_ACQ_REL) && start_task(c, kt))
		__atomic_store_n(&kt->starting, false, __ATOMIC_RELEASE); /* with a later wake-up, perhaps */
}

int kthreads_begin(struct cpu *c)
{
	struct quire *q = c->q;
	struct kthread *kt;
	int err = 0;

	list_for_each_entry(kt, &q->kthreads, link) {
		kt->started = kt->starting = false;
		if (kt->on_demand && !kt->woken)
			continue;
		kt->starting = true;
		err = start_task(c, kt);
		if (err)
			break;
	}
	q->kthreads_begun = true;
	return err;
}

void kthreads_free(struct cpu *c, struct quire *q)
{
	struct kthread *kt, *tmp;

	ASSERT(list_empty(&q->kthreads) || !kthread_run_is_on(q));
	list_for_each_entry_safe(kt, tmp, &q->kthreads, link) {
		list_del(&kt->link);
		if (!kt->on_demand)
			slab_free(c, SLAB_KTHREAD, kt);
	}
}

int kthreads_each(const struct quire *q, int (*fn)(void *arg, const char *name, uint64_t cpu_ns), void *arg)
{
	const struct kthread *kt;
	int res = 0;

	list_for_each_entry(kt, &q->kthreads, link) {
		if (kt->on_demand && !(kt->earlier_ps + kt->task.cpu_time_ps))
			continue; /* nobody ever asked for it */
		res = fn(arg, kt->name, (kt->earlier_ps + kt->task.cpu_time_ps) / PS_PER_NS);
		if (res)
			break;
	}
	return res;
}
