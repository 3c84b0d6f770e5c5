/*
 * The engine's nouns as types, and the only conversions between them.
 *
 * A frame number is a one-field struct so that it cannot be mixed up with an address or a count;
 * addresses are plain 64-bit integers because arithmetic on them is the normal case.
 * Units are in names: _ps picoseconds (virtual time), _ns nanoseconds.
 */
#ifndef QUIRE_BASE_TYPES_H
#define QUIRE_BASE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
	uint64_t v;
} pfn_t;

typedef uint64_t vaddr_t; /* address in some address space */
typedef uint64_t paddr_t; /* modelled physical address, never a host pointer (design rule 1) */

#define PAGE_SHIFT 12
#define PAGE_SIZE (1ULL << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PMD_SHIFT 21
#define PMD_SIZE (1ULL << PMD_SHIFT)
#define PMD_MASK (~(PMD_SIZE - 1))
#define PUD_SHIFT 30
#define PUD_SIZE (1ULL << PUD_SHIFT)
#define PGDIR_SHIFT 39
#define HPAGE_PMD_ORDER (PMD_SHIFT - PAGE_SHIFT)
#define HPAGE_PMD_NR (1U << HPAGE_PMD_ORDER)
#define CACHE_LINE_SHIFT 6
#define CACHE_LINE (1U << CACHE_LINE_SHIFT)

#define NID_NONE (-1)

static inline pfn_t pfn(uint64_t v)
{
	return (pfn_t){ v };
}

static inline paddr_t pfn_to_paddr(pfn_t p)
{
	return p.v << PAGE_SHIFT;
}

static inline pfn_t paddr_to_pfn(paddr_t pa)
{
	return (pfn_t){ pa >> PAGE_SHIFT };
}

static inline pfn_t pfn_add(pfn_t p, uint64_t n)
{
	return (pfn_t){ p.v + n };
}

#define PS_PER_NS 1000ULL

#endif
