/*
 * anon_vma: the areas that may map an anonymous page (anon_vma.c).
 *
 * An area that gets its first anonymous page gets an anon_vma, and a fork gives the child's copy one of its own beside the
 * parent's. A link (anon_vma_chain, 'avc') says that an area may map pages of an anon_vma; a page names the anon_vma of the area
 * that made it, or that it has come to belong to alone.
 *
 *      parent's area ---avc---> A  (root; its own)          pages made before the fork lead to A: two areas
 *      child's area  ---avc---> A
 *                    ---avc---> B  (parent A, root A)       pages that the child made lead to B: one area
 *
 * Invariants
 *  N1 v->anon_vma, if any, is linked to v, and set exactly while anon_touched is. Areas of one address space with the same
 *     anon_id have the same anon_vma and the same links.
 *  N2 All anon_vmas that an area is linked to have one root, whose lock guards their trees, num_children and num_active_vmas. (The
 *     list of an area's links is guarded by mmap_lock for writing, or for reading with mm->ptl while there is none.)
 *  N3 num_active_vmas counts the areas whose own it is; num_children the anon_vmas that have it as parent, itself included if it
 *     is a root. An anon_vma without areas of its own and with less than two children is given to the next fork
 *     copy, so that a line of forks whose elders are gone does not grow without end.
 *  N4 refcount: 1 while it has links or is about to, and in a root one for each other anon_vma below it. At 0 it is freed. Its memory stays an
 *     anon_vma (SLAB_ANON_VMA is typesafe), with a refcount of 0, until it is one again: so who finds one through a page may try for
 *     a reference without a lock.
 *
 * Locks: the root's lock is RANK_ANON_VMA, outside of page tables' locks, inside mmap_lock and i_mmap.
 */
#ifndef QUIRE_MM_ANON_VMA_H
#define QUIRE_MM_ANON_VMA_H

#include "mm/interval.h"
#include "mm/vma.h"

struct anon_vma {
	void *slab_link; /* while free: the allocator's */
	int32_t refcount; /* atomic */
	uint32_t num_children;
	struct anon_vma *root, *parent;
	struct interval_tree tree; /* of its links, by the pages that their areas cover */
	uint64_t num_active_vmas;
	struct mrwlock lock; /* used in the root */
};

struct anon_vma_chain {
	struct vma *vma;
	struct anon_vma *anon_vma;
	struct list_head same_vma; /* vma->anon_vma_chain */
	struct interval_node node; /* in anon_vma->tree */
};

/* The area is about to get its first anonymous page. 0 or -ENOMEM. mmap_lock held for reading is enough. */
ATTR_MUST_CHECK int anon_vma_prepare(struct cpu *c, struct vma *v);
/* Link dst, which has no links, to all that src is linked to; dst->anon_vma is set by the caller. 0, or -ENOMEM: none. */
ATTR_MUST_CHECK int anon_vma_clone(struct cpu *c, struct vma *dst, const struct vma *src);
/* v is a fork's copy of pv, with no links: link it and give it an anon_vma of its own. 0, or -ENOMEM: none. */
ATTR_MUST_CHECK int anon_vma_fork(struct cpu *c, struct vma *v, struct vma *pv);
/* `to`, which has no links, gets `from`'s, which goes and has none afterwards. */
void anon_vma_take(struct cpu *c, struct vma *to, struct vma *from);
/* Cut all links of v, and free what nobody is linked to any more. */
void unlink_anon_vmas(struct cpu *c, struct vma *v);

/* Free an anon_vma to which nobody holds a reference. */
void anon_vma_free(struct cpu *c, struct anon_vma *av);

static inline void anon_vma_get(struct anon_vma *av)
{
	__atomic_add_fetch(&av->refcount, 1, __ATOMIC_RELAXED);
}

static inline void anon_vma_put(struct cpu *c, struct anon_vma *av)
{
	if (!__atomic_sub_fetch(&av->refcount, 1, __ATOMIC_ACQ_REL))
		anon_vma_free(c, av);
}

#endif
