/*
 * Long-term pins: frames of user memory that stay where they are, for whoever reads or writes them by a pointer (gup.c).
 */
#ifndef QUIRE_MM_GUP_H
#define QUIRE_MM_GUP_H

#include "mm/mm.h"

/*
 * Pin nr pages from va (page-aligned) on; ret: nr frames. What is not there is faulted in, what is shared by copy on write is copied
 * first, so that the frames are what the address space goes on to see. 0; -EFAULT: no such memory, or no right to it; -ENOMEM. On an
 * error nothing is pinned.
 */
ATTR_MUST_CHECK int mm_pin(struct cpu *c, struct mm *mm, vaddr_t va, uint64_t nr, bool write, pfn_t *ret);
/* The address space may be gone by now. */
void mm_unpin(struct cpu *c, const pfn_t *frames, uint64_t nr);

#endif
