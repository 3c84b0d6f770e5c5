/*
 * madvise, and prctl(PR_SET_THP_DISABLE).
 *
 * A hole in the range makes the result -ENOMEM, but the advice is applied to what is mapped, below and above the hole;
 * any other error ends the call where it happens. Advice that changes an area's flags needs mmap_lock for writing, the
 * rest takes it for reading, unless page tables are freed (quire.pt_reclaim).
 * MADV_COLLAPSE takes it itself, time and again (collapse.h); KSM, page poisoning, MADV_REMOVE and guard pages are not modelled (-EINVAL,
 * as in a kernel built without them).
 */
#include "mm/vma_int.h"

#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/reclaim.h"
#include "mm/swap.h"

static bool advice_known(int advice)
{
	switch (advice) {
	case UAPI_MADV_NORMAL:
	case UAPI_MADV_RANDOM:
	case UAPI_MADV_SEQUENTIAL:
	case UAPI_MADV_WILLNEED:
	case UAPI_MADV_DONTNEED:
	case UAPI_MADV_FREE:
	case UAPI_MADV_DONTFORK:
	case UAPI_MADV_DOFORK:
	case UAPI_MADV_HUGEPAGE:
	case UAPI_MADV_NOHUGEPAGE:
	case UAPI_MADV_DONTDUMP:
	case UAPI_MADV_DODUMP:
	case UAPI_MADV_WIPEONFORK:
	case UAPI_MADV_KEEPONFORK:
	case UAPI_MADV_POPULATE_READ:
	case UAPI_MADV_POPULATE_WRITE:
	case UAPI_MADV_DONTNEED_LOCKED:
	case UAPI_MADV_COLD:
	case UAPI_MADV_PAGEOUT:
	case UAPI_MADV_COLLAPSE:
		return true;
	default:
		return false;
	}
}

/* The flags that an area has after the advice. 0, or -EINVAL: not for this kind of memory. */
static int advised_flags(const struct vma *v, int advice, uint64_t *ret)
{
	uint64_t set = 0, clear = 0;

	switch (advice) {
	case UAPI_MADV_NORMAL:
		clear = VM_RAND_READ | VM_SEQ_READ;
		break;
	case UAPI_MADV_RANDOM:
		set = VM_RAND_READ;
		clear = VM_SEQ_READ;
		break;
	case UAPI_MADV_SEQUENTIAL:
		set = VM_SEQ_READ;
		clear = VM_RAND_READ;
		break;
	case UAPI_MADV_DONTFORK:
		set = VM_DONTCOPY;
		break;
	case UAPI_MADV_DOFORK:
		clear = VM_DONTCOPY;
		break;
	case UAPI_MADV_DONTDUMP:
		set = VM_DONTDUMP;
		break;
	case UAPI_MADV_DODUMP:
		if (v->flags & VM_SPECIAL)
			return -EINVAL;
		clear = VM_DONTDUMP;
		break;
	case UAPI_MADV_WIPEONFORK:
		if (!vma_is_anon(v) || (v->flags & VM_SHARED))
			return -EINVAL;
		set = VM_WIPEONFORK;
		break;
	case UAPI_MADV_KEEPONFORK:
		clear = VM_WIPEONFORK;
		break;
	case UAPI_MADV_HUGEPAGE:
		set = VM_HUGEPAGE;
		clear = VM_NOHUGEPAGE;
		break;
	case UAPI_MADV_NOHUGEPAGE:
		set = VM_NOHUGEPAGE;
		clear = VM_HUGEPAGE;
		break;
	default:
		return -EINVAL;
	}
	*ret = (v->flags & ~clear) | set;
	return 0;
}

static bool advice_changes_flags(int advice)
{
	switch (advice) {
	case UAPI_MADV_WILLNEED:
	case UAPI_MADV_DONTNEED:
	case UAPI_MADV_DONTNEED_LOCKED:
	case UAPI_MADV_FREE:
	case UAPI_MADV_COLD:
	case UAPI_MADV_PAGEOUT:
		return false;
	default:
		return true;
	}
}

/* Bring a file's pages into the page cache; and what the area has in swap into the swap cache. */
static void will_need(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end)
{
	swap_will_need(c, v, start, end);
	if (v->file)
		file_read_range(c, v->file, v->pgoff + ((start - v->start) >> PAGE_SHIFT), (end - start) >> PAGE_SHIFT);
}

/*
 * MADV_DONTNEED on pages of a pool. The start has to be a huge page's; the end, which the caller may have rounded up to base
 * pages only, is rounded down, so that nothing goes that was not named whole.
 */
static int drop_huge(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, int advice)
{
	uint64_t size = vm_page_size(v->flags);
	struct mmu_gather *g = c->pc->gather;

	if (advice == UAPI_MADV_FREE || !IS_ALIGNED(start, size))
		return -EINVAL;
	end = ALIGN_DOWN(end, size);
	if (start >= end)
		return 0;
	tlb_gather_begin(c, g, v->mm, false);
	hugetlb_zap(c, g, v, start, end, false);
	tlb_gather_end(c, g);
	return 0;
}

/* Does the advice free tables that serve [start, end) alone? Then under the lock for writing, since whoever has it for reading may be on the way to them. */
static bool frees_tables(const struct mm *mm, vaddr_t start, vaddr_t end, int advice)
{
	return mm->q->knobs.pt_reclaim && (advice == UAPI_MADV_DONTNEED || advice == UAPI_MADV_DONTNEED_LOCKED) &&
	       ALIGN_UP(start, PMD_SIZE) < ALIGN_DOWN(end, PMD_SIZE);
}

static int make_cold(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, bool pageout)
{
	if (v->flags & (VM_LOCKED | VM_HUGETLB | VM_SPECIAL))
		return -EINVAL;
	if (pt_unshare_range(c, v->mm, start, end, UNSHARE_ALL))
		return -EAGAIN;
	madvise_cold(c, v, start, end, pageout);
	return 0;
}

/* Advice about pages: [start, end) of v. Lock held for reading, or for writing (frees_tables). */
static int advise_pages(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end, int advice)
{
	struct mmu_gather *g = c->pc->gather;

	if (advice == UAPI_MADV_WILLNEED) {
		will_need(c, v, start, end);
		return 0;
	}
	if (advice == UAPI_MADV_COLD || advice == UAPI_MADV_PAGEOUT)
		return make_cold(c, v, start, end, advice == UAPI_MADV_PAGEOUT);
	if (v->flags & VM_HUGETLB)
		return drop_huge(c, v, start, end, advice);
	if ((v->flags & VM_LOCKED) && advice != UAPI_MADV_DONTNEED_LOCKED)
		return -EINVAL;
	if (advice == UAPI_MADV_FREE && !vma_is_anon(v))
		return -EINVAL;
	if (pt_unshare_range(c, v->mm, start, end, advice == UAPI_MADV_FREE ? UNSHARE_ALL : UNSHARE_PARTIAL))
		return -EAGAIN;
	if (advice == UAPI_MADV_FREE) {
		zap_lazyfree_range(c, v, start, end);
		return 0;
	}
	tlb_gather_begin(c, g, v->mm, false);
	g->why = FLUSH_MADVISE;
	pt_drop_shared(c, g, v->mm, start, end);
	zap_range(c, g, v, start, end);
	if (frees_tables(v->mm, start, end, advice)) {
		vma_rmap_lock(c, v); /* nor may anybody be on the way to them from a page (rmap_walk.h R2) */
		pt_free_empty(c, v->mm, g, start, end);
		vma_rmap_unlock(c, v);
	}
	tlb_gather_end(c, g);
	return 0;
}

/* Advice about an area. *v: the area that covers the range afterwards. -EAGAIN: out of memory for a split; -EINVAL: of a huge page. */
static int advise_area(struct cpu *c, struct vma **v, vaddr_t start, vaddr_t end, int advice)
{
	uint64_t flags;
	int err = advised_flags(*v, advice, &flags);

	if (!err && advice == UAPI_MADV_HUGEPAGE && flags == (*v)->flags)
		khugepaged_enter_vma(c, *v);
	if (err || flags == (*v)->flags)
		return err;
	err = vma_modify(c, *v, start, end, flags, v);
	if (!err && advice == UAPI_MADV_HUGEPAGE)
		khugepaged_enter_vma(c, *v);
	return err == -ENOMEM ? -EAGAIN : err;
}

/* Lock held as the advice needs it. */
static int madvise_walk(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, int advice)
{
	bool flags = advice_changes_flags(advice);
	struct vma *v = vma_find(c, mm, start);
	int holes = 0, err;
	vaddr_t stop;

	while (start < end) {
		if (!v)
			return -ENOMEM;
		if (v->start > start) {
			holes = -ENOMEM;
			start = v->start;
			if (start >= end)
				break;
		}
		stop = MIN(v->end, end);
		err = flags ? advise_area(c, &v, start, stop, advice) : advise_pages(c, v, start, stop, advice);
		if (err)
			return err;
		start = stop;
		if (v->end <= start)
			v = vma_next_charged(c, v);
	}
	return holes;
}

static int madvise_checked(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, int advice)
{
	int err;

	if (advice == UAPI_MADV_POPULATE_READ)
		return populate_range(c, mm, start, end, POPULATE_READ);
	if (advice == UAPI_MADV_COLLAPSE)
		return madvise_collapse(c, mm, start, end);
	if (advice == UAPI_MADV_POPULATE_WRITE)
		return populate_range(c, mm, start, end, POPULATE_WRITE);
	if (advice_changes_flags(advice) || frees_tables(mm, start, end, advice)) {
		mm_write_lock(c, mm);
		err = madvise_walk(c, mm, start, end, advice);
		mm_write_unlock(c, mm);
	} else {
		machine_read_lock(c, &mm->mmap_lock);
		err = madvise_walk(c, mm, start, end, advice);
		machine_read_unlock(c, &mm->mmap_lock);
	}
	return err;
}

int64_t mm_madvise(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, int advice)
{
	enum machine_path outer = machine_work(c, PATH_MADVISE, 1);
	uint64_t whole = ALIGN_UP(len, PAGE_SIZE);
	int err = 0;

	if (!advice_known(advice) || (addr & ~PAGE_MASK) || (len && !whole) || addr + whole < addr)
		err = -EINVAL;
	else if (whole)
		err = madvise_checked(c, mm, addr, addr + whole, advice);
	machine_path(c, outer);
	return err;
}

int64_t mm_set_thp_disable(struct cpu *c, struct mm *mm, bool disable)
{
	mm_write_lock(c, mm);
	mm->thp_disable = disable;
	mm_write_unlock(c, mm);
	return 0;
}
