/*
 * A new file that takes its place whole or not at all. Until then it has no name (O_TMPFILE), so that whoever is killed leaves nothing
 * behind; on file systems without that it is PATH.tmp.PID beside its place.
 */
#ifndef QUIRE_TRACE_NEWFILE_H
#define QUIRE_TRACE_NEWFILE_H

#include "base/compiler.h"

#include <stdbool.h>

struct new_file {
	int fd;     /* to be written to */
	bool named; /* tmp exists */
	char *tmp;  /* NULL: nothing is open; so is a structure of zeroes */
};

/* Open one for writing. 0, or -errno: nothing is left then. */
ATTR_MUST_CHECK int new_file_open(struct new_file *f, const char *path);
/* All is written: it becomes PATH, in place of what was there. 0 or -errno; only new_file_drop is left to do. */
ATTR_MUST_CHECK int new_file_keep(struct new_file *f, const char *path);
/* Closed and forgotten, with what has not got its place. Also due after new_file_keep. */
void new_file_drop(struct new_file *f);

#endif
