/*
 * Bringing swapped pages back: faults, readahead, MADV_WILLNEED.
 *
 * A fault looks in the swap cache; else the page, and what readahead thinks will be wanted next, is allocated, entered in the cache and
 * read. The fault waits for its own page only (major); others are marked, and count as hits when they are wanted.
 *
 * Readahead goes by the area's addresses, as on Linux for devices without a head to move: a window around or beside the fault of at most
 * 2^vm.page-cluster pages, larger the more of the last one was used, within the area and the PTE table. What it remembers is a hint.
 *
 * Who owns the page that came back: the mapping alone, if its entry said so, or if nobody else has a reference once the swap cache has
 * been asked to let go. Only then is it mapped writable; a write to one that is shared goes on as any copy on write.
 * Locks: mmap_lock for reading; the folio's, then the table's.
 */
#include "base/assert.h"
#include "mm/anon_vma.h"
#include "mm/fault_int.h"
#include "mm/folio_lock.h"
#include "mm/lru.h"
#include "mm/rmap_walk.h"
#include "mm/swap.h"
#include "mm/vma_int.h"

#define SWAP_RA_MAX 32U /* pages of a window */
#define SWAP_RA_HITS_FIRST 4U
#define SWAP_RA_HITS_MAX 63U

/* ---- reading in ---- */

struct swap_batch {
	unsigned nr;
	struct frame *folio[SWAP_RA_MAX]; /* locked, in the cache, a reference each */
};

/* A new page in the cache, locked, for a slot that is claimed. NULL: no memory. */
static struct frame *new_page(struct cpu *c, uint64_t slot, struct frame *page)
{
	frame_flags_put(page, frame_flags(page) | FRAME_SWAPBACKED | FRAME_LOCKED); /* nobody else has it yet */
	if (swap_cache_add(c, page, slot)) {
		swap_unclaim_cache(c, slot, 1);
		folio_unlock(c, page);
		frame_put(c, page);
		return NULL;
	}
	folio_add_lru(c, page);
	return page;
}

/*
 * The slot's folio with a reference: found, or new in b, where its reading has not begun. NULL: the slot is nobody's by now, or there is
 * no memory.
 */
static struct frame *get_or_add(struct cpu *c, uint64_t slot, struct swap_batch *b)
{
	struct frame *page = NULL, *found;

	for (;;) {
		found = swap_cache_get(c, slot);
		if (found || !swap_count(c->q, slot))
			break;
		if (!page && !(page = mpol_alloc_task(c, percpu_lazy(c->pc) ? NULL : percpu_mm(c->pc), 0, GFP_HIGHUSER_MOVABLE)))
			break;
		int rc = swap_claim_cache(c, slot);

		if (!rc) {
			found = new_page(c, slot, page);
			page = NULL;
			if (found) {
				frame_get(c, found);
				b->folio[b->nr++] = found;
			}
			break;
		}
		if (rc == -ENOENT)
			break;
		/* Somebody is about to enter it, or to take it out: look again. */
	}
	if (page)
		frame_put(c, page);
	return found;
}

static void read_batch(struct cpu *c, struct swap_batch *b)
{
	if (b->nr)
		swap_read(c, b->folio, b->nr);
	for (unsigned i = 0; i < b->nr; i++) {
		folio_unlock(c, b->folio[i]);
		frame_put(c, b->folio[i]);
	}
	b->nr = 0;
}

/* ---- the window ---- */

/* Of an area: the last address, the last window, and how many of it have been wanted. */
static uint64_t *ra_word(struct vma *v)
{
	return &container_of(v, struct vma_object, v)->swap_ra;
}

static uint64_t ra_pack(vaddr_t va, unsigned win, unsigned hits)
{
	return (va & PAGE_MASK) | (win << 6) | hits;
}

static uint64_t ra_get(struct vma *v)
{
	uint64_t w = __atomic_load_n(ra_word(v), __ATOMIC_RELAXED);

	return w ? w : SWAP_RA_HITS_FIRST;
}

static void ra_set(struct vma *v, uint64_t w)
{
	__atomic_store_n(ra_word(v), w, __ATOMIC_RELAXED);
}

static unsigned ra_win(uint64_t w)
{
	return (unsigned)(w >> 6) & 63;
}

static unsigned ra_hits(uint64_t w)
{
	return (unsigned)w & 63;
}

static unsigned window_size(uint64_t last, uint64_t page, unsigned most)
{
	uint64_t last_page = last >> PAGE_SHIFT;
	unsigned n = ra_hits(last) + 2, pages = 4;

	if (n == 2) /* none was wanted: a neighbour may be the beginning of something */
		pages = page == last_page + 1 || page + 1 == last_page ? 2 : 1;
	while (n > 2 && pages < n)
		pages *= 2;
	pages = MIN(pages, most);
	return MAX(pages, ra_win(last) / 2); /* it shrinks by half at most */
}

/* What to read for a fault at va: *ret_start to *ret_end. */
static void window(const struct fault *f, vaddr_t *ret_start, vaddr_t *ret_end)
{
	unsigned most = 1U << MIN(f->q->knobs.page_cluster, 5U);
	uint64_t page = f->va >> PAGE_SHIFT, last = ra_get(f->v), last_page = last >> PAGE_SHIFT;
	unsigned n = most > 1 ? window_size(last, page, most) : 1;
	uint64_t table = ALIGN_DOWN(f->va, PMD_SIZE) >> PAGE_SHIFT;
	uint64_t low = MAX(f->v->start >> PAGE_SHIFT, table), high = MIN(f->v->end >> PAGE_SHIFT, table + PT_ENTRIES), left;

	ra_set(f->v, ra_pack(f->va, n, 0));
	if (page == last_page + 1)
		left = page;
	else if (page + 1 == last_page)
		left = page - MIN(page, n - 1U);
	else
		left = page - MIN(page, (n - 1U) / 2);
	*ret_end = MIN(left + n, high) << PAGE_SHIFT;
	*ret_start = MAX(left, low) << PAGE_SHIFT;
}

static void note_found(struct fault *f, struct frame *folio)
{
	uint64_t last = ra_get(f->v);
	bool ahead = (frame_flags(folio) & FRAME_READAHEAD) != 0;
	unsigned hits = ra_hits(last);

	if (ahead) {
		frame_clear(folio, FRAME_READAHEAD);
		vmstat_inc(f->c, VM_swap_ra_hit);
		hits = MIN(hits + 1, SWAP_RA_HITS_MAX);
	}
	ra_set(f->v, ra_pack(f->va, ra_win(last), hits));
}

/* Entries are looked at without their lock: what they name may be gone by then, which get_or_add finds. */
static void read_around(struct cpu *c, struct pt_ref r, vaddr_t start, vaddr_t end, vaddr_t wanted, struct swap_batch *b,
			struct frame **ret)
{
	for (vaddr_t va = start; va < end && b->nr < SWAP_RA_MAX; va += PAGE_SIZE, pt_ref_next(&r)) {
		pt_touch_line(c, &r, va == start);
		pte_t e = pte_peek(&r);

		if (!pte_is_swap(e))
			continue;
		unsigned before = b->nr;
		struct frame *folio = get_or_add(c, swap_entry_slot(e), b);

		if (!folio)
			continue;
		if (va == wanted) {
			*ret = folio;
			continue;
		}
		if (b->nr > before) {
			frame_set(folio, FRAME_READAHEAD);
			vmstat_inc(c, VM_swap_ra);
		}
		frame_put(c, folio);
	}
}

/* The folio for the slot that the entry names now, with a reference; its reading has begun. NULL: see get_or_add. */
static struct frame *swap_in(struct fault *f)
{
	vaddr_t wanted = f->va & PAGE_MASK, start, end;
	struct swap_batch b = { .nr = 0 };
	struct frame *folio = NULL;
	struct pt_ref r = f->pte;

	window(f, &start, &end);
	r.pa -= ((wanted - start) >> PAGE_SHIFT) * sizeof(pte_t);
	r.entry -= (wanted - start) >> PAGE_SHIFT;
	read_around(f->c, r, start, end, wanted, &b, &folio);
	read_batch(f->c, &b);
	f->major |= folio != NULL;
	return folio;
}

void swap_will_need(struct cpu *c, struct vma *v, vaddr_t start, vaddr_t end)
{
	struct swap_batch b = { .nr = 0 };
	struct pt_ref pmd, r;

	if (!c->q->swap.nr_slots)
		return;
	for (vaddr_t va = start, next; va < end; va = next) {
		struct frame *none = NULL;

		next = MIN(MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, va + SWAP_RA_MAX * PAGE_SIZE), end);
		if (pt_pmd(c, v->mm, va, false, &pmd)) {
			next = MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, end);
			continue;
		}
		pte_t e = pte_read(c, &pmd);

		if (!pmd_table(e) || pt_entry_shared(e)) {
			next = MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, end);
			continue;
		}
		r = pt_ref_at(c, frame_of(c->m, pte_pfn(e)), va, PAGE_SHIFT);
		read_around(c, r, va, next, TASK_SIZE, &b, &none);
		read_batch(c, &b);
	}
}

/* ---- the fault ---- */

/* Does the folio, locked, still have the slot? */
static bool has_slot(const struct frame *folio, uint64_t slot)
{
	return (frame_flags(folio) & FRAME_SWAPCACHE) && slot - folio_swap_slot(folio) < frame_nr_pages(folio);
}

/* Should the page give up its slot? Space is short, it stays in memory, or the write could then go to it. Under the table's lock. */
static bool should_free_swap(const struct fault *f, const struct frame *folio)
{
	return swap_full(f->q) || (f->v->flags & VM_LOCKED) || frame_mlocked(folio) ||
	       (fault_is_write(f) && frame_refcount(folio) == 1 + folio_swap_refs(folio));
}

/* Under the table's lock, the folio's held: the page in place of the entry. What was entered. */
static pte_t map_swapped(struct fault *f, struct frame *folio, struct frame *page, uint64_t slot)
{
	struct cpu *c = f->c;

	(void)swap_put(c, slot);
	if (should_free_swap(f, folio))
		(void)folio_free_swap(c, folio);
	bool exclusive = (f->orig & PTE_SOFT_EXCLUSIVE) || frame_refcount(folio) == 1;
	pte_t e = pfn_to_paddr(frame_pfn(c->m, page)) | pte_prot(f->v->flags);

	if (exclusive) {
		e |= PTE_SOFT_EXCLUSIVE;
		if (f->v->flags & VM_WRITE)
			e |= PTE_WRITE | (f->err & ACCESS_WRITE ? PTE_DIRTY : 0);
	}
	if (!(frame_flags(folio) & FRAME_ANON)) {
		/* Not this mapping's alone: all of the family may have an entry for it. */
		const struct anon_vma *av = exclusive ? f->v->anon_vma : f->v->anon_vma->root;

		folio->index = vma_page_index(f->v, f->va);
		__atomic_store_n(&folio->mapping, (uint64_t)(uintptr_t)av | MAPPING_ANON, __ATOMIC_RELEASE);
		frame_set(folio, FRAME_ANON | FRAME_SWAPBACKED);
	}
	frame_get(c, folio);
	rmap_add_pte(c, folio, page);
	if ((f->v->flags & VM_LOCKED) && !(frame_flags(folio) & FRAME_HEAD))
		rmap_mlock(c, folio);
	mm_rss_add(c, f->mm, RSS_ANON, 1);
	__atomic_sub_fetch(&f->mm->swapents, 1, __ATOMIC_RELAXED);
	pte_write(c, &f->pte, e);
	return e;
}

/* Folio locked, its contents there. 0, or -EIO. *ret_entry: what was entered; 0: the entry is another by now. */
static int map_locked(struct fault *f, struct frame *folio, uint64_t slot, pte_t *ret_entry)
{
	struct cpu *c = f->c;
	int rc = 0;

	/* Who counts references wants none in this CPU's batches. */
	if (fault_is_write(f) && !(frame_flags(folio) & FRAME_LRU))
		lru_add_drain(c);
	fault_pt_lock(c, f->pte.table);
	if (pte_read(c, &f->pte) == f->orig) {
		if (frame_flags(folio) & FRAME_IO_ERROR)
			rc = -EIO;
		else
			*ret_entry = map_swapped(f, folio, folio + (slot - folio_swap_slot(folio)), slot);
	}
	pt_unlock(c, f->pte.table);
	return rc;
}

ATTR_NOINLINE int fault_swap(struct fault *f)
{
	struct cpu *c = f->c;
	enum machine_path prev = machine_work(c, PATH_FAULT_SWAP, 1);
	uint64_t slot = swap_entry_slot(f->orig);
	int rc = anon_prepare(c, f->v);
	struct frame *folio = NULL;
	pte_t e = 0;

	if (!rc) {
		folio = swap_cache_get(c, slot);
		if (folio)
			note_found(f, folio);
		else
			folio = swap_in(f);
		if (!folio) /* no memory, unless somebody else has dealt with the entry */
			rc = pte_read(c, &f->pte) == f->orig ? -ENOMEM : 0;
		machine_path(c, PATH_FAULT_SWAP);
	}
	if (folio) {
		folio_lock(c, folio);
		if (has_slot(folio, slot)) {
			folio_wait_read(c, folio);
			rc = map_locked(f, folio, slot, &e);
		}
		folio_unlock(c, folio);
	}
	if (folio)
		frame_put(c, folio); /* before anybody counts */
	if (e && (f->err & ACCESS_WRITE) && !(e & PTE_WRITE)) {
		f->orig = e;
		rc = fault_wp(f);
	}
	if (e && !rc)
		f->kind = VM_quire_fault_swap;
	machine_path(c, prev);
	return rc;
}
