/*
 * Can a store through an old translation reach a frame that is somebody else's by now? Built twice, both times with accesses that
 * last (QUIRE_TEST_SLOW_ACCESS): as it is, where none may, and with the shootdown's wait left out (QUIRE_MUTANT_NO_WAIT), where this
 * test must catch one; so it is known to look in the right place.
 *
 *   writer   stores MARK to one page, again and again; each store lingers between translation and store
 *   thief    discards that page, faults in a page of its own, which gets the same frame, and watches that it stays zero
 */
#include "host_testing.h"

#include "machine/run.h"

#include <sched.h>
#include <string.h>

#define MIB (1ULL << 20)
#define MARK 0x5741535445554cULL

enum { ROUNDS = 60 };

struct stale {
	struct task writer, thief;
	struct mm *mm;
	vaddr_t va, own;
	bool started, end;
	uint64_t stores, same_frame, stale;
	int rc;
};

static void write_on(struct cpu *c, struct task *t)
{
	struct stale *s = t->arg;

	while (!__atomic_load_n(&s->end, __ATOMIC_ACQUIRE)) {
		s->rc |= host_store(c, s->va, 8, MARK);
		__atomic_add_fetch(&s->stores, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&s->started, true, __ATOMIC_RELEASE);
	}
}

/*
 * Looks at the frame itself, so that watching is not slowed down like an access, until the writer's store that was in flight has
 * ended for certain.
 */
static bool watch(struct cpu *c, const struct stale *s, pfn_t p)
{
	const uint64_t *word = machine_ptr(c->m, pfn_to_paddr(p));
	uint64_t from = __atomic_load_n(&s->stores, __ATOMIC_ACQUIRE);

	while (__atomic_load_n(&s->stores, __ATOMIC_ACQUIRE) < from + 2)
		if (__atomic_load_n(word, __ATOMIC_RELAXED))
			return true;
	return __atomic_load_n(word, __ATOMIC_RELAXED) != 0;
}

static void steal(struct cpu *c, struct task *t)
{
	struct stale *s = t->arg;
	struct mm_page_info before, after;

	while (!__atomic_load_n(&s->started, __ATOMIC_ACQUIRE))
		sched_yield();
	for (unsigned i = 0; i < ROUNDS && !s->stale; i++) {
		mm_page_info(s->mm, s->va, &before);
		s->rc |= (int)mm_madvise(c, s->mm, s->va, PAGE_SIZE, UAPI_MADV_DONTNEED);
		/* The kernel's way in: no access of ours that would linger. */
		s->rc |= (int)mm_populate(c, s->mm, s->own, s->own + PAGE_SIZE, true);
		mm_page_info(s->mm, s->own, &after);
		s->same_frame += before.present && after.pfn.v == before.pfn.v;
		s->stale += watch(c, s, after.pfn);
		s->rc |= (int)mm_madvise(c, s->mm, s->own, PAGE_SIZE, UAPI_MADV_DONTNEED);
	}
	__atomic_store_n(&s->end, true, __ATOMIC_RELEASE);
}

static void run(enum host_shootdown way, struct stale *s)
{
	struct host_options o = { .memory = 256 * MIB, .nr_cpus = 4, .shootdown = way };
	struct host_world w;
	struct knobs k;
	char err[200] = "";

	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	world_open(&w, &o, &k);
	memset(s, 0, sizeof(*s));
	assert_int_equal(mm_create(w.c, w.q, &s->mm), 0);
	s->va = map_some(w.c, s->mm, PAGE_SIZE);
	s->own = map_some(w.c, s->mm, PAGE_SIZE);
	s->writer = (struct task){ .fn = write_on, .arg = s, .mm = s->mm };
	s->thief = (struct task){ .fn = steal, .arg = s, .mm = s->mm };
	assert_int_equal(machine_task_start(w.m, &s->writer), 0);
	assert_int_equal(machine_task_start(w.m, &s->thief), 0);
	assert_int_equal(machine_run(w.m, err, sizeof(err)), 0);
	assert_int_equal(s->rc, 0);
	assert_true(s->stores > 0);
	assert_true(s->same_frame > 0); /* else nothing was tested */
	mm_put(w.c, s->mm);
	world_close(&w);
}

static void stale_stores(void **state)
{
	struct stale s;

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		run((enum host_shootdown)way, &s);
#ifdef QUIRE_MUTANT_NO_WAIT
		assert_true(s.stale > 0);
#else
		assert_int_equal(s.stale, 0);
#endif
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stale_stores) };

	return test_run(tests);
}
