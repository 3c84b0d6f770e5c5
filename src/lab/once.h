/*
 * One run of one side of a comparison: a standard workload or a recording on a fresh engine, and the numbers that come out. On the
 * model each run has a machine of its own; on the host the runs of a comparison share one, whose memory has been touched before.
 */
#ifndef QUIRE_LAB_ONCE_H
#define QUIRE_LAB_ONCE_H

#include "lab/metrics.h"
#include "machine/desc.h"
#include "machine/inject.h"
#include "mm/knobs.h"
#include "trace/source.h"
#include "workload/workload.h"

/* What is run. */
struct subject {
	const struct workload *workload; /* NULL: the recording */
	struct workload_options options; /* seed, progress and stop are set by the run */
	struct trace_source *trace;
	bool keep_addresses;
};

/* Where. */
struct place {
	const struct machine_desc *model; /* NULL: this computer */
	uint64_t host_memory;             /* 0: what the subject needs */
};

/* Host machines that are kept between runs: one a way of working that is fixed when a machine is made. */
#define ONCE_HOSTS 8
struct once_hosts {
	struct machine *m[ONCE_HOSTS];
	uint32_t shootdown[ONCE_HOSTS], clear[ONCE_HOSTS];
	unsigned nr;
};
void once_hosts_done(struct once_hosts *h);

struct once {
	const struct subject *subject;
	const struct place *place;
	const struct knobs *knobs;
	uint64_t seed;
	const struct inject_rules *inject; /* may be NULL */
	struct once_hosts *hosts; /* needed on the host */
	void (*progress)(void *arg, uint64_t refs); /* may be NULL; from any thread */
	void *progress_arg;
	const volatile bool *stop; /* may be NULL */
};

/*
 * 0, or negative errno with one line in err. *ret is to be freed in any case. A run that was stopped is -EINTR, and running out of
 * the machine's memory -ENOMEM: figures of half a run are none.
 */
int lab_once(const struct once *o, struct metrics *ret, char *err, size_t errlen);

/* The machine's name in results: the model's, or "host". */
const char *place_name(const struct place *p);
/* This computer in one line: CPUs, model, caches. */
void host_describe(char *buf, size_t len);
/* "" when counters of the hardware can be read here, else why not. Only instructions and cache misses of programs are read. */
void hwcount_check(char *why, size_t len);

#endif
