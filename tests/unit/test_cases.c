/*
 * Cases: what counts as wrong, that results do not depend on jobs, and that those inside the command are whole; kernel eras; and the counters
 * that cases are about, in scripts of their own: the ledger, phases of faults, why a range was not huge.
 */
#include "tiny_machine.h"

#include "lab/cases.h"
#include "lab/era.h"
#include "machine/null.h"
#include "machine/run.h"
#include "mm/ledger.h"
#include "script/engine.h"
#include "script/run.h"

#include <errno.h>
#include <stdlib.h>

static struct case_result *run(const struct case_file *files, size_t nr, unsigned jobs)
{
	struct knobs k;
	struct case_result *res;

	knobs_default(&k);
	assert_int_equal(cases_run(&(struct case_options){ .knobs = &k, .jobs = jobs }, files, nr, &res), 0);
	return res;
}

static void count(const struct case_file *f, size_t nr, struct case_counts *n)
{
	struct case_result *res = run(f, nr, 1);

	cases_count(res, nr, n);
	cases_done(res, nr);
}

static void one(const char *text, struct case_counts *n)
{
	count(&(struct case_file){ "01-t", text }, 1, n);
}

/* A script, all expectations of which must hold. */
static void holds(const char *text)
{
	const struct case_file f = { "01-t", text };
	struct case_result *res = run(&f, 1, 1);
	struct case_counts n;

	cases_count(res, 1, &n);
	for (size_t i = 0; i < res->nr_runs; i++) {
		const struct case_run *r = &res->run[i];

		if (r->error || r->skipped)
			fail_msg("%s", r->err);
		for (size_t l = 0; l < r->nr; l++)
			if (!r->line[l].ok)
				fail_msg("%s %s: %ld and %ld", r->variant ? r->variant : "", r->line[l].text, (long)r->line[l].found,
					 (long)r->line[l].expected);
	}
	if (!res->script)
		fail_msg("%s", res->err);
	assert_true(n.exact > 0 && !n.wrong);
	cases_done(res, 1);
}

/* ---- the runner ---- */

static void right_and_wrong(void **state)
{
	struct case_counts n;

	(void)state;
	one("A = mmap 8K; touch A..A+8K write; expect rss == 8K; report r rss bytes \"12 MB\"", &n);
	assert_true(n.cases == 1 && n.exact == 1 && !n.wrong && n.shapes == 1 && !n.broken);
	one("A = mmap 8K; touch A..A+8K write; expect rss == 4K", &n);
	assert_true(n.exact == 1 && n.wrong == 1);
	one("variant a { }; variant b { }\nexpect[a] 1 == 1; expect[b] 1 == 2", &n);
	assert_true(n.cases == 1 && n.exact == 2 && n.wrong == 1);
	one("munmap ARENA+1 4096", &n);
	assert_true(n.broken == 1 && !n.wrong);
	one("what is this", &n);
	assert_true(n.broken == 1 && n.cases == 0);
	one("pending \"nothing is there\"\nexpect 1 == 2", &n);
	assert_true(n.pending == 1 && n.cases == 0 && !n.wrong);
	one("thread T cpu=1000; expect 1 == 2", &n);
	assert_true(n.skipped == 1 && !n.wrong && !n.broken);
}

/* Of a loop: the first time that it was wrong, once. */
static void loops(void **state)
{
	const struct case_file f = { "07-t", "for i in 0..9 { expect i != 4 }; for i in 0..9 { expect i < 10 }" };
	struct case_result *res = run(&f, 1, 1);
	const struct case_run *r = res->run;

	(void)state;
	assert_int_equal(res->number, 7);
	assert_int_equal(r->nr, 2);
	assert_true(!r->line[0].ok && r->line[0].times == 10 && r->line[0].found == 4);
	assert_true(r->line[1].ok && r->line[1].times == 10 && r->line[1].found == 9);
	cases_done(res, 1);
}

static void jobs(void **state)
{
	struct case_file f[12];
	struct case_result *a, *b;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++)
		f[i] = (struct case_file){ "01-t", "variant a { }; variant b { }\nA = mmap 4M; touch A..A+4M write; report r rss bytes; report p ledger.user \"\"" };
	a = run(f, ARRAY_SIZE(f), 1);
	b = run(f, ARRAY_SIZE(f), 5);
	for (unsigned i = 0; i < ARRAY_SIZE(f); i++)
		for (unsigned v = 0; v < 2; v++) {
			assert_true(a[i].run[v].done && b[i].run[v].done);
			assert_int_equal(a[i].run[v].nr, 2);
			for (unsigned l = 0; l < 2; l++)
				assert_int_equal(a[i].run[v].line[l].found, b[i].run[v].line[l].found);
		}
	cases_done(a, ARRAY_SIZE(f));
	cases_done(b, ARRAY_SIZE(f));
}

/* 1 to 36, each either run or pending with a reason, and with a title and a source. */
static void shipped(void **state)
{
	unsigned n = 0;

	(void)state;
	for (const struct case_file *f = case_files; f->name; f++) {
		struct script *s;
		char err[600];

		assert_int_equal(strtoul(f->name, NULL, 10), ++n);
		if (script_parse(f->name, f->text, strlen(f->text), &s, err, sizeof(err)))
			fail_msg("%s", err);
		assert_true(s->title && s->source && (s->pending || s->nr_stmts > 5));
		script_free(s);
	}
	assert_int_equal(n, 36);
}

/* ---- eras ---- */

static const char *era_value(const char *version, const char *knob)
{
	static char buf[64];
	struct era e;
	struct knobs k;
	char err[200];

	assert_int_equal(era_find(version, &e, err, sizeof(err)), 0);
	knobs_default(&k);
	era_apply(&e, &k);
	knob_format(&k, knob_find(knob), buf, sizeof(buf));
	return buf;
}

static void eras(void **state)
{
	static const char *const bad[] = { "", "5", "5.", ".8", "3.10", "5.8.1", "5.8-rc1", "five", "8.1", "-5.8", "5.100", "99999999999.1" };
	struct era e;
	char err[200];

	(void)state;
	assert_string_equal(era_value("4.13", "quire.huge_clear_order"), "linear");
	assert_string_equal(era_value("4.14", "quire.huge_clear_order"), "target_last");
	assert_string_equal(era_value("4.18", "quire.huge_copy_order"), "linear");
	assert_string_equal(era_value("4.19", "quire.huge_copy_order"), "target_last");
	assert_string_equal(era_value("5.7", "quire.huge_cow"), "copy");
	assert_string_equal(era_value("5.8", "quire.huge_cow"), "split");
	assert_string_equal(era_value("5.10", "quire.huge_cow"), "split");
	assert_string_equal(era_value("5.7", "quire.huge_zero_cow"), "huge");
	assert_string_equal(era_value("6.12", "quire.huge_zero_cow"), "split");
	assert_string_equal(era_value("6.13", "quire.huge_zero_cow"), "huge");
	assert_string_equal(era_value("6.1", "quire.thp_align_mmap"), "0");
	assert_string_equal(era_value("6.12", "quire.thp_align_mmap"), "1");
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(era_find(bad[i], &e, err, sizeof(err)), -EINVAL);
		assert_non_null(strstr(err, "--era"));
	}
	assert_int_equal(era_find(NULL, &e, err, sizeof(err)), 0);
	assert_int_equal(e.nr, 0);
}

/* What is set otherwise is left out of the era; each setting appears once. */
static void era_and_sets(void **state)
{
	char set[] = "quire.huge_cow=copy", vary[] = "quire.huge_copy_order=linear,target_last";
	char *sets[] = { set }, *varies[] = { vary };
	struct era e;
	struct era_sets all;
	char err[200];
	size_t cow = 0;

	(void)state;
	assert_int_equal(era_find("5.8", &e, err, sizeof(err)), 0);
	era_sets(&e, sets, 1, varies, 1, &all);
	assert_int_equal(all.nr, e.nr - 2 + 1);
	for (size_t i = 0; i < all.nr; i++) {
		cow += !strncmp(all.v[i], "quire.huge_cow=", 15);
		assert_true(strncmp(all.v[i], "quire.huge_copy_order=", 22) != 0);
	}
	assert_int_equal(cow, 1);
	assert_string_equal(all.v[all.nr - 1], set);
}

/* ---- counters ---- */

static void ledger(void **state)
{
	(void)state;
	holds("variant copied { set quire.fork_tables copied }\nvariant shared { set quire.fork_tables shared }\n"
	      "set transparent_hugepage.enabled madvise\n"
	      "A = mmap 8M align=2M; touch A..A+8M write; H = mmap 4M align=2M; madvise H 4M hugepage; write H 1; write H+2M 2\n"
	      "file create F 64K plain; file read F 0 64K; M = mmap 16K file=F; touch M read; touch M+4K write\n"
	      "S = mmap 64K flags=shared,anon; touch S..S+64K write\n"
	      "expect ledger.adds_up; expect ledger.huge == 2; expect ledger.unwritten == 2*511; expect ledger.cache > 0\n"
	      "expect ledger.rss == rss/4096; expect ledger.shared == 0; expect ledger.user*4096 == phys\n"
	      "fork P; expect ledger.adds_up; expect ledger.rss > rss/4096; expect ledger.user*4096 == phys\n"
	      "expect ledger.shared >= 2048+1024\n"
	      "proc P { touch A..A+16K write; madvise H 1M dontneed }\n"
	      "expect ledger.adds_up; expect ledger.user*4096 == phys; expect ledger.queued == 0\n"
	      "madvise H 1M dontneed; expect ledger.queued == 1; expect ledger.unmapped == 256; expect ledger.huge == 1\n"
	      "proc P: exit\nexpect ledger.adds_up; expect ledger.unmapped == 256; expect ledger.user*4096 == phys\n"
	      "expect ledger.charge == ledger.user+ledger.tables\n"
	      "pin I A 4096 write; munmap A 8M; expect ledger.held == 1; expect ledger.adds_up; unpin I; expect ledger.held == 0\n");
}

static void why_not_huge(void **state)
{
	(void)state;
	holds("set transparent_hugepage.enabled always\nC = vmstat_now.pgfault\n"
	      "A = mmap 5M at=ARENA+1M flags=private,anon,fixed; touch A..A+5M write\n"
	      "expect faults.huge == 2; expect vmstat.quire_thp_ineligible_alignment == 1\n"
	      "munmap A 5M; mark; B = mmap 3M at=ARENA+1M flags=private,anon,fixed; touch B write; touch B+2M write\n"
	      "expect vmstat.quire_thp_ineligible_alignment == 1; expect faults.huge == 1\n"
	      "munmap B 3M; mark; B = mmap 1M at=ARENA+512K flags=private,anon,fixed; touch B..B+1M write\n"
	      "expect vmstat.quire_thp_ineligible_small == 1; expect vmstat.quire_thp_ineligible_alignment == 0\n"
	      "mark; D = mmap 4M align=2M; madvise D 2M nohugepage; touch D..D+4M write\n"
	      "expect vmstat.quire_thp_ineligible_advice == 1; expect faults.huge == 1\n"
	      "mark; S = mmap 4M align=2M flags=shared,anon; touch S..S+4M write; expect vmstat.quire_thp_ineligible_kind == 2\n"
	      "prctl thp_disable 1; mark; E = mmap 4M align=2M; touch E..E+4M write; expect vmstat.quire_thp_ineligible_prctl == 2\n"
	      "set transparent_hugepage.enabled never; mark; G = mmap 2M align=2M; touch G write\n"
	      "expect vmstat.quire_thp_ineligible_disabled == 1; expect vmstat.thp_fault_fallback == 0\n");
}

static void flushes(void **state)
{
	(void)state;
	holds("set transparent_hugepage.enabled never\nA = mmap 64K; touch A..A+64K write; thread B cpu=1; thread C cpu=2\n"
	      "thread B: touch A read\nthread C: touch A read\nmark\n"
	      "mprotect A 4K r; expect vmstat.quire_flush_mprotect == 1; expect vmstat.quire_ipi_mprotect == 2\n"
	      "madvise A+8K 8K dontneed; expect vmstat.quire_ipi_madvise == 2\n"
	      "munmap A+32K 4K; expect vmstat.quire_ipi_munmap == 2\n"
	      "M = mremap A+60K 4K 4K flags=maymove,fixed to=ARENA; expect vmstat.quire_ipi_mremap == 2\n"
	      "fork P; expect vmstat.quire_ipi_fork == 2\n"
	      "touch A+16K write; expect vmstat.quire_ipi_cow == 2\n"
	      "expect vmstat.nr_tlb_remote_flush_received == 12; expect vmstat.quire_ipi_other == 0\n"
	      "expect flushes.received(1) == 6; expect flushes.sent(0) == 6; expect flushes.sent(1) == 0\n");
}

/* Free lists as given, nobody's memory the more for it; reclaim of a file's pages; what can't be is said. */
static void free_memory(void **state)
{
	struct case_counts n;

	(void)state;
	holds("A = mmap 1M; touch A..A+1M write; was = phys; used = ledger.adds_up\n"
	      "free_lists normal 10,0,3\n"
	      "expect zone.normal.free == 22; expect zone.normal.blocks(0) == 10; expect zone.normal.blocks(2) == 3\n"
	      "expect zone.normal.unusable(0) == 0; expect zone.normal.unusable(2) == 454; expect zone.normal.unusable(3) == 1000\n"
	      "expect zone.normal.extfrag(2) == 0-1000; expect zone.normal.extfrag(9) > 0; expect phys == was\n"
	      "free_lists normal 0,4\n"
	      "expect zone.normal.free == 8; expect zone.normal.blocks(0) == 0; expect phys == was\n");
	holds("file create F 1M; A = mmap 1M prot=r flags=shared file=F; touch A..A+1M read; expect rss.file == 1M\n"
	      "R = reclaim 256; expect R >= 256; expect rss.file == 0; expect phys == 0\n");
	holds("set transparent_hugepage.enabled never; E = smaps.entries; A = mmap 4M align=2M; touch A..A+2M write; expect smaps.entries-E == 512\n"
	      "set transparent_hugepage.enabled always; touch A+2M write; expect smaps.entries-E == 513\n");
	one("free_lists nowhere 1; expect 1 == 1", &n);
	assert_true(n.broken == 1);
	one("free_lists normal 1,x; expect 1 == 1", &n);
	assert_true(n.broken == 1);
	one("free_lists normal 0,0,0,0,0,0,0,0,0,0,1048576; expect 1 == 1", &n);
	assert_true(n.broken == 1);
	one("expect zone.normal.blocks == 1", &n);
	assert_true(n.broken == 1);
}

/* The parts of faults add up to the time in faults, to the nanosecond. */
static void phases(void **state)
{
	static const char text[] = "A = mmap 8M align=2M; touch A..A+8M write; fork P; touch A..A+8M step 2M write\n"
				   "set transparent_hugepage.enabled never; B = mmap 1M; touch B..B+1M read; touch B..B+1M write\n";
	struct machine *m = tiny_machine(1, 2);
	struct script_run_options o = { .ops = &script_engine_ops };
	struct fault_phases p;
	struct script_result res;
	struct script_call call;
	struct script_run *r;
	struct script *s;
	uint64_t sum[NR_FAULT_PHASES] = { 0 }, all = 0;
	char err[600] = "";
	int rc;

	(void)state;
	assert_int_equal(script_parse("t", text, strlen(text), &s, err, sizeof(err)), 0);
	assert_int_equal(script_engine_create(&(struct script_engine_options){ .machine = m }, &o.exec), 0);
	assert_int_equal(script_run_begin(s, &o, &r, err, sizeof(err)), 0);
	while ((rc = script_run_next(r, &call, err, sizeof(err))) > 0) {
		assert_int_equal(script_engine_ops.step(o.exec, &call, &res, err, sizeof(err)), 0);
		assert_int_equal(script_run_result(r, &res, err, sizeof(err)), 0);
	}
	assert_int_equal(rc, 0);
	for (unsigned k = 0; k < NR_FAULT_KINDS; k++) {
		uint64_t longest = 0;

		quire_fault_phases(script_engine_quire(o.exec), (enum fault_kind)k, &p);
		for (unsigned i = 0; i < NR_FAULT_PHASES; i++) {
			sum[i] += p.sum[i];
			all += p.sum[i];
			longest += p.longest[i];
		}
		assert_int_equal(longest, p.most);
	}
	assert_int_equal(all, quire_fault_time_ns(script_engine_quire(o.exec)));
	assert_true(sum[PHASE_CLEAR] && sum[PHASE_COPY] && sum[PHASE_ALLOC] && sum[PHASE_MAP]);
	script_run_end(r);
	script_engine_destroy(o.exec);
	script_free(s);
	machine_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_and_wrong), cmocka_unit_test(loops), cmocka_unit_test(jobs), cmocka_unit_test(shipped),
		cmocka_unit_test(eras), cmocka_unit_test(era_and_sets), cmocka_unit_test(ledger), cmocka_unit_test(why_not_huge),
		cmocka_unit_test(flushes), cmocka_unit_test(phases), cmocka_unit_test(free_memory),
	};

	return test_run(tests);
}
