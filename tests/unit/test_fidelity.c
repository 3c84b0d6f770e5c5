/*
 * Fidelity: the scripts that ship, and made-up ones, on the kernel underneath and on the engine. Also that a difference would be found: what is
 * compared is changed on one side. Without /proc, or on a kernel older than the rules that the engine follows, the runs are skipped.
 */
#include "testing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "fidelity/compare.h"
#include "machine/null.h"
#include "script/kernel.h"
#include "script/run.h"

#define RANDOM_SCRIPTS 150
#define SECTION "\n#---"

struct fid_test {
	struct fidelity_kernel kernel;
	struct fidelity_options o;
	uint64_t steps, undeclared, scripts, skipped;
};

/* The merging rules are those since 6.16. */
static bool comparable(struct fid_test *t)
{
	char err[300] = "";

	memset(t, 0, sizeof(*t));
	if (fidelity_kernel_read(&t->kernel, err, sizeof(err))) {
		print_message("skipped: %s\n", err);
		return false;
	}
	if (t->kernel.version < 6016) {
		print_message("skipped: Linux %s is older than 6.16\n", t->kernel.release);
		return false;
	}
	if (null_create(&(struct null_options){ .node_bytes = 2ULL << 30 }, &t->o.machine, err, sizeof(err)))
		fail_msg("%s", err);
	t->o.kernel = &t->kernel;
	return true;
}

static void run_text(struct fid_test *t, const char *name, const char *text, size_t len)
{
	struct fidelity_result r;
	struct script *s;
	char err[500];

	if (script_parse(name, text, len, &s, err, sizeof(err)))
		fail_msg("%s", err);
	if (fidelity_run(s, &t->o, NULL, NULL, &r, err, sizeof(err)))
		fail_msg("%s: %s", name, err);
	script_free(s);
	t->scripts++;
	t->steps += r.steps;
	t->undeclared += r.undeclared;
	t->skipped += r.skipped;
	if (r.undeclared)
		print_message("%s, line %u: %s\n", name, r.first_line, r.diff.text);
}

static void shipped_scripts(void **state)
{
	struct fid_test t;

	(void)state;
	if (!comparable(&t))
		skip();
	for (const struct fidelity_file *f = fidelity_files; f->name; f++)
		for (const char *from = f->text, *next; *from; from = next) {
			next = strstr(from + 1, SECTION);
			next = next ? next + 1 : from + strlen(from);
			run_text(&t, f->name, from, (size_t)(next - from));
		}
	print_message("%lu scripts, %lu steps, %lu skipped\n", (unsigned long)t.scripts, (unsigned long)t.steps, (unsigned long)t.skipped);
	assert_int_equal(t.undeclared, 0);
	assert_true(t.steps >= 300 || t.skipped);
	null_destroy(t.o.machine);
}

static void random_scripts(void **state)
{
	struct fid_test t;

	(void)state;
	if (!comparable(&t))
		skip();
	for (uint64_t seed = 1; seed <= RANDOM_SCRIPTS; seed++) {
		char *text = NULL, name[32];
		size_t len = 0;
		FILE *f = open_memstream(&text, &len);

		assert_non_null(f);
		fidelity_random(seed, f);
		assert_int_equal(fclose(f), 0);
		snprintf(name, sizeof(name), "seed %lu", (unsigned long)seed);
		run_text(&t, name, text, len);
		free(text);
	}
	assert_int_equal(t.undeclared, 0);
	null_destroy(t.o.machine);
}

/* No call makes a file larger than the kernel's side allows: the script is skipped from there, on either kind of file. */
static void files_stay_small(void **state)
{
	static const char *const texts[] = {
		"file create F 1p shmem\nfile write F 0 65M 7\n", "file create F 1p plain\nfile write F 1G 8 7\n",
		"file create F 1p shmem\nA = mmap 1p at=ARENA flags=private,anon,fixed\npwrite F A 64M 1p\n", "file create F 1p shmem\nfile truncate F 65M\n",
	};
	struct fid_test t;

	(void)state;
	if (!comparable(&t))
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		run_text(&t, "files", texts[i], strlen(texts[i]));
	assert_int_equal(t.skipped, ARRAY_SIZE(texts));
	assert_int_equal(t.steps, ARRAY_SIZE(texts) + 1);
	null_destroy(t.o.machine);
}

/* Nor does one call bring in more than they may have together; what the address space has no room for is the kernel's to refuse. */
static void one_call_brings_in_little(void **state)
{
	static const char *const texts[] = {
		"mmap 2G at=ARENA flags=private,anon,populate,fixed\n", "mmap 2G at=ARENA flags=private,anon,locked,fixed\n",
		"mmap 2G at=ARENA flags=private,anon,noreserve,fixed\nmadvise ARENA 2G populate_write\n",
	};
	struct fid_test t;

	(void)state;
	if (!comparable(&t))
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		run_text(&t, "populate", texts[i], strlen(texts[i]));
	assert_int_equal(t.skipped, ARRAY_SIZE(texts));
	assert_int_equal(t.steps, 1);
	null_destroy(t.o.machine);
}

/* A call that touches much more than a script may have is ended on its way. First of the tests: it looks at the largest child so far. */
static void touching_stops_at_the_limit(void **state)
{
	static const char text[] = "A = mmap 400M at=ARENA flags=private,anon,noreserve,fixed\ntouch A..A+400M write\n";
	struct script_run_options o = { .ops = &script_kernel_ops };
	struct script_run_counts counts;
	struct rusage r;
	struct script *s;
	char err[500] = "";

	(void)state;
#if defined(__SANITIZE_THREAD__)
	skip(); /* as fidelity_kernel_read says */
#endif
	assert_int_equal(script_parse("t", text, strlen(text), &s, err, sizeof(err)), 0);
	assert_int_equal(script_kernel_create(&(struct script_kernel_options){ .rss_bytes = 64 << 20 }, &o.exec), 0);
	assert_int_equal(script_run_all(s, &o, &counts, err, sizeof(err)), -EOPNOTSUPP);
	assert_non_null(strstr(err, "more than 64 MiB in memory"));
	script_kernel_destroy(o.exec);
	script_free(s);
	assert_int_equal(getrusage(RUSAGE_CHILDREN, &r), 0);
	assert_in_range(r.ru_maxrss, 64 << 10, 240 << 10);
}

static bool has_write(void *arg, const struct script *s)
{
	size_t *calls = arg;

	++*calls;
	for (size_t i = 0; i < s->body.nr; i++)
		if (s->body.s[i]->kind == SSTMT_CALL && s->body.s[i]->op == SOP_WRITE)
			return true;
	return false;
}

static void shrinks_to_one_statement(void **state)
{
	static const char text[] = "mmap 1p at=ARENA\nread ARENA\nread ARENA\nwrite ARENA 1\nread ARENA\nmunmap ARENA 1p\nread ARENA\n";
	struct script *s, *small;
	size_t calls = 0;
	char err[300];

	(void)state;
	assert_int_equal(script_parse("t", text, strlen(text), &s, err, sizeof(err)), 0);
	assert_int_equal(fidelity_shrink(s, has_write, &calls, &small), 0);
	assert_int_equal(small->body.nr, 1);
	assert_int_equal(small->body.s[0]->op, SOP_WRITE);
	assert_true(calls < 40);
	script_free(small);
	script_free(s);
}

static void places_are_translated(void **state)
{
	const struct fidelity_places k = { .arena = 0x200000000000, .arena_len = 1 << 30, .heap = 0x555000000000, .top = 0x7fff00000000 };
	const struct fidelity_places e = { .arena = 0x100000000000, .arena_len = 1 << 30, .heap = 0x556000000000, .top = 0x7f0000000000 };

	(void)state;
	assert_true(fidelity_translate(&k, &e, 0x200000001000) == 0x100000001000);
	assert_true(fidelity_translate(&k, &e, 0x555000002000) == 0x556000002000);
	assert_true(fidelity_translate(&k, &e, 0x7ffeffffe000) == 0x7effffffe000);
	assert_true(fidelity_translate(&k, &e, 0x10000) == 0x10000);
}

/* Same address, other result; nothing in the table may know it. */
static void results_are_compared(void **state)
{
	const struct fidelity_kernel kernel = { .version = 6018 };
	const struct script_call call = { .op = SOP_MUNMAP };
	const struct script_result k = { .ret = -22 }, e = { .ret = 0 }, sig = { .ret = -22, .signal = 11, .count = 3 };
	struct fidelity_diffs diffs = { 0 };
	struct fidelity_compare c = { .about = { .kernel = &kernel, .call = &call, .k = &k, .e = &e }, .diffs = &diffs };

	(void)state;
	fidelity_compare_results(&c, &call, &k, &k);
	assert_int_equal(diffs.nr, 0);
	fidelity_compare_results(&c, &call, &k, &e);
	assert_int_equal(diffs.nr, 1);
	assert_int_equal(diffs.nr_undeclared, 1);
	assert_int_equal(diffs.v[0].kind, FID_RESULT);
	assert_string_equal(diffs.v[0].text, "Linux returned -EINVAL, quire 0");
	fidelity_compare_results(&c, &call, &k, &sig);
	assert_int_equal(diffs.nr_undeclared, 3);
}

static void every_declared_difference_has_a_reason(void **state)
{
	const struct fidelity_declared *d;

	(void)state;
	for (size_t i = 0; (d = fidelity_declared_at(i)); i++) {
		assert_true(strlen(d->name) > 3 && strlen(d->reason) > 20);
		assert_int_equal(fidelity_declared_index(d), i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(touching_stops_at_the_limit),
		cmocka_unit_test(shrinks_to_one_statement),
		cmocka_unit_test(places_are_translated),
		cmocka_unit_test(results_are_compared),
		cmocka_unit_test(every_declared_difference_has_a_reason),
		cmocka_unit_test(shipped_scripts),
		cmocka_unit_test(random_scripts),
		cmocka_unit_test(files_stay_small),
		cmocka_unit_test(one_call_brings_in_little),
	};

	return test_run(tests);
}
