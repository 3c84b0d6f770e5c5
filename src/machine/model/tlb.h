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
#define TLB_MODULO 0xffffffffU

/* An array without entries has one set, whose digests match no key. */
struct tlb_arr {
	uint32_t *digest; /* [sets][wpad] */
	uint64_t *key;    /* [sets][2][ways]: keys, then values */
	uint64_t *order;  /* LRU words [sets], or for more than 16 ways stamps [sets][ways] */
	uint64_t stamp;
	uint32_t sets, ways, wpad;
	uint32_t mask;    /* sets - 1, or TLB_MODULO when sets is not a power of two */
};

static ATTR_ALWAYS_INLINE unsigned tlb_shift(enum tlb_size s)
{
	return 12U + 9U * (unsigned)s;
}

static ATTR_ALWAYS_INLINE uint64_t tlb_key(uint64_t vpn, uint32_t tag)
{
	return (vpn << TLB_KEY_LOW) | tag;
}

static ATTR_ALWAYS_INLINE uint32_t tlb_set(const struct tlb_arr *a, uint64_t vpn)
{
	return likely(a->mask != TLB_MODULO) ? (uint32_t)vpn & a->mask : (uint32_t)(vpn % a->sets);
}

static ATTR_ALWAYS_INLINE uint32_t tlb_digest(uint64_t key)
{
	return (uint32_t)key ^ (uint32_t)(key >> TLB_KEY_LOW);
}

static ATTR_ALWAYS_INLINE uint64_t *tlb_keys(const struct tlb_arr *a, uint32_t set)
{
	return a->key + (size_t)set * 2 * a->ways;
}

/* The way of a set that has the key, or -1. */
static ATTR_ALWAYS_INLINE int tlb_way(const struct tlb_arr *a, uint32_t set, uint64_t key)
{
	uint64_t m = assoc_match32(a->digest + (size_t)set * a->wpad, a->wpad, tlb_digest(key));

	for (; m; m &= m - 1)
		if (likely(tlb_keys(a, set)[__builtin_ctzll(m)] == key))
			return __builtin_ctzll(m);
	return -1;
}

void tlb_touch_stamp(struct tlb_arr *a, uint32_t set, unsigned way);
unsigned tlb_oldest(const struct tlb_arr *a, uint32_t set);

/* The value of an entry (and its use is noted), or NULL. */
static ATTR_ALWAYS_INLINE uint64_t *tlb_find(struct tlb_arr *a, uint64_t vpn, uint32_t tag)
{
	uint32_t set;
	int way;

	set = tlb_set(a, vpn);
	way = tlb_way(a, set, tlb_key(vpn, tag));
	if (way < 0)
		return NULL;
	if (likely(a->ways <= ASSOC_LRU_WAYS))
		a->order[set] = assoc_lru_touch(a->order[set], (unsigned)way);
	else
		tlb_touch_stamp(a, set, (unsigned)way);
	return tlb_keys(a, set) + a->ways + way;
}

/* Insert what is known to be absent. */
static ATTR_ALWAYS_INLINE void tlb_add(struct tlb_arr *a, uint64_t vpn, uint32_t tag, uint64_t value)
{
	uint32_t set;
	uint64_t *k;
	unsigned w;

	if (unlikely(!a->ways))
		return;
	set = tlb_set(a, vpn);
	k = tlb_keys(a, set);
	if (likely(a->ways <= ASSOC_LRU_WAYS)) {
		w = assoc_lru_victim(a->order[set], a->ways);
		a->order[set] = assoc_lru_rotate(a->order[set], a->ways, w);
	} else {
		w = tlb_oldest(a, set);
		tlb_touch_stamp(a, set, w);
	}
	k[w] = tlb_key(vpn, tag);
	k[a->ways + w] = value;
	a->digest[(size_t)set * a->wpad + w] = tlb_digest(tlb_key(vpn, tag));
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
