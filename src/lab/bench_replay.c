/*
 * The replay bench: each figure is a median over repeats, each repeat a pair of ours and each peer's, one after the
 * other. Of the generated workloads the loads are compared: on both sides, what a run without loads takes (start-up,
 * and filling the memory, which costs us modelled page clearing that no peer does) is measured once and taken off.
 * Recordings are compared whole.
 */
#include "lab/bench_replay.h"

#include "base/compiler.h"
#include "base/rng.h"
#include "lab/bench_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A peer does a part of our loads, for it is that much slower, but enough to stand out from its start-up. */
static const struct {
	uint64_t part, least;
} peer_loads[NR_PEERS] = { [PEER_CACHEGRIND] = { 10, 5000000 }, [PEER_LACKEY] = { 50, 1000000 } };
#define MAX_REPEATS 64
#define COUNT_ARG 24

/* One thing to measure. */
struct subject {
	char name[80];
	struct lab_source source;
	char *const *argv; /* the peers' program; NULL: no peers */
	char *const *base_argv; /* the same without its loads; NULL: nothing is taken off */
	const char *client;
	char *count_arg; /* the argument of argv that says how many loads; NULL: what cachegrind counts */
};

struct bench {
	const struct bench_options *o;
	struct bench_result *res;
	struct settings settings;
	char *err;
	size_t errlen;
};

uint64_t bench_load(bool random, uint64_t size, uint64_t count)
{
	uint64_t *mem = calloc(size, 1), sum = 0, n = size / 8, x = 88172645463325252ULL, mask = 1;

	if (!mem)
		return 0;
	for (uint64_t i = 0; i < n; i += 512)
		((volatile uint64_t *)mem)[i] = i;
	while (mask * 2 <= n)
		mask *= 2;
	for (uint64_t i = 0, at = 0; i < count; i++) {
		if (random) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			at = x & (mask - 1);
		} else if (++at == n) {
			at = 0;
		}
		sum += ((volatile uint64_t *)mem)[at];
	}
	free(mem);
	return sum;
}

ATTR_PRINTF(2, 3) static void say(const struct bench *b, const char *fmt, ...)
{
	char line[200];
	va_list ap;

	if (!b->o->say)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	b->o->say(b->o->say_arg, line);
}

ATTR_PRINTF(2, 3) static void note(struct bench *b, const char *fmt, ...)
{
	size_t at = strlen(b->res->note);
	va_list ap;

	if (at && at + 2 < sizeof(b->res->note))
		at += (size_t)snprintf(b->res->note + at, sizeof(b->res->note) - at, "; ");
	va_start(ap, fmt);
	vsnprintf(b->res->note + at, sizeof(b->res->note) - at, fmt, ap);
	va_end(ap);
}

static bool stopped(const struct bench *b)
{
	return b->o->stop && *b->o->stop;
}

/* One replay on one thread: CPU time, and the references beyond those that a run without loads has. */
static int replay_once(struct bench *b, const struct subject *s, uint64_t count, uint64_t *ret_ns, uint64_t *ret_refs)
{
	const struct lab_options lo = {
		.source = s->source, .machine = b->o->machine, .settings = &b->settings, .seed = 1, .stop = b->o->stop
	};
	struct lab_row row = { .settings = &b->settings.rows[0] };
	struct trace_source *src;
	int rc = s->source.kind == LAB_FILE
			 ? trace_file_open(s->source.name, &src, b->err, b->errlen)
			 : trace_synthetic_open(s->source.name, s->source.bytes, count, 1, &src, b->err, b->errlen);

	if (rc)
		return rc;
	rc = lab_run_row(&lo, src, &row, NULL, NULL);
	src->ops->close(src);
	metrics_done(&row.metrics);
	if (stopped(b))
		return -EINTR;
	if (rc)
		snprintf(b->err, b->errlen, "%s: %s", s->name, row.err);
	*ret_ns = row.host_cpu_ns;
	*ret_refs = s->source.kind == LAB_FILE ? row.replay.refs : count;
	return rc;
}

/* References a second; base_ns is what a replay without loads takes. */
static int measure_ours(struct bench *b, const struct subject *s, uint64_t base_ns, double *ret)
{
	uint64_t ns, refs;
	int rc = replay_once(b, s, s->source.count, &ns, &refs);

	if (!rc && ns <= base_ns) {
		rc = -ERANGE;
		snprintf(b->err, b->errlen, "%s: too few loads to measure", s->name);
	}
	if (!rc)
		*ret = (double)refs * 1e9 / (double)(ns - base_ns);
	return rc;
}

/* References a second of a peer; base_ns: what it takes without loads. *counted: cachegrind's, kept for lackey. */
static int measure_peer(struct bench *b, const struct subject *s, enum bench_peer p, uint64_t base_ns,
			uint64_t *counted, double *ret)
{
	uint64_t ns, refs, n = MAX(b->o->count / peer_loads[p].part, peer_loads[p].least);
	int rc;

	if (s->count_arg)
		snprintf(s->count_arg, COUNT_ARG, "%" PRIu64, n);
	rc = bench_run_peer(p, s->argv, s->client, &ns, &refs);
	if (stopped(b))
		return -EINTR;
	if (refs)
		*counted = refs;
	if (!s->count_arg)
		n = *counted;
	if (!rc && (!n || ns <= base_ns)) {
		snprintf(b->err, b->errlen, "%s: %s: too few loads to measure", s->name, bench_peer_names[p]);
		return -ERANGE;
	}
	if (rc) {
		snprintf(b->err, b->errlen, "%s: %s: %s", s->name, bench_peer_names[p], strerror(-rc));
		return rc;
	}
	*ret = (double)n * 1e9 / (double)(ns - base_ns);
	return 0;
}

static void add_row(struct bench *b, const struct subject *s, const char *peer, const double *ours,
		    const double *theirs, size_t n)
{
	double o[MAX_REPEATS], t[MAX_REPEATS], r[MAX_REPEATS], low, high;
	struct bench_row *row;

	if (b->res->nr == BENCH_MAX_ROWS)
		return;
	row = &b->res->row[b->res->nr++];
	snprintf(row->name, sizeof(row->name), "%s", s->name);
	row->peer_name = peer;
	for (size_t i = 0; i < n; i++) {
		o[i] = ours[i];
		t[i] = theirs ? theirs[i] : 0;
		r[i] = theirs ? ours[i] / theirs[i] : 0;
	}
	row->ours = bench_median(o, n, &low, &high);
	if (!theirs) {
		row->low = row->high = 0;
		return;
	}
	row->peer = bench_median(t, n, &low, &high);
	row->ratio = bench_median(r, n, &row->low, &row->high);
}

static int base_times(struct bench *b, const struct subject *s, uint64_t base[NR_PEERS])
{
	uint64_t refs;

	for (unsigned p = 0; p < NR_PEERS; p++) {
		int rc = s->base_argv ? bench_run_peer((enum bench_peer)p, s->base_argv, NULL, &base[p], &refs) : 0;

		if (rc) {
			snprintf(b->err, b->errlen, "%s: %s", bench_peer_names[p], strerror(-rc));
			return rc;
		}
		if (stopped(b))
			return -EINTR;
	}
	return 0;
}

static int measure(struct bench *b, const struct subject *s)
{
	bool peers = s->argv && !b->o->no_peers && bench_have("valgrind");
	double ours[MAX_REPEATS], theirs[NR_PEERS][MAX_REPEATS];
	uint64_t base[NR_PEERS] = { 0 }, counted = 0, own_base = 0, none;
	size_t n = b->o->repeats;
	int rc = 0;

	if (s->argv && !b->o->no_peers && !peers)
		note(b, "no peers: valgrind is not installed");
	if (s->source.kind == LAB_GENERATED)
		rc = replay_once(b, s, 0, &own_base, &none);
	if (!rc && peers)
		rc = base_times(b, s, base);
	for (size_t i = 0; !rc && i < n; i++) {
		say(b, "%s: %zu of %zu", s->name, i + 1, n);
		rc = measure_ours(b, s, own_base, &ours[i]);
		for (unsigned p = 0; !rc && peers && p < NR_PEERS; p++)
			rc = measure_peer(b, s, (enum bench_peer)p, base[p], &counted, &theirs[p][i]);
	}
	if (rc)
		return rc;
	if (!peers)
		add_row(b, s, NULL, ours, NULL, n);
	for (unsigned p = 0; peers && p < NR_PEERS; p++)
		add_row(b, s, bench_peer_names[p], ours, theirs[p], n);
	return 0;
}

static int measure_generated(struct bench *b, const char *kind, const char *name)
{
	char size[COUNT_ARG], count[COUNT_ARG] = "";
	char *argv[] = { (char *)(uintptr_t)b->o->self,
			 (char *)(uintptr_t) "bench-load",
			 (char *)(uintptr_t)kind,
			 size,
			 count,
			 NULL };
	char *base[] = { argv[0], argv[1], argv[2], size, (char *)(uintptr_t) "0", NULL };
	struct subject s = {
		.source = { .kind = LAB_GENERATED, .name = kind, .bytes = b->o->size, .count = b->o->count },
		.argv = argv,
		.base_argv = base,
		.count_arg = count,
	};

	snprintf(s.name, sizeof(s.name), "%s", name);
	snprintf(size, sizeof(size), "%" PRIu64, b->o->size);
	return measure(b, &s);
}

/* "dir/redis.qtr" becomes "replay_redis". */
static void trace_name(const char *path, char *buf, size_t len)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	snprintf(buf, len, "replay_%.*s", (int)MIN(strcspn(base, "."), (size_t)60), base);
}

static int measure_trace(struct bench *b)
{
	struct subject s = { .source = { .kind = LAB_FILE, .name = b->o->trace }, .argv = b->o->program };

	trace_name(b->o->trace, s.name, sizeof(s.name));
	return measure(b, &s);
}

static int measure_redis(struct bench *b)
{
	struct bench_redis r = { 0 };
	int rc;

	if (!bench_have("redis-server") || !bench_have("redis-benchmark") || !bench_have("redis-cli")) {
		note(b, "no replay_redis: redis is not installed");
		return 0;
	}
	if (record_check(b->err, b->errlen)) {
		note(b, "no replay_redis: %s", b->err);
		return 0;
	}
	say(b, "recording redis");
	rc = bench_redis_record(&r, b->o->stop, b->err, b->errlen);
	if (!rc && stopped(b))
		rc = -EINTR;
	if (!rc) {
		struct subject s = { .name = "replay_redis",
				     .source = { .kind = LAB_FILE, .name = r.trace },
				     .argv = r.argv,
				     .client = r.client };

		rc = measure(b, &s);
	}
	bench_redis_done(&r);
	return rc;
}

int bench_replay(const struct bench_options *o, struct bench_result *ret, char *err, size_t errlen)
{
	struct bench b = { .o = o, .res = ret, .err = err, .errlen = errlen };
	int rc;

	*ret = (struct bench_result){ 0 };
	if (!o->repeats || o->repeats > MAX_REPEATS) {
		snprintf(err, errlen, "repeats: 1 to %d", MAX_REPEATS);
		return -EINVAL;
	}
	rc = settings_expand(NULL, 0, NULL, 0, &b.settings, err, errlen);
	if (rc)
		return rc;
	rc = measure_generated(&b, "stream", "replay_streaming");
	if (!rc)
		rc = measure_generated(&b, "random", "replay_random");
	if (!rc)
		rc = o->trace ? measure_trace(&b) : measure_redis(&b);
	settings_done(&b.settings);
	return rc;
}
