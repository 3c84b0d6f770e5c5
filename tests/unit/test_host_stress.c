/*
 * Threads that access, fault, fork, protect, unmap, move, discard and pin at random, side by side, against a content oracle.
 *
 * All share one address space; each has areas of its own whose every page it knows the content of, so a page that is lost, stale,
 * shared by mistake or written through an old translation shows as a wrong word. QUIRE_STRESS_SEED and QUIRE_STRESS_OPS repeat or
 * lengthen a run; a failure prints both. Meant to be run under ThreadSanitizer and AddressSanitizer as well.
 */
#include "host_testing.h"

#include "base/rng.h"
#include "machine/run.h"
#include "mm/gup.h"
#include "mm/tlb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1ULL << 20)

enum { THREADS = 3, AREAS = 4, PAGES = 1100 };

struct area {
	vaddr_t va;
	uint64_t want[PAGES]; /* first word of each page */
	bool readonly;
};

struct worker {
	struct task t;
	struct rng r;
	struct mm *mm;
	uint64_t ops, seed, next;
	unsigned id;
	struct area area[AREAS];
	uint64_t shared_va, checks, forks;
	char why[200];
};

#define WRONG(w, ...)                                                                              \
	do {                                                                                        \
		if (!(w)->why[0])                                                                   \
			snprintf((w)->why, sizeof((w)->why), __VA_ARGS__);                          \
	} while (0)

static void check_page(struct cpu *c, struct worker *w, const struct area *a, unsigned page)
{
	uint64_t v = ~0ULL;
	int rc = host_load(c, a->va + page * PAGE_SIZE, 8, &v);

	w->checks++;
	if (rc || v != a->want[page])
		WRONG(w, "thread %u area %d page %u: %d, %#lx instead of %#lx", w->id, (int)(a - w->area), page, rc, (unsigned long)v,
		      (unsigned long)a->want[page]);
}

static void write_page(struct cpu *c, struct worker *w, struct area *a, unsigned page)
{
	uint64_t v = (uint64_t)(w->id + 1) << 56 | ++w->next;
	int rc = host_store(c, a->va + page * PAGE_SIZE, 8, v);

	if (a->readonly) {
		if (rc != -EFAULT)
			WRONG(w, "thread %u: store to a read-only page gave %d", w->id, rc);
		return;
	}
	if (rc)
		WRONG(w, "thread %u: store: %d", w->id, rc);
	a->want[page] = v;
}

static void map_area(struct cpu *c, struct worker *w, struct area *a)
{
	int64_t va = mm_mmap(c, w->mm, 0, PAGES * PAGE_SIZE, HOST_RW, HOST_ANON, NULL, 0);

	if (va <= 0)
		WRONG(w, "mmap: %ld", (long)va);
	a->va = (vaddr_t)va;
	a->readonly = false;
	memset(a->want, 0, sizeof(a->want));
}

static void range(struct worker *w, unsigned *from, unsigned *n)
{
	*from = (unsigned)rng_below(&w->r, PAGES);
	*n = 1 + (unsigned)rng_below(&w->r, rng_below(&w->r, 4) ? MIN(PAGES - *from, 20) : PAGES - *from);
}

static void discard(struct cpu *c, struct worker *w, struct area *a)
{
	unsigned from, n;

	range(w, &from, &n);
	if (mm_madvise(c, w->mm, a->va + from * PAGE_SIZE, n * PAGE_SIZE, UAPI_MADV_DONTNEED))
		WRONG(w, "DONTNEED failed");
	memset(a->want + from, 0, n * sizeof(a->want[0]));
}

static void protect(struct cpu *c, struct worker *w, struct area *a)
{
	a->readonly = !a->readonly;
	if (mm_mprotect(c, w->mm, a->va, PAGES * PAGE_SIZE, a->readonly ? UAPI_PROT_READ : HOST_RW))
		WRONG(w, "mprotect failed");
}

static void move(struct cpu *c, struct worker *w, struct area *a)
{
	int64_t to = mm_mmap(c, w->mm, 0, PAGES * PAGE_SIZE, HOST_RW, HOST_ANON, NULL, 0);

	if (to > 0)
		to = mm_mremap(c, w->mm, a->va, PAGES * PAGE_SIZE, PAGES * PAGE_SIZE, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, (vaddr_t)to);
	if (to <= 0)
		WRONG(w, "mremap: %ld", (long)to);
	else
		a->va = (vaddr_t)to;
}

static void remap(struct cpu *c, struct worker *w, struct area *a)
{
	if (mm_munmap(c, w->mm, a->va, PAGES * PAGE_SIZE))
		WRONG(w, "munmap failed");
	map_area(c, w, a);
}

/* The child has what the parent had at the fork, whatever both do afterwards. */
static void fork_and_look(struct cpu *c, struct worker *w)
{
	struct mm *child;
	int rc = mm_fork(c, w->mm, &child);
	static const unsigned looks = 40;
	struct {
		struct area *a;
		unsigned page;
		uint64_t want;
	} look[40];

	if (rc) {
		WRONG(w, "fork: %d", rc);
		return;
	}
	w->forks++;
	for (unsigned i = 0; i < looks; i++) {
		struct area *a = &w->area[rng_below(&w->r, AREAS)];
		unsigned page = (unsigned)rng_below(&w->r, PAGES);

		look[i].a = a;
		look[i].page = page;
		look[i].want = a->want[page];
	}
	for (unsigned i = 0; i < looks; i += 2)
		write_page(c, w, look[i].a, look[i].page);
	mm_activate(c, child);
	for (unsigned i = 0; i < looks; i++) {
		vaddr_t at = look[i].a->va + look[i].page * PAGE_SIZE;
		uint64_t v = ~0ULL;

		rc = host_load(c, at, 8, &v);
		if (rc || v != look[i].want)
			WRONG(w, "thread %u, child, page %u: %d, %#lx instead of %#lx", w->id, look[i].page, rc, (unsigned long)v,
			      (unsigned long)look[i].want);
		if (i % 3 == 0 && !look[i].a->readonly) {
			(void)host_store(c, at, 8, 0xdead);
			for (unsigned k = i + 1; k < looks; k++)
				if (look[k].a == look[i].a && look[k].page == look[i].page)
					look[k].want = 0xdead;
		}
	}
	mm_activate(c, w->mm);
	mm_put(c, child);
}

/* Through the pointer and through the mapping is the same, until the mapping lets go of the page; then the pointer's stays. */
static void pin(struct cpu *c, struct worker *w)
{
	struct area *a = &w->area[rng_below(&w->r, AREAS)];
	unsigned page = (unsigned)rng_below(&w->r, PAGES - 3);
	bool write = rng_below(&w->r, 2);
	vaddr_t va = a->va + page * PAGE_SIZE;
	uint64_t *word[3], kept[3];
	pfn_t frames[3];
	int rc = mm_pin(c, w->mm, va, 3, write, frames);

	if (rc != (write && a->readonly ? -EFAULT : 0))
		WRONG(w, "thread %u: pin gave %d", w->id, rc);
	if (rc)
		return;
	for (unsigned i = 0; i < 3; i++) {
		word[i] = machine_ptr(c->m, pfn_to_paddr(frames[i]));
		if (write)
			__atomic_store_n(word[i], a->want[page + i] = ++w->next, __ATOMIC_RELAXED); /* others may fork */
	}
	for (unsigned i = 0; i < 3; i++)
		write_page(c, w, a, page + i);
	if (rng_below(&w->r, 8) == 0)
		fork_and_look(c, w);
	for (unsigned i = 0; i < 3; i++) {
		check_page(c, w, a, page + i);
		kept[i] = a->want[page + i];
	}
	if (rng_below(&w->r, 2)) {
		if (mm_madvise(c, w->mm, va, 3 * PAGE_SIZE, UAPI_MADV_DONTNEED))
			WRONG(w, "DONTNEED failed");
		for (unsigned i = 0; i < 3; i++)
			a->want[page + i] = 0;
		for (unsigned i = 0; i < 3; i++)
			write_page(c, w, a, page + i);
	}
	for (unsigned i = 0; i < 3; i++)
		if (__atomic_load_n(word[i], __ATOMIC_RELAXED) != kept[i])
			WRONG(w, "thread %u area %d page %u: pinned memory changed", w->id, (int)(a - w->area), page + i);
	mm_unpin(c, frames, 3);
}

/* A word a thread in pages that all of them write. */
static void shared_words(struct cpu *c, struct worker *w)
{
	vaddr_t at = w->shared_va + rng_below(&w->r, 64) * PAGE_SIZE + 8 * w->id;
	uint64_t v, put = ++w->next;

	if (host_store(c, at, 8, put) || host_load(c, at, 8, &v) || v != put)
		WRONG(w, "thread %u: shared word", w->id);
}

static void work(struct cpu *c, struct task *t)
{
	struct worker *w = t->arg;

	for (unsigned i = 0; i < AREAS; i++)
		map_area(c, w, &w->area[i]);
	for (uint64_t op = 0; op < w->ops && !w->why[0]; op++) {
		struct area *a = &w->area[rng_below(&w->r, AREAS)];
		unsigned page = (unsigned)rng_below(&w->r, PAGES), kind = (unsigned)rng_below(&w->r, 1000);

		if (kind < 450)
			write_page(c, w, a, page);
		else if (kind < 850)
			check_page(c, w, a, page);
		else if (kind < 900)
			shared_words(c, w);
		else if (kind < 920)
			pin(c, w);
		else if (kind < 960)
			discard(c, w, a);
		else if (kind < 985)
			protect(c, w, a);
		else if (kind < 990)
			move(c, w, a);
		else if (kind < 995)
			remap(c, w, a);
		else
			fork_and_look(c, w);
	}
	for (unsigned i = 0; i < AREAS && !w->why[0]; i++)
		for (unsigned page = 0; page < PAGES; page++)
			check_page(c, w, &w->area[i], page);
}

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

static void stress(const struct host_options *o, const struct knobs *k, uint64_t seed)
{
	static struct worker w[THREADS];
	struct host_world h;
	uint64_t ops = env_number("QUIRE_STRESS_OPS", 20000);
	char err[200] = "";
	struct mm *mm;

	seed = env_number("QUIRE_STRESS_SEED", seed);
	world_open(&h, o, k);
	assert_int_equal(mm_create(h.c, h.q, &mm), 0);

	vaddr_t shared = map_some(h.c, mm, 64 * PAGE_SIZE);

	memset(w, 0, sizeof(w));
	for (unsigned i = 0; i < THREADS; i++) {
		w[i].id = i;
		w[i].ops = ops;
		w[i].mm = mm;
		w[i].shared_va = shared;
		w[i].t = (struct task){ .fn = work, .arg = &w[i], .mm = mm, .name = "stress" };
		rng_init(&w[i].r, seed + i, "stress");
		assert_int_equal(machine_task_start(h.m, &w[i].t), 0);
	}
	assert_int_equal(machine_run(h.m, err, sizeof(err)), 0);
	for (unsigned i = 0; i < THREADS; i++)
		if (w[i].why[0])
			fail_msg("%s (QUIRE_STRESS_SEED=%lu QUIRE_STRESS_OPS=%lu)", w[i].why, (unsigned long)seed, (unsigned long)ops);
	world_valid(&h);
	mm_put(h.c, mm);
	world_close(&h);
}

static const struct host_options options = { .memory = 512 * MIB, .nr_cpus = 6 };

static void base_pages(void **state)
{
	struct knobs k;

	(void)state;
	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	stress(&options, &k, 1);
}

static void huge_pages(void **state)
{
	struct knobs k;

	(void)state;
	knobs_default(&k);
	stress(&options, &k, 2);
	k.huge_cow = HUGE_COW_COPY;
	stress(&options, &k, 3);
}

static void membarriers(void **state)
{
	struct host_options o = options;

	(void)state;
	o.shootdown = HOST_SHOOTDOWN_MEMBARRIER;
	o.clear = HOST_CLEAR_NT;
	stress(&o, NULL, 4);
}

static void nodes(void **state)
{
	struct host_options o = options;

	(void)state;
	o.nr_nodes = 2;
	o.place = true;
	stress(&o, NULL, 5);
}

/* Parent and child, and the threads of one address space, want the same shared table at the same time. */
static void shared_tables(void **state)
{
	struct knobs k;

	(void)state;
	knobs_default(&k);
	k.fork_tables = FORK_TABLES_SHARED;
	stress(&options, &k, 6);
	k.thp_enabled = THP_NEVER;
	stress(&options, &k, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base_pages),
		cmocka_unit_test(huge_pages),
		cmocka_unit_test(membarriers),
		cmocka_unit_test(nodes),
		cmocka_unit_test(shared_tables),
	};

	return test_run(tests);
}
