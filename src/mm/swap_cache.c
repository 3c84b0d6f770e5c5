/*
 * The swap cache: which folio has the contents of a slot. swap.h has the invariants W1 to W4.
 *
 * Trees by slot (radix.h), one for each 64 MiB, which name each page of a folio. Whoever looks takes no lock where it finds a base page:
 * it gets a reference if there is one already, and looks again. Whoever takes a folio out, puts another in its place, or splits it makes
 * the references 0 first, with the tree's lock; whoever is refused by that, or finds a part of a huge page, looks under the lock.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/radix.h"
#include "mm/rmap_walk.h"
#include "mm/swap.h"

/* What a folio has only in the cache. */
#define SWAP_FLAGS (FRAME_SWAPCACHE | FRAME_WRITEBACK | FRAME_READING | FRAME_IO_ERROR | FRAME_READAHEAD)

static struct swap_space *space_of(const struct cpu *c, uint64_t slot)
{
	return &c->q->swap.space[slot >> SWAP_SPACE_SHIFT];
}

static uint64_t index_of(uint64_t slot)
{
	return slot & ((1ULL << SWAP_SPACE_SHIFT) - 1);
}

static void set_slot(struct frame *folio, uint64_t slot)
{
	(frame_flags(folio) & FRAME_HEAD ? folio + 1 : folio)->swap_slot = slot;
}

/* ---- lookup ---- */

static struct frame *get_locked(struct cpu *c, struct swap_space *s, uint64_t slot)
{
	struct frame *f, *head = NULL;

	machine_lock(c, &s->lock);
	f = radix_lookup(c, &s->root, index_of(slot));
	if (f) {
		head = frame_head(c->m, f);
		frame_get(c, head); /* the cache's own references keep it while we have the lock */
	}
	machine_unlock(c, &s->lock);
	return head;
}

ATTR_NOINLINE struct frame *swap_cache_get(struct cpu *c, uint64_t slot)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_CACHE, 1);
	struct swap_space *s = space_of(c, slot);
	struct frame *f = radix_lookup(c, &s->root, index_of(slot));

	if (f && ((frame_flags(f) & (FRAME_TAIL | FRAME_HEAD)) || !frame_tryget(c, f))) {
		f = get_locked(c, s, slot);
	} else if (f && radix_lookup(c, &s->root, index_of(slot)) != f) {
		frame_put(c, f);
		f = get_locked(c, s, slot);
	}
	machine_path(c, prev);
	return f;
}

bool swap_in_core(struct cpu *c, uint64_t slot)
{
	struct frame *folio = swap_cache_get(c, slot);
	bool in = folio && !(frame_flags(folio) & FRAME_IO_ERROR) && !folio_in_transfer(c, folio);

	if (folio)
		frame_put(c, folio);
	return in;
}

/* ---- in ---- */

static void erase(struct cpu *c, struct swap_space *s, uint64_t slot, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		if (!radix_erase(c, &s->root, index_of(slot + i)))
			quire_bug(__FILE__, __LINE__, "a folio of the swap cache is in its tree");
}

/* Up to a node's worth at a time, so that its nodes are at hand before the lock is taken. How many got in. */
static uint64_t insert_some(struct cpu *c, struct swap_space *s, struct frame *page, uint64_t slot, uint64_t nr)
{
	uint64_t n = 0;

	if (radix_preload(c))
		return 0;
	machine_lock(c, &s->lock);
	while (n < nr && !radix_insert(c, &s->root, index_of(slot + n), page + n))
		n++;
	machine_unlock(c, &s->lock);
	return n;
}

ATTR_NOINLINE int swap_cache_add(struct cpu *c, struct frame *folio, uint64_t slot)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_CACHE, 1);
	struct swap_space *s = space_of(c, slot);
	uint64_t nr = frame_nr_pages(folio), done = 0, n = 1;

	ASSERT(folio_locked(folio) && !(frame_flags(folio) & FRAME_SWAPCACHE));
	frame_touch(c, folio, TOUCH_ATOMIC);
	__atomic_add_fetch(&folio->refcount, (int32_t)nr, __ATOMIC_RELAXED);
	set_slot(folio, slot);
	frame_set(folio, FRAME_SWAPCACHE);
	for (; done < nr && n; done += n)
		n = insert_some(c, s, folio + done, slot + done, MIN(nr - done, (uint64_t)RADIX_SLOTS));
	if (done == nr) {
		vmstat_add(c, VM_nr_swapcached, (int64_t)nr);
	} else {
		machine_lock(c, &s->lock);
		erase(c, s, slot, done);
		frame_clear(folio, FRAME_SWAPCACHE);
		set_slot(folio, 0);
		machine_unlock(c, &s->lock);
		__atomic_sub_fetch(&folio->refcount, (int32_t)nr, __ATOMIC_RELEASE);
	}
	machine_path(c, prev);
	return done == nr ? 0 : -ENOMEM;
}

int folio_add_to_swap(struct cpu *c, struct frame *folio)
{
	uint64_t slot, nr = frame_nr_pages(folio);

	ASSERT(folio_locked(folio) && (frame_flags(folio) & FRAME_ANON));
	int rc = swap_alloc(c, (unsigned)nr, &slot);

	if (rc)
		return rc;
	rc = swap_cache_add(c, folio, slot);
	if (rc)
		swap_unclaim_cache(c, slot, nr);
	else
		frame_set(folio, FRAME_DIRTY); /* its slots have never been written */
	return rc;
}

/* ---- out ---- */

/* The tree's lock held, which goes. Nobody can find it any more, and what it was in the cache is forgotten. */
static void take_out(struct cpu *c, struct swap_space *s, struct frame *folio, uint64_t slot, uint64_t nr)
{
	erase(c, s, slot, nr);
	set_slot(folio, 0);
	frame_clear(folio, SWAP_FLAGS);
	machine_unlock(c, &s->lock);
	vmstat_add(c, VM_nr_swapcached, -(int64_t)nr);
}

ATTR_NOINLINE void swap_cache_delete(struct cpu *c, struct frame *folio)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_CACHE, 1);
	uint64_t slot = folio_swap_slot(folio), nr = frame_nr_pages(folio);
	struct swap_space *s = space_of(c, slot);

	ASSERT(folio_locked(folio) && (frame_flags(folio) & FRAME_SWAPCACHE) && !folio_in_transfer(c, folio));
	machine_lock(c, &s->lock);
	take_out(c, s, folio, slot, nr);
	swap_unclaim_cache(c, slot, nr);
	frame_touch(c, folio, TOUCH_ATOMIC);
	int32_t left = __atomic_sub_fetch(&folio->refcount, (int32_t)nr, __ATOMIC_ACQ_REL);

	ASSERT(left > 0);
	machine_path(c, prev);
}

static bool any_entry(const struct quire *q, uint64_t slot, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++)
		if (swap_count(q, slot + i))
			return true;
	return false;
}

bool folio_free_swap(struct cpu *c, struct frame *folio)
{
	uint64_t nr = frame_nr_pages(folio);

	if (!(frame_flags(folio) & FRAME_SWAPCACHE) || folio_in_transfer(c, folio) || any_entry(c->q, folio_swap_slot(folio), nr))
		return false;
	swap_cache_delete(c, folio);
	frame_set(folio, FRAME_DIRTY); /* nothing else has its contents now */
	return true;
}

/* From the expected number of references to 0. The tree's lock is held: no lookup gets one by force. */
static bool freeze(struct cpu *c, struct frame *folio, uint64_t nr)
{
	int32_t expected = (int32_t)nr + 1;

	frame_touch(c, folio, TOUCH_ATOMIC);
	return __atomic_compare_exchange_n(&folio->refcount, &expected, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

ATTR_NOINLINE bool swap_cache_remove(struct cpu *c, struct frame *folio)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_CACHE, 1);
	uint64_t slot = folio_swap_slot(folio), nr = frame_nr_pages(folio);
	struct swap_space *s = space_of(c, slot);
	bool done = false;

	ASSERT(folio_locked(folio) && (frame_flags(folio) & FRAME_SWAPCACHE));
	if (!folio_in_transfer(c, folio)) {
		machine_lock(c, &s->lock);
		done = freeze(c, folio, nr);
		/* Whoever dirtied it had a reference: so only now is it known. */
		if (done && (frame_flags(folio) & FRAME_DIRTY)) {
			__atomic_store_n(&folio->refcount, (int32_t)nr + 1, __ATOMIC_RELEASE);
			done = false;
		}
		if (done) {
			take_out(c, s, folio, slot, nr);
			__atomic_store_n(&folio->refcount, 1, __ATOMIC_RELEASE);
			swap_unclaim_cache(c, slot, nr);
		} else {
			machine_unlock(c, &s->lock);
		}
	}
	machine_path(c, prev);
	return done;
}

ATTR_NOINLINE int swap_cache_replace(struct cpu *c, struct frame *src, struct frame *dst)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_CACHE, 1);
	uint64_t slot = folio_swap_slot(src), nr = frame_nr_pages(src);
	struct swap_space *s = space_of(c, slot);

	ASSERT(folio_locked(src) && folio_locked(dst) && frame_nr_pages(dst) == nr && !folio_in_transfer(c, src));
	machine_lock(c, &s->lock);
	bool done = freeze(c, src, nr);

	if (done) {
		frame_touch(c, dst, TOUCH_ATOMIC);
		__atomic_add_fetch(&dst->refcount, (int32_t)nr, __ATOMIC_RELAXED);
		set_slot(dst, slot);
		frame_set(dst, FRAME_SWAPCACHE | (frame_flags(src) & (FRAME_READAHEAD | FRAME_IO_ERROR)));
		for (uint64_t i = 0; i < nr; i++)
			radix_replace(c, &s->root, index_of(slot + i), dst + i);
		set_slot(src, 0);
		frame_clear(src, SWAP_FLAGS);
		__atomic_store_n(&src->refcount, 1, __ATOMIC_RELEASE);
	}
	machine_unlock(c, &s->lock);
	machine_path(c, prev);
	return done ? 0 : -EAGAIN;
}

/* ---- splits ---- */

void swap_cache_split_begin(struct cpu *c, struct frame *folio)
{
	if (frame_flags(folio) & FRAME_SWAPCACHE)
		machine_lock(c, &space_of(c, folio_swap_slot(folio))->lock);
}

/* Unsplit or split: base pages have their slot in their own descriptor by then (split.c). */
void swap_cache_split_end(struct cpu *c, struct frame *folio)
{
	if (frame_flags(folio) & FRAME_SWAPCACHE)
		machine_unlock(c, &space_of(c, folio_swap_slot(folio))->lock);
}

/* ---- letting go ---- */

void folio_try_free_swap(struct cpu *c, struct frame *folio)
{
	if (!(frame_flags(folio) & FRAME_SWAPCACHE) || folio_mapped(folio) || !folio_trylock(c, folio))
		return;
	if (!folio_mapped(folio))
		(void)folio_free_swap(c, folio);
	folio_unlock(c, folio);
}

void folio_put_swap(struct cpu *c, struct frame *folio)
{
	folio_try_free_swap(c, folio);
	frame_put(c, folio);
}

/* Folios that nobody could let go of at the time: under writeback, or locked. Then the trees. Nothing runs, so no transfer is waited for. */
void swap_shutdown(struct quire *q, struct cpu *c)
{
	struct swap_state *s = &q->swap;

	for (uint64_t i = 0; i << SWAP_SPACE_SHIFT < s->nr_slots; i++) {
		struct frame *f;

		for (uint64_t at = 0; (f = radix_next(c, &s->space[i].root, &at)); at++) {
			struct frame *head = frame_head(q->m, f);

			frame_get(c, head);
			folio_lock(c, head);
			frame_clear(head, FRAME_WRITEBACK | FRAME_READING);
			swap_cache_delete(c, head);
			folio_unlock(c, head);
			frame_put(c, head);
		}
		radix_free(c, &s->space[i].root);
	}
}
