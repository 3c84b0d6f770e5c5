/*
 * The check of swap (swap.h: W1, W2): slots against clusters, the swap cache against its folios. At rest only; changes nothing. Entries are
 * counted by who walks them (validate.c).
 */
#include "base/errno.h"
#include "mm/radix.h"
#include "mm/swap.h"
#include "mm/text.h"

static int invalid(struct quire *q, const char *what, uint64_t at, uint64_t is, uint64_t should)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "swap: ");
	text_str(&t, what);
	text_field(&t, "at", at);
	text_field(&t, "is", is);
	text_field(&t, "should", should);
	return -EINVAL;
}

int swap_validate_counts(struct quire *q)
{
	for (uint64_t i = 0; i < q->swap.nr_slots; i++)
		if (q->swap.map[i] & ~SWAP_HAS_CACHE)
			return invalid(q, "a slot's count is not that of its entries (W1); over by", i, q->swap.map[i] & ~SWAP_HAS_CACHE, 0);
	return 0;
}

static int check_cluster(struct quire *q, uint64_t i, uint64_t *ret_used)
{
	const struct swap_cluster *k = &q->swap.cluster[i];
	uint32_t used = 0;

	for (uint64_t s = i * SWAP_CLUSTER_SLOTS; s < (i + 1) * SWAP_CLUSTER_SLOTS; s++)
		used += q->swap.map[s] != 0;
	*ret_used += used;
	if (used != k->used)
		return invalid(q, "slots in use of a cluster", i, k->used, used);
	uint8_t on = !used ? SWAP_LIST_FREE : used < SWAP_CLUSTER_SLOTS ? SWAP_LIST_SOME : SWAP_LIST_NONE;

	return k->on == on ? 0 : invalid(q, "a cluster on the wrong list", i, k->on, on);
}

static int check_list(struct quire *q, const struct list_head *head, uint8_t on, uint64_t *ret_nr)
{
	const struct list_head *prev = head;

	for (const struct list_head *l = head->next; l != head; prev = l, l = l->next) {
		const struct swap_cluster *k = list_entry(l, const struct swap_cluster, link);

		if (l->prev != prev || k->on != on || ++*ret_nr > q->swap.nr_slots)
			return invalid(q, "a list of clusters is damaged", (uint64_t)(k - q->swap.cluster), k->on, on);
	}
	return 0;
}

static uint64_t nr_on_lists(const struct quire *q)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < q->swap.nr_slots / SWAP_CLUSTER_SLOTS; i++)
		n += q->swap.cluster[i].on != SWAP_LIST_NONE;
	return n;
}

static int check_slots(struct quire *q)
{
	uint64_t used = 0, listed = 0;

	for (uint64_t i = 0; i < q->swap.nr_slots / SWAP_CLUSTER_SLOTS; i++)
		if (check_cluster(q, i, &used))
			return -EINVAL;
	if (used + q->swap.nr_free != q->swap.nr_slots)
		return invalid(q, "free slots", 0, q->swap.nr_free, q->swap.nr_slots - used);
	if (check_list(q, &q->swap.free, SWAP_LIST_FREE, &listed) || check_list(q, &q->swap.some, SWAP_LIST_SOME, &listed))
		return -EINVAL;
	return listed == nr_on_lists(q) ? 0 : invalid(q, "clusters on lists", 0, listed, nr_on_lists(q));
}

/* The slot is the cache's: does a folio say so too? */
static int check_cached(struct quire *q, uint64_t slot)
{
	struct radix_node *const *root = &q->swap.space[slot >> SWAP_SPACE_SHIFT].root;
	uint64_t index = slot & ((1ULL << SWAP_SPACE_SHIFT) - 1), at = index;
	struct frame *f = radix_next(NULL, root, &at);

	if (!f || at != index)
		return invalid(q, "a slot is the swap cache's, which does not have it (W1)", slot, 0, 1);
	struct frame *head = frame_head(q->m, f);

	if (!(frame_flags(head) & FRAME_SWAPCACHE) || folio_swap_slot(head) + (uint64_t)(f - head) != slot)
		return invalid(q, "a folio of the swap cache has another slot (W2)", slot, folio_swap_slot(head), frame_flags(head));
	return 0;
}

static int check_cache(struct quire *q)
{
	uint64_t cached = 0, in_trees = 0;

	for (uint64_t i = 0; i < q->swap.nr_slots; i++) {
		if (!(q->swap.map[i] & SWAP_HAS_CACHE))
			continue;
		cached++;
		if (check_cached(q, i))
			return -EINVAL;
	}
	for (uint64_t i = 0; i << SWAP_SPACE_SHIFT < q->swap.nr_slots; i++)
		for (uint64_t at = 0; radix_next(NULL, &q->swap.space[i].root, &at); at++)
			in_trees++;
	if (in_trees != cached)
		return invalid(q, "pages in the swap cache that have no slot of its (W1)", 0, in_trees, cached);
	if (vmstat_read(q, VM_nr_swapcached) != (int64_t)cached)
		return invalid(q, "nr_swapcached", 0, (uint64_t)vmstat_read(q, VM_nr_swapcached), cached);
	return 0;
}

int swap_validate(struct quire *q)
{
	if (!q->swap.nr_slots)
		return 0;
	return check_slots(q) || check_cache(q) ? -EINVAL : 0;
}
