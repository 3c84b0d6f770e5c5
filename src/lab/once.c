/*
 * One run: boot, workload or replay, collect, shut down. Everything but a host machine is made and ended here, in the calling
 * thread; several may run at once on models.
 */
#include "lab/once.h"

#include "base/compiler.h"
#include "lab/hwcount.h"
#include "lab/run.h"
#include "machine/host/host.h"
#include "machine/model/model.h"
#include "machine/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECTION_BYTES (SECTION_FRAMES << PAGE_SHIFT)

/* ---- where ---- */

const char *place_name(const struct place *p)
{
	return p->model ? p->model->name : "host";
}

void host_describe(char *buf, size_t len)
{
	char line[256], name[128] = "a computer";
	FILE *f = fopen("/proc/cpuinfo", "re");

	while (f && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (!strncmp(line, "model name", 10) && colon) {
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
			break;
		}
	}
	if (f)
		fclose(f);
	snprintf(buf, len, "this computer: %ld CPUs, %s", sysconf(_SC_NPROCESSORS_ONLN), name);
}

void hwcount_check(char *why, size_t len)
{
	struct hwcount h;
	uint64_t v[NR_HW];
	int rc = hwcount_start(&h);

	why[0] = '\0';
	if (rc)
		snprintf(why, len, "%s", rc == -EACCES || rc == -EPERM ? "the kernel does not let programs read them" :
									  "this computer has none that a program can read");
	else
		(void)hwcount_stop(&h, v);
}

void once_hosts_done(struct once_hosts *h)
{
	for (unsigned i = 0; i < h->nr; i++)
		machine_destroy(h->m[i]);
	h->nr = 0;
}

/* What the workload asks for, a quarter more, and something for tables and the engine's own. */
static uint64_t memory_for(const struct once *o)
{
	const struct subject *s = o->subject;
	uint64_t size;

	if (o->place->host_memory || !s->workload)
		return o->place->host_memory;
	if (s->workload->boot)
		return 2 * SECTION_BYTES; /* descriptors only, in memory of their own */
	size = s->options.size ? s->options.size : s->workload->size;
	if (s->workload->per_task && !s->options.size)
		size *= MAX(s->options.tasks, 1U);
	return ALIGN_UP(size + size / 4 + SECTION_BYTES, SECTION_BYTES);
}

static int host_machine(const struct once *o, struct machine **ret, char *err, size_t errlen)
{
	struct once_hosts *h = o->hosts;
	struct host_options ho = {
		.memory = memory_for(o), .shootdown = (enum host_shootdown)o->knobs->shootdown,
		.clear = (enum host_clear)o->knobs->host_clear, .populate = true, .place = true, .seed = o->seed,
	};
	int rc;

	for (unsigned i = 0; i < h->nr; i++)
		if (h->shootdown[i] == o->knobs->shootdown && h->clear[i] == o->knobs->host_clear) {
			*ret = h->m[i];
			return 0;
		}
	if (h->nr == ONCE_HOSTS)
		return -EINVAL;
	rc = host_create(&ho, ret, err, errlen);
	if (!rc) {
		h->shootdown[h->nr] = o->knobs->shootdown;
		h->clear[h->nr] = o->knobs->host_clear;
		h->m[h->nr++] = *ret;
	}
	return rc;
}

/* ---- the run ---- */

static int run_workload(const struct once *o, struct machine *m, struct quire *q, struct metrics *ms, char *err, size_t errlen)
{
	const struct host_options host = { 0 }; /* its presence says that counters of the model are not to be looked for */
	struct lab_options lo = {
		.source = { .kind = LAB_WORKLOAD, .name = o->subject->workload->name, .workload = o->subject->workload,
			    .work = o->subject->options },
		.machine = o->place->model, .host = o->place->model ? NULL : &host, .seed = o->seed, .stop = o->stop,
	};
	struct lab_row row = { .metrics = *ms };
	int rc;

	if (!o->place->model && !lo.source.work.tasks)
		lo.source.work.tasks = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
	rc = lab_run_workload(&lo, m, q, &row, o->progress, o->progress_arg);
	*ms = row.metrics;
	if (!rc && row.replay.stopped) {
		rc = -EINTR;
	} else if (!rc && row.replay.out_of_memory) {
		snprintf(err, errlen, "%s: the machine's memory was not enough", o->subject->workload->name);
		rc = -ENOMEM;
	} else if (rc) {
		snprintf(err, errlen, "%s", row.err);
	}
	return rc;
}

static int run_trace(const struct once *o, struct machine *m, struct quire *q, struct metrics *ms, char *err, size_t errlen)
{
	const struct replay_options ro = {
		.keep_addresses = o->subject->keep_addresses, .progress = o->progress, .progress_arg = o->progress_arg, .stop = o->stop,
	};
	struct replay_result r;
	int rc = replay_run(q, o->subject->trace, &ro, &r, err, errlen);

	if (!rc && r.stopped)
		rc = -EINTR;
	if (!rc)
		lab_collect(ms, m, q, &r);
	return rc;
}

static int run_on(const struct once *o, struct machine *m, struct metrics *ms, char *err, size_t errlen)
{
	struct hwcount hw;
	uint64_t counted[NR_HW];
	bool count;
	struct inject *in = NULL;
	struct quire *q;
	int rc = quire_boot(m, o->knobs, &q, err, errlen), rc2;

	if (rc)
		return rc;
	q->time_phases = o->place->model != NULL;
	rc = inject_attach_rules(m, o->seed, o->inject, &in);
	if (rc) {
		(void)quire_shutdown(q);
		return rc;
	}
	count = !o->place->model && !hwcount_start(&hw);
	rc = o->subject->workload ? run_workload(o, m, q, ms, err, errlen) : run_trace(o, m, q, ms, err, errlen);
	count = count && hwcount_stop(&hw, counted);
	if (!rc && count && counted[HW_CYCLES]) {
		metrics_add(ms, "ipc", (uint64_t)((unsigned __int128)counted[HW_INSTRUCTIONS] * 1000 / counted[HW_CYCLES]), 3,
			    "instructions/cycle", "counted by the hardware, without this computer's kernel");
		metrics_add(ms, "cache_misses", counted[HW_CACHE_MISSES], 0, "", "counted by the hardware, without this computer's kernel");
	}
	lab_collect_inject(ms, in);
	inject_detach(in);
	rc2 = quire_shutdown(q);
	if (!rc && rc2) {
		rc = rc2;
		snprintf(err, errlen, "address spaces were left over");
	}
	return rc;
}

int lab_once(const struct once *o, struct metrics *ret, char *err, size_t errlen)
{
	const struct model_options mo = { .seed = o->seed };
	struct machine *m = NULL;
	int rc;

	*ret = (struct metrics){ 0 };
	if (!o->place->model && !o->subject->workload) {
		snprintf(err, errlen, "a recording is replayed on a model only: on this computer its program itself can be run");
		return -EINVAL;
	}
	rc = o->place->model ? model_create(o->place->model, &mo, &m, err, errlen) : host_machine(o, &m, err, errlen);
	if (rc)
		return rc;
	m->stop = false;
	rc = run_on(o, m, ret, err, errlen);
	if (o->place->model)
		model_destroy(m);
	if (!rc && ret->error) {
		rc = ret->error;
		snprintf(err, errlen, "out of memory on this computer");
	}
	return rc;
}
