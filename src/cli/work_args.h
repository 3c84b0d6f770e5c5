/* Options of the standard workloads, the same wherever a workload can be named. */
#ifndef QUIRE_CLI_WORK_ARGS_H
#define QUIRE_CLI_WORK_ARGS_H

#include "cli/cli.h"
#include "machine/desc.h"
#include "workload/workload.h"

struct work_args {
	uint64_t tasks, step, think_ns, stagger_ns, limit_ns, ops;
	uint64_t reads, working_set, word;
	const char *placement, *map, *zoneinfo, *pattern, *shape;
	uint64_t early;
	bool check, cold;
};

#define WORK_ARGS_OPTIONS(w)                                                                                                   \
	{ "tasks", 't', OPT_COUNT, &(w)->tasks, 1, 65536, "N", "workloads: processes or threads; default: a task a CPU" },     \
	{ "step", 0, OPT_SIZE, &(w)->step, 8, 1ULL << 40, "BYTES", "usemem: from access to access; default 8" },               \
	{ "think", 0, OPT_COUNT, &(w)->think_ns, 0, 1000000000000ULL, "NS", "usemem: busy so long on each page entered" },     \
	{ "stagger", 0, OPT_TIME, &(w)->stagger_ns, 0, 1000000000000ULL, "TIME", "workloads: tasks start up to so much apart" }, \
	{ "seconds", 0, OPT_TIME, &(w)->limit_ns, 1, 1000000000000000ULL, "TIME",                                              \
	  "workloads: the machine's time to run for, at most (1.5, 20ms)" },                                                    \
	{ "ops", 0, OPT_COUNT, &(w)->ops, 1, 1ULL << 60, "N", "workloads: operations of each task, at most" },                 \
	{ "placement", 0, OPT_TEXT, &(w)->placement, 0, 0, "HOW",                                                              \
	  "workloads: none, spread over nodes, or compact; default spread" },                                                   \
	{ "map", 0, OPT_TEXT, &(w)->map, 0, 0, "FILE", "boot: the map of memory, as /proc/iomem has it, here or elsewhere" },  \
	{ "zoneinfo", 0, OPT_TEXT, &(w)->zoneinfo, 0, 0, "FILE", "boot: the same computer's /proc/zoneinfo, for its nodes" },   \
	{ "early", 0, OPT_SIZE, &(w)->early, 1, 1ULL << 46, "BYTES", "boot: memory that is wanted before the workers begin" },  \
	{ "pattern", 0, OPT_TEXT, &(w)->pattern, 0, 0, "NAME",                                                                  \
	  "pmbench: uniform (default), linear, normal, normal_ih, pareto or zipf" },                                           \
	{ "shape", 0, OPT_TEXT, &(w)->shape, 0, 0, "X",                                                                        \
	  "pmbench: linear's stride, normal's deviation in pages (1), pareto's alpha (1.00001)" },                             \
	{ "working-set", 0, OPT_SIZE, &(w)->working_set, 4096, 1ULL << 46, "BYTES",                                            \
	  "pmbench: of the map (--size) what is accessed; default: all" },                                                     \
	{ "reads", 0, OPT_COUNT, &(w)->reads, 0, 100, "PERCENT", "pmbench: of accesses those that load; default 50" },         \
	{ "word", 0, OPT_COUNT, &(w)->word, 0, 1023, "N", "pmbench: the word of each page to access; default: any" },          \
	{ "cold", 0, OPT_FLAG, &(w)->cold, 0, 0, NULL, "pmbench: no warm-up" },                                                \
	{ "check", 0, OPT_FLAG, &(w)->check, 0, 0, NULL, "workloads: store values that differ, verify them" }

/* What numbers are that were not given, where 0 means something. */
#define WORK_ARGS_UNSET UINT64_MAX
#define WORK_ARGS_INIT { .reads = WORK_ARGS_UNSET, .word = WORK_ARGS_UNSET }

/* size, passes: 0 for the workload's own. -1 to go on, or an exit code after a message. */
int work_args_get(const char *command, const struct work_args *a, uint64_t size, uint64_t passes, struct workload_options *ret);
/* The name of an option of the above that was given, or NULL. */
const char *work_args_given(const struct work_args *a);
/* The nearest name of a workload, or NULL. */
const char *work_nearest(const char *name);

#endif
