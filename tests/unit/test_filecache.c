/*
 * The page cache: its radix tree against an array, contents, references, readahead, read and write, truncation,
 * running out.
 */
#include "booted.h"

#include "base/rng.h"
#include "mm/radix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t tag_of(struct booted *b, const struct frame *f)
{
	return b->m->tags[frame_pfn(b->m, f).v];
}

static struct frame *get(struct booted *b, struct mfile *f, uint64_t index, bool *major)
{
	struct frame *page = NULL;
	int err = file_get_page(b->c, f, index, &page, major);

	if (err)
		fail_msg("page %lu: error %d", (unsigned long)index, err);
	return page;
}

static struct mfile *make(struct booted *b, uint64_t id, uint64_t size, bool shmem)
{
	struct mfile *f = NULL;

	assert_int_equal(file_create(b->c, b->q, id, size, shmem, &f), 0);
	return f;
}

static bool cached(struct booted *b, struct mfile *f, uint64_t index)
{
	struct frame *page = file_lookup(b->c, f, index);

	if (page)
		frame_put(b->c, page);
	return page != NULL;
}

static uint64_t nr_cached(struct booted *b, struct mfile *f, uint64_t from, uint64_t to)
{
	uint64_t n = 0;

	for (uint64_t i = from; i < to; i++)
		n += cached(b, f, i);
	return n;
}

/* ---- the tree ---- */

/* Small and huge indices: the tree grows, and what is next is found across large holes. */
static void test_radix_random(void **state)
{
	enum { KEYS = 3000 };
	struct {
		uint64_t index;
		bool in;
	} *key = calloc(KEYS, sizeof(*key));
	struct radix_node *root = NULL;
	struct booted b;
	struct rng r;

	(void)state;
	boot_small(&b, 128);
	rng_init(&r, 3, "radix");
	for (unsigned i = 0; i < KEYS; i++) {
		unsigned bits = (unsigned)rng_below(&r, 53);

		key[i].index = i < 500 ? i : rng_next(&r) >> (63 - bits);
		for (unsigned j = 0; j < i; j++)
			if (key[j].index == key[i].index)
				i--, j = KEYS;
	}
	assert_null(radix_lookup(b.c, &root, 0));
	for (unsigned step = 0; step < 20000; step++) {
		unsigned i = (unsigned)rng_below(&r, KEYS);
		/* Any distinct pointer will do: the tree doesn't look into frames. */
		struct frame *f = b.m->memmap + i;

		assert_ptr_equal(radix_lookup(b.c, &root, key[i].index), key[i].in ? f : NULL);
		if (rng_below(&r, 5) < 3) {
			assert_int_equal(radix_insert(b.c, &root, key[i].index, f), key[i].in ? -EEXIST : 0);
			key[i].in = true;
		} else {
			assert_ptr_equal(radix_erase(b.c, &root, key[i].index), key[i].in ? f : NULL);
			key[i].in = false;
		}
		if (step % 50)
			continue;
		uint64_t from = key[rng_below(&r, KEYS)].index + rng_below(&r, 3), best = UINT64_MAX, at = from;

		for (unsigned j = 0; j < KEYS; j++)
			if (key[j].in && key[j].index >= from && key[j].index < best)
				best = key[j].index;
		struct frame *next = radix_next(b.c, &root, &at);

		assert_true((next == NULL) == (best == UINT64_MAX));
		assert_true(!next || at == best);
	}
	for (unsigned i = 0; i < KEYS; i++)
		(void)radix_erase(b.c, &root, key[i].index);
	uint64_t at = 0;

	assert_null(radix_next(b.c, &root, &at));
	radix_free(b.c, &root);
	assert_null(root);
	shut_down(&b);
	free(key);
}

/* ---- pages ---- */

static void test_read(void **state)
{
	struct booted b;
	struct mfile *f;
	struct frame *page, *again;
	bool major;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 42, 100 * PAGE_SIZE + 1, false);
	page = get(&b, f, 50, &major);
	assert_true(major);
	/* One reference of the cache's, one of ours. */
	assert_int_equal(page->refcount, 2);
	assert_true(page->flags & FRAME_FILE);
	assert_false(page->flags & (FRAME_SWAPBACKED | FRAME_DIRTY));
	assert_ptr_equal(page->file, f);
	assert_int_equal(page->index, 50);
	assert_int_equal(tag_of(&b, page), file_tag(f, 50));
	assert_true(file_tag(f, 50) && file_tag(f, 50) != file_tag(f, 51));
	again = get(&b, f, 50, &major);
	assert_ptr_equal(again, page);
	assert_false(major);
	assert_int_equal(page->refcount, 3);
	frame_put(b.c, again);
	frame_put(b.c, page);
	check_valid(&b);
	assert_int_equal(counter(&b, VM_nr_file_pages), f->nr_pages);
	assert_int_equal(counter(&b, VM_pgpgin), 4 * f->nr_pages);
	assert_int_equal(counter(&b, VM_quire_file_readahead_pages), f->nr_pages - 1);
	assert_int_equal(counter(&b, VM_nr_shmem), 0);
	/* The last page holds one byte; behind it there is nothing. */
	frame_put(b.c, get(&b, f, 100, &major));
	assert_int_equal(file_get_page(b.c, f, 101, &page, &major), -ENXIO);
	assert_int_equal(file_get_page(b.c, f, UINT64_MAX, &page, &major), -ENXIO);
	assert_null(file_lookup(b.c, f, 101));
	file_put(b.c, f);
	assert_int_equal(counter(&b, VM_nr_file_pages), 0);
	shut_down(&b);
}

static void test_shmem(void **state)
{
	struct booted b;
	struct mfile *f, *g;
	struct frame *page;
	bool major;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 0, 64 * PAGE_SIZE, true);
	g = make(&b, 0, PAGE_SIZE, true);
	assert_true(f->id != g->id);
	page = get(&b, f, 3, &major);
	assert_false(major);
	assert_int_equal(tag_of(&b, page), 0);
	assert_true(page->flags & FRAME_SWAPBACKED);
	b.m->tags[frame_pfn(b.m, page).v] = 7;
	frame_put(b.c, page);
	page = get(&b, f, 3, &major);
	assert_int_equal(tag_of(&b, page), 7);
	frame_put(b.c, page);
	assert_int_equal(f->nr_pages, 1); /* no readahead */
	assert_int_equal(counter(&b, VM_nr_shmem), 1);
	assert_int_equal(counter(&b, VM_nr_file_pages), 1);
	assert_int_equal(counter(&b, VM_pgpgin), 0);
	check_valid(&b);
	file_get(f);
	file_put(b.c, f);
	assert_int_equal(f->nr_pages, 1);
	/* Files that somebody still holds keep the system up. */
	assert_int_equal(quire_shutdown(b.q), -EBUSY);
	file_put(b.c, f);
	file_put(b.c, g);
	assert_int_equal(counter(&b, VM_nr_shmem), 0);
	shut_down(&b);
}

/* A page that somebody holds outlives its place in the cache. */
static void test_truncate(void **state)
{
	struct booted b;
	struct mfile *f;
	struct frame *page;
	bool major;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 1, 300 * PAGE_SIZE, false);
	assert_int_equal(file_rw(b.c, f, 0, 300 * PAGE_SIZE, false), 0);
	assert_int_equal(f->nr_pages, 300);
	page = get(&b, f, 200, &major);
	file_set_size(b.c, f, 100 * PAGE_SIZE + 5);
	assert_int_equal(f->nr_pages, 101);
	assert_int_equal(counter(&b, VM_nr_file_pages), 101);
	assert_true(cached(&b, f, 100));
	assert_false(cached(&b, f, 101));
	assert_int_equal(page->refcount, 1);
	assert_false(page->flags & FRAME_FILE);
	check_valid(&b);
	frame_put(b.c, page);
	file_set_size(b.c, f, 1000 * PAGE_SIZE); /* a hole: nothing is cached there */
	assert_false(cached(&b, f, 150));
	page = get(&b, f, 999, &major);
	frame_put(b.c, page);
	file_set_size(b.c, f, 0);
	assert_int_equal(f->nr_pages, 0);
	check_valid(&b);
	file_put(b.c, f);
	shut_down(&b);
}

/* ---- readahead ---- */

static unsigned read_pages(struct booted *b, struct mfile *f, uint64_t from, uint64_t to)
{
	unsigned majors = 0;

	for (uint64_t i = from; i < to; i++) {
		bool major;

		frame_put(b->c, get(b, f, i, &major));
		majors += major;
	}
	return majors;
}

static struct frame *get_ra(struct booted *b, struct mfile *f, uint64_t index, enum file_ra ra, uint64_t end)
{
	struct frame *page;
	bool major;

	assert_int_equal(file_get_page_ra(b->c, f, index, ra, end, &page, &major), 0);
	return page;
}

static void test_readahead(void **state)
{
	struct booted b;
	struct mfile *f;
	bool major;

	(void)state;
	boot_small(&b, 128);
	/* A mapping reads around where it misses, and from then on ahead: a sequential reader never misses again. */
	f = make(&b, 1, 1000 * PAGE_SIZE, false);
	frame_put(b.c, get(&b, f, 500, &major));
	assert_true(major);
	assert_int_equal(nr_cached(&b, f, 0, 1000), 32);
	assert_int_equal(nr_cached(&b, f, 484, 516), 32);
	assert_int_equal(read_pages(&b, f, 501, 1000), 0);
	assert_int_equal(nr_cached(&b, f, 484, 1000), 516);
	/* Not beyond the end, nor below the start. */
	assert_int_equal(f->nr_pages, 516);
	frame_put(b.c, get(&b, f, 2, &major));
	assert_true(major);
	assert_int_equal(nr_cached(&b, f, 0, 484), 32);
	file_put(b.c, f);

	/* As a mapping advises: only the page, a window from it on, one that ends with the mapping; and a range. */
	f = make(&b, 3, 1000 * PAGE_SIZE, false);
	frame_put(b.c, get_ra(&b, f, 500, FILE_RA_NONE, 1000));
	assert_int_equal(f->nr_pages, 1);
	frame_put(b.c, get_ra(&b, f, 600, FILE_RA_SEQUENTIAL, 1000));
	assert_int_equal(nr_cached(&b, f, 600, 632), 32);
	assert_int_equal(f->nr_pages, 33);
	frame_put(b.c, get_ra(&b, f, 700, FILE_RA_FORWARD, 705));
	assert_int_equal(nr_cached(&b, f, 700, 705), 5);
	frame_put(b.c, get_ra(&b, f, 800, FILE_RA_FORWARD, 1000));
	assert_int_equal(nr_cached(&b, f, 800, 832), 32);
	assert_int_equal(f->nr_pages, 33 + 5 + 32);
	file_read_range(b.c, f, 10, 7);
	assert_int_equal(nr_cached(&b, f, 10, 17), 7);
	file_read_range(b.c, f, 20, 100); /* one window at most */
	file_read_range(b.c, f, 1000, 5);
	assert_int_equal(f->nr_pages, 33 + 5 + 32 + 7 + 32);
	file_put(b.c, f);
	/* A window begins when the page that carries its mark is used; that page is not mapped before. */
	f = make(&b, 4, 1000 * PAGE_SIZE, false);
	frame_put(b.c, get_ra(&b, f, 0, FILE_RA_SEQUENTIAL, 1000));
	assert_true(file_ra_marked(b.c, f, 16) && !file_ra_marked(b.c, f, 15));
	frame_put(b.c, get_ra(&b, f, 16, FILE_RA_NONE, 1000));
	assert_true(file_ra_marked(b.c, f, 16));
	frame_put(b.c, get_ra(&b, f, 16, FILE_RA_AROUND, 1000));
	assert_true(!file_ra_marked(b.c, f, 16));
	assert_int_equal(nr_cached(&b, f, 0, 64), 64);
	b.q->knobs.read_ahead_kb = 0;
	frame_put(b.c, get_ra(&b, f, 300, FILE_RA_AROUND, 1000));
	assert_int_equal(nr_cached(&b, f, 200, 400), 1);
	b.q->knobs.read_ahead_kb = 128;
	file_put(b.c, f);

	/* read(2) from the start: windows of 4, 8, 16, 32 pages, the next one always asked for in time. */
	f = make(&b, 2, 1000 * PAGE_SIZE, false);
	assert_int_equal(file_rw(b.c, f, 0, 1, false), 0);
	assert_int_equal(f->nr_pages, 4);
	assert_int_equal(file_rw(b.c, f, 4096, 1, false), 0);
	assert_int_equal(f->nr_pages, 4 + 8);
	assert_int_equal(file_rw(b.c, f, 4 * 4096, 1, false), 0);
	assert_int_equal(f->nr_pages, 4 + 8 + 16);
	assert_int_equal(file_rw(b.c, f, 12 * 4096, 1, false), 0);
	assert_int_equal(f->nr_pages, 4 + 8 + 16 + 32);
	assert_int_equal(file_rw(b.c, f, 28 * 4096, 1, false), 0);
	assert_int_equal(f->nr_pages, 4 + 8 + 16 + 32 + 32);
	/* At random: only what is asked for. */
	assert_int_equal(file_rw(b.c, f, 700 * 4096 + 5, 100, false), 0);
	assert_int_equal(file_rw(b.c, f, 300 * 4096, 100, false), 0);
	assert_int_equal(f->nr_pages, 4 + 8 + 16 + 32 + 32 + 2);
	check_valid(&b);
	file_put(b.c, f);
	shut_down(&b);
}

/* ---- read and write ---- */

static void test_rw(void **state)
{
	struct booted b;
	const struct null_counts *n;
	struct mfile *f;
	struct frame *page;
	uint64_t tag;
	bool major;

	(void)state;
	boot_small(&b, 128);
	n = null_counts(b.m);
	f = make(&b, 9, 10 * PAGE_SIZE, false);
	/* Lines of the cache's frames: 100 bytes from 4090 on are in three lines (4032.., 4096.., 4160..). */
	null_counts_reset(b.m);
	assert_int_equal(file_rw(b.c, f, 4090, 100, false), 0);
	assert_int_equal(n->path[PATH_KERNEL_COPY].lines[TOUCH_READ], 3);
	assert_int_equal(n->path[PATH_KERNEL_COPY].lines[TOUCH_WRITE], 0);
	/* Reading ends at the end. */
	null_counts_reset(b.m);
	assert_int_equal(file_rw(b.c, f, 9 * PAGE_SIZE, 1 << 20, false), 0);
	assert_int_equal(n->path[PATH_KERNEL_COPY].lines[TOUCH_READ], 64);
	assert_int_equal(file_rw(b.c, f, 20 * PAGE_SIZE, 10, false), 0);
	assert_int_equal(f->size, 10 * PAGE_SIZE);
	assert_int_equal(file_rw(b.c, f, UINT64_MAX - 5, 10, false), -EINVAL);
	assert_int_equal(file_rw(b.c, f, 5, 0, true), 0);

	/* A write changes contents and dirties; each write leaves another tag. */
	null_counts_reset(b.m);
	assert_int_equal(file_rw(b.c, f, 100, 8, true), 0);
	assert_int_equal(n->path[PATH_KERNEL_COPY].lines[TOUCH_WRITE], 1);
	page = get(&b, f, 0, &major);
	tag = tag_of(&b, page);
	assert_true(page->flags & FRAME_DIRTY);
	assert_true(tag && tag != file_tag(f, 0));
	assert_int_equal(file_rw(b.c, f, 100, 8, true), 0);
	assert_true(tag_of(&b, page) && tag_of(&b, page) != tag);
	frame_put(b.c, page);
	file_put(b.c, f);

	/* A file written from nothing is never read. */
	f = make(&b, 10, 0, false);
	tag = (uint64_t)counter(&b, VM_pgpgin);
	assert_int_equal(file_rw(b.c, f, 0, 50 * PAGE_SIZE + 7, true), 0);
	assert_int_equal(f->size, 50 * PAGE_SIZE + 7);
	assert_int_equal(f->nr_pages, 51);
	assert_int_equal(counter(&b, VM_pgpgin), tag);
	check_valid(&b);
	file_put(b.c, f);
	/* Overwriting a part of a page needs the rest of it. */
	f = make(&b, 11, 10 * PAGE_SIZE, false);
	assert_int_equal(file_rw(b.c, f, 5 * PAGE_SIZE, PAGE_SIZE, true), 0);
	assert_int_equal(counter(&b, VM_pgpgin), tag);
	assert_int_equal(file_rw(b.c, f, 7 * PAGE_SIZE, 100, true), 0);
	assert_int_equal(counter(&b, VM_pgpgin), tag + 4);
	file_put(b.c, f);
	shut_down(&b);
}

/* What is read ahead goes by all that a read(2) wants: a first window behind it, the mark behind what is wanted. */
static void test_read_of_several(void **state)
{
	struct booted b;
	struct mfile *f;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 20, 1000 * PAGE_SIZE, false);
	assert_int_equal(file_rw(b.c, f, 0, 3 * PAGE_SIZE, false), 0); /* 3: a window of 8, marked at 3 */
	assert_int_equal(f->nr_pages, 8);
	assert_true(file_ra_marked(b.c, f, 3));
	assert_int_equal(file_rw(b.c, f, 3 * PAGE_SIZE, 100, false), 0);
	assert_false(file_ra_marked(b.c, f, 3));
	assert_true(file_ra_marked(b.c, f, 8));
	assert_int_equal(f->nr_pages, 8 + 16);
	/* Elsewhere what is wanted; behind it again from where it ended, and behind more cached pages than are wanted. */
	assert_int_equal(file_rw(b.c, f, 100 * PAGE_SIZE, 5 * PAGE_SIZE, false), 0);
	assert_int_equal(nr_cached(&b, f, 90, 200), 5);
	assert_int_equal(file_rw(b.c, f, 105 * PAGE_SIZE, 2 * PAGE_SIZE, false), 0);
	assert_int_equal(nr_cached(&b, f, 90, 200), 5 + 4);
	assert_true(file_ra_marked(b.c, f, 107));
	file_read_range(b.c, f, 500, 10);
	assert_int_equal(file_rw(b.c, f, 510 * PAGE_SIZE, 2 * PAGE_SIZE, false), 0);
	assert_int_equal(nr_cached(&b, f, 490, 600), 10 + 12);
	assert_true(file_ra_marked(b.c, f, 521));
	check_valid(&b);
	file_put(b.c, f);
	/* Before 6.11 a read at the end of the last window took up the next one. */
	f = make(&b, 21, 1000 * PAGE_SIZE, false);
	b.q->knobs.readahead_resumes = true;
	assert_int_equal(file_rw(b.c, f, 0, 4 * PAGE_SIZE, false), 0);
	assert_int_equal(f->nr_pages, 8);
	assert_int_equal(file_rw(b.c, f, 8 * PAGE_SIZE, 100, false), 0);
	assert_int_equal(f->nr_pages, 8 + 32);
	b.q->knobs.readahead_resumes = false;
	file_put(b.c, f);
	shut_down(&b);
}

/* write(2) whose memory is not there yet, and a file that grows. */
static void test_write_begins(void **state)
{
	struct booted b;
	struct mfile *f;
	struct frame *page;
	int64_t in;
	bool major;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 30, 8 * PAGE_SIZE, true);
	assert_int_equal(file_write_begin(b.c, f, 3 * PAGE_SIZE, PAGE_SIZE), 0);
	assert_true(cached(&b, f, 3));
	page = get(&b, f, 3, &major);
	assert_true(!major && (page->flags & FRAME_DIRTY) && !tag_of(&b, page));
	frame_put(b.c, page);
	file_put(b.c, f);

	f = make(&b, 31, 8 * PAGE_SIZE, false);
	in = counter(&b, VM_pgpgin);
	assert_int_equal(file_write_begin(b.c, f, 3 * PAGE_SIZE, PAGE_SIZE), 0);
	assert_int_equal(f->nr_pages, 1);
	assert_int_equal(counter(&b, VM_pgpgin), in);
	assert_null(file_lookup(b.c, f, 3));
	page = get(&b, f, 3, &major); /* nothing around it, and no major fault */
	assert_int_equal(f->nr_pages, 1);
	assert_true(!major && tag_of(&b, page) == file_tag(f, 3) && file_tag(f, 3));
	frame_put(b.c, page);
	assert_int_equal(file_write_begin(b.c, f, 5 * PAGE_SIZE + 8, 100), 0); /* a part: the rest is needed */
	assert_int_equal(counter(&b, VM_pgpgin), in + 8);
	assert_int_equal(file_write_begin(b.c, f, 12 * PAGE_SIZE, 100), 0);
	assert_int_equal(f->size, 12 * PAGE_SIZE);
	page = get(&b, f, 9, &major);
	assert_int_equal(tag_of(&b, page), 0); /* a hole */
	frame_put(b.c, page);
	check_valid(&b);
	file_put(b.c, f);
	shut_down(&b);
}

/* ---- failures ---- */

/* Each allocation of a small scenario fails once: -ENOMEM, nothing lost, and it works afterwards. */
static void test_each_failure(void **state)
{
	static const enum inject_site sites[] = { INJECT_FRAME_ALLOC, INJECT_SLAB_ALLOC };

	(void)state;
	for (unsigned s = 0; s < 2; s++) {
		for (unsigned n = 1;; n++) {
			struct mfile *f = NULL;
			struct inject *in;
			struct booted b;
			int err;
			bool hit;

			boot_small(&b, 128);
			assert_int_equal(inject_attach(b.m, 1, &in), 0);
			inject_set(in, sites[s], INJECT_NTH, n);
			err = file_create(b.c, b.q, 5, 100000 * PAGE_SIZE, n % 2, &f);
			if (!err)
				err = file_rw(b.c, f, 0, 20 * PAGE_SIZE, n % 2);
			if (!err)
				err = file_rw(b.c, f, 90000 * PAGE_SIZE, 3 * PAGE_SIZE, n % 2 || n % 3); /* to read where nothing is needs no page */
			hit = inject_failures(in, sites[s]) > 0;
			/* A page of readahead that cannot be had is nobody's error. */
			assert_true(err == (hit ? -ENOMEM : 0) || (!err && sites[s] == INJECT_FRAME_ALLOC) ||
				    (!err && sites[s] == INJECT_SLAB_ALLOC && f && !f->shmem));
			check_valid(&b);
			if (f) {
				assert_int_equal(file_rw(b.c, f, 0, 20 * PAGE_SIZE, false), 0);
				check_valid(&b);
				file_put(b.c, f);
			}
			inject_detach(in);
			shut_down(&b);
			if (!hit) {
				assert_true(n > 2);
				break;
			}
		}
	}
}

static void test_out_of_memory(void **state)
{
	struct booted b;
	struct mfile *f;

	(void)state;
	for (unsigned shmem = 0; shmem < 2; shmem++) {
		boot_small(&b, 128);
		f = make(&b, 1, 1ULL << 40, shmem);
		assert_int_equal(file_rw(b.c, f, 0, 1ULL << 30, true), -ENOMEM);
		check_valid(&b);
		assert_int_equal(counter(&b, VM_nr_file_pages), f->nr_pages);
		file_put(b.c, f);
		drain_all(&b);
		assert_int_equal(memory_free_pages(b.q, NID_NONE), b.q->nodes[0].zones[ZONE_DMA32].managed);
		shut_down(&b);
	}
}

static void test_validate_finds_damage(void **state)
{
	struct booted b;
	struct mfile *f;
	struct frame *page;
	bool major;

	(void)state;
	boot_small(&b, 128);
	f = make(&b, 1, 10 * PAGE_SIZE, true);
	page = get(&b, f, 2, &major);
#define DAMAGE(lvalue, bad)                                                                                            \
	do {                                                                                                           \
		__typeof__(lvalue) good = (lvalue);                                                                    \
		(lvalue) = (bad);                                                                                      \
		assert_int_equal(file_validate(b.q), -EINVAL);                                                         \
		assert_true(strlen(b.q->err) > 0);                                                                     \
		(lvalue) = good;                                                                                       \
		check_valid(&b);                                                                                       \
	} while (0)
	DAMAGE(page->index, 3);
	DAMAGE(page->file, NULL);
	DAMAGE(page->flags, page->flags & ~FRAME_FILE);
	DAMAGE(f->nr_pages, 2);
	DAMAGE(f->size, 2 * PAGE_SIZE);
	DAMAGE(f->refs, 0);
	DAMAGE(f->shmem, false);
	DAMAGE(b.c->pc->vmstat.v[VM_nr_file_pages], 7);
#undef DAMAGE
	frame_put(b.c, page);
	file_put(b.c, f);
	shut_down(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_radix_random),
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_shmem),
		cmocka_unit_test(test_truncate),
		cmocka_unit_test(test_readahead),
		cmocka_unit_test(test_rw),
		cmocka_unit_test(test_read_of_several),
		cmocka_unit_test(test_write_begins),
		cmocka_unit_test(test_each_failure),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_validate_finds_damage),
	};

	return test_run(tests);
}
