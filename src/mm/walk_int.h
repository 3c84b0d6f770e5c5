/* Shared by pagetable.c and walk.c. */
#ifndef QUIRE_MM_WALK_INT_H
#define QUIRE_MM_WALK_INT_H

#include "mm/pagetable.h"

int pt_alloc(struct cpu *c, struct mm *mm, const struct pt_ref *r, struct mlock *lock, pte_t *ret);

#endif
