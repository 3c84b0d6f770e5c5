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
 * Process nr_pages sub-pages (a power of two) of the huge page at the aligned base of `hint`: fn gets each index once
 * and its address, base + index * PAGE_SIZE. Above the buddy allocator's largest block (1024 pages: gigantic) the hint
 * is ignored and the order is ascending. The first error stops it and is returned.
 *   linear              0, 1, ... N-1
 *   target_last         converges on the target: the far side first, then from both ends of the window centred on it
 *   neighbourhood_last  what lies right of the target's neighbourhood (2 pages each side), what lies left of it, then
 *                       the neighbourhood; each part ascending
 */
int hugecopy_process(struct cpu *c, enum huge_order_policy policy, vaddr_t hint, unsigned nr_pages, hugecopy_fn fn,
		     void *arg);

/*
 * Clear or copy a huge page in the order of quire.huge_clear_order or quire.huge_copy_order. 0, or what the first
 * sub-page that failed returned (-EHWPOISON: unreadable source); then a part has been processed, and only that part is
 * counted in quire_pages_*.
 */
int hugecopy_clear(struct cpu *c, struct frame *head, unsigned nr_pages, vaddr_t hint);
int hugecopy_copy(struct cpu *c, struct frame *dst, struct frame *src, unsigned nr_pages, vaddr_t hint);

#endif
