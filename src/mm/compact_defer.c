/*
 * Deferral: a zone in which compaction failed is left alone for a number of requests, which doubles with each failure, up to 63 of 64.
 * Counters of a zone are written without a lock, as in Linux: that a request is miscounted is of no consequence.
 */
#include "mm/compact.h"

static uint32_t get(const uint32_t *v)
{
	return __atomic_load_n(v, __ATOMIC_RELAXED);
}

static void put(uint32_t *v, uint32_t to)
{
	__atomic_store_n(v, to, __ATOMIC_RELAXED);
}

void compact_defer(struct zone *z, unsigned order)
{
	struct zone_compact *k = &z->compact;

	put(&k->considered, 0);
	put(&k->defer_shift, MIN(get(&k->defer_shift) + 1, COMPACT_MAX_DEFER_SHIFT));
	put(&k->order_failed, MIN(get(&k->order_failed), order));
}

bool compact_deferred(struct zone *z, unsigned order)
{
	struct zone_compact *k = &z->compact;
	uint32_t limit = 1U << get(&k->defer_shift), n;

	if (order < get(&k->order_failed))
		return false;
	n = MIN(get(&k->considered) + 1, limit);
	put(&k->considered, n);
	return n < limit;
}

void compact_defer_reset(struct zone *z, unsigned order, bool allocated)
{
	struct zone_compact *k = &z->compact;

	if (allocated) {
		put(&k->considered, 0);
		put(&k->defer_shift, 0);
	}
	put(&k->order_failed, MAX(get(&k->order_failed), order + 1));
}

bool compact_restarting(const struct zone *z, unsigned order)
{
	const struct zone_compact *k = &z->compact;

	return order >= get(&k->order_failed) && get(&k->defer_shift) == COMPACT_MAX_DEFER_SHIFT &&
	       get(&k->considered) >= 1U << COMPACT_MAX_DEFER_SHIFT;
}
