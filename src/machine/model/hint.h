/*
 * What the host will need soon. The model's arrays are larger than the host's caches, and an access at random walks through a
 * dozen places of them, each address known only after the one before: without help that is a microsecond. So replay looks ahead in its
 * words, guesses the translation from notes that the walker left, and asks the host to fetch the sets concerned.
 *
 * Nothing here is part of the modelled state: notes may be stale or wrong, and no result depends on them. They are only followed inside
 * the arena and the arrays.
 */
#ifndef QUIRE_MACHINE_MODEL_HINT_H
#define QUIRE_MACHINE_MODEL_HINT_H

#include "machine/model/hot_miss.h"

/* The walker found the page of va: in the PTE table at `table` (level 0), or a huge one at `table` (level 1). */
static ATTR_ALWAYS_INLINE void hint_note(struct core_cpu *cc, vaddr_t va, paddr_t table, unsigned level)
{
	struct core_hint *h = &cc->hint[(va >> PMD_SHIFT) % CORE_HINTS];

	h->region = va >> PMD_SHIFT;
	h->where = table | HINT_VALID | (level ? HINT_HUGE : 0);
}

static ATTR_ALWAYS_INLINE void hint_set(const struct cache_arr *a, struct cache_geo g, uint64_t line)
{
	const unsigned char *set = geo_pos(a, g, line).set;

	__builtin_prefetch(set, 1);
	if (g.stride > 64)
		__builtin_prefetch(set + 64, 1);
	if (g.stride > 128)
		__builtin_prefetch(set + 128, 1);
}

/* The sets of a line beyond L1. */
static ATTR_ALWAYS_INLINE void hint_line(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					 uint64_t line)
{
	const struct core_socket *so = &md->core.socket[cc->phys->socket];
	const struct cache_arr *l2 = &cc->phys->l2;

	if (l2->sets > 1024) /* else the host keeps it by itself */
		hint_set(l2, shape_l2(shape, l2), line);
	hint_set(&so->llc, shape_llc(shape, &so->llc), line);
	if (!hot_inclusive(shape, md))
		hint_set(&so->filter, shape_filter(shape, &so->filter), line);
}

/* The line that a fill of `line` will push out of L2 goes to the last level: the sets where it will be put. */
static ATTR_ALWAYS_INLINE void hint_victim(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					   uint64_t line)
{
	const struct core_socket *so = &md->core.socket[cc->phys->socket];
	const struct cache_arr *l2 = &cc->phys->l2;
	struct cache_geo g = shape_l2(shape, l2);
	struct cache_pos p = geo_pos(l2, g, line);
	uint32_t old = cache_tags(p.set)[geo_next_victim(l2, g, p.set)];

	if (old == TAG_NONE)
		return;
	line = geo_line_of(l2, g, p.index, old);
	hint_set(&so->llc, shape_llc(shape, &so->llc), line);
	hint_set(&so->filter, shape_filter(shape, &so->filter), line);
}

/* Where the entry that maps va lies, or 0; a huge page has none. */
static ATTR_ALWAYS_INLINE paddr_t hint_entry(const struct core_cpu *cc, vaddr_t va, paddr_t *ret_huge)
{
	const struct core_hint *h = &cc->hint[(va >> PMD_SHIFT) % CORE_HINTS];

	*ret_huge = 0;
	if (h->region != va >> PMD_SHIFT || !(h->where & HINT_VALID))
		return 0;
	if (h->where & HINT_HUGE) {
		*ret_huge = (h->where & PTE_ADDR_MASK) + (va & (PMD_SIZE - 1));
		return 0;
	}
	return (h->where & PTE_ADDR_MASK) + ((va >> PAGE_SHIFT) & 511) * 8;
}

/* Far ahead: the page-table entry, and the sets that its line lies in. */
static ATTR_ALWAYS_INLINE void hint_far(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					vaddr_t va)
{
	paddr_t huge, entry = hint_entry(cc, va, &huge);

	if (!entry)
		return;
	__builtin_prefetch(md->m.direct + entry, 1);
	hint_line(shape, md, cc, entry >> CACHE_LINE_SHIFT);
}

/* The physical line of va as far as the notes know, or 0. */
static ATTR_ALWAYS_INLINE uint64_t hint_translate(const struct model *md, const struct core_cpu *cc, vaddr_t va,
						  paddr_t *ret_entry)
{
	paddr_t pa;
	uint64_t line;

	*ret_entry = hint_entry(cc, va, &pa);
	if (*ret_entry)
		pa = (*(const uint64_t *)(const void *)(md->m.direct + *ret_entry) & PTE_ADDR_MASK) + va % PAGE_SIZE;
	line = pa >> CACHE_LINE_SHIFT;
	return line < md->core.nr_lines ? line : 0;
}

/* Half way: the sets of the data's line. */
static ATTR_ALWAYS_INLINE void hint_near(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					 vaddr_t va)
{
	paddr_t entry;
	uint64_t line = hint_translate(md, cc, va, &entry);

	if (line)
		hint_line(shape, md, cc, line);
}

/* Soon: where what they push out will go. */
static ATTR_ALWAYS_INLINE void hint_soon(enum core_shape shape, const struct model *md, const struct core_cpu *cc,
					 vaddr_t va)
{
	paddr_t entry;
	uint64_t line = hint_translate(md, cc, va, &entry);

	if (line)
		hint_victim(shape, md, cc, line);
	if (entry)
		hint_victim(shape, md, cc, entry >> CACHE_LINE_SHIFT);
}

#endif
