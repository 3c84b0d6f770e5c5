/*
 * State of the cost core: what the caches, TLBs, memory and the instruction window of the model know (design rules 3, 4, 5).
 *
 *   core_phys    a core: L1, L2, TLBs, prefetcher; shared by its hardware threads
 *   core_cpu     a CPU (hardware thread): clock, outstanding misses, store buffer, walkers, counters
 *   core_shared  sockets (last level and directory), nodes, links
 *
 * CPU ids are contiguous by socket: socket s has [s * cores * threads, ...), core = (id within the socket) % cores,
 * thread = (id within the socket) / cores.
 */
#ifndef QUIRE_MACHINE_MODEL_CORE_INT_H
#define QUIRE_MACHINE_MODEL_CORE_INT_H

#include "machine/desc.h"
#include "machine/machine.h"
#include "machine/model/cache.h"
#include "machine/model/dram.h"
#include "machine/model/tlb.h"

#define CORE_MSHRS_MAX 64U
#define CORE_STORES_MAX 128U
#define CORE_WINDOW_RING 128U
#define CORE_WALKERS_MAX 8U
#define CORE_THREADS_MAX (1U << TLB_THREAD_BITS)
#define CORE_ENTRY_DEPTH 8U

/* The first 16 MiB of node 0 are the kernel's image and its own tables: the engine reserves them. */
#define CORE_KERNEL_BYTES (16ULL << 20)

/* Counters kept by CPU and summed when read. Values in picoseconds are shown in nanoseconds. */
#define CORE_COUNTERS(N)                                                                           \
	N(instructions) N(loads) N(stores) N(kernel_touches)                                        \
	N(tlb_l1_misses_4k) N(tlb_l1_misses_2m) N(tlb_l1_misses_1g)                                 \
	N(tlb_misses_4k) N(tlb_misses_2m) N(tlb_misses_1g)                                          \
	N(walk_refs) N(walk_kernel) N(faults) N(fault_retries)                                      \
	N(l1d_misses) N(l2_misses) N(llc_hits) N(llc_misses) N(llc_writebacks) N(back_invalidations)\
	N(remote_accesses) N(coherence_invalidations) N(c2c_transfers) N(remote_c2c_transfers)      \
	N(prefetches) N(prefetches_useful) N(prefetches_useless)                                    \
	N(tlb_flushes_page) N(tlb_flushes_full) N(bytes_cleared) N(bytes_copied)
#define CORE_TIMES(N)                                                                              \
	N(walk_ps_4k) N(walk_ps_2m) N(walk_ps_1g) N(walk_ps_kernel) N(stall_ps) N(user_ps) N(kernel_ps)

struct core_stats {
#define N(name) uint64_t name;
	CORE_COUNTERS(N)
	CORE_TIMES(N)
#undef N
};

/* A stream that the prefetcher follows: one physical 4 KiB page. */
struct core_stream {
	uint32_t pfn[4];
	uint8_t last[4];  /* line within the page of the last access */
	uint8_t next[4];  /* next line to prefetch */
	int8_t run[4];    /* accesses in one direction so far; the sign is the direction */
	uint32_t order;   /* LRU of the four, most recent in the lowest byte */
} __attribute__((aligned(16)));

/* A note for hint.h: where the pages of a 2 MiB region are. */
#define CORE_HINTS 1024U
#define HINT_VALID 1ULL
#define HINT_HUGE 2ULL

struct core_hint {
	uint64_t region, where;
};

struct core_phys {
	struct cache_arr l1, l2;
	struct core_tlb tlb;
	struct core_stream *streams; /* [nr_stream_sets] */
	uint32_t nr_stream_sets;
	uint32_t socket, index;      /* index within the socket */
	struct core_cpu *thread[CORE_THREADS_MAX];
	uint32_t nr_threads;
};

struct core_cpu {
	struct core_phys *phys;
	struct model *md;
	/* clock: instructions so far, and the fraction of a picosecond that they have not been charged yet (2^-32 ps) */
	uint64_t insn, frac, insn_rate;
	uint64_t usual_rate; /* while a loop runs at a rate of its own: what insn_rate is otherwise; else 0 */
	uint64_t run_ps;    /* time that this CPU has executed, as opposed to idled */
	/* The page of the last access: known to be the most recent in its TLB. page_va ~0: nothing. */
	uint64_t page_va, page_mask, page_value;

	/* Loads outstanding, ascending in both: instruction number insn + window may not begin before done. */
	uint64_t stall_insn; /* of the oldest: insn + window; ~0: none */
	uint32_t win_head, win_tail, window;
	uint64_t win_insn[CORE_WINDOW_RING], win_done[CORE_WINDOW_RING];
	/* Line buffers busy until, ascending. */
	uint32_t mshr_head, mshr_tail, mshrs;
	uint64_t mshr_done[CORE_MSHRS_MAX];
	/* Stores that miss, in order: store number seq + store_buffer may not retire before done. */
	uint32_t st_head, st_tail, store_buffer;
	uint64_t st_seq, st_stall;
	uint64_t st_num[CORE_STORES_MAX], st_done[CORE_STORES_MAX];
	uint64_t write_ready_ps; /* when the write queues had room for what this CPU pushed out last */
	uint32_t nr_walkers;
	uint64_t walker_free[CORE_WALKERS_MAX];

	/* address space */
	paddr_t root;       /* 0: none */
	uint32_t tag;        /* of TLB keys: thread and context */
	uint32_t sizes_seen; /* bit s: a page of size s has been found in tables */

	struct core_hint hint[CORE_HINTS];

	/* accounting */
	enum machine_path path;
	uint64_t path_since; /* run_ps when path began */
	uint64_t path_insns; /* insn when path began */
	uint32_t kernel_tag;
	enum machine_path bulk_path; /* clearing or copying, whose stores are on their way; PATH_USER: none */
	uint32_t entry_depth;
	enum machine_path entry_path[CORE_ENTRY_DEPTH];
	struct core_stats stats;
};

struct core_socket {
	struct cache_arr llc;
	struct cache_arr filter; /* snoop filter: unless inclusive */
};

struct core_shared {
	const struct core_hot *hot; /* hot.h: the code for this machine's shape */
	uint32_t nr_sockets, nr_cores, cores_per_socket, threads_per_core;
	struct core_phys *phys;
	struct core_socket socket[DESC_MAX_SOCKETS];
	bool inclusive, exclusive;
	struct dram_node node[MACHINE_MAX_NODES];
	struct dram_server *link; /* [from * nr_sockets + to] */
	uint64_t link_service;    /* 1/256 ps a line */
	uint8_t hops[DESC_MAX_SOCKETS][DESC_MAX_SOCKETS];
	uint8_t *node_of_section;
	uint8_t *ever;            /* for each 64 KiB of memory, which sockets ever cached a line of it */
	uint64_t nr_lines;        /* of physical memory */
	bool kernel_1g;
	uint64_t dram_reads[MACHINE_MAX_NODES], dram_writes[MACHINE_MAX_NODES];
};

#endif
