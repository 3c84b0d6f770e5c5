/*
 * Eras: what the memory management of a kernel release did where it has changed since, as settings of the engine. One table (era.c) says which
 * setting had which value from which release on, and why that is known.
 */
#ifndef QUIRE_LAB_ERA_H
#define QUIRE_LAB_ERA_H

#include "mm/knobs.h"

#include "base/compiler.h"

#define ERA_MAX_LINES 32  /* settings of an era */
#define ERA_MAX_SETS 64   /* --set beside them */
#define ERA_TEXT 96

struct era_line {
	const char *knob, *value; /* as --set takes them */
	unsigned since;           /* 1000 * major + minor; 0: from before the table begins */
	const char *reason;
};

struct era {
	unsigned version; /* 0: none was asked for */
	struct era_line line[ERA_MAX_LINES];
	size_t nr;
};

/* "5.8": what that release did. text NULL: an era without lines. 0, or -EINVAL with one line in err that begins with --era. */
ATTR_MUST_CHECK int era_find(const char *text, struct era *ret, char *err, size_t errlen);
/* All its lines on top of k. */
void era_apply(const struct era *e, struct knobs *k);

/* The era's lines as texts for --set, without those that are set otherwise (NAME=VALUE or NAME=VALUE,VALUE... in sets and varies), then sets. */
struct era_sets {
	char *v[ERA_MAX_LINES + ERA_MAX_SETS];
	size_t nr;
	char text[ERA_MAX_LINES][ERA_TEXT];
};
void era_sets(const struct era *e, char *const *sets, size_t nr_sets, char *const *varies, size_t nr_varies, struct era_sets *ret);

#endif
