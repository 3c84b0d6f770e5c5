/*
 * Splitting a compound folio of anonymous memory into base pages (split.c; mechanism 4).
 * Source: the kernel's description of transparent huge pages; "mm: huge_memory: batch tlb flush when splitting a pte-mapped THP".
 */
#ifndef QUIRE_MM_SPLIT_H
#define QUIRE_MM_SPLIT_H

#include "mm/frame.h"

struct mm;
struct pt_ref;
struct vma;

/*
 * The caller holds one reference on the folio and its lock. On success it holds both on `keep`, one of the folio's frames (NULL: the
 * first), which is a base page now; the others are unlocked, and either on `parts`, isolated as the folio was (lru.h), with a reference of the
 * caller's each, linked by lru, or, if that is NULL, let go: on the lists of reclaim, and those that nobody maps are free then. 0, or with nothing changed:
 * -EINVAL (not one that can be split), -EBUSY (its mappings can't be found or changed now), -EAGAIN (somebody else holds a reference).
 * Counted in thp_split_page or thp_split_page_failed. May sleep; no locks but mmap_lock may be held.
 */
int folio_split(struct cpu *c, struct frame *folio, struct frame *keep, struct list_head *parts);

/*
 * Try to split every huge page of which [start, start + len) of mm maps a part. How many were. No lock is held. Source: debugfs
 * split_huge_pages.
 */
uint64_t quire_split_range(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len);

/*
 * Try to split each anonymous huge page of which [start, end) covers a part and that one table alone maps, so that what the range does to
 * its pages leaves the others alone. mmap_lock is held, no other lock.
 */
void split_partly_covered(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end);

/* The entries from r (for va) on, before end, map all of the folio, in order, and nobody else maps any of it. Under their table's lock. */
bool pte_maps_whole_folio(struct cpu *c, const struct pt_ref *r, vaddr_t va, vaddr_t end, const struct frame *head);

/* Do mappings, the caller's reference and what is known account for all references? If not a split or migration is in vain. */
bool folio_can_split(const struct frame *folio);

#endif
