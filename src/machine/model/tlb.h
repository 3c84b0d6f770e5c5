/*
 * TLBs, page-walk caches and the hardware walker (tlb.c, walk.c).
 *
 * An entry's key is page number, hardware thread and context; threads of a core compete for entries but do not share them.
 * The kernel's direct map has a context of its own. Entries stay until they are replaced or flushed: a stale translation is used, as on
 * the real thing, until the engine says otherwise.
 */
#ifndef QUIRE_MACHINE_MODEL_TLB_H
#define QUIRE_MACHINE_MODEL_TLB_H

#include "machine/desc.h"
#include "machine/model/assoc.h"

struct model;
struct core_cpu;
struct core_phys;

enum tlb_size { TLB_4K, TLB_2M, TLB_1G, NR_TLB_SIZES };

#define TLB_CTX_BITS 25
#define TLB_THREAD_BITS 3
#define TLB_KEY_LOW (TLB_CTX_BITS + TLB_THREAD_BITS)
#define TLB_CTX_KERNEL ((1U << TLB_CTX_BITS) - 1)
#define TLB_KEY_NONE (~0ULL)
#define TLB_VPN_2M (1ULL << 35) /* added to a 2M page number in an array that also has 4K ones (user addresses have 47 bits) */

/* An entry's value: the page's physical address and rights. */
#define TLB_W 0x01ULL
#define TLB_U 0x02ULL
#define TLB_X 0x04ULL
#define TLB_D 0x08ULL /* the entry in memory has Dirty set */
#define TLB_RIGHTS (TLB_W | TLB_U | TLB_X)

/*
 * Lookup compares 32-bit digests of keys, which lie close together, then the one or two full keys that they point to. So a miss, the
 * common case at the first level and in the page-walk caches, touches one host cache line.
 */
/* Where things are in a set, a block of host memory: digests, LRU word (or for more than 16 ways a stamp a way), keys, values. */
struct tlb_geo {
	uint32_t ways, wpad, stride, off_order, off_keys;
	bool pow2; /* so many sets */
};

static ATTR_ALWAYS_INLINE struct tlb_geo tlb_geometry(uint32_t ways, bool pow2)
{
	struct tlb_geo g = { .ways = ways, .wpad = ALIGN_UP(MAX(ways, 1U), 4U), .pow2 = pow2 };

	g.off_order = g.wpad * 4;
	g.off_keys = g.off_order + (ways <= ASSOC_LRU_WAYS ? 8U : ways * 8U);
	g.stride = ALIGN_UP(g.off_keys + ways * 16U, 64U);
	return g;
}

/* An array without entries has one set, whose digests match no key. */
struct tlb_arr {
	unsigned char *base;
	uint64_t stamp;
	uint32_t sets;
	struct tlb_geo g;
};

static ATTR_ALWAYS_INLINE unsigned tlb_shift(enum tlb_size s)
{
	return 12U + 9U * (unsigned)s;
}

static ATTR_ALWAYS_INLINE uint64_t tlb_key(uint64_t vpn, uint32_t tag)
{
	return (vpn << TLB_KEY_LOW) | tag;
}

static ATTR_ALWAYS_INLINE unsigned char *tlb_set(const struct tlb_arr *a, struct tlb_geo g, uint64_t vpn)
{
	return a->base + (likely(g.pow2) ? (uint32_t)vpn & (a->sets - 1) : (uint32_t)(vpn % a->sets)) * (size_t)g.stride;
}

static ATTR_ALWAYS_INLINE uint32_t tlb_digest(uint64_t key)
{
	return (uint32_t)key ^ (uint32_t)(key >> TLB_KEY_LOW);
}

static ATTR_ALWAYS_INLINE uint64_t *tlb_keys(struct tlb_geo g, unsigned char *set)
{
	return (uint64_t *)(void *)(set + g.off_keys);
}

static ATTR_ALWAYS_INLINE uint64_t *tlb_order(struct tlb_geo g, unsigned char *set)
{
	return (uint64_t *)(void *)(set + g.off_order);
}

/* The way of a set that has the key, or -1. */
static ATTR_ALWAYS_INLINE int tlb_way(struct tlb_geo g, unsigned char *set, uint64_t key)
{
	uint64_t m = assoc_match32((const uint32_t *)(const void *)set, g.wpad, tlb_digest(key));

	for (; m; m &= m - 1)
		if (likely(tlb_keys(g, set)[__builtin_ctzll(m)] == key))
			return __builtin_ctzll(m);
	return -1;
}

void tlb_touch_stamp(struct tlb_arr *a, unsigned char *set, unsigned way);
unsigned tlb_oldest(const struct tlb_arr *a, unsigned char *set);

/* The value of an entry (and its use is noted), or NULL. */
static ATTR_ALWAYS_INLINE uint64_t *tlb_find(struct tlb_arr *a, struct tlb_geo g, uint64_t vpn, uint32_t tag)
{
	unsigned char *set = tlb_set(a, g, vpn);
	int way = tlb_way(g, set, tlb_key(vpn, tag));

	if (way < 0)
		return NULL;
	if (likely(g.ways <= ASSOC_LRU_WAYS))
		*tlb_order(g, set) = assoc_lru_touch(*tlb_order(g, set), (unsigned)way);
	else
		tlb_touch_stamp(a, set, (unsigned)way);
	return tlb_keys(g, set) + g.ways + way;
}

/* Insert what is known to be absent. */
static ATTR_ALWAYS_INLINE void tlb_add(struct tlb_arr *a, struct tlb_geo g, uint64_t vpn, uint32_t tag, uint64_t value)
{
	unsigned char *set;
	uint64_t *k;
	unsigned w;

	if (unlikely(!g.ways))
		return;
	set = tlb_set(a, g, vpn);
	k = tlb_keys(g, set);
	if (likely(g.ways <= ASSOC_LRU_WAYS)) {
		w = assoc_lru_victim(*tlb_order(g, set), g.ways);
		*tlb_order(g, set) = assoc_lru_rotate(*tlb_order(g, set), g.ways, w);
	} else {
		w = tlb_oldest(a, set);
		tlb_touch_stamp(a, set, w);
	}
	k[w] = tlb_key(vpn, tag);
	k[g.ways + w] = value;
	((uint32_t *)(void *)set)[w] = tlb_digest(tlb_key(vpn, tag));
}

/* Looks without a trace. */
uint64_t *tlb_peek(const struct tlb_arr *a, uint64_t vpn, uint32_t tag);
void tlb_drop(struct tlb_arr *a, uint64_t vpn, uint32_t tag);
int tlb_arr_init(struct tlb_arr *a, uint32_t entries, uint32_t ways);
void tlb_arr_done(struct tlb_arr *a);

/* The TLBs of a core: shared by its threads. */
struct core_tlb {
	struct tlb_arr l1[NR_TLB_SIZES];
	struct tlb_arr l2_4k, l2_2m, l2_1g; /* l2_2m empty when 2M entries share l2_4k */
	struct tlb_arr pwc[3];              /* by level of the cached entry: PMD, PUD, PGD */
	bool shared_2m;
};

int tlb_init(struct core_tlb *t, const struct machine_desc *d);
void tlb_done(struct core_tlb *t);

#endif
