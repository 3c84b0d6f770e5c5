/*
 * mremap: shrink, grow in place, move, duplicate shared memory (old length 0), MREMAP_DONTUNMAP.
 *
 * What can be refused is refused before the destination of MREMAP_FIXED is unmapped, and arguments are judged before
 * areas, as in Linux since 6.17; with quire.mremap_judges_first off, as it was before. A source that spans several areas is moved area by area, with the gaps
 * between them, when the place is fixed and nothing is resized (quire.mremap_several, since 6.17), and refused (-EFAULT) otherwise; an
 * area that cannot be moved ends the call, and what was moved before stays where it is. If page tables run out in the middle of a move, what was moved is moved back and the new area
 * is unmapped again. mmap_lock for writing.
 */
#include "mm/vma_int.h"

#include "base/assert.h"
#include "mm/fault.h"
#include "mm/fork_shared.h"

struct mremap_req {
	vaddr_t old;
	uint64_t old_len, new_len;
	unsigned flags;
	vaddr_t new_addr;
	bool locked; /* out: the result is VM_LOCKED, so what was added has to be populated */
	bool unlocked; /* out: mmap_lock has been dropped already */
};

/* May the part of v that begins at r->old and is old_len long become new_len long? */
static int check_resize(const struct mm *mm, const struct vma *v, const struct mremap_req *r, uint64_t old_len)
{
	uint64_t pgoff, add = r->new_len - old_len;

	if (!old_len && !(v->flags & VM_SHARED))
		return -EINVAL;
	if ((r->flags & UAPI_MREMAP_DONTUNMAP) && (v->flags & VM_DONTEXPAND))
		return -EINVAL;
	if (old_len > v->end - r->old)
		return -EFAULT;
	if (!add)
		return 0;
	pgoff = v->pgoff + ((r->old - v->start) >> PAGE_SHIFT);
	if (pgoff + (r->new_len >> PAGE_SHIFT) < pgoff)
		return -EINVAL;
	if (v->flags & VM_DONTEXPAND)
		return -EFAULT;
	if (!vm_lock_ok(mm, v->flags, add))
		return -EAGAIN;
	return vm_may_expand(mm, v->flags, add >> PAGE_SHIFT) ? 0 : -ENOMEM;
}

/* ---- growing in place ---- */

static bool can_extend(const struct vma *v, uint64_t add)
{
	const struct vma *next = vma_next(v);
	vaddr_t end = v->end + add;

	return end > v->end && end <= TASK_SIZE && (!next || next->start >= end);
}

static int extend(struct cpu *c, struct mm *mm, struct vma *v, uint64_t add)
{
	struct vma want = *v;

	if ((v->flags & VM_ACCOUNT) && vm_commit(mm, add >> PAGE_SHIFT))
		return -ENOMEM;
	want.start = v->end;
	want.end = v->end + add;
	want.pgoff = v->pgoff + vma_pages(v);
	vm_account(mm, v->flags, (int64_t)(add >> PAGE_SHIFT));
	v = vma_merge_new(c, v, vma_next(v), &want);
	ASSERT(v);
	return 0;
}

/* ---- moving ---- */

static void move_promise_back(struct mm *mm, uint64_t flags, uint64_t pages)
{
	if (flags & VM_ACCOUNT)
		vm_uncommit(mm->q, pages);
}

/*
 * An area for the destination with the source's properties; merged where possible. NULL: out of memory. The object is
 * made in any case, since it holds the links that a merge may need.
 */
static struct vma *make_destination(struct cpu *c, struct mm *mm, const struct vma *src, const struct mremap_req *r)
{
	struct vma want = *src, *prev, *next, *dst, *own = vma_alloc(c, mm);

	if (!own || anon_vma_reserve(c, own, src)) {
		if (own)
			vma_free(c, own);
		return NULL;
	}
	want.start = r->new_addr;
	want.end = r->new_addr + r->new_len;
	want.pgoff += (r->old - src->start) >> PAGE_SHIFT;
	want.apart = false;
	/* Nothing there yet that would have to be found at the old offset: at the new place's own it may merge. */
	if (vma_is_anon(src) && !src->anon_touched)
		want.pgoff = r->new_addr >> PAGE_SHIFT;
	vma_assign(own, &want);
	anon_vma_link(c, own, src);
	next = vma_find_prev(c, mm, want.start, &prev);
	dst = vma_merge_new(c, prev, next, own);
	if (dst) {
		vma_free(c, own);
	} else {
		dst = own;
		vma_insert(c, dst, prev);
	}
	vm_account(mm, want.flags, (int64_t)(r->new_len >> PAGE_SHIFT));
	return dst;
}

/* Take [start, start + len) away; what it promised has been passed on. spare makes it impossible to fail. */
static void drop_range(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len, struct vma *spare)
{
	uint64_t limit = mm->q->knobs.max_map_count;
	struct unmap_plan p;
	int err;

	ASSERT(mm->map_count < limit); /* move_area has looked */
	err = unmap_plan(c, mm, start, start + len, spare, &p);
	ASSERT(!err);
	unmap_detach(c, &p);
	p.head.flags &= ~VM_HUGETLB_RESV;
	p.tail.flags &= ~VM_HUGETLB_RESV;
	for (struct vma *v = p.whole; v; v = v->right)
		v->flags &= ~VM_HUGETLB_RESV;
	unmap_finish(c, &p);
}

/* The source stays, without pages and unlocked. */
static void empty_source(struct cpu *c, struct mm *mm, const struct mremap_req *r, const struct vma *dst)
{
	struct vma *src = vma_lookup(c, mm, r->old);

	/* All of the area is unlocked, as in Linux: what of it has not moved is not counted as locked any more either. */
	if (src->flags & VM_LOCKED) {
		mlock_range(c, src, src->start, src->end, false);
		vm_account(mm, src->flags, -(int64_t)vma_pages(src));
		src->flags &= ~VM_LOCKED_MASK;
		vm_account(mm, src->flags, (int64_t)vma_pages(src));
	}
	if (src != dst && src->start == r->old && src->end == r->old + r->old_len) {
		src->anon_touched = src->anon_forked = false;
		src->anon_id = 0;
		unlink_anon_vmas(c, src);
	}
	vma_mark_apart(src);
}

static int move_tables(struct cpu *c, struct mm *mm, struct vma *dst, const struct mremap_req *r)
{
	struct vma *src = r->old_len ? vma_lookup(c, mm, r->old) : NULL;
	int64_t back;

	if (!src)
		return 0;
	thp_split_boundary(c, src, r->old);
	thp_split_boundary(c, src, r->old + r->old_len);
	if (move_range(c, src, dst, r->old, r->new_addr, r->old_len) == (int64_t)r->old_len)
		return 0;
	back = move_range(c, dst, src, r->new_addr, r->old, r->old_len); /* tables of the old place are still there */
	ASSERT(back == (int64_t)r->old_len);
	return -ENOMEM;
}

/* v's part at r->old goes to the free range at r->new_addr. */
static int move_area(struct cpu *c, struct mm *mm, struct vma *v, struct mremap_req *r)
{
	bool keep = (r->flags & UAPI_MREMAP_DONTUNMAP) != 0;
	uint64_t promise = (keep ? r->new_len : r->new_len - r->old_len) >> PAGE_SHIFT, flags = v->flags;
	struct vma *spare, *dst = NULL;

	if (mm->map_count + 3 >= mm->q->knobs.max_map_count)
		return -ENOMEM;
	if ((flags & VM_ACCOUNT) && vm_commit(mm, promise))
		return -ENOMEM;
	/* Nor may a table that others share be in the way of drop_range. */
	if (pt_unshare_range(c, mm, r->old, r->old + r->old_len, UNSHARE_PARTIAL) ||
	    pt_unshare_range(c, mm, r->new_addr, r->new_addr + r->new_len, UNSHARE_PARTIAL)) {
		move_promise_back(mm, flags, promise);
		return -ENOMEM;
	}
	spare = vma_alloc(c, mm); /* for the hole that taking away either place may leave */
	if (spare && !anon_vma_reserve(c, spare, v->anon_vma ? v : NULL))
		dst = make_destination(c, mm, v, r);
	if (!dst) {
		if (spare)
			vma_free(c, spare);
		move_promise_back(mm, flags, promise);
		return -ENOMEM;
	}
	if (move_tables(c, mm, dst, r)) {
		drop_range(c, mm, r->new_addr, r->new_len, spare);
		move_promise_back(mm, flags, promise);
		return -ENOMEM;
	}
	r->locked = (flags & VM_LOCKED) != 0;
	if (keep) {
		empty_source(c, mm, r, dst);
		vma_free(c, spare);
	} else if (r->old_len) {
		drop_range(c, mm, r->old, r->old_len, spare);
	} else {
		vma_free(c, spare);
	}
	return 0;
}

static unsigned move_flags(const struct vma *v)
{
	return v->flags & VM_SHARED ? UAPI_MAP_SHARED : UAPI_MAP_PRIVATE;
}

/* A place for the moved mapping; hint as in mmap, or the place itself with MAP_FIXED. */
static int64_t find_place(struct cpu *c, struct mm *mm, const struct vma *v, const struct mremap_req *r, vaddr_t hint,
			  unsigned fixed)
{
	uint64_t pgoff = v->pgoff + ((r->old - v->start) >> PAGE_SHIFT);

	if (v->flags & VM_HUGETLB)
		return vma_get_unmapped_huge(c, mm, hint, r->new_len, vm_page_size(v->flags), move_flags(v) | fixed);
	return vma_get_unmapped(c, mm, v->file, hint, r->new_len, pgoff, move_flags(v) | fixed);
}

static int64_t mremap_grow(struct cpu *c, struct mm *mm, struct vma *v, struct mremap_req *r)
{
	uint64_t add = r->new_len - r->old_len;
	int64_t at;
	int err = check_resize(mm, v, r, r->old_len);

	if (err)
		return err;
	if (r->old_len == v->end - r->old && can_extend(v, add)) {
		err = extend(c, mm, v, add);
		r->locked = !err && (v->flags & VM_LOCKED);
		r->new_addr = r->old;
		return err ? err : (int64_t)r->old;
	}
	if (!(r->flags & UAPI_MREMAP_MAYMOVE))
		return -ENOMEM;
	at = find_place(c, mm, v, r, 0, 0);
	if (at < 0)
		return at;
	r->new_addr = (vaddr_t)at;
	err = move_area(c, mm, v, r);
	return err ? err : at;
}

/* Is the new place one, and beside the old one? */
static bool place_ok(const struct mremap_req *r)
{
	if ((r->new_addr & ~PAGE_MASK) || r->new_len > TASK_SIZE || r->new_addr > TASK_SIZE - r->new_len)
		return false;
	return r->old + r->old_len <= r->new_addr || r->new_addr + r->new_len <= r->old;
}

/* As it was before 6.17: what lies at the new place goes first, then what is cut off the source, then areas are judged. */
static int64_t mremap_to_unmapping(struct cpu *c, struct mm *mm, struct mremap_req *r)
{
	bool fixed = (r->flags & UAPI_MREMAP_FIXED) != 0;
	struct vma *v;
	int64_t at;
	int err = 0;

	if (!place_ok(r))
		return -EINVAL;
	if (mm->map_count + 5 >= mm->q->knobs.max_map_count)
		return -ENOMEM;
	if (fixed)
		err = munmap_locked(c, mm, r->new_addr, r->new_len, NULL);
	if (!err && r->old_len > r->new_len) {
		err = munmap_locked(c, mm, r->old + r->new_len, r->old_len - r->new_len, NULL);
		r->old_len = r->new_len;
	}
	if (err)
		return err;
	v = vma_lookup(c, mm, r->old);
	if (!v)
		return -EFAULT;
	err = check_resize(mm, v, r, r->old_len);
	if (err)
		return err;
	if ((r->flags & UAPI_MREMAP_DONTUNMAP) && !vm_may_expand(mm, v->flags, r->new_len >> PAGE_SHIFT))
		return -ENOMEM;
	at = find_place(c, mm, v, r, r->new_addr, fixed ? UAPI_MAP_FIXED : 0);
	if (at < 0)
		return at;
	r->new_addr = (vaddr_t)at;
	err = move_area(c, mm, v, r);
	return err ? err : at;
}

/* MREMAP_FIXED and MREMAP_DONTUNMAP. */
static int64_t mremap_to(struct cpu *c, struct mm *mm, struct vma *v, struct mremap_req *r)
{
	bool fixed = (r->flags & UAPI_MREMAP_FIXED) != 0;
	uint64_t kept = MIN(r->old_len, r->new_len);
	int64_t at;
	int err;

	if (!mm->q->knobs.mremap_judges_first)
		return mremap_to_unmapping(c, mm, r);
	if (mm->map_count + 5 >= mm->q->knobs.max_map_count)
		return -ENOMEM;
	err = check_resize(mm, v, r, kept);
	if (err)
		return err;
	/* What is cut off the source has to be a range: munmap would say so when the destination is gone. */
	if (r->old_len > TASK_SIZE - r->old)
		return -EINVAL;
	if ((r->flags & UAPI_MREMAP_DONTUNMAP) && !vm_may_expand(mm, v->flags, r->new_len >> PAGE_SHIFT))
		return -ENOMEM;
	at = find_place(c, mm, v, r, r->new_addr, fixed ? UAPI_MAP_FIXED : 0);
	if (at < 0)
		return at;
	if (fixed)
		err = munmap_locked(c, mm, r->new_addr, r->new_len, NULL);
	if (!err && r->old_len > r->new_len)
		err = munmap_locked(c, mm, r->old + r->new_len, r->old_len - r->new_len, NULL);
	if (err)
		return err;
	v = vma_lookup(c, mm, r->old); /* unmapping may have cut it; with old length 0 it may even be gone */
	if (!v)
		return -EFAULT;
	r->old_len = kept;
	r->new_addr = (vaddr_t)at;
	err = move_area(c, mm, v, r);
	return err ? err : at;
}

/* Pages of a pool: whole ones, at their boundaries, never more. */
static bool align_huge(const struct vma *v, struct mremap_req *r)
{
	uint64_t size = vm_page_size(v->flags);

	r->old_len = ALIGN_UP(r->old_len, size);
	r->new_len = ALIGN_UP(r->new_len, size);
	if (((r->flags & UAPI_MREMAP_FIXED) && (r->new_addr & (size - 1))) || (r->old & (size - 1)))
		return false;
	return r->new_len <= r->old_len;
}

static bool several(const struct mm *mm, const struct vma *v, const struct mremap_req *r)
{
	return mm->q->knobs.mremap_several && (r->flags & UAPI_MREMAP_FIXED) && r->old_len == r->new_len && r->old_len > v->end - r->old &&
	       r->old_len <= TASK_SIZE - r->old;
}

/* Each area from v on goes where it is as far from r->new_addr as it was from r->old. */
static int64_t mremap_areas(struct cpu *c, struct mm *mm, struct vma *v, const struct mremap_req *r)
{
	vaddr_t at = r->old, end = r->old + r->old_len;

	while (v && at < end && v->start < end) {
		struct mremap_req part = { .old = MAX(at, v->start), .flags = r->flags };
		int64_t got;

		at = MIN(end, v->end); /* the move may take v away */
		part.old_len = part.new_len = at - part.old;
		part.new_addr = r->new_addr + (part.old - r->old);
		if ((v->flags & VM_HUGETLB) && !align_huge(v, &part))
			return -EINVAL;
		got = mremap_to(c, mm, v, &part);
		if (got < 0)
			return got;
		v = vma_find(c, mm, at);
	}
	return (int64_t)r->new_addr;
}

static int64_t mremap_locked(struct cpu *c, struct mm *mm, struct mremap_req *r)
{
	struct vma *v = vma_lookup(c, mm, r->old);
	int err;

	if (!v)
		return -EFAULT;
	if (several(mm, v, r))
		return mremap_areas(c, mm, v, r);
	if ((v->flags & VM_HUGETLB) && !align_huge(v, r))
		return -EINVAL;
	if (r->flags & (UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP))
		return mremap_to(c, mm, v, r);
	if (r->old_len < r->new_len)
		return mremap_grow(c, mm, v, r);
	if (r->old_len > r->new_len) {
		err = munmap_locked(c, mm, r->old + r->new_len, r->old_len - r->new_len, &r->unlocked);
		if (err)
			return err;
	}
	return (int64_t)r->old;
}

/* Lengths are whole pages. all: also what was judged only behind the area, before 6.17. */
static bool mremap_args_ok(const struct mremap_req *r, bool all)
{
	bool maymove = (r->flags & UAPI_MREMAP_MAYMOVE) != 0;

	if (r->flags & ~(UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP))
		return false;
	if ((r->old & ~PAGE_MASK) || !r->new_len || (all && r->new_len > TASK_SIZE))
		return false;
	if (!(r->flags & (UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP)))
		return true;
	if (!maymove || ((r->flags & UAPI_MREMAP_DONTUNMAP) && r->old_len != r->new_len))
		return false;
	return !all || place_ok(r);
}

int64_t mm_mremap(struct cpu *c, struct mm *mm, vaddr_t old, uint64_t old_len, uint64_t new_len, unsigned flags,
		  vaddr_t new_addr)
{
	enum machine_path outer = machine_work(c, PATH_MREMAP, 1);
	uint64_t asked = ALIGN_UP(old_len, PAGE_SIZE);
	struct mremap_req r = {
		.old = old,
		.old_len = asked,
		.new_len = ALIGN_UP(new_len, PAGE_SIZE),
		.flags = flags,
		.new_addr = new_addr,
	};
	int64_t ret = -EINVAL;

	if (mremap_args_ok(&r, mm->q->knobs.mremap_judges_first)) {
		mm_write_lock(c, mm);
		ret = mremap_locked(c, mm, &r);
		if (!r.unlocked)
			mm_write_unlock(c, mm);
		if (ret >= 0 && r.locked && r.new_len > asked)
			(void)populate_range(c, mm, (vaddr_t)ret + asked, (vaddr_t)ret + r.new_len, POPULATE_MAP);
	}
	machine_path(c, outer);
	return ret;
}
