/* A null machine with a memory manager on it, and short words for what the paging tests do all the time. */
#ifndef QUIRE_TESTS_PAGING_WORLD_H
#define QUIRE_TESTS_PAGING_WORLD_H

#include "machine/inject.h"
#include "machine/null.h"
#include "mm/fault.h"
#include "mm/lru.h"
#include "mm/system.h"
#include "mm/uapi.h"
#include "testing.h"

#include <errno.h>
#include <stdlib.h>

#define MIB (1ULL << 20)
#define PAGES(n) ((n)*PAGE_SIZE)
#define RW (UAPI_PROT_READ | UAPI_PROT_WRITE)
#define AREA 0x10000000ULL /* 2 MiB aligned, where tests map with MAP_FIXED */

struct world {
	struct machine *m;
	struct quire *q;
	struct cpu *c;
	uint64_t free_at_boot; /* with per-CPU lists and magazines drained */
};

#define assert_ok(rc) assert_int_equal((rc), 0)

static inline uint64_t world_free(struct world *w)
{
	lru_add_drain_all(w->c);
	for (unsigned i = 0; i < w->m->nr_cpus; i++) {
		slab_drain(w->m->cpus[i]);
		pcp_drain(w->m->cpus[i]);
	}
	return memory_free_pages(w->q, NID_NONE);
}

static inline void world_check(struct world *w)
{
	if (quire_validate(w->q) || quire_validate_mappings(w->q))
		fail_msg("invalid: %s", w->q->err);
	for (unsigned i = 0; i < w->m->nr_cpus; i++)
		assert_int_equal(w->m->cpus[i]->lock_depth, 0);
}

/* Boot on a machine that the caller destroys. */
static inline struct world *world_on(struct machine *m)
{
	struct world *w = calloc(1, sizeof(*w));
	char err[200] = "";

	w->m = m;
	if (quire_boot(m, NULL, &w->q, err, sizeof(err)))
		fail_msg("boot: %s", err);
	w->c = m->cpus[0];
	w->q->knobs.thp_enabled = THP_NEVER;
	w->q->knobs.overcommit_memory = 1;
	w->free_at_boot = world_free(w);
	return w;
}

static inline struct world *world_new(unsigned nr_cpus, uint64_t bytes)
{
	struct null_options o = { .nr_cpus = nr_cpus, .node_bytes = bytes };
	struct machine *m = NULL;
	char err[200] = "";

	if (null_create(&o, &m, err, sizeof(err)))
		fail_msg("machine: %s", err);
	return world_on(m);
}

/* All address spaces and files are gone: everything must have come back. The machine stays. */
static inline void world_leave(struct world *w)
{
	uint64_t kept = w->q->huge_zero ? HPAGE_PMD_NR : 0;

	world_check(w);
	assert_int_equal(world_free(w) + kept, w->free_at_boot);
	assert_ok(quire_shutdown(w->q));
	free(w);
}

static inline void world_end(struct world *w)
{
	struct machine *m = w->m;

	world_leave(w);
	null_destroy(m);
}

static inline int64_t count_of(struct world *w, enum vm_counter k)
{
	return vmstat_read(w->q, k);
}

/* pgfault is the sum of the kinds that the engine began to handle. */
static inline void check_fault_sum(struct world *w)
{
	int64_t sum = 0;

	for (unsigned k = VM_quire_fault_anon_4k; k <= VM_quire_fault_oom; k++)
		sum += k == VM_quire_fault_sigsegv ? 0 : count_of(w, (enum vm_counter)k);
	assert_int_equal(sum, count_of(w, VM_pgfault));
}

static inline struct mm *mm_new(struct world *w)
{
	struct mm *mm = NULL;

	assert_ok(mm_create(w->c, w->q, &mm));
	mm_activate(w->c, mm);
	return mm;
}

/* The last user lets go; CPUs that still run on it have done something else since. */
static inline void mm_end(struct world *w, struct mm *mm)
{
	for (unsigned i = 0; i < w->m->nr_cpus; i++)
		if (percpu_mm(w->q->percpu[i]) == mm)
			mm_activate(w->m->cpus[i], NULL);
	mm_put(w->c, mm);
}

static inline vaddr_t map_at(struct world *w, struct mm *mm, vaddr_t va, uint64_t len, unsigned prot)
{
	int64_t r = mm_mmap(w->c, mm, va, len, prot, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0);

	assert_int_equal(r, (int64_t)va);
	return va;
}

static inline int try_store(struct world *w, vaddr_t va, uint64_t value)
{
	return w->m->ops->store_value(w->c, va, value);
}

static inline void store(struct world *w, vaddr_t va, uint64_t value)
{
	assert_ok(try_store(w, va, value));
}

static inline int try_load(struct world *w, vaddr_t va, uint64_t *ret)
{
	return w->m->ops->load_value(w->c, va, ret);
}

static inline uint64_t load(struct world *w, vaddr_t va)
{
	uint64_t v = 0;

	assert_ok(try_load(w, va, &v));
	return v;
}

static inline struct mm_page_info info(struct mm *mm, vaddr_t va)
{
	struct mm_page_info i;

	mm_page_info(mm, va, &i);
	return i;
}

#endif
