/*
 * Memory controllers and links: bandwidth as service times, latency by distance, queueing that tolerates requests out of order of time.
 *
 * A request waits only for slots of time that are full; inside one slot it starts at its arrival or behind what the slot has served
 * already, whichever is later. So bandwidth is exact over more than a slot (16 lines), and a CPU that lags behind the others by a quantum
 * does not queue behind their later requests.
 */
#include "machine/model/dram.h"

#include "machine/model/model_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define LINE_FP (64ULL * 256 * 1000000) /* 64 bytes at 1 MB/s, in 1/256 ps */

/* What did not fit into slot n goes into those after it. */
static void carry(struct dram_server *s, uint64_t n, uint64_t excess)
{
	uint64_t room = 256ULL << s->shift;

	while (excess) {
		struct dram_slot *d = &s->slot[++n % DRAM_SLOTS];
		uint64_t take;

		if (d->number > n)
			return;
		if (d->number < n)
			*d = (struct dram_slot){ .number = n };
		take = MIN(excess, room - d->used);
		d->used += take;
		excess -= take;
	}
}

uint64_t dram_serve(struct dram_server *s, uint64_t t, uint64_t service)
{
	uint64_t room = 256ULL << s->shift, start, used;
	uint64_t n = t >> s->shift;
	struct dram_slot *d;

	for (;; n++) {
		d = &s->slot[n % DRAM_SLOTS];
		if (unlikely(d->number > n))
			return t; /* so far behind that the ring has forgotten: no longer in anybody's way */
		if (d->number < n)
			*d = (struct dram_slot){ .number = n };
		if (likely(d->used < room))
			break;
	}
	start = (n << s->shift) + (d->used >> 8);
	used = d->used + service;
	d->used = MIN(used, room);
	if (used > room)
		carry(s, n, used - room);
	return MAX(t, start);
}

uint64_t dram_link(struct model *md, unsigned from, unsigned to, uint64_t t, bool data)
{
	struct core_shared *sh = &md->core;

	if (from == to)
		return t;
	if (data && sh->link_service)
		t = dram_serve(&sh->link[from * sh->nr_sockets + to], t, sh->link_service);
	return t + sh->hops[from][to] * md->desc.link_latency_ps;
}

uint64_t dram_read(struct model *md, struct core_cpu *cc, unsigned socket, unsigned node, uint64_t t)
{
	struct dram_node *n = &md->core.node[node];
	uint64_t done = dram_serve(&n->srv, t, n->read_service) + n->read_latency_ps;

	md->core.dram_reads[node]++;
	if (n->socket == socket)
		return done;
	cc->stats.remote_accesses++;
	return dram_link(md, n->socket, socket, done, true);
}

void dram_write(struct model *md, struct core_cpu *cc, unsigned socket, unsigned node, uint64_t t)
{
	struct dram_node *n = &md->core.node[node];
	uint64_t queued;

	md->core.dram_writes[node]++;
	if (n->socket != socket) {
		cc->stats.remote_accesses++;
		t = dram_link(md, socket, n->socket, t, true);
	}
	t = dram_serve(&n->srv, t, n->write_service);
	queued = DRAM_WRITE_QUEUE * (n->write_service >> 8);
	if (t > queued)
		cc->write_ready_ps = MAX(cc->write_ready_ps, t - queued);
}

static int server_init(struct dram_server *s, uint64_t longest)
{
	s->shift = 12;
	while (s->shift < 40 && (256ULL << s->shift) < 16 * longest)
		s->shift++;
	s->slot = calloc(DRAM_SLOTS, sizeof(*s->slot));
	return s->slot ? 0 : -ENOMEM;
}

static uint64_t service_of(uint64_t MBps)
{
	return (LINE_FP + MBps / 2) / MBps;
}

/* Hops from SLIT distances: how many times the smallest remote distance. */
static void hops_init(struct model *md)
{
	struct core_shared *sh = &md->core;
	const struct machine_desc *d = &md->desc;
	unsigned least = ~0U;

	for (unsigned a = 0; a < d->nr_nodes; a++)
		for (unsigned b = 0; b < d->nr_nodes; b++)
			if (d->nodes[a].socket >= 0 && d->nodes[b].socket >= 0 &&
			    d->nodes[a].socket != d->nodes[b].socket && d->distance[a][b] > 10)
				least = MIN(least, d->distance[a][b] - 10U);
	for (unsigned a = 0; a < d->nr_nodes; a++) {
		for (unsigned b = 0; b < d->nr_nodes; b++) {
			int sa = d->nodes[a].socket, sb = d->nodes[b].socket;
			unsigned far = d->distance[a][b] > 10 ? d->distance[a][b] - 10U : 0;

			if (sa >= 0 && sb >= 0 && sa != sb)
				sh->hops[sa][sb] = (uint8_t)(least == ~0U ? 1 : MAX(1U, (far + least / 2) / least));
		}
	}
	for (unsigned a = 0; a < sh->nr_sockets; a++)
		for (unsigned b = 0; b < sh->nr_sockets; b++)
			if (a != b && !sh->hops[a][b])
				sh->hops[a][b] = 1;
}

/* Which socket's controllers a node hangs off. */
static unsigned node_socket(const struct machine_desc *d, unsigned n)
{
	for (unsigned i = 0; i < d->nr_nodes && d->nodes[n].socket < 0; i++)
		n = d->nodes[n].attached_to;
	return d->nodes[n].socket < 0 ? 0 : (unsigned)d->nodes[n].socket;
}

int dram_init(struct model *md, char *err, size_t errlen)
{
	struct core_shared *sh = &md->core;
	const struct machine_desc *d = &md->desc;
	int r;

	for (unsigned i = 0; i < d->nr_nodes; i++) {
		struct dram_node *n = &sh->node[i];

		if (!d->nodes[i].read_bw_MBps || !d->nodes[i].write_bw_MBps) {
			snprintf(err, errlen, "%s: node %u: bandwidth is 0", d->name, i);
			return -EINVAL;
		}
		n->read_service = service_of(d->nodes[i].read_bw_MBps);
		n->write_service = service_of(d->nodes[i].write_bw_MBps);
		n->read_latency_ps = d->nodes[i].read_latency_ps;
		n->write_latency_ps = d->nodes[i].write_latency_ps;
		n->socket = node_socket(d, i);
		r = server_init(&n->srv, MAX(n->read_service, n->write_service));
		if (r)
			goto nomem;
	}
	hops_init(md);
	sh->link_service = d->link_bw_MBps ? service_of(d->link_bw_MBps) : 0;
	sh->link = calloc((size_t)sh->nr_sockets * sh->nr_sockets, sizeof(*sh->link));
	if (!sh->link)
		goto nomem;
	for (unsigned i = 0; i < sh->nr_sockets * sh->nr_sockets; i++) {
		r = server_init(&sh->link[i], sh->link_service);
		if (r)
			goto nomem;
	}
	return 0;
nomem:
	snprintf(err, errlen, "out of memory");
	return -ENOMEM;
}

void dram_done(struct model *md)
{
	struct core_shared *sh = &md->core;

	for (unsigned i = 0; i < MACHINE_MAX_NODES; i++) {
		free(sh->node[i].srv.slot);
		sh->node[i].srv.slot = NULL;
	}
	if (sh->link)
		for (unsigned i = 0; i < sh->nr_sockets * sh->nr_sockets; i++)
			free(sh->link[i].slot);
	free(sh->link);
	sh->link = NULL;
}
