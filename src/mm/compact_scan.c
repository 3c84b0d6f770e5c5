/*
 * Compaction's scanners.
 *
 * For pages that can be moved: upwards, pageblock by pageblock, descriptor by descriptor, without locks. What is found is isolated: the first
 * COMPACT_CLUSTER frames of a pageblock, moved, then the rest of the pageblock at once. An asynchronous compaction for a request
 * keeps to pageblocks of its type, and lets go of a block of the wanted order in which it finds something that can't be moved, since
 * moving the rest would make no such block.
 * For free blocks: downwards by pageblock, upwards within one, under the zone's lock, which is let go of every COMPACT_CLUSTER frames;
 * never below the other scanner. Blocks taken are compaction's own (neither free nor in use) until a page is moved there or they
 * are given back.
 * A pageblock that was gone through is marked as one to skip next time; one of which pages are being isolated too, so that two
 * compactions at a time do not work on it.
 */
#include "base/errno.h"
#include "mm/compact_int.h"
#include "mm/lru.h"
#include "mm/rmap_walk.h"

static bool skip_bit(struct compact *k, uint64_t p)
{
	uint8_t *t = pageblock_of(k->z, p);

	machine_touch(k->c, machine_pa(k->c->m, t), 1, TOUCH_READ);
	return !k->ignore_skip && (__atomic_load_n(t, __ATOMIC_RELAXED) & PAGEBLOCK_SKIP);
}

/* Was it set already? */
static bool set_skip(struct compact *k, uint64_t p)
{
	uint8_t *t = pageblock_of(k->z, p), was;

	if (k->ignore_skip)
		return false;
	was = __atomic_fetch_or(t, PAGEBLOCK_SKIP, __ATOMIC_RELAXED);
	machine_touch(k->c, machine_pa(k->c->m, t), 1, TOUCH_WRITE);
	return was & PAGEBLOCK_SKIP;
}

/* ---- pages to move ---- */

/* How far the next compaction need not look again. */
static void remember_migrate(struct compact *k, uint64_t p)
{
	uint64_t *cached = k->z->compact.migrate_pfn;

	if (k->ignore_skip)
		return;
	if (p > __atomic_load_n(&cached[0], __ATOMIC_RELAXED))
		__atomic_store_n(&cached[0], p, __ATOMIC_RELAXED);
	if (k->mode != MIGRATE_ASYNC && p > __atomic_load_n(&cached[1], __ATOMIC_RELAXED))
		__atomic_store_n(&cached[1], p, __ATOMIC_RELAXED);
}

/*
 * By its flags, as they were read once: what it is may change at any time until it is isolated. *ret_frames: how much of the
 * pageblock this look was about.
 */
static bool may_move(const struct compact *k, const struct frame *f, uint64_t flags, uint64_t *ret_frames)
{
	unsigned order = (unsigned)(flags >> FRAME_ORDER_SHIFT) & 0xff;

	*ret_frames = 1;
	if (flags & (FRAME_BUDDY | FRAME_HEAD) && order <= MAX_ORDER)
		*ret_frames = 1ULL << order;
	if ((flags & (FRAME_BUDDY | FRAME_PCP | FRAME_TAIL | FRAME_LRU)) != FRAME_LRU)
		return false;
	if (flags & FRAME_HEAD && (!k->c->q->knobs.compact_large_folios || order >= PAGEBLOCK_ORDER ||
				   (k->order != COMPACT_ALL && order >= (unsigned)k->order)))
		return false;
	if (flags & FRAME_WRITEBACK && k->mode == MIGRATE_ASYNC)
		return false;
	/* References that mappings don't account for: pinned, it would be in vain. */
	return frame_refcount(f) <= folio_expected_refs(f);
}

/* Off the lists. false: it is in use, or no longer what it looked like. */
static bool take_folio(struct compact *k, struct frame *f, uint64_t frames)
{
	bool mine;

	if (!frame_tryget(k->c, f))
		return false;
	mine = folio_isolate_lru(k->c, f);
	if (mine && unlikely(frame_nr_pages(f) != frames)) {
		folio_putback_lru(k->c, f);
		mine = false;
	}
	frame_put(k->c, f);
	if (mine) {
		list_add_tail(&f->lru, &k->migratepages);
		k->nr_migratepages += frames;
	}
	return mine;
}

/* From p to the end of its pageblock, or until there is enough. Returns where to go on. */
ATTR_NOINLINE static uint64_t migrate_block(struct compact *k, uint64_t p, uint64_t end)
{
	enum machine_path prev = machine_work(k->c, PATH_COMPACT_SCAN, 0);
	bool drop = k->direct && k->mode == MIGRATE_ASYNC, mine = false;
	uint64_t unit = k->order == COMPACT_ALL ? 1 : 1ULL << k->order, unit_end = ALIGN_DOWN(p, unit) + unit;
	uint64_t frames, scanned = 0, taken = 0, block = p;

	for (; p < end; p += frames) {
		struct frame *f = frame_of(k->c->m, pfn(p));

		if (IS_ALIGNED(p, COMPACT_CLUSTER) && compact_should_abort(k))
			break;
		if (drop && p >= unit_end) {
			if (k->nr_migratepages)
				break;
			unit_end = ALIGN_DOWN(p, unit) + unit;
		}
		(void)machine_work(k->c, PATH_COMPACT_SCAN, 1);
		frame_touch(k->c, f, TOUCH_READ);
		scanned++;
		uint64_t flags = frame_flags(f);
		bool is_free = flags & FRAME_BUDDY, ok = may_move(k, f, flags, &frames);

		if (ok && !mine) {
			mine = true;
			if (set_skip(k, block) && !k->finish_pageblock && IS_ALIGNED(block, PAGEBLOCK_FRAMES)) {
				p = end; /* somebody else is at it */
				break;
			}
		}
		ok = ok && take_folio(k, f, frames);
		machine_path(k->c, PATH_COMPACT_SCAN);
		if (ok) {
			taken += frames;
			if (k->nr_migratepages >= COMPACT_CLUSTER && !k->finish_pageblock) {
				p += frames;
				break;
			}
		} else if (drop && !is_free) {
			migrate_putback(k->c, &k->migratepages);
			k->nr_migratepages = 0;
			frames = MAX(frames, unit_end - p);
		}
	}
	p = MIN(p, end);
	if (p == end && (!k->nr_migratepages || k->finish_pageblock)) {
		(void)set_skip(k, block);
		remember_migrate(k, p);
	}
	k->migrate_scanned += scanned;
	vmstat_add(k->c, VM_compact_migrate_scanned, (int64_t)scanned);
	vmstat_add(k->c, VM_compact_isolated, (int64_t)taken);
	machine_path(k->c, prev);
	return p;
}

/* Is the pageblock one for this compaction? */
static bool source_suits(const struct compact *k, uint64_t p)
{
	return k->mode != MIGRATE_ASYNC || !k->direct || pageblock_type(k->z, p) == k->mt;
}

ATTR_NOINLINE enum isolate_result isolate_migratepages(struct compact *k)
{
	enum isolate_result res = ISOLATE_NONE;
	uint64_t p = k->migrate_pfn, limit = pageblock_start(k->free_pfn);

	while (p < limit && res == ISOLATE_NONE) {
		uint64_t end = MIN(pageblock_start(p) + PAGEBLOCK_FRAMES, k->end);

		(void)machine_work(k->c, PATH_COMPACT, 1);
		if (compact_should_abort(k)) {
			res = ISOLATE_ABORT;
			break;
		}
		if ((IS_ALIGNED(p, PAGEBLOCK_FRAMES) && skip_bit(k, p)) || !source_suits(k, p)) {
			remember_migrate(k, end);
			p = end;
			continue;
		}
		p = migrate_block(k, p, end);
		if (k->contended && !k->nr_migratepages)
			res = ISOLATE_ABORT;
		else if (k->nr_migratepages)
			res = ISOLATE_SUCCESS;
		else
			break; /* is there a block now? */
	}
	k->migrate_pfn = p;
	return res;
}

/* ---- free blocks ---- */

/* A lock that somebody has ends an asynchronous compaction, but not before it has what it came for. */
static void lock_zone(struct compact *k)
{
	if (k->mode == MIGRATE_ASYNC && !k->contended) {
		if (machine_trylock(k->c, &k->z->lock))
			return;
		k->contended = true;
	}
	machine_lock(k->c, &k->z->lock);
}

static bool target_suits(const struct compact *k, uint64_t p)
{
	uint64_t flags = frame_flags(frame_of(k->c->m, pfn(p)));

	frame_touch(k->c, frame_of(k->c->m, pfn(p)), TOUCH_READ);
	if (flags & FRAME_BUDDY && ((flags >> FRAME_ORDER_SHIFT) & 0xff) >= PAGEBLOCK_ORDER)
		return false; /* large enough as it is */
	return k->ignore_type || pageblock_type(k->z, p) == MIGRATE_MOVABLE;
}

/* Free blocks from p to the end of its pageblock, or until there are enough. Returns where to go on. */
ATTR_NOINLINE static uint64_t free_block(struct compact *k, uint64_t p, uint64_t end)
{
	enum machine_path prev = machine_work(k->c, PATH_COMPACT_SCAN, 0);
	uint64_t scanned = 0, taken = 0, n;
	unsigned order = 0;
	bool locked = false;

	for (; p < end && k->nr_freepages < k->nr_migratepages; p += n) {
		struct frame *f = frame_of(k->c->m, pfn(p));

		if (locked && !(scanned % COMPACT_CLUSTER)) {
			machine_unlock(k->c, &k->z->lock);
			locked = false;
			if (compact_should_abort(k))
				break;
		}
		if (!locked) {
			lock_zone(k);
			locked = true;
		}
		(void)machine_work(k->c, PATH_COMPACT_SCAN, 1);
		frame_touch(k->c, f, TOUCH_READ);
		scanned++;
		uint64_t flags = frame_flags(f);

		n = 1;
		if (!(flags & FRAME_BUDDY)) {
			order = (unsigned)(flags >> FRAME_ORDER_SHIFT) & 0xff;
			if (flags & FRAME_HEAD && order <= MAX_ORDER)
				n = 1ULL << order;
			continue;
		}
		n = isolate_free_block(k->c, k->z, p, &order);
		if (!n)
			break; /* the watermark */
		list_add_tail(&f->lru, &k->freepages[order]);
		/* Nobody looks at it but us, and we want its order back. */
		frame_flags_put(f, frame_flags(f) | (uint64_t)order << FRAME_ORDER_SHIFT);
		k->nr_freepages += n;
		taken += n;
	}
	if (locked)
		machine_unlock(k->c, &k->z->lock);
	k->free_scanned += scanned;
	vmstat_add(k->c, VM_compact_free_scanned, (int64_t)scanned);
	vmstat_add(k->c, VM_compact_isolated, (int64_t)taken);
	machine_path(k->c, prev);
	return MIN(p, end);
}

/* A pageblock that was gone through to its end. */
static void free_block_done(struct compact *k, uint64_t start)
{
	uint64_t next = start > PAGEBLOCK_FRAMES ? start - PAGEBLOCK_FRAMES : 0, *cached = &k->z->compact.free_pfn;

	if (k->ignore_skip)
		return;
	(void)set_skip(k, MAX(start, k->start));
	if (next < __atomic_load_n(cached, __ATOMIC_RELAXED))
		__atomic_store_n(cached, next, __ATOMIC_RELAXED);
}

ATTR_NOINLINE void isolate_freepages(struct compact *k)
{
	enum machine_path prev = machine_work(k->c, PATH_COMPACT, 0);
	uint64_t low = pageblock_start(k->migrate_pfn) + PAGEBLOCK_FRAMES, p = k->free_pfn;

	/* The pageblock of the other scanner is not for this one. */
	while (p >= low && !k->contended) {
		uint64_t start = pageblock_start(p), end = MIN(start + PAGEBLOCK_FRAMES, k->end);

		(void)machine_work(k->c, PATH_COMPACT, 1);
		if (target_suits(k, start) && !skip_bit(k, start)) {
			p = free_block(k, p, end);
			if (p == end)
				free_block_done(k, start);
			else
				break; /* enough, or the lock, or the watermark */
		}
		p = start - PAGEBLOCK_FRAMES; /* at least low - a pageblock, so not below 0 */
		if (k->nr_freepages >= k->nr_migratepages)
			break;
	}
	k->free_pfn = p;
	machine_path(k->c, prev);
}

/* Off its list; the smallest that will do, cut down to size. NULL: none. */
static struct frame *take_free(struct compact *k, unsigned order)
{
	for (unsigned o = order; o <= MAX_ORDER; o++) {
		if (list_empty(&k->freepages[o]))
			continue;
		struct frame *f = list_first_entry(&k->freepages[o], struct frame, lru);

		list_del(&f->lru);
		while (o > order) {
			o--;
			split_free_block(k->c, f, o + 1, o);
			frame_flags_put(f + (1ULL << o), frame_flags(f + (1ULL << o)) | (uint64_t)o << FRAME_ORDER_SHIFT);
			list_add(&f[1ULL << o].lru, &k->freepages[o]);
		}
		k->nr_freepages -= 1ULL << order;
		return f;
	}
	return NULL;
}

struct frame *compact_take_target(struct cpu *c, const struct frame *src, void *arg)
{
	struct compact *k = arg;
	bool large = frame_nr_pages(src) > 1;
	unsigned order = large ? frame_order(src) : 0;
	struct frame *f = take_free(k, order);

	if (!f) {
		isolate_freepages(k);
		f = take_free(k, order);
	}
	if (!f)
		return NULL;
	frame_prep(c, f, order, large);
	k->nr_migratepages -= MIN(k->nr_migratepages, 1ULL << order);
	return f;
}

void compact_put_target(struct cpu *c, struct frame *dst, void *arg)
{
	struct compact *k = arg;
	unsigned order = frame_order(dst);

	frame_touch(c, dst, TOUCH_ATOMIC);
	k->nr_migratepages += 1ULL << order;
	if (__atomic_sub_fetch(&dst->refcount, 1, __ATOMIC_ACQ_REL))
		return; /* somebody who looked at it puts it */
	frame_unprep(c, dst, order);
	frame_flags_put(dst, frame_flags(dst) | (uint64_t)order << FRAME_ORDER_SHIFT);
	list_add(&dst->lru, &k->freepages[order]);
	k->nr_freepages += 1ULL << order;
}

uint64_t release_freepages(struct compact *k)
{
	uint64_t high = 0;

	machine_lock(k->c, &k->z->lock);
	for (unsigned o = 0; o <= MAX_ORDER; o++) {
		while (!list_empty(&k->freepages[o])) {
			struct frame *f = list_first_entry(&k->freepages[o], struct frame, lru);

			list_del(&f->lru);
			high = MAX(high, frame_pfn(k->c->m, f).v);
			frame_flags_put(f, frame_flags(f) & (FRAME_PLACE_MASK | FRAME_FRESH));
			buddy_free(k->c, k->z, f, o);
		}
	}
	machine_unlock(k->c, &k->z->lock);
	k->nr_freepages = 0;
	return high;
}
