/*
 * The rows of a comparison: fixed settings (--set NAME=VALUE), and varied ones (--vary NAME=VALUE,VALUE...), of which
 * every combination is a row, the first --vary changing slowest. Everything is checked before anything runs.
 */
#ifndef QUIRE_LAB_SETTINGS_H
#define QUIRE_LAB_SETTINGS_H

#include "mm/knobs.h"

#define SETTINGS_MAX_ROWS 256

struct setting {
	const struct knob *knob;
	char *value; /* as the engine prints it */
	bool varied;
};

struct settings_row {
	struct knobs knobs;
	struct setting *s; /* varied ones first, in the order given */
	size_t nr;
};

struct settings {
	struct settings_row *rows;
	size_t nr;
};

/*
 * sets, varies: texts as given. 0, or -EINVAL with one line in err: no such setting (with the nearest), a value that is
 * not allowed (with what is), a setting given twice.
 */
int settings_expand(char *const *sets, size_t nr_sets, char *const *varies, size_t nr_varies, struct settings *ret,
		    char *err, size_t errlen);
void settings_done(struct settings *st);

/*
 * One setting on top of `k`: "NAME=VALUE". 0, or -EINVAL with one line in err that begins with `option` and says what there is or what
 * is allowed.
 */
int settings_apply(struct knobs *k, const char *option, const char *text, char *err, size_t errlen);

#endif
