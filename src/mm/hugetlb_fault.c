/*
 * Faults on huge pages of a pool: the first touch, and copy on write, which copies all of the page, of either size.
 *
 * Clearing and copying go through hugecopy with the address as it was accessed: 2 MiB pages are done in the order that
 * quire.huge_clear_order and quire.huge_copy_order say, larger ones ascend. Whoever mapped the area (VM_HUGETLB_RESV) is
 * certain to get a page at the first touch. At a copy nobody is; but the owner may then take the shared page back from those that
 * fork gave it to, whose entries become HUGETLB_GONE, and they end at SIGBUS if they touch it again.
 * Nothing has changed after an error: a new page goes back to the pool, and what was promised is promised again.
 * Locks: mmap_lock for reading; hugetlb.fault by address space and page; the entry's lock; hugetlb.lock inside it. Taking a
 * page back needs other address spaces' entry locks inside hugetlb.lock: these are only tried.
 */
#include "mm/hugetlb.h"

#include "base/assert.h"
#include "base/errno.h"
#include "mm/fault_int.h"
#include "mm/hugecopy.h"

/* A fault on a page of a pool. */
struct hfault {
	struct fault *f;
	struct pt_ref r;
	struct mlock *ptl;
	enum hugetlb_size size;
	uint64_t bytes;
	vaddr_t base;
};

/* Under the entry's lock: put `head`, whose reference becomes the mapping's, into the empty entry. */
static void map_page(struct hfault *k, struct frame *head, struct hugetlb_rmap *rec)
{
	struct fault *f = k->f;
	pte_t e = pte_owned(f->c->m, head, f->v->flags) | PTE_HUGE;

	frame_set_anon(head, f->v, vma_page_index(f->v, k->base));
	frame_set(head, FRAME_ANON | FRAME_SWAPBACKED);
	hugetlb_rmap_add(f->c, f->v, head, rec, &k->r, f->va);
	/* A page that was only read so far is written to by another fault, as in Linux. */
	pte_write(f->c, &k->r, fault_is_write(f) ? e : e & ~(PTE_WRITE | PTE_DIRTY));
}

ATTR_NOINLINE static int no_page(struct hfault *k)
{
	struct fault *f = k->f;
	struct cpu *c = f->c;
	bool promised = !f->orig && (f->v->flags & VM_HUGETLB_RESV), done = false, cleared = false;
	struct hugetlb_rmap *rec;
	struct frame *head;
	int rc = 0;

	if (f->orig & HUGETLB_GONE)
		return -ENXIO;
	rec = anon_prepare(c, f->v) ? NULL : slab_alloc(c, SLAB_HUGETLB_RMAP);
	if (!rec)
		return -ENOMEM;
	head = hugetlb_alloc(c, k->size, promised, &cleared);
	if (head && !cleared)
		rc = hugecopy_clear(c, head, (unsigned)(k->bytes >> PAGE_SHIFT), f->va);
	else if (!head)
		rc = -ENXIO;
	machine_path(c, PATH_HUGETLB_FAULT);
	if (!rc) {
		machine_lock(c, k->ptl);
		done = pte_read(c, &k->r) == f->orig;
		if (done)
			map_page(k, head, rec);
		machine_unlock(c, k->ptl);
	}
	if (done) {
		f->kind = k->size == HUGETLB_2M ? VM_quire_fault_hugetlb_2m : VM_quire_fault_hugetlb_1g;
		return 0;
	}
	if (head)
		hugetlb_undo_alloc(c, head, promised);
	slab_free(c, SLAB_HUGETLB_RMAP, rec);
	return rc;
}

/* ---- copy on write ---- */

/* hugetlb.lock held: take the entry that rec describes from its page. false: its table is busy. */
static bool take_entry(struct cpu *c, struct hugetlb_rmap *rec, struct frame *head, uint64_t bytes)
{
	struct frame *table = frame_of(c->m, paddr_to_pfn(rec->entry));
	struct pt_ref r = { .pa = rec->entry, .entry = machine_ptr(c->m, rec->entry), .table = table };
	struct mlock *ptl = bytes == PMD_SIZE ? &table->ptl : &rec->mm->ptl;

	if (!machine_trylock(c, ptl))
		return false;
	pte_xchg(c, &r, HUGETLB_GONE);
	list_del(&rec->link);
	__atomic_sub_fetch(&head->entire_mapcount, 1, __ATOMIC_RELAXED);
	__atomic_sub_fetch(&rec->mm->hugetlb_pages, (int64_t)(bytes >> PAGE_SHIFT), __ATOMIC_RELAXED);
	/* The entry isn't empty, so its address space cannot end before we let go of the lock. */
	tlb_flush_mm_range(c, rec->mm, rec->va, rec->va + bytes, bytes == PMD_SIZE ? PMD_SHIFT : PUD_SHIFT, false);
	machine_unlock(c, ptl);
	return true;
}

/* The owner needs the page for itself: nobody else maps it afterwards, unless a table was busy. */
ATTR_NOINLINE static void take_back(struct hfault *k, struct frame *head)
{
	struct cpu *c = k->f->c;
	struct hugetlb_rmap *rec;
	bool taken;

	do {
		taken = false;
		machine_lock(c, &c->q->hugetlb.lock);
		list_for_each_entry(rec, &head->lru, link) {
			if (rec->entry == k->r.pa)
				continue;
			taken = take_entry(c, rec, head, k->bytes);
			break;
		}
		machine_unlock(c, &c->q->hugetlb.lock);
		if (taken) {
			slab_free(c, SLAB_HUGETLB_RMAP, rec);
			frame_put(c, head); /* that mapping's */
			vmstat_inc(c, VM_quire_hugetlb_taken_back);
		}
	} while (taken);
}

/* Replace `old`, of which the caller holds a reference that goes, by a copy. */
static int copy_page(struct hfault *k, struct frame *old, struct frame *head)
{
	struct fault *f = k->f;
	struct cpu *c = f->c;
	bool done = false;
	int rc = hugecopy_copy(c, head, old, (unsigned)(k->bytes >> PAGE_SHIFT), f->va);

	machine_path(c, PATH_HUGETLB_WP);
	if (!rc) {
		machine_lock(c, k->ptl);
		if (pte_read(c, &k->r) == f->orig) {
			pte_xchg(c, &k->r, 0);
			tlb_flush_for(c, f->mm, k->base, k->base + k->bytes, vm_page_shift(f->v->flags), false, FLUSH_COW);
			map_page(k, head, hugetlb_rmap_del(c, f->v, old, &k->r));
			f->kind = k->size == HUGETLB_2M ? VM_quire_fault_hugetlb_cow_2m : VM_quire_fault_hugetlb_cow_1g;
			done = true;
		}
		machine_unlock(c, k->ptl);
	}
	if (done)
		frame_put(c, old); /* the mapping's */
	else
		hugetlb_undo_alloc(c, head, false);
	frame_put(c, old);
	return rc;
}

/* May be written where it lies: this is the only mapping. Under the entry's lock. */
static bool reuse(struct hfault *k, struct frame *head)
{
	struct fault *f = k->f;

	if (!(f->orig & PTE_SOFT_EXCLUSIVE) && frame_entire_mapcount(head) != 1)
		return false;
	pte_set_bits(f->c, &k->r, (f->v->flags & VM_WRITE ? PTE_WRITE | PTE_DIRTY : 0) | PTE_ACCESSED | PTE_SOFT_EXCLUSIVE);
	f->kind = VM_quire_fault_hugetlb_reuse;
	return true;
}

ATTR_NOINLINE static int wp(struct hfault *k)
{
	struct fault *f = k->f;
	struct cpu *c = f->c;
	struct frame *old, *head;
	bool copy;

	if (anon_prepare(c, f->v))
		return -ENOMEM;
	machine_lock(c, k->ptl);
	copy = pte_read(c, &k->r) == f->orig;
	old = frame_of(c->m, pte_pfn(f->orig));
	if (copy && reuse(k, old))
		copy = false;
	if (copy)
		frame_get(c, old);
	machine_unlock(c, k->ptl);
	if (!copy)
		return 0;
	head = hugetlb_alloc(c, k->size, false, NULL);
	machine_path(c, PATH_HUGETLB_WP);
	if (head)
		return copy_page(k, old, head);
	if (f->v->flags & VM_HUGETLB_RESV)
		take_back(k, old); /* the access is repeated, and finds itself alone */
	frame_put(c, old);
	return f->v->flags & VM_HUGETLB_RESV ? 0 : -ENXIO;
}

/* ---- */

static struct mrwlock *fault_lock(const struct hfault *k)
{
	struct fault *f = k->f;
	uint64_t page = k->base >> vm_page_shift(f->v->flags);

	return &f->q->hugetlb.fault[(page ^ f->mm->ctx) % HUGETLB_FAULT_LOCKS];
}

ATTR_NOINLINE int hugetlb_fault(struct fault *f)
{
	struct cpu *c = f->c;
	struct hfault k = {
		.f = f,
		.size = hugetlb_size_of(f->v->flags),
		.bytes = vm_page_size(f->v->flags),
		.base = ALIGN_DOWN(f->va, vm_page_size(f->v->flags)),
	};
	enum machine_path prev = machine_work(c, PATH_HUGETLB_FAULT, 1);
	int rc = hugetlb_entry(c, f->v, f->va, true, &k.r, NULL);

	machine_path(c, PATH_HUGETLB_FAULT);
	if (!rc) {
		k.ptl = hugetlb_ptl(f->v, &k.r);
		/* One at a time: else of two that want the last page for the same place one would be refused. */
		machine_write_lock(c, fault_lock(&k));
		f->orig = pte_read(c, &k.r);
		if (!pte_present(f->orig))
			rc = no_page(&k);
		else if (fault_is_write(f) && !(f->orig & PTE_WRITE)) {
			(void)machine_work(c, PATH_HUGETLB_WP, 1);
			rc = wp(&k);
		}
		machine_write_unlock(c, fault_lock(&k));
	}
	machine_path(c, prev);
	return rc;
}
