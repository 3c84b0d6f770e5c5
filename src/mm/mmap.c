/*
 * mmap. Arguments are checked and the place is found first; then everything that can fail is done (limits, promise,
 * objects); only then is what a fixed mapping replaces taken away. An error therefore leaves the address space as it
 * was. Takes mmap_lock for writing; populates without it.
 *
 * Not modelled: shared maps of pools of huge pages (-ENOENT, as where hugetlbfs is not mounted), protection keys, sealing, MAP_SYNC, MAP_DROPPABLE.
 */
#include "mm/vma_int.h"

#include "base/assert.h"

#define LEGACY_FLAGS                                                                                                   \
	(UAPI_MAP_SHARED | UAPI_MAP_PRIVATE | UAPI_MAP_FIXED | UAPI_MAP_ANONYMOUS | UAPI_MAP_DENYWRITE |               \
	 UAPI_MAP_EXECUTABLE | UAPI_MAP_UNINITIALIZED | UAPI_MAP_GROWSDOWN | UAPI_MAP_LOCKED | UAPI_MAP_NORESERVE |    \
	 UAPI_MAP_POPULATE | UAPI_MAP_NONBLOCK | UAPI_MAP_STACK | UAPI_MAP_HUGETLB | UAPI_MAP_32BIT |                  \
	 UAPI_MAP_ABOVE4G)

#define FILE_BYTES_MAX ((1ULL << 63) - 1)

struct mmap_req {
	/* in */
	vaddr_t addr;
	uint64_t len;
	unsigned prot, flags;
	struct mfile *file;
	uint64_t pgoff;
	/* decided on the way */
	uint64_t vm_flags;
	uint64_t huge; /* VM_HUGETLB and VM_HUGETLB_1G, or 0 */
	vaddr_t start, end;
	struct mfile *own; /* object of shared anonymous memory, a reference of ours */
};

/* MAP_HUGETLB: which pool, and whole pages of it. */
static int mmap_decode_huge(struct mmap_req *r)
{
	unsigned huge_log = r->flags >> UAPI_MAP_HUGE_SHIFT, type = r->flags & UAPI_MAP_TYPE;

	if (r->file || (huge_log && huge_log != PMD_SHIFT && huge_log != PUD_SHIFT))
		return -EINVAL;
	if (type == UAPI_MAP_SHARED || type == UAPI_MAP_SHARED_VALIDATE)
		return -ENOENT;
	r->huge = VM_HUGETLB | (huge_log == PUD_SHIFT ? VM_HUGETLB_1G : 0);
	r->len = ALIGN_UP(r->len, vm_page_size(r->huge));
	return 0;
}

/* What can be said without looking at the address space. */
static int mmap_decode(const struct mm *mm, struct mmap_req *r)
{
	if (r->flags & UAPI_MAP_ANONYMOUS)
		r->file = NULL;
	else if (!r->file)
		return -EBADF;
	if (r->flags & UAPI_MAP_HUGETLB) {
		int err = mmap_decode_huge(r);

		if (err)
			return err;
	}
	if (!r->len)
		return -EINVAL;
	if (r->flags & UAPI_MAP_FIXED_NOREPLACE)
		r->flags |= UAPI_MAP_FIXED;
	if (!(r->flags & UAPI_MAP_FIXED))
		r->addr = vma_round_hint(mm, r->addr);
	r->len = ALIGN_UP(r->len, PAGE_SIZE);
	if (!r->len)
		return -ENOMEM;
	return r->pgoff + (r->len >> PAGE_SHIFT) < r->pgoff ? -EOVERFLOW : 0;
}

/* Thread stacks (MAP_STACK) do not get huge pages since 6.7. */
static void mmap_flags(const struct mm *mm, struct mmap_req *r)
{
	r->vm_flags = vm_prot_flags(r->prot) | VM_MAY_MASK | mm->def_flags;
	if (r->flags & UAPI_MAP_GROWSDOWN)
		r->vm_flags |= VM_GROWSDOWN;
	if (r->flags & UAPI_MAP_LOCKED)
		r->vm_flags |= VM_LOCKED;
	if (r->flags & UAPI_MAP_STACK)
		r->vm_flags |= VM_NOHUGEPAGE;
	/* Pools of huge pages keep promises of their own, whatever is overcommitted. */
	if ((r->flags & UAPI_MAP_NORESERVE) && (mm->q->knobs.overcommit_memory != 2 || r->huge))
		r->vm_flags |= VM_NORESERVE;
	if (r->huge)
		r->vm_flags |= r->huge | VM_DONTEXPAND | (r->vm_flags & VM_NORESERVE ? 0 : VM_HUGETLB_RESV);
}

static int mmap_type_file(struct mmap_req *r)
{
	bool rdonly = (r->prot & MM_PROT_FILE_RDONLY) != 0;

	if (r->pgoff > (FILE_BYTES_MAX - r->len) >> PAGE_SHIFT)
		return -EOVERFLOW;
	switch (r->flags & UAPI_MAP_TYPE) {
	case UAPI_MAP_SHARED_VALIDATE:
		if (r->flags & ~(LEGACY_FLAGS | UAPI_MAP_FIXED_NOREPLACE | UAPI_MAP_SHARED_VALIDATE))
			return -EOPNOTSUPP;
		/* fall through */
	case UAPI_MAP_SHARED:
		if (rdonly && (r->prot & UAPI_PROT_WRITE))
			return -EACCES;
		r->vm_flags |= VM_SHARED;
		if (rdonly)
			r->vm_flags &= ~VM_MAYWRITE;
		break;
	case UAPI_MAP_PRIVATE:
		break;
	default:
		return -EINVAL;
	}
	return r->vm_flags & VM_GROWSDOWN ? -EINVAL : 0;
}

static int mmap_type_anon(struct mmap_req *r)
{
	switch (r->flags & UAPI_MAP_TYPE) {
	case UAPI_MAP_SHARED:
		if (r->vm_flags & VM_GROWSDOWN)
			return -EINVAL;
		r->vm_flags |= VM_SHARED;
		r->pgoff = 0;
		return 0;
	case UAPI_MAP_PRIVATE:
		if (r->huge && (r->vm_flags & VM_GROWSDOWN))
			return -EINVAL;
		r->pgoff = r->start >> PAGE_SHIFT;
		return 0;
	default:
		return -EINVAL;
	}
}

/* Where, and whether it may be there. Lock held. */
static int mmap_check(struct cpu *c, struct mm *mm, struct mmap_req *r)
{
	const struct vma *v;
	int64_t at;

	if (mm->map_count > mm->q->knobs.max_map_count)
		return -ENOMEM;
	mmap_flags(mm, r);
	at = r->huge ? vma_get_unmapped_huge(c, mm, r->addr, r->len, vm_page_size(r->huge), r->flags) :
		       vma_get_unmapped(c, mm, r->file, r->addr, r->len, r->pgoff, r->flags);
	if (at < 0)
		return (int)at;
	r->start = (vaddr_t)at;
	r->end = r->start + r->len;
	if (r->flags & UAPI_MAP_FIXED_NOREPLACE) {
		v = vma_find(c, mm, r->start);
		if (v && v->start < r->end)
			return -EEXIST;
	}
	if ((r->flags & UAPI_MAP_LOCKED) && !mm_can_lock(mm))
		return -EPERM;
	if (!vm_lock_ok(mm, r->vm_flags, r->len))
		return -EAGAIN;
	return r->file ? mmap_type_file(r) : mmap_type_anon(r);
}

/* Shared anonymous memory: an object of its own, which promises its whole size for as long as it lives. */
static int mmap_make_object(struct cpu *c, struct mm *mm, struct mmap_req *r)
{
	uint64_t pages = r->len >> PAGE_SHIFT;
	int err;

	if (r->file || !(r->vm_flags & VM_SHARED))
		return 0;
	if (r->vm_flags & VM_NORESERVE)
		pages = 0;
	if (pages && vm_commit(mm, pages))
		return -ENOMEM;
	err = file_create(c, mm->q, 0, r->len, true, &r->own);
	if (err) {
		if (pages)
			vm_uncommit(mm->q, pages);
		return err;
	}
	r->own->committed = pages;
	r->file = r->own;
	return 0;
}

/*
 * The range is free and paid for: make it an area, merged where possible. `own`, if not NULL, is used or freed. -ENOMEM
 * only without it, and then nothing has changed.
 */
static int mmap_install(struct cpu *c, struct mm *mm, const struct mmap_req *r, struct vma *own)
{
	/* Pages of a pool stay in memory anyway: such areas do not count as locked. */
	uint64_t flags = r->huge ? r->vm_flags & ~VM_LOCKED_MASK : r->vm_flags;
	struct vma want = {
		.start = r->start, .end = r->end, .flags = flags, .pgoff = r->pgoff, .file = r->file, .mm = mm
	};
	struct vma *prev, *next = vma_find_prev(c, mm, r->start, &prev);

	if (vma_merge_new(c, prev, next, &want)) {
		if (own)
			vma_free(c, own);
	} else {
		if (!own)
			own = vma_alloc(c, mm);
		if (!own)
			return -ENOMEM;
		vma_assign(own, &want);
		vma_insert(c, own, prev);
	}
	vm_account(mm, flags, (int64_t)(r->len >> PAGE_SHIFT));
	return 0;
}

/* Take what is there away and put the new area in its place. -ENOMEM: nothing has changed. */
static int mmap_replace(struct cpu *c, struct mm *mm, const struct mmap_req *r, struct unmap_plan *p)
{
	struct vma *own;
	int err;

	if (!p->first)
		return mmap_install(c, mm, r, NULL);
	own = vma_alloc(c, mm);
	if (!own)
		return -ENOMEM;
	unmap_detach(c, p);
	if (!(r->vm_flags & VM_ACCOUNT))
		vm_uncommit(mm->q, p->accounted);
	unmap_finish(c, p);
	err = mmap_install(c, mm, r, own);
	ASSERT(!err);
	return 0;
}

/* Everything that can fail, then the change. Lock held. */
static int mmap_region(struct cpu *c, struct mm *mm, struct mmap_req *r)
{
	uint64_t pages = r->len >> PAGE_SHIFT, charge = 0, promise = 0;
	struct unmap_plan p;
	int err = unmap_plan(c, mm, r->start, r->end, NULL, &p);

	if (err)
		return err;
	err = vm_may_expand(mm, r->vm_flags, pages - p.pages) ? 0 : -ENOMEM;
	if (!err && vm_accountable(r->vm_flags)) {
		r->vm_flags |= VM_ACCOUNT;
		charge = pages - p.accounted; /* what is replaced has been promised already */
		err = vm_commit(mm, charge);
		if (err)
			charge = 0;
	}
	if (!err && (r->vm_flags & VM_HUGETLB_RESV)) {
		promise = r->len >> vm_page_shift(r->huge);
		err = hugetlb_reserve(c, r->huge, promise);
		if (err)
			promise = 0;
	}
	if (!err)
		err = mmap_make_object(c, mm, r);
	if (!err)
		err = mmap_replace(c, mm, r, &p);
	if (err) {
		vm_uncommit(mm->q, charge);
		if (promise)
			hugetlb_unreserve(c, r->huge, promise);
		unmap_abort(c, &p);
	}
	return err;
}

int64_t mm_mmap(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned prot, unsigned flags,
		struct mfile *file, uint64_t offset)
{
	enum machine_path outer = machine_work(c, PATH_MMAP, 1);
	struct mmap_req r = {
		.addr = addr,
		.len = len,
		.prot = prot,
		.flags = flags,
		.file = file,
		.pgoff = offset >> PAGE_SHIFT,
	};
	int err = offset & ~PAGE_MASK ? -EINVAL : mmap_decode(mm, &r);

	if (!err) {
		mm_write_lock(c, mm);
		err = mmap_check(c, mm, &r);
		if (!err)
			err = mmap_region(c, mm, &r);
		mm_write_unlock(c, mm);
		if (r.own)
			file_put(c, r.own); /* the area has its own reference; without one this ends the object */
	}
	if (!err &&
	    ((r.vm_flags & VM_LOCKED) || (r.flags & (UAPI_MAP_POPULATE | UAPI_MAP_NONBLOCK)) == UAPI_MAP_POPULATE))
		(void)populate_range(c, mm, r.start, r.end, POPULATE_MAP);
	machine_path(c, outer);
	return err ? err : (int64_t)r.start;
}
