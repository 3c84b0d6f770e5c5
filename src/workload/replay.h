/*
 * Replay: a recording's streams become tasks on a machine, its references accesses, its memory system calls calls on the engine.
 *
 * What is replayed and what is not is in docs/architecture.md; in short: addresses are those that this engine's mmap gives (unless
 * keep_addresses), blocking is replayed by who woke whom where that is known and by the recorded waiting time where the waker
 * is outside the recording, and the kernel's own copies to and from user memory fault as they do in Linux.
 *
 * One call replays one recording on one engine, in the calling thread. Several engines may replay one source in several threads.
 */
#ifndef QUIRE_WORKLOAD_REPLAY_H
#define QUIRE_WORKLOAD_REPLAY_H

#include "mm/system.h"
#include "trace/source.h"

struct replay_options {
	bool keep_addresses;  /* use the recorded addresses instead of those Linux would give */
	unsigned repeat;      /* how often to replay the whole recording, one after another; 0 means 1 */
	bool generic_access;  /* one machine_access a reference instead of the model's fast path (tests: same result) */
	bool validate;        /* run quire_validate after a process's exit when no other runs (slow) */
	void (*progress)(void *arg, uint64_t refs_done); /* may be NULL; about every million references */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL; set asynchronously to end early */
};

struct replay_result {
	uint64_t refs, loads, stores;  /* replayed references */
	uint64_t refs_unmapped;        /* references to addresses that no area covered: skipped */
	uint64_t refs_failed;          /* references whose fault failed (a signal in the program, or out of memory) */
	uint64_t syscalls;             /* replayed system calls of any kind */
	uint64_t mm_call_diffs;        /* memory calls that succeeded when recorded and failed here, or the reverse */
	uint64_t streams, processes, images; /* threads; processes (the first, forks, vforks that executed); images */
	uint64_t order_released;       /* waits whose recorded waker never came and that were let go */
	uint64_t think_ns;             /* time spent waiting for the world outside the recording */
	uint64_t cpu_ns;               /* time on CPUs, all tasks */
	uint64_t elapsed_ns;           /* virtual time from start to end */
	uint64_t recorded_ns;          /* wall time of the recording (emulated: for information only) */
	/* Memory. Peaks are taken at every system call, process exit and block of words. */
	uint64_t rss_peak_bytes;       /* sum of all processes' resident sets, highest */
	uint64_t rss_final_bytes;      /* of the recorded (first) process, just before it ended */
	uint64_t anon_huge_peak_bytes; /* on PMD-mapped huge pages at the moment of rss_peak */
	uint64_t anon_peak_bytes;      /* anonymous memory at that moment */
	uint64_t memory_peak_bytes;    /* frames in use, page cache and page tables included, highest */
	uint64_t pgtables_peak_bytes;
	bool stopped;                  /* ended early by *stop */
	bool out_of_memory;            /* a fault or a call failed for want of memory */
	bool damaged;                  /* the source was damaged: what is before was replayed; text in source->error */
};

/* 0, or negative errno with one line in err; *ret is filled as far as things went in both cases. */
int replay_run(struct quire *q, struct trace_source *source, const struct replay_options *o, struct replay_result *ret, char *err,
	       size_t errlen);

#endif
