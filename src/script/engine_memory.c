/*
 * What scripts do with free memory itself: putting a zone's free lists into a given state, reclaiming, and looking at a zone. Of node 0 only.
 *
 * What free_lists takes away is held until the run ends, or until the zone's lists are given anew. It is neither free nor anybody's memory.
 */
#include "script/engine_int.h"

#include "mm/alloc_slow.h"
#include "mm/fragment.h"
#include "mm/lru.h"
#include "mm/reclaim.h"

#include <stdlib.h>
#include <string.h>

static const char *const zone_names[NR_ZONES] = { [ZONE_DMA32] = "dma32", [ZONE_NORMAL] = "normal", [ZONE_MOVABLE] = "movable" };

static int zone_by_name(const struct engine *x, const char *name, size_t len, struct zone **ret)
{
	for (unsigned t = 0; t < NR_ZONES; t++) {
		if (!zone_names[t] || strlen(zone_names[t]) != len || memcmp(zone_names[t], name, len))
			continue;
		*ret = &x->q->nodes[0].zones[t];
		return (*ret)->managed ? 0 : -ENOENT;
	}
	return -EINVAL;
}

static bool parse_blocks(const char *text, struct free_blocks *ret)
{
	*ret = (struct free_blocks){ { 0 } };
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		char *end;

		if (*text < '0' || *text > '9')
			return false;
		errno = 0;
		ret->nr[o] = strtoull(text, &end, 10);
		if (errno || ret->nr[o] > 1ULL << 32)
			return false;
		if (!*end)
			return true;
		if (*end != ',')
			return false;
		text = end + 1;
	}
	return false;
}

static void give_back(struct engine *x, struct cpu *c, unsigned t)
{
	if (!x->held[t].next)
		return;
	for (const struct list_head *l = x->held[t].next; l != &x->held[t]; l = l->next)
		x->phys_at_begin -= (int64_t)(PAGE_SIZE << frame_order(list_entry(l, struct frame, lru)));
	zone_unshape(c, &x->held[t]);
	pcp_drain(c);
	x->held[t].next = NULL;
}

int engine_free_lists(struct engine_at *a, char *err, size_t errlen)
{
	const struct script_call *k = a->call;
	struct engine *x = a->x;
	struct free_blocks want;
	struct zone *z = NULL;
	int rc = zone_by_name(x, k->name, strlen(k->name), &z);
	unsigned t = z ? (unsigned)z->type : 0;

	if (rc || !parse_blocks(k->text, &want)) {
		snprintf(err, errlen, "%s:%u:1: free_lists %s %s: %s", x->script->file, k->line, k->name, k->text,
			 rc == -ENOENT ? "node 0 has no memory in this zone"
			 : rc	       ? "a zone is dma32, normal or movable"
				       : "free blocks of order 0, 1, ... are numbers with commas between, at most 11");
		return -EINVAL;
	}
	lru_add_drain_all(a->c);
	for (unsigned i = 0; i < x->m->nr_cpus; i++)
		pcp_drain(x->m->cpus[i]);
	give_back(x, a->c, t);
	rc = zone_shape(a->c, z, &want, &x->held[t]);
	if (rc) {
		x->held[t].next = NULL;
		snprintf(err, errlen, "%s:%u:1: free_lists %s: too little of the zone is free in blocks of 4 MiB", x->script->file, k->line, k->name);
		return -EINVAL;
	}
	for (const struct list_head *l = x->held[t].next; l != &x->held[t]; l = l->next)
		x->phys_at_begin += (int64_t)(PAGE_SIZE << frame_order(list_entry(l, struct frame, lru)));
	return 0;
}

void engine_free_lists_end(struct engine *x, struct cpu *c)
{
	for (unsigned t = 0; t < NR_ZONES; t++)
		give_back(x, c, t);
}

/* As a write to memory.reclaim would, 32 at a time, until no more is to be had. */
uint64_t engine_reclaim(struct cpu *c, uint64_t pages)
{
	const struct alloc_context ac = { .gfp = GFP_HIGHUSER_MOVABLE, .nid = c->nid, .highest = ZONE_MOVABLE };
	unsigned *pf = cpu_pf(c), was = *pf & PF_MEMALLOC;
	uint64_t n = 0, more = 1;

	lru_add_drain_all(c);
	*pf |= PF_MEMALLOC;
	for (; n < pages && more; n += more)
		more = try_to_free_pages(c, &ac);
	*pf = (*pf & ~PF_MEMALLOC) | was;
	return n;
}

int engine_zone_counter(const struct engine *x, const char *name, const struct script_counter_ref *r, int64_t *ret, char *err, size_t errlen)
{
	const char *dot = strchr(name, '.');
	struct zone *z = NULL;
	int rc = dot ? zone_by_name(x, name, (size_t)(dot - name), &z) : -EINVAL;
	bool takes_order = dot && strcmp(dot, ".free") != 0;
	struct free_blocks b;

	if (rc == -ENOENT) { /* a zone without memory */
		*ret = 0;
		return 0;
	}
	if (rc || r->nr != takes_order || (takes_order && (r->arg[0] < 0 || r->arg[0] > MAX_ORDER)))
		goto wrong;
	free_blocks_count(z, NR_MIGRATE_TYPES, &b);
	if (!takes_order)
		*ret = (int64_t)free_blocks_pages(&b);
	else if (!strcmp(dot, ".blocks"))
		*ret = (int64_t)b.nr[r->arg[0]];
	else if (!strcmp(dot, ".unusable"))
		*ret = unusable_index(&b, (unsigned)r->arg[0]);
	else if (!strcmp(dot, ".extfrag"))
		*ret = extfrag_index(&b, (unsigned)r->arg[0]);
	else
		goto wrong;
	return 0;
wrong:
	snprintf(err, errlen, "zone.NAME.free, .blocks(ORDER), .unusable(ORDER), .extfrag(ORDER); NAME is dma32, normal or movable, ORDER 0 to 10");
	return -ENOENT;
}
