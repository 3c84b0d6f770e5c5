/*
 * Shapes: the ways and policies of the caches and TLBs of a machine, as constants, so that the code of hot.h is compiled once for
 * each common one. A shape changes how fast the model runs and nothing of what it says: a test compares each with SHAPE_ANY.
 */
#ifndef QUIRE_MACHINE_MODEL_SHAPE_H
#define QUIRE_MACHINE_MODEL_SHAPE_H

#include "machine/model/cache.h"
#include "machine/model/tlb.h"

/*
 * Ways of L1, L2, last level; inclusion; has the last level, the snoop filter a power of two of sets; ways of the TLBs for 4K pages.
 * In all: L1 and L2 with PLRU and a power of two of sets, last level with SRRIP, snoop filter of 12 ways with LRU, TLBs with a power of two
 * of sets, four-way caches of PMD and PUD entries.
 */
#define CORE_SHAPES(S)                                                  \
	S(HASWELL, 8, 8, 20, INCL_INCLUSIVE, false, false, 4, 8)        \
	S(BROADWELL, 8, 8, 20, INCL_INCLUSIVE, false, false, 4, 6)      \
	S(SKYLAKE_CLIENT, 8, 4, 16, INCL_INCLUSIVE, true, false, 4, 12) \
	S(SKYLAKE, 8, 16, 11, INCL_NON_INCLUSIVE, false, false, 4, 12)  \
	S(SAPPHIRE, 12, 16, 20, INCL_NON_INCLUSIVE, false, false, 6, 16)

enum core_shape {
	SHAPE_ANY, /* the geometry is read from the arrays */
#define S(name, ...) SHAPE_##name,
	CORE_SHAPES(S)
#undef S
	NR_SHAPES
};

#define SNOOP_FILTER_WAYS 12U

/* Each switch is decided at compile time. */
#define SHAPE_FN(type, fn, arg, expr, any)                                                                              \
	static ATTR_ALWAYS_INLINE type fn(enum core_shape shape, arg)                                                   \
	{                                                                                                               \
		switch (shape) {                                                                                        \
			CORE_SHAPES(expr)                                                                               \
		default:                                                                                                \
			return any;                                                                                     \
		}                                                                                                       \
	}

#define S_L1(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return cache_geometry(l1, REPL_PLRU, false, true, false);
#define S_L2(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return cache_geometry(l2, REPL_PLRU, false, true, false);
#define S_LLC(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return cache_geometry(llc, REPL_SRRIP, true, pow2, true);
#define S_FILTER(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) \
	case SHAPE_##name: return cache_geometry(SNOOP_FILTER_WAYS, REPL_LRU, true, fpow2, true);
#define S_INCL(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return incl;
#define S_DTLB(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return tlb_geometry(t1, true);
#define S_STLB(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return tlb_geometry(t2, true);
#define S_PWC(name, l1, l2, llc, incl, pow2, fpow2, t1, t2) case SHAPE_##name: return tlb_geometry(4, true);

SHAPE_FN(struct cache_geo, shape_l1, const struct cache_arr *a, S_L1, a->g)
SHAPE_FN(struct cache_geo, shape_l2, const struct cache_arr *a, S_L2, a->g)
SHAPE_FN(struct cache_geo, shape_llc, const struct cache_arr *a, S_LLC, a->g)
SHAPE_FN(struct cache_geo, shape_filter, const struct cache_arr *a, S_FILTER, a->g)
SHAPE_FN(enum inclusion, shape_inclusion, enum inclusion any, S_INCL, any)
SHAPE_FN(struct tlb_geo, shape_dtlb, const struct tlb_arr *a, S_DTLB, a->g)
SHAPE_FN(struct tlb_geo, shape_stlb, const struct tlb_arr *a, S_STLB, a->g)
SHAPE_FN(struct tlb_geo, shape_pwc, const struct tlb_arr *a, S_PWC, a->g)

#endif
