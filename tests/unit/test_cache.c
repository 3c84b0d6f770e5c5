/*
 * Cache arrays against naive ones for every replacement policy; the hierarchy of one core against a naive one for every inclusion;
 * coherence: random accesses by all cores of two sockets, with the invariants of cache.h checked as they go; no modified line is lost.
 */
#include "testing.h"

#include "base/rng.h"
#include "core_fixture.h"

const uint32_t machine_work_table[NR_MACHINE_PATHS] = { 0 };

/* ---- arrays ---- */

#define NAIVE_SETS 8U

struct naive_set {
	uint64_t line[ASSOC_MAX_WAYS];
	bool valid[ASSOC_MAX_WAYS];
	uint64_t used[ASSOC_MAX_WAYS]; /* LRU: when */
	unsigned rrpv[ASSOC_MAX_WAYS];
	bool bit[2 * ASSOC_MAX_WAYS];  /* PLRU: node n has children 2n, 2n+1; true: the right half is older */
};

struct naive {
	enum replacement policy;
	unsigned ways;
	uint64_t clock, random;
	struct naive_set set[NAIVE_SETS];
};

/* Points the tree of [lo, lo + span) away from way, or at it. */
static void naive_plru(struct naive_set *s, unsigned node, unsigned lo, unsigned span, unsigned way, bool away)
{
	bool right = way >= lo + span / 2;

	if (span == 1)
		return;
	s->bit[node] = right != away;
	naive_plru(s, node * 2 + right, right ? lo + span / 2 : lo, span / 2, way, away);
}

static unsigned naive_span(unsigned ways)
{
	return ways <= 4 ? 4 : ways <= 8 ? 8 : ways <= 16 ? 16 : ways <= 32 ? 32 : 64;
}

static void naive_use(struct naive *n, struct naive_set *s, unsigned way, bool fill)
{
	s->used[way] = ++n->clock;
	naive_plru(s, 1, 0, naive_span(n->ways), way, true);
	if (!fill)
		s->rrpv[way] = 0;
	else if (n->policy == REPL_SRRIP)
		s->rrpv[way] = 2;
	else if (n->policy == REPL_BRRIP)
		s->rrpv[way] = rng_splitmix(&n->random) % 32 ? 3 : 2;
}

static unsigned naive_victim(struct naive *n, struct naive_set *s)
{
	unsigned best = 0;

	for (unsigned w = 0; w < n->ways; w++)
		if (!s->valid[w])
			return w;
	switch (n->policy) {
	case REPL_LRU:
		for (unsigned w = 1; w < n->ways; w++)
			if (s->used[w] < s->used[best])
				best = w;
		return best;
	case REPL_PLRU: {
		unsigned node = 1, lo = 0, span = naive_span(n->ways);

		while (span > 1) {
			bool right = s->bit[node] && lo + span / 2 < n->ways;

			lo = right ? lo + span / 2 : lo;
			node = node * 2 + right;
			span /= 2;
		}
		return lo;
	}
	case REPL_SRRIP:
	case REPL_BRRIP:
		for (;;) {
			for (unsigned w = 0; w < n->ways; w++)
				if (s->rrpv[w] == 3)
					return w;
			for (unsigned w = 0; w < n->ways; w++)
				s->rrpv[w]++;
		}
	case REPL_RANDOM:
		break;
	}
	return (unsigned)(((unsigned __int128)rng_splitmix(&n->random) * n->ways) >> 64);
}

static bool naive_access(struct naive *n, uint64_t line)
{
	struct naive_set *s = &n->set[line % NAIVE_SETS];
	unsigned w;

	for (w = 0; w < n->ways; w++)
		if (s->valid[w] && s->line[w] == line) {
			naive_use(n, s, w, false);
			return true;
		}
	w = naive_victim(n, s);
	s->valid[w] = true;
	s->line[w] = line;
	naive_use(n, s, w, true);
	return false;
}

static void naive_drop(struct naive *n, uint64_t line)
{
	struct naive_set *s = &n->set[line % NAIVE_SETS];

	for (unsigned w = 0; w < n->ways; w++)
		if (s->valid[w] && s->line[w] == line) {
			s->valid[w] = false;
			s->rrpv[w] = 3;
			naive_plru(s, 1, 0, naive_span(n->ways), w, false);
		}
}

static bool arr_access(struct cache_arr *a, uint64_t line)
{
	struct cache_pos p = cache_pos(a, line);
	int way = cache_find(a, &p);
	unsigned w;

	if (way >= 0) {
		cache_touch(a, p.set, (unsigned)way);
		return true;
	}
	w = cache_victim(a, p.set);
	assert_true(w < a->g.ways);
	if (cache_tags(p.set)[w] != TAG_NONE)
		assert_int_equal(cache_pos(a, cache_line_of(a, p.index, cache_tags(p.set)[w])).index, p.index);
	cache_tags(p.set)[w] = p.tag;
	cache_inserted(a, p.set, w);
	return false;
}

static void check_policy(enum replacement policy, unsigned ways)
{
	struct naive *n = calloc(1, sizeof(*n));
	struct cache_arr a;
	struct rng r;

	n->policy = policy;
	n->ways = ways;
	n->random = 5;
	assert_int_equal(cache_arr_init(&a, NAIVE_SETS * ways * CACHE_LINE, ways, policy, true, false, 5), 0);
	assert_int_equal(a.sets, NAIVE_SETS);
	rng_init(&r, ways, "lines");
	for (unsigned i = 0; i < 40000; i++) {
		uint64_t line = rng_below(&r, ways * NAIVE_SETS * 2);

		if (rng_below(&r, 16) == 0) {
			struct cache_pos p = cache_pos(&a, line);
			int way = cache_find(&a, &p);

			if (way >= 0)
				cache_drop_way(&a, p.set, (unsigned)way);
			naive_drop(n, line);
			continue;
		}
		if (arr_access(&a, line) != naive_access(n, line))
			fail_msg("policy %d, %u ways: differs at access %u", policy, ways, i);
	}
	cache_arr_done(&a);
	free(n);
}

static void test_replacement(void **state)
{
	static const unsigned ways[] = { 3, 4, 8, 11, 12, 15, 16, 20, 64 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++)
		for (enum replacement p = REPL_LRU; p <= REPL_BRRIP; p++)
			check_policy(p, ways[i]);
}

static void test_index_inverse(void **state)
{
	static const uint64_t sets[] = { 2, 8, 36864, 65536, 45056, 3 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(sets); i++) {
		struct cache_arr a;
		struct rng r;

		assert_int_equal(cache_arr_init(&a, sets[i] * CACHE_LINE, 1, REPL_LRU, false, true, 0), 0);
		rng_init(&r, i, "lines");
		for (unsigned k = 0; k < 20000; k++) {
			uint64_t line = rng_below(&r, MIN(sets[i], 1024UL) << 31);
			struct cache_pos p = cache_pos(&a, line);

			assert_true(p.index < sets[i]);
			assert_int_equal(cache_line_of(&a, p.index, p.tag), line);
		}
		cache_arr_done(&a);
	}
}

/* ---- one core, three levels ---- */

struct nline {
	uint64_t line;
	bool dirty;
};

struct nset {
	struct nline way[16]; /* most recent first */
	unsigned nr;
};

struct ncache {
	unsigned sets, ways;
	struct nset set[128];
};

static struct nset *nset(struct ncache *c, uint64_t line)
{
	return &c->set[line % c->sets];
}

static bool n_take(struct ncache *c, uint64_t line, struct nline *ret)
{
	struct nset *s = nset(c, line);

	for (unsigned i = 0; i < s->nr; i++)
		if (s->way[i].line == line) {
			*ret = s->way[i];
			memmove(&s->way[i], &s->way[i + 1], (s->nr - i - 1) * sizeof(s->way[0]));
			s->nr--;
			return true;
		}
	return false;
}

static struct nline *n_peek(struct ncache *c, uint64_t line)
{
	struct nset *s = nset(c, line);

	for (unsigned i = 0; i < s->nr; i++)
		if (s->way[i].line == line)
			return &s->way[i];
	return NULL;
}

/* True: *ret was pushed out. */
static bool n_put(struct ncache *c, struct nline l, struct nline *ret)
{
	struct nset *s = nset(c, l.line);
	bool out = s->nr == c->ways;

	if (out)
		*ret = s->way[--s->nr];
	memmove(&s->way[1], &s->way[0], s->nr * sizeof(s->way[0]));
	s->way[0] = l;
	s->nr++;
	return out;
}

struct nhier {
	struct ncache l1, l2, llc;
	enum inclusion incl;
	uint64_t l1_miss, l2_miss, llc_miss, writebacks;
};

static void nh_llc_put(struct nhier *h, struct nline l)
{
	struct nline out;

	if (n_peek(&h->llc, l.line)) {
		n_peek(&h->llc, l.line)->dirty |= l.dirty;
		return;
	}
	assert_true(h->incl != INCL_INCLUSIVE);
	if (n_put(&h->llc, l, &out) && out.dirty)
		h->writebacks++;
}

static void nh_l2_put(struct nhier *h, struct nline l)
{
	struct nline out;

	if (n_put(&h->l2, l, &out) && (out.dirty || h->incl != INCL_INCLUSIVE))
		nh_llc_put(h, out);
}

static void nh_l1_put(struct nhier *h, struct nline l)
{
	struct nline out, *in2;

	if (!n_put(&h->l1, l, &out) || !out.dirty)
		return;
	in2 = n_peek(&h->l2, out.line);
	if (in2)
		in2->dirty = true;
	else
		nh_l2_put(h, out);
}

static void nh_access(struct nhier *h, uint64_t line, bool store)
{
	struct nline l = { .line = line }, x, out;

	if (n_take(&h->l1, line, &l)) {
		l.dirty |= store;
		assert_false(n_put(&h->l1, l, &out));
		return;
	}
	h->l1_miss++;
	if (n_take(&h->l2, line, &x)) {
		assert_false(n_put(&h->l2, x, &out));
	} else {
		h->l2_miss++;
		x = (struct nline){ .line = line };
		if (n_take(&h->llc, line, &l)) {
			if (h->incl == INCL_EXCLUSIVE)
				x.dirty = l.dirty;
			else if (h->incl == INCL_INCLUSIVE || !store)
				assert_false(n_put(&h->llc, l, &out));
		} else {
			h->llc_miss++;
			if (h->incl == INCL_INCLUSIVE && n_put(&h->llc, l, &out)) {
				struct nline p;
				bool d = out.dirty;

				if (n_take(&h->l1, out.line, &p))
					d |= p.dirty;
				if (n_take(&h->l2, out.line, &p))
					d |= p.dirty;
				h->writebacks += d;
			}
		}
		/* a modified line taken by a store is the store's */
		if (store && h->incl == INCL_EXCLUSIVE)
			x.dirty = false;
		nh_l2_put(h, x);
	}
	nh_l1_put(h, (struct nline){ .line = line, .dirty = store });
}

static void check_hierarchy(enum inclusion incl, unsigned stores_of_8)
{
	struct machine_desc d = fix_desc();
	struct nhier *h = calloc(1, sizeof(*h));
	struct fixture f;
	struct rng r;
	char err[200];

	d.cores_per_socket = 1;
	d.llc.inclusion = incl;
	d.llc.size = 32768;
	assert_int_equal(fix_create(&f, &d, false, err, sizeof(err)), 0);
	f.md->core.socket[0].llc.g.fold = false;
	if (incl != INCL_INCLUSIVE) { /* a filter that never overflows */
		cache_arr_done(&f.md->core.socket[0].filter);
		assert_int_equal(cache_arr_init(&f.md->core.socket[0].filter, 1 << 20, 12, REPL_LRU, true, true, 0), 0);
	}
	h->incl = incl;
	h->l1.sets = 16, h->l1.ways = 4;
	h->l2.sets = 32, h->l2.ways = 8;
	h->llc.sets = 32, h->llc.ways = 16;
	rng_init(&r, incl, "hier");
	for (unsigned i = 0; i < 60000; i++) {
		uint64_t line = 1000 + rng_below(&r, rng_below(&r, 4) ? 300 : 1500);
		bool store = rng_below(&r, 8) < stores_of_8;
		uint8_t *flags;

		(void)cache_access(fix_core(&f, 0), line, 0, 0, store ? MEM_STORE : MEM_LOAD, &flags);
		assert_non_null(flags);
		nh_access(h, line, store);
		if (i % 1000 == 0)
			cache_validate(f.md);
		if (fix_core(&f, 0)->stats.l1d_misses != h->l1_miss || fix_core(&f, 0)->stats.l2_misses != h->l2_miss ||
		    fix_core(&f, 0)->stats.llc_misses != h->llc_miss || fix_core(&f, 0)->stats.llc_writebacks != h->writebacks)
			fail_msg("inclusion %d: differs at access %u", incl, i);
	}
	assert_true(h->llc_miss > 1000 && (!stores_of_8 || h->writebacks > 500));
	fix_destroy(&f);
	free(h);
}

static void test_hierarchy(void **state)
{
	(void)state;
	for (enum inclusion i = INCL_INCLUSIVE; i <= INCL_EXCLUSIVE; i++) {
		check_hierarchy(i, 0);
		check_hierarchy(i, 3);
	}
}

/* ---- many cores ---- */

static uint64_t access_by(struct fixture *f, unsigned cpu, uint64_t line, uint64_t t, enum mem_op op)
{
	struct core_cpu *cc = fix_core(f, cpu);
	uint8_t *flags;

	return cache_access(cc, line, t, 0, op, &flags);
}

static void check_coherence(enum inclusion incl, enum replacement repl, unsigned cores)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	struct rng r;
	char err[200];

	fix_two_sockets(&d);
	d.cores_per_socket = cores;
	d.llc.inclusion = incl;
	d.llc.replacement = repl;
	d.prefetch.enabled = true;
	d.prefetch.streams = 8;
	d.prefetch.degree = 2;
	d.prefetch.distance = 8;
	assert_int_equal(fix_create(&f, &d, false, err, sizeof(err)), 0);
	rng_init(&r, incl, "coherence");
	for (unsigned i = 0; i < 30000; i++) {
		uint64_t node = rng_below(&r, 2) * (f.md->core.nr_lines / 2);
		uint64_t line = node + 4000 + rng_below(&r, rng_below(&r, 3) ? 64 : 4000);
		enum mem_op op = rng_below(&r, 3) ? MEM_LOAD : rng_below(&r, 2) ? MEM_STORE : MEM_STORE_FULL;
		unsigned cpu = (unsigned)rng_below(&r, f.md->m.nr_cpus);

		(void)access_by(&f, cpu, line, i * 1000, op);
		if (mem_op_writes(op))
			for (unsigned o = 0; o < f.md->m.nr_cpus; o++)
				assert_true(o == cpu || !cache_core_has(fix_core(&f, o)->phys, line));
		if (i % 500 == 0)
			cache_validate(f.md);
	}
	cache_validate(f.md);
	assert_true(fix_stat(&f, "coherence_invalidations") > 100);
	assert_true(fix_stat(&f, "c2c_transfers") > 100);
	assert_true(fix_stat(&f, "remote_c2c_transfers") > 100);
	assert_true(fix_stat(&f, "prefetches") >= fix_stat(&f, "prefetches_useful") + fix_stat(&f, "prefetches_useless"));
	fix_destroy(&f);
}

static void test_coherence(void **state)
{
	(void)state;
	for (enum inclusion i = INCL_INCLUSIVE; i <= INCL_EXCLUSIVE; i++)
		for (enum replacement p = REPL_LRU; p <= REPL_BRRIP; p++)
			check_coherence(i, p, 3);
}

/* The most that a directory's set of cores holds: sharers on both sides of a machine word. */
static void test_coherence_of_many_cores(void **state)
{
	(void)state;
	for (enum inclusion i = INCL_INCLUSIVE; i <= INCL_EXCLUSIVE; i++)
		check_coherence(i, REPL_LRU, CORE_SET_MAX);
}

/* Each line stored once, then everything pushed out: each was written to memory exactly once. */
static void test_no_modified_line_is_lost(void **state)
{
	(void)state;
	for (enum inclusion i = INCL_INCLUSIVE; i <= INCL_EXCLUSIVE; i++) {
		struct machine_desc d = fix_desc();
		struct fixture f;
		char err[200];

		fix_two_sockets(&d);
		d.llc.inclusion = i;
		assert_int_equal(fix_create(&f, &d, false, err, sizeof(err)), 0);
		for (uint64_t l = 0; l < 3000; l++) {
			(void)access_by(&f, l % 4, 10000 + l, 0, l % 3 ? MEM_STORE : MEM_STORE_FULL);
			if (l % 5 == 0) /* another core reads it, perhaps in the other socket */
				(void)access_by(&f, (l / 5) % 4, 10000 + l, 0, MEM_LOAD);
		}
		for (unsigned cpu = 0; cpu < 4; cpu++)
			for (uint64_t l = 0; l < 20000; l++)
				(void)access_by(&f, cpu, 100000 + cpu * 20000 + l, 0, MEM_LOAD);
		cache_validate(f.md);
		assert_int_equal(f.md->core.dram_writes[0], 3000);
		fix_destroy(&f);
	}
}

static void test_prices_by_distance(void **state)
{
	struct machine_desc d = fix_desc();
	struct fixture f;
	char err[200];
	uint64_t remote = 0;

	(void)state;
	fix_two_sockets(&d);
	assert_int_equal(fix_create(&f, &d, false, err, sizeof(err)), 0);
	remote = f.md->core.nr_lines / 2;
	/* memory: local, remote; line service on the link for the remote one may add nothing when the link is idle */
	assert_int_equal(access_by(&f, 0, 5000, 0, MEM_LOAD), 20000 + 60000);
	assert_int_equal(access_by(&f, 0, remote + 5000, 0, MEM_LOAD), 20000 + 60000 + 50000);
	/* L1, L2 and last level */
	assert_int_equal(access_by(&f, 0, 5000, 7, MEM_LOAD), 7);
	for (uint64_t i = 1; i <= 4; i++)
		(void)access_by(&f, 0, 5000 + 16 * i * 2, 0, MEM_LOAD);
	assert_int_equal(access_by(&f, 0, 5000, 0, MEM_LOAD), 4800);
	for (uint64_t i = 1; i <= 16; i++)
		(void)access_by(&f, 0, 5000 + 32 * i, 0, MEM_LOAD);
	assert_int_equal(access_by(&f, 0, 5000, 0, MEM_LOAD), 20000);
	/* modified in another core, read; then written back by a third party in the other socket */
	(void)access_by(&f, 1, 6001, 0, MEM_STORE);
	assert_int_equal(access_by(&f, 0, 6001, 0, MEM_LOAD), 20000 + 25000);
	assert_int_equal(access_by(&f, 0, 6001, 0, MEM_STORE), 20000 + 25000);
	assert_int_equal(access_by(&f, 2, 6001, 0, MEM_LOAD), 20000 + 90000);
	assert_int_equal(f.md->core.dram_writes[0], 1);
	/* a store to a line shared by both sockets asks the other one; a clean exclusive line is free to write */
	assert_int_equal(access_by(&f, 0, 6001, 0, MEM_STORE), 20000 + 90000);
	(void)access_by(&f, 0, 7003, 0, MEM_LOAD);
	assert_int_equal(access_by(&f, 0, 7003, 3, MEM_STORE), 3);
	/* a whole-line store does not read memory */
	assert_int_equal(access_by(&f, 0, 8005, 0, MEM_STORE_FULL), 20000);
	fix_destroy(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replacement),
		cmocka_unit_test(test_index_inverse),
		cmocka_unit_test(test_hierarchy),
		cmocka_unit_test(test_coherence),
		cmocka_unit_test(test_coherence_of_many_cores),
		cmocka_unit_test(test_no_modified_line_is_lost),
		cmocka_unit_test(test_prices_by_distance),
	};

	return test_run(tests);
}
