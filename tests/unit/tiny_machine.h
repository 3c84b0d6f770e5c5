/* A small made-up machine for the scheduler's tests, and what they all do with tasks. */
#ifndef QUIRE_TESTS_TINY_MACHINE_H
#define QUIRE_TESTS_TINY_MACHINE_H

#include "testing.h"

#include "machine/model/model_int.h"

#include <string.h>

#define US 1000000ULL /* picoseconds */
#define TINY_SLICE_PS (100 * US)
#define TINY_SWITCH_PS US

static inline struct machine_desc tiny_desc(unsigned sockets, unsigned cores)
{
	struct machine_desc d = {
		.name = "tiny", .title = "for tests", .sockets = sockets, .cores_per_socket = cores, .threads_per_core = 1,
		.freq_khz = 2000000, .ipc_milli = 2000, .window_insns = 128, .mshrs = 10, .walkers = 2, .store_buffer = 32,
		.l1d = { .size = 32 << 10, .ways = 8, .latency_ps = 2000 },
		.l2 = { .size = 256 << 10, .ways = 8, .latency_ps = 6000 },
		.llc = { .size = 4 << 20, .ways = 16, .latency_ps = 20000, .inclusion = INCL_INCLUSIVE },
		.llc_per_socket = true, .c2c_latency_ps = 20000, .remote_c2c_latency_ps = 100000,
		.link_latency_ps = 50000, .link_bw_MBps = 20000,
		.dtlb = { .entries_4k = 64, .ways_4k = 4, .entries_2m = 32, .ways_2m = 4, .entries_1g = 4, .ways_1g = 4 },
		.stlb = { .entries_4k = 1024, .ways_4k = 8, .shared_2m = true, .latency_ps = 3500 },
		.pwc_pmd = 32, .pwc_pud = 4, .pwc_pgd = 2,
		.cost = { .syscall_ps = 100000, .exception_ps = 300000, .irq_ps = 500000,
			  .context_switch_ps = TINY_SWITCH_PS, .cr3_load_ps = 100000, .ipi_send_ps = 100000,
			  .ipi_deliver_ps = US, .invlpg_ps = 100000, .flush_all_ps = 200000, .atomic_ps = 10000,
			  .tlbi_broadcast_ps = 300000, .tlbi_issue_ps = 50000 },
		.swap = { .read_latency_ps = 80 * US, .write_latency_ps = 20 * US, .read_bw_MBps = 4096, .write_bw_MBps = 2048, .queue_depth = 2 },
		.timeslice_ps = TINY_SLICE_PS, .nr_nodes = sockets,
	};

	for (unsigned n = 0; n < sockets; n++) {
		d.nodes[n] = (struct node_desc){ .memory = 256 << 20, .socket = (int32_t)n, .read_latency_ps = 80000,
						 .write_latency_ps = 80000, .read_bw_MBps = 20000,
						 .write_bw_MBps = 20000, .channels = 2 };
		for (unsigned o = 0; o < sockets; o++)
			d.distance[n][o] = o == n ? 10 : 20;
	}
	return d;
}

static inline struct machine *tiny_machine_quantum(unsigned sockets, unsigned cores, uint64_t quantum_ps)
{
	struct machine_desc d = tiny_desc(sockets, cores);
	struct model_options o = { .seed = 1, .quantum_ps = quantum_ps, .profile = true };
	struct machine *m = NULL;
	char err[200] = "";

	if (model_create(&d, &o, &m, err, sizeof(err)))
		fail_msg("%s", err);
	return m;
}

static inline struct machine *tiny_machine(unsigned sockets, unsigned cores)
{
	return tiny_machine_quantum(sockets, cores, 0);
}

static inline struct model *tiny_model(struct machine *m)
{
	return container_of(m, struct model, m);
}

/* Compute for ps at user level, in steps of at most 10 ns, giving way where the machine asks for it. */
static inline struct cpu *compute(struct cpu *c, uint64_t ps)
{
	while (ps) {
		uint64_t step = MIN(ps, 10000);

		core_charge(c, step, PATH_USER);
		sched_point(c);
		ps -= step;
		if (c->need_resched)
			c = machine_resched(c);
	}
	return c;
}

/* The same inside the engine: stays on c. */
static inline void busy(struct cpu *c, uint64_t ps)
{
	while (ps) {
		uint64_t step = MIN(ps, 10000);

		core_charge(c, step, PATH_FAULT);
		sched_point(c);
		ps -= step;
	}
}

static inline void start(struct machine *m, struct task *t)
{
	assert_int_equal(model_task_start(m, NULL, t), 0);
}

static inline void run_ok(struct machine *m)
{
	char err[300] = "";
	int r = model_run(m, err, sizeof(err));

	if (r)
		fail_msg("model_run: %d %s", r, err);
}

struct tiny_stat {
	const char *name;
	uint64_t value;
	bool found;
};

static inline void tiny_stat_one(void *arg, const char *name, uint64_t value)
{
	struct tiny_stat *s = arg;

	if (!strcmp(name, s->name)) {
		s->value = value;
		s->found = true;
	}
}

static inline uint64_t stat(struct machine *m, const char *name)
{
	struct tiny_stat s = { .name = name };

	machine_stats_each(m, tiny_stat_one, &s);
	assert_true(s.found);
	return s.value;
}

#endif
