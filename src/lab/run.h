/*
 * The job of `quire run`: one recording (a file, a generated one, or a program that runs now) replayed on one engine
 * a row of settings, each on its own instance of the same described machine. Rows never influence each other: what a
 * row yields does not depend on how many there are or how many run at once.
 */
#ifndef QUIRE_LAB_RUN_H
#define QUIRE_LAB_RUN_H

#include "lab/memory_proc.h"
#include "lab/metrics.h"
#include "lab/settings.h"
#include "machine/host/host.h"
#include "machine/inject.h"
#include "machine/model/model.h"
#include "mm/hugetlb.h"
#include "record/record.h"
#include "trace/source.h"
#include "workload/replay.h"
#include "workload/workload.h"

enum lab_source_kind { LAB_FILE, LAB_GENERATED, LAB_PROGRAM, LAB_WORKLOAD };

struct lab_source {
	enum lab_source_kind kind;
	const char *name; /* path, kind of generated trace, or the program's name */
	uint64_t bytes, count; /* LAB_GENERATED */
	char *const *argv; /* LAB_PROGRAM */
	const struct workload *workload; /* LAB_WORKLOAD */
	struct workload_options work; /* seed, progress and stop are those of lab_options */
};

struct lab_progress {
	uint64_t refs_done, refs_total; /* over all rows; total 0: not known (a live program) */
	uint64_t host_ns; /* since the start */
	size_t rows_done, rows;
};

struct lab_options {
	struct lab_source source;
	const struct machine_desc *machine;
	const struct host_options *host; /* workloads, NULL otherwise: on this computer; machine is from lab_host_desc */
	const struct settings *settings;
	uint64_t seed;
	unsigned repeat; /* 0: once */
	unsigned
		jobs; /* rows at once, for files and generated traces; 0: 1; a live program's rows run together */
	bool keep_addresses, profile;
	const struct inject_rules *inject; /* may be NULL: calls that fail on purpose */
	unsigned proc; /* of enum memory_proc, a bit each: the allocator's state afterwards, in lab_row.proc */
	uint64_t live_memory; /* of the store between a live program and the engines; 0: 512 MiB */
	void (*progress)(void *arg,
			 const struct lab_progress *p); /* may be NULL; about five times a second, from any thread */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL */
};

struct lab_row {
	const struct settings_row *settings;
	struct metrics metrics;
	struct replay_result replay;
	struct model_path_stat path[NR_MACHINE_PATHS]; /* with profile */
	bool started, replayed, finished; /* replayed: the source was opened; finished: to its end, without an error */
	int error;
	char err[256];
	uint64_t pool[NR_HUGETLB_SIZES]; /* pages that boot could put into the pools: of what the settings say, or fewer */
	char *proc[NR_MEMORY_PROCS]; /* text, where lab_options.proc asked for it and there was memory; else NULL */
	uint64_t host_ns,
		host_cpu_ns; /* what the replay took here, by the clock and of the thread: never part of a result */
};

struct lab_result {
	struct lab_row *rows;
	size_t nr_rows;
	uint64_t source_refs; /* 0: not known */
	bool damaged, stopped;
	char damage[256];
	struct record_result record; /* LAB_PROGRAM */
	char record_error[256]; /* "" when recording went to its end */
};

/*
 * 0 when every row was replayed as far as the recording goes; see rows for each. Negative errno with one line in err
 * when nothing could be run, or the first row's error. *ret is valid in any case and to be freed.
 */
int lab_run(const struct lab_options *o, struct lab_result *ret, char *err, size_t errlen);
void lab_result_done(struct lab_result *r);

/*
 * Fill a row's metrics from a machine and an engine after a replay (lab/row.c; the benches use it too): those of the replay,
 * then those of engine and machine, which workloads share.
 */
struct quire;
void lab_collect(struct metrics *ms, struct machine *m, const struct quire *q, const struct replay_result *r);
void lab_collect_replay(struct metrics *ms, const struct replay_result *r);
void lab_collect_engine(struct metrics *ms, struct machine *m, const struct quire *q);
/* Points and failures by kind, where something was injected; in may be NULL. */
struct inject;
void lab_collect_inject(struct metrics *ms, const struct inject *in);
/* Replay a source on a fresh machine and engine, or run a workload (s is NULL). Fills everything of *row but settings. */
int lab_run_row(const struct lab_options *o, struct trace_source *s, struct lab_row *row,
		void (*progress)(void *arg, uint64_t refs), void *progress_arg);
/* The workload of o->source on an engine booted on m: row's metrics, and in row->replay what a replay has in common. */
int lab_run_workload(const struct lab_options *o, struct machine *m, struct quire *q, struct lab_row *row,
		     void (*progress)(void *arg, uint64_t refs), void *progress_arg);
/* This computer's name and title, as a machine that can't be modelled. */
void lab_host_desc(struct machine_desc *ret);

#endif
