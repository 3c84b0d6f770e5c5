/*
 * Slots of the swap device: the map, clusters, and who gets which.
 *
 *   a base page   the CPU's next slot, in the cluster that it took the last one from; when that is full a cluster of which nothing is used,
 *                 then the one that has had free slots for longest
 *   a huge page   a cluster of which nothing is used: its slots follow each other, so the page goes out and comes back as one transfer
 *
 * A cluster's `used` grows under the lists' lock and its own, and shrinks under its own. Whoever has made it shrink puts the cluster on the
 * list where it belongs by then, in a second step: so a list may be late, but the last one who comes sees the last state.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/alloc_int.h"
#include "mm/swap.h"
#include "mm/text.h"

int swap_boot(struct quire *q)
{
	struct swap_state *s = &q->swap;
	uint64_t clusters = q->m->swap_slots / SWAP_CLUSTER_SLOTS, nr = clusters * SWAP_CLUSTER_SLOTS;
	uint64_t spaces = (nr + (1ULL << SWAP_SPACE_SHIFT) - 1) >> SWAP_SPACE_SHIFT;

	list_init(&s->free);
	list_init(&s->some);
	if (!nr)
		return 0;
	s->map = boot_carve(q, 0, nr * sizeof(*s->map), CACHE_LINE);
	s->done_ns = boot_carve(q, 0, nr * sizeof(*s->done_ns), CACHE_LINE);
	s->cluster = boot_carve(q, 0, clusters * sizeof(*s->cluster), CACHE_LINE);
	s->space = boot_carve(q, 0, spaces * sizeof(*s->space), CACHE_LINE);
	s->next = boot_carve(q, 0, q->m->nr_cpus * sizeof(*s->next), CACHE_LINE);
	if (!s->map || !s->done_ns || !s->cluster || !s->space || !s->next) {
		struct text t = text_into(q->err, sizeof(q->err));

		text_str(&t, "node 0 is too small for the map of the swap device (12 bytes a page of it)");
		return -ENOMEM;
	}
	mlock_init(&s->lock, RANK_SWAP, machine_pa(q->m, &s->lock));
	for (uint64_t i = 0; i < clusters; i++) {
		struct swap_cluster *k = &s->cluster[i];

		mlock_init(&k->lock, RANK_SWAP_CLUSTER, machine_pa(q->m, &k->lock));
		list_add_tail(&k->link, &s->free);
		k->on = SWAP_LIST_FREE;
	}
	for (uint64_t i = 0; i < spaces; i++)
		mlock_init(&s->space[i].lock, RANK_SWAP_CACHE, machine_pa(q->m, &s->space[i].lock));
	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		s->next[i].slot = SWAP_NO_SLOT;
	s->nr_slots = s->nr_free = nr;
	return 0;
}

static uint64_t nr_free(const struct swap_state *s)
{
	return __atomic_load_n(&s->nr_free, __ATOMIC_RELAXED);
}

bool swap_possible(const struct quire *q)
{
	return nr_free(&q->swap) != 0;
}

bool swap_full(const struct quire *q)
{
	return 2 * nr_free(&q->swap) < q->swap.nr_slots;
}

void swap_sizes(const struct quire *q, uint64_t *ret_total, uint64_t *ret_free)
{
	*ret_total = q->swap.nr_slots;
	*ret_free = nr_free(&q->swap);
}

static struct swap_cluster *cluster_of(struct swap_state *s, uint64_t slot)
{
	ASSERT_DEBUG(slot < s->nr_slots);
	return &s->cluster[slot / SWAP_CLUSTER_SLOTS];
}

static void touch_words(struct cpu *c, uint64_t slot, uint64_t nr, enum touch_kind kind)
{
	machine_touch(c, machine_pa(c->m, &c->q->swap.map[slot]), nr * sizeof(uint32_t), kind);
}

/* Read without a lock too (swap_count): stores are whole. */
static void put_word(struct cpu *c, uint64_t slot, uint32_t word)
{
	__atomic_store_n(&c->q->swap.map[slot], word, __ATOMIC_RELEASE);
}

static uint32_t word_of(const struct quire *q, uint64_t slot)
{
	return __atomic_load_n(&q->swap.map[slot], __ATOMIC_ACQUIRE);
}

uint32_t swap_count(const struct quire *q, uint64_t slot)
{
	return word_of(q, slot) & ~SWAP_HAS_CACHE;
}

/* s->lock held: to the list that follows from what is used. */
static void relist(struct swap_state *s, struct swap_cluster *k)
{
	uint32_t used = __atomic_load_n(&k->used, __ATOMIC_RELAXED);
	uint8_t on = !used ? SWAP_LIST_FREE : used < SWAP_CLUSTER_SLOTS ? SWAP_LIST_SOME : SWAP_LIST_NONE;

	if (on == k->on)
		return;
	if (k->on != SWAP_LIST_NONE)
		list_del(&k->link);
	if (on != SWAP_LIST_NONE)
		list_add_tail(&k->link, on == SWAP_LIST_FREE ? &s->free : &s->some);
	__atomic_store_n(&k->on, on, __ATOMIC_RELAXED);
}

/* `freed` slots of the cluster are nobody's any more. No lock held. */
static void give_back(struct cpu *c, struct swap_cluster *k, uint32_t freed)
{
	struct swap_state *s = &c->q->swap;
	uint32_t used = __atomic_load_n(&k->used, __ATOMIC_RELAXED);

	if (!freed)
		return;
	__atomic_add_fetch(&s->nr_free, freed, __ATOMIC_RELAXED);
	if (used && __atomic_load_n(&k->on, __ATOMIC_RELAXED) == SWAP_LIST_SOME)
		return;
	machine_lock(c, &s->lock);
	machine_touch(c, machine_pa(c->m, k), sizeof(*k), TOUCH_WRITE);
	relist(s, k);
	machine_unlock(c, &s->lock);
}

/* s->lock held. Slots of the cluster, from `from` on and then from its start: the first that is free, taken, or SWAP_NO_SLOT. */
static uint64_t take_one(struct cpu *c, struct swap_cluster *k, uint64_t from)
{
	struct swap_state *s = &c->q->swap;
	uint64_t first = (uint64_t)(k - s->cluster) * SWAP_CLUSTER_SLOTS, slot = SWAP_NO_SLOT;

	machine_lock(c, &k->lock);
	for (unsigned i = 0; i < SWAP_CLUSTER_SLOTS && slot == SWAP_NO_SLOT && k->used < SWAP_CLUSTER_SLOTS; i++) {
		uint64_t at = first + (from - first + i) % SWAP_CLUSTER_SLOTS;

		if (!i || !(at % (CACHE_LINE / sizeof(uint32_t))))
			touch_words(c, at, 1, TOUCH_READ);
		if (!s->map[at])
			slot = at;
	}
	if (slot != SWAP_NO_SLOT) {
		touch_words(c, slot, 1, TOUCH_WRITE);
		put_word(c, slot, SWAP_HAS_CACHE);
		__atomic_store_n(&k->used, k->used + 1, __ATOMIC_RELAXED);
	}
	machine_unlock(c, &k->lock);
	relist(s, k);
	return slot;
}

static struct swap_cluster *first_of(struct list_head *l)
{
	return list_empty(l) ? NULL : list_first_entry(l, struct swap_cluster, link);
}

/* s->lock held. */
static uint64_t alloc_one(struct cpu *c)
{
	struct swap_state *s = &c->q->swap;
	struct swap_next *next = &s->next[c->id];
	uint64_t slot = SWAP_NO_SLOT;
	struct swap_cluster *k;

	machine_touch(c, machine_pa(c->m, next), sizeof(*next), TOUCH_WRITE);
	if (next->slot != SWAP_NO_SLOT)
		slot = take_one(c, cluster_of(s, next->slot), next->slot);
	while (slot == SWAP_NO_SLOT && ((k = first_of(&s->free)) || (k = first_of(&s->some))))
		slot = take_one(c, k, (uint64_t)(k - s->cluster) * SWAP_CLUSTER_SLOTS);
	/* The next one of the cluster; after the last its first, which is free if anything is. */
	next->slot = slot;
	if (slot != SWAP_NO_SLOT)
		next->slot += (slot + 1) % SWAP_CLUSTER_SLOTS ? 1 : 1 - (uint64_t)SWAP_CLUSTER_SLOTS;
	return slot;
}

/* s->lock held. */
static uint64_t alloc_cluster(struct cpu *c)
{
	struct swap_state *s = &c->q->swap;
	struct swap_cluster *k = first_of(&s->free);

	if (!k)
		return SWAP_NO_SLOT;
	uint64_t slot = (uint64_t)(k - s->cluster) * SWAP_CLUSTER_SLOTS;

	machine_lock(c, &k->lock);
	ASSERT(!k->used);
	touch_words(c, slot, SWAP_CLUSTER_SLOTS, TOUCH_WRITE);
	for (unsigned i = 0; i < SWAP_CLUSTER_SLOTS; i++)
		put_word(c, slot + i, SWAP_HAS_CACHE);
	__atomic_store_n(&k->used, SWAP_CLUSTER_SLOTS, __ATOMIC_RELAXED);
	machine_unlock(c, &k->lock);
	relist(s, k);
	return slot;
}

ATTR_NOINLINE int swap_alloc(struct cpu *c, unsigned nr, uint64_t *ret_slot)
{
	struct swap_state *s = &c->q->swap;
	enum machine_path prev = machine_work(c, PATH_SWAP_SLOT, 1);
	uint64_t slot = SWAP_NO_SLOT;

	ASSERT(nr == 1 || nr == SWAP_CLUSTER_SLOTS);
	if (nr_free(s) >= nr) {
		machine_lock(c, &s->lock);
		slot = nr == 1 ? alloc_one(c) : alloc_cluster(c);
		if (slot != SWAP_NO_SLOT)
			__atomic_sub_fetch(&s->nr_free, nr, __ATOMIC_RELAXED);
		machine_unlock(c, &s->lock);
	}
	*ret_slot = slot;
	machine_path(c, prev);
	return slot == SWAP_NO_SLOT ? -ENOSPC : 0;
}

/* The cluster's lock, with the slot's line. */
static struct swap_cluster *lock_slot(struct cpu *c, uint64_t slot, uint64_t nr)
{
	struct swap_cluster *k = cluster_of(&c->q->swap, slot);

	machine_lock(c, &k->lock);
	touch_words(c, slot, nr, TOUCH_WRITE);
	return k;
}

void swap_duplicate(struct cpu *c, uint64_t slot)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_SLOT, 1);
	struct swap_cluster *k = lock_slot(c, slot, 1);
	uint32_t word = word_of(c->q, slot);

	ASSERT(word && (word & ~SWAP_HAS_CACHE) != ~SWAP_HAS_CACHE);
	put_word(c, slot, word + 1);
	machine_unlock(c, &k->lock);
	machine_path(c, prev);
}

uint32_t swap_put(struct cpu *c, uint64_t slot)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_SLOT, 1);
	struct swap_cluster *k = lock_slot(c, slot, 1);
	uint32_t word = word_of(c->q, slot);

	ASSERT(word & ~SWAP_HAS_CACHE);
	put_word(c, slot, --word);
	if (!word)
		__atomic_store_n(&k->used, k->used - 1, __ATOMIC_RELAXED);
	machine_unlock(c, &k->lock);
	give_back(c, k, !word);
	machine_path(c, prev);
	return word;
}

void swap_free_entry(struct cpu *c, uint64_t slot)
{
	if (swap_put(c, slot) != SWAP_HAS_CACHE)
		return;
	struct frame *folio = swap_cache_get(c, slot);

	if (folio)
		folio_put_swap(c, folio);
}

int swap_claim_cache(struct cpu *c, uint64_t slot)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_SLOT, 1);
	struct swap_cluster *k = lock_slot(c, slot, 1);
	uint32_t word = word_of(c->q, slot);
	int rc = !word ? -ENOENT : word & SWAP_HAS_CACHE ? -EEXIST : 0;

	if (!rc)
		put_word(c, slot, word | SWAP_HAS_CACHE);
	machine_unlock(c, &k->lock);
	machine_path(c, prev);
	return rc;
}

void swap_unclaim_cache(struct cpu *c, uint64_t slot, uint64_t nr)
{
	enum machine_path prev = machine_work(c, PATH_SWAP_SLOT, 1);
	struct swap_cluster *k = lock_slot(c, slot, nr);
	uint32_t freed = 0;

	for (uint64_t i = 0; i < nr; i++) {
		uint32_t word = word_of(c->q, slot + i);

		ASSERT(word & SWAP_HAS_CACHE);
		put_word(c, slot + i, word & ~SWAP_HAS_CACHE);
		freed += word == SWAP_HAS_CACHE;
	}
	__atomic_store_n(&k->used, k->used - freed, __ATOMIC_RELAXED);
	machine_unlock(c, &k->lock);
	give_back(c, k, freed);
	machine_path(c, prev);
}
