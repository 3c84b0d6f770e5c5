/*
 * A file: an object with a page cache and no bytes of its own. Frames are "read from nowhere but counted".
 * Radix tree of frames by page index. Guarded by file->lock (rank FILE).
 * A page-cache frame's tag on first read is file_tag(file, index), so that contents can be checked.
 */
#ifndef QUIRE_MM_FILE_H
#define QUIRE_MM_FILE_H

#include "mm/frame.h"

struct mfile {
	struct mlock lock;
	struct quire *q;
	struct list_head link;   /* q->files */
	int32_t refs;            /* atomic */
	uint64_t id;             /* the caller's identity for it (device and inode hashed), or unique */
	uint64_t size;           /* bytes: access beyond the last page is SIGBUS */
	bool shmem;              /* memory-backed: tmpfs, memfd, MAP_SHARED|MAP_ANONYMOUS: pages are zero at first */
	uint64_t nr_pages;       /* cached */
	void *root;              /* radix tree, private to file.c */
	unsigned height;
	uint64_t ra_next;        /* readahead state, private */
};

/* A new file with one reference. -ENOMEM. */
int file_create(struct cpu *c, struct quire *q, uint64_t id, uint64_t size, bool shmem, struct mfile **ret);
static inline void file_get(struct mfile *f)
{
	__atomic_add_fetch(&f->refs, 1, __ATOMIC_RELAXED);
}
/* The last put drops the page cache too. */
void file_put(struct cpu *c, struct mfile *f);
/*
 * The cache page at index, brought in if absent; a reference is taken for the caller. *ret_major: it had to be "read".
 * -ENOMEM, or -ENXIO beyond the end of file.
 */
int file_get_page(struct cpu *c, struct mfile *f, uint64_t index, struct frame **ret, bool *ret_major);
/* Only if cached, with a reference; NULL otherwise. */
struct frame *file_lookup(struct cpu *c, struct mfile *f, uint64_t index);
void file_set_size(struct cpu *c, struct mfile *f, uint64_t size); /* truncation drops cached pages beyond; mappings must be gone */
uint64_t file_tag(const struct mfile *f, uint64_t index);
/*
 * read(2)/write(2) on a regular file: page cache side only (brings pages in, charges their lines, dirties them).
 * The user side is mm_copy_user.
 */
int file_rw(struct cpu *c, struct mfile *f, uint64_t offset, uint64_t len, bool write);

#endif
