/*
 * Page faults: from the exception to the path that serves it, and the books that are kept.
 *
 * Every fault ends in exactly one quire_fault_* counter; pgfault is their sum without the refused ones (SIGSEGV).
 * Those that came through the exception also end in one latency histogram. A handler looks at the entry without a
 * lock, prepares what it needs, takes the table's lock, and gives up when the entry has changed meanwhile: the access
 * is then simply repeated (counted as spurious).
 * Locks: mmap_lock for reading all the way.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/fork_shared.h"
#include "mm/numa.h"

#include <string.h>

/* Does the area allow the access? As on x86: whatever may be written or executed may be read. */
static bool fault_allowed(const struct vma *v, unsigned err)
{
	if (err & ACCESS_WRITE)
		return (v->flags & VM_WRITE) != 0;
	if (err & ACCESS_EXEC)
		return (v->flags & VM_EXEC) != 0;
	return (v->flags & VM_ACCESS_FLAGS) != 0;
}

ATTR_NOINLINE static int fault_pte(struct fault *f)
{
	int rc = 0;

	if (unlikely(pt_entry_shared(f->orig))) /* whatever it is, it changes the table */
		rc = pt_unshare(f->c, f->mm, &f->pmd, f->va);
	if (!rc)
		rc = pt_pte(f->c, f->mm, &f->pmd, f->va, true, &f->pte);
	if (rc)
		return rc == -EISDIR ? 0 : rc; /* a huge page came in first */
	f->orig = pte_read(f->c, &f->pte);
	if (!f->orig) {
		if (!f->v->file)
			return fault_is_write(f) || !f->q->knobs.zero_page ? fault_anon(f) : fault_zero_page(f);
		if (!fault_is_write(f))
			return fault_file_read(f);
		return f->v->flags & VM_SHARED ? fault_file_shared(f) : fault_file_cow(f);
	}
	if (unlikely(!pte_present(f->orig)))
		return fault_nonpresent(f, &f->pte);
	if (unlikely(!(f->orig & PTE_PRESENT)))
		return numa_fault_pte(f);
	if (fault_is_write(f) && !(f->orig & PTE_WRITE))
		return fault_wp(f);
	return 0; /* somebody else was first, or a TLB held the rights of before */
}

static bool thp_zero_allowed(const struct quire *q)
{
	return q->knobs.thp_use_zero_page && q->knobs.zero_page;
}

static int fault_run(struct fault *f)
{
	int rc = f->v->flags & VM_HUGETLB ? 0 : pt_pmd(f->c, f->mm, f->va, true, &f->pmd);

	/* What vma_find didn't look at: file, offset, anon_id. */
	machine_touch(f->c, machine_pa(f->c->m, &f->v->pgoff), CACHE_LINE, TOUCH_READ);
	if (unlikely(f->v->flags & VM_HUGETLB))
		return hugetlb_fault(f);
	if (rc)
		return rc;
	f->orig = pte_read(f->c, &f->pmd);
	rc = FAULT_FALLBACK;
	if (!f->orig && thp_allowed(f->mm, f->v, f->va))
		rc = fault_is_write(f) || !thp_zero_allowed(f->q) ? thp_fault_anon(f) : thp_fault_zero(f);
	else if (!f->orig)
		vmstat_inc(f->c, thp_refusal(f->mm, f->v));
	else if (unlikely(pmd_leaf(f->orig) && !pte_present(f->orig)))
		rc = fault_nonpresent(f, &f->pmd);
	else if (unlikely(pmd_huge(f->orig) && !(f->orig & PTE_PRESENT)))
		rc = numa_fault_pmd(f); /* or it is being split: then it is another one once its lock is held */
	else if (pmd_huge(f->orig))
		rc = fault_is_write(f) && !(f->orig & PTE_WRITE) ? thp_fault_wp(f) : 0;
	return rc == FAULT_FALLBACK ? fault_pte(f) : rc;
}

static enum fault_kind fault_latency_kind(enum vm_counter kind)
{
	switch ((unsigned)kind) {
	case VM_quire_fault_anon_4k:
		return FK_ANON_4K;
	case VM_quire_fault_anon_2m:
	case VM_quire_fault_hugetlb_2m:
		return FK_ANON_2M;
	case VM_quire_fault_zero_4k:
	case VM_quire_fault_zero_2m:
		return FK_ZERO;
	case VM_quire_fault_cow_4k:
		return FK_COW_4K;
	case VM_quire_fault_cow_2m:
	case VM_quire_fault_hugetlb_cow_2m:
		return FK_COW_2M;
	case VM_quire_fault_file:
		return FK_FILE;
	default:
		return FK_OTHER;
	}
}

/* Keep the books of a fault that ended with rc; returns what the caller is told: 0, -EFAULT or -ENOMEM. */
static int fault_count(struct fault *f, int rc)
{
	if (rc == -EHWPOISON || rc == -ENXIO || rc == -EIO) {
		f->kind = VM_quire_fault_sigbus;
		rc = -EFAULT;
	} else if (rc == -EFAULT) {
		f->kind = VM_quire_fault_sigsegv;
	} else if (rc) {
		f->kind = VM_quire_fault_oom;
		rc = -ENOMEM;
	}
	if (f->kind != VM_quire_fault_sigsegv) /* Linux counts what it began to handle, not what it refused */
		vmstat_inc(f->c, VM_pgfault);
	vmstat_inc(f->c, f->kind);
	if (f->major && !rc)
		vmstat_inc(f->c, VM_pgmajfault);
	return rc;
}

/* The parts of a fault of `total` ns. before: how much the CPU had spent in each when it began. */
static void count_phases(struct cpu *c, enum fault_kind kind, uint64_t total, const uint64_t before[NR_FAULT_PHASES])
{
	struct fault_phases *p = &c->pc->phases[kind];
	uint64_t part[NR_FAULT_PHASES] = { 0 }, sum = 0;

	for (unsigned i = 0; i < PHASE_MAP; i++) {
		part[i] = c->pc->phase_ns[i] - before[i];
		sum += part[i];
	}
	part[PHASE_MAP] = total > sum ? total - sum : 0;
	for (unsigned i = 0; i < NR_FAULT_PHASES; i++)
		p->sum[i] += part[i];
	if (total <= p->most)
		return;
	p->most = total;
	for (unsigned i = 0; i < NR_FAULT_PHASES; i++)
		p->longest[i] = part[i];
}

static void count_latency(struct cpu *c, enum vm_counter kind, const uint64_t before[NR_FAULT_PHASES])
{
	uint64_t now_ns = machine_now_ns(c), start_ns = c->fault_start_ps / PS_PER_NS, ns = now_ns > start_ns ? now_ns - start_ns : 0;

	quire_time_add(c, fault_latency_kind(kind), ns);
	if (unlikely(c->q->time_phases))
		count_phases(c, fault_latency_kind(kind), ns, before);
}

ATTR_NOINLINE int fault_handle(struct cpu *c, struct mm *mm, struct vma *v, vaddr_t va, unsigned err)
{
	struct fault f = {
		.c = c, .q = mm->q, .mm = mm, .v = v, .va = va, .err = err, .kind = VM_quire_fault_spurious
	};
	enum machine_path prev = machine_work(c, PATH_FAULT, 1);
	int rc = fault_count(&f, fault_allowed(v, err) ? fault_run(&f) : -EFAULT);

	machine_path(c, prev);
	return rc;
}

ATTR_NOINLINE int mm_fault(struct cpu *c, vaddr_t va, unsigned err)
{
	uintptr_t loaded = __atomic_load_n(&c->pc->loaded, __ATOMIC_RELAXED);
	struct mm *mm = loaded & LOADED_LAZY ? NULL : (struct mm *)(loaded & LOADED_MM);
	struct fault f = { .c = c, .q = c->q, .mm = mm, .va = va, .err = err, .kind = VM_quire_fault_spurious };
	enum machine_path prev = machine_work(c, PATH_FAULT, 1);
	uint64_t before[NR_FAULT_PHASES] = { 0 }, since = phase_begin(c), waited = 0;
	int rc = -EFAULT;

	if (mm && unlikely(__atomic_load_n(&mm->oom_victim, __ATOMIC_RELAXED))) {
		rc = -ENOMEM;
	} else if (mm && va < TASK_SIZE) {
		machine_read_lock(c, &mm->mmap_lock);
		if (unlikely(c->q->time_phases)) {
			/* Other tasks may have run here meanwhile: what they spent is not this fault's. */
			waited = machine_now_ns(c) - since;
			for (unsigned i = 0; i < NR_FAULT_PHASES; i++)
				before[i] = c->pc->phase_ns[i];
			before[PHASE_WAIT] -= waited;
		}
		f.v = vma_for_fault(c, mm, va);
		machine_path(c, PATH_FAULT);
		if (f.v && fault_allowed(f.v, err))
			rc = fault_run(&f);
		machine_read_unlock(c, &mm->mmap_lock);
	}
	rc = fault_count(&f, rc);
	machine_path(c, PATH_FAULT);
	count_latency(c, f.kind, before);
	if (unlikely(c->q->knobs.numa_balancing) && !rc && mm && (err & ACCESS_USER))
		numa_task_work(c, mm);
	machine_path(c, prev);
	return rc;
}
