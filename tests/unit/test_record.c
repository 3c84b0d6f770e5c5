/* The recorder on real programs: tests/record/subject.c in its modes, the shell, and what is no program. */
#define _GNU_SOURCE
#include "record_testing.h"

#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARK_BEGIN 0x1234567
#define MARK_END 0x7654321

struct run {
	struct rec_sink k;
	struct record_result r;
	char err[256];
	int e;
};

static char missing[256]; /* why nothing can be recorded here; "" when it can */

static void on_progress(void *arg, uint64_t refs, uint64_t ns, unsigned streams)
{
	struct rec_sink *k = arg;

	(void)refs;
	(void)ns;
	(void)streams;
	k->stop = k->marked;
}

static void run_with(struct run *t, struct record_options o, char *const argv[], bool stop)
{
	if (missing[0])
		skip();
	rec_init(&t->k);
	o.argv = argv;
	if (stop) {
		o.progress = on_progress;
		o.progress_arg = &t->k;
		o.stop = &t->k.stop;
	}
	t->e = record_run(&o, &t->k.sink, &t->r, t->err, sizeof(t->err));
	/* Nothing of it is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void check_common(struct run *t)
{
	uint64_t refs = 0, insns = 0;

	assert_string_equal(t->err, "");
	assert_int_equal(t->e, 0);
	assert_int_equal(t->r.streams, t->k.nr);
	assert_int_equal(t->r.lost, 0);
	for (size_t i = 0; i < t->k.nr; i++) {
		assert_true(t->k.s[i].ended);
		refs += t->k.s[i].refs;
		insns += t->k.s[i].insns;
	}
	assert_int_equal(refs, t->r.refs);
	/* Of a thread that was killed, the last reference may be counted and not written, or the other way round. */
	assert_in_range(t->r.insns + 64 * t->k.nr, insns, insns + 128 * t->k.nr);
	assert_int_equal(rec_undescribed(&t->k), 0);
}

static void run_mode(struct run *t, const char *mode)
{
	char *argv[] = { (char *)(uintptr_t)RECORD_SUBJECT, (char *)(uintptr_t)mode, NULL };

	run_with(t, (struct record_options){ 0 }, argv, false);
	check_common(t);
}

/* To just behind the W_SYSCALL of the marker. */
static bool find_mark(struct rec_pos *p, uint64_t mark)
{
	while (rec_next(p))
		if (rec_is(p, W_SYSCALL) && word_arg(p->w) == 121 && p->pay[1] == mark)
			return true;
	return false;
}

static void check_region(struct run *t)
{
	struct rec_pos p = rec_begin(&t->k.s[0]);
	uint64_t n = 0, insns = 0, base = 0;

	assert_true(find_mark(&p, MARK_BEGIN));
	while (rec_next(&p) && !(rec_is(&p, W_SYSCALL) && word_arg(p.w) == 121)) {
		if (rec_is(&p, W_INSNS))
			insns += word_arg(p.w);
		if (p.w & WORD_CONTROL)
			continue;
		base = n ? base : word_addr(p.w);
		assert_int_equal(word_addr(p.w), base + n / 3 * 8 + (n % 3 == 1 ? 4 : n % 3 == 2 ? 7 : 0));
		assert_int_equal(word_size(p.w), n % 3 == 0 ? 8 : n % 3 == 1 ? 4 : 1);
		assert_int_equal(!!(p.w & WORD_STORE), n % 3 == 1);
		assert_int_equal(word_insns(p.w), n == 0 || n % 3 ? 1 : 4);
		insns += word_insns(p.w);
		n++;
	}
	assert_int_equal(n, 3000);
	/* Six a round, then two to load registers and the call itself. */
	assert_int_equal(insns, 6000 + 3);
	assert_int_equal(p.pay[1], MARK_END);
}

static void test_exact_counts(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "region");
	check_region(&t);
	assert_int_equal(t.r.exit_status, 0);
	assert_int_equal(t.r.processes, 1);
	rec_free(&t.k);
}

/* A ring that is much shorter than the stream: waiting for room loses nothing. */
static void test_small_ring(void **state)
{
	char *argv[] = { (char *)(uintptr_t)RECORD_SUBJECT, (char[]){ "region" }, NULL };
	struct run t;

	(void)state;
	run_with(&t, (struct record_options){ .ring_bytes = 1 }, argv, false);
	check_common(&t);
	check_region(&t);
	rec_free(&t.k);
}

/* A count that does not fit into a reference's word goes into a word of its own, before it. */
static void test_long_gap(void **state)
{
	uint64_t n = 0, insns = 0, base = 0;
	struct rec_pos p;
	struct run t;

	(void)state;
	run_mode(&t, "long_gap");
	p = rec_begin(&t.k.s[0]);
	assert_true(find_mark(&p, MARK_BEGIN));
	while (n < 2 && rec_next(&p)) {
		if (rec_is(&p, W_INSNS))
			insns += word_arg(p.w);
		if (p.w & WORD_CONTROL)
			continue;
		base = n ? base : word_addr(p.w);
		assert_int_equal(word_addr(p.w), base + n * 8);
		assert_int_equal(word_size(p.w), 8);
		assert_false(p.w & WORD_STORE);
		insns = n++ ? insns + word_insns(p.w) : 0;
	}
	assert_int_equal(n, 2);
	assert_int_equal(insns, 2 * 5000 + 1);
	rec_free(&t.k);
}

static void test_kinds(void **state)
{
	uint64_t stores8 = 0, loads8 = 0, loads16 = 0, base = 0;
	struct rec_pos p;
	struct run t;

	(void)state;
	run_mode(&t, "kinds");
	p = rec_begin(&t.k.s[0]);
	assert_true(find_mark(&p, MARK_BEGIN));
	while (rec_next(&p) && !(rec_is(&p, W_SYSCALL) && p.pay[1] == MARK_END)) {
		if (p.w & WORD_CONTROL)
			continue;
		/* The first is the atomic add's load, whatever the compiler put on the stack before and after apart. */
		if (!base && word_size(p.w) == 8 && !(p.w & WORD_STORE) && !(word_addr(p.w) & 63))
			base = word_addr(p.w);
		if (!base || word_addr(p.w) - base >= 64)
			continue;
		loads8 += word_size(p.w) == 8 && !(p.w & WORD_STORE);
		stores8 += word_size(p.w) == 8 && p.w & WORD_STORE;
		loads16 += word_size(p.w) == 16;
	}
	/* The emulator may cut a 16-byte access into two of 8. */
	assert_int_equal(stores8, 1 + 8);
	assert_int_equal(loads8 + 2 * loads16, 1 + 2);
	rec_free(&t.k);
}

static void test_threads(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "threads");
	assert_int_equal(t.r.streams, 5);
	assert_int_equal(t.r.processes, 1);
	for (size_t i = 1; i < 5; i++) {
		assert_int_equal(t.k.s[i].how, THREAD_CLONE);
		assert_int_equal(t.k.s[i].parent, 0);
		assert_int_equal(t.k.s[i].exit_how, EXIT_THREAD);
		assert_true(t.k.s[i].refs >= 20000);
	}
	assert_int_equal(t.k.s[0].exit_how, EXIT_PROCESS);
	rec_free(&t.k);
}

static void test_exit_with_threads(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "exit_with_threads");
	assert_int_equal(t.r.exit_status, 7);
	assert_int_equal(t.r.streams, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(t.k.s[i].exit_how, EXIT_PROCESS);
		assert_int_equal(t.k.s[i].exit_status, 7);
	}
	rec_free(&t.k);
}

static void test_fork_tree(void **state)
{
	size_t of_first = 0;
	struct run t;

	(void)state;
	run_mode(&t, "fork_tree");
	assert_int_equal(t.r.exit_status, 0);
	assert_int_equal(t.r.processes, 4);
	for (size_t i = 1; i < t.k.nr; i++) {
		assert_int_equal(t.k.s[i].how, THREAD_FORK);
		of_first += t.k.s[i].parent == 0;
	}
	assert_int_equal(of_first, 1);
	rec_free(&t.k);
}

static void test_fork_100(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "fork_100");
	assert_int_equal(t.r.exit_status, 0);
	assert_int_equal(t.r.processes, 101);
	for (size_t i = 1; i < t.k.nr; i++) {
		assert_true(t.k.s[i].refs >= 256);
		assert_int_equal(t.k.s[i].exit_how, EXIT_PROCESS);
	}
	rec_free(&t.k);
}

static void test_exec_chain(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "exec_chain");
	assert_int_equal(t.r.exit_status, 5);
	assert_int_equal(t.r.processes, 1);
	assert_int_equal(t.r.streams, 3);
	assert_int_equal(t.r.execs, 2);
	for (size_t i = 1; i < 3; i++) {
		struct rec_pos p = rec_begin(&t.k.s[i]);

		assert_int_equal(t.k.s[i].how, THREAD_EXEC);
		assert_int_equal(t.k.s[i].parent, i - 1);
		assert_int_equal(t.k.s[i].pid, t.k.s[0].pid);
		assert_int_equal(t.k.s[i - 1].exit_how, EXIT_EXEC);
		assert_true(rec_next(&p) && rec_next(&p) && rec_is(&p, W_EXEC));
		assert_true(rec_next(&p) && rec_is(&p, W_NAME));
		assert_memory_equal(p.pay, RECORD_SUBJECT, strlen(RECORD_SUBJECT));
		assert_true(rec_next(&p) && rec_is(&p, W_AREA));
	}
	rec_free(&t.k);
}

static void test_exec_beside_threads(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "exec_beside_threads");
	assert_int_equal(t.r.exit_status, 9);
	assert_int_equal(t.r.streams, 4);
	assert_int_equal(t.k.s[0].exit_how, EXIT_EXEC);
	assert_int_equal(t.k.s[1].exit_how, EXIT_THREAD);
	assert_int_equal(t.k.s[2].exit_how, EXIT_THREAD);
	assert_int_equal(t.k.s[3].how, THREAD_EXEC);
	rec_free(&t.k);
}

static void test_names_and_environment(void **state)
{
	struct run t;

	(void)state;
	setenv("RECORD_TEST", "1", 1);
	setenv("LD_RECORD_TEST", "1", 1);
	run_mode(&t, "rename");
	unsetenv("LD_RECORD_TEST");
	assert_int_equal(t.r.exit_status, 0);
	rec_free(&t.k);
}

static void test_spawn(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "spawn");
	assert_int_equal(t.r.exit_status, 0);
	assert_int_equal(t.r.streams, 3);
	assert_int_equal(t.k.s[1].how, THREAD_VFORK);
	assert_int_equal(t.k.s[2].how, THREAD_EXEC);
	assert_int_equal(t.k.s[2].exit_status, 9);
	rec_free(&t.k);
}

static void test_segv(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "segv");
	assert_int_equal(t.r.exit_status, -1);
	assert_int_equal(t.r.signal, SIGSEGV);
	assert_int_equal(t.k.s[0].exit_how, EXIT_SIGNAL);
	assert_int_equal(t.k.s[0].exit_status, SIGSEGV);
	rec_free(&t.k);
}

static void test_maps(void **state)
{
	bool file = false;
	struct rec_pos p;
	struct run t;

	(void)state;
	run_mode(&t, "maps");
	assert_int_equal(t.r.exit_status, 0);
	p = rec_begin(&t.k.s[0]);
	while (rec_next(&p)) {
		struct stat st;

		if (rec_is(&p, W_FILE) && stat(RECORD_SUBJECT, &st) == 0 && p.pay[1] == st.st_ino && p.pay[0] == st.st_dev)
			file = p.pay[2] == (uint64_t)st.st_size && p.pay[3] == 0 && p.pay[4] == FILE_REGULAR;
	}
	assert_true(file);
	rec_free(&t.k);
}

static void test_buffers(void **state)
{
	static const uint64_t want[][3] = {
		{ 1, 1 << 20, 0 },
		{ 1, 100, 1 << 20 }, { 1, 5000, (1 << 20) + 8192 }, /* readv */
		{ 0, 100, 1 << 20 }, { 0, 5000, (1 << 20) + 8192 }, /* writev */
		{ 1, 8, 0 }, { 0, 150, 0 },                         /* pipe, which is elsewhere; write */
		{ 1, 100, 1 << 20 }, { 1, 50, (1 << 20) + 8192 },   /* readv of fewer bytes */
	};
	uint64_t base = 0;
	size_t n = 0;
	struct rec_pos p;
	struct run t;

	(void)state;
	run_mode(&t, "buffers");
	assert_int_equal(t.r.exit_status, 0);
	p = rec_begin(&t.k.s[0]);
	while (rec_next(&p) && n < ARRAY_SIZE(want)) {
		if (!rec_is(&p, W_BUFFER) || (!n && p.pay[1] != 1 << 20))
			continue;
		base = n ? base : p.pay[0];
		assert_int_equal(word_arg(p.w), want[n][0]);
		assert_int_equal(p.pay[1], want[n][1]);
		if (want[n][1] != 8)
			assert_int_equal(p.pay[0] - base, want[n][2]);
		n++;
	}
	assert_int_equal(n, ARRAY_SIZE(want));
	rec_free(&t.k);
}

static void test_daemon(void **state)
{
	struct rec_pos p;
	struct run t;

	(void)state;
	run_mode(&t, "daemon");
	assert_int_equal(t.r.exit_status, 0);
	assert_int_equal(t.r.processes, 3);
	p = rec_begin(&t.k.s[2]);
	assert_true(find_mark(&p, MARK_BEGIN));
	rec_free(&t.k);
}

static void test_handlers(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "handlers");
	assert_int_equal(t.r.exit_status, 0);
	rec_free(&t.k);
}

/* QEMU 7.2 aborts the child, or leaves it hanging: the recording ends either way, says so and keeps what there is. */
static void test_fork_beside_threads(void **state)
{
	struct run t;

	(void)state;
	run_mode(&t, "fork_beside_threads");
	assert_int_equal(t.r.exit_status, 0);
	assert_non_null(strstr(t.r.note, "QEMU 7.2"));
	rec_free(&t.k);
}

static void test_bare(void **state)
{
	char *argv[] = { (char *)(uintptr_t)RECORD_BARE, NULL };
	unsigned stacks = 0, exe = 0;
	struct rec_pos p;
	struct run t;

	(void)state;
	run_with(&t, (struct record_options){ 0 }, argv, false);
	check_common(&t);
	assert_int_equal(t.r.exit_status, 3);
	assert_int_equal(t.r.refs, 0);
	assert_int_equal(t.r.insns, 3);
	p = rec_begin(&t.k.s[0]);
	while (rec_next(&p)) {
		stacks += rec_is(&p, W_AREA) && word_arg(p.w) == AREA_STACK;
		exe += rec_is(&p, W_AREA) && word_arg(p.w) == AREA_EXE;
	}
	assert_int_equal(stacks, 1);
	assert_true(exe > 0);
	rec_free(&t.k);
}

static void test_shell(void **state)
{
	char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" },
			 (char[]){ "echo 3 1 2 | tr ' ' '\\n' | sort -n | { read x; exit $((x + 40)); }" }, NULL };
	struct run t;

	(void)state;
	run_with(&t, (struct record_options){ 0 }, argv, false);
	check_common(&t);
	assert_int_equal(t.r.exit_status, 41);
	assert_true(t.r.processes >= 4);
	rec_free(&t.k);
}

static void write_file(char *path, const void *data, size_t len, mode_t mode)
{
	int fd;

	strcpy(path, "/tmp/quire-test-record-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	fchmod(fd, mode);
	close(fd);
}

static void test_script(void **state)
{
	static const char text[] = "#! " RECORD_SUBJECT " status_9 \n";
	char path[64], *argv[] = { path, NULL };
	struct run t;

	(void)state;
	write_file(path, text, sizeof(text) - 1, 0755);
	run_with(&t, (struct record_options){ 0 }, argv, false);
	unlink(path);
	check_common(&t);
	assert_int_equal(t.r.exit_status, 9);
	rec_free(&t.k);
}

static void refused(const char *path, int error, const char *text)
{
	char name[256], *argv[] = { name, NULL };
	struct run t;

	snprintf(name, sizeof(name), "%s", path);
	run_with(&t, (struct record_options){ 0 }, argv, false);
	assert_int_equal(t.e, error);
	assert_non_null(strstr(t.err, text));
	assert_null(strchr(t.err, '\n'));
	assert_int_equal(t.k.nr, 0);
	rec_free(&t.k);
}

static void test_refused(void **state)
{
	unsigned char elf[64] = { 0x7f, 'E', 'L', 'F', 1, 1, 1 };
	char path[64];

	(void)state;
	refused("/nowhere/at/all", -ENOENT, "no such program");
	refused("no-such-program-anywhere", -ENOENT, "no such program");
	refused("/etc/passwd", -EACCES, "not executable");
	refused("/tmp", -EACCES, "not executable");
	write_file(path, elf, sizeof(elf), 0755);
	refused(path, -ENOEXEC, "32-bit");
	unlink(path);
	elf[4] = 2;
	elf[16] = 2;
	elf[18] = 183;
	write_file(path, elf, sizeof(elf), 0755);
	refused(path, -ENOEXEC, "another processor");
	unlink(path);
	write_file(path, "hello", 5, 0755);
	refused(path, -ENOEXEC, "neither a program nor a script");
	unlink(path);
	write_file(path, "#!/nowhere/at/all\n", 18, 0755);
	refused(path, -ENOENT, "/nowhere/at/all");
	unlink(path);
}

/* SIGINT is enough for a program that listens; one that does not, and its child, are killed in the end. */
static void test_stop(void **state)
{
	char *polite[] = { (char *)(uintptr_t)RECORD_SUBJECT, (char[]){ "interrupted" }, NULL };
	char *deaf[] = { (char *)(uintptr_t)RECORD_SUBJECT, (char[]){ "forever" }, NULL };
	struct run t;

	(void)state;
	run_with(&t, (struct record_options){ 0 }, polite, true);
	check_common(&t);
	assert_true(t.r.stopped);
	/* Where a terminal stands behind the test, it would have sent the signal. */
	assert_true(t.r.exit_status == 4 || t.r.signal == SIGTERM);
	rec_free(&t.k);
	run_with(&t, (struct record_options){ .max_bytes = 1 << 20 }, deaf, false);
	assert_int_equal(t.e, 0);
	assert_true(t.r.stopped);
	assert_int_equal(t.r.signal, SIGKILL);
	assert_int_equal(t.r.processes, 2);
	assert_non_null(strstr(t.r.note, "limit"));
	assert_int_equal(t.k.s[0].exit_how, EXIT_SIGNAL);
	rec_free(&t.k);
}

static int refuse_block(struct trace_sink *s, uint32_t stream, const uint64_t *words, size_t nr)
{
	struct rec_sink *k = container_of(s, struct rec_sink, sink);

	(void)stream;
	(void)words;
	(void)nr;
	return ++k->blocks > 2 ? -ENOSPC : 0;
}

static void test_sink_fails(void **state)
{
	char *argv[] = { (char *)(uintptr_t)RECORD_SUBJECT, (char[]){ "exit_with_threads" }, NULL };
	struct record_options o = { .argv = argv };
	struct record_result r;
	struct rec_sink k;
	char err[128];

	(void)state;
	if (missing[0])
		skip();
	rec_init(&k);
	k.sink.block = refuse_block;
	assert_int_equal(record_run(&o, &k.sink, &r, err, sizeof(err)), -ENOSPC);
	assert_non_null(strstr(err, "could not be written"));
	assert_int_equal(k.blocks, 3);
	rec_free(&k);
}

static void test_missing_parts(void **state)
{
	char *argv[] = { (char *)(uintptr_t)RECORD_SUBJECT, NULL };
	struct run t;

	(void)state;
	run_with(&t, (struct record_options){ .qemu = "/nowhere/qemu-x86_64" }, argv, false);
	assert_int_equal(t.e, -ENOENT);
	assert_non_null(strstr(t.err, "apt install qemu-user"));
	rec_free(&t.k);
	run_with(&t, (struct record_options){ .qemu = "/bin/true" }, argv, false);
	assert_int_equal(t.e, -ENOEXEC);
	rec_free(&t.k);
	run_with(&t, (struct record_options){ .plugin = "/nowhere/plugin.so" }, argv, false);
	assert_int_equal(t.e, -ENOENT);
	rec_free(&t.k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_exact_counts),
		cmocka_unit_test(test_small_ring),
		cmocka_unit_test(test_long_gap),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_exit_with_threads),
		cmocka_unit_test(test_fork_tree),
		cmocka_unit_test(test_fork_100),
		cmocka_unit_test(test_exec_chain),
		cmocka_unit_test(test_exec_beside_threads),
		cmocka_unit_test(test_names_and_environment),
		cmocka_unit_test(test_spawn),
		cmocka_unit_test(test_segv),
		cmocka_unit_test(test_maps),
		cmocka_unit_test(test_buffers),
		cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_handlers),
		cmocka_unit_test(test_fork_beside_threads),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_shell),
		cmocka_unit_test(test_script),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_sink_fails),
		cmocka_unit_test(test_missing_parts),
	};

	if (record_check(missing, sizeof(missing)) == 0)
		missing[0] = '\0';
	else
		printf("skipped: %s\n", missing);
	return test_run(tests);
}
