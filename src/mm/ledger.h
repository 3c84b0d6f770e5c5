/*
 * Where memory is: a ledger in which what programs count (RSS), what is held (frames) and what a limit would be charged for add up.
 *
 *   rss - shared + unmapped + cache + held == user        user + tables == charge
 *
 * `rss` is the sum of the address spaces' own counters, `user` comes from the allocator's counts, and everything between from a walk over
 * all frames; so the equation is a check, not a definition. Read-only and free of charge. Exact while no task runs.
 */
#ifndef QUIRE_MM_LEDGER_H
#define QUIRE_MM_LEDGER_H

#include "mm/system.h"

/* All in pages of 4 KiB, but for `huge`. */
struct quire_ledger {
	uint64_t rss;
	uint64_t shared;    /* in it more than once: further mappings of a frame, and of tables that several share */
	uint64_t unmapped;  /* parts of huge pages that nobody maps, while the huge page is held for its other parts */
	uint64_t cache;     /* page cache and swap cache that nobody maps */
	uint64_t held;      /* anonymous memory that nobody maps: pinned */
	uint64_t user;      /* frames taken, without the kernel's */
	uint64_t tables, slab, misc, zero; /* the kernel's: page tables, objects, others, the huge zero page */
	uint64_t pools;     /* pools of huge pages (hugetlb.h), used or not: neither in RSS nor charged */
	uint64_t charge;    /* what a memory limit counts: user memory and page tables */
	uint64_t queued;    /* huge pages with parts that nobody maps: what splitting would find to do */
	uint64_t huge;      /* huge pages that are mapped as such */
	uint64_t unwritten; /* of them, 4 KiB parts that hold nothing but zeros: never written, or with zeros only */
	bool adds_up;
};

void quire_ledger(const struct quire *q, struct quire_ledger *ret);

#endif
