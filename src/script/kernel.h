/*
 * The executor on the kernel underneath. Each process of a script is a process (kernel_agent.h) that cannot hurt the computer: a process group
 * of its own, no capabilities, bounded memory and time, first to go when memory runs out, gone when the caller is. Nothing global is written:
 * a setting that is not what the kernel has already is refused as unsupported. In a guest that is ours alone (`owned`) settings are written and put
 * back, processes run on the CPU that the script says, and what everybody moves (/proc/vmstat) is counted. What is seen comes from /proc (kernel_proc.h).
 *
 * Locking all memory locks the process's own too: scripts that do it run with the right to lock (CAP_IPC_LOCK) and without a limit, or not at all.
 * Threads of a script are carried out by their process's one thread: calls come one after another anyway.
 * Elsewhere faults are counted for the process alone.
 */
#ifndef QUIRE_SCRIPT_KERNEL_H
#define QUIRE_SCRIPT_KERNEL_H

#include "script/exec.h"

extern const struct script_exec_ops script_kernel_ops;

/* 0 in a size or time: the default. */
struct script_kernel_options {
	uint64_t as_bytes;      /* address space that a script's process may have: 4 GiB */
	uint64_t memlock_bytes; /* that it may lock, as far as this process may itself: 8 MiB */
	uint64_t rss_bytes;     /* memory that all of a script's processes may have together: 1 GiB */
	unsigned timeout_ms;    /* for one call: 10 s */
	uint64_t top;           /* mmap places from an address down that is this one but for multiples of 1 GiB */
	uint64_t heap;          /* where the break starts */
	bool owned;             /* this computer does nothing else, and its settings may be changed: only where script_kernel_owned says so */
};

/* 0 or -ENOMEM. */
ATTR_MUST_CHECK int script_kernel_create(const struct script_kernel_options *o, struct script_exec **ret);
/* NULL is allowed. */
void script_kernel_destroy(struct script_exec *x);

/* Where mmap is to place from and the break is to start, in runs that begin from now on; see the options of the same name. */
void script_kernel_place(struct script_exec *x, uint64_t top, uint64_t heap);
/* Of the run that has begun: where these are in fact (heap 0: the break could not be placed), and what a process may lock (~0: all). */
struct script_kernel_layout {
	uint64_t top, heap, as_bytes, memlock_bytes;
};
struct script_kernel_layout script_kernel_layout(const struct script_exec *x);

/* The kernel's value of a setting by the name that it has here ("transparent_hugepage.enabled"). 0, -ENOENT: no such file. */
int script_kernel_setting(const char *name, char *buf, size_t len);

/* Was the kernel underneath booted as a guest for this (scripts/guest), so that its settings may be written? The word on its command line says so. */
#define SCRIPT_KERNEL_GUEST "quire.guest=1"
bool script_kernel_owned(void);
/* Is the file system that ordinary files are on one whose page cache has large folios in that version (major * 1000 + minor) of the kernel? */
bool script_kernel_file_folios(unsigned version);
/* NUMA nodes with memory, numbered from 0. */
unsigned script_kernel_nodes(void);

/* Counters of /proc/vmstat that observations have where the kernel is owned; NULL behind the last. Those that it has not are left out. */
extern const char *const script_kernel_counters[];

#endif
