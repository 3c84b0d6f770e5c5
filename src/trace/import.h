/*
 * Importing address traces that other tools wrote as text. Formats:
 *   lackey   valgrind --tool=lackey --trace-mem=yes:  'I  addr,size'  ' L addr,size'  ' S addr,size'  ' M addr,size'
 *   text     'R address size' or 'W address size': address in hexadecimal, size in decimal; blank and '#' lines are skipped
 * The areas that such a trace lacks are derived from the addresses in it, so that it can be replayed.
 */
#ifndef QUIRE_TRACE_IMPORT_H
#define QUIRE_TRACE_IMPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_import_format { IMPORT_AUTO, IMPORT_LACKEY, IMPORT_TEXT };

struct trace_import_result {
	enum trace_import_format format;
	uint64_t lines, refs, insns, areas, bytes; /* bytes: touched pages' worth of memory, as areas */
};

/*
 * in: a path, or "-" for standard input. Writes out whole or not at all. 0, or negative errno with one line in err,
 * for a bad line "FILE:LINE: what is wrong; what is allowed". stop (may be NULL) ends it early with -EINTR.
 */
int trace_import(const char *in, enum trace_import_format format, const char *out, const volatile bool *stop,
		 struct trace_import_result *ret, char *err, size_t errlen);

#endif
