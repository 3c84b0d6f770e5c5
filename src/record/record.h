/*
 * Running a program under the recorder: starts qemu-user with the plugin, drains its rings into a sink, and reports
 * how it ended.
 */
#ifndef QUIRE_RECORD_RECORD_H
#define QUIRE_RECORD_RECORD_H

#include "trace/writer.h"

#include <stdbool.h>

struct record_options {
	char *const *argv;       /* NULL-terminated; argv[0] is looked up in PATH */
	const char *plugin;      /* NULL: found beside the quire binary, in the build tree, or where it is installed */
	const char *qemu;        /* NULL: qemu-x86_64 in PATH */
	uint64_t ring_bytes;     /* a thread; 0: 1 MiB, which stays in the cache */
	uint64_t max_bytes;      /* stop the program beyond this much output (0: as much as leaves 5 % of the disk free) */
	uint64_t (*output_bytes)(void *arg); /* how much output there is; NULL: 8 bytes a word */
	void *output_arg;
	const char *output_dir;  /* where the output grows, for the 5 %; NULL: nowhere */
	void (*progress)(void *arg, uint64_t refs, uint64_t seconds_ns, unsigned streams);
	void *progress_arg;
	/*
	 * Set by a signal handler: stop the program and keep what there is. It gets SIGINT (unless the terminal has
	 * sent it one), after 2 s SIGTERM, after 2 more SIGKILL.
	 */
	const volatile bool *stop;
};

struct record_result {
	int exit_status;   /* of the first process; -1 when it was killed by a signal */
	int signal;
	uint64_t refs, insns, syscalls, streams, processes, lost; /* lost: threads that ran unrecorded */
	uint64_t execs;    /* of the streams, those with which a thread went on in a new image */
	bool stopped, hung; /* hung: the known qemu abort left a child hanging; it was ended */
	char note[256];     /* one line for the user when something was odd; "" otherwise */
};

/*
 * Record until the program and all its children have ended. 0: see result. Negative errno with one line in err: the
 * program was not started (-ENOENT no such program, -EACCES not executable, ...), or the sink failed (what was given
 * to it stays valid). While it runs, this process is a child subreaper and every child of it is waited for here: the
 * caller has no others. Descriptors of the caller that the program shall not see must be close-on-exec.
 */
int record_run(const struct record_options *o, struct trace_sink *sink, struct record_result *ret, char *err, size_t errlen);

/* Can this computer record? 0, or negative errno with one line in err: what is missing and the package to install. */
int record_check(char *err, size_t errlen);

#endif
