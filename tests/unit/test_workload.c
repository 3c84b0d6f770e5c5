/*
 * The standard workloads on a tiny machine: exact counts of faults, contents, determinism, limits, and what happens when memory or
 * patience runs out.
 */
#include "tiny_machine.h"

#include "machine/host/host.h"
#include "mm/lru.h"
#include "mm/tlb.h"
#include "workload/workload.h"

#include <errno.h>
#include <string.h>

#define MIB (1ULL << 20)

struct ran {
	struct workload_result r;
	int64_t n[NR_VM_COUNTERS];
	uint64_t end_ps; /* the furthest CPU's clock */
	int error;
	char err[300];
};

struct set {
	enum thp_enabled thp;
	enum huge_cow cow;
	unsigned cores;
};

static const struct set small_pages = { THP_NEVER, HUGE_COW_COPY, 2 };
static const struct set huge_copy = { THP_ALWAYS, HUGE_COW_COPY, 2 };
static const struct set huge_split = { THP_ALWAYS, HUGE_COW_SPLIT, 2 };

/* Free frames, with what per-CPU lists, slabs and the huge zero page hold. */
static int64_t free_frames(struct quire *q)
{
	lru_add_drain_all(q->m->cpus[0]);
	for (unsigned i = 0; i < q->m->nr_cpus; i++)
		pcp_drain(q->m->cpus[i]);
	return (int64_t)memory_free_pages(q, NID_NONE) + vmstat_read(q, VM_nr_slab_pages) + (q->huge_zero ? HPAGE_PMD_NR : 0);
}

/* Nothing may be left behind, whatever happened. */
static struct ran run(const char *name, const struct workload_options *o, const struct set *s)
{
	struct machine *m = tiny_machine(1, s->cores);
	struct ran ran = { 0 };
	struct knobs k;
	struct quire *q;
	int64_t before;

	knobs_default(&k);
	k.thp_enabled = s->thp;
	k.huge_cow = s->cow;
	k.hugetlb_2m_nr = strstr(name, "hugetlb") ? 32 : 0;
	assert_int_equal(quire_boot(m, &k, &q, ran.err, sizeof(ran.err)), 0);
	before = free_frames(q);
	assert_non_null(workload_find(name));
	ran.error = workload_run(q, workload_find(name), o, &ran.r, ran.err, sizeof(ran.err));
	for (int i = 0; i < NR_VM_COUNTERS; i++)
		ran.n[i] = vmstat_read(q, (enum vm_counter)i);
	for (unsigned i = 0; i < m->nr_cpus; i++)
		ran.end_ps = MAX(ran.end_ps, m->cpus[i]->now_ps);
	if (quire_validate(q))
		fail_msg("%s: %s", name, q->err);
	assert_int_equal(free_frames(q), before);
	assert_int_equal(quire_shutdown(q), 0);
	model_destroy(m);
	return ran;
}

static void done(struct ran *r)
{
	workload_result_done(&r->r);
}

static void ok(const struct ran *r)
{
	if (r->error)
		fail_msg("%d: %s", r->error, r->err);
	assert_false(r->r.stopped);
	assert_false(r->r.out_of_memory);
}

/* ---- copy on write ---- */

static void cow_seq_copies_each_page_once_a_child(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 6 * MIB, .check = true };
	struct ran r = run("anon-cow-seq", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.task_bytes, 2 * MIB);
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 512);
	assert_int_equal(r.n[VM_quire_fault_cow_4k], 2 * 512);
	assert_int_equal(r.n[VM_pgfault], 3 * 512);
	assert_int_equal(r.n[VM_quire_fork], 2);
	assert_int_equal(r.r.processes, 3);
	/* each child's pages by value, and the parent's, untouched */
	assert_int_equal(r.r.checked, 3 * 512);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.r.stores, 2 * 2 * MIB / 8);
	assert_int_equal(r.r.loads, 2 * 512);
	assert_int_equal(r.r.phase_4k.count, 2 * 512);
	assert_int_equal(r.r.phase_2m.count, 0);
	assert_int_equal(r.r.rss_peak_bytes, 6 * MIB);
	done(&r);
}

static void cow_seq_on_huge_pages(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 12 * MIB, .check = true };
	struct ran r = run("anon-cow-seq", &o, &huge_copy);

	(void)state;
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_2m], 2);
	assert_int_equal(r.n[VM_quire_fault_cow_2m], 4);
	assert_int_equal(r.n[VM_pgfault], 6);
	assert_int_equal(r.n[VM_quire_pages_copied], 4 * 512);
	assert_int_equal(r.r.phase_2m.count, 4);
	assert_true(r.r.phase_2m.fault_ns > r.r.phase_2m.pass_ns / 10);
	assert_int_equal(r.r.anon_huge_peak_bytes, 12 * MIB);
	done(&r);

	r = run("anon-cow-seq", &o, &huge_split);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_2m], 2);
	assert_int_equal(r.n[VM_quire_fault_cow_4k], 2 * 1024);
	assert_int_equal(r.r.phase_2m.count, 0);
	assert_int_equal(r.r.wrong, 0);
	done(&r);
}

static void cow_rand_reaches_most_pages(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 6 * MIB, .step = 64, .seed = 7, .check = true };
	struct ran r = run("anon-cow-rand", &o, &small_pages);

	(void)state;
	ok(&r);
	/* 32,768 draws over 512 pages reach all of them */
	assert_int_equal(r.n[VM_quire_fault_cow_4k], 2 * 512);
	assert_int_equal(r.r.stores, 2 * 2 * MIB / 64);
	assert_int_equal(r.r.wrong, 0);
	done(&r);
}

static void threads_of_a_child_copy_together(void **state)
{
	const struct workload_options o = { .tasks = 3, .size = 4 * MIB, .check = true };
	struct ran r = run("anon-cow-seq-mt", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.task_bytes, 2 * MIB);
	assert_int_equal(r.n[VM_quire_fault_cow_4k], 512);
	assert_int_equal(r.n[VM_quire_fork], 1);
	assert_int_equal(r.r.processes, 2);
	assert_int_equal(r.r.stores, 3 * 2 * MIB / 8);
	assert_int_equal(r.r.wrong, 0);
	done(&r);
}

/* ---- fresh memory ---- */

static void w_seq_faults_each_page_once(void **state)
{
	struct workload_options o = { .tasks = 2, .size = 4 * MIB, .check = true };
	struct ran r = run("anon-w-seq", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 1024);
	assert_int_equal(r.n[VM_pgfault], 1024);
	assert_int_equal(r.r.bytes, 4 * MIB + 4 * MIB / 8);
	assert_int_equal(r.r.checked, 1024);
	done(&r);

	r = run("anon-w-seq-mt", &o, &huge_copy);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_2m], 2);
	assert_int_equal(r.n[VM_pgfault], 2);
	assert_int_equal(r.r.phase_2m.count, 2);
	done(&r);
}

static void threads_write_the_same_memory(void **state)
{
	const struct workload_options o = { .tasks = 3, .size = 4 * MIB, .check = true };
	struct ran r = run("anon-wx-seq-mt", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.task_bytes, 4 * MIB);
	assert_int_equal(r.r.stores, 3 * 4 * MIB / 8);
	/* nobody populates; a page is fresh for one thread, whoever comes first */
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 1024);
	assert_int_equal(r.n[VM_quire_fault_cow_4k], 0);
	assert_int_equal(r.r.checked, 3 * 1024);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.r.rss_peak_bytes, 4 * MIB);
	done(&r);
}

/* The time in which all tasks were at work: there only where tasks are staggered, and their walks in order. */
static void steady_state_of_staggered_walks(void **state)
{
	struct workload_options o = { .tasks = 2, .size = 48 * MIB, .stagger_ns = 1000000, .seed = 3 };
	struct ran r = run("anon-cow-seq", &o, &huge_copy);
	uint64_t sum;

	(void)state;
	ok(&r);
	assert_int_equal(r.r.phase_2m.count, 16);
	assert_in_range(r.r.steady.blocks, 8, 15);
	sum = r.r.steady.fault_ns + r.r.steady.pass_ns;
	assert_true(sum > 0 && sum < r.r.phase_2m.fault_ns + r.r.phase_2m.pass_ns);
	/* two tasks, each a block of 2 MiB in a block's mean time, or nearly */
	assert_in_range(r.r.steady.KBps, 2 * 2048 * r.r.steady.blocks * 900000000 / sum, 2 * 2048 * r.r.steady.blocks * 1000000000 / sum);
	/* the first 64 KiB after a fault are a part of the pass */
	assert_true(r.r.phase_2m.near_ns > 0 && r.r.phase_2m.near_ns < r.r.phase_2m.pass_ns / 8);
	done(&r);
	o.stagger_ns = 0;
	r = run("anon-cow-seq", &o, &huge_copy);
	ok(&r);
	assert_int_equal(r.r.steady.KBps, 0);
	done(&r);
}

static void steps_passes_and_think_time(void **state)
{
	struct workload_options o = { .tasks = 1, .size = 2 * MIB, .step = 4096, .passes = 3, .check = true };
	struct ran r = run("anon-w-seq", &o, &small_pages), slow;

	(void)state;
	ok(&r);
	assert_int_equal(r.n[VM_pgfault], 512);
	assert_int_equal(r.r.ops, 3 * 512);
	assert_int_equal(r.r.stores, 3 * 512);
	assert_int_equal(r.r.checked, 3 * 512); /* before the second and third store, and at the end */
	o.think_ns = 10000;
	slow = run("anon-w-seq", &o, &small_pages);
	ok(&slow);
	assert_true(slow.r.work_ns > r.r.work_ns + 3 * 512 * 9000);
	assert_true(slow.r.work_ns < r.r.work_ns + 3 * 512 * 12000);
	assert_int_equal(slow.r.stores, r.r.stores);
	done(&r);
	done(&slow);

	o = (struct workload_options){ .tasks = 1, .size = 2 * MIB, .step = 24, .passes = 2 };
	r = run("anon-w-seq", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.r.stores, 2 * ((2 * MIB + 23) / 24));
	assert_int_equal(r.r.loads, (2 * MIB + 23) / 24);
	done(&r);
}

static void reads_get_the_zero_page(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 4 * MIB, .check = true };
	struct ran r = run("anon-r-seq", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_zero_4k], 1024);
	assert_int_equal(r.r.stores, 0);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.r.rss_peak_bytes, 0);
	done(&r);
	r = run("anon-r-seq", &o, &huge_copy);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_zero_2m], 2);
	done(&r);
	r = run("anon-r-rand", &o, &huge_copy);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_zero_2m], 2);
	done(&r);
}

/* ---- will-it-scale ---- */

static void page_faults_one_an_operation(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 2 * MIB, .ops = 600, .check = true };
	struct ran r = run("page_fault1", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.task_bytes, MIB);
	assert_int_equal(r.r.ops, 1200);
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 1200);
	assert_int_equal(r.n[VM_pgfault], 1200);
	assert_int_equal(r.r.checked, 1200);
	done(&r);

	r = run("page_fault2", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_cow_4k] + r.n[VM_quire_fault_file], 1200);
	assert_int_equal(r.n[VM_quire_pages_copied], 1200);
	assert_int_equal(r.r.checked, 1200);
	done(&r);

	r = run("page_fault3-mt", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.r.ops, 1200);
	assert_int_equal(r.n[VM_quire_pages_copied], 0);
	assert_int_equal(r.n[VM_nr_anon_pages], 0);
	assert_int_equal(r.r.wrong, 0);
	done(&r);
}

static void page_fault1_on_huge_pages(void **state)
{
	const struct workload_options o = { .tasks = 1, .size = 4 * MIB, .ops = 2048, .check = true };
	struct ran r = run("page_fault1", &o, &huge_copy);

	(void)state;
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_2m], 4);
	assert_int_equal(r.n[VM_pgfault], 4);
	assert_int_equal(r.r.checked, 2048);
	done(&r);
}

static void map_churn(void **state)
{
	const struct workload_options o = { .tasks = 2, .ops = 50, .check = true };
	struct ran r = run("malloc1", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.ops, 100);
	assert_int_equal(r.n[VM_pgfault], 100);
	done(&r);
	r = run("mmap1-mt", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.r.ops, 100);
	assert_int_equal(r.n[VM_pgfault], 0);
	assert_int_equal(r.r.refs, 0);
	assert_true(r.n[VM_quire_mmap_lock_write] >= 200);
	done(&r);
}

static void tlb_flush2_drops_each_page(void **state)
{
	const struct workload_options o = { .tasks = 2, .ops = 300 };
	struct ran r = run("tlb_flush2-mt", &o, &small_pages);

	(void)state;
	ok(&r);
	/* the store's fault, and the zero page for the load */
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 600);
	assert_int_equal(r.n[VM_quire_fault_zero_4k], 600);
	assert_int_equal(r.r.checked, 600);
	assert_int_equal(r.r.wrong, 0);
	assert_true(r.n[VM_nr_tlb_remote_flush] > 0);
	done(&r);
	r = run("tlb_flush2", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 600);
	assert_int_equal(r.n[VM_nr_tlb_remote_flush], 0);
	done(&r);
}

static void flushes_of_files_find_what_is_below(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 2 * MIB, .ops = 300 };
	struct ran r = run("tlb_flush1", &o, &small_pages);

	(void)state;
	ok(&r);
	/* each store copies the file's page, each load gets the file's own */
	assert_int_equal(r.r.ops, 600);
	assert_int_equal(r.n[VM_quire_pages_copied], 600);
	assert_int_equal(r.r.checked, 600);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.n[VM_nr_tlb_remote_flush], 0);
	done(&r);
	r = run("tlb_flush1-mt", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.n[VM_quire_pages_copied], 600);
	assert_true(r.n[VM_nr_tlb_remote_flush] > 0);
	done(&r);
	r = run("tlb_flush3-mt", &o, &small_pages);
	ok(&r);
	/* the page stays in the cache, with what was stored: mapped twice an operation, never copied */
	assert_int_equal(r.n[VM_quire_pages_copied], 0);
	assert_int_equal(r.n[VM_pgfault], 1200);
	assert_int_equal(r.r.checked, 600);
	assert_int_equal(r.r.wrong, 0);
	assert_true(r.n[VM_nr_tlb_remote_flush] > 0);
	done(&r);
}

static void a_file_mapped_and_the_heap_moved(void **state)
{
	const struct workload_options o = { .tasks = 2, .ops = 50 };
	struct ran r = run("mmap2", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.ops, 100);
	assert_int_equal(r.n[VM_pgfault], 0);
	assert_int_equal(r.n[VM_nr_file_pages], 0);
	assert_true(r.n[VM_quire_mmap_lock_write] >= 200);
	done(&r);
	r = run("brk1", &o, &small_pages);
	ok(&r);
	assert_int_equal(r.r.ops, 100);
	assert_int_equal(r.n[VM_pgfault], 0);
	/* one a call; beside them the forks' and the ends' */
	assert_in_range(r.n[VM_quire_mmap_lock_write], 100, 110);
	done(&r);
	r = run("brk1-mt", &o, &small_pages); /* all move one break, and none may find it where it did not ask for it */
	ok(&r);
	assert_int_equal(r.r.ops, 100);
	assert_in_range(r.n[VM_quire_mmap_lock_write], 100, 110);
	done(&r);
}

/* ---- rates ---- */

static void rates_are_work_over_time(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 4 * MIB }, w = { .tasks = 2, .size = 2 * MIB, .limit_ns = 500000 };
	struct ran r = run("anon-w-seq", &o, &small_pages);
	uint64_t sum = 0;

	(void)state;
	ok(&r);
	assert_int_equal(r.r.tasks, 2);
	for (unsigned i = 0; i < 2; i++) {
		const struct workload_task_result *t = &r.r.task[i];

		assert_int_equal(t->ops, 2 * MIB / 8);
		assert_int_equal(t->bytes, 2 * MIB + 2 * MIB / 8);
		assert_int_equal(t->value, t->bytes * 1000000000ULL / 1024 / t->ns);
		assert_in_range(t->value, r.r.min, r.r.max);
		sum += t->value;
	}
	assert_int_equal(r.r.total, sum);
	assert_true(r.r.total_from_go >= r.r.total);
	assert_in_range(r.r.median, r.r.min, r.r.max);
	assert_true(r.r.setup_ns + r.r.work_ns <= r.r.elapsed_ns);
	assert_true(r.r.task_user_ns + r.r.task_kernel_ns <= r.r.cpu_ns);
	done(&r);

	/* by time: a fifth for warming up, which does not count */
	r = run("page_fault1", &w, &small_pages);
	ok(&r);
	assert_in_range(r.r.work_ns, 600000, 650000);
	for (unsigned i = 0; i < 2; i++) {
		assert_in_range(r.r.task[i].ns, 450000, 550000);
		assert_true(r.r.task[i].value * r.r.task[i].ns / 1000000000ULL < r.r.task[i].ops);
	}
	done(&r);
}

static void time_ends_a_walk(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 64 * MIB, .limit_ns = 1000000, .check = true };
	struct ran r = run("anon-w-seq", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_true(r.r.work_ns >= 1000000);
	assert_true(r.r.ops < 64 * MIB / 8);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.r.checked, 64 * MIB / PAGE_SIZE);
	done(&r);
}

static void same(const struct ran *a, const struct ran *b)
{
	assert_int_equal(a->end_ps, b->end_ps);
	assert_memory_equal(a->n, b->n, sizeof(a->n));
	assert_int_equal(a->r.total, b->r.total);
	assert_memory_equal(a->r.task, b->r.task, a->r.tasks * sizeof(*a->r.task));
}

static void the_same_seed_gives_the_same_run(void **state)
{
	struct workload_options o = { .tasks = 3, .size = 6 * MIB, .step = 64, .seed = 3, .stagger_ns = 20000 };
	static const char *const names[] = { "anon-cow-rand", "anon-w-rand-mt", "anon-cow-seq" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct ran a = run(names[i], &o, &small_pages), b = run(names[i], &o, &small_pages), c;

		ok(&a);
		same(&a, &b);
		o.seed++;
		c = run(names[i], &o, &small_pages);
		assert_int_not_equal(a.end_ps, c.end_ps);
		done(&a);
		done(&b);
		done(&c);
	}
}

static void more_tasks_than_cpus(void **state)
{
	const struct workload_options o = { .tasks = 9, .size = 18 * MIB, .check = true };
	struct workload_options p = o;
	struct ran r = run("anon-w-seq", &o, &small_pages);

	(void)state;
	ok(&r);
	assert_int_equal(r.r.tasks, 9);
	assert_int_equal(r.n[VM_quire_fault_anon_4k], 9 * 512);
	assert_int_equal(r.r.wrong, 0);
	done(&r);
	for (p.placement = PLACEMENT_NONE; p.placement <= PLACEMENT_COMPACT; p.placement++) {
		r = run("anon-w-seq-mt", &p, &small_pages);
		ok(&r);
		assert_int_equal(r.n[VM_quire_fault_anon_4k], 9 * 512);
		done(&r);
	}
}

/* Spread goes node after node, compact fills one first: 2 of 4 CPUs, then memory is where its task is. */
static void placement_chooses_nodes(void **state)
{
	static const struct {
		enum workload_placement p;
		uint64_t node1;
	} want[] = { { PLACEMENT_SPREAD, 512 }, { PLACEMENT_COMPACT, 0 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		struct machine *m = tiny_machine(2, 2);
		const struct workload_options o = { .tasks = 2, .size = 4 * MIB, .placement = want[i].p };
		struct workload_result r;
		char err[200];
		struct quire *q;
		struct knobs k;

		knobs_default(&k);
		k.thp_enabled = THP_NEVER;
		assert_int_equal(quire_boot(m, &k, &q, err, sizeof(err)), 0);
		assert_int_equal(workload_run(q, workload_find("anon-w-seq"), &o, &r, err, sizeof(err)), 0);
		assert_int_equal(m->cpus[2]->pc->vmstat.v[VM_quire_fault_anon_4k], want[i].node1);
		assert_int_equal(m->cpus[0]->pc->vmstat.v[VM_quire_fault_anon_4k], 512);
		workload_result_done(&r);
		assert_int_equal(quire_shutdown(q), 0);
		model_destroy(m);
	}
}

/* ---- what goes wrong ---- */

static void out_of_memory_is_reported(void **state)
{
	const struct workload_options o = { .tasks = 2, .size = 600 * MIB, .step = 4096, .check = true };
	static const char *const names[] = { "anon-w-seq", "anon-cow-seq", "anon-cow-seq-mt", "anon-w-rand-mt", "page_fault1" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const struct workload_options wis = { .tasks = 3, .size = 600 * MIB, .check = true };
		bool usemem = names[i][0] == 'a';
		struct ran r = run(names[i], usemem ? &o : &wis, i % 2 ? &small_pages : &huge_copy);

		if (r.error || !r.r.out_of_memory)
			fail_msg("%s: %d %s, out of memory %d", names[i], r.error, r.err, r.r.out_of_memory);
		done(&r);
	}
}

static void options_that_make_no_sense(void **state)
{
	static const struct {
		const char *name;
		struct workload_options o;
	} bad[] = {
		{ "anon-w-seq", { .step = 12 } },
		{ "anon-w-seq", { .step = 24, .check = true } },
		{ "anon-w-seq", { .tasks = 8, .size = 4096 } },
		{ "anon-w-seq", { .tasks = 70000 } },
		{ "anon-w-seq", { .size = 1ULL << 47 } },
		{ "page_fault1", { .step = 8 } },
		{ "page_fault1", { .think_ns = 1 } },
		{ "page_fault1", { .passes = 2 } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ran r = run(bad[i].name, &bad[i].o, &small_pages);

		assert_int_equal(r.error, -EINVAL);
		assert_non_null(strstr(r.err, bad[i].name));
		done(&r);
	}
	assert_null(workload_find("anon-x-seq"));
}

struct interrupt {
	volatile bool stop;
	uint64_t at;
};

static void interrupt_at(void *arg, uint64_t refs)
{
	struct interrupt *i = arg;

	if (refs >= i->at)
		i->stop = true;
}

static void interrupted_runs_give_back_everything(void **state)
{
	static const char *const names[] = { "anon-cow-seq", "anon-w-rand-mt", "page_fault1", "page_fault2-mt", "anon-r-seq" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		for (unsigned early = 0; early < 2; early++) {
			struct interrupt in = { .stop = early, .at = names[i][0] == 'a' ? 1 << 19 : 1 << 13 };
			const struct workload_options o = { .tasks = 3, .size = 48 * MIB, .limit_ns = ~0ULL >> 1, .stop = &in.stop,
							    .progress = interrupt_at, .progress_arg = &in };
			struct ran r = run(names[i], &o, &huge_copy);

			if (r.error)
				fail_msg("%s: %d %s", names[i], r.error, r.err);
			assert_true(r.r.stopped);
			done(&r);
		}
}

/* ---- contents: a wrong page is found ---- */

/* Spoils a page of some task in the middle of its run, behind everybody's back. */
static void spoil(void *arg, uint64_t refs)
{
	struct machine *m = *(struct machine **)arg;

	for (uint64_t p = 0; refs && m && p < m->max_pfn; p++)
		if (m->tags[p] >> 40 == 1) {
			m->tags[p] ^= 1;
			*(struct machine **)arg = NULL;
			return;
		}
}

static void wrong_contents_are_found(void **state)
{
	struct machine *m = tiny_machine(1, 2), *spoiled = m;
	const struct workload_options o = { .tasks = 2, .size = 8 * MIB, .check = true, .progress = spoil, .progress_arg = &spoiled };
	struct workload_result r;
	char err[200];
	struct quire *q;

	(void)state;
	assert_int_equal(quire_boot(m, NULL, &q, err, sizeof(err)), 0);
	assert_int_equal(workload_run(q, workload_find("anon-w-seq"), &o, &r, err, sizeof(err)), -EBADMSG);
	assert_null(spoiled);
	assert_int_equal(r.wrong, 1);
	assert_non_null(strstr(err, "1 of 2048 pages"));
	workload_result_done(&r);
	assert_int_equal(quire_shutdown(q), 0);
	model_destroy(m);
}

static void every_workload_runs(void **state)
{
	(void)state;
	for (size_t i = 0; i < workload_count; i++) {
		const struct workload *w = &workload_table[i];
		const struct workload_options o = { .tasks = 2, .size = 12 * MIB, .ops = 700, .check = true };
		struct ran r;

		if (w->boot) /* test_meminit_threads */
			continue;
		r = run(w->name, &o, i % 2 ? &huge_copy : &small_pages);
		ok(&r);
		if (w->sampled)
			assert_true(r.r.ops <= 1400);
		else
			assert_int_equal(r.r.ops, 1400);
		assert_true(r.r.total > 0 || w->sampled);
		assert_ptr_equal(workload_find(w->name), w);
		assert_true(w->origin[0] && w->help[0] && w->metric[0] && w->unit[0] && w->size);
		done(&r);
	}
}

/* ---- on this computer ---- */

/* Real threads on real memory: the same counts of faults and the same contents as on the model. */
static void every_workload_runs_on_the_host(void **state)
{
	(void)state;
	for (size_t i = 0; i < workload_count; i++) {
		const struct workload *w = &workload_table[i];
		struct workload_options o = { .tasks = 3, .size = 16 * MIB, .ops = 700, .check = true };
		const struct host_options ho = { .memory = 256 * MIB, .nr_cpus = 8 };
		struct workload_result r;
		struct machine *m;
		struct quire *q;
		struct knobs k;
		char err[300] = "";

		if (w->boot)
			continue;
		knobs_default(&k);
		k.thp_enabled = i % 2 && strcmp(w->name, "page_fault1") ? THP_ALWAYS : THP_NEVER;
		k.hugetlb_2m_nr = strstr(w->name, "hugetlb") ? 32 : 0;
		o.placement = i % 3 ? PLACEMENT_DEFAULT : PLACEMENT_SPREAD;
		if (host_create(&ho, &m, err, sizeof(err)) || quire_boot(m, &k, &q, err, sizeof(err)))
			fail_msg("%s", err);
		if (workload_run(q, w, &o, &r, err, sizeof(err)))
			fail_msg("%s: %s", w->name, err);
		if (r.ops != 3 * 700 && !w->sampled)
			fail_msg("%s: %lu of 2100 operations, out of memory: %d", w->name, (unsigned long)r.ops, r.out_of_memory);
		assert_int_equal(r.wrong, 0);
		assert_false(r.out_of_memory || r.stopped);
		if (!strcmp(w->name, "page_fault1")) {
			assert_int_equal(r.checked, 3 * 700);
			assert_int_equal(vmstat_read(q, VM_quire_fault_anon_4k), 3 * 700);
		}
		o.tasks = 8;
		workload_result_done(&r);
		assert_int_equal(workload_run(q, w, &o, &r, err, sizeof(err)), -EINVAL); /* the parent needs a CPU too */
		workload_result_done(&r);
		if (quire_validate(q))
			fail_msg("%s: %s", w->name, q->err);
		assert_int_equal(quire_shutdown(q), 0);
		host_destroy(m);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cow_seq_copies_each_page_once_a_child),
		cmocka_unit_test(cow_seq_on_huge_pages),
		cmocka_unit_test(cow_rand_reaches_most_pages),
		cmocka_unit_test(threads_of_a_child_copy_together),
		cmocka_unit_test(w_seq_faults_each_page_once),
		cmocka_unit_test(threads_write_the_same_memory),
		cmocka_unit_test(steady_state_of_staggered_walks),
		cmocka_unit_test(steps_passes_and_think_time),
		cmocka_unit_test(reads_get_the_zero_page),
		cmocka_unit_test(page_faults_one_an_operation),
		cmocka_unit_test(page_fault1_on_huge_pages),
		cmocka_unit_test(map_churn),
		cmocka_unit_test(tlb_flush2_drops_each_page),
		cmocka_unit_test(flushes_of_files_find_what_is_below),
		cmocka_unit_test(a_file_mapped_and_the_heap_moved),
		cmocka_unit_test(rates_are_work_over_time),
		cmocka_unit_test(time_ends_a_walk),
		cmocka_unit_test(the_same_seed_gives_the_same_run),
		cmocka_unit_test(more_tasks_than_cpus),
		cmocka_unit_test(placement_chooses_nodes),
		cmocka_unit_test(out_of_memory_is_reported),
		cmocka_unit_test(options_that_make_no_sense),
		cmocka_unit_test(interrupted_runs_give_back_everything),
		cmocka_unit_test(wrong_contents_are_found),
		cmocka_unit_test(every_workload_runs),
		cmocka_unit_test(every_workload_runs_on_the_host),
	};

	return test_run(tests);
}
