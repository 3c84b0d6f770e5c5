/*
 * What an address space may have: RLIMIT_AS, RLIMIT_DATA, RLIMIT_MEMLOCK, and the promise of memory (overcommit).
 * Limits of ~0 are none. Programs have no privileges here. q->committed_pages is atomic; the rest is under mmap_lock.
 */
#include "mm/vma_int.h"

#include "base/assert.h"

static bool is_stack(uint64_t flags)
{
	return (flags & VM_GROWSDOWN) != 0;
}

/* Private and writable, and no stack: what RLIMIT_DATA counts. */
static bool is_data(uint64_t flags)
{
	return (flags & (VM_WRITE | VM_SHARED | VM_GROWSDOWN)) == VM_WRITE;
}

bool vm_may_expand(const struct mm *mm, uint64_t flags, uint64_t pages)
{
	if (mm->total_vm + pages > mm->as_rlimit >> PAGE_SHIFT)
		return false;
	return !is_data(flags) || mm->data_vm + pages <= mm->data_rlimit >> PAGE_SHIFT;
}

bool vm_lock_ok(const struct mm *mm, uint64_t flags, uint64_t bytes)
{
	return !(flags & VM_LOCKED) || mm->locked_vm + (bytes >> PAGE_SHIFT) <= mm->memlock_rlimit >> PAGE_SHIFT;
}

bool vm_accountable(uint64_t flags)
{
	return (flags & (VM_NORESERVE | VM_SHARED | VM_WRITE | VM_HUGETLB)) == VM_WRITE;
}

void vm_account(struct mm *mm, uint64_t flags, int64_t pages)
{
	uint64_t n = (uint64_t)pages; /* wraps as it must for negative ones */

	mm->total_vm += n;
	if (is_stack(flags))
		mm->stack_vm += n;
	else if (is_data(flags))
		mm->data_vm += n;
	if (flags & VM_LOCKED)
		mm->locked_vm += n;
}

static uint64_t total_ram(const struct quire *q)
{
	uint64_t n = 0;

	for (unsigned nid = 0; nid < q->m->nr_nodes; nid++)
		for (unsigned z = 0; z < NR_ZONES; z++)
			n += q->nodes[nid].zones[z].managed;
	return n;
}

/*
 * Mode 2: the part of memory that may be promised, less what is kept for an administrator (8 MiB) and for the user's
 * other programs (a 32nd of this one, 128 MiB at most); both reserves are at most a 32nd of memory.
 */
static bool within_commit_limit(const struct mm *mm, uint64_t committed)
{
	uint64_t ram = total_ram(mm->q), cap = ram / 32;
	uint64_t ratio = mm->q->knobs.overcommit_ratio, limit = ram / 100 * ratio + ram % 100 * ratio / 100;
	uint64_t reserve =
		MIN(cap, (8ULL << 20) >> PAGE_SHIFT) + MIN(mm->total_vm / 32, MIN(cap, (128ULL << 20) >> PAGE_SHIFT));

	return limit > reserve && committed < limit - reserve;
}

int vm_commit(struct mm *mm, uint64_t pages)
{
	struct quire *q = mm->q;
	uint64_t now = __atomic_add_fetch(&q->committed_pages, pages, __ATOMIC_RELAXED);
	bool ok;

	switch (q->knobs.overcommit_memory) {
	case 1: /* always */
		ok = true;
		break;
	case 2: /* never */
		ok = within_commit_limit(mm, now);
		break;
	default: /* guess: refuse only what cannot possibly be */
		ok = pages <= total_ram(q);
		break;
	}
	if (!ok)
		vm_uncommit(q, pages);
	return ok ? 0 : -ENOMEM;
}

void vm_uncommit(struct quire *q, uint64_t pages)
{
	uint64_t was = __atomic_fetch_sub(&q->committed_pages, pages, __ATOMIC_RELAXED);

	ASSERT(was >= pages);
}
