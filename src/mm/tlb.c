/*
 * TLB flushing and address-space switches (rules T1 to T3 of tlb.h).
 *
 * Who may hold translations of an address space: the CPUs in mm->cpus by their current context, and any CPU by one of
 * its PERCPU_CTX_SLOTS remembered contexts. The former are told at once; the latter, and CPUs that run a kernel task on
 * a lazily left address space, compare generations before they use it again. When tables were freed the lazy ones are
 * told as well, since the hardware could still walk them, and they leave the address space for good.
 *
 * Who writes what
 *  percpu.loaded   its CPU. Others only take a lazily loaded address space away: from mm|LAZY by compare-and-swap to
 *                  mm|LAZY|LEAVING, then the CPU's bit out of mm->cpus, then 0. Its CPU goes the same way when it leaves
 *                  by itself, and waits while somebody else is LEAVING (two instructions). So a bit is never cleared
 *                  after its CPU has set it again, and nobody touches mm once no CPU has it in `loaded` (tlb_forget_mm).
 *  ctx slots       its CPU changes ctx; a flusher whose flush the CPU has acknowledged moves tlb_gen from the generation
 *                  before to its own by compare-and-swap. Generations of two address spaces are never equal, so it can't
 *                  hit a slot that has become another one's.
 *  mm->tlb_gen, mm->cpus   everybody, atomically. A CPU sets its bit (or ceases to be lazy) and then reads the generation;
 *                  a flusher raises the generation and then reads who is there: one of them sees the other. All four
 *                  are sequentially consistent.
 */
#include "mm/tlb.h"

#include "base/assert.h"
#include "mm/fork_shared.h"
#include "mm/lru.h"
#include "mm/swap.h"
#include "mm/system.h"

struct gather_batch {
	struct gather_batch *next;
	uint64_t nr;
	struct frame *frames[MMU_GATHER_BATCH];
};

_Static_assert(sizeof(struct gather_batch) <= PAGE_SIZE, "a batch is a page");
_Static_assert(VM_quire_flush_exit - VM_quire_flush_other == FLUSH_EXIT && VM_quire_ipi_exit - VM_quire_ipi_other == FLUSH_EXIT,
	       "counters by reason are in the order of the reasons");

/* ---- flushing ---- */

static struct ctx_slot *ctx_find(struct percpu *pc, uint32_t ctx)
{
	for (unsigned i = 0; i < PERCPU_CTX_SLOTS; i++)
		if (__atomic_load_n(&pc->ctx[i].ctx, __ATOMIC_RELAXED) == ctx)
			return &pc->ctx[i];
	return NULL;
}

static uint64_t slot_gen(const struct ctx_slot *slot)
{
	return __atomic_load_n(&slot->tlb_gen, __ATOMIC_RELAXED);
}

/* Its own CPU's: up to date with gen. */
static void slot_set(struct ctx_slot *slot, uint32_t ctx, uint64_t gen)
{
	__atomic_store_n(&slot->ctx, ctx, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->tlb_gen, gen, __ATOMIC_RELAXED);
}

static void touch_mm(struct cpu *c, const struct mm *mm, const void *field, size_t len, enum touch_kind kind)
{
	(void)mm;
	machine_touch(c, machine_pa(c->m, field), len, kind);
}

/*
 * CPU `id`, which has mm loaded as `was` says, leaves it: by itself, or taken away from it. false: it was not so any more,
 * or somebody else is at it.
 */
static bool leave_mm(struct cpu *c, struct mm *mm, unsigned id, uintptr_t was)
{
	uintptr_t *loaded = &c->q->percpu[id]->loaded, now = was;

	if (!__atomic_compare_exchange_n(loaded, &now, was | LOADED_LEAVING, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	__atomic_and_fetch(&mm->cpus.bits[id / 64], ~(1ULL << (id % 64)), __ATOMIC_SEQ_CST);
	__atomic_store_n(loaded, 0, __ATOMIC_SEQ_CST);
	touch_mm(c, mm, &mm->cpus.bits[id / 64], sizeof(uint64_t), TOUCH_ATOMIC);
	return true;
}

/* Take mm away from CPU `id` if it has it lazily. Returns when it hasn't. */
static void take_lazy_mm(struct cpu *c, struct mm *mm, unsigned id)
{
	const uintptr_t *loaded = &c->q->percpu[id]->loaded;
	uintptr_t lazy = (uintptr_t)mm | LOADED_LAZY;

	if (!leave_mm(c, mm, id, lazy))
		while (__atomic_load_n(loaded, __ATOMIC_SEQ_CST) == (lazy | LOADED_LEAVING))
			;
}

/* This CPU leaves what it has loaded. */
static void leave_loaded(struct cpu *c)
{
	uintptr_t was;

	while ((was = __atomic_load_n(&c->pc->loaded, __ATOMIC_SEQ_CST)))
		if (!(was & LOADED_LEAVING))
			(void)leave_mm(c, (struct mm *)(was & LOADED_MM), c->id, was);
}

/* This CPU's part of a flush that made the generation `gen`. */
ATTR_NOINLINE static void flush_here(struct cpu *c, struct mm *mm, struct tlb_flush f, uint64_t gen)
{
	struct percpu *pc = c->pc;
	struct ctx_slot *slot;

	if (percpu_mm(pc) != mm)
		return;
	if (percpu_lazy(pc)) {
		if (f.freed_tables) {
			take_lazy_mm(c, mm, c->id);
			c->m->ops->load_context(c, pfn(0), 0);
		}
		return;
	}
	slot = ctx_find(pc, mm->ctx);
	ASSERT(slot);
	if (slot_gen(slot) != gen - 1)
		f.full = true; /* an earlier flush has not reached this CPU yet: do both */
	c->m->ops->flush_local(c, &f);
	slot_set(slot, mm->ctx, gen);
	if (f.full)
		vmstat_inc(c, VM_nr_tlb_local_flush_all);
	else
		vmstat_add(c, VM_nr_tlb_local_flush_one,
			   (int64_t)((f.end - f.start + (1ULL << f.stride_shift) - 1) >> f.stride_shift));
}

/* The mask as it is now. */
static void mm_cpus(struct cpu *c, const struct mm *mm, struct cpumask *ret)
{
	for (unsigned i = 0; i * 64 < c->m->nr_cpus; i++)
		ret->bits[i] = __atomic_load_n(&mm->cpus.bits[i], __ATOMIC_SEQ_CST);
}

/* The other CPUs that must be told now. */
static bool flush_targets(struct cpu *c, const struct mm *mm, bool freed_tables, struct cpumask *ret)
{
	struct cpumask there;
	unsigned id, n = 0;

	touch_mm(c, mm, &mm->cpus, (c->m->nr_cpus + 7) / 8, TOUCH_READ);
	mm_cpus(c, mm, &there);
	for_each_cpu(id, &there, c->m->nr_cpus) {
		const struct percpu *pc = c->q->percpu[id];

		if (id == c->id)
			continue;
		machine_touch(c, pc->pa, 1, TOUCH_READ);
		if (percpu_lazy(pc) && !freed_tables)
			continue;
		cpumask_set(ret, id);
		n++;
	}
	return n != 0;
}

void tlb_acknowledge(struct cpu *c, unsigned id, uint32_t ctx, uint64_t first, uint64_t last)
{
	struct ctx_slot *slot = ctx_find(c->q->percpu[id], ctx);

	if (slot)
		__atomic_compare_exchange_n(&slot->tlb_gen, &first, last, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* `id` has flushed for generation gen: it need not do so again when it next switches to the address space. */
static void flush_acknowledged(struct cpu *c, struct mm *mm, unsigned id, uint64_t gen, bool freed_tables)
{
	tlb_acknowledge(c, id, mm->ctx, gen - 1, gen);
	if (freed_tables)
		take_lazy_mm(c, mm, id);
}

ATTR_NOINLINE static void flush_there(struct cpu *c, struct mm *mm, const struct tlb_flush *f, uint64_t gen, enum flush_why why)
{
	struct cpumask targets = { .bits = { 0 } };
	unsigned id, remote = 0;

	if (!flush_targets(c, mm, f->freed_tables, &targets))
		return;
	c->m->ops->flush_remote(c, &targets, f, &remote);
	vmstat_inc(c, VM_nr_tlb_remote_flush);
	vmstat_add(c, VM_nr_tlb_remote_flush_received, remote);
	vmstat_add(c, VM_quire_ipi_other + why, remote);
	for_each_cpu(id, &targets, c->m->nr_cpus) {
		__atomic_add_fetch(&c->q->percpu[id]->flushes_received, 1, __ATOMIC_RELAXED);
		flush_acknowledged(c, mm, id, gen, f->freed_tables);
	}
}

/* Hardware tells everybody, interrupts nobody, and reaches remembered contexts as well. */
static void flush_broadcast(struct cpu *c, struct mm *mm, const struct tlb_flush *f, uint64_t gen)
{
	struct cpumask all = { .bits = { 0 } };
	unsigned remote = 0;

	for (unsigned id = 0; id < c->m->nr_cpus; id++)
		cpumask_set(&all, id);
	c->m->ops->flush_remote(c, &all, f, &remote);
	for (unsigned id = 0; id < c->m->nr_cpus; id++)
		flush_acknowledged(c, mm, id, gen, f->freed_tables);
}

ATTR_NOINLINE void tlb_flush_for(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned stride_shift, bool freed_tables,
				 enum flush_why why)
{
	enum machine_path prev = machine_work(c, PATH_TLB_FLUSH, 1);
	struct tlb_flush f = {
		.ctx = mm->ctx,
		.full = (end - start) >> stride_shift > mm->q->knobs.tlb_flush_ceiling,
		.freed_tables = freed_tables,
		.stride_shift = (uint8_t)stride_shift,
		.start = start,
		.end = end,
	};
	uint64_t gen = __atomic_add_fetch(&mm->tlb_gen, 1, __ATOMIC_SEQ_CST);

	touch_mm(c, mm, &mm->tlb_gen, sizeof(mm->tlb_gen), TOUCH_ATOMIC);
	if (c->m->broadcast_tlbi) {
		flush_broadcast(c, mm, &f, gen);
	} else {
		flush_there(c, mm, &f, gen, why);
		flush_here(c, mm, f, gen);
	}
	vmstat_inc(c, VM_quire_flush_other + why);
	machine_path(c, prev);
}

void tlb_flush_mm_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned stride_shift, bool freed_tables)
{
	tlb_flush_for(c, mm, start, end, stride_shift, freed_tables, FLUSH_OTHER);
}

void tlb_flush_page(struct cpu *c, struct mm *mm, vaddr_t va)
{
	va = ALIGN_DOWN(va, PAGE_SIZE);
	tlb_flush_for(c, mm, va, va + PAGE_SIZE, PAGE_SHIFT, false, FLUSH_COW);
}

/* ---- gathering ---- */

static void gather_reset(struct mmu_gather *g)
{
	g->start = ~0ULL;
	g->end = 0;
	g->freed_tables = false;
	g->huge_only = true;
}

void tlb_gather_begin(struct cpu *c, struct mmu_gather *g, struct mm *mm, bool full_mm)
{
	(void)c;
	*g = (struct mmu_gather){ .mm = mm, .full_mm = full_mm };
	gather_reset(g);
}

void tlb_gather_range(struct mmu_gather *g, vaddr_t va, uint64_t size)
{
	g->start = MIN(g->start, va);
	g->end = MAX(g->end, va + size);
	if (size < PMD_SIZE)
		g->huge_only = false;
}

/* Make room for another frame. false: flush first. */
static bool gather_next_batch(struct cpu *c, struct mmu_gather *g)
{
	struct gather_batch *b = g->last ? g->last->next : g->first;

	if (!b) {
		struct alloc_req req = { .order = 0, .gfp = GFP_NOWARN, .nid = NID_NONE };
		struct frame *page = g->nr_batches < MMU_GATHER_BATCHES ? page_alloc(c, &req) : NULL;

		if (!page)
			return false;
		b = machine_ptr(c->m, pfn_to_paddr(frame_pfn(c->m, page)));
		b->next = NULL;
		b->nr = 0;
		*(g->last ? &g->last->next : &g->first) = b;
		g->nr_batches++;
	}
	g->last = b;
	return true;
}

bool tlb_gather_add(struct cpu *c, struct mmu_gather *g, struct frame *f)
{
	if (!g->last) {
		ASSERT(g->nr < MMU_GATHER_BUNDLE);
		g->frames[g->nr++] = f;
		return g->nr == MMU_GATHER_BUNDLE && !gather_next_batch(c, g);
	}
	ASSERT(g->last->nr < MMU_GATHER_BATCH);
	machine_touch(c, machine_pa(c->m, &g->last->frames[g->last->nr]), sizeof(f), TOUCH_WRITE);
	g->last->frames[g->last->nr++] = f;
	return g->last->nr == MMU_GATHER_BATCH && !gather_next_batch(c, g);
}

void tlb_gather_frame(struct cpu *c, struct mmu_gather *g, struct frame *f)
{
	if (tlb_gather_add(c, g, f))
		tlb_gather_flush(c, g);
}

void tlb_gather_table(struct cpu *c, struct mmu_gather *g, struct frame *table)
{
	g->freed_tables = true;
	tlb_gather_frame(c, g, table);
}

#define GATHER_RELEASE 32U /* pages at a time */

static void gather_release(struct cpu *c, struct mmu_gather *g, struct frame **frames, uint64_t nr)
{
	struct frame *pages[GATHER_RELEASE];
	unsigned n = 0;

	for (uint64_t i = 0; i < nr; i++) {
		uint64_t flags = frame_flags(frames[i]);

		if (unlikely(flags & FRAME_SWAPCACHE))
			folio_try_free_swap(c, frames[i]);
		if (flags & FRAME_TABLE)
			pt_put_table(c, g->mm, frames[i]);
		else if (unlikely(flags & FRAME_HUGETLB))
			frame_put(c, frames[i]);
		else
			pages[n++] = frames[i];
		if (n == GATHER_RELEASE || i + 1 == nr) {
			frames_put(c, pages, n);
			n = 0;
		}
	}
}

ATTR_NOINLINE void tlb_gather_flush(struct cpu *c, struct mmu_gather *g)
{
	enum machine_path prev = machine_work(c, PATH_TLB_FLUSH, 1);

	if (g->start < g->end) {
		if (g->full_mm)
			tlb_flush_for(c, g->mm, 0, TASK_SIZE, PAGE_SHIFT, true, g->why);
		else
			tlb_flush_for(c, g->mm, g->start, g->end, g->huge_only ? PMD_SHIFT : PAGE_SHIFT, g->freed_tables,
				      g->why);
	}
	if (g->nr)
		lru_add_drain(c); /* else its own batches would keep what is freed here */
	gather_release(c, g, g->frames, g->nr);
	g->nr = 0;
	for (struct gather_batch *b = g->first; b; b = b->next) {
		machine_touch(c, machine_pa(c->m, b->frames), b->nr * sizeof(b->frames[0]), TOUCH_READ);
		gather_release(c, g, b->frames, b->nr);
		b->nr = 0;
	}
	g->last = NULL;
	gather_reset(g);
	machine_path(c, prev);
}

void tlb_gather_end(struct cpu *c, struct mmu_gather *g)
{
	tlb_gather_flush(c, g);
	for (struct gather_batch *b = g->first, *next; b; b = next) {
		next = b->next;
		frame_put(c, frame_of(c->m, paddr_to_pfn(machine_pa(c->m, b))));
	}
	g->first = NULL;
	g->nr_batches = 0;
}

/* ---- address spaces on CPUs ---- */

static void flush_context(struct cpu *c, const struct mm *mm)
{
	struct tlb_flush f = { .ctx = mm->ctx, .full = true, .freed_tables = true };

	c->m->ops->flush_local(c, &f);
}

/* Back from a kernel task to the address space that was left loaded. false: it has been taken away meanwhile. */
static bool leave_lazy(struct cpu *c, struct mm *mm)
{
	struct ctx_slot *slot = ctx_find(c->pc, mm->ctx);
	uintptr_t lazy = (uintptr_t)mm | LOADED_LAZY;

	if (!__atomic_compare_exchange_n(&c->pc->loaded, &lazy, (uintptr_t)mm, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	uint64_t gen = __atomic_load_n(&mm->tlb_gen, __ATOMIC_SEQ_CST);

	ASSERT(slot);
	touch_mm(c, mm, &mm->tlb_gen, sizeof(mm->tlb_gen), TOUCH_READ);
	if (slot_gen(slot) != gen) {
		vmstat_inc(c, VM_quire_flush_return);
		flush_context(c, mm);
		slot_set(slot, mm->ctx, gen);
	}
	return true;
}

/* mm is not loaded. */
static void load_mm(struct cpu *c, struct mm *mm)
{
	struct percpu *pc = c->pc;

	touch_mm(c, mm, &mm->cpus.bits[c->id / 64], sizeof(uint64_t), TOUCH_ATOMIC);
	__atomic_or_fetch(&mm->cpus.bits[c->id / 64], 1ULL << (c->id % 64), __ATOMIC_SEQ_CST);
	uint64_t gen = __atomic_load_n(&mm->tlb_gen, __ATOMIC_SEQ_CST);
	struct ctx_slot *slot = ctx_find(pc, mm->ctx);
	bool flush = !slot || slot_gen(slot) != gen;

	if (!slot) {
		slot = &pc->ctx[pc->next_ctx];
		pc->next_ctx = (pc->next_ctx + 1) % PERCPU_CTX_SLOTS;
	} else if (flush) {
		vmstat_inc(c, VM_quire_flush_return);
	}
	slot_set(slot, mm->ctx, gen);
	__atomic_store_n(&pc->loaded, (uintptr_t)mm, __ATOMIC_SEQ_CST);
	c->m->ops->load_context(c, mm->pgd, mm->ctx);
	if (flush)
		flush_context(c, mm);
}

ATTR_NOINLINE static void switch_to(struct cpu *c, struct mm *mm)
{
	enum machine_path prev = machine_work(c, PATH_SWITCH_MM, 1);
	bool here = percpu_mm(c->pc) == mm;

	machine_touch(c, c->pc->pa, 1, TOUCH_WRITE);
	if (here && percpu_lazy(c->pc))
		here = leave_lazy(c, mm);
	if (!here) {
		leave_loaded(c);
		load_mm(c, mm);
	}
	machine_path(c, prev);
}

/* The address space stays loaded, but nobody uses it. */
static void go_lazy(struct cpu *c)
{
	struct mm *mm = percpu_mm(c->pc);

	/* Not lazy yet: then only this CPU changes it. */
	if (mm && !percpu_lazy(c->pc))
		__atomic_store_n(&c->pc->loaded, (uintptr_t)mm | LOADED_LAZY, __ATOMIC_SEQ_CST);
}

ATTR_NOINLINE void mm_switch(struct cpu *c, struct task *prev, struct task *next)
{
	(void)prev;
	if (next && next->mm)
		switch_to(c, next->mm);
	else
		go_lazy(c);
}

void mm_activate(struct cpu *c, struct mm *mm)
{
	if (mm)
		switch_to(c, mm);
	else
		go_lazy(c);
}

void tlb_forget_mm(struct cpu *c, struct mm *mm)
{
	bool here = percpu_mm(c->pc) == mm;
	struct cpumask there;
	unsigned id;

	mm_cpus(c, mm, &there);
	for_each_cpu(id, &there, c->m->nr_cpus) {
		/* Who runs on an address space uses it, and has not given up his reference. */
		ASSERT(__atomic_load_n(&c->q->percpu[id]->loaded, __ATOMIC_SEQ_CST) != (uintptr_t)mm);
		take_lazy_mm(c, mm, id);
	}
	if (here)
		c->m->ops->load_context(c, pfn(0), 0);
}
