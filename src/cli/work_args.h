/* Options of the standard workloads, the same wherever a workload can be named. */
#ifndef QUIRE_CLI_WORK_ARGS_H
#define QUIRE_CLI_WORK_ARGS_H

#include "cli/cli.h"
#include "machine/desc.h"
#include "workload/workload.h"

struct work_args {
	uint64_t tasks, step, think_ns, stagger_ns, limit_ns, ops;
	const char *placement, *map, *zoneinfo;
	uint64_t early;
	bool check;
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
	{ "check", 0, OPT_FLAG, &(w)->check, 0, 0, NULL, "workloads: store values that differ, verify them" }

/* size, passes: 0 for the workload's own. -1 to go on, or an exit code after a message. */
int work_args_get(const char *command, const struct work_args *a, uint64_t size, uint64_t passes, struct workload_options *ret);
/* The name of an option of the above that was given, or NULL. */
const char *work_args_given(const struct work_args *a);
/* The nearest name of a workload, or NULL. */
const char *work_nearest(const char *name);

#endif
