/*
 * Schedules: the same choices give the same run, searches do as many runs as they say, the oracle allows what may be and nothing else, and
 * what is refused is refused with a line. That the checks catch faults of the engine is the business of tests/mutants.
 */
#include "testing.h"

#include "lab/schedules.h"
#include "lab/schedules_oracle.h"
#include "machine/model/model.h"

#include <stdlib.h>
#include <string.h>

static const char small[] = "set transparent_hugepage.enabled=never\narea a 2\nsetup\n map a\n write a 0\n"
			    "task one\n write a 0-1\n read a 0\ntask two\n dontneed a 0\n read a 0-1\n";

struct fixture {
	struct schedules_program p;
	struct knobs k;
	struct schedules_world *w;
	struct schedule s;
	char why[SCHEDULES_TEXT];
};

static void parse(struct schedules_program *p, const char *text)
{
	char err[200] = "";

	if (schedules_parse("test", text, p, err, sizeof(err)))
		fail_msg("%s", err);
}

static struct fixture *fixture(const char *text)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char err[200] = "";

	assert_non_null(f);
	parse(&f->p, text);
	knobs_default(&f->k);
	f->k.lru_batch = 1;
	f->k.thp_enabled = THP_NEVER;
	if (schedules_world_create(&f->p, &f->k, &f->w, err, sizeof(err)))
		fail_msg("%s", err);
	return f;
}

static void done(struct fixture *f)
{
	schedules_world_destroy(f->w);
	free(f);
}

static void run_ok(struct fixture *f)
{
	if (schedules_run(f->w, &f->s, f->why, NULL, 0))
		fail_msg("%s", f->why);
}

/* ---- the machine ---- */

static void same_seed_same_run(void **state)
{
	struct fixture *f = fixture(small);
	struct schedule_choice *first = malloc(sizeof(f->s.taken));
	uint64_t points;
	uint32_t nr;

	(void)state;
	assert_non_null(first);
	for (uint64_t seed = 1; seed < 20; seed++) {
		for (enum schedule_strategy how = SCHEDULE_RANDOM; how <= SCHEDULE_PCT; how++) {
			f->s.strategy = how;
			f->s.seed = seed;
			f->s.depth = 3;
			f->s.length = 100;
			run_ok(f);
			points = f->s.points;
			nr = f->s.nr_taken;
			memcpy(first, f->s.taken, sizeof(f->s.taken));
			run_ok(f);
			assert_int_equal(f->s.points, points);
			assert_int_equal(f->s.nr_taken, nr);
			assert_memory_equal(f->s.taken, first, nr * sizeof(*first));
			/* And its choices, as a list, are that run. */
			f->s.strategy = SCHEDULE_LIST;
			f->s.list = first;
			f->s.nr_list = nr;
			run_ok(f);
			assert_int_equal(f->s.points, points);
			assert_int_equal(f->s.nr_taken, nr);
			assert_memory_equal(f->s.taken, first, nr * sizeof(*first));
		}
	}
	free(first);
	done(f);
}

static void seeds_differ(void **state)
{
	struct fixture *f = fixture(small);
	uint64_t sum[2] = { 0 };

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		f->s.strategy = SCHEDULE_RANDOM;
		f->s.seed = i;
		run_ok(f);
		sum[f->s.nr_taken > 10]++;
	}
	assert_true(sum[0] && sum[1]); /* few switches and many */
	done(f);
}

static void nobody_gives_way_without_choices(void **state)
{
	struct fixture *f = fixture(small);

	(void)state;
	f->s.strategy = SCHEDULE_LIST;
	run_ok(f);
	assert_int_equal(f->s.nr_taken, 0);
	assert_true(f->s.points > 50 && f->s.crowded > 10);
	done(f);
}

static void no_progress_is_found(void **state)
{
	struct fixture *f = fixture(small);

	(void)state;
	f->s.strategy = SCHEDULE_LIST;
	f->s.max_points = 20;
	assert_int_equal(schedules_run(f->w, &f->s, f->why, NULL, 0), 1);
	assert_non_null(strstr(f->why, "no progress"));
	done(f);
}

/* ---- searches ---- */

static struct schedules_result *search(const char *name, enum schedules_search how, uint64_t count, uint32_t k)
{
	struct schedules_result *r = calloc(1, sizeof(*r));
	struct schedules_program *p = calloc(1, sizeof(*p));
	const struct schedules_builtin *b = schedules_builtin_find(name);
	struct schedules_options o = { .program = p, .search = how, .preemptions = k, .count = count, .seed = 1, .jobs = 2 };
	struct knobs knobs;
	char err[200] = "";

	assert_true(r && p && b);
	parse(p, b->text);
	knobs_default(&knobs);
	for (uint32_t i = 0; i < p->nr_set; i++) {
		char *eq = strchr(p->set[i], '=');

		*eq = 0;
		assert_int_equal(knob_set(&knobs, p->set[i], eq + 1, err, sizeof(err)), 0);
	}
	o.knobs = &knobs;
	if (schedules_check(&o, r, err, sizeof(err)))
		fail_msg("%s", err);
	free(p);
	return r;
}

static void builtins_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < schedules_nr_builtins; i++) {
		struct schedules_result *r = search(schedules_builtins[i].name, SEARCH_RANDOM, 40, 0);

		if (r->failed)
			fail_msg("quire check schedules --workload %s --replay %lu: %s", schedules_builtins[i].name, (unsigned long)r->seed, r->why);
		assert_int_equal(r->runs, 40);
		assert_true(r->complete);
		free(r);
	}
}

static void exhaustive_is_complete(void **state)
{
	struct schedules_result *none, *one;

	(void)state;
	none = search("unmap", SEARCH_EXHAUSTIVE, 100000, 0);
	one = search("unmap", SEARCH_EXHAUSTIVE, 100000, 1);
	assert_false(none->failed || one->failed);
	assert_true(none->complete && one->complete);
	assert_int_equal(none->runs, 1);
	assert_true(one->runs > 50);
	free(none);
	free(one);
	one = search("unmap", SEARCH_EXHAUSTIVE, 7, 1);
	assert_int_equal(one->runs, 7);
	assert_false(one->complete);
	free(one);
}

static void lists_are_parsed(void **state)
{
	static const char *const bad[] = { "1", "1@2", "1@0:1", "16@1:0", "1@1:16", "1@2:3;", "x" };
	struct schedule_choice list[4];
	char err[200];
	uint32_t nr;

	(void)state;
	assert_int_equal(schedules_parse_list("1@31:2,0@7:1", list, 4, &nr, err, sizeof(err)), 0);
	assert_int_equal(nr, 2);
	assert_true(list[0].cpu == 1 && list[0].at == 31 && list[0].to == 2 && list[1].at == 7);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_not_equal(schedules_parse_list(bad[i], list, 4, &nr, err, sizeof(err)), 0);
}

static void scripts_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{ "", "there is no task" },
		{ "task a\n nonsense\n", "test:2: nonsense" },
		{ "map a\n", "test:1: map" },
		{ "area a 0\n", "test:1: area" },
		{ "area a 2\ntask t\n read a 2\n", "test:3: 2: pages" },
		{ "area a 2\ntask t\n read a 1-0\n", "pages are" },
		{ "area a 2\ntask t\n read b 0\n", "no such area" },
		{ "area a 2\ntask t\n move a 0 a\n", "another area" },
		{ "area a 2\ntask t\n read a 0 1\n", "one word too many" },
		{ "area a 2\ntask t\n protect a 0 x\n", "none, r or rw" },
		{ "task t cpu 99\n", "task NAME" },
		{ "setup\n yield\ntask t\n", "not in the setup" },
		{ "task t\n drop x\n", "no such address space" },
	};
	struct schedules_program *p = malloc(sizeof(*p));
	char err[300];

	(void)state;
	assert_non_null(p);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		err[0] = 0;
		assert_int_not_equal(schedules_parse("test", bad[i].text, p, err, sizeof(err)), 0);
		if (!strstr(err, bad[i].says))
			fail_msg("'%s' gives '%s'", bad[i].text, err);
	}
	free(p);
}

/* ---- the oracle ---- */

static void oracle_registers(void **state)
{
	struct oracle o;
	struct oracle_reg r = { 0 }, copy = { 0 };
	struct oracle_event *a, *b, *c;

	(void)state;
	assert_int_equal(oracle_init(&o, 16), 0);
	assert_true(oracle_allows(&r, 0, 0, ~0ULL, 0));
	assert_false(oracle_allows(&r, 0, 0, ~0ULL, 1));
	oracle_tick(&o); /* 1 */
	a = oracle_write(&o, &r, 1);
	assert_true(oracle_allows(&r, 1, 1, ~0ULL, 0) && oracle_allows(&r, 1, 1, ~0ULL, 1)); /* beside it: before or after */
	oracle_tick(&o);
	oracle_end(&o, a); /* [1, 2] */
	assert_false(oracle_allows(&r, 3, 3, ~0ULL, 0));
	o.now = 4;
	b = oracle_write(&o, &r, 2);
	o.now = 6;
	c = oracle_write(&o, &r, 3);
	o.now = 8;
	oracle_end(&o, b);
	oracle_end(&o, c); /* [4, 8] and [6, 8]: either may be last */
	assert_true(oracle_allows(&r, 9, 9, ~0ULL, 2) && oracle_allows(&r, 9, 9, ~0ULL, 3));
	assert_false(oracle_allows(&r, 9, 9, ~0ULL, 1));
	assert_true(oracle_allows(&r, 5, 5, ~0ULL, 1));
	assert_false(oracle_allows(&r, 3, 3, ~0ULL, 2)); /* not before it was written */
	o.now = 10;
	a = oracle_copy(&o, &copy, &r);
	o.now = 11;
	oracle_end(&o, a);
	o.now = 12;
	b = oracle_write(&o, &r, 4); /* after the copy */
	assert_true(oracle_allows(&copy, 13, 13, ~0ULL, 3));
	assert_false(oracle_allows(&copy, 13, 13, ~0ULL, 4));
	oracle_cancel(b);
	assert_false(oracle_allows(&r, 13, 13, ~0ULL, 4));
	oracle_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_seed_same_run),
		cmocka_unit_test(seeds_differ),
		cmocka_unit_test(nobody_gives_way_without_choices),
		cmocka_unit_test(no_progress_is_found),
		cmocka_unit_test(builtins_pass),
		cmocka_unit_test(exhaustive_is_complete),
		cmocka_unit_test(lists_are_parsed),
		cmocka_unit_test(scripts_are_refused),
		cmocka_unit_test(oracle_registers),
	};

	return test_run(tests);
}
