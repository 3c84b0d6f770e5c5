/*
 * Translation: the TLB levels, the hardware page walker with its caches, Accessed and Dirty, and faults.
 *
 * Tables are read where the engine has written them (direct + modelled address, x86-64 format); each entry read is a load through the
 * caches, each bit newly set a store. A store through an entry without write permission or without Dirty walks again, as the
 * entry in memory decides. At most `walkers` walks go on at once.
 *
 * The kernel's direct map has no tables in memory: its entries have modelled addresses in the first 16 MiB of node 0 and exist only as
 * lines to be loaded.
 */
#include "machine/model/walk.h"

#include "base/assert.h"
#include "machine/model/access.h"
#include "machine/model/clock.h"
#include "machine/model/hot.h"

#include <errno.h>

#define KERNEL_TABLES (1ULL << 20) /* from the start of node 0 */
#define KERNEL_PUD (KERNEL_TABLES + PAGE_SIZE)
#define KERNEL_PMD (KERNEL_TABLES + (2ULL << 20))
#define KERNEL_PMD_BYTES (8ULL << 20)

/* ---- the kernel's direct map ---- */

static uint64_t kernel_line(struct model *md, struct core_cpu *cc, paddr_t offset, uint64_t t)
{
	paddr_t pa = pfn_to_paddr(pfn(md->m.nodes[0].start_pfn)) + offset;
	uint8_t *flags;

	pa %= md->core.nr_lines << CACHE_LINE_SHIFT;
	cc->stats.walk_refs++;
	return cache_access(cc, pa >> CACHE_LINE_SHIFT, t, md->desc.l1d.latency_ps, MEM_WALK, &flags);
}

static uint64_t walk_kernel_tables(struct model *md, struct core_cpu *cc, paddr_t pa, uint64_t t)
{
	struct tlb_arr *pwc = cc->phys->tlb.pwc;
	uint32_t tag = cc->kernel_tag;
	bool have_pud = !md->core.kernel_1g && tlb_find(&pwc[1], pwc[1].g, pa >> PUD_SHIFT, tag);

	if (!have_pud) {
		if (!tlb_find(&pwc[2], pwc[2].g, pa >> PGDIR_SHIFT, tag)) {
			t = kernel_line(md, cc, KERNEL_TABLES, t);
			tlb_add(&pwc[2], pwc[2].g, pa >> PGDIR_SHIFT, tag, 0);
		}
		t = kernel_line(md, cc, KERNEL_PUD + (pa >> PUD_SHIFT) * 8, t);
		if (md->core.kernel_1g)
			return t;
		tlb_add(&pwc[1], pwc[1].g, pa >> PUD_SHIFT, tag, 0);
	}
	return kernel_line(md, cc, KERNEL_PMD + (pa >> PMD_SHIFT) * 8 % KERNEL_PMD_BYTES, t);
}

uint64_t walk_kernel(struct cpu *c, struct core_cpu *cc, paddr_t pa)
{
	struct model *md = model_of(c);
	struct core_tlb *tlb = &cc->phys->tlb;
	enum tlb_size s = md->core.kernel_1g ? TLB_1G : TLB_2M;
	uint64_t vpn = pa >> tlb_shift(s), l2_vpn = vpn, start, t = c->now_ps;
	struct tlb_arr *l2 = s == TLB_1G ? &tlb->l2_1g : &tlb->l2_2m;
	unsigned w;

	if (likely(tlb_find(&tlb->l1[s], tlb->l1[s].g, vpn, cc->kernel_tag) != NULL)) {
		if (s == TLB_2M)
			walk_forget(cc->phys);
		return t;
	}
	walk_forget(cc->phys);
	if (s == TLB_2M && tlb->shared_2m) {
		l2 = &tlb->l2_4k;
		l2_vpn |= TLB_VPN_2M;
	}
	if (tlb_find(l2, l2->g, l2_vpn, cc->kernel_tag)) {
		t += md->desc.stlb.latency_ps;
	} else {
		w = pick_walker(cc);
		start = MAX(t, cc->walker_free[w]);
		t = walk_kernel_tables(md, cc, pa, start);
		cc->walker_free[w] = t;
		cc->stats.walk_kernel++;
		cc->stats.walk_ps_kernel += t - start;
		tlb_add(l2, l2->g, l2_vpn, cc->kernel_tag, 0);
	}
	tlb_add(&tlb->l1[s], tlb->l1[s].g, vpn, cc->kernel_tag, 0);
	return t;
}

/* ---- user space: the walk itself is in hot_walk.h ---- */

void walk_drop(struct core_cpu *cc, vaddr_t va)
{
	struct core_tlb *tlb = &cc->phys->tlb;

	for (enum tlb_size s = TLB_4K; s < NR_TLB_SIZES; s++)
		tlb_drop(&tlb->l1[s], va >> tlb_shift(s), cc->tag);
	tlb_drop(&tlb->l2_4k, va >> PAGE_SHIFT, cc->tag);
	tlb_drop(&tlb->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, cc->tag);
	tlb_drop(&tlb->l2_2m, va >> PMD_SHIFT, cc->tag);
	tlb_drop(&tlb->l2_1g, va >> PUD_SHIFT, cc->tag);
}

void walk_drop_upper(struct core_cpu *cc, vaddr_t va)
{
	for (unsigned i = 0; i < 3; i++)
		tlb_drop(&cc->phys->tlb.pwc[i], va >> (PMD_SHIFT + 9 * i), cc->tag);
}

uint64_t walk_update(struct model *md, struct core_cpu *cc, paddr_t pa, uint64_t t)
{
	uint8_t *flags;

	cc->stats.walk_refs++;
	return cache_access(cc, pa >> CACHE_LINE_SHIFT, t, md->desc.l1d.latency_ps, MEM_STORE, &flags);
}

int walk_fault(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t t)
{
	uint64_t loop_rate = cc->insn_rate, usual_rate = cc->usual_rate;
	enum machine_path was;
	int r;

	core_drain(c);
	clock_stall(c, cc, t);
	if (usual_rate) { /* the kernel is no simple loop, and another task may run here meanwhile */
		cc->insn_rate = usual_rate;
		cc->usual_rate = 0;
	}
	c->fault_start_ps = c->now_ps;
	cc->stats.faults++;
	was = path_set(c, cc, PATH_EXCEPTION);
	clock_ps(c, cc, model_of(c)->desc.cost.exception_ps);
	r = c->m->hooks.fault ? c->m->hooks.fault(c, va, flags & (ACCESS_PRESENT | ACCESS_WRITE | ACCESS_USER | ACCESS_EXEC)) : -EFAULT;
	(void)path_set(c, cc, was);
	if (usual_rate) {
		cc->insn_rate = loop_rate;
		cc->usual_rate = usual_rate;
	}
	return r;
}

int walk_user(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t *t)
{
	return model_of(c)->core.hot->walk(c, cc, va, flags, t);
}

void core_load_context(struct cpu *c, pfn_t root, uint32_t ctx)
{
	struct core_cpu *cc = core_of(c);
	paddr_t pa = pfn_to_paddr(root);

	ASSERT(ctx < TLB_CTX_KERNEL);
	cc->page_va = cc->page_mask = ~0ULL;
	if (pa && (pa != cc->root || ctx != (cc->tag & TLB_CTX_KERNEL))) {
		core_drain(c);
		clock_ps(c, cc, model_of(c)->desc.cost.cr3_load_ps);
	}
	cc->root = pa;
	cc->tag = (cc->kernel_tag & ~TLB_CTX_KERNEL) | ctx;
}
