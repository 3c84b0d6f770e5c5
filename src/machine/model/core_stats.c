/* The core's counters by name: sums over CPUs, in a fixed order; times in nanoseconds. */
#include "machine/model/clock.h"

#include <stdio.h>

static void sum(struct model *md, struct core_stats *ret)
{
	*ret = (struct core_stats){ 0 };
	for (unsigned i = 0; i < md->m.nr_cpus; i++) {
		struct core_cpu *cc = core_of(md->m.cpus[i]);

		path_book(md->m.cpus[i], cc);
		cc->stats.instructions = cc->insn;
#define N(name) ret->name += cc->stats.name;
		CORE_COUNTERS(N)
		CORE_TIMES(N)
#undef N
	}
}

void core_stats_each(struct model *md, void (*fn)(void *arg, const char *name, uint64_t value), void *arg)
{
	struct core_stats s;
	char name[64];

	sum(md, &s);
	fn(arg, "refs", s.loads + s.stores);
#define N(name) fn(arg, #name, s.name);
	CORE_COUNTERS(N)
#undef N
	fn(arg, "walk_ns_4k", s.walk_ps_4k / PS_PER_NS);
	fn(arg, "walk_ns_2m", s.walk_ps_2m / PS_PER_NS);
	fn(arg, "walk_ns_1g", s.walk_ps_1g / PS_PER_NS);
	fn(arg, "walk_ns_kernel", s.walk_ps_kernel / PS_PER_NS);
	fn(arg, "stall_ns", s.stall_ps / PS_PER_NS);
	fn(arg, "user_ns", s.user_ps / PS_PER_NS);
	fn(arg, "kernel_ns", s.kernel_ps / PS_PER_NS);
	for (unsigned n = 0; n < md->m.nr_nodes; n++) {
		snprintf(name, sizeof(name), "dram_reads_node%u", n);
		fn(arg, name, md->core.dram_reads[n]);
		snprintf(name, sizeof(name), "dram_writes_node%u", n);
		fn(arg, name, md->core.dram_writes[n]);
	}
}
