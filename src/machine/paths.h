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
	PATH(FAULT, "fault: dispatch", "mm_fault,fault_handle,fault_run,fault_pte,fault_count,thp_allowed") \
	PATH(FAULT_ANON, "fault: anonymous 4K", "fault_anon")                                       \
	PATH(MAP_ANON, "fault: map a new page", "map_anon,thp_map")                                 \
	PATH(FAULT_ZERO, "fault: zero page", "fault_zero_page")                                     \
	PATH(FAULT_WP, "fault: write-protected", "fault_wp,wp_reuse,wp_copy,wp_new_page")           \
	PATH(FAULT_FILE, "fault: file", "fault_file_read,fault_file_cow,fault_file_shared,file_map_one,file_page") \
	PATH(FAULT_AROUND, "fault: map a cached neighbour", "fault_around")                         \
	PATH(FAULT_HUGE, "fault: anonymous 2M", "thp_fault_anon,thp_fault_zero,thp_zero_folio")     \
	PATH(FAULT_HUGE_WP, "fault: write-protected 2M", "thp_fault_wp,thp_cow_copy,thp_cow_install,thp_cow_split") \
	PATH(HUGETLB_FAULT, "fault: page of a pool", "hugetlb_fault,no_page,map_page,fault_lock") \
	PATH(HUGETLB_WP, "fault: write-protected page of a pool", "wp,reuse,copy_page,take_back,take_entry") \
	PATH(CLEAR_PAGE, "clearing pages", "")                                                      \
	PATH(COPY_PAGE, "copying pages", "")                                                        \
	PATH(HUGECOPY, "huge page: a sub-page's turn", "hugecopy_process,hugecopy_clear,hugecopy_copy,ascend,converge,neighbourhood,step,clear_one,copy_one,turn") \
	/* physical memory */                                                                       \
	PATH(PAGE_ALLOC, "page alloc: choice of zone", "page_alloc,zonelist_alloc,zone_alloc,zone_watermark_ok,count_alloc,frame_prep") \
	PATH(PAGE_FREE, "page free: checks", "page_free,frame_unprep")                              \
	PATH(PCP_ALLOC, "page alloc: per-CPU list", "pcp_alloc,pcp_alloc_bulk")                                    \
	PATH(PCP_FREE, "page free: per-CPU list", "pcp_free")                                       \
	PATH(PCP_REFILL, "page alloc: refill and trim of a per-CPU list", "pcp_refill,pcp_take_runs,pcp_trim,chunk_add,chunk_give")    \
	PATH(BUDDY_ALLOC, "page alloc: buddy", "buddy_alloc,buddy_alloc_upto,take_upto,buddy_take,buddy_expand,steal_from,steal_block,claim_block,pageblock_claim,pageblock_count,pageblock_move_free,pageblocks_retype,zone_boost") \
	PATH(BUDDY_FREE, "page free: buddy", "buddy_free")                                          \
	PATH(PREP_COMPOUND, "page alloc: compound tails", "frame_prep_compound")                    \
	PATH(CLEAR_COMPOUND, "page free: compound tails", "frame_clear_compound")                   \
	PATH(CONTIG, "page alloc: run of largest blocks, a candidate", "contig_alloc,contig_free,zone_take,range_is_free") \
	PATH(HUGETLB_POOL, "pools of huge pages", "hugetlb_alloc,hugetlb_free,hugetlb_reserve,hugetlb_unreserve,dequeue,enqueue") \
	PATH(SLAB_ALLOC, "slab alloc", "slab_alloc")                                                \
	PATH(SLAB_FREE, "slab free", "slab_free")                                                   \
	PATH(SLAB_REFILL, "slab: refill and flush of a magazine", "magazine_refill,magazine_fill,magazine_flush,slab_give,slab_new") \
	PATH(FILE_LOOKUP, "page cache: lookup", "file_lookup,radix_lookup,find_leaf")               \
	PATH(FILE_ADD, "page cache: add a page", "file_add,page_new,page_enter,radix_insert,grow")             \
	PATH(FILE_REMOVE, "page cache: remove a page", "file_remove,radix_next,radix_erase")        \
	/* boot */                                                                                 \
	PATH(STRING_START, "boot: start of a string store", "")                                     \
	PATH(MEMINIT_MEMSET, "boot: a descriptor, cleared by a call", "meminit_one_memset") \
	PATH(MEMINIT_WORDS, "boot: a descriptor, word stores", "meminit_run_words,meminit_run_free,init_range") \
	PATH(MEMINIT_VALID, "boot: tests of a frame", "init_tested,free_tested")                                \
	PATH(MEMINIT_NODE_TEST, "boot: node test of a frame", "meminit_pfn_in_node")                \
	PATH(MEMINIT_FREE, "boot: a frame becomes free", "free_one,meminit_free_range")             \
	PATH(MEMINIT_BUDDY, "boot: a block for the free lists", "meminit_insert,meminit_delete")    \
	PATH(HOTPLUG_PAGE, "hot-plug: a descriptor, page by page", "add_page")                      \
	PATH(HOTPLUG_BLOCK, "hot-plug: a descriptor, by pageblock", "meminit_run_backwards") \
	/* address spaces */                                                                        \
	PATH(VMA_FIND, "areas: lookup", "vma_find")                                                 \
	PATH(VMA_INSERT, "areas: insert, split, merge", "vma_insert,vma_erase,vma_set_range,vma_merge_new,vma_modify,vma_split,merge_part,isolate,fix_up,rebalance,refresh_gap") \
	PATH(ANON_VMA, "areas: a link to pages, a tree of areas", "anon_vma_prepare,anon_vma_link,anon_vma_fork,anon_vma_take,unlink_anon_vmas,link_all,link_one,unlink_all,vma_rmap_begin,vma_rmap_end,vma_link_file,interval_insert,interval_remove,settle,level_out") \
	PATH(VMA_GAP, "areas: search for a gap", "vma_gap_topdown,vma_gap_bottomup,gap_highest,gap_lowest") \
	PATH(MMAP, "mmap", "mm_mmap,mmap_check,mmap_region,mmap_install,vma_get_unmapped,place") \
	PATH(MUNMAP, "munmap", "mm_munmap,munmap_locked,unmap_plan,unmap_detach,unmap_finish") \
	PATH(BRK, "brk", "mm_brk,brk_locked,heap_grow") \
	PATH(MPROTECT, "mprotect", "mm_mprotect,mprotect_locked,protect_areas,protect_area") \
	PATH(MREMAP, "mremap", "mm_mremap,mremap_locked,mremap_to,mremap_grow,move_area,make_destination") \
	PATH(MADVISE, "madvise", "mm_madvise,madvise_walk,advise_area,advise_pages") \
	PATH(MLOCK, "mlock", "mm_mlock,mm_munlock,lock_range,lock_area") \
	PATH(POPULATE, "populate: a page", "populate_area,mapped_from,populate_access")             \
	PATH(MINCORE, "mincore", "mm_mincore,mincore_locked,in_core,in_cache") \
	/* page tables */                                                                           \
	PATH(WALK, "page tables: walk and allocate", "pt_pmd,pt_pte,pt_alloc,pt_pmd_table")         \
	PATH(UNMAP, "reverse map: unmap a page", "migrate_one,migrate_pte,migrate_pmd,clear_pte,pvmw_begin")                   \
	PATH(REMAP, "reverse map: map it again", "restore_one,restore_pte,restore_pmd,restored,pvmw_range")                  \
	PATH(MIGRATE, "migration: a folio", "migrate_pages,migrate_some,migrate_batch,cut") \
	PATH(MIGRATE_UNMAP, "migration: a folio, unmap", "migrate_folio_unmap,lock_src,unmap_pass,record_unmapped") \
	PATH(MIGRATE_MOVE, "migration: a folio, move", "migrate_folio_move,move_anon,move_file,take_over,forget_src,move_batch,recall_unmapped") \
	PATH(COMPACT, "compaction: a round of a zone", "compact_zone,compact_finished,zone_has_block,isolate_migratepages,isolate_freepages,compact_suitability,compact_direct,compact_take_target,compact_put_target,release_freepages,take_free") \
	PATH(COMPACT_SCAN, "compaction: a frame looked at", "migrate_block,may_move,take_folio,free_block")            \
	PATH(SPLIT_FOLIO, "split of a folio: a page of it", "folio_split,split_locked,unmap_all,freeze,release_parts,folio_can_split") \
	PATH(SPLIT_FRAMES, "split of a folio: its descriptor", "split_frames")                      \
	PATH(DEFERRED_SPLIT, "split of a folio: queue", "deferred_split_folio,deferred_split_unqueue,deferred_enqueue")          \
	PATH(TLB_BATCH, "TLB: a flush put off", "tlb_batch_add,batch_remember,batch_add_cpus,mark_generation") \
	PATH(COLLAPSE_SCAN, "collapse: look at an entry", "look,look_entry,look_page,find_table,collapse_range") \
	PATH(COLLAPSE, "collapse: an entry", "attempt,replace,isolate_all,isolate_entry,isolate_folio,copy_all,drop_old,install,release_isolated") \
	PATH(KHUGEPAGED, "khugepaged: an area", "scan_mm,scan_range")                              \
	PATH(PAGE_IS_ZERO, "page of zeros: looked through", "frame_is_zero")                       \
	PATH(ZAP, "page tables: unmap a page", "zap_pte")                                           \
	PATH(SCAN_TABLES, "page tables: scan an entry", "pt_for_range,range_ptes,range_huge")        \
	PATH(ZAP_HUGE, "page tables: unmap a huge page", "zap_huge_pmd")                            \
	PATH(FREE_TABLES, "page tables: free", "pt_free_range,free_level")                          \
	PATH(PROTECT, "page tables: protect a page", "protect_pte,protect_huge_pmd")                \
	PATH(LAZYFREE, "page tables: mark a page lazyfree", "lazyfree_pte,lazyfree_huge_pmd")       \
	PATH(MLOCK_PAGE, "page tables: lock or unlock a page", "mlock_pte,mlock_huge_pmd")          \
	PATH(MOVE_TABLES, "page tables: move a page", "move_pte")                                   \
	/* lists of reclaim */                                                                      \
	PATH(LRU_ADD, "lists of reclaim: add or move a page", "folio_add_lru,batch_drain,do_add,do_activate,do_deactivate,do_deactivate_file,do_lazyfree") \
	PATH(LRU_RELEASE, "lists of reclaim: the end of a page", "lru_release,put_some")            \
	PATH(RECLAIM, "reclaim: a page", "reclaim_folio_list,unmap,drop,drop_swapped,add_to_swap")                            \
	PATH(LRU_ISOLATE, "lists of reclaim: take off and put back", "folio_isolate_lru,folio_putback_lru") \
	/* swap */                                                                                  \
	PATH(SWAP_SLOT, "swap: a slot", "swap_alloc,swap_duplicate,swap_put,swap_claim_cache,swap_unclaim_cache,alloc_one,take_one,give_back,relist") \
	PATH(SWAP_CACHE, "swap cache: a folio", "swap_cache_get,swap_cache_add,swap_cache_delete,swap_cache_remove,swap_cache_replace,take_out,erase,insert_some") \
	PATH(SWAP_OUT, "swap: a folio out", "swap_writeout")                                        \
	PATH(SWAP_IN, "swap: a transfer in", "swap_read,read_run")                                  \
	PATH(FAULT_SWAP, "fault: swapped page", "fault_swap,swap_in,window,read_around,get_or_add,map_locked,map_swapped") \
	PATH(SPLIT_PMD, "huge page: split of the mapping", "thp_split_pmd,split_pmd,split_fill,split_counts,split_frozen") \
	PATH(RMAP_WALK, "reverse map: an area or an entry", "rmap_walk,walk_areas,pvmw_next,find_table,next_pte,interval_first,interval_next,subtree_first") \
	PATH(HUGETLB_MAP, "page tables: a page of a pool", "hugetlb_zap,zap_one,hugetlb_protect,hugetlb_fork,fork_one,share,hugetlb_move,move_one,hugetlb_rmap_add,hugetlb_rmap_del,find_record,hugetlb_entry") \
	PATH(FORK, "fork", "mm_fork,fork_areas")                                                    \
	PATH(FORK_PTE, "fork: copy an entry", "fork_copy_pte,fork_copy_table")                      \
	PATH(FORK_SHARE, "fork: share a table, or make it one's own", "fork_share_table,areas_allow,count_entries,has_pinned,pt_unshare,pt_unshare_part") \
	PATH(FORK_UNSHARE, "fork: copy or unmap an entry of a shared table", "unshare_pte,unmap_entries") \
	PATH(FORK_HUGE, "fork: copy a huge entry", "fork_copy_huge_pmd")                            \
	PATH(EXIT, "exit", "mm_exit,exit_mappings")                                                 \
	PATH(TLB_FLUSH, "TLB flush", "tlb_flush_mm_range,flush_here,flush_there,tlb_gather_flush")  \
	PATH(SWITCH_MM, "address space switch", "mm_switch,switch_to,load_mm,leave_lazy,leave_loaded,leave_mm,go_lazy")

enum machine_path {
#define PATH(id, name, functions) PATH_##id,
	MACHINE_PATHS(PATH)
#undef PATH
	NR_MACHINE_PATHS
};

#endif
