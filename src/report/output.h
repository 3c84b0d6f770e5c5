/*
 * A result file, whole or not at all: it gets its name when it is complete (trace/newfile.h). "-" is standard output; a device or a pipe is
 * written as it is.
 */
#ifndef QUIRE_REPORT_OUTPUT_H
#define QUIRE_REPORT_OUTPUT_H

#include "trace/newfile.h"

#include <stddef.h>
#include <stdio.h>

struct output {
	FILE *f;
	char *path; /* NULL: standard output */
	struct new_file file;
};

/* Fails at once, before any work, when the place cannot be written. 0, or -errno with one line in err. */
int output_open(struct output *o, const char *path, char *err, size_t errlen);
/* 0, or -errno with one line in err; the file is as it was before then. */
int output_commit(struct output *o, char *err, size_t errlen);
/* Nothing happens after a commit. */
void output_abort(struct output *o);

#endif
