/* Shared by the files that handle faults: fault.c, anon.c, file_fault.c, thp.c, thp_cow.c. */
#ifndef QUIRE_MM_FAULT_INT_H
#define QUIRE_MM_FAULT_INT_H

#include "mm/fault.h"
#include "mm/rmap.h"

/* A huge path could not do it and nothing has changed: do it with base pages. */
#define FAULT_FALLBACK 1

struct fault {
	struct cpu *c;
	struct quire *q;
	struct mm *mm;
	struct vma *v;
	vaddr_t va;            /* as the program accessed it */
	unsigned err;
	struct pt_ref pmd, pte;
	pte_t orig;            /* the entry that was found, before any lock */
	enum vm_counter kind;  /* which quire_fault_* it turned out to be */
	bool major;
};

static inline bool fault_is_write(const struct fault *f)
{
	return (f->err & ACCESS_WRITE) != 0;
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

/* ---- anon.c ---- */
/* The area is about to get its first anonymous page. */
void anon_prepare(struct cpu *c, struct vma *v);
/* A new frame for user memory, contents undefined. NULL: none. */
struct frame *anon_alloc(struct cpu *c);
/* The same, cleared. 0, -ENOMEM or what clearing returned. */
int anon_alloc_zeroed(struct cpu *c, struct frame **ret);
/* Put a new frame (whose reference becomes the mapping's) into the empty f->pte, under its lock. */
void map_anon(struct fault *f, struct frame *page);
int fault_anon(struct fault *f);
int fault_zero_page(struct fault *f);
int fault_wp(struct fault *f);

/* ---- file_fault.c ---- */
int fault_file_read(struct fault *f);
int fault_file_cow(struct fault *f);
int fault_file_shared(struct fault *f);

/* ---- thp.c ---- */
bool thp_allowed(const struct mm *mm, const struct vma *v, vaddr_t va);
/* A new compound folio of 2 MiB for the area, by the defrag setting. NULL: none. */
struct frame *thp_alloc(struct cpu *c, const struct vma *v);
/* FAULT_FALLBACK, 0 or negative errno. */
int thp_fault_anon(struct fault *f);
int thp_fault_zero(struct fault *f);
/* Put a new folio into the PMD entry, which is empty or has just been emptied, under its lock. */
void thp_map(struct fault *f, struct frame *head);
bool thp_is_zero(pte_t pmd);

/* ---- thp_cow.c ---- */
int thp_fault_wp(struct fault *f);

#endif
