/* --inject RULE: from what was typed to rules. */
#include "cli/inject_args.h"

int inject_args_get(const char *command, const struct opt_list *list, struct inject_rules *ret)
{
	char err[400];

	ret->nr = 0;
	if (list->nr > INJECT_MAX_RULES)
		return usage_error(command, "--inject: %d rules at most", INJECT_MAX_RULES);
	for (size_t i = 0; i < list->nr; i++) {
		if (inject_rule_parse(list->v[i], &ret->rule[i], err, sizeof(err)))
			return usage_error(command, "--inject %s: %s", list->v[i], err);
		ret->nr++;
	}
	return -1;
}
