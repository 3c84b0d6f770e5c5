/*
 * The whole-allocator check: walks every materialised frame of every zone, then every list, and compares. Charges
 * nothing and changes nothing. Costs time in proportion to the frames ever used. Invariants F1, F3, F5 (frame.h), A1
 * to A5 (buddy.c), B2 (memmap.c).
 */
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/text.h"

struct tally {
	uint64_t free, pcp, owned; /* frames */
	uint64_t blocks[MAX_ORDER + 1]; /* free blocks by order */
	uint64_t pcp_blocks[NR_MIGRATE_TYPES][NR_PCP_ORDERS]; /* on all CPUs' lists */
};

static int invalid(struct quire *q, const struct zone *z, const char *what, uint64_t p)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "memory: ");
	text_str(&t, what);
	text_field(&t, "node", (uint64_t)z->nid);
	text_field(&t, "zone", z->type);
	text_field(&t, "pfn", p);
	return -EINVAL;
}

static bool mergeable(const struct quire *q, const struct zone *z, uint64_t p, unsigned order)
{
	uint64_t b = p ^ (1ULL << order);
	const struct frame *bf;

	if (order == MAX_ORDER || b < z->first_pfn || b + (1ULL << order) > z->deferred_pfn)
		return false;
	bf = q->m->memmap + b;
	return (bf->flags & FRAME_BUDDY) && frame_order(bf) == order;
}

/* What is inside a free block: frames without any state. */
static int check_free(struct quire *q, const struct zone *z, uint64_t p, unsigned order)
{
	const struct frame *f = q->m->memmap + p;

	if (order > MAX_ORDER || !IS_ALIGNED(p, 1ULL << order) || p + (1ULL << order) > z->deferred_pfn)
		return invalid(q, z, "a free block is misaligned or sticks out (A2)", p);
	if (f->refcount)
		return invalid(q, z, "a free frame has references (F1)", p);
	for (uint64_t b = p; b < p + (1ULL << order); b += PAGEBLOCK_FRAMES)
		if (pageblock_type(z, b) != frame_mt(f))
			return invalid(q, z, "a free block is on the list of another type than its pageblock's (A5)", b);
	if (mergeable(q, z, p, order))
		return invalid(q, z, "two free buddies were not merged (A3)", p);
	for (uint64_t i = 1; i < 1ULL << order; i++)
		if (f[i].flags & ~FRAME_PLACE_MASK || f[i].refcount)
			return invalid(q, z, "a frame inside a free block has state (A1)", p + i);
	return 0;
}

static int check_owned(struct quire *q, const struct zone *z, uint64_t p, unsigned order)
{
	const struct frame *f = q->m->memmap + p;
	bool compound = f->flags & FRAME_HEAD;

	if (f->flags & FRAME_HUGETLB)
		compound = compound && (order == PMD_SHIFT - PAGE_SHIFT || order == PUD_SHIFT - PAGE_SHIFT);
	if (f->flags & FRAME_HUGETLB_FREE ? f->refcount != 0 || !(f->flags & FRAME_HUGETLB) : f->refcount <= 0)
		return invalid(q, z, "a frame is in no place: not free, not on a list, no references (F1)", p);
	if (f->mapcount < -1 || (compound && f->entire_mapcount < -1) || (order > MAX_ORDER && !(f->flags & FRAME_HUGETLB)) ||
	    p + (1ULL << order) > z->deferred_pfn)
		return invalid(q, z, "an allocated block has an impossible count or order", p);
	for (uint64_t i = 1; i < 1ULL << order; i++) {
		const struct frame *t = f + i;

		if (compound != !!(t->flags & FRAME_TAIL) || (compound && t->tail.head_pfn != p))
			return invalid(q, z, "a tail does not know its head (F3)", p + i);
		if (t->flags & (FRAME_BUDDY | FRAME_PCP | FRAME_HEAD | FRAME_RESERVED) || t->refcount ||
		    t->mapcount < -1)
			return invalid(q, z, "a frame is in two places (F1)", p + i);
		if ((t->flags & FRAME_PLACE_MASK) != zone_place(z))
			return invalid(q, z, "a tail has the wrong node or zone", p + i);
	}
	return 0;
}

static int walk_zone(struct quire *q, const struct zone *z, struct tally *n)
{
	for (uint64_t p = z->first_pfn; p < z->deferred_pfn;) {
		const struct frame *f = q->m->memmap + p;
		unsigned order = frame_order(f);

		if ((f->flags & FRAME_PLACE_MASK) != zone_place(z))
			return invalid(q, z, "a frame has the wrong node or zone", p);
		if (f->flags & (FRAME_BUDDY | FRAME_PCP)) {
			bool buddy = f->flags & FRAME_BUDDY;

			if ((buddy && f->flags & FRAME_PCP) || frame_mt(f) >= NR_MIGRATE_TYPES)
				return invalid(q, z, "a frame is in two places (F1)", p);
			if (!buddy && pcp_index(order) < 0)
				return invalid(q, z, "a per-CPU list holds a block of another order", p);
			if (buddy && check_free(q, z, p, order))
				return -EINVAL;
			if (buddy) {
				n->blocks[order]++;
				n->free += 1ULL << order;
			} else {
				n->pcp_blocks[frame_mt(f)][pcp_index(order)]++;
				n->pcp += 1ULL << order;
			}
		} else {
			if (check_owned(q, z, p, order))
				return -EINVAL;
			n->owned += 1ULL << order;
		}
		p += 1ULL << order;
	}
	return 0;
}

static int check_free_lists(struct quire *q, const struct zone *z, const struct tally *n)
{
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		uint64_t nr = 0;

		for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++) {
			const struct list_head *head = &z->free_area[o].list[mt], *prev = head;

			for (const struct list_head *l = head->next; l != head; prev = l, l = l->next) {
				const struct frame *f = list_entry(l, const struct frame, lru);
				uint64_t p = frame_pfn(q->m, f).v;

				if (p < z->first_pfn || p >= z->deferred_pfn || l->prev != prev || ++nr > n->blocks[o])
					return invalid(q, z, "a free list is damaged", p);
				if (!(f->flags & FRAME_BUDDY) || frame_order(f) != o || frame_mt(f) != mt)
					return invalid(q, z, "a block on the wrong free list (A1)", p);
			}
		}
		if (nr != n->blocks[o] || nr != z->free_area[o].nr_free)
			return invalid(q, z, "free blocks and free lists don't agree; order", o);
	}
	return 0;
}

static int check_pcp_lists(struct quire *q, const struct zone *z, const struct tally *n)
{
	uint64_t nr[NR_MIGRATE_TYPES][NR_PCP_ORDERS] = { 0 };

	for (unsigned cpu = 0; z->managed && cpu < q->m->nr_cpus; cpu++) {
		const struct pcp_list *p = &q->percpu[cpu]->pcp[(unsigned)z->nid * NR_ZONES + z->type];
		uint64_t total = 0;

		for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++) {
			for (unsigned o = 0; o < NR_PCP_ORDERS; o++) {
				const struct frame *f;
				uint64_t count = 0;

				list_for_each_entry(f, &p->list[mt][o], lru) {
					if (!(f->flags & FRAME_PCP) || frame_mt(f) != mt ||
					    frame_order(f) != pcp_order((int)o) || ++count > p->count[mt][o])
						return invalid(q, z, "a per-CPU list is damaged", frame_pfn(q->m, f).v);
				}
				if (count != p->count[mt][o])
					return invalid(q, z, "a per-CPU list's count is wrong; CPU", cpu);
				total += count << pcp_order((int)o);
				nr[mt][o] += count;
			}
		}
		if (total != p->total)
			return invalid(q, z, "a per-CPU list's total is wrong; CPU", cpu);
	}
	for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++)
		for (unsigned o = 0; o < NR_PCP_ORDERS; o++)
			if (nr[mt][o] != n->pcp_blocks[mt][o])
				return invalid(q, z, "frames marked as on a per-CPU list are on none", nr[mt][o]);
	return 0;
}

static int check_zone(struct quire *q, const struct zone *z)
{
	struct tally n = { 0 };
	uint64_t deferred = z->end_pfn - z->deferred_pfn;

	if (z->deferred_pfn < z->first_pfn || z->deferred_pfn > z->end_pfn ||
	    (deferred && z->deferred_pfn != z->first_pfn && !IS_ALIGNED(z->deferred_pfn, SECTION_FRAMES)))
		return invalid(q, z, "the deferred part does not start at a section (B2)", z->deferred_pfn);
	if (deferred && (q->m->memmap[z->deferred_pfn].flags || q->m->memmap[z->end_pfn - 1].flags))
		return invalid(q, z, "a deferred descriptor has been written (F5)", z->deferred_pfn);
	if (walk_zone(q, z, &n) || check_free_lists(q, z, &n) || check_pcp_lists(q, z, &n))
		return -EINVAL;
	if (n.free + deferred != z->free_pages)
		return invalid(q, z, "free_pages differs from the free blocks (A4); frames", n.free + deferred);
	if (n.free + n.pcp + n.owned + deferred != z->managed)
		return invalid(q, z, "frames don't add up to what the zone manages; frames",
			       n.free + n.pcp + n.owned + deferred);
	return 0;
}

int memory_validate(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			if (check_zone(q, &q->nodes[i].zones[t]))
				return -EINVAL;
	return 0;
}
