/*
 * Entries that are not empty and map nothing (pagetable.h, enum pte_type): what the walkers over ranges do with them. Called under the
 * lock of the entry's table. A huge entry counts as all its pages.
 */
#ifndef QUIRE_MM_NONPRESENT_H
#define QUIRE_MM_NONPRESENT_H

#include "mm/pagetable.h"

/* `e` was taken out of its table: let go of what it stood for. Which kind of resident page is one less; NR_RSS: none. */
unsigned nonpresent_zap(struct cpu *c, const struct vma *v, pte_t e);
/* mprotect: a right to write that was kept for later is lost; after it a write asks by a fault. */
void nonpresent_protect(struct cpu *c, const struct pt_ref *r, pte_t e);
/* fork: what the child gets for the parent's `e`, and loses its owner by that. rss: by kind, the child's. */
pte_t nonpresent_fork(struct cpu *c, const struct pt_ref *src, const struct pt_ref *dst, pte_t e, struct mm *child, int64_t *rss);

#endif
