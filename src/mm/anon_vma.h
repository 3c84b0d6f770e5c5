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
 *  N1 v->anon_vma is set exactly while anon_touched is, and linked to v. Areas of one address space with the same anon_id have
 *     the same anon_vma and the same links.
 *  N2 All anon_vmas that an area is linked to have one root, whose lock guards their trees, num_children and num_active_vmas.
 *     The list of an area's links, newest anon_vma first, is guarded by mmap_lock for writing, or for reading with the root's lock
 *     and mm->ptl while there is none.
 *  N3 num_active_vmas counts the areas whose own it is; num_children the anon_vmas with links that have it as parent, itself
 *     included if it is a root. An anon_vma that is no area's own any more and has less than two children is given to the next
 *     copy, so that a line of forks whose elders are gone does not grow without end.
 *  N4 refcount is 1 for having links, in a root 1 more for each other anon_vma below it, and 1 for each holder. At 0 it is freed. Its memory
 *     stays an anon_vma (the slab is typesafe), with a refcount of 0, until it is one again: so who finds one through a page may
 *     try for a reference without a lock.
 *  N5 Whatever has links to a child has links to its parent.
 *
 * Locks: the root's lock is RANK_ANON_VMA: inside mmap_lock and i_mmap_lock, outside of page tables' locks.
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
	struct anon_vma *anon_vma; /* NULL: reserved, in no tree */
	struct list_head same_vma; /* vma->anon_vma_chain */
	struct interval_node node; /* in anon_vma->tree */
};

/*
 * The area is about to get its first anonymous page: give it an anon_vma (and anon_id), `lender`'s where it isn't NULL.
 * 0 or -ENOMEM. Nothing happens when it has one. mmap_lock held, for reading at least.
 */
ATTR_MUST_CHECK int anon_vma_prepare(struct cpu *c, struct vma *v, const struct vma *lender);
/*
 * Make the links that dst, which has none, will need to be linked to all that src is linked to. src NULL: those that an area needs
 * that no fork has made, one. 0, or -ENOMEM: none made.
 */
ATTR_MUST_CHECK int anon_vma_reserve(struct cpu *c, struct vma *dst, const struct vma *src);
/* Use them: dst's own anon_vma is src's. What is left over is freed. */
void anon_vma_link(struct cpu *c, struct vma *dst, const struct vma *src);
/* Both. */
ATTR_MUST_CHECK int anon_vma_clone(struct cpu *c, struct vma *dst, const struct vma *src);
/* v is a fork's copy of pv, with no links: link it, and give it an anon_vma of its own. 0, or -ENOMEM: none. */
ATTR_MUST_CHECK int anon_vma_fork(struct cpu *c, struct vma *v, const struct vma *pv);
/* `to`, which has no links, gets those of `from`, which has none afterwards. */
void anon_vma_take(struct cpu *c, struct vma *to, struct vma *from);
/* Cut all links of v, and free what nobody is linked to any more. */
void unlink_anon_vmas(struct cpu *c, struct vma *v);

/* Free an anon_vma whose last reference is gone. */
void anon_vma_free(struct cpu *c, struct anon_vma *av);

static inline bool anon_vma_tryget(struct anon_vma *av)
{
	int32_t old = __atomic_load_n(&av->refcount, __ATOMIC_RELAXED);

	while (old > 0)
		if (__atomic_compare_exchange_n(&av->refcount, &old, old + 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return true;
	return false;
}

static inline void anon_vma_put(struct cpu *c, struct anon_vma *av)
{
	machine_touch(c, machine_pa(c->m, &av->refcount), sizeof(av->refcount), TOUCH_ATOMIC);
	if (!__atomic_sub_fetch(&av->refcount, 1, __ATOMIC_ACQ_REL))
		anon_vma_free(c, av);
}

/* What the folio leads to, if it is anonymous. The caller knows why it is there: he has a reference on it, or a mapping of the folio stays. */
static inline struct anon_vma *folio_anon_vma(const struct frame *folio)
{
	uint64_t mapping = __atomic_load_n(&folio->mapping, __ATOMIC_ACQUIRE);

	return mapping & MAPPING_ANON ? (struct anon_vma *)(uintptr_t)(mapping - MAPPING_ANON) : NULL;
}

static inline void anon_vma_lock_read(struct cpu *c, struct anon_vma *av)
{
	machine_read_lock(c, &av->root->lock);
}

static inline void anon_vma_unlock_read(struct cpu *c, struct anon_vma *av)
{
	machine_read_unlock(c, &av->root->lock);
}

static inline void anon_vma_lock_write(struct cpu *c, struct anon_vma *av)
{
	machine_write_lock(c, &av->root->lock);
}

static inline void anon_vma_unlock_write(struct cpu *c, struct anon_vma *av)
{
	machine_write_unlock(c, &av->root->lock);
}

/*
 * ---- areas in the trees of what they map ----
 *
 * Whoever changes start, end or pgoff of an area that may be in trees does it between these two, which hold their locks for
 * writing; nothing may be allocated in between.
 */
void vma_rmap_begin(struct cpu *c, struct vma *v);
void vma_rmap_end(struct cpu *c, struct vma *v);
/* Only the locks: for who moves entries from one place to another (mremap). */
void vma_rmap_lock(struct cpu *c, const struct vma *v);
void vma_rmap_unlock(struct cpu *c, const struct vma *v);
/* Enter an area that has a file in the file's tree, if it isn't there. */
void vma_link_file(struct cpu *c, struct vma *v);
/* Out of all trees: before its page tables are freed. May be repeated. */
void vma_rmap_unlink(struct cpu *c, struct vma *v);

/* N1 to N5, trees of files, nothing leaked. 0 or -EINVAL with q->err set. Not while tasks run. */
int anon_vma_validate(struct quire *q);

#endif
