/*
 * Memory policies: on which nodes an area's or an address space's new pages go (mempolicy.c), and moving pages there (move_pages.c).
 *
 * Policies are kept once each in a table and named by their number: two are the same when their numbers are (0: the default). An area has its number in the upper bits of
 * its flags, so splitting, merging and fork treat it as they treat flags. The task's is kept in struct mm.
 * Invariants: a number in use names a whole policy that never changes. The table grows under q->list_lock and is read without a lock.
 */
#ifndef QUIRE_MM_MEMPOLICY_H
#define QUIRE_MM_MEMPOLICY_H

#include "mm/mm.h"

/* How many nodes a mask has. By hand: without the machine's own instruction the compiler would call its library, which is not there. */
static inline unsigned bits_set(uint64_t mask)
{
	unsigned n = 0;

	for (; mask; mask &= mask - 1)
		n++;
	return n;
}

enum { MPOL_DEFAULT, MPOL_PREFERRED, MPOL_BIND, MPOL_INTERLEAVE, MPOL_LOCAL, MPOL_PREFERRED_MANY, MPOL_WEIGHTED_INTERLEAVE, NR_MPOL };
#define MPOL_F_NUMA_BALANCING (1U << 13) /* with a mode: hinting faults may move pages within the policy */
#define MPOL_F_RELATIVE_NODES (1U << 14)
#define MPOL_F_STATIC_NODES (1U << 15)
#define MPOL_MODE_FLAGS (MPOL_F_NUMA_BALANCING | MPOL_F_RELATIVE_NODES | MPOL_F_STATIC_NODES)
#define MPOL_F_NODE (1U << 0) /* of get_mempolicy */
#define MPOL_F_ADDR (1U << 1)
#define MPOL_F_MEMS_ALLOWED (1U << 2)
#define MPOL_MF_STRICT (1U << 0) /* of mbind */
#define MPOL_MF_MOVE (1U << 1)
#define MPOL_MF_MOVE_ALL (1U << 2)

#define VM_MPOL_SHIFT 48 /* in vma.flags, up to the top */
#define VM_MPOL_MASK (~0ULL << VM_MPOL_SHIFT)
#define MPOL_MAX 64 /* different policies in the life of a system */

struct mempolicy {
	uint64_t nodes; /* that have memory; PREFERRED: one */
	uint64_t user;  /* as asked for */
	uint32_t mode, flags;
};

struct mpol_table {
	uint32_t nr; /* atomic: policies 1 to nr are there */
	struct mempolicy pol[MPOL_MAX];
	uint8_t weight[MACHINE_MAX_NODES]; /* atomic: of weighted interleaving; 0: 1 */
};

/* Nodes with memory, a bit each. */
uint64_t mpol_mems_allowed(const struct quire *q);
/* Linux's /sys/kernel/mm/mempolicy/weighted_interleave/nodeN: 1 to 255, 0 for the default of 1. 0 or -EINVAL. */
int mpol_set_weight(struct quire *q, int nid, unsigned weight);

/* A block for the area at va, by its policy or else the task's. As page_alloc. */
struct frame *mpol_alloc_vma(struct cpu *c, const struct vma *v, vaddr_t va, unsigned order, unsigned gfp);
/* ... for nobody's area: the policy of mm (NULL: the default). */
struct frame *mpol_alloc_task(struct cpu *c, struct mm *mm, unsigned order, unsigned gfp);
/*
 * Where a hinting fault on c should have the folio: a node other than its own, or NID_NONE (it is well placed, or its policy does not
 * let hinting faults move it). mmap_lock held.
 */
int mpol_misplaced(struct cpu *c, const struct frame *folio, const struct vma *v, vaddr_t va);
/* Where the policy (a number) would have the page of v at va; and the n-th node of a set. */
int mpol_node_for(struct cpu *c, const struct vma *v, unsigned id, vaddr_t va);
int mpol_nth_node(uint64_t nodes, uint64_t n);
/* Does the policy (a number) allow a page on nid that the default would have there? For mbind. */
bool mpol_allows(const struct quire *q, unsigned id, int nid);

/* System calls. mode: MPOL_* | mode flags; nodes: a bit each. */
int64_t mm_set_mempolicy(struct cpu *c, struct mm *mm, unsigned mode, uint64_t nodes);
/* ret_mode, ret_nodes may be NULL. With F_NODE, *ret_mode is a node. */
int64_t mm_get_mempolicy(struct cpu *c, struct mm *mm, int *ret_mode, uint64_t *ret_nodes, vaddr_t addr, unsigned flags);
int64_t mm_mbind(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned mode, uint64_t nodes, unsigned flags);

/* ---- move_pages.c ---- */
/* nodes NULL: only say in status where each page is. 0, the number of pages that were not moved, or -errno. */
int64_t mm_move_pages(struct cpu *c, struct mm *mm, uint64_t n, const vaddr_t *pages, const int *nodes, int *status, unsigned flags);
/* Pages on a node of `from` go to one of `to`, in order. 0, the number not moved, or -errno. */
int64_t mm_migrate_pages(struct cpu *c, struct mm *mm, uint64_t from, uint64_t to);
/* mbind's part: pages of [start, end) that policy id does not allow. strict_only: none is moved, -EIO if there is one. How many stay. */
int64_t mpol_move_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned id, unsigned flags, bool look_only);

#endif
