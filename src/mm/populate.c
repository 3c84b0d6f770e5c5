/*
 * Bringing pages in ahead of use: MAP_POPULATE, mlock, MADV_POPULATE_*. What an access would do, without the exception.
 *
 * mmap_lock is taken for reading, one area at a time. A page is looked up first, so that what is there is not faulted
 * again, and looked up again after the fault: another thread may have taken it away (MADV_DONTNEED). Whoever keeps doing that
 * has not asked for pages that stay, and in the end gets -EFAULT.
 *
 * A fault that fails when some pages have been brought in is made, and counted, a second time, as in Linux: there the pages so far are an answer of their
 * own, and only the next one is the error. Some pages: of the area, or with MADV_POPULATE_* of all that was asked for.
 */
#include "mm/vma_int.h"

#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/rmap.h"

#define FAULT_RETRIES 1000

/* Under the lock: somebody may have taken the page away since it was looked at. */
static void use_huge(struct cpu *c, const struct pt_ref *pmd, bool write)
{
	pte_t bits = PTE_ACCESSED | (write ? PTE_DIRTY : 0), e;

	pt_lock(c, pmd->table);
	e = pte_peek(pmd);
	if (pmd_huge(e) && (e & bits) != bits)
		pte_set_bits(c, pmd, bits);
	pt_unlock(c, pmd->table);
}

static void use_page(struct cpu *c, const struct pt_ref *pte, bool write)
{
	pte_t e;

	pt_lock(c, pte->table);
	e = pte_peek(pte);
	if (pte_present(e) && !(e & PTE_SOFT_ZERO)) {
		struct frame *head = frame_head(c->m, frame_of(c->m, pte_pfn(e)));

		if (write && !(e & PTE_DIRTY) && !(frame_flags(head) & FRAME_DIRTY)) {
			frame_touch(c, head, TOUCH_ATOMIC);
			frame_set(head, FRAME_DIRTY);
		}
		folio_mark_accessed(c, head);
	}
	pt_unlock(c, pte->table);
}

/*
 * How many bytes from va on are mapped as wanted: 0, or up to the end of the 4 KiB or 2 MiB page. What is there counts as used, and as
 * dirty where it is to be written: Linux marks a base page's frame and a huge page's entry.
 */
static uint64_t mapped_from(struct cpu *c, struct mm *mm, vaddr_t va, bool write)
{
	pte_t want = PTE_PRESENT | (write ? PTE_WRITE : 0), e;
	struct pt_ref pmd, pte;

	if (pt_pmd(c, mm, va, false, &pmd))
		return 0;
	e = pte_read(c, &pmd);
	if (!(e & PTE_PRESENT))
		return 0;
	if (e & PTE_HUGE) {
		if ((e & want) != want)
			return 0;
		use_huge(c, &pmd, write);
		return PMD_SIZE - (va & (PMD_SIZE - 1));
	}
	if (unlikely(pt_entry_shared(e)))
		return (pt_read_shared(c, &pmd, va) & want) == want ? PAGE_SIZE : 0;
	if (pt_pte(c, mm, &pmd, va, false, &pte))
		return 0;
	e = pte_read(c, &pte);
	if ((e & want) != want)
		return 0;
	use_page(c, &pte, write);
	return PAGE_SIZE;
}

/* The same in an area of a pool of huge pages. */
static uint64_t mapped_from_hugetlb(struct cpu *c, const struct vma *v, vaddr_t va, bool write)
{
	pte_t want = PTE_PRESENT | (write ? PTE_WRITE : 0), e = hugetlb_peek(c, v, va);
	uint64_t size = vm_page_size(v->flags);

	return (e & want) == want ? size - (va & (size - 1)) : 0;
}

/* What to access the area with: ACCESS_* in *ret_err. 0, or a refusal. */
static int populate_access(const struct vma *v, enum populate_mode mode, unsigned *ret_err)
{
	if (mode == POPULATE_READ || mode == POPULATE_WRITE) {
		*ret_err = mode == POPULATE_WRITE ? ACCESS_WRITE : 0;
		return v->flags & (mode == POPULATE_WRITE ? VM_WRITE : VM_READ) ? 0 : -EINVAL;
	}
	if (!vma_accessible(v))
		return -EFAULT;
	/*
	 * Private writable memory is written to, so that no copy on write is left for later; shared memory is not
	 * dirtied, even if nothing but writing is allowed (and so, on x86, reading).
	 */
	if ((v->flags & (VM_WRITE | VM_SHARED)) == VM_WRITE)
		*ret_err = ACCESS_WRITE;
	else
		*ret_err = v->flags & (VM_READ | VM_WRITE) ? 0 : ACCESS_EXEC;
	return 0;
}

ATTR_NOINLINE int populate_area(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t va, vaddr_t end, enum populate_mode mode, vaddr_t first)
{
	enum machine_path outer;
	unsigned err, tries = 0;
	bool again = false;
	uint64_t n;
	int r;

	if ((v->flags & VM_LOCKONFAULT) && (mode == POPULATE_MAP || mode == POPULATE_LOCK))
		return 0;
	r = populate_access(v, mode, &err);
	outer = machine_work(c, PATH_POPULATE, 1);
	while (!r && va < end) {
		machine_work(c, PATH_POPULATE, 1);
		n = v->flags & VM_HUGETLB ? mapped_from_hugetlb(c, v, va, (err & ACCESS_WRITE) != 0) :
					    mapped_from(c, mm, va, (err & ACCESS_WRITE) != 0);
		if (n) {
			va = n < end - va ? va + n : end;
			tries = 0;
			again = false;
		} else {
			r = ++tries > FAULT_RETRIES ? -EFAULT : fault_handle(c, mm, v, va, err);
			if (unlikely(r) && va > first && !again && tries <= FAULT_RETRIES) {
				again = true;
				r = 0;
			}
		}
	}
	machine_path(c, outer);
	return r;
}

int populate_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, enum populate_mode mode)
{
	bool strict = mode == POPULATE_READ || mode == POPULATE_WRITE;
	vaddr_t first = start;
	int r = 0;

	while (start < end && !r) {
		struct vma *v;
		vaddr_t stop;

		machine_read_lock(c, &mm->mmap_lock);
		v = vma_find(c, mm, start);
		if (!v || v->start >= end || (strict && v->start > start)) {
			machine_read_unlock(c, &mm->mmap_lock);
			return strict ? -ENOMEM : 0;
		}
		stop = MIN(v->end, end);
		start = MAX(start, v->start);
		r = populate_area(c, mm, v, start, stop, mode, strict ? first : start);
		machine_read_unlock(c, &mm->mmap_lock);
		if (mode == POPULATE_MAP)
			r = 0;
		start = stop;
	}
	return r;
}

int mm_populate(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, bool write)
{
	return populate_range(c, mm, start & PAGE_MASK, ALIGN_UP(end, PAGE_SIZE),
			      write ? POPULATE_WRITE : POPULATE_READ);
}

void mm_look(struct cpu *c, struct mm *mm, vaddr_t va)
{
	struct pt_ref pmd, pte;
	pte_t e;

	machine_read_lock(c, &mm->mmap_lock);
	if (!pt_pmd(c, mm, va, false, &pmd)) {
		e = pte_read(c, &pmd);
		if (pmd_huge(e))
			use_huge(c, &pmd, false);
		else if (pmd_table(e) && !pt_entry_shared(e) && !pt_pte(c, mm, &pmd, va, false, &pte))
			use_page(c, &pte, false);
	}
	machine_read_unlock(c, &mm->mmap_lock);
}
