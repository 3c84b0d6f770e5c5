/*
 * The lists of reclaim: taking folios off and putting them back, the end of a folio, splits. lru.h has the invariants.
 *
 * Taking a folio off its list is two steps: FRAME_LRU is cleared by whoever holds a reference, which only one can do, then the
 * folio is unlinked under the lock. A folio whose last reference goes has nobody else: with FRAME_LRU it is on a list for certain.
 */
#include "mm/lru_int.h"

_Static_assert((int)NR_LRU_ZONES == (int)NR_ZONES, "lists are counted by zone");

void lruvec_init(struct quire *q, struct lruvec *lv, int nid)
{
	mlock_init(&lv->lock, RANK_LRU, machine_pa(q->m, &lv->lock));
	for (unsigned l = 0; l < NR_LRU_LISTS; l++)
		list_init(&lv->list[l]);
	lv->nid = nid;
}

void lru_set_evictability(struct cpu *c, struct frame *head)
{
	int64_t nr = (int64_t)frame_nr_pages(head);
	bool was = (frame_flags(head) & FRAME_UNEVICTABLE) != 0;

	if (folio_evictable(head)) {
		if (was) {
			frame_clear(head, FRAME_UNEVICTABLE);
			vmstat_add(c, VM_unevictable_pgs_rescued, nr);
		}
	} else if (!was) {
		frame_clear(head, FRAME_ACTIVE);
		frame_set(head, FRAME_UNEVICTABLE);
		vmstat_add(c, VM_unevictable_pgs_culled, nr);
	}
}

void lru_recheck(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	if (likely(folio_evictable(head) == !(frame_flags(head) & FRAME_UNEVICTABLE)))
		return;
	lruvec_del_folio(c, lv, head);
	lru_set_evictability(c, head);
	lruvec_add_folio(c, lv, head);
}

static void count_isolated(struct cpu *c, struct frame *head, int64_t pages)
{
	bool file = folio_is_file_lru(head);
	struct lruvec *lv = folio_lruvec(c->q, head);

	__atomic_add_fetch(&lv->isolated[file], (uint64_t)pages, __ATOMIC_RELAXED);
	vmstat_add(c, file ? VM_nr_isolated_file : VM_nr_isolated_anon, pages);
}

ATTR_NOINLINE bool folio_isolate_lru(struct cpu *c, struct frame *head)
{
	enum machine_path prev = machine_work(c, PATH_LRU_ISOLATE, 1);
	bool mine = folio_test_clear_lru(c, head);

	if (mine) {
		frame_get(c, head);
		struct lruvec *lv = lruvec_lock(c, head);

		lruvec_del_folio(c, lv, head);
		machine_unlock(c, &lv->lock);
		frame_set(head, FRAME_ISOLATED);
		count_isolated(c, head, (int64_t)frame_nr_pages(head));
	}
	machine_path(c, prev);
	return mine;
}

void folio_forget_isolated(struct cpu *c, struct frame *head)
{
	ASSERT(frame_flags(head) & FRAME_ISOLATED);
	count_isolated(c, head, -(int64_t)frame_nr_pages(head));
	frame_clear(head, FRAME_ISOLATED);
}

void folio_keep_lazyfree(struct cpu *c, struct frame *head)
{
	int64_t nr = (int64_t)frame_nr_pages(head);

	ASSERT(frame_flags(head) & FRAME_ISOLATED);
	count_isolated(c, head, -nr);
	frame_clear(head, FRAME_LAZYFREE);
	frame_set(head, FRAME_SWAPBACKED);
	count_isolated(c, head, nr);
}

ATTR_NOINLINE void folio_putback_lru(struct cpu *c, struct frame *head)
{
	enum machine_path prev = machine_work(c, PATH_LRU_ISOLATE, 1);

	folio_forget_isolated(c, head);
	struct lruvec *lv = lruvec_lock(c, head);

	lru_set_evictability(c, head);
	lruvec_add_folio(c, lv, head);
	frame_set(head, FRAME_LRU);
	lru_recheck(c, lv, head);
	machine_unlock(c, &lv->lock);
	frame_put(c, head);
	machine_path(c, prev);
}

void lru_split(struct cpu *c, struct frame *head, unsigned nr, bool isolated)
{
	uint64_t size = frame_nr_pages(head), keep = FRAME_SWAPBACKED | FRAME_ACTIVE | FRAME_UNEVICTABLE;
	uint64_t flags = frame_flags(head);
	bool on_list = (flags & FRAME_LRU) != 0;

	ASSERT(on_list ? !isolated : (flags & FRAME_ISOLATED) != 0);
	if (isolated) {
		for (unsigned i = 1; i < nr; i++)
			frame_set(head + i * size, FRAME_ISOLATED | (flags & keep));
		return;
	}
	struct lruvec *lv = lruvec_lock(c, head);

	for (unsigned i = nr; --i;) {
		struct frame *f = head + i * size;

		frame_touch(c, f, TOUCH_WRITE);
		frame_clear(f, keep | FRAME_ISOLATED);
		frame_set(f, (flags & keep) | FRAME_LRU);
		if (on_list)
			list_add(&f->lru, &head->lru); /* their pages were counted with the head's */
		else
			lruvec_add_folio_tail(c, lv, f);
		lru_recheck(c, lv, f);
	}
	if (on_list)
		lru_recheck(c, lv, head);
	machine_unlock(c, &lv->lock);
	if (!on_list)
		count_isolated(c, head, -(int64_t)((nr - 1) * size));
}

/* The last reference has gone and FRAME_LRU is set: only the lists still know the folio. lv->lock held. */
static void release_locked(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	lruvec_del_folio(c, lv, head);
	/* Whoever changes flags of a folio holds a reference: nobody does. */
	frame_flags_put(head, frame_flags(head) & ~(FRAME_LRU | FRAME_ACTIVE | FRAME_UNEVICTABLE));
}

ATTR_NOINLINE void lru_release(struct cpu *c, struct frame *head)
{
	enum machine_path prev = machine_work(c, PATH_LRU_RELEASE, 1);
	struct lruvec *lv = lruvec_lock(c, head);

	release_locked(c, lv, head);
	machine_unlock(c, &lv->lock);
	machine_path(c, prev);
}

/* Two rounds, so that pages are freed without the lists' lock. */
ATTR_NOINLINE static void put_some(struct cpu *c, struct frame **heads, unsigned nr)
{
	struct lruvec *lv = NULL;
	unsigned last = 0;

	for (unsigned i = 0; i < nr; i++) {
		struct frame *f = heads[i];
		int32_t now = __atomic_sub_fetch(&f->refcount, 1, __ATOMIC_ACQ_REL);

		ASSERT(now >= 0);
		frame_touch(c, f, TOUCH_ATOMIC);
		if (now)
			continue;
		if (frame_flags(f) & FRAME_LRU) {
			(void)machine_work(c, PATH_LRU_RELEASE, 1);
			lv = lruvec_relock(c, lv, f);
			release_locked(c, lv, f);
		}
		heads[last++] = f;
	}
	lruvec_unlock(c, lv);
	for (unsigned i = 0; i < last; i++)
		page_free(c, heads[i], frame_order(heads[i]));
}

/* ---- many at once ---- */

/* A folio at the end of list l, under its lock: isolated onto dst, if nobody else has it to do with. */
static bool isolate_one(struct cpu *c, struct lruvec *lv, struct frame *f, struct list_head *dst)
{
	if (!frame_tryget(c, f))
		return false; /* it is being freed, and leaves the list itself */
	if (!folio_test_clear_lru(c, f)) {
		/* Somebody else has a job with it, who has a reference until he gets this lock: ours is not the last. */
		frame_put(c, f);
		return false;
	}
	lruvec_del_folio(c, lv, f);
	frame_set(f, FRAME_ISOLATED);
	list_add(&f->lru, dst);
	return true;
}

ATTR_NOINLINE uint64_t lru_isolate_batch(struct cpu *c, struct lruvec *lv, enum lru_list l, uint64_t nr, unsigned highest,
					 struct list_head *dst, uint64_t *ret_scanned)
{
	enum machine_path prev = machine_work(c, PATH_LRU_ISOLATE, 0);
	uint64_t scanned = 0, taken = 0, looked = 0;
	int64_t isolated[NR_LRU_TYPES] = { 0 };
	struct list_head skipped;

	list_init(&skipped);
	machine_lock(c, &lv->lock);
	/* Each is looked at once: those that stay go to the other end. */
	for (uint64_t most = lv->size[l]; scanned < nr && looked < most && !list_empty(&lv->list[l]);) {
		struct frame *f = list_entry(lv->list[l].prev, struct frame, lru);
		uint64_t pages = frame_nr_pages(f);

		(void)machine_work(c, PATH_LRU_ISOLATE, 1);
		frame_touch(c, f, TOUCH_READ);
		looked += pages;
		if (frame_zone(f) > highest) {
			list_del(&f->lru);
			list_add(&f->lru, &skipped);
			continue;
		}
		scanned += pages;
		if (isolate_one(c, lv, f, dst)) {
			taken += pages;
			isolated[folio_is_file_lru(f)] += (int64_t)pages;
		} else {
			list_del(&f->lru);
			list_add(&f->lru, &lv->list[l]);
		}
	}
	while (!list_empty(&skipped)) {
		struct list_head *at = skipped.prev;

		list_del(at);
		list_add(at, &lv->list[l]);
	}
	machine_unlock(c, &lv->lock);
	for (unsigned t = 0; t < NR_LRU_TYPES; t++) {
		__atomic_add_fetch(&lv->isolated[t], (uint64_t)isolated[t], __ATOMIC_RELAXED);
		vmstat_add(c, t ? VM_nr_isolated_file : VM_nr_isolated_anon, isolated[t]);
	}
	*ret_scanned = scanned;
	machine_path(c, prev);
	return taken;
}

#define PUT_AT_ONCE 32U /* the lock is held for so many at most */

ATTR_NOINLINE void lru_putback_list(struct cpu *c, struct list_head *folios, bool tail)
{
	enum machine_path prev = machine_work(c, PATH_LRU_ISOLATE, 0);

	while (!list_empty(folios)) {
		struct frame *done[PUT_AT_ONCE];
		struct lruvec *lv = NULL;
		unsigned n = 0;

		while (n < PUT_AT_ONCE && !list_empty(folios)) {
			struct frame *f = list_first_entry(folios, struct frame, lru);

			(void)machine_work(c, PATH_LRU_ISOLATE, 1);
			list_del(&f->lru);
			lv = lruvec_relock(c, lv, f);
			folio_forget_isolated(c, f);
			lru_set_evictability(c, f);
			if (tail)
				lruvec_add_folio_tail(c, lv, f);
			else
				lruvec_add_folio(c, lv, f);
			frame_set(f, FRAME_LRU);
			lru_recheck(c, lv, f);
			done[n++] = f;
		}
		lruvec_unlock(c, lv);
		frames_put(c, done, n);
	}
	machine_path(c, prev);
}

void frames_put(struct cpu *c, struct frame **heads, unsigned nr)
{
	enum machine_path prev = machine_work(c, PATH_LRU_RELEASE, 0);

	for (unsigned i = 0; i < nr; i += PUT_AT_ONCE)
		put_some(c, heads + i, MIN(nr - i, PUT_AT_ONCE));
	machine_path(c, prev);
}
