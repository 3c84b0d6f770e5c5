/*
 * The page allocator's slow path: in which order kswapd, reclaim, compaction and the OOM killer are called, and when a request
 * gives up. Linux's order (6.12):
 *
 *  1. wake kswapd (GFP_KSWAPD_RECLAIM), and kcompactd where the request will not compact itself, look again down to the min watermark;
 *  2. blocks larger than order 3, and larger ones that can't be moved: asynchronous compaction first, since memory may be
 *     plenty and only in pieces. With GFP_NORETRY and order > 3, a compaction that was skipped or deferred ends the request;
 *  3. requests without GFP_DIRECT_RECLAIM, and those of tasks that free memory themselves (PF_MEMALLOC), end here;
 *  4. direct reclaim, then compaction; GFP_NORETRY ends here, and so does order > 3 without GFP_RETRY_MAYFAIL;
 *  5. again from 1, while reclaim may still help: at most MAX_RECLAIM_RETRIES rounds without progress, and only while some zone would
 *     be above min if all that is reclaimable were free; or while compaction may, with rising priority;
 *  6. the OOM killer, not for order > 3, GFP_RETRY_MAYFAIL, GFP_THISNODE or requests for low zones alone.
 *
 * With no hooks (system.h) this comes to: boosts end, the low watermark, the min watermark, this CPU's lists given back, and the
 * min watermark again.
 */
#include "base/assert.h"
#include "mm/alloc_int.h"

#define MAX_RECLAIM_RETRIES 16U
#define MAX_COMPACT_RETRIES 16U

/* One request's way through. */
struct slow {
	struct cpu *c;
	const struct alloc_context *ac;
	const struct alloc_hooks *h;
	unsigned alloc_flags;
	bool costly;              /* larger than what every request is worth an effort for */
	bool may_compact;
	enum compact_priority prio;
	enum compact_result compacted;
	unsigned compact_retries, no_progress;
	uint64_t progress;        /* frames, of the last direct reclaim */
};

static const struct alloc_hooks no_hooks;

unsigned *cpu_pf(struct cpu *c)
{
	return c->current ? &c->current->pf : &c->pc->pf;
}

/* Boosts end where nobody can be woken to see to it. */
static void end_boosts(struct cpu *c, const struct alloc_context *ac)
{
	const struct node *home = &c->q->nodes[ac->nid];

	for (unsigned i = 0; i < home->nr_fallback; i++)
		for (int t = (int)ac->highest; t >= 0; t--)
			zone_boost_end(c, &c->q->nodes[home->fallback[i]].zones[t]);
}

static bool node_has_zones(const struct node *n, enum zone_type highest)
{
	for (unsigned t = 0; t <= highest; t++)
		if (n->zones[t].managed)
			return true;
	return false;
}

static void wake_all_kswapds(const struct slow *s)
{
	const struct node *home = &s->c->q->nodes[s->ac->nid];
	unsigned nr = s->ac->gfp & GFP_THISNODE ? 1 : home->nr_fallback;

	if (!(s->alloc_flags & ALLOC_KSWAPD))
		return;
	for (unsigned i = 0; i < nr; i++) {
		if (!ac_allows(s->ac, home->fallback[i]) || !node_has_zones(&s->c->q->nodes[home->fallback[i]], s->ac->highest))
			continue;
		if (s->h->wake_kswapd)
			s->h->wake_kswapd(s->c, home->fallback[i], s->ac->order, s->ac->gfp, s->ac->highest);
		if (s->ac->order && !(s->ac->gfp & GFP_DIRECT_RECLAIM) && s->h->wake_kcompactd)
			s->h->wake_kcompactd(s->c, home->fallback[i], s->ac->order, s->ac->highest);
	}
}

/* What the request may do beside the min watermark. */
static unsigned flags_of(const struct alloc_context *ac)
{
	unsigned flags = WMARK_MIN;

	if (ac->gfp & GFP_HIGH)
		flags |= ALLOC_MIN_RESERVE;
	if (ac->gfp & GFP_KSWAPD_RECLAIM)
		flags |= ALLOC_KSWAPD;
	if (!(ac->gfp & (GFP_DIRECT_RECLAIM | GFP_NOMEMALLOC)))
		flags |= ALLOC_NON_BLOCK;
	return flags;
}

/* Reserves that are open to this request whatever the watermarks; 0: none. */
static unsigned reserve_flags(const struct slow *s)
{
	unsigned gfp = s->ac->gfp, pf = *cpu_pf(s->c);

	if (gfp & GFP_NOMEMALLOC)
		return 0;
	if (gfp & GFP_MEMALLOC || pf & PF_MEMALLOC)
		return ALLOC_NO_WATERMARKS;
	return pf & PF_OOM_VICTIM ? ALLOC_OOM : 0;
}

static struct frame *look(const struct slow *s)
{
	return zonelist_alloc(s->c, s->ac, s->alloc_flags);
}

/* A hook that frees memory runs: not to be called again for what it allocates itself. Returns what to restore. */
static unsigned memalloc_begin(struct cpu *c)
{
	unsigned *pf = cpu_pf(c), was = *pf & PF_MEMALLOC;

	*pf |= PF_MEMALLOC;
	return was;
}

static void memalloc_end(struct cpu *c, unsigned was)
{
	unsigned *pf = cpu_pf(c);

	*pf = (*pf & ~PF_MEMALLOC) | was;
}

static struct frame *direct_compact(struct slow *s, enum compact_priority prio)
{
	uint64_t since = phase_begin(s->c), inside = phase_sum(s->c);
	struct frame *f = NULL;
	unsigned was;

	s->compacted = COMPACT_SKIPPED;
	if (!s->ac->order || !s->h->direct_compact)
		return NULL;
	was = memalloc_begin(s->c);
	s->compacted = s->h->direct_compact(s->c, s->ac, s->alloc_flags, prio, &f);
	memalloc_end(s->c, was);
	phase_end_outer(s->c, PHASE_COMPACT, since, inside);
	if (s->compacted == COMPACT_SKIPPED)
		return NULL;
	vmstat_inc(s->c, VM_compact_stall);
	if (!f)
		f = look(s);
	vmstat_inc(s->c, f ? VM_compact_success : VM_compact_fail);
	if (f && s->h->compact_defer_reset)
		s->h->compact_defer_reset(s->c, frame_zone_of(s->c->q, f), s->ac->order);
	return f;
}

static void count_allocstall(struct cpu *c, enum zone_type highest)
{
	static const enum vm_counter by_zone[ZONE_DEVICE] = { VM_allocstall_dma32, VM_allocstall_normal, VM_allocstall_movable };

	vmstat_inc(c, by_zone[highest]);
}

static struct frame *direct_reclaim(struct slow *s)
{
	struct frame *f;

	s->progress = 0;
	if (s->h->direct_reclaim) {
		uint64_t since = phase_begin(s->c), inside = phase_sum(s->c);
		unsigned was = memalloc_begin(s->c);

		count_allocstall(s->c, s->ac->highest);
		s->progress = s->h->direct_reclaim(s->c, s->ac);
		memalloc_end(s->c, was);
		phase_end_outer(s->c, PHASE_RECLAIM, since, inside);
		if (!s->progress)
			return NULL;
		f = look(s);
		if (f)
			return f;
	}
	/* What was freed may lie on this CPU's lists. */
	pcp_drain(s->c);
	return look(s);
}

/* Would some zone do if all that reclaim can free were free? Then another round is worth it. */
static bool should_reclaim_retry(struct slow *s)
{
	const struct node *home = &s->c->q->nodes[s->ac->nid];
	unsigned nr = s->ac->gfp & GFP_THISNODE ? 1 : home->nr_fallback;

	if (s->progress && !s->costly)
		s->no_progress = 0;
	else
		s->no_progress++;
	if (s->no_progress > MAX_RECLAIM_RETRIES || !s->h->reclaimable_pages)
		return false;
	for (unsigned i = 0; i < nr; i++) {
		for (int t = (int)s->ac->highest; t >= 0; t--) {
			struct zone *z = &s->c->q->nodes[home->fallback[i]].zones[t];
			uint64_t available;

			if (!z->managed || !ac_allows(s->ac, home->fallback[i]))
				continue;
			available = s->h->reclaimable_pages(s->c, z) + __atomic_load_n(&z->free_pages, __ATOMIC_RELAXED);
			if (zone_watermark_ok_free(s->c, z, s->ac->order, zone_wmark_pages(z, WMARK_MIN), s->ac->highest, s->alloc_flags,
						   available))
				return true;
		}
	}
	return false;
}

/* The next round compacts harder, down to a limit. */
static bool raise_priority(struct slow *s)
{
	enum compact_priority limit = s->costly ? COMPACT_PRIO_SYNC_LIGHT : COMPACT_PRIO_SYNC_FULL;

	if (s->prio <= limit)
		return false;
	s->prio--;
	s->compact_retries = 0;
	return true;
}

static bool should_compact_retry(struct slow *s)
{
	if (!s->ac->order || *cpu_pf(s->c) & PF_OOM_VICTIM)
		return false;
	if (s->compacted == COMPACT_SKIPPED)
		return s->h->compact_suitable && s->h->compact_suitable(s->c, s->ac, s->alloc_flags);
	/* It made blocks, which others took. */
	if (s->compacted == COMPACT_SUCCESS)
		return ++s->compact_retries <= (s->costly ? MAX_COMPACT_RETRIES / 4 : MAX_COMPACT_RETRIES) || raise_priority(s);
	return raise_priority(s);
}

/* *ret_retry: something was killed, or somebody else freed memory meanwhile. */
static struct frame *may_oom(const struct slow *s, bool *ret_retry)
{
	const unsigned never = GFP_RETRY_MAYFAIL | GFP_THISNODE;
	struct frame *f = zonelist_alloc(s->c, s->ac, WMARK_HIGH);

	*ret_retry = false;
	if (!f && s->h->oom && !s->costly && !(s->ac->gfp & never) && s->ac->highest >= ZONE_NORMAL)
		*ret_retry = s->h->oom(s->c, s->ac);
	return f;
}

/* Step 2. *ret_end: give up. */
static struct frame *compact_first(struct slow *s, bool *ret_end)
{
	bool movable = gfp_migrate_type(s->ac->gfp) == MIGRATE_MOVABLE;
	struct frame *f;

	*ret_end = false;
	if (!s->may_compact || !(s->costly || (s->ac->order && !movable)) || reserve_flags(s))
		return NULL;
	f = direct_compact(s, COMPACT_PRIO_ASYNC);
	if (!f && s->costly && s->ac->gfp & GFP_NORETRY && s->h->direct_compact) {
		*ret_end = s->compacted == COMPACT_SKIPPED || s->compacted == COMPACT_DEFERRED;
		s->prio = COMPACT_PRIO_ASYNC;
	}
	return f;
}

/* Steps 1, 3 and 4. *ret_end: there is no use in another round. */
static struct frame *one_round(struct slow *s, bool *ret_end)
{
	unsigned gfp = s->ac->gfp, reserve = reserve_flags(s);
	struct frame *f;

	wake_all_kswapds(s);
	if (reserve)
		s->alloc_flags = reserve | (s->alloc_flags & ALLOC_KSWAPD);
	f = look(s);
	*ret_end = !f && (!(gfp & GFP_DIRECT_RECLAIM) || *cpu_pf(s->c) & PF_MEMALLOC);
	if (f || *ret_end)
		return f;
	f = direct_reclaim(s);
	if (!f && s->may_compact)
		f = direct_compact(s, s->prio);
	*ret_end = gfp & GFP_NORETRY || (s->costly && (!s->may_compact || !(gfp & GFP_RETRY_MAYFAIL)));
	return f;
}

struct frame *alloc_slow(struct cpu *c, const struct alloc_context *ac)
{
	struct slow s = { .c = c, .ac = ac, .h = c->q->alloc_hooks ? c->q->alloc_hooks : &no_hooks, .alloc_flags = flags_of(ac),
			  .costly = ac->order > PCP_COSTLY_ORDER, .prio = COMPACT_PRIO_SYNC_LIGHT, .compacted = COMPACT_SKIPPED };
	struct frame *f = NULL;
	bool end = false, retry;

	s.may_compact = ac->order && ac->gfp & GFP_DIRECT_RECLAIM && ac->gfp & GFP_IO;
	if (!s.h->wake_kswapd && ac->gfp & GFP_KSWAPD_RECLAIM) {
		end_boosts(c, ac);
		f = zonelist_alloc(c, ac, WMARK_LOW);
	}
	if (!f) {
		wake_all_kswapds(&s);
		f = look(&s);
	}
	if (!f)
		f = compact_first(&s, &end);
	while (!f && !end) {
		f = one_round(&s, &end);
		if (f || end || should_reclaim_retry(&s) || (s.progress && s.may_compact && should_compact_retry(&s)))
			continue;
		f = may_oom(&s, &retry);
		s.no_progress = 0;
		end = !retry || (*cpu_pf(c) & PF_OOM_VICTIM && (s.alloc_flags & ALLOC_OOM || ac->gfp & GFP_NOMEMALLOC));
	}
	return f;
}
