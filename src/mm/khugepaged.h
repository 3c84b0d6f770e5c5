/*
 * khugepaged: the daemon that goes through address spaces and has huge pages made where base pages are (khugepaged.c).
 * Gauges: pages_collapsed, full_scans, results. Source: the kernel's description of transparent huge pages.
 *
 * An address space is entered once something in it may have huge pages (a huge fault, MADV_HUGEPAGE, a fork of one that is), and stays
 * until it ends. Each pass looks at pages_to_scan pages, from where the last one has ended, then the daemon sleeps scan_sleep_millisecs.
 * While no address space is entered it waits without a timer.
 */
#ifndef QUIRE_MM_KHUGEPAGED_H
#define QUIRE_MM_KHUGEPAGED_H

#include "mm/collapse.h"

struct kthread;

struct khugepaged {
	struct mlock lock;     /* RANK_LRU: all that follows but kt; rests inside of every other lock */
	struct list_head mms;  /* by mm->khugepaged_link */
	struct mm *at;         /* where the next pass goes on; NULL: at the first, a new round */
	vaddr_t address;
	uint64_t pages_collapsed, full_scans;
	uint64_t results[NR_SCAN_RESULTS]; /* of ranges looked at */
	struct kthread *kt;    /* c */
};

/* kt is there. */
void khugepaged_boot(struct quire *q);
/* The area may have huge pages: so its address space is to be scanned, if enabled. mmap_lock held. Cheap when it is entered already. */
void khugepaged_enter_vma(struct cpu *c, const struct vma *v);
/* A fork's child, of a parent that is entered. */
void khugepaged_fork(struct cpu *c, struct mm *child, const struct mm *parent);
/* The address space has no users any more: it is not looked at after this. */
void khugepaged_exit(struct cpu *c, struct mm *mm);

/*
 * One pass, as the daemon makes it, but for the sleep when there is no huge page to be had: that ends it. Holds no lock. Returns the CPU that it
 * ends on. *ret_short: (may be NULL) an allocation has failed.
 */
struct cpu *khugepaged_scan(struct cpu *c, bool *ret_short);
/* Passes until `rounds` full scans have been completed, or memory is out. Returns how many ranges were collapsed. For tests and scripts. */
uint64_t khugepaged_run(struct cpu *c, unsigned rounds);

/* The list and its cursor. 0 or -EINVAL with q->err. */
int khugepaged_validate(struct quire *q);

#endif
