/* Experiment files: what they may say, every mistake with its place, and a small one run. */
#include "base/compiler.h"
#include "lab/experiment.h"
#include "report/experiment_report.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char good[] = "title: a small one\n"
			   "mechanism: 0\n"
			   "source: nobody\n"
			   "scale: 1/4\n"
			   "scale_rule: all of it\n"
			   "explains: nothing\n"
			   "cases:\n"
			   "  - case: two tasks\n"
			   "    workload: anon-cow-seq\n"
			   "    knob: quire.huge_copy_order\n"
			   "    base: linear\n"
			   "    with: [target_last, neighbourhood_last]\n"
			   "    settings: { quire.huge_cow: copy }\n"
			   "    tolerance: 0.5\n"
			   "    control: true\n"
			   "    model: { machine: laptop, tasks: 2, size: 48M, stagger: 100us, rounds: 2, placement: spread }\n"
			   "    figures:\n"
			   "      - { metric: throughput, published: 1.166, as: \"+16.6 %\", within: 0.05 }\n"
			   "      - { metric: ipc, of: base, published: 0.63 }\n"
			   "      - { metric: user_time, of: gain2 }\n"
			   "      - { metric: cache_misses, of: with2 }\n";

static void test_good(void **state)
{
	struct experiment e;
	const struct experiment_case *c;
	char err[500];

	(void)state;
	if (experiment_parse("dir/small.yaml", good, strlen(good), &e, err, sizeof(err)))
		fail_msg("%s", err);
	c = &e.cases[0];
	assert_string_equal(e.name, "small");
	assert_true(e.scale == 0.25 && e.nr_cases == 1);
	assert_int_equal(c->nr_with, 2);
	assert_string_equal(c->with[1], "neighbourhood_last");
	assert_string_equal(c->settings[0], "quire.huge_cow=copy");
	assert_true(c->control && c->tolerance == 0.5 && c->model.on && !c->host.on);
	assert_int_equal(c->model.stagger_ns, 100000);
	assert_int_equal(c->model.placement, PLACEMENT_SPREAD);
	assert_int_equal(c->nr_figures, 4);
	assert_true(c->figures[0].has_published && c->figures[0].published == 1.166 && c->figures[0].has_within);
	assert_int_equal(c->figures[1].of, OF_BASE);
	assert_true(c->figures[2].of == OF_GAIN && c->figures[2].with == 1 && !c->figures[2].has_published);
	assert_true(c->figures[3].of == OF_WITH && c->figures[3].with == 1);
	experiment_done(&e);
}

/* Whole huge pages for each task, and for the parent where there is one; never less than one. */
static void test_size(void **state)
{
	struct experiment_case c = { .workload = (char[]){ "anon-cow-seq" } };
	struct trial t = { .tasks = 36, .size = 64ULL << 30 };

	(void)state;
	assert_int_equal(experiment_size(&c, &t, 1), (64ULL << 30) / 37 / PMD_SIZE * PMD_SIZE * 37);
	assert_int_equal(experiment_size(&c, &t, 1e-9), 37 * PMD_SIZE);
	t.least = 370 * PMD_SIZE;
	assert_int_equal(experiment_size(&c, &t, 1e-9), 370 * PMD_SIZE);
	c.workload = (char[]){ "anon-w-seq" };
	t.least = 0;
	assert_int_equal(experiment_size(&c, &t, 1e-9), 36 * PMD_SIZE);
}

/* One text replaced: the complaint, with its place. */
static void test_mistakes(void **state)
{
	static const struct {
		const char *from, *to, *want;
	} m[] = {
		{ "title: a small one\n", "", "f.yaml:1:1: title: missing: text" },
		{ "title: a small one", "title:", "f.yaml:1:7: title: text" },
		{ "mechanism: 0", "mechanism: 5", "f.yaml:2:12: mechanism: 5: a whole number from 0 to 4" },
		{ "mechanism: 0", "mechanism: many", "f.yaml:2:12: mechanism: many: a whole number from 0 to 4" },
		{ "source: nobody", "sauce: nobody", "f.yaml:3:1: sauce: unknown key; there are title, mechanism, source, scale" },
		{ "source: nobody", "title: again", "f.yaml:3:1: title: given twice" },
		{ "scale: 1/4", "scale: 4", "f.yaml:4:8: scale: 4: a part of the whole such as 1/64 or 0.1" },
		{ "scale: 1/4", "scale: 1/0", "f.yaml:4:8: scale: 1/0: a part of the whole" },
		{ "  - case: two tasks", "  - note: two tasks", "f.yaml:8:5: case: missing: text" },
		{ "workload: anon-cow-seq", "workload: anon-cow-sec", "f.yaml:8:5: workload: anon-cow-sec: one of 'quire workload list'" },
		{ "knob: quire.huge_copy_order", "knob: quire.huge_copy_ordr", "f.yaml:8:5: knob: base: no such setting: quire.huge_copy_ordr; "
									       "did you mean quire.huge_copy_order?" },
		{ "base: linear", "base: crooked", "f.yaml:8:5: knob: base quire.huge_copy_order=crooked: allowed: linear" },
		{ "[target_last, neighbourhood_last]", "target_last", "f.yaml:12:11: with: a list of 1 to 4 values" },
		{ "[target_last, neighbourhood_last]", "[]", "f.yaml:12:11: with: a list of 1 to 4 values" },
		{ "[target_last, neighbourhood_last]", "[a, b, c, d, e]", "f.yaml:12:24: with: e: a list of 1 to 4 values" },
		{ "{ quire.huge_cow: copy }", "{ quire.huge_cow: both }", "f.yaml:13:17: settings: setting quire.huge_cow=both: allowed: copy" },
		{ "{ quire.huge_cow: copy }", "[a]", "f.yaml:13:15: settings: a mapping of settings to values" },
		{ "tolerance: 0.5", "tolerance: -1", "f.yaml:14:16: tolerance: -1: a number such as 1.166" },
		{ "control: true", "control: maybe", "f.yaml:15:14: control: maybe: true or false" },
		{ "machine: laptop, ", "", "f.yaml:16:12: machine: missing: a machine of 'quire machine list'" },
		{ "machine: laptop", "machine: lapdog", "f.yaml:16:12: machine: lapdog: a machine of 'quire machine list'" },
		{ "tasks: 2", "tasks: 0", "f.yaml:16:38: tasks: 0: a whole number from 1 to 65536" },
		{ "size: 48M", "size: 48Q", "f.yaml:16:47: size: 48Q: a size such as 64M or 2G" },
		{ "stagger: 100us", "stagger: 2s", "f.yaml:16:61: stagger: 2s: a time such as 20us or 5ms, at most 1s" },
		{ "placement: spread", "placement: neat", "f.yaml:16:90: placement: neat: none, spread or compact" },
		{ "model: {", "host: {", "f.yaml:16:11: machine: laptop: only for a model" },
		{ "metric: throughput, ", "", "f.yaml:18:9: metric: missing: a name" },
		{ "published: 1.166", "published: \"+16.6 %\"", "f.yaml:18:42: published: +16.6 %: a number such as 1.166" },
		{ "of: gain2", "of: gain9", "f.yaml:20:34: of: gain9: gain, base or with" },
		{ "of: gain2", "of: gain3", "f.yaml:8:5: of: there is no value 3 in `with`" },
		{ "explains: nothing", "explains: &a nothing", "" },
		{ "explains: nothing", "explains: *a", "f.yaml:6:11: aliases (*name) are not allowed" },
		{ "explains: nothing", "explains: [nothing", "f.yaml:7:" },
		{ "cases:\n", "cases: x\nnotes:\n", "f.yaml:7:8: cases: a list of 1 to 32 mappings" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		const char *at = strstr(good, m[i].from);
		struct experiment e;
		char text[2500], err[500] = "";
		int rc;

		assert_non_null(at);
		snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - good), good, m[i].to, at + strlen(m[i].from));
		rc = experiment_parse("f.yaml", text, strlen(text), &e, err, sizeof(err));
		if (!m[i].want[0]) {
			assert_int_equal(rc, 0);
			experiment_done(&e);
			continue;
		}
		assert_int_equal(rc, -EINVAL);
		if (strncmp(err, m[i].want, strlen(m[i].want)))
			fail_msg("%s\n  instead of\n%s", err, m[i].want);
	}
}

/* Cut at every byte: an error or an experiment, never anything else. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t n = 0; n < sizeof(good); n++) {
		struct experiment e;
		char err[500];
		int rc = experiment_parse("f.yaml", good, n, &e, err, sizeof(err));

		assert_true(rc == 0 || rc == -EINVAL);
		experiment_done(&e);
	}
}

/* Those that ship can be read, run nothing twice, and state a rule for their scale. */
static void test_shipped(void **state)
{
	(void)state;
	assert_non_null(experiment_files[0].name);
	for (const struct experiment_file *f = experiment_files; f->name; f++) {
		struct experiment e;
		char err[500];
		bool ratio = false;

		if (experiment_find(f->name, &e, err, sizeof(err)))
			fail_msg("%s", err);
		assert_string_equal(e.name, f->name);
		assert_true(strlen(e.scale_rule) > 40);
		for (uint32_t i = 0; i < e.nr_cases; i++)
			for (uint32_t k = 0; k < e.cases[i].nr_figures; k++)
				ratio |= e.cases[i].figures[k].of == OF_GAIN && (!strcmp(e.cases[i].figures[k].metric, "throughput") ||
										 !strcmp(e.cases[i].figures[k].metric, "time"));
		assert_true(ratio);
		experiment_done(&e);
	}
}

static void test_find(void **state)
{
	struct experiment e;
	char err[500];

	(void)state;
	assert_int_equal(experiment_find("no-such", &e, err, sizeof(err)), -ENOENT);
	assert_int_equal(experiment_find("./no-such.yaml", &e, err, sizeof(err)), -ENOENT);
}

static void test_small(void **state)
{
	struct experiment e;
	struct experiment_options o = { .experiment = &e, .jobs = 2, .seed = 1, .no_host = true };
	struct experiment_result r;
	char err[500], *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);
	json_t *j, *row;

	(void)state;
	assert_int_equal(experiment_parse("small.yaml", good, strlen(good), &e, err, sizeof(err)), 0);
	if (experiment_run(&o, &r, err, sizeof(err)))
		fail_msg("%s", err);
	assert_int_equal(r.nr_rows, 4);
	assert_true(r.rows[0].modelled.run && r.rows[0].modelled.e.n == 2 && !r.rows[0].measured.run);
	assert_string_equal(r.rows[0].unit, "ratio");
	assert_string_equal(r.rows[1].unit, "instructions/cycle");
	assert_true(r.rows[3].modelled.run && !r.rows[3].modelled.e.n); /* the model has no such counter */
	report_experiment_text(f, &e, &r, false);
	fclose(f);
	assert_non_null(strstr(text, "throughput: target_last"));
	assert_non_null(strstr(text, "ipc of linear"));
	assert_non_null(strstr(text, "not asked for"));
	j = report_experiment_json(&e, &r);
	assert_int_equal(json_array_size(json_object_get(j, "results")), 4);
	row = json_array_get(json_object_get(j, "results"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "metric")), "throughput");
	assert_string_equal(json_string_value(json_object_get(row, "unit")), "ratio");
	assert_true(json_real_value(json_object_get(row, "published")) == 1.166);
	assert_true(json_is_null(json_object_get(row, "measured")));
	assert_string_equal(json_string_value(json_object_get(json_object_get(row, "modelled"), "machine")), "laptop");
	json_decref(j);
	free(text);
	experiment_result_done(&r);
	experiment_done(&e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),	cmocka_unit_test(test_size), cmocka_unit_test(test_mistakes), cmocka_unit_test(test_cut),
		cmocka_unit_test(test_shipped), cmocka_unit_test(test_find), cmocka_unit_test(test_small),
	};

	return test_run(tests);
}
