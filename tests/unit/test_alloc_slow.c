/*
 * The allocator when memory is short: in which order kswapd, reclaim, compaction and the OOM killer are called for which flags, when
 * requests give up, who may go below the watermarks; and what a compaction's free scanner takes from the lists.
 */
#include "booted.h"

#include "mm/alloc_int.h"
#include "mm/fragment.h"

#include <stdlib.h>
#include <string.h>

/*
 * What the hooks were called for, a letter a call: k kswapd, R reclaim, a how much is reclaimable, C0 C1 C2 compaction by priority, s is it
 * suitable, d deferral reset, O oom. And what they are to do.
 */
static struct script {
	char log[512];
	size_t len;
	uint64_t progress;            /* direct_reclaim says so */
	struct frame **held;          /* it frees the last of these first, if there are any */
	unsigned nr_held;
	unsigned nested;              /* frames that direct_reclaim allocates for itself */
	unsigned nested_got;
	uint64_t reclaimable;
	enum compact_result compacted;
	struct zone *capture;         /* direct_compact takes the block from here */
	bool suitable;
	unsigned oom_frees;           /* oom frees so many of held and says true; 0: false */
	int woken_nid;
} sc;

static void say(const char *what)
{
	size_t n = strlen(what);

	assert_true(sc.len + n < sizeof(sc.log));
	memcpy(sc.log + sc.len, what, n + 1);
	sc.len += n;
}

static void free_held(struct cpu *c, unsigned n)
{
	if (!n)
		return;
	while (n-- && sc.nr_held)
		frame_put(c, sc.held[--sc.nr_held]);
	pcp_drain(c);
}

static void hook_wake(struct cpu *c, int nid, unsigned order, unsigned gfp, enum zone_type highest)
{
	(void)order, (void)highest;
	assert_true(gfp & GFP_KSWAPD_RECLAIM);
	assert_int_equal(null_locks_held(c), 0);
	sc.woken_nid = nid;
	say("k");
}

static uint64_t hook_reclaim(struct cpu *c, const struct alloc_context *ac)
{
	assert_true(ac->gfp & GFP_DIRECT_RECLAIM);
	assert_true(*cpu_pf(c) & PF_MEMALLOC);
	assert_int_equal(null_locks_held(c), 0);
	say("R");
	for (unsigned i = 0; i < sc.nested; i++) {
		struct frame *f = take(c, 0, GFP_KERNEL, NID_NONE);

		if (f) {
			sc.nested_got++;
			frame_put(c, f);
		}
	}
	free_held(c, (unsigned)sc.progress);
	return sc.progress;
}

static uint64_t hook_reclaimable(struct cpu *c, const struct zone *z)
{
	(void)c, (void)z;
	return sc.reclaimable;
}

static enum compact_result hook_compact(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags, enum compact_priority prio,
					struct frame **ret_capture)
{
	(void)alloc_flags;
	assert_true(ac->order && *cpu_pf(c) & PF_MEMALLOC);
	say(prio == COMPACT_PRIO_ASYNC ? "C2" : prio == COMPACT_PRIO_SYNC_LIGHT ? "C1" : "C0");
	if (sc.capture) {
		machine_lock(c, &sc.capture->lock);
		*ret_capture = buddy_alloc(c, sc.capture, ac->order, gfp_migrate_type(ac->gfp), false);
		machine_unlock(c, &sc.capture->lock);
	}
	return sc.compacted;
}

static bool hook_suitable(struct cpu *c, const struct alloc_context *ac, unsigned alloc_flags)
{
	(void)c, (void)ac, (void)alloc_flags;
	say("s");
	return sc.suitable;
}

static void hook_defer_reset(struct cpu *c, struct zone *z, unsigned order)
{
	(void)c, (void)z, (void)order;
	say("d");
}

static bool hook_oom(struct cpu *c, const struct alloc_context *ac)
{
	(void)ac;
	say("O");
	free_held(c, sc.oom_frees);
	return sc.oom_frees != 0;
}

static const struct alloc_hooks all_hooks = {
	.wake_kswapd = hook_wake,
	.direct_reclaim = hook_reclaim,
	.reclaimable_pages = hook_reclaimable,
	.direct_compact = hook_compact,
	.compact_suitable = hook_suitable,
	.compact_defer_reset = hook_defer_reset,
	.oom = hook_oom,
};

struct world {
	struct booted b;
	struct zone *z;
	struct frame *f[1 << 16];
	unsigned nr;
};

/* Everything down to the min watermark is taken, in single frames, when the hooks come. */
static struct world *world(unsigned nodes)
{
	struct world *w = calloc(1, sizeof(*w));
	struct knobs k;

	knobs_default(&k);
	k.watermark_boost_factor = 0;
	assert_non_null(w);
	boot_with(&w->b, &(struct null_options){ .node_bytes = 128ULL << 20, .nr_nodes = nodes, .nr_cpus = nodes }, &k);
	w->z = &w->b.q->nodes[0].zones[ZONE_DMA32];
	w->b.q->alloc_hooks = NULL;
	for (struct frame *f; (f = take(w->b.c, 0, GFP_HIGHUSER_MOVABLE, NID_NONE));)
		w->f[w->nr++] = f;
	sc = (struct script){ .held = w->f, .nr_held = w->nr, .woken_nid = -1 };
	w->b.q->alloc_hooks = &all_hooks;
	return w;
}

static void world_done(struct world *w)
{
	w->b.q->alloc_hooks = NULL;
	while (sc.nr_held)
		frame_put(w->b.c, w->f[--sc.nr_held]);
	shut_down(&w->b);
	free(w);
}

/* A request that must fail, and the calls that it must make first. */
static void refused(struct world *w, unsigned order, unsigned gfp, const char *calls)
{
	sc.len = 0;
	sc.log[0] = 0;
	assert_null(take(w->b.c, order, gfp, NID_NONE));
	assert_string_equal(sc.log, calls);
	assert_int_equal(*cpu_pf(w->b.c), 0);
}

static void test_order_of_calls(void **state)
{
	struct world *w = world(1);

	(void)state;
	refused(w, 0, 0, "");
	refused(w, 0, GFP_NOWAIT, "kk");
	refused(w, 0, GFP_KERNEL & ~GFP_KSWAPD_RECLAIM, "RO");
	refused(w, 0, GFP_KERNEL, "kkRO");
	refused(w, 0, GFP_KERNEL | GFP_NORETRY, "kkR");
	refused(w, 0, GFP_KERNEL | GFP_RETRY_MAYFAIL, "kkR");
	refused(w, 0, GFP_KERNEL | GFP_THISNODE, "kkR");
	refused(w, 0, GFP_HIGHUSER_MOVABLE, "kkRO");
	assert_int_equal(counter(&w->b, VM_allocstall_normal), 5);
	assert_int_equal(counter(&w->b, VM_allocstall_movable), 1);
	assert_int_equal(counter(&w->b, VM_compact_stall), 0);
	world_done(w);
}

static void test_order_of_calls_large(void **state)
{
	struct world *w = world(1);

	(void)state;
	/* Small ones that can be moved reclaim first; others compact first. Skipped compactions ask whether reclaim would help. */
	sc.compacted = COMPACT_SKIPPED;
	refused(w, 2, GFP_HIGHUSER_MOVABLE, "kkRC1O");
	refused(w, 2, GFP_KERNEL, "kC2kRC1O");
	refused(w, 2, GFP_NOIO, "kkRO");
	assert_int_equal(counter(&w->b, VM_compact_stall), 0);
	/* Huge pages by transparent_hugepage.defrag. */
	refused(w, 9, GFP_TRANSHUGE_LIGHT, "");
	refused(w, 9, GFP_TRANSHUGE_LIGHT | GFP_KSWAPD_RECLAIM, "kk");
	refused(w, 9, GFP_TRANSHUGE, "C2RC1");
	refused(w, 9, GFP_TRANSHUGE | GFP_NORETRY, "C2");
	sc.compacted = COMPACT_DEFERRED;
	refused(w, 9, GFP_TRANSHUGE | GFP_NORETRY, "C2");
	assert_int_equal(counter(&w->b, VM_compact_stall), 1);
	sc.compacted = COMPACT_COMPLETE;
	refused(w, 9, GFP_TRANSHUGE | GFP_NORETRY, "C2RC2");
	assert_int_equal(counter(&w->b, VM_compact_stall), 3);
	assert_int_equal(counter(&w->b, VM_compact_fail), 3);
	assert_int_equal(counter(&w->b, VM_compact_success), 0);
	world_done(w);
}

static void test_rounds_end(void **state)
{
	struct world *w = world(1);
	char expect[128] = "kC2";

	(void)state;
	/* No progress, though much could be freed: as many rounds as Linux makes. */
	sc.reclaimable = 1 << 20;
	strcpy(expect, "k");
	for (unsigned i = 0; i < 17; i++)
		strcat(expect, "kR");
	refused(w, 0, GFP_KERNEL | GFP_RETRY_MAYFAIL, expect);
	strcat(expect, "O");
	refused(w, 0, GFP_KERNEL, expect);
	/* Progress that others take, and pieces only: compaction tries harder, to the end of its priorities. */
	sc.reclaimable = 0;
	sc.nr_held = 0;
	sc.progress = 1;
	sc.compacted = COMPACT_COMPLETE;
	refused(w, 2, GFP_KERNEL, "kC2kRC1kRC0O");
	refused(w, 9, GFP_TRANSHUGE | GFP_RETRY_MAYFAIL, "C2RC1");
	/* It made blocks that others took: 16 times, and 16 times again at each priority; 4 times for huge pages. */
	sc.compacted = COMPACT_SUCCESS;
	strcpy(expect, "C2");
	for (unsigned i = 0; i < 5; i++)
		strcat(expect, "RC1");
	refused(w, 9, GFP_TRANSHUGE | GFP_RETRY_MAYFAIL, expect);
	sc.nr_held = w->nr;
	world_done(w);
}

/* Each who frees memory ends the search. */
static void test_success(void **state)
{
	struct world *w = world(1);
	struct frame *f;

	(void)state;
	sc.progress = 200;
	f = take(w->b.c, 0, GFP_KERNEL, NID_NONE);
	assert_non_null(f);
	assert_string_equal(sc.log, "kkR");
	frame_put(w->b.c, f);
	pcp_drain(w->b.c);
	for (struct frame *g; (g = take(w->b.c, 0, GFP_HIGHUSER_MOVABLE & ~GFP_RECLAIM, NID_NONE));)
		w->f[sc.nr_held++] = g;
	sc.progress = 0;
	sc.len = 0;
	sc.oom_frees = 300;
	f = take(w->b.c, 0, GFP_KERNEL, NID_NONE);
	assert_non_null(f);
	assert_string_equal(sc.log, "kkROk");
	frame_put(w->b.c, f);
	world_done(w);
}

static void test_capture(void **state)
{
	struct world *w = world(1);
	struct frame *f;

	(void)state;
	free_held(w->b.c, 4096);
	/* Plenty is free, but the request may not fall back and the watermark is out of reach: only the compaction gives it. */
	w->z->watermark[WMARK_MIN] += 1 << 20;
	w->z->watermark[WMARK_LOW] += 1 << 20;
	w->z->watermark[WMARK_HIGH] += 1 << 20;
	sc.capture = w->z;
	sc.compacted = COMPACT_SUCCESS;
	f = take(w->b.c, 4, GFP_KERNEL, NID_NONE);
	assert_non_null(f);
	assert_string_equal(sc.log, "kC2d");
	assert_int_equal(frame_order(f), 4);
	assert_int_equal(frame_refcount(f), 1);
	assert_int_equal(counter(&w->b, VM_compact_stall), 1);
	assert_int_equal(counter(&w->b, VM_compact_success), 1);
	assert_int_equal(counter(&w->b, VM_compact_fail), 0);
	frame_put(w->b.c, f);
	w->z->watermark[WMARK_MIN] -= 1 << 20;
	w->z->watermark[WMARK_LOW] -= 1 << 20;
	w->z->watermark[WMARK_HIGH] -= 1 << 20;
	world_done(w);
}

/* Who frees memory may use all of it, and is not called again for that. */
static void test_memalloc(void **state)
{
	struct world *w = world(1);
	struct frame *f[64];
	unsigned n = 0;

	(void)state;
	assert_true(w->z->free_pages <= w->z->watermark[WMARK_MIN]);
	sc.nested = 3;
	refused(w, 0, GFP_KERNEL, "kkRkkkkkkO");
	assert_int_equal(sc.nested_got, 3);
	/* A task that frees memory ends like one that may not reclaim, when its request is not for reserves. */
	*cpu_pf(w->b.c) = PF_MEMALLOC;
	sc.len = 0;
	pcp_drain(w->b.c);
	assert_null(take(w->b.c, 0, GFP_KERNEL | GFP_NOMEMALLOC, NID_NONE));
	assert_string_equal(sc.log, "kk");
	while (n < 64 && (f[n] = take(w->b.c, 0, GFP_KERNEL, NID_NONE)))
		n++;
	assert_int_equal(n, 64);
	assert_null(strchr(sc.log, 'R'));
	while (n)
		frame_put(w->b.c, f[--n]);
	*cpu_pf(w->b.c) = PF_OOM_VICTIM;
	pcp_drain(w->b.c);
	f[0] = take(w->b.c, 0, GFP_KERNEL, NID_NONE);
	assert_non_null(f[0]);
	frame_put(w->b.c, f[0]);
	*cpu_pf(w->b.c) = 0;
	world_done(w);
}

/* Down to which part of the min watermark a request may go. Order 4 is on no CPU's list, so it is exact. */
static void reserve_of(unsigned gfp, unsigned pf, uint64_t mul, uint64_t div)
{
	struct frame *f[4096];
	struct booted b;
	struct zone *z;
	unsigned n = 0;
	uint64_t mark;

	boot_small(&b, 128);
	z = &b.q->nodes[0].zones[ZONE_DMA32];
	mark = z->watermark[WMARK_MIN] = 4096; /* so that rounding is no matter */
	z->watermark[WMARK_LOW] = 5120;
	z->watermark[WMARK_HIGH] = 6144;
	*cpu_pf(b.c) = pf;
	while (n < 4096 && (f[n] = take(b.c, 4, gfp, NID_NONE)))
		n++;
	mark = mark * mul / div;
	assert_true(z->free_pages + 16 > mark && z->free_pages <= mark + 16);
	*cpu_pf(b.c) = 0;
	while (n)
		frame_put(b.c, f[--n]);
	shut_down(&b);
}

static void test_reserves(void **state)
{
	(void)state;
	reserve_of(GFP_HIGHUSER_MOVABLE, 0, 1, 1);
	reserve_of(GFP_HIGHUSER_MOVABLE & ~GFP_RECLAIM, 0, 1, 1);
	reserve_of(GFP_HIGHUSER_MOVABLE | GFP_HIGH, 0, 1, 2);
	reserve_of(GFP_MOVABLE | GFP_ATOMIC, 0, 3, 8);
	reserve_of(GFP_HIGHUSER_MOVABLE | GFP_NOMEMALLOC, PF_MEMALLOC, 1, 1);
	reserve_of(GFP_HIGHUSER_MOVABLE, PF_OOM_VICTIM, 1, 2);
	reserve_of(GFP_HIGHUSER_MOVABLE, PF_MEMALLOC, 0, 1);
	reserve_of(GFP_HIGHUSER_MOVABLE | GFP_MEMALLOC, 0, 0, 1);
}

/* kswapds of all nodes that the request may use; of the wanted one alone with GFP_THISNODE. */
static void test_nodes(void **state)
{
	struct world *w = world(2);

	(void)state;
	refused(w, 0, GFP_NOWAIT, "kkkk");
	assert_int_equal(sc.woken_nid, 1);
	refused(w, 0, GFP_NOWAIT | GFP_THISNODE, "kk");
	assert_int_equal(sc.woken_nid, 0);
	world_done(w);
}

/* ---- for compaction ---- */

static uint64_t isolate(struct booted *b, struct zone *z, uint64_t p, unsigned *order)
{
	uint64_t n;

	machine_lock(b->c, &z->lock);
	n = isolate_free_block(b->c, z, p, order);
	machine_unlock(b->c, &z->lock);
	return n;
}

static void test_isolate(void **state)
{
	struct booted b;
	struct zone *z;
	struct frame *f, *g;
	uint64_t p, free, n;
	unsigned order;

	(void)state;
	boot_small(&b, 128);
	z = &b.q->nodes[0].zones[ZONE_DMA32];
	/* One frame of a pageblock in use, unmovable: the upper half of the pageblock is one block of order 8. */
	f = take(b.c, 4, GFP_KERNEL, NID_NONE);
	assert_non_null(f);
	p = frame_pfn(b.m, f).v;
	assert_true(IS_ALIGNED(p, PAGEBLOCK_FRAMES));
	assert_int_equal(pageblock_type(z, p), MIGRATE_UNMOVABLE);
	free = z->free_pages;
	assert_int_equal(isolate(&b, z, p, &order), 0);
	assert_int_equal(isolate(&b, z, p + 17, &order), 0);
	assert_int_equal(isolate(&b, z, z->end_pfn, &order), 0);
	n = isolate(&b, z, p + 256, &order);
	assert_int_equal(n, 256);
	assert_int_equal(order, 8);
	assert_int_equal(z->free_pages, free - 256);
	assert_int_equal(pageblock_type(z, p), MIGRATE_MOVABLE);
	/* In parts: one of them used and freed, the others given back. */
	split_free_block(b.c, frame_of(b.m, pfn(p + 256)), 8, 6);
	g = frame_of(b.m, pfn(p + 256));
	frame_prep(b.c, g, 6, true);
	machine_lock(b.c, &z->lock);
	for (unsigned i = 1; i < 4; i++)
		buddy_free(b.c, z, g + 64 * i, 6);
	machine_unlock(b.c, &z->lock);
	check_valid(&b);
	assert_int_equal(z->free_pages, free - 64);
	frame_put(b.c, g);
	assert_int_equal(z->free_pages, free);
	/* Down to the min watermark, not below. */
	for (p = z->first_pfn; p < z->deferred_pfn;) {
		g = frame_of(b.m, pfn(p));
		n = isolate(&b, z, p, &order);
		if (n) {
			frame_prep(b.c, g, order, false);
			p += n;
		} else {
			p++;
		}
	}
	assert_true(z->free_pages > z->watermark[WMARK_MIN]);
	check_valid(&b);
	for (p = z->first_pfn; p < z->deferred_pfn; p++)
		if (frame_of(b.m, pfn(p))->refcount == 1)
			frame_put(b.c, frame_of(b.m, pfn(p)));
	shut_down(&b);
}

static void test_index(void **state)
{
	struct world *w = world(1);
	struct free_blocks b;
	struct booted fresh;

	(void)state;
	w->b.q->alloc_hooks = NULL;
	/* Every other frame is free: nothing but pieces. */
	for (unsigned i = 0; i < w->nr; i++)
		if (!(frame_pfn(w->b.m, w->f[i]).v & 1)) {
			frame_put(w->b.c, w->f[i]);
			w->f[i] = w->f[--w->nr];
			i--;
		}
	sc.nr_held = w->nr;
	drain_all(&w->b);
	free_blocks_count(w->z, NR_MIGRATE_TYPES, &b);
	assert_int_equal(zone_extfrag_index(w->b.c, w->z, 9), extfrag_index(&b, 9));
	assert_true(zone_extfrag_index(w->b.c, w->z, 9) > 500);
	assert_int_equal(zone_extfrag_index(w->b.c, w->z, 0), -1000);
	world_done(w);
	/* What is not written yet is as good as free blocks of the largest order. */
	boot_small(&fresh, 256);
	assert_int_equal(zone_extfrag_index(fresh.c, &fresh.q->nodes[0].zones[ZONE_DMA32], 9), -1000);
	shut_down(&fresh);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order_of_calls),
		cmocka_unit_test(test_order_of_calls_large),
		cmocka_unit_test(test_rounds_end),
		cmocka_unit_test(test_success),
		cmocka_unit_test(test_capture),
		cmocka_unit_test(test_memalloc),
		cmocka_unit_test(test_reserves),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_isolate),
		cmocka_unit_test(test_index),
	};

	return test_run(tests);
}
