/* Rules as text: names of kinds and sites, and a rule's attributes. */
#include "machine/inject.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name, *help;
} kinds[NR_INJECT_SITES] = {
	[INJECT_FRAME_ALLOC] = { "fail_page_alloc", "an allocation of frames gives none" },
	[INJECT_SLAB_ALLOC] = { "failslab", "an allocation of one of the engine's own objects gives none" },
	[INJECT_TRYLOCK] = { "fail_trylock", "a lock that is only tried for is not had" },
	[INJECT_COPY] = { "fail_copy_page", "the source of a page's copy cannot be read (EHWPOISON)" },
	[INJECT_CLEAR] = { "fail_clear_page", "a page cannot be cleared" },
	[INJECT_IO] = { "fail_make_request", "a file's page cannot be read, or pages not be swapped in or out (EIO)" },
};

static const char *const sites[NR_MACHINE_PATHS] = {
#define PATH(id, name, functions) [PATH_##id] = #id,
	MACHINE_PATHS(PATH)
#undef PATH
};

const char *inject_kind_name(enum inject_site kind)
{
	return kinds[kind].name;
}

const char *inject_kind_help(enum inject_site kind)
{
	return kinds[kind].help;
}

void inject_site_name(int site, char *buf, size_t len)
{
	size_t i = 0;
	const char *s = site == INJECT_ANY ? "any" : sites[site];

	for (; s[i] && i + 1 < len; i++)
		buf[i] = (char)tolower((unsigned char)s[i]);
	buf[i] = '\0';
}

static int find_site(const char *name)
{
	for (unsigned i = 0; i < NR_MACHINE_PATHS; i++)
		if (inject_site_possible((enum machine_path)i) && !strcasecmp(name, sites[i]))
			return (int)i;
	return INJECT_ANY;
}

/* What an attribute may be: a number from min to max, into one of the rule's fields. */
enum field { F_PROBABILITY, F_INTERVAL, F_TIMES, F_SPACE, F_NTH, F_ORDER, NR_FIELDS };

static const struct {
	const char *name;
	long long min, max;
} fields[NR_FIELDS] = {
	[F_PROBABILITY] = { "probability", 0, 100 },
	[F_INTERVAL] = { "interval", 1, INT64_MAX },
	[F_TIMES] = { "times", -1, INT64_MAX },
	[F_SPACE] = { "space", 0, INT64_MAX },
	[F_NTH] = { "nth", 1, INT64_MAX },
	[F_ORDER] = { "order", 0, 18 }, /* 18: 1 GiB for a pool of huge pages */
};

static void set_field(struct inject_rule *r, enum field f, long long v)
{
	switch (f) {
	case F_PROBABILITY:
		r->probability = (unsigned)v;
		break;
	case F_INTERVAL:
		r->interval = (uint64_t)v;
		break;
	case F_TIMES:
		r->times = v;
		break;
	case F_SPACE:
		r->space = (uint64_t)v;
		break;
	case F_NTH:
		r->nth = (uint64_t)v;
		break;
	case F_ORDER:
		r->order = (int)v;
		break;
	case NR_FIELDS:
		break;
	}
}

/* One "name=value". */
static int parse_attribute(char *text, struct inject_rule *r, char *err, size_t errlen)
{
	char *value = strchr(text, '='), *end;
	long long v;

	if (!value || !value[1]) {
		snprintf(err, errlen, "'%s': an attribute is NAME=VALUE", text);
		return -EINVAL;
	}
	*value++ = '\0';
	if (!strcmp(text, "site")) {
		r->site = find_site(value);
		if (r->site != INJECT_ANY || !strcmp(value, "any"))
			return 0;
		snprintf(err, errlen, "no such site: %s ('quire check inject --list' shows them)", value);
		return -EINVAL;
	}
	for (unsigned f = 0; f < NR_FIELDS; f++) {
		if (strcmp(text, fields[f].name) != 0)
			continue;
		errno = 0;
		v = strtoll(value, &end, 10);
		if (errno || *end || v < fields[f].min || v > fields[f].max) {
			if (fields[f].max == INT64_MAX)
				snprintf(err, errlen, "%s=%s: a number from %lld on", text, value, fields[f].min);
			else
				snprintf(err, errlen, "%s=%s: a number from %lld to %lld", text, value, fields[f].min, fields[f].max);
			return -EINVAL;
		}
		set_field(r, (enum field)f, v);
		return 0;
	}
	snprintf(err, errlen, "no such attribute: %s; there are probability, interval, times, space, nth, order and site", text);
	return -EINVAL;
}

static int find_kind(const char *name)
{
	for (unsigned k = 0; k < NR_INJECT_SITES; k++)
		if (!strcmp(name, kinds[k].name))
			return (int)k;
	return -1;
}

int inject_rule_parse(const char *text, struct inject_rule *ret, char *err, size_t errlen)
{
	struct inject_rule r = { .probability = 100, .interval = 1, .times = -1, .order = INJECT_ANY, .site = INJECT_ANY };
	char copy[256], *at, *next;
	int kind;

	if (strlen(text) >= sizeof(copy)) {
		snprintf(err, errlen, "a rule of more than %zu characters", sizeof(copy) - 1);
		return -EINVAL;
	}
	memcpy(copy, text, strlen(text) + 1);
	at = strchr(copy, ':');
	if (at)
		*at++ = '\0';
	kind = find_kind(copy);
	if (kind < 0) {
		snprintf(err, errlen, "no such kind of failure: %s ('quire check inject --list' shows them)", copy);
		return -EINVAL;
	}
	r.kind = (enum inject_site)kind;
	for (; at; at = next) {
		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		if (parse_attribute(at, &r, err, errlen))
			return -EINVAL;
	}
	if (r.order != INJECT_ANY && r.kind != INJECT_FRAME_ALLOC) {
		snprintf(err, errlen, "order is an attribute of fail_page_alloc");
		return -EINVAL;
	}
	*ret = r;
	return 0;
}
