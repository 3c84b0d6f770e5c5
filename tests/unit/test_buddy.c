/*
 * The page allocator: boot layout, watermarks, blocks, per-CPU lists, nodes, and that no frame is ever lost or given
 * twice.
 */
#include "booted.h"

#include "base/rng.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct zone *zone_at(struct booted *b, int nid, enum zone_type t)
{
	return &b->q->nodes[nid].zones[t];
}

static uint64_t managed(const struct booted *b)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < b->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			n += b->q->nodes[i].zones[t].managed;
	return n;
}

/* ---- boot ---- */

static void test_boot_layout(void **state)
{
	struct booted b;
	struct zone *z;
	uint64_t node = 1ULL << (30 - PAGE_SHIFT);

	(void)state;
	boot_small(&b, 1024);
	z = zone_at(&b, 0, ZONE_DMA32);
	assert_int_equal(z->start_pfn, 0);
	assert_int_equal(z->end_pfn, node);
	assert_int_equal(zone_at(&b, 0, ZONE_NORMAL)->managed, 0);
	/* Reserved: 16 MiB of kernel image, 1/64 for descriptors, less than 1 MiB of structures. */
	assert_true(z->first_pfn >= 4096 + node / 64);
	assert_true(z->first_pfn < 4096 + node / 64 + 256);
	assert_int_equal(z->managed, node - z->first_pfn);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), z->managed);
	/* Boot writes no descriptor but the zero page's. */
	for (uint64_t p = 0; p < node; p++)
		assert_true(p == b.q->zero_pfn.v || !frame_of(b.m, pfn(p))->flags);
	assert_true(frame_of(b.m, b.q->zero_pfn)->flags & FRAME_RESERVED);
	assert_true(b.q->zero_pfn.v < z->first_pfn);
	assert_ptr_equal(b.m->cpus[0]->pc, b.q->percpu[0]);
	assert_int_equal(b.q->percpu[0]->pa, machine_pa(b.m, b.q->percpu[0]));
	check_valid(&b);
	shut_down(&b);
}

/* Descriptors' modelled addresses: in the node's own reserved frames, 64 bytes apart, no two alike across nodes. */
static void test_descriptor_addresses(void **state)
{
	struct booted b;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 4, .nr_nodes = 2, .node_bytes = 6ULL << 30 }, NULL);
	for (unsigned n = 0; n < 2; n++) {
		const struct machine_node *mn = &b.m->nodes[n];
		paddr_t first = frame_desc_pa(b.q, frame_of(b.m, pfn(mn->start_pfn)));

		for (uint64_t p = mn->start_pfn; p < mn->end_pfn; p += 4093) {
			paddr_t pa = frame_desc_pa(b.q, frame_of(b.m, pfn(p)));
			bool reserved = false;

			assert_int_equal(pa, first + (p - mn->start_pfn) * 64);
			for (unsigned t = 0; t < NR_ZONES; t++) {
				const struct zone *z = zone_at(&b, (int)n, (enum zone_type)t);

				reserved |= pa >> PAGE_SHIFT >= z->start_pfn && pa >> PAGE_SHIFT < z->first_pfn;
			}
			assert_true(reserved);
		}
	}
	/* Node 0 lies on both sides of 4 GiB: its lower part is not spent on descriptors. */
	assert_true(zone_at(&b, 0, ZONE_DMA32)->managed > (1ULL << 20) - 4096 - 512);
	assert_int_equal(zone_at(&b, 0, ZONE_NORMAL)->start_pfn, 1ULL << 20);
	/* A CPU's area is on its own node. */
	assert_true(b.q->percpu[3]->pa >> PAGE_SHIFT >= b.m->nodes[1].start_pfn);
	check_valid(&b);
	shut_down(&b);
}

static void test_boot_refuses(void **state)
{
	struct machine *m;
	struct quire *q = NULL;
	char err[200] = "";

	(void)state;
	assert_int_equal(null_create(&(struct null_options){ .node_bytes = 128 << 20 }, &m, err, sizeof(err)), 0);
	m->nodes[0].end_pfn = 4096 + 8; /* no room after the kernel image */
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -ENOMEM);
	assert_true(strlen(err) > 0);
	m->nodes[0].end_pfn = 4096 + 64; /* room for the first structures, not for the rest */
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -ENOMEM);
	m->nodes[0].end_pfn = m->max_pfn + 1;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	m->nodes[0].start_pfn = 4096;
	m->nodes[0].end_pfn = m->max_pfn;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), -EINVAL);
	assert_null(q);
	assert_null(m->cpus[0]->q);
	null_destroy(m);
}

/*
 * A large machine costs only what is touched: one allocation writes one section. And a second boot finds a clean
 * machine.
 */
static void test_large_node_is_lazy(void **state)
{
	struct booted b;
	struct zone *z;
	struct frame *f;
	char err[200];

	(void)state;
	boot_with(&b, &(struct null_options){ .node_bytes = 384ULL << 30 }, NULL);
	z = zone_at(&b, 0, ZONE_NORMAL);
	f = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	assert_non_null(f);
	assert_int_equal(frame_zone(f), ZONE_NORMAL);
	assert_true(z->deferred_pfn - z->first_pfn <= SECTION_FRAMES);
	assert_int_equal(zone_at(&b, 0, ZONE_DMA32)->deferred_pfn, zone_at(&b, 0, ZONE_DMA32)->first_pfn);
	check_valid(&b);
	frame_put(b.c, f);
	assert_int_equal(quire_shutdown(b.q), 0);
	assert_int_equal(quire_boot(b.m, NULL, &b.q, err, sizeof(err)), 0);
	shut_down(&b);
}

/* ---- watermarks ---- */

static void test_watermarks(void **state)
{
	struct booted b;
	struct zone *z;
	struct knobs k;
	uint64_t kb, root;

	(void)state;
	boot_small(&b, 256);
	z = zone_at(&b, 0, ZONE_DMA32);
	kb = z->managed * 4 * 16;
	for (root = 0; (root + 1) * (root + 1) <= kb; root++)
		;
	assert_int_equal(z->watermark[WMARK_MIN], root / 4);
	/* 0.1 % of the memory is less than a quarter of min here. */
	assert_int_equal(z->watermark[WMARK_LOW], root / 4 + root / 4 / 4);
	assert_int_equal(z->watermark[WMARK_HIGH], root / 4 + 2 * (root / 4 / 4));
	assert_int_equal(z->watermark[WMARK_PROMO], root / 4 + 3 * (root / 4 / 4));
	shut_down(&b);

	knobs_default(&k);
	k.min_free_kbytes = 65536;
	k.watermark_scale_factor = 1000;
	boot_with(&b, &(struct null_options){ .nr_cpus = 2, .nr_nodes = 2, .node_bytes = 8ULL << 30 }, &k);
	for (int n = 0; n < 2; n++) {
		for (int t = 0; t <= ZONE_NORMAL; t++) {
			z = zone_at(&b, n, (enum zone_type)t);
			assert_int_equal(z->watermark[WMARK_MIN], 16384 * z->managed / managed(&b));
			assert_int_equal(z->watermark[WMARK_LOW], z->watermark[WMARK_MIN] + z->managed / 10);
		}
	}
	/* Memory below 4 GiB is kept back from requests that could use what is above. */
	assert_int_equal(zone_at(&b, 0, ZONE_DMA32)->lowmem_reserve[ZONE_NORMAL],
			 zone_at(&b, 0, ZONE_NORMAL)->managed / 256);
	assert_int_equal(zone_at(&b, 0, ZONE_NORMAL)->lowmem_reserve[ZONE_MOVABLE], 0);
	shut_down(&b);
}

static void test_pcp_sizes(void **state)
{
	struct booted b;
	struct pcp_list *p;
	struct knobs k;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 4, .node_bytes = 2ULL << 30 }, NULL);
	p = &b.q->percpu[2]->pcp[ZONE_DMA32];
	assert_int_equal(p->batch, 63);
	assert_int_equal(p->high, MAX(zone_at(&b, 0, ZONE_DMA32)->watermark[WMARK_LOW] / 4, 4 * 63));
	assert_int_equal(p->high_min, p->high);
	assert_int_equal(p->high_max, zone_at(&b, 0, ZONE_DMA32)->managed / 8 / 4);
	shut_down(&b);
	knobs_default(&k);
	k.percpu_pagelist_high_fraction = 8;
	boot_with(&b, &(struct null_options){ .nr_cpus = 4, .node_bytes = 2ULL << 30 }, &k);
	p = &b.q->percpu[0]->pcp[ZONE_DMA32];
	assert_int_equal(p->high, zone_at(&b, 0, ZONE_DMA32)->managed / 8 / 4);
	assert_true(p->high_min == p->high && p->high_max == p->high);
	shut_down(&b);
}

/* ---- what an allocated block looks like ---- */

static void test_block_state(void **state)
{
	struct booted b;
	const struct null_counts *n;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 2, .nr_nodes = 2, .node_bytes = 1ULL << 30 }, NULL);
	n = null_counts(b.m);
	for (unsigned order = 0; order <= MAX_ORDER; order++) {
		for (unsigned comp = 0; comp < 2; comp++) {
			struct frame *f = take(b.c, order, GFP_HIGHUSER_MOVABLE | (comp ? GFP_COMP : 0), 1);
			uint64_t p = frame_pfn(b.m, f).v;

			assert_int_equal(p % (1U << order), 0);
			assert_int_equal(f->refcount, 1);
			assert_int_equal(frame_order(f), order);
			assert_int_equal(frame_nr_pages(f), comp ? 1U << order : 1);
			for (unsigned i = 0; i < 1U << order; i++) {
				assert_int_equal(frame_nid(f + i), 1);
				assert_int_equal(frame_zone(f + i), ZONE_DMA32);
				assert_int_equal(f[i].mapcount, -1);
				assert_int_equal(f[i].refcount, i == 0);
				assert_ptr_equal(frame_head(b.m, f + i), comp ? f : f + i);
				assert_false(f[i].flags & (FRAME_BUDDY | FRAME_PCP));
			}
			check_valid(&b);
			frame_get(b.c, f);
			frame_put(b.c, f);
			assert_int_equal(f->refcount, 1);
			frame_put(b.c, f);
			check_valid(&b);
		}
	}
	null_counts_reset(b.m);
	frame_put(b.c, take(b.c, HPAGE_PMD_ORDER, GFP_TRANSHUGE, 0));
	/* Every tail is written when a huge page is made, and again when it goes. */
	assert_int_equal(n->path[PATH_PREP_COMPOUND].units, 512);
	assert_true(n->path[PATH_PREP_COMPOUND].lines[TOUCH_WRITE] >= 511);
	assert_int_equal(n->path[PATH_CLEAR_COMPOUND].units, 512);
	assert_true(n->path[PATH_CLEAR_COMPOUND].lines[TOUCH_WRITE] >= 511);
	shut_down(&b);
}

static void test_zeroing(void **state)
{
	struct booted b;
	struct inject *in;
	struct frame *f;
	uint64_t free;
	char *bytes;

	(void)state;
	boot_small(&b, 128);
	f = take(b.c, 1, GFP_KERNEL, NID_NONE);
	bytes = machine_ptr(b.m, pfn_to_paddr(frame_pfn(b.m, f)));
	memset(bytes, 0x55, 8192);
	frame_put(b.c, f);
	f = take(b.c, 1, GFP_KERNEL | GFP_ZERO, NID_NONE);
	assert_ptr_equal(bytes, machine_ptr(b.m, pfn_to_paddr(frame_pfn(b.m, f))));
	for (unsigned i = 0; i < 8192; i++)
		assert_int_equal(bytes[i], 0);
	assert_int_equal(counter(&b, VM_quire_pages_cleared), 0);
	frame_put(b.c, f);

	f = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	b.m->tags[frame_pfn(b.m, f).v] = 77;
	frame_put(b.c, f);
	f = take(b.c, 0, GFP_HIGHUSER_MOVABLE | GFP_ZERO, NID_NONE);
	assert_int_equal(b.m->tags[frame_pfn(b.m, f).v], 0);
	assert_int_equal(counter(&b, VM_quire_pages_cleared), 1);
	frame_put(b.c, f);

	/* Clearing fails half-way: no block, and none lost. */
	drain_all(&b);
	free = memory_free_pages(b.q, NID_NONE);
	assert_int_equal(inject_attach(b.m, 1, &in), 0);
	inject_set(in, INJECT_CLEAR, INJECT_NTH, 3);
	assert_null(take(b.c, 3, GFP_KERNEL | GFP_ZERO, NID_NONE));
	assert_int_equal(inject_failures(in, INJECT_CLEAR), 1);
	inject_detach(in);
	drain_all(&b);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), free);
	shut_down(&b);
}

/* ---- the property test ---- */

struct held {
	struct frame *f;
	unsigned order;
};

#define HELD_MAX 3000

static void oracle_take(uint8_t *owner, const struct held *h, struct machine *m)
{
	uint64_t p = frame_pfn(m, h->f).v;

	for (uint64_t i = p; i < p + (1ULL << h->order); i++) {
		if (owner[i])
			fail_msg("frame %lu given twice", (unsigned long)i);
		owner[i] = 1;
	}
}

static void oracle_give(uint8_t *owner, const struct held *h, struct machine *m)
{
	memset(owner + frame_pfn(m, h->f).v, 0, 1ULL << h->order);
}

/* Every free block as large as alignment and the zone's edges allow. */
static void check_coalesced(struct booted *b)
{
	for (unsigned n = 0; n < b->m->nr_nodes; n++) {
		for (unsigned t = 0; t < NR_ZONES; t++) {
			struct zone *z = zone_at(b, (int)n, (enum zone_type)t);
			uint64_t want = z->deferred_pfn / 1024 - (z->first_pfn + 1023) / 1024;

			if (z->deferred_pfn > z->first_pfn)
				assert_int_equal(z->free_area[MAX_ORDER].nr_free, want);
		}
	}
}

static void random_allocations(uint64_t seed, unsigned steps)
{
	static const unsigned gfps[] = { GFP_KERNEL,
					 GFP_KERNEL | GFP_RECLAIMABLE,
					 GFP_HIGHUSER_MOVABLE,
					 GFP_HIGHUSER_MOVABLE | GFP_COMP,
					 GFP_KERNEL | GFP_COMP,
					 GFP_TRANSHUGE_LIGHT };
	struct held *held = calloc(HELD_MAX, sizeof(*held));
	struct booted b;
	unsigned nr = 0, failed = 0;
	uint8_t *owner;
	struct rng r;
	uint64_t all;

	boot_with(&b, &(struct null_options){ .nr_cpus = 3, .nr_nodes = 2, .node_bytes = 128ULL << 20 }, NULL);
	owner = calloc(b.m->max_pfn, 1);
	all = memory_free_pages(b.q, NID_NONE);
	rng_init(&r, seed, "allocations");
	for (unsigned i = 0; i < steps; i++) {
		struct cpu *c = b.m->cpus[rng_below(&r, 3)];
		/* Phases of growth and shrinking, so that it runs full and empty several times. */
		bool grow = rng_below(&r, 100) < ((i / (steps / 8)) % 2 ? 30 : 70);

		if (grow && nr < HELD_MAX) {
			struct held h = { .order = (unsigned)rng_below(&r, 3)
							   ? (unsigned)rng_below(&r, 4)
							   : (unsigned)rng_below(&r, MAX_ORDER + 1) };

			h.f = take(c, h.order, gfps[rng_below(&r, 6)], (int)rng_below(&r, 3) - 1);
			if (!h.f) {
				failed++;
				continue;
			}
			oracle_take(owner, &h, b.m);
			held[nr++] = h;
		} else if (nr) {
			unsigned j = (unsigned)rng_below(&r, nr);

			oracle_give(owner, &held[j], b.m);
			frame_put(c, held[j].f);
			held[j] = held[--nr];
		}
		if (i % (steps / 40) == 0)
			check_valid(&b);
	}
	assert_true(failed > 0);
	while (nr--)
		frame_put(b.m->cpus[nr % 3], held[nr].f);
	drain_all(&b);
	check_valid(&b);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), all);
	check_coalesced(&b);
	assert_int_equal(counter(&b, VM_pgalloc_dma32), counter(&b, VM_pgfree));
	shut_down(&b);
	free(owner);
	free(held);
}

static void test_random_allocations(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 6; seed++)
		random_allocations(seed, 20000);
}

/* ---- running out ---- */

static void test_exhaustion(void **state)
{
	(void)state;
	for (unsigned order = 0; order <= MAX_ORDER; order++) {
		struct frame **got = calloc(1 << 16, sizeof(*got));
		struct booted b;
		uint64_t all, left;
		unsigned nr = 0;
		struct zone *z;

		boot_small(&b, 128);
		z = zone_at(&b, 0, ZONE_DMA32);
		all = memory_free_pages(b.q, NID_NONE);
		while ((got[nr] = take(b.c, order, order % 2 ? GFP_KERNEL : GFP_HIGHUSER_MOVABLE, NID_NONE)))
			nr++;
		check_valid(&b);
		left = memory_free_pages(b.q, NID_NONE);
		/* Down to min, less what one more block would take; and what is left could not have been given. */
		assert_true(left >= z->watermark[WMARK_MIN]);
		for (unsigned o = order; order && left > z->watermark[WMARK_MIN] + (1ULL << order) && o <= MAX_ORDER;
		     o++)
			assert_int_equal(z->free_area[o].nr_free, 0);
		if (!order)
			assert_true(left <= z->watermark[WMARK_MIN] + 63);
		assert_int_equal(all, left + ((uint64_t)nr << order) + b.q->percpu[0]->pcp[ZONE_DMA32].total);
		while (nr)
			frame_put(b.c, got[--nr]);
		drain_all(&b);
		assert_int_equal(memory_free_pages(b.q, NID_NONE), all);
		check_coalesced(&b);
		shut_down(&b);
		free(got);
	}
}

static void test_injected_failures(void **state)
{
	struct booted b;
	struct inject *in;

	(void)state;
	boot_small(&b, 128);
	assert_int_equal(inject_attach(b.m, 1, &in), 0);
	for (unsigned n = 1; n <= 20; n++) {
		struct frame *got[20];
		unsigned nulls = 0;

		inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, n);
		for (unsigned i = 0; i < 20; i++) {
			got[i] = take(b.c, i % 11, GFP_KERNEL, NID_NONE);
			nulls += !got[i];
			assert_true((i + 1 == n) == !got[i]);
		}
		assert_int_equal(nulls, 1);
		for (unsigned i = 0; i < 20; i++)
			if (got[i])
				frame_put(b.c, got[i]);
		check_valid(&b);
	}
	inject_detach(in);
	assert_null(take(b.c, MAX_ORDER + 1, GFP_KERNEL, NID_NONE));
	shut_down(&b);
}

/* ---- types ---- */

static unsigned pageblocks_of_type(struct booted *b, enum migrate_type mt)
{
	const struct zone *z = zone_at(b, 0, ZONE_DMA32);
	unsigned n = 0;

	for (uint64_t p = ALIGN_UP(z->first_pfn, 512); p < z->deferred_pfn; p += 512)
		n += z->pageblock_mt[(p - z->start_pfn) >> 9] == mt;
	return n;
}

/*
 * The first unmovable frame takes a whole pageblock over; its neighbours then come from there, not from yet another
 * one.
 */
static void test_types_keep_apart(void **state)
{
	struct frame *got[400];
	struct booted b;

	(void)state;
	boot_small(&b, 256);
	for (unsigned i = 0; i < 400; i++)
		got[i] = take(b.c, 0, i % 2 ? GFP_KERNEL : GFP_HIGHUSER_MOVABLE, NID_NONE);
	for (unsigned i = 0; i < 400; i += 2)
		for (unsigned j = 1; j < 400; j += 2)
			assert_true(frame_pfn(b.m, got[i]).v >> PAGEBLOCK_ORDER !=
				    frame_pfn(b.m, got[j]).v >> PAGEBLOCK_ORDER);
	assert_in_range(pageblocks_of_type(&b, MIGRATE_UNMOVABLE), 1, 2);
	for (unsigned i = 0; i < 400; i++)
		frame_put(b.c, got[i]);
	shut_down(&b);
}

/* When only foreign pageblocks have anything left, they give. */
static void test_stealing(void **state)
{
	struct frame **got = calloc(1 << 16, sizeof(*got));
	struct booted b;
	unsigned nr = 0, after = 0;

	(void)state;
	boot_small(&b, 128);
	while ((got[nr] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE)))
		nr++;
	/* Every other frame back: no free pageblock anywhere, all of it movable. */
	for (unsigned i = 0; i < nr; i += 2) {
		frame_put(b.c, got[i]);
		got[i] = NULL;
	}
	pcp_drain(b.c);
	check_valid(&b);
	while (after < nr / 4) {
		struct frame *f = take(b.c, 0, after % 2 ? GFP_KERNEL : GFP_KERNEL | GFP_RECLAIMABLE, NID_NONE);

		assert_non_null(f);
		got[2 * after++] = f;
	}
	check_valid(&b);
	/* Half of each pageblock was free, so those that were robbed have changed hands. */
	assert_true(pageblocks_of_type(&b, MIGRATE_UNMOVABLE) > 0);
	assert_true(pageblocks_of_type(&b, MIGRATE_RECLAIMABLE) > 0);
	for (unsigned i = 0; i < nr; i++)
		if (got[i])
			frame_put(b.c, got[i]);
	drain_all(&b);
	check_coalesced(&b);
	shut_down(&b);
	free(got);
}

#define GUESTS 4000 /* more than what is left to movable pages at the min watermark */

/* Movable pages that find shelter in small holes of unmovable pageblocks don't take these over, however much is free. */
static void test_guests_leave(void **state)
{
	struct frame **got = calloc(1 << 16, sizeof(*got)), *guest[GUESTS];
	struct booted b;
	unsigned nr = 0, unmovable;

	(void)state;
	boot_small(&b, 128);
	while ((got[nr] = take(b.c, 0, GFP_KERNEL, NID_NONE)))
		nr++;
	for (unsigned i = 0; i < nr; i++) {
		if (frame_pfn(b.m, got[i]).v % 4 == 0)
			continue;
		frame_put(b.c, got[i]);
		got[i] = NULL;
	}
	drain_all(&b);
	unmovable = pageblocks_of_type(&b, MIGRATE_UNMOVABLE);
	for (unsigned i = 0; i < GUESTS; i++) {
		guest[i] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
		assert_non_null(guest[i]);
	}
	check_valid(&b);
	assert_int_equal(pageblocks_of_type(&b, MIGRATE_UNMOVABLE), unmovable);
	for (unsigned i = 0; i < GUESTS; i++)
		frame_put(b.c, guest[i]);
	for (unsigned i = 0; i < nr; i++)
		if (got[i])
			frame_put(b.c, got[i]);
	shut_down(&b);
	free(got);
}

/* ---- nodes ---- */

static void test_nodes(void **state)
{
	static const int want[3][3] = { { 0, 1, 2 }, { 1, 0, 2 }, { 2, 0, 1 } };
	struct frame **got = calloc(1 << 18, sizeof(*got));
	struct booted b;
	struct frame *f;
	unsigned nr = 0;

	(void)state;
	boot_with(&b,
		  &(struct null_options){ .nr_cpus = 4, .nr_nodes = 2, .nr_far_nodes = 1, .node_bytes = 128ULL << 20 },
		  NULL);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned j = 0; j < 3; j++)
			assert_int_equal(b.q->nodes[i].fallback[j], want[i][j]);
	f = take(b.m->cpus[3], 0, GFP_KERNEL, NID_NONE);
	assert_int_equal(frame_nid(f), 1);
	assert_int_equal(counter(&b, VM_numa_hit), 1);
	assert_int_equal(counter(&b, VM_numa_local), 1);
	frame_put(b.c, f);
	f = take(b.c, 0, GFP_KERNEL, 2);
	assert_int_equal(frame_nid(f), 2);
	assert_int_equal(counter(&b, VM_numa_hit), 2);
	assert_int_equal(counter(&b, VM_numa_other), 1);
	frame_put(b.c, f);

	while ((got[nr] = take(b.c, 0, GFP_HIGHUSER_MOVABLE | GFP_THISNODE, 1)))
		assert_int_equal(frame_nid(got[nr++]), 1);
	assert_int_equal(counter(&b, VM_numa_miss), 0);
	got[nr] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, 1);
	assert_int_equal(frame_nid(got[nr++]), 0);
	assert_int_equal(counter(&b, VM_numa_miss), 1);
	assert_int_equal(counter(&b, VM_numa_foreign), 1);
	/* Everything, from wherever it comes. */
	while ((got[nr] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, 1)))
		nr++;
	assert_true(memory_free_pages(b.q, 2) <= zone_at(&b, 2, ZONE_DMA32)->watermark[WMARK_MIN]);
	check_valid(&b);
	while (nr)
		frame_put(b.c, got[--nr]);
	shut_down(&b);
	free(got);
}

/* NORMAL is preferred; DMA32 gives only what is beyond its reserve. */
static void test_zone_order(void **state)
{
	struct frame **got = calloc(1 << 13, sizeof(*got));
	struct booted b;
	unsigned nr = 0, low = 0;
	struct zone *z;

	(void)state;
	boot_with(&b, &(struct null_options){ .node_bytes = 6ULL << 30 }, NULL);
	z = zone_at(&b, 0, ZONE_DMA32);
	while ((got[nr] = take(b.c, MAX_ORDER, GFP_HIGHUSER_MOVABLE, NID_NONE))) {
		low += frame_zone(got[nr]) == ZONE_DMA32;
		assert_true(!low || frame_zone(got[nr]) == ZONE_DMA32 ||
			    zone_at(&b, 0, ZONE_NORMAL)->free_pages < 4096);
		nr++;
	}
	assert_true(low > 0);
	assert_true(z->free_pages > z->lowmem_reserve[ZONE_NORMAL] + z->watermark[WMARK_MIN]);
	assert_int_equal(counter(&b, VM_pgalloc_dma32), 1024 * low);
	assert_int_equal(counter(&b, VM_pgalloc_normal), 1024 * (nr - low));
	while (nr)
		frame_put(b.c, got[--nr]);
	shut_down(&b);
	free(got);
}

/* ---- per-CPU lists ---- */

static void test_pcp(void **state)
{
	struct booted b;
	struct pcp_list *p;
	struct frame *got[2000];
	const struct null_counts *n;

	(void)state;
	boot_small(&b, 1024);
	p = &b.q->percpu[0]->pcp[ZONE_DMA32];
	n = null_counts(b.m);
	null_counts_reset(b.m);
	got[0] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	assert_int_equal(p->total, p->batch - 1);
	assert_int_equal(n->locks, 1);
	for (unsigned i = 1; i < p->batch; i++) {
		got[i] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
		/* Fresh memory comes in ascending order. */
		assert_true(got[i] == got[i - 1] + 1);
	}
	assert_int_equal(n->locks, 1);
	for (unsigned i = 0; i < p->batch; i++)
		frame_put(b.c, got[i]);
	assert_int_equal(n->locks, 1);
	/* What was freed last is warm and comes first. */
	assert_ptr_equal(take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE), got[p->batch - 1]);
	frame_put(b.c, got[p->batch - 1]);
	for (unsigned i = 0; i < 2000; i++)
		got[i] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	for (unsigned i = 0; i < 2000; i++) {
		frame_put(b.c, got[i]);
		assert_true(p->total < p->high);
	}
	check_valid(&b);
	pcp_drain(b.c);
	assert_int_equal(p->total, 0);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), zone_at(&b, 0, ZONE_DMA32)->managed);
	shut_down(&b);
}

/* ---- the check itself ---- */

static void test_validate_finds_damage(void **state)
{
	struct booted b;
	struct frame *f, *huge, *free;
	struct zone *z;

	(void)state;
	boot_small(&b, 256);
	z = zone_at(&b, 0, ZONE_DMA32);
	f = take(b.c, 0, GFP_KERNEL, NID_NONE);
	huge = take(b.c, HPAGE_PMD_ORDER, GFP_TRANSHUGE, NID_NONE);
	free = list_first_entry(&z->free_area[MAX_ORDER].list[MIGRATE_MOVABLE], struct frame, lru);
	check_valid(&b);
#define DAMAGE(lvalue, bad)                                                                                            \
	do {                                                                                                           \
		__typeof__(lvalue) good = (lvalue);                                                                    \
		(lvalue) = (bad);                                                                                      \
		assert_int_equal(memory_validate(b.q), -EINVAL);                                                       \
		assert_true(strlen(b.q->err) > 0);                                                                     \
		(lvalue) = good;                                                                                       \
		check_valid(&b);                                                                                       \
	} while (0)
	DAMAGE(f->refcount, 0);
	DAMAGE(f->flags, f->flags | FRAME_BUDDY);
	DAMAGE(f->flags, f->flags | FRAME_PCP);
	DAMAGE(f->flags, f->flags ^ 1ULL << FRAME_NID_SHIFT);
	DAMAGE(huge[7].flags, huge[7].flags & ~FRAME_TAIL);
	DAMAGE(huge[511].tail.head_pfn, 1);
	DAMAGE(huge[9].refcount, 1);
	DAMAGE(free->refcount, 1);
	DAMAGE(free->flags, free->flags ^ 1ULL << FRAME_MT_SHIFT);
	DAMAGE(free->flags, free->flags - (1ULL << FRAME_ORDER_SHIFT));
	DAMAGE(free[5].flags, FRAME_BUDDY);
	DAMAGE(z->free_pages, z->free_pages + 1);
	DAMAGE(z->free_area[MAX_ORDER].nr_free, 3);
	DAMAGE(z->deferred_pfn, z->deferred_pfn - 1);
	DAMAGE(b.q->percpu[0]->pcp[ZONE_DMA32].total, 1);
	DAMAGE(b.q->percpu[0]->pcp[ZONE_DMA32].count[MIGRATE_UNMOVABLE][0], 1);
	DAMAGE(b.m->memmap[z->end_pfn - 1].flags, 1);
#undef DAMAGE
	frame_put(b.c, huge);
	frame_put(b.c, f);
	shut_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_boot_layout),
		cmocka_unit_test(test_descriptor_addresses),
		cmocka_unit_test(test_boot_refuses),
		cmocka_unit_test(test_large_node_is_lazy),
		cmocka_unit_test(test_watermarks),
		cmocka_unit_test(test_pcp_sizes),
		cmocka_unit_test(test_block_state),
		cmocka_unit_test(test_zeroing),
		cmocka_unit_test(test_random_allocations),
		cmocka_unit_test(test_exhaustion),
		cmocka_unit_test(test_injected_failures),
		cmocka_unit_test(test_types_keep_apart),
		cmocka_unit_test(test_stealing),
		cmocka_unit_test(test_guests_leave),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_zone_order),
		cmocka_unit_test(test_pcp),
		cmocka_unit_test(test_validate_finds_damage),
	};

	return test_run(tests);
}
