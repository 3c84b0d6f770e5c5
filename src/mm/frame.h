/*
 * The 64-byte frame descriptor ("struct page / folio") and its state rules.
 *
 * Invariants
 *  F1 A frame is in exactly one place: a buddy free list (FRAME_BUDDY on the block's first frame), a per-CPU list
 *     (FRAME_PCP), a pool of huge pages (FRAME_HUGETLB_FREE), or owned (refcount > 0, or FRAME_RESERVED).
 *  F2 mapcount is kept biased by -1 as in Linux: -1 means no page table maps it. For a compound folio, `entire_mapcount` of the
 *     head counts PMD mappings (biased by -1) and each frame's own mapcount counts the PTE mappings of that frame.
 *  F3 Tails of a compound folio have FRAME_TAIL and `head_pfn`; all state but mapcount lives in the head.
 *  F4 refcount of a folio == number of mappings (PMD or PTE) + known holders (page cache: 1, swap cache: 1 a page, pins, caller).
 *  F5 An all-zero descriptor is one that was never materialised (its section is still deferred).
 *  F6 A frame's flags, order and zone are what they will be before its refcount leaves 0: who takes a reference from above
 *     zero (frame_tryget), on a frame that it found without a lock, sees a frame that it may put again.
 * Locking: fields are guarded by whoever owns the frame: zone lock (buddy), the CPU (pcp), page-table lock + refcount (mapped).
 * flags, refcount, mapcounts and nr_locked are atomic, since others look at them without owning the frame (a buddy that may be
 * merged, a lookup in a page cache, another mapping): use the accessors.
 */
#ifndef QUIRE_MM_FRAME_H
#define QUIRE_MM_FRAME_H

#include "base/list.h"
#include "base/types.h"
#include "machine/machine.h"

/*
 * flags word: bits 0 to 31 and 56 to 63 are flags, between them the order of a buddy block or compound folio,
 * zone, node, migrate type. A new flag goes into FRAME_FLAGS_OF below.
 */
#define FRAME_RESERVED (1ULL << 0)
#define FRAME_BUDDY (1ULL << 1)
#define FRAME_PCP (1ULL << 2)
#define FRAME_HEAD (1ULL << 3) /* compound head */
#define FRAME_TAIL (1ULL << 4)
#define FRAME_TABLE (1ULL << 5) /* page table */
#define FRAME_SLAB (1ULL << 6)
#define FRAME_ANON (1ULL << 7)
#define FRAME_ANON_EXCLUSIVE (1ULL << 8) /* this mapping owns it: a write fault may reuse it */
#define FRAME_DIRTY (1ULL << 9)
#define FRAME_REFERENCED (1ULL << 10)
#define FRAME_UNEVICTABLE (1ULL << 11) /* locked in memory (lru.h) */
#define FRAME_LRU (1ULL << 12)
#define FRAME_ACTIVE (1ULL << 13)
#define FRAME_SWAPBACKED (1ULL << 14)
#define FRAME_HUGE_ZERO (1ULL << 15)
#define FRAME_LAZYFREE (1ULL << 16) /* MADV_FREE: may be dropped while clean */
#define FRAME_PINNED (1ULL << 17)
#define FRAME_PARTIALLY_MAPPED (1ULL << 18)
#define FRAME_LOCKED (1ULL << 19)
#define FRAME_FILE (1ULL << 20) /* page cache */
#define FRAME_TABLE_MIXED (1ULL << 21)  /* table: may have entries that map no anonymous page (fork_shared.c, H4) */
#define FRAME_TABLE_PINNED (1ULL << 22) /* table: may map pinned pages, or have entries that are neither empty nor present */
#define FRAME_DEFERRED (1ULL << 58) /* compound head: on its node's queue of folios to split (deferred_split.h) */
#define FRAME_READAHEAD (1ULL << 59) /* page cache: its use starts the next window (readahead.c); swap cache: came in ahead, not wanted yet */
#define FRAME_UNREAD (1ULL << 60) /* page cache: made for a write that did not come: it has no contents yet, and nobody maps it */
/*
 * On the first frame of a free block, or of one on a per-CPU list: descriptors inside it may never have been written. Those of
 * blocks without it have their place and are otherwise as boot leaves them, whatever they were used for (frame.c sees to it).
 */
#define FRAME_FRESH (1ULL << 25)
#define FRAME_BATCHED (1ULL << 28) /* in a CPU's batch (lru_validate.c, only while it runs) */
#define FRAME_REWRITTEN (1ULL << 29) /* page cache: was written, and has been written back: a device that would give it back is not there */
#define FRAME_CLEARED (1ULL << 31) /* on a CPU's list, and taken from it: its bytes are zero */
#define FRAME_WORKINGSET (1ULL << 26)   /* was active when it was last reclaimed, or deactivated */
#define FRAME_ISOLATED (1ULL << 27)     /* taken off its list of reclaim for a while */
#define FRAME_HUGETLB (1ULL << 23) /* head of a page of a huge-page pool (hugetlb.h) */
#define FRAME_HUGETLB_FREE (1ULL << 24) /* ... that is on its node's list */
#define FRAME_WAITERS (1ULL << 56) /* folio: somebody may wait for FRAME_LOCKED or FRAME_WRITEBACK (folio_lock.h) */
#define FRAME_WRITEBACK (1ULL << 57) /* folio: on its way to a device */
#define FRAME_SWAPCACHE (1ULL << 30) /* folio: has its contents, or will have them, in slots of the swap device (swap.h) */
#define FRAME_IO_ERROR (1ULL << 62)  /* ... could not be read */
#define FRAME_READING (1ULL << 61)   /* ... is being read (swap.h W3) */

#define MAPPING_ANON 1ULL

#define FOLIO_ENTIRELY_MAPPED (1 << 23) /* in nr_pages_mapped, so that one atomic tells both */

/* Every flag once: two of the same value would go unnoticed for long. */
#define FRAME_FLAGS_OF(F) \
	F(RESERVED) F(BUDDY) F(PCP) F(HEAD) F(TAIL) F(TABLE) F(SLAB) F(ANON) F(ANON_EXCLUSIVE) F(DIRTY) F(REFERENCED) \
	F(UNEVICTABLE) F(LRU) F(ACTIVE) F(SWAPBACKED) F(HUGE_ZERO) F(LAZYFREE) F(PINNED) F(PARTIALLY_MAPPED) F(LOCKED) \
	F(FILE) F(TABLE_MIXED) F(TABLE_PINNED) F(DEFERRED) F(CLEARED) F(WORKINGSET) F(ISOLATED) F(HUGETLB) F(HUGETLB_FREE) \
	F(WAITERS) F(WRITEBACK) F(READAHEAD) F(UNREAD) F(REWRITTEN) F(FRESH) F(BATCHED) F(SWAPCACHE) F(IO_ERROR) F(READING)

#define FRAME_ORDER_SHIFT 32 /* 8 bits: of the block, on its first frame (buddy, per-CPU list or allocation, compound or not) */
#define FRAME_ZONE_SHIFT 40  /* 4 bits */
#define FRAME_NID_SHIFT 44   /* 8 bits */
#define FRAME_MT_SHIFT 52    /* 4 bits: migrate type while free */

struct mfile;

struct frame {
	uint64_t flags;
	union {
		struct list_head lru; /* buddy, pcp and LRU lists; hugetlb: free list, or records of who maps it */
		struct {
			uint64_t head_pfn;       /* tails */
			uint64_t pad;
		} tail;
		struct mlock ptl;                /* page table: its split lock, on the descriptor's own line */
	};
	union {
		struct {
			union {
				struct mfile *file; /* page cache: the file */
				struct mm *pt_mm;   /* page table: its address space */
				struct slab_cache *slab;
				uint64_t mapping;   /* the same as a word; anonymous: its anon_vma, plus MAPPING_ANON */
			};
			union {
				uint64_t index;     /* page cache: offset in pages; anonymous: page number of its address */
				uint64_t nr_tables; /* page table: entries in use */
				void *slab_free;    /* slab: first free object */
			};
		};
		struct list_head deferred; /* second frame of a compound folio: the queue of those to split (deferred_split.h) */
	};
	union {
		uint64_t priv; /* PMD table: pfn of the first deposited PTE table, linked by their priv; slab: in-use count; ... */
		struct {
			uint32_t nr_locked; /* user page: mappings by VM_LOCKED areas (rmap.h) */
			uint32_t nr_pins;   /* user page: long-term pins of the folio (gup.c) */
		};
		uint16_t pt_rss[4]; /* shared PTE table: frames that it maps, by enum rss_kind (fork_shared.c) */
	};
	int32_t mapcount;        /* biased by -1 */
	int32_t refcount;
	union {
		struct {
			int32_t entire_mapcount; /* compound head: PMD mappings, biased by -1 */
			/* compound head: frames with at least one PTE mapping, plus FOLIO_ENTIRELY_MAPPED while a PMD maps it */
			int32_t nr_pages_mapped;
		};
		uint64_t memcg;
		uint64_t swap_slot;      /* in the swap cache: its first slot; of a compound folio in the second frame */
		uint32_t pt_sharers; /* PTE table: address spaces that share it, 0: it is one's own (fork_shared.c) */
	};
};

#define FRAME_FLAG_OR(n) | FRAME_##n
#define FRAME_FLAG_SUM(n) + FRAME_##n
_Static_assert((0ULL FRAME_FLAGS_OF(FRAME_FLAG_OR)) == (0ULL FRAME_FLAGS_OF(FRAME_FLAG_SUM)), "two flags have the same bit");
_Static_assert(sizeof(struct frame) == 64, "a frame descriptor is one cache line");

struct quire;

static inline struct frame *frame_of(const struct machine *m, pfn_t p)
{
	return m->memmap + p.v;
}

static inline pfn_t frame_pfn(const struct machine *m, const struct frame *f)
{
	return pfn((uint64_t)(f - m->memmap));
}

static inline uint64_t frame_flags(const struct frame *f)
{
	return __atomic_load_n(&f->flags, __ATOMIC_RELAXED);
}

/* All flags at once: the owner's, while nobody else changes any. */
static inline void frame_flags_put(struct frame *f, uint64_t flags)
{
	__atomic_store_n(&f->flags, flags, __ATOMIC_RELAXED);
}

static inline void frame_set(struct frame *f, uint64_t bits)
{
	__atomic_or_fetch(&f->flags, bits, __ATOMIC_RELAXED);
}

static inline void frame_clear(struct frame *f, uint64_t bits)
{
	__atomic_and_fetch(&f->flags, ~bits, __ATOMIC_RELAXED);
}

static inline unsigned frame_order(const struct frame *f)
{
	return (unsigned)(frame_flags(f) >> FRAME_ORDER_SHIFT) & 0xff;
}

static inline unsigned frame_zone(const struct frame *f)
{
	return (unsigned)(frame_flags(f) >> FRAME_ZONE_SHIFT) & 0xf;
}

static inline int frame_nid(const struct frame *f)
{
	return (int)((frame_flags(f) >> FRAME_NID_SHIFT) & 0xff);
}

static inline struct frame *frame_head(const struct machine *m, struct frame *f)
{
	return unlikely(frame_flags(f) & FRAME_TAIL) ? m->memmap + f->tail.head_pfn : f;
}

static inline unsigned long frame_nr_pages(const struct frame *head)
{
	uint64_t flags = frame_flags(head);

	return flags & FRAME_HEAD ? 1UL << ((flags >> FRAME_ORDER_SHIFT) & 0xff) : 1UL;
}

/* Modelled address of a descriptor (memmap.c): base of its section's part of the memory map + 64 * index. */
paddr_t frame_desc_pa(const struct quire *q, const struct frame *f);

/* Charge a look at (or a write to) the descriptor. Every engine path that reads a descriptor says so with this. */
void frame_touch_charged(struct cpu *c, const struct frame *f, enum touch_kind kind);

static inline void frame_touch(struct cpu *c, const struct frame *f, enum touch_kind kind)
{
#ifndef QUIRE_NO_CHARGES
	if (likely(!c->uncharged))
		frame_touch_charged(c, f, kind);
#else
	(void)c, (void)f, (void)kind;
#endif
}

/* Acquire: who finds that others have let go also sees what they did before. */
static inline int frame_refcount(const struct frame *head)
{
	return __atomic_load_n(&head->refcount, __ATOMIC_ACQUIRE);
}

/* Is the folio pinned by anybody? Exact where no new pin can be taken: under mmap_lock for writing. */
static inline bool frame_pinned(const struct frame *head)
{
	return __atomic_load_n(&head->nr_pins, __ATOMIC_RELAXED) != 0;
}

/* Does the frame hold nothing but zeros? Others may be writing to it. Not charged: frame_is_zero is. */
bool frame_looks_zero(const struct machine *m, pfn_t p);
/* The same as the kernel would find out: byte by byte up to the first that is not. */
bool frame_is_zero(struct cpu *c, pfn_t p);

/* These charge an atomic on the descriptor's line. `head` must be a head or an order-0 frame. */
void frame_get(struct cpu *c, struct frame *head);
/* Only if there is a reference already: for lookups that hold nothing. */
bool frame_tryget(struct cpu *c, struct frame *head);
/* Drop a reference; the last one frees the folio to the allocator. */
void frame_put(struct cpu *c, struct frame *head);

#endif
