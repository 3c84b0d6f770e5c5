/*
 * The hot code for any host, and the choice between it and that for AVX2. Where hosts with AVX2 are the rule, the others make do with the code
 * for any shape: it takes long to compile.
 */
#define HOT_TARGET
#define HOT_TABLE core_hot_plain
#ifdef __x86_64__
#define HOT_SHAPES(S)
#else
#define HOT_SHAPES CORE_SHAPES
#endif
#include "machine/model/hot_instances.h"

static bool same_cache(const struct cache_geo *a, struct cache_geo b)
{
	return a->ways == b.ways && a->policy == b.policy && a->pow2 == b.pow2 && a->fold == b.fold &&
	       a->stride == b.stride && a->off_sharers == b.off_sharers;
}

static bool same_tlb(const struct tlb_geo *a, struct tlb_geo b)
{
	return a->ways == b.ways && a->pow2 == b.pow2;
}

static bool fits(const struct model *md, enum core_shape shape)
{
	const struct core_phys *core = &md->core.phys[0];
	const struct core_socket *so = &md->core.socket[0];
	const struct core_tlb *tlb = &core->tlb;
	enum inclusion incl = shape_inclusion(shape, md->desc.llc.inclusion);

	return incl == md->desc.llc.inclusion && same_cache(&core->l1.g, shape_l1(shape, &core->l1)) &&
	       same_cache(&core->l2.g, shape_l2(shape, &core->l2)) &&
	       same_cache(&so->llc.g, shape_llc(shape, &so->llc)) &&
	       (incl == INCL_INCLUSIVE || same_cache(&so->filter.g, shape_filter(shape, &so->filter))) &&
	       same_tlb(&tlb->l1[TLB_4K].g, shape_dtlb(shape, &tlb->l1[TLB_4K])) &&
	       same_tlb(&tlb->l2_4k.g, shape_stlb(shape, &tlb->l2_4k)) &&
	       same_tlb(&tlb->pwc[0].g, shape_pwc(shape, &tlb->pwc[0])) &&
	       same_tlb(&tlb->pwc[1].g, shape_pwc(shape, &tlb->pwc[1]));
}

enum core_shape core_shape_of(const struct model *md)
{
	for (enum core_shape s = SHAPE_ANY + 1; s < NR_SHAPES; s++)
		if (fits(md, s))
			return s;
	return SHAPE_ANY;
}

const struct core_hot *core_hot_pick(const struct model *md)
{
	enum core_shape shape = core_shape_of(md);

#ifdef CORE_HOT_AVX2
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"))
		return &core_hot_avx2[shape];
#endif
	return &core_hot_plain[core_hot_plain[shape].replay ? shape : SHAPE_ANY];
}
