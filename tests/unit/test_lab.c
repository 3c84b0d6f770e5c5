/* The lab: settings to rows, and runs whose rows do not depend on each other. */
#include "testing.h"

#include "lab/bench_int.h"
#include "lab/bench_replay.h"
#include "lab/run.h"

#include <errno.h>
#include <string.h>

#define TEXT(s) ((char *)(uintptr_t)(s))

static void settings_combine(void **state)
{
	(void)state;
	char *set[] = { TEXT("vm.overcommit_memory=2") };
	char *vary[] = { TEXT("transparent_hugepage.enabled=never,madvise,always"), TEXT("quire.huge_cow=copy,split") };
	static const char *const want[6][2] = { { "never", "copy" },	{ "never", "split" }, { "madvise", "copy" },
						{ "madvise", "split" }, { "always", "copy" }, { "always", "split" } };
	struct settings st;
	char err[400];

	assert_int_equal(settings_expand(set, 1, vary, 2, &st, err, sizeof(err)), 0);
	assert_int_equal(st.nr, 6);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(st.rows[i].nr, 3);
		assert_string_equal(st.rows[i].s[0].value, want[i][0]);
		assert_string_equal(st.rows[i].s[1].value, want[i][1]);
		assert_string_equal(st.rows[i].s[2].value, "2");
		assert_true(st.rows[i].s[0].varied && !st.rows[i].s[2].varied);
		assert_int_equal(st.rows[i].knobs.thp_enabled, i / 2);
		assert_int_equal(st.rows[i].knobs.huge_cow, i % 2);
		assert_int_equal(st.rows[i].knobs.overcommit_memory, 2);
	}
	settings_done(&st);
	assert_int_equal(settings_expand(NULL, 0, NULL, 0, &st, err, sizeof(err)), 0);
	assert_int_equal(st.nr, 1);
	settings_done(&st);
}

static void settings_refuse(void **state)
{
	(void)state;
	static const struct {
		const char *set, *vary, *say;
	} bad[] = {
		{ "transparent_hugepage.enabled", NULL, "expected NAME=VALUE" },
		{ "=never", NULL, "expected NAME=VALUE" },
		{ "transparent_hugepage.enabled=", NULL, "expected NAME=VALUE" },
		{ NULL, "transparent_hugepage.enabled", "NAME=VALUE,VALUE" },
		{ "transparent_hugepage.enabld=never", NULL, "did you mean transparent_hugepage.enabled?" },
		{ "no.such.thing.at.all=1", NULL, "quire knobs" },
		{ "transparent_hugepage.enabled=sometimes", NULL, "never, madvise or always" },
		{ NULL, "transparent_hugepage.enabled=never,,always", "allowed" },
		{ NULL, "transparent_hugepage.enabled=never,sometimes", "allowed" },
		{ "transparent_hugepage.enabled=never", "transparent_hugepage.enabled=always", "given twice" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *set[] = { TEXT(bad[i].set) }, *vary[] = { TEXT(bad[i].vary) }, err[400] = "";
		struct settings st;

		assert_int_equal(settings_expand(set, bad[i].set != NULL, vary, bad[i].vary != NULL, &st, err,
						 sizeof(err)),
				 -EINVAL);
		assert_non_null(strstr(err, bad[i].say));
		assert_null(strchr(err, '\n'));
		assert_null(st.rows);
	}
}

static void run(const char *kind, char *vary_text, unsigned jobs, unsigned repeat, struct settings *st,
		struct lab_result *r, struct machine_desc *d)
{
	char *vary[] = { vary_text }, err[400];

	assert_int_equal(machine_desc_find("laptop", d, err, sizeof(err)), 0);
	assert_int_equal(settings_expand(NULL, 0, vary, vary_text != NULL, st, err, sizeof(err)), 0);
	const struct lab_options o = {
		.source = { .kind = LAB_GENERATED, .name = kind, .bytes = 8 << 20, .count = 200000 },
		.machine = d,
		.settings = st,
		.seed = 1,
		.jobs = jobs,
		.repeat = repeat,
		.profile = true
	};

	assert_int_equal(lab_run(&o, r, err, sizeof(err)), 0);
}

static void done(struct settings *st, struct lab_result *r, struct machine_desc *d)
{
	lab_result_done(r);
	settings_done(st);
	machine_desc_done(d);
}

static void rows_do_not_depend_on_each_other(void **state)
{
	(void)state;
	struct settings st[3];
	struct lab_result r[3];
	struct machine_desc d[3];

	run("random", TEXT("transparent_hugepage.enabled=never,always"), 1, 1, &st[0], &r[0], &d[0]);
	run("random", TEXT("transparent_hugepage.enabled=never,always"), 2, 1, &st[1], &r[1], &d[1]);
	run("random", TEXT("transparent_hugepage.enabled=always"), 1, 1, &st[2], &r[2], &d[2]);
	for (int i = 0; i < 2; i++) {
		const struct metrics *a = &r[0].rows[i].metrics, *b = &r[1].rows[i].metrics;

		assert_true(r[0].rows[i].finished);
		assert_int_equal(a->nr, b->nr);
		for (size_t k = 0; k < a->nr; k++) {
			assert_string_equal(a->m[k].name, b->m[k].name);
			assert_int_equal(a->m[k].value, b->m[k].value);
		}
	}
	assert_int_equal(metrics_u64(&r[0].rows[1].metrics, "time_ns"), metrics_u64(&r[2].rows[0].metrics, "time_ns"));
	/* And they say what huge pages do to random loads. */
	assert_int_equal(metrics_u64(&r[0].rows[0].metrics, "quire_fault_anon_4k"), 2048);
	assert_int_equal(metrics_u64(&r[0].rows[1].metrics, "quire_fault_anon_2m"), 4);
	assert_int_equal(metrics_find(&r[0].rows[0].metrics, "huge_share")->value, 0);
	assert_int_equal(metrics_find(&r[0].rows[1].metrics, "huge_share")->value, 1000);
	assert_int_equal(metrics_find(&r[0].rows[0].metrics, "time_ratio")->value, 10000);
	assert_true(metrics_find(&r[0].rows[1].metrics, "time_ratio")->value > 10000);
	assert_int_equal(metrics_u64(&r[0].rows[0].metrics, "references"), 202048);
	assert_int_equal(metrics_u64(&r[0].rows[0].metrics, "rss_peak_bytes"), 8 << 20);
	for (int i = 0; i < 3; i++)
		done(&st[i], &r[i], &d[i]);
}

static void repeat_replays_again(void **state)
{
	(void)state;
	struct settings st[2];
	struct lab_result r[2];
	struct machine_desc d[2];

	run("stream", NULL, 1, 1, &st[0], &r[0], &d[0]);
	run("stream", NULL, 1, 3, &st[1], &r[1], &d[1]);
	assert_int_equal(3 * metrics_u64(&r[0].rows[0].metrics, "references"),
			 metrics_u64(&r[1].rows[0].metrics, "references"));
	assert_true(metrics_u64(&r[1].rows[0].metrics, "time_ns") > 2 * metrics_u64(&r[0].rows[0].metrics, "time_ns"));
	for (int i = 0; i < 2; i++)
		done(&st[i], &r[i], &d[i]);
}

static void stopped_before(void **state)
{
	(void)state;
	volatile bool stop = true;
	struct machine_desc d;
	struct settings st;
	struct lab_result r;
	char err[400];

	assert_int_equal(machine_desc_find("laptop", &d, err, sizeof(err)), 0);
	assert_int_equal(settings_expand(NULL, 0, NULL, 0, &st, err, sizeof(err)), 0);
	const struct lab_options o = {
		.source = { .kind = LAB_GENERATED, .name = "stream", .bytes = 1 << 20, .count = 1 << 20 },
		.machine = &d,
		.settings = &st,
		.stop = &stop
	};

	assert_int_equal(lab_run(&o, &r, err, sizeof(err)), 0);
	assert_true(r.stopped);
	assert_false(r.rows[0].finished);
	done(&st, &r, &d);
}

static void sources_that_cannot_be_opened(void **state)
{
	(void)state;
	struct machine_desc d;
	struct settings st;
	struct lab_result r;
	char err[400];

	assert_int_equal(machine_desc_find("laptop", &d, err, sizeof(err)), 0);
	assert_int_equal(settings_expand(NULL, 0, NULL, 0, &st, err, sizeof(err)), 0);
	const struct lab_options o = { .source = { .kind = LAB_FILE, .name = "/nonexistent.qtr" },
				       .machine = &d,
				       .settings = &st };

	assert_int_equal(lab_run(&o, &r, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent.qtr"));
	done(&st, &r, &d);
}

/* A row that cannot run is an error of the whole, and says which row. */
static void a_failed_row_is_told(void **state)
{
	(void)state;
	struct machine_desc d;
	struct settings st;
	struct lab_result r;
	char err[400] = "";

	assert_int_equal(machine_desc_find("laptop", &d, err, sizeof(err)), 0);
	assert_int_equal(settings_expand(NULL, 0, NULL, 0, &st, err, sizeof(err)), 0);
	d.mshrs = 1000;
	const struct lab_options o = { .source = { .kind = LAB_GENERATED, .name = "stream", .bytes = 1 << 20, .count = 10 },
				       .machine = &d,
				       .settings = &st };

	assert_true(lab_run(&o, &r, err, sizeof(err)) < 0);
	assert_int_equal(strncmp(err, "row 1: ", 7), 0);
	assert_non_null(strstr(err, "mshrs"));
	assert_false(r.rows[0].finished);
	done(&st, &r, &d);
}

static void medians(void **state)
{
	(void)state;
	double six[] = { 3, 1, 2, 6, 5, 4 }, one[] = { 7 }, many[20], low, high;

	assert_true(bench_median(six, 6, &low, &high) == 3.5);
	assert_true(low == 1 && high == 6); /* the whole range holds with 1 - 2/64 */
	assert_true(bench_median(one, 1, &low, &high) == 7 && low == 7 && high == 7);
	for (int i = 0; i < 20; i++)
		many[i] = 20 - i;
	assert_true(bench_median(many, 20, &low, &high) == 10.5);
	assert_true(low == 6 && high == 15); /* ranks 6 and 15 of 20: the textbook's interval */
}

static void load_does_what_it_says(void **state)
{
	(void)state;
	/* Words 0, 512, ... hold their index; a stream of 1023 loads from word 1 on meets word 512. */
	assert_int_equal(bench_load(false, 8192, 1023), 512);
	assert_int_equal(bench_load(false, 8192, 0), 0);
	assert_true(bench_load(true, 1 << 20, 100000) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_combine),
		cmocka_unit_test(settings_refuse),
		cmocka_unit_test(rows_do_not_depend_on_each_other),
		cmocka_unit_test(repeat_replays_again),
		cmocka_unit_test(stopped_before),
		cmocka_unit_test(sources_that_cannot_be_opened),
		cmocka_unit_test(a_failed_row_is_told),
		cmocka_unit_test(medians),
		cmocka_unit_test(load_does_what_it_says),
	};

	return test_run(tests);
}
