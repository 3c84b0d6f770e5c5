/* What the tests of collapse have in common: ranges of 2 MiB from TABLES on, asked for by khugepaged or by MADV_COLLAPSE. */
#ifndef QUIRE_TESTS_COLLAPSE_TESTING_H
#define QUIRE_TESTS_COLLAPSE_TESTING_H

#include "mm/anon_vma.h"
#include "mm/deferred_split.h"
#include "mm/folio_lock.h"
#include "mm/gup.h"
#include "mm/khugepaged.h"
#include "mm/lru.h"
#include "mm/rmap_walk.h"
#include "mm/split.h"
#include "mm/unmap.h"
#include "paging_world.h"
#include "swap_testing.h"

enum asker { BY_DAEMON, BY_CALL, NR_ASKERS };

struct ranges {
	struct world *w;
	struct mm *mm;
	unsigned nr;
	enum asker by;
};

static inline vaddr_t range_at(unsigned i)
{
	return AREA + (vaddr_t)i * PMD_SIZE;
}

static inline vaddr_t page_at(unsigned i)
{
	return AREA + PAGES(i);
}

/* Base pages only, until somebody makes huge ones of them. */
static inline struct ranges ranges_new(enum asker by, unsigned nr)
{
	struct ranges r = { .w = swap_world(2, 256 * MIB, 64 * MIB), .nr = nr, .by = by };

	r.mm = mm_new(r.w);
	map_at(r.w, r.mm, AREA, nr * PMD_SIZE, RW);
	return r;
}

static inline void ranges_fill(struct ranges *r, unsigned first, unsigned nr)
{
	for (unsigned i = first; i < first + nr; i++)
		store(r->w, page_at(i), 1000 + i);
}

/* Pages [first, first + nr) hold what ranges_fill put there, all others zero. */
static inline void ranges_check(struct ranges *r, unsigned first, unsigned nr)
{
	mm_activate(r->w->c, r->mm);
	for (unsigned i = 0; i < r->nr * HPAGE_PMD_NR; i++)
		assert_int_equal(load(r->w, page_at(i)), i >= first && i < first + nr ? 1000 + i : 0);
}

static inline bool is_huge(struct ranges *r, unsigned i)
{
	return info(r->mm, range_at(i)).huge;
}

static inline unsigned nr_huge(struct ranges *r)
{
	unsigned n = 0;

	for (unsigned i = 0; i < r->nr; i++)
		n += is_huge(r, i);
	return n;
}

/* Ask for all of it, as the kernel's own test does. For BY_CALL the call's result; for BY_DAEMON 0. */
static inline int ranges_ask(struct ranges *r)
{
	struct world *w = r->w;
	uint32_t was = w->q->knobs.thp_enabled;
	int rc = 0;

	if (r->by == BY_DAEMON) {
		w->q->knobs.thp_enabled = THP_MADVISE;
		assert_ok((int)mm_madvise(w->c, r->mm, AREA, r->nr * PMD_SIZE, UAPI_MADV_HUGEPAGE));
		khugepaged_run(w->c, 2);
		assert_ok((int)mm_madvise(w->c, r->mm, AREA, r->nr * PMD_SIZE, UAPI_MADV_NOHUGEPAGE));
		w->q->knobs.thp_enabled = was;
	} else {
		w->q->knobs.thp_enabled = THP_NEVER; /* which it ignores */
		rc = (int)mm_madvise(w->c, r->mm, AREA, r->nr * PMD_SIZE, UAPI_MADV_COLLAPSE);
		w->q->knobs.thp_enabled = was;
	}
	world_check(w);
	return rc;
}

static inline void ranges_end(struct ranges *r)
{
	world_check(r->w);
	mm_end(r->w, r->mm);
	swap_world_end(r->w);
}

/* One huge page at AREA from a fault, filled. */
static inline void ranges_fault_huge(struct ranges *r)
{
	uint32_t was = r->w->q->knobs.thp_enabled;

	r->w->q->knobs.thp_enabled = THP_ALWAYS;
	ranges_fill(r, 0, HPAGE_PMD_NR);
	r->w->q->knobs.thp_enabled = was;
	assert_true(is_huge(r, 0));
}

static inline void split_mapping(struct ranges *r, struct mm *mm, vaddr_t va)
{
	struct pt_ref pmd;

	assert_ok(pt_pmd(r->w->c, mm, va, false, &pmd));
	thp_split_pmd(r->w->c, vma_find(r->w->c, mm, va), &pmd, va);
}

#endif
