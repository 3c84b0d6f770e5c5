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
#include "machine/model/hint.h"

#include <errno.h>

#define MAX_RETRIES 100U
#define KERNEL_TABLES (1ULL << 20) /* from the start of node 0 */
#define KERNEL_PUD (KERNEL_TABLES + PAGE_SIZE)
#define KERNEL_PMD (KERNEL_TABLES + (2ULL << 20))
#define KERNEL_PMD_BYTES (8ULL << 20)

/* The walker that is free first. */
static ATTR_ALWAYS_INLINE unsigned pick_walker(const struct core_cpu *cc)
{
	unsigned w = 0;

	for (unsigned i = 1; i < cc->nr_walkers; i++)
		if (cc->walker_free[i] < cc->walker_free[w])
			w = i;
	return w;
}

/* The walker loads (or updates) the line of an entry. */
static ATTR_ALWAYS_INLINE uint64_t walk_line(struct model *md, struct core_cpu *cc, paddr_t pa, uint64_t t, enum mem_op op)
{
	struct cache_arr *l1 = &cc->phys->l1;
	struct cache_pos p = cache_pos(l1, pa >> CACHE_LINE_SHIFT);
	int way = cache_find(l1, &p);
	uint8_t *flags;

	cc->stats.walk_refs++;
	if (way >= 0 && (op == MEM_WALK || (cache_flags(l1, p.set)[way] & LINE_W))) {
		if (op != MEM_WALK)
			cache_flags(l1, p.set)[way] |= LINE_D;
		cache_touch(l1, p.set, (unsigned)way);
		return t + md->desc.l1d.latency_ps;
	}
	return cache_miss(cc, pa >> CACHE_LINE_SHIFT, t, op, &p, way, &flags);
}

/* ---- the kernel's direct map ---- */

static uint64_t kernel_line(struct model *md, struct core_cpu *cc, paddr_t offset, uint64_t t)
{
	paddr_t pa = pfn_to_paddr(pfn(md->m.nodes[0].start_pfn)) + offset;

	return walk_line(md, cc, pa % (md->core.nr_lines << CACHE_LINE_SHIFT), t, MEM_WALK);
}

static uint64_t walk_kernel_tables(struct model *md, struct core_cpu *cc, paddr_t pa, uint64_t t)
{
	struct tlb_arr *pwc = cc->phys->tlb.pwc;
	uint32_t tag = cc->kernel_tag;
	bool have_pud = !md->core.kernel_1g && tlb_find(&pwc[1], pa >> PUD_SHIFT, tag);

	if (!have_pud) {
		if (!tlb_find(&pwc[2], pa >> PGDIR_SHIFT, tag)) {
			t = kernel_line(md, cc, KERNEL_TABLES, t);
			tlb_add(&pwc[2], pa >> PGDIR_SHIFT, tag, 0);
		}
		t = kernel_line(md, cc, KERNEL_PUD + (pa >> PUD_SHIFT) * 8, t);
		if (md->core.kernel_1g)
			return t;
		tlb_add(&pwc[1], pa >> PUD_SHIFT, tag, 0);
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

	if (likely(tlb_find(&tlb->l1[s], vpn, cc->kernel_tag) != NULL)) {
		if (s == TLB_2M)
			walk_forget(cc->phys);
		return t;
	}
	walk_forget(cc->phys);
	if (s == TLB_2M && tlb->shared_2m) {
		l2 = &tlb->l2_4k;
		l2_vpn |= TLB_VPN_2M;
	}
	if (tlb_find(l2, l2_vpn, cc->kernel_tag)) {
		t += md->desc.stlb.latency_ps;
	} else {
		w = pick_walker(cc);
		start = MAX(t, cc->walker_free[w]);
		t = walk_kernel_tables(md, cc, pa, start);
		cc->walker_free[w] = t;
		cc->stats.walk_kernel++;
		cc->stats.walk_ps_kernel += t - start;
		tlb_add(l2, l2_vpn, cc->kernel_tag, 0);
	}
	tlb_add(&tlb->l1[s], vpn, cc->kernel_tag, 0);
	return t;
}

/* ---- user space ---- */

struct walk {
	vaddr_t va;
	unsigned flags;     /* of the access */
	uint64_t t;
	enum tlb_size size;
	uint64_t value;     /* the TLB entry found */
	unsigned err;       /* or why not */
};

/* TLB_W and TLB_U are bits 0 and 1, where an entry has its write and user bits one further up. */
static ATTR_ALWAYS_INLINE uint64_t rights_of(uint64_t e)
{
	return (e / PTE_WRITE & (TLB_W | TLB_U)) | (~e >> 63) * TLB_X;
}

/* Where to begin: the table below the lowest entry that the page-walk caches have. Returns its level: 0 PTE table .. 3 root. */
static ATTR_ALWAYS_INLINE unsigned walk_begin(struct core_cpu *cc, vaddr_t va, uint64_t *ret_table)
{
	struct tlb_arr *pwc = cc->phys->tlb.pwc;

	for (unsigned l = 0; l < 3; l++) {
		uint64_t *v = tlb_find(&pwc[l], va >> (PMD_SHIFT + 9 * l), cc->tag);

		if (v) {
			*ret_table = *v;
			return l;
		}
	}
	*ret_table = cc->root | TLB_RIGHTS;
	return 3;
}

static int walk_denied(struct walk *w, bool present)
{
	w->err = (present ? ACCESS_PRESENT : 0U) | (w->flags & (ACCESS_WRITE | ACCESS_USER | ACCESS_EXEC));
	return -EFAULT;
}

/* The entry that maps the page: rights, then Accessed and Dirty. */
static ATTR_ALWAYS_INLINE int walk_leaf(struct model *md, struct core_cpu *cc, struct walk *w, uint64_t t, paddr_t pa,
					uint64_t rights, unsigned level)
{
	uint64_t *e = (uint64_t *)(void *)(md->m.direct + pa), v = *e;
	uint64_t need = access_need(w->flags) & TLB_RIGHTS;
	uint64_t set = PTE_ACCESSED | (w->flags & ACCESS_WRITE ? PTE_DIRTY : 0);

	if (unlikely((rights & need) != need)) {
		w->t = t;
		return walk_denied(w, true);
	}
	if (unlikely((v & set) != set)) {
		*e = v |= set;
		t = walk_line(md, cc, pa, t, MEM_STORE);
	}
	v &= PTE_ADDR_MASK | PTE_DIRTY;
	w->t = t;
	w->size = (enum tlb_size)level;
	w->value = (v & PTE_ADDR_MASK & ~((1ULL << tlb_shift(w->size)) - 1)) | rights | (v & PTE_DIRTY ? TLB_D : 0);
	if (level < 2)
		hint_note(cc, w->va, level ? v & PTE_ADDR_MASK & PMD_MASK : pa & PAGE_MASK, level);
	return 0;
}

static int walk_tables(struct model *md, struct core_cpu *cc, struct walk *w)
{
	vaddr_t va = w->va;
	uint64_t table, e, t = w->t, *at;
	unsigned level = walk_begin(cc, va, &table);
	uint64_t rights = table & TLB_RIGHTS;

	if (unlikely(!cc->root))
		return walk_denied(w, false);
	for (;; level--) {
		unsigned shift = PAGE_SHIFT + 9 * level;
		paddr_t pa = (table & PTE_ADDR_MASK) + ((va >> shift) & 511) * 8;

		ASSERT(pa >> PAGE_SHIFT < md->m.max_pfn);
		at = (uint64_t *)(void *)(md->m.direct + pa);
		t = walk_line(md, cc, pa, t, MEM_WALK);
		e = *at;
		if (unlikely(!(e & PTE_PRESENT))) {
			w->t = t;
			return walk_denied(w, false);
		}
		rights &= rights_of(e);
		if (!level || (level < 3 && (e & PTE_HUGE)))
			return walk_leaf(md, cc, w, t, pa, rights, level);
		if (unlikely(!(e & PTE_ACCESSED))) {
			*at |= PTE_ACCESSED;
			t = walk_line(md, cc, pa, t, MEM_STORE);
		}
		table = (e & PTE_ADDR_MASK) | rights;
		tlb_add(&cc->phys->tlb.pwc[level - 1], va >> shift, cc->tag, table);
	}
}

static void use_page(struct core_cpu *cc, vaddr_t va, enum tlb_size s, uint64_t value)
{
	cc->page_mask = ~((1ULL << tlb_shift(s)) - 1);
	cc->page_va = va & cc->page_mask;
	cc->page_value = value;
}

static void count_l1_miss(struct core_cpu *cc, enum tlb_size s)
{
	if (likely(s == TLB_4K))
		cc->stats.tlb_l1_misses_4k++;
	else if (s == TLB_2M)
		cc->stats.tlb_l1_misses_2m++;
	else
		cc->stats.tlb_l1_misses_1g++;
}

static void count_walk(struct core_cpu *cc, enum tlb_size s, uint64_t ps)
{
	if (likely(s == TLB_4K)) {
		cc->stats.tlb_misses_4k++;
		cc->stats.walk_ps_4k += ps;
	} else if (s == TLB_2M) {
		cc->stats.tlb_misses_2m++;
		cc->stats.walk_ps_2m += ps;
	} else {
		cc->stats.tlb_misses_1g++;
		cc->stats.walk_ps_1g += ps;
	}
}

static void insert_l2(struct core_tlb *tlb, vaddr_t va, enum tlb_size s, uint32_t tag, uint64_t value)
{
	if (s == TLB_4K)
		tlb_add(&tlb->l2_4k, va >> PAGE_SHIFT, tag, value);
	else if (s == TLB_1G)
		tlb_add(&tlb->l2_1g, va >> PUD_SHIFT, tag, value);
	else if (tlb->shared_2m)
		tlb_add(&tlb->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, tag, value);
	else
		tlb_add(&tlb->l2_2m, va >> PMD_SHIFT, tag, value);
}

static ATTR_ALWAYS_INLINE uint64_t *find_l2(struct core_tlb *tlb, vaddr_t va, enum tlb_size s, uint32_t tag)
{
	if (likely(s == TLB_4K))
		return tlb_find(&tlb->l2_4k, va >> PAGE_SHIFT, tag);
	if (s == TLB_1G)
		return tlb_find(&tlb->l2_1g, va >> PUD_SHIFT, tag);
	if (tlb->shared_2m)
		return tlb_find(&tlb->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, tag);
	return tlb_find(&tlb->l2_2m, va >> PMD_SHIFT, tag);
}

enum tlb_answer { TLB_HIT, TLB_MISS, TLB_WEAK };

/*
 * Does a TLB have it, with the rights needed? TLB_WEAK: there is an entry, with fewer; the one in memory decides. Sizes
 * that this CPU has never found in tables cannot be there.
 */
static ATTR_ALWAYS_INLINE enum tlb_answer find_in_tlb(struct model *md, struct core_cpu *cc, struct walk *w)
{
	struct core_tlb *tlb = &cc->phys->tlb;
	uint64_t need = access_need(w->flags), *v;
	enum tlb_size sizes = likely(cc->sizes_seen == 1U << TLB_4K) ? TLB_2M : NR_TLB_SIZES;

	for (enum tlb_size s = TLB_4K; s < sizes; s++) {
		v = tlb_find(&tlb->l1[s], w->va >> tlb_shift(s), cc->tag);
		if (!v)
			continue;
		if ((*v & need) != need)
			return TLB_WEAK;
		use_page(cc, w->va, s, *v);
		return TLB_HIT;
	}
	for (enum tlb_size s = TLB_4K; s < sizes; s++) {
		v = find_l2(tlb, w->va, s, cc->tag);
		if (!v)
			continue;
		if ((*v & need) != need)
			return TLB_WEAK;
		w->t += md->desc.stlb.latency_ps;
		tlb_add(&tlb->l1[s], w->va >> tlb_shift(s), cc->tag, *v);
		count_l1_miss(cc, s);
		use_page(cc, w->va, s, *v);
		return TLB_HIT;
	}
	return TLB_MISS;
}

/* An entry with too few rights, of whatever size, goes before the new one comes. */
static ATTR_NOINLINE void drop_old(struct core_cpu *cc, vaddr_t va)
{
	struct core_tlb *tlb = &cc->phys->tlb;

	for (enum tlb_size s = TLB_4K; s < NR_TLB_SIZES; s++)
		tlb_drop(&tlb->l1[s], va >> tlb_shift(s), cc->tag);
	tlb_drop(&tlb->l2_4k, va >> PAGE_SHIFT, cc->tag);
	tlb_drop(&tlb->l2_4k, (va >> PMD_SHIFT) | TLB_VPN_2M, cc->tag);
	tlb_drop(&tlb->l2_2m, va >> PMD_SHIFT, cc->tag);
	tlb_drop(&tlb->l2_1g, va >> PUD_SHIFT, cc->tag);
}

static ATTR_ALWAYS_INLINE int translate(struct model *md, struct core_cpu *cc, struct walk *w)
{
	struct core_tlb *tlb = &cc->phys->tlb;
	enum tlb_answer answer;
	unsigned walker;
	uint64_t start;
	int r;

	answer = find_in_tlb(md, cc, w);
	if (answer == TLB_HIT)
		return 0;
	walker = pick_walker(cc);
	start = w->t = MAX(w->t, cc->walker_free[walker]);
	if (answer == TLB_WEAK)
		drop_old(cc, w->va);
	r = walk_tables(md, cc, w);
	cc->walker_free[walker] = w->t;
	if (r)
		return r;
	cc->sizes_seen |= 1U << w->size;
	count_l1_miss(cc, w->size);
	count_walk(cc, w->size, w->t - start);
	insert_l2(tlb, w->va, w->size, cc->tag, w->value);
	tlb_add(&tlb->l1[w->size], w->va >> tlb_shift(w->size), cc->tag, w->value);
	use_page(cc, w->va, w->size, w->value);
	return 0;
}

/* The exception: everything older completes, the engine's hook runs (it may sleep), and its answer decides. */
static int raise_fault(struct cpu *c, struct core_cpu *cc, const struct walk *w)
{
	uint64_t loop_rate = cc->insn_rate, usual_rate = cc->usual_rate;
	enum machine_path was;
	int r;

	core_drain(c);
	clock_stall(c, cc, w->t);
	if (usual_rate) { /* the kernel is no simple loop, and another task may run here meanwhile */
		cc->insn_rate = usual_rate;
		cc->usual_rate = 0;
	}
	c->fault_start_ps = c->now_ps;
	cc->stats.faults++;
	was = path_set(c, cc, PATH_EXCEPTION);
	clock_ps(c, cc, model_of(c)->desc.cost.exception_ps);
	r = c->m->hooks.fault ? c->m->hooks.fault(c, w->va, w->err) : -EFAULT;
	(void)path_set(c, cc, was);
	if (usual_rate) {
		cc->insn_rate = loop_rate;
		cc->usual_rate = usual_rate;
	}
	return r;
}

int walk_user(struct cpu *c, struct core_cpu *cc, vaddr_t va, unsigned flags, uint64_t *t)
{
	struct walk w = { .va = va, .flags = flags, .t = *t };

	if (cc->phys->nr_threads > 1)
		walk_forget(cc->phys);
	for (unsigned tries = 0; translate(model_of(c), cc, &w); tries++) {
		int r;

		ASSERT(tries < MAX_RETRIES);
		cc->page_va = cc->page_mask = ~0ULL;
		r = raise_fault(c, cc, &w);
		if (r)
			return r;
		cc->stats.fault_retries++;
		w.t = c->now_ps;
	}
	*t = w.t;
	return 0;
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
