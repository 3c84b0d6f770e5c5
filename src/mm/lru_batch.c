/*
 * A CPU's batches of jobs for the lists of reclaim, so that the lock is taken once for many folios (lru.h: L1, L4).
 *
 * Only its own CPU fills a batch. Whoever empties it takes each slot by an atomic exchange, so that any CPU may do it at any time, for
 * one that is idle too.
 */
#include "mm/lru_int.h"

/* ---- what the jobs do. lv->lock held; all but the first: the folio is on a list ---- */

static void do_add(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	lru_set_evictability(c, head);
	lruvec_add_folio(c, lv, head);
}

static void do_activate(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	if (frame_flags(head) & (FRAME_ACTIVE | FRAME_UNEVICTABLE))
		return;
	lruvec_del_folio(c, lv, head);
	frame_set(head, FRAME_ACTIVE);
	lruvec_add_folio(c, lv, head);
	vmstat_add(c, VM_pgactivate, (int64_t)frame_nr_pages(head));
}

static void do_deactivate(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	if ((frame_flags(head) & (FRAME_ACTIVE | FRAME_UNEVICTABLE)) != FRAME_ACTIVE)
		return;
	lruvec_del_folio(c, lv, head);
	frame_clear(head, FRAME_ACTIVE | FRAME_REFERENCED);
	lruvec_add_folio(c, lv, head);
	vmstat_add(c, VM_pgdeactivate, (int64_t)frame_nr_pages(head));
}

/* Mapped ones are wanted by somebody; dirty ones can't go at once, so they begin a life as inactive. */
static void do_deactivate_file(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	uint64_t flags = frame_flags(head);
	int64_t nr = (int64_t)frame_nr_pages(head);

	if ((flags & FRAME_UNEVICTABLE) || head->mapcount >= 0)
		return;
	lruvec_del_folio(c, lv, head);
	frame_clear(head, FRAME_ACTIVE | FRAME_REFERENCED);
	if (flags & FRAME_DIRTY) {
		lruvec_add_folio(c, lv, head);
	} else {
		lruvec_add_folio_tail(c, lv, head);
		vmstat_add(c, VM_pgrotated, nr);
	}
	if (flags & FRAME_ACTIVE)
		vmstat_add(c, VM_pgdeactivate, nr);
}

static void do_lazyfree(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	uint64_t flags = frame_flags(head);

	if ((flags & (FRAME_ANON | FRAME_SWAPBACKED | FRAME_SWAPCACHE | FRAME_UNEVICTABLE)) != (FRAME_ANON | FRAME_SWAPBACKED))
		return;
	lruvec_del_folio(c, lv, head);
	frame_clear(head, FRAME_ACTIVE | FRAME_REFERENCED | FRAME_SWAPBACKED);
	frame_set(head, FRAME_LAZYFREE);
	lruvec_add_folio(c, lv, head);
	vmstat_add(c, VM_pglazyfree, (int64_t)frame_nr_pages(head));
}

/* What there is to do is done for every folio, in batch_drain. */
static void do_mlock(struct cpu *c, struct lruvec *lv, struct frame *head)
{
	(void)c, (void)lv, (void)head;
}

static void (*const jobs[NR_LRU_BATCHES])(struct cpu *c, struct lruvec *lv, struct frame *head) = {
	[LRU_BATCH_ADD] = do_add,
	[LRU_BATCH_DEACTIVATE_FILE] = do_deactivate_file,
	[LRU_BATCH_DEACTIVATE] = do_deactivate,
	[LRU_BATCH_LAZYFREE] = do_lazyfree,
	[LRU_BATCH_ACTIVATE] = do_activate,
	[LRU_BATCH_MLOCK] = do_mlock,
};

/* ---- batches ---- */

/* A folio in a slot, if any: it is the caller's. */
static inline struct frame *slot_take(struct frame **slot, bool alone)
{
	struct frame *f = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

	if (!f)
		return NULL;
	if (unlikely(!alone))
		return __atomic_exchange_n(slot, NULL, __ATOMIC_ACQUIRE);
	__atomic_store_n(slot, NULL, __ATOMIC_RELAXED);
	return f;
}

/*
 * The batch may be another CPU's. Its own CPU may fill slots meanwhile, and begin to empty it: it is alone when it says so first. Others
 * leave alone what is being emptied.
 */
ATTR_NOINLINE static void batch_drain(struct cpu *c, struct lru_batch *b, enum lru_batch_kind k, bool own)
{
	bool busy = __atomic_exchange_n(&b->draining, true, __ATOMIC_ACQUIRE);

	if (busy && !own)
		return;
	enum machine_path prev = machine_work(c, PATH_LRU_ADD, 0);
	struct frame *done[LRU_BATCH_SIZE];
	struct lruvec *lv = NULL;
	unsigned n = 0;

	machine_touch(c, machine_pa(c->m, b), sizeof(*b), TOUCH_WRITE);
	for (unsigned i = 0; i < LRU_BATCH_SIZE; i++) {
		struct frame *f = slot_take(&b->folio[i], own && !busy);

		if (!f)
			continue;
		(void)machine_work(c, PATH_LRU_ADD, 1);
		lv = lruvec_relock(c, lv, f);
		jobs[k](c, lv, f);
		frame_set(f, FRAME_LRU);
		lru_recheck(c, lv, f);
		done[n++] = f;
	}
	lruvec_unlock(c, lv);
	if (!busy)
		__atomic_store_n(&b->draining, false, __ATOMIC_RELEASE);
	frames_put(c, done, n);
	machine_path(c, prev);
}

/* Own batches only. */
static void drain_own(struct cpu *c, enum lru_batch_kind k)
{
	struct lru_batch *b = &c->pc->lru[k];

	if (b->nr) {
		b->nr = 0;
		batch_drain(c, b, k, true);
	}
}

void lru_add_drain(struct cpu *c)
{
	for (unsigned k = 0; k < NR_LRU_BATCHES; k++)
		drain_own(c, (enum lru_batch_kind)k);
}

void lru_add_drain_all(struct cpu *c)
{
	lru_add_drain(c);
	for (unsigned i = 0; i < c->m->nr_cpus; i++)
		for (unsigned k = 0; c->q->percpu[i] != c->pc && k < NR_LRU_BATCHES; k++)
			batch_drain(c, &c->q->percpu[i]->lru[k], (enum lru_batch_kind)k, false);
}

static inline void batch_add(struct cpu *c, struct frame *head, enum lru_batch_kind k)
{
	struct lru_batch *b = &c->pc->lru[k];
	unsigned at = b->nr;

	frame_get(c, head);
	machine_touch(c, machine_pa(c->m, &b->folio[at]), sizeof(b->folio[at]), TOUCH_WRITE);
	__atomic_store_n(&b->folio[at], head, __ATOMIC_RELEASE);
	b->nr = at + 1;
	if (b->nr >= c->q->knobs.lru_batch || (frame_flags(head) & FRAME_HEAD))
		drain_own(c, k);
}

ATTR_NOINLINE void folio_add_lru(struct cpu *c, struct frame *head)
{
	ASSERT_DEBUG(!(frame_flags(head) & (FRAME_LRU | FRAME_ISOLATED)));
	batch_add(c, head, LRU_BATCH_ADD);
}

/* For what is on a list. */
static void job(struct cpu *c, struct frame *head, enum lru_batch_kind k)
{
	if (folio_test_clear_lru(c, head))
		batch_add(c, head, k);
}

void folio_activate(struct cpu *c, struct frame *head)
{
	if (!(frame_flags(head) & (FRAME_ACTIVE | FRAME_UNEVICTABLE)))
		job(c, head, LRU_BATCH_ACTIVATE);
}

void folio_deactivate(struct cpu *c, struct frame *head)
{
	if ((frame_flags(head) & (FRAME_ACTIVE | FRAME_UNEVICTABLE)) == FRAME_ACTIVE)
		job(c, head, LRU_BATCH_DEACTIVATE);
}

void folio_deactivate_file(struct cpu *c, struct frame *head)
{
	if (!(frame_flags(head) & FRAME_UNEVICTABLE))
		job(c, head, LRU_BATCH_DEACTIVATE_FILE);
}

void folio_mark_lazyfree(struct cpu *c, struct frame *head)
{
	uint64_t flags = frame_flags(head);

	if ((flags & (FRAME_ANON | FRAME_SWAPBACKED | FRAME_SWAPCACHE | FRAME_UNEVICTABLE)) == (FRAME_ANON | FRAME_SWAPBACKED))
		job(c, head, LRU_BATCH_LAZYFREE);
}

void folio_mlock_changed(struct cpu *c, struct frame *head)
{
	job(c, head, LRU_BATCH_MLOCK);
}

/* It waits in a batch to be added: let it be active then. */
static bool activate_added(struct cpu *c, struct frame *head)
{
	const struct lru_batch *b = &c->pc->lru[LRU_BATCH_ADD];

	for (unsigned i = b->nr; i--;)
		if (__atomic_load_n(&b->folio[i], __ATOMIC_RELAXED) == head) {
			frame_set(head, FRAME_ACTIVE);
			return true;
		}
	return false;
}

void folio_mark_accessed(struct cpu *c, struct frame *head)
{
	uint64_t flags = frame_flags(head);

	frame_touch(c, head, TOUCH_READ);
	if (!(flags & FRAME_REFERENCED)) {
		frame_set(head, FRAME_REFERENCED);
	} else if (!(flags & (FRAME_UNEVICTABLE | FRAME_ACTIVE))) {
		if (flags & FRAME_LRU)
			folio_activate(c, head);
		else
			(void)activate_added(c, head);
		frame_clear(head, FRAME_REFERENCED);
	}
}
