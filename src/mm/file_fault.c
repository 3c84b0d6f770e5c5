/*
 * Faults on mapped files: what the page cache has is mapped, what it lacks is brought in first.
 *
 *   read             the page, and around it whatever is cached anyway (quire.fault_around_bytes)
 *   private, write   a copy that belongs to the mapping
 *   shared, write    the page itself, writable and dirty; a page that was only read is write-protected until it is
 *                    written, because the file system wants to know (memory-backed files don't care)
 * Locks: the file's lock (in file.c) is outside the table's lock. Looking up what is cached takes none.
 */
#include "base/errno.h"
#include "mm/fault_int.h"

static pte_t file_entry(const struct fault *f, const struct frame *page, bool write)
{
	pte_t e = pfn_to_paddr(frame_pfn(f->c->m, page)) | pte_prot(f->v->flags) | PTE_ACCESSED;

	if (write)
		e |= PTE_DIRTY | PTE_WRITE;
	else if (!f->v->file->shmem)
		e &= ~PTE_WRITE;
	return e;
}

/* Map a cached page into the empty entry at *r, under its lock; the caller's reference becomes the mapping's. */
static void map_file(struct fault *f, const struct pt_ref *r, struct frame *page, bool write)
{
	struct cpu *c = f->c;

	rmap_add_pte(c, page, page);
	if (f->v->flags & VM_LOCKED)
		rmap_mlock(c, page);
	if (write)
		frame_set(page, FRAME_DIRTY);
	mm_rss_add(c, f->mm, f->v->file->shmem ? RSS_SHMEM : RSS_FILE, 1);
	pte_write(c, r, file_entry(f, page, write));
	pt_mark(r->table, FRAME_TABLE_MIXED);
}

/*
 * Map the cached pages in the window around the fault, under the table's lock. true: the one that was asked for is
 * among them. The window begins at a multiple of its size, or where the area or the table begins, and is cut by their ends, as in Linux.
 */
ATTR_NOINLINE static bool fault_around(struct fault *f)
{
	struct cpu *c = f->c;
	uint64_t bytes = MAX(f->q->knobs.fault_around_bytes, PAGE_SIZE), at = ALIGN_DOWN(f->va, PAGE_SIZE);
	vaddr_t table = ALIGN_DOWN(f->va, PMD_SIZE);
	vaddr_t start = MAX(MAX(ALIGN_DOWN(at, bytes), f->v->start), table);
	vaddr_t end = MIN(MIN(start + bytes, f->v->end), table + PMD_SIZE);
	struct pt_ref r = pt_ref_at(c, f->pte.table, start, PAGE_SHIFT);
	bool hit = false;

	fault_pt_lock(c, f->pte.table);
	for (vaddr_t va = start; va < end; va += PAGE_SIZE, pt_ref_next(&r)) {
		pt_touch_line(c, &r, va == start);
		uint64_t index = vma_page_index(f->v, va);

		if (pte_peek(&r))
			continue;
		struct frame *page = file_lookup(c, f->v->file, index);

		machine_path(c, PATH_FAULT_FILE);
		if (!page)
			continue;
		/* Left out, so that its first use is seen. */
		if (unlikely(frame_flags(page) & FRAME_READAHEAD)) {
			frame_put(c, page);
			continue;
		}
		machine_work(c, PATH_FAULT_AROUND, 1);
		map_file(f, &r, page, false);
		hit |= va == at;
	}
	pt_unlock(c, f->pte.table);
	return hit;
}

static enum file_ra readahead_of(const struct fault *f)
{
	uint64_t flags = f->v->flags;

	bool forward = (flags & VM_EXEC) && f->q->knobs.exec_read_forward;

	if ((flags & VM_RAND_READ) && !forward)
		return FILE_RA_NONE;
	if (flags & VM_SEQ_READ)
		return FILE_RA_SEQUENTIAL;
	return forward ? FILE_RA_FORWARD : FILE_RA_AROUND;
}

/* Bring the page in. 0, -ENOMEM, -ENXIO (beyond the end of the file), -EIO (it cannot be read). */
static int file_page(struct fault *f, struct frame **ret)
{
	bool major = false;
	uint64_t end = vma_page_index(f->v, f->v->end);
	int rc = file_get_page_ra(f->c, f->v->file, vma_page_index(f->v, f->va), readahead_of(f), end, ret, &major);

	machine_path(f->c, PATH_FAULT_FILE);
	f->major = !rc && major;
	return rc;
}

/* Bring the page in and map it. */
static int file_map_one(struct fault *f, bool write)
{
	struct cpu *c = f->c;
	struct frame *page;
	int rc = file_page(f, &page);

	if (rc)
		return rc;
	fault_pt_lock(c, f->pte.table);
	if (!pte_read(c, &f->pte)) {
		map_file(f, &f->pte, page, write);
		f->kind = VM_quire_fault_file;
		page = NULL;
	}
	pt_unlock(c, f->pte.table);
	if (page)
		frame_put(c, page);
	return 0;
}

ATTR_NOINLINE int fault_file_read(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_FILE, 1);
	bool around = f->q->knobs.fault_around_bytes > PAGE_SIZE;
	int rc = 0;

	if (around && fault_around(f)) {
		f->kind = VM_quire_fault_file;
	} else {
		rc = file_map_one(f, false);
		/* While a page is read Linux lets go of the lock, then begins anew: what was read beside it is mapped with it. */
		if (!rc && f->major && around)
			(void)fault_around(f);
	}
	machine_path(c, prev);
	return rc;
}

ATTR_NOINLINE int fault_file_shared(struct fault *f)
{
	enum machine_path prev = machine_work(f->c, PATH_FAULT_FILE, 1);
	int rc = file_map_one(f, true);

	machine_path(f->c, prev);
	return rc;
}

ATTR_NOINLINE int fault_file_cow(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_FILE, 1);
	struct frame *src = NULL, *page;

	page = anon_prepare(c, f->v) ? NULL : anon_alloc(c, f->v, f->va);
	machine_path(c, PATH_FAULT_FILE);
	int rc = page ? file_page(f, &src) : -ENOMEM;

	if (!rc)
		rc = anon_copy(c, page, src);
	if (!rc) {
		fault_pt_lock(c, f->pte.table);
		if (!pte_read(c, &f->pte)) {
			map_anon(f, page);
			f->kind = VM_quire_fault_cow_4k;
			page = NULL;
		}
		pt_unlock(c, f->pte.table);
	}
	if (page)
		frame_put(c, page);
	if (src)
		frame_put(c, src);
	machine_path(c, prev);
	return rc;
}
