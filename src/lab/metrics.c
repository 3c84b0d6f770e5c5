/* An ordered list of named numbers. Names are unique. */
#include "lab/metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct metric *metrics_find(const struct metrics *ms, const char *name)
{
	for (size_t i = 0; i < ms->nr; i++)
		if (!strcmp(ms->m[i].name, name))
			return &ms->m[i];
	return NULL;
}

uint64_t metrics_u64(const struct metrics *ms, const char *name)
{
	const struct metric *m = metrics_find(ms, name);
	uint64_t v = m ? m->value : 0;

	for (unsigned i = 0; m && i < m->decimals; i++)
		v /= 10;
	return v;
}

void metrics_add(struct metrics *ms, const char *name, uint64_t value, unsigned decimals, const char *unit,
		 const char *help)
{
	char *copy;

	if (ms->error || metrics_find(ms, name))
		return;
	if (ms->nr == ms->cap) {
		size_t cap = ms->cap ? ms->cap * 2 : 64;
		struct metric *m = realloc(ms->m, cap * sizeof(*m));

		if (!m) {
			ms->error = -ENOMEM;
			return;
		}
		ms->m = m;
		ms->cap = cap;
	}
	copy = strdup(name);
	if (!copy) {
		ms->error = -ENOMEM;
		return;
	}
	ms->m[ms->nr++] =
		(struct metric){ .name = copy, .unit = unit, .help = help, .value = value, .decimals = decimals };
}

void metrics_done(struct metrics *ms)
{
	for (size_t i = 0; i < ms->nr; i++)
		free(ms->m[i].name);
	free(ms->m);
	*ms = (struct metrics){ 0 };
}
