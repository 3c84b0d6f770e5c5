/* The arena, the null machine and the fault wrapper: what tests of the engine build on. */
#include "testing.h"

#include "machine/arena.h"
#include "machine/inject.h"
#include "machine/null.h"

#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct machine *new_machine(const struct null_options *o)
{
	struct machine *m = NULL;
	char err[200];

	assert_int_equal(null_create(o, &m, err, sizeof(err)), 0);
	return m;
}

/* ---- arena ---- */

#if defined(__SANITIZE_THREAD__)
#define ARENA_PAGES (1ULL << 28) /* 1 TiB: ThreadSanitizer leaves a program fewer addresses */
#else
#define ARENA_PAGES (1ULL << 32) /* 16 TiB */
#endif

static void test_arena(void **state)
{
	struct machine m = { 0 };
	char err[200];

	(void)state;
	/* Modelled memory costs only what is touched. */
	assert_int_equal(machine_arena_create(&m, ARENA_PAGES, true, err, sizeof(err)), 0);
	assert_int_equal(m.max_pfn, ARENA_PAGES);
	assert_int_equal((uintptr_t)m.memmap % PMD_SIZE, 0);
	assert_int_equal(m.direct[0], 0);
	m.direct[(m.max_pfn << PAGE_SHIFT) - 1] = 1;
	assert_int_equal(m.tags[m.max_pfn - 1], 0);
	m.tags[m.max_pfn - 1] = 7;
	((char *)m.memmap)[m.max_pfn * 64 - 1] = 1;
	machine_arena_destroy(&m);
	assert_null(m.direct);
	assert_int_equal(m.max_pfn, 0);
	machine_arena_destroy(&m);

	assert_int_equal(machine_arena_create(&m, SECTION_FRAMES, false, err, sizeof(err)), 0);
	assert_null(m.tags);
	machine_arena_destroy(&m);
	assert_int_equal(machine_arena_create(&m, 0, false, err, sizeof(err)), -EINVAL);
	assert_int_equal(machine_arena_create(&m, (1ULL << 34) + 1, false, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "page frames"));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* Where address space is limited the refusal is an error with a reason, and nothing stays mapped. */
static void test_arena_refused(void **state)
{
	pid_t child = fork();
	int status = 0;

	(void)state;
	if (!child) {
		struct rlimit r = { 1ULL << 32, 1ULL << 32 };
		struct machine m = { 0 };
		char err[300] = "";
		int res;

		/* First a limit at which the direct map fits and the rest does not, then one at which nothing does. */
		if (setrlimit(RLIMIT_AS, &r))
			_exit(2);
		res = machine_arena_create(&m, (3ULL << 30) >> PAGE_SHIFT, true, err, sizeof(err));
		machine_arena_destroy(&m);
		if (res)
			_exit(3);
		res = machine_arena_create(&m, (8ULL << 30) >> PAGE_SHIFT, true, err, sizeof(err));
		_exit(res == -ENOMEM && !m.direct && !m.max_pfn && strstr(err, "8192 MiB") && strstr(err, "ulimit -v") ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
#endif

/* ---- accesses ---- */

#define ROOT 1ULL
#define TABLES 16ULL /* frames 1 to 16 are tables in these tests */

static uint64_t *entry(struct machine *m, uint64_t table, unsigned index)
{
	return (uint64_t *)machine_ptr(m, table << PAGE_SHIFT) + index;
}

/* Tables 1 -> 2 -> 3 -> 4 for address 0 on. */
static void map_chain(struct machine *m)
{
	const uint64_t bits = PTE_PRESENT | PTE_WRITE | PTE_USER;

	*entry(m, 1, 0) = 2ULL << PAGE_SHIFT | bits;
	*entry(m, 2, 0) = 3ULL << PAGE_SHIFT | bits;
	*entry(m, 3, 0) = 4ULL << PAGE_SHIFT | bits;
	m->ops->load_context(m->cpus[0], pfn(ROOT), 1);
}

static void test_walk(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ .nr_cpus = 1 });
	const uint64_t rw = PTE_PRESENT | PTE_WRITE | PTE_USER;
	struct cpu *c = m->cpus[0];
	uint64_t v, done;

	(void)state;
	assert_int_equal(machine_access(c, 0x1000, 8, ACCESS_USER), -EFAULT); /* no address space */
	map_chain(m);
	*entry(m, 4, 1) = 100ULL << PAGE_SHIFT | PTE_PRESENT | PTE_USER;
	*entry(m, 4, 2) = 101ULL << PAGE_SHIFT | rw;
	*entry(m, 4, 3) = 102ULL << PAGE_SHIFT | PTE_PRESENT | PTE_WRITE; /* kernel only */
	*entry(m, 4, 4) = 103ULL << PAGE_SHIFT | rw | PTE_NX;
	*entry(m, 3, 1) = 512ULL << PAGE_SHIFT | rw | PTE_HUGE; /* 2 MiB at 2 MiB */

	assert_int_equal(machine_access(c, 0x1ff8, 8, ACCESS_USER), 0);
	assert_int_equal(*entry(m, 4, 1) & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED);
	assert_true(*entry(m, 1, 0) & PTE_ACCESSED);
	assert_int_equal(machine_access(c, 0x1ff8, 8, ACCESS_USER | ACCESS_WRITE), -EFAULT);
	assert_int_equal(machine_access(c, 0x1ff8, 8, ACCESS_WRITE), -EFAULT); /* the kernel's copies obey, too */
	assert_int_equal(*entry(m, 4, 1) & PTE_DIRTY, 0);
	/* Crosses from a read-only page into a writable one. */
	assert_int_equal(machine_access(c, 0x1ffc, 8, ACCESS_USER), 0);
	assert_int_equal(machine_access(c, 0x1ffc, 8, ACCESS_USER | ACCESS_WRITE), -EFAULT);
	assert_int_equal(machine_access(c, 0x2000, 8, ACCESS_USER | ACCESS_WRITE), 0);
	assert_int_equal(*entry(m, 4, 2) & (PTE_ACCESSED | PTE_DIRTY), PTE_ACCESSED | PTE_DIRTY);
	assert_true(m->tags[101] != 0);
	assert_int_equal(m->tags[100], 0);
	assert_int_equal(machine_access(c, 0x3000, 8, ACCESS_USER), -EFAULT);
	assert_int_equal(machine_access(c, 0x3000, 8, 0), 0);
	assert_int_equal(machine_access(c, 0x4000, 1, ACCESS_USER | ACCESS_EXEC), -EFAULT);
	assert_int_equal(machine_access(c, 0x2000, 1, ACCESS_USER | ACCESS_EXEC), 0);
	assert_int_equal(machine_access(c, 1ULL << 47, 8, ACCESS_USER), -EFAULT);
	assert_int_equal(machine_access(c, ~0ULL - 3, 8, ACCESS_USER), -EFAULT); /* wraps around */

	assert_int_equal(m->ops->store_value(c, PMD_SIZE + 5 * PAGE_SIZE, 42), 0);
	assert_int_equal(m->tags[517], 42);
	assert_int_equal(m->ops->load_value(c, PMD_SIZE + 5 * PAGE_SIZE + 4088, &v), 0);
	assert_int_equal(v, 42);
	assert_true(*entry(m, 3, 1) & PTE_DIRTY);

	null_counts_reset(m);
	assert_int_equal(m->ops->access_run(c, PMD_SIZE - 4096, 4096, 3, 8, ACCESS_USER, 5, &done), -EFAULT);
	assert_int_equal(done, 0);
	assert_int_equal(m->ops->access_run(c, 2 * PMD_SIZE - 2 * 4096, 4096, 3, 8, ACCESS_USER, 5, &done), -EFAULT);
	assert_int_equal(done, 2);
	assert_int_equal(null_counts(m)->insns, 10);
	assert_int_equal(null_counts(m)->accesses, 2);
	null_destroy(m);
}

static unsigned last_code, hook_calls;
static int hook_result;

static int fault_hook(struct cpu *c, vaddr_t va, unsigned err)
{
	last_code = err;
	hook_calls++;
	assert_true(c->fault_start_ps == c->now_ps);
	machine_work(c, PATH_FAULT, 1);
	if (!hook_result)
		*entry(c->m, 4, (unsigned)(va >> PAGE_SHIFT)) |= 200ULL << PAGE_SHIFT | PTE_PRESENT | PTE_WRITE | PTE_USER;
	return hook_result;
}

static void test_faults(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ 0 });
	struct cpu *c = m->cpus[0];

	(void)state;
	map_chain(m);
	m->hooks.fault = fault_hook;
	hook_calls = 0;
	hook_result = 0;
	machine_work(c, PATH_USER, 0);
	assert_int_equal(machine_access(c, 0x5008, 8, ACCESS_USER | ACCESS_WRITE), 0);
	assert_int_equal(hook_calls, 1);
	assert_int_equal(last_code, ACCESS_USER | ACCESS_WRITE);
	/* What follows is booked under the path of before the fault. */
	assert_int_equal(machine_work(c, PATH_USER, 0), PATH_USER);
	*entry(m, 4, 5) &= ~PTE_WRITE;
	assert_int_equal(machine_access(c, 0x5008, 8, ACCESS_WRITE), 0);
	assert_int_equal(last_code, ACCESS_PRESENT | ACCESS_WRITE);
	hook_result = -ENOMEM;
	assert_int_equal(machine_access(c, 0x6000, 8, ACCESS_USER), -ENOMEM);
	assert_int_equal(null_counts(m)->faults, 3);
	assert_int_equal(null_counts(m)->failed_faults, 1);
	assert_int_equal(null_counts(m)->enters[ENTRY_EXCEPTION], 3);
	assert_int_equal(null_counts(m)->path[PATH_FAULT].units, 3);
	null_destroy(m);
}

static void test_counts(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ .nr_cpus = 4, .nr_nodes = 2, .nr_far_nodes = 1 });
	struct cpu *c = m->cpus[3];
	struct cpumask all = { { 0xf } };
	unsigned remote = 0;

	(void)state;
	assert_int_equal(m->nr_nodes, 3);
	assert_int_equal(m->max_pfn, 3ULL << 18);
	assert_int_equal(m->cpus[1]->nid, 0);
	assert_int_equal(c->nid, 1);
	assert_int_equal(m->nodes[1].first_cpu, 2);
	assert_int_equal(m->nodes[2].nr_cpus, 0);
	assert_int_equal(m->distance[0][0], 10);
	assert_int_equal(m->distance[0][1], 21);
	assert_int_equal(m->distance[1][2], m->distance[2][1]);

	machine_work(c, PATH_MMAP, 1);
	machine_touch(c, 60, 8, TOUCH_WRITE); /* over the end of a line */
	machine_touch(c, 64, 64, TOUCH_READ);
	machine_touch(c, 64, 0, TOUCH_READ);
	assert_int_equal(machine_work(c, PATH_BRK, 3), PATH_MMAP);
	m->tags[5] = 9;
	assert_int_equal(machine_copy_page(c, pfn(6), pfn(5)), 0);
	assert_int_equal(m->tags[6], 9);
	assert_int_equal(machine_clear_page(c, pfn(5)), 0);
	assert_int_equal(m->tags[5], 0);
	assert_int_equal(null_counts(m)->path[PATH_MMAP].lines[TOUCH_WRITE], 2);
	assert_int_equal(null_counts(m)->path[PATH_MMAP].lines[TOUCH_READ], 1);
	assert_int_equal(null_counts(m)->path[PATH_BRK].units, 3);
	assert_int_equal(null_counts(m)->path[PATH_BRK].calls, 1);
	assert_int_equal(null_counts(m)->path[PATH_BRK].clears, 1);
	assert_int_equal(null_counts(m)->path[PATH_BRK].copies, 1);

	m->ops->flush_remote(c, &all, &(struct tlb_flush){ .full = true }, &remote);
	assert_int_equal(remote, 3);
	assert_int_equal(null_counts(m)->ipis, 3);
	m->ops->sleep_ns(c, 50);
	assert_int_equal(machine_now_ns(m->cpus[0]), 50);
	null_destroy(m);
}

static void test_bad_options(void **state)
{
	static const struct null_options bad[] = {
		{ .nr_cpus = QUIRE_MAX_CPUS + 1 }, { .nr_cpus = 1, .nr_nodes = 2 },  { .nr_far_nodes = 64 },
		{ .nr_far_nodes = ~0U },	   { .node_bytes = (128 << 20) + 1 },
	};
	struct machine *m;
	char err[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(null_create(&bad[i], &m, err, sizeof(err)), -EINVAL);
}

/* ---- locks: misuse ends the process, so it is tried in children ---- */

typedef void misuse_fn(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw);

static void lock_twice(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)b, (void)rw;
	machine_lock(c, a);
	machine_lock(c, a);
}

static void lock_against_rank(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)rw;
	machine_lock(c, b);
	machine_lock(c, a);
}

static void unlock_free(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)b, (void)rw;
	machine_unlock(c, a);
}

static void unlock_other_cpu(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)b, (void)rw;
	machine_lock(c, a);
	machine_unlock(c->m->cpus[1], a);
}

static void write_under_read(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)a, (void)b;
	machine_read_lock(c, rw);
	machine_write_lock(c->m->cpus[1], rw);
}

static void read_twice(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)a, (void)b;
	machine_read_lock(c, rw);
	machine_read_lock(c, rw);
}

static void read_unlock_free(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)a, (void)b;
	machine_read_unlock(c, rw);
}

static void downgrade_reader(struct cpu *c, struct mlock *a, struct mlock *b, struct mrwlock *rw)
{
	(void)a, (void)b;
	machine_read_lock(c, rw);
	machine_downgrade(c, rw);
}

static void test_lock_misuse(void **state)
{
	static misuse_fn *const fns[] = { lock_twice,  lock_against_rank, unlock_free,	    unlock_other_cpu,
					  write_under_read, read_twice,	       read_unlock_free, downgrade_reader };
	struct machine *m = new_machine(&(struct null_options){ .nr_cpus = 2 });

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(fns); i++) {
		pid_t child = fork();
		int status = 0;

		if (!child) {
			struct mlock a, b;
			struct mrwlock rw;

			mlock_init(&a, RANK_PTL, 0);
			mlock_init(&b, RANK_ZONE, 0);
			mrwlock_init(&rw, RANK_MMAP_LOCK, 0);
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			fns[i](m->cpus[0], &a, &b, &rw);
			_exit(0);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
			fail_msg("misuse %zu was not caught", i);
	}
	null_destroy(m);
}

static void test_locks(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ .nr_cpus = 2 });
	struct cpu *c = m->cpus[0];
	struct mlock ptl, ptl2, zone;
	struct mrwlock rw;

	(void)state;
	mlock_init(&ptl, RANK_PTL, 0);
	mlock_init(&ptl2, RANK_PTL, 0);
	mlock_init(&zone, RANK_ZONE, 0);
	mrwlock_init(&rw, RANK_MMAP_LOCK, 0);
	machine_write_lock(c, &rw);
	machine_downgrade(c, &rw);
	machine_read_lock(m->cpus[1], &rw);
	machine_lock(c, &ptl);
	machine_lock(c, &ptl2);
	machine_lock(c, &zone);
	assert_int_equal(null_locks_held(c), 4);
	assert_int_equal(c->lock_depth, 4);
	assert_false(machine_trylock(m->cpus[1], &ptl));
	machine_unlock(c, &ptl); /* not in reverse order */
	assert_true(machine_trylock(c, &ptl)); /* below zone in rank: fine for a trylock */
	machine_unlock(c, &ptl);
	machine_unlock(c, &zone);
	machine_unlock(c, &ptl2);
	machine_read_unlock(c, &rw);
	machine_read_unlock(m->cpus[1], &rw);
	assert_int_equal(null_locks_held(c), 0);
	assert_int_equal(rw.state, 0);
	assert_int_equal(null_counts(m)->failed_trylocks, 1);
	null_destroy(m);
}

/* ---- tasks ---- */

static char order[64];
static struct task waiter, other;

static void note(const char *what)
{
	strncat(order, what, sizeof(order) - strlen(order) - 1);
}

static void wait_fn(struct cpu *c, struct task *t)
{
	(void)t;
	note("wait ");
	c->m->ops->block(c);
	note("woken ");
}

static void wake_fn(struct cpu *c, struct task *t)
{
	(void)t;
	note("wake ");
	assert_ptr_equal(c->current, &other);
	c->m->ops->wake(c, &waiter);
}

static void count_switch(struct cpu *c, struct task *prev, struct task *next)
{
	(void)c;
	note(prev ? next ? "s" : "o" : "i");
}

static void test_tasks(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ .nr_cpus = 2 });
	struct cpumask second = { { 2 } }, none = { { 0 } };
	struct task never = { .fn = wait_fn, .name = "never" }, nowhere = { .fn = wait_fn, .affinity = &none };
	char err[200];

	(void)state;
	order[0] = '\0';
	m->hooks.context_switch = count_switch;
	waiter = (struct task){ .fn = wait_fn };
	other = (struct task){ .fn = wake_fn };
	assert_int_equal(m->ops->task_start(m->cpus[0], &waiter), 0);
	assert_int_equal(m->ops->task_start(m->cpus[0], &other), 0);
	assert_int_equal(m->ops->task_start(m->cpus[0], &nowhere), -EINVAL);
	assert_int_equal(null_run(m, err, sizeof(err)), 0);
	assert_string_equal(order, "iwait swake swoken o");
	assert_int_equal(waiter.state, TASK_DEAD);
	assert_int_equal(other.seq, 1);

	never.affinity = &second;
	assert_int_equal(m->ops->task_start(m->cpus[0], &never), 0);
	assert_int_equal(null_run(m, err, sizeof(err)), -EDEADLK);
	assert_ptr_equal(never.cpu, m->cpus[1]);
	assert_string_equal(err, "never blocked and nobody was left to wake it");
	m->stop = true;
	assert_int_equal(null_run(m, err, sizeof(err)), -EINTR);
	null_destroy(m);
}

/* ---- injected failures ---- */

static void test_inject(void **state)
{
	struct machine *m = new_machine(&(struct null_options){ 0 });
	const struct machine_ops *before = m->ops;
	struct cpu *c = m->cpus[0];
	struct inject *in;
	struct mlock l;
	unsigned failed[2] = { 0, 0 };

	(void)state;
	assert_false(machine_inject(c, INJECT_SLAB_ALLOC, 0));
	assert_int_equal(inject_attach(m, 1, &in), 0);
	assert_string_equal(m->ops->kind, "null");
	assert_int_equal(inject_set(in, INJECT_SLAB_ALLOC, INJECT_NTH, 3), 0);
	for (unsigned i = 1; i <= 6; i++)
		assert_int_equal(machine_inject(c, INJECT_SLAB_ALLOC, 0), i == 3);
	assert_int_equal(inject_set(in, INJECT_FRAME_ALLOC, INJECT_EVERY, 2), 0);
	for (unsigned i = 1; i <= 6; i++)
		assert_int_equal(machine_inject(c, INJECT_FRAME_ALLOC, 0), i % 2 == 0);
	assert_int_equal(inject_calls(in, INJECT_FRAME_ALLOC), 6);
	assert_int_equal(inject_failures(in, INJECT_FRAME_ALLOC), 3);

	assert_int_equal(inject_set(in, INJECT_COPY, INJECT_EVERY, 1), 0);
	assert_int_equal(machine_copy_page(c, pfn(1), pfn(2)), -EHWPOISON);
	assert_int_equal(inject_set(in, INJECT_CLEAR, INJECT_NTH, 2), 0);
	assert_int_equal(machine_clear_page(c, pfn(1)), 0);
	assert_int_equal(machine_clear_page(c, pfn(1)), -ENOMEM);
	assert_int_equal(machine_clear_page(c, pfn(1)), 0);
	mlock_init(&l, RANK_ZONE, 0);
	assert_int_equal(inject_set(in, INJECT_TRYLOCK, INJECT_NTH, 1), 0);
	assert_false(machine_trylock(c, &l));
	assert_int_equal(l.state, 0);
	assert_true(machine_trylock(c, &l));
	machine_unlock(c, &l);

	/* A seeded fraction: the same again with the same seed, and near what was asked for. */
	for (unsigned round = 0; round < 2; round++) {
		assert_int_equal(inject_set(in, INJECT_SLAB_ALLOC, INJECT_RANDOM, 250), 0);
		for (unsigned i = 0; i < 1000; i++)
			failed[round] = failed[round] * 31 + machine_inject(c, INJECT_SLAB_ALLOC, 0);
		assert_in_range(inject_failures(in, INJECT_SLAB_ALLOC), 200, 300);
	}
	assert_int_equal(failed[0], failed[1]);
	assert_int_equal(inject_set(in, INJECT_SLAB_ALLOC, INJECT_NEVER, 0), 0);
	assert_false(machine_inject(c, INJECT_SLAB_ALLOC, 0));
	assert_int_equal(inject_set(in, INJECT_SLAB_ALLOC, INJECT_NTH, 0), -EINVAL);
	assert_int_equal(inject_set(in, INJECT_SLAB_ALLOC, INJECT_RANDOM, 1001), -EINVAL);
	inject_detach(in);
	assert_ptr_equal(m->ops, before);
	assert_int_equal(machine_copy_page(c, pfn(1), pfn(2)), 0);
	null_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(test_arena_refused),
#endif
		cmocka_unit_test(test_walk),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_bad_options),
		cmocka_unit_test(test_lock_misuse),
		cmocka_unit_test(test_locks),
		cmocka_unit_test(test_tasks),
		cmocka_unit_test(test_inject),
	};

	return test_run(tests);
}
