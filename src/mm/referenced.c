/* What the reverse map is asked: has a folio been used, and are its pages clean (rmap_walk.h). */
#include "mm/rmap.h"
#include "mm/rmap_walk.h"
#include "mm/tlb.h"

/* ---- used ---- */

struct referenced {
	int count, left; /* entries found used; mappings not seen yet */
	uint64_t vm_flags;
};

ATTR_NOINLINE static bool referenced_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct referenced *r = arg;
	struct pvmw w = pvmw_begin(c, folio, v, va, 0);
	int before = r->count;

	while (pvmw_next(&w)) {
		if (v->flags & VM_LOCKED) {
			pvmw_done(&w);
			r->vm_flags |= VM_LOCKED;
			r->count++;
			return false; /* it stays in any case */
		}
		(void)machine_work(c, PATH_RMAP_WALK, 1);
		r->left -= !w.shared_table; /* that one counts once, and comes as often as there are sharers */
		if (!(w.entry & PTE_ACCESSED))
			continue;
		pte_clear_bits(c, pvmw_ref(&w), PTE_ACCESSED);
		r->count++;
	}
	if (r->count != before)
		r->vm_flags |= v->flags & ~VM_LOCKED;
	return true;
}

static bool referenced_done(struct frame *folio, void *arg)
{
	(void)folio;
	return ((struct referenced *)arg)->left <= 0;
}

/* Who reads in order, or says that there is no order, does not make a page worth keeping. */
static bool no_recency(struct vma *v, void *arg)
{
	(void)arg;
	return (v->flags & (VM_SEQ_READ | VM_RAND_READ)) != 0;
}

int folio_referenced(struct cpu *c, struct frame *folio, uint64_t *vm_flags)
{
	struct referenced r = { .left = folio_mapcount(folio) };
	struct rmap_walk w = { .arg = &r, .one = referenced_one, .done = referenced_done, .skip = no_recency };

	if (r.left)
		rmap_walk(c, folio, &w);
	*vm_flags = r.vm_flags;
	return r.count;
}

/* ---- clean ---- */

ATTR_NOINLINE static bool mkclean_one(struct cpu *c, struct frame *folio, struct vma *v, vaddr_t va, void *arg)
{
	struct pvmw w = pvmw_begin(c, folio, v, va, 0);
	int *cleaned = arg;

	while (pvmw_next(&w)) {
		if (!(w.entry & (PTE_WRITE | PTE_DIRTY)))
			continue;
		(void)machine_work(c, PATH_RMAP_WALK, 1);
		pte_clear_bits(c, pvmw_ref(&w), PTE_WRITE | PTE_DIRTY);
		tlb_flush_for(c, v->mm, w.va, w.va + PAGE_SIZE, PAGE_SHIFT, false, FLUSH_OTHER);
		(*cleaned)++;
	}
	return true;
}

static bool not_shared(struct vma *v, void *arg)
{
	(void)arg;
	return !(v->flags & VM_SHARED);
}

int folio_mkclean(struct cpu *c, struct frame *folio)
{
	int cleaned = 0;
	struct rmap_walk w = { .arg = &cleaned, .one = mkclean_one, .skip = not_shared };

	if (folio_mapped(folio) && !(__atomic_load_n(&folio->mapping, __ATOMIC_RELAXED) & MAPPING_ANON))
		rmap_walk(c, folio, &w);
	return cleaned;
}
