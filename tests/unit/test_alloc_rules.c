/*
 * The page allocator's rules, each in a scenario or against figures of a Linux computer: falling back to other migrate types,
 * watermarks, boosts and reserves, movable zones, fallback among nodes, per-CPU lists, bulk allocation, fragmentation indices, /proc.
 */
#include "booted.h"

#include "lab/memory_proc.h"
#include "mm/alloc_int.h"
#include "mm/fragment.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct zone *zone_at(struct booted *b, int nid, enum zone_type t)
{
	return &b->q->nodes[nid].zones[t];
}

static void pcp_drain_all(struct booted *b)
{
	for (unsigned i = 0; i < b->m->nr_cpus; i++)
		pcp_drain(b->m->cpus[i]);
}

/* ---- falling back ---- */

static const unsigned gfp_of[NR_MIGRATE_TYPES] = { GFP_KERNEL, GFP_HIGHUSER_MOVABLE, GFP_KERNEL | GFP_RECLAIMABLE };

/* Everything there is, in single frames, so that a scenario may free what it likes. */
struct all {
	struct frame **f;
	unsigned nr;
};

static void take_all(struct booted *b, struct all *a, unsigned gfp)
{
	*a = (struct all){ .f = calloc(1 << 16, sizeof(struct frame *)) };
	for (struct frame *f; (f = take(b->c, 0, gfp, NID_NONE));)
		a->f[a->nr++] = f;
	pcp_drain_all(b);
}

/* Give back those for which keep says no. */
static void give_some(struct booted *b, struct all *a, bool (*keep)(uint64_t pfn_v))
{
	for (unsigned i = 0; i < a->nr; i++) {
		if (!a->f[i] || (keep && keep(frame_pfn(b->m, a->f[i]).v)))
			continue;
		frame_put(b->c, a->f[i]);
		a->f[i] = NULL;
	}
	pcp_drain_all(b);
}

static void give_all(struct booted *b, struct all *a)
{
	give_some(b, a, NULL);
	free(a->f);
}

static uint64_t block_of(struct booted *b, const struct frame *f)
{
	return frame_pfn(b->m, f).v >> PAGEBLOCK_ORDER;
}

static uint64_t the_block; /* the pageblock of a scenario */

static bool keep_three_quarters(uint64_t p)
{
	return p >> PAGEBLOCK_ORDER != the_block || p % 512 >= 128;
}

static bool keep_half(uint64_t p)
{
	return p >> PAGEBLOCK_ORDER != the_block || p % 512 >= 256;
}

static bool keep_all_but_8(uint64_t p)
{
	return p >> PAGEBLOCK_ORDER != the_block || p % 512 >= 8;
}

/*
 * All memory is of type `owner` and in use but for a part of one pageblock; one frame of type mt is then wanted. `movable`: what is in use has the look of user memory.
 */
static void fall_back(enum migrate_type owner, enum migrate_type mt, bool movable, bool (*keep)(uint64_t pfn_v), bool claimed)
{
	struct knobs k;
	struct booted b;
	struct frame *f;
	struct all a;

	knobs_default(&k);
	k.watermark_boost_factor = 0;
	boot_with(&b, &(struct null_options){ .node_bytes = 128ULL << 20 }, &k);
	/* Nothing is left elsewhere. */
	memset(b.q->nodes[0].zones[ZONE_DMA32].watermark, 0, sizeof(b.q->nodes[0].zones[ZONE_DMA32].watermark));
	take_all(&b, &a, gfp_of[owner]);
	the_block = block_of(&b, a.f[a.nr / 2]);
	for (unsigned i = 0; i < a.nr; i++)
		if (movable && a.f[i])
			frame_set(a.f[i], FRAME_ANON);
	for (unsigned i = 0; i < a.nr; i++)
		if (movable && !keep(frame_pfn(b.m, a.f[i]).v))
			frame_clear(a.f[i], FRAME_ANON);
	give_some(&b, &a, keep);
	check_valid(&b);
	f = take(b.c, 0, gfp_of[mt], NID_NONE);
	assert_non_null(f);
	check_valid(&b);
	assert_int_equal(pageblock_type(&b.q->nodes[0].zones[ZONE_DMA32], the_block << PAGEBLOCK_ORDER), claimed ? mt : owner);
	assert_true(counter(&b, claimed ? VM_quire_fallback_claim : VM_quire_fallback_steal) > 0);
	frame_put(b.c, f);
	for (unsigned i = 0; i < a.nr; i++)
		if (a.f[i])
			frame_clear(a.f[i], FRAME_ANON);
	give_all(&b, &a);
	shut_down(&b);
}

static void test_claim_rules(void **state)
{
	(void)state;
	/* Half of the pageblock is free: it changes hands, whoever asks. */
	fall_back(MIGRATE_MOVABLE, MIGRATE_UNMOVABLE, true, keep_half, true);
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_MOVABLE, false, keep_half, true);
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_RECLAIMABLE, false, keep_half, true);
	/* A quarter is free and the rest is user memory: an unmovable request gets a block, not the pageblock. */
	fall_back(MIGRATE_MOVABLE, MIGRATE_UNMOVABLE, true, keep_three_quarters, false);
	/* The rest cannot be moved anyway: it is alike. */
	fall_back(MIGRATE_MOVABLE, MIGRATE_UNMOVABLE, false, keep_three_quarters, true);
	fall_back(MIGRATE_MOVABLE, MIGRATE_RECLAIMABLE, false, keep_three_quarters, true);
	/* Unmovable and reclaimable can't tell each other's frames apart. */
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_RECLAIMABLE, false, keep_three_quarters, false);
	/* A movable request finds its like in a foreign pageblock. */
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_MOVABLE, true, keep_three_quarters, true);
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_MOVABLE, false, keep_three_quarters, false);
	/* It does not claim for less than 64 KiB, whatever the rest is; others do. */
	fall_back(MIGRATE_UNMOVABLE, MIGRATE_MOVABLE, true, keep_all_but_8, false);
	fall_back(MIGRATE_MOVABLE, MIGRATE_UNMOVABLE, false, keep_all_but_8, true);
}

/* Each takes from its closer relative first, and the largest block there is. */
static void test_fallback_order(void **state)
{
	struct booted b;
	struct zone *z;
	struct frame *reclaimable, *f;

	(void)state;
	boot_small(&b, 256);
	z = zone_at(&b, 0, ZONE_DMA32);
	reclaimable = take(b.c, MAX_ORDER, GFP_KERNEL | GFP_RECLAIMABLE, NID_NONE);
	frame_put(b.c, reclaimable);
	assert_int_equal(pageblock_type(z, frame_pfn(b.m, reclaimable).v), MIGRATE_RECLAIMABLE);
	/* Movable blocks abound; an unmovable request still goes to the reclaimable one. */
	f = take(b.c, 0, GFP_KERNEL, NID_NONE);
	assert_int_equal(frame_pfn(b.m, f).v >> MAX_ORDER, frame_pfn(b.m, reclaimable).v >> MAX_ORDER);
	assert_int_equal(counter(&b, VM_quire_fallback_claim), 2);
	assert_int_equal(counter(&b, VM_quire_fallback_steal), 0);
	check_valid(&b);
	frame_put(b.c, f);
	shut_down(&b);
}

/* NORMAL would have to mix types, DMA32 would not: DMA32 gives. */
static void test_types_before_zones(void **state)
{
	struct free_blocks shape = { .nr = { [0] = 30000 } };
	struct list_head held;
	struct booted b;
	struct frame *f;

	(void)state;
	boot_with(&b, &(struct null_options){ .node_bytes = 5ULL << 30 }, NULL);
	assert_int_equal(zone_shape(b.c, zone_at(&b, 0, ZONE_NORMAL), &shape, &held), 0);
	f = take(b.c, 0, GFP_KERNEL, NID_NONE);
	assert_int_equal(frame_zone(f), ZONE_DMA32);
	frame_put(b.c, f);
	f = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	assert_int_equal(frame_zone(f), ZONE_NORMAL);
	frame_put(b.c, f);
	pcp_drain(b.c);
	zone_unshape(b.c, &held);
	shut_down(&b);
}

/* ---- boost ---- */

static void test_boost(void **state)
{
	struct free_blocks shape = { .nr = { [8] = 8, [5] = 100 } };
	struct frame *got[200];
	struct list_head held;
	unsigned nr = 0;
	struct booted b;
	struct zone *z;
	uint64_t most;

	(void)state;
	boot_small(&b, 128);
	z = zone_at(&b, 0, ZONE_DMA32);
	most = MAX(z->watermark[WMARK_HIGH] * 15000 / 10000, 512);
	assert_int_equal(zone_shape(b.c, z, &shape, &held), 0);
	assert_int_equal(z->watermark_boost, 0);
	/* The rest of the pageblocks is unmovable: the first unmovable frame claims one, and the zone is boosted. */
	got[nr++] = take(b.c, 0, GFP_KERNEL, NID_NONE);
	assert_non_null(got[0]);
	assert_int_equal(z->watermark_boost, 512);
	assert_false(zone_watermark_ok(b.c, z, 0, zone_wmark_pages(z, WMARK_LOW), ZONE_NORMAL, 0) &&
		     z->free_pages <= z->watermark[WMARK_LOW] + 512);
	for (unsigned i = 0; i < 10; i++)
		zone_boost(b.c, z);
	assert_int_equal(z->watermark_boost, most);
	/* Nobody finds memory above low + boost; a request that may not wake reclaim fails at min + boost... */
	z->watermark_boost = z->free_pages;
	got[nr] = take(b.c, 4, GFP_HIGHUSER_MOVABLE & ~GFP_KERNEL, NID_NONE);
	assert_null(got[nr]);
	assert_int_equal(z->watermark_boost, z->free_pages);
	/* ... and one that may ends the boost. */
	got[nr] = take(b.c, 4, GFP_HIGHUSER_MOVABLE, NID_NONE);
	assert_non_null(got[nr++]);
	assert_int_equal(z->watermark_boost, 0);
	while (nr)
		frame_put(b.c, got[--nr]);
	pcp_drain(b.c);
	zone_unshape(b.c, &held);
	b.q->knobs.watermark_boost_factor = 0;
	zone_boost(b.c, z);
	assert_int_equal(z->watermark_boost, 0);
	shut_down(&b);
}

/* ---- Linux's figures ---- */

/*
 * Watermarks, reserves and lists of two Linux computers and a made-up one, as zoneinfo showed them (node 1 stands for the DMA zone,
 * which takes part in the shares).
 */
struct known {
	uint64_t min_free_kbytes;
	unsigned scale, cpus;
	uint64_t dma, managed[NR_ZONES];
	uint64_t min[NR_ZONES], low[NR_ZONES], high[NR_ZONES], promo[NR_ZONES];
	uint64_t protect_normal, protect_movable; /* DMA32's of NORMAL, NORMAL's of MOVABLE */
	uint64_t pcp_high[NR_ZONES];
};

static const struct known known[] = {
	/* 6.18, 24 GB seen, 2 CPUs */
	{ .min_free_kbytes = 67584, .scale = 10, .cpus = 2, .dma = 3840, .managed = { 772915, 2850816, 0 },
	  .min = { 3599, 13278, 32 }, .low = { 4498, 16597, 32 }, .high = { 5397, 19916, 32 }, .promo = { 6296, 23235, 32 },
	  .protect_normal = 11136, .protect_movable = 0, .pcp_high = { 2249, 8298 } },
	/* By the formulas on paper: 8 GiB, 10 % steps, 4 CPUs; computed reserve sqrt(16 * 8200000 kB) = 11454 kB = 2863 pages. */
	{ .min_free_kbytes = 0, .scale = 1000, .cpus = 4, .dma = 0, .managed = { 800000, 1250000, 0 },
	  .min = { 1117, 1745, 32 }, .low = { 81117, 126745, 32 }, .high = { 161117, 251745, 32 }, .promo = { 241117, 376745, 32 },
	  .protect_normal = 4882, .protect_movable = 0, .pcp_high = { 20279, 31686 } },
	/* 256 GiB, half of it movable: sqrt(16 * 134217728 kB) = 46340 kB = 11585 pages, all of low memory's. */
	{ .min_free_kbytes = 0, .scale = 10, .cpus = 64, .dma = 0, .managed = { 0, 33554432, 33554432 },
	  .min = { 0, 11585, 128 }, .low = { 0, 45139, 33682 }, .high = { 0, 78693, 67236 }, .promo = { 0, 112247, 100790 },
	  .protect_normal = 0, .protect_movable = 1048576, .pcp_high = { 0, 705, 526 } },
};

static void test_linux_figures(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		const struct known *k = &known[i];
		struct machine m = { .nr_nodes = 2, .nodes = { [0] = { .nr_cpus = k->cpus } }, .nr_cpus = k->cpus };
		struct node nodes[2] = { 0 };
		struct quire *q = calloc(1, sizeof(*q));

		q->m = &m;
		q->nodes = nodes;
		knobs_default(&q->knobs);
		q->knobs.min_free_kbytes = k->min_free_kbytes;
		q->knobs.watermark_scale_factor = k->scale;
		nodes[1].zones[ZONE_DMA32].managed = k->dma;
		for (unsigned t = 0; t < ZONE_DEVICE; t++)
			nodes[0].zones[t].managed = k->managed[t];
		zone_setup_watermarks(q);
		for (unsigned t = 0; t < ZONE_DEVICE; t++) {
			const struct zone *z = &nodes[0].zones[t];
			uint32_t batch = pcp_batch(z->managed);

			assert_int_equal(z->watermark[WMARK_MIN], k->min[t]);
			assert_int_equal(z->watermark[WMARK_LOW], k->low[t]);
			assert_int_equal(z->watermark[WMARK_HIGH], k->high[t]);
			assert_int_equal(z->watermark[WMARK_PROMO], k->promo[t]);
			if (!z->managed)
				continue;
			assert_int_equal(batch, 63);
			assert_int_equal(pcp_high(q, z, batch), k->pcp_high[t]);
		}
		assert_int_equal(nodes[0].zones[ZONE_DMA32].lowmem_reserve[ZONE_NORMAL], k->protect_normal);
		assert_int_equal(nodes[0].zones[ZONE_NORMAL].lowmem_reserve[ZONE_MOVABLE], k->protect_movable);
		free(q);
	}
}

/* This computer's zones by the same formulas on the same map, where it may be read and has not been resized since its boot. */
static void test_this_computer(void **state)
{
	static const char *const names[] = { "DMA32", "Normal" };
	unsigned long kb = 0, scale = 0, fraction = 1, boost = 0;
	struct machine m = { .nr_nodes = 2, .nr_cpus = 1 };
	struct node nodes[2] = { 0 };
	uint64_t shown[3][3] = { { 0 } }; /* DMA32, Normal, DMA: min, low, managed */
	struct quire *q;
	char line[256], zone[32] = "";
	int node = 0, at = -1;
	FILE *f;

	(void)state;
	f = fopen("/proc/sys/vm/min_free_kbytes", "r");
	if (!f || fscanf(f, "%lu", &kb) != 1)
		skip();
	fclose(f);
	f = fopen("/proc/sys/vm/watermark_scale_factor", "r");
	if (!f || fscanf(f, "%lu", &scale) != 1)
		skip();
	fclose(f);
	f = fopen("/proc/zoneinfo", "r");
	if (!f)
		skip();
	while (fgets(line, sizeof(line), f)) {
		unsigned long v;

		if (sscanf(line, "Node %d, zone %31s", &node, zone) == 2)
			at = node ? -1 : !strcmp(zone, "DMA") ? 2 : !strcmp(zone, names[0]) ? 0 : !strcmp(zone, names[1]) ? 1 : -1;
		if (node)
			fraction = 0; /* several nodes: a share of all of them */
		if (at < 0)
			continue;
		if (sscanf(line, " boost %lu", &v) == 1)
			boost = v;
		if (sscanf(line, " min %lu", &v) == 1)
			shown[at][0] = v - boost;
		if (sscanf(line, " low %lu", &v) == 1)
			shown[at][1] = v - boost;
		if (sscanf(line, " managed %lu", &v) == 1)
			shown[at][2] = v;
	}
	fclose(f);
	if (!fraction || !shown[1][2])
		skip();
	q = calloc(1, sizeof(*q));
	q->m = &m;
	q->nodes = nodes;
	knobs_default(&q->knobs);
	q->knobs.min_free_kbytes = kb;
	q->knobs.watermark_scale_factor = (uint32_t)scale;
	for (unsigned t = 0; t < 2; t++)
		nodes[0].zones[t].managed = shown[t][2];
	nodes[1].zones[ZONE_DMA32].managed = shown[2][2];
	zone_setup_watermarks(q);
	for (unsigned t = 0; t < 2; t++) {
		const struct zone *z = &nodes[0].zones[t];
		int64_t off = (int64_t)z->watermark[WMARK_MIN] - (int64_t)shown[t][0];

		/* A balloon moves what is managed, and not the marks. */
		if (off > 64 || off < -64)
			break;
		assert_int_equal(z->watermark[WMARK_MIN], shown[t][0]);
		assert_int_equal(z->watermark[WMARK_LOW], shown[t][1]);
	}
	free(q);
}

/* ---- zones and nodes ---- */

static void test_movable_zone(void **state)
{
	struct knobs k;
	struct booted b;
	struct frame *f;
	uint64_t gib = 1ULL << (30 - PAGE_SHIFT);

	(void)state;
	knobs_default(&k);
	k.movablecore = 4ULL << 30;
	/* 16 GiB on two nodes: 12 GiB are the kernel's, of which node 0 has 4 below NORMAL; the rest is shared evenly. */
	boot_with(&b, &(struct null_options){ .nr_cpus = 2, .nr_nodes = 2, .node_bytes = 8ULL << 30 }, &k);
	assert_int_equal(zone_at(&b, 0, ZONE_MOVABLE)->start_pfn, 8 * gib);
	assert_int_equal(zone_at(&b, 1, ZONE_MOVABLE)->start_pfn, 12 * gib);
	assert_int_equal(zone_at(&b, 1, ZONE_NORMAL)->end_pfn, 12 * gib);
	assert_int_equal(zone_at(&b, 1, ZONE_MOVABLE)->managed, 4 * gib);
	f = take(b.m->cpus[1], 0, GFP_HIGHUSER_MOVABLE, 1);
	assert_int_equal(frame_zone(f), ZONE_MOVABLE);
	assert_int_equal(counter(&b, VM_pgalloc_movable), 1);
	frame_put(b.m->cpus[1], f);
	f = take(b.m->cpus[1], 0, GFP_KERNEL, 1);
	assert_int_equal(frame_zone(f), ZONE_NORMAL);
	frame_put(b.m->cpus[1], f);
	assert_int_equal(zone_at(&b, 1, ZONE_NORMAL)->lowmem_reserve[ZONE_MOVABLE], 4 * gib / 32);
	shut_down(&b);

	knobs_default(&k);
	k.kernelcore = 256ULL << 20;
	boot_with(&b, &(struct null_options){ .nr_cpus = 1, .node_bytes = 1ULL << 30 }, &k);
	assert_int_equal(zone_at(&b, 0, ZONE_MOVABLE)->start_pfn, gib / 4);
	assert_int_equal(zone_at(&b, 0, ZONE_DMA32)->end_pfn, gib / 4);
	/* The kernel's part runs out; what can be moved still finds memory. */
	while ((f = take(b.c, MAX_ORDER, GFP_KERNEL, NID_NONE))) {
		assert_int_equal(frame_zone(f), ZONE_DMA32);
		list_add(&f->lru, &b.q->files); /* kept somewhere */
	}
	f = take(b.c, MAX_ORDER, GFP_HIGHUSER_MOVABLE, NID_NONE);
	assert_int_equal(frame_zone(f), ZONE_MOVABLE);
	frame_put(b.c, f);
	while (!list_empty(&b.q->files)) {
		f = list_first_entry(&b.q->files, struct frame, lru);
		list_del(&f->lru);
		frame_put(b.c, f);
	}
	shut_down(&b);
}

/* Equal neighbours: each node overflows first to another one. */
static void test_fallback_among_equals(void **state)
{
	static const int want[4][4] = { { 0, 1, 2, 3 }, { 1, 2, 3, 0 }, { 2, 3, 0, 1 }, { 3, 0, 1, 2 } };
	struct booted b;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 4, .nr_nodes = 4, .node_bytes = 128ULL << 20 }, NULL);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(b.q->nodes[i].nr_fallback, 4);
		for (unsigned j = 0; j < 2; j++)
			assert_int_equal(b.q->nodes[i].fallback[j], want[i][j]);
	}
	shut_down(&b);
}

/* ---- per-CPU lists, bulk ---- */

static void test_pcp_orders(void **state)
{
	struct booted b;
	const struct null_counts *n;

	(void)state;
	boot_small(&b, 1024);
	n = null_counts(b.m);
	for (unsigned order = 0; order <= MAX_ORDER; order++) {
		struct pcp_list *p = &b.q->percpu[0]->pcp[ZONE_DMA32];
		bool kept = order <= 3 || order == 9;
		struct frame *f;

		pcp_drain(b.c);
		null_counts_reset(b.m);
		f = take(b.c, order, GFP_HIGHUSER_MOVABLE, NID_NONE);
		assert_int_equal(n->locks, 1);
		if (kept)
			assert_int_equal(p->total, (MAX(63U >> order, 2U) - (order ? 1 : 0) - (order ? 0 : 1)) << order);
		frame_put(b.c, f);
		assert_int_equal(n->locks, kept ? 1 : 2);
		check_valid(&b);
	}
	shut_down(&b);
}

/* Lists grow with use and meet the lock ever less often; they shrink when the zone is low; with the fraction set they do neither. */
static void test_pcp_adapts(void **state)
{
	struct frame **f = calloc(1 << 18, sizeof(*f));
	const struct null_counts *n;
	struct pcp_list *p;
	struct booted b;
	uint64_t grown;
	unsigned nr = 0;
	struct knobs k;

	(void)state;
	boot_small(&b, 1024);
	n = null_counts(b.m);
	p = &b.q->percpu[0]->pcp[ZONE_DMA32];
	null_counts_reset(b.m);
	/* 63, 126, ... 1008, then 2016 at once: 6 refills make 3969. */
	while (nr < 3969)
		assert_non_null((f[nr++] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE)));
	assert_int_equal(n->locks, 6);
	assert_int_equal(p->total, 0);
	grown = p->high;
	assert_true(grown > p->high_min && grown <= p->high_max);
	/* What was taken comes back without the lock; the burst of frees then lets the rest through a few times. */
	null_counts_reset(b.m);
	while (nr)
		frame_put(b.c, f[--nr]);
	assert_true(n->locks <= 4);
	check_valid(&b);
	assert_true(p->total <= p->high_max);
	/* Memory runs out: what is freed goes back at once, down to high_min. */
	while ((f[nr] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE)))
		nr++;
	assert_true(zone_at(&b, 0, ZONE_DMA32)->below_high);
	for (unsigned i = 0; i < 2000; i++)
		frame_put(b.c, f[--nr]);
	assert_int_equal(p->high, p->high_min);
	assert_true(p->total <= p->high_min);
	while (nr)
		frame_put(b.c, f[--nr]);
	assert_false(zone_at(&b, 0, ZONE_DMA32)->below_high);
	shut_down(&b);
	knobs_default(&k);
	k.percpu_pagelist_high_fraction = 64;
	boot_with(&b, &(struct null_options){ .node_bytes = 512ULL << 20 }, &k);
	p = &b.q->percpu[0]->pcp[ZONE_DMA32];
	grown = p->high;
	while (nr < 8000)
		assert_non_null((f[nr++] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE)));
	while (nr)
		frame_put(b.c, f[--nr]);
	assert_int_equal(p->high, grown);
	assert_true(p->total < grown);
	shut_down(&b);
	free(f);
}

static void set_type(struct booted *b, uint64_t p, enum migrate_type mt)
{
	*pageblock_of(zone_at(b, 0, ZONE_DMA32), p) = (uint8_t)mt;
}

/*
 * Two huge pages side by side whose pageblocks are of different types: one block of the largest order, all of one type, by whichever way
 * they come back. Those of one type go back as a pair.
 */
static void test_merge_types(void **state)
{
	struct booted b;
	struct zone *z;

	(void)state;
	boot_small(&b, 128);
	z = zone_at(&b, 0, ZONE_DMA32);
	for (unsigned way = 0; way < 8; way++) {
		enum migrate_type low = way & 1 ? MIGRATE_RECLAIMABLE : MIGRATE_MOVABLE, high = way & 2 ? MIGRATE_UNMOVABLE : MIGRATE_MOVABLE;
		struct frame *f = take(b.c, MAX_ORDER, GFP_HIGHUSER_MOVABLE, NID_NONE), *half[2];
		uint64_t p, blocks;

		assert_non_null(f);
		p = frame_pfn(b.m, f).v;
		f->refcount = 0;
		frame_unprep(b.c, f, MAX_ORDER);
		set_type(&b, p, low);
		set_type(&b, p + PAGEBLOCK_FRAMES, high);
		for (unsigned i = 0; i < 2; i++)
			frame_prep(b.c, half[i] = f + i * PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, true);
		blocks = z->free_area[MAX_ORDER].nr_free;
		frame_put(b.c, half[way >> 2]);
		check_valid(&b);
		frame_put(b.c, half[!(way >> 2)]);
		pcp_drain(b.c);
		check_valid(&b);
		assert_int_equal(z->free_area[MAX_ORDER].nr_free, blocks + 1);
		assert_int_equal(pageblock_type(z, p), pageblock_type(z, p + PAGEBLOCK_FRAMES));
		assert_true(pageblock_type(z, p) == low || pageblock_type(z, p) == high);
	}
	shut_down(&b);
}

static void test_bulk(void **state)
{
	const struct alloc_req r = { .gfp = GFP_HIGHUSER_MOVABLE, .nid = NID_NONE };
	struct frame *got[500], **many = calloc(1 << 16, sizeof(*many));
	struct inject *in;
	struct booted b;
	unsigned n, total = 0;

	(void)state;
	boot_small(&b, 128);
	n = page_alloc_bulk(b.c, &r, 500, got);
	assert_int_equal(n, 500);
	assert_int_equal(counter(&b, VM_pgalloc_dma32), 500);
	assert_int_equal(counter(&b, VM_numa_hit), 500);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(got[i]->refcount, 1);
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(got[i], got[j]);
	}
	check_valid(&b);
	/* Down to the low watermark, no further but for what the CPU's list took at once; then nothing at once. */
	while ((n = page_alloc_bulk(b.c, &r, 100, many + total)))
		total += n;
	assert_true(memory_free_pages(b.q, NID_NONE) + b.q->percpu[0]->pcp[ZONE_DMA32].total >= zone_at(&b, 0, ZONE_DMA32)->watermark[WMARK_LOW]);
	assert_true(memory_free_pages(b.q, NID_NONE) <= zone_at(&b, 0, ZONE_DMA32)->watermark[WMARK_LOW] + 100);
	assert_non_null((many[total++] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE)));
	while (total)
		frame_put(b.c, many[--total]);
	assert_int_equal(inject_attach(b.m, 1, &in), 0);
	inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, 1);
	assert_int_equal(page_alloc_bulk(b.c, &r, 10, many), 0);
	inject_detach(in);
	for (unsigned i = 0; i < 500; i++)
		frame_put(b.c, got[i]);
	shut_down(&b);
	free(many);
}

/* ---- fragmentation ---- */

static void load(struct booted *b, enum zone_type t, const struct free_blocks *want, struct list_head *held)
{
	struct free_blocks is;

	assert_int_equal(zone_shape(b->c, zone_at(b, 0, t), want, held), 0);
	check_valid(b);
	free_blocks_count(zone_at(b, 0, t), NR_MIGRATE_TYPES, &is);
	assert_memory_equal(&is, want, sizeof(is));
}

/* The free lists of a busy computer that had no huge page left: a fault finds none, though a fifth of the memory below 4 GiB is free. */
static void test_fragmented(void **state)
{
	static const struct free_blocks dma32 = { .nr = { 8133, 6637, 1801, 1627, 2370, 1518, 571, 204, 16 } },
					normal = { .nr = { 1696, 4035, 2173, 641, 98, 9 } };
	struct list_head held[2];
	struct booted b;
	char *text = NULL;
	size_t len;
	FILE *f;

	(void)state;
	boot_with(&b, &(struct null_options){ .node_bytes = 6ULL << 30 }, NULL);
	load(&b, ZONE_DMA32, &dma32, &held[0]);
	load(&b, ZONE_NORMAL, &normal, &held[1]);
	assert_int_equal(zone_at(&b, 0, ZONE_DMA32)->free_pages, 194875);
	assert_int_equal(zone_at(&b, 0, ZONE_NORMAL)->free_pages, 25442);
	assert_int_equal(unusable_index(&dma32, 9), 1000);
	assert_int_equal(unusable_index(&normal, 9), 1000);
	assert_int_equal(unusable_index(&dma32, 0), 0);
	assert_int_equal(unusable_index(&dma32, 8), 1000 * (194875 - 16 * 256) / 194875);
	assert_int_equal(extfrag_index(&dma32, 8), -1000);
	assert_true(extfrag_index(&dma32, 9) > 900);
	f = open_memstream(&text, &len);
	memory_proc_print(f, b.q, PROC_BUDDYINFO);
	memory_proc_print(f, b.q, PROC_UNUSABLE_INDEX);
	fclose(f);
	assert_string_equal(text,
			    "Node 0, zone    DMA32   8133   6637   1801   1627   2370   1518    571    204     16      0      0 \n"
			    "Node 0, zone   Normal   1696   4035   2173    641     98      9      0      0      0      0      0 \n"
			    "Node 0, zone    DMA32 0.000 0.041 0.109 0.146 0.213 0.408 0.657 0.844 0.978 1.000 1.000 \n"
			    "Node 0, zone   Normal 0.000 0.066 0.383 0.725 0.927 0.988 1.000 1.000 1.000 1.000 1.000 \n");
	free(text);
	assert_null(take(b.c, HPAGE_PMD_ORDER, GFP_TRANSHUGE_LIGHT, NID_NONE));
	zone_unshape(b.c, &held[0]);
	zone_unshape(b.c, &held[1]);
	shut_down(&b);
}

static void test_shape_refuses(void **state)
{
	static const struct free_blocks too_much = { .nr = { [0] = 20000 } };
	struct list_head held;
	uint64_t free;
	struct booted b;

	(void)state;
	boot_small(&b, 128);
	free = memory_free_pages(b.q, NID_NONE);
	assert_int_equal(zone_shape(b.c, zone_at(&b, 0, ZONE_DMA32), &too_much, &held), -ENOSPC);
	assert_int_equal(memory_free_pages(b.q, NID_NONE), free);
	assert_true(list_empty(&held));
	shut_down(&b);
}

static void test_indices(void **state)
{
	struct free_blocks none = { 0 }, one = { .nr = { [10] = 1 } }, few = { .nr = { [0] = 2 } }, many = { .nr = { [0] = 4000 } };

	(void)state;
	assert_int_equal(unusable_index(&none, 3), 1000);
	assert_int_equal(extfrag_index(&none, 3), 0);
	assert_int_equal(unusable_index(&one, 10), 0);
	assert_int_equal(extfrag_index(&one, 10), -1000);
	/* Two frames won't make 4 MiB: lack of memory. Four thousand would, were they together. */
	assert_int_equal(extfrag_index(&few, 10), 1000 - (1000 + 2 * 1000 / 1024) / 2);
	assert_int_equal(extfrag_index(&many, 10), 1000 - (1000 + 4000 * 1000 / 1024) / 4000);
}

/* ---- /proc ---- */

static void test_proc(void **state)
{
	struct frame *f[2];
	struct booted b;
	char *text = NULL, want[300], err[200];
	struct zone *z;
	unsigned mask;
	size_t len;
	FILE *out;

	(void)state;
	boot_with(&b, &(struct null_options){ .nr_cpus = 1, .node_bytes = 1ULL << 30 }, NULL);
	z = zone_at(&b, 0, ZONE_DMA32);
	f[0] = take(b.c, 9, GFP_KERNEL, NID_NONE);
	f[1] = take(b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE);
	out = open_memstream(&text, &len);
	memory_proc_print(out, b.q, PROC_ZONEINFO);
	memory_proc_print(out, b.q, PROC_PAGETYPEINFO);
	memory_proc_print(out, b.q, PROC_EXTFRAG_INDEX);
	fclose(out);
	snprintf(want, sizeof(want),
		 "Node 0, zone    DMA32\n  pages free     %lu\n        boost    0\n        min      %lu\n        low      %lu\n"
		 "        high     %lu\n        promo    %lu\n        spanned  262144\n        present  262144\n        managed  %lu\n"
		 "        cma      0\n        protection: (0, 0, 0, 0)\n",
		 z->free_pages, z->watermark[0], z->watermark[1], z->watermark[2], z->watermark[3], z->managed);
	assert_memory_equal(text, want, strlen(want));
	assert_non_null(strstr(text, "              batch:    63\n"));
	assert_non_null(strstr(text, "Node 0, zone   Device\n  pages free     0\n"));
	/* 2 + 2 huge pages were taken by the per-CPU lists' refill from one 4 MiB block; 63 frames are gone from another. */
	assert_non_null(strstr(text, "Node    0, zone    DMA32, type    Unmovable      0      0"));
	assert_non_null(strstr(text, "Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate \n"
				     "Node 0, zone    DMA32            2          510            0            0            0 \n"));
	assert_non_null(strstr(text, "Node 0, zone    DMA32 -1.000 -1.000"));
	free(text);
	assert_int_equal(memory_proc_parse("zoneinfo,buddyinfo", &mask, err, sizeof(err)), 0);
	assert_int_equal(mask, 1U << PROC_ZONEINFO | 1U << PROC_BUDDYINFO);
	assert_int_equal(memory_proc_parse("zoneinfo,", &mask, err, sizeof(err)), -EINVAL);
	assert_int_equal(memory_proc_parse("zone", &mask, err, sizeof(err)), -EINVAL);
	frame_put(b.c, f[0]);
	frame_put(b.c, f[1]);
	shut_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_claim_rules),
		cmocka_unit_test(test_fallback_order),
		cmocka_unit_test(test_types_before_zones),
		cmocka_unit_test(test_boost),
		cmocka_unit_test(test_linux_figures),
		cmocka_unit_test(test_this_computer),
		cmocka_unit_test(test_movable_zone),
		cmocka_unit_test(test_fallback_among_equals),
		cmocka_unit_test(test_pcp_orders),
		cmocka_unit_test(test_pcp_adapts),
		cmocka_unit_test(test_merge_types),
		cmocka_unit_test(test_bulk),
		cmocka_unit_test(test_fragmented),
		cmocka_unit_test(test_shape_refuses),
		cmocka_unit_test(test_indices),
		cmocka_unit_test(test_proc),
	};

	return test_run(tests);
}
