/*
 * Boot-time descriptors: the list of ranges against a bit map, and mechanism 1's 'what a test must show', 1 to 4, on random maps. Races of
 * growers, workers and hot-plug on threads are in test_meminit_threads. QUIRE_SEED repeats a run.
 */
#include "testing.h"

#include "base/rng.h"
#include "machine/null.h"
#include "mm/meminit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 3, SECTIONS = 6, MAPS = 27, RANGES = 64 };
#define FRAMES (SECTIONS * SECTION_FRAMES)
#define NR_STEPS (MEMMAP_STREAMED + 1)

struct map {
	struct memblock mb;
	struct memblock_region memory[RANGES], reserved[RANGES];
	uint64_t movable[NODES];
};

struct world {
	struct machine *m;
	struct meminit mi;
	struct meminit_node node[NODES];
	struct meminit_worker w;
	uint8_t section[SECTIONS];
};

static uint64_t seed(void)
{
	const char *s = getenv("QUIRE_SEED");

	return s ? strtoull(s, NULL, 0) : 1;
}

static void map_init(struct map *mp)
{
	*mp = (struct map){ 0 };
	mp->mb.memory = (struct memblock_list){ mp->memory, 0, RANGES };
	mp->mb.reserved = (struct memblock_list){ mp->reserved, 0, RANGES };
}

/* Nodes that interleave, holes, reserved ranges; limits in the middle of pageblocks and of the largest blocks, but between nodes. */
static void map_random(struct map *mp, struct rng *r)
{
	int nid = 0;

	map_init(mp);
	for (uint64_t p = rng_below(r, 3000); p < FRAMES;) {
		uint64_t n = 1 + rng_below(r, 1 + rng_below(r, 40000)), end = MIN(p + n, FRAMES);

		assert_int_equal(memblock_add(&mp->mb.memory, p, end, nid), 0);
		p = end + rng_below(r, 1 + rng_below(r, 9000));
		if (!rng_below(r, 3)) {
			nid = (int)rng_below(r, NODES);
			p = ALIGN_UP(MAX(p, end), MAX_ORDER_FRAMES);
		}
	}
	for (unsigned i = 0; i < 20; i++) {
		uint64_t s = rng_below(r, FRAMES), n = 1 + rng_below(r, rng_below(r, 4) ? 40 : 6000);

		assert_int_equal(memblock_add(&mp->mb.reserved, s, MIN(s + n, FRAMES), NID_NONE), 0);
	}
	mp->mb.dma32_end = rng_below(r, 2) ? rng_below(r, FRAMES / MAX_ORDER_FRAMES / 2) * MAX_ORDER_FRAMES : 0;
	if (rng_below(r, 2)) {
		mp->mb.movable_start = mp->movable;
		for (unsigned i = 0; i < NODES; i++)
			mp->movable[i] = rng_below(r, 2) ? rng_below(r, FRAMES / MAX_ORDER_FRAMES) * MAX_ORDER_FRAMES : 0;
	}
}

static void world_open(struct world *x, struct map *mp, uint32_t step, struct frame *desc)
{
	const struct null_options no = { .nr_cpus = 1, .node_bytes = 128ULL << 20 };
	char err[200];

	*x = (struct world){ 0 };
	assert_int_equal(null_create(&no, &x->m, err, sizeof(err)), 0);
	x->mi = (struct meminit){ .m = x->m, .mb = &mp->mb, .nr_nodes = NODES, .node = x->node, .section = x->section, .step = step,
				  .find_poison = true };
	memset(desc, 0xff, FRAMES * sizeof(*desc));
	assert_int_equal(meminit_setup(&x->mi), 0);
	x->w = (struct meminit_worker){ .mi = &x->mi, .c = x->m->cpus[0], .desc = desc, .mask = ~0ULL };
	x->w.c->uncharged = true; /* addresses of descriptors are none of the null machine's */
}

static void world_close(struct world *x)
{
	null_destroy(x->m);
}

static void boot_all(struct world *x)
{
	for (int nid = 0; nid < NODES; nid++) {
		int r;

		meminit_early(&x->w, nid);
		if (!meminit_begin(&x->w, nid))
			continue;
		while ((r = meminit_piece(&x->w, nid)) != 0)
			assert_int_equal(r, 1); /* alone, nobody is waited for */
		assert_true(meminit_done(&x->mi, nid));
	}
}

/* ---- the oracle: what each descriptor must be, said frame by frame ---- */

struct want {
	bool touched, free, reserved;
	int nid;
	unsigned zone;
};

/* By frame: the node plus 1 that its memory is on, else 0; and whether it is reserved. Painted range by range. */
struct paint {
	uint8_t node[FRAMES], reserved[FRAMES];
};

static struct paint *paint_new(const struct map *mp)
{
	struct paint *pt = calloc(1, sizeof(*pt));

	assert_non_null(pt);
	for (unsigned i = 0; i < mp->mb.memory.nr; i++)
		memset(pt->node + mp->memory[i].start, mp->memory[i].nid + 1, mp->memory[i].end - mp->memory[i].start);
	for (unsigned i = 0; i < mp->mb.reserved.nr; i++)
		memset(pt->reserved + mp->reserved[i].start, 1, mp->reserved[i].end - mp->reserved[i].start);
	return pt;
}

static struct want want_of(const struct map *mp, const struct paint *pt, uint64_t p)
{
	uint64_t block = ALIGN_DOWN(p, MAX_ORDER_FRAMES);
	uint8_t node = pt->node[p];
	struct want w = { .free = node && !pt->reserved[p] };

	for (uint64_t q = p; !node && q-- > block;) /* an absent frame is the range's before it, or else behind it */
		node = pt->node[q];
	for (uint64_t q = p + 1; !node && q < block + MAX_ORDER_FRAMES; q++)
		node = pt->node[q];
	w.touched = node != 0;
	w.nid = node ? node - 1 : 0;
	w.reserved = w.touched && !w.free;
	w.zone = p < mp->mb.dma32_end ? ZONE_DMA32 :
		 mp->mb.movable_start && mp->movable[w.nid] && p >= mp->movable[w.nid] ? ZONE_MOVABLE : ZONE_NORMAL;
	return w;
}

/* One descriptor, byte for byte; on a free list its link and the block's flags are looked at by check_lists. */
static void check_desc(const struct frame *f, const struct want *w, bool on_list)
{
	struct frame ref;

	memset(&ref, w->touched ? 0 : 0xff, sizeof(ref));
	if (w->touched) {
		ref.flags = ((uint64_t)w->zone << FRAME_ZONE_SHIFT) | ((uint64_t)w->nid << FRAME_NID_SHIFT);
		ref.flags |= w->reserved ? FRAME_RESERVED : 0;
		ref.mapcount = -1;
		ref.refcount = w->reserved ? 1 : 0;
		ref.lru.next = ref.lru.prev = (struct list_head *)(uintptr_t)&f->lru;
	}
	if (on_list) {
		ref.flags = f->flags;
		ref.lru = f->lru;
	}
	if (memcmp(f, &ref, sizeof(ref)))
		assert_memory_equal(f, &ref, sizeof(ref));
}

/* Blocks on lists cover `on` once each: 1 inside, 2 for the first frame. */
static uint64_t check_lists(struct world *x, uint8_t *on)
{
	uint64_t all = 0;

	memset(on, 0, FRAMES);
	for (unsigned n = 0; n < NODES; n++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			for (unsigned o = 0; o <= MAX_ORDER; o++) {
				struct meminit_zone *z = &x->node[n].zone[t];
				const struct frame *f;
				uint64_t nr = 0;

				list_for_each_entry(f, &z->free[o], lru) {
					uint64_t p = (uint64_t)(f - x->w.desc);

					nr++;
					assert_true(IS_ALIGNED(p, 1ULL << o));
					assert_int_equal(f->flags, meminit_place(t, (int)n) | FRAME_BUDDY | ((uint64_t)o << FRAME_ORDER_SHIFT) |
									   ((uint64_t)MIGRATE_MOVABLE << FRAME_MT_SHIFT));
					if (o < MAX_ORDER) /* merged as far as it goes */
						assert_false((x->w.desc[p ^ (1ULL << o)].flags & FRAME_BUDDY) &&
							     frame_order(&x->w.desc[p ^ (1ULL << o)]) == o &&
							     x->w.desc[p ^ (1ULL << o)].flags != MEMINIT_POISON);
					for (uint64_t i = 0; i < 1ULL << o; i++) {
						if (on[p + i])
							fail_msg("frame %lu is on two lists", (unsigned long)(p + i));
						on[p + i] = i ? 1 : 2;
					}
					all += 1ULL << o;
				}
				assert_int_equal(nr, z->nr_free[o]);
			}
	return all;
}

static void check_world(struct world *x, const struct map *mp, uint8_t *on)
{
	uint64_t listed = check_lists(x, on), want_free = 0;
	struct paint *pt = paint_new(mp);
	struct memblock_iter it = { 0 };
	uint64_t lo = 0, s, e;

	while (memblock_next_free(&mp->mb, &it, NID_NONE, lo, FRAMES, &s, &e)) {
		want_free += e - s;
		lo = e;
	}
	assert_int_equal(listed, want_free);
	for (uint64_t p = 0; p < FRAMES; p++) {
		struct want w = want_of(mp, pt, p);

		if (w.free != (on[p] != 0))
			fail_msg("frame %lu: free %d, on a list %d", (unsigned long)p, w.free, on[p]);
		check_desc(&x->w.desc[p], &w, on[p] == 2);
	}
	assert_int_equal(x->mi.poison_read, 0);
	free(pt);
}

static struct frame *new_desc(void)
{
	struct frame *d = aligned_alloc(4096, FRAMES * sizeof(*d));

	assert_non_null(d);
	return d;
}

/* ---- tests ---- */

/* Ranges against a map of bytes: node plus 1, or 0. */
static void test_memblock_as_a_byte_map(void **state)
{
	enum { N = 300 };
	struct rng r;
	struct map mp;
	uint8_t bytes[N];

	(void)state;
	rng_init(&r, seed(), "memblock");
	for (unsigned round = 0; round < 400; round++) {
		map_init(&mp);
		mp.mb.memory.max = 1 + (unsigned)rng_below(&r, 12);
		memset(bytes, 0, sizeof(bytes));
		for (unsigned op = 0; op < 40; op++) {
			uint64_t s = rng_below(&r, N), e = s + rng_below(&r, N - s + 1);
			bool add = rng_below(&r, 3) != 0;
			int nid = (int)rng_below(&r, 3), rc;

			rc = add ? memblock_add(&mp.mb.memory, s, e, nid) : memblock_remove(&mp.mb.memory, s, e);
			if (s == e) {
				assert_int_equal(rc, -EINVAL);
				continue;
			}
			if (rc)
				assert_int_equal(rc, -ENOMEM);
			for (uint64_t p = s; p < e && !rc; p++)
				bytes[p] = add ? (bytes[p] ? bytes[p] : (uint8_t)(nid + 1)) : 0;
			assert_int_equal(memblock_validate(&mp.mb.memory, false), 0);
			for (uint64_t p = 0; p < N; p++) {
				const struct memblock_region *m = memblock_find(&mp.mb.memory, p);

				assert_int_equal(m ? m->nid + 1 : 0, bytes[p]);
			}
		}
	}
}

/* 1. memset and word stores, byte for byte, for the four sizes; and for one descriptor in all combinations of place. */
static void test_1_sizes_and_fields(void **state)
{
	static const size_t sizes[] = { 56, 64, 72, 80 };
	uint8_t a[96], b[96];
	struct frame f, g;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(a, 0xa5, sizeof(a));
		memset(b, 0xa5, sizeof(b));
		memset(a, 0, sizes[i]);
		assert_true(meminit_zero_sized(b, sizes[i]));
		assert_memory_equal(a, b, sizeof(a));
	}
	assert_false(meminit_zero_sized(b, 60));
	assert_false(meminit_zero_sized(b, 88));
	for (unsigned zone = 0; zone < NR_ZONES; zone++)
		for (int nid = 0; nid < 256; nid += 51)
			for (int res = 0; res < 2; res++) {
				uint64_t flags = meminit_place(zone, nid) | (res ? FRAME_RESERVED : 0);

				memset(&f, 0x5a, sizeof(f));
				memset(&g, 0xa5, sizeof(g));
				meminit_one_memset(&f, flags);
				meminit_one_words(&g, flags);
				assert_ptr_equal(f.lru.next, &f.lru);
				assert_ptr_equal(g.lru.next, &g.lru);
				assert_int_equal(frame_zone(&g), zone);
				assert_int_equal(frame_nid(&g), nid);
				g.lru = f.lru;
				assert_memory_equal(&f, &g, sizeof(f));
			}
}

/* 1 and 2. Every descriptor as the oracle says, every free frame on the lists once, for every step, on random maps. */
static void test_1_2_all_steps_random_maps(void **state)
{
	struct frame *desc = new_desc();
	uint8_t *on = malloc(FRAMES);
	struct rng r;
	struct map mp;
	struct world x;

	(void)state;
	assert_non_null(on);
	rng_init(&r, seed(), "maps");
	for (unsigned i = 0; i < MAPS; i++) {
		map_random(&mp, &r);
		world_open(&x, &mp, i % NR_STEPS, desc);
		boot_all(&x);
		check_world(&x, &mp, on);
		world_close(&x);
	}
	free(on);
	free(desc);
}

/* 3. What is not initialised is not read; chunks whose limits are not the largest blocks' do read it, and are caught. */
static void test_3_poison(void **state)
{
	struct frame *desc = new_desc();
	struct rng r;
	struct map mp;
	struct world x;
	uint64_t caught = 0;

	(void)state;
	rng_init(&r, seed(), "poison");
	for (unsigned i = 0; i < 6; i++) {
		map_random(&mp, &r);
		for (int off = 0; off < 2; off++) {
			world_open(&x, &mp, i % 2 ? MEMMAP_CHUNKED : MEMMAP_ZONE_JOB, desc);
			x.mi.block_shift = off ? PAGEBLOCK_FRAMES : 0;
			boot_all(&x);
			if (off)
				caught += x.mi.poison_read;
			else
				assert_int_equal(x.mi.poison_read, 0);
			world_close(&x);
		}
	}
	assert_true(caught > 0);
	free(desc);
}

/*
 * 3 and 6. Free ranges on both sides of every limit at which workers could be cut: cut at sections no block is split between two, whichever
 * piece is done first; cut elsewhere than at blocks of the largest order, the first piece's frees look at descriptors of the next.
 */
static void test_6_cuts_between_workers(void **state)
{
	struct frame *desc = new_desc();
	uint8_t *on = malloc(FRAMES);
	struct map mp;
	struct world x;

	(void)state;
	assert_non_null(on);
	for (uint32_t step = MEMMAP_PARALLEL; step <= MEMMAP_STREAMED; step++)
		for (uint64_t shift = 0; shift < MAX_ORDER_FRAMES; shift += PAGEBLOCK_FRAMES / 2 + shift) {
			map_init(&mp);
			assert_int_equal(memblock_add(&mp.mb.memory, 0, FRAMES, 0), 0);
			assert_int_equal(memblock_add(&mp.mb.reserved, 100, 133, NID_NONE), 0);
			world_open(&x, &mp, step, desc);
			x.mi.block = SECTION_FRAMES;
			x.mi.block_shift = shift;
			boot_all(&x);
			if (shift) {
				assert_true(x.mi.poison_read > 0);
			} else {
				assert_int_equal(x.mi.poison_read, 0);
				check_world(&x, &mp, on);
			}
			world_close(&x);
		}
	free(on);
	free(desc);
}

static void empty_zone(struct map *mp)
{
	map_init(mp);
	assert_int_equal(memblock_add(&mp->mb.memory, 0, 2 * SECTION_FRAMES, 0), 0);
	assert_int_equal(memblock_add(&mp->mb.reserved, 0, 2 * SECTION_FRAMES, NID_NONE), 0);
}

/* 4. As an allocator retries while there is progress: it ends, also where the zone has not one free frame. */
static void test_4_grow_empty_zone_ends(void **state)
{
	struct frame *desc = new_desc();
	struct map mp;
	struct world x;
	unsigned tries = 0;

	(void)state;
	empty_zone(&mp);
	world_open(&x, &mp, MEMMAP_ZONE_JOB, desc);
	while (meminit_alloc(&x.w, 0, 0) == MEMBLOCK_NONE && meminit_grow(&x.w, 0, 1))
		assert_true(++tries < 10);
	assert_int_equal(tries, 1); /* the marker was there once */
	assert_false(meminit_begin(&x.w, 0));
	assert_true(meminit_done(&x.mi, 0));
	world_close(&x);
	free(desc);
}

/* 4. Whole sections, no more than are needed, and the worker does the rest. */
static void test_4_grow_stops_at_sections(void **state)
{
	struct frame *desc = new_desc();
	uint8_t *on = malloc(FRAMES);
	struct rng r;
	struct map mp;
	struct world x;

	(void)state;
	assert_non_null(on);
	rng_init(&r, seed(), "grow");
	for (unsigned i = 0; i < 12; i++) {
		struct paint *pt;

		map_random(&mp, &r);
		pt = paint_new(&mp);
		world_open(&x, &mp, i % NR_STEPS, desc);
		for (int nid = 0; nid < NODES; nid++) {
			struct meminit_node *n = &x.node[nid];
			uint64_t before, was, ask = 1 + rng_below(&r, 20000);

			meminit_early(&x.w, nid);
			before = n->freed;
			was = n->first_deferred;
			if (was == MEMBLOCK_NONE || !meminit_grow(&x.w, nid, ask))
				continue;
			if (n->first_deferred == MEMBLOCK_NONE)
				continue;
			assert_true(IS_ALIGNED(n->first_deferred, SECTION_FRAMES));
			assert_true(n->freed - before >= ask);
			assert_true(n->first_deferred > was);
			for (uint64_t p = n->first_deferred; p < MIN(n->first_deferred + 64, FRAMES); p++)
				if (want_of(&mp, pt, p).free && want_of(&mp, pt, p).nid == nid)
					assert_int_equal(desc[p].flags, MEMINIT_POISON);
		}
		for (int nid = 0; nid < NODES; nid++)
			while (meminit_begin(&x.w, nid))
				while (meminit_piece(&x.w, nid))
					;
		check_world(&x, &mp, on);
		free(pt);
		world_close(&x);
	}
	free(on);
	free(desc);
}

/* The three ways of hot-plug leave the same; what is removed is gone; what is in use cannot be. */
static void test_hotplug(void **state)
{
	struct frame *desc = new_desc(), *first = new_desc();
	struct map mp;
	struct world x;
	int owner;

	(void)state;
	for (uint32_t way = HOTPLUG_PAGE; way <= HOTPLUG_FLAG_FOLDED; way++) {
		uint64_t p;

		map_init(&mp);
		assert_int_equal(memblock_add(&mp.mb.memory, 0, SECTION_FRAMES, 0), 0);
		world_open(&x, &mp, MEMMAP_ZONE_JOB, desc);
		x.mi.hotplug = way;
		boot_all(&x);
		meminit_hot_add(&x.w, 1, ZONE_MOVABLE, 2 * SECTION_FRAMES, SECTION_FRAMES, NULL);
		meminit_hot_add(&x.w, 0, ZONE_DEVICE, 4 * SECTION_FRAMES, SECTION_FRAMES, &owner);
		for (uint64_t q = 0; q < SECTION_FRAMES; q++) {
			struct frame *f = &desc[2 * SECTION_FRAMES + q], *d = &desc[4 * SECTION_FRAMES + q];
			struct want w = { .touched = true, .reserved = true, .nid = 1, .zone = ZONE_MOVABLE };

			check_desc(f, &w, false);
			assert_ptr_equal(d->lru.next, &owner);
			assert_int_equal(d->flags, meminit_place(ZONE_DEVICE, 0) | FRAME_RESERVED);
			assert_int_equal(d->refcount, 1);
		}
		if (way == HOTPLUG_PAGE)
			memcpy(first, desc, FRAMES * sizeof(*desc));
		else /* links point into the same array */
			assert_memory_equal(first + SECTION_FRAMES, desc + SECTION_FRAMES, (FRAMES - SECTION_FRAMES) * sizeof(*desc));
		meminit_online(&x.w, 1, ZONE_MOVABLE, 2 * SECTION_FRAMES, SECTION_FRAMES);
		assert_int_equal(x.node[1].zone[ZONE_MOVABLE].free_pages, SECTION_FRAMES);
		p = meminit_alloc(&x.w, 1, 3);
		assert_true(p >= 2 * SECTION_FRAMES && p < 3 * SECTION_FRAMES);
		assert_int_equal(meminit_hot_remove(&x.w, 1, ZONE_MOVABLE, 2 * SECTION_FRAMES, SECTION_FRAMES), -EBUSY);
		assert_int_equal(x.node[1].zone[ZONE_MOVABLE].free_pages, SECTION_FRAMES - 8);
		meminit_free(&x.w, 1, p, 3);
		assert_int_equal(meminit_hot_remove(&x.w, 1, ZONE_MOVABLE, 2 * SECTION_FRAMES, SECTION_FRAMES), 0);
		assert_int_equal(x.node[1].zone[ZONE_MOVABLE].free_pages, 0);
		assert_true(meminit_alloc(&x.w, 1, 0) == MEMBLOCK_NONE);
		desc[4 * SECTION_FRAMES + 7].refcount = 2;
		assert_int_equal(meminit_hot_remove(&x.w, 0, ZONE_DEVICE, 4 * SECTION_FRAMES, SECTION_FRAMES), -EBUSY);
		desc[4 * SECTION_FRAMES + 7].refcount = 1;
		assert_int_equal(meminit_hot_remove(&x.w, 0, ZONE_DEVICE, 4 * SECTION_FRAMES, SECTION_FRAMES), 0);
		assert_int_equal(desc[4 * SECTION_FRAMES].flags, 0);
		world_close(&x);
	}
	free(first);
	free(desc);
}

/* Maps that cannot be booted are refused. */
static void test_bad_maps(void **state)
{
	struct map mp;
	struct meminit mi;
	struct meminit_node node[NODES] = { 0 };
	uint8_t section[SECTIONS] = { 0 };

	(void)state;
	map_init(&mp);
	mi = (struct meminit){ .mb = &mp.mb, .nr_nodes = NODES, .node = node, .section = section };
	assert_int_equal(memblock_add(&mp.mb.memory, 0, 1500, 0), 0);
	assert_int_equal(memblock_add(&mp.mb.memory, 1500, 4096, 1), 0); /* two nodes in one block */
	assert_int_equal(meminit_setup(&mi), -EINVAL);
	map_init(&mp);
	assert_int_equal(memblock_add(&mp.mb.memory, 0, 4096, NODES), 0); /* no such node */
	assert_int_equal(meminit_setup(&mi), -EINVAL);
	map_init(&mp);
	mp.mb.dma32_end = 1000;
	assert_int_equal(meminit_setup(&mi), -EINVAL);
}

/*
 * Case 35, scaled 1:512: early boot initialises its part by growing, in whole sections; then a worker a node, or several, do the rest, each
 * descriptor once; afterwards nothing grows any more.
 */
static void test_case_35(void **state)
{
	struct frame *desc = new_desc();
	uint8_t *on = malloc(FRAMES);
	struct map mp;
	struct world x;

	(void)state;
	assert_non_null(on);
	assert_int_equal((1ULL << 40) >> PAGE_SHIFT, 268435456ULL); /* 1 TiB */
	assert_int_equal(268435456ULL * sizeof(struct frame), 16ULL << 30);
	for (uint32_t step = MEMMAP_MEMSET; step <= MEMMAP_STREAMED; step++) {
		uint64_t early, pieces[NODES] = { 0 };

		map_init(&mp);
		for (int nid = 0; nid < NODES; nid++)
			assert_int_equal(memblock_add(&mp.mb.memory, (uint64_t)nid * 2 * SECTION_FRAMES, (uint64_t)(nid + 1) * 2 * SECTION_FRAMES,
						      nid), 0);
		world_open(&x, &mp, step, desc);
		early = 1 + FRAMES * 6 / 100;
		assert_true(meminit_grow(&x.w, 0, early));
		assert_int_equal(x.node[0].initialised, SECTION_FRAMES); /* whole sections */
		for (int nid = 0; nid < NODES; nid++) {
			assert_true(meminit_begin(&x.w, nid));
			assert_false(meminit_begin(&x.w, nid)); /* the first comes, the second finds it gone */
			assert_false(meminit_grow(&x.w, nid, 1));
			while (meminit_piece(&x.w, nid) == 1)
				pieces[nid]++;
			assert_int_equal(x.node[nid].initialised, 2 * SECTION_FRAMES);
			assert_int_equal(x.node[nid].freed, 2 * SECTION_FRAMES);
		}
		assert_int_equal(pieces[1], step < MEMMAP_CHUNKED ? 4 : 2);
		assert_int_equal(pieces[0], step < MEMMAP_CHUNKED ? 2 : 1);
		check_world(&x, &mp, on);
		world_close(&x);
	}
	free(on);
	free(desc);
}

/*
 * Case 36 (b), 5 pages of 64 MiB for 500 of 1 GiB: skipped are the tails beyond the frame of descriptors that is kept, 262,080 of a 1 GiB page's
 * 262,144 descriptors; when sharing fails, all are as if they had been written at once.
 */
static void test_case_36b(void **state)
{
	enum { ORDER = 14, PAGES = 5 };
	struct frame *desc = new_desc(), *eager = new_desc();
	struct map mp;
	struct world x;
	uint64_t all = (uint64_t)PAGES << ORDER;

	(void)state;
	assert_int_equal((1ULL << 18) - MEMINIT_KEPT, 262080);
	map_init(&mp);
	assert_int_equal(memblock_add(&mp.mb.memory, 0, FRAMES, 0), 0);
	world_open(&x, &mp, MEMMAP_ZONE_JOB, desc);
	for (uint64_t i = 0; i < PAGES; i++)
		meminit_gigantic(&x.w, 0, ZONE_NORMAL, i << ORDER, ORDER, false);
	assert_int_equal(x.node[0].initialised, all);
	memcpy(eager, desc, FRAMES * sizeof(*desc));
	world_close(&x);

	world_open(&x, &mp, MEMMAP_ZONE_JOB, desc);
	for (uint64_t i = 0; i < PAGES; i++)
		meminit_gigantic(&x.w, 0, ZONE_NORMAL, i << ORDER, ORDER, true);
	assert_int_equal(x.node[0].initialised, PAGES * MEMINIT_KEPT);
	for (uint64_t i = 0; i < PAGES; i++) {
		assert_int_equal(desc[(i << ORDER) + MEMINIT_KEPT - 1].tail.head_pfn, i << ORDER);
		for (uint64_t k = MEMINIT_KEPT; k < 1ULL << ORDER; k++)
			if (desc[(i << ORDER) + k].flags != MEMINIT_POISON)
				fail_msg("tail %lu was not skipped", (unsigned long)k);
	}
	for (uint64_t i = 0; i < PAGES; i++)
		meminit_gigantic_rest(&x.w, 0, ZONE_NORMAL, i << ORDER, ORDER);
	assert_int_equal(x.node[0].initialised, all);
	assert_memory_equal(desc, eager, FRAMES * sizeof(*desc));
	world_close(&x);
	free(eager);
	free(desc);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memblock_as_a_byte_map), cmocka_unit_test(test_1_sizes_and_fields),
		cmocka_unit_test(test_1_2_all_steps_random_maps), cmocka_unit_test(test_3_poison),
		cmocka_unit_test(test_6_cuts_between_workers),
		cmocka_unit_test(test_4_grow_empty_zone_ends), cmocka_unit_test(test_4_grow_stops_at_sections),
		cmocka_unit_test(test_hotplug), cmocka_unit_test(test_bad_maps), cmocka_unit_test(test_case_35),
		cmocka_unit_test(test_case_36b),
	};

	return test_run(tests);
}
