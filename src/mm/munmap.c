/*
 * munmap, and unmapping for those that replace a mapping (mmap with MAP_FIXED, mremap, brk).
 *
 * An area that is partly unmapped is trimmed in place; only a hole in its middle needs a new area, and that is
 * allocated before anything changes: -ENOMEM leaves the address space as it was. (Linux may leave an area split.) Areas
 * leave the tree under the write lock; pages and tables are removed under the read lock: nothing can be mapped into the
 * range meanwhile, and nobody who holds the read lock walks to it, since no area is there.
 */
#include "mm/vma_int.h"

#include "base/assert.h"
#include "mm/fault.h"
#include "mm/fork_shared.h"

#include <string.h>

/* Does the address lie within a huge page of a pool, which cannot be split? */
static bool cuts_huge(const struct vma *v, vaddr_t at)
{
	return (v->flags & VM_HUGETLB) && !IS_ALIGNED(at, vm_page_size(v->flags));
}

int unmap_plan(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, struct vma *spare, struct unmap_plan *p)
{
	struct vma *v = vma_find(c, mm, start);

	memset(p, 0, sizeof(*p));
	p->mm = mm;
	p->start = start;
	p->end = end;
	p->spare = spare;
	if (!v || v->start >= end)
		return 0;
	p->first = v;
	if (v->start < start && cuts_huge(v, start)) {
		unmap_abort(c, p);
		return -EINVAL;
	}
	if (v->start < start && v->end > end) {
		if (mm->map_count >= mm->q->knobs.max_map_count || (!spare && !(p->spare = vma_alloc(c, mm))) ||
		    (!spare && anon_vma_reserve(c, p->spare, v))) {
			unmap_abort(c, p);
			return -ENOMEM;
		}
	}
	/* The tables that others share and that go only in part; the rest is dropped whole. */
	if (pt_unshare_range(c, mm, start, end, UNSHARE_PARTIAL)) {
		unmap_abort(c, p);
		return -ENOMEM;
	}
	for (; v && v->start < end; v = vma_next_charged(c, v)) {
		uint64_t n = (MIN(v->end, end) - MAX(v->start, start)) >> PAGE_SHIFT;

		if (v->end > end && cuts_huge(v, end)) {
			unmap_abort(c, p);
			return -EINVAL;
		}
		p->pages += n;
		if (v->flags & VM_ACCOUNT)
			p->accounted += n;
	}
	return 0;
}

void unmap_abort(struct cpu *c, struct unmap_plan *p)
{
	if (p->spare)
		vma_free(c, p->spare);
	p->spare = NULL;
}

/* Describe a part of v that goes, and stop counting it. */
static void describe(struct vma *part, const struct vma *v, vaddr_t start, vaddr_t end)
{
	*part = *v;
	part->start = start;
	part->end = end;
	part->pgoff += (start - v->start) >> PAGE_SHIFT;
	part->left = part->right = part->parent = NULL;
	vm_account(v->mm, v->flags, -(int64_t)vma_pages(part));
}

static void detach_hole(struct cpu *c, struct unmap_plan *p, struct vma *v)
{
	struct vma *upper = p->spare;

	p->spare = NULL;
	describe(&p->head, v, p->start, p->end);
	vma_assign(upper, v);
	upper->start = p->end;
	upper->pgoff += (p->end - v->start) >> PAGE_SHIFT;
	upper->apart = false;
	anon_vma_link(c, upper, v);
	vma_link_file(c, upper);
	vma_set_range(c, v, v->start, p->start, v->pgoff);
	vma_insert(c, upper, v);
}

static void detach_whole(struct cpu *c, struct unmap_plan *p, struct vma *v)
{
	vm_account(v->mm, v->flags, -(int64_t)vma_pages(v));
	vma_erase(c, v);
	if (p->whole_last)
		p->whole_last->right = v;
	else
		p->whole = v;
	p->whole_last = v;
}

static void detach_tail(struct cpu *c, struct unmap_plan *p, struct vma *v)
{
	describe(&p->tail, v, v->start, p->end);
	v->apart = false;
	vma_set_range(c, v, p->end, v->end, v->pgoff + ((p->end - v->start) >> PAGE_SHIFT));
}

void unmap_detach(struct cpu *c, struct unmap_plan *p)
{
	struct vma *v = p->first, *prev, *next;

	if (!v)
		return;
	prev = v->start < p->start ? v : vma_prev(v);
	if (v->start < p->start) {
		thp_split_boundary(c, v, p->start);
		if (v->end > p->end) {
			thp_split_boundary(c, v, p->end);
			detach_hole(c, p, v);
		} else {
			describe(&p->head, v, p->start, v->end);
			vma_set_range(c, v, v->start, p->start, v->pgoff);
		}
		v = vma_next(v);
	}
	for (; v && v->end <= p->end; v = next) {
		next = vma_next(v);
		detach_whole(c, p, v);
	}
	if (v && v->start < p->end) {
		thp_split_boundary(c, v, p->end);
		detach_tail(c, p, v);
	}
	p->floor = prev ? prev->end : 0;
	p->ceiling = v ? v->start : USER_TABLES_END;
}

void unmap_finish(struct cpu *c, struct unmap_plan *p)
{
	struct mmu_gather *g = c->pc->gather;
	struct vma *v, *next;

	if (p->first) {
		tlb_gather_begin(c, g, p->mm, false);
		g->why = FLUSH_MUNMAP;
		pt_drop_shared(c, g, p->mm, p->start, p->end);
		if (p->head.start < p->head.end)
			zap_range(c, g, &p->head, p->head.start, p->head.end);
		for (v = p->whole; v; v = v->right)
			zap_range(c, g, v, v->start, v->end);
		if (p->tail.start < p->tail.end)
			zap_range(c, g, &p->tail, p->tail.start, p->tail.end);
		for (v = p->whole; v; v = v->right)
			vma_rmap_unlink(c, v); /* nobody is to come to the tables by it any more */
		machine_path(c, PATH_MUNMAP);
		pt_free_range(c, p->mm, g, p->start, p->end, p->floor, p->ceiling);
		tlb_gather_end(c, g);
	}
	for (v = p->whole; v; v = next) {
		next = v->right;
		vma_free(c, v);
	}
	unmap_abort(c, p);
}

int munmap_locked(struct cpu *c, struct mm *mm, vaddr_t start, uint64_t len, bool *ret_unlocked)
{
	struct unmap_plan p;
	int err;

	if (ret_unlocked)
		*ret_unlocked = false;
	if ((start & ~PAGE_MASK) || start > TASK_SIZE || len > TASK_SIZE - start || !len)
		return -EINVAL;
	err = unmap_plan(c, mm, start, start + ALIGN_UP(len, PAGE_SIZE), NULL, &p);
	if (err)
		return err;
	if (!p.first)
		return 0;
	unmap_detach(c, &p);
	vm_uncommit(mm->q, p.accounted);
	if (ret_unlocked)
		machine_downgrade(c, &mm->mmap_lock);
	unmap_finish(c, &p);
	if (ret_unlocked) {
		machine_read_unlock(c, &mm->mmap_lock);
		*ret_unlocked = true;
	}
	return 0;
}

int64_t mm_munmap(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len)
{
	enum machine_path outer = machine_work(c, PATH_MUNMAP, 1);
	bool unlocked;
	int r;

	mm_write_lock(c, mm);
	r = munmap_locked(c, mm, addr, len, &unlocked);
	if (!unlocked)
		mm_write_unlock(c, mm);
	machine_path(c, outer);
	return r;
}
