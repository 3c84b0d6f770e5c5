/*
 * A model without its scheduler, for tests and benches of the cost core: CPUs, nodes, sparse memory and hand-made page tables.
 * The scheduler's side of the seam is faked: sched_catch_up only counts.
 */
#ifndef QUIRE_TESTS_CORE_FIXTURE_H
#define QUIRE_TESTS_CORE_FIXTURE_H

#include "machine/model/cache.h"
#include "machine/model/model_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIX_ROOT_PFN (CORE_KERNEL_BYTES / PAGE_SIZE)

struct fixture {
	struct model *md;
	uint64_t next_table; /* pfn */
	uint64_t catch_ups, catch_up_times; /* how often, and a digest of when */
	/* the fault hook's: map faulting pages one to one from here on */
	uint64_t next_frame;
	unsigned faults, last_err;
	int answer;
	bool do_map;
	uint64_t map_flags;
};

static struct fixture *fix_current;

int sched_init(struct model *md, char *err, size_t errlen)
{
	(void)md;
	(void)err;
	(void)errlen;
	return 0;
}

void sched_done(struct model *md)
{
	(void)md;
}

void sched_catch_up(struct cpu *c)
{
	fix_current->catch_ups++;
	fix_current->catch_up_times = fix_current->catch_up_times * 31 + c->now_ps;
	c->run_until_ps = c->now_ps + 1000000;
}

/* One socket, two cores, 64 MiB, small caches: every structure can be filled by a short loop. */
static inline struct machine_desc fix_desc(void)
{
	struct machine_desc d = {
		.name = "test",
		.sockets = 1,
		.cores_per_socket = 2,
		.threads_per_core = 1,
		.freq_khz = 2500000,
		.ipc_milli = 2000,
		.window_insns = 192,
		.mshrs = 10,
		.walkers = 1,
		.store_buffer = 42,
		.l1d = { .size = 4096, .ways = 4, .latency_ps = 1600 },
		.l2 = { .size = 16384, .ways = 8, .latency_ps = 4800 },
		.llc = { .size = 65536, .ways = 16, .latency_ps = 20000, .inclusion = INCL_INCLUSIVE },
		.c2c_latency_ps = 25000,
		.remote_c2c_latency_ps = 90000,
		.link_latency_ps = 50000,
		.link_bw_MBps = 30000,
		.dtlb = { .entries_4k = 16, .ways_4k = 4, .entries_2m = 8, .ways_2m = 4, .entries_1g = 4, .ways_1g = 4 },
		.stlb = { .entries_4k = 64, .ways_4k = 8, .shared_2m = true, .latency_ps = 2800 },
		.pwc_pmd = 8,
		.pwc_pud = 4,
		.pwc_pgd = 2,
		.cost = { .syscall_ps = 100000, .exception_ps = 400000, .irq_ps = 300000, .cr3_load_ps = 80000,
			  .invlpg_ps = 60000, .flush_all_ps = 150000, .atomic_ps = 7000 },
		.nr_nodes = 1,
		.nodes = { { .memory = 1ULL << 30, .socket = 0, .read_latency_ps = 60000, .write_latency_ps = 60000,
			     .read_bw_MBps = 16000, .write_bw_MBps = 12000 } },
	};

	d.distance[0][0] = 10;
	return d;
}

/* Make it a machine of two sockets with a node each. */
static inline void fix_two_sockets(struct machine_desc *d)
{
	d->sockets = 2;
	d->nr_nodes = 2;
	d->nodes[1] = d->nodes[0];
	d->nodes[1].socket = 1;
	d->distance[0][1] = d->distance[1][0] = 21;
	d->distance[1][1] = 10;
}

static inline uint64_t *fix_entry(struct fixture *f, uint64_t table_pfn, vaddr_t va, unsigned level)
{
	return (uint64_t *)(void *)(f->md->m.direct + table_pfn * PAGE_SIZE) + ((va >> (12 + 9 * level)) & 511);
}

/* Map a page of size 4K (level 0), 2M (1) or 1G (2) in the address space rooted at root_pfn; returns the leaf entry. */
static inline uint64_t *fix_map(struct fixture *f, uint64_t root_pfn, vaddr_t va, paddr_t pa, unsigned level, uint64_t flags)
{
	uint64_t table = root_pfn;
	uint64_t *e;

	for (unsigned l = 3; l > level; l--) {
		e = fix_entry(f, table, va, l);
		if (!(*e & PTE_PRESENT))
			*e = f->next_table++ * PAGE_SIZE | PTE_PRESENT | PTE_WRITE | PTE_USER;
		table = (*e & PTE_ADDR_MASK) >> PAGE_SHIFT;
	}
	e = fix_entry(f, table, va, level);
	*e = pa | flags | PTE_PRESENT | (level ? PTE_HUGE : 0);
	return e;
}

static inline int fix_fault(struct cpu *c, vaddr_t va, unsigned err)
{
	struct fixture *f = fix_current;

	(void)c;
	f->faults++;
	f->last_err = err;
	if (!f->answer && f->do_map)
		fix_map(f, FIX_ROOT_PFN, va, f->next_frame++ * PAGE_SIZE, 0, f->map_flags);
	return f->answer;
}

/* Returns 0, or core_init's error with the text in err. */
static inline int fix_create(struct fixture *f, const struct machine_desc *d, bool profile, char *err, size_t errlen)
{
	struct machine *m;
	uint64_t at = 0;
	int r;

	*f = (struct fixture){ .next_table = FIX_ROOT_PFN + 16, .next_frame = FIX_ROOT_PFN + 8192, .do_map = true,
			       .map_flags = PTE_WRITE | PTE_USER };
	f->md = calloc(1, sizeof(*f->md));
	f->md->desc = *d;
	f->md->opt.profile = profile;
	m = &f->md->m;
	m->nr_cpus = d->sockets * d->cores_per_socket * d->threads_per_core;
	m->nr_nodes = d->nr_nodes;
	m->hooks.fault = fix_fault;
	m->cpus = calloc(m->nr_cpus, sizeof(*m->cpus));
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		struct model_cpu *mc = calloc(1, sizeof(*mc));

		mc->c.m = m;
		mc->c.id = i;
		mc->c.run_until_ps = ~0ULL;
		m->cpus[i] = &mc->c;
	}
	for (unsigned n = 0; n < d->nr_nodes; n++) {
		m->nodes[n].start_pfn = at;
		m->nodes[n].end_pfn = at + d->nodes[n].memory / PAGE_SIZE;
		at = ALIGN_UP(m->nodes[n].end_pfn, SECTION_FRAMES);
	}
	m->max_pfn = m->nodes[d->nr_nodes - 1].end_pfn;
	m->direct = mmap(NULL, m->max_pfn * PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	m->tags = mmap(NULL, m->max_pfn * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->direct == MAP_FAILED || m->tags == MAP_FAILED)
		abort();
	fix_current = f;
	r = core_init(f->md, err, errlen);
	if (!r)
		for (unsigned i = 0; i < m->nr_cpus; i++)
			core_load_context(m->cpus[i], pfn(FIX_ROOT_PFN), 1);
	return r;
}

static inline void fix_destroy(struct fixture *f)
{
	struct machine *m = &f->md->m;

	core_done(f->md);
	munmap(m->direct, m->max_pfn * PAGE_SIZE);
	munmap(m->tags, m->max_pfn * 8);
	for (unsigned i = 0; i < m->nr_cpus; i++)
		free(m->cpus[i]);
	free(m->cpus);
	free(f->md);
	fix_current = NULL;
}

struct fix_stat_query {
	const char *name;
	uint64_t value;
	bool found;
};

static inline void fix_stat_cb(void *arg, const char *name, uint64_t value)
{
	struct fix_stat_query *q = arg;

	if (!strcmp(name, q->name)) {
		q->value = value;
		q->found = true;
	}
}

static inline uint64_t fix_stat(struct fixture *f, const char *name)
{
	struct fix_stat_query q = { .name = name };

	core_stats_each(f->md, fix_stat_cb, &q);
	if (!q.found) {
		fprintf(stderr, "no counter %s\n", name);
		abort();
	}
	return q.value;
}

static inline struct cpu *fix_cpu(struct fixture *f, unsigned i)
{
	return f->md->m.cpus[i];
}

static inline struct core_cpu *fix_core(struct fixture *f, unsigned i)
{
	return &model_cpu(fix_cpu(f, i))->core;
}

#endif
