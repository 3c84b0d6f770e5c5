/* Translation: TLB levels, the hardware walker, faults (walk.c). */
#ifndef QUIRE_MACHINE_MODEL_WALK_H
#define QUIRE_MACHINE_MODEL_WALK_H

#include "machine/model/model_int.h"

/* Translate a kernel (physical) address by the direct map: when the address is known. */
uint64_t walk_kernel(struct cpu *c, struct core_cpu *cc, paddr_t pa);

/*
 * Translate va for an access with `flags` when the page is not the one of cc->page_*. 0: cc->page_* describe it and *t has moved on by what
 * the translation took; else the fault hook's error.
 */
int walk_user(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t *t);

/* Forget the page of the last access, for all threads of the core. */
static inline void walk_forget(struct core_phys *core)
{
	for (uint32_t i = 0; i < core->nr_threads; i++)
		core->thread[i]->page_va = core->thread[i]->page_mask = ~0ULL;
}

#endif
