/*
 * An address space (struct mm) and the calls on it: what Linux's system calls do, minus the system-call entry.
 *
 * Locks, by key letter: m = mmap_lock, p = page-table lock of the table, a = atomic, c = constant after creation.
 * Every call takes the locks it needs. Addresses need not be canonical: bad ones get the errno the man page says.
 * All lengths are bytes. Thread-safe unless said otherwise.
 */
#ifndef QUIRE_MM_MM_H
#define QUIRE_MM_MM_H

#include "base/cpumask.h"
#include "mm/vma.h"

#define TASK_SIZE 0x7ffffffff000ULL

enum rss_kind { RSS_ANON, RSS_FILE, RSS_SHMEM, NR_RSS };

/* Resident pages as counted by CPUs whose numbers have the same remainder: parts may be negative, their sum is not. */
#define MM_RSS_PARTS 8

struct mm_rss_part {
	int64_t pages[NR_RSS];
} __attribute__((aligned(64)));

struct mm {
	struct mrwlock mmap_lock;
	struct quire *q;         /* c */
	struct list_head link;   /* q->mms */
	uint32_t ctx;            /* c: hardware context number, unique among live ones */
	int32_t users;           /* a: tasks that use it */
	int32_t holds;           /* a: 1 until its end, and of those who may come too late for that: what keeps the struct (mm_drop) */
	pfn_t pgd;               /* c */
	struct mlock ptl;        /* guards the upper levels (PGD, PUD, PMD allocation) */

	struct vma *root;        /* m */
	uint64_t map_count;      /* m */
	uint64_t total_vm, locked_vm, data_vm, stack_vm; /* m: pages */
	uint64_t anon_seq;       /* a: next anon_id */

	vaddr_t mmap_base;       /* c: top of the mmap area; areas are searched downwards from here */
	vaddr_t start_brk, brk;  /* m */
	vaddr_t stack_top;       /* c */
	uint64_t stack_rlimit;   /* c: bytes, default 8 MiB */
	uint64_t data_rlimit, as_rlimit, memlock_rlimit; /* bytes, ~0 = unlimited */
	uint64_t def_flags;      /* m: VM_LOCKED after mlockall(MCL_FUTURE) */
	bool thp_disable;        /* PR_SET_THP_DISABLE */
	bool oom_victim;         /* a: it is to end, since memory has run out: faults fail (oom.c) */
	bool oom_skip;           /* a: ... and has not for so long that another one must */
	int16_t oom_score_adj;   /* -1000 (never) to 1000, in thousandths of memory, as /proc/PID/oom_score_adj */
	bool khugepaged_on;      /* a: on khugepaged's list... */
	struct list_head khugepaged_link; /* ... by this */

	int64_t rss_peak;        /* a: pages, highest sum that was followed by a fall: mm_rss_peak */
	int64_t pgtables_bytes;  /* a */
	int64_t huge_mapped;     /* a: 2 MiB anonymous mappings now */
	int64_t shared_tables;   /* a: PMD entries of tables that others may share (fork_shared.c) */
	int64_t swapents;        /* a: entries whose pages are in swap slots */
	int64_t hugetlb_pages;   /* a: base pages mapped from pools of huge pages: no part of rss */

	struct cpumask cpus;     /* a: CPUs that may hold translations */
	/* NUMA balancing (numa.h): all a */
	uint32_t numa_flush_pending; /* scans whose flush is not done yet */
	bool numa_marked;            /* entries may be marked */
	uint64_t numa_next_scan_ns;  /* 0: not thought of yet */
	uint64_t numa_scan_offset;   /* where the next scan goes on */
	uint64_t numa_scan_seq;      /* times that it has begun anew */
	uint16_t mpol, mpol_next; /* a: the task's policy, and where its interleaving is (mempolicy.h) */
	uint32_t tlb_flush_batched; /* a: flushes put off, and those covered since (tlb_batch.c) */
	uint64_t tlb_gen;        /* a: ctx in the upper half, so that no two address spaces ever have the same one */
	struct mm_rss_part rss_part[MM_RSS_PARTS]; /* a */
};

static inline int64_t mm_rss(const struct mm *mm, enum rss_kind kind)
{
	int64_t sum = 0;

	for (unsigned i = 0; i < MM_RSS_PARTS; i++)
		sum += __atomic_load_n(&mm->rss_part[i].pages[kind], __ATOMIC_RELAXED);
	return sum;
}

/* The highest number of resident pages so far, all kinds. */
int64_t mm_rss_peak(const struct mm *mm);
void mm_rss_note_peak(struct mm *mm);

/* ---- life ---- */
/* An empty address space with one user. -ENOMEM. */
int mm_create(struct cpu *c, struct quire *q, struct mm **ret_mm);
/* Child's copy with copy on write; one user. */
int mm_fork(struct cpu *c, struct mm *parent, struct mm **ret_child);
static inline void mm_get(struct mm *mm)
{
	__atomic_add_fetch(&mm->users, 1, __ATOMIC_RELAXED);
}
/*
 * Drop a user; the last one tears everything down and frees it (mm_exit). A task that ends its use has left the address space
 * before (mm_activate(c, NULL)), so that at the end no CPU runs on it but the caller's.
 */
void mm_put(struct cpu *c, struct mm *mm);
/* Let go of a hold: of the struct, which may be all that is left. */
void mm_drop(struct cpu *c, struct mm *mm);

/* ---- system calls. Return value >= 0 as the man page says, or negative errno. ---- */
/* prot, flags, advice: the values of x86-64 Linux. file may be NULL only with MAP_ANONYMOUS; offset in bytes. */
int64_t mm_mmap(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned prot, unsigned flags,
		struct mfile *file, uint64_t offset);
int64_t mm_munmap(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len);
int64_t mm_mprotect(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned prot);
int64_t mm_mremap(struct cpu *c, struct mm *mm, vaddr_t old, uint64_t old_len, uint64_t new_len, unsigned flags,
		  vaddr_t new_addr);
int64_t mm_madvise(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, int advice);
int64_t mm_brk(struct cpu *c, struct mm *mm, vaddr_t brk); /* returns the resulting break */
int64_t mm_mlock(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, bool on_fault);
int64_t mm_munlock(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len);
int64_t mm_mlockall(struct cpu *c, struct mm *mm, unsigned flags);
int64_t mm_munlockall(struct cpu *c, struct mm *mm);
/* flags: UAPI_MS_*. No address space comes or goes meanwhile (file_map.c). */
int64_t mm_msync(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned flags);
/* vec: one byte a page, bit 0 = resident. */
int64_t mm_mincore(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, uint8_t *vec);
int64_t mm_set_thp_disable(struct cpu *c, struct mm *mm, bool disable); /* prctl(PR_SET_THP_DISABLE) */

/* Set where brk starts and the stack is (exec). stack_top page-aligned; maps the initial stack area of stack_len bytes. */
int mm_setup_exec(struct cpu *c, struct mm *mm, vaddr_t start_brk, vaddr_t stack_top, uint64_t stack_len);

/* Bring pages in (MAP_POPULATE, mlock, MADV_POPULATE_*). Stops at the first error. mmap_lock NOT held. */
int mm_populate(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, bool write);
/* Somebody else reads the page at va, if it is there (ptrace, /proc/PID/mem): it counts as used, whatever the rights. */
void mm_look(struct cpu *c, struct mm *mm, vaddr_t va);

/* Whole-address-space check against a full walk: V1-V3, rss, mapcounts' lower bound, entries inside areas. 0 or -EINVAL. */
int mm_validate(struct mm *mm);

/* What a page is, for tests, mincore and reports: walks without charging and without side effects. */
struct mm_page_info {
	bool present, huge, writable, dirty, accessed, zero_page, anon, exclusive;
	bool swapped; /* in a swap slot: exclusive as its entry says; nothing else is set */
	uint8_t pad[7]; /* 0, so that two can be compared as bytes */
	uint64_t slot;
	pfn_t pfn;
	uint64_t tag; /* content tag of the 4 KiB frame (model) */
};
void mm_page_info(struct mm *mm, vaddr_t va, struct mm_page_info *ret);

#endif
