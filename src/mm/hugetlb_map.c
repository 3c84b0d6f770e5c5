/*
 * Entries that map huge pages of a pool, and the records of who maps a page: unmapping, rights, fork, mremap, looks.
 *
 * The walks of ordinary memory never see these entries: areas don't mix (VM_HUGETLB), and nothing here is split. A page's
 * records (HP4) let the owner find the mappings of a page that it must have back (hugetlb_fault.c): whoever changes an entry that
 * maps a page holds the entry's lock, then hugetlb.lock for the record.
 */
#include "mm/hugetlb.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/hugecopy.h"

int hugetlb_entry(struct cpu *c, const struct vma *v, vaddr_t va, bool alloc, struct pt_ref *ret, vaddr_t *ret_next)
{
	unsigned shift = vm_page_shift(v->flags);
	struct frame *table;

	if (alloc)
		return shift == PMD_SHIFT ? pt_pmd(c, v->mm, va, true, ret) : pt_pud(c, v->mm, va, true, ret);
	table = shift == PMD_SHIFT ? pt_pmd_table(c, v->mm, va, ret_next) : pt_pud_table(c, v->mm, va, ret_next);
	if (!table)
		return -ENOENT;
	*ret = pt_ref_at(c, table, va, shift);
	*ret_next = ALIGN_DOWN(va, 1ULL << shift) + (1ULL << shift);
	return 0;
}

struct mlock *hugetlb_ptl(const struct vma *v, const struct pt_ref *r)
{
	return v->flags & VM_HUGETLB_1G ? &v->mm->ptl : &r->table->ptl;
}

pte_t hugetlb_peek(struct cpu *c, const struct vma *v, vaddr_t va)
{
	struct pt_ref r;
	vaddr_t next;
	pte_t e = hugetlb_entry(c, v, va, false, &r, &next) ? 0 : pte_read(c, &r);

	return pte_present(e) ? e : 0;
}

/* ---- records ---- */

void hugetlb_rmap_add(struct cpu *c, const struct vma *v, struct frame *head, struct hugetlb_rmap *rec, const struct pt_ref *r,
		      vaddr_t va)
{
	*rec = (struct hugetlb_rmap){ .mm = v->mm, .entry = r->pa, .va = ALIGN_DOWN(va, vm_page_size(v->flags)) };
	machine_touch(c, machine_pa(c->m, rec), sizeof(*rec), TOUCH_WRITE);
	frame_touch(c, head, TOUCH_ATOMIC);
	machine_lock(c, &c->q->hugetlb.lock);
	list_add_tail(&rec->link, &head->lru);
	__atomic_add_fetch(&head->entire_mapcount, 1, __ATOMIC_RELAXED);
	machine_unlock(c, &c->q->hugetlb.lock);
	__atomic_add_fetch(&v->mm->hugetlb_pages, (int64_t)frame_nr_pages(head), __ATOMIC_RELAXED);
}

/* hugetlb.lock held. */
static struct hugetlb_rmap *find_record(struct cpu *c, struct frame *head, paddr_t entry)
{
	struct hugetlb_rmap *rec;

	list_for_each_entry(rec, &head->lru, link) {
		machine_touch(c, machine_pa(c->m, rec), sizeof(*rec), TOUCH_READ);
		if (rec->entry == entry)
			return rec;
	}
	return NULL;
}

struct hugetlb_rmap *hugetlb_rmap_del(struct cpu *c, const struct vma *v, struct frame *head, const struct pt_ref *r)
{
	struct hugetlb_rmap *rec;

	frame_touch(c, head, TOUCH_ATOMIC);
	machine_lock(c, &c->q->hugetlb.lock);
	rec = find_record(c, head, r->pa);
	ASSERT(rec); /* HP4 */
	list_del(&rec->link);
	__atomic_sub_fetch(&head->entire_mapcount, 1, __ATOMIC_RELAXED);
	machine_unlock(c, &c->q->hugetlb.lock);
	__atomic_sub_fetch(&v->mm->hugetlb_pages, (int64_t)frame_nr_pages(head), __ATOMIC_RELAXED);
	return rec;
}

/* ---- unmapping ---- */

/* What stands in place of e when the page goes but the area stays. */
static pte_t emptied(const struct vma *v, pte_t e)
{
	return e & HUGETLB_GONE ? HUGETLB_GONE : v->flags & VM_HUGETLB_RESV ? HUGETLB_USED : 0;
}

/* One entry that isn't empty. */
static void zap_one(struct cpu *c, struct mmu_gather *g, struct vma *v, const struct pt_ref *r, vaddr_t va, bool unmap)
{
	struct mlock *ptl = hugetlb_ptl(v, r);
	struct hugetlb_rmap *rec = NULL;
	bool full = false;

	machine_lock(c, ptl);
	pte_t e = pte_xchg(c, r, unmap ? 0 : emptied(v, pte_peek(r)));

	if (pte_present(e)) {
		struct frame *head = frame_of(c->m, pte_pfn(e));

		rec = hugetlb_rmap_del(c, v, head, r);
		tlb_gather_range(g, va, vm_page_size(v->flags));
		full = tlb_gather_add(c, g, head);
	}
	machine_unlock(c, ptl);
	if (full)
		tlb_gather_flush(c, g);
	if (rec)
		slab_free(c, SLAB_HUGETLB_RMAP, rec);
}

void hugetlb_zap(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, bool unmap)
{
	enum machine_path prev = machine_work(c, PATH_HUGETLB_MAP, 0);
	uint64_t used = 0;
	struct pt_ref r;

	for (vaddr_t va = start, next; va < end; va = next) {
		if (hugetlb_entry(c, v, va, false, &r, &next) || !pte_read(c, &r))
			continue;
		(void)machine_work(c, PATH_HUGETLB_MAP, 1);
		used++;
		zap_one(c, g, v, &r, va, unmap);
		machine_path(c, PATH_HUGETLB_MAP);
	}
	if (unmap && (v->flags & VM_HUGETLB_RESV))
		hugetlb_unreserve(c, v->flags, ((end - start) >> vm_page_shift(v->flags)) - used);
	machine_path(c, prev);
}

/* ---- rights ---- */

#define HUGETLB_KEEP (PTE_ADDR_MASK | PTE_ACCESSED | PTE_DIRTY | PTE_HUGE | PTE_SOFT_EXCLUSIVE)

static void protect_one(struct cpu *c, struct mmu_gather *g, struct vma *v, const struct pt_ref *r, vaddr_t va, uint64_t flags)
{
	struct mlock *ptl = hugetlb_ptl(v, r);

	machine_lock(c, ptl);
	pte_t old = pte_peek(r), n = old;

	while (pte_present(old)) {
		n = (old & HUGETLB_KEEP) | (pte_prot(flags) & ~(PTE_WRITE | PTE_ACCESSED));
		if ((flags & VM_WRITE) && (old & PTE_SOFT_EXCLUSIVE))
			n |= PTE_WRITE;
		if (pte_try_replace(r, &old, n))
			break;
	}
	machine_touch(c, r->pa, sizeof(pte_t), TOUCH_ATOMIC);
	machine_unlock(c, ptl);
	if ((old & PTE_PRESENT) && (!(n & PTE_PRESENT) || ((old & ~n) & PTE_WRITE) || ((n & ~old) & PTE_NX)))
		tlb_gather_range(g, va, vm_page_size(v->flags));
}

void hugetlb_protect(struct cpu *c, struct mmu_gather *g, struct vma *v, vaddr_t start, vaddr_t end, uint64_t new_flags)
{
	enum machine_path prev = machine_work(c, PATH_HUGETLB_MAP, 0);
	struct pt_ref r;

	for (vaddr_t va = start, next; va < end; va = next) {
		if (hugetlb_entry(c, v, va, false, &r, &next) || !pte_present(pte_read(c, &r)))
			continue;
		(void)machine_work(c, PATH_HUGETLB_MAP, 1);
		protect_one(c, g, v, &r, va, new_flags);
		machine_path(c, PATH_HUGETLB_MAP);
	}
	machine_path(c, prev);
}

/* ---- fork ---- */

/*
 * A pinned page stays the parent's alone (gup.c, G3): the child gets a copy, of a page that nobody was promised. There is no
 * faulting address: the hint is the page's own.
 */
static int copy_pinned(struct cpu *c, struct vma *child, pte_t e, const struct pt_ref *dst, vaddr_t va, struct hugetlb_rmap *rec)
{
	struct frame *src = frame_of(c->m, pte_pfn(e)), *copy = hugetlb_alloc(c, hugetlb_size_of(child->flags), false, NULL);
	struct mlock *ptl = hugetlb_ptl(child, dst);
	int rc = copy ? hugecopy_copy(c, copy, src, (unsigned)frame_nr_pages(src), va) : -ENOMEM;

	machine_path(c, PATH_HUGETLB_MAP);
	if (rc) {
		if (copy)
			frame_put(c, copy);
		return rc;
	}
	frame_set_anon(copy, child, vma_page_index(child, va));
	frame_set(copy, FRAME_ANON | FRAME_SWAPBACKED);
	machine_lock(c, ptl);
	hugetlb_rmap_add(c, child, copy, rec, dst, va);
	pte_write(c, dst, pte_owned(c->m, copy, child->flags) | PTE_HUGE);
	machine_unlock(c, ptl);
	return 0;
}

/* Both map the page from now on. false: the parent's entry is none any more. */
static bool share(struct cpu *c, struct vma *child, struct vma *parent, const struct pt_ref *src, const struct pt_ref *dst, vaddr_t va,
		  struct hugetlb_rmap *rec)
{
	struct mlock *from = hugetlb_ptl(parent, src), *to = hugetlb_ptl(child, dst);

	machine_lock(c, from);
	machine_lock(c, to);
	pte_t e = pte_read(c, src);
	bool mapped = pte_present(e);

	if (mapped) {
		struct frame *head = frame_of(c->m, pte_pfn(e));

		if (e & (PTE_WRITE | PTE_SOFT_EXCLUSIVE))
			e = pte_clear_bits(c, src, PTE_WRITE | PTE_SOFT_EXCLUSIVE);
		frame_get(c, head);
		hugetlb_rmap_add(c, child, head, rec, dst, va);
		pte_write(c, dst, e & ~(PTE_WRITE | PTE_SOFT_EXCLUSIVE | PTE_ACCESSED));
	}
	machine_unlock(c, to);
	machine_unlock(c, from);
	return mapped;
}

static int fork_one(struct cpu *c, struct vma *child, struct vma *parent, const struct pt_ref *src, vaddr_t va)
{
	struct hugetlb_rmap *rec = slab_alloc(c, SLAB_HUGETLB_RMAP);
	pte_t e = pte_peek(src);
	struct pt_ref dst;
	int rc = rec ? hugetlb_entry(c, child, va, true, &dst, NULL) : -ENOMEM;

	machine_path(c, PATH_HUGETLB_MAP);
	if (!rc) {
		if ((e & PTE_SOFT_EXCLUSIVE) && frame_pinned(frame_of(c->m, pte_pfn(e))))
			rc = copy_pinned(c, child, e, &dst, va, rec);
		else if (!share(c, child, parent, src, &dst, va, rec))
			rc = -EAGAIN;
	}
	if (rc && rec)
		slab_free(c, SLAB_HUGETLB_RMAP, rec);
	return rc == -EAGAIN ? 0 : rc;
}

int hugetlb_fork(struct cpu *c, struct vma *child, struct vma *parent)
{
	enum machine_path prev = machine_work(c, PATH_HUGETLB_MAP, 0);
	struct pt_ref src;
	int rc = 0;

	for (vaddr_t va = parent->start, next; va < parent->end && !rc; va = next) {
		if (hugetlb_entry(c, parent, va, false, &src, &next) || !pte_present(pte_read(c, &src)))
			continue;
		(void)machine_work(c, PATH_HUGETLB_MAP, 1);
		rc = fork_one(c, child, parent, &src, va);
		machine_path(c, PATH_HUGETLB_MAP);
	}
	machine_path(c, prev);
	return rc;
}

/* ---- mremap ---- */

static void move_one(struct cpu *c, struct vma *from, struct vma *to, const struct pt_ref *src, const struct pt_ref *dst, vaddr_t old,
		     vaddr_t new_addr)
{
	struct mlock *a = hugetlb_ptl(from, src), *b = hugetlb_ptl(to, dst);
	uint64_t size = vm_page_size(from->flags);

	machine_lock(c, a);
	if (b != a)
		machine_lock(c, b);
	pte_t e = pte_xchg(c, src, 0);

	if (pte_present(e)) {
		struct frame *head = frame_of(c->m, pte_pfn(e));

		hugetlb_rmap_add(c, to, head, hugetlb_rmap_del(c, from, head, src), dst, new_addr);
	}
	pte_write(c, dst, e);
	if (e & PTE_PRESENT)
		tlb_flush_for(c, from->mm, old, old + size, vm_page_shift(from->flags), false, FLUSH_MREMAP);
	if (b != a)
		machine_unlock(c, b);
	machine_unlock(c, a);
}

int64_t hugetlb_move(struct cpu *c, struct vma *from, struct vma *to, vaddr_t old, vaddr_t new_addr, uint64_t len)
{
	enum machine_path prev = machine_work(c, PATH_HUGETLB_MAP, 0);
	struct pt_ref src, dst;
	uint64_t off, step;

	for (off = 0; off < len; off += step) {
		vaddr_t next;
		bool any = !hugetlb_entry(c, from, old + off, false, &src, &next) && pte_read(c, &src);

		step = MIN(len - off, next - (old + off));
		if (!any)
			continue;
		if (hugetlb_entry(c, to, new_addr + off, true, &dst, NULL))
			break;
		(void)machine_work(c, PATH_HUGETLB_MAP, 1);
		move_one(c, from, to, &src, &dst, old + off, new_addr + off);
		machine_path(c, PATH_HUGETLB_MAP);
	}
	machine_path(c, prev);
	return (int64_t)MIN(off, len);
}
