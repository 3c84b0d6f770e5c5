/*
 * The queue of huge pages to split, one a node, and its shrinker.
 *
 * The shrinker takes folios off the queue with a reference each, and gives back to it those with unmapped parts that it could not split:
 * they are still there to be split. What was on it only because it might be underused and is not, or could not be split, is taken for
 * used. While one is in the shrinker's hands its link is on the shrinker's own list; others may take it off that too
 * (it is being split or freed elsewhere), so that list is only looked at under the queue's lock.
 */
#include "mm/deferred_split.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/folio_lock.h"
#include "mm/split.h"
#include "mm/system.h"
#include "mm/text.h"

static struct deferred_queue *queue_of(const struct cpu *c, const struct frame *folio)
{
	return &c->q->nodes[frame_nid(folio)].deferred;
}

static struct list_head *link_of(struct frame *folio)
{
	return &folio[1].deferred;
}

static struct frame *folio_of(struct list_head *link)
{
	return list_entry(link, struct frame, deferred) - 1;
}

void deferred_split_boot(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		struct deferred_queue *d = &q->nodes[i].deferred;

		mlock_init(&d->lock, RANK_LRU, machine_pa(q->m, &d->lock));
		list_init(&d->list);
	}
}

/* Under the lock. */
static void deferred_enqueue(struct cpu *c, struct deferred_queue *d, struct frame *folio)
{
	frame_touch(c, folio + 1, TOUCH_WRITE);
	list_add_tail(link_of(folio), &d->list);
	frame_set(folio, FRAME_DEFERRED);
	d->len++;
}

/* Under the lock: on no list any more. Whoever then sees it without the flag may do with the link as he likes. */
static void dequeue(struct cpu *c, struct deferred_queue *d, struct frame *folio)
{
	frame_touch(c, folio + 1, TOUCH_WRITE);
	list_del(link_of(folio));
	d->len--;
	__atomic_and_fetch(&folio->flags, ~FRAME_DEFERRED, __ATOMIC_RELEASE);
}

static bool is_queued(const struct frame *folio)
{
	return (__atomic_load_n(&folio->flags, __ATOMIC_ACQUIRE) & FRAME_DEFERRED) != 0;
}

ATTR_NOINLINE void deferred_split_folio(struct cpu *c, struct frame *folio, bool partly)
{
	struct deferred_queue *d = queue_of(c, folio);

	if (partly)
		vmstat_inc(c, VM_thp_deferred_split_page);
	if (is_queued(folio))
		return;
	enum machine_path prev = machine_work(c, PATH_DEFERRED_SPLIT, 1);

	machine_lock(c, &d->lock);
	if (!is_queued(folio))
		deferred_enqueue(c, d, folio);
	machine_unlock(c, &d->lock);
	machine_path(c, prev);
}

ATTR_NOINLINE void deferred_split_unqueue(struct cpu *c, struct frame *folio)
{
	struct deferred_queue *d = queue_of(c, folio);

	if (!is_queued(folio))
		return;
	machine_lock(c, &d->lock);
	if (is_queued(folio))
		dequeue(c, d, folio);
	machine_unlock(c, &d->lock);
}

uint64_t deferred_split_count(const struct quire *q, int nid)
{
	return __atomic_load_n(&q->nodes[nid].deferred.len, __ATOMIC_RELAXED);
}

/* Up to nr folios, each with a reference, from the queue to the shrinker's list. Those that are being freed just leave. */
static void isolate(struct cpu *c, struct deferred_queue *d, uint64_t nr, struct list_head *mine)
{
	machine_lock(c, &d->lock);
	while (nr-- && !list_empty(&d->list)) {
		struct frame *folio = folio_of(d->list.next);

		if (frame_tryget(c, folio)) {
			list_del(link_of(folio));
			list_add_tail(link_of(folio), mine);
		} else {
			dequeue(c, d, folio);
		}
	}
	machine_unlock(c, &d->lock);
}

static struct frame *take(struct cpu *c, struct deferred_queue *d, struct list_head *mine)
{
	struct frame *folio = NULL;

	machine_lock(c, &d->lock);
	if (!list_empty(mine)) {
		folio = folio_of(mine->next);
		dequeue(c, d, folio);
	}
	machine_unlock(c, &d->lock);
	return folio;
}

static void give_back(struct cpu *c, struct deferred_queue *d, struct frame *folio)
{
	machine_lock(c, &d->lock);
	if (!is_queued(folio))
		deferred_enqueue(c, d, folio);
	machine_unlock(c, &d->lock);
}

static bool is_partly_mapped(const struct frame *folio)
{
	return (frame_flags(folio) & FRAME_PARTIALLY_MAPPED) != 0;
}

/* Has it more parts of zeros than khugepaged would have filled in? Looked at only as far as needed for the answer. */
static bool thp_underused(struct cpu *c, const struct frame *folio)
{
	unsigned limit = c->q->knobs.khugepaged_max_ptes_none, zeros = 0, others = 0;
	pfn_t first = frame_pfn(c->m, folio);

	if (limit == HPAGE_PMD_NR - 1 || frame_order(folio) != HPAGE_PMD_ORDER)
		return false;
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++) {
		if (!frame_is_zero(c, pfn_add(first, i))) {
			if (++others >= HPAGE_PMD_NR - limit)
				return false;
		} else if (++zeros > limit) {
			return true;
		}
	}
	return false;
}

/* One folio in the shrinker's hands, with its reference. Was it split? */
static bool shrink(struct cpu *c, struct deferred_queue *d, struct frame *folio)
{
	bool underused = !is_partly_mapped(folio) && c->q->knobs.thp_shrink_underused && thp_underused(c, folio);
	int rc = -EBUSY;

	if ((underused || is_partly_mapped(folio)) && folio_trylock(c, folio)) {
		rc = folio_split(c, folio, NULL, NULL);
		folio_unlock(c, folio);
	}
	if (!rc && underused)
		vmstat_inc(c, VM_thp_underused_split_page);
	if (rc && is_partly_mapped(folio))
		give_back(c, d, folio);
	return !rc;
}

uint64_t deferred_split_scan(struct cpu *c, int nid, uint64_t nr)
{
	struct deferred_queue *d = &c->q->nodes[nid].deferred;
	struct list_head mine;
	struct frame *folio;
	uint64_t done = 0;

	list_init(&mine);
	isolate(c, d, nr, &mine);
	while ((folio = take(c, d, &mine))) {
		done += shrink(c, d, folio);
		frame_put(c, folio);
	}
	return done;
}

static int invalid(struct quire *q, const char *what, uint64_t at)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "deferred split: ");
	text_str(&t, what);
	text_field(&t, "at", at);
	return -EINVAL;
}

int deferred_split_validate(struct quire *q)
{
	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++) {
		const struct deferred_queue *d = &q->nodes[nid].deferred;
		uint64_t n = 0;

		for (struct list_head *l = d->list.next; l != &d->list; l = l->next, n++) {
			struct frame *folio = folio_of(l);
			uint64_t want = FRAME_HEAD | FRAME_DEFERRED, at = frame_pfn(q->m, folio).v;

			if (n == d->len || l->next->prev != l)
				return invalid(q, "links or length", at);
			if ((frame_flags(folio) & want) != want || frame_nid(folio) != (int)nid || frame_refcount(folio) <= 0)
				return invalid(q, "a folio that doesn't belong here", at);
		}
		if (n != d->len)
			return invalid(q, "shorter than counted; node", nid);
	}
	return 0;
}
