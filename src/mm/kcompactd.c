/*
 * kcompactd, a daemon a node: compacts for requests that do not wait (defer), for kswapd, and unasked
 * (vm.compaction_proactiveness) when much of the free memory is in pieces, looked at twice a second. When a proactive round did not
 * help, the next 63 looks are left out. A daemon begins when it is first needed.
 */
#include "mm/compact_int.h"

#include "mm/kthread.h"

#define PROACTIVE_PERIOD_NS 500000000ULL

/* Would some zone of the node be worth it? */
static bool node_suits(struct cpu *c, struct node *n, unsigned order, enum zone_type highest)
{
	for (unsigned t = 0; t <= highest; t++)
		if (n->zones[t].managed && compact_suitability(c, &n->zones[t], order, highest, WMARK_MIN) == COMPACT_CONTINUE)
			return true;
	return false;
}

static struct cpu *one_zone(struct compact *k, struct zone *z, enum compact_result *ret)
{
	k->z = z;
	k->migrate_scanned = k->free_scanned = 0;
	*ret = compact_zone(k);
	vmstat_add(k->c, VM_compact_daemon_migrate_scanned, (int64_t)k->migrate_scanned);
	vmstat_add(k->c, VM_compact_daemon_free_scanned, (int64_t)k->free_scanned);
	return k->c;
}

/* For a block of this order. Returns the CPU that it goes on at. */
static struct cpu *work(struct cpu *c, struct node *n, unsigned order, enum zone_type highest)
{
	enum compact_result res;

	vmstat_inc(c, VM_compact_daemon_wake);
	for (unsigned t = 0; t <= highest && !kthread_should_stop(c); t++) {
		struct zone *z = &n->zones[t];
		struct compact k = { .c = c, .order = (int)order, .mt = MIGRATE_UNMOVABLE, .highest = highest, .alloc_flags = WMARK_MIN,
				     .mode = MIGRATE_SYNC_LIGHT, .daemon = true };

		if (!z->managed || compact_deferred(z, order) || compact_suitability(c, z, order, highest, WMARK_MIN) != COMPACT_CONTINUE)
			continue;
		c = one_zone(&k, z, &res);
		if (res == COMPACT_SUCCESS)
			compact_defer_reset(z, order, false);
		else if (res == COMPACT_COMPLETE || res == COMPACT_PARTIAL_SKIPPED)
			compact_defer(z, order);
	}
	return c;
}

/* *ret_helped: the node is less fragmented than before. */
static struct cpu *work_proactively(struct cpu *c, struct node *n, bool *ret_helped)
{
	unsigned before = compact_fragmentation(c, n->nid);
	enum compact_result res;

	for (unsigned t = 0; t < NR_ZONES && !kthread_should_stop(c); t++) {
		struct compact k = { .c = c, .order = COMPACT_ALL, .mt = MIGRATE_UNMOVABLE, .mode = MIGRATE_SYNC_LIGHT, .whole = true,
				     .ignore_skip = true, .proactive = true, .daemon = true };

		if (n->zones[t].managed)
			c = one_zone(&k, &n->zones[t], &res);
	}
	*ret_helped = compact_fragmentation(c, n->nid) < before;
	return c;
}

static bool too_fragmented(struct cpu *c, const struct node *n)
{
	return c->q->knobs.compaction_proactiveness && compact_fragmentation(c, n->nid) > compact_score_target(c->q, false);
}

static void kcompactd(struct cpu *c, void *arg)
{
	struct node *n = arg;
	unsigned leave_out = 0;

	while (!kthread_should_stop(c)) {
		uint32_t order = __atomic_exchange_n(&n->kcompactd_order, 0, __ATOMIC_ACQUIRE);
		uint32_t highest = __atomic_exchange_n(&n->kcompactd_highest, 0, __ATOMIC_RELAXED);
		bool helped;

		if (order) {
			c = work(c, n, order, (enum zone_type)highest);
		} else if (leave_out) {
			leave_out--;
		} else if (too_fragmented(c, n)) {
			c = work_proactively(c, n, &helped);
			leave_out = helped ? 0 : (1U << COMPACT_MAX_DEFER_SHIFT) - 1;
		}
		c = kthread_wait(c, n->kcompactd, c->q->knobs.compaction_proactiveness ? PROACTIVE_PERIOD_NS : UINT64_MAX);
	}
}

void kcompactd_boot(struct quire *q)
{
	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++)
		kthread_add_for_node(q->nodes[nid].kcompactd, q, "kcompactd", nid, kcompactd);
}

void kcompactd_begin(struct cpu *c)
{
	for (unsigned i = 0; i < c->m->nr_nodes; i++)
		/* It may have been asked while no tasks ran. */
		if (c->q->nodes[i].kcompactd && (c->q->knobs.compaction_proactiveness ||
						 __atomic_load_n(&c->q->nodes[i].kcompactd_order, __ATOMIC_RELAXED)))
			kthread_wake(c, c->q->nodes[i].kcompactd);
}

void wakeup_kcompactd(struct cpu *c, int nid, unsigned order, enum zone_type highest)
{
	struct node *n = &c->q->nodes[nid];
	uint32_t was = __atomic_load_n(&n->kcompactd_order, __ATOMIC_RELAXED);

	if (!order || !n->kcompactd || (was && was >= order) || !node_suits(c, n, order, highest))
		return;
	if (highest > __atomic_load_n(&n->kcompactd_highest, __ATOMIC_RELAXED))
		__atomic_store_n(&n->kcompactd_highest, highest, __ATOMIC_RELAXED);
	__atomic_store_n(&n->kcompactd_order, order, __ATOMIC_RELEASE);
	kthread_wake(c, n->kcompactd);
}
