/*
 * The standard workloads. Parameters are the published programs'; default sizes are scaled so that a run on the model takes seconds
 * (design rule 11), --size sets them.
 */
#include "workload/work_int.h"

#include <string.h>

#define KB_PER_S "throughput_KBps", "KB/s"
#define OPS_PER_S "operations_per_s", "ops/s"
#define GIB (1ULL << 30)
#define MIB (1ULL << 20)

static const struct workload_kind write_seq = { .run = usemem_run, .usemem = true };
static const struct workload_kind write_rand = { .run = usemem_run, .usemem = true, .random = true };
static const struct workload_kind read_seq = { .run = usemem_run, .usemem = true, .readonly = true };
static const struct workload_kind read_rand = { .run = usemem_run, .usemem = true, .readonly = true, .random = true };
static const struct workload_kind shared_seq = { .run = usemem_run, .usemem = true, .prealloc = true };
static const struct workload_kind shared_rand = { .run = usemem_run, .usemem = true, .prealloc = true, .random = true };
static const struct workload_kind cow_seq = { .run = usemem_run, .usemem = true, .prealloc = true, .prefault = true };
static const struct workload_kind cow_rand = { .run = usemem_run, .usemem = true, .prealloc = true, .prefault = true, .random = true };
static const struct workload_kind write_seq_hugetlb = { .run = usemem_run, .usemem = true, .hugetlb = true };
static const struct workload_kind write_rand_hugetlb = { .run = usemem_run, .usemem = true, .hugetlb = true, .random = true };
static const struct workload_kind read_seq_hugetlb = { .run = usemem_run, .usemem = true, .hugetlb = true, .readonly = true };
static const struct workload_kind read_rand_hugetlb = {
	.run = usemem_run, .usemem = true, .hugetlb = true, .readonly = true, .random = true
};
static const struct workload_kind cow_seq_hugetlb = { .run = usemem_run, .usemem = true, .hugetlb = true, .prealloc = true, .prefault = true };
static const struct workload_kind cow_rand_hugetlb = {
	.run = usemem_run, .usemem = true, .hugetlb = true, .prealloc = true, .prefault = true, .random = true
};
static const struct workload_kind page_fault1 = { .run = wis_page_fault };
static const struct workload_kind page_fault2 = { .run = wis_page_fault, .file = true };
static const struct workload_kind page_fault3 = { .run = wis_page_fault, .file = true, .shared = true };
static const struct workload_kind malloc1 = { .run = wis_malloc };
static const struct workload_kind mmap1 = { .run = wis_mmap };
static const struct workload_kind mmap2 = { .run = wis_mmap, .file = true };
static const struct workload_kind brk1 = { .run = wis_brk, .heap = true };
static const struct workload_kind tlb_flush1 = { .run = wis_tlb_flush, .file = true };
static const struct workload_kind tlb_flush2 = { .run = wis_tlb_flush };
static const struct workload_kind thpscale = {
	.run = thpscale_run, .memory_percent = 80, .common_file = true, .conclude = thpscale_conclude
};
static const struct workload_kind thpscale_advised = {
	.run = thpscale_run, .memory_percent = 80, .common_file = true, .conclude = thpscale_conclude, .advise = true
};
static const struct workload_kind pmbench = {
	.run = pmbench_run, .prealloc = true, .conclude = pmbench_conclude, .refuses = pmbench_refuses
};
static const struct workload_kind split = { .run = split_run, .conclude = split_conclude };
static const struct workload_kind pressure_seq = { .run = usemem_run, .usemem = true, .memory_percent = 150, .passes = 2 };
static const struct workload_kind pressure_rand = { .run = usemem_run, .usemem = true, .memory_percent = 150, .passes = 2, .random = true };
static const struct workload_kind pressure_file = {
	.run = usemem_run, .usemem = true, .memory_percent = 150, .passes = 2, .readonly = true, .common_file = true
};
static const struct workload_kind boot = { 0 };
static const struct workload_kind hotplug = { .hotplug = true };
static const struct workload_kind tlb_flush3 = { .run = wis_tlb_flush, .file = true, .shared = true };

#define USEMEM(name, call, help, size, threads, kind)                                                                          \
	{ name, "vm-scalability: usemem " call, help, KB_PER_S, size, false, threads, &(kind), false, false }
#define WIS(name, help, size, threads, kind)                                                                                   \
	{ name, threads ? "will-it-scale: " #kind "_threads" : "will-it-scale: " #kind "_processes", help, OPS_PER_S, size, true,    \
	  threads, &(kind), false, false }

const struct workload workload_table[] = {
	USEMEM("anon-cow-seq", "-n TASKS --prealloc --prefault SIZE/(TASKS+1)",
	       "a parent populates memory, each of its children writes all of it in order: a copy a page", GIB, false, cow_seq),
	USEMEM("anon-cow-rand", "-n TASKS --prealloc --prefault --random SIZE/(TASKS+1)",
	       "as anon-cow-seq, words in random order with repetition", GIB / 4, false, cow_rand),
	USEMEM("anon-w-seq", "-n TASKS SIZE/TASKS", "processes write fresh memory in order", GIB, false, write_seq),
	USEMEM("anon-w-rand", "-n TASKS --random SIZE/TASKS", "processes write fresh memory, words in random order with repetition",
	       GIB / 4, false, write_rand),
	USEMEM("anon-r-seq", "-n TASKS --readonly SIZE/TASKS", "processes read memory that nobody wrote, in order: the zero page", GIB, false,
	       read_seq),
	USEMEM("anon-r-rand", "-n TASKS --readonly --random SIZE/TASKS",
	       "processes read memory that nobody wrote, words in random order with repetition", GIB / 4, false, read_rand),
	USEMEM("anon-cow-seq-mt", "-t TASKS --prealloc --prefault SIZE/2",
	       "a parent populates memory, the threads of one child each write all of it in order", GIB / 8, true, cow_seq),
	USEMEM("anon-cow-rand-mt", "-t TASKS --prealloc --prefault --random SIZE/2",
	       "as anon-cow-seq-mt, words in random order with repetition", GIB / 32, true, cow_rand),
	USEMEM("anon-w-seq-mt", "-t TASKS SIZE/TASKS", "threads of one process each write fresh memory of their own in order", GIB, true,
	       write_seq),
	USEMEM("anon-w-rand-mt", "-t TASKS --random SIZE/TASKS", "as anon-w-seq-mt, words in random order with repetition", GIB / 4, true,
	       write_rand),
	USEMEM("anon-wx-seq-mt", "-t TASKS --prealloc SIZE", "threads of one process each write all of the same fresh memory in order",
	       GIB / 8, true, shared_seq),
	USEMEM("anon-wx-rand-mt", "-t TASKS --prealloc --random SIZE", "as anon-wx-seq-mt, words in random order with repetition", GIB / 32,
	       true, shared_rand),
	USEMEM("anon-r-seq-mt", "-t TASKS --readonly SIZE/TASKS", "threads of one process each read memory that nobody wrote, in order", GIB,
	       true, read_seq),
	USEMEM("anon-r-rand-mt", "-t TASKS --readonly --random SIZE/TASKS", "as anon-r-seq-mt, words in random order with repetition",
	       GIB / 4, true, read_rand),
	USEMEM("anon-cow-seq-hugetlb", "-n TASKS --prealloc --prefault -O -U SIZE/(TASKS+1)",
	       "anon-cow-seq on 2 MiB pages of the pool (hugepages-2048kB), which are copied whole", GIB / 4, false,
	       cow_seq_hugetlb),
	USEMEM("anon-cow-rand-hugetlb", "-n TASKS --prealloc --prefault --random -O -U SIZE/(TASKS+1)",
	       "as anon-cow-seq-hugetlb, words in random order with repetition", GIB / 4, false, cow_rand_hugetlb),
	USEMEM("anon-w-seq-hugetlb", "-n TASKS -O -U SIZE/TASKS", "anon-w-seq on 2 MiB pages of the pool", GIB / 4, false, write_seq_hugetlb),
	USEMEM("anon-w-rand-hugetlb", "-n TASKS --random -O -U SIZE/TASKS", "anon-w-rand on 2 MiB pages of the pool", GIB / 4, false,
	       write_rand_hugetlb),
	USEMEM("anon-r-seq-hugetlb", "-n TASKS --readonly -O -U SIZE/TASKS",
	       "processes read fresh 2 MiB pages of the pool in order: no zero page there", GIB / 4, false, read_seq_hugetlb),
	USEMEM("anon-r-rand-hugetlb", "-n TASKS --readonly --random -O -U SIZE/TASKS",
	       "as anon-r-seq-hugetlb, words in random order with repetition", GIB / 4, false, read_rand_hugetlb),
	USEMEM("anon-cow-seq-mt-hugetlb", "-t TASKS --prealloc --prefault -O -U SIZE/2", "anon-cow-seq-mt on 2 MiB pages of the pool", GIB / 8,
	       true, cow_seq_hugetlb),
	USEMEM("anon-w-seq-mt-hugetlb", "-t TASKS -O -U SIZE/TASKS", "anon-w-seq-mt on 2 MiB pages of the pool", GIB / 4, true,
	       write_seq_hugetlb),
	USEMEM("usemem-pressure", "-n TASKS --repeat 2 SIZE/TASKS",
	       "processes write one and a half times the machine's memory in order, twice: needs swap", GIB, false, pressure_seq),
	USEMEM("usemem-pressure-rand", "-n TASKS --repeat 2 --random SIZE/TASKS",
	       "as usemem-pressure, words in random order with repetition", GIB, false, pressure_rand),
	USEMEM("usemem-pressure-file", "-n TASKS --repeat 2 --readonly -f FILE SIZE/TASKS",
	       "processes read a mapped file of one and a half times the memory in order, twice", GIB, false, pressure_file),
	WIS("page_fault1", "map 128 MiB of anonymous memory, store a byte to each page (an operation), unmap, again", 128 * MIB, false,
	    page_fault1),
	WIS("page_fault2", "as page_fault1, on a private map of a file: a copy of a cached page an operation", 128 * MIB, false, page_fault2),
	WIS("page_fault3", "as page_fault1, on a shared map of a file", 128 * MIB, false, page_fault3),
	WIS("malloc1", "malloc and free 128 MiB (an operation): a map, its header's fault, an unmap", 128 * MIB, false, malloc1),
	WIS("mmap1", "map and unmap 128 MiB that nobody touches (an operation)", 128 * MIB, false, mmap1),
	WIS("mmap2", "as mmap1, of a file", 128 * MIB, false, mmap2),
	WIS("brk1", "grow the heap by a page, shrink it again (two operations)", MIB, false, brk1),
	WIS("tlb_flush1", "as tlb_flush2, in 128 MiB of a private map of a file, whose content it reads", 128 * MIB, false, tlb_flush1),
	WIS("tlb_flush2", "in 1 MiB of anonymous memory: store to a page, MADV_DONTNEED it, read zero (an operation)", MIB, false, tlb_flush2),
	WIS("tlb_flush3", "as tlb_flush1, in a shared map: it reads what it stored", 128 * MIB, false, tlb_flush3),
	WIS("page_fault1-mt", "page_fault1 by threads of one process", 128 * MIB, true, page_fault1),
	WIS("page_fault2-mt", "page_fault2 by threads of one process, a file each", 128 * MIB, true, page_fault2),
	WIS("page_fault3-mt", "page_fault3 by threads of one process, a file each", 128 * MIB, true, page_fault3),
	WIS("malloc1-mt", "malloc1 by threads of one process", 128 * MIB, true, malloc1),
	WIS("mmap1-mt", "mmap1 by threads of one process", 128 * MIB, true, mmap1),
	WIS("mmap2-mt", "mmap2 by threads of one process, a file each", 128 * MIB, true, mmap2),
	WIS("brk1-mt", "brk1 by threads of one process, which all move the same end", MIB, true, brk1),
	WIS("tlb_flush1-mt", "tlb_flush1 by threads of one process, a file each", 128 * MIB, true, tlb_flush1),
	WIS("tlb_flush2-mt", "tlb_flush2 by threads of one process: each operation is a shootdown to all others", MIB, true, tlb_flush2),
	WIS("tlb_flush3-mt", "tlb_flush3 by threads of one process, a file each", 128 * MIB, true, tlb_flush3),
	{ "thpscale", "mmtests: thpscale TASKS SIZE FILE 0",
	  "threads fragment 80 % of memory, then fault 2 MiB blocks: how long, and how many get huge pages", "fault_both_ns", "ns", GIB, false,
	  true, &thpscale, true, false },
	{ "thpscale-madvhugepage", "mmtests: thpscale TASKS SIZE FILE 1", "thpscale with MADV_HUGEPAGE on what is faulted", "fault_both_ns",
	  "ns", GIB, false, true, &thpscale_advised, true, false },
	{ "pmbench", "pmbench -p PATTERN -e SHAPE -m SIZE -s WORKING_SET -j TASKS -r READS -o WORD SECONDS",
	  "threads load and store pages of one map by --pattern, each access is timed", "accesses_per_s", "accesses/s", 256 * MIB, false, true,
	  &pmbench, false, false },
	{ "split", "Linux: /sys/kernel/debug/split_huge_pages",
	  "the first thread splits huge pages that PTEs map, the others run in the same address space", "splits_per_s", "splits/s", 64 * MIB, true,
	  true, &split, true, false },
	{ "boot", "Linux: deferred initialisation of struct page", "descriptors of --size of memory are initialised and freed, as quire.memmap_init says",
	  "descriptors_per_s", "descriptors/s", 8 * GIB, false, true, &boot, false, true },
	{ "hotplug", "Linux: memmap_init_zone_device", "descriptors of --size of device memory are added, as quire.hotplug_init says",
	  "descriptors_per_s", "descriptors/s", 8 * GIB, false, true, &hotplug, false, true },
};
const size_t workload_count = ARRAY_SIZE(workload_table);

unsigned work_memory_percent(const struct workload *w)
{
	return w->kind->memory_percent;
}

const struct workload *workload_find(const char *name)
{
	for (size_t i = 0; i < workload_count; i++)
		if (!strcmp(workload_table[i].name, name))
			return &workload_table[i];
	return NULL;
}
