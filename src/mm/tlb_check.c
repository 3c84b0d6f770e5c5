/*
 * What TLBs may hold, as tlb.c promises it. A CPU uses a translation without asking when its context is the one of the address space that
 * the CPU has loaded, and not lazily; or when it is one of the remembered contexts and up to date, because then
 * switching to it does not flush. Everything else is compared, or never used again, and may be anything.
 */
#include "mm/tlb_check.h"

#include "mm/pagetable.h"
#include "mm/rmap.h"
#include "mm/tlb.h"

static struct mm *mm_of_ctx(const struct quire *q, uint32_t ctx)
{
	struct mm *mm;

	list_for_each_entry(mm, &q->mms, link)
		if (mm->ctx == ctx)
			return mm;
	return NULL;
}

const char *tlb_loaded_alive(const struct quire *q, unsigned cpu)
{
	const struct mm *loaded = percpu_mm(q->percpu[cpu]), *mm;

	if (!loaded)
		return NULL;
	list_for_each_entry(mm, &q->mms, link)
		if (mm == loaded)
			return NULL;
	return "an address space that has ended";
}

/* The address space of h, if `cpu` has it loaded. */
static struct mm *loaded_mm(const struct quire *q, unsigned cpu, const struct tlb_held *h)
{
	struct mm *mm = percpu_mm(q->percpu[cpu]);

	return mm && mm->ctx == h->ctx ? mm : NULL;
}

/* The address space of h, if `cpu` would use h without a flush before it. */
static struct mm *used_mm(const struct quire *q, unsigned cpu, const struct tlb_held *h)
{
	const struct percpu *pc = q->percpu[cpu];
	struct mm *mm = loaded_mm(q, cpu, h);

	if (mm && !percpu_lazy(pc))
		return mm;
	mm = mm_of_ctx(q, h->ctx);
	for (unsigned i = 0; mm && i < PERCPU_CTX_SLOTS; i++)
		if (pc->ctx[i].ctx == h->ctx && pc->ctx[i].tlb_gen == mm->tlb_gen)
			return mm;
	return NULL;
}

static bool is_zero_page(const struct quire *q, pfn_t p)
{
	uint64_t huge = q->huge_zero ? frame_pfn(q->m, q->huge_zero).v : 0;

	return p.v == q->zero_pfn.v || (q->huge_zero && p.v >= huge && p.v - huge < PT_ENTRIES);
}

/* A table of mm, or one that it shares with others (fork_shared.c). */
static bool is_table(const struct quire *q, const struct mm *mm, pfn_t p)
{
	const struct frame *f = frame_of(q->m, p);

	return (frame_flags(f) & FRAME_TABLE) && (f->pt_mm == mm || f->pt_sharers) && frame_refcount(f) > 0;
}

const char *tlb_held_alive(const struct quire *q, unsigned cpu, const struct tlb_held *h)
{
	struct mm *mm = loaded_mm(q, cpu, h);
	const struct frame *head;

	if (!mm)
		return NULL;
	/* The hardware walks for whoever has the address space loaded, lazily or not. */
	if (h->table)
		return is_table(q, mm, h->pfn) ? NULL : "a page table that has been freed";
	if (percpu_lazy(q->percpu[cpu]) || is_zero_page(q, h->pfn))
		return NULL;
	head = frame_head(q->m, frame_of(q->m, h->pfn));
	if (frame_refcount(head) <= 0 || !(frame_flags(head) & (FRAME_ANON | FRAME_FILE)))
		return "a frame that has been freed";
	return NULL;
}

/* The entry that va is translated by, and what it maps. */
static pte_t leaf(const struct quire *q, const struct mm *mm, vaddr_t va, unsigned *ret_shift)
{
	pfn_t table = mm->pgd;
	pte_t taken = 0; /* what a shared table does not give */

	for (unsigned shift = PGDIR_SHIFT;; shift -= 9) {
		struct pt_ref r = { .entry = (pte_t *)machine_ptr(q->m, pfn_to_paddr(table)) + pt_index(va, shift) };
		pte_t e = pte_peek(&r);

		*ret_shift = shift;
		if (shift == PAGE_SHIFT || !pmd_table(e))
			return e & ~taken;
		if (pt_entry_shared(e))
			taken = PTE_WRITE;
		table = pte_pfn(e);
	}
}

const char *tlb_held_granted(const struct quire *q, unsigned cpu, const struct tlb_held *h)
{
	const struct mm *mm = used_mm(q, cpu, h);
	unsigned shift;

	if (!mm || h->table)
		return mm && !is_table(q, mm, h->pfn) ? "a page table that has been freed" : NULL;
	if (tlb_deferred(mm))
		return NULL;
	for (vaddr_t va = h->va; va < h->va + (1ULL << h->shift);) {
		pte_t e = leaf(q, mm, va, &shift);
		vaddr_t in_page = va & ((1ULL << shift) - 1);

		if (!(e & PTE_PRESENT))
			return "a page that is no longer mapped";
		if (pte_pfn(e).v + (in_page >> PAGE_SHIFT) != h->pfn.v + ((va - h->va) >> PAGE_SHIFT))
			return "another frame than the one that is mapped";
		if (h->write && !(e & PTE_WRITE))
			return "the right to write, which has been taken away";
		va += (1ULL << shift) - in_page;
	}
	return NULL;
}
