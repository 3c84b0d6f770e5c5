/*
 * Random calls and accesses over several address spaces, against an oracle that knows for each page what it must
 * contain, whether it may be there, and what may be done with it. Everything is validated after each step. The failing
 * step prints how to run it again:
 *   test_paging_random SEED STEPS
 */
#include "paging_world.h"

#include "base/rng.h"
#include "machine/model/model.h"

#include <stdlib.h>
#include <string.h>

#define NR_MMS 4
#define NR_PAGES 2048ULL /* four huge pages */

enum kind { NOTHING, ANON, PRIVATE_FILE, SHMEM };

/* A page of an address space as the oracle sees it. */
struct page {
	enum kind kind;
	unsigned prot;
	bool own; /* private: has a page of its own, with `value` */
	bool wipe, nofork, locked;
	uint64_t index; /* in its file */
	uint64_t value;
};

struct space {
	struct mm *mm;
	struct page page[NR_PAGES];
};

struct game {
	struct world *w;
	struct rng rng;
	struct mfile *file, *shmem;
	struct space *space[NR_MMS];
	uint64_t shared[NR_PAGES]; /* contents of shmem */
	uint64_t next_value;
	struct inject *inject;
	bool failing; /* some allocations, clears and copies fail in steps that can take it */
	enum inject_site site; /* which may fail now */
	bool failed; /* one did */
	uint64_t errors, stores, forks, moves;
};

static uint64_t pick(struct game *g, uint64_t n)
{
	return rng_below(&g->rng, n);
}

static vaddr_t address(uint64_t page)
{
	return AREA + PAGES(page);
}

/* A page to access: often one of a few, so that TLBs hold what the next call takes away. */
static uint64_t pick_page(struct game *g)
{
	return pick(g, 3) ? pick(g, NR_PAGES / 512) * 512 + pick(g, 6) : pick(g, NR_PAGES);
}

/* A range of pages: short, long, or whole huge pages. */
static void pick_range(struct game *g, uint64_t *ret_first, uint64_t *ret_n)
{
	static const uint64_t longest[] = { 4, 40, 700 };
	uint64_t n = 1 + pick(g, longest[pick(g, 3)]), first = pick(g, NR_PAGES);

	if (!pick(g, 3)) {
		first = ALIGN_DOWN(first, 512ULL);
		n = 512 * (1 + pick(g, 2));
	} else if (!pick(g, 3)) {
		first = ALIGN_DOWN(first, 512ULL) + pick(g, 3);
	}
	*ret_first = first;
	*ret_n = MIN(n, NR_PAGES - first);
}

static uint64_t expected(const struct game *g, const struct page *p)
{
	if (p->own)
		return p->value;
	return p->kind == SHMEM ? g->shared[p->index] : p->kind == PRIVATE_FILE ? file_tag(g->file, p->index) : 0;
}

static bool mapped_whole(const struct space *s, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++)
		if (s->page[i].kind == NOTHING)
			return false;
	return true;
}

/* ---- what must hold after each step ---- */

static void check_page(struct game *g, const struct space *s, uint64_t i)
{
	const struct page *p = &s->page[i];
	struct mm_page_info at = info(s->mm, address(i));

	if (p->kind == NOTHING) {
		assert_false(at.present);
		return;
	}
	/* What was written stays resident: nothing reclaims. */
	if (p->own)
		assert_true(at.present);
	if (!at.present)
		return;
	assert_int_equal(at.tag, expected(g, p));
	if (at.writable)
		assert_true((p->prot & UAPI_PROT_WRITE) && !at.zero_page);
	if (at.anon)
		assert_true(p->kind != SHMEM);
	if (p->own && p->value)
		assert_true(at.anon);
}

static void check_all(struct game *g)
{
	world_check(g->w);
	for (unsigned k = 0; k < NR_MMS; k++)
		for (uint64_t i = 0; g->space[k] && i < NR_PAGES; i++)
			check_page(g, g->space[k], i);
}

/* ---- steps ---- */

/* Between these, a call at some site may fail. */
static void fail_begin(struct game *g)
{
	g->failed = false;
	if (!g->failing)
		return;
	g->site = (enum inject_site[]){ INJECT_FRAME_ALLOC, INJECT_FRAME_ALLOC, INJECT_SLAB_ALLOC, INJECT_CLEAR,
					INJECT_COPY }[pick(g, 5)];
	if (pick(g, 2))
		assert_ok(inject_set(g->inject, g->site, INJECT_NTH, 1 + pick(g, 2) * pick(g, 20)));
}

static void fail_end(struct game *g)
{
	if (!g->failing)
		return;
	g->failed = inject_failures(g->inject, g->site) != 0;
	assert_ok(inject_set(g->inject, g->site, INJECT_NEVER, 0));
}

/* Is this error the consequence of a failure that was asked for? */
static bool excused(struct game *g, int64_t rc)
{
	bool yes = g->failed && (rc == -ENOMEM || (rc == -EFAULT && g->site == INJECT_COPY));

	g->errors += yes;
	return yes;
}

static void step_map(struct game *g, struct space *s)
{
	static const unsigned prots[] = { RW, RW, RW, UAPI_PROT_READ, 0 };
	enum kind kind = pick(g, 2) ? ANON : pick(g, 2) ? PRIVATE_FILE : SHMEM;
	unsigned prot = prots[pick(g, ARRAY_SIZE(prots))], how = kind == SHMEM ? UAPI_MAP_SHARED : UAPI_MAP_PRIVATE;
	struct mfile *f = kind == ANON ? NULL : kind == SHMEM ? g->shmem : g->file;
	uint64_t first, n;

	pick_range(g, &first, &n);
	assert_int_equal(mm_mmap(g->w->c, s->mm, address(first), PAGES(n), prot,
				 how | UAPI_MAP_FIXED | (f ? 0 : UAPI_MAP_ANONYMOUS), f, PAGES(first)),
			 (int64_t)address(first));
	for (uint64_t i = first; i < first + n; i++)
		s->page[i] = (struct page){ .kind = kind, .prot = prot, .index = i };
}

static void step_unmap(struct game *g, struct space *s)
{
	uint64_t first, n;

	pick_range(g, &first, &n);
	fail_begin(g);
	int64_t rc = mm_munmap(g->w->c, s->mm, address(first), PAGES(n));

	fail_end(g);
	if (excused(g, rc))
		return;
	assert_ok(rc);
	for (uint64_t i = first; i < first + n; i++)
		s->page[i] = (struct page){ .kind = NOTHING };
}

static void step_protect(struct game *g, struct space *s)
{
	static const unsigned prots[] = { RW, UAPI_PROT_READ, 0, UAPI_PROT_READ | UAPI_PROT_EXEC };
	unsigned prot = prots[pick(g, ARRAY_SIZE(prots))];
	uint64_t first, n;

	pick_range(g, &first, &n);
	if (!mapped_whole(s, first, n))
		return;
	assert_ok(mm_mprotect(g->w->c, s->mm, address(first), PAGES(n), prot));
	for (uint64_t i = first; i < first + n; i++)
		s->page[i].prot = prot;
}

/* Advice to an area that can't take it ends the call there; what came before is done. */
static bool advise_page(struct page *p, int advice)
{
	switch (advice) {
	case UAPI_MADV_DONTNEED:
		if (p->locked)
			return false;
		p->own = false;
		return true;
	case UAPI_MADV_FREE:
		return p->kind == ANON && !p->locked;
	case UAPI_MADV_WIPEONFORK:
		if (p->kind != ANON)
			return false;
		p->wipe = true;
		return true;
	case UAPI_MADV_DONTFORK:
		p->nofork = true;
		return true;
	default:
		return true;
	}
}

static void step_advise(struct game *g, struct space *s)
{
	static const int advices[] = { UAPI_MADV_DONTNEED, UAPI_MADV_DONTNEED,	 UAPI_MADV_FREE,
				       UAPI_MADV_HUGEPAGE, UAPI_MADV_NOHUGEPAGE, UAPI_MADV_WIPEONFORK,
				       UAPI_MADV_DONTFORK };
	int advice = advices[pick(g, ARRAY_SIZE(advices))];
	uint64_t first, n, i;
	bool refused = false;

	pick_range(g, &first, &n);
	if (!mapped_whole(s, first, n))
		return;
	int64_t rc = mm_madvise(g->w->c, s->mm, address(first), PAGES(n), advice);

	for (i = first; i < first + n && !refused; i++)
		refused = !advise_page(&s->page[i], advice);
	assert_int_equal(rc, refused ? -EINVAL : 0);
}

static void step_lock(struct game *g, struct space *s)
{
	bool lock = pick(g, 2);
	uint64_t first, n;

	pick_range(g, &first, &n);
	if (!mapped_whole(s, first, n))
		return;
	int64_t rc = lock ? mm_mlock(g->w->c, s->mm, address(first), PAGES(n), pick(g, 2))
			  : mm_munlock(g->w->c, s->mm, address(first), PAGES(n));

	if (rc)
		assert_int_equal(rc, -ENOMEM); /* something could not be brought in: locked all the same */
	for (uint64_t i = first; i < first + n; i++)
		s->page[i].locked = lock;
}

/* After a move that failed: the target may or may not have been unmapped. */
static void resync(struct game *g, struct space *s, uint64_t first, uint64_t n)
{
	for (uint64_t i = first; i < first + n; i++) {
		struct vma *v = vma_find(g->w->c, s->mm, address(i));

		if (!v || v->start > address(i))
			s->page[i] = (struct page){ .kind = NOTHING };
	}
}

static void step_move(struct game *g, struct space *s)
{
	uint64_t first, n, to;

	pick_range(g, &first, &n);
	to = pick(g, NR_PAGES - n + 1);
	if (n >= 512 && pick(g, 2))
		to = ALIGN_DOWN(to, 512ULL);
	if (!mapped_whole(s, first, n) || (to < first + n && first < to + n))
		return;
	fail_begin(g);
	int64_t rc = mm_mremap(g->w->c, s->mm, address(first), PAGES(n), PAGES(n),
			       UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, address(to));

	fail_end(g);
	if (rc < 0) {
		assert_true(rc == -EFAULT || excused(g, rc)); /* more than one area */
		resync(g, s, to, n);
		return;
	}
	assert_int_equal(rc, (int64_t)address(to));
	g->moves++;
	memcpy(&s->page[to], &s->page[first], n * sizeof(s->page[0]));
	for (uint64_t i = first; i < first + n; i++)
		s->page[i] = (struct page){ .kind = NOTHING };
}

static void step_store(struct game *g, struct space *s)
{
	uint64_t i = pick_page(g);
	struct page *p = &s->page[i];
	uint64_t value = ++g->next_value;

	fail_begin(g);
	int rc = try_store(g->w, address(i), value);

	fail_end(g);
	if (p->kind == NOTHING || !(p->prot & UAPI_PROT_WRITE)) {
		assert_int_equal(rc, -EFAULT);
		return;
	}
	if (excused(g, rc))
		return;
	assert_ok(rc);
	g->stores++;
	if (p->kind == SHMEM) {
		g->shared[p->index] = value;
	} else {
		p->own = true;
		p->value = value;
	}
}

static void step_load(struct game *g, struct space *s)
{
	uint64_t i = pick_page(g), value = 0;
	struct page *p = &s->page[i];

	fail_begin(g);
	int rc = try_load(g->w, address(i), &value);

	fail_end(g);
	if (p->kind == NOTHING || !p->prot) {
		assert_int_equal(rc, -EFAULT);
		return;
	}
	if (excused(g, rc))
		return;
	assert_ok(rc);
	assert_int_equal(value, expected(g, p));
}

static void step_fork(struct game *g, struct space *s)
{
	unsigned k = (unsigned)pick(g, NR_MMS);
	struct mm *mm = NULL;

	if (g->space[k])
		return;
	fail_begin(g);
	int rc = mm_fork(g->w->c, s->mm, &mm);

	fail_end(g);
	if (excused(g, rc))
		return;
	assert_ok(rc);
	g->forks++;
	g->space[k] = malloc(sizeof(*s));
	assert_non_null(g->space[k]);
	*g->space[k] = *s;
	g->space[k]->mm = mm;
	for (uint64_t i = 0; i < NR_PAGES; i++) {
		struct page *p = &g->space[k]->page[i];

		p->locked = false;
		if (p->nofork)
			*p = (struct page){ .kind = NOTHING };
		else if (p->wipe)
			p->own = false;
	}
}

static void end_space(struct game *g, unsigned k)
{
	mm_end(g->w, g->space[k]->mm);
	free(g->space[k]);
	g->space[k] = NULL;
}

static void step_exit(struct game *g)
{
	unsigned k = (unsigned)pick(g, NR_MMS), alive = 0;

	for (unsigned i = 0; i < NR_MMS; i++)
		alive += g->space[i] != NULL;
	if (g->space[k] && alive > 1)
		end_space(g, k);
}

static void step_knobs(struct game *g)
{
	struct knobs *k = &g->w->q->knobs;

	k->thp_enabled = (uint32_t)pick(g, 3);
	k->thp_use_zero_page = pick(g, 2);
	k->huge_cow = (uint32_t)pick(g, 2);
	k->huge_clear_order = (uint32_t)pick(g, 3);
	k->fault_around_bytes = pick(g, 2) ? 65536 : 4096;
}

static void step(struct game *g)
{
	struct space *s;

	do {
		s = g->space[pick(g, NR_MMS)];
	} while (!s);
	g->w->c = g->w->m->cpus[pick(g, MIN(g->w->m->nr_cpus, 3U))];
	mm_activate(g->w->c, s->mm);
	switch (pick(g, 20)) {
	case 0:
	case 1:
		step_map(g, s);
		break;
	case 2:
		step_unmap(g, s);
		break;
	case 3:
		step_protect(g, s);
		break;
	case 4:
	case 5:
		step_advise(g, s);
		break;
	case 6:
		step_move(g, s);
		break;
	case 7:
		step_fork(g, s);
		break;
	case 8:
		pick(g, 2) ? step_exit(g) : step_knobs(g);
		break;
	case 9:
		step_lock(g, s);
		break;
	default:
		for (unsigned i = 0; i < 8; i++)
			pick(g, 3) ? step_store(g, s) : step_load(g, s);
	}
}

static uint32_t fork_tables = FORK_TABLES_COPIED; /* quire.fork_tables */

static void play(struct world *w, uint64_t seed, unsigned steps, bool failing)
{
	struct game *g = calloc(1, sizeof(*g));

	g->w = w;
	w->q->knobs.fork_tables = fork_tables;
	g->failing = failing;
	rng_init(&g->rng, seed, "paging");
	assert_ok(file_create(g->w->c, g->w->q, 0, PAGES(NR_PAGES), false, &g->file));
	assert_ok(file_create(g->w->c, g->w->q, 0, PAGES(NR_PAGES), true, &g->shmem));
	assert_ok(inject_attach(g->w->m, seed, &g->inject));
	g->space[0] = calloc(1, sizeof(*g->space[0]));
	g->space[0]->mm = mm_new(g->w);
	for (unsigned i = 0; i < steps; i++) {
		step(g);
		check_all(g);
	}
	assert_true(g->stores > steps / 4 && g->forks > steps / 200 && g->moves > steps / 200);
	assert_true(!failing || g->errors > steps / 100);
	for (unsigned k = 0; k < NR_MMS; k++)
		if (g->space[k])
			end_space(g, k);
	file_put(g->w->c, g->file);
	file_put(g->w->c, g->shmem);
	inject_detach(g->inject);
	check_fault_sum(g->w);
	assert_true(fork_tables == FORK_TABLES_COPIED ? !count_of(w, VM_quire_fork_table_shared)
						       : count_of(w, VM_quire_fork_table_unshared) && count_of(w, VM_quire_fork_table_taken) &&
								 count_of(w, VM_quire_fork_table_dropped));
	free(g);
}

static uint64_t seed_from = 1, nr_steps = 1500;

static void report(uint64_t seed)
{
	printf("seed %lu: again with: test_paging_random %lu %lu\n", (unsigned long)seed, (unsigned long)seed,
	       (unsigned long)nr_steps);
	fflush(stdout);
}

static void on_null(uint64_t seed, bool failing)
{
	struct world *w = world_new(2, 512 * MIB);

	report(seed);
	play(w, seed, (unsigned)nr_steps, failing);
	world_end(w);
}

static void against_the_oracle(void **state)
{
	(void)state;
	for (uint64_t seed = seed_from; seed < seed_from + 3; seed++)
		on_null(seed, false);
}

static void with_failing_allocations(void **state)
{
	(void)state;
	for (uint64_t seed = seed_from; seed < seed_from + 2; seed++)
		on_null(seed, true);
}

/* The model has TLBs and page-walk caches: a translation that outlives its flush shows as wrong contents. */
static void on_model(bool broadcast, uint64_t seed, bool failing)
{
	struct model_options o = { .seed = seed };
	struct machine_desc d;
	struct machine *m;
	char err[200] = "";

	if (machine_desc_find("laptop", &d, err, sizeof(err)))
		fail_msg("%s", err);
	d.nodes[0].memory = 512 * MIB;
	d.tlbi.broadcast = broadcast;
	if (model_create(&d, &o, &m, err, sizeof(err)))
		fail_msg("%s", err);
	struct world *w = world_on(m);

	report(seed);
	play(w, seed, (unsigned)nr_steps, failing);
	world_leave(w);
	model_destroy(m);
	machine_desc_done(&d);
}

static void under_tlbs(void **state)
{
	(void)state;
	on_model(false, seed_from, false);
	on_model(false, seed_from + 1, true);
}

static void under_broadcast_invalidation(void **state)
{
	(void)state;
	on_model(true, seed_from, false);
}

/* quire.fork_tables=shared, with the hardware's caches and without, and out of memory where a table would be copied. */
static void with_shared_tables(void **state)
{
	(void)state;
	fork_tables = FORK_TABLES_SHARED;
	for (uint64_t seed = seed_from; seed < seed_from + 4; seed++)
		on_null(seed, seed % 2);
	on_model(false, seed_from, false);
	on_model(false, seed_from + 1, true);
	fork_tables = FORK_TABLES_COPIED;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(against_the_oracle),
		cmocka_unit_test(with_failing_allocations),
		cmocka_unit_test(under_tlbs),
		cmocka_unit_test(under_broadcast_invalidation),
		cmocka_unit_test(with_shared_tables),
	};

	if (argc > 1)
		seed_from = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		nr_steps = strtoull(argv[2], NULL, 10);
	return test_run(tests);
}
