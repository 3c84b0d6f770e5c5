/* Importing text traces: lines good and bad, derived areas, input from a pipe. */
#include "testing.h"
#include "trace_testing.h"

#include "trace/import.h"

#include <errno.h>
#include <sys/stat.h>

static char in_path[512], out_path[512];

static void spit(const char *text)
{
	FILE *f = fopen(in_path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int import(const char *text, enum trace_import_format fmt, struct trace_import_result *res, char *err,
		  size_t errlen)
{
	spit(text);
	return trace_import(in_path, fmt, out_path, NULL, res, err, errlen);
}

/* The words of stream 0 of what was imported. */
static void read_back(struct words *v)
{
	struct trace_source *s;
	struct trace_cursor *cur;
	char err[256];

	assert_int_equal(trace_file_open(out_path, &s, err, sizeof(err)), 0);
	assert_false(s->damaged);
	assert_int_equal(s->ops->cursor_open(s, &cur), 0);
	assert_int_equal(read_stream(s, cur, 0, v), 0);
	s->ops->cursor_close(s, cur);
	s->ops->close(s);
}

/* The index of the first reference; areas before it are counted. */
static size_t skip_start(const struct words *v, unsigned *ret_areas)
{
	size_t i = 0;

	*ret_areas = 0;
	for (; v->w[i] & WORD_CONTROL; i += 1 + word_payload(v->w[i]))
		*ret_areas += word_type(v->w[i]) == W_AREA;
	return i;
}

static void lackey(void **state)
{
	(void)state;
	struct trace_import_result r;
	struct words v = { 0 };
	char err[256];
	unsigned areas;

	assert_int_equal(import("==12== Lackey, an example Valgrind tool\n"
				"I  0401ab70,3\n"
				"I  0401ab73,5\n"
				" S 1fff000708,8\n"
				" L 04a19de0,8\n"
				"I  0401ab78,2\n"
				" M 04a19de0,4\n"
				" L 04a19de0,10\n"
				"I  0401ab78,2\n"
				"==12== \n",
				IMPORT_AUTO, &r, err, sizeof(err)),
			 0);
	assert_int_equal(r.format, IMPORT_LACKEY);
	assert_int_equal(r.refs, 6);
	assert_int_equal(r.insns, 4);
	assert_int_equal(r.areas, 2);
	assert_int_equal(r.lines, 10);
	read_back(&v);
	size_t i = skip_start(&v, &areas);

	assert_int_equal(areas, 2);
	assert_int_equal(v.w[i++], word_ref(0x1fff000708, 3, 1, 2));
	assert_int_equal(v.w[i++], word_ref(0x04a19de0, 3, 0, 0));
	assert_int_equal(v.w[i++], word_ref(0x04a19de0, 2, 0, 1));
	assert_int_equal(v.w[i++], word_ref(0x04a19de0, 2, 1, 0));
	assert_int_equal(v.w[i++], word_ref(0x04a19de0, 3, 0, 0)); /* 10 bytes: 8 and 2 */
	assert_int_equal(v.w[i++], word_ref(0x04a19de8, 1, 0, 0));
	assert_int_equal(v.w[i++], word_control(W_INSNS, 0, 1));
	assert_int_equal(word_type(v.w[i]), W_EXIT);
	free(v.w);
}

static void text(void **state)
{
	(void)state;
	struct trace_import_result r;
	struct words v = { 0 };
	char err[256];
	unsigned areas;

	assert_int_equal(import("# a comment\n\nR 0x7f0000001000 8\r\nw 7f0000001ff8 64\n  R\t10 1  ", IMPORT_AUTO, &r,
				err, sizeof(err)),
			 0);
	assert_int_equal(r.format, IMPORT_TEXT);
	assert_int_equal(r.refs, 3);
	read_back(&v);
	size_t i = skip_start(&v, &areas);

	assert_int_equal(areas, 2);
	assert_int_equal(v.w[i++], word_ref(0x7f0000001000, 3, 0, 1));
	assert_int_equal(v.w[i++], word_ref(0x7f0000001ff8, 6, 1, 1));
	assert_int_equal(v.w[i++], word_ref(0x10, 0, 0, 1));
	free(v.w);
}

/* More instructions than a reference can carry: the rest goes before it. */
static void many_instructions(void **state)
{
	(void)state;
	struct trace_import_result r;
	struct words v = { 0 };
	char err[256];
	unsigned areas;
	FILE *f = fopen(in_path, "w");

	for (int i = 0; i < 10000; i++)
		fputs("I  0401ab70,3\n", f);
	fputs(" L 1000,8\n", f);
	fclose(f);
	assert_int_equal(trace_import(in_path, IMPORT_AUTO, out_path, NULL, &r, err, sizeof(err)), 0);
	assert_int_equal(r.insns, 10000);
	read_back(&v);
	size_t i = 0;

	for (; word_type(v.w[i]) != W_INSNS; i += 1 + word_payload(v.w[i]))
		;
	assert_int_equal(word_arg(v.w[i]), 10000 - 4095);
	assert_int_equal(v.w[i + 1], word_ref(0x1000, 3, 0, 4095));
	skip_start(&v, &areas);
	assert_int_equal(areas, 1);
	free(v.w);
}

static void bad_lines(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum trace_import_format fmt;
		int line;
	} bad[] = {
		{ "R 0x1000 8\nX 0x1000 8\n", IMPORT_TEXT, 2 },
		{ "R 0x1000\n", IMPORT_TEXT, 1 },
		{ "R 0x1000 0\n", IMPORT_TEXT, 1 },
		{ "R 0x1000 4097\n", IMPORT_TEXT, 1 },
		{ "R zz 8\n", IMPORT_TEXT, 1 },
		{ "R 0x1000 8 9\n", IMPORT_TEXT, 1 },
		{ "R 0x7fffffffffff 8\n", IMPORT_TEXT, 1 },
		{ "R 0xfffffffffffffffff 8\n", IMPORT_TEXT, 1 },
		{ "R 0x1000 99999999999999999999\n", IMPORT_TEXT, 1 },
		{ "R0x1000 8\n", IMPORT_TEXT, 1 },
		{ "I  1000,3\n L 1000;3\n", IMPORT_LACKEY, 2 },
		{ " Q 1000,3\n", IMPORT_LACKEY, 1 },
		{ "I 1000,3\n", IMPORT_LACKEY, 1 },
		{ " L 1000,3x\n", IMPORT_LACKEY, 1 },
		{ " L 1000,\n", IMPORT_LACKEY, 1 },
		{ "hello\n", IMPORT_AUTO, 1 },
		{ " ", IMPORT_LACKEY, 1 },
		{ " L", IMPORT_LACKEY, 1 },
	};
	struct trace_import_result r;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char err[256], want[600];

		assert_int_equal(import(bad[i].text, bad[i].fmt, &r, err, sizeof(err)), -EINVAL);
		snprintf(want, sizeof(want), "%s:%d: '", in_path, bad[i].line);
		assert_int_equal(strncmp(err, want, strlen(want)), 0);
		assert_int_equal(access(out_path, F_OK), -1);
	}
}

static void long_and_empty(void **state)
{
	(void)state;
	struct trace_import_result r;
	char err[256], *big = calloc(1, 10001);

	memset(big, 'R', 10000);
	assert_int_equal(import(big, IMPORT_TEXT, &r, err, sizeof(err)), -EINVAL);
	assert_int_equal(import("", IMPORT_AUTO, &r, err, sizeof(err)), -ENODATA);
	assert_int_equal(import("# nothing\n", IMPORT_TEXT, &r, err, sizeof(err)), -ENODATA);
	assert_int_equal(trace_import("/nonexistent", IMPORT_AUTO, out_path, NULL, &r, err, sizeof(err)), -ENOENT);
	assert_int_equal(trace_import("/tmp", IMPORT_AUTO, out_path, NULL, &r, err, sizeof(err)), -EISDIR);
	free(big);
}

/* However scattered: few areas, ascending, apart from each other, and every reference inside one. */
static void areas_cover(void **state)
{
	(void)state;
	struct trace_import_result r;
	struct words v = { 0 };
	struct rng rng;
	char err[256];
	unsigned areas;
	FILE *f = fopen(in_path, "w");

	rng_init(&rng, 1, "areas");
	for (int i = 0; i < 20000; i++)
		fprintf(f, "%c %llx %u\n", "RW"[i & 1],
			(unsigned long long)(rng_next(&rng) >> (17 + rng_below(&rng, 30))) & ~63ULL,
			1U << rng_below(&rng, 7));
	fclose(f);
	assert_int_equal(trace_import(in_path, IMPORT_AUTO, out_path, NULL, &r, err, sizeof(err)), 0);
	read_back(&v);
	size_t first = skip_start(&v, &areas);
	uint64_t start[4096], end[4096];
	unsigned n = 0;

	assert_int_equal(areas, r.areas);
	assert_in_range(areas, 2, 2048);
	for (size_t i = 0; i < first; i += 1 + word_payload(v.w[i]))
		if (word_type(v.w[i]) == W_AREA) {
			start[n] = v.w[i + 1];
			end[n] = start[n] + v.w[i + 2];
			assert_int_equal(start[n] % 4096, 0);
			assert_true(end[n] > start[n] && (!n || start[n] > end[n - 1]));
			n++;
		}
	for (size_t i = first; i < v.nr && !(v.w[i] & WORD_CONTROL); i++) {
		bool in = false;

		for (unsigned k = 0; k < n && !in; k++)
			in = word_addr(v.w[i]) >= start[k] && word_addr(v.w[i]) + word_size(v.w[i]) <= end[k];
		assert_true(in);
	}
	free(v.w);
}

static void from_a_pipe(void **state)
{
	(void)state;
	struct trace_import_result r;
	char err[256];

	assert_int_equal(mkfifo(in_path, 0600), 0);
	pid_t pid = fork();

	if (!pid) {
		FILE *f = fopen(in_path, "w");

		for (int i = 0; f && i < 50000; i++)
			fprintf(f, "R %x 8\n", 0x10000 + i * 8);
		_exit(!f || fclose(f) != 0);
	}
	assert_int_equal(trace_import(in_path, IMPORT_TEXT, out_path, NULL, &r, err, sizeof(err)), 0);
	assert_int_equal(r.refs, 50000);
	assert_int_equal(r.areas, 1);
}

static int clean(void **state)
{
	(void)state;
	unlink(in_path);
	unlink(out_path);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(lackey, clean, clean),
		cmocka_unit_test_setup_teardown(text, clean, clean),
		cmocka_unit_test_setup_teardown(many_instructions, clean, clean),
		cmocka_unit_test_setup_teardown(bad_lines, clean, clean),
		cmocka_unit_test_setup_teardown(long_and_empty, clean, clean),
		cmocka_unit_test_setup_teardown(areas_cover, clean, clean),
		cmocka_unit_test_setup_teardown(from_a_pipe, clean, clean),
	};

	temp_path(in_path, sizeof(in_path), "in.txt");
	temp_path(out_path, sizeof(out_path), "out.qtr");
	return test_run(tests);
}
