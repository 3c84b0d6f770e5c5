/*
 * Lists of reclaim: which page is likely to be needed least. A list of inactive and one of active folios for anonymous
 * memory and for files, one of those that can't go (locked in memory); all a node's.
 *
 * Invariants
 *  L1 An anonymous or page-cache folio (but those of pools, hugetlb.h) is, from its first mapping or its entry into a cache until it
 *     is freed, in one of: a list; a CPU's batch of folios to be added; isolated.
 *     On a list: FRAME_LRU, or cleared while a CPU's batch has a job with it. Isolated: FRAME_ISOLATED, neither FRAME_LRU nor on a
 *     list. FRAME_LRU is taken by clearing it, by whoever holds a reference; so a job is only ever somebody's.
 *  L2 The list follows from FRAME_UNEVICTABLE, else FRAME_ACTIVE and FRAME_SWAPBACKED (without: the file lists, where lazily freed
 *     anonymous folios are too). These bits change under the lruvec's lock while the folio is on a list.
 *  L3 size[] are the sums over the lists, zone_size[][] their parts, and so are the gauges nr_inactive_anon and so on; nr_isolated_anon and _file those over
 *     isolated folios. All are 0 when no user page is left; the isolated ones whenever nobody is at work.
 *  L4 A batch holds a reference on each of its folios. So a folio's references can be more than its holders by those in batches:
 *     who finds too many may empty this CPU's (lru_add_drain) or all (lru_add_drain_all) and look again.
 *
 * Locks: the lruvec's is inside page tables' and files' locks, outside the allocator's. A CPU's batches are filled by that CPU only,
 * but any CPU may empty them: a slot is taken by an atomic exchange.
 * Differs from Linux: unevictable folios are on a real list; what the batch 'move tail' does is done at once.
 */
#ifndef QUIRE_MM_LRU_H
#define QUIRE_MM_LRU_H

#include "mm/system.h"

static inline struct lruvec *folio_lruvec(struct quire *q, const struct frame *head)
{
	return &q->nodes[frame_nid(head)].lruvec;
}

/* Is it for the file lists? */
static inline bool folio_is_file_lru(const struct frame *head)
{
	return !(frame_flags(head) & FRAME_SWAPBACKED);
}

/* By the folio's flags: the list that it is on or belongs on. */
static inline enum lru_list folio_lru_list(const struct frame *head)
{
	uint64_t flags = frame_flags(head);

	if (flags & FRAME_UNEVICTABLE)
		return LRU_UNEVICTABLE;
	return (enum lru_list)((flags & FRAME_SWAPBACKED ? 0 : LRU_FILE) + (flags & FRAME_ACTIVE ? LRU_ACTIVE : 0));
}

/*
 * ---- jobs: what a CPU collects and does for several folios at once. `head`: a folio of which the caller holds a reference, or a
 * mapping under its table's lock. Folios of more than a page are done at once. ----
 */

/* A new anonymous folio that is about to be mapped, or a page that has entered a cache: it goes to its inactive list. */
void folio_add_lru(struct cpu *c, struct frame *head);
/* Used twice while inactive: active from now on. */
void folio_activate(struct cpu *c, struct frame *head);
/* Not needed in the near future: from active to inactive (MADV_COLD). */
void folio_deactivate(struct cpu *c, struct frame *head);
/* A cache page that a caller would rather see go: to the end of the inactive list where it is clean and unmapped, else deactivated. */
void folio_deactivate_file(struct cpu *c, struct frame *head);
/* MADV_FREE of an anonymous folio: to the inactive list of files, where it is dropped unless it has been written again by then. */
void folio_mark_lazyfree(struct cpu *c, struct frame *head);
/* Its nr_locked has become 0 or not 0 (rmap.h): to the list where it belongs. */
void folio_mlock_changed(struct cpu *c, struct frame *head);
/*
 * The folio was used in a way that no entry's accessed bit tells: by a call that brought it in, by read(2), or through an entry that has
 * gone since. The first time marks it, the second makes it active and takes the mark back; what is locked keeps the mark it has.
 */
void folio_mark_accessed(struct cpu *c, struct frame *head);

/* Do what this CPU's, or every CPU's, batches hold. */
void lru_add_drain(struct cpu *c);
void lru_add_drain_all(struct cpu *c);

/* ---- lists ---- */

/*
 * Take a folio of which the caller holds a reference off its list, with another reference, and counted in nr_isolated_*. false: it is
 * on none, or somebody else has it.
 */
bool folio_isolate_lru(struct cpu *c, struct frame *head);
/* An isolated, lazily freed folio is wanted after all: it will be put back as any anonymous one. */
void folio_keep_lazyfree(struct cpu *c, struct frame *head);
/* Put it back where its flags say, and drop that reference. It may be freed by that. */
void folio_putback_lru(struct cpu *c, struct frame *head);
/* The isolated folio is no user page any more, or will never be put back: not isolated, the reference is the caller's. */
void folio_forget_isolated(struct cpu *c, struct frame *head);
/*
 * A folio has been split into nr of the same size, frame_order(head) each, which follow each other. With the head on a list the
 * others are put beside it; with the head isolated they stay isolated, the reference of isolation being the caller's, or (not `isolated`)
 * go to where reclaim looks next. The caller keeps others off the new folios, whose flags but these are set.
 */
void lru_split(struct cpu *c, struct frame *head, unsigned nr, bool isolated);

/* frame_put for several, with as few locks as they need. Not for page tables or pages of pools. */
void frames_put(struct cpu *c, struct frame **heads, unsigned nr);
/* The last reference has gone (frame.c): off its list. */
void lru_release(struct cpu *c, struct frame *head);

void lruvec_init(struct quire *q, struct lruvec *lv, int nid);
/* L1 to L3. 0 or -EINVAL with q->err set. */
int lru_validate(struct quire *q);
/* Add `sign` for each reference that a batch holds (validate.c). */
void lru_tally_refs(struct quire *q, int32_t sign);

#endif
