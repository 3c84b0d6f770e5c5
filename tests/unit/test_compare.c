/* Comparisons on a small model: pairs, order, seeds, metrics, stopping, and the report. */
#include "lab/compare.h"
#include "report/compare_report.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct machine_desc machine;

static int load_machine(void **state)
{
	char err[300];

	(void)state;
	return machine_desc_find("laptop", &machine, err, sizeof(err));
}

static int free_machine(void **state)
{
	(void)state;
	machine_desc_done(&machine);
	return 0;
}

static struct compare_options options(struct compare_side *sides)
{
	struct compare_options o = {
		.subject = { .workload = workload_find("anon-cow-seq"), .options = { .tasks = 2, .size = 12 << 20, .stagger_ns = 200000 } },
		.place = { .model = &machine }, .sides = sides, .nr_sides = 2, .rounds = 6, .jobs = 2, .seed = 7,
	};
	char err[300];

	for (unsigned i = 0; i < 2; i++) {
		knobs_default(&sides[i].knobs);
		assert_int_equal(settings_apply(&sides[i].knobs, "t", "quire.huge_cow=copy", err, sizeof(err)), 0);
		assert_int_equal(settings_apply(&sides[i].knobs, "t", i ? "quire.huge_copy_order=target_last" : "quire.huge_copy_order=linear",
						err, sizeof(err)), 0);
		snprintf(sides[i].label, sizeof(sides[i].label), "side %u", i);
	}
	return o;
}

static char *json_text(const struct compare_options *o, const struct compare_result *r)
{
	const struct compare_title t = { .name = "x", .where = "y", .set = "" };
	json_t *j = report_compare_json(o, r, &t);
	char *text = json_dumps(j, JSON_SORT_KEYS);

	assert_non_null(text);
	json_decref(j);
	return text;
}

/* The same bytes again, and whatever the number of threads. */
static void test_repeatable(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	char *text[3], err[300];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct compare_result r;

		o.jobs = 1 + i;
		assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
		assert_int_equal(r.rounds, 6);
		text[i] = json_text(&o, &r);
		compare_result_done(&r);
	}
	assert_string_equal(text[0], text[1]);
	assert_string_equal(text[0], text[2]);
	for (unsigned i = 0; i < 3; i++)
		free(text[i]);
}

/* A side against itself is equal in all and never a difference; medians are those of the runs. */
static void test_same(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	struct compare_result r;
	char err[300];

	(void)state;
	sides[1] = sides[0];
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
	assert_true(r.nr > 50);
	for (size_t i = 0; i < r.nr; i++) {
		assert_true(r.m[i].same);
		assert_true(r.m[i].median[0] == r.m[i].median[1]);
		assert_false(compare_differs(&r.m[i].gain[1]));
		assert_true(r.m[i].p_holm[1] == 1);
	}
	compare_result_done(&r);
}

/* Seeds matter (the tasks are staggered), so intervals have a width; the orders differ in faults' time but not in their number. */
static void test_differs(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	const struct compare_metric *m;
	struct compare_result r;
	char err[300];

	(void)state;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
	m = compare_find(&r, "pgfault");
	assert_true(m && m->same && m->better == BETTER_NEITHER);
	m = compare_find(&r, "bytes_copied");
	assert_true(m && m->same && m->median[0] > 0);
	m = compare_find(&r, "work_time_ns");
	assert_true(m && !m->same && m->better == BETTER_LOWER && m->value[0].low < m->value[0].high);
	m = compare_find(&r, compare_main_metric(&o.subject));
	assert_true(m && m->better == BETTER_HIGHER && m->gain[1].n == 6 && m->gain[1].bounded);
	assert_null(compare_find(&r, "no such metric"));
	compare_result_done(&r);
}

/* Old over new for times: doubling the size halves nothing but is seen with the right sign. */
static void test_direction(void **state)
{
	(void)state;
	assert_int_equal(compare_better("time_ns"), BETTER_LOWER);
	assert_int_equal(compare_better("walk_ns_4k"), BETTER_LOWER);
	assert_int_equal(compare_better("fault_latency_p50_ns"), BETTER_LOWER);
	assert_int_equal(compare_better("ipc"), BETTER_HIGHER);
	assert_int_equal(compare_better(workload_find("anon-w-seq")->metric), BETTER_HIGHER);
	assert_int_equal(compare_better(workload_find("page_fault1")->metric), BETTER_HIGHER);
	assert_int_equal(compare_better("operations"), BETTER_NEITHER);
	assert_int_equal(compare_better("pgfault"), BETTER_NEITHER);
	assert_int_equal(compare_better("bytes_copied"), BETTER_NEITHER);
}

static void test_stop(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	const volatile bool stop = true;
	struct compare_result r;
	char err[300];

	(void)state;
	o.stop = &stop;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), -EINTR);
	assert_true(r.stopped && !r.rounds && !r.nr);
	compare_result_done(&r);
}

/* Sides of equal cost: the interval is as narrow as it can be when it is first looked at, after six rounds. */
static void test_until(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	struct compare_result r;
	char err[300];

	(void)state;
	o.rounds = 50;
	o.until = 0.2;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
	assert_true(r.reached && r.rounds >= STATS_MIN_PAIRS && r.rounds < 50);
	compare_result_done(&r);
	o.rounds = 7;
	o.until = 1e-9;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
	assert_true(!r.reached && r.rounds == 7);
	compare_result_done(&r);
}

static void test_errors(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	struct compare_result r;
	char err[300];

	(void)state;
	o.subject.options.size = 100; /* less than a page a task */
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "less than a page"));
	compare_result_done(&r);
	o = options(sides);
	for (unsigned n = 0; n < machine.nr_nodes; n++)
		machine.nodes[n].memory = 256 << 20;
	o.subject.options.size = 1ULL << 30;
	o.subject.options.tasks = 1;
	o.subject.options.step = 1 << 21;
	o.rounds = 1;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), -ENOMEM);
	compare_result_done(&r);
	o = options(sides);
	o.nr_sides = 1;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), -EINVAL);
	compare_result_done(&r);
}

static void test_settings(void **state)
{
	struct knobs k;
	char err[300];

	(void)state;
	knobs_default(&k);
	assert_int_equal(settings_apply(&k, "--base", "vm.swapiness=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "--base: no such setting: vm.swapiness"));
	assert_int_equal(settings_apply(&k, "--base", "quire.huge_copy_ordr=linear", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "did you mean quire.huge_copy_order?"));
	assert_int_equal(settings_apply(&k, "--with", "quire.huge_copy_order=sideways", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "allowed: "));
	assert_int_equal(settings_apply(&k, "--with", "quire.huge_copy_order", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "expected NAME=VALUE"));
}

static void test_report(void **state)
{
	struct compare_side sides[2] = { 0 };
	struct compare_options o = options(sides);
	const struct compare_title t = { .name = "anon-cow-seq", .where = "a laptop", .set = "quire.huge_cow=copy" };
	struct compare_result r;
	char err[300], *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(compare_run(&o, &r, err, sizeof(err)), 0);
	report_compare_text(f, &o, &r, &t, false);
	fclose(f);
	assert_non_null(strstr(text, "throughput_KBps"));
	assert_non_null(strstr(text, "All figures are modelled"));
	assert_non_null(strstr(text, "base:    side 0"));
	assert_null(strstr(text, "Fewer than"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (strstr(line, "["))
			assert_true(strlen(line) <= 100);
	free(text);
	compare_result_done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_repeatable, load_machine, free_machine),
		cmocka_unit_test_setup_teardown(test_same, load_machine, free_machine),
		cmocka_unit_test_setup_teardown(test_differs, load_machine, free_machine),
		cmocka_unit_test(test_direction),
		cmocka_unit_test_setup_teardown(test_stop, load_machine, free_machine),
		cmocka_unit_test_setup_teardown(test_until, load_machine, free_machine),
		cmocka_unit_test_setup_teardown(test_errors, load_machine, free_machine),
		cmocka_unit_test(test_settings),
		cmocka_unit_test_setup_teardown(test_report, load_machine, free_machine),
	};

	return test_run(tests);
}
