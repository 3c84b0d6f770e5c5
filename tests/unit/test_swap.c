/*
 * Swap on the null machine, step by step: out and back, who owns a page that came back, counts at fork, what calls do to swap entries,
 * huge pages, slots that run out, transfers that fail, readahead.
 */
#include "swap_testing.h"

#include "mm/gup.h"
#include "mm/migrate.h"
#include "mm/smaps.h"
#include "mm/split.h"

#define NR 20U
#define SLOTS_1M (MIB >> PAGE_SHIFT)

static struct mm *filled(struct world *w, unsigned nr)
{
	struct mm *mm = mm_new(w);

	map_at(w, mm, AREA, PAGES(nr), RW);
	for (unsigned i = 0; i < nr; i++)
		store(w, AREA + PAGES(i), 100 + i);
	return mm;
}

static void out_all(struct world *w, struct mm *mm, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++)
		assert_ok(swap_out(w, mm, AREA + PAGES(i), STEP_DROP));
}

static void test_out_and_back(void **state)
{
	struct world *w = swap_world(2, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, NR);

	(void)state;
	w->q->knobs.page_cluster = 0;
	uint64_t free_before = world_free(w);

	out_all(w, mm, NR);
	assert_int_equal(swap_used(w), NR);
	assert_int_equal(mm->swapents, NR);
	assert_int_equal(mm_rss(mm, RSS_ANON), 0);
	assert_int_equal(count_of(w, VM_pswpout), NR);
	assert_int_equal(count_of(w, VM_nr_swapcached), 0);
	assert_true(world_free(w) >= free_before + NR - 4); /* nodes of the cache's tree stay */
	world_check(w);
	for (unsigned i = 0; i < NR; i++) {
		struct mm_page_info p = info(mm, AREA + PAGES(i));

		assert_true(p.swapped && !p.present && p.exclusive);
		assert_int_equal(p.slot, i);
	}
	/* Read: mapped for writing, since it is this mapping's alone, but clean; its slot keeps the contents. */
	for (unsigned i = 0; i < NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
	struct mm_page_info p = info(mm, AREA);

	assert_true(p.present && p.writable && p.exclusive && !p.dirty);
	assert_int_equal(count_of(w, VM_pswpin), NR);
	assert_int_equal(count_of(w, VM_pgmajfault), NR);
	assert_int_equal(count_of(w, VM_quire_fault_swap), NR);
	assert_int_equal(count_of(w, VM_nr_swapcached), NR);
	assert_int_equal(mm->swapents, 0);
	assert_int_equal(swap_used(w), NR);
	world_check(w);
	/* Out again: only what was written since is written. */
	store(w, AREA + PAGES(3), 7);
	out_all(w, mm, NR);
	assert_int_equal(count_of(w, VM_pswpout), NR + 1);
	assert_int_equal(load(w, AREA + PAGES(3)), 7);
	assert_int_equal(load(w, AREA + PAGES(4)), 104);
	/* A write that brings the page back frees its slot at once. */
	store(w, AREA + PAGES(5), 8);
	assert_false(frame_flags(swap_folio_at(w, mm, AREA + PAGES(5))) & FRAME_SWAPCACHE);
	assert_int_equal(swap_used(w), NR - 1);
	check_fault_sum(w);
	mm_end(w, mm);
	assert_int_equal(swap_used(w), 0);
	swap_world_end(w);
}

/* Found in the cache: no transfer, not major. Whatever step was reached. */
static void test_found_in_the_cache(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 3);
	uint8_t vec[3];

	(void)state;
	assert_ok(swap_out(w, mm, AREA, STEP_SLOTS));
	assert_true(info(mm, AREA).present);
	world_check(w);
	store(w, AREA, 1); /* still its own, so no fault */
	assert_int_equal(count_of(w, VM_quire_fault_swap), 0);
	assert_ok(swap_out(w, mm, AREA + PAGES(1), STEP_UNMAP));
	assert_ok(swap_out(w, mm, AREA + PAGES(2), STEP_WRITE));
	world_check(w);
	assert_int_equal(mm_mincore(w->c, mm, AREA, PAGES(3), vec), 0);
	assert_true(vec[0] && vec[1] && vec[2]);
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	assert_int_equal(load(w, AREA + PAGES(2)), 102);
	assert_int_equal(count_of(w, VM_quire_fault_swap), 2);
	assert_int_equal(count_of(w, VM_pgmajfault), 0);
	assert_int_equal(count_of(w, VM_pswpin), 0);
	world_check(w);
	assert_ok(swap_out(w, mm, AREA + PAGES(2), STEP_DROP));
	assert_int_equal(count_of(w, VM_pswpout), 1); /* clean: its slot has what it holds */
	assert_int_equal(mm_mincore(w->c, mm, AREA, PAGES(3), vec), 0);
	assert_true(vec[0] && vec[1] && !vec[2]);
	mm_end(w, mm);
	swap_world_end(w);
}

static void test_fork_counts(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 4), *child = NULL;

	(void)state;
	w->q->knobs.page_cluster = 0;
	out_all(w, mm, 4);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_int_equal(child->swapents, 4);
	assert_int_equal(swap_used(w), 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_false(info(mm, AREA + PAGES(i)).exclusive);
		assert_int_equal(swap_count(w->q, info(mm, AREA + PAGES(i)).slot), 2);
	}
	world_check(w);
	/* The parent writes page 0: a copy, since the child's entry names the slot. The child still reads what was. */
	store(w, AREA, 1);
	assert_int_equal(count_of(w, VM_quire_pages_copied), 1);
	world_check(w);
	/* Both read page 1: one page, shared, write-protected. */
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), 100);
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	assert_int_equal(info(mm, AREA + PAGES(1)).pfn.v, info(child, AREA + PAGES(1)).pfn.v);
	assert_false(info(child, AREA + PAGES(1)).writable);
	assert_int_equal(count_of(w, VM_pswpin), 2);
	world_check(w);
	/* The child writes page 1: a copy; then the parent's write finds nobody but the swap cache, which lets go. */
	store(w, AREA + PAGES(1), 2);
	mm_activate(w->c, mm);
	pfn_t at = info(mm, AREA + PAGES(1)).pfn;

	store(w, AREA + PAGES(1), 3);
	assert_int_equal(info(mm, AREA + PAGES(1)).pfn.v, at.v);
	assert_false(frame_flags(frame_of(w->m, at)) & FRAME_SWAPCACHE);
	world_check(w);
	/* Page 2: the child goes, the parent is left with the only entry: its write needs no copy. */
	mm_end(w, child);
	mm_activate(w->c, mm);
	int64_t copied = count_of(w, VM_quire_pages_copied);

	store(w, AREA + PAGES(2), 4);
	assert_int_equal(count_of(w, VM_quire_pages_copied), copied);
	assert_int_equal(load(w, AREA + PAGES(3)), 103);
	mm_end(w, mm);
	swap_world_end(w);
}

/* A shared page goes out: entries on both sides, one slot; neither is exclusive. A page that was only one's own stays so across both. */
static void test_shared_page_out(void **state)
{
	struct world *w = swap_world(3, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 2), *child = NULL;

	(void)state;
	w->q->knobs.page_cluster = 0;
	assert_ok(mm_fork(w->c, mm, &child));
	mm_activate(w->m->cpus[1], child);
	mm_activate(w->m->cpus[2], mm);
	store(w, AREA + PAGES(1), 5);
	int64_t rounds = count_of(w, VM_quire_flush_batch);

	out_all(w, mm, 2);
	assert_int_equal(count_of(w, VM_quire_flush_batch) - rounds, 2);
	assert_int_equal(swap_count(w->q, info(mm, AREA).slot), 2);
	assert_int_equal(info(child, AREA).slot, info(mm, AREA).slot);
	assert_true(!info(mm, AREA).exclusive && !info(child, AREA).exclusive && info(mm, AREA + PAGES(1)).exclusive);
	world_check(w);
	store(w, AREA, 6);
	assert_int_equal(load(w, AREA + PAGES(1)), 5);
	mm_activate(w->c, child);
	assert_int_equal(load(w, AREA), 100);
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	world_check(w);
	mm_end(w, child);
	mm_end(w, mm);
	swap_world_end(w);
}

static void keep_first(void *arg, const struct vma *v, const struct mm_smaps *s)
{
	if (v->start == AREA)
		*(struct mm_smaps *)arg = *s;
}

/* What other calls do to swap entries. */
static void test_calls_on_entries(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, NR), *child = NULL;
	struct mm_smaps s = { 0 };

	(void)state;
	w->q->knobs.page_cluster = 0;
	out_all(w, mm, NR);
	assert_ok(mm_fork(w->c, mm, &child));
	mm_smaps_each(mm, keep_first, &s);
	assert_int_equal(s.bytes[SMAPS_Swap], PAGES(NR));
	assert_int_equal(s.bytes[SMAPS_SwapPss], PAGES(NR) / 2);
	assert_int_equal(s.bytes[SMAPS_Rss], 0);
	mm_end(w, child);
	mm_activate(w->c, mm);
	assert_ok((int)mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_DONTNEED));
	assert_ok((int)mm_madvise(w->c, mm, AREA + PAGES(2), PAGES(2), UAPI_MADV_FREE));
	assert_ok((int)mm_munmap(w->c, mm, AREA + PAGES(4), PAGES(2)));
	assert_int_equal(swap_used(w), NR - 6);
	assert_int_equal(mm->swapents, NR - 6);
	world_check(w);
	assert_int_equal(load(w, AREA + PAGES(1)), 0);
	assert_int_equal(load(w, AREA + PAGES(3)), 0);
	/* Moved, protected and locked ones keep their contents. */
	assert_int_equal(mm_mremap(w->c, mm, AREA + PAGES(6), PAGES(2), PAGES(2), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, AREA + 3 * PMD_SIZE),
			 (int64_t)(AREA + 3 * PMD_SIZE));
	assert_int_equal(load(w, AREA + 3 * PMD_SIZE + PAGES(1)), 107);
	store(w, AREA + 3 * PMD_SIZE, 9);
	assert_ok((int)mm_mprotect(w->c, mm, AREA + PAGES(8), PAGES(2), UAPI_PROT_READ));
	assert_int_equal(load(w, AREA + PAGES(8)), 108);
	assert_false(info(mm, AREA + PAGES(8)).writable);
	assert_int_equal(try_store(w, AREA + PAGES(9), 1), -EFAULT);
	world_check(w);
	assert_ok((int)mm_mlock(w->c, mm, AREA + PAGES(10), PAGES(2), false));
	assert_true(info(mm, AREA + PAGES(11)).present);
	assert_int_equal(swap_out(w, mm, AREA + PAGES(11), STEP_DROP), -EBUSY);
	world_check(w);
	/* Brought into the cache ahead, then found there. */
	int64_t major = count_of(w, VM_pgmajfault);

	assert_ok((int)mm_madvise(w->c, mm, AREA + PAGES(12), PAGES(4), UAPI_MADV_WILLNEED));
	assert_int_equal(count_of(w, VM_nr_swapcached) >= 4, 1);
	for (unsigned i = 12; i < 16; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
	assert_int_equal(count_of(w, VM_pgmajfault), major);
	world_check(w);
	mm_end(w, mm);
	assert_int_equal(swap_used(w), 0);
	swap_world_end(w);
}

static struct mm *huge_filled(struct world *w)
{
	struct mm *mm = mm_new(w);

	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, PMD_SIZE, RW);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		store(w, AREA + PAGES(i), 1000 + i);
	assert_true(info(mm, AREA).huge);
	return mm;
}

static void test_huge_page_out(void **state)
{
	struct world *w = swap_world(2, 128 * MIB, 4 * MIB);
	struct mm *mm = huge_filled(w);

	(void)state;
	assert_ok(swap_out(w, mm, AREA, STEP_DROP));
	assert_int_equal(count_of(w, VM_thp_swpout), 1);
	assert_int_equal(count_of(w, VM_pswpout), HPAGE_PMD_NR);
	assert_int_equal(swap_used(w), HPAGE_PMD_NR);
	assert_int_equal(mm->swapents, HPAGE_PMD_NR);
	assert_int_equal(info(mm, AREA + PAGES(7)).slot, info(mm, AREA).slot + 7);
	world_check(w);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 1000 + i);
	assert_int_equal(count_of(w, VM_pswpin), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_pgmajfault) + count_of(w, VM_swap_ra), HPAGE_PMD_NR);
	assert_int_equal(count_of(w, VM_swap_ra_hit), count_of(w, VM_swap_ra));
	world_check(w);
	mm_end(w, mm);
	swap_world_end(w);
}

/* Still in memory, and in the cache: parts of it come back one by one. Or it is split, and its parts have its slots. */
static void test_huge_page_in_the_cache(void **state)
{
	(void)state;
	for (unsigned split = 0; split < 2; split++) {
		struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
		struct mm *mm = huge_filled(w);
		struct frame *folio = swap_folio_at(w, mm, AREA);

		assert_ok(swap_out(w, mm, AREA, split ? STEP_SLOTS : STEP_WRITE));
		world_check(w);
		if (split) {
			frame_get(w->c, folio);
			folio_lock(w->c, folio);
			assert_ok(folio_split(w->c, folio, NULL, NULL));
			folio_unlock(w->c, folio);
			frame_put(w->c, folio);
			for (unsigned i = 0; i < HPAGE_PMD_NR; i++) {
				assert_true(frame_flags(folio + i) & FRAME_SWAPCACHE);
				assert_int_equal(folio_swap_slot(folio + i), i);
			}
			world_check(w);
			assert_ok(swap_out(w, mm, AREA + PAGES(9), STEP_DROP));
			assert_int_equal(info(mm, AREA + PAGES(9)).slot, 9);
		}
		for (unsigned i = 0; i < HPAGE_PMD_NR; i += 3) {
			assert_int_equal(load(w, AREA + PAGES(i)), 1000 + i);
			store(w, AREA + PAGES(i), i);
			assert_int_equal(load(w, AREA + PAGES(i)), i);
		}
		assert_int_equal(load(w, AREA + PAGES(1)), 1001);
		world_check(w);
		mm_end(w, mm);
		swap_world_end(w);
	}
}

/* Slots run out; a huge page finds no cluster where one slot of each is taken. */
static void test_no_slots(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 2 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	w->q->knobs.page_cluster = 0;
	map_at(w, mm, AREA + PMD_SIZE, PAGES(HPAGE_PMD_NR + 1), RW);
	for (unsigned i = 0; i <= HPAGE_PMD_NR; i++)
		store(w, AREA + PMD_SIZE + PAGES(i), 1 + i);
	assert_true(swap_possible(w->q));
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		assert_ok(swap_out(w, mm, AREA + PMD_SIZE + PAGES(i), STEP_DROP));
	assert_false(swap_possible(w->q));
	assert_true(swap_full(w->q));
	assert_int_equal(swap_out(w, mm, AREA + PMD_SIZE + PAGES(HPAGE_PMD_NR), STEP_DROP), -ENOSPC);
	assert_true(info(mm, AREA + PMD_SIZE + PAGES(HPAGE_PMD_NR)).present);
	world_check(w);
	/* Space is short: who comes back gives up his slot, also to read. */
	assert_int_equal(load(w, AREA + PMD_SIZE + PAGES(5)), 6);
	assert_true(swap_possible(w->q));
	w->q->knobs.thp_enabled = THP_ALWAYS;
	map_at(w, mm, AREA, PMD_SIZE, RW);
	store(w, AREA, 77);
	assert_int_equal(swap_out(w, mm, AREA, STEP_DROP), -ENOSPC);
	assert_true(info(mm, AREA).huge);
	/* The one free slot is found, wherever it is. */
	assert_ok(swap_out(w, mm, AREA + PMD_SIZE + PAGES(HPAGE_PMD_NR), STEP_DROP));
	assert_int_equal(info(mm, AREA + PMD_SIZE + PAGES(HPAGE_PMD_NR)).slot, 5);
	world_check(w);
	mm_end(w, mm);
	swap_world_end(w);
}

static void test_transfers_that_fail(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 3);
	struct inject *in;

	(void)state;
	w->q->knobs.page_cluster = 0;
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_set(in, INJECT_IO, INJECT_NTH, 1));
	assert_int_equal(swap_out(w, mm, AREA, STEP_DROP), -EIO);
	assert_int_equal(count_of(w, VM_pswpout), 0);
	world_check(w);
	assert_int_equal(load(w, AREA), 100); /* it stayed in the cache, dirty */
	assert_ok(swap_out(w, mm, AREA, STEP_DROP));
	assert_int_equal(count_of(w, VM_pswpout), 1);
	assert_ok(inject_set(in, INJECT_IO, INJECT_NTH, 1));
	int64_t sigbus = count_of(w, VM_quire_fault_sigbus);
	uint64_t v;

	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), sigbus + 1);
	world_check(w);
	assert_true(info(mm, AREA).swapped);
	/* No node for the tree, no frame. */
	slab_drain(w->c);
	assert_ok(inject_set(in, INJECT_SLAB_ALLOC, INJECT_EVERY, 1));
	assert_int_equal(swap_out(w, mm, AREA + PAGES(1), STEP_DROP), -ENOMEM);
	assert_int_equal(swap_used(w), 1);
	assert_ok(inject_set(in, INJECT_SLAB_ALLOC, INJECT_NEVER, 0));
	assert_ok(swap_out(w, mm, AREA + PAGES(1), STEP_DROP));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_EVERY, 1));
	assert_int_equal(try_load(w, AREA + PAGES(1), &v), -ENOMEM);
	world_check(w);
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NEVER, 0));
	assert_int_equal(load(w, AREA + PAGES(1)), 101);
	check_fault_sum(w);
	mm_end(w, mm);
	inject_detach(in);
	swap_world_end(w);
}

/* A pinned page stays as it is: undo leaves the entry bit-identical. */
static void test_pinned_page_stays(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 1);
	struct mm_page_info before, after;
	pfn_t pin;

	(void)state;
	assert_ok(mm_pin(w->c, mm, AREA, 1, true, &pin));
	before = info(mm, AREA);
	assert_int_equal(swap_out(w, mm, AREA, STEP_DROP), -EBUSY);
	after = info(mm, AREA);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_int_equal(swap_count(w->q, 0), 0);
	mm_unpin(w->c, &pin, 1);
	world_check(w);
	assert_ok(swap_out(w, mm, AREA, STEP_DROP));
	/* A pin brings it back as this mapping's own. */
	assert_ok(mm_pin(w->c, mm, AREA, 1, false, &pin));
	assert_true(info(mm, AREA).exclusive);
	mm_unpin(w->c, &pin, 1);
	mm_end(w, mm);
	swap_world_end(w);
}

static struct frame *room_get(struct cpu *c, const struct frame *src, void *arg)
{
	struct alloc_req r = { .order = frame_order(src), .gfp = GFP_HIGHUSER_MOVABLE | (frame_order(src) ? GFP_COMP : 0), .nid = NID_NONE };

	(void)arg;
	return page_alloc(c, &r);
}

/* In the cache, mapped or not, base pages and a huge one: they move with their slots. */
static void test_migration(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 8 * MIB);
	struct mm *mm = huge_filled(w);
	struct migrate_target t = { .get = room_get };
	struct migrate_stats stats;
	struct list_head l;

	(void)state;
	map_at(w, mm, AREA + PMD_SIZE, PAGES(2), RW);
	for (unsigned i = 0; i < 2; i++)
		store(w, AREA + PMD_SIZE + PAGES(i), 50 + i);
	list_init(&l);
	lru_add_drain_all(w->c);
	struct frame *unmapped = swap_folio_at(w, mm, AREA + PMD_SIZE + PAGES(1));
	pfn_t huge = info(mm, AREA).pfn, mapped = info(mm, AREA + PMD_SIZE).pfn;

	assert_ok(swap_out(w, mm, AREA, STEP_SLOTS));
	assert_ok(swap_out(w, mm, AREA + PMD_SIZE, STEP_SLOTS));
	assert_ok(swap_out(w, mm, AREA + PMD_SIZE + PAGES(1), STEP_WRITE));
	assert_ok(migrate_isolate(w->c, frame_of(w->m, huge), &l));
	assert_ok(migrate_isolate(w->c, frame_of(w->m, mapped), &l));
	assert_ok(migrate_isolate(w->c, unmapped, &l));
	assert_ok(migrate_pages(w->c, &l, &t, MIGRATE_SYNC, MR_SYSCALL, &stats));
	assert_int_equal(stats.nr_succeeded, HPAGE_PMD_NR + 2);
	assert_true(info(mm, AREA).pfn.v != huge.v && info(mm, AREA).huge);
	assert_true(info(mm, AREA + PMD_SIZE).pfn.v != mapped.v);
	world_check(w);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 1000 + i);
	assert_int_equal(load(w, AREA + PMD_SIZE), 50);
	assert_int_equal(load(w, AREA + PMD_SIZE + PAGES(1)), 51);
	assert_int_equal(count_of(w, VM_pswpin), 0); /* it was found in the cache */
	assert_true(info(mm, AREA + PMD_SIZE + PAGES(1)).pfn.v != frame_pfn(w->m, unmapped).v);
	mm_end(w, mm);
	swap_world_end(w);
}

/* From one end to the other the window grows, and misses become few; at random it shrinks to the page alone. */
static void test_readahead(void **state)
{
	struct world *w = swap_world(1, 256 * MIB, 8 * MIB);
	struct mm *mm = filled(w, 1024);

	(void)state;
	out_all(w, mm, 1024);
	for (unsigned i = 0; i < 512; i++)
		assert_int_equal(load(w, AREA + PAGES(i)), 100 + i);
	/* The first window lies around the fault, half of it outside of the area; all others are of 8 pages. */
	assert_int_equal(count_of(w, VM_pgmajfault), 1 + 64);
	assert_int_equal(count_of(w, VM_swap_ra_hit), 512 - 65);
	assert_int_equal(count_of(w, VM_swap_ra) + 65, count_of(w, VM_pswpin));
	assert_int_equal(count_of(w, VM_pswpin), 512);
	assert_int_equal(null_counts(w->m)->swap_reads, 512);
	int64_t ahead = count_of(w, VM_swap_ra);

	for (unsigned i = 0; i < 8; i++) /* every 50th, up and down */
		assert_int_equal(load(w, AREA + PAGES(512 + (i % 2 ? 500 - 50 * i : 50 * i))), 612 + (i % 2 ? 500 - 50 * i : 50 * i));
	assert_true(count_of(w, VM_swap_ra) - ahead <= 7 + 3 + 1);
	w->q->knobs.page_cluster = 0;
	ahead = count_of(w, VM_swap_ra);
	assert_int_equal(load(w, AREA + PAGES(1000)), 1100);
	assert_int_equal(count_of(w, VM_swap_ra), ahead);
	world_check(w);
	mm_end(w, mm);
	swap_world_end(w);
}

/* What is no anonymous memory to keep: a file's page is only unmapped; a lazily freed one goes, unless it was written. */
static void test_other_pages(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 2);
	struct mfile *f = NULL;

	(void)state;
	assert_ok((int)mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE));
	store(w, AREA + PAGES(1), 5);
	for (unsigned i = 0; i < 2; i++) {
		struct frame *page = swap_folio_at(w, mm, AREA + PAGES(i));

		assert_true(folio_isolate_lru(w->c, page));
		folio_lock(w->c, page);
		assert_int_equal(try_to_unmap(w->c, page, 0, NULL), i == 0);
		folio_unlock(w->c, page);
		folio_putback_lru(w->c, page);
	}
	assert_int_equal(load(w, AREA), 0);
	assert_int_equal(load(w, AREA + PAGES(1)), 5);
	assert_false(frame_flags(swap_folio_at(w, mm, AREA + PAGES(1))) & FRAME_LAZYFREE);
	assert_ok(file_create(w->c, w->q, 1, PAGES(1), true, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA + PMD_SIZE, PAGES(1), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)(AREA + PMD_SIZE));
	store(w, AREA + PMD_SIZE, 9);
	struct frame *page = swap_folio_at(w, mm, AREA + PMD_SIZE);

	frame_get(w->c, page);
	folio_lock(w->c, page);
	assert_true(try_to_unmap(w->c, page, 0, NULL));
	assert_true(frame_flags(page) & FRAME_DIRTY);
	folio_unlock(w->c, page);
	frame_put(w->c, page);
	world_check(w);
	assert_int_equal(load(w, AREA + PMD_SIZE), 9);
	mm_end(w, mm);
	file_put(w->c, f);
	swap_world_end(w);
}

/* A lazily freed page has nothing in swap: the cache lets go first. */
static void test_lazyfree_of_a_cached_page(void **state)
{
	struct world *w = swap_world(1, 128 * MIB, 4 * MIB);
	struct mm *mm = filled(w, 2);

	(void)state;
	assert_ok(swap_out(w, mm, AREA, STEP_DROP));
	assert_int_equal(load(w, AREA), 100);
	assert_true(frame_flags(swap_folio_at(w, mm, AREA)) & FRAME_SWAPCACHE);
	lru_add_drain_all(w->c);
	assert_ok((int)mm_madvise(w->c, mm, AREA, PAGES(2), UAPI_MADV_FREE));
	assert_false(frame_flags(swap_folio_at(w, mm, AREA)) & FRAME_SWAPCACHE);
	assert_true(frame_flags(swap_folio_at(w, mm, AREA)) & FRAME_LAZYFREE);
	assert_int_equal(swap_used(w), 0);
	world_check(w);
	mm_end(w, mm);
	swap_world_end(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_out_and_back),	     cmocka_unit_test(test_found_in_the_cache), cmocka_unit_test(test_fork_counts),
		cmocka_unit_test(test_shared_page_out),   cmocka_unit_test(test_calls_on_entries),   cmocka_unit_test(test_huge_page_out),
		cmocka_unit_test(test_huge_page_in_the_cache), cmocka_unit_test(test_no_slots),	   cmocka_unit_test(test_transfers_that_fail),
		cmocka_unit_test(test_pinned_page_stays), cmocka_unit_test(test_migration),	   cmocka_unit_test(test_readahead),
		cmocka_unit_test(test_other_pages),	     cmocka_unit_test(test_lazyfree_of_a_cached_page),
	};

	return test_run(tests);
}
