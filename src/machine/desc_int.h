/* What the files of the machine descriptions share: shipped files, the reader of one file, the choice of the nearest machine. */
#ifndef QUIRE_MACHINE_DESC_INT_H
#define QUIRE_MACHINE_DESC_INT_H

#include "machine/desc.h"

/* The shipped machine files, generated at build time by scripts/embed-machines, in alphabetical order. */
struct machine_file {
	const char *name, *text;
};
extern const struct machine_file machine_files[];
extern const unsigned nr_machine_files;

#endif
