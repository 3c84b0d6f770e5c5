/*
 * Moving many folios: passes, batches, splits, and the books.
 *
 *   a batch (up to 512 base pages)    unmap all, one flush, move all: asynchronously, since nobody may wait while he holds more than one
 *                                     folio's lock; what could not be locked or is in use is tried again, in so many passes
 *   what is left, where waiting       one by one, waiting for locks
 *     is allowed
 * A huge page of which parts are unmapped is split first, since moving it would move waste; one for which there is no room at the target
 * is split unless it is moved for locality's sake alone (MR_NUMA_MISPLACED), where a split would cost more than being misplaced.
 * The parts of split folios go through one more pass of their own.
 */
#include "base/errno.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/migrate.h"
#include "mm/rmap.h"
#include "mm/split.h"
#include "mm/system.h"
#include "mm/unmap.h"

struct migrate {
	struct cpu *c;
	const struct migrate_target *t;
	enum migrate_reason reason;
	struct list_head failed, parts; /* folios that stay; parts of split ones, to be tried on their own */
	struct migrate_stats stats;
	uint64_t nr_failed, nr_split; /* folios; those that were split have not been moved as such */
	bool no_room;       /* the target has none: stop */
};

static bool is_thp(const struct frame *folio)
{
	return frame_nr_pages(folio) == HPAGE_PMD_NR;
}

static struct frame *first(struct list_head *l)
{
	return list_first_entry(l, struct frame, lru);
}

static void move_link(struct frame *folio, struct list_head *to)
{
	list_del(&folio->lru);
	list_add_tail(&folio->lru, to);
}

static void splice(struct list_head *from, struct list_head *to)
{
	while (!list_empty(from))
		move_link(first(from), to);
}

/* Off its list, and the isolation's reference goes: it has been moved, or everybody else had let go of it. */
static void finish(struct migrate *m, struct frame *folio)
{
	list_del(&folio->lru);
	if (frame_flags(folio) & FRAME_ISOLATED)
		folio_forget_isolated(m->c, folio);
	frame_put(m->c, folio);
}

static void count_failed(struct migrate *m, const struct frame *folio)
{
	m->nr_failed++;
	m->stats.nr_failed_pages += frame_nr_pages(folio);
	m->stats.nr_thp_failed += is_thp(folio);
}

static void count_moved(struct migrate *m, const struct frame *folio)
{
	m->stats.nr_succeeded += frame_nr_pages(folio);
	m->stats.nr_thp_succeeded += is_thp(folio);
}

/* Its parts take its place, among those to be tried on their own. false: it can't be split now. */
static bool split_folio(struct migrate *m, struct frame *folio)
{
	struct cpu *c = m->c;
	bool thp = is_thp(folio);

	if (!folio_trylock(c, folio))
		return false;
	int rc = folio_split(c, folio, NULL, &m->parts);

	folio_unlock(c, folio);
	if (rc)
		return false;
	move_link(folio, &m->parts);
	m->nr_split++;
	m->stats.nr_thp_split += thp;
	return true;
}

static bool may_split(const struct migrate *m, const struct frame *folio)
{
	return frame_nr_pages(folio) > 1 && m->reason != MR_NUMA_MISPLACED && (frame_flags(folio) & FRAME_ANON);
}

/* ---- a batch: unmapped sources, and their targets in the same order ---- */

struct batch {
	struct list_head src, dst;
	struct tlb_batch tlb;
};

/* What is known of an unmapped folio is kept in its target's descriptor, which nobody else knows. */
static void record_unmapped(struct batch *b, const struct migration *g)
{
	g->dst->priv = (uintptr_t)g->anon_vma | g->was_mapped;
	move_link(g->src, &b->src);
	list_add_tail(&g->dst->lru, &b->dst);
}

static struct migration recall_unmapped(struct frame *src, struct frame *dst)
{
	struct migration g = {
		.src = src, .dst = dst, .anon_vma = (struct anon_vma *)(dst->priv & ~1ULL), .was_mapped = dst->priv & 1
	};

	dst->priv = 0;
	list_del(&dst->lru);
	return g;
}

/* Go through `from` once: into the batch, back to `from` (*ret_again), or among the failed ones. */
static void unmap_pass(struct migrate *m, struct list_head *from, enum migrate_mode mode, struct batch *b, uint64_t *ret_again)
{
	struct tlb_batch *tlb = mode == MIGRATE_ASYNC ? &b->tlb : NULL;
	struct list_head again;

	list_init(&again);
	*ret_again = 0;
	while (!list_empty(from) && !m->no_room) {
		struct frame *folio = first(from);
		struct migration g;
		int rc;

		if ((frame_flags(folio) & FRAME_PARTIALLY_MAPPED) && may_split(m, folio) && split_folio(m, folio))
			continue;
		rc = migrate_folio_unmap(m->c, folio, m->t, mode, tlb, &g);
		if (!rc) {
			record_unmapped(b, &g);
		} else if (rc == 1) {
			count_moved(m, folio);
			finish(m, folio);
		} else if (rc == -EAGAIN) {
			++*ret_again;
			move_link(folio, &again);
		} else {
			if (rc == -ENOMEM && may_split(m, folio) && split_folio(m, folio))
				continue;
			m->no_room = rc == -ENOMEM;
			count_failed(m, folio);
			move_link(folio, &m->failed);
		}
	}
	splice(&again, from);
}

/* It stays where it is. */
static void undo(struct migrate *m, struct frame *src, struct frame *dst, struct list_head *from)
{
	struct migration g = recall_unmapped(src, dst);

	migrate_folio_undo(m->c, &g, m->t);
	count_failed(m, src);
	move_link(src, from);
}

/* Move what is in the batch, or put it back: what could not be moved is counted as failed, and on `from`. */
static void move_batch(struct migrate *m, struct batch *b, struct list_head *from, unsigned passes)
{
	struct list_head src, dst;

	list_init(&src);
	list_init(&dst);
	for (unsigned pass = 0; pass < passes && !list_empty(&b->src); pass++) {
		while (!list_empty(&b->src)) {
			struct frame *s = first(&b->src), *d = first(&b->dst);
			uint64_t word = d->priv;
			struct migration g = recall_unmapped(s, d);
			int rc = migrate_folio_move(m->c, &g);

			if (!rc) {
				count_moved(m, s);
				finish(m, s);
				continue;
			}
			d->priv = word;
			list_add_tail(&d->lru, &dst);
			move_link(s, &src);
			if (rc != -EAGAIN)
				undo(m, s, d, from);
		}
		splice(&src, &b->src);
		splice(&dst, &b->dst);
	}
	while (!list_empty(&b->src))
		undo(m, first(&b->src), first(&b->dst), from);
}

/* Up to MIGRATE_BATCH_PAGES on `from`. Those that stay are on `from` afterwards: counted as failed, each one. */
static void migrate_batch(struct migrate *m, struct list_head *from, enum migrate_mode mode, unsigned passes)
{
	uint64_t again = 1;
	struct frame *folio;
	struct batch b;

	list_init(&b.src);
	list_init(&b.dst);
	tlb_batch_begin(&b.tlb);
	for (unsigned pass = 0; pass < passes && again && !m->no_room; pass++)
		unmap_pass(m, from, mode, &b, &again);
	list_for_each_entry(folio, from, lru)
		count_failed(m, folio);
	tlb_batch_flush(m->c, &b.tlb);
	tlb_batch_end(&b.tlb);
	move_batch(m, &b, from, passes);
}

/* Asynchronously together, then, where waiting is allowed, one by one. What fails in the end is on m->failed. */
static void migrate_some(struct migrate *m, struct list_head *from, enum migrate_mode mode)
{
	struct migrate_stats before = m->stats;
	uint64_t failed = m->nr_failed;
	struct list_head one;

	migrate_batch(m, from, MIGRATE_ASYNC, mode == MIGRATE_ASYNC ? MIGRATE_PASSES : MIGRATE_ASYNC_PASSES);
	if (mode != MIGRATE_ASYNC && !m->no_room && !list_empty(from)) {
		/* They are not failures yet. */
		m->nr_failed = failed;
		m->stats.nr_failed_pages = before.nr_failed_pages;
		m->stats.nr_thp_failed = before.nr_thp_failed;
		list_init(&one);
		for (struct frame *last = list_last_entry(from, struct frame, lru), *f = NULL; f != last && !m->no_room;) {
			f = first(from);
			move_link(f, &one);
			migrate_batch(m, &one, mode, MIGRATE_PASSES - MIGRATE_ASYNC_PASSES);
			splice(&one, &m->failed);
		}
	}
	splice(from, &m->failed);
}

/* The first folios of `from`, up to a batch's pages. */
static void cut(struct cpu *c, struct list_head *from, struct list_head *ret)
{
	uint64_t pages = 0;

	while (!list_empty(from)) {
		uint64_t n = frame_nr_pages(first(from));

		if (pages && pages + n > MIGRATE_BATCH_PAGES)
			break;
		pages += n;
		(void)machine_work(c, PATH_MIGRATE, 1);
		move_link(first(from), ret);
	}
}

static void count(struct cpu *c, const struct migrate_stats *s)
{
	vmstat_add(c, VM_pgmigrate_success, (int64_t)s->nr_succeeded);
	vmstat_add(c, VM_pgmigrate_fail, (int64_t)s->nr_failed_pages);
	vmstat_add(c, VM_thp_migration_success, (int64_t)s->nr_thp_succeeded);
	vmstat_add(c, VM_thp_migration_fail, (int64_t)s->nr_thp_failed);
	vmstat_add(c, VM_thp_migration_split, (int64_t)s->nr_thp_split);
}

int migrate_pages(struct cpu *c, struct list_head *from, const struct migrate_target *t, enum migrate_mode mode, enum migrate_reason reason,
		  struct migrate_stats *ret_stats)
{
	enum machine_path prev = machine_work(c, PATH_MIGRATE, 0);
	struct migrate m = { .c = c, .t = t, .reason = reason };
	struct list_head some;

	list_init(&m.failed);
	list_init(&m.parts);
	list_init(&some);
	while (!list_empty(from) && !m.no_room) {
		cut(c, from, &some);
		migrate_some(&m, &some, mode);
	}
	/* What a split left over: once, without waiting. A part that stays is not another failure: its folio was counted as one. */
	uint64_t failed = m.nr_failed;

	while (!list_empty(&m.parts) && !m.no_room) {
		cut(c, &m.parts, &some);
		migrate_batch(&m, &some, MIGRATE_ASYNC, 1);
		splice(&some, &m.failed);
	}
	m.nr_failed = failed + m.nr_split;
	m.stats.nr_thp_failed += m.stats.nr_thp_split;
	splice(&m.parts, &m.failed);
	splice(&m.failed, from);
	count(c, &m.stats);
	if (ret_stats)
		*ret_stats = m.stats;
	machine_path(c, prev);
	return m.no_room ? -ENOMEM : (int)m.nr_failed;
}

/* ---- in and out of circulation ---- */

int migrate_isolate(struct cpu *c, struct frame *folio, struct list_head *to)
{
	bool done;

	if (!frame_tryget(c, folio))
		return -EBUSY;
	if (!(frame_flags(folio) & (FRAME_LRU | FRAME_ISOLATED)))
		lru_add_drain_all(c); /* some CPU's batch has it */
	done = folio_isolate_lru(c, folio);
	if (done)
		list_add_tail(&folio->lru, to);
	frame_put(c, folio);
	return done ? 0 : -EBUSY;
}

void migrate_putback_one(struct cpu *c, struct frame *folio)
{
	folio_putback_lru(c, folio);
}

void migrate_putback(struct cpu *c, struct list_head *from)
{
	while (!list_empty(from)) {
		struct frame *folio = first(from);

		list_del(&folio->lru);
		migrate_putback_one(c, folio);
	}
}
