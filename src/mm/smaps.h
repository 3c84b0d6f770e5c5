/*
 * What /proc/PID/smaps says of an area: sums over its page-table entries, under Linux's names, in bytes. Read-only and free of charge: for
 * reports and comparisons, not a path of the kernel. Exact while nobody changes the address space (mmap_lock held, or no task runs).
 */
#ifndef QUIRE_MM_SMAPS_H
#define QUIRE_MM_SMAPS_H

#include "mm/mm.h"

#define SMAPS_LINES(E)                                                                             \
	E(Rss)                                                                                      \
	E(Pss) /* a page that n entries map counts as one n-th, in 4096ths of a byte until the end */ \
	E(Pss_Dirty)                                                                                \
	E(Shared_Clean)                                                                             \
	E(Shared_Dirty)                                                                             \
	E(Private_Clean)                                                                            \
	E(Private_Dirty)                                                                            \
	E(Referenced)                                                                               \
	E(Anonymous)                                                                                \
	E(LazyFree)                                                                                 \
	E(AnonHugePages)                                                                            \
	E(ShmemPmdMapped)                                                                           \
	E(FilePmdMapped)                                                                            \
	E(Swap)                                                                                     \
	E(SwapPss)                                                                                  \
	E(Locked)

enum smaps_line {
#define E(n) SMAPS_##n,
	SMAPS_LINES(E)
#undef E
	    NR_SMAPS_LINES
};

extern const char *const smaps_line_names[NR_SMAPS_LINES];

struct mm_smaps {
	uint64_t bytes[NR_SMAPS_LINES];
};

/* fn for every area in the order of addresses, those without pages too. */
void mm_smaps_each(const struct mm *mm, void (*fn)(void *arg, const struct vma *v, const struct mm_smaps *s), void *arg);

#endif
