/*
 * Interrupts between CPUs, which exist for TLB shootdowns (hooks of the contract: flush_remote).
 *
 * The sender pays ipi_send for each target, one after the other; target i is interrupted at the time of its sending plus
 * ipi_deliver, pays for the interrupt and the invalidation, and acknowledges; the sender goes on at the last acknowledgement.
 *
 *   target is                    handles it
 *   before its delivery time     when it gets there (run_until_ps sees to it): until then its stale entries really translate
 *   beyond its delivery time     at once. It is stopped at a point where it could have been interrupted; the acknowledgement is dated
 *                                from the delivery, the handler's time is added to its clock
 *   idle or parked               at once, on its own clock moved up to the delivery. (A lock that is handed over between sending and
 *                                delivery is thereby taken after the interrupt instead of before.)
 *
 * So a sender that holds a page-table lock and a receiver that spins on it always meet. Handlers take no locks and do not
 * yield.
 *
 * With hardware broadcast (Arm) there are no interrupts, and receivers pay nothing. An invalidation (TLBI) is issued, and a barrier
 * (DSB) waits until all that its CPU has issued have been done everywhere. The fabric does one after the other, whoever sent it
 * ("the latency ... increases almost linearly with the number of CPUs trying to send tlbi broadcasts at the same time", Linux patch
 * 'arm64: tlb: skip tlbi broadcast' of 2020, measured on 32 CPUs): each occupies it for cost.tlbi_issue; the rest of
 * cost.tlbi_broadcast is the barrier's. What was issued is dropped when it is waited for, as late as the architecture allows, so that who
 * forgets to wait is found out.
 */
#include "machine/model/model_int.h"

#include "base/assert.h"
#include "machine/model/schedule_int.h"

#include <errno.h>
#include <stdlib.h>

struct ipi_node {
	struct list_head link; /* on the target's irqs */
	struct cpu *sender;
	const struct tlb_flush *flush; /* the sender waits, so it stays valid */
	uint64_t deliver_ps;
};

int ipi_init(struct model *md)
{
	size_t n = md->m.nr_cpus;

	/* Large for large machines, but zero pages are only touched by pairs that meet. */
	md->sched.ipi_nodes = calloc(n * n, sizeof(struct ipi_node));
	if (!md->sched.ipi_nodes)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		model_cpu(md->m.cpus[i])->sched.nodes = md->sched.ipi_nodes + i * n;
	return 0;
}

void ipi_done(struct model *md)
{
	free(md->sched.ipi_nodes);
	md->sched.ipi_nodes = NULL;
}

uint64_t ipi_next_ps(const struct cpu *c)
{
	const struct sched_cpu *sc = &((const struct model_cpu *)(const void *)c)->sched;

	return list_empty(&sc->irqs) ? SCHED_NEVER : list_first_entry(&sc->irqs, struct ipi_node, link)->deliver_ps;
}

/* A CPU that makes no progress gets to the delivery by waiting. */
static void wait_until(struct cpu *c, uint64_t ps)
{
	const struct sched_cpu *sc = &model_cpu(c)->sched;

	if (ps <= c->now_ps)
		return;
	if (sc->park == PARK_NONE)
		sched_idle_until(c, ps);
	else
		core_charge(c, ps - c->now_ps, sc->park == PARK_SPIN ? PATH_LOCK_WAIT : PATH_IPI);
}

static void acknowledge(struct cpu *sender, uint64_t ps)
{
	struct sched_cpu *sc = &model_cpu(sender)->sched;

	sc->ack_ps = MAX(sc->ack_ps, ps);
	ASSERT(sc->acks_left);
	if (!--sc->acks_left)
		sched_unpark(sender, sc->ack_ps);
}

static void flush(struct cpu *c, const struct tlb_flush *f)
{
	if (model_of(c)->sched.schedule)
		schedule_flush(c, f);
	else
		core_flush_local(c, f);
}

static void handle(struct cpu *c, struct ipi_node *node)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	enum machine_path path;
	uint64_t before;

	list_del(&node->link);
	wait_until(c, node->deliver_ps);
	before = c->now_ps;
	path = core_work(c, PATH_IPI, 0);
	core_charge(c, model_of(c)->desc.cost.irq_ps, PATH_IPI);
	flush(c, node->flush);
	(void)core_work(c, path, 0);
	sc->ipi_received++;
	sc->irq_end_ps = MAX(node->deliver_ps, sc->irq_end_ps) + (c->now_ps - before);
	acknowledge(node->sender, sc->irq_end_ps);
}

void ipi_take(struct cpu *c, uint64_t ps)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	bool nested = sc->no_yield;

	if (list_empty(&sc->irqs))
		return;
	sc->no_yield = true;
	while (ipi_next_ps(c) <= ps && !list_empty(&sc->irqs))
		handle(c, list_first_entry(&sc->irqs, struct ipi_node, link));
	sc->no_yield = nested;
}

/* In the order (delivery, sender). */
static void post(struct cpu *target, struct ipi_node *node)
{
	struct list_head *head = &model_cpu(target)->sched.irqs, *at = head;

	while (at->prev != head) {
		const struct ipi_node *o = list_entry(at->prev, struct ipi_node, link);

		if (o->deliver_ps < node->deliver_ps ||
		    (o->deliver_ps == node->deliver_ps && o->sender->id < node->sender->id))
			break;
		at = at->prev;
	}
	list_add_tail(&node->link, at);
}

/* May the target be interrupted now, on behalf of whoever runs? */
static bool handles_at_once(struct cpu *target, uint64_t deliver_ps, bool outside)
{
	const struct sched_cpu *sc = &model_cpu(target)->sched;

	if (outside || sc->idle || (sc->park != PARK_NONE && !sc->unparked))
		return true;
	if (model_of(target)->sched.schedule)
		return false; /* when it next goes on */
	return MAX(target->now_ps, sc->unparked ? sc->unpark_ps : 0) >= deliver_ps;
}

static void send(struct cpu *c, struct cpu *target, const struct tlb_flush *f)
{
	const struct model *md = model_of(c);
	struct sched_cpu *sc = &model_cpu(c)->sched, *tc = &model_cpu(target)->sched;
	struct ipi_node *node = &sc->nodes[target->id];

	core_charge(c, md->desc.cost.ipi_send_ps, PATH_IPI);
	sc->ipi_sent++;
	*node = (struct ipi_node){ .sender = c, .flush = f, .deliver_ps = c->now_ps + md->desc.cost.ipi_deliver_ps };
	post(target, node);
	if (!handles_at_once(target, node->deliver_ps, !sched_on_fiber(c)))
		return;
	/* Those before it have been delivered too. */
	ipi_take(target, node->deliver_ps);
	if (tc->pos != EVENT_ABSENT)
		sched_ready_again(target);
}

static void drop_on(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f)
{
	unsigned i;

	for_each_cpu(i, targets, c->m->nr_cpus)
		if (model_of(c)->sched.schedule)
			schedule_flush(c->m->cpus[i], f);
		else
			core_flush_nocharge(c->m->cpus[i], f);
}

/* The oldest n that c has issued are done. */
static void complete_issued(struct cpu *c, unsigned n)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	struct cpumask all = { .bits = { 0 } };

	for (unsigned i = 0; n && i < c->m->nr_cpus; i++)
		cpumask_set(&all, i);
	for (unsigned i = 0; i < n; i++)
		drop_on(c, &all, &sc->issued[i]);
	sc->nr_issued -= n;
	for (unsigned i = 0; n && i < sc->nr_issued; i++)
		sc->issued[i] = sc->issued[n + i];
}

/* The fabric takes the order, after those of others; c does not wait for it. */
static void issue(struct cpu *c, const struct tlb_flush *f)
{
	uint64_t n = f->full || f->end <= f->start ? 1 : (f->end - f->start + (1ULL << f->stride_shift) - 1) >> f->stride_shift;
	uint64_t ps = n * model_of(c)->desc.cost.tlbi_issue_ps, *free = &model_of(c)->sched.broadcast_free_ps;

	*free = MAX(*free, c->now_ps) + ps;
	model_cpu(c)->sched.issued_done_ps = *free;
	core_charge(c, ps, PATH_IPI);
}

static void wait_issued(struct cpu *c)
{
	uint64_t done = model_cpu(c)->sched.issued_done_ps;
	const struct machine_desc *d = &model_of(c)->desc;

	core_charge(c, (done > c->now_ps ? done - c->now_ps : 0) + d->cost.tlbi_broadcast_ps - d->cost.tlbi_issue_ps, PATH_IPI);
}

void ipi_flush_issue(struct cpu *c, const struct tlb_flush *f)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;

	ASSERT(c->m->broadcast_tlbi);
	core_drain(c); /* what was changed in memory is visible before anyone is told */
	sched_sync(c);
	if (sc->nr_issued == SCHED_ISSUED)
		complete_issued(c, 1);
	sc->issued[sc->nr_issued++] = *f;
	issue(c, f);
}

void ipi_flush_sync(struct cpu *c)
{
	ASSERT(c->m->broadcast_tlbi);
	core_drain(c);
	sched_sync(c);
	complete_issued(c, model_cpu(c)->sched.nr_issued);
	wait_issued(c);
}

static void flush_broadcast(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f)
{
	core_drain(c);
	sched_sync(c);
	complete_issued(c, model_cpu(c)->sched.nr_issued);
	drop_on(c, targets, f);
	issue(c, f);
	wait_issued(c);
}

void ipi_flush_remote(struct cpu *c, const struct cpumask *targets, const struct tlb_flush *f, unsigned *ret_remote)
{
	struct sched_cpu *sc = &model_cpu(c)->sched;
	unsigned nr = 0, i;

	*ret_remote = 0;
	if (c->m->broadcast_tlbi) {
		flush_broadcast(c, targets, f);
		return;
	}
	if (cpumask_test(targets, c->id))
		flush(c, f);
	for_each_cpu(i, targets, c->m->nr_cpus)
		nr += i != c->id;
	if (!nr)
		return;
	core_drain(c); /* what was changed in memory is visible before anyone is told */
	sched_sync(c);
	ASSERT(!sc->acks_left && !sc->unparked);
	sc->acks_left = nr;
	sc->ack_ps = 0;
	sc->no_yield = true;
	for_each_cpu(i, targets, c->m->nr_cpus)
		if (i != c->id)
			send(c, c->m->cpus[i], f);
	sc->no_yield = false;
	sched_park(c, PARK_ACK);
	*ret_remote = nr;
}
