/*
 * What scripts/measure-work runs under callgrind: every engine path, on the null machine, in the mixture in which programs meet them
 * (long runs of faults, unmapping in batches, forks with some copy on write). Prints the units counted for each path.
 */
#include "machine/null.h"
#include "mm/compact.h"
#include "mm/fault.h"
#include "mm/folio_lock.h"
#include "mm/follow.h"
#include "mm/hugetlb.h"
#include "mm/lru.h"
#include "mm/meminit.h"
#include "mm/migrate.h"
#include "mm/rmap_walk.h"
#include "mm/split.h"
#include "mm/system.h"
#include "mm/uapi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MIB (1ULL << 20)

static struct cpu *cpu;
static struct quire *q;

static void need(int64_t r, const char *what)
{
	if (r < 0) {
		fprintf(stderr, "work_driver: %s: %lld (%s)\n", what, (long long)r, q ? q->err : "");
		exit(1);
	}
}

static vaddr_t map(struct mm *mm, uint64_t len, struct mfile *f, unsigned flags)
{
	int64_t r = mm_mmap(cpu, mm, 0, len, PROT_READ | PROT_WRITE, flags | (f ? 0 : MAP_ANONYMOUS), f, 0);

	need(r, "mmap");
	return (vaddr_t)r;
}

static void touch(vaddr_t va, uint64_t len, bool write)
{
	for (uint64_t o = 0; o < len; o += PAGE_SIZE)
		need(machine_access(cpu, va + o, 8, ACCESS_USER | (write ? ACCESS_WRITE : 0)), "access");
}

/* Off the lists of reclaim and back, as before a migration. */
static void take_off(struct mm *mm, vaddr_t va, uint64_t len)
{
	for (uint64_t o = 0; o < len; o += PAGE_SIZE) {
		struct mm_page_info i;
		struct list_head l;

		mm_page_info(mm, va + o, &i);
		list_init(&l);
		need(migrate_isolate(cpu, frame_of(cpu->m, i.pfn), &l), "isolate");
		migrate_putback(cpu, &l);
	}
}

static void small_pages(struct mm *mm)
{
	vaddr_t a = map(mm, 8 * MIB, NULL, MAP_PRIVATE);

	need(mm_madvise(cpu, mm, a, 8 * MIB, MADV_NOHUGEPAGE), "nohugepage");
	touch(a, 4 * MIB, false);
	touch(a, 8 * MIB, true);
	lru_add_drain(cpu);
	take_off(mm, a, 2 * MIB);
	need(mm_mprotect(cpu, mm, a, 8 * MIB, PROT_READ), "mprotect");
	need(mm_mprotect(cpu, mm, a, 8 * MIB, PROT_READ | PROT_WRITE), "mprotect");
	for (int i = 0; i < 64; i++)
		need(mm_mprotect(cpu, mm, a + (uint64_t)i * 8 * PAGE_SIZE, PAGE_SIZE, PROT_READ), "mprotect of one page");
	int64_t b = mm_mremap(cpu, mm, a + 4 * MIB, 2 * MIB, 4 * MIB, MREMAP_MAYMOVE, 0);
	need(b, "mremap");
	need(mm_mlock(cpu, mm, (vaddr_t)b, MIB, false), "mlock");
	need(mm_munlock(cpu, mm, (vaddr_t)b, MIB), "munlock");
	uint8_t vec[512];
	need(mm_mincore(cpu, mm, (vaddr_t)b, 2 * MIB, vec), "mincore");
	need(mm_madvise(cpu, mm, (vaddr_t)b, MIB, MADV_FREE), "free");
	need(mm_madvise(cpu, mm, (vaddr_t)b, MIB, MADV_PAGEOUT), "pageout");
	need(mm_madvise(cpu, mm, (vaddr_t)b, MIB, MADV_DONTNEED), "dontneed");
	need(mm_munmap(cpu, mm, (vaddr_t)b, 4 * MIB), "munmap");
	/* Not aligned alike, so entry by entry. */
	for (int i = 0; i < 16; i++) {
		vaddr_t to = map(mm, 2 * MIB, NULL, MAP_PRIVATE);

		need(mm_mremap(cpu, mm, a + 2 * MIB + (uint64_t)i * 16 * PAGE_SIZE, 16 * PAGE_SIZE, 16 * PAGE_SIZE,
			       MREMAP_MAYMOVE | MREMAP_FIXED, to + 7 * PAGE_SIZE), "mremap");
		need(mm_munmap(cpu, mm, to, 2 * MIB), "munmap");
	}
	need(mm_munmap(cpu, mm, a, 8 * MIB), "munmap");
	for (int i = 0; i < 256; i++) { /* the churn of an allocator */
		vaddr_t s = map(mm, 64 * 1024, NULL, MAP_PRIVATE);

		touch(s, 64 * 1024, true);
		need(mm_munmap(cpu, mm, s, 64 * 1024), "munmap");
	}
}

static void huge_pages(struct mm *mm)
{
	vaddr_t a = map(mm, 64 * MIB, NULL, MAP_PRIVATE);

	need(mm_madvise(cpu, mm, a, 64 * MIB, MADV_HUGEPAGE), "hugepage");
	touch(a, 8 * MIB, false);
	touch(a, 64 * MIB, true);
	need(mm_mprotect(cpu, mm, a, 64 * MIB, PROT_READ), "mprotect");
	need(mm_mprotect(cpu, mm, a, 64 * MIB, PROT_READ | PROT_WRITE), "mprotect");
	for (uint64_t i = 0; i < 8; i++)
		need(mm_madvise(cpu, mm, a + i * 2 * MIB, PAGE_SIZE, MADV_DONTNEED), "dontneed");
	need(mm_munmap(cpu, mm, a, 64 * MIB), "munmap");
}

/* From base pages, some of them shared with a child, by the daemon and by a call. */
static void collapses(struct mm *mm)
{
	vaddr_t a = map(mm, 32 * MIB, NULL, MAP_PRIVATE);
	struct mm *child;

	need(mm_madvise(cpu, mm, a, 32 * MIB, MADV_NOHUGEPAGE), "nohugepage");
	touch(a, 8 * MIB, true);
	for (uint64_t o = 8 * MIB; o < 32 * MIB; o += 2 * MIB)
		touch(a + o, MIB, true);
	need(mm_fork(cpu, mm, &child), "fork");
	need(mm_madvise(cpu, mm, a, 32 * MIB, MADV_HUGEPAGE), "hugepage");
	need(mm_madvise(cpu, mm, a, 2 * MIB, 25), "collapse");
	mm_put(cpu, child);
	q->knobs.khugepaged_max_ptes_none = 200;
	(void)khugepaged_run(cpu, 3);
	q->knobs.khugepaged_max_ptes_none = 511;
	(void)khugepaged_run(cpu, 3);
	/* As where frames have contents. */
	uint64_t *tags = cpu->m->tags;
	struct mm_page_info i;

	mm_page_info(mm, a, &i);
	cpu->m->tags = NULL;
	for (unsigned n = 0; n < 512; n++)
		(void)frame_is_zero(cpu, pfn_add(i.pfn, n));
	cpu->m->tags = tags;
	need(mm_munmap(cpu, mm, a, 32 * MIB), "munmap");
}

/* Who has used these pages? As reclaim asks. */
static void ask(struct mm *mm, vaddr_t va, uint64_t len)
{
	struct mm_page_info i;
	uint64_t vm_flags;

	for (uint64_t o = 0; o < len; o += i.huge ? PMD_SIZE : PAGE_SIZE) {
		mm_page_info(mm, va + o, &i);
		if (i.present && !i.zero_page)
			(void)folio_referenced(cpu, frame_head(cpu->m, frame_of(cpu->m, i.pfn)), &vm_flags);
	}
}

static void forks(struct mm *mm, uint32_t policy)
{
	vaddr_t small = map(mm, 8 * MIB, NULL, MAP_PRIVATE), huge = map(mm, 32 * MIB, NULL, MAP_PRIVATE);

	q->knobs.huge_cow = policy;
	need(mm_madvise(cpu, mm, small, 8 * MIB, MADV_NOHUGEPAGE), "nohugepage");
	need(mm_madvise(cpu, mm, huge, 32 * MIB, MADV_HUGEPAGE), "hugepage");
	touch(small, 8 * MIB, true);
	touch(huge, 32 * MIB, true);
	for (int i = 0; i < 4; i++) {
		struct mm *child;

		need(mm_fork(cpu, mm, &child), "fork");
		mm_activate(cpu, child);
		touch(small, MIB, true);
		touch(huge, 4 * MIB, true);
		mm_activate(cpu, mm);
		touch(small + MIB, MIB, true);
		ask(mm, small, 4 * MIB);
		ask(mm, huge, 8 * MIB);
		mm_put(cpu, child);
		touch(small, 2 * MIB, true);
	}
	need(mm_munmap(cpu, mm, small, 8 * MIB), "munmap");
	need(mm_munmap(cpu, mm, huge, 32 * MIB), "munmap");
}

/* Pools of huge pages: filled, mapped, shared by a fork, copied, and given back. */
static void pools(struct mm *mm)
{
	for (int i = 0; i < 2; i++) {
		bool gigantic = i;
		uint64_t len = gigantic ? 1024 * MIB : 32 * MIB;
		enum hugetlb_size size = gigantic ? HUGETLB_1G : HUGETLB_2M;
		struct mm *child;

		need(hugetlb_set_pool(cpu, size, NID_NONE, gigantic ? 1 : 64) == (gigantic ? 1 : 64) ? 0 : -1, "pool");
		vaddr_t a = map(mm, len, NULL, MAP_PRIVATE | MAP_HUGETLB | (gigantic ? 30U : 21U) << MAP_HUGE_SHIFT);

		for (uint64_t o = 0; o < len; o += gigantic ? len : 2 * MIB)
			need(machine_access(cpu, a + o, 8, ACCESS_USER | ACCESS_WRITE), "access");
		need(mm_mprotect(cpu, mm, a, len, PROT_READ), "mprotect");
		need(mm_mprotect(cpu, mm, a, len, PROT_READ | PROT_WRITE), "mprotect");
		for (int n = 0; n < (gigantic ? 0 : 4); n++) {
			need(mm_fork(cpu, mm, &child), "fork");
			for (uint64_t o = 0; o < len; o += 2 * MIB)
				need(machine_access(cpu, a + o, 8, ACCESS_USER | ACCESS_WRITE), "access");
			mm_put(cpu, child);
		}
		need(mm_munmap(cpu, mm, a, len), "munmap");
		hugetlb_set_pool(cpu, size, NID_NONE, 0);
	}
}

static void files(struct mm *mm)
{
	struct mfile *f;

	need(file_create(cpu, q, 7, 8 * MIB, false, &f), "file");
	vaddr_t a = map(mm, 8 * MIB, f, MAP_SHARED), b = map(mm, 8 * MIB, f, MAP_PRIVATE);

	touch(a, 4 * MIB, false);
	touch(a, 2 * MIB, true);
	touch(b, 2 * MIB, false);
	touch(b, 4 * MIB, true);
	ask(mm, a, 2 * MIB);
	need(file_rw(cpu, f, 0, 8 * MIB, false), "file_rw");
	need(mm_munmap(cpu, mm, a, 8 * MIB), "munmap");
	need(mm_munmap(cpu, mm, b, 8 * MIB), "munmap");
	file_set_size(cpu, f, MIB);
	file_put(cpu, f);
}

static void heap(struct mm *mm)
{
	int64_t at = mm_brk(cpu, mm, 0);

	for (int i = 1; i <= 64; i++) {
		need(mm_brk(cpu, mm, (vaddr_t)at + (uint64_t)i * 132 * 1024), "brk");
		touch((vaddr_t)at + (uint64_t)(i - 1) * 132 * 1024, 132 * 1024, true);
	}
	need(mm_brk(cpu, mm, (vaddr_t)at), "brk");
}

/* Descriptors of 512 MiB by every step, charged at the addresses of the machine's own, which they are not. */
static struct frame *another(struct cpu *c, const struct frame *src, void *arg)
{
	struct alloc_req r = { .order = frame_order(src), .gfp = GFP_HIGHUSER_MOVABLE | (frame_order(src) ? GFP_COMP : 0), .nid = NID_NONE };

	(void)arg;
	return page_alloc(c, &r);
}

/* Folios are moved and split: base pages and huge ones, mapped by a PMD and by PTEs, by one address space and by two. */
static void folios(struct mm *mm)
{
	struct migrate_target t = { .get = another };
	vaddr_t va = 0x7e0000000000ULL;
	struct list_head l;
	struct mm *child;

	for (unsigned round = 0; round < 8; round++) {
		bool huge = round % 2;

		list_init(&l);
		need(mm_mmap(cpu, mm, va, 8 * PMD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
			     NULL, 0), "mmap");
		need(mm_madvise(cpu, mm, va, 8 * PMD_SIZE, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE), "madvise");
		touch(va, 8 * PMD_SIZE, true);
		if (round & 2)
			need(mm_mprotect(cpu, mm, va + 3 * PMD_SIZE, PAGE_SIZE, PROT_READ), "mprotect");
		if (round & 4)
			need(mm_fork(cpu, mm, &child), "fork");
		for (uint64_t off = 0; off < 4 * PMD_SIZE; off += huge ? PMD_SIZE : PAGE_SIZE) {
			struct frame *f = mm_follow_folio(cpu, mm, va + off, NULL);

			need(f ? migrate_isolate(cpu, f, &l) : -1, "isolate");
			frame_put(cpu, f);
		}
		need(migrate_pages(cpu, &l, &t, MIGRATE_SYNC, MR_SYSCALL, NULL), "migrate_pages");
		for (uint64_t off = 3 * PMD_SIZE; huge && off < 8 * PMD_SIZE; off += PMD_SIZE) {
			struct frame *f = mm_follow_folio(cpu, mm, va + off, NULL);

			folio_lock(cpu, f);
			need(folio_split(cpu, f, NULL, NULL), "split");
			folio_unlock(cpu, f);
			frame_put(cpu, f);
		}
		if (round & 4)
			mm_put(cpu, child);
		need(mm_munmap(cpu, mm, va, 8 * PMD_SIZE), "munmap");
	}
}

/* Out to the swap device and back, base pages and huge ones, read and written. */
static void swapping(struct mm *mm)
{
	vaddr_t va = 0x7d0000000000ULL;

	for (unsigned round = 0; round < 8; round++) {
		need(mm_mmap(cpu, mm, va, 4 * PMD_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, NULL, 0), "mmap");
		need(mm_madvise(cpu, mm, va, 4 * PMD_SIZE, round & 4 ? MADV_HUGEPAGE : MADV_NOHUGEPAGE), "madvise");
		touch(va, 4 * PMD_SIZE, true);
		need(mm_madvise(cpu, mm, va, 4 * PMD_SIZE, UAPI_MADV_PAGEOUT), "pageout");
		touch(va, 3 * PMD_SIZE, round & 1);
		need(mm_munmap(cpu, mm, va, 4 * PMD_SIZE), "munmap");
	}
}

static void boot(struct machine *m)
{
	enum { FRAMES = 4 * SECTION_FRAMES };
	struct memblock_region memory[4], reserved[4];
	struct memblock mb = { .memory = { memory, 0, 4 }, .reserved = { reserved, 0, 4 } };
	struct frame *desc = aligned_alloc(4096, FRAMES * sizeof(*desc));
	uint8_t section[4] = { 0 };

	need(desc ? 0 : -1, "descriptors");
	need(memblock_add(&mb.memory, 0, FRAMES, 0), "memory");
	need(memblock_add(&mb.reserved, 5000, 5100, NID_NONE), "reserved");
	for (uint32_t step = MEMMAP_MEMSET; step <= MEMMAP_ONE_PASS; step++) {
		struct meminit_node node = { .desc_pa = q->section_map[0] };
		struct meminit mi = { .m = m, .mb = &mb, .nr_nodes = 1, .node = &node, .section = section, .step = step,
				      .hotplug = step % (HOTPLUG_FLAG_FOLDED + 1) };
		struct meminit_worker w = { .mi = &mi, .c = cpu, .desc = desc, .mask = ~0ULL };

		for (unsigned t = 0; t < NR_ZONES; t++)
			node.zone[t].pa = machine_pa(m, &q->nodes[0].zones[ZONE_DMA32]);
		need(meminit_setup(&mi), "meminit_setup");
		(void)meminit_begin(&w, 0);
		while (meminit_piece(&w, 0) == 1)
			;
		need(meminit_done(&mi, 0) ? 0 : -1, "meminit_done");
		meminit_hot_add(&w, 0, ZONE_DEVICE, 0, FRAMES, desc);
	}
	free(desc);
}

/* An area of base pages of which every other 64 KiB are dropped, and all memory compacted. */
static void compaction(struct mm *mm)
{
	vaddr_t a = map(mm, 64 * MIB, NULL, MAP_PRIVATE);

	need(mm_madvise(cpu, mm, a, 64 * MIB, MADV_NOHUGEPAGE), "nohugepage");
	touch(a, 64 * MIB, true);
	for (uint64_t o = 0; o < 64 * MIB; o += MIB / 8)
		need(mm_madvise(cpu, mm, a + o, MIB / 16, MADV_DONTNEED), "dontneed");
	quire_compact_node(cpu, 0);
	need(mm_munmap(cpu, mm, a, 64 * MIB), "munmap");
}

int main(void)
{
	struct null_options o = { .nr_cpus = 2, .node_bytes = 3072 * MIB, .swap_bytes = 256 * MIB };
	struct machine *m;
	struct mm *mm, *other;
	char err[200];

	if (null_create(&o, &m, err, sizeof(err)) || quire_boot(m, NULL, &q, err, sizeof(err))) {
		fprintf(stderr, "work_driver: %s\n", err);
		return 1;
	}
	cpu = m->cpus[0];
	need(mm_create(cpu, q, &mm), "mm_create");
	need(mm_create(cpu, q, &other), "mm_create");
	mm_activate(m->cpus[1], mm); /* a second CPU has run the program: flushes go there too */
	mm_activate(cpu, mm);
	need(mm_setup_exec(cpu, mm, 0x555555600000ULL, TASK_SIZE - PAGE_SIZE, 132 * 1024), "exec");
	for (int i = 0; i < 64; i++) {
		mm_activate(cpu, other);
		mm_activate(cpu, mm);
	}
	small_pages(mm);
	huge_pages(mm);
	collapses(mm);
	forks(mm, HUGE_COW_COPY);
	forks(mm, HUGE_COW_SPLIT);
	q->knobs.fork_tables = FORK_TABLES_SHARED;
	forks(mm, HUGE_COW_SPLIT);
	q->knobs.fork_tables = FORK_TABLES_COPIED;
	pools(mm);
	files(mm);
	heap(mm);
	folios(mm);
	compaction(mm);
	swapping(mm);
	boot(m);
	mm_activate(cpu, NULL);
	mm_activate(m->cpus[1], NULL);
	mm_put(cpu, mm);
	mm_put(cpu, other);
	if (quire_validate(q)) {
		fprintf(stderr, "work_driver: %s\n", q->err);
		return 1;
	}
#define PATH(id, name, functions) printf("%s %llu %s\n", #id, (unsigned long long)null_counts(m)->path[PATH_##id].units, functions);
	MACHINE_PATHS(PATH)
#undef PATH
	need(quire_shutdown(q), "shutdown");
	null_destroy(m);
	return 0;
}
