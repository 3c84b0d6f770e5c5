/*
 * Page tables that address spaces share after a fork (quire.fork_tables=shared). fork_shared.c has the protocol.
 *
 * Whoever is about to change entries of a range calls pt_unshare_range before his first change, since that may fail; a
 * fault calls pt_unshare for its table.
 */
#ifndef QUIRE_MM_FORK_SHARED_H
#define QUIRE_MM_FORK_SHARED_H

#include "mm/pagetable.h"
#include "mm/tlb.h"

enum unshare_which {
	UNSHARE_ALL,    /* each table in which the range has entries */
	UNSHARE_PARTIAL /* only those that reach beyond the range: the others can be dropped whole */
};

/*
 * fork: let the child have the parent's table at *src too, for all areas of its 2 MiB. ret_rss: by kind, what the child
 * maps by that. false: this one has to be copied. Both mmap_locks are held for writing; *dst is empty.
 */
bool fork_share_table(struct cpu *c, struct mm *child, struct mm *parent, struct vma *parent_vma, const struct pt_ref *src,
		      const struct pt_ref *dst, vaddr_t va, int64_t *ret_rss);

/* Make the table at *pmd, which serves va, mm's own, if it is a shared one. 0 or -ENOMEM. mmap_lock is held. */
ATTR_MUST_CHECK int pt_unshare(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t va);
/* The same for what [start, end) of one table needs: nothing where it has no entries. */
ATTR_MUST_CHECK int pt_unshare_part(struct cpu *c, struct mm *mm, const struct pt_ref *pmd, vaddr_t start, vaddr_t end);
ATTR_MUST_CHECK int pt_unshare_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, enum unshare_which which);

/* Let go of the shared tables that lie wholly in [start, end), with all that they map. */
void pt_drop_shared(struct cpu *c, struct mmu_gather *g, struct mm *mm, vaddr_t start, vaddr_t end);
/* A table that is not mapped, and flushed: end mm's share of it, or free it. */
void pt_put_table(struct cpu *c, struct mm *mm, struct frame *t);

/* The entry that serves va in the table at *pmd, which may be shared: looked at under the lock that keeps it there. */
pte_t pt_read_shared(struct cpu *c, const struct pt_ref *pmd, vaddr_t va);

#endif
