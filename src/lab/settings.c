/* From --set and --vary to rows: parsing, checking, every combination. */
#include "lab/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GIVEN 64
#define MAX_TEXT 256

/* One --set or --vary, taken apart. */
struct given {
	char text[MAX_TEXT]; /* NAME \0 VALUE \0 VALUE ... */
	const struct knob *knob;
	const char *values[SETTINGS_MAX_ROWS];
	size_t nr_values;
};

/* What is shown of a setting is anybody's (a saved schedule, an experiment): nothing of it ends the line or talks to the terminal. */
static int refused(int rc, char *err, size_t errlen)
{
	for (size_t i = 0; rc && i < errlen && err[i]; i++)
		if ((unsigned char)err[i] < ' ' || err[i] == 0x7f)
			err[i] = ' ';
	return rc;
}

static int parse_name(struct given *g, const char *option, const char *text, char *err, size_t errlen)
{
	char *eq;

	if (strlen(text) >= MAX_TEXT) {
		snprintf(err, errlen, "%s %.40s...: too long", option, text);
		return -EINVAL;
	}
	strcpy(g->text, text);
	eq = strchr(g->text, '=');
	if (!eq || eq == g->text || !eq[1]) {
		snprintf(err, errlen, "%s %s: expected NAME=VALUE%s", option, text,
			 !strcmp(option, "--vary") ? ",VALUE..." : "");
		return -EINVAL;
	}
	*eq = 0;
	g->knob = knob_find(g->text);
	if (!g->knob) {
		const char *near = knob_nearest(g->text);

		snprintf(err, errlen, "%s: no such setting: %s%s%s%s", option, g->text, near ? "; did you mean " : "",
			 near ? near : "", near ? "?" : " ('quire knobs' lists them)");
		return -EINVAL;
	}
	g->values[g->nr_values++] = eq + 1;
	return 0;
}

static int split_values(struct given *g, const char *option, char *err, size_t errlen)
{
	char *at = (char *)(uintptr_t)g->values[0];

	for (char *comma; (comma = strchr(at, ',')); at = comma + 1) {
		*comma = 0;
		if (g->nr_values == SETTINGS_MAX_ROWS) {
			snprintf(err, errlen, "%s %s: at most %d values", option, g->text, SETTINGS_MAX_ROWS);
			return -EINVAL;
		}
		g->values[g->nr_values++] = comma + 1;
	}
	return 0;
}

static int parse(struct given *g, const char *option, const char *text, bool list, char *err, size_t errlen)
{
	struct knobs scratch;
	int rc = parse_name(g, option, text, err, errlen);

	if (!rc && list)
		rc = split_values(g, option, err, errlen);
	if (rc)
		return rc;
	knobs_default(&scratch);
	for (size_t i = 0; i < g->nr_values; i++) {
		char allowed[200] = "";

		if (knob_set(&scratch, g->text, g->values[i], allowed, sizeof(allowed))) {
			snprintf(err, errlen, "%s %s=%s: allowed: %s", option, g->text, g->values[i], allowed);
			return -EINVAL;
		}
	}
	return 0;
}

static int add_value(struct settings_row *row, const struct given *g, size_t value, bool varied)
{
	char buf[200];

	if (knob_set(&row->knobs, g->text, g->values[value], buf, sizeof(buf)))
		return -EINVAL;
	knob_format(&row->knobs, g->knob, buf, sizeof(buf));
	row->s[row->nr] = (struct setting){ .knob = g->knob, .value = strdup(buf), .varied = varied };
	return row->s[row->nr++].value ? 0 : -ENOMEM;
}

static int make_rows(const struct given *g, size_t nr_varies, size_t nr, struct settings *ret)
{
	ret->rows = calloc(ret->nr, sizeof(*ret->rows));
	if (!ret->rows)
		return -ENOMEM;
	for (size_t r = 0; r < ret->nr; r++) {
		struct settings_row *row = &ret->rows[r];
		size_t block = ret->nr;

		knobs_default(&row->knobs);
		row->s = calloc(nr ? nr : 1, sizeof(*row->s));
		if (!row->s)
			return -ENOMEM;
		for (size_t i = 0; i < nr; i++) {
			size_t value = 0;
			int rc;

			if (i < nr_varies) { /* digits of r in a mixed base, the first the most significant */
				block /= g[i].nr_values;
				value = r / block % g[i].nr_values;
			}
			rc = add_value(row, &g[i], value, i < nr_varies);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int check_all(const struct given *g, size_t nr_varies, size_t nr, size_t *ret_rows, char *err, size_t errlen)
{
	*ret_rows = 1;
	for (size_t i = 0; i < nr; i++) {
		for (size_t k = 0; k < i; k++)
			if (g[k].knob == g[i].knob) {
				snprintf(err, errlen, "%s is given twice", g[i].text);
				return -EINVAL;
			}
		if (i < nr_varies)
			*ret_rows *= g[i].nr_values;
		if (*ret_rows > SETTINGS_MAX_ROWS) {
			snprintf(err, errlen, "--vary: more than %d combinations", SETTINGS_MAX_ROWS);
			return -EINVAL;
		}
	}
	return 0;
}

int settings_expand(char *const *sets, size_t nr_sets, char *const *varies, size_t nr_varies, struct settings *ret,
		    char *err, size_t errlen)
{
	size_t nr = nr_sets + nr_varies;
	struct given *g;
	int rc = 0;

	*ret = (struct settings){ 0 };
	if (nr > MAX_GIVEN) {
		snprintf(err, errlen, "at most %d settings", MAX_GIVEN);
		return -EINVAL;
	}
	g = calloc(nr ? nr : 1, sizeof(*g));
	if (!g)
		goto no_memory;
	for (size_t i = 0; !rc && i < nr; i++)
		rc = i < nr_varies ? parse(&g[i], "--vary", varies[i], true, err, errlen)
				   : parse(&g[i], "--set", sets[i - nr_varies], false, err, errlen);
	if (!rc)
		rc = check_all(g, nr_varies, nr, &ret->nr, err, errlen);
	if (!rc) {
		rc = make_rows(g, nr_varies, nr, ret);
		if (rc)
			snprintf(err, errlen, "settings: %s", strerror(-rc));
	}
	if (rc)
		settings_done(ret);
	free(g);
	return refused(rc, err, errlen);
no_memory:
	snprintf(err, errlen, "out of memory");
	return -ENOMEM;
}

void settings_done(struct settings *st)
{
	for (size_t r = 0; st->rows && r < st->nr; r++) {
		for (size_t i = 0; st->rows[r].s && i < st->rows[r].nr; i++)
			free(st->rows[r].s[i].value);
		free(st->rows[r].s);
	}
	free(st->rows);
	*st = (struct settings){ 0 };
}

int settings_apply(struct knobs *k, const char *option, const char *text, char *err, size_t errlen)
{
	const char *eq = strchr(text, '='), *near;
	char name[100], allowed[200] = "";
	int rc;

	if (!eq || eq == text || !eq[1] || (size_t)(eq - text) >= sizeof(name)) {
		snprintf(err, errlen, "%s %.80s: expected NAME=VALUE", option, text);
		return refused(-EINVAL, err, errlen);
	}
	snprintf(name, sizeof(name), "%.*s", (int)(eq - text), text);
	rc = knob_set(k, name, eq + 1, allowed, sizeof(allowed));
	if (rc == -ENOENT) {
		near = knob_nearest(name);
		snprintf(err, errlen, "%s: no such setting: %s%s%s%s", option, name, near ? "; did you mean " : "", near ? near : "",
			 near ? "?" : " ('quire knobs' lists them)");
	} else if (rc) {
		snprintf(err, errlen, "%s %.100s: allowed: %s", option, text, allowed);
	}
	return refused(rc ? -EINVAL : 0, err, errlen);
}
