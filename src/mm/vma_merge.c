/*
 * Merging and splitting of areas (invariant V2), by the rules of Linux 6.16 and later.
 *
 * Two neighbours can be one area when their flags, their file and their offsets agree (anonymous memory has offsets
 * too: the page number where it was made, which stays when it is moved) and when their anonymous pages can be found
 * through one anon_id: it is the same, or one of them has no anonymous page yet and the other was not copied by fork
 * (anon_forked).
 *
 *      prev       want       next
 *   [ A A A A ][ a a a a ][ A A A A ]   becomes   [ A A A A A A A A A A A A ]   both: prev stays, next goes
 *   [ A A A A ][ a a a a ][ B B B B ]             [ A A A A A A A A ][ B .. ]   left
 *   [ B B B B ][ a a a a ][ A A A A ]             [ B .. ][ A A A A A A A A ]   right
 * Where left and right would each do but not together (two different anon_ids), left wins.
 * Merging allocates nothing, but for links to pages of an area that goes on living without the part that moves; that and what
 * splitting needs is allocated before the first change. Who gives pages away keeps its links to them until the other has his
 * (rmap_walk.h R1), so an area grows first, then is linked, and only then the other one shrinks or goes.
 */
#include "mm/vma_int.h"

#include "base/assert.h"
#include "mm/fault.h"

static bool same_anon(const struct vma *a, const struct vma *b)
{
	return !a->anon_touched || !b->anon_touched || a->anon_id == b->anon_id;
}

static bool anon_compatible(const struct vma *a, const struct vma *b)
{
	return same_anon(a, b) && ((a->anon_touched && b->anon_touched) || (!a->anon_forked && !b->anon_forked));
}

/* All that must agree but flags and anonymous pages. */
static bool same_object(const struct vma *a, const struct vma *b)
{
	return a->end == b->start && a->file == b->file && a->pgoff + vma_pages(a) == b->pgoff;
}

bool vma_can_merge(const struct vma *a, const struct vma *b)
{
	return ((a->flags ^ b->flags) & ~VM_STICKY) == 0 && same_object(a, b) && anon_compatible(a, b) && !(a->flags & VM_HUGETLB);
}

/*
 * `to` takes over what `from`'s range brings with it: the links of `source` (which is `from`, or what it describes a part of), where
 * it needs any. stays: source will need them too, and some are reserved for `to`.
 */
static void absorb(struct cpu *c, struct vma *to, const struct vma *from, struct vma *source, bool stays)
{
	to->flags |= from->flags & VM_STICKY;
	if (to->anon_touched || !from->anon_touched)
		return;
	if (stays)
		anon_vma_link(c, to, source);
	else
		anon_vma_take(c, to, source);
	to->anon_touched = true;
	to->anon_id = from->anon_id;
	to->anon_forked = from->anon_forked;
}

/* Before 6.16 what has anonymous pages did not join a neighbour that has none: an empty chain of anon_vmas did not count as one that was not forked. */
static bool joins(const struct vma *neighbour, const struct vma *want)
{
	return neighbour->anon_touched || !want->anon_touched || neighbour->mm->q->knobs.merge_untouched;
}

struct merge_sides {
	bool left, right;
};

static struct merge_sides merge_sides(struct cpu *c, const struct vma *prev, const struct vma *want,
				      const struct vma *next)
{
	struct merge_sides s = {
		.left = prev && vma_can_merge(prev, want) && joins(prev, want),
		.right = next && vma_can_merge(want, next) && joins(next, want),
	};

	if (prev)
		vma_touch(c, prev, TOUCH_READ);
	if (next)
		vma_touch(c, next, TOUCH_READ);
	if (s.left && s.right && !same_anon(prev, next))
		s.right = false;
	return s;
}

static void erase_and_free(struct cpu *c, struct vma *v)
{
	vma_erase(c, v);
	vma_free(c, v);
}

/* next begins at `start` from now on, which lies below (it grew) or above (it lost its first pages). */
static void move_start(struct cpu *c, struct vma *v, vaddr_t start)
{
	v->apart = false;
	vma_set_range(c, v, start, v->end, v->pgoff + (uint64_t)((int64_t)(start - v->start) >> PAGE_SHIFT));
}

static void move_end(struct cpu *c, struct vma *v, vaddr_t end)
{
	vma_set_range(c, v, v->start, end, v->pgoff);
}

ATTR_NOINLINE struct vma *vma_merge_new(struct cpu *c, struct vma *prev, struct vma *next, struct vma *want)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);
	struct vma fresh = *want, *ret = NULL;
	struct merge_sides s;

	/*
	 * What was forked is an obstacle on the neighbour's side only: pages that mremap brings along leave their old
	 * area.
	 */
	fresh.anon_forked = false;
	s = merge_sides(c, prev, &fresh, next);
	if (s.left) {
		ret = prev;
		move_end(c, prev, s.right ? next->end : want->end);
		absorb(c, prev, want, want, false);
		if (s.right) {
			absorb(c, prev, next, next, false);
			erase_and_free(c, next);
		}
	} else if (s.right) {
		ret = next;
		move_start(c, next, want->start);
		absorb(c, next, want, want, false);
	}
	machine_path(c, outer);
	return ret;
}

/* ---- changing flags of a part ---- */

/* The part of v from addr on becomes `upper`, an unused object with links reserved, which is inserted. */
ATTR_NOINLINE static void vma_split(struct cpu *c, struct vma *v, vaddr_t addr, struct vma *upper)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);

	thp_split_boundary(c, v, addr);
	upper->start = addr;
	upper->end = v->end;
	upper->flags = v->flags;
	upper->pgoff = v->pgoff + ((addr - v->start) >> PAGE_SHIFT);
	upper->file = v->file;
	if (upper->file)
		file_get(upper->file);
	upper->anon_touched = v->anon_touched;
	upper->anon_id = v->anon_id;
	upper->anon_forked = v->anon_forked;
	anon_vma_link(c, upper, v);
	vma_link_file(c, upper);
	move_end(c, v, addr);
	vma_insert(c, upper, v);
	machine_path(c, outer);
}

/* Will the neighbour that gets a part of v need links of its own to v's pages? 0 or -ENOMEM. */
static int merge_reserve(struct cpu *c, struct vma *v, const struct vma *want, struct merge_sides s)
{
	struct vma *to = s.left ? vma_prev(v) : vma_next(v);

	if ((want->start == v->start && want->end == v->end) || to->anon_touched)
		return 0;
	return anon_vma_reserve(c, to, v);
}

/*
 * Merge the range that `want` describes, now a part of v, with the neighbours that `s` names. Returns who covers it
 * then.
 */
static struct vma *merge_part(struct cpu *c, struct vma *v, const struct vma *want, struct merge_sides s)
{
	struct vma *prev = vma_prev(v), *next = vma_next(v), *ret;
	bool whole = want->start == v->start && want->end == v->end;

	if (!whole)
		thp_split_boundary(c, v, s.left ? want->end : want->start);
	if (s.left) {
		move_end(c, prev, s.right ? next->end : want->end);
		absorb(c, prev, want, v, !whole);
		if (s.right)
			absorb(c, prev, next, next, false);
		if (whole)
			erase_and_free(c, v);
		else
			move_start(c, v, want->end);
		if (s.right)
			erase_and_free(c, next);
		ret = prev;
	} else {
		move_start(c, next, want->start);
		absorb(c, next, want, v, !whole);
		if (whole)
			erase_and_free(c, v);
		else
			move_end(c, v, want->start);
		ret = next;
	}
	return ret;
}

/* Cut [start, end) out of v with up to two new areas. 0, or -ENOMEM with nothing changed. */
static int isolate(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, struct vma **ret)
{
	uint64_t pieces = (uint64_t)(start > v->start) + (uint64_t)(end < v->end);
	struct vma *spare[2] = { NULL, NULL }, *mid = v;

	*ret = v;
	if (!pieces)
		return 0;
	if (v->mm->map_count + pieces > v->mm->q->knobs.max_map_count)
		return -ENOMEM;
	for (uint64_t i = 0; i < pieces; i++) {
		spare[i] = vma_alloc(c, v->mm);
		if (!spare[i] || anon_vma_reserve(c, spare[i], v)) {
			for (uint64_t k = 0; k <= i; k++)
				if (spare[k])
					vma_free(c, spare[k]);
			return -ENOMEM;
		}
	}
	if (start > v->start) {
		mid = spare[--pieces];
		vma_split(c, v, start, mid);
	}
	if (end < mid->end)
		vma_split(c, mid, end, spare[--pieces]);
	*ret = mid;
	return 0;
}

ATTR_NOINLINE int vma_modify(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, uint64_t flags, struct vma **ret)
{
	enum machine_path outer = machine_work(c, PATH_VMA_INSERT, 1);
	struct vma want = *v;
	struct merge_sides s;
	int err = 0;

	ASSERT_DEBUG(v->start <= start && start < end && end <= v->end);
	if ((v->flags & VM_HUGETLB) && ((start | end) & (vm_page_size(v->flags) - 1))) {
		machine_path(c, outer);
		return -EINVAL;
	}
	want.start = start;
	want.end = end;
	want.pgoff += (start - v->start) >> PAGE_SHIFT;
	want.flags = flags;
	s = merge_sides(c, start == v->start ? vma_prev(v) : NULL, &want, end == v->end ? vma_next(v) : NULL);
	if (s.left || s.right) {
		err = merge_reserve(c, v, &want, s);
		if (!err)
			*ret = merge_part(c, v, &want, s);
	} else {
		err = isolate(c, v, start, end, ret);
		if (!err) {
			(*ret)->flags = flags;
			vma_touch(c, *ret, TOUCH_WRITE);
		}
	}
	machine_path(c, outer);
	return err;
}

void vma_mark_apart(struct vma *v)
{
	struct vma *prev = vma_prev(v), *next = vma_next(v);

	v->apart = v->apart || (prev && vma_can_merge(prev, v));
	if (next && vma_can_merge(v, next))
		next->apart = true;
}

/* ---- anon_id ---- */

/* Could a and b (a below b) share an anon_id, because they differ in nothing that mprotect could not make the same? */
static bool anon_shareable(const struct vma *a, const struct vma *b)
{
	return ((a->flags ^ b->flags) & ~(VM_ACCESS_FLAGS | VM_STICKY)) == 0 && same_object(a, b);
}

static bool lends_anon(const struct vma *v)
{
	return __atomic_load_n(&v->anon_touched, __ATOMIC_ACQUIRE) && !v->anon_forked;
}

int vma_anon_prepare(struct cpu *c, struct vma *v)
{
	const struct vma *next = vma_next(v), *prev = vma_prev(v), *lender = NULL;

	if (__atomic_load_n(&v->anon_touched, __ATOMIC_ACQUIRE))
		return 0;
	if (next && lends_anon(next) && anon_shareable(v, next))
		lender = next;
	else if (prev && lends_anon(prev) && anon_shareable(prev, v))
		lender = prev;
	return anon_vma_prepare(c, v, lender);
}
