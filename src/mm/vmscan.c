/*
 * Which pages go when memory is short: a node's lists, after Linux's (6.12, without multi-gen LRU).
 *
 * Active pages that were not used since they were last looked at become inactive; inactive ones that were not used go (reclaim.c), those
 * that were become active or get another round. How many of each list are looked at follows from the priority and, between anonymous
 * pages and files, from vm.swappiness and from what reclaim of each has cost of late: writes, and pages that turned out to be
 * wanted. Without swap only files' lists are looked at.
 *
 * A list is looked at in batches, which are isolated under its lock and worked on without it. So others may have many isolated while it
 * looks empty: then a request waits a while (too_many_isolated).
 */
#include "mm/lru_int.h"
#include "mm/reclaim.h"
#include "mm/rmap_walk.h"
#include "mm/swap.h"

#define ISOLATED_WAIT_NS 20000000ULL /* for others to put back what they have */
#define SHRINK_BATCH 128U            /* huge pages to split are taken off the queue so many at once */
#define SEEKS 2U

static uint64_t size_of(const struct lruvec *lv, enum lru_list l)
{
	return __atomic_load_n(&lv->size[l], __ATOMIC_RELAXED);
}

/* Of zones that help. */
static uint64_t size_for(const struct lruvec *lv, enum lru_list l, const struct scan_control *sc)
{
	uint64_t n = 0;

	for (unsigned z = 0; z <= sc->highest; z++)
		n += __atomic_load_n(&lv->zone_size[z][l], __ATOMIC_RELAXED);
	return n;
}

uint64_t zone_reclaimable_pages(const struct quire *q, const struct zone *z)
{
	const uint64_t *size = q->nodes[z->nid].lruvec.zone_size[z->type];
	uint64_t n = __atomic_load_n(&size[LRU_INACTIVE_FILE], __ATOMIC_RELAXED) + __atomic_load_n(&size[LRU_ACTIVE_FILE], __ATOMIC_RELAXED);

	if (swap_possible(q))
		n += __atomic_load_n(&size[LRU_INACTIVE_ANON], __ATOMIC_RELAXED) + __atomic_load_n(&size[LRU_ACTIVE_ANON], __ATOMIC_RELAXED);
	return n;
}

static uint64_t isqrt(uint64_t n)
{
	uint64_t r = 0;

	for (uint64_t bit = 1ULL << 31; bit; bit >>= 1)
		if ((r | bit) * (r | bit) <= n)
			r |= bit;
	return r;
}

/* Too few to tell what is used from what is not: 1 inactive for each active page below 1 GiB, 1 for 3 at 1 GiB, 1 for 10 at 10. */
static bool inactive_is_low(const struct lruvec *lv, enum lru_list inactive, const struct scan_control *sc)
{
	uint64_t in = size_for(lv, inactive, sc), act = size_for(lv, (enum lru_list)(inactive + LRU_ACTIVE), sc);
	uint64_t gib = (in + act) >> (30 - PAGE_SHIFT);

	return in * (gib ? isqrt(10 * gib) : 1) < act;
}

static void note_cost(struct cpu *c, struct lruvec *lv, bool file, uint64_t nr_io, uint64_t nr_rotated)
{
	uint64_t all = 0, cost = nr_io * SWAP_CLUSTER_MAX + nr_rotated;

	if (!cost)
		return;
	machine_lock(c, &lv->lock);
	for (unsigned l = 0; l < LRU_UNEVICTABLE; l++)
		all += lv->size[l];
	__atomic_store_n(&lv->cost[file], lv->cost[file] + cost, __ATOMIC_RELAXED);
	if (lv->cost[0] + lv->cost[1] > all / 4) /* the past counts less and less */
		for (unsigned t = 0; t < NR_LRU_TYPES; t++)
			__atomic_store_n(&lv->cost[t], lv->cost[t] / 2, __ATOMIC_RELAXED);
	machine_unlock(c, &lv->lock);
}

/* ---- active pages ---- */

/* Used since it was last asked? A file's page needs its lock to be asked; one that can't be had now counts as used. */
static bool was_used(struct cpu *c, struct frame *f, uint64_t *vm_flags)
{
	bool file = !(frame_flags(f) & FRAME_ANON), used = false;

	*vm_flags = 0;
	if (!file)
		return folio_referenced(c, f, vm_flags) != 0;
	if (!folio_trylock(c, f))
		return true;
	if (frame_flags(f) & FRAME_FILE)
		used = folio_referenced(c, f, vm_flags) != 0;
	folio_unlock(c, f);
	return used;
}

ATTR_NOINLINE static void shrink_active_list(struct cpu *c, struct lruvec *lv, enum lru_list l, uint64_t nr, const struct scan_control *sc)
{
	enum machine_path prev = machine_work(c, PATH_RECLAIM, 0);
	uint64_t scanned, rotated = 0, deactivated = 0, vm_flags;
	struct list_head folios, done;

	list_init(&folios);
	list_init(&done);
	lru_add_drain(c);
	(void)lru_isolate_batch(c, lv, l, nr, sc->highest, &folios, &scanned);
	vmstat_add(c, VM_pgrefill, (int64_t)scanned);
	while (!list_empty(&folios)) {
		struct frame *f = list_first_entry(&folios, struct frame, lru);

		(void)machine_work(c, PATH_RECLAIM, 1);
		list_del(&f->lru);
		list_add(&f->lru, &done);
		if (!folio_evictable(f))
			continue;
		/* Programs' code that is used stays; all else has had its time as active. */
		if (was_used(c, f, &vm_flags) && (vm_flags & VM_EXEC) && folio_is_file_lru(f)) {
			rotated += frame_nr_pages(f);
			continue;
		}
		frame_clear(f, FRAME_ACTIVE);
		frame_set(f, FRAME_WORKINGSET);
		deactivated += frame_nr_pages(f);
	}
	lru_putback_list(c, &done, false);
	vmstat_add(c, VM_pgdeactivate, (int64_t)deactivated);
	note_cost(c, lv, lru_is_file(l), 0, rotated);
	machine_path(c, prev);
}

/* ---- inactive pages ---- */

/* kswapd goes on whatever others have; a request that may not wait for I/O goes first. */
static bool too_many_isolated(const struct lruvec *lv, bool file, const struct scan_control *sc)
{
	uint64_t inactive = size_of(lv, file ? LRU_INACTIVE_FILE : LRU_INACTIVE_ANON);

	if (sc->kswapd)
		return false;
	if ((sc->gfp & (GFP_IO | GFP_FS)) == (GFP_IO | GFP_FS))
		inactive >>= 3;
	return __atomic_load_n(&lv->isolated[file], __ATOMIC_RELAXED) > inactive;
}

/* Nothing could be freed since it is being written: to look again before the end of that would be in vain. */
static void wait_for_writes(struct cpu *c, const struct reclaim_stat *stat)
{
	uint64_t now;

	if (!c->current || !stat->in_transfer || stat->reclaimed)
		return;
	now = machine_now_ns(c);
	if (stat->done_ns > now)
		c->m->ops->sleep_ns(c, stat->done_ns - now);
}

ATTR_NOINLINE static uint64_t shrink_inactive_list(struct cpu *c, struct lruvec *lv, enum lru_list l, uint64_t nr, struct scan_control *sc)
{
	bool file = lru_is_file(l);
	struct reclaim_stat stat = { 0 };
	struct list_head folios;
	uint64_t scanned;

	if (too_many_isolated(lv, file, sc)) {
		if (c->current)
			c->m->ops->sleep_ns(c, ISOLATED_WAIT_NS);
		if (too_many_isolated(lv, file, sc))
			return 0;
	}
	list_init(&folios);
	lru_add_drain(c);
	(void)lru_isolate_batch(c, lv, l, nr, sc->highest, &folios, &scanned);
	vmstat_add(c, sc->kswapd ? VM_pgscan_kswapd : VM_pgscan_direct, (int64_t)scanned);
	vmstat_add(c, file ? VM_pgscan_file : VM_pgscan_anon, (int64_t)scanned);
	sc->nr_scanned += scanned;
	if (list_empty(&folios))
		return 0;
	(void)reclaim_folio_list(c, &folios, sc, &stat);
	vmstat_add(c, sc->kswapd ? VM_pgsteal_kswapd : VM_pgsteal_direct, (int64_t)stat.reclaimed);
	vmstat_add(c, file ? VM_pgsteal_file : VM_pgsteal_anon, (int64_t)stat.reclaimed);
	note_cost(c, lv, file, stat.pageout, scanned - MIN(scanned, stat.reclaimed));
	wait_for_writes(c, &stat);
	return stat.reclaimed;
}

/* ---- how much of each ---- */

static void prepare(const struct node *n, struct scan_control *sc)
{
	const struct lruvec *lv = &n->lruvec;
	uint64_t file = size_of(lv, LRU_INACTIVE_FILE), anon = size_of(lv, LRU_INACTIVE_ANON), free = 0, high = 0;

	for (unsigned t = 0; t < NR_LRU_TYPES; t++)
		sc->deactivate[t] = sc->force_deactivate || inactive_is_low(lv, (enum lru_list)(t ? LRU_FILE : 0), sc);
	/* So much of files that nobody uses: these first. */
	sc->cache_trim_mode = file >> sc->priority && !sc->deactivate[1];
	for (unsigned t = 0; t < NR_ZONES; t++) {
		free += __atomic_load_n(&n->zones[t].free_pages, __ATOMIC_RELAXED);
		high += zone_wmark_pages(&n->zones[t], WMARK_HIGH);
	}
	/* So little of files that taking them too would not help: anonymous pages only. */
	sc->file_is_tiny = file + size_of(lv, LRU_ACTIVE_FILE) + free <= high && !sc->deactivate[0] && anon >> sc->priority;
}

enum scan_balance { SCAN_EQUAL, SCAN_FRACT, SCAN_ANON, SCAN_FILE };

static void get_scan_count(const struct quire *q, const struct lruvec *lv, const struct scan_control *sc, uint64_t nr[NR_LRU_LISTS])
{
	uint64_t swappiness = q->knobs.swappiness, part[NR_LRU_TYPES] = { 1, 1 }, sum = 1;
	enum scan_balance balance = SCAN_FRACT;

	if (!sc->may_swap || !swap_possible(q))
		balance = SCAN_FILE;
	else if (!sc->priority && swappiness)
		balance = SCAN_EQUAL;
	else if (sc->file_is_tiny)
		balance = SCAN_ANON;
	else if (sc->cache_trim_mode)
		balance = SCAN_FILE;
	if (balance == SCAN_FRACT) {
		uint64_t anon = __atomic_load_n(&lv->cost[0], __ATOMIC_RELAXED), file = __atomic_load_n(&lv->cost[1], __ATOMIC_RELAXED);
		uint64_t total = anon + file;

		/* What costs less is looked at more, but the cheaper one never more than three times as often. */
		anon += total;
		file += total;
		total = anon + file;
		part[0] = swappiness * (total + 1) / (anon + 1);
		part[1] = (200 - swappiness) * (total + 1) / (file + 1);
		sum = part[0] + part[1];
	}
	for (unsigned l = 0; l < LRU_UNEVICTABLE; l++) {
		bool file = lru_is_file((enum lru_list)l);

		nr[l] = size_for(lv, (enum lru_list)l, sc) >> sc->priority;
		if (balance == SCAN_FRACT)
			nr[l] = nr[l] * part[file] / sum; /* part is 600 at most */
		else if (balance != SCAN_EQUAL && (balance == SCAN_FILE) != file)
			nr[l] = 0;
	}
}

static uint64_t shrink_list(struct cpu *c, struct lruvec *lv, enum lru_list l, uint64_t nr, struct scan_control *sc)
{
	if (!lru_is_active(l))
		return shrink_inactive_list(c, lv, l, nr, sc);
	if (sc->deactivate[lru_is_file(l)])
		shrink_active_list(c, lv, l, nr, sc);
	else
		sc->skipped_deactivate = true;
	return 0;
}

/*
 * Enough has been freed: what is left to look at shrinks so that both kinds have been looked at in the proportion that was
 * meant, and the one with less left of it ends now. false: both end.
 */
static bool keep_proportion(uint64_t nr[NR_LRU_LISTS], const uint64_t target[NR_LRU_LISTS])
{
	uint64_t anon = nr[LRU_INACTIVE_ANON] + nr[LRU_ACTIVE_ANON], file = nr[LRU_INACTIVE_FILE] + nr[LRU_ACTIVE_FILE];
	unsigned less = file > anon ? LRU_INACTIVE_ANON : LRU_INACTIVE_FILE, more = LRU_FILE - less;
	uint64_t left;

	if (!anon || !file)
		return false;
	left = MIN(anon, file) * 100 / (target[less] + target[less + LRU_ACTIVE] + 1);
	nr[less] = nr[less + LRU_ACTIVE] = 0;
	for (unsigned l = more; l <= more + LRU_ACTIVE; l++) {
		uint64_t done = target[l] - nr[l], want = target[l] * (100 - left) / 100;

		nr[l] = want - MIN(want, done);
	}
	return true;
}

static void shrink_lruvec(struct cpu *c, struct lruvec *lv, struct scan_control *sc)
{
	uint64_t nr[NR_LRU_LISTS] = { 0 }, target[NR_LRU_LISTS], freed = 0;
	/* A request at the first priority takes what it is given by all lists: others are at it too, most likely. */
	bool proportional = !sc->kswapd && sc->priority == DEF_PRIORITY;

	get_scan_count(c->q, lv, sc, nr);
	for (unsigned l = 0; l < NR_LRU_LISTS; l++)
		target[l] = nr[l];
	while (nr[LRU_INACTIVE_ANON] || nr[LRU_ACTIVE_FILE] || nr[LRU_INACTIVE_FILE]) {
		for (unsigned l = 0; l < LRU_UNEVICTABLE; l++) {
			uint64_t n = MIN(nr[l], SWAP_CLUSTER_MAX);

			nr[l] -= n;
			if (n)
				freed += shrink_list(c, lv, (enum lru_list)l, n, sc);
		}
		if (freed >= sc->nr_to_reclaim && !proportional) {
			if (!keep_proportion(nr, target))
				break;
			proportional = true;
		}
	}
	sc->nr_reclaimed += freed;
	if (sc->may_swap && swap_possible(c->q) && inactive_is_low(lv, LRU_INACTIVE_ANON, sc))
		shrink_active_list(c, lv, LRU_ACTIVE_ANON, SWAP_CLUSTER_MAX, sc);
}

/* ---- huge pages of which parts are mapped by nobody ---- */

/* What splitting frees goes by the ends of the parts' mappings: it is progress of the next look at the lists. */
static void shrink_slab(struct cpu *c, int nid, const struct scan_control *sc)
{
	struct node *n = &c->q->nodes[nid];
	uint64_t freeable = deferred_split_count(c->q, nid), total, before;

	if (!freeable)
		return;
	before = __atomic_exchange_n(&n->shrink_deferred, 0, __ATOMIC_RELAXED);
	total = (before >> sc->priority) + (freeable >> sc->priority) * 4 / SEEKS;
	total = MIN(total, 2 * freeable);
	for (uint64_t left = total; left >= SHRINK_BATCH || left >= freeable; left -= MIN(left, SHRINK_BATCH)) {
		uint64_t nr = MIN(left, SHRINK_BATCH);

		(void)deferred_split_scan(c, nid, nr);
		vmstat_add(c, VM_slabs_scanned, (int64_t)nr);
		total -= nr;
	}
	/* What was too little to begin with adds up. */
	__atomic_add_fetch(&n->shrink_deferred, MIN(before - MIN(before, before >> sc->priority) + total, 2 * freeable), __ATOMIC_RELAXED);
}

void shrink_node(struct cpu *c, int nid, struct scan_control *sc)
{
	struct node *n = &c->q->nodes[nid];
	uint64_t before = sc->nr_reclaimed;

	prepare(n, sc);
	shrink_lruvec(c, &n->lruvec, sc);
	shrink_slab(c, nid, sc);
	if (sc->nr_reclaimed > before)
		__atomic_store_n(&n->kswapd_failures, 0, __ATOMIC_RELAXED);
}
