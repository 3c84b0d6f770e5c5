/*
 * The lists of reclaim: taking folios off and putting them back, the end of a folio, splits. lru.h has the invariants.
 *
 * Taking a folio off its list is two steps: FRAME_LRU is cleared by whoever holds a reference, which only one can do, then the
 * folio is unlinked under the lock. A folio whose last reference goes has nobody else: with FRAME_LRU it is on a list for certain.
 */
#include "mm/lru_int.h"

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

#define PUT_AT_ONCE 32U /* the lock is held for so many at most */

void frames_put(struct cpu *c, struct frame **heads, unsigned nr)
{
	enum machine_path prev = machine_work(c, PATH_LRU_RELEASE, 0);

	for (unsigned i = 0; i < nr; i += PUT_AT_ONCE)
		put_some(c, heads + i, MIN(nr - i, PUT_AT_ONCE));
	machine_path(c, prev);
}
