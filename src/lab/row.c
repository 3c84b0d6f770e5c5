/*
 * One row: a machine, an engine on it, a replay, and the numbers that come out. Everything is created and destroyed
 * here, in the thread that runs the row.
 */
#include "lab/run.h"

#include "base/compiler.h"
#include "machine/run.h"
#include "mm/kthread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t host_now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000ULL + (uint64_t)t.tv_nsec;
}

static uint64_t per_mille(uint64_t part, uint64_t whole)
{
	return whole ? (uint64_t)((unsigned __int128)part * 1000 / whole) : 0;
}

static void collect_time(struct metrics *ms, const struct replay_result *r)
{
	metrics_add(ms, "time_ns", r->elapsed_ns, 0, "ns", "elapsed time on the modelled machine");
	metrics_add(ms, "cpu_time_ns", r->cpu_ns, 0, "ns", "time on CPUs, all tasks");
	metrics_add(ms, "think_time_ns", r->think_ns, 0, "ns",
		    "waiting for the world outside the recording, as recorded");
	metrics_add(ms, "references", r->refs, 0, "", "loads and stores replayed");
	metrics_add(ms, "references_load", r->loads, 0, "", "");
	metrics_add(ms, "references_store", r->stores, 0, "", "");
	metrics_add(ms, "references_unmapped", r->refs_unmapped, 0, "", "skipped: no area covered the address");
	metrics_add(ms, "references_failed", r->refs_failed, 0, "",
		    "their fault failed: a signal in the program, or out of memory");
	metrics_add(ms, "syscalls", r->syscalls, 0, "", "system calls replayed");
	metrics_add(ms, "syscalls_differing", r->mm_call_diffs, 0, "",
		    "memory calls that ended otherwise than when recorded");
	metrics_add(ms, "threads", r->streams, 0, "", "");
	metrics_add(ms, "processes", r->processes, 0, "", "");
	metrics_add(ms, "execs", r->images, 0, "", "");
	metrics_add(ms, "waits_released", r->order_released, 0, "", "waits whose waker is not in the recording");
}

static void collect_memory(struct metrics *ms, const struct replay_result *r)
{
	metrics_add(ms, "rss_peak_bytes", r->rss_peak_bytes, 0, "bytes", "resident memory of all processes, highest");
	metrics_add(ms, "rss_final_bytes", r->rss_final_bytes, 0, "bytes",
		    "resident memory of the recorded process just before it ended");
	metrics_add(ms, "anon_peak_bytes", r->anon_peak_bytes, 0, "bytes", "anonymous memory at the peak");
	metrics_add(ms, "anon_huge_peak_bytes", r->anon_huge_peak_bytes, 0, "bytes", "of it on 2 MiB pages");
	metrics_add(ms, "huge_share", per_mille(r->anon_huge_peak_bytes, r->anon_peak_bytes), 3, "ratio",
		    "share of anonymous memory on 2 MiB pages, at the peak");
	metrics_add(ms, "memory_peak_bytes", r->memory_peak_bytes, 0, "bytes",
		    "frames in use, page cache and tables included, highest");
	metrics_add(ms, "pgtables_peak_bytes", r->pgtables_peak_bytes, 0, "bytes", "page tables, highest");
}

static void latency(struct metrics *ms, const char *kind, const struct hist *h)
{
	static const struct {
		const char *name;
		unsigned per_mille;
	} points[] = { { "p50", 500 }, { "p90", 900 }, { "p99", 990 }, { "max", 1000 } };
	char name[96];

	for (size_t i = 0; i < ARRAY_SIZE(points); i++) {
		uint64_t v = points[i].per_mille == 1000 ? h->max : hist_quantile(h, points[i].per_mille);

		snprintf(name, sizeof(name), "fault_latency%s_%s_ns", kind, points[i].name);
		metrics_add(ms, name, v, 0, "ns", "of page faults, exception entry and exit included");
	}
	snprintf(name, sizeof(name), "fault_time%s_ns", kind);
	metrics_add(ms, name, h->sum, 0, "ns", "in page faults, all together");
	snprintf(name, sizeof(name), "fault_count%s", kind);
	metrics_add(ms, name, h->count, 0, "", "");
}

static const char *const fault_kind_names[NR_FAULT_KINDS] = {
	[FK_ANON_4K] = "_anon_4k", [FK_ANON_2M] = "_anon_2m", [FK_ZERO] = "_zero",   [FK_COW_4K] = "_cow_4k",
	[FK_COW_2M] = "_cow_2m",   [FK_FILE] = "_file",	      [FK_OTHER] = "_other",
};

static void collect_latency(struct metrics *ms, const struct quire *q)
{
	struct hist all = { 0 }, one;

	for (unsigned k = 0; k < NR_FAULT_KINDS; k++) {
		quire_fault_ns(q, (enum fault_kind)k, &one);
		hist_merge(&all, &one);
	}
	latency(ms, "", &all);
	for (unsigned k = 0; k < NR_FAULT_KINDS; k++) {
		quire_fault_ns(q, (enum fault_kind)k, &one);
		latency(ms, fault_kind_names[k], &one);
	}
}

/* Whole 2 MiB pages: the clearing and copying itself, without the rest of the fault. Nothing where there were none. */
static void collect_bulk(struct metrics *ms, const struct quire *q)
{
	static const struct {
		enum bulk_kind kind;
		const char *name;
	} bulk[] = { { BULK_CLEAR_2M, "clear" }, { BULK_COPY_2M, "copy" } };
	struct hist h;
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(bulk); i++) {
		quire_bulk_ns(q, bulk[i].kind, &h);
		if (!h.count)
			continue;
		snprintf(name, sizeof(name), "huge_%s_count", bulk[i].name);
		metrics_add(ms, name, h.count, 0, "", "2 MiB pages");
		snprintf(name, sizeof(name), "huge_%s_mean_ns", bulk[i].name);
		metrics_add(ms, name, h.sum / h.count, 0, "ns", "of all sub-pages of a 2 MiB page, in whatever order, without the rest of the fault");
		snprintf(name, sizeof(name), "huge_%s_p50_ns", bulk[i].name);
		metrics_add(ms, name, hist_quantile(&h, 500), 0, "ns", "the same, median");
		snprintf(name, sizeof(name), "huge_%s_p99_ns", bulk[i].name);
		metrics_add(ms, name, hist_quantile(&h, 990), 0, "ns", "the same, 99th percentile");
	}
}

/* Hardly a run has these: left out where nothing was spent on them. */
static bool rare_phase(unsigned p)
{
	return p == PHASE_RECLAIM || p == PHASE_COMPACT;
}

/* Where faults spent their time: of all, of each kind that there was, and of the one that took longest. */
static void collect_phases(struct metrics *ms, const struct quire *q)
{
	static const char *const help[NR_FAULT_PHASES] = {
		[PHASE_WAIT] = "of time in faults: for mmap_lock and page-table locks", [PHASE_ALLOC] = "of it: in the page allocator",
		[PHASE_RECLAIM] = "of it: reclaiming, to find a page", [PHASE_COMPACT] = "of it: compacting, to find a block",
		[PHASE_CLEAR] = "of it: clearing", [PHASE_COPY] = "of it: copying",
		[PHASE_MAP] = "of it: all else, entry and exit, page tables and flushes included",
	};
	struct fault_phases all = { 0 }, one;
	char name[64];

	for (unsigned k = 0; k < NR_FAULT_KINDS; k++) {
		quire_fault_phases(q, (enum fault_kind)k, &one);
		for (unsigned p = 0; p < NR_FAULT_PHASES; p++)
			all.sum[p] += one.sum[p];
		for (unsigned p = 0; p < NR_FAULT_PHASES && one.most; p++) {
			if (rare_phase(p) && !one.sum[p])
				continue;
			snprintf(name, sizeof(name), "fault_time%s_%s_ns", fault_kind_names[k], fault_phase_names[p]);
			metrics_add(ms, name, one.sum[p], 0, "ns", "");
		}
		if (one.most > all.most) {
			all.most = one.most;
			memcpy(all.longest, one.longest, sizeof(all.longest));
		}
	}
	for (unsigned p = 0; p < NR_FAULT_PHASES; p++) {
		if (rare_phase(p) && !all.sum[p])
			continue;
		snprintf(name, sizeof(name), "fault_time_%s_ns", fault_phase_names[p]);
		metrics_add(ms, name, all.sum[p], 0, "ns", help[p]);
		snprintf(name, sizeof(name), "fault_longest_%s_ns", fault_phase_names[p]);
		metrics_add(ms, name, all.longest[p], 0, "ns", "the same, of the fault that took longest");
	}
}

static void add_machine_stat(void *arg, const char *name, uint64_t value)
{
	size_t n = strlen(name);
	const char *unit = "";

	if ((n > 3 && !strcmp(name + n - 3, "_ns")) || strstr(name, "_ns_"))
		unit = "ns";
	else if (!strncmp(name, "bytes_", 6) || strstr(name, "_bytes"))
		unit = "bytes";
	metrics_add(arg, name, value, 0, unit, "");
}

static int add_daemon_time(void *arg, const char *name, uint64_t cpu_ns)
{
	(void)name;
	*(uint64_t *)arg += cpu_ns;
	return 0;
}

/* Where there are daemons. */
static void collect_daemons(struct metrics *ms, const struct quire *q)
{
	uint64_t ns = 0;

	if (list_empty(&q->kthreads))
		return;
	(void)kthreads_each(q, add_daemon_time, &ns);
	metrics_add(ms, "daemon_cpu_time_ns", ns, 0, "ns", "of the kernel's daemons, not in cpu_time");
}

void lab_collect_engine(struct metrics *ms, struct machine *m, const struct quire *q)
{
	metrics_add(ms, "bytes_cleared", (uint64_t)vmstat_read(q, VM_quire_pages_cleared) * PAGE_SIZE, 0, "bytes",
		    "zeroed for the program");
	metrics_add(ms, "bytes_copied", (uint64_t)vmstat_read(q, VM_quire_pages_copied) * PAGE_SIZE, 0, "bytes",
		    "copied on write");
	collect_latency(ms, q);
	collect_bulk(ms, q);
	if (q->time_phases)
		collect_phases(ms, q);
	collect_daemons(ms, q);
	for (unsigned k = 0; k < NR_VM_COUNTERS; k++) {
		int64_t v = vmstat_read(q, (enum vm_counter)k);

		metrics_add(ms, vm_counter_names[k], v < 0 ? 0 : (uint64_t)v, 0, "", "");
	}
	if (!strcmp(m->ops->kind, "model"))
		machine_stats_each(m, add_machine_stat, ms);
}

void lab_collect_replay(struct metrics *ms, const struct replay_result *r)
{
	collect_time(ms, r);
	collect_memory(ms, r);
}

void lab_collect_inject(struct metrics *ms, const struct inject *in)
{
	char name[64];

	if (!in)
		return;
	metrics_add(ms, "injected_failures", inject_failed(in), 0, "", "calls that --inject made fail");
	for (unsigned k = 0; k < NR_INJECT_SITES; k++) {
		struct inject_count n = inject_count_kind(in, (enum inject_site)k);

		snprintf(name, sizeof(name), "%s_calls", inject_kind_name((enum inject_site)k));
		metrics_add(ms, name, n.points, 0, "", "that could have failed");
		snprintf(name, sizeof(name), "%s_failures", inject_kind_name((enum inject_site)k));
		metrics_add(ms, name, n.failures, 0, "", "of them, made to");
	}
}

void lab_collect(struct metrics *ms, struct machine *m, const struct quire *q, const struct replay_result *r)
{
	lab_collect_replay(ms, r);
	lab_collect_engine(ms, m, q);
}

/* A fresh one. On this computer each task of a workload has a CPU slot for its life, and so have the parent and we. */
static int create_machine(const struct lab_options *o, struct lab_row *row, struct machine **ret)
{
	const struct model_options mo = { .seed = o->seed, .profile = o->profile };
	const struct workload_options *w = &o->source.work;
	struct host_options ho;

	if (!o->host)
		return model_create(o->machine, &mo, ret, row->err, sizeof(row->err));
	ho = *o->host;
	ho.seed = o->seed;
	ho.shootdown = (enum host_shootdown)row->settings->knobs.shootdown;
	ho.clear = (enum host_clear)row->settings->knobs.host_clear;
	ho.place = w->placement == PLACEMENT_SPREAD || w->placement == PLACEMENT_COMPACT;
	if (!ho.nr_cpus)
		ho.nr_cpus = MAX(HOST_DEFAULT_CPUS, w->tasks + 2);
	return host_create(&ho, ret, row->err, sizeof(row->err));
}

static void collect_proc(const struct lab_options *o, const struct quire *q, struct lab_row *row)
{
	for (unsigned p = 0; p < NR_MEMORY_PROCS; p++) {
		size_t len;
		FILE *f = o->proc & 1U << p ? open_memstream(&row->proc[p], &len) : NULL;

		if (!f)
			continue;
		memory_proc_print(f, q, (enum memory_proc)p);
		if (fclose(f)) {
			free(row->proc[p]);
			row->proc[p] = NULL;
		}
	}
}

static int replay_on(const struct lab_options *o, struct machine *m, struct trace_source *s, struct lab_row *row,
		     void (*progress)(void *arg, uint64_t refs), void *progress_arg)
{
	const struct replay_options ro = {
		.keep_addresses = o->keep_addresses,
		.repeat = o->repeat,
		.stop = o->stop,
		.progress = progress,
		.progress_arg = progress_arg,
	};
	struct inject *in = NULL;
	struct quire *q;
	uint64_t start, start_cpu;
	int rc = quire_boot(m, &row->settings->knobs, &q, row->err, sizeof(row->err)), rc2;

	if (rc)
		return rc;
	for (unsigned i = 0; i < NR_HUGETLB_SIZES; i++)
		row->pool[i] = hugetlb_info(q, (enum hugetlb_size)i, NID_NONE).total;
	rc = inject_attach_rules(m, o->seed, o->inject, &in);
	if (rc) {
		(void)quire_shutdown(q);
		return rc;
	}
	row->replayed = true;
	q->time_phases = !o->host || o->profile; /* on the host it costs */
	start = host_now_ns(CLOCK_MONOTONIC);
	start_cpu = host_now_ns(CLOCK_THREAD_CPUTIME_ID);
	if (s)
		rc = replay_run(q, s, &ro, &row->replay, row->err, sizeof(row->err));
	else
		rc = lab_run_workload(o, m, q, row, progress, progress_arg);
	row->host_ns = host_now_ns(CLOCK_MONOTONIC) - start;
	row->host_cpu_ns = host_now_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
	lab_collect(&row->metrics, m, q, &row->replay);
	lab_collect_inject(&row->metrics, in);
	collect_proc(o, q, row);
	inject_detach(in);
	if (o->profile && !o->host)
		memcpy(row->path, model_path_stats(m), sizeof(row->path));
	if (!rc && row->metrics.error) {
		rc = row->metrics.error;
		snprintf(row->err, sizeof(row->err), "out of memory on this computer");
	}
	rc2 = quire_shutdown(q);
	if (rc2 && !rc) {
		rc = rc2;
		snprintf(row->err, sizeof(row->err), "address spaces were left over");
	}
	return rc;
}

int lab_run_row(const struct lab_options *o, struct trace_source *s, struct lab_row *row,
		void (*progress)(void *arg, uint64_t refs), void *progress_arg)
{
	struct machine *m;

	row->started = true;
	row->error = create_machine(o, row, &m);
	if (!row->error) {
		row->error = replay_on(o, m, s, row, progress, progress_arg);
		machine_destroy(m);
	}
	row->finished = !row->error && !row->replay.stopped;
	return row->error;
}
