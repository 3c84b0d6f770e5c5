/*
 * May a CPU's TLB hold what it holds? For checkers, which get at a machine's TLBs in their own way and ask here (tlb_check.c). No charges, no
 * side effects, any moment.
 */
#ifndef QUIRE_MM_TLB_CHECK_H
#define QUIRE_MM_TLB_CHECK_H

#include "mm/system.h"

/* A translation, or a page-walk cache's entry (table: pfn is the table for [va, va + 1 << shift)). */
struct tlb_held {
	uint32_t ctx;
	unsigned shift;
	bool table, write;
	vaddr_t va;
	pfn_t pfn;
};

/*
 * Is the frame behind it still owned by somebody who could be meant? Holds at every moment, also while a flush is pending (rule T2),
 * except while CPU `cpu` itself is on its way back to an address space. NULL, or what is wrong.
 */
const char *tlb_held_alive(const struct quire *q, unsigned cpu, const struct tlb_held *h);
/* Is the address space that the CPU has loaded one that exists? At every moment. NULL, or what is wrong. */
const char *tlb_loaded_alive(const struct quire *q, unsigned cpu);
/*
 * Do the tables still say the same (rule T1)? Holds outside of calls and faults that concern the address, and but for address spaces for
 * which a flush has been put off (tlb_deferred), of which only tables must not be freed. NULL, or what is wrong.
 */
const char *tlb_held_granted(const struct quire *q, unsigned cpu, const struct tlb_held *h);

#endif
