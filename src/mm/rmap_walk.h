/*
 * The reverse map: who maps a folio (rmap_walk.c), and what follows from knowing it (referenced.c).
 *
 * An anonymous folio's mapping names an anon_vma (anon_vma.h), whose tree holds every area that may map it; a file's folio is
 * found through its file's i_mmap. A walk visits the areas whose offsets cover the folio, not the entries: an area may map
 * nothing of it any more. pvmw_next then finds the entries in one area.
 *
 * Invariants
 *  R1 Whoever maps a page of a folio is in the tree that the folio leads to, from before the entry appears until after it has
 *     gone. The exception: pages of a range that is being unmapped are found no more while they still count as mapped. So a walk
 *     that has visited all is to be believed only when folio_mapped says so too.
 *  R2 While the lock of the tree is held, for reading, no area in it changes its bounds, leaves, or has entries moved or its page
 *     tables freed. An area's page tables are freed after it has left, or under the lock for writing (quire.pt_reclaim).
 *  R3 An entry is only looked at under its table's lock, and only the holder of the table may change it.
 *
 * Page tables that address spaces share (fork_shared.h): one entry serves all sharers. A walk comes to it once for each area
 * that maps it, with `shared_table` set, and nothing in it may be changed: whoever wants to has to give up ('busy').
 *
 * Locks: no page table's lock and no mmap_lock is needed to call anything here. rmap_walk takes the root's lock of the anon_vma,
 * or the file's i_mmap lock, for reading; pvmw_next the table's, which is held until the next call (RANK_I_MMAP, RANK_ANON_VMA,
 * RANK_PTL).
 */
#ifndef QUIRE_MM_RMAP_WALK_H
#define QUIRE_MM_RMAP_WALK_H

#include "mm/pagetable.h"

struct anon_vma;

struct rmap_walk {
	void *arg;
	/* Each area that may map the folio; va: the address there of its first page that lies in the area. false: stop. */
	bool (*one)(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg);
	bool (*done)(struct frame *folio, void *arg);  /* NULL, or asked after each area: true: stop */
	bool (*skip)(struct vma *v, void *arg);        /* NULL, or true: leave this one out */
	bool locked;                                   /* the caller holds the anon_vma's or the file's lock */
};

/*
 * `folio`: a head, of which the caller holds a reference. Pages of pools (FRAME_HUGETLB), which have records of their own, and
 * pages that are neither anonymous nor a file's are in no area: nothing is visited.
 */
void rmap_walk(struct cpu *c, struct frame *folio, const struct rmap_walk *w);

/* ---- entries in one area ---- */

#define PVMW_MIGRATION (1U << 0) /* also entries that say that the folio is being migrated (not present) */

struct pvmw {
	struct cpu *c;
	uint64_t pfn, nr_pages;  /* what is looked for: frames [pfn, pfn + nr_pages) */
	struct vma *v;
	unsigned flags;          /* PVMW_* */
	/* Set by pvmw_next */
	vaddr_t va;              /* what the entry serves; of a PMD: its first page */
	struct pt_ref pmd, pte;  /* the entry: pmd where is_pmd, else pte (pmd leads to it) */
	pte_t entry;             /* what it held */
	bool is_pmd;
	bool shared_table;       /* address spaces share the table: not to be changed */
	/* private */
	bool found;
	vaddr_t base, next, end; /* where the first of the frames would be, maybe outside of v; where to go on; behind the last page */
	struct frame *locked[2]; /* tables whose locks are held, in the order of taking */
};

/* To look for all of a folio in v; va as rmap_walk gave it. */
struct pvmw pvmw_begin(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, unsigned flags);
/* To look for some frames, of which the first would be at va. */
struct pvmw pvmw_range(struct cpu *c, uint64_t pfn, uint64_t nr_pages, struct vma *v, vaddr_t va, unsigned flags);
/*
 * The next entry (a PTE of any sub-page, or the PMD of the whole; present or PROT_NONE), its table's lock held. false: no more,
 * and no lock is held. The tree's lock, or mmap_lock, keeps the area as it is.
 */
bool pvmw_next(struct pvmw *w);
/* Leave before the end. */
void pvmw_done(struct pvmw *w);
/* Let go of the lock and look at the place of the last entry again: it may have been split meanwhile. */
void pvmw_restart(struct pvmw *w);

static inline struct pt_ref *pvmw_ref(struct pvmw *w)
{
	return w->is_pmd ? &w->pmd : &w->pte;
}

/* The page that the entry maps (for a PMD: the first). */
static inline struct frame *pvmw_page(const struct pvmw *w)
{
	return frame_of(w->c->m, pte_pfn(w->entry));
}

/* ---- what a folio leads to ---- */

/*
 * The anon_vma of a folio of which the caller holds a reference and nothing else, with a reference of its own
 * (anon_vma_put), or NULL when it isn't anonymous, or not mapped any more.
 */
struct anon_vma *folio_get_anon_vma(struct cpu *c, struct frame *folio);
/* The same with the root's lock held for reading; given back together by folio_unlock_anon_vma_read. */
struct anon_vma *folio_lock_anon_vma_read(struct cpu *c, struct frame *folio);
void folio_unlock_anon_vma_read(struct cpu *c, struct anon_vma *av);

/* ---- counts ---- */

/* All entries that map the folio or a part of it; exact while nobody maps or unmaps. */
int folio_mapcount(const struct frame *folio);
bool folio_mapped(const struct frame *folio);
/* References that follow from what is known: mappings and the page cache's (or swap cache's). What is beyond: pins and holders. */
int folio_expected_refs(const struct frame *folio);

/* ---- users ---- */

/*
 * How many entries say that the folio has been used since the last call; their ACCESSED bits are cleared (without a flush, as on
 * x86). *vm_flags: those of the areas that use it; VM_LOCKED, and at least 1, where one has it locked. Entries of shared tables
 * count and are cleared: the bit is everybody's.
 */
int folio_referenced(struct cpu *c, struct frame *folio, uint64_t *vm_flags);
/* Write-protect and clean the entries of shared mappings of a file's folio, flushed. How many there were. */
int folio_mkclean(struct cpu *c, struct frame *folio);

#endif
