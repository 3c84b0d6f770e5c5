/*
 * Four-level page tables in the x86-64 entry format, and the one walker that all others use (pagetable.c, walk.c).
 *
 * Invariants
 *  P1 A table page is an order-0 frame with FRAME_TABLE; frame->nr_tables counts its non-empty entries (PTE level and up).
 *  P2 An entry is changed only under its split lock: pt_lock(PMD entry's own table) for PMD entries, the PTE table's lock for
 *     PTEs; upper levels under mm->ptl.
 *  P3 For every huge PMD of anonymous memory one PTE table is deposited (priv of the PMD table's frame), so that a split never
 *     has to allocate.
 *  P4 Each change of a present entry is followed by the flush that the rules in tlb.h demand before the frame is reused.
 */
#ifndef QUIRE_MM_PAGETABLE_H
#define QUIRE_MM_PAGETABLE_H

#include "mm/mm.h"

#define PT_ENTRIES 512U

/* Software bits (x86 leaves 9-11 and 52-58 to software). */
#define PTE_SOFT_ZERO (1ULL << 9)      /* the shared zero page (4K or 2M): no rmap, no rss */
#define PTE_SOFT_EXCLUSIVE (1ULL << 10)/* anonymous page owned by this mapping alone */
#define PTE_PROTNONE (1ULL << 8)       /* with PRESENT clear: a page is mapped, no access allowed (PROT_NONE) */

typedef uint64_t pte_t; /* an entry of any level */

struct pt_ref {
	paddr_t pa;          /* modelled address of the entry */
	pte_t *entry;        /* where it is */
	struct frame *table; /* descriptor of the table that holds it: its lock is table's split lock */
};

static inline bool pte_present(pte_t e) /* maps a page, accessible or PROT_NONE */
{
	return (e & (PTE_PRESENT | PTE_PROTNONE)) != 0;
}

static inline pfn_t pte_pfn(pte_t e)
{
	return pfn((e & PTE_ADDR_MASK) >> PAGE_SHIFT);
}

static inline unsigned pt_index(vaddr_t va, unsigned shift)
{
	return (unsigned)(va >> shift) & (PT_ENTRIES - 1);
}

/* Charged load and store of an entry. */
pte_t pte_read(struct cpu *c, const struct pt_ref *r);
void pte_write(struct cpu *c, const struct pt_ref *r, pte_t v);
/* Atomic exchange: what a clear of a live entry needs, so that A and D bits set meanwhile are not lost. */
pte_t pte_xchg(struct cpu *c, const struct pt_ref *r, pte_t v);

/*
 * The walker. Finds the PMD entry for va (pt_pmd) or, under a present non-huge PMD, its PTE (pt_pte).
 * alloc: make missing tables (-ENOMEM). Without: -ENOENT when a level is missing. pt_pte returns -EISDIR under a huge PMD.
 */
int pt_pmd(struct cpu *c, struct mm *mm, vaddr_t va, bool alloc, struct pt_ref *ret);
int pt_pte(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va, bool alloc, struct pt_ref *ret);

/* The split lock of a table. */
void pt_lock(struct cpu *c, struct frame *table);
void pt_unlock(struct cpu *c, struct frame *table);

/* A zeroed table page, or NULL; counted in nr_page_table_pages and mm->pgtables_bytes. */
struct frame *pt_alloc_table(struct cpu *c, struct mm *mm);
void pt_free_table(struct cpu *c, struct mm *mm, struct frame *t);

struct mmu_gather;
/* Free the tables that only serve [start, end) given that nothing is mapped in [floor, ceiling) around it. */
void pt_free_range(struct cpu *c, struct mm *mm, struct mmu_gather *tlb, vaddr_t start, vaddr_t end, vaddr_t floor,
		   vaddr_t ceiling);

/* Protection bits of a present entry for an area's flags (without WRITE where copy on write must intervene). */
pte_t pte_prot(uint64_t vm_flags);

#endif
