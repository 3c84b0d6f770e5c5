/*
 * The memory map: where boot-time structures and frame descriptors lie, which frames each zone manages, and sections
 * that are written only when somebody needs them.
 *
 * Layout of node 0, from its start: kernel image (16 MiB), struct quire, nodes, section map, pageblock types, per-CPU
 * areas. Every node keeps its own frames' descriptors (1/64 of it) and its CPUs' areas at its start; where a node
 * lies on both sides of 4 GiB, the descriptors lie at the start of the upper part, so that a large node does not eat
 * all memory below 4 GiB.
 *
 * Invariants
 *  B1 Each zone manages [first_pfn, end_pfn); what is below first_pfn is reserved and has all-zero descriptors, which
 *     stand for 'reserved' as a whole (the zero page's is written).
 *  B2 Descriptors at or above deferred_pfn are all zero; those frames are free, movable, and counted in free_pages.
 *     deferred_pfn is at a section boundary or first_pfn or end_pfn, so no buddy block straddles it.
 * Boot is not charged: it happens before virtual time starts. Nor is the writing of a deferred section, since the
 * kernel we model has written all descriptors before the first program runs.
 */
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/kthread.h"
#include "mm/text.h"
#include "mm/tlb.h"
#include "mm/swap.h"

#include <string.h>

paddr_t frame_desc_pa(const struct quire *q, const struct frame *f)
{
	uint64_t n = (uint64_t)(f - q->m->memmap);

	return q->section_map[n >> SECTION_SHIFT] + (n & (SECTION_FRAMES - 1)) * sizeof(struct frame);
}

void memmap_touch_link_charged(struct cpu *c, const struct list_head *l)
{
	const struct machine *m = c->m;
	uint64_t off = (uint64_t)((const char *)l - (const char *)m->memmap);

	if (off < m->max_pfn * sizeof(struct frame))
		frame_touch(c, m->memmap + off / sizeof(struct frame), TOUCH_WRITE);
	else
		machine_touch(c, machine_pa(m, l), sizeof(*l), TOUCH_WRITE);
}

static void *carve_from(struct quire *q, struct node *n, size_t size, size_t align)
{
	paddr_t pa = ALIGN_UP(n->boot_next, align);

	if (pa > n->boot_limit || size > n->boot_limit - pa)
		return NULL;
	n->boot_next = pa + size;
	return machine_ptr(q->m, pa);
}

static void *carve_near(struct quire *q, int nid, size_t size, size_t align)
{
	void *p = carve_from(q, &q->nodes[nid], size, align);

	return p || !nid ? p : carve_from(q, &q->nodes[0], size, align);
}

void *boot_carve(struct quire *q, int nid, size_t size, size_t align)
{
	void *p = carve_near(q, nid, size, align);

	if (p)
		memset(p, 0, size);
	return p;
}

bool memmap_materialise(struct quire *q, struct zone *z)
{
	uint64_t p = z->deferred_pfn, end = MIN(ALIGN_DOWN(p, SECTION_FRAMES) + SECTION_FRAMES, z->end_pfn);

	if (p >= z->end_pfn)
		return false;
	memset(pageblock_of(z, p), MIGRATE_MOVABLE, (size_t)(pageblock_of(z, end - 1) - pageblock_of(z, p)) + 1);
	__atomic_store_n(&z->deferred_pfn, end, __ATOMIC_RELAXED); /* the watermark test looks without the lock */
	while (p < end) {
		unsigned order = p ? MIN((unsigned)__builtin_ctzll(p), (unsigned)MAX_ORDER) : MAX_ORDER;

		while (p + (1ULL << order) > end)
			order--;
		buddy_seed(q, z, p, order, MIGRATE_MOVABLE);
		p += 1ULL << order;
	}
	return true;
}

static uint64_t node_split(const struct machine_node *mn)
{
	return MIN(MAX(mn->start_pfn, DMA32_END_PFN), mn->end_pfn);
}

/* The part of a node that a zone type covers. */
static void zone_extent(const struct quire *q, int nid, enum zone_type t, uint64_t *ret_start, uint64_t *ret_end)
{
	const struct machine_node *mn = &q->m->nodes[nid];
	uint64_t split = node_split(mn), movable = q->nodes[nid].movable_pfn;

	*ret_start = t == ZONE_DMA32 ? mn->start_pfn : t == ZONE_NORMAL ? split : t == ZONE_MOVABLE ? movable : mn->end_pfn;
	*ret_end = t == ZONE_DMA32 ? MIN(split, movable) : t == ZONE_NORMAL ? MAX(split, movable) : mn->end_pfn;
}

/* Boot-time structures stay within the node's lowest zone. */
paddr_t node_boot_limit(const struct machine_node *mn)
{
	uint64_t split = node_split(mn);

	return (split > mn->start_pfn ? split : mn->end_pfn) << PAGE_SHIFT;
}

static void zone_init(struct quire *q, int nid, enum zone_type t)
{
	struct zone *z = &q->nodes[nid].zones[t];

	z->nid = nid;
	z->type = t;
	zone_extent(q, nid, t, &z->start_pfn, &z->end_pfn);
	z->first_pfn = z->start_pfn;
	mlock_init(&z->lock, RANK_ZONE, machine_pa(q->m, &z->lock));
	for (unsigned o = 0; o <= MAX_ORDER; o++)
		for (unsigned mt = 0; mt < NR_MIGRATE_TYPES; mt++)
			list_init(&z->free_area[o].list[mt]);
}

/*
 * Where a node's descriptors lie; fills the section map. Also says from where and how far boot-time structures of the
 * node go.
 */
static int node_place_memmap(struct quire *q, int nid)
{
	struct node *n = &q->nodes[nid];
	const struct machine_node *mn = &q->m->nodes[nid];
	struct zone *low = &n->zones[ZONE_DMA32], *high = &n->zones[ZONE_NORMAL];
	uint64_t frames = mn->end_pfn - mn->start_pfn;
	uint64_t need = ALIGN_UP(frames * sizeof(struct frame), PAGE_SIZE);
	paddr_t pa;

	if (!frames)
		return 0;
	if (low->end_pfn > low->start_pfn && (high->end_pfn - high->start_pfn) * PAGE_SIZE > need) {
		pa = high->start_pfn << PAGE_SHIFT;
		high->first_pfn = high->start_pfn + (need >> PAGE_SHIFT);
	} else {
		/* Not boot_carve: the descriptors are modelled here, their bytes are the machine's memmap. */
		void *p = carve_from(q, n, need, PAGE_SIZE);

		if (!p)
			return -ENOMEM;
		pa = machine_pa(q->m, p);
	}
	for (uint64_t s = mn->start_pfn; s < mn->end_pfn; s += SECTION_FRAMES)
		q->section_map[s >> SECTION_SHIFT] = pa + (s - mn->start_pfn) * sizeof(struct frame);
	return 0;
}

/* What boot-time structures took is known: the rest of each zone goes to the allocator. */
static void zone_open(struct zone *z, paddr_t boot_next)
{
	uint64_t used = ALIGN_UP(boot_next, PAGE_SIZE) >> PAGE_SHIFT;

	z->first_pfn = MAX(z->first_pfn, MIN(used, z->end_pfn));
	z->managed = z->end_pfn - z->first_pfn;
	z->deferred_pfn = z->first_pfn;
	z->free_pages = z->managed;
}

static int fail(struct quire *q, int err, const char *what)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, what);
	return err;
}

static int percpu_boot(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_cpus; i++) {
		struct cpu *c = q->m->cpus[i];
		struct percpu *pc = boot_carve(q, c->nid, sizeof(*pc), CACHE_LINE);
		struct pcp_list *pcp = boot_carve(q, c->nid, sizeof(*pcp) * q->m->nr_nodes * NR_ZONES, CACHE_LINE);

		if (!pc || !pcp)
			return -ENOMEM;
		pc->gather = boot_carve(q, c->nid, sizeof(struct mmu_gather), CACHE_LINE);
		/* Not zeroed here: the CPU does it at its first fault. */
		pc->fault_ns = carve_near(q, c->nid, sizeof(struct hist) * NR_TIMES, CACHE_LINE);
		if (!pc->gather || !pc->fault_ns)
			return -ENOMEM;
		pc->pa = machine_pa(q->m, pc);
		pc->pcp = pcp;
		q->percpu[i] = pc;
		c->pc = pc;
		c->q = q;
	}
	return 0;
}

/* The frame that every untouched page reads: reserved, never freed, all zero. */
static int zero_frame_boot(struct quire *q)
{
	void *p = boot_carve(q, 0, PAGE_SIZE, PAGE_SIZE);
	struct frame *f;

	if (!p)
		return -ENOMEM;
	q->zero_pfn = paddr_to_pfn(machine_pa(q->m, p));
	f = frame_of(q->m, q->zero_pfn);
	f->flags = FRAME_RESERVED |
		   zone_place(&q->nodes[0].zones[q->zero_pfn.v < DMA32_END_PFN ? ZONE_DMA32 : ZONE_NORMAL]);
	list_init(&f->lru);
	f->refcount = 1;
	f->mapcount = -1;
	if (q->m->tags)
		q->m->tags[q->zero_pfn.v] = 0;
	return 0;
}

static int tables_boot(struct quire *q)
{
	uint64_t sections = (q->m->max_pfn + SECTION_FRAMES - 1) >> SECTION_SHIFT;

	q->section_map = boot_carve(q, 0, sections * sizeof(paddr_t), CACHE_LINE);
	q->percpu = boot_carve(q, 0, q->m->nr_cpus * sizeof(struct percpu *), CACHE_LINE);
	if (!q->section_map || !q->percpu)
		return -ENOMEM;
	for (unsigned n = 0; n < q->m->nr_nodes; n++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = &q->nodes[n].zones[t];
			uint64_t blocks = (z->end_pfn - z->start_pfn + PAGEBLOCK_FRAMES - 1) >> PAGEBLOCK_ORDER;

			/* Not zeroed: memmap_materialise sets the types before anybody looks. */
			z->pageblock_mt = carve_from(q, &q->nodes[0], blocks, CACHE_LINE);
			if (!z->pageblock_mt)
				return -ENOMEM;
		}
	}
	for (unsigned n = 0; n < q->m->nr_nodes; n++) {
		if (q->m->nodes[n].end_pfn > q->m->nodes[n].start_pfn) {
			q->nodes[n].kswapd = boot_carve(q, (int)n, sizeof(struct kthread), CACHE_LINE);
			q->nodes[n].kcompactd = boot_carve(q, (int)n, sizeof(struct kthread), CACHE_LINE);
		}
		if (node_place_memmap(q, (int)n))
			return -ENOMEM;
	}
	return 0;
}

static int check_nodes(struct quire *q)
{
	const struct machine *m = q->m;
	uint64_t end = 0;

	for (unsigned i = 0; i < m->nr_nodes; i++) {
		const struct machine_node *mn = &m->nodes[i];

		if (mn->end_pfn == mn->start_pfn)
			continue;
		if (mn->end_pfn < mn->start_pfn || mn->start_pfn < end || mn->end_pfn > m->max_pfn)
			return fail(q, -EINVAL, "nodes overlap, are out of order or lie beyond the machine's memory");
		if (!IS_ALIGNED(mn->start_pfn, SECTION_FRAMES))
			return fail(q, -EINVAL, "a node does not start at a multiple of 128 MiB");
		end = mn->end_pfn;
	}
	for (unsigned i = 0; i < m->nr_cpus; i++)
		if (m->cpus[i]->nid < 0 || (unsigned)m->cpus[i]->nid >= m->nr_nodes)
			return fail(q, -EINVAL, "a CPU belongs to no node");
	return 0;
}

int memory_boot(struct cpu *c, struct quire *q)
{
	int err = check_nodes(q);

	(void)c;
	if (err)
		return err;
	zonelist_setup(q);
	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		struct node *n = &q->nodes[i];

		n->nid = (int)i;
		for (unsigned t = 0; t < NR_ZONES; t++)
			zone_init(q, (int)i, (enum zone_type)t);
		if (i) {
			n->boot_next = q->m->nodes[i].start_pfn << PAGE_SHIFT;
			n->boot_limit = node_boot_limit(&q->m->nodes[i]);
		}
	}
	if (tables_boot(q) || percpu_boot(q) || hugetlb_carve(q) || zero_frame_boot(q))
		return fail(
			q, -ENOMEM,
			"node 0 is too small for the kernel image, the frame descriptors and the boot-time structures");
	err = swap_boot(q);
	if (err)
		return err;
	for (unsigned i = 0; i < q->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			zone_open(&q->nodes[i].zones[t], q->nodes[i].boot_next);
	zone_setup_watermarks(q);
	pcp_setup(q);
	return 0;
}

void memory_shutdown(struct quire *q)
{
	for (unsigned i = 0; i < q->m->nr_nodes; i++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = &q->nodes[i].zones[t];

			memset(q->m->memmap + z->first_pfn, 0, (z->deferred_pfn - z->first_pfn) * sizeof(struct frame));
			z->deferred_pfn = z->first_pfn;
		}
	}
	memset(frame_of(q->m, q->zero_pfn), 0, sizeof(struct frame));
}
