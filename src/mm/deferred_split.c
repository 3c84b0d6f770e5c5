/*
 * The queue of huge pages to split, one a node, and its shrinker.
 *
 * The shrinker takes folios off the queue with a reference each, and gives back to it those that it could not split: they are
 * still there to be split. While one is in the shrinker's hands its link is on the shrinker's own list; others may take it off that too
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

ATTR_NOINLINE void deferred_split_folio(struct cpu *c, struct frame *folio)
{
	struct deferred_queue *d = queue_of(c, folio);

	if (frame_flags(folio) & FRAME_DEFERRED)
		return;
	enum machine_path prev = machine_work(c, PATH_DEFERRED_SPLIT, 1);

	machine_lock(c, &d->lock);
	if (!(frame_flags(folio) & FRAME_DEFERRED) && list_empty(link_of(folio))) {
		deferred_enqueue(c, d, folio);
		vmstat_inc(c, VM_thp_deferred_split_page);
	}
	machine_unlock(c, &d->lock);
	machine_path(c, prev);
}

ATTR_NOINLINE void deferred_split_unqueue(struct cpu *c, struct frame *folio)
{
	struct deferred_queue *d = queue_of(c, folio);

	if (!(frame_flags(folio) & FRAME_PARTIALLY_MAPPED))
		return; /* never was on it */
	machine_lock(c, &d->lock);
	if (frame_flags(folio) & FRAME_DEFERRED) {
		frame_clear(folio, FRAME_DEFERRED);
		d->len--;
	}
	frame_touch(c, folio + 1, TOUCH_WRITE);
	list_del(link_of(folio));
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

		list_del(link_of(folio));
		frame_clear(folio, FRAME_DEFERRED);
		d->len--;
		if (frame_tryget(c, folio))
			list_add_tail(link_of(folio), mine);
	}
	machine_unlock(c, &d->lock);
}

static struct frame *take(struct cpu *c, struct deferred_queue *d, struct list_head *mine)
{
	struct frame *folio = NULL;

	machine_lock(c, &d->lock);
	if (!list_empty(mine)) {
		folio = folio_of(mine->next);
		list_del(link_of(folio));
	}
	machine_unlock(c, &d->lock);
	return folio;
}

static void give_back(struct cpu *c, struct deferred_queue *d, struct frame *folio)
{
	machine_lock(c, &d->lock);
	if (!(frame_flags(folio) & FRAME_DEFERRED) && list_empty(link_of(folio)))
		deferred_enqueue(c, d, folio);
	machine_unlock(c, &d->lock);
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
		int rc = -EBUSY;

		if (folio_trylock(c, folio)) {
			rc = folio_split(c, folio, NULL, NULL);
			folio_unlock(c, folio);
		}
		if (rc)
			give_back(c, d, folio);
		else
			done++;
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
			uint64_t want = FRAME_HEAD | FRAME_DEFERRED | FRAME_PARTIALLY_MAPPED, at = frame_pfn(q->m, folio).v;

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
