/*
 * What is known of the nodes before any memory is: in which order they are tried, and which part of each is movable.
 *
 * Order of fallback, as Linux finds it: from the node itself always on to the nearest that is left. Among equally near ones,
 * a node without CPUs before one with, nodes of higher numbers before those of lower ones, and then the one that fewer others
 * have had as their next so far, so that equal neighbours share the overflow.
 *
 * Movable zone: quire.kernelcore is memory for which any request may be served, quire.movablecore what is left to movable
 * pages; of both the one that leaves more to the kernel counts. It is spread evenly over the nodes with memory, from the start
 * of each; what a node lacks, the others give. Below NORMAL nothing is movable. Boundaries are at multiples of the largest
 * block. Linux's kernelcore= and movablecore=.
 */
#include "mm/alloc_int.h"

static int next_nearest(const struct quire *q, int nid, const bool *used, const unsigned *load)
{
	uint64_t best = UINT64_MAX;
	int found = -1;

	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		uint64_t away;

		if (used[i])
			continue;
		away = (uint64_t)q->m->distance[nid][i] + ((int)i < nid) + (q->m->nodes[i].nr_cpus != 0);
		away = away * MACHINE_MAX_NODES * MACHINE_MAX_NODES + load[i];
		if (away < best) {
			best = away;
			found = (int)i;
		}
	}
	return found;
}

static void node_order_fallback(struct quire *q, int nid, unsigned *load)
{
	struct node *n = &q->nodes[nid];
	bool used[MACHINE_MAX_NODES] = { false };
	int prev = nid;

	n->fallback[0] = nid;
	n->nr_fallback = 1;
	used[nid] = true;
	for (int next; (next = next_nearest(q, nid, used, load)) >= 0; prev = next) {
		/* The first of each distance takes the overflow. */
		if (q->m->distance[nid][next] != q->m->distance[nid][prev])
			load[next]++;
		used[next] = true;
		n->fallback[n->nr_fallback++] = next;
	}
}

/* Frames of the whole machine that are the kernel's as well. */
static uint64_t kernel_frames(const struct quire *q, uint64_t total)
{
	uint64_t core = q->knobs.kernelcore >> PAGE_SHIFT, movable = q->knobs.movablecore >> PAGE_SHIFT;

	if (movable) {
		movable = MIN(ALIGN_UP(movable, MAX_ORDER_FRAMES), total);
		core = MAX(core, total - movable);
	}
	return core;
}

/* Give every node up to `each` more of the kernel's frames. How many were not taken. */
static uint64_t spread(struct quire *q, uint64_t each, uint64_t left, unsigned *ret_open)
{
	*ret_open = 0;
	for (unsigned i = 0; i < q->m->nr_nodes && left; i++) {
		struct node *n = &q->nodes[i];
		uint64_t end = q->m->nodes[i].end_pfn, take = MIN(MIN(each, left), end - n->movable_pfn);

		n->movable_pfn += take;
		left -= take;
		*ret_open += n->movable_pfn < end;
	}
	return left;
}

static void place_movable(struct quire *q)
{
	uint64_t total = 0, core, low = 0, below = 0;
	unsigned open = 0;

	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		const struct machine_node *mn = &q->m->nodes[i];

		q->nodes[i].movable_pfn = mn->end_pfn;
		total += mn->end_pfn - mn->start_pfn;
		if (mn->end_pfn > DMA32_END_PFN)
			below = DMA32_END_PFN;
	}
	core = kernel_frames(q, total);
	if (!core || core >= total)
		return;
	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		const struct machine_node *mn = &q->m->nodes[i];
		struct node *n = &q->nodes[i];

		/* Where there is a NORMAL zone anywhere, all below it is the kernel's; elsewhere DMA32 is divided. */
		n->movable_pfn = MIN(MAX(mn->start_pfn, below), mn->end_pfn);
		low += n->movable_pfn - mn->start_pfn;
		open += n->movable_pfn < mn->end_pfn;
	}
	for (core = core > low ? core - low : 0; core && open;)
		core = spread(q, MAX((core + open - 1) / open, 1ULL), core, &open);
	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		q->nodes[i].movable_pfn = MIN(ALIGN_UP(q->nodes[i].movable_pfn, MAX_ORDER_FRAMES), q->m->nodes[i].end_pfn);
}

void zonelist_setup(struct quire *q)
{
	unsigned load[MACHINE_MAX_NODES] = { 0 };

	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		node_order_fallback(q, (int)i, load);
	place_movable(q);
}
