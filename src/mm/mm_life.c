/*
 * An address space's life: creation, fork, and the end of its last user.
 *
 * Nothing outlives mm_exit: frames, tables and areas are given back, and the counts prove it (rss, table bytes and
 * mapped huge pages are asserted to be zero). A fork that runs out of memory is undone by the same way out.
 * Locks: q->list_lock for the list and the context numbers; fork holds the parent's mmap_lock, then the child's.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault.h"
#include "mm/fork_shared.h"
#include "mm/vma_int.h"

#define MMAP_GAP (128ULL << 20) /* between the top of the address space and the mmap area: room for the stack */
#define STACK_RLIMIT (8ULL << 20)

int64_t mm_rss_peak(const struct mm *mm)
{
	int64_t sum = 0, peak = __atomic_load_n(&mm->rss_peak, __ATOMIC_RELAXED);

	for (const struct mm_rss_part *p = mm->rss_part; p < mm->rss_part + MM_RSS_PARTS; p++)
		sum += __atomic_load_n(&p->pages[RSS_ANON], __ATOMIC_RELAXED) +
		       __atomic_load_n(&p->pages[RSS_FILE], __ATOMIC_RELAXED) +
		       __atomic_load_n(&p->pages[RSS_SHMEM], __ATOMIC_RELAXED);
	return MAX(sum, peak);
}

void mm_rss_note_peak(struct mm *mm)
{
	int64_t peak = __atomic_load_n(&mm->rss_peak, __ATOMIC_RELAXED), now = mm_rss_peak(mm);

	while (now > peak &&
	       !__atomic_compare_exchange_n(&mm->rss_peak, &peak, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void mm_link(struct cpu *c, struct quire *q, struct mm *mm)
{
	machine_lock(c, &q->list_lock);
	do {
		mm->ctx = ++q->next_ctx;
	} while (!mm->ctx);
	mm->tlb_gen = ((uint64_t)mm->ctx << 32) + 1;
	list_add_tail(&mm->link, &q->mms);
	machine_unlock(c, &q->list_lock);
}

int mm_create(struct cpu *c, struct quire *q, struct mm **ret_mm)
{
	struct mm *mm = slab_alloc(c, SLAB_MM);
	struct frame *pgd;

	if (!mm)
		return -ENOMEM;
	machine_touch(c, machine_pa(c->m, mm), sizeof(*mm), TOUCH_WRITE);
	mm->q = q;
	mm->users = mm->holds = 1;
	mrwlock_init(&mm->mmap_lock, RANK_MMAP_LOCK, machine_pa(c->m, &mm->mmap_lock));
	mlock_init(&mm->ptl, RANK_PTL, machine_pa(c->m, &mm->ptl));
	mm->stack_top = TASK_SIZE;
	mm->mmap_base = TASK_SIZE - MMAP_GAP;
	mm->stack_rlimit = STACK_RLIMIT;
	mm->data_rlimit = mm->as_rlimit = mm->memlock_rlimit = ~0ULL;
	pgd = pt_alloc_table(c, mm);
	if (!pgd) {
		slab_free(c, SLAB_MM, mm);
		return -ENOMEM;
	}
	mm->pgd = frame_pfn(c->m, pgd);
	mm_link(c, q, mm);
	*ret_mm = mm;
	return 0;
}

/* Unmap everything and free all tables but the top. */
static void exit_mappings(struct cpu *c, struct mm *mm)
{
	struct mmu_gather g;

	tlb_gather_begin(c, &g, mm, true);
	g.why = FLUSH_EXIT;
	for (struct vma *v = mm->shared_tables ? vma_first(mm) : NULL; v; v = vma_next_charged(c, v))
		pt_drop_shared(c, &g, mm, ALIGN_DOWN(v->start, PMD_SIZE), ALIGN_UP(v->end, PMD_SIZE));
	for (struct vma *v = vma_first(mm); v; v = vma_next_charged(c, v))
		zap_range(c, &g, v, v->start, v->end);
	for (struct vma *v = vma_first(mm); v; v = vma_next_charged(c, v))
		vma_rmap_unlink(c, v); /* nobody is to come to the tables by it any more */
	machine_path(c, PATH_EXIT);
	for (struct vma *v = vma_first(mm); v; v = vma_next_charged(c, v)) {
		const struct vma *next = vma_next(v);

		pt_free_range(c, mm, &g, v->start, v->end, 0, next ? next->start : 0);
	}
	tlb_gather_end(c, &g);
}

void mm_drop(struct cpu *c, struct mm *mm)
{
	if (!__atomic_sub_fetch(&mm->holds, 1, __ATOMIC_ACQ_REL))
		slab_free(c, SLAB_MM, mm);
}

ATTR_NOINLINE static void mm_exit(struct cpu *c, struct mm *mm)
{
	enum machine_path prev = machine_work(c, PATH_EXIT, 1);
	struct quire *q = mm->q;

	/* The task may sleep below, and must not come back to it. */
	if (c->current && c->current->mm == mm)
		c->current->mm = NULL;
	if (percpu_mm(c->pc) == mm)
		mm_activate(c, NULL);
	khugepaged_exit(c, mm);
	machine_write_lock(c, &mm->mmap_lock);
	exit_mappings(c, mm);
	vma_free_all(c, mm);
	machine_write_unlock(c, &mm->mmap_lock);
	tlb_forget_mm(c, mm);
	machine_lock(c, &q->list_lock);
	list_del(&mm->link);
	machine_unlock(c, &q->list_lock);
	for (unsigned i = 0; i < NR_RSS; i++)
		ASSERT(mm_rss(mm, (enum rss_kind)i) == 0);
	ASSERT(mm->huge_mapped == 0 && mm->hugetlb_pages == 0 && mm->shared_tables == 0);
	pt_free_table(c, mm, frame_of(c->m, mm->pgd));
	ASSERT(mm->pgtables_bytes == 0);
	mm_drop(c, mm);
	machine_path(c, prev);
}

void mm_put(struct cpu *c, struct mm *mm)
{
	if (!__atomic_sub_fetch(&mm->users, 1, __ATOMIC_ACQ_REL))
		mm_exit(c, mm);
}

static void fork_settings(struct mm *child, const struct mm *parent)
{
	child->numa_marked = parent->numa_marked; /* marks are copied */
	child->mmap_base = parent->mmap_base;
	child->start_brk = parent->start_brk;
	child->brk = parent->brk;
	child->stack_top = parent->stack_top;
	child->stack_rlimit = parent->stack_rlimit;
	child->data_rlimit = parent->data_rlimit;
	child->as_rlimit = parent->as_rlimit;
	child->memlock_rlimit = parent->memlock_rlimit;
	child->thp_disable = parent->thp_disable;
	child->mpol = parent->mpol;
	child->mpol_next = parent->mpol_next;
	child->anon_seq = parent->anon_seq;
}

/* The child's areas are the parent's without VM_DONTCOPY ones, in the same order. */
ATTR_NOINLINE static int fork_areas(struct cpu *c, struct mm *child, struct mm *parent)
{
	struct vma *p = vma_first(parent);
	int rc = vma_dup_all(c, child, parent);

	if (rc)
		return rc;
	for (struct vma *v = vma_first(child); v && !rc; v = vma_next(v)) {
		while (p->start != v->start)
			p = vma_next_charged(c, p);
		rc = fork_copy_range(c, child, parent, v, p);
	}
	return rc;
}

ATTR_NOINLINE int mm_fork(struct cpu *c, struct mm *parent, struct mm **ret_child)
{
	enum machine_path prev = machine_work(c, PATH_FORK, 1);
	struct mm *child = NULL;
	int rc = mm_create(c, parent->q, &child);

	machine_path(c, PATH_FORK);
	if (!rc) {
		machine_write_lock(c, &parent->mmap_lock);
		machine_write_lock(c, &child->mmap_lock);
		vmstat_inc(c, VM_quire_mmap_lock_write);
		fork_settings(child, parent);
		/* Then the flush; with shared tables of page-walk caches too, which know them as writable. */
		rc = fork_areas(c, child, parent);
		machine_path(c, PATH_FORK);
		tlb_flush_for(c, parent, 0, TASK_SIZE, PAGE_SHIFT, parent->shared_tables != 0, FLUSH_FORK);
		machine_write_unlock(c, &child->mmap_lock);
		machine_write_unlock(c, &parent->mmap_lock);
		if (rc) {
			mm_put(c, child);
		} else {
			khugepaged_fork(c, child, parent);
			vmstat_inc(c, VM_quire_fork);
			*ret_child = child;
		}
	}
	machine_path(c, prev);
	return rc;
}
