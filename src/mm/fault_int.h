/* Shared by the files that handle faults: fault.c, anon.c, file_fault.c, thp.c, thp_cow.c. */
#ifndef QUIRE_MM_FAULT_INT_H
#define QUIRE_MM_FAULT_INT_H

#include "base/errno.h"
#include "mm/fault.h"
#include "mm/rmap.h"

/* A huge path could not do it and nothing has changed: do it with base pages. */
#define FAULT_FALLBACK 1

/* In a fault's error code: get a page of our own, as for a write, but give no right to write (pins). */
#define FAULT_UNSHARE (1U << 8)

struct fault {
	struct cpu *c;
	struct quire *q;
	struct mm *mm;
	struct vma *v;
	vaddr_t va; /* as the program accessed it */
	unsigned err;
	struct pt_ref pmd, pte;
	pte_t orig; /* the entry that was found, before any lock */
	enum vm_counter kind; /* which quire_fault_* it turned out to be */
	bool major;
};

/* A page-table lock, timed when somebody has it: taking a free one is work, in which the stores before it drain. */
static inline void fault_pt_lock(struct cpu *c, struct frame *table)
{
	bool taken = __atomic_load_n(&table->ptl.state, __ATOMIC_RELAXED) != 0;
	uint64_t since = taken ? phase_begin(c) : 0;

	pt_lock(c, table);
	if (taken)
		phase_end(c, PHASE_WAIT, since);
}

static inline bool fault_is_write(const struct fault *f)
{
	return (f->err & (ACCESS_WRITE | FAULT_UNSHARE)) != 0;
}

/* Number of the page of va in the area's file or, for anonymous memory, a name for it that a move keeps. */
static inline uint64_t vma_page_index(const struct vma *v, vaddr_t va)
{
	return v->pgoff + ((va - v->start) >> PAGE_SHIFT);
}

/* A base page that this mapping owns, as an entry. */
static inline pte_t pte_owned(const struct machine *m, const struct frame *f, uint64_t vm_flags)
{
	pte_t e = pfn_to_paddr(frame_pfn(m, f)) | pte_prot(vm_flags) | PTE_SOFT_EXCLUSIVE | PTE_DIRTY | PTE_ACCESSED;

	return vm_flags & VM_WRITE ? e | PTE_WRITE : e;
}

/* The huge zero page, given a huge entry. */
static inline bool thp_is_zero(pte_t pmd)
{
	return (pmd & PTE_SOFT_ZERO) != 0;
}

/* ---- what several handlers do, inline so that the cost stays in the path that does it ---- */

/* The area is about to get its first anonymous page. 0 or -ENOMEM. */
ATTR_MUST_CHECK static inline int anon_prepare(struct cpu *c, struct vma *v)
{
	return likely(__atomic_load_n(&v->anon_touched, __ATOMIC_ACQUIRE)) ? 0 : vma_anon_prepare(c, v);
}

/* A new frame for user memory, contents undefined. NULL: none. */
static inline struct frame *anon_alloc(struct cpu *c, const struct vma *v, vaddr_t va)
{
	return mpol_alloc_vma(c, v, va, 0, GFP_HIGHUSER_MOVABLE);
}

/* The same, cleared. */
static inline struct frame *anon_alloc_zeroed(struct cpu *c, const struct vma *v, vaddr_t va)
{
	return mpol_alloc_vma(c, v, va, 0, GFP_HIGHUSER_MOVABLE | GFP_ZERO);
}

/* Copy a base page to a new one. 0 or -EHWPOISON. */
static inline int anon_copy(struct cpu *c, struct frame *to, const struct frame *from)
{
	enum machine_path prev = machine_work(c, PATH_COPY_PAGE, 1);
	uint64_t since = phase_begin(c);
	int rc = machine_copy_page(c, frame_pfn(c->m, to), frame_pfn(c->m, from));

	phase_end(c, PHASE_COPY, since);
	if (!rc)
		vmstat_inc(c, VM_quire_pages_copied);
	machine_path(c, prev);
	return rc;
}

/* How hard to try for a huge page: transparent_hugepage.defrag. */
static inline unsigned thp_gfp(const struct knobs *k, const struct vma *v)
{
	bool advised = (v->flags & VM_HUGEPAGE) != 0;

	switch (k->thp_defrag) {
	case THP_DEFRAG_ALWAYS:
		return GFP_TRANSHUGE | (advised ? 0 : GFP_NORETRY);
	case THP_DEFRAG_DEFER:
		return GFP_TRANSHUGE_LIGHT | GFP_KSWAPD_RECLAIM;
	case THP_DEFRAG_DEFER_MADVISE:
		return GFP_TRANSHUGE_LIGHT | (advised ? GFP_DIRECT_RECLAIM : GFP_KSWAPD_RECLAIM);
	case THP_DEFRAG_MADVISE:
		return GFP_TRANSHUGE_LIGHT | (advised ? GFP_DIRECT_RECLAIM : 0);
	default:
		return GFP_TRANSHUGE_LIGHT;
	}
}

/* A new compound folio of 2 MiB for the area, contents undefined. NULL: none. */
static inline struct frame *thp_alloc(struct cpu *c, const struct vma *v, vaddr_t va)
{
	return mpol_alloc_vma(c, v, va, HPAGE_PMD_ORDER, thp_gfp(&v->mm->q->knobs, v));
}

/* ---- anon.c ---- */
/* Put a new frame (whose reference becomes the mapping's) into the empty f->pte, under its lock. */
void map_anon(struct fault *f, struct frame *page);
int fault_anon(struct fault *f);
int fault_zero_page(struct fault *f);
int fault_wp(struct fault *f);

/* ---- file_fault.c ---- */
int fault_file_read(struct fault *f);
int fault_file_cow(struct fault *f);
int fault_file_shared(struct fault *f);

/* ---- nonpresent.c ---- */
/* The entry at r, f->orig, is neither empty nor present. 0: try again. */
int fault_nonpresent(struct fault *f, const struct pt_ref *r);

/* ---- thp.c ---- */
bool thp_allowed(const struct mm *mm, const struct vma *v, vaddr_t va);
/* Why not: the counter of the first reason that holds. */
enum vm_counter thp_refusal(const struct mm *mm, const struct vma *v);
/* FAULT_FALLBACK, 0 or negative errno. */
int thp_fault_anon(struct fault *f);
int thp_fault_zero(struct fault *f);
/* Put a new folio into the PMD entry, which is empty or has just been emptied, under its lock. */
void thp_map(struct fault *f, struct frame *head);

/* ---- thp_cow.c ---- */
int thp_fault_wp(struct fault *f);

#endif
