/*
 * The tree of areas: an AVL tree ordered by address, augmented with the largest gap below any area of a subtree (V1,
 * V4).
 *
 * Each node keeps its own gap (to the area before it, less the guard below a stack), so that recomputing the
 * augmentation looks at a node and its children only. A change climbs until a node's height and subtree_gap come out as
 * they were. Locks: mmap_lock, for writing wherever something changes. Nothing here can fail.
 */
#include "mm/vma_int.h"

#include "base/assert.h"

static int32_t height_of(const struct vma *v)
{
	return v ? v->height : 0;
}

static uint64_t subtree_gap_of(const struct vma *v)
{
	return v ? v->subtree_gap : 0;
}

/* A node as the tree sees it: its first line. */
static void touch_node(struct cpu *c, const struct vma *v, enum touch_kind kind)
{
	machine_touch(c, machine_pa(c->m, v), CACHE_LINE, kind);
}

void vma_touch(struct cpu *c, const struct vma *v, enum touch_kind kind)
{
	machine_touch(c, machine_pa(c->m, v), sizeof(*v), kind);
}

struct vma *vma_alloc(struct cpu *c, struct mm *mm)
{
	struct vma *v = slab_alloc(c, SLAB_VMA);

	if (v) {
		v->mm = mm;
		list_init(&v->anon_vma_chain);
		vma_touch(c, v, TOUCH_WRITE);
	}
	return v;
}

void vma_assign(struct vma *v, const struct vma *want)
{
	struct list_head links = v->anon_vma_chain;

	*v = *want;
	v->anon_vma_chain = links; /* in place: what they name is this very head */
	v->anon_vma = NULL;
	if (v->file)
		file_get(v->file);
}

void vma_free(struct cpu *c, struct vma *v)
{
	vma_rmap_unlink(c, v);
	if (v->file)
		file_put(c, v->file);
	slab_free(c, SLAB_VMA, v);
}

struct vma *vma_first(const struct mm *mm)
{
	struct vma *v = mm->root;

	while (v && v->left)
		v = v->left;
	return v;
}

static struct vma *vma_last(const struct mm *mm)
{
	struct vma *v = mm->root;

	while (v && v->right)
		v = v->right;
	return v;
}

struct vma *vma_next(const struct vma *v)
{
	struct vma *n = v->right;

	if (n) {
		while (n->left)
			n = n->left;
		return n;
	}
	for (n = v->parent; n && n->right == v; n = n->parent)
		v = n;
	return n;
}

struct vma *vma_prev(const struct vma *v)
{
	struct vma *n = v->left;

	if (n) {
		while (n->right)
			n = n->right;
		return n;
	}
	for (n = v->parent; n && n->left == v; n = n->parent)
		v = n;
	return n;
}

/* ---- lookup ---- */

ATTR_NOINLINE struct vma *vma_find(struct cpu *c, struct mm *mm, vaddr_t addr)
{
	enum machine_path outer = machine_work(c, PATH_VMA_FIND, 0);
	struct vma *v = mm->root, *best = NULL;
	uint64_t visited = 1;

	while (v) {
		touch_node(c, v, TOUCH_READ);
		visited++;
		if (addr >= v->end) {
			v = v->right;
			continue;
		}
		best = v;
		if (addr >= v->start)
			break;
		v = v->left;
	}
	(void)machine_work(c, PATH_VMA_FIND, visited);
	machine_path(c, outer);
	return best;
}

struct vma *vma_find_prev(struct cpu *c, struct mm *mm, vaddr_t addr, struct vma **ret_prev)
{
	struct vma *v = vma_find(c, mm, addr);

	*ret_prev = v ? vma_prev(v) : vma_last(mm);
	return v;
}

struct vma *vma_lookup(struct cpu *c, struct mm *mm, vaddr_t addr)
{
	struct vma *v = vma_find(c, mm, addr);

	return v && v->start <= addr ? v : NULL;
}

/* ---- balance and augmentation ---- */

static void update(struct vma *v)
{
	v->height = 1 + MAX(height_of(v->left), height_of(v->right));
	v->subtree_gap = MAX(v->gap, MAX(subtree_gap_of(v->left), subtree_gap_of(v->right)));
}

/* `to` (may be NULL) takes the place that v has under its parent. */
static void replace_child(struct vma *v, struct vma *to)
{
	struct vma *p = v->parent;

	if (!p)
		v->mm->root = to;
	else if (p->left == v)
		p->left = to;
	else
		p->right = to;
	if (to)
		to->parent = p;
}

static struct vma *rotate_left(struct vma *v)
{
	struct vma *r = v->right;

	replace_child(v, r);
	v->right = r->left;
	if (v->right)
		v->right->parent = v;
	r->left = v;
	v->parent = r;
	update(v);
	update(r);
	return r;
}

static struct vma *rotate_right(struct vma *v)
{
	struct vma *l = v->left;

	replace_child(v, l);
	v->left = l->right;
	if (v->left)
		v->left->parent = v;
	l->right = v;
	v->parent = l;
	update(v);
	update(l);
	return l;
}

static struct vma *rebalance(struct cpu *c, struct vma *v)
{
	int32_t lean = height_of(v->left) - height_of(v->right);

	if (lean > 1) {
		touch_node(c, v->left, TOUCH_WRITE);
		if (height_of(v->left->left) < height_of(v->left->right))
			rotate_left(v->left);
		return rotate_right(v);
	}
	if (lean < -1) {
		touch_node(c, v->right, TOUCH_WRITE);
		if (height_of(v->right->right) < height_of(v->right->left))
			rotate_right(v->right);
		return rotate_left(v);
	}
	return v;
}

/* Restore balance and augmentation from v upwards, until nothing changes any more. */
static void fix_up(struct cpu *c, struct vma *v)
{
	while (v) {
		int32_t was_height = v->height;
		uint64_t was_gap = v->subtree_gap;
		struct vma *top;

		touch_node(c, v, TOUCH_WRITE);
		update(v);
		top = rebalance(c, v);
		if (top->height == was_height && top->subtree_gap == was_gap)
			return;
		v = top->parent;
	}
}

/* The area before v, or v's bounds, changed: recompute v's gap. */
static void refresh_gap(struct cpu *c, struct vma *v)
{
	struct vma *prev;
	vaddr_t below, top;
	uint64_t gap;

	if (!v)
		return;
	prev = vma_prev(v);
	below = prev ? prev->end : 0;
	top = vma_start_gap(v);
	gap = top > below ? top - below : 0;
	if (gap == v->gap)
		return;
	v->gap = gap;
	fix_up(c, v);
}

ATTR_NOINLINE void vma_insert(struct cpu *c, struct vma *v, struct vma *prev)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);
	struct mm *mm = v->mm;
	struct vma *at;

	v->left = v->right = v->parent = NULL;
	v->height = 0; /* so that fix_up sees a change and goes on to the parent */
	v->gap = v->subtree_gap = 0;
	if (!mm->root) {
		mm->root = v;
	} else if (prev && !prev->right) {
		prev->right = v;
		v->parent = prev;
	} else {
		at = prev ? prev->right : mm->root;
		while (at->left)
			at = at->left;
		at->left = v;
		v->parent = at;
	}
	mm->map_count++;
	vma_link_file(c, v);
	machine_path(c, PATH_VMA_INSERT);
	vma_touch(c, v, TOUCH_WRITE);
	fix_up(c, v);
	refresh_gap(c, v);
	refresh_gap(c, vma_next(v));
	machine_path(c, outer);
}

ATTR_NOINLINE void vma_erase(struct cpu *c, struct vma *v)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);
	struct vma *next = vma_next(v), *from, *s;

	if (v->left && v->right) {
		s = next; /* leftmost of the right subtree */
		from = s;
		if (s->parent != v) {
			from = s->parent;
			replace_child(s, s->right);
			s->right = v->right;
			s->right->parent = s;
		}
		s->left = v->left;
		s->left->parent = s;
		replace_child(v, s);
		s->height = v->height; /* of the place; fix_up below makes it true */
		s->subtree_gap = v->subtree_gap;
	} else {
		s = NULL;
		from = v->parent;
		replace_child(v, v->left ? v->left : v->right);
	}
	v->mm->map_count--;
	v->left = v->right = v->parent = NULL;
	fix_up(c, from);
	if (s && s != from)
		fix_up(c, s);
	refresh_gap(c, next);
	machine_path(c, outer);
}

ATTR_NOINLINE void vma_set_range(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, uint64_t pgoff)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);

	ASSERT_DEBUG(start < end);
	vma_rmap_begin(c, v);
	v->start = start;
	v->end = end;
	v->pgoff = pgoff;
	vma_rmap_end(c, v);
	vma_touch(c, v, TOUCH_WRITE);
	refresh_gap(c, v);
	refresh_gap(c, vma_next(v));
	machine_path(c, outer);
}

/* ---- whole address spaces ---- */

void vma_free_all(struct cpu *c, struct mm *mm)
{
	struct vma *v = mm->root, *parent;

	while (v) {
		if (v->left || v->right) {
			v = v->left ? v->left : v->right;
			continue;
		}
		parent = v->parent;
		if (parent)
			*(parent->left == v ? &parent->left : &parent->right) = NULL;
		if (v->flags & VM_ACCOUNT)
			vm_uncommit(mm->q, vma_pages(v));
		vm_account(mm, v->flags, -(int64_t)vma_pages(v));
		vma_free(c, v);
		v = parent;
	}
	mm->root = NULL;
	mm->map_count = 0;
}

/* A copy of one area for `to`, promised and counted, in no tree yet. NULL: out of memory. */
static struct vma *dup_one(struct cpu *c, struct mm *to, const struct vma *v)
{
	struct vma *n;

	if ((v->flags & VM_ACCOUNT) && vm_commit(v->mm, vma_pages(v)))
		return NULL;
	vma_touch(c, v, TOUCH_READ);
	n = vma_alloc(c, to);
	if (!n) {
		if (v->flags & VM_ACCOUNT)
			vm_uncommit(to->q, vma_pages(v));
		return NULL;
	}
	n->start = v->start;
	n->end = v->end;
	n->flags = v->flags & ~(VM_LOCKED_MASK | VM_HUGETLB_RESV); /* pages of a pool are promised to who mapped them */
	n->pgoff = v->pgoff;
	n->file = v->file;
	if (n->file)
		file_get(n->file);
	if (v->anon_touched && !(v->flags & VM_WIPEONFORK)) {
		if (anon_vma_fork(c, n, v)) {
			if (v->flags & VM_ACCOUNT)
				vm_uncommit(to->q, vma_pages(v));
			vma_free(c, n);
			return NULL;
		}
		n->anon_touched = n->anon_forked = true;
		n->anon_id = __atomic_add_fetch(&to->anon_seq, 1, __ATOMIC_RELAXED);
	}
	vm_account(to, n->flags, (int64_t)vma_pages(n));
	return n;
}

int vma_dup_all(struct cpu *c, struct mm *to, struct mm *from)
{
	struct vma *last = NULL, *n;

	for (struct vma *v = vma_first(from); v; v = vma_next(v)) {
		if (v->flags & VM_DONTCOPY)
			continue;
		n = dup_one(c, to, v);
		if (!n) {
			vma_free_all(c, to);
			return -ENOMEM;
		}
		vma_insert(c, n, last);
		n->apart = last && last->end == n->start && vma_can_merge(last, n);
		last = n;
	}
	return 0;
}
