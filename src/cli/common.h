/* What several commands do alike: result files, the machine, what is to be run. */
#ifndef QUIRE_CLI_COMMON_H
#define QUIRE_CLI_COMMON_H

#include <jansson.h>

#include "machine/desc.h"
#include "report/output.h"

/* --json FILE: opened before the work, so that a bad place fails at once. path NULL: nothing. Exit code, or -1. */
int json_begin(struct output *o, const char *path);
/* Write and complete; root is let go of. Returns an exit code. */
int json_end(struct output *o, json_t *root);
/* Where text for people goes: stdout, or stderr when the JSON goes to stdout. */
FILE *text_stream(const char *json_path);

/* name NULL: the machine most like this computer. Exit code or -1 to go on. */
int machine_get(const char *name, struct machine_desc *ret);
/* quire machine map (cmd_machine_map.c); both NULL: this computer's. An exit code. */
int machine_map(const char *iomem, const char *zoneinfo, const char *json_path, struct output *out);

#endif
