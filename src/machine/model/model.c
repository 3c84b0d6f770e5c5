/*
 * The model machine as the engine sees it: made from a description, taken apart, and the table that joins its two halves.
 *
 * CPUs are numbered by socket: socket s has [s * cores * threads, (s + 1) * cores * threads), and belongs to the first node that
 * names it; further nodes that name it, like nodes without a socket, have memory only. Nodes lie one after the other in
 * physical memory in the order of the description, each beginning at a section.
 */
#include "machine/model/model_int.h"

#include "machine/arena.h"
#include "machine/model/schedule_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t op_now_ns(struct cpu *c)
{
	return c->now_ps / PS_PER_NS;
}

static const struct machine_ops model_ops = {
	.kind = "model",
	.touch = core_touch,
	.work = core_work,
	.enter = core_enter,
	.leave = core_leave,
	.clear_page = core_clear_page,
	.copy_page = core_copy_page,
	.access = core_access,
	.access_run = core_access_run,
	.load_value = core_load_value,
	.store_value = core_store_value,
	.lock = sched_lock,
	.trylock = sched_trylock,
	.unlock = sched_unlock,
	.read_lock = sched_read_lock,
	.read_unlock = sched_read_unlock,
	.write_lock = sched_write_lock,
	.write_unlock = sched_write_unlock,
	.downgrade = sched_downgrade,
	.load_context = core_load_context,
	.flush_local = core_flush_local,
	.flush_remote = ipi_flush_remote,
	.flush_issue = ipi_flush_issue,
	.flush_sync = ipi_flush_sync,
	.swap_io = model_swap_io,
	.now_ns = op_now_ns,
	.resched = sched_op_resched,
	.block = sched_op_block,
	.wait = sched_op_wait,
	.wake = sched_op_wake,
	.sleep_ns = sched_op_sleep_ns,
	.task_start = sched_op_task_start,
};

static int refuse(char *err, size_t errlen, int r, const char *what)
{
	if (errlen)
		snprintf(err, errlen, "%s", what);
	return r;
}

static int lay_out_nodes(struct model *md, uint64_t *ret_max_pfn, char *err, size_t errlen)
{
	struct machine *m = &md->m;
	const struct machine_desc *d = &md->desc;
	uint32_t per_socket = d->cores_per_socket * d->threads_per_core;
	uint64_t at = 0, has_node = 0;

	for (unsigned n = 0; n < d->nr_nodes; n++) {
		const struct node_desc *nd = &d->nodes[n];
		struct machine_node *node = &m->nodes[n];
		int s = nd->socket;

		node->start_pfn = at;
		node->end_pfn = at + (nd->memory >> PAGE_SHIFT);
		at = ALIGN_UP(node->end_pfn, SECTION_FRAMES);
		if (s >= (int)d->sockets)
			return refuse(err, errlen, -EINVAL, "a node names a socket that there is not");
		if (s >= 0 && !(has_node & 1ULL << s)) {
			has_node |= 1ULL << s;
			node->first_cpu = (uint32_t)s * per_socket;
			node->nr_cpus = per_socket;
			for (uint32_t i = 0; i < per_socket; i++)
				m->cpus[node->first_cpu + i]->nid = (int32_t)n;
		}
		for (unsigned o = 0; o < d->nr_nodes; o++)
			m->distance[n][o] = d->distance[n][o];
	}
	if (has_node != (1ULL << d->sockets) - 1)
		return refuse(err, errlen, -EINVAL, "a socket has no node");
	*ret_max_pfn = m->nodes[d->nr_nodes - 1].end_pfn;
	return 0;
}

static int create_cpus(struct model *md)
{
	struct machine *m = &md->m;
	size_t size = ALIGN_UP(sizeof(struct model_cpu), (size_t)CACHE_LINE);

	m->cpus = calloc(m->nr_cpus, sizeof(struct cpu *));
	if (!m->cpus)
		return -ENOMEM;
	for (unsigned i = 0; i < m->nr_cpus; i++) {
		struct cpu *c = aligned_alloc(CACHE_LINE, size);

		if (!c)
			return -ENOMEM;
		memset(c, 0, size);
		c->m = m;
		c->id = i;
		m->cpus[i] = c;
	}
	return 0;
}

static void free_model(struct model *md)
{
	for (unsigned i = 0; md->m.cpus && i < md->m.nr_cpus; i++)
		free(md->m.cpus[i]);
	free(md->m.cpus);
	free(md);
}

static int check_shape(const struct machine_desc *d, char *err, size_t errlen)
{
	uint64_t cpus = (uint64_t)d->sockets * d->cores_per_socket * d->threads_per_core;

	if (!d->sockets || d->sockets > DESC_MAX_SOCKETS || !cpus || cpus > QUIRE_MAX_CPUS)
		return refuse(err, errlen, -EINVAL, "the number of sockets or CPUs is out of range");
	if (!d->nr_nodes || d->nr_nodes > MACHINE_MAX_NODES)
		return refuse(err, errlen, -EINVAL, "the number of nodes is out of range");
	for (unsigned n = 0; n < d->nr_nodes; n++)
		if (d->nodes[n].memory < PAGE_SIZE)
			return refuse(err, errlen, -EINVAL, "a node has no memory");
	return 0;
}

int model_create(const struct machine_desc *d, const struct model_options *o, struct machine **ret, char *err, size_t errlen)
{
	struct model *md;
	uint64_t max_pfn;
	int r = check_shape(d, err, errlen);

	if (r)
		return r;
	md = calloc(1, sizeof(*md));
	if (!md)
		return refuse(err, errlen, -ENOMEM, "out of memory");
	md->desc = *d;
	md->desc.source = NULL; /* the caller's */
	if (o)
		md->opt = *o;
	md->m.ops = &model_ops;
	if (md->opt.scheduled) {
		md->m.ops = &schedule_ops;
		memset(&md->desc.cost, 0, sizeof(md->desc.cost));
	}
	md->m.name = md->desc.name;
	md->m.nr_cpus = d->sockets * d->cores_per_socket * d->threads_per_core;
	md->m.nr_nodes = d->nr_nodes;
	md->m.broadcast_tlbi = d->tlbi.broadcast;
	md->m.seed = md->opt.seed;
	r = create_cpus(md);
	if (r) {
		refuse(err, errlen, r, "out of memory for the CPUs");
		goto fail;
	}
	r = lay_out_nodes(md, &max_pfn, err, errlen);
	if (r)
		goto fail;
	r = machine_arena_create(&md->m, max_pfn, true, err, errlen);
	if (r)
		goto fail;
	r = core_init(md, err, errlen);
	if (r)
		goto fail_arena;
	r = sched_init(md, err, errlen);
	if (r)
		goto fail_core;
	r = swap_init(md);
	if (r) {
		refuse(err, errlen, r, "out of memory for the contents of the swap device");
		goto fail_sched;
	}
	*ret = &md->m;
	return 0;

fail_sched:
	sched_done(md);
fail_core:
	core_done(md);
fail_arena:
	machine_arena_destroy(&md->m);
fail:
	free_model(md);
	return r;
}

void model_destroy(struct machine *m)
{
	struct model *md;

	if (!m)
		return;
	md = container_of(m, struct model, m);
	swap_done(md);
	sched_done(md);
	core_done(md);
	machine_arena_destroy(m);
	free_model(md);
}

int model_task_start(struct machine *m, struct cpu *c, struct task *t)
{
	return sched_task_start(container_of(m, struct model, m), c, t);
}
