/* Freeing pages that can be had again, or that nobody wants (reclaim.c); MADV_COLD and MADV_PAGEOUT (madvise_cold.c). */
#ifndef QUIRE_MM_RECLAIM_H
#define QUIRE_MM_RECLAIM_H

#include "mm/vma.h"

/*
 * Free what can be freed of isolated folios, linked by lru, whether used of late or not; the others are put back. All leave the list. How many
 * pages were freed. The caller sees to it that a file whose pages are among them does not go away meanwhile: an area maps it, and
 * mmap_lock is held. Folio locks are only tried. No spinlock held.
 */
uint64_t reclaim_folio_list(struct cpu *c, struct list_head *folios);

/*
 * The part of [start, end) that the area maps: not needed in the near future (pageout: or at all). mmap_lock held for reading; page
 * tables of the range are its own. Only what this mapping alone maps is touched.
 */
void madvise_cold(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool pageout);

#endif
