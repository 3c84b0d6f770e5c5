/* Options of the standard workloads: from what was typed to what a workload is given. */
#include "cli/work_args.h"

#include <string.h>

static const char *const placements[] = {
	[PLACEMENT_DEFAULT] = "", [PLACEMENT_NONE] = "none", [PLACEMENT_SPREAD] = "spread", [PLACEMENT_COMPACT] = "compact"
};

/* A decimal fraction in millionths. false: it is none, or none in range. */
static bool millionths(const char *s, uint64_t *ret)
{
	uint64_t whole = 0, part = 0, unit = DRAW_SHAPE_ONE;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++) {
		whole = whole * 10 + (uint64_t)(*p - '0');
		if (whole > DRAW_PAGES_MAX)
			return false;
	}
	if (p == s)
		return false;
	if (*p == '.')
		for (p++; *p >= '0' && *p <= '9'; p++) {
			unit /= 10;
			part += unit * (uint64_t)(*p - '0');
		}
	*ret = whole * DRAW_SHAPE_ONE + part;
	return !*p && *ret;
}

static int pmbench_args(const char *command, const struct work_args *a, struct workload_options *ret)
{
	int pattern = a->pattern ? draw_pattern(a->pattern) : DRAW_UNIFORM;

	if (pattern < 0)
		return usage_error(command, "--pattern %s: uniform, linear, normal, normal_ih, pareto or zipf", a->pattern);
	if (a->shape && !millionths(a->shape, &ret->shape))
		return usage_error(command, "--shape %s: a number such as 4096 or 1.161, above 0", a->shape);
	ret->pattern = (enum draw_pattern)pattern;
	ret->working_set = a->working_set;
	ret->reads_given = a->reads != WORK_ARGS_UNSET;
	ret->reads = ret->reads_given ? (unsigned)a->reads : 0;
	ret->fixed_word = a->word != WORK_ARGS_UNSET;
	ret->word = ret->fixed_word ? (unsigned)a->word : 0;
	ret->cold = a->cold;
	return -1;
}

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
	if (pmbench_args(command, a, ret) >= 0)
		return EXIT_USAGE;
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
	       a->pattern    ? "pattern" :
	       a->shape	     ? "shape" :
	       a->working_set ? "working-set" :
	       a->reads != WORK_ARGS_UNSET ? "reads" :
	       a->word != WORK_ARGS_UNSET  ? "word" :
	       a->cold	     ? "cold" :
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
