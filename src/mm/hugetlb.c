/*
 * Pools of huge pages: filling, resizing, promises (reservations), surplus. Invariants HP1 to HP5 in hugetlb.h.
 *
 *   nr = in use + free        free = promised + to be had        nr = persistent (nr_hugepages) + surplus
 *
 * Pages come from the page allocator (2 MiB: order 9; 1 GiB: contig.c) and lie on their node's list until they are used.
 * Memory is taken and given back outside of hugetlb.lock.
 */
#include "mm/hugetlb.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/hugecopy.h"
#include "mm/text.h"

static struct hstate *hstate_of(const struct cpu *c, enum hugetlb_size size)
{
	return &c->q->hugetlb.h[size];
}

static struct hstate *hstate_of_page(const struct cpu *c, const struct frame *head)
{
	return hstate_of(c, frame_order(head) > MAX_ORDER ? HUGETLB_1G : HUGETLB_2M);
}

static void pool_lock(struct cpu *c)
{
	machine_lock(c, &c->q->hugetlb.lock);
}

static void pool_unlock(struct cpu *c)
{
	machine_unlock(c, &c->q->hugetlb.lock);
}

/* ---- between the pools and the page allocator; lock not held ---- */

/* A page that is in no pool's counts yet, refcount 0. */
static struct frame *page_new(struct cpu *c, const struct hstate *h, int nid)
{
	struct alloc_req req = { .order = h->order, .gfp = GFP_HIGHUSER_MOVABLE | GFP_COMP | GFP_THISNODE, .nid = nid };
	struct frame *head = h->order > MAX_ORDER ? contig_alloc(c, nid, h->order) : page_alloc(c, &req);

	if (h->order <= MAX_ORDER)
		vmstat_inc(c, head ? VM_htlb_buddy_alloc_success : VM_htlb_buddy_alloc_fail);
	if (head) {
		head->refcount = 0;
		frame_clear(head, FRAME_CLEARED);
		frame_set(head, FRAME_HUGETLB);
	}
	return head;
}

/* The page has left the counts. */
static void page_release(struct cpu *c, struct frame *head)
{
	unsigned order = frame_order(head);

	frame_clear(head, FRAME_HUGETLB | FRAME_HUGETLB_FREE | FRAME_CLEARED);
	if (order > MAX_ORDER)
		contig_free(c, head, order);
	else
		page_free(c, head, order);
}

/* ---- lists and counts; lock held ---- */

static void enqueue(struct cpu *c, struct hstate *h, struct frame *head)
{
	struct hugetlb_node *n = &h->node[frame_nid(head)];

	frame_touch(c, head, TOUCH_WRITE);
	frame_set(head, FRAME_HUGETLB_FREE);
	list_add(&head->lru, &n->free);
	n->nr_free++;
	h->nr_free++;
}

static void take_off(struct cpu *c, struct hstate *h, struct frame *head)
{
	list_del(&head->lru);
	list_init(&head->lru);
	frame_touch(c, head, TOUCH_WRITE);
	frame_clear(head, FRAME_HUGETLB_FREE);
	h->node[frame_nid(head)].nr_free--;
	h->nr_free--;
}

/* A free page of the node. It stays counted in nr. NULL: none. */
static struct frame *dequeue_node(struct cpu *c, struct hstate *h, unsigned nid)
{
	struct hugetlb_node *n = &h->node[nid];
	struct frame *head;

	if (list_empty(&n->free))
		return NULL;
	head = list_first_entry(&n->free, struct frame, lru);
	take_off(c, h, head);
	return head;
}

/* The nearest free page. */
static struct frame *dequeue(struct cpu *c, struct hstate *h)
{
	const struct node *home = &c->q->nodes[c->nid];
	struct frame *head = NULL;

	for (unsigned i = 0; i < home->nr_fallback && !head; i++)
		head = dequeue_node(c, h, (unsigned)home->fallback[i]);
	return head;
}

static void count_new(struct hstate *h, const struct frame *head, bool surplus)
{
	struct hugetlb_node *n = &h->node[frame_nid(head)];

	n->nr++;
	h->nr++;
	n->surplus += surplus;
	h->surplus += surplus;
}

static void uncount(struct hstate *h, const struct frame *head, bool surplus)
{
	struct hugetlb_node *n = &h->node[frame_nid(head)];

	n->nr--;
	h->nr--;
	n->surplus -= surplus;
	h->surplus -= surplus;
}

/* The next node in turn for which `fits` holds, among all or `only`; -1: none. */
static int next_node(const struct cpu *c, struct hstate *h, int only, bool (*fits)(const struct hugetlb_node *n))
{
	unsigned nr = c->m->nr_nodes;

	for (unsigned i = 0; i < nr; i++) {
		unsigned nid = (h->next + i) % nr;

		if ((only != NID_NONE && nid != (unsigned)only) || !fits(&h->node[nid]))
			continue;
		h->next = (nid + 1) % nr;
		return (int)nid;
	}
	return -1;
}

static bool any_node(const struct hugetlb_node *n)
{
	(void)n;
	return true;
}

static bool has_free_persistent(const struct hugetlb_node *n)
{
	return n->nr_free && n->nr > n->surplus;
}

static bool has_surplus(const struct hugetlb_node *n)
{
	return n->surplus != 0;
}

static bool has_free_surplus(const struct hugetlb_node *n)
{
	return n->surplus && n->nr_free;
}

static bool has_persistent(const struct hugetlb_node *n)
{
	return n->nr > n->surplus;
}

static bool mark_surplus(struct cpu *c, struct hstate *h, int only, bool more)
{
	int nid = next_node(c, h, only, more ? has_persistent : has_surplus);

	if (nid < 0)
		return false;
	h->node[nid].surplus += more ? 1 : -1ULL;
	h->surplus += more ? 1 : -1ULL;
	return true;
}

/* Give up to `nr` surplus pages that nobody needs back. Lock held, dropped meanwhile. */
static void trim_surplus(struct cpu *c, struct hstate *h, uint64_t nr)
{
	for (; nr && h->surplus && h->nr_free > h->resv; nr--) {
		int nid = next_node(c, h, NID_NONE, has_free_surplus);

		if (nid < 0)
			return;
		struct frame *head = dequeue_node(c, h, (unsigned)nid);

		uncount(h, head, true);
		pool_unlock(c);
		page_release(c, head);
		pool_lock(c);
	}
}

/* A page beyond nr_hugepages, where the limit allows, refcount 0 and counted. Lock not held. */
static struct frame *surplus_new(struct cpu *c, struct hstate *h)
{
	const struct node *home = &c->q->nodes[c->nid];
	struct frame *head = NULL;
	bool room;

	if (h->order > MAX_ORDER)
		return NULL;
	pool_lock(c);
	room = h->surplus < h->overcommit;
	pool_unlock(c);
	for (unsigned i = 0; room && i < home->nr_fallback && !head; i++)
		head = page_new(c, h, home->fallback[i]);
	if (!head)
		return NULL;
	pool_lock(c);
	room = h->surplus < h->overcommit;
	if (room)
		count_new(h, head, true);
	pool_unlock(c);
	if (!room)
		page_release(c, head);
	return room ? head : NULL;
}

/* ---- promises ---- */

ATTR_NOINLINE int hugetlb_reserve(struct cpu *c, uint64_t vm_flags, uint64_t nr)
{
	struct hstate *h = hstate_of(c, hugetlb_size_of(vm_flags));
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);
	int rc = 0;

	pool_lock(c);
	while (!rc && h->resv + nr > h->nr_free) {
		struct frame *head;

		/* What cannot come together is not begun. */
		if (h->resv + nr - h->nr_free > (h->order > MAX_ORDER || h->surplus > h->overcommit ? 0 : h->overcommit - h->surplus))
			rc = -ENOMEM;
		if (rc)
			break;
		pool_unlock(c);
		head = surplus_new(c, h);
		pool_lock(c);
		if (head)
			enqueue(c, h, head);
		else
			rc = -ENOMEM;
	}
	if (!rc)
		h->resv += nr;
	else
		trim_surplus(c, h, UINT64_MAX);
	pool_unlock(c);
	machine_path(c, outer);
	return rc;
}

void hugetlb_unreserve(struct cpu *c, uint64_t vm_flags, uint64_t nr)
{
	struct hstate *h = hstate_of(c, hugetlb_size_of(vm_flags));
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);

	pool_lock(c);
	ASSERT(h->resv >= nr);
	h->resv -= nr;
	trim_surplus(c, h, nr);
	pool_unlock(c);
	machine_path(c, outer);
}

/* ---- pages ---- */

ATTR_NOINLINE struct frame *hugetlb_alloc(struct cpu *c, enum hugetlb_size size, bool promised, bool *ret_cleared)
{
	struct hstate *h = hstate_of(c, size);
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);
	struct frame *head = NULL;

	pool_lock(c);
	if (promised || h->nr_free > h->resv)
		head = dequeue(c, h);
	if (promised) {
		ASSERT(head && h->resv); /* HP2, HP3 */
		h->resv--;
	}
	pool_unlock(c);
	if (!head)
		head = surplus_new(c, h);
	if (ret_cleared)
		*ret_cleared = head && (frame_flags(head) & FRAME_CLEARED);
	if (head) {
		frame_clear(head, FRAME_CLEARED);
		__atomic_store_n(&head->refcount, 1, __ATOMIC_RELEASE);
	}
	machine_path(c, outer);
	return head;
}

/* The first free page that may hold anything, taken off its list: nobody sees it while it is cleared. */
static struct frame *dequeue_dirty(struct cpu *c, struct hstate *h)
{
	struct frame *head;

	if (h->nr_free <= h->resv)
		return NULL;
	for (unsigned nid = 0; nid < c->m->nr_nodes; nid++)
		list_for_each_entry(head, &h->node[nid].free, lru) {
			if (frame_flags(head) & FRAME_CLEARED)
				continue;
			take_off(c, h, head);
			return head;
		}
	return NULL;
}

ATTR_NOINLINE uint64_t hugetlb_clear_ahead(struct cpu *c, enum hugetlb_size size, uint64_t most)
{
	struct hstate *h = hstate_of(c, size);
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);
	struct frame *head;
	uint64_t done = 0;
	int rc = 0;

	while (done < most && !rc) {
		pool_lock(c);
		head = dequeue_dirty(c, h);
		pool_unlock(c);
		if (!head)
			break;
		rc = hugecopy_clear(c, head, 1U << h->order, 0);
		pool_lock(c);
		if (!rc)
			frame_set(head, FRAME_CLEARED);
		enqueue(c, h, head);
		pool_unlock(c);
		done += !rc;
	}
	machine_path(c, outer);
	return done;
}

/* What a page was used for goes from its head; it has no references. */
static void forget_use(struct frame *head)
{
	ASSERT(list_empty(&head->lru) && head->entire_mapcount == -1 && !head->priv);
	frame_clear(head, FRAME_ANON | FRAME_SWAPBACKED | FRAME_DIRTY | FRAME_REFERENCED);
	head->mapping = head->index = 0;
}

void hugetlb_undo_alloc(struct cpu *c, struct frame *head, bool promised)
{
	struct hstate *h = hstate_of_page(c, head);

	if (!promised) {
		frame_put(c, head);
		return;
	}
	ASSERT(frame_refcount(head) == 1);
	head->refcount = 0;
	forget_use(head);
	pool_lock(c);
	h->resv++;
	enqueue(c, h, head);
	pool_unlock(c);
}

ATTR_NOINLINE void hugetlb_free(struct cpu *c, struct frame *head)
{
	struct hstate *h = hstate_of_page(c, head);
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);
	bool leaves;

	forget_use(head);
	pool_lock(c);
	leaves = h->node[frame_nid(head)].surplus != 0;
	if (leaves)
		uncount(h, head, true);
	else
		enqueue(c, h, head);
	pool_unlock(c);
	if (leaves)
		page_release(c, head);
	machine_path(c, outer);
}

/* ---- resizing ---- */

static uint64_t persistent(const struct hstate *h, int nid)
{
	return nid == NID_NONE ? h->nr - h->surplus : h->node[nid].nr - h->node[nid].surplus;
}

/* One page more, of the node whose turn it is, or of another. Lock held, dropped meanwhile. */
static bool grow_one(struct cpu *c, struct hstate *h, int only)
{
	for (unsigned tries = 0; tries < c->m->nr_nodes; tries++) {
		int nid = next_node(c, h, only, any_node);
		struct frame *head;

		pool_unlock(c);
		head = page_new(c, h, nid);
		pool_lock(c);
		if (head) {
			count_new(h, head, false);
			enqueue(c, h, head);
			return true;
		}
		if (only != NID_NONE)
			break;
	}
	return false;
}

static bool shrink_one(struct cpu *c, struct hstate *h, int only)
{
	int nid = h->nr_free > h->resv ? next_node(c, h, only, has_free_persistent) : -1;

	if (nid < 0)
		return false;
	struct frame *head = dequeue_node(c, h, (unsigned)nid);

	uncount(h, head, false);
	pool_unlock(c);
	page_release(c, head);
	pool_lock(c);
	return true;
}

uint64_t hugetlb_set_pool(struct cpu *c, enum hugetlb_size size, int nid, uint64_t count)
{
	struct hstate *h = hstate_of(c, size);
	enum machine_path outer = machine_work(c, PATH_HUGETLB_POOL, 1);
	uint64_t now;

	pool_lock(c);
	while (count > persistent(h, nid) && mark_surplus(c, h, nid, false))
		;
	while (count > persistent(h, nid) && grow_one(c, h, nid))
		;
	while (count < persistent(h, nid) && shrink_one(c, h, nid))
		;
	while (count < persistent(h, nid) && mark_surplus(c, h, nid, true))
		;
	now = nid == NID_NONE ? h->nr : h->node[nid].nr;
	pool_unlock(c);
	machine_path(c, outer);
	return now;
}

int hugetlb_carve(struct quire *q)
{
	for (unsigned s = 0; s < NR_HUGETLB_SIZES; s++) {
		q->hugetlb.h[s].node = boot_carve(q, 0, q->m->nr_nodes * sizeof(struct hugetlb_node), CACHE_LINE);
		if (!q->hugetlb.h[s].node)
			return -ENOMEM;
	}
	return 0;
}

void hugetlb_boot(struct cpu *c, struct quire *q)
{
	static const unsigned orders[NR_HUGETLB_SIZES] = { PMD_SHIFT - PAGE_SHIFT, PUD_SHIFT - PAGE_SHIFT };
	const uint64_t want[NR_HUGETLB_SIZES] = { q->knobs.hugetlb_2m_nr, q->knobs.hugetlb_1g_nr };

	mlock_init(&q->hugetlb.lock, RANK_LRU, machine_pa(q->m, &q->hugetlb.lock));
	for (unsigned i = 0; i < HUGETLB_FAULT_LOCKS; i++)
		mrwlock_init(&q->hugetlb.fault[i], RANK_HUGETLB, machine_pa(q->m, &q->hugetlb.fault[i]));
	q->hugetlb.h[HUGETLB_2M].overcommit = q->knobs.hugetlb_2m_overcommit;
	/* The larger ones first, while memory is in one piece. */
	for (unsigned s = NR_HUGETLB_SIZES; s-- > 0;) {
		struct hstate *h = &q->hugetlb.h[s];

		h->order = orders[s];
		for (unsigned nid = 0; nid < q->m->nr_nodes; nid++)
			list_init(&h->node[nid].free);
		if (want[s])
			(void)hugetlb_set_pool(c, (enum hugetlb_size)s, NID_NONE, want[s]);
	}
}

void hugetlb_shutdown(struct cpu *c, struct quire *q)
{
	for (unsigned s = 0; s < NR_HUGETLB_SIZES; s++) {
		if (q->hugetlb.h[s].nr)
			(void)hugetlb_set_pool(c, (enum hugetlb_size)s, NID_NONE, 0);
		ASSERT(!q->hugetlb.h[s].nr && !q->hugetlb.h[s].resv);
	}
}

struct hugetlb_info hugetlb_info(const struct quire *q, enum hugetlb_size size, int nid)
{
	const struct hstate *h = &q->hugetlb.h[size];

	if (nid == NID_NONE)
		return (struct hugetlb_info){ .total = h->nr, .free = h->nr_free, .rsvd = h->resv, .surp = h->surplus };
	const struct hugetlb_node *n = &h->node[nid];

	return (struct hugetlb_info){ .total = n->nr, .free = n->nr_free, .surp = n->surplus };
}
