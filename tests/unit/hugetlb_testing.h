/* Worlds with pools of huge pages, for the tests of hugetlb. */
#ifndef QUIRE_TESTS_HUGETLB_TESTING_H
#define QUIRE_TESTS_HUGETLB_TESTING_H

#include "paging_world.h"

#include "mm/hugetlb.h"

#define HUGE (2 * MIB)
#define GIB (1024 * MIB)
#define TLB_FLAGS (UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_HUGETLB)
#define LOG_2M (21U << UAPI_MAP_HUGE_SHIFT)
#define LOG_1G (30U << UAPI_MAP_HUGE_SHIFT)

static inline struct world *pool_world(uint64_t bytes, uint64_t pages_2m, uint64_t pages_1g)
{
	struct world *w = world_new(1, bytes);

	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, pages_1g), pages_1g);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, pages_2m), pages_2m);
	return w;
}

static inline void pool_end(struct world *w)
{
	world_check(w);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_2M, NID_NONE, 0), 0);
	assert_int_equal(hugetlb_set_pool(w->c, HUGETLB_1G, NID_NONE, 0), 0);
	world_end(w);
}

static inline void check_size(struct world *w, enum hugetlb_size size, uint64_t total, uint64_t nr_free, uint64_t rsvd, uint64_t surp)
{
	struct hugetlb_info i = hugetlb_info(w->q, size, NID_NONE);

	world_check(w);
	assert_int_equal(i.total, total);
	assert_int_equal(i.free, nr_free);
	assert_int_equal(i.rsvd, rsvd);
	assert_int_equal(i.surp, surp);
}

#define check_2m(w, total, nr_free, rsvd, surp) check_size(w, HUGETLB_2M, total, nr_free, rsvd, surp)

static inline int64_t map_huge(struct world *w, struct mm *mm, uint64_t len, unsigned more)
{
	return mm_mmap(w->c, mm, 0, len, RW, TLB_FLAGS | more, NULL, 0);
}

static inline vaddr_t map_ok(struct world *w, struct mm *mm, uint64_t len, unsigned more)
{
	int64_t va = map_huge(w, mm, len, more);

	assert_true(va > 0 && IS_ALIGNED((vaddr_t)va, HUGE));
	return (vaddr_t)va;
}

static inline struct mm *fork_ok(struct world *w, struct mm *mm)
{
	struct mm *child = NULL;

	assert_ok(mm_fork(w->c, mm, &child));
	return child;
}

#endif
