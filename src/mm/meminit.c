/*
 * Frame descriptors at boot: see meminit.h. The steps, as published; each includes what came before.
 *
 *   memset         each frame's hole and node are tested, the C library clears its descriptor; when all of the node is done, all of it is
 *                  gone over again, with the same tests, and freed
 *   word_stores    the descriptor is cleared by stores in line
 *   no_node_test   ranges are the node's already: the node is not tested again
 *   chunked        a block of the largest order is initialised, then freed, before the next one: it is still in the cache
 *   valid_runs     a run of frames is known to be there: no test a frame
 *   parallel       sections of a free range are shared out to several workers, range after range
 *   zone_job       all of the zone's are
 *   one_pass       ours: descriptors are written as those of free frames; freeing adds blocks to lists and touches no other
 *   streamed       ours: the same by stores past the caches
 */
#include "mm/meminit.h"

#include "base/assert.h"
#include "base/errno.h"

#include <string.h>

/* ---- set-up ---- */

static void zone_setup(struct meminit *mi, int nid, unsigned t)
{
	struct meminit_zone *z = &mi->node[nid].zone[t];

	*z = (struct meminit_zone){ .nid = nid, .type = t, .pa = z->pa };
	mlock_init(&z->lock, RANK_ZONE, z->pa);
	if (t < ZONE_DEVICE) /* which boot knows nothing of */
		memblock_zone_span(mi->mb, nid, (enum zone_type)t, &z->start, &z->end);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		list_init(&z->free[o]);
		z->top[o] = MEMBLOCK_NONE;
	}
}

int meminit_setup(struct meminit *mi)
{
	const struct memblock *mb = mi->mb;

	if (memblock_validate(&mb->memory, true) || memblock_validate(&mb->reserved, false) || !IS_ALIGNED(mb->dma32_end, MAX_ORDER_FRAMES))
		return -EINVAL;
	for (unsigned i = 0; i < mb->memory.nr; i++) {
		const struct memblock_region *r = &mb->memory.r[i];

		if (r->nid < 0 || (unsigned)r->nid >= mi->nr_nodes)
			return -EINVAL;
		memset(mi->section + (r->start >> SECTION_SHIFT), 1, ((r->end - 1) >> SECTION_SHIFT) - (r->start >> SECTION_SHIFT) + 1);
	}
	for (unsigned i = 0; i < mi->nr_nodes; i++) {
		struct meminit_node *n = &mi->node[i];

		if (mb->movable_start && !IS_ALIGNED(mb->movable_start[i], MAX_ORDER_FRAMES))
			return -EINVAL;
		mlock_init(&n->lock, RANK_LRU, 0);
		n->first_deferred = MEMBLOCK_NONE;
		for (unsigned t = 0; t < NR_ZONES; t++) {
			zone_setup(mi, (int)i, t);
			if (n->zone[t].end) {
				n->deferred = t;
				n->first_deferred = n->zone[t].start;
			}
		}
	}
	return 0;
}

/* ---- one descriptor after the other ---- */

/* The section that a transient window holds changes: whatever was represented there is gone. */
static void window_enter(struct meminit_worker *w, const struct meminit_zone *z, uint64_t p, unsigned pass)
{
	uint64_t section = p >> SECTION_SHIFT, s = section << SECTION_SHIFT, end = s + SECTION_FRAMES, e;
	struct memblock_iter it = { 0 };

	if (!w->mi->transient || w->window == (section + 1) * 2 + pass)
		return;
	w->window = (section + 1) * 2 + pass;
	memset(w->desc, 0, SECTION_FRAMES * sizeof(struct frame));
	while (pass && memblock_next_free(w->mi->mb, &it, z->nid, s, end, &s, &e)) {
		meminit_run_words(meminit_desc(w, s), e - s, meminit_place(z->type, z->nid));
		s = e;
	}
}

/* The node of a frame, by the range that was found last or a search. A call, as it was in the code that it stands for. */
ATTR_NOINLINE static bool meminit_pfn_in_node(struct meminit_worker *w, uint64_t p, int nid)
{
	const struct memblock_region *r;

	if (likely(p >= w->cache.start && p < w->cache.end))
		return w->cache.nid == nid;
	r = memblock_find(&w->mi->mb->memory, p);
	w->cache = r ? *r : (struct memblock_region){ 0 };
	return r && r->nid == nid;
}

static bool section_has_memory(const struct meminit *mi, uint64_t p)
{
	return mi->section[p >> SECTION_SHIFT] != 0;
}

/* The tests of a frame before valid_runs. */
static ATTR_ALWAYS_INLINE bool frame_ok(struct meminit_worker *w, uint64_t p, int nid, bool node_test)
{
	if (IS_ALIGNED(p, PAGEBLOCK_FRAMES) && !section_has_memory(w->mi, p))
		return false;
	return !node_test || meminit_pfn_in_node(w, p, nid);
}

static void charge_tests(struct meminit_worker *w, uint64_t frames, bool node_test)
{
	if (w->c->uncharged)
		return;
	machine_work(w->c, PATH_MEMINIT_VALID, frames);
	if (node_test)
		machine_work(w->c, PATH_MEMINIT_NODE_TEST, frames);
}

/*
 * Charges are made a pageblock at a time, line by line, so that tests and stores of neighbouring frames overlap as they would.
 */
ATTR_NOINLINE static void init_tested(struct meminit_worker *w, const struct meminit_zone *z, uint64_t s, uint64_t e)
{
	uint64_t flags = meminit_place(z->type, z->nid);
	bool node_test = w->mi->step < MEMMAP_NO_NODE_TEST, call = w->mi->step == MEMMAP_MEMSET;

	while (s < e) {
		uint64_t stop = MIN(ALIGN_DOWN(s, PAGEBLOCK_FRAMES) + PAGEBLOCK_FRAMES, e);

		charge_tests(w, stop - s, node_test);
		if (call && !w->c->uncharged)
			machine_work(w->c, PATH_STRING_START, stop - s);
		meminit_charge(w, z->nid, call ? PATH_MEMINIT_MEMSET : PATH_MEMINIT_WORDS, s, stop - s);
		for (; s < stop; s++) {
			if (!frame_ok(w, s, z->nid, node_test))
				continue;
			if (call)
				meminit_one_memset(meminit_desc(w, s), flags);
			else
				meminit_run_words(meminit_desc(w, s), 1, flags);
		}
	}
}

/*
 * Past the caches, but for the first descriptor of a pageblock: freeing links it and looks at it, and would wait for a line that has just been
 * sent away. It is fetched while the others are streamed.
 */
ATTR_NOINLINE static void init_streamed(struct meminit_worker *w, uint64_t s, uint64_t e, uint64_t flags)
{
	for (uint64_t p = ALIGN_UP(s, PAGEBLOCK_FRAMES); p < e; p += PAGEBLOCK_FRAMES)
		__builtin_prefetch(meminit_desc(w, p), 1);
	while (s < e) {
		uint64_t stop = MIN(ALIGN_DOWN(s, PAGEBLOCK_FRAMES) + PAGEBLOCK_FRAMES, e), head = IS_ALIGNED(s, PAGEBLOCK_FRAMES);

		meminit_run_stream(meminit_desc(w, s) + head, stop - s - head, flags);
		if (head)
			meminit_run_free(meminit_desc(w, s), 1, flags);
		s = stop;
	}
	meminit_stream_fence();
}

/* A free range's descriptors. It lies within a section. */
ATTR_NOINLINE static void init_range(struct meminit_worker *w, const struct meminit_zone *z, uint64_t s, uint64_t e)
{
	struct frame *f = meminit_desc(w, s);
	uint64_t flags = meminit_place(z->type, z->nid), n = e - s;
	enum machine_path outer = machine_work(w->c, PATH_MEMINIT_WORDS, 0);

	if (w->mi->step < MEMMAP_VALID_RUNS) {
		init_tested(w, z, s, e);
	} else {
		if (w->mi->step == MEMMAP_STREAMED)
			init_streamed(w, s, e, flags);
		else if (w->mi->step == MEMMAP_ONE_PASS)
			meminit_run_free(f, n, flags);
		else
			meminit_run_words(f, n, flags);
		meminit_charge(w, z->nid, PATH_MEMINIT_WORDS, s, n);
	}
	__atomic_add_fetch(&w->mi->node[z->nid].initialised, n, __ATOMIC_RELAXED);
	machine_path(w->c, outer);
}

/* The frames of a free range that pass the tests go to the lists, run after run. */
ATTR_NOINLINE static void free_tested(struct meminit_worker *w, struct meminit_zone *z, uint64_t s, uint64_t e)
{
	bool node_test = w->mi->step < MEMMAP_NO_NODE_TEST;
	uint64_t run = s;

	while (s < e) {
		uint64_t stop = MIN(ALIGN_DOWN(s, PAGEBLOCK_FRAMES) + PAGEBLOCK_FRAMES, e);

		charge_tests(w, stop - s, node_test);
		for (run = s; s < stop; s++) {
			if (frame_ok(w, s, z->nid, node_test))
				continue;
			meminit_free_range(w, z, run, s);
			run = s + 1;
		}
		if (run < stop)
			meminit_free_range(w, z, run, stop);
	}
}

static void free_range(struct meminit_worker *w, struct meminit_zone *z, uint64_t s, uint64_t e)
{
	enum machine_path outer = machine_work(w->c, PATH_MEMINIT_FREE, 0);

	if (w->mi->step < MEMMAP_VALID_RUNS)
		free_tested(w, z, s, e);
	else
		meminit_free_range(w, z, s, e);
	machine_path(w->c, outer);
}

/* One pass over the free ranges of [lo, hi), which lie within a section. */
static void pass(struct meminit_worker *w, struct meminit_zone *z, uint64_t lo, uint64_t hi, unsigned which)
{
	struct memblock_iter it = { 0 };
	uint64_t s, e;

	lo = MAX(lo, z->start);
	hi = MIN(hi, z->end);
	while (lo < hi && memblock_next_free(w->mi->mb, &it, z->nid, lo, hi, &s, &e)) {
		if (which)
			free_range(w, z, s, e);
		else
			init_range(w, z, s, e);
		lo = e;
	}
}

/* Initialise and free [lo, hi), chunk by chunk. The limits of the largest blocks are those of chunks (I1), but for tests that break it. */
static void init_and_free(struct meminit_worker *w, struct meminit_zone *z, uint64_t lo, uint64_t hi)
{
	uint64_t block = w->mi->block ? w->mi->block : MAX_ORDER_FRAMES, shift = w->mi->block_shift;

	if (w->mi->step < MEMMAP_CHUNKED)
		block = SECTION_FRAMES;
	while (lo < hi) {
		uint64_t stop = MIN(lo < shift ? shift : ALIGN_DOWN(lo - shift, block) + block + shift, hi);

		window_enter(w, z, lo, 0);
		pass(w, z, lo, stop, 0);
		pass(w, z, lo, stop, 1);
		lo = stop;
	}
}

/* ---- what is not deferred ---- */

static void init_reserved(struct meminit_worker *w, uint64_t s, uint64_t e, int nid)
{
	while (s < e) {
		unsigned zone = memblock_zone(w->mi->mb, nid, s);
		uint64_t stop = MIN(ALIGN_DOWN(s, MAX_ORDER_FRAMES) + MAX_ORDER_FRAMES, e);

		if (!w->mi->transient)
			meminit_run_words(meminit_desc(w, s), stop - s, meminit_place(zone, nid) | FRAME_RESERVED);
		meminit_charge(w, nid, PATH_MEMINIT_WORDS, s, stop - s);
		s = stop;
	}
}

/* Absent frames between lo and hi that share a block of the largest order with the memory that ends at lo or begins at hi. */
static void init_absent(struct meminit_worker *w, int nid, const struct memblock_region *prev, const struct memblock_region *next)
{
	uint64_t lo = prev ? prev->end : 0, hi = next ? next->start : MEMBLOCK_NONE;
	uint64_t up = prev ? MIN(ALIGN_UP(lo, MAX_ORDER_FRAMES), hi) : 0;
	uint64_t down = next ? MAX(ALIGN_DOWN(hi, MAX_ORDER_FRAMES), up) : 0;

	if (prev && prev->nid == nid && up > lo)
		init_reserved(w, lo, up, nid);
	if (next && next->nid == nid && down < hi)
		init_reserved(w, down, hi, nid);
}

void meminit_early(struct meminit_worker *w, int nid)
{
	const struct memblock *mb = w->mi->mb;
	const struct memblock_list *m = &mb->memory;
	struct meminit_node *n = &w->mi->node[nid];

	for (unsigned i = 0; i <= m->nr; i++)
		init_absent(w, nid, i ? &m->r[i - 1] : NULL, i < m->nr ? &m->r[i] : NULL);
	for (unsigned i = 0; i < m->nr; i++)
		for (unsigned k = 0; k < mb->reserved.nr && m->r[i].nid == nid; k++) {
			uint64_t s = MAX(m->r[i].start, mb->reserved.r[k].start), e = MIN(m->r[i].end, mb->reserved.r[k].end);

			if (s < e)
				init_reserved(w, s, e, nid);
		}
	for (unsigned t = 0; t < n->deferred; t++)
		init_and_free(w, &n->zone[t], n->zone[t].start, n->zone[t].end);
}

/* ---- what is ---- */

bool meminit_is_parallel(uint32_t step)
{
	return step >= MEMMAP_PARALLEL;
}

static void set_marker(struct meminit_node *n, uint64_t p)
{
	__atomic_store_n(&n->first_deferred, p, __ATOMIC_RELEASE);
}

/* The free range at or behind p, with sections around its end. */
static void next_job(const struct meminit *mi, struct meminit_node *n, const struct meminit_zone *z, uint64_t p)
{
	struct memblock_iter it = { 0 };
	uint64_t s, e;

	n->job_next = n->job_end = z->end;
	if (p < z->end && memblock_next_free(mi->mb, &it, z->nid, p, z->end, &s, &e)) {
		n->job_next = s;
		n->job_end = mi->step == MEMMAP_PARALLEL ? MIN(ALIGN_UP(e, SECTION_FRAMES), z->end) : z->end;
	}
}

bool meminit_begin(struct meminit_worker *w, int nid)
{
	struct meminit_node *n = &w->mi->node[nid];
	bool ours;

	machine_lock(w->c, &n->lock);
	ours = n->first_deferred != MEMBLOCK_NONE;
	if (ours) {
		ASSERT(!n->begun);
		n->begun = true;
		n->job_pass = 0;
		n->job_start = n->first_deferred;
		next_job(w->mi, n, &n->zone[n->deferred], n->job_start);
		set_marker(n, MEMBLOCK_NONE);
	}
	machine_unlock(w->c, &n->lock);
	return ours;
}

/* The next piece, up to a section boundary; as the return value of meminit_piece. */
static int take(struct meminit *mi, struct meminit_node *n, uint64_t *ret_start, uint64_t *ret_end)
{
	struct meminit_zone *z = &n->zone[n->deferred];

	if (n->job_busy && !meminit_is_parallel(mi->step))
		return 0; /* one worker a node */
	if (n->job_busy && n->job_next == n->job_end)
		return n->job_end == z->end ? 0 : -EAGAIN;
	if (n->job_next == n->job_end && mi->step < MEMMAP_CHUNKED && !n->job_pass) {
		n->job_pass = 1;
		next_job(mi, n, z, n->job_start);
	} else if (n->job_next == n->job_end) {
		next_job(mi, n, z, n->job_end);
	}
	if (n->job_next >= z->end)
		return 0;
	*ret_start = n->job_next;
	n->job_next = *ret_end = MIN(ALIGN_DOWN(n->job_next, SECTION_FRAMES) + SECTION_FRAMES, n->job_end);
	n->job_busy++;
	return 1;
}

int meminit_piece(struct meminit_worker *w, int nid)
{
	struct meminit_node *n = &w->mi->node[nid];
	struct meminit_zone *z = &n->zone[n->deferred];
	uint64_t s, e;
	unsigned which;
	int r;

	machine_lock(w->c, &n->lock);
	r = take(w->mi, n, &s, &e);
	which = n->job_pass;
	machine_unlock(w->c, &n->lock);
	if (r <= 0)
		return r;
	if (w->mi->step < MEMMAP_CHUNKED) {
		window_enter(w, z, s, which);
		pass(w, z, s, e, which);
	} else {
		init_and_free(w, z, s, e);
	}
	machine_lock(w->c, &n->lock);
	n->job_busy--;
	machine_unlock(w->c, &n->lock);
	return 1;
}

bool meminit_done(struct meminit *mi, int nid)
{
	const struct meminit_node *n = &mi->node[nid];

	return n->first_deferred == MEMBLOCK_NONE && !n->job_busy && n->job_next >= n->zone[n->deferred].end;
}

/*
 * Under the lock for all of it: growers wait for each other, and a worker that begins meanwhile gets what is left. Progress is reported for
 * a marker that was there, even if the rest of the zone had no free frame: the next call finds none, and the caller's retries end.
 */
bool meminit_grow(struct meminit_worker *w, int nid, uint64_t frames)
{
	struct meminit_node *n = &w->mi->node[nid];
	struct meminit_zone *z = &n->zone[n->deferred];
	uint64_t p, from;

	machine_lock(w->c, &n->lock);
	p = n->first_deferred;
	if (p == MEMBLOCK_NONE) {
		machine_unlock(w->c, &n->lock);
		return false;
	}
	from = __atomic_load_n(&n->freed, __ATOMIC_RELAXED);
	while (p < z->end && __atomic_load_n(&n->freed, __ATOMIC_RELAXED) - from < frames) {
		uint64_t end = MIN(ALIGN_DOWN(p, SECTION_FRAMES) + SECTION_FRAMES, z->end);

		init_and_free(w, z, p, end);
		p = end;
	}
	if (p == z->end) {
		n->job_next = n->job_end = z->end;
		p = MEMBLOCK_NONE;
	}
	set_marker(n, p);
	machine_unlock(w->c, &n->lock);
	return true;
}
