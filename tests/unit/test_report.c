/* Reports: numbers for people, tables that fit, JSON with exact integers, result files whole or not at all. */
#include "testing.h"

#include "report/json.h"
#include "report/output.h"
#include "report/run_report.h"
#include "report/table.h"
#include "report/units.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void units(void **state)
{
	(void)state;
	static const struct {
		enum unit_style style;
		uint64_t value;
		unsigned decimals;
		const char *want;
	} cases[] = {
		{ STYLE_COUNT, 0, 0, "0" },
		{ STYLE_COUNT, 999999, 0, "999,999" },
		{ STYLE_COUNT, 1234567, 0, "1.23 M" },
		{ STYLE_COUNT, 123456789, 0, "123 M" },
		{ STYLE_COUNT, UINT64_MAX, 0, "18446744 T" },
		{ STYLE_NS, 0, 0, "0 ns" },
		{ STYLE_NS, 999, 0, "999 ns" },
		{ STYLE_NS, 1000, 0, "1.00 us" },
		{ STYLE_NS, 1234567890, 0, "1.23 s" },
		{ STYLE_NS, 99940000, 0, "99.9 ms" },
		{ STYLE_BYTES, 1023, 0, "1023 B" },
		{ STYLE_BYTES, 1536, 0, "1.50 KiB" },
		{ STYLE_BYTES, 64ULL << 20, 0, "64.0 MiB" },
		{ STYLE_RATIO, 19850, 4, "1.985" },
		{ STYLE_PERCENT, 1000, 3, "100.0 %" },
		{ STYLE_PERCENT, 7, 3, "0.7 %" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char buf[UNIT_MAX];

		unit_format(buf, cases[i].style, cases[i].value, cases[i].decimals);
		assert_string_equal(buf, cases[i].want);
	}
	char grouped[32];

	unit_grouped(grouped, 1000);
	assert_string_equal(grouped, "1,000");
	unit_grouped(grouped, 999);
	assert_string_equal(grouped, "999");
	unit_grouped(grouped, UINT64_MAX);
	assert_string_equal(grouped, "18,446,744,073,709,551,615");
}

/* Print a table of `columns` into buf. */
static void table_text(size_t columns, size_t breaks_at, char *buf, size_t len)
{
	FILE *f = fmemopen(buf, len, "w");
	struct table t;

	table_init(&t, columns);
	if (breaks_at)
		table_break_before(&t, breaks_at);
	for (size_t r = 0; r < 3; r++)
		for (size_t c = 0; c < columns; c++) {
			char cell[32];

			snprintf(cell, sizeof(cell), r ? "%zu" : "head%zu", r ? c * r * 1000 : c);
			table_cell(&t, cell);
		}
	table_print(&t, f, TABLE_WIDTH, false);
	table_done(&t);
	fclose(f);
}

static void table_fits(void **state)
{
	(void)state;
	char buf[16384];

	for (size_t columns = 1; columns <= 60; columns++) {
		size_t heads = 0;

		table_text(columns, 0, buf, sizeof(buf));
		for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n")) {
			assert_true(strlen(line) <= TABLE_WIDTH);
			for (const char *p = line; (p = strstr(p, "head")); p++)
				heads++;
			if (strstr(line, "head"))
				assert_int_equal(strncmp(line, "head0", 5), 0);
		}
		assert_true(heads >= columns); /* every column is there; the first in each block */
	}
}

static void table_breaks_and_aligns(void **state)
{
	(void)state;
	char buf[1024];

	table_text(3, 2, buf, sizeof(buf));
	assert_string_equal(buf,
			    "head0  head1\n0       1000\n0       2000\n\nhead0  head2\n0       2000\n0       4000\n");
}

static void json_integers_are_exact(void **state)
{
	(void)state;
	char buf[512] = "";
	FILE *f = fmemopen(buf, sizeof(buf), "w");
	struct metrics ms = { 0 };
	json_t *root = report_json("run");

	metrics_add(&ms, "z", INT64_MAX, 0, "", "");
	metrics_add(&ms, "big", 1ULL << 63, 0, "", "");
	metrics_add(&ms, "share", 123, 3, "ratio", "");
	metrics_add(&ms, "big", 7, 0, "", ""); /* the first stays */
	json_object_set_new(root, "metrics", report_json_metrics(&ms));
	assert_int_equal(report_json_write(root, f), 0);
	fclose(f);
	assert_string_equal(buf, "{\n  \"command\": \"run\",\n  \"metrics\": {\n    \"big\": \"9223372036854775808\",\n"
				 "    \"share\": 0.123,\n    \"z\": 9223372036854775807\n  },\n  \"schema\": 1\n}\n");
	metrics_done(&ms);
	assert_int_equal(report_json_write(NULL, stdout), -ENOMEM);
}

static void json_text_is_always_utf8(void **state)
{
	(void)state;
	static const struct {
		const char *in, *out;
	} cases[] = {
		{ "plain", "plain" },
		{ "", "" },
		{ "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80" },
		{ "a\xff" "b", "a\xef\xbf\xbd" "b" },
		{ "cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd" }, /* over-long */
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* a surrogate */
		{ "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" }, /* above U+10FFFF */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *t = report_json_text(cases[i].in);

		assert_non_null(t);
		assert_string_equal(json_string_value(t), cases[i].out);
		json_decref(t);
	}
}

static void output_whole_or_not_at_all(void **state)
{
	(void)state;
	char dir[] = "/tmp/quire-output-XXXXXX", path[64], err[300], buf[32];
	struct output o;
	FILE *f;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/out", dir);
	assert_int_equal(output_open(&o, path, err, sizeof(err)), 0);
	fputs("first", o.f);
	assert_int_equal(access(path, F_OK), -1); /* not there before it is complete */
	assert_int_equal(output_commit(&o, err, sizeof(err)), 0);
	output_abort(&o); /* nothing happens */
	assert_int_equal(output_open(&o, path, err, sizeof(err)), 0);
	fputs("second", o.f);
	output_abort(&o);
	f = fopen(path, "r");
	assert_non_null(fgets(buf, sizeof(buf), f));
	assert_string_equal(buf, "first");
	fclose(f);
	unlink(path);
	assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
	assert_int_equal(output_open(&o, path, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, path));
	assert_int_equal(output_open(&o, "/tmp", err, sizeof(err)), -EISDIR);
	assert_int_equal(output_open(&o, "/dev/full", err, sizeof(err)), 0);
	fputs("x", o.f);
	assert_int_equal(output_commit(&o, err, sizeof(err)), -ENOSPC);
}

/* ---- a made-up run ---- */

struct made_up {
	struct machine_desc desc;
	struct settings settings;
	struct lab_options o;
	struct lab_result r;
	struct lab_row rows[2];
};

static void make_up(struct made_up *m)
{
	char *vary[] = { (char *)(uintptr_t) "transparent_hugepage.enabled=never,always" }, err[300];

	memset(m, 0, sizeof(*m));
	snprintf(m->desc.name, sizeof(m->desc.name), "tiny");
	snprintf(m->desc.title, sizeof(m->desc.title), "a made-up machine");
	assert_int_equal(settings_expand(NULL, 0, vary, 1, &m->settings, err, sizeof(err)), 0);
	m->o = (struct lab_options){ .source = { .kind = LAB_FILE, .name = "x.qtr" },
				     .machine = &m->desc,
				     .settings = &m->settings };
	m->r = (struct lab_result){ .rows = m->rows, .nr_rows = 2, .source_refs = 12345 };
	for (int i = 0; i < 2; i++) {
		struct lab_row *row = &m->rows[i];

		row->settings = &m->settings.rows[i];
		row->started = row->replayed = row->finished = true;
		row->replay.elapsed_ns = 11000000000ULL / (unsigned)(i + 1);
		metrics_add(&row->metrics, "time_ns", row->replay.elapsed_ns, 0, "ns", "");
		metrics_add(&row->metrics, "time_ratio", 10000 * (uint64_t)(i + 1), 4, "ratio", "");
		metrics_add(&row->metrics, "fault_latency_p50_ns", 5, 0, "ns", "");
	}
}

static void made_up_done(struct made_up *m)
{
	for (int i = 0; i < 2; i++)
		metrics_done(&m->rows[i].metrics);
	settings_done(&m->settings);
}

static void text_of(struct made_up *m, char *buf, size_t len)
{
	FILE *f = fmemopen(buf, len, "w");

	report_run_text(f, &m->o, &m->r, false);
	fclose(f);
}

static void run_text_says_what_it_is(void **state)
{
	(void)state;
	struct made_up m;
	char buf[8192];

	make_up(&m);
	text_of(&m, buf, sizeof(buf));
	assert_non_null(strstr(buf, "12,345 references"));
	assert_non_null(strstr(buf, "tiny (a made-up machine)"));
	assert_non_null(strstr(buf, "All figures are modelled"));
	assert_non_null(strstr(buf, "never                         11.0 s  1.000"));
	assert_non_null(strstr(buf, "always                        5.50 s  2.000"));
	/* 11 s are long enough for Linux to have begun. */
	assert_non_null(strstr(buf, "NUMA balancing, which Linux would have run"));
	assert_null(strstr(buf, "ends before"));
	for (char *line = strtok(buf, "\n"); line; line = strtok(NULL, "\n"))
		assert_true(strlen(line) <= TABLE_WIDTH);
	made_up_done(&m);
}

static void notes_say_what_is_wrong(void **state)
{
	(void)state;
	struct made_up m;
	char buf[16384];

	make_up(&m);
	m.r.damaged = true;
	strcpy(m.r.damage, "x.qtr: byte 17: cut short");
	m.rows[0].replay.elapsed_ns = m.rows[1].replay.elapsed_ns = 200000000;
	m.rows[0].replay.refs_unmapped = 77;
	m.rows[1].finished = false;
	m.rows[1].replay.stopped = true;
	m.rows[1].replay.out_of_memory = true;
	text_of(&m, buf, sizeof(buf));
	assert_non_null(strstr(buf, "byte 17: cut short"));
	assert_non_null(strstr(buf, "never: 77 references lay in no known area"));
	assert_non_null(strstr(buf, "always (cut short)"));
	assert_non_null(strstr(buf, "always: the modelled machine ran out of memory"));
	assert_non_null(strstr(buf, "ends before khugepaged's first pass at 10 s"));
	m.rows[1].error = -ENOMEM;
	strcpy(m.rows[1].err, "no room");
	text_of(&m, buf, sizeof(buf));
	assert_non_null(strstr(buf, "always (failed)"));
	assert_non_null(strstr(buf, "failed: no room"));
	made_up_done(&m);
}

static void run_json_has_the_shape(void **state)
{
	(void)state;
	struct made_up m;
	json_t *root;

	make_up(&m);
	root = report_run_json(&m.o, &m.r);
	assert_non_null(root);
	assert_int_equal(json_integer_value(json_object_get(root, "schema")), 1);
	assert_string_equal(json_string_value(json_object_get(root, "command")), "run");
	json_t *machine = json_object_get(root, "machine"), *row = json_array_get(json_object_get(root, "rows"), 1);

	assert_string_equal(json_string_value(json_object_get(machine, "name")), "tiny");
	assert_string_equal(json_string_value(json_object_get(machine, "kind")), "model");
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(row, "settings"), "transparent_hugepage.enabled")),
		"always");
	assert_int_equal(json_integer_value(json_object_get(json_object_get(row, "metrics"), "time_ns")), 5500000000);
	assert_true(json_real_value(json_object_get(json_object_get(row, "metrics"), "time_ratio")) == 2.0);
	json_decref(root);
	made_up_done(&m);
}

/* Runs of spaces become one. */
static void squeeze(char *buf)
{
	char *to = buf;

	for (char *p = buf; *p; p++)
		if (*p != ' ' || to == buf || to[-1] != ' ')
			*to++ = *p;
	*to = 0;
}

static void profile_adds_up(void **state)
{
	(void)state;
	struct made_up m;
	char buf[8192];
	FILE *f = fmemopen(buf, sizeof(buf), "w");

	make_up(&m);
	m.rows[0].path[PATH_USER].ps = 700;
	m.rows[0].path[PATH_CLEAR_PAGE].ps = 300;
	m.rows[1].path[PATH_USER].ps = 1000000;
	m.rows[1].path[PATH_FORK].ps = 1; /* too little for a line */
	report_run_profile(f, &m.o, &m.r, false);
	fclose(f);
	squeeze(buf);
	assert_non_null(strstr(buf, "user 70.0 % 100.0 %"));
	assert_non_null(strstr(buf, "clearing pages 30.0 % 0.0 %"));
	assert_null(strstr(buf, "\nfork"));
	assert_non_null(strstr(buf, "other paths"));
	made_up_done(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(units),
		cmocka_unit_test(table_fits),
		cmocka_unit_test(table_breaks_and_aligns),
		cmocka_unit_test(json_integers_are_exact),
		cmocka_unit_test(json_text_is_always_utf8),
		cmocka_unit_test(output_whole_or_not_at_all),
		cmocka_unit_test(run_text_says_what_it_is),
		cmocka_unit_test(notes_say_what_is_wrong),
		cmocka_unit_test(run_json_has_the_shape),
		cmocka_unit_test(profile_adds_up),
	};

	return test_run(tests);
}
