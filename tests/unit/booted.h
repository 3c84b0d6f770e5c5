/* A memory manager booted over a null machine, for tests of the engine's parts. */
#ifndef QUIRE_TESTS_BOOTED_H
#define QUIRE_TESTS_BOOTED_H

#include "testing.h"

#include "machine/inject.h"
#include "machine/null.h"
#include "mm/lru.h"
#include "mm/system.h"

struct booted {
	struct machine *m;
	struct quire *q;
	struct cpu *c; /* CPU 0 */
};

static inline void boot_with(struct booted *b, const struct null_options *o, const struct knobs *k)
{
	char err[200] = "";

	*b = (struct booted){ 0 };
	if (null_create(o, &b->m, err, sizeof(err)) || quire_boot(b->m, k, &b->q, err, sizeof(err)))
		fail_msg("boot: %s", err);
	b->c = b->m->cpus[0];
}

/* One node of `mib` MiB, one CPU. */
static inline void boot_small(struct booted *b, unsigned mib)
{
	boot_with(b, &(struct null_options){ .node_bytes = (uint64_t)mib << 20 }, NULL);
}

static inline void check_valid(struct booted *b)
{
	if (memory_validate(b->q) || slab_validate(b->q) || file_validate(b->q))
		fail_msg("%s", b->q->err);
}

/* All per-CPU lists and magazines back to where they came from. */
static inline void drain_all(struct booted *b)
{
	lru_add_drain_all(b->c);
	for (unsigned i = 0; i < b->m->nr_cpus; i++) {
		slab_drain(b->m->cpus[i]);
		pcp_drain(b->m->cpus[i]);
	}
}

/* Everything has been given back, down to the last frame: shutdown, then the memory map is as it was found. */
static inline void shut_down(struct booted *b)
{
	uint64_t managed = 0;

	check_valid(b);
	drain_all(b);
	check_valid(b);
	for (unsigned i = 0; i < b->m->nr_nodes; i++)
		for (unsigned t = 0; t < NR_ZONES; t++)
			managed += b->q->nodes[i].zones[t].managed;
	assert_int_equal(memory_free_pages(b->q, NID_NONE), managed);
	assert_int_equal(quire_shutdown(b->q), 0);
	for (uint64_t p = 0; p < b->m->max_pfn && p < 1 << 20; p++)
		if (frame_of(b->m, pfn(p))->flags)
			fail_msg("descriptor %lu left behind", (unsigned long)p);
	null_destroy(b->m);
}

static inline struct frame *take(struct cpu *c, unsigned order, unsigned gfp, int nid)
{
	return page_alloc(c, &(struct alloc_req){ .order = order, .gfp = gfp, .nid = nid });
}

static inline int64_t counter(const struct booted *b, enum vm_counter k)
{
	return vmstat_read(b->q, k);
}

#endif
