/* Options of the standard workloads: from what was typed to what a workload is given. */
#include "cli/work_args.h"

#include <string.h>

static const char *const placements[] = {
	[PLACEMENT_DEFAULT] = "", [PLACEMENT_NONE] = "none", [PLACEMENT_SPREAD] = "spread", [PLACEMENT_COMPACT] = "compact"
};

int work_args_get(const char *command, const struct work_args *a, uint64_t size, uint64_t passes, struct workload_options *ret)
{
	*ret = (struct workload_options){
		.tasks = (unsigned)a->tasks,
		.size = size & OPT_PERCENT ? 0 : size,
		.size_percent = size & OPT_PERCENT ? (unsigned)(size & ~OPT_PERCENT) : 0,
		.step = a->step,
		.think_ns = a->think_ns,
		.stagger_ns = a->stagger_ns,
		.passes = (unsigned)passes,
		.limit_ns = a->limit_ns,
		.ops = a->ops,
		.check = a->check,
		.map = a->map,
		.zoneinfo = a->zoneinfo,
		.early = a->early,
	};
	if (!a->placement)
		return -1;
	for (size_t i = PLACEMENT_NONE; i < ARRAY_SIZE(placements); i++)
		if (!strcmp(a->placement, placements[i])) {
			ret->placement = (enum workload_placement)i;
			return -1;
		}
	return usage_error(command, "--placement %s: none, spread or compact", a->placement);
}

const char *work_args_given(const struct work_args *a)
{
	return a->tasks	     ? "tasks" :
	       a->step	     ? "step" :
	       a->think_ns   ? "think" :
	       a->stagger_ns ? "stagger" :
	       a->limit_ns   ? "seconds" :
	       a->ops	     ? "ops" :
	       a->placement  ? "placement" :
	       a->map	     ? "map" :
	       a->zoneinfo   ? "zoneinfo" :
	       a->early	     ? "early" :
	       a->check	     ? "check" :
			       NULL;
}

static const char *workload_name(const void *arg, size_t i)
{
	(void)arg;
	return workload_table[i].name;
}

const char *work_nearest(const char *name)
{
	return nearest(name, workload_count, workload_name, NULL);
}
