/* From an address to the folio that is mapped there (follow.c): for calls that move, split or report pages by address. */
#ifndef QUIRE_MM_FOLLOW_H
#define QUIRE_MM_FOLLOW_H

#include "mm/mm.h"

/*
 * The folio (its head) that v maps at va, with a reference of the caller's, and in *ret_page (may be NULL) the page. NULL: nothing is
 * there, or the zero page, or it is being moved. A page of a pool (VM_HUGETLB) too is no folio here. mmap_lock held.
 */
struct frame *follow_folio(struct cpu *c, const struct vma *v, vaddr_t va, struct frame **ret_page);
/* The same by address only: takes mmap_lock for reading. */
struct frame *mm_follow_folio(struct cpu *c, struct mm *mm, vaddr_t va, struct frame **ret_page);

#endif
