/*
 * Swap: pages of anonymous memory on a device (docs/swap.md).
 *
 * A slot holds a page. Its word in the map counts the page-table entries that name it (PTE_TYPE_SWAP, slot in the address field), and
 * has a bit for the swap cache: the folio that has, or is to have, the same contents in memory.
 *
 * Invariants
 *  W1 A slot's word is the number of swap entries in all address spaces, and SWAP_HAS_CACHE exactly while the swap cache has it (or
 *     somebody is about to put it there, or to give it back). 0: the slot is free, and only then may it be given to somebody else.
 *  W2 A folio is in the swap cache with all its pages, in as many slots that follow each other: FRAME_SWAPCACHE, its first slot in
 *     folio_swap_slot, one reference for each page. It comes and goes, and its slots change, under its lock.
 *  W3 While a transfer of it goes on (before swap.done_ns) a folio stays in the swap cache, so it stays in memory. Whoever needs its
 *     contents waits: the end of a transfer is a time, nobody is called then. So FRAME_WRITEBACK and FRAME_READING may stand for
 *     longer than they are true, until somebody looks: ask folio_under_writeback and folio_in_transfer.
 *  W4 A folio of the swap cache that is clean has its contents in its slots; one that leaves it with entries that name its slots is clean.
 *  W5 mm->swapents is the number of swap entries of an address space. A table that has one is marked FRAME_TABLE_PINNED, so it is
 *     never shared (fork_shared.h).
 *  W6 PTE_SOFT_EXCLUSIVE in an entry: no other names the slot, and the page was this mapping's alone. fork takes it away.
 *
 * Locks, inside page tables' locks: a tree of the cache (RANK_SWAP_CACHE), lists of clusters (RANK_SWAP), a cluster (RANK_SWAP_CLUSTER).
 */
#ifndef QUIRE_MM_SWAP_H
#define QUIRE_MM_SWAP_H

#include "mm/pagetable.h"
#include "mm/system.h"

#define SWAP_HAS_CACHE (1U << 31)
#define SWAP_NO_SLOT UINT64_MAX

/* ---- entries ---- */

static inline pte_t swap_entry(uint64_t slot, bool exclusive)
{
	return (slot << PAGE_SHIFT) | ((pte_t)PTE_TYPE_SWAP << PTE_TYPE_SHIFT) | (exclusive ? PTE_SOFT_EXCLUSIVE : 0);
}

static inline uint64_t swap_entry_slot(pte_t e)
{
	return (e & PTE_ADDR_MASK) >> PAGE_SHIFT;
}

/* ---- swap_slots.c ---- */

/* While booting, before memory is given out. 0, or -ENOMEM with q->err. */
int swap_boot(struct quire *q);
/* Could a page be put out now? */
bool swap_possible(const struct quire *q);
/* More than half of the slots are used: pages that came back give theirs up. */
bool swap_full(const struct quire *q);
/* Pages, for reports (SwapTotal, SwapFree). */
void swap_sizes(const struct quire *q, uint64_t *ret_total, uint64_t *ret_free);

/* 1 slot, or SWAP_CLUSTER_SLOTS that are a cluster, with SWAP_HAS_CACHE: the caller's. 0 or -ENOSPC. */
int swap_alloc(struct cpu *c, unsigned nr, uint64_t *ret_slot);
/* One more entry names the slot, which is the caller's (folio in the swap cache locked) or has an entry that stays. */
void swap_duplicate(struct cpu *c, uint64_t slot);
/* An entry that named it is gone. What is left of its word. */
uint32_t swap_put(struct cpu *c, uint64_t slot);
/* An entry is gone for good: its page too where only the swap cache had it. */
void swap_free_entry(struct cpu *c, uint64_t slot);
/* To bring its page in: 0: SWAP_HAS_CACHE is set and the caller's; -EEXIST: it was; -ENOENT: no entry names the slot. */
int swap_claim_cache(struct cpu *c, uint64_t slot);
/* The swap cache has nr slots from this one on no more. */
void swap_unclaim_cache(struct cpu *c, uint64_t slot, uint64_t nr);
/* Entries that name it; exact where none can come or go. */
uint32_t swap_count(const struct quire *q, uint64_t slot);

/* ---- swap_cache.c. Folios: heads, locked, of which the caller holds a reference, unless said otherwise ---- */

static inline uint64_t folio_swap_slot(const struct frame *folio)
{
	return frame_flags(folio) & FRAME_HEAD ? folio[1].swap_slot : folio->swap_slot;
}

/* References that the swap cache has. */
static inline int folio_swap_refs(const struct frame *folio)
{
	return frame_flags(folio) & FRAME_SWAPCACHE ? (int)frame_nr_pages(folio) : 0;
}

/*
 * An anonymous folio of 1 or SWAP_CLUSTER_SLOTS pages gets slots and enters the swap cache, dirty. -ENOSPC: no slots, or not so many
 * together; -ENOMEM: nothing has changed.
 */
ATTR_MUST_CHECK int folio_add_to_swap(struct cpu *c, struct frame *folio);
/* Enter a folio in slots whose SWAP_HAS_CACHE is the caller's. -ENOMEM: they still are. */
ATTR_MUST_CHECK int swap_cache_add(struct cpu *c, struct frame *folio, uint64_t slot);
/* The folio that has the slot, with a reference (not locked; it may have left the cache on return), or NULL. */
struct frame *swap_cache_get(struct cpu *c, uint64_t slot);
/* Out of the cache. Not while in transfer. Its slots stay as long as entries name them. */
void swap_cache_delete(struct cpu *c, struct frame *folio);
/* Out of the cache and dirty, if no entry names its slots and no transfer goes on. Was it done? */
bool folio_free_swap(struct cpu *c, struct frame *folio);
/*
 * For reclaim: out of the cache, if it is clean, no transfer goes on, and nobody but the cache and the caller has a reference. The caller's
 * is then the only one.
 */
bool swap_cache_remove(struct cpu *c, struct frame *folio);
/* dst, a new locked folio of the same size with the same contents, takes src's place, if only the caller holds src. 0 or -EAGAIN. */
int swap_cache_replace(struct cpu *c, struct frame *src, struct frame *dst);
/* Around a split's freezing of a folio that is in the cache: nobody looks into it meanwhile. No effect for others. */
void swap_cache_split_begin(struct cpu *c, struct frame *folio);
void swap_cache_split_end(struct cpu *c, struct frame *folio);
/* frame_put for whoever had it mapped: where that was the last mapping, and no entry names its slots, the cache lets go of it too. Not locked. */
void folio_put_swap(struct cpu *c, struct frame *folio);
/* The same without giving up the caller's reference. */
void folio_try_free_swap(struct cpu *c, struct frame *folio);
/* Shutdown: nobody names a slot any more. */
void swap_shutdown(struct quire *q, struct cpu *c);
/* What mincore says of a swap entry: is its page in memory? */
bool swap_in_core(struct cpu *c, uint64_t slot);

/* ---- swap_io.c ---- */

/*
 * Write a folio of the swap cache to its slots; it is clean and under writeback then, until *ret_done_ns. -EIO: it is dirty still. No
 * transfer of it goes on.
 */
ATTR_MUST_CHECK int swap_writeout(struct cpu *c, struct frame *folio, uint64_t *ret_done_ns);
/* Folios of the swap cache, locked or with a reference: is it being written (or read) now? */
bool folio_under_writeback(struct cpu *c, const struct frame *folio);
bool folio_in_transfer(struct cpu *c, const struct frame *folio);
/* Sleep until it is not. No spinlocks held. */
void folio_wait_transfer(struct cpu *c, const struct frame *folio);
void folio_wait_read(struct cpu *c, const struct frame *folio); /* ... until its contents are there */
/*
 * Read base pages that are in the swap cache, locked: runs of slots that follow each other are one transfer each. Those that could not be
 * read get FRAME_IO_ERROR.
 */
void swap_read(struct cpu *c, struct frame *const *folios, unsigned nr);

/* ---- swap_fault.c ---- */

struct fault;
int fault_swap(struct fault *f);
/* MADV_WILLNEED: begin to read what [start, end) of the area has in swap. mmap_lock held. */
void swap_will_need(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end);

/* ---- swap_validate.c: W1, W2; called by quire_validate ---- */
int swap_validate(struct quire *q);
/* Take `sign` for each entry off or on the slots' counts (validate.c). */
static inline void swap_tally_entry(struct quire *q, pte_t e, int32_t sign)
{
	q->swap.map[swap_entry_slot(e)] += (uint32_t)sign;
}
/* With all entries taken off: no slot has any. */
int swap_validate_counts(struct quire *q);

#endif
