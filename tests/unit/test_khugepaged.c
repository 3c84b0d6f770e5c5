/*
 * khugepaged: who is on its list, how far a pass goes, knobs, ends of address spaces; as a daemon on the model in virtual time, and on the
 * host; what it has made when that is split again because it is underused.
 */
#include "collapse_testing.h"
#include "host_testing.h"
#include "tiny_machine.h"

#include "machine/run.h"
#include "mm/kthread.h"

static struct khugepaged *kh_of(struct world *w)
{
	return &w->q->khugepaged;
}

static void entered_when_huge_pages_are_possible(void **state)
{
	struct ranges r = ranges_new(BY_DAEMON, 2);
	struct world *w = r.w;
	struct mm *child = NULL, *mm = r.mm;

	(void)state;
	ranges_fill(&r, 0, 1);
	assert_false(mm->khugepaged_on); /* never */
	w->q->knobs.thp_enabled = THP_MADVISE;
	ranges_fill(&r, HPAGE_PMD_NR, 1);
	assert_false(mm->khugepaged_on); /* not asked for */
	assert_ok((int)mm_madvise(w->c, mm, AREA, PMD_SIZE, UAPI_MADV_HUGEPAGE));
	assert_true(mm->khugepaged_on);
	assert_ok(mm_fork(w->c, mm, &child));
	assert_true(child->khugepaged_on);
	world_check(w);
	mm_end(w, child);
	assert_ptr_equal(kh_of(w)->mms.next, &mm->khugepaged_link);
	assert_ptr_equal(kh_of(w)->mms.prev, &mm->khugepaged_link);
	ranges_end(&r);
	/* By a huge fault. */
	r = ranges_new(BY_DAEMON, 1);
	w = r.w;
	w->q->knobs.thp_enabled = THP_ALWAYS;
	ranges_fill(&r, 0, 1);
	assert_true(r.mm->khugepaged_on);
	ranges_end(&r);
}

/* pages_to_scan is what one pass looks at; the next one goes on there. */
static void a_pass_goes_so_far(void **state)
{
	struct ranges r = ranges_new(BY_DAEMON, 8);
	struct world *w = r.w;

	(void)state;
	ranges_fill(&r, 0, 8 * HPAGE_PMD_NR);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	assert_ok((int)mm_madvise(w->c, r.mm, AREA, 8 * PMD_SIZE, UAPI_MADV_HUGEPAGE));
	w->q->knobs.khugepaged_pages_to_scan = 2 * HPAGE_PMD_NR + 2; /* each address space counts as one, whenever it is come to */
	for (unsigned i = 1; i <= 4; i++) {
		bool no_memory = true;

		(void)khugepaged_scan(w->c, &no_memory);
		assert_false(no_memory);
		assert_int_equal(nr_huge(&r), 2 * i);
		assert_int_equal(kh_of(w)->pages_collapsed, 2 * i);
		world_check(w);
	}
	assert_int_equal(kh_of(w)->full_scans, 0);
	(void)khugepaged_scan(w->c, NULL);
	assert_int_equal(kh_of(w)->full_scans, 1);
	assert_int_equal(kh_of(w)->results[SCAN_succeeded], 8);
	ranges_check(&r, 0, 8 * HPAGE_PMD_NR);
	ranges_end(&r);
}

/* Without a huge page to be had the pass ends, and tells. */
static void no_memory_ends_a_pass(void **state)
{
	struct ranges r = ranges_new(BY_DAEMON, 4);
	struct world *w = r.w;
	struct inject *in = NULL;
	bool no_memory = false;

	(void)state;
	ranges_fill(&r, 0, 4 * HPAGE_PMD_NR);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	assert_ok((int)mm_madvise(w->c, r.mm, AREA, 4 * PMD_SIZE, UAPI_MADV_HUGEPAGE));
	assert_ok(inject_attach(w->m, 1, &in));
	assert_ok(inject_set(in, INJECT_FRAME_ALLOC, INJECT_NTH, 2));
	(void)khugepaged_scan(w->c, &no_memory);
	assert_true(no_memory);
	assert_int_equal(nr_huge(&r), 1);
	assert_int_equal(count_of(w, VM_thp_collapse_alloc_failed), 1);
	inject_detach(in);
	/* The one that was passed over is come to in the next round. */
	khugepaged_run(w->c, 2);
	assert_int_equal(nr_huge(&r), 4);
	ranges_end(&r);
}

/* The cursor survives the end of the address space that it is in. */
static void ends_move_the_cursor(void **state)
{
	struct ranges r = ranges_new(BY_DAEMON, 4);
	struct world *w = r.w;
	struct mm *other = NULL;

	(void)state;
	ranges_fill(&r, 0, 4 * HPAGE_PMD_NR);
	w->q->knobs.thp_enabled = THP_ALWAYS;
	assert_ok((int)mm_madvise(w->c, r.mm, AREA, 4 * PMD_SIZE, UAPI_MADV_HUGEPAGE));
	assert_ok(mm_fork(w->c, r.mm, &other));
	w->q->knobs.khugepaged_pages_to_scan = HPAGE_PMD_NR + 1;
	(void)khugepaged_scan(w->c, NULL);
	assert_ptr_equal(kh_of(w)->at, r.mm);
	mm_end(w, r.mm);
	assert_ptr_equal(kh_of(w)->at, other);
	assert_int_equal(kh_of(w)->full_scans, 0);
	(void)khugepaged_scan(w->c, NULL);
	assert_ptr_equal(kh_of(w)->at, other);
	mm_end(w, other);
	assert_null(kh_of(w)->at);
	assert_int_equal(kh_of(w)->full_scans, 1);
	(void)khugepaged_scan(w->c, NULL);
	world_end(w);
}

/* ---- underused huge pages ---- */

static void underused_are_split(void **state)
{
	(void)state;
	for (unsigned limit = 204; limit <= 206; limit++) {
		struct ranges r = ranges_new(BY_DAEMON, 2);
		struct world *w = r.w;

		ranges_fill(&r, 0, 307); /* 205 parts of zeros */
		ranges_fill(&r, HPAGE_PMD_NR, HPAGE_PMD_NR);
		assert_ok(ranges_ask(&r));
		assert_int_equal(deferred_split_count(w->q, 0), 2);
		w->q->knobs.khugepaged_max_ptes_none = limit;
		uint64_t free_before = world_free(w), done = deferred_split_scan(w->c, 0, 10);

		assert_int_equal(done, limit < 205);
		assert_int_equal(count_of(w, VM_thp_underused_split_page), done);
		assert_int_equal(world_free(w) - free_before, done * 205);
		assert_int_equal(mm_rss(r.mm, RSS_ANON), 2 * HPAGE_PMD_NR - done * 205);
		assert_int_equal(info(r.mm, page_at(400)).zero_page, done);
		assert_int_equal(deferred_split_count(w->q, 0), 0); /* used ones are not looked at again */
		world_check(w);
		assert_int_equal(load(w, page_at(306)), 1306);
		assert_int_equal(load(w, page_at(307)), 0);
		store(w, page_at(400), 5);
		assert_int_equal(load(w, page_at(400)), 5);
		ranges_end(&r);
	}
}

static void locked_zeros_stay(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);
	struct world *w = r.w;

	(void)state;
	ranges_fill(&r, 0, 100);
	assert_ok(ranges_ask(&r));
	assert_ok((int)mm_mlock(w->c, r.mm, AREA, PMD_SIZE, false));
	assert_int_equal(quire_split_range(w->c, r.mm, AREA, PMD_SIZE), 1);
	assert_int_equal(mm_rss(r.mm, RSS_ANON), HPAGE_PMD_NR);
	assert_false(info(r.mm, page_at(300)).zero_page);
	ranges_check(&r, 0, 100);
	ranges_end(&r);
}

static void not_queued_without_the_knob(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);

	(void)state;
	r.w->q->knobs.thp_shrink_underused = false;
	ranges_fill(&r, 0, 1);
	assert_ok(ranges_ask(&r));
	assert_int_equal(deferred_split_count(r.w->q, 0), 0);
	ranges_end(&r);
}

/* ---- splitting a range, as the kernel's own test does ---- */

static void split_range(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 4);
	struct world *w = r.w;

	(void)state;
	ranges_fill(&r, 0, 4 * HPAGE_PMD_NR);
	assert_ok(ranges_ask(&r));
	assert_int_equal(quire_split_range(w->c, r.mm, AREA + PMD_SIZE + PAGE_SIZE, PAGE_SIZE), 1);
	assert_int_equal(nr_huge(&r), 3);
	/* One that PTEs map counts as well; what is split is not split again. */
	split_mapping(&r, r.mm, range_at(3));
	assert_int_equal(quire_split_range(w->c, r.mm, AREA - PMD_SIZE, 16 * PMD_SIZE), 3);
	assert_int_equal(nr_huge(&r), 0);
	assert_int_equal(count_of(w, VM_thp_split_page), 4);
	assert_int_equal(quire_split_range(w->c, r.mm, AREA, 4 * PMD_SIZE), 0);
	ranges_check(&r, 0, 4 * HPAGE_PMD_NR);
	ranges_end(&r);
}

/* All zeros: nothing of it remains but the page of zeros. */
static void split_of_zeros(void **state)
{
	struct ranges r = ranges_new(BY_CALL, 1);
	struct world *w = r.w;

	(void)state;
	ranges_fill(&r, 0, 1);
	assert_ok(ranges_ask(&r));
	store(w, AREA, 0);
	assert_int_equal(quire_split_range(w->c, r.mm, AREA, PMD_SIZE), 1);
	assert_int_equal(mm_rss(r.mm, RSS_ANON), 0);
	ranges_check(&r, 0, 0);
	ranges_end(&r);
}

/* ---- as a daemon ---- */

struct daemon_run {
	struct world w;
	struct task task;
	uint64_t sleep_ns;
	unsigned huge;
	uint64_t collapsed;
};

static void program(struct cpu *c, struct task *t)
{
	struct daemon_run *d = t->arg;
	struct mm *mm = t->mm;

	assert_int_equal(mm_mmap(c, mm, AREA, 4 * PMD_SIZE, RW, UAPI_MAP_PRIVATE | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED, NULL, 0), (int64_t)AREA);
	assert_ok((int)mm_madvise(c, mm, AREA, 4 * PMD_SIZE, UAPI_MADV_NOHUGEPAGE));
	for (unsigned i = 0; i < 4 * HPAGE_PMD_NR; i++)
		assert_ok(c->m->ops->store_value(c, page_at(i), 1000 + i));
	assert_ok((int)mm_madvise(c, mm, AREA, 4 * PMD_SIZE, UAPI_MADV_HUGEPAGE));
	c->m->ops->sleep_ns(c, d->sleep_ns);
	for (unsigned i = 0; i < 4; i++)
		d->huge += info(mm, range_at(i)).huge;
	for (unsigned i = 0; i < 4 * HPAGE_PMD_NR; i++) {
		uint64_t v = 0;

		assert_ok(c->m->ops->load_value(c, page_at(i), &v));
		assert_int_equal(v, 1000 + i);
	}
}

static struct daemon_run run_daemon(struct machine *m, uint64_t sleep_ns, uint32_t period_ms)
{
	struct daemon_run d = { .w = { .m = m }, .sleep_ns = sleep_ns };
	struct knobs k;
	char err[200] = "";

	knobs_default(&k);
	k.thp_enabled = THP_MADVISE;
	k.khugepaged_scan_sleep_millisecs = period_ms;
	if (quire_boot(m, &k, &d.w.q, err, sizeof(err)))
		fail_msg("%s", err);
	d.w.c = m->cpus[0];
	d.task = (struct task){ .fn = program, .arg = &d, .name = "a program" };
	assert_ok(mm_create(d.w.c, d.w.q, &d.task.mm));
	assert_ok(m->ops->task_start(d.w.c, &d.task));
	if (machine_run(m, err, sizeof(err)))
		fail_msg("%s", err);
	d.collapsed = d.w.q->khugepaged.pages_collapsed;
	assert_ok(quire_validate(d.w.q));
	if (!strcmp(m->ops->kind, "model"))
		d.w.c = model_boot_cpu(m);
	mm_put(d.w.c, d.task.mm);
	assert_ok(quire_shutdown(d.w.q));
	return d;
}

static void daemon_in_virtual_time(void **state)
{
	struct machine *m = tiny_machine(1, 2);
	struct daemon_run d;

	(void)state;
	/* The first pass is a period after the run's beginning. */
	d = run_daemon(m, 9000000000ULL, 10000);
	assert_int_equal(d.huge, 0);
	d = run_daemon(m, 10100000000ULL, 10000);
	assert_int_equal(d.huge, 4);
	assert_int_equal(d.collapsed, 4);
	model_destroy(m);
}

static void daemon_on_the_host(void **state)
{
	struct host_options o = { .nr_cpus = 2, .memory = 128 * MIB };
	struct machine *m = NULL;
	struct daemon_run d;
	char err[200] = "";

	(void)state;
	if (host_create(&o, &m, err, sizeof(err)))
		fail_msg("%s", err);
	d = run_daemon(m, 300000000ULL, 1);
	assert_int_equal(d.huge, 4);
	host_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entered_when_huge_pages_are_possible),
		cmocka_unit_test(a_pass_goes_so_far),
		cmocka_unit_test(no_memory_ends_a_pass),
		cmocka_unit_test(ends_move_the_cursor),
		cmocka_unit_test(underused_are_split),
		cmocka_unit_test(locked_zeros_stay),
		cmocka_unit_test(not_queued_without_the_knob),
		cmocka_unit_test(split_range),
		cmocka_unit_test(split_of_zeros),
		cmocka_unit_test(daemon_in_virtual_time),
		cmocka_unit_test(daemon_on_the_host),
	};

	return test_run(tests);
}
