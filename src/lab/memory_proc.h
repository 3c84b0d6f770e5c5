/*
 * The page allocator's state in the words of Linux's /proc/buddyinfo, /proc/pagetypeinfo, /proc/zoneinfo and of debugfs's
 * extfrag/unusable_index and extfrag/extfrag_index. What the engine does not keep a zone or a node is left out of zoneinfo.
 */
#ifndef QUIRE_LAB_MEMORY_PROC_H
#define QUIRE_LAB_MEMORY_PROC_H

#include <stdio.h>

struct quire;

enum memory_proc { PROC_BUDDYINFO, PROC_PAGETYPEINFO, PROC_ZONEINFO, PROC_UNUSABLE_INDEX, PROC_EXTFRAG_INDEX, NR_MEMORY_PROCS };

extern const char *const memory_proc_names[NR_MEMORY_PROCS];

/* Names separated by commas as a mask of 1 << enum memory_proc. 0, or -EINVAL with one line in err. */
int memory_proc_parse(const char *names, unsigned *ret_mask, char *err, size_t errlen);
/* No task may run. */
void memory_proc_print(FILE *f, const struct quire *q, enum memory_proc which);

#endif
