/*
 * More wanted than there is memory, with tasks: kswapd and requests free what can be had again, on the model and with real threads; and when
 * nothing can, one address space ends, and the others go on.
 */
#include "tiny_machine.h"

#include "machine/host/host.h"
#include "mm/kthread.h"
#include "mm/lru.h"
#include "workload/workload.h"

#define MIB (1ULL << 20)

struct ran {
	struct workload_result r;
	int64_t n[NR_VM_COUNTERS];
	uint64_t end_ps, kswapd_ns;
	int error;
	char err[300];
};

static int add_kswapd(void *arg, const char *name, uint64_t cpu_ns)
{
	uint64_t *sum = arg;

	if (!strncmp(name, "kswapd", 6))
		*sum += cpu_ns;
	return 0;
}

static struct machine *small_model(void)
{
	struct machine_desc d = tiny_desc(1, 2);
	struct model_options o = { .seed = 1 };
	struct machine *m = NULL;
	char err[200] = "";

	d.nodes[0].memory = 128 * MIB;
	if (model_create(&d, &o, &m, err, sizeof(err)))
		fail_msg("%s", err);
	return m;
}

static struct ran run_on(struct machine *m, const char *name, const struct workload_options *o)
{
	struct ran ran = { 0 };
	struct knobs k;
	struct quire *q;

	knobs_default(&k);
	k.thp_enabled = THP_NEVER;
	assert_int_equal(quire_boot(m, &k, &q, ran.err, sizeof(ran.err)), 0);
	ran.error = workload_run(q, workload_find(name), o, &ran.r, ran.err, sizeof(ran.err));
	for (unsigned i = 0; i < m->nr_cpus; i++)
		ran.end_ps = MAX(ran.end_ps, m->cpus[i]->now_ps);
	lru_add_drain_all(m->cpus[0]);
	for (int i = 0; i < NR_VM_COUNTERS; i++)
		ran.n[i] = vmstat_read(q, (enum vm_counter)i);
	(void)kthreads_each(q, add_kswapd, &ran.kswapd_ns);
	if (quire_validate(q))
		fail_msg("%s: %s", name, q->err);
	assert_int_equal(quire_shutdown(q), 0);
	return ran;
}

/* What the counters have to do with each other, whoever ran when. */
static void sums(const struct ran *r)
{
	assert_int_equal(r->n[VM_nr_isolated_anon], 0);
	assert_int_equal(r->n[VM_nr_isolated_file], 0);
	assert_int_equal(r->n[VM_pgscan_kswapd] + r->n[VM_pgscan_direct], r->n[VM_pgscan_anon] + r->n[VM_pgscan_file]);
	assert_int_equal(r->n[VM_pgsteal_kswapd] + r->n[VM_pgsteal_direct], r->n[VM_pgsteal_anon] + r->n[VM_pgsteal_file]);
	assert_true(r->n[VM_pgscan_file] >= r->n[VM_pgsteal_file]);
}

static void finished(const struct ran *r)
{
	if (r->error)
		fail_msg("%d: %s", r->error, r->err);
	assert_false(r->r.out_of_memory);
	assert_int_equal(r->r.wrong, 0);
	assert_int_equal(r->n[VM_quire_fault_oom] + r->n[VM_oom_kill], 0);
	sums(r);
}

/* A file that doesn't fit, twice in order: all of it is read twice, and kswapd does most of the work. */
static void file_on_the_model(void **state)
{
	const struct workload_options o = { .tasks = 2, .size_percent = 150, .step = 512, .check = true };
	struct machine *m = small_model(), *again = small_model();
	struct ran r = run_on(m, "usemem-pressure-file", &o), same = run_on(again, "usemem-pressure-file", &o);

	(void)state;
	finished(&r);
	assert_int_equal(r.r.task_bytes, 96 * MIB);
	assert_int_equal(r.r.checked, 2 * 96 * MIB / PAGE_SIZE);
	assert_true(r.n[VM_pgsteal_kswapd] > 0 && r.n[VM_pageoutrun] > 0 && r.kswapd_ns > 0);
	/* Twice, and once more for the check; what was there from one time to the next need not be read. */
	assert_true(r.n[VM_pgpgin] >= 2 * 192 * 1024);
	assert_int_equal(r.n[VM_pgsteal_anon] + r.n[VM_pgscan_anon], 0);
	/* The same seed, the same run. */
	assert_int_equal(r.end_ps, same.end_ps);
	for (int i = 0; i < NR_VM_COUNTERS; i++)
		if (r.n[i] != same.n[i])
			fail_msg("%s: %ld, then %ld", vm_counter_names[i], (long)r.n[i], (long)same.n[i]);
	workload_result_done(&r.r);
	workload_result_done(&same.r);
	model_destroy(m);
	model_destroy(again);
}

/* Two programs and no swap: the larger one ends, memory it had is there again, the smaller one goes on. */
static void one_is_killed(void **state)
{
	const struct workload_options o = { .tasks = 2, .size_percent = 150, .step = 512, .check = true };
	struct machine *m = small_model();
	struct ran r = run_on(m, "usemem-pressure", &o);

	(void)state;
	assert_int_equal(r.error, 0);
	assert_true(r.r.out_of_memory);
	assert_int_equal(r.r.wrong, 0);
	assert_int_equal(r.n[VM_oom_kill], 1);
	assert_true(r.n[VM_quire_fault_oom] >= 1);
	/* The one that is left has all of its memory. */
	assert_true(r.r.stores >= 2 * 96 * MIB / 512);
	sums(&r);
	workload_result_done(&r.r);
	model_destroy(m);
}

/* Real threads: faults, direct reclaim and kswapd at once. */
static void file_on_this_computer(void **state)
{
	const struct workload_options o = { .tasks = 3, .size_percent = 150, .step = 1024, .check = true };
	const struct host_options h = { .memory = 128 * MIB, .nr_cpus = 5 };
	struct machine *m = NULL;
	char err[200] = "";
	struct ran r;

	(void)state;
	if (host_create(&h, &m, err, sizeof(err)))
		fail_msg("%s", err);
	r = run_on(m, "usemem-pressure-file", &o);
	finished(&r);
	assert_true(r.n[VM_pgsteal_file] > 0);
	workload_result_done(&r.r);
	host_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_on_the_model),
		cmocka_unit_test(one_is_killed),
		cmocka_unit_test(file_on_this_computer),
	};

	return test_run(tests);
}
