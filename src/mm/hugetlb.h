/*
 * Pools of huge pages that programs reserve and map explicitly (MAP_HUGETLB), 2 MiB and 1 GiB.
 *   hugetlb.c        pools, reservations, resizing          contig.c         1 GiB from the buddy allocator
 *   hugetlb_map.c    entries: unmap, protect, fork, move    hugetlb_fault.c  first touch, copy on write
 *
 * Invariants
 *  HP1 A page of a pool lies on its node's free list (FRAME_HUGETLB_FREE, no references) or is in use (FRAME_HUGETLB,
 *     references). nr is the sum of both, on each node and in all; nothing else has FRAME_HUGETLB.
 *  HP2 resv <= nr_free: what was promised is there.
 *  HP3 resv is the sum over VM_HUGETLB_RESV areas of their pages whose entry is empty. An entry that isn't, be it a mapping or
 *     a marker, has used its promise.
 *  HP4 Each entry that maps a page has a record on the page's list (head->lru), as many as entire_mapcount.
 *  HP5 surplus counts pages beyond nr_hugepages; on a node with surplus, a page that comes back leaves the pool.
 *  HP6 FRAME_CLEARED is on free pages only, whose bytes are zero; it goes when the page is taken, so that a used one is cleared again.
 * Huge entries are leaves of the PMD (2 MiB) or PUD (1 GiB) table; no table is deposited for them and they are never split.
 * An entry without a mapping may be a marker: HUGETLB_USED (the owner gave the page back by MADV_DONTNEED; another one is not
 * promised), HUGETLB_GONE (the owner needed the page: who touches it gets SIGBUS).
 * Locks: entries under their table's lock (PUD level: mm->ptl); pools and records under hugetlb.lock, inside it; faults on the
 * same page of an address space one at a time, by hugetlb.fault.
 */
#ifndef QUIRE_MM_HUGETLB_H
#define QUIRE_MM_HUGETLB_H

#include "mm/pagetable.h"
#include "mm/tlb.h"

#define HUGETLB_USED (1ULL << 52)
#define HUGETLB_GONE (1ULL << 53)
#define HUGETLB_FAULT_LOCKS 16U

enum hugetlb_size { HUGETLB_2M, HUGETLB_1G, NR_HUGETLB_SIZES };

struct hugetlb_node {
	struct list_head free;
	uint64_t nr, nr_free, surplus;
};

struct hstate {
	unsigned order;
	uint64_t nr, nr_free, resv, surplus, overcommit;
	unsigned next; /* node whose turn it is to give or take a page */
	struct hugetlb_node *node; /* [nr_nodes] */
};

struct hugetlb {
	struct mlock lock;
	struct mrwlock fault[HUGETLB_FAULT_LOCKS];
	struct hstate h[NR_HUGETLB_SIZES];
};

/* One entry that maps a page. */
struct hugetlb_rmap {
	struct list_head link;
	struct mm *mm;
	paddr_t entry;
	vaddr_t va;
};

static inline enum hugetlb_size hugetlb_size_of(uint64_t vm_flags)
{
	return vm_flags & VM_HUGETLB_1G ? HUGETLB_1G : HUGETLB_2M;
}

/* Of an area with these flags, hugetlb or not: as a shift and in bytes. */
static inline unsigned vm_page_shift(uint64_t vm_flags)
{
	return !(vm_flags & VM_HUGETLB) ? PAGE_SHIFT : vm_flags & VM_HUGETLB_1G ? PUD_SHIFT : PMD_SHIFT;
}

static inline uint64_t vm_page_size(uint64_t vm_flags)
{
	return 1ULL << vm_page_shift(vm_flags);
}

/* ---- contig.c ---- */
/* A compound block larger than the buddy allocator has, from free blocks of one node. refcount 1. NULL: none. */
struct frame *contig_alloc(struct cpu *c, int nid, unsigned order);
/* Its last reference is gone. */
void contig_free(struct cpu *c, struct frame *head, unsigned order);

/* ---- hugetlb.c ---- */
int hugetlb_carve(struct quire *q); /* while booting: the nodes' parts */
/* Fill the pools as the knobs say, as far as memory goes; empty them again. */
void hugetlb_boot(struct cpu *c, struct quire *q);
void hugetlb_shutdown(struct cpu *c, struct quire *q);
/*
 * Write nr_hugepages (nid NID_NONE) or a node's. Grows as far as memory goes; what is in use or promised stays, as surplus.
 * Returns how many there are then.
 */
uint64_t hugetlb_set_pool(struct cpu *c, enum hugetlb_size size, int nid, uint64_t count);

/* HugePages_Total, _Free, _Rsvd, _Surp; of a node without Rsvd. Exact while nobody faults. */
struct hugetlb_info {
	uint64_t total, free, rsvd, surp;
};
struct hugetlb_info hugetlb_info(const struct quire *q, enum hugetlb_size size, int nid);

/* Promise pages to an area. 0, or -ENOMEM: the pool has too few and may not, or cannot, grow. */
int hugetlb_reserve(struct cpu *c, uint64_t vm_flags, uint64_t nr);
void hugetlb_unreserve(struct cpu *c, uint64_t vm_flags, uint64_t nr);
/* A page with refcount 1, contents undefined unless *ret_cleared (may be NULL) says that they are zero: one that was promised, or one that nobody was. NULL: none. */
struct frame *hugetlb_alloc(struct cpu *c, enum hugetlb_size size, bool promised, bool *ret_cleared);
/*
 * What an idle worker does: clear free pages that nobody was promised, at most so many, which the next faults then need not do. They are
 * FRAME_CLEARED while they are free. How many were cleared.
 */
uint64_t hugetlb_clear_ahead(struct cpu *c, enum hugetlb_size size, uint64_t most);
/* A page that was not put to use goes back, and with it the promise. */
void hugetlb_undo_alloc(struct cpu *c, struct frame *head, bool promised);
/* The last reference is gone (frame_put). */
void hugetlb_free(struct cpu *c, struct frame *head);
/* HP1, HP2, HP3, HP5. 0 or -EINVAL with q->err. */
int hugetlb_validate(struct quire *q);

/* ---- hugetlb_map.c ---- */
/* The entry for va in an area: 0; -ENOMEM; without alloc -ENOENT, and nothing before *ret_next. */
int hugetlb_entry(struct cpu *c, const struct vma *v, vaddr_t va, bool alloc, struct pt_ref *ret, vaddr_t *ret_next);
struct mlock *hugetlb_ptl(const struct vma *v, const struct pt_ref *r);
/* Under the entry's lock: `rec` says from now on that it maps the page; no longer, and the record is the caller's. */
void hugetlb_rmap_add(struct cpu *c, const struct vma *v, struct frame *head, struct hugetlb_rmap *rec, const struct pt_ref *r,
		      vaddr_t va);
struct hugetlb_rmap *hugetlb_rmap_del(struct cpu *c, const struct vma *v, struct frame *head, const struct pt_ref *r);
/* Take what is mapped in the range away. unmap: for good, with what is still promised; else MADV_DONTNEED. */
void hugetlb_zap(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, bool unmap);
void hugetlb_protect(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, uint64_t new_flags);
int hugetlb_fork(struct cpu *c, struct vma *child, struct vma *parent);
int64_t hugetlb_move(struct cpu *c, struct vma *from, struct vma *to, vaddr_t old, vaddr_t new_addr, uint64_t len);
/* What maps va, charged, without a lock; 0: nothing. */
pte_t hugetlb_peek(struct cpu *c, const struct vma *v, vaddr_t va);

/* ---- hugetlb_fault.c ---- */
struct fault;
/* 0 or negative errno, as the other handlers; -ENXIO: no page can be had (SIGBUS). */
int hugetlb_fault(struct fault *f);

#endif
