/*
 * TLB arrays: lookup that leaves no trace, insertion, invalidation; and the flushes that the engine asks for.
 *
 * A ranged flush drops the entries of each page of the range, a full one all of a context, both only for the hardware thread
 * that executes it. Page-walk caches lose what a flush covers when it says that tables were freed.
 */
#include "machine/model/tlb.h"

#include "base/assert.h"
#include "machine/model/clock.h"
#include "machine/model/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tlb_touch_stamp(struct tlb_arr *a, unsigned char *set, unsigned way)
{
	tlb_order(a->g, set)[way] = ++a->stamp;
}

unsigned tlb_oldest(const struct tlb_arr *a, unsigned char *set)
{
	const uint64_t *s = tlb_order(a->g, set);
	unsigned min = 0;

	for (unsigned w = 1; w < a->g.ways; w++)
		if (s[w] < s[min])
			min = w;
	return min;
}

uint64_t *tlb_peek(const struct tlb_arr *a, uint64_t vpn, uint32_t tag)
{
	unsigned char *set = tlb_set(a, a->g, vpn);
	int way = tlb_way(a->g, set, tlb_key(vpn, tag));

	return way < 0 ? NULL : tlb_keys(a->g, set) + a->g.ways + way;
}

static void drop_way(struct tlb_arr *a, unsigned char *set, unsigned way)
{
	uint64_t *order = tlb_order(a->g, set);

	tlb_keys(a->g, set)[way] = TLB_KEY_NONE;
	((uint32_t *)(void *)set)[way] = tlb_digest(TLB_KEY_NONE);
	if (a->g.ways <= ASSOC_LRU_WAYS)
		*order = assoc_lru_demote(*order, way, a->g.ways);
	else
		order[way] = 0;
}

void tlb_drop(struct tlb_arr *a, uint64_t vpn, uint32_t tag)
{
	unsigned char *set = tlb_set(a, a->g, vpn);
	int way = tlb_way(a->g, set, tlb_key(vpn, tag));

	if (way >= 0)
		drop_way(a, set, (unsigned)way);
}

/* Is it an entry of `tag`: of the thread, and of the context, or with context 0 of any but the kernel's? */
static bool is_of(uint64_t key, uint32_t tag)
{
	uint32_t own = (uint32_t)key & ((1U << TLB_KEY_LOW) - 1);

	if (own == tag)
		return true;
	return !(tag & TLB_CTX_KERNEL) && (own & ~TLB_CTX_KERNEL) == tag && (own & TLB_CTX_KERNEL) != TLB_CTX_KERNEL;
}

/* Drop the entries of `tag` whose page number lies in [first, last]. */
static void drop_all(struct tlb_arr *a, uint32_t tag, uint64_t first, uint64_t last)
{
	for (uint32_t s = 0; s < a->sets; s++) {
		unsigned char *set = a->base + (size_t)s * a->g.stride;
		uint64_t *k = tlb_keys(a->g, set);

		for (unsigned w = 0; w < a->g.ways; w++) {
			uint64_t vpn = k[w] >> TLB_KEY_LOW;

			if (k[w] != TLB_KEY_NONE && is_of(k[w], tag) && vpn >= first && vpn <= last)
				drop_way(a, set, w);
		}
	}
}

int tlb_arr_init(struct tlb_arr *a, uint32_t entries, uint32_t ways)
{
	*a = (struct tlb_arr){ 0 };
	if (!entries)
		ways = 0;
	else if (!ways || ways > entries)
		ways = entries;
	if ((ways && entries % ways) || ways > ASSOC_MAX_WAYS)
		return -EINVAL;
	a->sets = ways ? entries / ways : 1;
	a->g = tlb_geometry(ways, !(a->sets & (a->sets - 1)));
	a->base = aligned_alloc(64, (size_t)a->sets * a->g.stride);
	if (!a->base)
		return -ENOMEM;
	memset(a->base, 0xff, (size_t)a->sets * a->g.stride);
	for (uint32_t s = 0; s < a->sets; s++) {
		uint64_t *order = tlb_order(a->g, a->base + (size_t)s * a->g.stride);

		if (ways <= ASSOC_LRU_WAYS)
			*order = ASSOC_LRU_INIT;
		else
			memset(order, 0, ways * sizeof(*order));
	}
	return 0;
}

void tlb_arr_done(struct tlb_arr *a)
{
	free(a->base);
	*a = (struct tlb_arr){ 0 };
}

/* Page-walk caches are small; beyond four entries they are taken as four-way. */
static int pwc_init(struct tlb_arr *a, uint32_t entries)
{
	return tlb_arr_init(a, entries > 4 ? ALIGN_UP(entries, 4U) : entries, entries > 4 ? 4 : entries);
}

int tlb_init(struct core_tlb *t, const struct machine_desc *d)
{
	const struct tlb_desc *l1 = &d->dtlb, *l2 = &d->stlb;
	int r = tlb_arr_init(&t->l1[TLB_4K], l1->entries_4k, l1->ways_4k);

	t->shared_2m = l2->shared_2m;
	if (!r)
		r = tlb_arr_init(&t->l1[TLB_2M], l1->entries_2m, l1->ways_2m);
	if (!r)
		r = tlb_arr_init(&t->l1[TLB_1G], l1->entries_1g, l1->ways_1g);
	if (!r)
		r = tlb_arr_init(&t->l2_4k, l2->entries_4k, l2->ways_4k);
	if (!r)
		r = tlb_arr_init(&t->l2_2m, l2->shared_2m ? 0 : l2->entries_2m, l2->ways_2m);
	if (!r)
		r = tlb_arr_init(&t->l2_1g, l2->entries_1g, l2->ways_1g);
	if (!r)
		r = pwc_init(&t->pwc[0], d->pwc_pmd);
	if (!r)
		r = pwc_init(&t->pwc[1], d->pwc_pud);
	if (!r)
		r = pwc_init(&t->pwc[2], d->pwc_pgd);
	return r;
}

void tlb_done(struct core_tlb *t)
{
	for (unsigned i = 0; i < 3; i++) {
		tlb_arr_done(&t->l1[i]);
		tlb_arr_done(&t->pwc[i]);
	}
	tlb_arr_done(&t->l2_4k);
	tlb_arr_done(&t->l2_2m);
	tlb_arr_done(&t->l2_1g);
}

/* ---- flushes ---- */

static void flush_full(struct core_tlb *t, uint32_t tag, bool tables)
{
	for (unsigned i = 0; i < 3; i++) {
		drop_all(&t->l1[i], tag, 0, ~0ULL);
		if (tables)
			drop_all(&t->pwc[i], tag, 0, ~0ULL);
	}
	drop_all(&t->l2_4k, tag, 0, ~0ULL);
	drop_all(&t->l2_2m, tag, 0, ~0ULL);
	drop_all(&t->l2_1g, tag, 0, ~0ULL);
}

static void flush_page(struct core_tlb *t, uint32_t tag, vaddr_t va, bool small)
{
	if (small) {
		tlb_drop(&t->l1[TLB_4K], va >> PAGE_SHIFT, tag);
		tlb_drop(&t->l2_4k, va >> PAGE_SHIFT, tag);
	}
	tlb_drop(&t->l1[TLB_2M], va >> PMD_SHIFT, tag);
	tlb_drop(&t->l1[TLB_1G], va >> PUD_SHIFT, tag);
	if (t->shared_2m)
		tlb_drop(&t->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, tag);
	else
		tlb_drop(&t->l2_2m, va >> PMD_SHIFT, tag);
	tlb_drop(&t->l2_1g, va >> PUD_SHIFT, tag);
}

/* Everything of [start, last]: page by page when there are few, else by looking at every entry. */
static void flush_range(struct core_tlb *t, uint32_t tag, vaddr_t start, vaddr_t last, bool tables)
{
	uint64_t pages = (last >> PAGE_SHIFT) - (start >> PAGE_SHIFT) + 1;

	if (pages <= 64) {
		for (uint64_t i = 0; i < pages; i++)
			flush_page(t, tag, (start & PAGE_MASK) + i * PAGE_SIZE, true);
	} else {
		drop_all(&t->l1[TLB_4K], tag, start >> PAGE_SHIFT, last >> PAGE_SHIFT);
		drop_all(&t->l1[TLB_2M], tag, start >> PMD_SHIFT, last >> PMD_SHIFT);
		drop_all(&t->l1[TLB_1G], tag, start >> PUD_SHIFT, last >> PUD_SHIFT);
		drop_all(&t->l2_4k, tag, start >> PAGE_SHIFT, last >> PAGE_SHIFT);
		if (t->shared_2m)
			drop_all(&t->l2_4k, tag, (start >> PMD_SHIFT) | TLB_VPN_2M, (last >> PMD_SHIFT) | TLB_VPN_2M);
		drop_all(&t->l2_2m, tag, start >> PMD_SHIFT, last >> PMD_SHIFT);
		drop_all(&t->l2_1g, tag, start >> PUD_SHIFT, last >> PUD_SHIFT);
	}
	if (tables)
		for (unsigned i = 0; i < 3; i++)
			drop_all(&t->pwc[i], tag, start >> (PMD_SHIFT + 9 * i), last >> (PMD_SHIFT + 9 * i));
}

/* The instructions that the flush takes: one an entry of the stride, or one for all. */
static uint64_t flush_pages(const struct tlb_flush *f)
{
	unsigned shift = MAX(f->stride_shift, PAGE_SHIFT);

	return f->end > f->start ? ((f->end - 1) >> shift) - (f->start >> shift) + 1 : 0;
}

void core_flush_nocharge(struct cpu *c, const struct tlb_flush *f)
{
	struct core_cpu *cc = core_of(c);
	uint32_t tag = (cc->kernel_tag & ~TLB_CTX_KERNEL) | f->ctx;

	ASSERT(f->ctx < TLB_CTX_KERNEL);
	if (f->full) {
		flush_full(&cc->phys->tlb, tag, true);
		cc->stats.tlb_flushes_full++;
	} else if (f->end > f->start) {
		flush_range(&cc->phys->tlb, tag, f->start, f->end - 1, f->freed_tables);
		cc->stats.tlb_flushes_page += flush_pages(f);
	}
	walk_forget(cc->phys);
}

void core_flush_local(struct cpu *c, const struct tlb_flush *f)
{
	const struct machine_desc *d = &model_of(c)->desc;
	struct core_cpu *cc = core_of(c);

	core_drain(c);
	core_flush_nocharge(c, f);
	clock_ps(c, cc, f->full ? d->cost.flush_all_ps : flush_pages(f) * d->cost.invlpg_ps);
}

bool core_tlb_probe(struct cpu *c, uint32_t ctx, vaddr_t va, pfn_t *ret_pfn, bool *ret_writable, bool *ret_huge)
{
	struct core_cpu *cc = core_of(c);
	struct core_tlb *t = &cc->phys->tlb;
	uint32_t tag = (cc->kernel_tag & ~TLB_CTX_KERNEL) | ctx;
	const uint64_t *v[6] = {
		tlb_peek(&t->l1[TLB_4K], va >> PAGE_SHIFT, tag),
		tlb_peek(&t->l2_4k, va >> PAGE_SHIFT, tag),
		tlb_peek(&t->l1[TLB_2M], va >> PMD_SHIFT, tag),
		t->shared_2m ? tlb_peek(&t->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, tag) :
			       tlb_peek(&t->l2_2m, va >> PMD_SHIFT, tag),
		tlb_peek(&t->l1[TLB_1G], va >> PUD_SHIFT, tag),
		tlb_peek(&t->l2_1g, va >> PUD_SHIFT, tag),
	};

	for (unsigned i = 0; i < 6; i++) {
		uint64_t in_page = (1ULL << tlb_shift((enum tlb_size)(i / 2))) - 1;

		if (!v[i])
			continue;
		*ret_pfn = paddr_to_pfn((*v[i] & PTE_ADDR_MASK) | (va & in_page));
		*ret_writable = *v[i] & TLB_W;
		*ret_huge = i >= 2;
		return true;
	}
	return false;
}
