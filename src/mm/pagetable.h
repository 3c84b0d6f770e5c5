/*
 * Four-level page tables in the x86-64 entry format, and the one walker that all others use (pagetable.c, walk.c).
 *
 * Invariants
 *  P1 A table page is an order-0 frame with FRAME_TABLE; frame->nr_tables counts its non-empty entries, at every level.
 *  P2 An entry is changed only under its split lock: pt_lock(PMD entry's own table) for PMD entries, the PTE table's
 *     lock for PTEs; upper levels under mm->ptl.
 *     A PMD entry that points to a table without PTE_WRITE: others share the table, and nothing in it may be changed
 *     before it has been made one's own (fork_shared.h).
 *  P3 For every huge PMD of anonymous memory, also while it is a migration entry, one PTE table is deposited (priv of the PMD table's frame), so that a split
 *     never has to allocate. Pages of a pool (hugetlb.h), which are never split, have none.
 *  P4 Each change of a present entry is followed by the flush that tlb.h demands before the frame is reused.
 */
#ifndef QUIRE_MM_PAGETABLE_H
#define QUIRE_MM_PAGETABLE_H

#include "mm/mm.h"

#define PT_ENTRIES 512U

/* Software bits (x86 leaves 9-11 and 52-58 to software). */
#define PTE_SOFT_ZERO (1ULL << 9) /* the shared zero page (4K or 2M): no rmap, no rss */
#define PTE_SOFT_EXCLUSIVE (1ULL << 10) /* anonymous page owned by this mapping alone */
#define PTE_PROTNONE (1ULL << 8) /* with PRESENT clear: a page is mapped, no access allowed (PROT_NONE) */

typedef uint64_t pte_t; /* an entry of any level */

struct pt_ref {
	paddr_t pa; /* modelled address of the entry */
	pte_t *entry; /* where it is */
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

/*
 * Entries that are not empty but map nothing have a type. Where they mean something PTE_WRITE, PTE_ACCESSED, PTE_DIRTY and
 * PTE_SOFT_EXCLUSIVE keep their places, and PTE_HUGE in a PMD entry; the address field holds a frame number (migration, hwpoison) or
 * a swap slot. Markers of pools of huge pages (hugetlb.h) are bits of their own.
 */
#define PTE_TYPE_SHIFT 54
#define PTE_TYPE_MASK (15ULL << PTE_TYPE_SHIFT)
enum pte_type {
	PTE_TYPE_NONE,
	PTE_TYPE_SWAP,      /* the page is in a swap slot; counted in mm->swapents */
	PTE_TYPE_MIGRATION, /* the page is being moved: whoever needs it waits until its folio is unlocked. Counted in rss, not in mapcounts */
	PTE_TYPE_HWPOISON,  /* the page could not be read: SIGBUS */
	PTE_TYPE_GUARD,     /* MADV_GUARD_INSTALL: SIGSEGV */
};

static inline enum pte_type pte_type(pte_t e)
{
	return pte_present(e) ? PTE_TYPE_NONE : (enum pte_type)((e & PTE_TYPE_MASK) >> PTE_TYPE_SHIFT);
}

static inline bool pte_is_migration(pte_t e)
{
	return pte_type(e) == PTE_TYPE_MIGRATION;
}

static inline bool pte_is_swap(pte_t e)
{
	return pte_type(e) == PTE_TYPE_SWAP;
}

/*
 * The migration entry for the page that `e` maps, which counts as a resident page of this kind. It says so itself: munmap may come to it when
 * the folio has gone, since areas shrink before their pages are unmapped and whoever puts mappings back no longer finds it then.
 */
#define PTE_MIGRATION_RSS_SHIFT 52
static inline pte_t pte_to_migration(pte_t e, enum rss_kind kind)
{
	pte_t keep = PTE_ADDR_MASK | PTE_WRITE | PTE_ACCESSED | PTE_DIRTY | PTE_HUGE | PTE_SOFT_EXCLUSIVE;

	return (e & keep) | ((pte_t)PTE_TYPE_MIGRATION << PTE_TYPE_SHIFT) | (pte_t)kind << PTE_MIGRATION_RSS_SHIFT;
}

static inline enum rss_kind pte_migration_rss(pte_t e)
{
	return (enum rss_kind)((e >> PTE_MIGRATION_RSS_SHIFT) & 3);
}

/* Maps a page of this level's size; `e` is from a PMD table. */
static inline bool pmd_huge(pte_t e)
{
	return pte_present(e) && (e & PTE_HUGE);
}

/* The same, or stands for one that is being moved: a PTE table is deposited for either (P3). */
static inline bool pmd_leaf(pte_t e)
{
	return pmd_huge(e) || ((e & PTE_HUGE) && pte_is_migration(e));
}

/* Points to a PTE table. A huge PMD that is being split is neither mapped by the hardware nor a table. */
static inline bool pmd_table(pte_t e)
{
	return (e & (PTE_PRESENT | PTE_HUGE)) == PTE_PRESENT;
}

/* The same, and the table is or was shared with other address spaces. */
static inline bool pt_entry_shared(pte_t pmd)
{
	return (pmd & (PTE_PRESENT | PTE_HUGE | PTE_WRITE)) == PTE_PRESENT;
}

/*
 * All accesses to entries are these. Stores release and loads acquire, so that whoever sees an entry sees the table or the
 * page behind it as it was when it was entered.
 *
 * pte_peek: without a charge, for loops that charge by the line (pt_touch_line), and for validators.
 */
static inline pte_t pte_peek(const struct pt_ref *r)
{
	return __atomic_load_n(r->entry, __ATOMIC_ACQUIRE);
}

/* Charged load of an entry. */
static inline pte_t pte_read(struct cpu *c, const struct pt_ref *r)
{
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_READ);
	return pte_peek(r);
}

static inline void pt_count_entry(struct frame *table, pte_t before, pte_t after)
{
	table->nr_tables += (uint64_t)(after != 0) - (uint64_t)(before != 0);
}

/* Charged store under the table's lock, for entries that the hardware can't be using: absent ones. Keeps P1's count. */
static inline void pte_write(struct cpu *c, const struct pt_ref *r, pte_t v)
{
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_WRITE);
	pt_count_entry(r->table, pte_peek(r), v);
	__atomic_store_n(r->entry, v, __ATOMIC_RELEASE);
}

/* Atomic exchange: what a change of a live entry needs, so that A and D bits set meanwhile are not lost. */
static inline pte_t pte_xchg(struct cpu *c, const struct pt_ref *r, pte_t v)
{
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	pte_t old = __atomic_exchange_n(r->entry, v, __ATOMIC_ACQ_REL);

	pt_count_entry(r->table, old, v);
	return old;
}

/* Atomic clear of bits in a live entry; returns the one before. */
static inline pte_t pte_clear_bits(struct cpu *c, const struct pt_ref *r, pte_t bits)
{
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	return __atomic_fetch_and(r->entry, ~bits, __ATOMIC_ACQ_REL);
}

static inline pte_t pte_set_bits(struct cpu *c, const struct pt_ref *r, pte_t bits)
{
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	return __atomic_fetch_or(r->entry, bits, __ATOMIC_ACQ_REL);
}

/* Replace *old by v in a live entry, unless it has changed, which *old then tells. The caller charges. */
static inline bool pte_try_replace(const struct pt_ref *r, pte_t *old, pte_t v)
{
	return __atomic_compare_exchange_n(r->entry, old, v, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

/* Into a table that nobody can see yet. The caller charges and counts. */
static inline void pte_init(const struct pt_ref *r, pte_t v)
{
	__atomic_store_n(r->entry, v, __ATOMIC_RELAXED);
}

/* Under the table's lock: from now on it may hold what the mark says (fork_shared.c, H4). */
static inline void pt_mark(struct frame *table, uint64_t marks)
{
	if ((frame_flags(table) & marks) != marks)
		frame_set(table, marks);
}

/* The entry of `table` for va at a level. */
static inline struct pt_ref pt_ref_at(struct cpu *c, struct frame *table, vaddr_t va, unsigned shift)
{
	paddr_t pa = pfn_to_paddr(frame_pfn(c->m, table)) + pt_index(va, shift) * sizeof(pte_t);

	return (struct pt_ref){ .pa = pa, .entry = machine_ptr(c->m, pa), .table = table };
}

/* Step to the next entry of the same table. */
static inline void pt_ref_next(struct pt_ref *r)
{
	r->pa += sizeof(pte_t);
	r->entry++;
}

/* A loop over entries looks at a new cache line here: charge it. `first`: the loop's first entry. */
static inline void pt_touch_line(struct cpu *c, const struct pt_ref *r, bool first)
{
	if (first || !(r->pa & (CACHE_LINE - 1)))
		machine_touch(c, r->pa, CACHE_LINE - (r->pa & (CACHE_LINE - 1)), TOUCH_READ);
}

/*
 * The walker. Finds the PMD entry for va (pt_pmd) or, under a present non-huge PMD, its PTE (pt_pte). alloc: make
 * missing tables (-ENOMEM). Without: -ENOENT when a level is missing. pt_pte returns -EISDIR under a huge PMD.
 */
int pt_pmd(struct cpu *c, struct mm *mm, vaddr_t va, bool alloc, struct pt_ref *ret);
/* The same for the PUD entry: of areas that have pages of 1 GiB only. */
int pt_pud(struct cpu *c, struct mm *mm, vaddr_t va, bool alloc, struct pt_ref *ret);
int pt_pte(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va, bool alloc, struct pt_ref *ret);
/*
 * Visit what is mapped in [start, end). A huge entry that lies wholly inside goes to `huge` (under its lock), one that
 * doesn't is split first. Non-empty PTEs go to `pte` under their table's lock. A callback that returns true wants
 * `relax` to be called with the lock dropped. mmap_lock is held. In shared tables the range has no entries any more
 * (fork_shared.h).
 */
struct pt_range {
	struct cpu *c;
	struct vma *v;
	void *arg;
	bool (*huge)(struct pt_range *w, const struct pt_ref *pmd, vaddr_t va);
	bool (*pte)(struct pt_range *w, const struct pt_ref *pte, vaddr_t va);
	void (*relax)(struct pt_range *w);
	bool (*keeps)(struct pt_range *w, const struct pt_ref *pmd); /* may be NULL: a huge entry that lies in the range in part is passed over */
};
void pt_for_range(struct pt_range *w, vaddr_t start, vaddr_t end);
/* The PMD table that serves va, or NULL and where the next one may begin; the same of PUD tables. */
struct frame *pt_pmd_table(struct cpu *c, struct mm *mm, vaddr_t va, vaddr_t *ret_next);
struct frame *pt_pud_table(struct cpu *c, struct mm *mm, vaddr_t va, vaddr_t *ret_next);

/* The split lock of a table. */
static inline void pt_lock(struct cpu *c, struct frame *table)
{
	machine_lock(c, &table->ptl);
}

static inline void pt_unlock(struct cpu *c, struct frame *table)
{
	machine_unlock(c, &table->ptl);
}

/* A zeroed table page, or NULL; counted in nr_page_table_pages and mm->pgtables_bytes. */
struct frame *pt_alloc_table(struct cpu *c, struct mm *mm);
void pt_free_table(struct cpu *c, struct mm *mm, struct frame *t);

/* Put a PTE table aside for a later split of a huge entry in pmd_table, and take one back (P3). Under its lock. */
void pt_deposit(struct cpu *c, struct frame *pmd_table, struct frame *pte_table);
struct frame *pt_withdraw(struct cpu *c, struct frame *pmd_table);
/* What an entry that points to a table holds. */
pte_t pt_table_entry(const struct machine *m, const struct frame *t);

/* Visit everything without charges or locks (validators, reports). table: each table page, deposited ones too. */
struct pt_visitor {
	void *arg;
	void (*leaf)(void *arg, vaddr_t va, pte_t e, unsigned shift);
	void (*table)(void *arg, struct frame *t, unsigned shift, uint64_t nr_entries, bool deposited);
	/* Before a table that `e` points to: false: leave it out. May be NULL. */
	bool (*enter)(void *arg, pte_t e, struct frame *t, unsigned shift);
};
void pt_visit(const struct mm *mm, const struct pt_visitor *v);

struct mmu_gather;
/*
 * Free the tables that only serve [start, end) given that nothing is mapped in [floor, ceiling) around it. A ceiling of
 * 0, or from TASK_SIZE on, is the end of user space. The areas are gone from the tree or the whole address space is
 * going.
 */
void pt_free_range(struct cpu *c, struct mm *mm, struct mmu_gather *tlb, vaddr_t start, vaddr_t end, vaddr_t floor,
		   vaddr_t ceiling);

/* Free the tables that lie wholly in [start, end) and have no entries. mmap_lock is held for writing: nobody is on the way to them. */
void pt_free_empty(struct cpu *c, struct mm *mm, struct mmu_gather *tlb, vaddr_t start, vaddr_t end);

/*
 * Protection bits of a present entry for an area's flags. WRITE only for shared areas: in private ones the caller adds
 * it to what is owned alone, and a shared mapping of a file with dirty tracking takes it away until the first write.
 */
pte_t pte_prot(uint64_t vm_flags);

#endif
