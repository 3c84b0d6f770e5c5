/*
 * Running out of memory at every allocation: a scenario of calls is run once for each slab object and each frame that it
 * takes, with that one refused. A call that fails must leave the address space valid and, unless it says otherwise, as it
 * was; made again it must succeed, and contents must have survived.
 */
#include "vma_testing.h"

#define BRK 0x555555600000ULL

struct oom_step {
	const char *what;
	int64_t (*call)(struct world *w);
	bool partial; /* an error may leave a part done */
};

#define BORDER (WIN + 2 * PMD_SIZE - 4 * PG)
#define BORDER_TO (BORDER + (1ULL << 36))

static int64_t s_map(struct world *w)
{
	return mm_mmap(w->c, w->mm, WIN, 64 * PG, RW, FIXED | UAPI_MAP_POPULATE, NULL, 0);
}

static int64_t s_map_over(struct world *w)
{
	return mm_mmap(w->c, w->mm, WIN + 20 * PG, 4 * PG, RO, FIXED, NULL, 0);
}

static int64_t s_shared(struct world *w)
{
	return mm_mmap(w->c, w->mm, WIN + 40 * PG, 4 * PG, RW, UAPI_MAP_SHARED | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED,
		       NULL, 0);
}

static int64_t s_hole(struct world *w)
{
	return mm_munmap(w->c, w->mm, WIN + 10 * PG, 2 * PG);
}

static int64_t s_protect(struct world *w)
{
	return mm_mprotect(w->c, w->mm, WIN + 14 * PG, 2 * PG, RO);
}

static int64_t s_advise(struct world *w)
{
	return mm_madvise(w->c, w->mm, WIN + 50 * PG, 2 * PG, UAPI_MADV_RANDOM);
}

static int64_t s_lock(struct world *w)
{
	return mm_mlock(w->c, w->mm, WIN + 54 * PG, 2 * PG, false);
}

static int64_t s_move(struct world *w)
{
	return mm_mremap(w->c, w->mm, WIN + 30 * PG, 3 * PG, 3 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
			 WIN + (1ULL << 35));
}

static int64_t s_grow(struct world *w)
{
	return mm_mremap(w->c, w->mm, WIN, 4 * PG, 8 * PG, UAPI_MREMAP_MAYMOVE, 0);
}

/* Across the border of two page tables, at both places: the second table of the new place may be missing. */
static int64_t s_map_border(struct world *w)
{
	int64_t r = mm_mmap(w->c, w->mm, BORDER, 8 * PG, RW, FIXED, NULL, 0);

	for (unsigned i = 0; i < 8 && r > 0; i++)
		if (w->m->ops->store_value(w->c, BORDER + i * PG, 1000 + i))
			r = -ENOMEM;
	return r;
}

static int64_t s_move_border(struct world *w)
{
	return mm_mremap(w->c, w->mm, BORDER, 8 * PG, 8 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, BORDER_TO);
}

static int64_t s_check_border(struct world *w)
{
	uint64_t value;

	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(w->m->ops->load_value(w->c, BORDER_TO + i * PG, &value), 0);
		assert_int_equal(value, 1000 + i);
	}
	return 0;
}

static int64_t s_brk(struct world *w)
{
	return mm_brk(w->c, w->mm, BRK + 4 * PG) == (int64_t)(BRK + 4 * PG) ? 0 : -ENOMEM;
}

static const struct oom_step oom_steps[] = {
	{ "mmap", s_map, false },
	{ "mmap over", s_map_over, false },
	{ "shared mmap", s_shared, false },
	{ "munmap of a hole", s_hole, false },
	{ "mprotect", s_protect, true },
	{ "madvise", s_advise, true },
	{ "mlock", s_lock, true },
	{ "mremap", s_move, false },
	{ "mremap that grows", s_grow, false },
	{ "brk", s_brk, false },
	{ "mmap and writes at a border", s_map_border, true },
	{ "mremap across a border", s_move_border, false },
	{ "reading what was moved", s_check_border, true },
};

/* The whole scenario with one failure; a call that failed is checked to have changed nothing, and made again. */
static void oom_run(enum inject_site site, uint64_t n, uint64_t *ret_failures)
{
	static char before[8192], after[8192];
	struct world w;

	world_up(&w, NULL);
	assert_int_equal(mm_setup_exec(w.c, w.mm, BRK, TASK_SIZE - PG, 33 * PG), 0);
	assert_int_equal(inject_set(w.in, site, INJECT_NTH, n), 0);
	for (size_t i = 0; i < ARRAY_SIZE(oom_steps); i++) {
		uint64_t committed = w.q->committed_pages, total = w.mm->total_vm;
		int64_t r;

		areas(&w, 0, TASK_SIZE, before, sizeof(before));
		r = oom_steps[i].call(&w);
		world_check(&w);
		areas(&w, 0, TASK_SIZE, after, sizeof(after));
		if (r >= 0)
			continue;
		if (r != -ENOMEM && r != -EAGAIN)
			fail_msg("%s with failure %u: %d", oom_steps[i].what, (unsigned)n, (int)r);
		if (!oom_steps[i].partial) {
			assert_string_equal(after, before);
			assert_int_equal(w.q->committed_pages, committed);
			assert_int_equal(w.mm->total_vm, total);
		}
		r = oom_steps[i].call(&w);
		if (r < 0)
			fail_msg("%s again after failure %u: %d", oom_steps[i].what, (unsigned)n, (int)r);
		world_check(&w);
	}
	*ret_failures = inject_failures(w.in, site);
	inject_set(w.in, site, INJECT_NEVER, 1);
	world_down(&w);
}

static void out_of_memory_everywhere(void **state)
{
	uint64_t failures = 1, n;

	(void)state;
	for (n = 1; failures; n++)
		oom_run(INJECT_SLAB_ALLOC, n, &failures);
	assert_true(n > 10);
	failures = 1;
	for (n = 1; failures; n++)
		oom_run(INJECT_FRAME_ALLOC, n, &failures);
	assert_true(n > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(out_of_memory_everywhere),
	};

	return test_run(tests);
}
