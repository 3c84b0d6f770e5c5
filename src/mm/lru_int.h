/* Shared by lru.c, lru_batch.c and reclaim: lists under their lock. */
#ifndef QUIRE_MM_LRU_INT_H
#define QUIRE_MM_LRU_INT_H

#include "base/assert.h"
#include "mm/alloc_int.h"
#include "mm/lru.h"

/* The gauge of a list. */
static inline enum vm_counter lru_gauge(enum lru_list l)
{
	return (enum vm_counter)(VM_nr_inactive_anon + l);
}

/* Can it go? Nothing that a VM_LOCKED area maps can. */
static inline bool folio_evictable(const struct frame *head)
{
	return !__atomic_load_n(&head->nr_locked, __ATOMIC_RELAXED);
}

/* Taken by clearing it: whoever gets true has the folio to himself as far as lists go. */
static inline bool folio_test_clear_lru(struct cpu *c, struct frame *head)
{
	frame_touch(c, head, TOUCH_ATOMIC);
	return (__atomic_fetch_and(&head->flags, ~FRAME_LRU, __ATOMIC_ACQ_REL) & FRAME_LRU) != 0;
}

static inline void lruvec_count(struct cpu *c, struct lruvec *lv, const struct frame *head, enum lru_list l, int64_t pages)
{
	uint64_t *zone = &lv->zone_size[frame_zone(head)][l];

	__atomic_store_n(&lv->size[l], lv->size[l] + (uint64_t)pages, __ATOMIC_RELAXED);
	__atomic_store_n(zone, *zone + (uint64_t)pages, __ATOMIC_RELAXED);
	vmstat_add(c, lru_gauge(l), pages);
}

/* lv->lock held. FRAME_LRU is the caller's to set or clear. */
static inline void lruvec_add_folio(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	enum lru_list l = folio_lru_list(head);

	memmap_touch_link(c, lv->list[l].next);
	frame_touch(c, head, TOUCH_WRITE);
	list_add(&head->lru, &lv->list[l]);
	lruvec_count(c, lv, head, l, (int64_t)frame_nr_pages(head));
}

static inline void lruvec_add_folio_tail(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	enum lru_list l = folio_lru_list(head);

	memmap_touch_link(c, lv->list[l].prev);
	frame_touch(c, head, TOUCH_WRITE);
	list_add_tail(&head->lru, &lv->list[l]);
	lruvec_count(c, lv, head, l, (int64_t)frame_nr_pages(head));
}

static inline void lruvec_del_folio(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	memmap_touch_link(c, head->lru.prev);
	memmap_touch_link(c, head->lru.next);
	frame_touch(c, head, TOUCH_WRITE);
	list_del(&head->lru);
	lruvec_count(c, lv, head, folio_lru_list(head), -(int64_t)frame_nr_pages(head));
}

static inline struct lruvec *lruvec_lock(struct cpu *c, struct frame *head)
{
	struct lruvec *lv = folio_lruvec(c->q, head);

	machine_lock(c, &lv->lock);
	return lv;
}

/* From the lock that is held, if any, to the folio's. */
static inline struct lruvec *lruvec_relock(struct cpu *c, struct lruvec *held, struct frame *head)
{
	struct lruvec *lv = folio_lruvec(c->q, head);

	if (lv == held)
		return held;
	if (held)
		machine_unlock(c, &held->lock);
	machine_lock(c, &lv->lock);
	return lv;
}

static inline void lruvec_unlock(struct cpu *c, struct lruvec *held)
{
	if (held)
		machine_unlock(c, &held->lock);
}

/*
 * Take up to nr pages from the end of list l, for requests that may use zones up to `highest`: onto dst, isolated, with a reference each.
 * Returns how many pages they have; *ret_scanned: how many were looked at, without those of higher zones.
 */
uint64_t lru_isolate_batch(struct cpu *c, struct lruvec *lv, enum lru_list l, uint64_t nr, unsigned highest, struct list_head *dst,
			   uint64_t *ret_scanned);
/* Put isolated folios back where their flags say (folio_putback_lru), tail: at the end, with as few locks as that needs. The list is empty then. */
void lru_putback_list(struct cpu *c, struct list_head *folios, bool tail);

/* A folio that is on no list: which one does it belong on? With the lock of its lruvec. */
void lru_set_evictability(struct cpu *c, struct frame *head);
/*
 * After FRAME_LRU has been set: has it become locked in memory, or ceased to be, meanwhile? Who locks it counts first, then finds
 * FRAME_LRU set and moves it himself, or not yet set and leaves it to this.
 */
void lru_recheck(struct cpu *c, struct lruvec *lv, struct frame *head);

#endif
