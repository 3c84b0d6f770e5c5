/* Between file.c, which has the page cache, and readahead.c, which says what of a file is read ahead of use. Private to them. */
#ifndef QUIRE_MM_FILE_INT_H
#define QUIRE_MM_FILE_INT_H

#include "mm/file.h"

/* ---- file.c ---- */
static inline uint64_t file_hint_get(const uint64_t *p)
{
	return __atomic_load_n(p, __ATOMIC_RELAXED);
}

static inline void file_hint_set(uint64_t *p, uint64_t v)
{
	__atomic_store_n(p, v, __ATOMIC_RELAXED);
}

uint64_t file_pages(const struct mfile *f);
/* Read the page at index, which is not there, and enter it. marked: its use starts the next window. 0, -ENOMEM, -EEXIST, -ENXIO, -EIO. */
int file_read_ahead(struct cpu *c, struct mfile *f, uint64_t index, bool marked);

/* ---- readahead.c ---- */
/* The page at index, of nr that read(2) still wants, is missing: read what its history suggests. What it is about may still be missing afterwards. */
void ra_miss_read(struct cpu *c, struct mfile *f, uint64_t index, uint64_t nr);
/* The page at index was missing in a mapping that ends before page `end`, and has been read: what else to read? */
void ra_miss_mapped(struct cpu *c, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end);
/* A page is used, by somebody who wants nr from it on: the next window, if it is marked. */
void ra_use(struct cpu *c, struct mfile *f, struct frame *page, uint64_t nr);
/* How many pages a window may have. */
uint64_t ra_max(const struct mfile *f);

#endif
