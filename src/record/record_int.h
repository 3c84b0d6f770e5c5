/*
 * What the files of the recorder's own side share.
 *
 *   record.c  record_run, record_check: options, errors, the loop      launch.c  finding qemu and plugin, shared memory, starting
 *   drain.c   rings to sink                                            procs.c   which processes live, how they ended, ending them
 *
 * All of it runs in the one thread that called record_run.
 */
#ifndef QUIRE_RECORD_RECORD_INT_H
#define QUIRE_RECORD_RECORD_INT_H

#include "base/compiler.h"
#include "record/record.h"
#include "record/ring.h"
#include "trace/word.h"

#include <stdbool.h>
#include <sys/types.h>

#define NS_PER_MS 1000000ULL
#define NS_PER_S 1000000000ULL

/* ---- launch.c ---- */
struct session {
	struct ring_shared *shared;
	int fd;
	pid_t first;
};

int launch_find(const struct record_options *o, char *qemu, char *plugin, size_t len, char *err, size_t errlen);
int session_create(struct session *s, const struct record_options *o, const char *qemu, const char *plugin, char *err,
		   size_t errlen);
int session_start(struct session *s, const struct record_options *o, char *err, size_t errlen);
void session_destroy(struct session *s);

/* ---- procs.c ---- */
struct proc {
	pid_t pid;
	int pidfd;       /* -1: none */
	unsigned rings;  /* not yet given free */
	bool gone, known;
	uint32_t how;    /* enum exit_how, when known */
	uint64_t status;
};

struct procs {
	struct proc *p;
	size_t nr, cap;
	pid_t first;
	int first_status; /* wait status, when first_ended */
	bool first_ended, no_children;
};

void procs_init(struct procs *ps, pid_t first);
void procs_done(struct procs *ps);
struct proc *procs_find(struct procs *ps, pid_t pid);
struct proc *procs_add(struct procs *ps, pid_t pid);
void procs_drop(struct procs *ps, struct proc *p);
/* Collect what has ended. */
void procs_poll(struct procs *ps);
/* A signal to every living descendant of this process; same_group: only to those in the first one's process group. */
void procs_signal(const struct procs *ps, int sig, bool same_group);

/* ---- drain.c ---- */
struct drain_ring {
	bool open;
	uint64_t stream, taken, since_ns; /* since_ns: something waits there since then; 0: nothing */
	uint64_t seen_head;
	uint32_t seen_state; /* RING_FREE: not looked at yet */
	pid_t pid;
};

struct drain {
	struct ring_shared *shared;
	struct trace_sink *sink;
	struct procs procs;
	struct drain_ring *rings;
	uint64_t refs, insns, syscalls, streams, execs, processes, words, lost; /* of ended streams; live ones are added when asked */
	int error;
	unsigned hung, aborted, unrecorded;
};

int drain_init(struct drain *d, const struct session *s, struct trace_sink *sink);
void drain_done(struct drain *d);
/* One look at everything. True: something moved. all: hand over what there is, however little. */
bool drain_pass(struct drain *d, uint64_t now_ns, bool all);
void drain_watch(struct drain *d, uint64_t now_ns);
void drain_totals(const struct drain *d, struct record_result *ret);
unsigned drain_live(const struct drain *d);
uint64_t record_now_ns(void);

#endif
