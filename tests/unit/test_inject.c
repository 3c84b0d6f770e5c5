/* Rules, sites, and the systematic check: that it goes through the engine, and that it sees what the engine does wrong. */
#include "lab/inject_check.h"
#include "machine/host/host.h"
#include "paging_world.h"

#include <stdio.h>
#include <string.h>

static struct inject_rule parsed(const char *text)
{
	struct inject_rule r;
	char err[200] = "";

	if (inject_rule_parse(text, &r, err, sizeof(err)))
		fail_msg("%s: %s", text, err);
	return r;
}

static void refused(const char *text, const char *part)
{
	struct inject_rule r;
	char err[200] = "";

	assert_int_equal(inject_rule_parse(text, &r, err, sizeof(err)), -EINVAL);
	if (!strstr(err, part))
		fail_msg("%s: '%s' lacks '%s'", text, err, part);
}

static void rules_as_text(void **state)
{
	struct inject_rule r = parsed("failslab");

	(void)state;
	assert_int_equal(r.kind, INJECT_SLAB_ALLOC);
	assert_true(r.probability == 100 && r.interval == 1 && r.times == -1 && !r.space && !r.nth);
	assert_true(r.order == INJECT_ANY && r.site == INJECT_ANY);
	r = parsed("fail_page_alloc:probability=10,interval=3,times=5,space=8192,nth=2,order=9,site=fault_huge");
	assert_int_equal(r.kind, INJECT_FRAME_ALLOC);
	assert_int_equal(parsed("fail_page_alloc:order=18").order, 18);
	refused("fail_page_alloc:order=19", "18");
	assert_true(r.probability == 10 && r.interval == 3 && r.times == 5 && r.space == 8192 && r.nth == 2 && r.order == 9);
	assert_int_equal(r.site, PATH_FAULT_HUGE);
	refused("failslub", "no such kind");
	refused("failslab:", "NAME=VALUE");
	refused("failslab:times", "NAME=VALUE");
	refused("failslab:probability=101", "0 to 100");
	refused("failslab:probability=x", "0 to 100");
	refused("failslab:interval=0", "from 1");
	refused("failslab:order=1", "fail_page_alloc");
	refused("failslab:often=1", "no such attribute");
	refused("failslab:site=nowhere", "no such site");
	refused("failslab:site=page_alloc", "no such site");
	refused("failslab:nth=1,,", "NAME=VALUE");
}

/* A bit a call, the first one lowest. */
static uint64_t pattern(const char *rule, enum inject_site kind, size_t bytes, unsigned n)
{
	struct world *w = world_new(1, 128 * MIB);
	struct inject_rule r = parsed(rule);
	struct inject *in;
	uint64_t bits = 0;

	assert_ok(inject_attach(w->m, 7, &in));
	assert_ok(inject_add(in, &r));
	for (unsigned i = 0; i < n; i++)
		bits |= (uint64_t)machine_inject(w->c, kind, bytes) << i;
	assert_int_equal(inject_count_kind(in, kind).points, n);
	assert_int_equal(inject_failed(in), (uint64_t)__builtin_popcountll(bits));
	inject_detach(in);
	world_end(w);
	return bits;
}

static void rules_decide(void **state)
{
	uint64_t some;

	(void)state;
	assert_int_equal(pattern("failslab", INJECT_SLAB_ALLOC, 64, 4), 0xf);
	assert_int_equal(pattern("failslab", INJECT_FRAME_ALLOC, 4096, 4), 0);
	assert_int_equal(pattern("failslab:times=2", INJECT_SLAB_ALLOC, 64, 5), 0x3);
	assert_int_equal(pattern("failslab:times=0", INJECT_SLAB_ALLOC, 64, 5), 0);
	assert_int_equal(pattern("failslab:interval=3", INJECT_SLAB_ALLOC, 64, 7), 0x24);
	assert_int_equal(pattern("failslab:interval=2,times=2", INJECT_SLAB_ALLOC, 64, 9), 0xa);
	assert_int_equal(pattern("failslab:nth=3", INJECT_SLAB_ALLOC, 64, 9), 0x4);
	assert_int_equal(pattern("failslab:space=200", INJECT_SLAB_ALLOC, 64, 6), 0x38);
	assert_int_equal(pattern("failslab:probability=0", INJECT_SLAB_ALLOC, 64, 9), 0);
	assert_int_equal(pattern("fail_page_alloc:order=9", INJECT_FRAME_ALLOC, 2 * MIB, 2), 0x3);
	assert_int_equal(pattern("fail_page_alloc:order=9", INJECT_FRAME_ALLOC, 4096, 2), 0);
	some = pattern("failslab:probability=30", INJECT_SLAB_ALLOC, 64, 64);
	assert_in_range(__builtin_popcountll(some), 8, 32);
	assert_int_equal(pattern("failslab:probability=30", INJECT_SLAB_ALLOC, 64, 64), some);
}

/* Where a call comes from: the page of a fault, its table, and the copy of fork are told apart. */
static void sites_are_told_apart(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w), *child;
	struct inject_rule r = parsed("fail_page_alloc:site=fault_anon"), fork = parsed("fail_page_alloc:site=fork");
	struct inject *in;

	(void)state;
	map_at(w, mm, AREA, PAGES(4), RW);
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_add(in, &r));
	assert_int_equal(try_store(w, AREA, 1), -ENOMEM);
	assert_int_equal(inject_count_at(in, INJECT_FRAME_ALLOC, PATH_FAULT_ANON).failures, 1);
	assert_int_equal(inject_count_at(in, INJECT_FRAME_ALLOC, PATH_FAULT).points, 3); /* tables */
	assert_int_equal(inject_failed(in), 1);
	inject_detach(in);
	store(w, AREA, 1);
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_add(in, &fork));
	store(w, AREA + PAGES(1), 2);
	assert_int_equal(mm_fork(w->c, mm, &child), -ENOMEM);
	assert_int_equal(inject_count_at(in, INJECT_FRAME_ALLOC, PATH_FORK).failures, 1);
	inject_detach(in);
	mm_put(w->c, mm);
	world_end(w);
}

/* A page that cannot be read: read(2) says EIO, an access gets a signal, and it works afterwards. */
static void reads_fail(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct mm *mm = mm_new(w);
	struct inject_rule r = parsed("fail_make_request:times=3"); /* read(2) tries a page twice: ahead of use, and alone */
	struct inject *in;
	struct mfile *f;
	uint64_t v;

	(void)state;
	w->q->knobs.read_ahead_kb = 0;
	assert_ok(file_create(w->c, w->q, 0, PAGES(16), false, &f));
	assert_int_equal(mm_mmap(w->c, mm, AREA, PAGES(16), RW, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0), (int64_t)AREA);
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_add(in, &r));
	assert_int_equal(file_rw(w->c, f, 0, 100, false), -EIO);
	assert_int_equal(try_load(w, AREA, &v), -EFAULT);
	assert_int_equal(count_of(w, VM_quire_fault_sigbus), 1);
	assert_int_equal(count_of(w, VM_nr_file_pages), 0);
	inject_detach(in);
	assert_int_equal(load(w, AREA), file_tag(f, 0));
	mm_put(w->c, mm);
	file_put(w->c, f);
	check_fault_sum(w);
	world_end(w);
}

static void rules_have_limits(void **state)
{
	struct world *w = world_new(1, 128 * MIB);
	struct inject_rule r = parsed("failslab:times=0"), bad = r;
	struct inject *in;

	(void)state;
	assert_ok(inject_attach(w->m, 1, &in));
	bad.interval = 0;
	assert_int_equal(inject_add(in, &bad), -EINVAL);
	for (unsigned i = 0; i < INJECT_MAX_RULES; i++)
		assert_ok(inject_add(in, &r));
	assert_int_equal(inject_add(in, &r), -ENOSPC);
	inject_detach(in);
	world_end(w);
}

/* A few points of each kind and site of each script; quire check inject goes through all. */
static void every_script(void **state)
{
	struct inject_check_options o = { .count = 4, .seed = 1 };
	struct inject_check_result *res = calloc(1, sizeof(*res));

	(void)state;
	if (inject_check(&o, res))
		fail_msg("%s", res->failure);
	for (unsigned k = 0; k < NR_INJECT_SITES; k++) {
		uint64_t tried = 0;

		for (unsigned s = 0; s < NR_MACHINE_PATHS; s++)
			tried += res->row[k][s].tried;
		if (k != INJECT_TRYLOCK && !tried)
			fail_msg("no point of %s was met", inject_kind_name((enum inject_site)k));
	}
	assert_int_equal(res->sum.tried, res->sum.reported + res->sum.absorbed);
	assert_true(res->sum.reported && res->sum.absorbed);
	free(res);
}

/* Each clearing that can fail is one that a fault asked for: a machine that clears ahead does not while calls are made to fail. */
static void nothing_is_cleared_ahead(void **state)
{
	struct machine *m;
	struct inject *in;
	char err[200];
	uint32_t ahead;

	(void)state;
	if (host_create(&(struct host_options){ .memory = 128 << 20, .nr_cpus = 2, .nr_nodes = 1, .clear = HOST_CLEAR_NT }, &m, err, sizeof(err)))
		fail_msg("%s", err);
	ahead = m->cpus[1]->clear_ahead;
	assert_true(ahead > 0);
	assert_int_equal(inject_attach(m, 1, &in), 0);
	assert_int_equal(m->cpus[0]->clear_ahead, 0);
	assert_int_equal(m->cpus[1]->clear_ahead, 0);
	inject_detach(in);
	assert_int_equal(m->cpus[1]->clear_ahead, ahead);
	host_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rules_as_text), cmocka_unit_test(rules_decide), cmocka_unit_test(sites_are_told_apart),
		cmocka_unit_test(reads_fail),	 cmocka_unit_test(rules_have_limits), cmocka_unit_test(every_script),
		cmocka_unit_test(nothing_is_cleared_ahead),
	};

	return test_run(tests);
}
