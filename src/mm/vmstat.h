/*
 * Event counters and gauges under Linux's names (/proc/vmstat), kept a CPU and summed when read. Names that Linux does
 * not have start with quire_. One table; everything that prints counters goes through it.
 */
#ifndef QUIRE_MM_VMSTAT_H
#define QUIRE_MM_VMSTAT_H

#include "machine/machine.h"

#define VM_EVENTS(E)                                                                               \
	E(pgpgin) /* KiB */                                                                         \
	E(pswpin)                                                                                   \
	E(pswpout)                                                                                  \
	E(pgalloc_dma32)                                                                            \
	E(pgalloc_normal)                                                                           \
	E(pgalloc_movable)                                                                          \
	E(allocstall_dma32) /* direct reclaims, by the highest zone that the request may use */      \
	E(allocstall_normal)                                                                        \
	E(allocstall_movable)                                                                       \
	E(pgfree)                                                                                   \
	E(pgfault)                                                                                  \
	E(pgmajfault)                                                                               \
	E(pgreuse)                                                                                  \
	E(numa_hit)                                                                                 \
	E(numa_miss)                                                                                \
	E(numa_foreign)                                                                             \
	E(numa_local)                                                                               \
	E(numa_other)                                                                               \
	E(htlb_buddy_alloc_success)                                                                 \
	E(htlb_buddy_alloc_fail)                                                                    \
	E(compact_migrate_scanned) /* frames looked at by compaction's scanners: for what can be moved, for free blocks; frames taken by both */ \
	E(compact_free_scanned)                                                                     \
	E(compact_isolated)                                                                         \
	E(compact_stall) /* direct compactions that ran; of them, with a block for the caller and without */ \
	E(compact_fail)                                                                             \
	E(compact_success)                                                                          \
	E(compact_daemon_wake)                                                                      \
	E(compact_daemon_migrate_scanned)                                                           \
	E(compact_daemon_free_scanned)                                                              \
	E(thp_fault_alloc)                                                                          \
	E(thp_fault_fallback)                                                                       \
	E(numa_pte_updates)                                                                         \
	E(numa_huge_pte_updates)                                                                    \
	E(numa_hint_faults)                                                                         \
	E(numa_hint_faults_local)                                                                   \
	E(numa_pages_migrated)                                                                      \
	E(pgmigrate_success)                                                                        \
	E(pgmigrate_fail)                                                                           \
	E(thp_migration_success)                                                                    \
	E(thp_migration_fail)                                                                       \
	E(thp_migration_split)                                                                      \
	E(thp_collapse_alloc)                                                                       \
	E(thp_collapse_alloc_failed)                                                                \
	E(thp_scan_exceed_none_pte)                                                                 \
	E(thp_scan_exceed_swap_pte)                                                                 \
	E(thp_scan_exceed_share_pte)                                                                \
	E(thp_split_page)                                                                           \
	E(thp_split_page_failed)                                                                    \
	E(thp_split_pmd)                                                                            \
	E(thp_zero_page_alloc)                                                                      \
	E(thp_zero_page_alloc_failed)                                                               \
	E(thp_underused_split_page)                                                                 \
	E(thp_deferred_split_page)                                                                  \
	E(thp_swpout) /* huge pages that went out whole, and those that had to be split for it */   \
	E(thp_swpout_fallback)                                                                      \
	E(swap_ra)                                                                                  \
	E(swap_ra_hit)                                                                              \
	E(pglazyfreed)                                                                              \
	E(pglazyfree)                                                                               \
	E(pgactivate)                                                                               \
	E(pgdeactivate)                                                                             \
	E(pgrefill) /* active pages that were looked at */                                          \
	E(pgsteal_kswapd) /* pages that were freed, by whom and of which lists */                   \
	E(pgsteal_direct)                                                                           \
	E(pgsteal_anon)                                                                             \
	E(pgsteal_file)                                                                             \
	E(pgscan_kswapd) /* inactive pages that were looked at */                                   \
	E(pgscan_direct)                                                                            \
	E(pgscan_anon)                                                                              \
	E(pgscan_file)                                                                              \
	E(slabs_scanned) /* huge pages on the queue of those to be split */                         \
	E(pageoutrun) /* times that kswapd set to work */                                           \
	E(kswapd_low_wmark_hit_quickly)                                                             \
	E(kswapd_high_wmark_hit_quickly)                                                            \
	E(pgrotated)                                                                                \
	E(unevictable_pgs_culled)                                                                   \
	E(unevictable_pgs_rescued)                                                                  \
	E(unevictable_pgs_mlocked)                                                                  \
	E(unevictable_pgs_munlocked)                                                                \
	E(nr_tlb_remote_flush)                                                                      \
	E(nr_tlb_remote_flush_received)                                                             \
	E(nr_tlb_local_flush_all)                                                                   \
	E(nr_tlb_local_flush_one)                                                                   \
	E(oom_kill)                                                                                 \
	/* faults by kind; their sum without sigsegv is pgfault */                                  \
	E(quire_fault_anon_4k)                                                                      \
	E(quire_fault_anon_2m)                                                                      \
	E(quire_fault_zero_4k)                                                                      \
	E(quire_fault_zero_2m)                                                                      \
	E(quire_fault_cow_4k)                                                                       \
	E(quire_fault_cow_2m)                                                                       \
	E(quire_fault_reuse_4k)                                                                     \
	E(quire_fault_reuse_2m)                                                                     \
	E(quire_fault_hugetlb_2m)                                                                   \
	E(quire_fault_hugetlb_1g)                                                                   \
	E(quire_fault_hugetlb_cow_2m)                                                               \
	E(quire_fault_hugetlb_cow_1g)                                                               \
	E(quire_fault_hugetlb_reuse)                                                                \
	E(quire_fault_file)                                                                         \
	E(quire_fault_swap) /* from the swap cache, or from the device (then in pgmajfault too) */  \
	E(quire_fault_numa) /* a page that the NUMA scanner had marked */                           \
	E(quire_fault_spurious)                                                                     \
	E(quire_fault_sigsegv)                                                                      \
	E(quire_fault_sigbus)                                                                       \
	E(quire_fault_oom)                                                                          \
	E(quire_pages_cleared)                                                                      \
	E(quire_pages_copied)                                                                       \
	E(quire_hugetlb_taken_back) /* mappings that the owner of a huge page took from others */   \
	E(quire_file_readahead_pages)                                                               \
	/* blocks taken from another migrate type: with their pageblock, or without it */           \
	E(quire_fallback_claim)                                                                     \
	E(quire_fallback_steal)                                                                     \
	E(quire_fork)                                                                               \
	/* page tables under quire.fork_tables=shared: shared at a fork; copied, made its own without a copy, or let go */ \
	E(quire_fork_table_shared)                                                                  \
	E(quire_fork_table_unshared)                                                                \
	E(quire_fork_table_taken)                                                                   \
	E(quire_fork_table_dropped)                                                                 \
	/* of a fork: entries of the last level and of 2 MiB that were copied, last-level tables of the parent that were walked */ \
	/* and of the child that were made, pages that were copied because they are pinned */      \
	E(quire_fork_entries_4k)                                                                    \
	E(quire_fork_entries_2m)                                                                    \
	E(quire_fork_tables_walked)                                                                 \
	E(quire_fork_tables_made)                                                                   \
	E(quire_fork_pinned_copied)                                                                 \
	/* 2 MiB of addresses whose first fault could not be a huge one, by the first reason that holds (thp.c) */ \
	E(quire_thp_ineligible_kind)      /* a file's, shared, or special memory */                 \
	E(quire_thp_ineligible_disabled)  /* transparent_hugepage.enabled=never */                  \
	E(quire_thp_ineligible_advice)    /* not asked for, or MADV_NOHUGEPAGE */                   \
	E(quire_thp_ineligible_prctl)     /* PR_SET_THP_DISABLE */                                  \
	E(quire_thp_ineligible_small)     /* the area has no aligned 2 MiB at all */                \
	E(quire_thp_ineligible_alignment) /* it has, but this range is at its edge */               \
	/* huge pages that were freed, and those of their 4 KiB parts that nobody had stored to (where contents are tags) */ \
	E(quire_thp_freed)                                                                          \
	E(quire_thp_freed_unwritten)                                                                \
	/* faults that waited for a page that was being moved or split */                           \
	E(quire_migration_waits)                                                                    \
	/* flushes put off to a batch (tlb_batch.h), entry by entry */                              \
	E(quire_tlb_deferred)                                                                       \
	/* flushes on coming back to an address space that had been flushed meanwhile */            \
	E(quire_flush_return)                                                                       \
	VM_FLUSHES(E, quire_flush_) /* flushes by what called for them */                           \
	VM_FLUSHES(E, quire_ipi_)   /* other CPUs that these made take part at once */              \
	E(quire_mmap_lock_write)

/* What calls for a flush (enum flush_why in tlb.h, in this order). */
#define VM_FLUSHES(E, p) E(p##other) E(p##cow) E(p##split) E(p##fork) E(p##unshare) E(p##munmap) E(p##mprotect) E(p##madvise) E(p##mremap) \
	E(p##unmap) E(p##batch) E(p##batch_pending) E(p##collapse) E(p##exit)

/* Gauges, in pages unless the name says otherwise. */
#define VM_GAUGES(E)                                                                               \
	/* lists of reclaim, in the order of enum lru_list; and what is off them for a while */    \
	E(nr_inactive_anon)                                                                         \
	E(nr_active_anon)                                                                           \
	E(nr_inactive_file)                                                                         \
	E(nr_active_file)                                                                           \
	E(nr_unevictable)                                                                           \
	E(nr_isolated_anon)                                                                         \
	E(nr_isolated_file)                                                                         \
	E(nr_anon_pages)                                                                            \
	E(nr_anon_transparent_hugepages) /* in huge pages of 2 MiB, PMD-mapped */                   \
	E(nr_mapped)                                                                                \
	E(nr_file_pages)                                                                            \
	E(nr_shmem)                                                                                 \
	E(nr_mlock)                                                                                 \
	E(nr_swapcached)                                                                            \
	E(nr_page_table_pages)                                                                      \
	E(nr_slab_pages)                                                                            \
	E(nr_kernel_misc_pages)

enum vm_counter {
#define E(n) VM_##n,
	VM_EVENTS(E) VM_GAUGES(E)
#undef E
	    NR_VM_COUNTERS
};

extern const char *const vm_counter_names[NR_VM_COUNTERS];

struct vmstat_cpu {
	int64_t v[NR_VM_COUNTERS];
};

/*
 * In percpu: counting is a plain add on the CPU's own copy, so no lock and no charge (it is in the path's
 * instructions).
 */
static inline void vmstat_add(struct cpu *c, enum vm_counter k, int64_t n)
{
	/*
	 * The counters are what struct percpu begins with (system.h asserts it). Inline, so that the cost is in the
	 * path that counts.
	 */
	int64_t *v = ((struct vmstat_cpu *)(void *)c->pc)->v + k;

	__atomic_store_n(v, *v + n, __ATOMIC_RELAXED);
}
static inline void vmstat_inc(struct cpu *c, enum vm_counter k)
{
	vmstat_add(c, k, 1);
}
/* Sum over CPUs. Exact when no CPU is running. */
int64_t vmstat_read(const struct quire *q, enum vm_counter k);

#endif
