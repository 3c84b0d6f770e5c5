/* A memory manager booted over the host machine, and threads on it, for tests. */
#ifndef QUIRE_TESTS_HOST_TESTING_H
#define QUIRE_TESTS_HOST_TESTING_H

#include "testing.h"

#include "machine/host/host.h"
#include "mm/fault.h"
#include "mm/lru.h"
#include "mm/system.h"
#include "mm/uapi.h"

#include <pthread.h>

struct host_world {
	struct machine *m;
	struct quire *q;
	struct cpu *c; /* slot 0, the test's own */
};

static inline void world_open(struct host_world *w, const struct host_options *o, const struct knobs *k)
{
	char err[200] = "";

	*w = (struct host_world){ 0 };
	if (host_create(o, &w->m, err, sizeof(err)) || quire_boot(w->m, k, &w->q, err, sizeof(err)))
		fail_msg("boot: %s", err);
	w->c = w->m->cpus[0];
}

static inline void world_valid(struct host_world *w)
{
	if (quire_validate(w->q))
		fail_msg("%s", w->q->err);
}

static inline void world_close(struct host_world *w)
{
	uint64_t managed = 0;

	mm_activate(w->c, NULL);
	world_valid(w);
	lru_add_drain_all(w->c);
	for (unsigned i = 0; i < w->m->nr_cpus; i++) {
		struct percpu *own = w->c->pc;

		w->c->pc = w->q->percpu[i];
		slab_drain(w->c);
		pcp_drain(w->c);
		w->c->pc = own;
	}
	for (unsigned i = 0; i < w->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			managed += w->q->nodes[i].zones[t].managed;
	assert_int_equal(memory_free_pages(w->q, NID_NONE), managed - (w->q->huge_zero ? HPAGE_PMD_NR : 0));
	assert_int_equal(quire_shutdown(w->q), 0);
	host_destroy(w->m);
}

#define HOST_RW (UAPI_PROT_READ | UAPI_PROT_WRITE)
#define HOST_ANON (UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS)

/* An anonymous private area; never refused here. */
static inline vaddr_t map_some(struct cpu *c, struct mm *mm, uint64_t len)
{
	int64_t va = mm_mmap(c, mm, 0, len, HOST_RW, HOST_ANON, NULL, 0);

	assert_true(va > 0);
	return (vaddr_t)va;
}

#endif
