/*
 * Who frees memory, and when: kswapd of each node, from when a zone is low until its zones are above their high watermarks, and requests
 * that find none, which free SWAP_CLUSTER_MAX pages themselves (alloc_slow.c).
 *
 * kswapd begins when it is first needed. Whoever wakes it says for which order and zones; what was said since it last looked is kept in
 * the node, the largest of each. After MAX_RECLAIM_RETRIES times in vain it sleeps until somebody else frees something. Where
 * nobody can be woken, since no tasks run, boosts of watermarks end at once.
 */
#include "mm/alloc_int.h"
#include "mm/compact.h"
#include "mm/kthread.h"
#include "mm/reclaim.h"

#define NAP_NS 100000000ULL /* before it goes to sleep for long, kswapd looks once more */

/* ---- a node ---- */

/* Would a zone do for a request? */
static bool balanced(struct cpu *c, struct node *n, unsigned order, unsigned highest)
{
	bool any = false;

	for (unsigned t = 0; t <= highest; t++) {
		struct zone *z = &n->zones[t];

		if (!z->managed)
			continue;
		any = true;
		if (zone_watermark_ok(c, z, order, zone_wmark_pages(z, WMARK_HIGH), (enum zone_type)highest, 0))
			return true;
	}
	return !any;
}

static uint64_t boost_of(const struct node *n, unsigned highest)
{
	uint64_t sum = 0;

	for (unsigned t = 0; t <= highest; t++)
		sum += __atomic_load_n(&n->zones[t].watermark_boost, __ATOMIC_RELAXED);
	return sum;
}

static void end_boosts(struct cpu *c, struct node *n, unsigned highest)
{
	for (unsigned t = 0; t <= highest; t++)
		zone_boost_end(c, &n->zones[t]);
}

static uint64_t high_of(const struct node *n, unsigned highest)
{
	uint64_t sum = 0;

	for (unsigned t = 0; t <= highest; t++)
		if (n->zones[t].managed)
			sum += MAX(zone_wmark_pages(&n->zones[t], WMARK_HIGH), SWAP_CLUSTER_MAX);
	return sum;
}

/* ---- kswapd ---- */

/*
 * Free memory until some zone is above its high watermark, or there is nothing to free. For a boost alone only what costs little: no writes, and not
 * at the highest priorities.
 */
ATTR_NOINLINE static struct cpu *balance_node(struct cpu *c, struct node *n, unsigned order, unsigned highest)
{
	struct scan_control sc = { .highest = (enum zone_type)highest, .gfp = GFP_KERNEL, .order = order, .kswapd = true, .priority = DEF_PRIORITY };
	uint64_t boost = boost_of(n, highest), freed = 0;
	bool boosted = boost != 0;

	vmstat_inc(c, VM_pageoutrun);
	while (sc.priority >= 1 && !kthread_should_stop(c)) {
		bool ok = balanced(c, n, sc.order, highest), raise;

		if (!boost && ok)
			break;
		if (boost && !ok) { /* there is more to it */
			boost = 0;
			sc.priority = DEF_PRIORITY;
		}
		sc.may_swap = !boost;
		sc.nr_scanned = sc.nr_reclaimed = 0;
		sc.nr_to_reclaim = high_of(n, highest);
		shrink_node(c, n->nid, &sc);
		freed += sc.nr_reclaimed;
		/* Enough for compaction to make a block of it: that is for others to do. */
		if (sc.order && freed >= 2ULL << sc.order)
			sc.order = 0;
		raise = sc.nr_scanned < sc.nr_to_reclaim || !sc.nr_reclaimed;
		if (boost && sc.priority == DEF_PRIORITY - 2)
			raise = false;
		if (raise)
			sc.priority--;
		if (boost && !sc.nr_reclaimed && sc.priority <= DEF_PRIORITY - 2)
			break;
		boost -= MIN(boost, sc.nr_reclaimed);
		if (c->need_resched)
			c = machine_resched(c);
	}
	if (!freed && !boosted && sc.priority < 1)
		__atomic_add_fetch(&n->kswapd_failures, 1, __ATOMIC_RELAXED);
	if (boosted)
		end_boosts(c, n, highest);
	if (order)
		wakeup_kcompactd(c, n->nid, order, (enum zone_type)highest);
	return c;
}

static bool may_sleep(struct cpu *c, struct node *n, unsigned order, unsigned highest)
{
	return __atomic_load_n(&n->kswapd_failures, __ATOMIC_RELAXED) >= MAX_RECLAIM_RETRIES || balanced(c, n, order, highest);
}

/* Until somebody wakes it. First for a moment only: memory may be low again soon. */
static struct cpu *sleep_well(struct cpu *c, struct node *n, unsigned order, unsigned highest)
{
	uint64_t until = machine_now_ns(c) + NAP_NS;

	if (!may_sleep(c, n, order, highest))
		return c;
	compact_reset_skipped(c, n->nid); /* there is free memory again where compaction found none */
	c = kthread_wait(c, n->kswapd, NAP_NS);
	if (kthread_should_stop(c))
		return c;
	if (machine_now_ns(c) < until) {
		vmstat_inc(c, VM_kswapd_low_wmark_hit_quickly);
		return c;
	}
	if (!may_sleep(c, n, order, highest)) {
		vmstat_inc(c, VM_kswapd_high_wmark_hit_quickly);
		return c;
	}
	return kthread_wait(c, n->kswapd, UINT64_MAX);
}

static void kswapd(struct cpu *c, void *arg)
{
	struct node *n = arg;
	unsigned order = 0, highest = ZONE_DEVICE - 1;

	c->current->pf |= PF_MEMALLOC | PF_KSWAPD;
	while (!kthread_should_stop(c)) {
		unsigned asked = __atomic_exchange_n(&n->kswapd_highest, 0, __ATOMIC_ACQUIRE);

		if (!asked) {
			c = sleep_well(c, n, order, highest);
			asked = __atomic_exchange_n(&n->kswapd_highest, 0, __ATOMIC_ACQUIRE);
			if (!asked && may_sleep(c, n, order, highest))
				continue;
			asked = asked ? asked : highest + 1;
		}
		order = __atomic_exchange_n(&n->kswapd_order, 0, __ATOMIC_RELAXED);
		highest = asked - 1;
		c = balance_node(c, n, order, highest);
	}
}

static void raise_to(uint8_t *what, unsigned v)
{
	uint8_t was = __atomic_load_n(what, __ATOMIC_RELAXED);

	while (was < v && !__atomic_compare_exchange_n(what, &was, (uint8_t)v, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

void wakeup_kswapd(struct cpu *c, int nid, unsigned order, unsigned gfp, enum zone_type highest)
{
	struct node *n = &c->q->nodes[nid];

	(void)gfp;
	if (!n->kswapd || !kthread_run_is_on(c->q) || !c->current) {
		end_boosts(c, n, highest);
		return;
	}
	if (__atomic_load_n(&n->kswapd_failures, __ATOMIC_RELAXED) >= MAX_RECLAIM_RETRIES ||
	    (balanced(c, n, order, highest) && !boost_of(n, highest)))
		return;
	raise_to(&n->kswapd_order, order);
	raise_to(&n->kswapd_highest, highest + 1U);
	kthread_wake(c, n->kswapd);
}

/* ---- requests ---- */

/* Once over all nodes that the request may use. */
static void shrink_nodes(struct cpu *c, const struct alloc_context *ac, struct scan_control *sc)
{
	const struct node *home = &c->q->nodes[ac->nid];
	unsigned nr = ac->gfp & GFP_THISNODE ? 1 : home->nr_fallback;

	for (unsigned i = 0; i < nr; i++)
		if (ac_allows(ac, home->fallback[i]))
			shrink_node(c, home->fallback[i], sc);
}

ATTR_NOINLINE uint64_t try_to_free_pages(struct cpu *c, const struct alloc_context *ac)
{
	struct scan_control sc = { .highest = ac->highest, .gfp = ac->gfp, .order = ac->order, .nr_to_reclaim = SWAP_CLUSTER_MAX,
				   .may_swap = (ac->gfp & GFP_IO) != 0, .priority = DEF_PRIORITY };

	for (;;) {
		shrink_nodes(c, ac, &sc);
		if (sc.nr_reclaimed >= sc.nr_to_reclaim)
			break;
		if (sc.priority--)
			continue;
		/* Only active pages are left. */
		if (sc.nr_reclaimed || !sc.skipped_deactivate || sc.force_deactivate)
			break;
		sc.force_deactivate = true;
		sc.skipped_deactivate = false;
		sc.priority = DEF_PRIORITY;
	}
	if (!sc.nr_reclaimed)
		pcp_drain(c); /* should there be anything, the next look finds it */
	return sc.nr_reclaimed;
}

uint64_t reclaimable_pages(struct cpu *c, const struct zone *z)
{
	return zone_reclaimable_pages(c->q, z);
}

void reclaim_boot(struct quire *q)
{
	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++)
		kthread_add_for_node(q->nodes[nid].kswapd, q, "kswapd", nid, kswapd);
}
