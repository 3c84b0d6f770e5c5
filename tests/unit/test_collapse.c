/*
 * Collapse: the scenarios of the kernel's own test of khugepaged and MADV_COLLAPSE for anonymous memory, each by both; then limits to the page,
 * refusals and what is undone, and pages that others hold. On the null machine.
 */
#include "collapse_testing.h"

static void collapse_full(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 4);

		ranges_fill(&r, 0, 4 * HPAGE_PMD_NR);
		int64_t rss = mm_rss(r.mm, RSS_ANON);
		int64_t tables = r.mm->pgtables_bytes;

		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 4);
		assert_int_equal(mm_rss(r.mm, RSS_ANON), rss);
		assert_int_equal(r.mm->pgtables_bytes, tables); /* tables are kept as deposits */
		assert_int_equal(r.mm->huge_mapped, 4);
		assert_int_equal(count_of(r.w, VM_thp_collapse_alloc), 4);
		assert_int_equal(count_of(r.w, VM_quire_pages_copied), 4 * HPAGE_PMD_NR);
		assert_int_equal(count_of(r.w, VM_nr_anon_pages), 4 * HPAGE_PMD_NR);
		assert_int_equal(count_of(r.w, VM_nr_anon_transparent_hugepages), 4);
		assert_int_equal(count_of(r.w, VM_quire_flush_collapse), 4);
		ranges_check(&r, 0, 4 * HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static void collapse_empty(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 2);

		/* Without any page ever, and with a page elsewhere in the area. */
		assert_int_equal(ranges_ask(&r), by == BY_CALL ? -EINVAL : 0);
		ranges_fill(&r, HPAGE_PMD_NR, HPAGE_PMD_NR);
		r.nr = 1;
		assert_int_equal(ranges_ask(&r), by == BY_CALL ? -EINVAL : 0);
		assert_int_equal(nr_huge(&r), 0);
		assert_int_equal(count_of(r.w, VM_thp_collapse_alloc), 0);
		ranges_end(&r);
	}
}

static void collapse_single_pte_entry(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);

		ranges_fill(&r, 77, 1);
		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 1);
		assert_int_equal(mm_rss(r.mm, RSS_ANON), HPAGE_PMD_NR);
		assert_int_equal(count_of(r.w, VM_quire_pages_copied), 1);
		ranges_check(&r, 77, 1);
		ranges_end(&r);
	}
}

/* Entries of the shared page of zeros count as empty. */
static void collapse_of_zero_pages(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);

		ranges_fill(&r, 5, 1);
		for (unsigned i = 100; i < 300; i++)
			assert_int_equal(load(r.w, page_at(i)), 0);
		r.w->q->knobs.khugepaged_max_ptes_none = 510;
		int64_t exceeded = by == BY_DAEMON;

		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), by == BY_CALL);
		assert_true(count_of(r.w, VM_thp_scan_exceed_none_pte) >= exceeded);
		ranges_check(&r, 5, 1);
		ranges_end(&r);
	}
}

static void collapse_max_ptes_none(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);

		r.w->q->knobs.khugepaged_max_ptes_none = 256;
		ranges_fill(&r, 0, 255);
		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), by == BY_CALL);
		assert_int_equal(count_of(r.w, VM_thp_scan_exceed_none_pte) > 0, by == BY_DAEMON);
		ranges_check(&r, 0, 255);
		if (by == BY_DAEMON) {
			ranges_fill(&r, 255, 1);
			assert_ok(ranges_ask(&r));
			assert_int_equal(nr_huge(&r), 1);
			ranges_check(&r, 0, 256);
		}
		ranges_end(&r);
	}
}

/* Pages in swap are read for it. */
static void collapse_swapped(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++)
		for (unsigned away = 64; away <= 65; away++) {
			struct ranges r = ranges_new(by, 1);

			ranges_fill(&r, 0, HPAGE_PMD_NR);
			assert_ok((int)mm_madvise(r.w->c, r.mm, page_at(100), PAGES(away), UAPI_MADV_PAGEOUT));
			assert_int_equal(r.mm->swapents, away);
			assert_ok(ranges_ask(&r));
			assert_int_equal(nr_huge(&r), by == BY_CALL || away == 64);
			assert_int_equal(count_of(r.w, VM_thp_scan_exceed_swap_pte) > 0, by == BY_DAEMON && away == 65);
			if (nr_huge(&r))
				assert_int_equal(r.mm->swapents, 0);
			ranges_check(&r, 0, HPAGE_PMD_NR);
			ranges_end(&r);
		}
}

/* A huge page, all of whose parts but one are given up. */
static void collapse_single_pte_entry_compound(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);

		ranges_fault_huge(&r);
		assert_ok((int)mm_madvise(r.w->c, r.mm, page_at(1), PAGES(511), UAPI_MADV_DONTNEED));
		assert_int_equal(nr_huge(&r), 0);
		uint64_t free_before = world_free(r.w);

		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 1);
		assert_int_equal(deferred_split_count(r.w->q, 0), 1); /* the new one; the old one is free */
		assert_int_equal(world_free(r.w), free_before);
		ranges_check(&r, 0, 1);
		ranges_end(&r);
	}
}

static void collapse_full_of_compound(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);

		ranges_fault_huge(&r);
		split_mapping(&r, r.mm, AREA);
		assert_int_equal(nr_huge(&r), 0);
		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 1);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static void move(struct ranges *r, vaddr_t from, uint64_t len, uint64_t new_len, vaddr_t to)
{
	assert_int_equal(mm_mremap(r->w->c, r->mm, from, len, new_len, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, to), (int64_t)to);
}

/*
 * 512 entries of 512 different huge pages, in one area: a huge page is faulted in at its end, all of it but the first 4 KiB is cut off, and
 * the area is moved down by a page and grown again.
 *
 *      | 0 1 2 ... i-1 | huge page i |  ->  | 0 1 2 ... i |  ->  | 0 1 2 ... i | empty        |
 *                      ^ base                                                  ^ base
 */
static void collapse_compound_extreme(void **state)
{
	vaddr_t base = AREA + PMD_SIZE, aside = AREA + 16 * PMD_SIZE;

	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct world *w = world_new(1, 2048 * MIB);
		struct ranges r = { .w = w, .mm = mm_new(w), .nr = 1, .by = by };

		map_at(w, r.mm, base, PMD_SIZE, RW);
		for (unsigned i = 0; i < HPAGE_PMD_NR; i++) {
			w->q->knobs.thp_enabled = THP_ALWAYS;
			store(w, base, 1000 + i);
			assert_true(info(r.mm, base).huge);
			w->q->knobs.thp_enabled = THP_NEVER;
			move(&r, base - PAGES(i), PAGES(i) + PMD_SIZE, PAGES(i + 1), aside);
			move(&r, aside, PAGES(i + 1), PAGES(i + 1) + PMD_SIZE, base - PAGES(i + 1));
		}
		uint64_t free_before = world_free(w);

		assert_int_equal(nr_huge(&r), 0);
		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 1);
		/* 512 huge pages of which 511 parts were mapped by nobody are one. */
		assert_int_equal(world_free(w) - free_before, (HPAGE_PMD_NR - 1) * HPAGE_PMD_NR);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static struct mm *fork_of(struct ranges *r)
{
	struct mm *child = NULL;

	assert_ok(mm_fork(r->w->c, r->mm, &child));
	return child;
}

static void collapse_fork(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1), child = r;

		ranges_fill(&r, 0, 1);
		child.mm = fork_of(&r);
		mm_activate(r.w->c, child.mm);
		store(r.w, page_at(1), 1001);
		assert_ok(ranges_ask(&child));
		assert_int_equal(nr_huge(&child), 1);
		ranges_check(&child, 0, 2);
		mm_end(r.w, child.mm);
		mm_activate(r.w->c, r.mm);
		assert_int_equal(nr_huge(&r), 0);
		ranges_check(&r, 0, 1);
		ranges_end(&r);
	}
}

static void collapse_fork_compound(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1), child = r;

		ranges_fault_huge(&r);
		child.mm = fork_of(&r);
		mm_activate(r.w->c, child.mm);
		split_mapping(&r, child.mm, AREA);
		store(r.w, page_at(0), 1000);
		r.w->q->knobs.khugepaged_max_ptes_shared = 511;
		assert_ok(ranges_ask(&child));
		assert_int_equal(nr_huge(&child), 1);
		ranges_check(&child, 0, HPAGE_PMD_NR);
		assert_int_equal(nr_huge(&r), 1);
		mm_end(r.w, child.mm);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static void collapse_max_ptes_shared(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1), child = r;

		ranges_fault_huge(&r);
		child.mm = fork_of(&r);
		mm_activate(r.w->c, child.mm);
		ranges_fill(&child, 0, 255); /* 257 remain shared, one above the limit */
		assert_ok(ranges_ask(&child));
		assert_int_equal(nr_huge(&child), by == BY_CALL);
		if (by == BY_DAEMON) {
			assert_true(count_of(r.w, VM_thp_scan_exceed_share_pte) > 0);
			mm_activate(r.w->c, child.mm);
			ranges_fill(&child, 255, 1);
			assert_ok(ranges_ask(&child));
			assert_int_equal(nr_huge(&child), 1);
		}
		ranges_check(&child, 0, HPAGE_PMD_NR);
		assert_int_equal(nr_huge(&r), 1);
		mm_end(r.w, child.mm);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static void collapse_existing_thps(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);

	(void)state;
	ranges_fault_huge(&r);
	pfn_t before = info(r.mm, AREA).pfn;

	assert_ok(ranges_ask(&r));
	assert_int_equal(info(r.mm, AREA).pfn.v, before.v);
	assert_int_equal(count_of(r.w, VM_thp_collapse_alloc), 0);
	ranges_end(&r);
}

/* ---- the call's answers ---- */

static int collapse(struct ranges *r, vaddr_t va, uint64_t len)
{
	return (int)mm_madvise(r->w->c, r->mm, va, len, UAPI_MADV_COLLAPSE);
}

static void errors_of_the_call(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 4);
	struct world *w = r.w;

	(void)state;
	assert_int_equal(collapse(&r, AREA + 1, PMD_SIZE), -EINVAL);
	assert_int_equal(collapse(&r, AREA, 0), 0);
	assert_int_equal(collapse(&r, AREA - PMD_SIZE, PMD_SIZE), -ENOMEM);
	ranges_fill(&r, 0, 4 * HPAGE_PMD_NR);
	/* No whole 2 MiB in the range: nothing to do. */
	assert_ok(collapse(&r, AREA + PAGE_SIZE, PMD_SIZE));
	assert_int_equal(nr_huge(&r), 0);
	/* A hole below: the rest is done. */
	assert_int_equal(collapse(&r, AREA - PMD_SIZE, 2 * PMD_SIZE), -ENOMEM);
	assert_int_equal(nr_huge(&r), 1);
	/* Not for areas that said no. */
	assert_ok((int)mm_madvise(w->c, r.mm, AREA, r.nr * PMD_SIZE, UAPI_MADV_NOHUGEPAGE));
	assert_int_equal(collapse(&r, range_at(1), PMD_SIZE), -EINVAL);
	assert_ok((int)mm_madvise(w->c, r.mm, AREA, r.nr * PMD_SIZE, UAPI_MADV_HUGEPAGE));
	assert_ok((int)mm_set_thp_disable(w->c, r.mm, true));
	assert_int_equal(collapse(&r, range_at(1), PMD_SIZE), -EINVAL);
	assert_ok((int)mm_set_thp_disable(w->c, r.mm, false));
	/* No huge page to be had. */
	struct inject *in = NULL;

	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_EVERY, 1));
	assert_int_equal(collapse(&r, range_at(1), PMD_SIZE), -ENOMEM);
	assert_int_equal(count_of(w, VM_thp_collapse_alloc_failed), 1);
	inject_detach(in);
	assert_ok(collapse(&r, range_at(1), PMD_SIZE));
	assert_int_equal(nr_huge(&r), 2);
	ranges_check(&r, 0, 4 * HPAGE_PMD_NR);
	ranges_end(&r);
}

/* The page cache has base pages only. */
static void files_are_refused(void **state)
{
	struct world *w = world_new(1, 256 * MIB);
	struct mm *mm = mm_new(w);

	(void)state;
	assert_int_equal(mm_mmap(w->c, mm, AREA, PMD_SIZE, RW, UAPI_MAP_SHARED | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0), (int64_t)AREA);
	store(w, AREA, 1);
	assert_int_equal(mm_madvise(w->c, mm, AREA, PMD_SIZE, UAPI_MADV_COLLAPSE), -EINVAL);
	mm_end(w, mm);
	world_end(w);
}

/* ---- what others hold ---- */

static void entries(struct ranges *r, pte_t *ret)
{
	struct pt_ref pmd, pte;

	assert_ok(pt_pmd(r->w->c, r->mm, AREA, false, &pmd));
	assert_ok(pt_pte(r->w->c, r->mm, &pmd, AREA, false, &pte));
	for (unsigned i = 0; i < PT_ENTRIES; i++, pt_ref_next(&pte))
		ret[i] = pte_peek(&pte);
}

static void pinned_pages_stay(void **state)
{
	static pte_t before[PT_ENTRIES], after[PT_ENTRIES];

	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1);
		pfn_t pin;

		ranges_fill(&r, 0, HPAGE_PMD_NR);
		assert_ok(mm_pin(r.w->c, r.mm, page_at(300), 1, true, &pin));
		entries(&r, before);
		assert_int_equal(ranges_ask(&r), by == BY_CALL ? -EAGAIN : 0);
		entries(&r, after);
		assert_memory_equal(before, after, sizeof(before));
		mm_unpin(r.w->c, &pin, 1);
		assert_ok(ranges_ask(&r));
		assert_int_equal(nr_huge(&r), 1);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

static void locked_folios_stay(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);

	(void)state;
	ranges_fill(&r, 0, HPAGE_PMD_NR);
	struct frame *f = frame_of(r.w->m, info(r.mm, page_at(9)).pfn);

	folio_lock(r.w->c, f);
	assert_int_equal(ranges_ask(&r), -EAGAIN);
	folio_unlock(r.w->c, f);
	/* Nor does what somebody has taken off the lists. */
	lru_add_drain_all(r.w->c);
	assert_true(folio_isolate_lru(r.w->c, f));
	assert_int_equal(ranges_ask(&r), -EAGAIN);
	folio_putback_lru(r.w->c, f);
	assert_ok(ranges_ask(&r));
	ranges_end(&r);
}

/* Each step that can fail, for each page once: entries are as they were, nothing is lost, and then it works. */
static void failures_are_undone(void **state)
{
	static pte_t before[PT_ENTRIES], after[PT_ENTRIES];
	static const struct {
		enum inject_site site;
		unsigned step;
		int rc;
	} kinds[] = { { INJECT_TRYLOCK, 37, -EAGAIN }, { INJECT_COPY, 53, -EINVAL }, { INJECT_CLEAR, 41, -EINVAL }, { INJECT_FRAME_ALLOC, 1, -ENOMEM } };

	(void)state;
	for (unsigned k = 0; k < ARRAY_SIZE(kinds); k++) {
		struct ranges r = ranges_new(BY_CALL, 1);
		struct inject *in = NULL;
		unsigned failed = 0;

		ranges_fill(&r, 0, 300);
		assert_ok((int)mm_mprotect(r.w->c, r.mm, AREA, PMD_SIZE, UAPI_PROT_READ));
		assert_ok((int)mm_mlock(r.w->c, r.mm, AREA, PMD_SIZE, true));
		entries(&r, before);
		uint64_t free_before = world_free(r.w);

		assert_ok(inject_attach(r.w->m, 1, &in));
		for (uint64_t n = 1;; n += kinds[k].step) {
			assert_ok(inject_set(in, kinds[k].site, INJECT_NTH, n));
			int rc = collapse(&r, AREA, PMD_SIZE);

			if (!inject_failures(in, kinds[k].site)) {
				assert_ok(rc);
				break;
			}
			assert_int_equal(rc, kinds[k].rc);
			entries(&r, after);
			assert_memory_equal(before, after, sizeof(before));
			world_check(r.w);
			assert_int_equal(world_free(r.w), free_before);
			assert_int_equal(count_of(r.w, VM_nr_mlock), 300);
			failed++;
		}
		assert_true(failed >= 1);
		inject_detach(in);
		assert_int_equal(nr_huge(&r), 1);
		assert_int_equal(count_of(r.w, VM_nr_mlock), HPAGE_PMD_NR);
		assert_false(info(r.mm, AREA).writable);
		ranges_check(&r, 0, 300);
		ranges_end(&r);
	}
}

static void rights_come_from_the_area(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);

	(void)state;
	ranges_fill(&r, 0, 20);
	assert_ok((int)mm_mprotect(r.w->c, r.mm, AREA, PMD_SIZE, 0));
	assert_ok(ranges_ask(&r));
	assert_true(is_huge(&r, 0));
	assert_int_equal(try_store(r.w, AREA, 1), -EFAULT);
	assert_ok((int)mm_mprotect(r.w->c, r.mm, AREA, PMD_SIZE, RW));
	ranges_check(&r, 0, 20);
	store(r.w, AREA, 1000);
	assert_int_equal(nr_huge(&r), 1);
	ranges_end(&r);
}

/* Tables that a fork shares are shared beyond any limit; the call makes them its own first. */
static void shared_tables(void **state)
{
	(void)state;
	for (enum asker by = 0; by < NR_ASKERS; by++) {
		struct ranges r = ranges_new(by, 1), child = r;

		r.w->q->knobs.fork_tables = FORK_TABLES_SHARED;
		ranges_fill(&r, 0, HPAGE_PMD_NR);
		child.mm = fork_of(&r);
		mm_activate(r.w->c, child.mm);
		assert_int_equal(child.mm->shared_tables, 1);
		r.w->q->knobs.khugepaged_max_ptes_shared = 511;
		assert_ok(ranges_ask(&child));
		assert_int_equal(nr_huge(&child), by == BY_CALL);
		ranges_check(&child, 0, HPAGE_PMD_NR);
		assert_int_equal(nr_huge(&r), 0);
		mm_end(r.w, child.mm);
		ranges_check(&r, 0, HPAGE_PMD_NR);
		ranges_end(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(collapse_full),
		cmocka_unit_test(collapse_empty),
		cmocka_unit_test(collapse_single_pte_entry),
		cmocka_unit_test(collapse_of_zero_pages),
		cmocka_unit_test(collapse_max_ptes_none),
		cmocka_unit_test(collapse_swapped),
		cmocka_unit_test(collapse_single_pte_entry_compound),
		cmocka_unit_test(collapse_full_of_compound),
		cmocka_unit_test(collapse_compound_extreme),
		cmocka_unit_test(collapse_fork),
		cmocka_unit_test(collapse_fork_compound),
		cmocka_unit_test(collapse_max_ptes_shared),
		cmocka_unit_test(collapse_existing_thps),
		cmocka_unit_test(errors_of_the_call),
		cmocka_unit_test(files_are_refused),
		cmocka_unit_test(pinned_pages_stay),
		cmocka_unit_test(locked_folios_stay),
		cmocka_unit_test(failures_are_undone),
		cmocka_unit_test(rights_come_from_the_area),
		cmocka_unit_test(shared_tables),
	};

	return test_run(tests);
}
