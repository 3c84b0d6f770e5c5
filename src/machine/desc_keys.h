/*
 * Every key of a machine file: K(ID, path, unit, field, need, min, max, default, help).
 *
 * The order here is the order of conversion (cpu.frequency before anything in cycles) and of docs/machine-files.md, whose tables
 * a test holds against this list (test_desc --keys prints them).
 */
#ifndef QUIRE_MACHINE_DESC_KEYS_H
#define QUIRE_MACHINE_DESC_KEYS_H

enum desc_need {
	REQUIRED,
	OPTIONAL,  /* the default stands */
	IF_LINKED, /* required where there are several sockets, else without effect */
	IF_BCAST,  /* required with tlb.broadcast */
	IF_FAR,    /* required for a node without CPUs, forbidden for others */
	AS_READ,   /* default: the read figure of the same node */
	AS_BEFORE, /* default: the figure of the key before it, in 8 bytes */
	ALL_WAYS,  /* default: as many as entries, that is fully associative */
	SEVERAL,   /* required with more than one node */
};

#define KEYS_CACHE(K, ID, name, f)                                                                                         \
	K(ID##_SIZE, "cache." name ".size", SIZE, f.size, REQUIRED, 1ULL << 10, 1ULL << 34, 0, "capacity")                 \
	K(ID##_WAYS, "cache." name ".ways", COUNT, f.ways, REQUIRED, 1, 64, 0, "associativity; divides the lines")         \
	K(ID##_LATENCY, "cache." name ".latency", TIME, f.latency_ps, REQUIRED, 100, 1000000, 0, "load to use, in all")    \
	K(ID##_REPL, "cache." name ".replacement", REPL, f.replacement, OPTIONAL, 0, REPL_BRRIP, REPL_LRU, "victim choice")

#define KEYS_TLB(K, ID, name, f, need4k)                                                                                   \
	K(ID##_4K, "tlb." name ".entries_4k", COUNT, f.entries_4k, need4k, 1, 65536, 0, "entries for 4 KiB pages")         \
	K(ID##_4K_WAYS, "tlb." name ".ways_4k", COUNT, f.ways_4k, ALL_WAYS, 1, 64, 0, "their associativity")               \
	K(ID##_2M, "tlb." name ".entries_2m", COUNT, f.entries_2m, OPTIONAL, 0, 65536, 0, "entries for 2 MiB pages")       \
	K(ID##_2M_WAYS, "tlb." name ".ways_2m", COUNT, f.ways_2m, ALL_WAYS, 1, 64, 0, "their associativity")               \
	K(ID##_1G, "tlb." name ".entries_1g", COUNT, f.entries_1g, OPTIONAL, 0, 65536, 0, "entries for 1 GiB pages")       \
	K(ID##_1G_WAYS, "tlb." name ".ways_1g", COUNT, f.ways_1g, ALL_WAYS, 1, 64, 0, "their associativity")

#define DESC_KEYS(K)                                                                                                       \
	K(TITLE, "title", TEXT, title, REQUIRED, 0, 127, 0, "one line for lists")                                          \
	K(SOURCE, "source", TEXT, source, OPTIONAL, 0, 16384, 0, "where the figures come from")                            \
	K(SOCKETS, "cpu.sockets", COUNT, sockets, REQUIRED, 1, DESC_MAX_SOCKETS, 0, "processor packages")                  \
	K(CORES, "cpu.cores_per_socket", COUNT, cores_per_socket, REQUIRED, 1, 1024, 0, "cores in a package")              \
	K(THREADS, "cpu.threads_per_core", COUNT, threads_per_core, OPTIONAL, 1, 8, 1, "hardware threads of a core")       \
	K(FREQ, "cpu.frequency", FREQ, freq_khz, REQUIRED, 100000, 10000000, 0, "sustained clock")                         \
	K(IPC, "cpu.ipc", RATIO, ipc_milli, REQUIRED, 100, 16000, 0, "instructions a cycle without misses")                \
	K(LOOP_IPC, "cpu.loop_ipc", RATIO, loop_ipc_milli, OPTIONAL, 0, 16000, 0,                                          \
	  "the same of a simple loop that has the core to itself; 0: as cpu.ipc")                                          \
	K(WINDOW, "cpu.window", COUNT, window_insns, REQUIRED, 1, 4096, 0, "reorder window, in instructions")              \
	K(MSHRS, "cpu.outstanding_misses", COUNT, mshrs, REQUIRED, 1, 64, 0, "L1 misses in flight")                       \
	K(WALKERS, "cpu.page_walkers", COUNT, walkers, OPTIONAL, 1, 8, 1, "page walks in flight")                         \
	K(STORES, "cpu.store_buffer", COUNT, store_buffer, REQUIRED, 1, 128, 0, "stores waiting for their lines")         \
	K(STORE_READS, "cpu.full_line_store_reads", BOOL, full_line_store_reads, OPTIONAL, 0, 1, 0,                        \
	  "a string store reads each line that it overwrites whole")                                                       \
	K(SLICE, "cpu.timeslice", TIME, timeslice_ps, OPTIONAL, 10000000ULL, 1000000000000ULL, 3000000000ULL,              \
	  "how long a task runs while others wait")                                                                        \
	KEYS_CACHE(K, L1D, "l1d", l1d)                                                                                     \
	KEYS_CACHE(K, L2, "l2", l2)                                                                                        \
	KEYS_CACHE(K, LLC, "llc", llc)                                                                                     \
	K(LLC_INCL, "cache.llc.inclusion", INCL, llc.inclusion, REQUIRED, 0, INCL_EXCLUSIVE, 0, "of the L2s' lines")       \
	KEYS_TLB(K, DTLB, "l1", dtlb, REQUIRED)                                                                            \
	KEYS_TLB(K, STLB, "l2", stlb, REQUIRED)                                                                            \
	K(STLB_SHARED, "tlb.l2.shared_2m", BOOL, stlb.shared_2m, OPTIONAL, 0, 1, 0, "2 MiB pages share the 4 KiB entries") \
	K(STLB_LATENCY, "tlb.l2.latency", TIME, stlb.latency_ps, REQUIRED, 0, 1000000, 0, "added to an access that hits")  \
	K(PWC_PMD, "tlb.walk_cache.pmd", COUNT, pwc_pmd, OPTIONAL, 0, 1024, 32, "cached PMD entries")                      \
	K(PWC_PUD, "tlb.walk_cache.pud", COUNT, pwc_pud, OPTIONAL, 0, 1024, 4, "cached PUD entries")                       \
	K(PWC_PGD, "tlb.walk_cache.pgd", COUNT, pwc_pgd, OPTIONAL, 0, 1024, 2, "cached PGD entries")                       \
	K(BROADCAST, "tlb.broadcast", BOOL, tlbi.broadcast, OPTIONAL, 0, 1, 0, "hardware broadcasts invalidations (Arm)")  \
	K(PREFETCH, "prefetch.enabled", BOOL, prefetch.enabled, REQUIRED, 0, 1, 0, "stream prefetcher")                    \
	K(PF_STREAMS, "prefetch.streams", COUNT, prefetch.streams, OPTIONAL, 1, 64, 16, "streams followed")                \
	K(PF_DEGREE, "prefetch.degree", COUNT, prefetch.degree, OPTIONAL, 1, 16, 2, "lines fetched at a time")             \
	K(PF_DISTANCE, "prefetch.distance", COUNT, prefetch.distance, OPTIONAL, 1, 64, 20, "lines ahead, at most")         \
	K(C2C, "interconnect.cache_to_cache", TIME, c2c_latency_ps, REQUIRED, 0, 1000000, 0,                               \
	  "beyond the last level: a line modified in another core of the socket")                                          \
	K(REMOTE_C2C, "interconnect.remote_cache_to_cache", TIME, remote_c2c_latency_ps, IF_LINKED, 0, 2000000, 0,         \
	  "beyond the last level: a line modified in another socket")                                                      \
	K(LINK_LATENCY, "interconnect.link_latency", TIME, link_latency_ps, IF_LINKED, 0, 2000000, 0,                      \
	  "remote memory over local memory, idle")                                                                         \
	K(LINK_BW, "interconnect.link_bandwidth", BW, link_bw_MBps, IF_LINKED, 1, 10000000, 0,                             \
	  "between two sockets, each direction")                                                                           \
	K(SYSCALL, "cost.syscall", TIME, cost.syscall_ps, REQUIRED, 0, 100000000, 0, "entry and exit")                     \
	K(EXCEPTION, "cost.exception", TIME, cost.exception_ps, REQUIRED, 0, 100000000, 0, "page-fault entry and exit")    \
	K(IRQ, "cost.interrupt", TIME, cost.irq_ps, REQUIRED, 0, 100000000, 0, "entry and exit")                           \
	K(SWITCH, "cost.context_switch", TIME, cost.context_switch_ps, REQUIRED, 0, 1000000000, 0, "task to task")         \
	K(CR3, "cost.cr3_load", TIME, cost.cr3_load_ps, REQUIRED, 0, 100000000, 0, "change of address space")              \
	K(IPI_SEND, "cost.ipi_send", TIME, cost.ipi_send_ps, REQUIRED, 0, 100000000, 0, "the sender, for each target")     \
	K(IPI_DELIVER, "cost.ipi_deliver", TIME, cost.ipi_deliver_ps, REQUIRED, 0, 100000000, 0,                           \
	  "from sending until the receiver's handler runs")                                                                \
	K(INVLPG, "cost.invlpg", TIME, cost.invlpg_ps, REQUIRED, 0, 100000000, 0, "drop one translation")                  \
	K(FLUSH_ALL, "cost.flush_all", TIME, cost.flush_all_ps, REQUIRED, 0, 100000000, 0, "drop an address space")        \
	K(STRING_START, "cost.string_start", TIME, cost.string_start_ps, OPTIONAL, 0, 1000000, 0,                          \
	  "a string store before it begins, in short clears")                                                              \
	K(ATOMIC, "cost.atomic", TIME, cost.atomic_ps, REQUIRED, 0, 1000000, 0, "locked instruction on an owned line")     \
	K(TLBI, "cost.tlbi_broadcast", TIME, cost.tlbi_broadcast_ps, IF_BCAST, 0, 100000000, 0,                            \
	  "one broadcast invalidation with its barrier")                                                                   \
	K(TLBI_ISSUE, "cost.tlbi_issue", TIME, cost.tlbi_issue_ps, AS_BEFORE, 0, 100000000, 0,                             \
	  "of that, what each further one before the same barrier adds")                                                   \
	K(SWAP_SIZE, "swap.size", SIZE, swap.size, OPTIONAL, 0, 1ULL << 44, 0, "the swap device; 0: there is none")        \
	K(SWAP_READ, "swap.read_latency", TIME, swap.read_latency_ps, OPTIONAL, 0, 1000000000000ULL, 85000000, "of a read, idle") \
	K(SWAP_WRITE, "swap.write_latency", TIME, swap.write_latency_ps, OPTIONAL, 0, 1000000000000ULL, 20000000,          \
	  "of a write, idle")                                                                                              \
	K(SWAP_READ_BW, "swap.read_bandwidth", BW, swap.read_bw_MBps, OPTIONAL, 1, 10000000, 3200, "all reads together")   \
	K(SWAP_WRITE_BW, "swap.write_bandwidth", BW, swap.write_bw_MBps, OPTIONAL, 1, 10000000, 1050,                      \
	  "all writes together")                                                                                           \
	K(SWAP_DEPTH, "swap.queue_depth", COUNT, swap.queue_depth, OPTIONAL, 1, 65536, 42, "requests served at a time")

#define NODE_KEYS(K)                                                                                                       \
	K(MEMORY, "memory", SIZE, memory, REQUIRED, 1ULL << 27, 1ULL << 44, 0, "capacity, a multiple of 128M")             \
	K(SOCKET, "socket", SOCKET, socket, REQUIRED, 0, DESC_MAX_SOCKETS - 1, 0, "whose CPUs are local")                  \
	K(ATTACHED, "attached_to", COUNT, attached_to, IF_FAR, 0, MACHINE_MAX_NODES - 1, 0,                                \
	  "the node with CPUs that a node without hangs off")                                                              \
	K(READ_LATENCY, "read_latency", TIME, read_latency_ps, REQUIRED, 1000, 100000000, 0,                               \
	  "idle, from the local socket, beyond the last level")                                                            \
	K(WRITE_LATENCY, "write_latency", TIME, write_latency_ps, AS_READ, 1000, 100000000, 0, "the same for a write")     \
	K(READ_BW, "read_bandwidth", BW, read_bw_MBps, REQUIRED, 1, 10000000, 0, "all channels together")                  \
	K(WRITE_BW, "write_bandwidth", BW, write_bw_MBps, AS_READ, 1, 10000000, 0, "all channels together")                \
	K(CHANNELS, "channels", COUNT, channels, OPTIONAL, 1, 64, 1, "memory channels; accesses queue at each")            \
	K(DISTANCES, "distances", LIST, read_latency_ps, SEVERAL, 10, 254, 0,                                              \
	  "to each node, as in Linux's SLIT; 10 to itself, symmetric")

#endif
