/*
 * Files and their page cache: lookup, bringing pages in, read and write, truncation. file.h has the
 * invariants C1 to C3.
 *
 * A page is "read" by a device: its content tag appears in the frame without the CPU touching a line, so nothing is
 * charged for the transfer itself, no device time is modelled, and pgpgin counts it. What a CPU does pay is finding,
 * allocating and entering the page.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "base/rng.h"
#include "mm/file_int.h"
#include "mm/lru.h"
#include "mm/radix.h"
#include "mm/system.h"
#include "mm/text.h"

#define BATCH_PAGES 31 /* read(2) looks at once for as many */

#define FILE_GFP (GFP_HIGHUSER_MOVABLE | GFP_NOWARN)

static uint64_t pages_of(uint64_t size)
{
	return (size >> PAGE_SHIFT) + !IS_ALIGNED(size, PAGE_SIZE);
}

uint64_t file_pages(const struct mfile *f)
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

static struct frame *lookup_any(struct cpu *c, struct mfile *f, uint64_t index)
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

struct frame *file_lookup(struct cpu *c, struct mfile *f, uint64_t index)
{
	struct frame *page = lookup_any(c, f, index);

	if (page && unlikely(frame_flags(page) & FRAME_UNREAD)) {
		frame_put(c, page);
		page = NULL;
	}
	return page;
}

/* What a new page of the cache holds at first. */
enum page_fill {
	FILL_ZERO,
	FILL_READ,  /* what the device has */
	FILL_MARKED, /* the same, and its use starts the next window */
	FILL_LATER, /* nothing: the caller overwrites the whole page at once */
	FILL_UNREAD, /* nothing, and nobody has it until somebody reads it or overwrites it */
};

/* A frame that will be the page at index. refcount 1: the cache's. */
static struct frame *page_new(struct cpu *c, struct mfile *f, uint64_t index, enum page_fill fill)
{
	struct mm *mm = percpu_lazy(c->pc) ? NULL : percpu_mm(c->pc);
	struct frame *page = mpol_alloc_task(c, mm, 0, FILE_GFP | (fill == FILL_ZERO ? GFP_ZERO : 0));

	if (!page)
		return NULL;
	frame_flags_put(page, frame_flags(page) | FRAME_FILE | (f->shmem ? FRAME_SWAPBACKED : 0));
	page->index = index;
	__atomic_store_n(&page->mapping, (uint64_t)(uintptr_t)f, __ATOMIC_RELEASE);
	if (fill == FILL_MARKED || fill == FILL_UNREAD)
		frame_flags_put(page, frame_flags(page) | (fill == FILL_MARKED ? FRAME_READAHEAD : FRAME_UNREAD));
	if (fill == FILL_READ || fill == FILL_MARKED) {
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
	frame_clear(page, FRAME_FILE | FRAME_DIRTY | FRAME_REFERENCED | FRAME_READAHEAD | FRAME_UNREAD | FRAME_REWRITTEN);
}

/* 0, -ENOMEM, -EEXIST, -ENXIO. */
static int page_enter(struct cpu *c, struct mfile *f, uint64_t index, struct frame *page)
{
	int err = radix_preload(c);

	if (err)
		return err;
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
		err = (fill == FILL_READ || fill == FILL_MARKED) && machine_inject(c, INJECT_IO, PAGE_SIZE) ? -EIO : page_enter(c, f, index, page);
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
	int64_t shmem = f->shmem; /* the file may go once the page is out of it */
	bool ok;

	machine_lock(c, &f->lock);
	frame_touch(c, page, TOUCH_ATOMIC);
	ok = (frame_flags(page) & (FRAME_FILE | FRAME_DIRTY | FRAME_REWRITTEN)) == FRAME_FILE &&
	     __atomic_compare_exchange_n(&page->refcount, &refs, 0, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
	if (ok) {
		(void)radix_erase(c, &f->root, page->index);
		f->nr_pages--;
		page_forget(page);
	}
	machine_unlock(c, &f->lock);
	if (ok) {
		vmstat_add(c, VM_nr_file_pages, -1);
		vmstat_add(c, VM_nr_shmem, -shmem);
	}
	machine_path(c, outer);
	return ok;
}

/*
 * Take the first page from *from on out of the tree. NULL: there is none. Whoever has a page locked that is in a cache may use its file, so the
 * page's lock is needed: if it can't be had at once, *ret_busy is that page, with a reference.
 */
static struct frame *remove_next(struct cpu *c, struct mfile *f, uint64_t *from, struct frame **ret_busy)
{
	struct frame *page;

	*ret_busy = NULL;
	machine_lock(c, &f->lock);
	page = radix_next(c, &f->root, from);
	if (page && !folio_trylock(c, page)) {
		frame_get(c, page);
		*ret_busy = page;
	} else if (page) {
		(void)radix_erase(c, &f->root, *from);
		f->nr_pages--;
		/* Under the lock, so that a validator never sees a page outside of the tree that says it is inside. */
		page_forget(page);
	}
	machine_unlock(c, &f->lock);
	return page;
}

/* Drop the cached pages from index `from` on. */
static void file_remove(struct cpu *c, struct mfile *f, uint64_t from)
{
	enum machine_path outer = machine_work(c, PATH_FILE_REMOVE, 0);
	struct frame *page, *busy;

	while ((page = remove_next(c, f, &from, &busy))) {
		if (busy) {
			folio_wait_locked(c, busy);
			frame_put(c, busy);
			continue;
		}
		folio_unlock(c, page);
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
	/* What was cut off, or is new, is a hole. */
	f->zero_from = MIN(f->zero_from, pages_of(MIN(size, before)));
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
			frame_set(page, FRAME_REWRITTEN);
		}
	machine_unlock(c, &f->lock);
}

int file_read_ahead(struct cpu *c, struct mfile *f, uint64_t index, bool marked)
{
	return file_add(c, f, index, marked ? FILL_MARKED : FILL_READ, NULL);
}

/* ---- use ---- */

/* A page that was made for a write which did not come: it gets its contents now, or the caller is about to overwrite it. */
static void fill_unread(struct cpu *c, struct mfile *f, struct frame *page, enum page_fill fill)
{
	machine_lock(c, &f->lock);
	if (frame_flags(page) & FRAME_UNREAD) {
		if (fill == FILL_READ) {
			set_contents(c->m, frame_pfn(c->m, page), file_tag(f, page->index));
			vmstat_add(c, VM_pgpgin, PAGE_SIZE / 1024);
		}
		frame_clear(page, FRAME_UNREAD);
	}
	machine_unlock(c, &f->lock);
}

static int get_page(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end, enum page_fill fill,
		    struct frame **ret, bool *ret_major)
{
	bool read = fill == FILL_READ;

	*ret_major = false;
	for (;;) {
		int err;

		if (index >= file_pages(f))
			return -ENXIO;
		*ret = lookup_any(c, f, index);
		if (*ret && unlikely(frame_flags(*ret) & FRAME_UNREAD) && fill != FILL_UNREAD)
			fill_unread(c, f, *ret, fill);
		if (*ret) {
			if (read && ra != FILE_RA_NONE)
				ra_use(c, f, *ret, ra_max(f));
			return 0;
		}
		err = file_add(c, f, index, fill, ret);
		if (!err) {
			*ret_major = read;
			if (read)
				ra_miss_mapped(c, f, index, ra, end);
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
	uint64_t end = f->shmem ? 0 : MIN(index + MIN(nr, ra_max(f)), file_pages(f));

	for (uint64_t i = index; i < end; i++) {
		int err = radix_lookup(c, &f->root, i) ? -EEXIST : file_read_ahead(c, f, i, false);

		if (err == -ENOMEM || err == -ENXIO)
			return;
		if (!err)
			vmstat_inc(c, VM_quire_file_readahead_pages);
	}
}

bool file_ra_marked(struct cpu *c, struct mfile *f, uint64_t index)
{
	const struct frame *page = radix_lookup(c, &f->root, index);

	return page && (frame_flags(page) & FRAME_READAHEAD);
}

/* ---- read and write ---- */

static void copy_lines(struct cpu *c, const struct frame *page, uint64_t off, uint64_t n, bool write)
{
	enum machine_path outer = machine_work(c, PATH_KERNEL_COPY, 0);

	machine_touch(c, pfn_to_paddr(frame_pfn(c->m, page)) + off, n, write ? TOUCH_WRITE : TOUCH_READ);
	machine_path(c, outer);
}

/*
 * Look for what is cached from r->at on, as far as it is wanted; where that ends with a marked page the next window is read. What is missing at its
 * start is read with what is wanted behind it. 0, or what kept the first page from coming.
 */
static int next_batch(struct cpu *c, struct file_reading *r)
{
	struct mfile *f = r->f;
	uint64_t first = r->at >> PAGE_SHIFT, last = (r->end - 1) >> PAGE_SHIFT, i = first;
	bool marked = false;

	if (!radix_lookup(c, &f->root, i)) {
		int err;

		ra_miss_read(c, f, i, last - i + 1);
		err = radix_lookup(c, &f->root, i) ? 0 : file_read_ahead(c, f, i, false);
		if (err && err != -EEXIST)
			return err;
	}
	for (; i <= last && i - first < BATCH_PAGES && !marked; i++) {
		struct frame *page = radix_lookup(c, &f->root, i);

		if (!page)
			break;
		marked = frame_flags(page) & FRAME_READAHEAD;
		page = marked ? file_lookup(c, f, i) : NULL;
		if (page) {
			ra_use(c, f, page, last - i + 1);
			frame_put(c, page);
		}
	}
	r->batch = i;
	return 0;
}

/* A read that is not the continuation of the last one within its page is a use of it; of a memory-backed file one from the page's beginning. */
static bool read_is_use(const struct file_reading *r, uint64_t off)
{
	uint64_t last = r->last;

	return r->f->shmem ? !off : !last || (last - 1) >> PAGE_SHIFT != r->at >> PAGE_SHIFT;
}

struct file_reading file_read_begin(struct mfile *f, uint64_t offset, uint64_t len)
{
	return (struct file_reading){ .f = f, .at = offset, .end = offset + len, .last = file_hint_get(&f->last_read) };
}

int file_read_next(struct cpu *c, struct file_reading *r, uint64_t n)
{
	uint64_t index = r->at >> PAGE_SHIFT, off = r->at & ~PAGE_MASK;
	struct frame *page = NULL;

	if (index >= file_pages(r->f))
		return -ENXIO;
	while (!r->f->shmem && !page) {
		int err = index < r->batch ? 0 : next_batch(c, r);

		if (err)
			return err;
		page = lookup_any(c, r->f, index);
		if (page && unlikely(frame_flags(page) & FRAME_UNREAD))
			fill_unread(c, r->f, page, FILL_READ);
		r->batch = page ? r->batch : 0; /* somebody took it away */
	}
	if (r->f->shmem)
		page = file_lookup(c, r->f, index);
	if (!page) /* what was never written is read as zeros, and stays away */
		return 0;
	copy_lines(c, page, off, n, false);
	if (read_is_use(r, off))
		folio_mark_accessed(c, page);
	frame_put(c, page);
	return 0;
}

void file_read_copied(struct file_reading *r, uint64_t n)
{
	r->at += n;
	if (n)
		r->last = r->at;
}

void file_read_end(struct file_reading *r)
{
	file_hint_set(&r->f->last_read, r->last);
}

static int read_all(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t end, uint64_t wanted)
{
	struct file_reading r = file_read_begin(f, offset, wanted);
	int err = 0;

	while (!err && r.at < end) {
		uint64_t n = MIN(PAGE_SIZE - (r.at & ~PAGE_MASK), end - r.at);

		err = file_read_next(c, &r, n);
		file_read_copied(&r, err ? 0 : n);
	}
	file_read_end(&r);
	return err;
}

/* The page that n bytes from `off` of it on are to be written to. old_pages: how many pages the file had before this write. */
static int page_to_write(struct cpu *c, struct mfile *f, uint64_t index, uint64_t n, uint64_t old_pages, struct frame **ret)
{
	/* Beyond the old end there is nothing to read, but what the write leaves of the page must be zero. */
	enum page_fill fill = n == PAGE_SIZE ? FILL_LATER : f->shmem || index >= old_pages ? FILL_ZERO : FILL_READ;
	bool major;

	return get_page(c, f, index, FILE_RA_NONE, 0, fill, ret, &major);
}

static int write_page(struct cpu *c, struct mfile *f, uint64_t index, uint64_t off, uint64_t n, uint64_t old_pages)
{
	struct frame *page;
	int err = page_to_write(c, f, index, n, old_pages, &page);

	if (err)
		return err;
	copy_lines(c, page, off, n, true);
	set_contents(c->m, frame_pfn(c->m, page), written_tag(f, index));
	frame_set(page, FRAME_DIRTY);
	if (f->shmem)
		folio_mark_accessed(c, page);
	frame_put(c, page);
	return 0;
}

int file_write_begin(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t n)
{
	uint64_t index = offset >> PAGE_SHIFT;
	struct frame *page;
	bool major;
	int err;

	machine_lock(c, &f->lock);
	if (offset > f->size) {
		f->zero_from = MIN(f->zero_from, pages_of(f->size));
		__atomic_store_n(&f->size, offset, __ATOMIC_RELAXED);
	}
	machine_unlock(c, &f->lock);
	if (index >= file_pages(f)) /* Linux has a page behind the end then */
		return 0;
	if (!f->shmem && n == PAGE_SIZE)
		err = get_page(c, f, index, FILE_RA_NONE, 0, FILL_UNREAD, &page, &major);
	else
		err = page_to_write(c, f, index, f->shmem ? 0 : n, file_pages(f), &page);
	if (err)
		return err;
	if (f->shmem) {
		frame_set(page, FRAME_DIRTY);
		folio_mark_accessed(c, page);
	}
	frame_put(c, page);
	return 0;
}

void file_note_write(struct mfile *f, uint64_t len)
{
	if (!f->shmem && len > PAGE_SIZE && f->q->knobs.readahead_folios)
		file_hint_set(&f->ra_folios, 1);
}

int file_rw(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t len, bool write)
{
	uint64_t end = offset + len, wanted = len, old_pages;
	int err = 0;

	if (end < offset)
		return -EINVAL;
	if (!len)
		return 0;
	machine_lock(c, &f->lock);
	old_pages = file_pages(f);
	if (write)
		file_note_write(f, len);
	if (write && end > f->size) {
		f->zero_from = MIN(f->zero_from, old_pages);
		__atomic_store_n(&f->size, end, __ATOMIC_RELAXED);
	}
	end = MIN(end, f->size);
	machine_unlock(c, &f->lock);
	if (offset >= end)
		return 0;
	if (!write)
		err = read_all(c, f, offset, end, wanted);
	for (uint64_t n; write && !err && offset < end; offset += n) {
		n = MIN(PAGE_SIZE - (offset & ~PAGE_MASK), end - offset);
		err = write_page(c, f, offset >> PAGE_SHIFT, offset & ~PAGE_MASK, n, old_pages);
	}
	return err == -ENXIO ? 0 : err; /* somebody truncated it meanwhile */
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
