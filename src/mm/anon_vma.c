/*
 * anon_vmas and their links: anon_vma.h has the invariants N1 to N5.
 *
 * Everything that can fail is done before the first change: links are reserved in the list of the area that will need them, then
 * used under the root's lock.
 */
#include "mm/anon_vma.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/system.h"
#include "mm/vma_int.h"

static void touch(struct cpu *c, const struct anon_vma *av, enum touch_kind kind)
{
	machine_touch(c, machine_pa(c->m, av), CACHE_LINE, kind);
}

static void touch_link(struct cpu *c, const struct anon_vma_chain *avc)
{
	machine_touch(c, machine_pa(c->m, avc), offsetof(struct anon_vma_chain, node), TOUCH_WRITE);
}

/* ---- life ---- */

/* A root, until told otherwise, with one reference, which will be its links'. NULL: out of memory. */
static struct anon_vma *anon_vma_alloc(struct cpu *c)
{
	struct anon_vma *av = slab_alloc(c, SLAB_ANON_VMA);

	if (!av)
		return NULL;
	touch(c, av, TOUCH_WRITE);
	av->num_children = 0;
	av->num_active_vmas = 0;
	av->root = av->parent = av;
	av->tree.root = NULL;
	mrwlock_init(&av->lock, RANK_ANON_VMA, machine_pa(c->m, &av->lock));
	__atomic_store_n(&av->refcount, 1, __ATOMIC_RELEASE); /* from now on it may be found */
	return av;
}

void anon_vma_free(struct cpu *c, struct anon_vma *av)
{
	struct anon_vma *root = av->root;

	ASSERT(interval_empty(&av->tree) && !av->num_children && !av->num_active_vmas);
	slab_free(c, SLAB_ANON_VMA, av);
	if (root != av)
		anon_vma_put(c, root);
}

/* Enter a reserved link. Under the root's lock, for writing. */
static void link_one(struct cpu *c, struct anon_vma_chain *avc, struct vma *v, struct anon_vma *av)
{
	(void)machine_work(c, PATH_ANON_VMA, 1);
	avc->vma = v;
	avc->anon_vma = av;
	avc->node.start = v->pgoff;
	avc->node.last = v->pgoff + vma_pages(v) - 1;
	touch_link(c, avc);
	interval_insert(c, &av->tree, &avc->node);
}

/* ---- the first anonymous page ---- */

ATTR_NOINLINE int anon_vma_prepare(struct cpu *c, struct vma *v, const struct vma *lender)
{
	enum machine_path outer = machine_work(c, PATH_ANON_VMA, 1);
	struct anon_vma_chain *avc = slab_alloc(c, SLAB_ANON_VMA_CHAIN);
	struct anon_vma *own = avc && !lender ? anon_vma_alloc(c) : NULL, *av = lender ? lender->anon_vma : own;
	bool used = false;

	machine_path(c, PATH_ANON_VMA);
	if (avc && av) {
		anon_vma_lock_write(c, av);
		machine_lock(c, &v->mm->ptl);
		used = !v->anon_touched; /* else somebody else was first */
		if (used) {
			av->num_children += av == own;
			av->num_active_vmas++;
			v->anon_vma = av;
			v->anon_id = lender ? lender->anon_id : __atomic_add_fetch(&v->mm->anon_seq, 1, __ATOMIC_RELAXED);
			v->anon_forked = false;
			link_one(c, avc, v, av);
			list_add(&avc->same_vma, &v->anon_vma_chain);
			__atomic_store_n(&v->anon_touched, true, __ATOMIC_RELEASE);
		}
		machine_unlock(c, &v->mm->ptl);
		anon_vma_unlock_write(c, av);
	}
	int rc = avc && av ? 0 : -ENOMEM;

	if (avc && !used)
		slab_free(c, SLAB_ANON_VMA_CHAIN, avc);
	if (own && !used)
		anon_vma_put(c, own);
	machine_path(c, outer);
	return rc;
}

/* ---- copies ---- */

static void free_reserved(struct cpu *c, struct vma *v)
{
	struct anon_vma_chain *avc, *tmp;

	list_for_each_entry_safe(avc, tmp, &v->anon_vma_chain, same_vma) {
		if (avc->anon_vma)
			continue;
		list_del(&avc->same_vma);
		slab_free(c, SLAB_ANON_VMA_CHAIN, avc);
	}
}

static int reserve_one(struct cpu *c, struct vma *dst)
{
	struct anon_vma_chain *avc = slab_alloc(c, SLAB_ANON_VMA_CHAIN);

	if (!avc) {
		free_reserved(c, dst);
		return -ENOMEM;
	}
	list_add(&avc->same_vma, &dst->anon_vma_chain);
	return 0;
}

int anon_vma_reserve(struct cpu *c, struct vma *dst, const struct vma *src)
{
	const struct anon_vma_chain *from;
	int rc = 0;

	ASSERT(list_empty(&dst->anon_vma_chain));
	if (!src)
		return reserve_one(c, dst);
	if (!src->anon_vma)
		return 0;
	list_for_each_entry(from, &src->anon_vma_chain, same_vma) {
		rc = reserve_one(c, dst);
		if (rc)
			break;
	}
	return rc;
}

/* Is it nobody's own any more, and may be a copy's? (N3) */
static bool reusable(const struct anon_vma *av)
{
	return av->num_children < 2 && av->num_active_vmas == 0;
}

/* Under the root's lock: the links of src with what dst has reserved, in the same order. */
static void link_all(struct cpu *c, struct vma *dst, const struct vma *src, bool fork)
{
	struct list_head *at = dst->anon_vma_chain.next;
	const struct anon_vma_chain *from;

	list_for_each_entry(from, &src->anon_vma_chain, same_vma) {
		ASSERT(at != &dst->anon_vma_chain);
		link_one(c, list_entry(at, struct anon_vma_chain, same_vma), dst, from->anon_vma);
		if (fork && !dst->anon_vma && from->anon_vma != src->anon_vma && reusable(from->anon_vma))
			dst->anon_vma = from->anon_vma;
		at = at->next;
	}
	if (dst->anon_vma)
		dst->anon_vma->num_active_vmas++;
}

ATTR_NOINLINE void anon_vma_link(struct cpu *c, struct vma *dst, const struct vma *src)
{
	enum machine_path outer = machine_work(c, PATH_ANON_VMA, 0);

	dst->anon_vma = src->anon_vma;
	if (src->anon_vma) {
		anon_vma_lock_write(c, src->anon_vma);
		link_all(c, dst, src, false);
		anon_vma_unlock_write(c, src->anon_vma);
	}
	free_reserved(c, dst);
	machine_path(c, outer);
}

int anon_vma_clone(struct cpu *c, struct vma *dst, const struct vma *src)
{
	int rc = anon_vma_reserve(c, dst, src);

	if (!rc)
		anon_vma_link(c, dst, src);
	return rc;
}

ATTR_NOINLINE int anon_vma_fork(struct cpu *c, struct vma *v, const struct vma *pv)
{
	enum machine_path outer = machine_work(c, PATH_ANON_VMA, 1);
	struct anon_vma *parent = pv->anon_vma, *own = NULL;
	struct anon_vma_chain *avc = NULL;
	int rc = anon_vma_reserve(c, v, pv);

	if (!rc) {
		own = anon_vma_alloc(c);
		avc = own ? slab_alloc(c, SLAB_ANON_VMA_CHAIN) : NULL;
		rc = avc ? 0 : -ENOMEM;
	}
	machine_path(c, PATH_ANON_VMA);
	if (!rc) {
		v->anon_vma = NULL;
		anon_vma_lock_write(c, parent);
		link_all(c, v, pv, true);
		if (!v->anon_vma) {
			own->root = parent->root;
			own->parent = parent;
			own->num_active_vmas = 1;
			parent->num_children++;
			__atomic_add_fetch(&parent->root->refcount, 1, __ATOMIC_RELAXED);
			v->anon_vma = own;
			link_one(c, avc, v, own);
			list_add(&avc->same_vma, &v->anon_vma_chain);
			own = NULL;
			avc = NULL;
		}
		anon_vma_unlock_write(c, parent);
	} else {
		free_reserved(c, v);
	}
	if (avc)
		slab_free(c, SLAB_ANON_VMA_CHAIN, avc);
	if (own)
		anon_vma_put(c, own);
	machine_path(c, outer);
	return rc;
}

ATTR_NOINLINE void anon_vma_take(struct cpu *c, struct vma *to, struct vma *from)
{
	enum machine_path outer = machine_work(c, PATH_ANON_VMA, 0);
	struct anon_vma *av = from->anon_vma;
	struct anon_vma_chain *avc, *tmp;

	ASSERT(list_empty(&to->anon_vma_chain) && av);
	anon_vma_lock_write(c, av);
	list_for_each_entry_safe(avc, tmp, &from->anon_vma_chain, same_vma) {
		interval_remove(c, &avc->anon_vma->tree, &avc->node);
		list_del(&avc->same_vma);
		list_add_tail(&avc->same_vma, &to->anon_vma_chain);
		link_one(c, avc, to, avc->anon_vma);
	}
	to->anon_vma = av;
	from->anon_vma = NULL;
	anon_vma_unlock_write(c, av);
	machine_path(c, outer);
}

/* ---- the end ---- */

/* Under the root's lock. Links to what nobody else is linked to stay in the list. */
static void unlink_all(struct cpu *c, struct vma *v)
{
	struct anon_vma_chain *avc, *tmp;

	list_for_each_entry_safe(avc, tmp, &v->anon_vma_chain, same_vma) {
		struct anon_vma *av = avc->anon_vma;

		(void)machine_work(c, PATH_ANON_VMA, 1);
		touch(c, av, TOUCH_WRITE);
		interval_remove(c, &av->tree, &avc->node);
		if (interval_empty(&av->tree)) {
			av->parent->num_children--;
			continue;
		}
		list_del(&avc->same_vma);
		slab_free(c, SLAB_ANON_VMA_CHAIN, avc);
	}
	v->anon_vma->num_active_vmas--;
	v->anon_vma = NULL;
}

ATTR_NOINLINE void unlink_anon_vmas(struct cpu *c, struct vma *v)
{
	enum machine_path outer = machine_work(c, PATH_ANON_VMA, 0);
	struct anon_vma_chain *avc, *tmp;

	if (!v->anon_vma) {
		free_reserved(c, v);
	} else {
		struct anon_vma *root = v->anon_vma->root;

		machine_write_lock(c, &root->lock);
		unlink_all(c, v);
		machine_write_unlock(c, &root->lock);
		/* The root, which is last, goes after all that name it. */
		list_for_each_entry_safe(avc, tmp, &v->anon_vma_chain, same_vma) {
			anon_vma_put(c, avc->anon_vma);
			list_del(&avc->same_vma);
			slab_free(c, SLAB_ANON_VMA_CHAIN, avc);
		}
	}
	machine_path(c, outer);
}

/* ---- areas in trees ---- */

static struct interval_node *file_node(struct vma *v)
{
	return &container_of(v, struct vma_object, v)->i_mmap;
}

static bool in_file(const struct vma *v)
{
	return v->file && interval_linked(&container_of(v, struct vma_object, v)->i_mmap);
}

void vma_rmap_lock(struct cpu *c, const struct vma *v)
{
	if (v->file)
		machine_write_lock(c, &v->file->i_mmap_lock);
	if (v->anon_vma)
		anon_vma_lock_write(c, v->anon_vma);
}

void vma_rmap_unlock(struct cpu *c, const struct vma *v)
{
	if (v->anon_vma)
		anon_vma_unlock_write(c, v->anon_vma);
	if (v->file)
		machine_write_unlock(c, &v->file->i_mmap_lock);
}

static void file_insert(struct cpu *c, struct vma *v)
{
	struct interval_node *n = file_node(v);

	n->start = v->pgoff;
	n->last = v->pgoff + vma_pages(v) - 1;
	interval_insert(c, &v->file->i_mmap, n);
}

void vma_rmap_begin(struct cpu *c, struct vma *v)
{
	struct anon_vma_chain *avc;

	if (!v->file && !v->anon_vma)
		return;
	vma_rmap_lock(c, v);
	if (in_file(v))
		interval_remove(c, &v->file->i_mmap, file_node(v));
	if (v->anon_vma)
		list_for_each_entry(avc, &v->anon_vma_chain, same_vma)
			interval_remove(c, &avc->anon_vma->tree, &avc->node);
}

void vma_rmap_end(struct cpu *c, struct vma *v)
{
	enum machine_path outer;
	struct anon_vma_chain *avc;

	if (!v->file && !v->anon_vma)
		return;
	outer = machine_work(c, PATH_ANON_VMA, 0);
	if (v->file)
		file_insert(c, v);
	if (v->anon_vma)
		list_for_each_entry(avc, &v->anon_vma_chain, same_vma)
			link_one(c, avc, v, avc->anon_vma);
	vma_rmap_unlock(c, v);
	machine_path(c, outer);
}

void vma_link_file(struct cpu *c, struct vma *v)
{
	enum machine_path outer;

	if (!v->file || in_file(v))
		return;
	outer = machine_work(c, PATH_ANON_VMA, 1);
	machine_write_lock(c, &v->file->i_mmap_lock);
	file_insert(c, v);
	machine_write_unlock(c, &v->file->i_mmap_lock);
	machine_path(c, outer);
}

void vma_rmap_unlink(struct cpu *c, struct vma *v)
{
	if (!list_empty(&v->anon_vma_chain))
		unlink_anon_vmas(c, v);
	if (!in_file(v))
		return;
	machine_write_lock(c, &v->file->i_mmap_lock);
	interval_remove(c, &v->file->i_mmap, file_node(v));
	machine_write_unlock(c, &v->file->i_mmap_lock);
}
