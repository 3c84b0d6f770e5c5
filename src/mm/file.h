/*
 * A file: an object with a page cache and no bytes of its own. Frames are "read from nowhere but counted".
 * Radix tree of frames by page index (radix.c). Additions and removals under file->lock (rank FILE); lookups take no
 * lock, as in Linux: a node lives as long as its file, and a frame's reference is taken only from above zero and then
 * checked again. A page-cache frame's tag on first read is file_tag(file, index), so that contents can be checked.
 *
 * Invariants
 *  C1 A cached frame has FRAME_FILE, file and index set and one reference of the cache's; nr_pages counts them.
 *  C2 nr_file_pages is the sum of nr_pages over all files, nr_shmem that over memory-backed ones.
 *  C3 No page at or beyond the end of the file is cached.
 *  C4 A page leaves its cache under its folio lock. So who has locked a page, and finds FRAME_FILE set, may use its file and what maps it.
 */
#ifndef QUIRE_MM_FILE_H
#define QUIRE_MM_FILE_H

#include "mm/frame.h"
#include "mm/interval.h"

struct radix_node;

struct mfile {
	struct mlock lock;
	struct mrwlock i_mmap_lock;
	struct interval_tree i_mmap; /* areas that map it, by the pages of it that they cover (anon_vma.h) */
	struct quire *q;
	struct list_head link;   /* q->files */
	int32_t refs;            /* atomic */
	uint64_t id;             /* the caller's identity for it (device and inode hashed), or unique */
	uint64_t size;           /* bytes: access beyond the last page is SIGBUS */
	bool shmem;              /* memory-backed: tmpfs, memfd, MAP_SHARED|MAP_ANONYMOUS: pages are zero at first */
	uint64_t nr_pages;       /* cached */
	struct radix_node *root; /* see radix.h */
	/*
	 * readahead, private to readahead.c: the last window's first page, its pages, how many of them from the mark on; the order of
	 * its folios; whether any were of more than one page
	 */
	uint64_t ra_start, ra_size, ra_ahead, ra_order, ra_folios;
	uint64_t committed;      /* pages of q->committed_pages that the object holds until its end (shared anonymous memory) */
	uint64_t zero_from;      /* pages from here on were cut off once, or came when the file grew: they are zero */
	uint64_t last_read;      /* the byte before which the last read(2) ended, a hint: of a page that is read on nothing new is said */
	uint64_t writes;         /* how many writes so far: contents tags of written pages */
};

/* A new file with one reference. id 0: a unique one. -ENOMEM. */
int file_create(struct cpu *c, struct quire *q, uint64_t id, uint64_t size, bool shmem, struct mfile **ret);
static inline void file_get(struct mfile *f)
{
	__atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
}
/* The last put drops the page cache too. */
void file_put(struct cpu *c, struct mfile *f);
/*
 * The cache page at index, brought in if absent; a reference is taken for the caller. *ret_major: it had to be "read".
 * -ENOMEM, -EIO when it cannot be read, or -ENXIO beyond the end of file.
 */
int file_get_page(struct cpu *c, struct mfile *f, uint64_t index, struct frame **ret, bool *ret_major);
/* What is read with a page that is missing. */
enum file_ra {
	FILE_RA_AROUND,     /* what lies around it: faults */
	FILE_RA_NONE,       /* nothing: MADV_RANDOM */
	FILE_RA_SEQUENTIAL, /* a whole window from it on: MADV_SEQUENTIAL */
	FILE_RA_FORWARD,    /* the same, but not beyond what is mapped: executable mappings */
};
/* The same for a mapping of pages up to index `end`. */
int file_get_page_ra(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end, struct frame **ret, bool *ret_major);
/* Bring in nr pages from index on, as far as one window goes: MADV_WILLNEED. */
void file_read_range(struct cpu *c, struct mfile *f, uint64_t index, uint64_t nr);
/* Is the next window due when the page at index is used? Then it is not mapped before somebody does. */
bool file_ra_marked(struct cpu *c, struct mfile *f, uint64_t index);
/* Only if cached, with a reference; NULL otherwise. Takes no lock. */
struct frame *file_lookup(struct cpu *c, struct mfile *f, uint64_t index);
/*
 * dst, which nobody knows yet, takes the place of src, which is locked and not mapped, in the cache of src's file; the caller has a
 * reference on each, and the cache's goes from src to dst. 0, or -EAGAIN: somebody else holds src, or it has left the cache.
 */
int file_replace(struct cpu *c, struct frame *src, struct frame *dst);
/*
 * Out of its cache, if it is clean, has what file_tag says (else nobody could give its contents back), and nobody but the cache and the caller, who has locked it, has a reference: both are gone then
 * (refcount 0), and the page is the caller's to free. Its file must not go away meanwhile.
 */
bool file_drop(struct cpu *c, struct frame *page);
/*
 * ftruncate: whoever maps pages beyond the new end loses them, private copies included. 0, or -ENOMEM with nothing done. No address space comes or goes
 * meanwhile (file_map.c).
 */
int file_truncate(struct cpu *c, struct mfile *f, uint64_t size);
/*
 * fsync of nr pages from `first` on: they are clean afterwards, and shared mappings will notice the next write. Nothing to do for memory-backed files.
 * 0 or -ENOMEM. The same condition.
 */
int file_sync(struct cpu *c, struct mfile *f, uint64_t first, uint64_t nr);
/* The cache's part of it: pages [first, last) are clean. No mapping has them dirty. */
void file_clean(struct cpu *c, struct mfile *f, uint64_t first, uint64_t last);
/* Drops cached pages beyond; mappings of them must be gone. */
void file_set_size(struct cpu *c, struct mfile *f, uint64_t size);
/* What a page of an ordinary file holds before anybody writes to it: never 0, but where the file was cut off and has grown again. */
uint64_t file_tag(const struct mfile *f, uint64_t index);
/*
 * read(2)/write(2) on a regular file: page cache side only (brings pages in, charges their lines, dirties them).
 * The user side is mm_copy_user. A read ends at the end of the file, a write moves it. 0, -ENOMEM, -EIO, or -EINVAL (offset
 * + len overflows).
 */
int file_rw(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t len, bool write);
/*
 * read(2) piece by piece, for a caller that copies each to a place which may not be there. What is read ahead goes by all that is wanted.
 *
 *   struct file_reading r = file_read_begin(f, offset, len);
 *   while (more) { err = file_read_next(c, &r, n); copy n bytes; file_read_copied(&r, as many as were copied); }
 *   file_read_end(&r);
 *
 * A piece is inside of one page. 0, -ENOMEM, -EIO, or -ENXIO behind the end of the file.
 */
struct file_reading {
	struct mfile *f;
	uint64_t at, end, last;
	uint64_t batch; /* pages up to here have been looked for */
};
struct file_reading file_read_begin(struct mfile *f, uint64_t offset, uint64_t len);
int file_read_next(struct cpu *c, struct file_reading *r, uint64_t n);
void file_read_copied(struct file_reading *r, uint64_t n);
void file_read_end(struct file_reading *r);
/* A write of len bytes is coming, perhaps in pieces: Linux may make larger folios for it (ra_folios). */
void file_note_write(struct mfile *f, uint64_t len);
/*
 * What write(2) of n bytes inside of one page does before it finds that the memory to be written is not there, and brings it in
 * (quire.write_begins_first): the file reaches up to offset, and the page is in the cache, in a memory-backed file as one that was written to, in
 * an ordinary one without contents when all of it is to be overwritten. 0, -ENOMEM or -EIO.
 */
ATTR_MUST_CHECK int file_write_begin(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t n);
/* C1 to C3 of all files. 0 or -EINVAL with q->err set. */
int file_validate(struct quire *q);

#endif
