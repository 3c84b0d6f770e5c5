/*
 * smaps. One pass over the page tables, which come in the order of addresses, as the areas do.
 *
 * A page belongs to the area's process alone when one entry maps it, or when nothing but that entry holds it. Dirty is what the entry says or
 * the frame remembers; Referenced likewise. The zero pages are nobody's: they count in no line.
 */
#include "mm/smaps.h"

#include "mm/pagetable.h"
#include "mm/rmap.h"
#include "mm/swap.h"

#define PSS_SHIFT 12

const char *const smaps_line_names[NR_SMAPS_LINES] = {
#define E(n) #n,
	SMAPS_LINES(E)
#undef E
};

struct smaps_walk {
	const struct machine *m;
	const struct vma *v; /* the area at hand */
	struct mm_smaps sum; /* its sums so far: Pss, Pss_Dirty, SwapPss and Locked in 4096ths */
	void (*fn)(void *arg, const struct vma *v, const struct mm_smaps *s);
	void *arg;
};

/* `size` bytes, of which pss (in 4096ths) are this process's share. */
static void add_share(struct smaps_walk *w, uint64_t size, uint64_t pss, bool dirty, bool alone)
{
	uint64_t *b = w->sum.bytes;

	b[SMAPS_Pss] += pss;
	if (w->v->flags & VM_LOCKED)
		b[SMAPS_Locked] += pss;
	if (dirty)
		b[SMAPS_Pss_Dirty] += pss;
	b[dirty ? (alone ? SMAPS_Private_Dirty : SMAPS_Shared_Dirty) : alone ? SMAPS_Private_Clean : SMAPS_Shared_Clean] += size;
}

static unsigned map_count(const struct frame *head, const struct frame *f)
{
	int n = frame_mapcount(f);

	if (frame_flags(head) & FRAME_HEAD)
		n += frame_entire_mapcount(head);
	return n > 0 ? (unsigned)n : 1;
}

static void add_page(struct smaps_walk *w, pte_t e, uint64_t size)
{
	struct frame *f = frame_of(w->m, pte_pfn(e)), *head = frame_head(w->m, f);
	uint64_t flags = frame_flags(head), *b = w->sum.bytes;
	bool dirty = (e & PTE_DIRTY) || (flags & FRAME_DIRTY);

	b[SMAPS_Rss] += size;
	if (flags & FRAME_ANON) {
		b[SMAPS_Anonymous] += size;
		if (!(flags & FRAME_SWAPBACKED) && !dirty)
			b[SMAPS_LazyFree] += size;
	}
	if (size == PMD_SIZE)
		b[flags & FRAME_ANON ? SMAPS_AnonHugePages : flags & FRAME_SWAPBACKED ? SMAPS_ShmemPmdMapped : SMAPS_FilePmdMapped] += size;
	if ((e & PTE_ACCESSED) || (flags & FRAME_REFERENCED))
		b[SMAPS_Referenced] += size;
	if (frame_refcount(head) == 1) {
		add_share(w, size, size << PSS_SHIFT, dirty, true);
		return;
	}
	for (uint64_t i = 0; i < size >> PAGE_SHIFT; i++) {
		unsigned n = map_count(head, f + i);

		add_share(w, PAGE_SIZE, (PAGE_SIZE << PSS_SHIFT) / n, dirty, n == 1);
	}
}

/* The area's sums are complete: on to the next one. */
static void area_done(struct smaps_walk *w)
{
	w->sum.bytes[SMAPS_Pss] >>= PSS_SHIFT;
	w->sum.bytes[SMAPS_Pss_Dirty] >>= PSS_SHIFT;
	w->sum.bytes[SMAPS_Locked] >>= PSS_SHIFT;
	w->sum.bytes[SMAPS_SwapPss] >>= PSS_SHIFT;
	w->fn(w->arg, w->v, &w->sum);
	w->v = vma_next(w->v);
	w->sum = (struct mm_smaps){ 0 };
}

static void leaf(void *arg, vaddr_t va, pte_t e, unsigned shift)
{
	struct smaps_walk *w = arg;

	while (w->v && va >= w->v->end)
		area_done(w);
	/* Pages of a pool are no part of Rss, nor of what is summed up with it. */
	if (w->v && va >= w->v->start && pte_is_swap(e)) {
		w->sum.bytes[SMAPS_Swap] += PAGE_SIZE;
		w->sum.bytes[SMAPS_SwapPss] += (PAGE_SIZE << PSS_SHIFT) / MAX(swap_count(w->v->mm->q, swap_entry_slot(e)), 1U);
	}
	if (w->v && va >= w->v->start && pte_present(e) && !(e & PTE_SOFT_ZERO) && !(w->v->flags & VM_HUGETLB))
		add_page(w, e, 1ULL << shift);
}

static void table(void *arg, struct frame *t, unsigned shift, uint64_t nr_entries, bool deposited)
{
	(void)arg, (void)t, (void)shift, (void)nr_entries, (void)deposited;
}

void mm_smaps_each(const struct mm *mm, void (*fn)(void *arg, const struct vma *v, const struct mm_smaps *s), void *arg)
{
	struct smaps_walk w = { .m = mm->q->m, .v = vma_first(mm), .fn = fn, .arg = arg };

	pt_visit(mm, &(struct pt_visitor){ .arg = &w, .leaf = leaf, .table = table });
	while (w.v)
		area_done(&w);
}
