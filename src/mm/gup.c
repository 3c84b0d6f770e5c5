/*
 * Long-term pins.
 *
 * Invariants
 *  G1 A pin is a reference on the folio and one of its nr_pins (in the head). So an unmapped frame stays until it is unpinned.
 *  G2 A frame of a private area is pinned only while its entry is exclusive to this mapping; shared pages are unshared before, for
 *     reading too, else a later write of the program would go to a copy that the pin does not see.
 *  G3 What is pinned stays exclusive: fork gives the child a copy at once (fork.c) instead of sharing.
 *  G4 Whoever wants to move a frame needs all its references accounted for; a pin's is not, so the frame stays.
 * Locks: mmap_lock for reading, an area at a time; counts are taken under the lock of the table whose entry maps the frame, which is
 * what makes G2 hold against a fork or an unmap that comes at the same time.
 */
#include "mm/gup.h"

#include "base/assert.h"
#include "mm/fault_int.h"
#include "mm/fork_shared.h"

#define FAULT_RETRIES 1000 /* somebody keeps taking the page away: give up */

/* May the entry's page be pinned as it is? */
static bool pin_allowed(const struct vma *v, pte_t e, bool write)
{
	if (!(e & PTE_PRESENT) || (write && !(e & PTE_WRITE)))
		return false;
	return (v->flags & VM_SHARED) || (e & PTE_SOFT_EXCLUSIVE);
}

static void pin_take(struct cpu *c, struct frame *head)
{
	frame_get(c, head);
	__atomic_add_fetch(&head->nr_pins, 1, __ATOMIC_RELAXED);
}

/* An entry of any size: pin the frame for va, if it is there and may be. */
static bool pin_entry(struct cpu *c, const struct vma *v, const struct pt_ref *r, vaddr_t va, unsigned shift, bool write, pfn_t *ret)
{
	struct mlock *ptl = shift == PUD_SHIFT ? &v->mm->ptl : &r->table->ptl;
	bool done;

	machine_lock(c, ptl);
	pte_t e = pte_read(c, r);

	done = (shift == PAGE_SHIFT || pmd_huge(e)) && pin_allowed(v, e, write);
	if (done) {
		*ret = pfn_add(pte_pfn(e), (va & ((1ULL << shift) - 1)) >> PAGE_SHIFT);
		pin_take(c, frame_head(c->m, frame_of(c->m, *ret)));
		if (shift == PAGE_SHIFT)
			pt_mark(r->table, FRAME_TABLE_PINNED);
	}
	machine_unlock(c, ptl);
	return done;
}

static bool pin_try(struct cpu *c, const struct vma *v, vaddr_t va, bool write, pfn_t *ret)
{
	struct pt_ref pmd, pte;
	vaddr_t next;

	if (v->flags & VM_HUGETLB)
		return !hugetlb_entry(c, v, va, false, &pmd, &next) &&
		       pin_entry(c, v, &pmd, va, vm_page_shift(v->flags), write, ret);
	if (pt_pmd(c, v->mm, va, false, &pmd))
		return false;
	pte_t e = pte_read(c, &pmd);

	if (pmd_huge(e))
		return pin_entry(c, v, &pmd, va, PMD_SHIFT, write, ret);
	if (pt_entry_shared(e))
		return false; /* what is exclusive in a shared table is not ours alone: a fault makes it ours */
	return !pt_pte(c, v->mm, &pmd, va, false, &pte) && pin_entry(c, v, &pte, va, PAGE_SHIFT, write, ret);
}

/* One page, faulted in as often as it takes. mmap_lock held. */
static int pin_page(struct cpu *c, struct vma *v, vaddr_t va, bool write, pfn_t *ret)
{
	unsigned err = write || (v->flags & (VM_SHARED | VM_WRITE)) == VM_WRITE ? ACCESS_WRITE : v->flags & VM_SHARED ? 0 : FAULT_UNSHARE;
	int rc = 0;

	if (!(v->flags & (write ? VM_WRITE : VM_READ)))
		return -EFAULT;
	for (unsigned tries = 0; !rc && !pin_try(c, v, va, write, ret); tries++)
		rc = tries < FAULT_RETRIES ? fault_handle(c, v->mm, v, va, err) : -EFAULT;
	return rc;
}

int mm_pin(struct cpu *c, struct mm *mm, vaddr_t va, uint64_t nr, bool write, pfn_t *ret)
{
	enum machine_path prev = machine_work(c, PATH_POPULATE, nr);
	uint64_t n = 0;
	int rc = 0;

	while (n < nr && !rc) {
		machine_read_lock(c, &mm->mmap_lock);
		struct vma *v = vma_find(c, mm, va);

		if (!v || v->start > va)
			rc = -EFAULT;
		for (; !rc && n < nr && va < v->end; va += PAGE_SIZE) {
			rc = pin_page(c, v, va, write, &ret[n]);
			n += !rc;
		}
		machine_read_unlock(c, &mm->mmap_lock);
	}
	if (rc)
		mm_unpin(c, ret, n);
	machine_path(c, prev);
	return rc;
}

void mm_unpin(struct cpu *c, const pfn_t *frames, uint64_t nr)
{
	for (uint64_t i = 0; i < nr; i++) {
		struct frame *head = frame_head(c->m, frame_of(c->m, frames[i]));
		uint32_t was = __atomic_fetch_sub(&head->nr_pins, 1, __ATOMIC_RELAXED);

		ASSERT(was);
		if (frame_flags(head) & FRAME_FILE)
			frame_set(head, FRAME_DIRTY);
		frame_put(c, head);
	}
}
