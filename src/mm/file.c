/*
 * Files and their page cache: lookup, bringing pages in, readahead, read and write, truncation. file.h has the
 * invariants C1 to C3.
 *
 * A page is "read" by a device: its content tag appears in the frame without the CPU touching a line, so nothing is
 * charged for the transfer itself, no device time is modelled, and pgpgin counts it. What a CPU does pay is finding,
 * allocating and entering the page.
 *
 * Readahead, after Linux's, with windows of at most bdi.read_ahead_kb (32 pages by default):
 *   a miss by a mapping                   a window around it, half of it before; MADV_RANDOM: nothing; MADV_SEQUENTIAL: a window from it
 *                                         on; executable: the same, up to the mapping's end
 *   a miss by read(2) where the last      a window twice as large as the last, from 4 pages on
 *     window ended
 *   a miss elsewhere by read(2)           that page; at the start of the file, a first window
 *   use of the page that carries the mark the next window, before anybody misses it
 * The state is a hint: CPUs may race on it, nothing depends on it. Memory-backed files have none.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "base/rng.h"
#include "mm/lru.h"
#include "mm/radix.h"
#include "mm/system.h"
#include "mm/text.h"

#define RA_FIRST_PAGES 4ULL
#define RA_NO_MARK UINT64_MAX

#define FILE_GFP (GFP_HIGHUSER_MOVABLE | GFP_NOWARN)

static uint64_t hint_get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static void hint_set(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

static uint64_t pages_of(uint64_t size)
{
	return (size >> PAGE_SHIFT) + !IS_ALIGNED(size, PAGE_SIZE);
}

static uint64_t file_pages(const struct mfile *f)
{
	return pages_of(__atomic_load_n(&f->size, __ATOMIC_RELAXED));
}

int file_create(struct cpu *c, struct quire *q, uint64_t id, uint64_t size, bool shmem, struct mfile **ret)
{
	struct mfile *f = slab_alloc(c, SLAB_FILE);

	if (!f)
		return -ENOMEM;
	mlock_init(&f->lock, RANK_FILE, machine_pa(q->m, &f->lock));
	mrwlock_init(&f->i_mmap_lock, RANK_I_MMAP, machine_pa(q->m, &f->i_mmap_lock));
	f->q = q;
	f->refs = 1;
	f->size = size;
	f->shmem = shmem;
	f->zero_from = UINT64_MAX;
	f->ra_mark = RA_NO_MARK;
	machine_lock(c, &q->file_lock);
	/* The upper half of the numbers is ours, so that a made-up id meets a caller's only by the worst of luck. */
	f->id = id ? id : 1ULL << 63 | q->next_file_id++;
	list_add_tail(&f->link, &q->files);
	machine_unlock(c, &q->file_lock);
	*ret = f;
	return 0;
}

uint64_t file_tag(const struct mfile *f, uint64_t index)
{
	uint64_t x = f->id * 0x9e3779b97f4a7c15ULL + index, tag = rng_splitmix(&x);

	if (index >= f->zero_from)
		return 0;
	return tag ? tag : 1; /* 0 is what zeroed memory has */
}

/* What a page holds after somebody wrote to it. */
static uint64_t written_tag(struct mfile *f, uint64_t index)
{
	uint64_t x = file_tag(f, index) + __atomic_add_fetch(&f->writes, 1, __ATOMIC_RELAXED), tag = rng_splitmix(&x);

	return tag ? tag : 1;
}

static void set_contents(struct machine *m, pfn_t p, uint64_t tag)
{
	uint64_t *word = machine_ptr(m, pfn_to_paddr(p));

	if (m->tags)
		m->tags[p.v] = tag;
	else
		__atomic_store_n(word, tag, __ATOMIC_RELAXED); /* a program may be reading it */
}

/* ---- the tree ---- */

struct frame *file_lookup(struct cpu *c, struct mfile *f, uint64_t index)
{
	enum machine_path outer = machine_work(c, PATH_FILE_LOOKUP, 1);
	struct frame *page;

	/* A frame may leave the cache, and be something else, between the look and the reference: so look again. */
	while ((page = radix_lookup(c, &f->root, index))) {
		if (!frame_tryget(c, page))
			continue;
		if (radix_lookup(c, &f->root, index) == page)
			break;
		frame_put(c, page);
	}
	machine_path(c, outer);
	return page;
}

/* What a new page of the cache holds at first. */
enum page_fill {
	FILL_ZERO,
	FILL_READ,  /* what the device has */
	FILL_LATER, /* nothing: the caller overwrites the whole page at once */
};

/* A frame that will be the page at index. refcount 1: the cache's. */
static struct frame *page_new(struct cpu *c, struct mfile *f, uint64_t index, enum page_fill fill)
{
	struct alloc_req r = { .gfp = FILE_GFP | (fill == FILL_ZERO ? GFP_ZERO : 0), .nid = NID_NONE };
	struct frame *page = page_alloc(c, &r);

	if (!page)
		return NULL;
	frame_flags_put(page, frame_flags(page) | FRAME_FILE | (f->shmem ? FRAME_SWAPBACKED : 0));
	page->index = index;
	__atomic_store_n(&page->mapping, (uint64_t)(uintptr_t)f, __ATOMIC_RELEASE);
	if (fill == FILL_READ) {
		set_contents(c->m, frame_pfn(c->m, page), file_tag(f, index));
		vmstat_add(c, VM_pgpgin, PAGE_SIZE / 1024);
	}
	return page;
}

/*
 * No longer in the cache. What it was stays until it is freed: areas that still map it, and which hold the file, ask whose
 * page it is when they unmap it.
 */
static void page_forget(struct frame *page)
{
	frame_clear(page, FRAME_FILE | FRAME_DIRTY | FRAME_REFERENCED);
}

/* 0, -ENOMEM, -EEXIST, -ENXIO. */
static int page_enter(struct cpu *c, struct mfile *f, uint64_t index, struct frame *page)
{
	int err;

	machine_lock(c, &f->lock);
	err = index < file_pages(f) ? radix_insert(c, &f->root, index, page) : -ENXIO;
	f->nr_pages += !err;
	machine_unlock(c, &f->lock);
	return err;
}

/*
 * Make the page at index and enter it. *ret, where asked for, gets it with a reference of the caller's.
 * -ENOMEM, -EEXIST (somebody was faster), -ENXIO (beyond the end by now), -EIO (it could not be read).
 */
static int file_add(struct cpu *c, struct mfile *f, uint64_t index, enum page_fill fill, struct frame **ret)
{
	enum machine_path outer = machine_work(c, PATH_FILE_ADD, 1);
	struct frame *page = page_new(c, f, index, fill);
	int err = -ENOMEM;

	if (page) {
		__atomic_add_fetch(&page->refcount, 1, __ATOMIC_RELAXED); /* once it is entered, others may take it out again */
		err = fill == FILL_READ && machine_inject(c, INJECT_IO, PAGE_SIZE) ? -EIO : page_enter(c, f, index, page);
	}
	if (!err) {
		folio_add_lru(c, page);
		vmstat_inc(c, VM_nr_file_pages);
		vmstat_add(c, VM_nr_shmem, f->shmem);
		if (ret)
			*ret = page;
		else
			frame_put(c, page);
	} else if (page) {
		page_forget(page);
		__atomic_sub_fetch(&page->refcount, 1, __ATOMIC_RELAXED);
		frame_put(c, page);
	}
	machine_path(c, outer);
	return err;
}

int file_replace(struct cpu *c, struct frame *src, struct frame *dst)
{
	enum machine_path outer = machine_work(c, PATH_FILE_ADD, 1);
	struct mfile *f = src->file;
	int32_t refs = 2; /* the cache's and the caller's */
	bool ok;

	machine_lock(c, &f->lock);
	frame_touch(c, src, TOUCH_ATOMIC);
	ok = (frame_flags(src) & FRAME_FILE) &&
	     __atomic_compare_exchange_n(&src->refcount, &refs, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (ok) {
		frame_get(c, dst);
		radix_replace(c, &f->root, src->index, dst);
		page_forget(src);
		__atomic_store_n(&src->refcount, 1, __ATOMIC_RELEASE);
	}
	machine_unlock(c, &f->lock);
	machine_path(c, outer);
	return ok ? 0 : -EAGAIN;
}

bool file_drop(struct cpu *c, struct frame *page)
{
	enum machine_path outer = machine_work(c, PATH_FILE_REMOVE, 1);
	struct mfile *f = page->file;
	int32_t refs = 2; /* the cache's and the caller's */
	bool ok;

	machine_lock(c, &f->lock);
	frame_touch(c, page, TOUCH_ATOMIC);
	ok = (frame_flags(page) & (FRAME_FILE | FRAME_DIRTY)) == FRAME_FILE &&
	     __atomic_compare_exchange_n(&page->refcount, &refs, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (ok) {
		(void)radix_erase(c, &f->root, page->index);
		f->nr_pages--;
		page_forget(page);
	}
	machine_unlock(c, &f->lock);
	if (ok) {
		vmstat_add(c, VM_nr_file_pages, -1);
		vmstat_add(c, VM_nr_shmem, -(int64_t)f->shmem);
	}
	machine_path(c, outer);
	return ok;
}

/* Drop the cached pages from index `from` on. */
static void file_remove(struct cpu *c, struct mfile *f, uint64_t from)
{
	enum machine_path outer = machine_work(c, PATH_FILE_REMOVE, 0);

	for (;;) {
		struct frame *page;

		machine_lock(c, &f->lock);
		page = radix_next(c, &f->root, &from);
		if (page) {
			(void)radix_erase(c, &f->root, from);
			f->nr_pages--;
			/*
			 * Under the lock, so that a validator never sees a page outside of the tree that says it is
			 * inside.
			 */
			page_forget(page);
		}
		machine_unlock(c, &f->lock);
		if (!page)
			break;
		machine_work(c, PATH_FILE_REMOVE, 1);
		vmstat_add(c, VM_nr_file_pages, -1);
		vmstat_add(c, VM_nr_shmem, -(int64_t)f->shmem);
		frame_put(c, page);
		from++;
	}
	lru_add_drain(c);
	machine_path(c, outer);
}

void file_put(struct cpu *c, struct mfile *f)
{
	struct quire *q = f->q;
	int32_t now = __atomic_sub_fetch(&f->refs, 1, __ATOMIC_ACQ_REL);

	ASSERT(now >= 0);
	machine_touch(c, machine_pa(c->m, &f->refs), sizeof(f->refs), TOUCH_ATOMIC);
	if (now)
		return;
	ASSERT(interval_empty(&f->i_mmap));
	machine_lock(c, &q->file_lock);
	list_del(&f->link);
	machine_unlock(c, &q->file_lock);
	file_remove(c, f, 0);
	radix_free(c, &f->root);
	__atomic_sub_fetch(&q->committed_pages, f->committed, __ATOMIC_RELAXED);
	slab_free(c, SLAB_FILE, f);
}

void file_set_size(struct cpu *c, struct mfile *f, uint64_t size)
{
	uint64_t before;

	machine_lock(c, &f->lock);
	before = f->size;
	__atomic_store_n(&f->size, size, __ATOMIC_RELAXED);
	if (size < before)
		f->zero_from = MIN(f->zero_from, pages_of(size));
	machine_unlock(c, &f->lock);
	if (size < before)
		file_remove(c, f, pages_of(size));
}

void file_clean(struct cpu *c, struct mfile *f, uint64_t first, uint64_t last)
{
	struct frame *page;

	machine_lock(c, &f->lock);
	for (uint64_t i = first; (page = radix_next(c, &f->root, &i)) && i < last; i++)
		if (frame_flags(page) & FRAME_DIRTY) {
			frame_touch(c, page, TOUCH_ATOMIC);
			frame_clear(page, FRAME_DIRTY);
		}
	machine_unlock(c, &f->lock);
}

/* ---- readahead ---- */

/* Read what of [start, start + nr) is not there yet; trouble with these pages is nobody's error. */
static void ra_read(struct cpu *c, struct mfile *f, uint64_t start, uint64_t nr)
{
	uint64_t end = MIN(start + nr, file_pages(f));

	for (uint64_t i = start; i < end; i++) {
		if (radix_lookup(c, &f->root, i))
			continue;
		int err = file_add(c, f, i, FILL_READ, NULL);

		if (err == -ENOMEM || err == -ENXIO)
			return;
		if (!err)
			vmstat_inc(c, VM_quire_file_readahead_pages);
	}
}

static void ra_window(struct cpu *c, struct mfile *f, uint64_t start, uint64_t size, uint64_t mark)
{
	uint64_t pages = file_pages(f), ahead = start + size - mark;

	hint_set(&f->ra_next, start + size);
	hint_set(&f->ra_size, size);
	/* The mark is as far from the end of what there is to read as it would be from the window's; there may be less than that. */
	if (mark != RA_NO_MARK && start + size > pages)
		mark = pages >= start + ahead ? pages - ahead : RA_NO_MARK;
	hint_set(&f->ra_mark, mark);
	ra_read(c, f, start, size);
}

static uint64_t ra_max(const struct mfile *f)
{
	return (uint64_t)f->q->knobs.read_ahead_kb << 10 >> PAGE_SHIFT;
}

static uint64_t ra_larger(const struct mfile *f, uint64_t size)
{
	return MIN(MAX(size * 2, RA_FIRST_PAGES), ra_max(f));
}

/* read(2) missed the page at index. */
static void ra_miss_read(struct cpu *c, struct mfile *f, uint64_t index)
{
	uint64_t size = hint_get(&f->ra_size), next = hint_get(&f->ra_next);

	if (size && index == next) {
		size = ra_larger(f, size);
		ra_window(c, f, index, size, index + size / 2);
	} else if (!index) {
		ra_window(c, f, 0, MIN(RA_FIRST_PAGES, ra_max(f)), 1);
	} else {
		/* Random so far: if the next page is read next, that is a sequence. */
		hint_set(&f->ra_next, index + 1);
		hint_set(&f->ra_size, 1);
		hint_set(&f->ra_mark, RA_NO_MARK);
	}
}

/* The page at index was missing and has been read: what else to read? end: behind the last page that the mapping has. */
static void ra_miss(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end)
{
	uint64_t max = ra_max(f), start;

	if (!max || ra == FILE_RA_NONE)
		return;
	switch (ra) {
	case FILE_RA_AROUND:
		start = index > max / 2 ? index - max / 2 : 0;
		ra_window(c, f, start, max, start + max - max / 4);
		break;
	case FILE_RA_SEQUENTIAL:
		if (index)
			ra_read(c, f, index, max);
		else
			ra_window(c, f, 0, max, max / 2);
		break;
	case FILE_RA_FORWARD:
		ra_window(c, f, index, MIN(max, end - index), RA_NO_MARK);
		break;
	default:
		ra_miss_read(c, f, index);
	}
}

/* The page at index is being used. */
static void ra_hit(struct cpu *c, struct mfile *f, uint64_t index)
{
	uint64_t next, size;

	if (likely(!file_ra_marked(f, index)))
		return;
	next = hint_get(&f->ra_next);
	size = ra_larger(f, hint_get(&f->ra_size));
	ra_window(c, f, next, size, next);
}

/* ---- use ---- */

static int get_page(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end, enum page_fill fill,
		    struct frame **ret, bool *ret_major)
{
	bool read = fill == FILL_READ;

	*ret_major = false;
	for (;;) {
		int err;

		if (index >= file_pages(f))
			return -ENXIO;
		*ret = file_lookup(c, f, index);
		if (*ret) {
			if (read && ra != FILE_RA_NONE)
				ra_hit(c, f, index);
			return 0;
		}
		err = file_add(c, f, index, fill, ret);
		if (!err) {
			*ret_major = read;
			if (read)
				ra_miss(c, f, index, ra, end);
			return 0;
		}
		if (err != -EEXIST)
			return err;
	}
}

int file_get_page(struct cpu *c, struct mfile *f, uint64_t index, struct frame **ret, bool *ret_major)
{
	return file_get_page_ra(c, f, index, FILE_RA_AROUND, 0, ret, ret_major);
}

int file_get_page_ra(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end, struct frame **ret, bool *ret_major)
{
	return get_page(c, f, index, ra, end, f->shmem ? FILL_ZERO : FILL_READ, ret, ret_major);
}

void file_read_range(struct cpu *c, struct mfile *f, uint64_t index, uint64_t nr)
{
	if (!f->shmem && index < file_pages(f))
		ra_read(c, f, index, MIN(nr, ra_max(f)));
}

/*
 * Memory-backed files: a write does, and a read from the page's beginning. Others: a read that is not the continuation of the last one within the
 * page, and no write.
 */
static bool rw_counts_as_use(const struct mfile *f, uint64_t index, uint64_t off, bool write)
{
	uint64_t last = hint_get(&f->last_read);

	if (f->shmem)
		return write || !off;
	return !write && (!last || (last - 1) >> PAGE_SHIFT != index);
}

/*
 * Read or write n bytes of one page, from byte `off` of it. old_pages: how many pages the file had before this write.
 */
static int rw_page(struct cpu *c, struct mfile *f, uint64_t index, uint64_t off, uint64_t n, bool write,
		   uint64_t old_pages)
{
	/* Beyond the old end there is nothing to read, but what the write leaves of the page must be zero. */
	enum page_fill fill = write && n == PAGE_SIZE ? FILL_LATER :
			      f->shmem || (write && index >= old_pages) ? FILL_ZERO : FILL_READ;
	enum machine_path outer;
	bool major;
	struct frame *page;
	pfn_t p;
	int err = 0;

	if (f->shmem && !write) {
		page = file_lookup(c, f, index);
		if (!page)
			return 0; /* what was never written is read as zeros, and stays away */
	} else {
		err = get_page(c, f, index, FILE_RA_READ, 0, fill, &page, &major);
		if (err)
			return err;
	}
	p = frame_pfn(c->m, page);
	outer = machine_work(c, PATH_KERNEL_COPY, 0);
	machine_touch(c, pfn_to_paddr(p) + off, n, write ? TOUCH_WRITE : TOUCH_READ);
	machine_path(c, outer);
	if (write) {
		set_contents(c->m, p, written_tag(f, index));
		frame_set(page, FRAME_DIRTY);
	}
	if (rw_counts_as_use(f, index, off, write))
		folio_mark_accessed(c, page);
	frame_put(c, page);
	return 0;
}

int file_rw(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t len, bool write)
{
	uint64_t end = offset + len, old_pages;

	if (end < offset)
		return -EINVAL;
	if (!len)
		return 0;
	machine_lock(c, &f->lock);
	old_pages = file_pages(f);
	if (write && end > f->size)
		__atomic_store_n(&f->size, end, __ATOMIC_RELAXED);
	end = MIN(end, f->size);
	machine_unlock(c, &f->lock);
	while (offset < end) {
		uint64_t off = offset & ~PAGE_MASK, n = MIN(PAGE_SIZE - off, end - offset);
		int err = rw_page(c, f, offset >> PAGE_SHIFT, off, n, write, old_pages);

		if (err == -ENXIO) /* somebody truncated it meanwhile */
			return 0;
		if (err)
			return err;
		offset += n;
		if (!write)
			hint_set(&f->last_read, offset);
	}
	return 0;
}

/* ---- checks ---- */

static int invalid(struct quire *q, const struct mfile *f, const char *what, uint64_t index)
{
	struct text t = text_into(q->err, sizeof(q->err));

	text_str(&t, "page cache: ");
	text_str(&t, what);
	text_field(&t, "file", f->id);
	text_field(&t, "index", index);
	return -EINVAL;
}

static int file_check(struct quire *q, struct mfile *f)
{
	uint64_t nr = 0, i = 0;
	struct frame *page;

	if (f->refs <= 0)
		return invalid(q, f, "a file without references", 0);
	for (; (page = radix_next(NULL, &f->root, &i)); i++, nr++) {
		if (!(frame_flags(page) & FRAME_FILE) || page->file != f || page->index != i || page->refcount < 1)
			return invalid(q, f, "a page that does not know where it is (C1)", i);
		if (i >= file_pages(f))
			return invalid(q, f, "a page beyond the end (C3)", i);
	}
	return nr == f->nr_pages ? 0 : invalid(q, f, "nr_pages differs from the tree (C1)", nr);
}

int file_validate(struct quire *q)
{
	uint64_t pages = 0, shmem = 0;
	struct mfile *f;

	list_for_each_entry(f, &q->files, link) {
		if (file_check(q, f))
			return -EINVAL;
		pages += f->nr_pages;
		shmem += f->shmem ? f->nr_pages : 0;
	}
	if ((int64_t)pages != vmstat_read(q, VM_nr_file_pages) || (int64_t)shmem != vmstat_read(q, VM_nr_shmem)) {
		struct text t = text_into(q->err, sizeof(q->err));

		text_str(&t, "page cache: nr_file_pages or nr_shmem differs from the files' pages (C2)");
		text_field(&t, "pages", pages);
		text_field(&t, "shmem", shmem);
		return -EINVAL;
	}
	return 0;
}
