/*
 * From collected values to a machine description: each value by the table of keys (unit, range, default), then whether they fit
 * together. Every complaint names the place in the file and what would be allowed.
 */
#include "machine/desc_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_WIDTH(type, field) sizeof(((type *)NULL)->field)

const struct desc_key desc_keys[NR_KEYS] = {
#define K(id, path, unit, field, need, min, max, def, help)                                                                \
	[KEY_##id] = { path, UNIT_##unit, offsetof(struct machine_desc, field),                                            \
		       (uint16_t)FIELD_WIDTH(struct machine_desc, field), need, min, max, def, help },
	DESC_KEYS(K)
#undef K
};

const struct desc_key node_keys[NR_NODE_KEYS] = {
#define K(id, path, unit, field, need, min, max, def, help)                                                                \
	[NODE_##id] = { path, UNIT_##unit, offsetof(struct node_desc, field),                                              \
			(uint16_t)FIELD_WIDTH(struct node_desc, field), need, min, max, def, help },
	NODE_KEYS(K)
#undef K
};

void desc_allowed(const struct desc_key *k, char *buf, size_t len)
{
	char lo[32], hi[32];
	const char *what = desc_unit_help(k->unit);

	if (k->unit == UNIT_TEXT)
		snprintf(buf, len, "text of 1 to %llu bytes", (unsigned long long)k->max);
	else if (k->unit == UNIT_BOOL || k->unit == UNIT_REPL || k->unit == UNIT_INCL)
		snprintf(buf, len, "%s", what);
	else
		snprintf(buf, len, "%s, from %s to %s", what, desc_format(k->unit, k->min, lo, sizeof(lo)),
			 desc_format(k->unit, k->max, hi, sizeof(hi)));
}

/* Places of values that a file does not give: their section's first line would be a guess, so the top of the file or node. */
static struct desc_place place_of(const struct desc_raw *raw, struct desc_place otherwise)
{
	return raw->at.line ? raw->at : otherwise;
}

/* Integer fields are 8 or 4 bytes, flags 1 byte. */
static void store(void *base, const struct desc_key *k, uint64_t v)
{
	char *to = (char *)base + k->offset;
	uint32_t v4 = (uint32_t)v;
	bool v1 = v != 0;

	if (k->width == sizeof(v))
		memcpy(to, &v, sizeof(v));
	else if (k->width == sizeof(v4))
		memcpy(to, &v4, sizeof(v4));
	else
		memcpy(to, &v1, sizeof(v1));
}

static int convert_text(struct desc_reader *r, enum desc_key_id id)
{
	const struct desc_key *k = &desc_keys[id];
	const struct desc_raw *raw = &r->raw[id];
	char allowed[200];
	size_t len = strlen(raw->text);

	desc_allowed(k, allowed, sizeof(allowed));
	if (len > k->max)
		return desc_fail(r, raw->at, k->path, raw->text, "%s", allowed);
	if (id == KEY_TITLE) {
		if (strpbrk(raw->text, "\n\r\t"))
			return desc_fail(r, raw->at, k->path, raw->text, "one line of text");
		memcpy(r->d->title, raw->text, len + 1);
		return 0;
	}
	r->d->source = strdup(raw->text);
	return r->d->source ? 0 : -ENOMEM;
}

/* One given value of either table, checked against unit and range. */
static int convert_value(struct desc_reader *r, const struct desc_key *k, const char *shown, const struct desc_raw *raw,
			 uint64_t *ret)
{
	char allowed[200];
	int res = desc_parse(k->unit, raw->text, r->d->freq_khz, ret);
	bool none = k->unit == UNIT_SOCKET && *ret == UINT32_MAX && !res;

	if (!res && (none || (*ret >= k->min && *ret <= k->max)))
		return 0;
	desc_allowed(k, allowed, sizeof(allowed));
	return desc_fail(r, raw->at, shown, raw->text, "%s", allowed);
}

static int missing(struct desc_reader *r, struct desc_place at, const char *shown, const struct desc_key *k)
{
	char allowed[200];

	if (k->unit == UNIT_LIST)
		return desc_fail(r, at, shown, NULL, "missing: a list with a distance to each node such as [10, 21]");
	desc_allowed(k, allowed, sizeof(allowed));
	return desc_fail(r, at, shown, NULL, "missing: %s", allowed);
}

static bool is_needed(const struct machine_desc *d, const struct desc_key *k)
{
	return k->need == REQUIRED || (k->need == IF_LINKED && d->sockets > 1) ||
	       (k->need == IF_BCAST && d->tlbi.broadcast) || (k->need == SEVERAL && d->nr_nodes > 1);
}

static int convert_keys(struct desc_reader *r)
{
	for (unsigned i = 0; i < NR_KEYS; i++) {
		const struct desc_key *k = &desc_keys[i];
		uint64_t v = k->def;
		int res = 0;

		if (!r->raw[i].text) {
			if (is_needed(r->d, k))
				return missing(r, (struct desc_place){ 0 }, k->path, k);
			/* Ways come right behind their entries. */
			if (k->need == ALL_WAYS)
				memcpy(&v, (char *)r->d + desc_keys[i - 1].offset, sizeof(uint32_t));
			if (k->need == AS_BEFORE)
				memcpy(&v, (char *)r->d + desc_keys[i - 1].offset, sizeof(v));
		} else if (k->unit == UNIT_TEXT) {
			res = convert_text(r, (enum desc_key_id)i);
		} else {
			res = convert_value(r, k, k->path, &r->raw[i], &v);
		}
		if (res)
			return res;
		if (k->unit != UNIT_TEXT)
			store(r->d, k, v);
	}
	return 0;
}

static int convert_distances(struct desc_reader *r, uint32_t n)
{
	struct desc_key k = node_keys[NODE_DISTANCES];
	char shown[48];

	k.unit = UNIT_COUNT;
	snprintf(shown, sizeof(shown), "nodes[%u].distances", n);
	for (uint32_t i = 0; i < r->node[n].nr_distances; i++) {
		struct desc_raw raw = { .text = r->node[n].distance[i], .at = r->node[n].distance_at[i] };
		uint64_t v;
		int res = convert_value(r, &k, shown, &raw, &v);

		if (res)
			return res;
		r->d->distance[n][i] = (uint8_t)v;
	}
	return 0;
}

static int convert_node(struct desc_reader *r, uint32_t n)
{
	struct node_desc *nd = &r->d->nodes[n];

	for (unsigned i = 0; i < NR_NODE_KEYS; i++) {
		const struct desc_key *k = &node_keys[i];
		const struct desc_raw *raw = &r->node[n].raw[i];
		char shown[48];
		uint64_t v = k->def;
		int res = 0;

		snprintf(shown, sizeof(shown), "nodes[%u].%s", n, k->path);
		if (!raw->text) {
			if (is_needed(r->d, k) || (k->need == IF_FAR && nd->socket < 0))
				return missing(r, r->node[n].at, shown, k);
			if (i == NODE_WRITE_LATENCY)
				v = nd->read_latency_ps;
			if (i == NODE_WRITE_BW)
				v = nd->read_bw_MBps;
		} else if (k->unit == UNIT_LIST) {
			res = convert_distances(r, n);
		} else {
			res = convert_value(r, k, shown, raw, &v);
		}
		if (res)
			return res;
		if (k->unit != UNIT_LIST)
			store(nd, k, v);
	}
	return 0;
}

int desc_convert(struct desc_reader *r)
{
	int res;

	r->d->nr_nodes = r->nr_nodes;
	res = convert_keys(r);
	if (!res && !r->nr_nodes)
		res = desc_fail(r, (struct desc_place){ 0 }, "nodes", NULL, "missing: a list of 1 to %d nodes", MACHINE_MAX_NODES);
	for (uint32_t n = 0; n < r->nr_nodes && !res; n++)
		res = convert_node(r, n);
	r->d->llc_per_socket = true;
	return res;
}

/* ---- do they fit together? ---- */

static int check_cache(struct desc_reader *r, const struct cache_desc *c, enum desc_key_id size)
{
	if (c->size % ((uint64_t)c->ways * CACHE_LINE) == 0)
		return 0;
	return desc_fail(r, r->raw[size].at, desc_keys[size].path, r->raw[size].text,
			 "a multiple of %u ways times %u bytes", c->ways, CACHE_LINE);
}

static int check_caches(struct desc_reader *r)
{
	const struct machine_desc *d = r->d;
	int res = check_cache(r, &d->l1d, KEY_L1D_SIZE);

	res = res ? res : check_cache(r, &d->l2, KEY_L2_SIZE);
	res = res ? res : check_cache(r, &d->llc, KEY_LLC_SIZE);
	if (res)
		return res;
	if (d->l2.size < d->l1d.size)
		return desc_fail(r, r->raw[KEY_L2_SIZE].at, "cache.l2.size", r->raw[KEY_L2_SIZE].text,
				 "at least the size of cache.l1d");
	if (d->llc.inclusion == INCL_INCLUSIVE && d->llc.size < d->l2.size * d->cores_per_socket)
		return desc_fail(r, r->raw[KEY_LLC_SIZE].at, "cache.llc.size", r->raw[KEY_LLC_SIZE].text,
				 "an inclusive last level holds at least the L2s of its %u cores", d->cores_per_socket);
	if (d->l2.latency_ps < d->l1d.latency_ps || d->llc.latency_ps < d->l2.latency_ps) {
		enum desc_key_id id = d->l2.latency_ps < d->l1d.latency_ps ? KEY_L2_LATENCY : KEY_LLC_LATENCY;

		return desc_fail(r, r->raw[id].at, desc_keys[id].path, r->raw[id].text,
				 "at least the latency of the level before (latencies are in all, not added up)");
	}
	return 0;
}

/* Ways divide entries, and are none where there are none. Keys alternate: entries, ways. */
static int check_tlb(struct desc_reader *r, enum desc_key_id first)
{
	for (unsigned i = first; i < first + 6u; i += 2) {
		uint32_t entries, ways;

		memcpy(&entries, (const char *)r->d + desc_keys[i].offset, sizeof(entries));
		memcpy(&ways, (const char *)r->d + desc_keys[i + 1].offset, sizeof(ways));
		if (!entries && !r->raw[i + 1].text)
			continue;
		if (!entries)
			return desc_fail(r, r->raw[i + 1].at, desc_keys[i + 1].path, r->raw[i + 1].text,
					 "not without %s", desc_keys[i].path);
		if (ways > 64)
			return desc_fail(r, r->raw[i].at, desc_keys[i].path, r->raw[i].text,
					 "at most 64 where %s is not given (fully associative)", desc_keys[i + 1].path);
		if (entries % ways)
			return desc_fail(r, r->raw[i].at, desc_keys[i].path, r->raw[i].text, "a multiple of the %u ways", ways);
	}
	return 0;
}

static int check_tlbs(struct desc_reader *r)
{
	int res = check_tlb(r, KEY_DTLB_4K);

	res = res ? res : check_tlb(r, KEY_STLB_4K);
	if (!res && r->d->stlb.shared_2m && r->d->stlb.entries_2m)
		res = desc_fail(r, r->raw[KEY_STLB_2M].at, "tlb.l2.entries_2m", r->raw[KEY_STLB_2M].text,
				"not together with tlb.l2.shared_2m");
	return res;
}

static int check_broadcast(struct desc_reader *r)
{
	if (r->d->cost.tlbi_issue_ps <= r->d->cost.tlbi_broadcast_ps)
		return 0;
	return desc_fail(r, r->raw[KEY_TLBI_ISSUE].at, "cost.tlbi_issue", r->raw[KEY_TLBI_ISSUE].text, "at most cost.tlbi_broadcast");
}

static int check_cpus(struct desc_reader *r)
{
	const struct machine_desc *d = r->d;
	uint64_t cpus = (uint64_t)d->sockets * d->cores_per_socket * d->threads_per_core;

	if (cpus <= QUIRE_MAX_CPUS)
		return 0;
	return desc_fail(r, r->raw[KEY_CORES].at, "cpu.cores_per_socket", r->raw[KEY_CORES].text,
			 "sockets times cores times threads is %llu; at most %d CPUs", (unsigned long long)cpus, QUIRE_MAX_CPUS);
}

static int node_fail(struct desc_reader *r, uint32_t n, enum node_key_id id, const char *allowed)
{
	char shown[48];
	const struct desc_raw *raw = &r->node[n].raw[id];

	snprintf(shown, sizeof(shown), "nodes[%u].%s", n, node_keys[id].path);
	return desc_fail(r, place_of(raw, r->node[n].at), shown, id == NODE_DISTANCES ? NULL : raw->text, "%s", allowed);
}

static int check_node(struct desc_reader *r, uint32_t n, uint32_t *home)
{
	const struct machine_desc *d = r->d;
	const struct node_desc *nd = &d->nodes[n];

	if (nd->memory % (SECTION_FRAMES << PAGE_SHIFT))
		return node_fail(r, n, NODE_MEMORY, "a multiple of 128M");
	if (nd->socket < 0) {
		if (nd->attached_to >= d->nr_nodes || d->nodes[nd->attached_to].socket < 0)
			return node_fail(r, n, NODE_ATTACHED, "the number of a node with a socket");
		return 0;
	}
	if (r->node[n].raw[NODE_ATTACHED].text)
		return node_fail(r, n, NODE_ATTACHED, "only for a node without CPUs (socket: none)");
	if ((uint32_t)nd->socket >= d->sockets)
		return node_fail(r, n, NODE_SOCKET, "the number of a socket, from 0 to cpu.sockets less 1, or none");
	if (home[nd->socket] != UINT32_MAX)
		return node_fail(r, n, NODE_SOCKET, "a socket has one node; this one has another already");
	home[nd->socket] = n;
	return 0;
}

static int check_nodes(struct desc_reader *r)
{
	const struct machine_desc *d = r->d;
	uint32_t home[DESC_MAX_SOCKETS];
	uint64_t total = 0;

	memset(home, 0xff, sizeof(home));
	for (uint32_t n = 0; n < d->nr_nodes; n++) {
		int res = check_node(r, n, home);

		if (res)
			return res;
		total += d->nodes[n].memory;
		if (total > 1ULL << 46)
			return node_fail(r, n, NODE_MEMORY, "at most 64T in all");
	}
	for (uint32_t s = 0; s < d->sockets; s++)
		if (home[s] == UINT32_MAX)
			return desc_fail(r, r->raw[KEY_SOCKETS].at, "cpu.sockets", r->raw[KEY_SOCKETS].text,
					 "each socket has a node; none has 'socket: %u'", s);
	if (d->nodes[0].socket < 0)
		return node_fail(r, 0, NODE_SOCKET, "the first node has CPUs");
	return 0;
}

static int check_distances(struct desc_reader *r)
{
	struct machine_desc *d = r->d;

	if (d->nr_nodes == 1 && !r->node[0].nr_distances && !r->node[0].raw[NODE_DISTANCES].text) {
		d->distance[0][0] = 10;
		return 0;
	}
	for (uint32_t n = 0; n < d->nr_nodes; n++) {
		char text[80];

		if (r->node[n].nr_distances != d->nr_nodes) {
			snprintf(text, sizeof(text), "%u distances, but there are %u nodes", r->node[n].nr_distances, d->nr_nodes);
			return node_fail(r, n, NODE_DISTANCES, text);
		}
		if (d->distance[n][n] != 10)
			return node_fail(r, n, NODE_DISTANCES, "the distance of a node to itself is 10");
		for (uint32_t i = 0; i < n; i++) {
			if (d->distance[n][i] != d->distance[i][n] || d->distance[n][i] == 10) {
				snprintf(text, sizeof(text), "to node %u more than 10, and the same as back from there (%u)", i,
					 d->distance[i][n]);
				return node_fail(r, n, NODE_DISTANCES, text);
			}
		}
	}
	return 0;
}

int desc_check(struct desc_reader *r)
{
	int res = check_cpus(r);

	res = res ? res : check_caches(r);
	res = res ? res : check_tlbs(r);
	res = res ? res : check_broadcast(r);
	res = res ? res : check_nodes(r);
	return res ? res : check_distances(r);
}
