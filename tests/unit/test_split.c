/*
 * Splitting folios: what is flushed how often, by quire.split_flush; contents, counts and entries afterwards; refusals and undo; the
 * deferred queue; the mark of an outstanding batch. On the null machine, whose CPUs are where the test puts them.
 */
#include "mm/anon_vma.h"
#include "mm/deferred_split.h"
#include "mm/folio_lock.h"
#include "mm/gup.h"
#include "mm/split.h"
#include "mm/tlb_batch.h"
#include "mm/unmap.h"
#include "paging_world.h"

#define MAX_MMS 4

/* One huge page at AREA, shared by k address spaces after forks, each active on CPUs of its own. */
struct huge {
	struct world *w;
	struct mm *mm[MAX_MMS];
	unsigned k;
	struct frame *folio;
};

static struct frame *folio_at(struct world *w, struct mm *mm, vaddr_t va)
{
	return frame_head(w->m, frame_of(w->m, info(mm, va).pfn));
}

static struct huge huge_new(unsigned nr_cpus, unsigned k)
{
	struct huge h = { .w = world_new(nr_cpus, 256 * MIB), .k = k };

	h.w->q->knobs.thp_enabled = THP_ALWAYS;
	h.mm[0] = mm_new(h.w);
	map_at(h.w, h.mm[0], AREA, PMD_SIZE, RW);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		store(h.w, AREA + PAGES(i), 1000 + i);
	for (unsigned i = 1; i < k; i++)
		assert_ok(mm_fork(h.w->c, h.mm[0], &h.mm[i]));
	h.folio = folio_at(h.w, h.mm[0], AREA);
	assert_int_equal(frame_nr_pages(h.folio), HPAGE_PMD_NR);
	return h;
}

/* CPU 0 keeps the first; `each` further CPUs run every one of them. */
static void spread(struct huge *h, unsigned each)
{
	unsigned cpu = 1;

	for (unsigned i = 0; i < h->k; i++)
		for (unsigned n = 0; n < each; n++)
			mm_activate(h->w->m->cpus[cpu++], h->mm[i]);
}

static void split_pmds(struct huge *h)
{
	for (unsigned i = 0; i < h->k; i++) {
		struct pt_ref pmd;

		assert_ok(pt_pmd(h->w->c, h->mm[i], AREA, false, &pmd));
		thp_split_pmd(h->w->c, vma_find(h->w->c, h->mm[i], AREA), &pmd, AREA);
	}
}

static int split(struct huge *h, struct frame *keep)
{
	struct cpu *c = h->w->c;

	frame_get(c, h->folio);
	folio_lock(c, h->folio);
	int rc = folio_split(c, h->folio, keep, NULL);
	struct frame *held = rc || !keep ? h->folio : keep;

	folio_unlock(c, held);
	frame_put(c, held);
	return rc;
}

static void check_contents(struct huge *h)
{
	for (unsigned i = 0; i < h->k; i++) {
		mm_activate(h->w->c, h->mm[i]);
		for (unsigned p = 0; p < HPAGE_PMD_NR; p++)
			assert_int_equal(load(h->w, AREA + PAGES(p)), 1000 + p);
	}
}

static void huge_end(struct huge *h)
{
	world_check(h->w);
	for (unsigned i = h->k; i--;)
		mm_end(h->w, h->mm[i]);
	world_end(h->w);
}

/* Rounds of one split of a folio that PTEs map, in k address spaces that run on `each` remote CPUs each. */
static int64_t rounds(uint32_t policy, unsigned k, unsigned each, int64_t *ret_received)
{
	struct huge h = huge_new(1 + k * (each ? each : 1), k);

	h.w->q->knobs.split_flush = policy;
	split_pmds(&h);
	spread(&h, each);
	int64_t before = count_of(h.w, VM_nr_tlb_remote_flush), received = count_of(h.w, VM_nr_tlb_remote_flush_received);

	assert_ok(split(&h, NULL));
	before = count_of(h.w, VM_nr_tlb_remote_flush) - before;
	*ret_received = count_of(h.w, VM_nr_tlb_remote_flush_received) - received;
	assert_int_equal(count_of(h.w, VM_thp_split_page), 1);
	check_contents(&h);
	huge_end(&h);
	return before;
}

static void flushes_of_a_split(void **state)
{
	int64_t received;

	(void)state;
	for (unsigned k = 1; k <= 3; k++) {
		for (unsigned each = 1; each <= 2; each++) {
			assert_int_equal(rounds(SPLIT_FLUSH_EACH, k, each, &received), (int64_t)HPAGE_PMD_NR * k);
			assert_int_equal(received, (int64_t)HPAGE_PMD_NR * k * each);
			assert_int_equal(rounds(SPLIT_FLUSH_BATCHED, k, each, &received), 1);
			assert_int_equal(received, k * each);
		}
	}
	/* Nobody else runs it: no rounds, whatever the knob says. */
	assert_int_equal(rounds(SPLIT_FLUSH_EACH, 1, 0, &received), 0);
	assert_int_equal(rounds(SPLIT_FLUSH_BATCHED, 1, 0, &received), 0);
}

static void single_cpu_flushes_each_entry_here(void **state)
{
	(void)state;
	for (uint32_t policy = SPLIT_FLUSH_EACH; policy <= SPLIT_FLUSH_BATCHED; policy++) {
		struct huge h = huge_new(1, 1);

		h.w->q->knobs.split_flush = policy;
		split_pmds(&h);
		int64_t before = count_of(h.w, VM_nr_tlb_local_flush_one);

		assert_ok(split(&h, NULL));
		assert_int_equal(count_of(h.w, VM_nr_tlb_local_flush_one) - before, HPAGE_PMD_NR);
		assert_int_equal(count_of(h.w, VM_quire_tlb_deferred), 0);
		huge_end(&h);
	}
}

/* A PMD mapping goes by its own invalidation: there is nothing to batch. */
static void pmd_mapped_is_unchanged_by_the_knob(void **state)
{
	int64_t rounds_by[2];

	(void)state;
	for (uint32_t policy = SPLIT_FLUSH_EACH; policy <= SPLIT_FLUSH_BATCHED; policy++) {
		struct huge h = huge_new(3, 2);

		h.w->q->knobs.split_flush = policy;
		spread(&h, 1);
		int64_t before = count_of(h.w, VM_nr_tlb_remote_flush), pmds = count_of(h.w, VM_thp_split_pmd);

		assert_ok(split(&h, NULL));
		rounds_by[policy] = count_of(h.w, VM_nr_tlb_remote_flush) - before;
		assert_int_equal(count_of(h.w, VM_thp_split_pmd) - pmds, 2);
		assert_int_equal(count_of(h.w, VM_quire_tlb_deferred), 0);
		assert_int_equal(count_of(h.w, VM_nr_anon_transparent_hugepages), 0);
		check_contents(&h);
		huge_end(&h);
	}
	assert_int_equal(rounds_by[0], 2);
	assert_int_equal(rounds_by[1], 2);
}

static void parts_are_base_pages(void **state)
{
	struct huge h = huge_new(1, 1);
	struct frame *keep = h.folio + 7;

	(void)state;
	assert_ok(split(&h, keep));
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++) {
		struct mm_page_info p = info(h.mm[0], AREA + PAGES(i));

		assert_true(p.present && !p.huge && p.exclusive && p.writable && p.dirty);
		assert_ptr_equal(frame_of(h.w->m, p.pfn), h.folio + i);
		assert_int_equal(frame_order(h.folio + i), 0);
		assert_int_equal(frame_refcount(h.folio + i), 1);
		assert_int_equal(h.folio[i].index, h.folio->index + i);
		store(h.w, AREA + PAGES(i), i);
	}
	assert_int_equal(count_of(h.w, VM_nr_anon_pages), HPAGE_PMD_NR);
	world_check(h.w);
	/* One by one they go. */
	uint64_t free_before = world_free(h.w);

	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA, PAGES(100)));
	assert_int_equal(world_free(h.w), free_before + 100);
	huge_end(&h);
}

static void unmapped_parts_are_freed(void **state)
{
	struct huge h = huge_new(2, 1);

	(void)state;
	spread(&h, 1);
	assert_ok((int)mm_madvise(h.w->c, h.mm[0], AREA + PAGES(10), PAGES(500), UAPI_MADV_DONTNEED));
	assert_int_equal(count_of(h.w, VM_thp_deferred_split_page), 1);
	assert_int_equal(deferred_split_count(h.w->q, 0), 1);
	uint64_t before = world_free(h.w);

	assert_int_equal(deferred_split_scan(h.w->c, 0, 10), 1);
	assert_int_equal(world_free(h.w), before + 500);
	assert_int_equal(deferred_split_count(h.w->q, 0), 0);
	assert_int_equal(count_of(h.w, VM_thp_split_page), 1);
	for (unsigned i = 0; i < HPAGE_PMD_NR; i++)
		assert_int_equal(load(h.w, AREA + PAGES(i)), i < 10 || i >= 510 ? 1000 + i : 0);
	huge_end(&h);
}

static void freed_folios_leave_the_queue(void **state)
{
	struct huge h = huge_new(1, 1);

	(void)state;
	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA, PAGES(1)));
	assert_int_equal(deferred_split_count(h.w->q, 0), 1);
	world_check(h.w);
	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA, PMD_SIZE));
	assert_int_equal(deferred_split_count(h.w->q, 0), 0);
	assert_int_equal(deferred_split_scan(h.w->c, 0, 10), 0);
	huge_end(&h);
}

static void entries(struct huge *h, pte_t *ret)
{
	struct pt_ref pmd, pte;

	assert_ok(pt_pmd(h->w->c, h->mm[0], AREA, false, &pmd));
	assert_ok(pt_pte(h->w->c, h->mm[0], &pmd, AREA, false, &pte));
	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&pte))
		ret[i] = pte_peek(&pte);
}

/* Somebody holds a reference: nothing is touched. */
static void held_folio_is_left_alone(void **state)
{
	struct huge h = huge_new(2, 1);
	static pte_t before[PT_ENTRIES], after[PT_ENTRIES];
	pfn_t pin;

	(void)state;
	split_pmds(&h);
	spread(&h, 1);
	assert_ok(mm_pin(h.w->c, h.mm[0], AREA, 1, true, &pin));
	entries(&h, before);
	int64_t flushes = count_of(h.w, VM_nr_tlb_remote_flush), deferred = count_of(h.w, VM_quire_tlb_deferred);

	assert_int_equal(split(&h, NULL), -EAGAIN);
	entries(&h, after);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(count_of(h.w, VM_nr_tlb_remote_flush), flushes);
	assert_int_equal(count_of(h.w, VM_quire_tlb_deferred), deferred);
	assert_int_equal(count_of(h.w, VM_thp_split_page_failed), 1);
	world_check(h.w);
	mm_unpin(h.w->c, &pin, 1);
	assert_ok(split(&h, NULL));
	huge_end(&h);
}

/* What was unmapped and is not going to be moved is as it was, but for the flush. */
static void undo_leaves_entries_as_they_were(void **state)
{
	struct huge h = huge_new(2, 1);
	static pte_t before[PT_ENTRIES], between[PT_ENTRIES], after[PT_ENTRIES];
	struct tlb_batch b;

	(void)state;
	split_pmds(&h);
	spread(&h, 1);
	/* All sorts of entries. */
	assert_ok((int)mm_mprotect(h.w->c, h.mm[0], AREA + PAGES(64), PAGES(64), UAPI_PROT_READ));
	assert_ok((int)mm_mprotect(h.w->c, h.mm[0], AREA + PAGES(128), PAGES(64), 0));
	frame_get(h.w->c, h.folio); /* nor does the advice split it then */
	assert_ok((int)mm_madvise(h.w->c, h.mm[0], AREA + PAGES(192), PAGES(64), UAPI_MADV_FREE));
	frame_put(h.w->c, h.folio);
	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA + PAGES(300), PAGES(3)));
	entries(&h, before);
	int32_t refs = frame_refcount(h.folio);

	frame_get(h.w->c, h.folio);
	folio_lock(h.w->c, h.folio);
	tlb_batch_begin(&b);
	assert_true(try_to_migrate(h.w->c, h.folio, 0, &b));
	assert_true(b.needed);
	assert_true(tlb_deferred(h.mm[0]));
	tlb_batch_flush(h.w->c, &b);
	tlb_batch_end(&b);
	entries(&h, between);
	for (unsigned i = 0; i < PT_ENTRIES; i++)
		assert_true(!before[i] || pte_is_migration(between[i]));
	assert_int_equal(frame_refcount(h.folio), 1);
	assert_false(folio_mapped(h.folio));
	assert_int_equal(remove_migration_ptes(h.w->c, h.folio, h.folio, false), HPAGE_PMD_NR - 3);
	entries(&h, after);
	assert_memory_equal(before, after, sizeof(before));
	folio_unlock(h.w->c, h.folio);
	frame_put(h.w->c, h.folio);
	assert_int_equal(frame_refcount(h.folio), refs);
	huge_end(&h);
}

/* Whoever changes entries of the address space before the batch's flush flushes himself. */
static void outstanding_flush_is_honoured(void **state)
{
	struct huge h = huge_new(2, 1);
	struct tlb_batch b;

	(void)state;
	map_at(h.w, h.mm[0], AREA + PMD_SIZE, PAGES(8), RW);
	for (unsigned i = 0; i < 8; i++)
		store(h.w, AREA + PMD_SIZE + PAGES(i), 1);
	split_pmds(&h);
	spread(&h, 1);
	frame_get(h.w->c, h.folio);
	folio_lock(h.w->c, h.folio);
	tlb_batch_begin(&b);
	assert_true(try_to_migrate(h.w->c, h.folio, 0, &b));
	int64_t before = count_of(h.w, VM_quire_flush_batch_pending);

	assert_ok((int)mm_mprotect(h.w->c, h.mm[0], AREA + PMD_SIZE, PAGES(1), UAPI_PROT_READ));
	assert_int_equal(count_of(h.w, VM_quire_flush_batch_pending), before + 1);
	assert_false(tlb_deferred(h.mm[0]));
	/* Covered: the next one does not pay again. */
	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA + PMD_SIZE + PAGES(4), PAGES(1)));
	assert_int_equal(count_of(h.w, VM_quire_flush_batch_pending), before + 1);
	tlb_batch_flush(h.w->c, &b);
	tlb_batch_end(&b);
	remove_migration_ptes(h.w->c, h.folio, h.folio, false);
	folio_unlock(h.w->c, h.folio);
	frame_put(h.w->c, h.folio);
	check_contents(&h);
	huge_end(&h);
}

/* The mark's counts begin anew long before they could meet, and are never taken for covered. */
static void mark_wraps_without_being_lost(void **state)
{
	struct world *w = world_new(2, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct tlb_batch b;

	(void)state;
	mm_activate(w->m->cpus[1], mm);
	tlb_batch_begin(&b);
	for (unsigned i = 0; i < 100000; i++) {
		tlb_batch_add(w->c, &b, mm, PTE_PRESENT, AREA);
		if (!tlb_deferred(mm))
			fail_msg("not marked after %u", i);
		if (i % 7 == 0) {
			tlb_flush_batched_pending(w->c, mm);
			assert_false(tlb_deferred(mm));
		}
	}
	tlb_batch_flush(w->c, &b);
	tlb_batch_end(&b);
	mm_end(w, mm);
	world_end(w);
}

/* Entries that stand for pages on their way go where other entries go. */
static void calls_on_migration_entries(void **state)
{
	struct huge h = huge_new(1, 1);
	struct mm *child = NULL;
	struct frame *page;

	(void)state;
	split_pmds(&h);
	frame_get(h.w->c, h.folio);
	folio_lock(h.w->c, h.folio);
	assert_true(try_to_migrate(h.w->c, h.folio, 0, NULL));
	int64_t rss = mm_rss(h.mm[0], RSS_ANON);

	assert_int_equal(rss, HPAGE_PMD_NR);
	assert_ok((int)mm_munmap(h.w->c, h.mm[0], AREA, PAGES(16)));
	assert_int_equal(mm_rss(h.mm[0], RSS_ANON), rss - 16);
	assert_ok((int)mm_mprotect(h.w->c, h.mm[0], AREA + PAGES(16), PAGES(16), UAPI_PROT_READ));
	assert_int_equal(mm_mremap(h.w->c, h.mm[0], AREA + PAGES(64), PAGES(16), PAGES(16), UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
				   AREA + 2 * PMD_SIZE),
			 (int64_t)(AREA + 2 * PMD_SIZE));
	assert_ok(mm_fork(h.w->c, h.mm[0], &child));
	assert_int_equal(mm_rss(child, RSS_ANON), rss - 16);
	assert_int_equal(remove_migration_ptes(h.w->c, h.folio, h.folio, false), 2 * (HPAGE_PMD_NR - 16));
	folio_unlock(h.w->c, h.folio);
	frame_put(h.w->c, h.folio);
	world_check(h.w);
	page = folio_at(h.w, h.mm[0], AREA + PAGES(16));
	assert_ptr_equal(page, h.folio);
	assert_false(info(h.mm[0], AREA + PAGES(40)).writable); /* shared with the child now */
	assert_false(info(h.mm[0], AREA + PAGES(16)).writable);
	assert_int_equal(load(h.w, AREA + 2 * PMD_SIZE + PAGES(3)), 1000 + 64 + 3);
	store(h.w, AREA + 2 * PMD_SIZE + PAGES(3), 5);
	mm_activate(h.w->c, child);
	assert_int_equal(load(h.w, AREA + 2 * PMD_SIZE + PAGES(3)), 1000 + 64 + 3);
	mm_end(h.w, child);
	mm_activate(h.w->c, h.mm[0]);
	huge_end(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flushes_of_a_split),
		cmocka_unit_test(single_cpu_flushes_each_entry_here),
		cmocka_unit_test(pmd_mapped_is_unchanged_by_the_knob),
		cmocka_unit_test(parts_are_base_pages),
		cmocka_unit_test(unmapped_parts_are_freed),
		cmocka_unit_test(freed_folios_leave_the_queue),
		cmocka_unit_test(held_folio_is_left_alone),
		cmocka_unit_test(undo_leaves_entries_as_they_were),
		cmocka_unit_test(outstanding_flush_is_honoured),
		cmocka_unit_test(mark_wraps_without_being_lost),
		cmocka_unit_test(calls_on_migration_entries),
	};

	return test_run(tests);
}
