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

/* A translation in the making. */
struct walk {
	vaddr_t va;
	uint64_t need; /* of the access: TLB_* */
	uint64_t t;
	enum tlb_size size;
	uint64_t value; /* the TLB entry found */
	bool present; /* or whether there was one, with too few rights */
};

/* The walker that is free first. */
static ATTR_ALWAYS_INLINE unsigned pick_walker(const struct core_cpu *cc)
{
	unsigned w = 0;

	for (unsigned i = 1; i < cc->nr_walkers; i++)
		if (cc->walker_free[i] < cc->walker_free[w])
			w = i;
	return w;
}

/* An entry with too few rights, of whatever size, goes before the new one comes. */
void walk_drop(struct core_cpu *cc, vaddr_t va);
/* What the page-walk caches know of the way to va. */
void walk_drop_upper(struct core_cpu *cc, vaddr_t va);
/* The walker sets bits in an entry. */
uint64_t walk_update(struct model *md, struct core_cpu *cc, paddr_t pa, uint64_t t);
/*
 * The exception, at t: everything older completes, the engine's hook runs (it may sleep), and its answer decides. `flags`: of the access,
 * and ACCESS_PRESENT where an entry has too few rights.
 */
int walk_fault(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t t);

/* Forget the page of the last access, for all threads of the core. */
static inline void walk_forget(struct core_phys *core)
{
	for (uint32_t i = 0; i < core->nr_threads; i++)
		core->thread[i]->page_va = core->thread[i]->page_mask = ~0ULL;
}

#endif
