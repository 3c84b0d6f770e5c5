/*
 * A row that is a standard workload: its options from the run's, its figures into the row's metrics. What a workload has in common
 * with a replay (time, references, memory) goes where a replay's would, so that tables and notes are the same.
 */
#include "base/compiler.h"
#include "lab/run.h"

#include <stdio.h>
#include <string.h>

void lab_host_desc(struct machine_desc *ret)
{
	*ret = (struct machine_desc){ .name = "host", .title = "this computer" };
}

static void as_replay(struct lab_row *row, const struct workload_result *r)
{
	row->replay = (struct replay_result){
		.refs = r->refs,
		.loads = r->loads,
		.stores = r->stores,
		.streams = r->tasks,
		.processes = r->processes,
		.cpu_ns = r->cpu_ns,
		.elapsed_ns = r->elapsed_ns,
		.rss_peak_bytes = r->rss_peak_bytes,
		.anon_peak_bytes = r->anon_peak_bytes,
		.anon_huge_peak_bytes = r->anon_huge_peak_bytes,
		.memory_peak_bytes = r->memory_peak_bytes,
		.pgtables_peak_bytes = r->pgtables_peak_bytes,
		.stopped = r->stopped,
		.out_of_memory = r->out_of_memory,
	};
}

static void add_rates(struct metrics *ms, const struct workload *w, const struct workload_result *r)
{
	const struct {
		const char *suffix, *help;
		uint64_t value;
	} v[] = {
		{ "", "the workload's own metric, all tasks together", r->total },
		{ "_task_min", "a task's, lowest", r->min },
		{ "_task_median", "a task's, median", r->median },
		{ "_task_max", "a task's, highest", r->max },
	};
	char name[96];

	for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
		snprintf(name, sizeof(name), "%s%s", w->metric, v[i].suffix);
		metrics_add(ms, name, v[i].value, 0, w->unit, v[i].help);
	}
	if (r->total_from_go)
		metrics_add(ms, "throughput_from_go_KBps", r->total_from_go, 0, w->unit,
			    "the same by the clock from the moment that tasks were let go");
	if (!r->steady.KBps)
		return;
	metrics_add(ms, "throughput_steady_KBps", r->steady.KBps, 0, w->unit, "of accesses, while all staggered tasks were at work");
	metrics_add(ms, "steady_fault_ns", r->steady.fault_ns / r->steady.blocks, 0, "ns", "of an access that faulted, meanwhile, mean");
	metrics_add(ms, "steady_rest_ns", r->steady.pass_ns / r->steady.blocks, 0, "ns",
		    "of the accesses to the rest of that page, meanwhile, mean");
}

static void add_phase(struct metrics *ms, const char *size, const struct workload_phase *p)
{
	char name[64];

	snprintf(name, sizeof(name), "first_touch_count_%s", size);
	metrics_add(ms, name, p->count, 0, "", "pages that a walk in order faulted in and went over without a further fault");
	if (!p->count)
		return;
	snprintf(name, sizeof(name), "first_touch_fault_%s_ns", size);
	metrics_add(ms, name, p->fault_ns / p->count, 0, "ns",
		    "of the access that faulted, mean: the fault with its clearing or copying");
	if (p->near_ns) {
		snprintf(name, sizeof(name), "first_touch_near_%s_ns", size);
		metrics_add(ms, name, p->near_ns / p->count, 0, "ns",
			    "of the accesses after that one up to the next multiple of 64 KiB, mean");
	}
	snprintf(name, sizeof(name), "first_touch_rest_%s_ns", size);
	metrics_add(ms, name, p->pass_ns / p->count, 0, "ns",
		    "of the accesses to the rest of that page, right after the fault, mean");
}

static void add_times(struct metrics *ms, const struct workload_result *r)
{
	metrics_add(ms, "setup_time_ns", r->setup_ns, 0, "ns", "until the tasks were let go");
	metrics_add(ms, "work_time_ns", r->work_ns, 0, "ns", "from then on until the last had done its work");
	metrics_add(ms, "free_time_ns", r->free_ns, 0, "ns", "giving the memory back, all tasks together");
	metrics_add(ms, "user_time_ns", r->task_user_ns, 0, "ns", "of the tasks, outside of faults and system calls");
	metrics_add(ms, "system_time_ns", r->task_kernel_ns, 0, "ns", "of the tasks, in faults and system calls");
	metrics_add(ms, "task_bytes", r->task_bytes, 0, "bytes", "memory that each task works on");
	metrics_add(ms, "operations", r->ops, 0, "", "of all tasks, warming up included");
	metrics_add(ms, "pages_checked", r->checked, 0, "", "whose contents were compared");
	metrics_add(ms, "pages_wrong", r->wrong, 0, "", "of them, with contents that nobody stored");
}

/* Instructions a cycle over all time on CPUs, kernel included, as the counters of a whole machine give it. */
static void add_ipc(struct metrics *ms, const struct machine_desc *d)
{
	uint64_t insns = metrics_u64(ms, "instructions"), ns = metrics_u64(ms, "user_ns") + metrics_u64(ms, "kernel_ns");
	unsigned __int128 cycles = (unsigned __int128)ns * d->freq_khz / 1000000;

	if (cycles)
		metrics_add(ms, "ipc", (uint64_t)((unsigned __int128)insns * 1000 / cycles), 3, "instructions/cycle",
			    "of busy CPUs, kernel included");
}

/* pmbench's histograms, the buckets that have samples. */
static void add_histograms(struct metrics *ms, const struct pmbench_hist *h)
{
	char name[64];

	for (unsigned j = 0; h && j < 2; j++)
		for (unsigned i = 0; i < PMBENCH_BUCKETS; i++)
			if (h[j].bucket[i]) {
				snprintf(name, sizeof(name), "%s_latency_from_%lu_ns", j ? "write" : "read",
					 (unsigned long)pmbench_bucket_from(i));
				metrics_add(ms, name, h[j].bucket[i], 0, "", "accesses that took so long or longer, up to the next bucket of pmbench's");
			}
}

int lab_run_workload(const struct lab_options *o, struct machine *m, struct quire *q, struct lab_row *row,
		     void (*progress)(void *arg, uint64_t refs), void *progress_arg)
{
	struct workload_options wo = o->source.work;
	struct workload_result r;
	int rc;

	wo.seed = o->seed;
	wo.progress = progress;
	wo.progress_arg = progress_arg;
	wo.stop = o->stop;
	rc = workload_run(q, o->source.workload, &wo, &r, row->err, sizeof(row->err));
	as_replay(row, &r);
	add_rates(&row->metrics, o->source.workload, &r);
	add_times(&row->metrics, &r);
	for (unsigned i = 0; i < r.nr_extra; i++)
		metrics_add(&row->metrics, r.extra[i].name, r.extra[i].value, r.extra[i].decimals, r.extra[i].unit, r.extra[i].help);
	add_histograms(&row->metrics, r.pmbench);
	add_phase(&row->metrics, "4k", &r.phase_4k);
	add_phase(&row->metrics, "2m", &r.phase_2m);
	lab_collect(&row->metrics, m, q, &row->replay);
	if (!o->host)
		add_ipc(&row->metrics, o->machine);
	workload_result_done(&r);
	return rc;
}
