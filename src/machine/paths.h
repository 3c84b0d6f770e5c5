/*
 * The engine's code paths as the machine prices and profiles them (design rule 3).
 *
 * PATH(ID, "shown name", "function[,function...]")
 *   Each machine_work(cpu, PATH_ID, n) says "n units of this path were executed". The price of a unit in
 *   instructions is measured, never invented: scripts/measure-work runs the engine on the null machine under
 *   callgrind, takes the self cost of the named functions and divides it by the units counted, and writes
 *   src/machine/work_table.h. Keep the list of functions exact: the function that calls machine_work and
 *   the static helpers that do its unit's work. ID order is the order in reports.
 */
#ifndef QUIRE_MACHINE_PATHS_H
#define QUIRE_MACHINE_PATHS_H

#define MACHINE_PATHS(PATH)                                                                        \
	PATH(USER, "user", "")                                                                      \
	PATH(EXCEPTION, "exception entry and exit", "")                                             \
	PATH(SYSCALL, "system call entry and exit", "")                                             \
	PATH(SCHED, "context switch", "")                                                           \
	PATH(IPI, "interrupts", "")                                                                 \
	PATH(LOCK_WAIT, "waiting for locks", "")                                                    \
	PATH(KERNEL_COPY, "copy to and from user", "")                                              \
	/* faults */                                                                                \
	PATH(FAULT, "fault: dispatch", "mm_fault,fault_handle,fault_pte")                           \
	PATH(FAULT_ANON, "fault: anonymous 4K", "fault_anon,map_anon")                              \
	PATH(FAULT_ZERO, "fault: zero page", "fault_zero_page")                                     \
	PATH(FAULT_WP, "fault: write-protected", "fault_wp,wp_reuse,wp_copy")                       \
	PATH(FAULT_FILE, "fault: file", "fault_file_read,fault_file_cow,fault_file_shared")         \
	PATH(FAULT_HUGE, "fault: anonymous 2M", "thp_fault_anon,thp_fault_zero")                    \
	PATH(FAULT_HUGE_WP, "fault: write-protected 2M", "thp_fault_wp")                            \
	PATH(CLEAR_PAGE, "clearing pages", "")                                                      \
	PATH(COPY_PAGE, "copying pages", "")                                                        \
	/* physical memory */                                                                       \
	PATH(PCP_ALLOC, "page alloc: per-CPU list", "pcp_alloc")                                    \
	PATH(PCP_FREE, "page free: per-CPU list", "pcp_free")                                       \
	PATH(BUDDY_ALLOC, "page alloc: buddy", "buddy_alloc,buddy_expand")                          \
	PATH(BUDDY_FREE, "page free: buddy", "buddy_free")                                          \
	PATH(PREP_COMPOUND, "page alloc: compound tails", "frame_prep_compound")                    \
	PATH(CLEAR_COMPOUND, "page free: compound tails", "frame_clear_compound")                   \
	PATH(SLAB_ALLOC, "slab alloc", "slab_alloc")                                                \
	PATH(SLAB_FREE, "slab free", "slab_free")                                                   \
	PATH(FILE_LOOKUP, "page cache: lookup", "file_lookup")                                      \
	PATH(FILE_ADD, "page cache: add a page", "file_add,radix_insert")                           \
	PATH(FILE_REMOVE, "page cache: remove a page", "file_remove")                               \
	/* address spaces */                                                                        \
	PATH(VMA_FIND, "areas: lookup", "vma_find")                                                 \
	PATH(VMA_INSERT, "areas: insert, split, merge", "vma_insert,vma_erase,vma_merge,vma_split") \
	PATH(VMA_GAP, "areas: search for a gap", "vma_gap_topdown,vma_gap_bottomup")                \
	PATH(MMAP, "mmap", "mm_mmap")                                                               \
	PATH(MUNMAP, "munmap", "mm_munmap")                                                         \
	PATH(BRK, "brk", "mm_brk")                                                                  \
	PATH(MPROTECT, "mprotect", "mm_mprotect")                                                   \
	PATH(MREMAP, "mremap", "mm_mremap")                                                         \
	PATH(MADVISE, "madvise", "mm_madvise")                                                      \
	PATH(MLOCK, "mlock", "mm_mlock")                                                            \
	PATH(MINCORE, "mincore", "mm_mincore")                                                      \
	/* page tables */                                                                           \
	PATH(WALK, "page tables: walk and allocate", "pt_walk,pt_alloc")                            \
	PATH(ZAP, "page tables: unmap a page", "zap_pte")                                           \
	PATH(ZAP_HUGE, "page tables: unmap a huge page", "zap_huge_pmd")                            \
	PATH(FREE_TABLES, "page tables: free", "pt_free_range")                                     \
	PATH(PROTECT, "page tables: protect a page", "protect_pte,protect_huge_pmd")                \
	PATH(MOVE_TABLES, "page tables: move a page", "move_pte")                                   \
	PATH(SPLIT_PMD, "huge page: split of the mapping", "thp_split_pmd")                         \
	PATH(FORK, "fork", "mm_fork")                                                               \
	PATH(FORK_PTE, "fork: copy an entry", "fork_copy_pte")                                      \
	PATH(FORK_HUGE, "fork: copy a huge entry", "fork_copy_huge_pmd")                            \
	PATH(EXIT, "exit", "mm_exit")                                                               \
	PATH(TLB_FLUSH, "TLB flush", "tlb_flush_mm_range,tlb_gather_flush")                         \
	PATH(SWITCH_MM, "address space switch", "mm_switch")

enum machine_path {
#define PATH(id, name, functions) PATH_##id,
	MACHINE_PATHS(PATH)
#undef PATH
	NR_MACHINE_PATHS
};

#endif
