/*
 * Swap under random calls, on machines of every kind: families of address spaces whose contents are known, while every page may be put
 * out, half-way put out, or split, by the tasks themselves and by one that does nothing else. All tags are compared all the time,
 * everything is validated at rest. QUIRE_SEED and QUIRE_STRESS_OPS repeat or lengthen a run.
 */
#include "swap_testing.h"

#include "base/rng.h"
#include "machine/host/host.h"
#include "machine/run.h"
#include "mm/split.h"
#include "tiny_machine.h"

#include <string.h>

enum { WORKERS = 2, FAMILY = 3, NR_PAGES = 1100, OPS = 2500 };

struct crowd {
	struct machine *m;
	struct quire *q;
	unsigned left; /* workers that have not ended (atomic) */
	unsigned out;  /* folios that were put out (atomic) */
	bool validate; /* nobody else runs: after every so many calls */
};

struct worker {
	struct task t;
	struct crowd *crowd;
	struct rng r;
	unsigned nr;
	struct mm *mm[FAMILY];
	uint64_t value[FAMILY][NR_PAGES];
	uint64_t next;
	char why[300];
};

#define WRONG(k, ...)                                                                              \
	do {                                                                                        \
		if (!(k)->why[0])                                                                   \
			snprintf((k)->why, sizeof((k)->why), __VA_ARGS__);                          \
	} while (0)

static uint64_t env_number(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : otherwise;
}

/* A folio of user memory, wherever it lies, locked and with a reference. NULL: none was found. */
static struct frame *some_folio(struct cpu *c, struct rng *r)
{
	for (unsigned tries = 0; tries < 400; tries++) {
		struct frame *f = frame_of(c->m, pfn(rng_below(r, c->m->max_pfn)));

		if ((frame_flags(f) & (FRAME_ANON | FRAME_TAIL | FRAME_TABLE)) != FRAME_ANON || !frame_tryget(c, f))
			continue;
		if (folio_trylock(c, f)) {
			if ((frame_flags(f) & (FRAME_ANON | FRAME_TAIL | FRAME_TABLE)) == FRAME_ANON)
				return f;
			folio_unlock(c, f);
		}
		frame_put(c, f);
	}
	return NULL;
}

static void press(struct cpu *c, struct crowd *w, struct rng *r)
{
	struct frame *f = some_folio(c, r);

	if (!f)
		return;
	if (!rng_below(r, 4))
		lru_add_drain_all(c);
	if ((frame_flags(f) & FRAME_HEAD) && !rng_below(r, 3))
		(void)folio_split(c, f, NULL, NULL);
	else if (!swap_out_folio(c, f, rng_below(r, 3) ? STEP_DROP : (enum swap_step)rng_below(r, STEP_DROP)))
		__atomic_add_fetch(&w->out, 1, __ATOMIC_RELAXED);
	folio_unlock(c, f);
	frame_put(c, f);
}

static void use(struct cpu *c, struct worker *k, unsigned i)
{
	c->current->mm = k->mm[i];
	mm_activate(c, k->mm[i]);
}

static void check_page(struct cpu *c, struct worker *k, unsigned i, unsigned page)
{
	uint64_t v = 0;
	int rc = c->m->ops->load_value(c, AREA + PAGES(page), &v);

	if (rc || v != k->value[i][page])
		WRONG(k, "page %u of space %u: error %d, holds %lu, not %lu", page, i, rc, (unsigned long)v, (unsigned long)k->value[i][page]);
}

static void write_pages(struct cpu *c, struct worker *k, unsigned i, unsigned page, unsigned nr)
{
	for (unsigned p = page; p < page + nr && p < NR_PAGES; p++) {
		uint64_t v = ++k->next;

		if (c->m->ops->store_value(c, AREA + PAGES(p), v))
			WRONG(k, "page %u cannot be written", p);
		k->value[i][p] = v;
	}
}

static void fork_one(struct cpu *c, struct worker *k, unsigned i)
{
	if (k->nr == FAMILY || mm_fork(c, k->mm[i], &k->mm[k->nr]))
		return;
	memcpy(k->value[k->nr], k->value[i], sizeof(k->value[i]));
	k->nr++;
}

static void end_one(struct cpu *c, struct worker *k, unsigned i)
{
	struct mm *mm = k->mm[i];

	c->current->mm = NULL;
	mm_activate(c, NULL);
	k->nr--;
	k->mm[i] = k->mm[k->nr];
	memcpy(k->value[i], k->value[k->nr], sizeof(k->value[i]));
	mm_put(c, mm);
}

static void advise(struct cpu *c, struct worker *k, unsigned i, unsigned page, unsigned nr)
{
	static const int advice[] = { UAPI_MADV_DONTNEED, UAPI_MADV_WILLNEED };
	int which = advice[rng_below(&k->r, 2)];
	uint8_t vec[NR_PAGES];

	nr = MIN(nr, NR_PAGES - page);
	if (mm_madvise(c, k->mm[i], AREA + PAGES(page), PAGES(nr), which))
		WRONG(k, "madvise %d", which);
	if (which == UAPI_MADV_DONTNEED)
		memset(&k->value[i][page], 0, nr * sizeof(k->value[i][0]));
	if (mm_mincore(c, k->mm[i], AREA + PAGES(page), PAGES(nr), vec))
		WRONG(k, "mincore");
}

/* Away to another address and back: the pages, in memory or not, go with their entries. */
static void move(struct cpu *c, struct worker *k, unsigned i, unsigned page, unsigned nr)
{
	vaddr_t here = AREA + PAGES(page), there = AREA + 8 * PMD_SIZE + PAGES(page + 3);
	uint64_t len = PAGES(MIN(nr, NR_PAGES - page));
	unsigned how = UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED;

	if (mm_mremap(c, k->mm[i], here, len, len, how, there) != (int64_t)there)
		WRONG(k, "mremap there");
	press(c, k->crowd, &k->r);
	if (mm_mremap(c, k->mm[i], there, len, len, how, here) != (int64_t)here)
		WRONG(k, "mremap back");
}

static void step(struct cpu *c, struct worker *k)
{
	unsigned i = (unsigned)rng_below(&k->r, k->nr), page = (unsigned)rng_below(&k->r, NR_PAGES), nr = 1 + (unsigned)rng_below(&k->r, 40);

	use(c, k, i);
	switch (rng_below(&k->r, 12)) {
	case 0:
	case 1:
	case 2:
		write_pages(c, k, i, page, nr);
		break;
	case 3:
	case 4:
		for (unsigned p = page; p < page + nr && p < NR_PAGES; p++)
			check_page(c, k, i, p);
		break;
	case 5:
		fork_one(c, k, i);
		break;
	case 6:
		if (k->nr > 1 && !rng_below(&k->r, 3))
			end_one(c, k, i);
		break;
	case 7:
		advise(c, k, i, page, nr);
		break;
	case 8:
		if (!rng_below(&k->r, 4))
			move(c, k, i, page, nr);
		break;
	default:
		for (unsigned n = 0; n < nr; n++)
			press(c, k->crowd, &k->r);
	}
}

static void work(struct cpu *c, struct task *t)
{
	struct worker *k = t->arg;
	uint64_t ops = env_number("QUIRE_STRESS_OPS", OPS);

	for (uint64_t n = 0; n < ops && !k->why[0]; n++) {
		step(c, k);
		if (k->crowd->validate && !(n % 100) && quire_validate(c->q))
			WRONG(k, "after %lu calls: %s", (unsigned long)n, c->q->err);
		if (c->need_resched)
			c = machine_resched(c);
	}
	for (unsigned i = 0; i < k->nr; i++) {
		use(c, k, i);
		for (unsigned p = 0; p < NR_PAGES; p++)
			check_page(c, k, i, p);
	}
	while (k->nr)
		end_one(c, k, 0);
	__atomic_sub_fetch(&k->crowd->left, 1, __ATOMIC_RELEASE);
}

static void press_only(struct cpu *c, struct task *t)
{
	struct worker *k = t->arg;

	while (__atomic_load_n(&k->crowd->left, __ATOMIC_ACQUIRE)) {
		press(c, k->crowd, &k->r);
		if (c->need_resched)
			c = machine_resched(c);
		c->m->ops->sleep_ns(c, 2000);
	}
}

static void worker_init(struct worker *k, struct crowd *w, unsigned id, uint64_t seed)
{
	memset(k, 0, sizeof(*k));
	k->crowd = w;
	k->next = (id + 1ULL) << 40;
	k->t = (struct task){ .fn = id < WORKERS ? work : press_only, .arg = k, .name = "worker" };
	rng_init(&k->r, seed * 1000 + id, "swap");
}

/* Everything on machine m, which is destroyed. together: tasks run at once. */
static void run_on(struct machine *m, uint32_t thp, bool together, uint64_t seed)
{
	struct worker *k = calloc(WORKERS + 1, sizeof(*k));
	struct crowd w = { .m = m, .left = WORKERS, .validate = !together };
	char err[300] = "";

	if (quire_boot(m, NULL, &w.q, err, sizeof(err)))
		fail_msg("boot: %s", err);
	w.q->knobs.thp_enabled = thp;
	w.q->knobs.overcommit_memory = 1;
	struct cpu *c = machine_boot_cpu(m);

	for (unsigned i = 0; i < (together ? WORKERS + 1U : WORKERS); i++) {
		worker_init(&k[i], &w, i, seed);
		if (i < WORKERS) {
			assert_ok(mm_create(c, w.q, &k[i].mm[0]));
			k[i].nr = 1;
			k[i].t.mm = k[i].mm[0];
			assert_int_equal(mm_mmap(c, k[i].mm[0], AREA, PAGES(NR_PAGES), RW,
						 UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0),
					 (int64_t)AREA);
		}
		assert_ok(machine_task_start(m, &k[i].t));
	}
	if (machine_run(m, err, sizeof(err)))
		fail_msg("run: %s", err);
	for (unsigned i = 0; i < WORKERS; i++)
		if (k[i].why[0])
			fail_msg("QUIRE_SEED=%lu, worker %u: %s", (unsigned long)seed, i, k[i].why);
	if (quire_validate(w.q))
		fail_msg("QUIRE_SEED=%lu: %s", (unsigned long)seed, w.q->err);
	assert_true(w.out > 100);
	assert_true(vmstat_read(w.q, VM_pswpin) > 100 && vmstat_read(w.q, VM_pswpout) > 100);
	assert_int_equal(vmstat_read(w.q, VM_quire_fault_sigbus), 0);
	swap_shutdown(w.q, c);
	assert_int_equal(w.q->swap.nr_free, w.q->swap.nr_slots);
	lru_add_drain_all(c);
	assert_ok(quire_shutdown(w.q));
	free(k);
}

static void on_null(void **state)
{
	uint64_t seed = env_number("QUIRE_SEED", 1);

	(void)state;
	for (uint32_t thp = THP_NEVER; thp <= THP_ALWAYS; thp += THP_ALWAYS - THP_NEVER) {
		struct null_options o = { .nr_cpus = 2, .node_bytes = 128 * MIB, .swap_bytes = 64 * MIB };
		struct machine *m = NULL;
		char err[200] = "";

		assert_ok(null_create(&o, &m, err, sizeof(err)));
		run_on(m, thp, false, seed);
		null_destroy(m);
	}
}

static void on_model(void **state)
{
	uint64_t seed = env_number("QUIRE_SEED", 1);

	(void)state;
	for (uint32_t thp = THP_NEVER; thp <= THP_ALWAYS; thp += THP_ALWAYS - THP_NEVER) {
		struct machine_desc d = tiny_desc(1, 3);
		struct machine *m = NULL;
		char err[200] = "";

		d.swap.size = 64 * MIB;
		assert_ok(model_create(&d, &(struct model_options){ .seed = seed }, &m, err, sizeof(err)));
		run_on(m, thp, true, seed);
		model_destroy(m);
	}
}

static void on_host(void **state)
{
	uint64_t seed = env_number("QUIRE_SEED", 1);

	(void)state;
	for (uint32_t thp = THP_NEVER; thp <= THP_ALWAYS; thp += THP_ALWAYS - THP_NEVER) {
		struct host_options o = { .memory = 128 * MIB, .swap = 64 * MIB };
		struct machine *m = NULL;
		char err[200] = "";

		if (host_create(&o, &m, err, sizeof(err)))
			fail_msg("%s", err);
		run_on(m, thp, true, seed);
		host_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(on_null), cmocka_unit_test(on_model), cmocka_unit_test(on_host) };

	return test_run(tests);
}
