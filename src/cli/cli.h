/*
 * What the commands share. One table of options a command feeds parsing, --help and 'did you mean'. Exit codes: 0
 * done, 1 the run failed, 2 it was asked for in a wrong way.
 */
#ifndef QUIRE_CLI_CLI_H
#define QUIRE_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

enum opt_kind {
	OPT_FLAG, /* to: bool */
	OPT_TEXT, /* to: const char * */
	OPT_LIST, /* to: struct opt_list; may be repeated */
	OPT_SIZE, /* to: uint64_t, bytes; K, M, G, T in powers of 1024 */
	OPT_SIZE_OR_PERCENT, /* the same, or OPT_PERCENT and per cent of something, of which there can be 1 to 10000 */
	OPT_COUNT, /* to: uint64_t; k, M, G in powers of 1000 */
	OPT_TIME, /* to: uint64_t, nanoseconds; seconds with decimals, or ms, us, ns may follow; min and max in nanoseconds */
};

#define OPT_PERCENT (1ULL << 63)
#define OPT_PERCENT_MAX 10000U
#define OPT_LIST_MAX 64

struct opt_list {
	char *v[OPT_LIST_MAX];
	size_t nr;
};

struct opt {
	const char *name;
	char letter; /* 0: none */
	enum opt_kind kind;
	void *to;
	uint64_t min, max; /* numbers: allowed range */
	const char *arg; /* how the argument is called in the help; NULL for flags */
	const char *help;
};

/* What a command's help says around its options. */
struct opt_help {
	const char *usage; /* "quire run [OPTIONS] FILE|WORKLOAD" ...; lines */
	const char *text; /* what it does; examples */
};

struct command {
	const char *name, *help;
	int (*run)(int argc, char **argv); /* argv[0] is the command's name */
	bool hidden;
};

extern const struct command cmd_run, cmd_script, cmd_record, cmd_trace, cmd_workload, cmd_compare, cmd_experiment, cmd_fidelity, cmd_knobs, cmd_machine, cmd_bench,
	cmd_bench_load, cmd_check, cmd_cases;

/*
 * Parse argv (argv[0] skipped). opts ends with a NULL name. Everything after the first "--" is *ret_rest (NULL
 * without one); operands go to args. Returns -1 to go on, or an exit code: --help has been printed, or a usage error.
 */
int opt_parse(int argc, char **argv, const struct opt *opts, const struct opt_help *help, struct opt_list *args,
	      char ***ret_rest);
/* Print a usage error for a command, one line and where help is. Returns EXIT_USAGE. */
ATTR_PRINTF(2, 3) int usage_error(const char *command, const char *fmt, ...);
/* One line "quire: ..." on stderr. Returns EXIT_FAILED. */
ATTR_PRINTF(1, 2) int failure(const char *fmt, ...);

/* The nearest of n names, get(i) each, or NULL when nothing is near. */
const char *nearest(const char *name, size_t n, const char *(*get)(const void *arg, size_t i), const void *arg);

/* Set by Ctrl-C, SIGTERM and the terminal's end (unless under nohup) once signals_catch has been called; a second Ctrl-C ends the process at once. */
extern volatile bool interrupted;
void signals_catch(void);

/* A line on stderr that is written over, on a terminal only. */
struct progress {
	bool on, shown;
};
void progress_init(struct progress *p);
ATTR_PRINTF(2, 3) void progress_line(struct progress *p, const char *fmt, ...);
void progress_clear(struct progress *p);
/* "1:05" or "2:03:04". */
void format_duration(char buf[24], uint64_t ns);

/* Bold headings on f? A terminal, and NO_COLOR is not set. */
bool want_bold(int fd);

#endif
