/*
 * Scripts: parsing and printing, errors with their place, running, and the executor on the engine, which must see the same on every
 * machine.
 */
#include "tiny_machine.h"

#include "machine/host/host.h"
#include "machine/null.h"
#include "machine/run.h"
#include "mm/smaps.h"
#include "script/engine.h"
#include "script/run.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#define MIB (1ULL << 20)

static struct script *parse(const char *text)
{
	struct script *s;
	char err[800] = "";

	if (script_parse("t", text, strlen(text), &s, err, sizeof(err)))
		fail_msg("%s", err);
	return s;
}

static char *printed(const struct script *s)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	script_print(s, f);
	fclose(f);
	return text;
}

/* ---- the language ---- */

static const char everything[] =
	"# comment\n"
	"title \"all of it\"; source \"here\"\n"
	"pending \"why not\"\n"
	"machine tiny-1\n"
	"variant one { set transparent_hugepage.enabled always }\n"
	"variant two {\n set quire.huge_cow split\n set vm.max_map_count 100 ; }\n"
	"set vm.overcommit_memory 1\n"
	"A = mmap 64M+1p*2 flags=private,anon,noreserve prot=rw align=2M at=ARENA\n"
	"for i in 0..9 {\n"
	"  B[i+1] = mmap 2M flags=private,anon,huge_2m,0x400000; write B[i+1]+4096 0xfff\n"
	"  if i % 2 == 0 && !(i == 4) || i > 8 { touch B[i+1] read } else { munmap B[i+1] 4096 }\n"
	"}\n"
	"munmap A+1 4096 -> EINVAL\n"
	"touch A+0..A+64M step 2M write\n"
	"touch A..A+(64M-1)/2 read -> SIGBUS\n"
	"fill A..A+3p step 1p, -7\n"
	"file create F 1M shmem\nfile create G 10000\n"
	"C = mmap 1M file=F flags=shared off=4p\n"
	"mprotect C 4096 r+growsdown -> any\nmprotect C 4096 none\nmprotect C 4096 rwx\nmprotect C 4096 0x100 -> EINVAL\n"
	"D = mremap C 4096, 8192 flags=maymove,fixed to=ARENA+1G\n"
	"pread F A 0 8192\npwrite F A 0 8192\nfile write F 0 4096 5\nfile read F 0 4096\nfile truncate F 0\nfile close F\n"
	"fork kid\nproc kid: thread T cpu=1\nproc kid {\n thread T: touch A read\n exit\n}\nwait kid\n"
	"mlock A 1\nmlock2 A 1 onfault\nmlock2 A 1 none\nmunlock A 1\nmlockall current,future,onfault\nmunlockall\n"
	"mbind A 4096 bind nodes=0,3 flags=move\nset_mempolicy interleave nodes=0,1\nN = move_pages A 4096, -1\n"
	"madvise A 2M collapse\nmadvise A 2M 77 -> EINVAL\nmsync A 0 sync,invalidate\nprctl thp_disable 1\n"
	"R = brk 0\nS = sbrk -4096\nV = read A\ncpu 3\nsleep 10\n"
	"pin P A 4096 write\nunpin P\n"
	"x = (1+2)*3-(4-5)-6\ny = -x\nz = (x == 3) == (y < 2)\n"
	"mark\n"
	"expect x-1 == 3 && vmstat.pgfault >= 0\nexpect[two] smaps.AnonHugePages(A) != mincore(A, 4096)*2\n"
	"expect approx rss 200M 5%\nexpect rss ~= (-3) 0%\n"
	"report faults vmstat.pgfault/2 pages\nreport \"a b\" 5 \"%\"\n";

static void round_trip(void **state)
{
	struct script *s = parse(everything), *again;
	char *first = printed(s), *second;

	(void)state;
	assert_string_equal(s->title, "all of it");
	assert_string_equal(s->machine, "tiny-1");
	assert_int_equal(s->nr_variants, 2);
	again = parse(first);
	second = printed(again);
	assert_string_equal(first, second);
	assert_int_equal(s->nr_stmts, again->nr_stmts);
	/* Nothing was lost on the way: a few lines as they must be. */
	assert_non_null(strstr(first, "A = mmap 64M+1p*2 prot=rw flags=private,anon,noreserve at=ARENA align=2M\n"));
	assert_non_null(strstr(first, "\tB[i+1] = mmap 2M flags=private,anon,huge_2m,0x400000\n"));
	assert_non_null(strstr(first, "touch A..A+(64M-1)/2 read -> SIGBUS\n"));
	assert_non_null(strstr(first, "x = (1+2)*3-(4-5)-6\n"));
	assert_non_null(strstr(first, "z = (x == 3) == (y < 2)\n"));
	assert_non_null(strstr(first, "fill A..A+3p step 1p (-7)\n"));
	free(first);
	free(second);
	script_free(s);
	script_free(again);
}

static void removing(void **state)
{
	struct script *s = parse("A = mmap 1\nfor i in 0..1 {\n\tread A\n\twrite A 1\n}\n"), *copy;
	char *text;

	(void)state;
	script_block_remove(&s->body.s[1]->body, 0);
	copy = script_copy(s);
	assert_non_null(copy);
	script_block_remove(&s->body, 0);
	text = printed(s);
	assert_string_equal(text, "for i in 0..1 {\n\twrite A 1\n}\n");
	free(text);
	text = printed(copy);
	assert_string_equal(text, "A = mmap 1\nfor i in 0..1 {\n\twrite A 1\n}\n");
	free(text);
	script_free(s);
	script_free(copy);
}

static void bad(const char *text, size_t len, const char *want)
{
	struct script *s;
	char err[800] = "";

	assert_int_equal(script_parse("f.q", text, len, &s, err, sizeof(err)), -EINVAL);
	assert_null(s);
	if (strncmp(err, want, strlen(want)))
		fail_msg("%s: got %s, want %s", text, err, want);
	assert_null(strchr(err, '\n'));
}

static void places(void **state)
{
	static const struct {
		const char *text, *want;
	} t[] = {
		{ "\n\n  zap A", "f.q:3:3: 'zap' begins no statement" },
		{ "munmap 1", "f.q:1:9: a parameter is missing: munmap ADDR LEN" },
		{ "munmap 1 2 3", "f.q:1:12: too much: munmap ADDR LEN" },
		{ "mmap 4096 flags=foo", "f.q:1:17: 'foo' is none of: none, shared, private" },
		{ "mmap 4096 prot=rwz", "f.q:1:16: rights are none, or letters of r, w and x" },
		{ "mmap 1 at=1 at=2", "f.q:1:13: at= is given twice" },
		{ "madvise 1 2 zap", "f.q:1:13: 'zap' is none of: normal, random" },
		{ "munmap 1 2 -> EFOO", "f.q:1:15: an error (EINVAL" },
		{ "touch A..", "f.q:1:10: a number, a name or '('" },
		{ "for i in 0..3 {\nmark\n", "f.q:3:1: '}' is missing" },
		{ "mark }", "f.q:1:6: a statement is missing, found '}'" },
		{ "title \"x", "f.q:1:7: the string does not end" },
		{ "title a\ntitle b", "f.q:2:1: title is given twice" },
		{ "x = 99999999999999999999", "f.q:1:5: the number is too large" },
		{ "x = 9999999999G", "f.q:1:5: the number is too large" },
		{ "x = 12Q", "f.q:1:5: a number is written" },
		{ "read = mmap 1", "f.q:1:6: a number, a name or '('" },
		{ "errno = 1", "f.q:1:1: 'errno' is a word of the language" },
		{ "fork mmap", "f.q:1:6: 'mmap' is a word of the language" },
		{ "x = fork c", "f.q:1:5: fork gives nothing" },
		{ "file erase F", "f.q:1:6: after file comes one of: create, truncate, read, write, close" },
		{ "expect[no] 1", "f.q:1:8: there is no variant 'no'" },
		{ "variant a { }\nvariant a { }", "f.q:2:9: there is a variant 'a' already" },
		{ "variant a { mark }", "f.q:1:13: set or '}' is missing" },
		{ "set x", "f.q:1:6: the setting's value is missing" },
		{ "expect approx 1 2", "f.q:1:18: a tolerance (5%) is missing" },
		{ "x = 1 == 2 == 3", "f.q:1:12: the end of the statement is missing" },
		{ "x = \x80", "f.q:1:5: a byte of value 128" },
	};
	char deep[600] = "x = ";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		bad(t[i].text, strlen(t[i].text), t[i].want);
	bad("x = 1\0", 6, "f.q:1:6: a byte of value 0");
	memset(deep + 4, '(', 500);
	bad(deep, strlen(deep), "f.q:1:69: the expression is too deep, at most 64");
	memset(deep + 4, '-', 500);
	bad(deep, strlen(deep), "f.q:1:68: the expression is too deep, at most 64");
	for (size_t i = 4; i < 500; i += 2)
		memcpy(deep + i, "1+", 2);
	bad(deep, strlen(deep), "f.q:1:134: the expression is too long, at most 64");
	for (size_t i = 0; i < 480; i += 5)
		memcpy(deep + i, "if 1{", 5);
	bad(deep, 480, "f.q:1:85: blocks are too deep, at most 16");
}

/* ---- running ---- */

enum machine_kind { ON_NULL, ON_MODEL, ON_HOST, NR_KINDS };

static struct machine *make(enum machine_kind kind)
{
	struct machine *m = NULL;
	char err[200] = "";
	int rc = 0;

	if (kind == ON_MODEL)
		return tiny_machine(1, 4);
	if (kind == ON_NULL)
		rc = null_create(&(struct null_options){ .nr_cpus = 4, .node_bytes = 256 * MIB }, &m, err, sizeof(err));
	else
		rc = host_create(&(struct host_options){ .memory = 256 * MIB, .nr_cpus = 4, .nr_nodes = 1 }, &m, err, sizeof(err));
	if (rc)
		fail_msg("%s", err);
	return m;
}

static void on_expect(void *arg, const struct script_stmt *st, bool ok, const char *text, int64_t left, int64_t right)
{
	(void)arg;
	if (!ok)
		print_error("line %u: %s: %" PRId64 " and %" PRId64 "\n", st->line, text, left, right);
}

/* The whole script; rc of the end of it. */
static int run(enum machine_kind kind, const char *text, const char *variant, struct script_run_counts *counts, char *err, size_t errlen)
{
	struct machine *m = make(kind);
	struct script *s = parse(text);
	struct script_exec *x;
	struct script_run_options o = { .ops = &script_engine_ops, .variant = variant, .on_expect = on_expect };
	int rc;

	assert_int_equal(script_engine_create(&(struct script_engine_options){ .machine = m, .validate = true }, &x), 0);
	o.exec = x;
	rc = script_run_all(s, &o, counts, err, errlen);
	script_engine_destroy(x);
	script_free(s);
	machine_destroy(m);
	return rc;
}

static void runs_at(const char *text, const char *variant, const char *file, int line)
{
	struct script_run_counts c;
	char err[500] = "";

	for (int k = 0; k < NR_KINDS; k++) {
		if (run((enum machine_kind)k, text, variant, &c, err, sizeof(err)))
			fail_msg("%s:%d: machine %d: %s", file, line, k, err);
		if (c.failed)
			fail_msg("%s:%d: machine %d: %" PRIu64 " of %" PRIu64 " expectations failed", file, line, k, c.failed, c.expects);
	}
}
#define runs(text) runs_at(text, NULL, __FILE__, __LINE__)

static void fails(const char *text, int want_rc, const char *want)
{
	struct script_run_counts c;
	char err[500] = "";
	int rc = run(ON_NULL, text, NULL, &c, err, sizeof(err));

	if (rc != want_rc || strncmp(err, want, strlen(want)))
		fail_msg("%s: got %d %s, want %d %s", text, rc, err, want_rc, want);
}

static void expressions(void **state)
{
	(void)state;
	runs("x = 2 + 3*4 - 10/3 % 2\nexpect x == 13\nexpect -x == -13 && !0 && !(x < 13) && x <= 13 && x > 12 && x >= 13 && x != 14\n"
	     "expect 2K == 2048 && 1p == 4096 && 0x10 == 16 && 1M == 1024K\n"
	     "s = 0\nfor i in 1..10 { s = s + i; a[i] = s }\nexpect s == 55\nexpect a[4] == 10\n"
	     "for i in 3..2 { s = 0 }\nexpect s == 55\n"
	     "if s == 55 { s = 1 } else { s = 2 }\nexpect s == 1\nif 0 { s = 5 }\nexpect s == 1\n"
	     "expect 1 || nothing\nexpect !(0 && nothing)\n"
	     "expect approx 104 100 4%\nexpect approx -96 (-100) 4%\nexpect !(result < 0)");
	fails("x = 1\n y = x/(x-1)", -EINVAL, "t:2:10: division by zero");
	fails("x = 0x7fffffffffffffff + 1", -EOVERFLOW, "t:1:24: the result does not fit");
	fails("x = y", -EINVAL, "t:1:5: y: no such name; the engine has rss");
	fails("x = vmstat.zap", -EINVAL, "t:1:5: vmstat.zap: no such name");
	fails("x = smaps.Rss(1, 2)", -EINVAL, "t:1:5: smaps.Rss: is used as");
	fails("a[1] = 1\nx = a[2]", -EINVAL, "t:2:5: a[2] has no value yet");
	fails("x[-1] = 3", -EINVAL, "t:1:3: index -1: from 0 to");
	fails("munmap F 4096", -EINVAL, "t:1:8: F: no such name");
	fails("file create F 1\nmunmap F 4096", -EINVAL, "t:2:8: F is a file, not a number");
	fails("file read F 0 0", -EINVAL, "t:1:11: F is nothing here, not a file");
	fails("for i in 0..1000000000 { x = i }", -EINVAL, "t:1:26: more than 268435456 statements");
}

static void failing_calls(void **state)
{
	(void)state;
	fails("A = mmap 4096\nmunmap A+1 4096", -EBADMSG, "t:2:1: munmap A+0x1 4096: EINVAL, expected no error");
	fails("munmap 0 4096 -> EINVAL", -EBADMSG, "t:1:1: munmap 0x0 4096: no error, expected EINVAL");
	fails("touch 0 write", -EBADMSG, "t:1:1: touch 0x0 write: SIGSEGV, expected no error");
	fails("touch 0..1G step 1 write", -EINVAL, "t:1:18: more than 67108864 accesses");
	fails("touch 4096..0 read", -EINVAL, "t:1:13: the range ends before it begins");
	fails("exit", -EINVAL, "t:1:1: the first process ends");
	fails("fork c\nwait c", -EINVAL, "t:2:6: c has not ended");
	fails("fork c\nproc c: exit\nproc c: touch 0 read", -EINVAL, "t:3:6: c has ended");
	fails("pread F 1 0 8", -EINVAL, "t:1:7: F is nothing");
	fails("file create F 4096\npread F 1 0 8", -EINVAL, "t:2:1: copy of 8: address, offset and length");
	fails("mbind 0 4096 bind nodes=0", -EOPNOTSUPP, "t:1:1: the engine has no memory policies");
	fails("for i in 0..1000000 {\n A[i] = i\n B[i] = i\n C[i] = i\n D[i] = i\n E[i] = i\n}", -EINVAL, "t:5:2: more than 4194304 names");
	runs("sbrk 0x7fffffffffffffff -> ENOMEM");
	fails("cpu 99", -EOPNOTSUPP, "t:1:1: this machine has no CPU 99");
	fails("set vm.zap 1", -EINVAL, "t:1:1: there is no setting vm.zap");
	fails("set vm.overcommit_memory 17", -EINVAL, "t:1:1: vm.overcommit_memory: 17 is not allowed");
}

/* What the calls do is other tests' business; here, that each arrives with its parameters and gives what it must. */
static void calls(void **state)
{
	(void)state;
	runs("set transparent_hugepage.enabled never\n"
	     "A = mmap 64K\nexpect result == A\nexpect areas == 1\n"
	     "touch A..A+64K write\nexpect count == 16\nexpect rss == 64K && phys == 64K\nexpect vmstat.pgfault == 16\n"
	     "expect faults.base == 16 && faults.all == 16\nmark\nexpect faults.base == 0\n"
	     "munmap A+1 4096 -> EINVAL\nexpect errno == 22\n"
	     "munmap A+4K 4K\nexpect areas == 2\nexpect mincore(A, 4K) == 1\nexpect mincore(A, 64K) == -12\nn = mincore A+8K 8K\nexpect n == 2\n"
	     "touch A..A+64K read -> SIGSEGV\nexpect count == 1\nexpect signal == 11\n"
	     "write A 0x1234\nv = read A\nexpect v == 0x1234\nexpect value == 0x1234\ntouch A write\nw = read A+8\nexpect w == v\n"
	     "fill A+8K..A+16K 7\nv = read A+8K\nexpect v == 7\nv = read A+12K\nexpect v == 8\n"
	     "madvise A 4K dontneed\nv = read A\nexpect v == 0\ntouch A write\nv = read A\nexpect v == 0\n"
	     "mprotect A 4K r\ntouch A write -> SIGSEGV\nexpect smaps.Rss(A) == 4K\nexpect smaps.Private_Dirty == 60K\n"
	     "B = mremap A+8K 8K 1M flags=maymove\nv = read B+4K\nexpect v == 8\n"
	     "mlock A+16K 8K\nexpect locked == 8K\nexpect smaps.Locked == 8K\nmunlockall\nexpect locked == 0\n"
	     "S = sbrk 8192\ntouch S..S+8192 write\nT = brk 0\nexpect T == S+8192\nsbrk -8192\nexpect result == T\n"
	     "mmap 4K flags=anon -> EINVAL\n"
	     "C = mmap 3M align=2M\nexpect C % 2M == 0\nD = mmap 4K at=ARENA flags=private,anon,fixed\nexpect D == ARENA\n"
	     "E = mmap 4K at=ARENA flags=private,anon,fixed_noreplace -> EEXIST\n"
	     "pin P C 8K write\nexpect pages.present(C, 3M) == 2\nunpin P\nsleep 3\nexpect time_ns >= 0\nprctl thp_disable 1");
}

static void files(void **state)
{
	(void)state;
	runs("file create F 10000\nA = mmap 3p file=F\nB = mmap 3p file=F flags=shared\n"
	     "v = read A\nw = read B\nexpect v == w && v != 0\nexpect smaps.Rss(A) > 0\n"
	     "write A 5\nw = read B\nexpect w == v\nwrite B 6\nw = read A\nexpect w == 5\n"
	     "M = mmap 3p\npread F M 0 1p\nexpect result == 4096\nw = read M\nexpect w == 6\n"
	     "pread F M+1p 8192 8192\nexpect result == 10000-8192\n"
	     "write M+2p 77\npwrite F M+2p 4096 4096\nw = read B+1p\nexpect w == 77\nfile write F 8 4088 9\nw = read B\nexpect w == 6\n"
	     "pread F 4096 0 4096 -> EFAULT\nread A+3p -> SIGSEGV\nfile truncate F 4096\nread B+1p -> SIGBUS\nexpect signal == 7\n"
	     "read A+1p -> SIGBUS\nw = read A\nexpect w == 5\nfile write F 12288 4096 3\nfile read F 0 100000\nexpect result == 16384\n"
	     "file close F\nfile close F -> EBADF\nmmap 4096 file=F -> EBADF\nw = read B\nexpect w == 6\n"
	     "file create S 1M shmem\nC = mmap 1M file=S flags=shared\nw = read C\nexpect w == 0\nexpect rss.shmem > 0");
	/* A table that fork shared maps what goes, in both processes. */
	runs("set quire.fork_tables shared\nfile create F 2M\nA = mmap 2M at=ARENA flags=private,fixed file=F\ntouch A..A+2M write\nfork P\n"
	     "expect vmstat.quire_fork_table_shared == 1\nfile truncate F 4p\nread A+100p -> SIGBUS\nread A+3p\nproc P {\n read A+100p -> SIGBUS\n read A+3p\n}");
}

/* The first contents of an ordinary file are those that any executor can compute. */
static void file_values(void **state)
{
	char text[400];

	(void)state;
	snprintf(text, sizeof(text),
		 "file create F 4096\nfile create G 8192\nA = mmap 8192 file=G\nv = read A+4096\nexpect v == 0x%" PRIx64 "\n", script_file_value(1, 1));
	runs(text);
}

static void processes(void **state)
{
	(void)state;
	runs("set transparent_hugepage.enabled never\n"
	     "A = mmap 64K\nfill A..A+64K 100\nfork c\nexpect smaps.Pss == 32K && smaps.Shared_Dirty == 64K\n"
	     "proc c { v = read A; expect v == 100; write A 5; fork d; exit }\nv = read A\nexpect v == 100\n"
	     "proc d: v = read A\nexpect v == 5\nproc main: write A 6\nwait c\nwait c -> ECHILD\nwait d -> ECHILD\n"
	     "for i in 0..3 { fork e[i] }\nproc e[2]: v = read A\nexpect v == 6\nproc e[3]: munmap A 64K\n"
	     "proc e[3]: read A -> SIGSEGV\nexpect rss == 64K\nthread T cpu=1\nthread T: write A 9\nthread T { cpu 2; munmap A+4K 4K }\n"
	     "v = read A\nexpect v == 9\nread A+4K -> SIGSEGV\nfork f\nproc f { thread U cpu=3; thread U: write A 1; v = read A; expect v == 1 }");
}

/* The lines of smaps against what Linux's documentation says of them. */
static void smaps(void **state)
{
	(void)state;
	runs("set transparent_hugepage.enabled madvise\n"
	     "A = mmap 64K\ntouch A..A+32K read\nexpect smaps.Rss(A) == 0 && rss == 0\n"
	     "touch A..A+32K write\nexpect smaps.Rss(A) == 32K && smaps.Anonymous(A) == 32K && smaps.Referenced(A) == 32K\n"
	     "expect smaps.Private_Dirty(A) == 32K && smaps.Private_Clean(A) == 0 && smaps.Pss(A) == 32K && smaps.Pss_Dirty(A) == 32K\n"
	     "madvise A 8K free\nexpect smaps.LazyFree(A) == 8K && smaps.Rss(A) == 32K && smaps.Referenced(A) == 24K\n"
	     "expect smaps.Private_Clean(A) == 8K && smaps.Private_Dirty(A) == 24K\ntouch A write\nexpect smaps.LazyFree(A) == 4K\n"
	     "fork p\nfork q\nexpect smaps.Pss(A) == 8*(4096/3) + 2 && smaps.Rss(A) == 32K && smaps.Shared_Dirty(A) == 28K\n"
	     "expect smaps.Shared_Clean(A) == 4K && smaps.Private_Dirty(A) == 0\n"
	     "proc p { mprotect A 64K none; expect smaps.Rss(A) == 32K; munmap A 64K; expect smaps.Rss == 0 }\n"
	     "expect smaps.Pss(A) == 16K\nproc q: exit\nexpect smaps.Pss(A) == 32K\n"
	     "B = mmap 4M align=2M\nmadvise B 4M hugepage\ntouch B write\ntouch B+2M write\n"
	     "expect smaps.AnonHugePages(B) == 4M && smaps.Rss(B) == 4M\nmlock B 2M\n"
	     "expect smaps.Locked(B) == 2M && smaps.Locked(B+2M) == 0\nmunmap B 4K\nexpect smaps.AnonHugePages == 2M && smaps.Rss(B+4K) == 2M-4K\n"
	     "file create F 64K\nC = mmap 64K file=F flags=shared\nD = mmap 64K file=F\nread C\n"
	     "expect smaps.Private_Clean(C) == smaps.Rss(C) && smaps.Anonymous(C) == 0 && smaps.Private_Dirty(C) == 0\n"
	     "write C 1\nexpect smaps.Private_Dirty(C) == 4K\nread D\nexpect smaps.Pss(C) < smaps.Rss(C) && smaps.Shared_Dirty(D) == 4K\n"
	     "write D 1\nexpect smaps.Anonymous(D) == 4K && smaps.Private_Dirty(D) == 4K\n");
}

static void variants(void **state)
{
	static const char text[] = "variant always { set transparent_hugepage.enabled always }\n"
				   "variant never { set transparent_hugepage.enabled never }\n"
				   "A = mmap 4M align=2M\ntouch A write\nexpect[always] rss == 2M && smaps.AnonHugePages == 2M\n"
				   "expect[never] rss == 4K\nexpect variant.always == (vmstat.thp_fault_alloc == 1)\n"
				   "if variant.always { expect pages.huge(A, 4M) == 512 }\nexpect phys == rss";
	struct script_run_counts c;
	char err[300];

	(void)state;
	runs_at(text, "always", __FILE__, __LINE__);
	runs_at(text, "never", __FILE__, __LINE__);
	assert_int_equal(run(ON_NULL, text, "sometimes", &c, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "t:1:1: no variant 'sometimes'");
}

/* ---- what is seen ---- */

struct seen {
	char text[1 << 20];
	size_t len;
};

ATTR_PRINTF(2, 3) static void note(struct seen *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	s->len += (size_t)vsnprintf(s->text + s->len, sizeof(s->text) - s->len, fmt, ap);
	va_end(ap);
	assert_true(s->len < sizeof(s->text));
}

static void note_area(struct seen *n, const struct script_run *r, const struct script_area *a)
{
	char from[100], to[100];

	script_run_label(r, a->start, from, sizeof(from));
	script_run_label(r, a->end, to, sizeof(to));
	note(n, "%s-%s %u%u %d+%" PRIu64 " %x", from, to, a->prot, a->shared, (int)a->file, a->off, a->vmflags);
	for (unsigned i = 0; i < NR_SCRIPT_SMAPS; i++)
		if (a->smap[i])
			note(n, " %s=%" PRIu64, script_smap_names[i], a->smap[i]);
	for (uint64_t i = 0; i < (a->end - a->start) >> PAGE_SHIFT; i++)
		if (a->page[i])
			note(n, " %" PRIu64 ":%x/%" PRIx64, i, a->page[i], a->value[i]);
	note(n, "\n");
}

static void note_step(struct seen *n, const struct script_run *r, const struct script_call *call, const struct script_result *res,
		      const struct script_obs *o)
{
	bool address = call->op == SOP_MMAP || call->op == SOP_MREMAP;

	note(n, "line %u: %" PRId64 " %d %" PRIx64 " %" PRIu64 "\n", call->line, address && res->ret > 0 ? 0 : res->ret, res->signal, res->value,
	     res->count);
	for (size_t i = 0; i < o->nr_areas; i++)
		note_area(n, r, &o->area[i]);
	for (size_t i = 0; i < o->nr_vmstat; i++)
		if (strncmp(o->vmstat[i].name, "nr_tlb_", 7) && strncmp(o->vmstat[i].name, "pgalloc_", 8))
			note(n, " %s=%" PRId64, o->vmstat[i].name, o->vmstat[i].delta);
	note(n, "\n");
}

static void watch(enum machine_kind kind, const char *text, struct seen *n)
{
	struct machine *m = make(kind);
	struct script *s = parse(text);
	struct script_exec *x;
	struct script_run_options o = { .ops = &script_engine_ops, .keep_going = true, .no_expect = true };
	struct script_run *r;
	struct script_call call;
	struct script_obs obs;
	char err[500] = "";
	int rc;

	n->len = 0;
	script_obs_init(&obs);
	assert_int_equal(script_engine_create(&(struct script_engine_options){ .machine = m, .validate = true }, &x), 0);
	o.exec = x;
	if (script_run_begin(s, &o, &r, err, sizeof(err)))
		fail_msg("%s", err);
	while ((rc = script_run_next(r, &call, err, sizeof(err))) > 0) {
		struct script_result res;

		rc = script_engine_ops.step(x, &call, &res, err, sizeof(err));
		if (!rc)
			rc = script_run_result(r, &res, err, sizeof(err));
		if (!rc)
			rc = script_engine_ops.observe(x, call.proc, SOBS_ALL, &obs, err, sizeof(err));
		if (rc)
			break;
		assert_int_equal(obs.what, SOBS_ALL);
		note_step(n, r, &call, &res, &obs);
	}
	if (rc)
		fail_msg("machine %d: %s", kind, err);
	script_obs_clear(&obs);
	script_run_end(r);
	script_engine_destroy(x);
	script_free(s);
	machine_destroy(m);
}

static void same_everywhere(void **state)
{
	static const char text[] =
		"file create F 40K\nA = mmap 4M align=2M\nB = mmap 10p file=F flags=shared\nC = mmap 10p file=F\n"
		"touch A write\nwrite A+5p 55\nmunmap A+8p 1p\ntouch A+2M..A+2M+3p read\nmadvise A+2M 2M nohugepage\ntouch A+2M..A+2M+3p write\n"
		"read B\nwrite B+3p 4\nwrite C 8\ntouch C+2p..C+4p write\npread F A 0 16K\npread F A+100p 8 4096\npwrite F C+8 4096 8192\n"
		"pwrite F A+8p 0 4096\nfile write F 64K 8K 3\nfile truncate F 8K\nread B+5p\nmlock C 2p\nmprotect A+1p 3p r\nwrite A+1p 3\n"
		"D = mremap A 4p 8p flags=maymove\nfork p\nproc p {\n write D 5\n write C 9\n madvise A+2M 1M dontneed\n touch A+2M read\n exit\n}\n"
		"write D 6\nfill A+16p..A+20p 1000\nmadvise A+16p 2p free\nwrite A+16p 1\nmincore A+16p 4p\nmunmap A 8M\nzz = 3\nmunmap zz 1\n";
	static struct seen on[NR_KINDS];

	(void)state;
	for (int k = 0; k < NR_KINDS; k++)
		watch((enum machine_kind)k, text, &on[k]);
	for (int k = 1; k < NR_KINDS; k++)
		assert_string_equal(on[0].text, on[k].text);
	/* Some of it by hand: labels, sums, page bits and values. */
	if (!strstr(on[0].text, "A-A+0x8000 30 -1+0 "))
		fail_msg("%s", on[0].text);
	assert_non_null(strstr(on[0].text, " AnonHugePages=2097152 "));
	assert_non_null(strstr(on[0].text, " 0:79/0 1:79/0 2:79/0 3:79/0 4:79/0 5:79/37 "));
	assert_non_null(strstr(on[0].text, " pgfault=1 "));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(removing),
		cmocka_unit_test(places),
		cmocka_unit_test(expressions),
		cmocka_unit_test(failing_calls),
		cmocka_unit_test(calls),
		cmocka_unit_test(files),
		cmocka_unit_test(file_values),
		cmocka_unit_test(processes),
		cmocka_unit_test(smaps),
		cmocka_unit_test(variants),
		cmocka_unit_test(same_everywhere),
	};

	return test_run(tests);
}
