/*
 * A machine description: what a machine file says, checked and ready to use. Sizes in bytes, times in picoseconds, bandwidths in
 * MB/s (10^6 bytes a second), frequencies in kHz. Files are YAML; docs/machine-files.md describes each key, its unit and range.
 */
#ifndef QUIRE_MACHINE_DESC_H
#define QUIRE_MACHINE_DESC_H

#include "machine/machine.h"

#define DESC_MAX_SOCKETS 8

enum replacement { REPL_LRU, REPL_PLRU, REPL_RANDOM, REPL_SRRIP, REPL_BRRIP };
enum inclusion { INCL_INCLUSIVE, INCL_NON_INCLUSIVE, INCL_EXCLUSIVE };

struct cache_desc {
	uint64_t size;
	uint32_t ways;
	uint64_t latency_ps; /* load to use on a hit, total (not added to the level above) */
	enum replacement replacement;
	enum inclusion inclusion; /* last level only */
};

struct tlb_desc {
	uint32_t entries_4k, ways_4k;
	uint32_t entries_2m, ways_2m; /* 0 at the second level: shared with 4k when shared_2m */
	uint32_t entries_1g, ways_1g;
	bool shared_2m;
	uint64_t latency_ps; /* extra on a hit in this level (0 for the first) */
};

struct node_desc {
	uint64_t memory;
	int32_t socket;          /* whose CPUs are local; -1: a node without CPUs */
	uint32_t attached_to;    /* for a node without CPUs: the node that it hangs off */
	uint64_t read_latency_ps; /* idle, from the local socket, beyond the last-level miss */
	uint64_t write_latency_ps;
	uint64_t read_bw_MBps, write_bw_MBps;
	uint32_t channels;
};

struct machine_desc {
	char name[64];
	char title[128];
	char *source; /* where the figures come from: text, may be NULL */
	uint32_t sockets, cores_per_socket, threads_per_core;
	uint64_t freq_khz;
	uint32_t ipc_milli;      /* instructions a cycle without misses, times 1000 */
	uint32_t loop_ipc_milli; /* the same of a simple loop that has the core to itself; as ipc_milli where the file says nothing */
	uint32_t window_insns;   /* reorder window */
	uint32_t mshrs;          /* outstanding L1 misses */
	uint32_t walkers;        /* page walks at once */
	uint32_t store_buffer;
	bool full_line_store_reads; /* `rep stos` reads a line before it overwrites it whole (no fast strings); false today */
	struct cache_desc l1d, l2, llc;
	bool llc_per_socket;     /* always true today */
	uint64_t c2c_latency_ps; /* a line from another core's cache in the socket, beyond the last level */
	uint64_t remote_c2c_latency_ps;
	uint64_t link_latency_ps; /* one hop between sockets */
	uint64_t link_bw_MBps;
	struct tlb_desc dtlb, stlb;
	uint32_t pwc_pmd, pwc_pud, pwc_pgd; /* page-walk cache entries by level whose entry is cached */
	struct {
		bool enabled;
		uint32_t streams, degree, distance; /* lines */
	} prefetch;
	struct {
		uint64_t syscall_ps, exception_ps, irq_ps; /* entry and exit together */
		uint64_t context_switch_ps, cr3_load_ps;
		uint64_t ipi_send_ps, ipi_deliver_ps;      /* sender a target; until the receiver runs the handler */
		uint64_t invlpg_ps, flush_all_ps;
		uint64_t string_start_ps;                  /* `rep stos`, before it stores; 0: nothing */
		uint64_t atomic_ps;                        /* a locked instruction on a line already owned */
		uint64_t tlbi_broadcast_ps;                /* Arm: one broadcast invalidation with barrier */
		uint64_t tlbi_issue_ps;                    /* Arm: of that, what each further one before the same barrier adds */
	} cost;
	struct {
		uint64_t size; /* bytes; 0: no swap device */
		uint64_t read_latency_ps, write_latency_ps;
		uint64_t read_bw_MBps, write_bw_MBps;
		uint32_t queue_depth;
	} swap;
	struct {
		bool broadcast;
	} tlbi;
	uint64_t timeslice_ps;
	uint32_t nr_nodes;
	struct node_desc nodes[MACHINE_MAX_NODES];
	uint8_t distance[MACHINE_MAX_NODES][MACHINE_MAX_NODES];
};

/* Read and check a file. 0, or -errno with one line "FILE:LINE:COL: key: value: what is allowed". */
int machine_desc_load(const char *path, struct machine_desc *d, char *err, size_t errlen);
/* By name: a path when it has '/' or ends in .yaml, else a shipped machine. */
int machine_desc_find(const char *name, struct machine_desc *d, char *err, size_t errlen);
void machine_desc_done(struct machine_desc *d);
/* Shipped machines in alphabetical order. fn returns non-zero to stop. */
int machine_desc_list(int (*fn)(void *arg, const char *name, const char *title), void *arg);
/* The machine most like this computer, among those shipped. */
const char *machine_desc_default(void);
/* The text of a shipped machine file (embedded in the binary). NULL: none. */
const char *machine_desc_text(const char *name);

#endif
