/* The calls on address spaces: errors and edges, one by one. */
#include "vma_testing.h"

static int64_t call_mmap(struct world *w, vaddr_t addr, uint64_t len, unsigned prot, unsigned flags, struct mfile *f,
			 uint64_t off)
{
	int64_t r = mm_mmap(w->c, w->mm, addr, len, prot, flags, f, off);

	world_check(w);
	return r;
}

/* ---- mmap ---- */

static void mmap_refuses(void **state)
{
	struct mfile *f;
	struct world w;

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(file_create(w.c, w.q, 1, 16 * PG, false, &f), 0);
	assert_int_equal(call_mmap(&w, 0, PG, RW, ANON, NULL, 1), -EINVAL); /* offset not aligned */
	assert_int_equal(call_mmap(&w, 0, PG, RW, UAPI_MAP_PRIVATE, NULL, 0), -EBADF);
	assert_int_equal(call_mmap(&w, 0, 0, RW, ANON, NULL, 0), -EINVAL);
	assert_int_equal(call_mmap(&w, 0, ~0ULL, RW, ANON, NULL, 0), -ENOMEM); /* rounds to 0 */
	assert_int_equal(call_mmap(&w, 0, TASK_SIZE + PG, RW, ANON, NULL, 0), -ENOMEM);
	assert_int_equal(call_mmap(&w, WIN + 8, PG, RW, FIXED, NULL, 0), -EINVAL);
	assert_int_equal(call_mmap(&w, TASK_SIZE - PG, 2 * PG, RW, FIXED, NULL, 0), -ENOMEM);
	assert_int_equal(call_mmap(&w, ~0ULL & PAGE_MASK, PG, RW, FIXED, NULL, 0), -ENOMEM);
	assert_int_equal(call_mmap(&w, 0, PG, RW, FIXED, NULL, 0), -EPERM); /* below mmap_min_addr */
	assert_int_equal(call_mmap(&w, 0, PG, RW, UAPI_MAP_ANONYMOUS, NULL, 0),
			 -EINVAL); /* neither shared nor private */
	assert_int_equal(call_mmap(&w, 0, PG, RW, UAPI_MAP_ANONYMOUS | UAPI_MAP_SHARED_VALIDATE, NULL, 0), -EINVAL);
	assert_int_equal(call_mmap(&w, 0, PG, RW, UAPI_MAP_SHARED | UAPI_MAP_ANONYMOUS | UAPI_MAP_GROWSDOWN, NULL, 0),
			 -EINVAL);
	assert_int_equal(call_mmap(&w, 0, PG, RO, UAPI_MAP_PRIVATE | UAPI_MAP_GROWSDOWN, f, 0), -EINVAL);
	assert_int_equal(call_mmap(&w, 0, PG, RO, UAPI_MAP_SHARED_VALIDATE | 0x80000U, f, 0), -EOPNOTSUPP);
	assert_int_equal(call_mmap(&w, 0, PG, RW, ANON | UAPI_MAP_HUGETLB, NULL, 0), -ENOMEM);
	assert_int_equal(call_mmap(&w, 0, PG, RO, UAPI_MAP_PRIVATE, f, ~0ULL & PAGE_MASK), -EOVERFLOW);
	assert_int_equal(w.mm->map_count, 0);
	file_put(w.c, f);
	world_down(&w);
}

static void mmap_fixed_and_hints(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(map(&w, WIN + 5, 2, RW, ANON), WIN); /* a hint is rounded down */
	assert_int_equal(map(&w, WIN + 2 * PG, 2, RO, ANON), WIN + 2 * PG);
	assert_int_equal(map(&w, WIN + PG, 2, RW, ANON), w.mm->mmap_base - 2 * PG); /* taken: the hint does not count */
	w.q->knobs.mmap_min_addr = 0x10000;
	assert_int_equal(map(&w, 0x2000, 1, RO, ANON), 0x10000); /* a hint too low is raised */
	assert_int_equal(map(&w, 0xf000, 1, RO, FIXED), -EPERM);
	assert_int_equal(map(&w, WIN + PG, 2, RW, FIXED | UAPI_MAP_FIXED_NOREPLACE), -EEXIST);
	assert_int_equal(map(&w, WIN + 4 * PG, 2, RW, ANON | UAPI_MAP_FIXED_NOREPLACE), WIN + 4 * PG);
	assert_areas(&w, "0-2rw 2-4r 4-6rw");
	assert_int_equal(map(&w, WIN + PG, 4, RO, FIXED), WIN + PG); /* replaces parts of three */
	assert_areas(&w, "0-1rw 1-5r 5-6rw");
	world_down(&w);
}

static void mmap_flags_become_properties(void **state)
{
	struct mfile *f;
	struct world w;
	char b[256];

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(file_create(w.c, w.q, 1, 16 * PG, false, &f), 0);
	map(&w, WIN, 2, RW, FIXED | UAPI_MAP_STACK);
	map(&w, WIN + 4 * PG, 2, RW, FIXED | UAPI_MAP_LOCKED);
	map(&w, WIN + 8 * PG, 2, RW, FIXED | UAPI_MAP_NORESERVE);
	map(&w, WIN + 12 * PG, 2, RO, UAPI_MAP_SHARED | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED);
	call_mmap(&w, WIN + 16 * PG, 2 * PG, RO | MM_PROT_FILE_RDONLY, UAPI_MAP_SHARED | UAPI_MAP_FIXED, f, 0);
	assert_areas(&w, "0-2rwN 4-6rwL 8-10rw 12-14rs 16-18rs");
	assert_int_equal(w.mm->locked_vm, 2);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 2); /* locked memory is there at once */
	assert_int_equal(w.q->committed_pages, 2 + 2 + 2); /* stack, locked, and the object of the shared one */
	assert_int_equal(vma_find(w.c, w.mm, WIN + 8 * PG)->flags & (VM_NORESERVE | VM_ACCOUNT), VM_NORESERVE);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 16 * PG, PG, RW), -EACCES);
	assert_int_equal(call_mmap(&w, 0, PG, RW | MM_PROT_FILE_RDONLY, UAPI_MAP_SHARED, f, 0), -EACCES);
	assert_true(call_mmap(&w, WIN + 20 * PG, PG, RW | MM_PROT_FILE_RDONLY, UAPI_MAP_PRIVATE | UAPI_MAP_FIXED, f,
			      0) > 0);
	(void)areas(&w, WIN, WIN + PG, b, sizeof(b));
	file_put(w.c, f);
	world_down(&w);
}

static void shared_anonymous_is_one_object(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, UAPI_MAP_SHARED | UAPI_MAP_ANONYMOUS | UAPI_MAP_FIXED);
	assert_int_equal(w.q->committed_pages, 8);
	assert_int_equal(poke(&w, WIN + 3 * PG, true), 0);
	/* Duplicate it by mremap with an old length of 0, then lose the first one: pages and promise stay. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 2 * PG, 0, 4 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
				   WIN + 64 * PG),
			 WIN + 64 * PG);
	assert_areas(&w, "0-8rws 64-68rws");
	assert_int_equal(vma_find(w.c, w.mm, WIN + 64 * PG)->pgoff, 2);
	mm_munmap(w.c, w.mm, WIN, 8 * PG);
	assert_int_equal(w.q->committed_pages, 8);
	assert_int_equal(vmstat_read(w.q, VM_nr_shmem), 1);
	/* The destination covers the source: nothing is left to duplicate. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 64 * PG, 0, 4 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
				   WIN + 64 * PG),
			 -EFAULT);
	assert_areas(&w, "");
	assert_int_equal(w.q->committed_pages, 0);
	assert_int_equal(vmstat_read(w.q, VM_nr_shmem), 0);
	world_down(&w);
}

static void populate_brings_pages_in(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 16, RW, FIXED | UAPI_MAP_POPULATE);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 16);
	map(&w, WIN + 32 * PG, 16, RW, FIXED | UAPI_MAP_POPULATE | UAPI_MAP_NONBLOCK);
	map(&w, WIN + 64 * PG, 4, 0, FIXED | UAPI_MAP_POPULATE); /* nothing can be brought in, and that is no error */
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 16);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 32 * PG, 4 * PG, UAPI_MADV_POPULATE_READ), 0);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 16); /* zero pages */
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 32 * PG, 4 * PG, UAPI_MADV_POPULATE_WRITE), 0);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 20);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 64 * PG, PG, UAPI_MADV_POPULATE_READ), -EINVAL);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 46 * PG, 4 * PG, UAPI_MADV_POPULATE_WRITE),
			 -ENOMEM); /* up to the hole */
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 22);
	world_down(&w);
}

/* ---- limits ---- */

static void limits_hold(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	w.mm->as_rlimit = 16 * PG;
	assert_int_equal(map(&w, WIN, 17, RW, FIXED), -ENOMEM);
	assert_int_equal(map(&w, WIN, 16, RW, FIXED), WIN);
	assert_int_equal(map(&w, WIN + 8 * PG, 8, RO, FIXED), WIN + 8 * PG); /* replaced pages do not count */
	assert_int_equal(map(&w, WIN + 8 * PG, 9, RO, FIXED), -ENOMEM);
	assert_areas(&w, "0-8rw 8-16r");
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 8 * PG, 8 * PG, 9 * PG, 0, 0), -ENOMEM);
	w.mm->as_rlimit = ~0ULL;
	w.mm->data_rlimit = 8 * PG;
	assert_int_equal(map(&w, 0, 1, RW, ANON), -ENOMEM);
	assert_int_equal(map(&w, WIN + 32 * PG, 1, RO, FIXED), WIN + 32 * PG);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 8 * PG, PG, RW), -ENOMEM); /* would become data */
	w.mm->data_rlimit = ~0ULL;
	w.mm->memlock_rlimit = 4 * PG;
	assert_int_equal(map(&w, 0, 5, RW, ANON | UAPI_MAP_LOCKED), -EAGAIN);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN, 5 * PG, false), -ENOMEM);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN, 3 * PG, false), 0);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + PG, 3 * PG, false), 0); /* two of them are locked already */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 4 * PG, 5 * PG, UAPI_MREMAP_MAYMOVE, 0), -EAGAIN);
	assert_int_equal(mm_mlockall(w.c, w.mm, UAPI_MCL_CURRENT), -ENOMEM);
	w.mm->memlock_rlimit = 0;
	assert_int_equal(map(&w, 0, 1, RW, ANON | UAPI_MAP_LOCKED), -EPERM);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN, PG, false), -EPERM);
	assert_int_equal(mm_mlockall(w.c, w.mm, UAPI_MCL_FUTURE), -EPERM);
	world_down(&w);
}

static void map_count_is_limited(void **state)
{
	struct knobs k;
	struct world w;

	(void)state;
	knobs_default(&k);
	k.max_map_count = 8;
	world_up(&w, &k);
	for (unsigned i = 0; i < 8; i++)
		assert_true(map(&w, WIN + i * 4 * PG, 3, RW, FIXED) > 0);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + PG, PG), -ENOMEM); /* a hole needs one more */
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, PG, RO), -ENOMEM);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN, PG, UAPI_MADV_RANDOM), -EAGAIN);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN, PG, false), -ENOMEM);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, WIN + 99 * PG),
			 -ENOMEM);
	assert_int_equal(w.mm->map_count, 8);
	assert_true(map(&w, WIN + 64 * PG, 3, RW, FIXED) > 0); /* Linux lets mmap go one beyond */
	assert_int_equal(map(&w, WIN + 72 * PG, 3, RW, FIXED), -ENOMEM);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN, 3 * PG), 0);
	world_down(&w);
}

static void overcommit_modes(void **state)
{
	uint64_t ram = 0;
	struct world w;

	(void)state;
	world_up(&w, NULL);
	for (unsigned z = 0; z < NR_ZONES; z++)
		ram += w.q->nodes[0].zones[z].managed;
	w.q->knobs.overcommit_memory = 0;
	assert_int_equal(map(&w, WIN, ram + 1, RW, FIXED), -ENOMEM);
	assert_int_equal(map(&w, WIN, ram + 1, RW, FIXED | UAPI_MAP_NORESERVE), WIN);
	assert_int_equal(map(&w, WIN, ram, RW, FIXED), WIN);
	assert_int_equal(w.q->committed_pages, ram);
	assert_int_equal(map(&w, 0, ram, RW, ANON), w.mm->mmap_base - ram * PG); /* each for itself is possible */
	w.q->knobs.overcommit_memory = 1;
	assert_true(map(&w, WIN, 4 * ram, RW, FIXED) > 0);
	mm_munmap(w.c, w.mm, 0x1000, TASK_SIZE - 0x1000);
	assert_int_equal(w.q->committed_pages, 0);
	w.q->knobs.overcommit_memory = 2;
	w.q->knobs.overcommit_ratio = 50;
	assert_int_equal(map(&w, WIN, ram / 2, RW, FIXED | UAPI_MAP_NORESERVE),
			 -ENOMEM); /* not honoured in this mode */
	assert_int_equal(map(&w, WIN, ram / 4, RW, FIXED), WIN);
	assert_int_equal(map(&w, WIN + ram * PG, ram / 4, RW, FIXED), -ENOMEM);
	assert_int_equal(map(&w, WIN + ram * PG, ram, RO, FIXED), WIN + ram * PG); /* read-only promises nothing */
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + ram * PG, ram * PG, RW), -ENOMEM);
	assert_int_equal(w.q->committed_pages, ram / 4);
	world_down(&w);
}

/* ---- munmap, mprotect, mremap, madvise, mlock, mincore: refusals ---- */

static void the_others_refuse(void **state)
{
	struct world w;
	uint8_t vec[4];

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 4, RW, FIXED);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 1, PG), -EINVAL);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN, 0), -EINVAL);
	assert_int_equal(mm_munmap(w.c, w.mm, TASK_SIZE, PG), -EINVAL);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN, ~0ULL), -EINVAL);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 64 * PG, PG), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 1, PG, RO), -EINVAL);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 0, RO), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, ~0ULL & PAGE_MASK, RO), -ENOMEM);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, PG, 0x40), -EINVAL);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, PG, UAPI_PROT_GROWSDOWN | UAPI_PROT_GROWSUP), -EINVAL);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, PG, UAPI_PROT_GROWSDOWN), -EINVAL);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, PG, UAPI_PROT_GROWSUP), -EINVAL);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN - PG, 2 * PG, RO), -ENOMEM);
	assert_areas(&w, "0-4rw");
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 2 * PG, 4 * PG, RO), -ENOMEM); /* the first part is done */
	assert_areas(&w, "0-2rw 2-4r");
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 1, PG, PG, 0, 0), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, 0, 0, 0), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, PG, 8, 0), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, PG, UAPI_MREMAP_FIXED, WIN + 64 * PG), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, 2 * PG, UAPI_MREMAP_DONTUNMAP | UAPI_MREMAP_MAYMOVE, 0),
			 -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 0, PG, UAPI_MREMAP_MAYMOVE, 0), -EINVAL); /* private */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 8 * PG, PG, PG, 0, 0), -EFAULT);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 4 * PG, 5 * PG, UAPI_MREMAP_MAYMOVE, 0), -EFAULT); /* two areas */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 2 * PG, 3 * PG, 0, 0), -ENOMEM); /* no room, and may not move */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 2 * PG, 2 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, WIN + PG),
			 -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 2 * PG, 2 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, WIN + 9),
			 -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, TASK_SIZE),
			 -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, 1ULL << 60, UAPI_MREMAP_MAYMOVE, 0), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, PG, TASK_SIZE, UAPI_MREMAP_MAYMOVE, 0), -ENOMEM);
	/* A length that wraps round passes for one that does not overlap: refused before the destination goes. */
	map(&w, WIN + 32 * PG, 1, RW, FIXED);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, ~0ULL - PG, PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, WIN + 32 * PG),
			 -EINVAL);
	assert_areas(&w, "0-2rw 2-4r 32-33rw");
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 32 * PG, PG), 0);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN, PG, 77), -EINVAL);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 1, PG, UAPI_MADV_NORMAL), -EINVAL);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN, ~0ULL, UAPI_MADV_NORMAL), -EINVAL);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN, 0, UAPI_MADV_NORMAL), 0);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 3 * PG, 8 * PG, UAPI_MADV_DONTFORK),
			 -ENOMEM); /* applied to what is there */
	assert_areas(&w, "0-2rw 2-3r 3-4rD");
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + 2 * PG, 4 * PG, false), -ENOMEM);
	assert_areas(&w, "0-2rw 2-3rL 3-4rLD");
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 2 * PG, PG, UAPI_MADV_DONTNEED), -EINVAL); /* locked */
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 2 * PG, PG, UAPI_MADV_FREE), -EINVAL);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 2 * PG, PG, UAPI_MADV_DONTNEED_LOCKED), 0);
	assert_int_equal(mm_munlock(w.c, w.mm, WIN, 8 * PG), -ENOMEM);
	assert_areas(&w, "0-2rw 2-3r 3-4rD");
	assert_int_equal(mm_mlockall(w.c, w.mm, 0), -EINVAL);
	assert_int_equal(mm_mlockall(w.c, w.mm, UAPI_MCL_ONFAULT), -EINVAL);
	assert_int_equal(mm_mincore(w.c, w.mm, WIN + 1, PG, vec), -EINVAL);
	assert_int_equal(mm_mincore(w.c, w.mm, WIN, ~0ULL, vec), -ENOMEM);
	assert_int_equal(mm_mincore(w.c, w.mm, WIN, PG, NULL), -EFAULT);
	assert_int_equal(mm_mincore(w.c, w.mm, WIN + 3 * PG, 2 * PG, vec), -ENOMEM);
	world_down(&w);
}

static void mremap_moves_contents(void **state)
{
	struct world w;
	uint64_t value;
	int64_t to;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, FIXED);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(w.m->ops->store_value(w.c, WIN + i * PG, 100 + i), 0);
	map(&w, WIN + 8 * PG, 1, RO, FIXED); /* in the way */
	to = mm_mremap(w.c, w.mm, WIN + 2 * PG, 6 * PG, 9 * PG, UAPI_MREMAP_MAYMOVE, 0);
	assert_int_equal(to, w.mm->mmap_base - 9 * PG);
	assert_areas(&w, "0-2rw 8-9r");
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(w.m->ops->load_value(w.c, (vaddr_t)to + i * PG, &value), 0);
		assert_int_equal(value, 102 + i);
	}
	assert_int_equal(poke(&w, WIN + 2 * PG, false), -EFAULT);
	/* Keep the old place: it stays, empty. */
	assert_int_equal(mm_mremap(w.c, w.mm, (vaddr_t)to, 9 * PG, 9 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_DONTUNMAP,
				   0),
			 to - 9 * (int64_t)PG);
	world_check(&w);
	assert_int_equal(w.m->ops->load_value(w.c, (vaddr_t)to, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(w.mm->total_vm, 2 + 1 + 18);
	assert_int_equal(w.q->committed_pages, 2 + 18);
	world_down(&w);
}

/* All of the area is unlocked, also what did not move: nothing stays counted that nobody would ever give back. */
static void dontunmap_unlocks_all(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, FIXED | UAPI_MAP_LOCKED);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 8);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 2 * PG, 2 * PG, 2 * PG,
				   UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP, WIN + 64 * PG),
			 (int64_t)(WIN + 64 * PG));
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 2);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN, 66 * PG), 0);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 0);
	world_down(&w);
}

/* The place that MREMAP_DONTUNMAP leaves is unlocked and as never touched; it could merge, but Linux leaves it apart. */
#define MOVE (UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED)

static void mremap_moves_several_areas(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 2, RW, FIXED);
	map(&w, WIN + 3 * PG, 2, RO, FIXED);
	map(&w, WIN + 8 * PG, 1, RW, FIXED);
	map(&w, WIN + 20 * PG, 10, RO, FIXED);
	poke(&w, WIN + PG, true);
	/* The gap goes with them: what lies in it at the destination stays. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + PG, 8 * PG, 8 * PG, MOVE, WIN + 21 * PG), (int64_t)(WIN + 21 * PG));
	assert_areas(&w, "0-1rw 20-21r 21-22rw 22-28r 28-29rw 29-30r");
	assert_int_equal(poke(&w, WIN + 21 * PG, false), 0);
	assert_int_equal(poke(&w, WIN + PG, false), -EFAULT);
	/* Not with a gap at the start, another size, or a place of Linux's choice; nor before 6.17. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 19 * PG, 8 * PG, 8 * PG, MOVE, WIN + 40 * PG), -EFAULT);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 20 * PG, 8 * PG, 9 * PG, MOVE, WIN + 40 * PG), -EFAULT);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 20 * PG, 8 * PG, 8 * PG, MOVE, WIN + 24 * PG), -EINVAL);
	w.q->knobs.mremap_several = false;
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 20 * PG, 8 * PG, 8 * PG, MOVE, WIN + 40 * PG), -EFAULT);
	assert_areas(&w, "0-1rw 20-21r 21-22rw 22-28r 28-29rw 29-30r");
	w.q->knobs.mremap_several = true;
	/* An area that cannot be moved ends it: what has been moved is there. */
	w.q->knobs.max_map_count = w.mm->map_count + 6;
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 20 * PG, 9 * PG, 9 * PG, MOVE | UAPI_MREMAP_DONTUNMAP, WIN + 40 * PG), -ENOMEM);
	assert_areas(&w, "0-1rw 20-21r 21-22rw 22-28r 28-29rw 29-30r 40-41r");
	world_down(&w);
}

static void as_before_6_16(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	/* What has pages does not join a neighbour that has none; the other way round it does. */
	w.q->knobs.merge_untouched = false;
	map(&w, WIN, 2, RW, FIXED);
	map(&w, WIN + 2 * PG, 2, RO, FIXED);
	poke(&w, WIN, true);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 2 * PG, RO), 0);
	assert_areas(&w, "0-2r 2-4r");
	map(&w, WIN + 10 * PG, 2, RW, FIXED);
	poke(&w, WIN + 10 * PG, true);
	map(&w, WIN + 12 * PG, 2, RW, FIXED);
	assert_areas(&w, "0-2r 2-4r 10-14rw");
	assert_int_equal(quire_validate(w.q), 0);
	world_down(&w);
}

static void mremap_before_6_17(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	w.q->knobs.mremap_judges_first = w.q->knobs.mremap_several = false;
	map(&w, WIN, 4, RW, FIXED);
	map(&w, WIN + 6 * PG, 4, RW, FIXED);
	/* Without an area: that is said first. With one: what is at the new place is gone before the source turns out to be too short. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 20 * PG, 4 * PG, 4 * PG, MOVE, WIN + 21 * PG), -EFAULT);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 4 * PG, 4 * PG, MOVE, WIN + 2 * PG), -EINVAL);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 5 * PG, 5 * PG, MOVE, WIN + 7 * PG), -EFAULT);
	assert_areas(&w, "0-4rw 6-7rw");
	/* Cut first, then moved. */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 4 * PG, PG, MOVE, WIN + 10 * PG), (int64_t)(WIN + 10 * PG));
	assert_areas(&w, "6-7rw 10-11rw");
	world_down(&w);
}

static void dontunmap_leaves_a_fresh_area(void **state)
{
	struct world w;
	struct vma *v;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, FIXED);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN, 4 * PG, false), 0);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 4 * PG, 4 * PG,
				   UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED | UAPI_MREMAP_DONTUNMAP, WIN + 64 * PG),
			 WIN + 64 * PG);
	assert_areas(&w, "0-4rw 4-8rw 64-68rwL");
	v = vma_find(w.c, w.mm, WIN);
	assert_false(v->anon_touched);
	assert_int_equal(w.mm->locked_vm, 4);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 4);
	/* The next change there merges. */
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN, 8 * PG, RO), 0);
	assert_areas(&w, "0-8r 64-68rwL");
	world_down(&w);
}

static void locking_counts(void **state)
{
	struct world w;

	(void)state;
	world_up(&w, NULL);
	map(&w, WIN, 8, RW, FIXED);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + PG + 5, PG, false), 0); /* two pages are touched by it */
	assert_areas(&w, "0-1rw 1-3rwL 3-8rw");
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 2);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 2);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + 4 * PG, 2 * PG, true), 0); /* on fault: nothing is brought in */
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 2);
	assert_int_equal(w.mm->locked_vm, 4);
	assert_int_equal(poke(&w, WIN + 4 * PG, true), 0);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 3);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 2 * PG, PG), 0);
	assert_int_equal(w.mm->locked_vm, 3);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 2);
	assert_int_equal(mm_munlockall(w.c, w.mm), 0);
	assert_int_equal(w.mm->locked_vm, 0);
	assert_int_equal(vmstat_read(w.q, VM_nr_mlock), 0);
	assert_areas(&w, "0-2rw 3-8rw");
	assert_int_equal(mm_mlockall(w.c, w.mm, UAPI_MCL_FUTURE), 0);
	assert_int_equal(w.mm->locked_vm, 0);
	map(&w, WIN + 64 * PG, 2, RW, FIXED);
	assert_int_equal(w.mm->locked_vm, 2);
	assert_int_equal(mm_mlockall(w.c, w.mm, UAPI_MCL_CURRENT), 0);
	assert_int_equal(w.mm->locked_vm, 9);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 9);
	map(&w, WIN + 80 * PG, 2, RW, FIXED); /* CURRENT alone ends FUTURE */
	assert_int_equal(w.mm->locked_vm, 9);
	/* PROT_NONE can be locked but not brought in. */
	map(&w, WIN + 96 * PG, 2, 0, FIXED);
	assert_int_equal(mm_mlock(w.c, w.mm, WIN + 96 * PG, PG, false), -ENOMEM);
	assert_int_equal(w.mm->locked_vm, 10);
	world_down(&w);
}

/* ---- brk and stack ---- */

#define BRK 0x555555600000ULL

static void brk_moves(void **state)
{
	struct world w;
	struct vma *v;

	(void)state;
	world_up(&w, NULL);
	assert_int_equal(mm_setup_exec(w.c, w.mm, BRK + 100, TASK_SIZE - PG, 33 * PG), 0);
	assert_int_equal(mm_setup_exec(w.c, w.mm, BRK + 100, TASK_SIZE - PG, 33 * PG), -EEXIST);
	assert_int_equal(w.mm->mmap_base, 0x7ffff7fff000ULL);
	assert_int_equal(w.mm->stack_vm, 33);
	assert_int_equal(mm_brk(w.c, w.mm, 0), BRK + 100);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 2000), BRK + 2000); /* within a page that is not even mapped */
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 3 * PG + 1), BRK + 3 * PG + 1);
	world_check(&w);
	v = vma_find(w.c, w.mm, BRK);
	assert_int_equal(v->start, BRK + PG);
	assert_int_equal(v->end, BRK + 4 * PG);
	assert_true(v->flags & VM_HEAP);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 8 * PG), BRK + 8 * PG);
	assert_int_equal(vma_find(w.c, w.mm, BRK)->end, BRK + 8 * PG); /* grown, not a second one */
	assert_int_equal(mm_brk(w.c, w.mm, BRK), BRK + 8 * PG); /* below where it began */
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 2 * PG), BRK + 2 * PG);
	assert_int_equal(vma_find(w.c, w.mm, BRK)->end, BRK + 2 * PG);
	/* A mapping above: one page has to stay free. */
	map(&w, BRK + 6 * PG, 1, RW, FIXED);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 6 * PG), BRK + 2 * PG);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 5 * PG), BRK + 5 * PG);
	w.mm->data_rlimit = 6 * PG;
	mm_munmap(w.c, w.mm, BRK + 6 * PG, PG);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 7 * PG), BRK + 5 * PG);
	w.mm->data_rlimit = ~0ULL;
	/* Anonymous memory right above joins the heap. */
	map(&w, BRK + 5 * PG, 2, RW, FIXED);
	assert_int_equal(vma_find(w.c, w.mm, BRK)->end, BRK + 7 * PG);
	/* The heap was unmapped behind its back: it cannot shrink where nothing is. */
	mm_munmap(w.c, w.mm, BRK, 16 * PG);
	assert_int_equal(mm_brk(w.c, w.mm, BRK + 200), BRK + 5 * PG);
	world_check(&w);
	world_down(&w);
}

static void stack_grows(void **state)
{
	vaddr_t top = TASK_SIZE - PG, bottom = top - 4 * PG;
	struct world w;

	(void)state;
	world_up(&w, NULL);
	w.mm->stack_rlimit = 2048 * PG;
	assert_int_equal(mm_setup_exec(w.c, w.mm, BRK, top, 4 * PG), 0);
	assert_int_equal(poke(&w, bottom - 5 * PG, true), 0);
	world_check(&w);
	assert_int_equal(w.mm->stack_vm, 9);
	assert_int_equal(w.q->committed_pages, 9);
	assert_int_equal(vma_find(w.c, w.mm, bottom)->start, bottom - 5 * PG);
	assert_int_equal(vma_find(w.c, w.mm, bottom)->pgoff, (bottom >> 12) - 5);
	/* The limit. */
	assert_int_equal(poke(&w, top - 2049 * PG, true), -EFAULT);
	assert_int_equal(poke(&w, top - 2048 * PG, true), 0);
	assert_int_equal(poke(&w, top - 2048 * PG - 8, true), -EFAULT);
	/* Neighbours below: accessible ones keep 256 pages away, others do not. */
	w.mm->stack_rlimit = ~0ULL;
	map(&w, top - 3000 * PG, 1, RO, FIXED);
	assert_int_equal(poke(&w, top - (3000 - 256) * PG, true), -EFAULT); /* 255 pages between them */
	assert_int_equal(poke(&w, top - (3000 - 257) * PG, true), 0);
	assert_int_equal(mm_mprotect(w.c, w.mm, top - 3000 * PG, PG, 0), 0);
	assert_int_equal(poke(&w, top - 2999 * PG, true), 0);
	assert_int_equal(poke(&w, top - 2999 * PG - 8, true), -EFAULT);
	world_check(&w);
	w.mm->as_rlimit = w.mm->total_vm << 12;
	world_down(&w);
}

/* ---- huge pages at borders ---- */

static void huge_pages_survive_next_door(void **state)
{
	struct world w;
	struct knobs k;

	(void)state;
	knobs_default(&k);
	k.thp_enabled = THP_ALWAYS;
	world_up(&w, &k);
	map(&w, WIN, 3 * 512, RW, FIXED | UAPI_MAP_POPULATE);
	assert_int_equal(w.mm->huge_mapped, 3);
	assert_int_equal(mm_munmap(w.c, w.mm, WIN + 512 * PG, 100 * PG), 0);
	assert_int_equal(w.mm->huge_mapped, 2);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 3 * 512 - 100);
	assert_int_equal(mm_mprotect(w.c, w.mm, WIN + 1536 * PG - PG, PG, RO), 0);
	assert_int_equal(w.mm->huge_mapped, 1);
	assert_int_equal(mm_mremap(w.c, w.mm, WIN, 512 * PG, 512 * PG, UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED,
				   WIN + 4096 * PG),
			 WIN + 4096 * PG);
	assert_int_equal(w.mm->huge_mapped, 1); /* aligned: moved in one piece */
	assert_int_equal(mm_mremap(w.c, w.mm, WIN + 4096 * PG, 512 * PG, 512 * PG,
				   UAPI_MREMAP_MAYMOVE | UAPI_MREMAP_FIXED, WIN + 8193 * PG),
			 WIN + 8193 * PG);
	assert_int_equal(w.mm->huge_mapped, 0);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 3 * 512 - 100);
	assert_int_equal(mm_madvise(w.c, w.mm, WIN + 8193 * PG, 512 * PG, UAPI_MADV_DONTNEED), 0);
	assert_int_equal(mm_rss(w.mm, RSS_ANON), 2 * 512 - 100);
	if (mm_validate(w.mm))
		fail_msg("%s", w.q->err);
	world_down(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mmap_refuses),
		cmocka_unit_test(mmap_fixed_and_hints),
		cmocka_unit_test(mmap_flags_become_properties),
		cmocka_unit_test(shared_anonymous_is_one_object),
		cmocka_unit_test(populate_brings_pages_in),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(map_count_is_limited),
		cmocka_unit_test(overcommit_modes),
		cmocka_unit_test(the_others_refuse),
		cmocka_unit_test(mremap_moves_contents),
		cmocka_unit_test(mremap_moves_several_areas),
		cmocka_unit_test(as_before_6_16),
		cmocka_unit_test(mremap_before_6_17),
		cmocka_unit_test(dontunmap_leaves_a_fresh_area),
		cmocka_unit_test(dontunmap_unlocks_all),
		cmocka_unit_test(locking_counts),
		cmocka_unit_test(brk_moves),
		cmocka_unit_test(stack_grows),
		cmocka_unit_test(huge_pages_survive_next_door),
	};

	return test_run(tests);
}
