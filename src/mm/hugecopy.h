/*
 * Clearing and copying a huge page in an order (mechanism 0; "copy huge page: copy target sub-page last", 2018, and the
 * neighbourhood order of 2025). One driver, one callback a sub-page.
 */
#ifndef QUIRE_MM_HUGECOPY_H
#define QUIRE_MM_HUGECOPY_H

#include "mm/frame.h"
#include "mm/knobs.h"

typedef int (*hugecopy_fn)(struct cpu *c, unsigned index, vaddr_t va, void *arg);

/*
 * Process nr_pages sub-pages of the huge page at the aligned base of `hint`. Above 512 pages (gigantic) the hint is ignored
 * and the order is ascending from the aligned base. The first error stops it and is returned.
 */
int hugecopy_process(struct cpu *c, enum huge_order_policy policy, vaddr_t hint, unsigned nr_pages, hugecopy_fn fn, void *arg);

int hugecopy_clear(struct cpu *c, struct frame *head, unsigned nr_pages, vaddr_t hint);
int hugecopy_copy(struct cpu *c, struct frame *dst, struct frame *src, unsigned nr_pages, vaddr_t hint);

#endif
