/*
 * The host machine's creation and end: memory, nodes, CPU slots, and the table that joins its parts.
 *
 * Memory is one reservation (arena.c), backed by huge pages where the system allows. Nodes are equal parts of it, one after the
 * other; with several real nodes and libnuma, part i is bound to the i-th of them. CPU slots are shared out over the nodes.
 * Global settings of this computer are read, never written.
 */
#define _GNU_SOURCE
#include "machine/host/host_int.h"

#include "machine/arena.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef QUIRE_HAVE_NUMA
#include <numa.h>
#endif

#define SECTION_BYTES (SECTION_FRAMES << PAGE_SHIFT)

/* Nothing here broadcasts. */
static void host_flush_issue(struct cpu *c, const struct tlb_flush *f)
{
	(void)c, (void)f;
	quire_bug(__FILE__, __LINE__, "no broadcast on the host");
}

static void host_flush_sync(struct cpu *c)
{
	(void)c;
	quire_bug(__FILE__, __LINE__, "no broadcast on the host");
}

static void host_touch(struct cpu *c, paddr_t pa, size_t len, enum touch_kind kind)
{
	(void)c, (void)pa, (void)len, (void)kind;
}

static enum machine_path host_work(struct cpu *c, enum machine_path path, uint64_t units)
{
	(void)c, (void)path, (void)units;
	return PATH_USER;
}

/* Inside the kernel a thread makes no accesses, and if it does after all, the first one says so. */
static void host_enter(struct cpu *c, enum machine_entry e)
{
	(void)e;
	host_quiesce(host_cpu(c));
}

static void host_leave(struct cpu *c, enum machine_entry e)
{
	(void)c, (void)e;
}

static const struct machine_ops host_ops = {
	.kind = "host",
	.touch = host_touch,
	.work = host_work,
	.enter = host_enter,
	.leave = host_leave,
	.clear_page = host_clear_page,
	.copy_page = host_copy_page,
	.access = host_access,
	.access_run = host_access_run,
	.load_value = host_load_value,
	.store_value = host_store_value,
	.lock = host_lock,
	.trylock = host_trylock,
	.unlock = host_unlock,
	.read_lock = host_read_lock,
	.read_unlock = host_read_unlock,
	.write_lock = host_write_lock,
	.write_unlock = host_write_unlock,
	.downgrade = host_downgrade,
	.load_context = host_load_context,
	.flush_local = host_flush_local,
	.flush_remote = host_flush_remote,
	.flush_issue = host_flush_issue,
	.flush_sync = host_flush_sync,
	.swap_io = host_swap_io,
	.now_ns = host_now_ns,
	.resched = host_resched,
	.block = host_block,
	.wait = host_wait,
	.wake = host_wake,
	.sleep_ns = host_sleep_ns,
	.task_start = host_task_start,
};

const struct host_stats *host_stats(const struct cpu *c)
{
	return &((const struct host_cpu *)(const void *)c)->stats;
}

static int refuse(char *err, size_t errlen, int rc, const char *what)
{
	snprintf(err, errlen, "host machine: %s", what);
	return rc;
}

/* ---- nodes ---- */

static unsigned real_nodes(void)
{
#ifdef QUIRE_HAVE_NUMA
	if (numa_available() >= 0)
		return (unsigned)MAX(1, MIN(numa_num_configured_nodes(), MACHINE_MAX_NODES));
#endif
	return 1;
}

/* Part i of the memory comes from the i-th real node. Before anything is touched. */
static void bind_nodes(const struct machine *m)
{
#ifdef QUIRE_HAVE_NUMA
	for (unsigned i = 0; i < m->nr_nodes; i++)
		numa_tonode_memory(machine_ptr(m, m->nodes[i].start_pfn << PAGE_SHIFT),
				   (m->nodes[i].end_pfn - m->nodes[i].start_pfn) << PAGE_SHIFT, (int)i);
#else
	(void)m;
#endif
}

static void lay_out(struct machine *m, uint64_t node_frames)
{
	for (unsigned i = 0; i < m->nr_nodes; i++) {
		struct machine_node *n = &m->nodes[i];

		n->start_pfn = i * node_frames;
		n->end_pfn = n->start_pfn + node_frames;
		n->first_cpu = i * m->nr_cpus / m->nr_nodes;
		n->nr_cpus = (i + 1) * m->nr_cpus / m->nr_nodes - n->first_cpu;
		for (unsigned j = 0; j < m->nr_nodes; j++)
			m->distance[i][j] = i == j ? 10 : 20;
	}
}

/* ---- CPUs ---- */

static struct host_cpu *make_cpu(struct host_machine *hm, unsigned id)
{
	struct host_cpu *h = aligned_alloc(PAGE_SIZE, ALIGN_UP(sizeof(*h), PAGE_SIZE));

	if (!h)
		return NULL;
	memset(h, 0, sizeof(*h));
	h->c.m = &hm->m;
	h->c.id = id;
	h->c.run_until_ps = ~0ULL;
	h->c.uncharged = true;
	h->c.clear_ahead = hm->clear_ahead;
	for (unsigned n = 0; n < hm->m.nr_nodes; n++)
		if (id - hm->m.nodes[n].first_cpu < hm->m.nodes[n].nr_cpus)
			h->c.nid = (int32_t)n;
	h->hm = hm;
	h->seen = HOST_SEEN_NONE;
	h->state = HOST_QUIESCENT;
	h->key = TLB_VALID;
	h->keep = PAGE_SIZE;
	return h;
}

static int make_cpus(struct host_machine *hm)
{
	cpu_set_t set;

	hm->m.cpus = calloc(hm->m.nr_cpus, sizeof(struct cpu *));
	hm->real_cpus = calloc(CPU_SETSIZE, sizeof(int));
	if (!hm->m.cpus || !hm->real_cpus)
		return -ENOMEM;
	for (unsigned i = 0; i < hm->m.nr_cpus; i++) {
		hm->cpu[i] = make_cpu(hm, i);
		if (!hm->cpu[i])
			return -ENOMEM;
		hm->m.cpus[i] = &hm->cpu[i]->c;
	}
	hm->cpu[0]->taken = true;
	hm->nr_used = 1;
	if (!sched_getaffinity(0, sizeof(set), &set))
		for (int i = 0; i < CPU_SETSIZE; i++)
			if (CPU_ISSET((size_t)i, &set))
				hm->real_cpus[hm->nr_real_cpus++] = i;
	return 0;
}

/* ---- memory ---- */

static uint64_t default_bytes(void)
{
	uint64_t all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

	return MAX(ALIGN_DOWN(MIN(all / 4, HOST_MAX_DEFAULT_BYTES), SECTION_BYTES), SECTION_BYTES);
}

/* Advice, except that memory that is asked for now has to come. */
static int ready_memory(struct machine *m, bool populate, char *err, size_t errlen)
{
	uint64_t len = m->max_pfn << PAGE_SHIFT;

	(void)madvise(m->direct, len, MADV_HUGEPAGE);
	/* A process that is forked off, to run a program, has no use for it, and copying its tables takes milliseconds. */
	(void)madvise(m->direct, len, MADV_DONTFORK);
	if (m->nr_nodes > 1 && m->nr_nodes == real_nodes())
		bind_nodes(m);
	if (!populate)
		return 0;
#ifdef MADV_POPULATE_WRITE
	if (!madvise(m->direct, len, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return refuse(err, errlen, -ENOMEM, "this computer has not enough free memory for it (--size, or the machine's memory)");
#endif
	for (uint64_t at = 0; at < len; at += PAGE_SIZE)
		*(volatile char *)(m->direct + at) = 0;
	return 0;
}

static int check_options(struct host_options *o, char *err, size_t errlen)
{
	if (!o->nr_nodes)
		o->nr_nodes = real_nodes();
	if (!o->nr_cpus)
		o->nr_cpus = MAX(HOST_DEFAULT_CPUS, o->nr_nodes);
	if (!o->memory)
		o->memory = MAX(default_bytes() / (o->nr_nodes * SECTION_BYTES), 1) * o->nr_nodes * SECTION_BYTES;
	if (o->nr_nodes > MACHINE_MAX_NODES || o->nr_cpus > HOST_MAX_CPUS || o->nr_cpus < o->nr_nodes)
		return refuse(err, errlen, -EINVAL, "at most 64 nodes and 256 threads, and a thread for each node");
	if (o->memory % (o->nr_nodes * SECTION_BYTES))
		return refuse(err, errlen, -EINVAL, "memory is given in multiples of 128 MiB for each node");
	if (o->shootdown > HOST_SHOOTDOWN_MEMBARRIER || o->clear > HOST_CLEAR_MEMSET)
		return refuse(err, errlen, -EINVAL, "no such way to shoot down or to clear");
	if (host_barrier_register())
		return refuse(err, errlen, -EOPNOTSUPP, "this kernel has no expedited membarrier, which shootdowns need");
	return 0;
}

int host_create(const struct host_options *options, struct machine **ret, char *err, size_t errlen)
{
	struct host_options o = *options;
	struct host_machine *hm;
	int rc = check_options(&o, err, errlen);

	if (rc)
		return rc;
	hm = calloc(1, sizeof(*hm));
	if (!hm)
		return refuse(err, errlen, -ENOMEM, "out of memory");
	hm->m.ops = &host_ops;
	hm->m.name = "host";
	hm->m.nr_cpus = o.nr_cpus;
	hm->m.nr_nodes = o.nr_nodes;
	hm->m.seed = o.seed;
	hm->shootdown = o.shootdown;
	hm->place = o.place;
	host_pages_choose(hm, o.clear);
	host_clock_setup(hm);
	list_init(&hm->pending);
	pthread_mutex_init(&hm->lock, NULL);
	pthread_cond_init(&hm->changed, NULL);
	pthread_cond_init(&hm->called, NULL);
	lay_out(&hm->m, o.memory / o.nr_nodes >> PAGE_SHIFT);
	hm->swap_fd = -1;
	rc = machine_arena_create(&hm->m, o.memory >> PAGE_SHIFT, false, err, errlen);
	if (!rc) {
		rc = make_cpus(hm);
		if (rc)
			(void)refuse(err, errlen, rc, "out of memory");
	}
	if (!rc)
		rc = ready_memory(&hm->m, o.populate, err, errlen);
	if (!rc && o.swap)
		rc = host_swap_open(hm, o.swap, err, errlen);
	if (rc) {
		host_destroy(&hm->m);
		return rc;
	}
	*ret = &hm->m;
	return 0;
}

void host_destroy(struct machine *m)
{
	struct host_machine *hm = (struct host_machine *)(void *)m;

	if (!m)
		return;
	ASSERT(!hm->live);
	host_swap_close(hm);
	machine_arena_destroy(m);
	for (unsigned i = 0; i < m->nr_cpus; i++)
		free(hm->cpu[i]);
	free(m->cpus);
	free(hm->real_cpus);
	pthread_cond_destroy(&hm->changed);
	pthread_cond_destroy(&hm->called);
	pthread_mutex_destroy(&hm->lock);
	free(hm);
}
