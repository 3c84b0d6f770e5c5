/*
 * One engine, two machines: the same seeded script of calls and scripted accesses runs on the host and on a model, and both end in the
 * same contents, the same residency and the same counters, but for those that speak of the machine (remote flushes).
 */
#include "tiny_machine.h"

#include "base/rng.h"
#include "machine/host/host.h"
#include "machine/run.h"
#include "mm/system.h"
#include "mm/tlb.h"
#include "mm/uapi.h"

#include <stdlib.h>

#define MIB (1ULL << 20)

enum { AREAS = 6, OPS = 4000, LOG = 200000 };

struct area {
	vaddr_t va;
	uint64_t pages;
};

/* What a run leaves behind, in the order in which it came about. */
struct log {
	uint64_t v[LOG];
	size_t nr;
};

struct script {
	struct task t;
	struct rng r;
	struct quire *q;
	struct mm *mm;
	struct mfile *file;
	struct area area[AREAS];
	struct log *log;
};

static void note(struct script *s, uint64_t v)
{
	if (s->log->nr < LOG)
		s->log->v[s->log->nr++] = v;
}

static void map(struct cpu *c, struct script *s, struct area *a)
{
	static const uint64_t sizes[] = { 1, 3, 64, 512, 1024, 1500 };
	uint64_t pages = sizes[rng_below(&s->r, 6)];
	unsigned kind = (unsigned)rng_below(&s->r, 8), flags = UAPI_MAP_PRIVATE;
	struct mfile *file = kind < 2 ? s->file : NULL;

	if (kind == 0 || kind == 2)
		flags = UAPI_MAP_SHARED;
	if (!file)
		flags |= UAPI_MAP_ANONYMOUS;
	if (kind == 7)
		flags |= UAPI_MAP_POPULATE;
	int64_t va = mm_mmap(c, s->mm, 0, pages * PAGE_SIZE, UAPI_PROT_READ | UAPI_PROT_WRITE, flags, file, 0);

	note(s, (uint64_t)va);
	*a = (struct area){ .va = va > 0 ? (vaddr_t)va : 0, .pages = va > 0 ? pages : 0 };
}

static void look(struct cpu *c, struct script *s, vaddr_t va)
{
	uint64_t v = 0;
	int rc = c->m->ops->load_value(c, va, &v);

	note(s, (uint64_t)rc);
	note(s, rc ? 0 : v);
}

static void in_child(struct cpu *c, struct script *s)
{
	struct mm *child;
	int rc = mm_fork(c, s->mm, &child);

	note(s, (uint64_t)rc);
	if (rc)
		return;
	mm_activate(c, child);
	for (unsigned i = 0; i < 20; i++) {
		const struct area *a = &s->area[rng_below(&s->r, AREAS)];
		vaddr_t va = a->va + (a->pages ? rng_below(&s->r, a->pages) : 0) * PAGE_SIZE;

		if (rng_below(&s->r, 2))
			note(s, (uint64_t)c->m->ops->store_value(c, va, rng_next(&s->r)));
		else
			look(c, s, va);
	}
	mm_activate(c, s->mm);
	mm_put(c, child);
}

static void step(struct cpu *c, struct script *s, unsigned op)
{
	static const int advices[] = { UAPI_MADV_DONTNEED, UAPI_MADV_DONTNEED, UAPI_MADV_FREE, UAPI_MADV_HUGEPAGE, UAPI_MADV_NOHUGEPAGE,
				       UAPI_MADV_POPULATE_WRITE };
	struct area *a = &s->area[rng_below(&s->r, AREAS)];
	uint64_t page = a->pages ? rng_below(&s->r, a->pages) : 0, n = a->pages ? 1 + rng_below(&s->r, a->pages - page) : 1;
	vaddr_t va = a->va + page * PAGE_SIZE;
	unsigned kind = (unsigned)rng_below(&s->r, 100);

	if (kind < 45) {
		note(s, (uint64_t)c->m->ops->store_value(c, va + rng_below(&s->r, PAGE_SIZE / 8) * 8, (uint64_t)op << 32 | kind));
	} else if (kind < 70) {
		look(c, s, va);
	} else if (kind < 80) {
		note(s, (uint64_t)mm_madvise(c, s->mm, va, n * PAGE_SIZE, advices[rng_below(&s->r, 6)]));
	} else if (kind < 86) {
		note(s, (uint64_t)mm_mprotect(c, s->mm, va, n * PAGE_SIZE, rng_below(&s->r, 3) ? UAPI_PROT_READ | UAPI_PROT_WRITE : UAPI_PROT_READ));
	} else if (kind < 90) {
		note(s, (uint64_t)mm_munmap(c, s->mm, va, n * PAGE_SIZE));
	} else if (kind < 93) {
		int64_t to = mm_mremap(c, s->mm, a->va, a->pages * PAGE_SIZE, (a->pages + rng_below(&s->r, 9)) * PAGE_SIZE,
				       UAPI_MREMAP_MAYMOVE, 0);

		note(s, (uint64_t)to);
		if (to > 0)
			a->va = (vaddr_t)to;
	} else if (kind < 98) {
		if (a->pages)
			note(s, (uint64_t)mm_munmap(c, s->mm, a->va, a->pages * PAGE_SIZE));
		map(c, s, a);
	} else {
		in_child(c, s);
	}
}

static void play(struct cpu *c, struct task *t)
{
	struct script *s = t->arg;
	struct mm_page_info info;

	for (unsigned i = 0; i < AREAS; i++)
		map(c, s, &s->area[i]);
	for (unsigned op = 0; op < OPS; op++)
		step(c, s, op);
	/* Residency as it is, then every page's contents. */
	for (unsigned i = 0; i < AREAS; i++)
		for (uint64_t p = 0; p < s->area[i].pages; p++) {
			mm_page_info(s->mm, s->area[i].va + p * PAGE_SIZE, &info);
			note(s, (uint64_t)(info.present | info.huge << 1 | info.writable << 2 | info.zero_page << 3 | info.anon << 4));
		}
	for (unsigned i = 0; i < AREAS; i++)
		for (uint64_t p = 0; p < s->area[i].pages; p++)
			look(c, s, s->area[i].va + p * PAGE_SIZE);
}

/* Run the script of a seed; what it saw goes to log, the counters to counts. */
static void run_on(struct machine *m, const struct knobs *k, uint64_t seed, struct log *log, int64_t counts[NR_VM_COUNTERS])
{
	struct script s = { .log = log };
	struct cpu *c = machine_boot_cpu(m);
	char err[300] = "";

	log->nr = 0;
	if (quire_boot(m, k, &s.q, err, sizeof(err)))
		fail_msg("%s", err);
	rng_init(&s.r, seed, "script");
	assert_int_equal(file_create(c, s.q, 77, 2000 * PAGE_SIZE, false, &s.file), 0);
	assert_int_equal(mm_create(c, s.q, &s.mm), 0);
	s.t = (struct task){ .fn = play, .arg = &s, .mm = s.mm, .name = "script" };
	assert_int_equal(machine_task_start(m, &s.t), 0);
	if (machine_run(m, err, sizeof(err)))
		fail_msg("%s", err);
	if (quire_validate(s.q))
		fail_msg("%s: %s", m->ops->kind, s.q->err);
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++)
		counts[i] = vmstat_read(s.q, (enum vm_counter)i);
	counts[VM_pgalloc_dma32] -= counts[VM_nr_slab_pages];
	mm_put(c, s.mm);
	file_put(c, s.file);
	assert_int_equal(quire_shutdown(s.q), 0);
	machine_destroy(m);
}

/* How many CPUs had to be told, which flushes they took together, and on whose lists a child's objects lie (and so how many allocations
 * there were), is the machine's business; which parts of a huge page were never written only a machine with tags tells. */
static bool speaks_of_the_machine(unsigned counter)
{
	return counter == VM_nr_tlb_remote_flush || counter == VM_nr_tlb_remote_flush_received || counter == VM_nr_slab_pages ||
	       counter == VM_numa_hit || counter == VM_numa_local || counter == VM_quire_thp_freed ||
	       counter == VM_quire_thp_freed_unwritten;
}

static void same_on_both(uint32_t thp, uint32_t cow, uint64_t seed)
{
	static struct log on_host, on_model;
	int64_t host_counts[NR_VM_COUNTERS], model_counts[NR_VM_COUNTERS];
	struct machine *host;
	struct knobs k;
	char err[200] = "";

	knobs_default(&k);
	k.thp_enabled = thp;
	k.huge_cow = cow;
	if (host_create(&(struct host_options){ .memory = 256 * MIB, .nr_cpus = 4, .nr_nodes = 1 }, &host, err, sizeof(err)))
		fail_msg("%s", err);
	run_on(host, &k, seed, &on_host, host_counts);
	run_on(tiny_machine(1, 4), &k, seed, &on_model, model_counts);
	assert_true(on_host.nr < LOG);
	assert_int_equal(on_host.nr, on_model.nr);
	for (size_t i = 0; i < on_host.nr; i++)
		if (on_host.v[i] != on_model.v[i])
			fail_msg("seed %lu, note %zu: host %#lx, model %#lx", (unsigned long)seed, i, (unsigned long)on_host.v[i],
				 (unsigned long)on_model.v[i]);
	for (unsigned i = 0; i < NR_VM_COUNTERS; i++)
		if (!speaks_of_the_machine(i) && host_counts[i] != model_counts[i])
			fail_msg("seed %lu, %s: host %ld, model %ld", (unsigned long)seed, vm_counter_names[i], (long)host_counts[i],
				 (long)model_counts[i]);
	assert_true(host_counts[VM_pgfault] > 100);
}

static void base_pages(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++)
		same_on_both(THP_NEVER, HUGE_COW_SPLIT, seed);
}

static void huge_pages(void **state)
{
	(void)state;
	for (uint64_t seed = 11; seed <= 14; seed++)
		same_on_both(THP_ALWAYS, seed & 1 ? HUGE_COW_SPLIT : HUGE_COW_COPY, seed);
}

static void advised_pages(void **state)
{
	(void)state;
	for (uint64_t seed = 21; seed <= 22; seed++)
		same_on_both(THP_MADVISE, HUGE_COW_SPLIT, seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(base_pages),
		cmocka_unit_test(huge_pages),
		cmocka_unit_test(advised_pages),
	};

	return test_run(tests);
}
