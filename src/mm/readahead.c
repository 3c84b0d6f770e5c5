/*
 * What is read of a file ahead of use, after Linux 6.11 and later: windows of at most bdi.read_ahead_kb (32 pages by default), one of whose pages
 * carries a mark.
 *
 *   a miss by a mapping         a window around it, half of it before; MADV_RANDOM: nothing; MADV_SEQUENTIAL: as read(2) of a whole window; executable:
 *                               a window from it on, up to the mapping's end
 *   a miss by read(2) at the    a first window, two to four times what is wanted, marked behind that
 *     start of the file, where
 *     the last read ended, or
 *     of more than a window
 *   ... behind more cached      a window as long as those and what is wanted, marked at its last page
 *     pages than are wanted
 *   ... elsewhere               what is wanted
 *   use of a marked page        the next window, twice to four times as large, marked at its start
 *
 * The state is a hint: CPUs may race on it, nothing depends on it. Memory-backed files have none.
 *
 * With quire.readahead_resumes, as before 6.11, a miss where the last window ended is its continuation too.
 *
 * With quire.readahead_folios windows are read as a file system does that has large folios: each window in folios four times as large as the last,
 * so that it ends at a multiple of their size, and its mark counts from its start, although the file may end before. Without, it counts from the end
 * of what there is to read. The engine's page cache has pages in any case; a file of which a folio would have had more than one is noted (ra_folios).
 */
#include "mm/file_int.h"

#include "base/errno.h"
#include "mm/radix.h"
#include "mm/system.h"

#define RA_MAX_ORDER 9 /* of a folio: 2 MiB */

struct window {
	uint64_t start, size, ahead; /* pages; how far from the end the mark is */
};

uint64_t ra_max(const struct mfile *f)
{
	return (uint64_t)f->q->knobs.read_ahead_kb << 10 >> PAGE_SHIFT;
}

/* Read [start, end), but what is there already; trouble with these pages is nobody's error. true: one was there, at *ret, where it ends if `stop`. */
static bool read_range(struct cpu *c, struct mfile *f, uint64_t start, uint64_t end, uint64_t mark, bool stop, uint64_t *ret)
{
	end = MIN(end, file_pages(f));
	for (uint64_t i = start; i < end; i++) {
		int err = radix_lookup(c, &f->root, i) ? -EEXIST : file_read_ahead(c, f, i, i == mark);

		if (err == -EEXIST && stop) {
			*ret = i;
			return true;
		}
		if (err == -ENOMEM || err == -ENXIO)
			return false;
		if (!err)
			vmstat_inc(c, VM_quire_file_readahead_pages);
	}
	return false;
}

/* Page by page: the mark is `ahead` pages before the end of the window, or of the file. */
static void read_pages(struct cpu *c, struct mfile *f, uint64_t start, uint64_t size, uint64_t ahead)
{
	uint64_t pages = file_pages(f), nr = start < pages ? MIN(size, pages - start) : 0;

	(void)read_range(c, f, start, start + nr, ahead && ahead <= nr ? start + nr - ahead : UINT64_MAX, false, NULL);
}

static void read_window(struct cpu *c, struct mfile *f, const struct window *w, unsigned order)
{
	uint64_t at = w->start;

	file_hint_set(&f->ra_start, w->start);
	file_hint_set(&f->ra_size, w->size);
	file_hint_set(&f->ra_ahead, w->ahead);
	if (f->q->knobs.readahead_folios) {
		/* From the first page that is there on it goes on page by page. */
		order = MIN(order, RA_MAX_ORDER);
		while (order && 1ULL << order > w->size)
			order--;
		file_hint_set(&f->ra_order, order);
		if (order && w->start < file_pages(f))
			file_hint_set(&f->ra_folios, 1);
		if (!read_range(c, f, w->start, w->start + w->size, ALIGN_DOWN(w->start + w->size - w->ahead, 1ULL << order), true, &at))
			return;
	}
	read_pages(c, f, at, w->start + w->size - at, w->ahead);
}

/* ---- sizes ---- */

static uint64_t first_size(uint64_t nr, uint64_t max)
{
	uint64_t size = 1;

	while (size < nr && size < max)
		size *= 2;
	return size <= max / 32 ? size * 4 : size <= max / 4 ? size * 2 : max;
}

static uint64_t next_size(uint64_t size, uint64_t max)
{
	return size < max / 16 ? size * 4 : size <= max / 2 ? size * 2 : max;
}

/* ---- misses ---- */

/* How many pages before index are cached without a gap, up to max. */
static uint64_t cached_before(struct cpu *c, struct mfile *f, uint64_t index, uint64_t max)
{
	uint64_t n = 0;

	while (n < max && n < index && radix_lookup(c, &f->root, index - 1 - n))
		n++;
	return n;
}

/* Where the last window, or what of it lies before the mark, ended: the next one. */
static bool continues(const struct mfile *f, uint64_t index, uint64_t max, struct window *w)
{
	uint64_t start = file_hint_get(&f->ra_start), size = file_hint_get(&f->ra_size);

	if (!index || !size || (index != start + size && index != start + size - file_hint_get(&f->ra_ahead)))
		return false;
	*w = (struct window){ .start = start + size, .size = next_size(size, max) };
	w->ahead = w->size;
	return true;
}

/* A window whose mark is the page that is missing would be followed by the next at once: they are one. */
static void merge_next(struct window *w, uint64_t max)
{
	uint64_t add = next_size(w->size, max);

	if (w->size != w->ahead)
		return;
	w->ahead = w->size + add <= max ? add : max / 2;
	w->size = MIN(w->size + add, max);
}

void ra_miss_read(struct cpu *c, struct mfile *f, uint64_t index, uint64_t nr)
{
	uint64_t max = ra_max(f), last = file_hint_get(&f->last_read), before;
	struct window w = { .start = index };

	if (!max) {
		(void)read_range(c, f, index, index + 1, UINT64_MAX, false, NULL);
		return;
	}
	if (f->q->knobs.readahead_resumes && continues(f, index, max, &w)) {
		merge_next(&w, max);
	} else if (!index || nr > max || (last && index - (last >> PAGE_SHIFT) <= 1)) {
		w.size = first_size(nr, max);
		w.ahead = w.size > nr ? w.size - nr : f->q->knobs.readahead_resumes ? w.size : w.size / 2;
		if (f->q->knobs.readahead_resumes)
			merge_next(&w, max);
	} else {
		before = cached_before(c, f, index, max);
		if (before <= nr) {
			read_pages(c, f, index, nr, 0);
			return;
		}
		if (before == index) /* all of the file so far */
			before *= 2;
		w.size = MIN(before + nr, max);
		w.ahead = 1;
	}
	read_window(c, f, &w, 0);
}

void ra_miss_mapped(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end)
{
	uint64_t max = ra_max(f);
	struct window w = { .start = index, .size = max };

	if (!max)
		return;
	switch (ra) {
	case FILE_RA_AROUND:
		w.start = index > max / 2 ? index - max / 2 : 0;
		w.ahead = max / 4;
		break;
	case FILE_RA_SEQUENTIAL:
		ra_miss_read(c, f, index, max);
		return;
	case FILE_RA_FORWARD:
		w.size = MIN(max, end - index);
		break;
	default:
		return;
	}
	read_window(c, f, &w, 0);
}

/* ---- marks ---- */

/* The first page from index on that is not there, or behind max of them. */
static uint64_t next_missing(struct cpu *c, struct mfile *f, uint64_t index, uint64_t max)
{
	uint64_t n = 0;

	while (n < max && radix_lookup(c, &f->root, index + n))
		n++;
	return index + n;
}

void ra_use(struct cpu *c, struct mfile *f, struct frame *page, uint64_t nr)
{
	uint64_t max = ra_max(f), index = page->index, end;
	struct window w = { .start = file_hint_get(&f->ra_start), .size = file_hint_get(&f->ra_size) };
	uint64_t order = file_hint_get(&f->ra_order);

	if (likely(!(frame_flags(page) & FRAME_READAHEAD)) || !max)
		return;
	frame_clear(page, FRAME_READAHEAD);
	if (index == ALIGN_DOWN(w.start + w.size - file_hint_get(&f->ra_ahead), 1ULL << order)) {
		w.start += w.size;
		w.size = MAX(w.size, next_size(w.size, max));
	} else {
		w.start = next_missing(c, f, index + 1, max);
		if (w.start - index > max)
			return;
		w.size = next_size(w.start - index + nr, max);
	}
	if (f->q->knobs.readahead_folios) {
		order = MIN(order + 2, (uint64_t)__builtin_ctzll(max));
		end = ALIGN_DOWN(w.start + w.size, 1ULL << order);
		if (end > w.start)
			w.size = end - w.start;
	}
	w.ahead = w.size;
	read_window(c, f, &w, (unsigned)order);
}
