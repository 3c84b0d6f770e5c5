/*
 * Settings, under Linux's names. One table (knobs.c) holds name, type, default, range, help and origin; struct knobs
 * holds the values that the engine reads. A value is validated whole before it is set. Not to be changed while tasks
 * run.
 */
#ifndef QUIRE_MM_KNOBS_H
#define QUIRE_MM_KNOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum thp_enabled { THP_NEVER, THP_MADVISE, THP_ALWAYS };
enum thp_defrag { THP_DEFRAG_NEVER, THP_DEFRAG_MADVISE, THP_DEFRAG_DEFER, THP_DEFRAG_DEFER_MADVISE, THP_DEFRAG_ALWAYS };
enum huge_order_policy { HUGE_ORDER_LINEAR, HUGE_ORDER_TARGET_LAST, HUGE_ORDER_NEIGHBOURHOOD_LAST };
enum huge_cow { HUGE_COW_COPY, HUGE_COW_SPLIT };
enum huge_zero_cow { HUGE_ZERO_COW_HUGE, HUGE_ZERO_COW_SPLIT };
enum split_flush { SPLIT_FLUSH_EACH, SPLIT_FLUSH_BATCHED };
enum tlb_batch_mark { TLB_BATCH_FLAG, TLB_BATCH_GENERATIONS };
enum numa_scan_check { NUMA_SCAN_FRAME_FIRST, NUMA_SCAN_PTE_FIRST };
enum fork_tables { FORK_TABLES_COPIED, FORK_TABLES_SHARED };
enum memmap_init { /* each step includes those before it (meminit.c) */
	MEMMAP_MEMSET, MEMMAP_WORD_STORES, MEMMAP_NO_NODE_TEST, MEMMAP_CHUNKED, MEMMAP_VALID_RUNS, MEMMAP_PARALLEL, MEMMAP_ZONE_JOB,
	MEMMAP_ONE_PASS, MEMMAP_STREAMED
};
enum hotplug_init { HOTPLUG_PAGE, HOTPLUG_PAGEBLOCK_BACKWARDS, HOTPLUG_FLAG_FOLDED };
enum memmap_memory { MEMMAP_MEMORY_FRESH, MEMMAP_MEMORY_TOUCHED, MEMMAP_MEMORY_HUGE };
enum shootdown_way { SHOOTDOWN_POLL, SHOOTDOWN_MEMBARRIER }; /* as enum host_shootdown */
enum clear_way { CLEAR_REP, CLEAR_NT, CLEAR_MEMSET };         /* as enum host_clear */

struct knobs {
	uint32_t thp_enabled;       /* transparent_hugepage.enabled */
	uint32_t thp_defrag;        /* transparent_hugepage.defrag */
	bool thp_use_zero_page;     /* transparent_hugepage.use_zero_page */
	bool thp_shrink_underused;  /* transparent_hugepage.shrink_underused */
	/* transparent_hugepage.khugepaged.* */
	uint32_t khugepaged_pages_to_scan, khugepaged_scan_sleep_millisecs, khugepaged_alloc_sleep_millisecs;
	uint32_t khugepaged_max_ptes_none, khugepaged_max_ptes_swap, khugepaged_max_ptes_shared;
	bool khugepaged_defrag;
	bool zero_page;             /* quire.zero_page: reads of untouched memory map shared zeroes */
	bool split_zero_to_shared;  /* quire.split_zero_to_shared: parts of a split page that hold only zeros */
	uint32_t huge_clear_order;  /* quire.huge_clear_order */
	uint32_t huge_copy_order;   /* quire.huge_copy_order */
	uint32_t huge_cow;          /* quire.huge_cow: copy (before 5.8) or split (since) */
	uint32_t huge_zero_cow;     /* quire.huge_zero_cow: huge (before 5.8, and since 6.13) or split (between) */
	uint32_t fork_tables;       /* quire.fork_tables: page tables at fork: copied, or shared copy-on-write */
	uint32_t split_flush;       /* quire.split_flush: splitting a folio: a flush with every entry, or one for all */
	/* kernel.numa_balancing, sched.numa_balancing.*, quire.numa_scan_check: numa.h */
	uint32_t numa_balancing, numa_scan_delay_ms, numa_scan_period_min_ms, numa_scan_size_mb, numa_scan_check;
	uint32_t tlb_batch_mark;    /* quire.tlb_batch_mark: how an outstanding batched flush is marked in an address space */
	uint64_t hugetlb_2m_nr;         /* hugepages-2048kB.nr_hugepages */
	uint64_t hugetlb_2m_overcommit; /* hugepages-2048kB.nr_overcommit_hugepages */
	uint64_t hugetlb_1g_nr;         /* hugepages-1048576kB.nr_hugepages */
	bool thp_align_mmap;        /* quire.thp_align_mmap: large anonymous maps 2 MiB aligned, since 6.7 */
	uint64_t min_free_kbytes;   /* vm.min_free_kbytes, 0: computed */
	uint32_t swappiness;        /* vm.swappiness */
	uint32_t overcommit_memory; /* vm.overcommit_memory */
	uint32_t overcommit_ratio;  /* vm.overcommit_ratio */
	uint64_t max_map_count;     /* vm.max_map_count */
	uint32_t fault_around_bytes;/* quire.fault_around_bytes: debugfs fault_around_bytes in Linux */
	uint32_t read_ahead_kb;     /* bdi.read_ahead_kb */
	uint32_t page_cluster;      /* vm.page-cluster: log2 of pages that swap-in reads at a time */
	uint32_t lru_batch;         /* quire.lru_batch: folios a CPU collects before it puts them on lists of reclaim */
	bool mremap_several;        /* quire.mremap_several */
	bool exec_read_forward;     /* quire.exec_read_forward */
	bool pt_reclaim;            /* quire.pt_reclaim */
	bool readahead_resumes;     /* quire.readahead_resumes */
	bool readahead_folios;      /* quire.readahead_folios */
	bool write_begins_first;    /* quire.write_begins_first */
	bool mremap_judges_first;   /* quire.mremap_judges_first */
	bool merge_untouched;       /* quire.merge_untouched */
	uint32_t percpu_pagelist_high_fraction; /* vm.percpu_pagelist_high_fraction */
	uint32_t tlb_flush_ceiling; /* quire.tlb_single_page_flush_ceiling: debugfs name in Linux */
	uint64_t mmap_min_addr;     /* vm.mmap_min_addr */
	uint32_t watermark_scale_factor; /* vm.watermark_scale_factor */
	uint32_t watermark_boost_factor; /* vm.watermark_boost_factor */
	uint32_t lowmem_reserve_dma32, lowmem_reserve_normal; /* vm.lowmem_reserve_ratio_dma32, _normal: two of the sysctl's fields */
	uint32_t extfrag_threshold;      /* vm.extfrag_threshold: debugfs and sysctl */
	uint32_t compaction_proactiveness; /* vm.compaction_proactiveness */
	bool compact_large_folios;       /* quire.compact_large_folios */
	bool compact_capture;            /* quire.compact_capture */
	uint64_t kernelcore, movablecore; /* quire.kernelcore, quire.movablecore: bytes, 0: not given */
	uint32_t memmap_init;       /* quire.memmap_init: of the workload boot */
	uint32_t hotplug_init;      /* quire.hotplug_init: of the workload hotplug */
	/* of the host machine: read by whoever creates one, not by the engine */
	uint32_t shootdown;         /* quire.shootdown */
	uint32_t host_clear;        /* quire.host_clear */
	uint32_t memmap_memory;     /* quire.memmap_memory */
};

enum knob_type { KNOB_BOOL, KNOB_ENUM, KNOB_INT };

struct knob {
	const char *name;
	enum knob_type type;
	size_t offset, size;         /* in struct knobs */
	uint64_t def, min, max;      /* KNOB_INT; for the others def only */
	bool zero_ok;                /* KNOB_INT: 0 is allowed even though it is below min */
	bool pow2;                   /* KNOB_INT: rounded down to a power of two, as Linux does for this one */
	const char *const *choices;  /* KNOB_ENUM: NULL-terminated, index is the value */
	const char *unit;            /* "bytes", "kB", "pages", "" */
	const char *help;            /* one line */
	const char *origin;          /* "sysfs", "sysctl", "debugfs", "quire"; release or patch where it matters */
};

extern const struct knob knob_table[];
extern const size_t knob_count;

void knobs_default(struct knobs *k);
/* NULL when there is none. */
const struct knob *knob_find(const char *name);
/* The known name nearest to `name` by edit distance, or NULL when nothing is near. */
const char *knob_nearest(const char *name);
/*
 * Parse and set. 0, -ENOENT (no such knob) or -EINVAL (value; buf of len bytes then says what is
 * allowed). Nothing is changed on error.
 */
int knob_set(struct knobs *k, const char *name, const char *value, char *buf, size_t len);
/* The current value as text into buf. */
void knob_format(const struct knobs *k, const struct knob *kn, char *buf, size_t len);

#endif
