/*
 * Mapcounts and what follows from them: which frames count as mapped, and as locked in memory.
 *
 * Every page table entry that maps a frame holds one reference on its folio and one mapcount (frame.h: F2, F4). The
 * functions here keep the mapcounts, nr_anon_pages, nr_anon_transparent_hugepages, nr_mapped and the mlock counts;
 * references are the caller's. nr_anon_pages counts each frame once, however many map it and by whatever size:
 * nr_pages_mapped tells, in one atomic, how many frames PTEs map and whether a PMD maps the whole.
 * Called under the lock of the table that holds the entry. Inline, so that the cost stays in the path that calls.
 */
#ifndef QUIRE_MM_RMAP_H
#define QUIRE_MM_RMAP_H

#include "base/assert.h"
#include "mm/deferred_split.h"
#include "mm/lru.h"

static inline int frame_mapcount(const struct frame *f)
{
	return __atomic_load_n(&f->mapcount, __ATOMIC_RELAXED) + 1;
}

static inline int frame_entire_mapcount(const struct frame *head)
{
	return __atomic_load_n(&head->entire_mapcount, __ATOMIC_ACQUIRE) + 1;
}

/* One PMD maps the folio, and nothing else does. */
static inline bool frame_mapped_once(const struct frame *head)
{
	return frame_entire_mapcount(head) == 1 &&
	       __atomic_load_n(&head->nr_pages_mapped, __ATOMIC_ACQUIRE) == FOLIO_ENTIRELY_MAPPED;
}

/* Does a VM_LOCKED area map the folio? */
static inline bool frame_mlocked(const struct frame *head)
{
	return __atomic_load_n(&head->nr_locked, __ATOMIC_RELAXED) != 0;
}

static inline enum rss_kind frame_rss(const struct frame *head)
{
	return frame_flags(head) & FRAME_ANON ? RSS_ANON : head->file->shmem ? RSS_SHMEM : RSS_FILE;
}

/* ---- what the reverse map finds a folio by (rmap_walk.h) ---- */

/* A new anonymous folio is v's, which has an anon_vma; its first page is at index. */
static inline void frame_set_anon(struct frame *head, const struct vma *v, uint64_t index)
{
	head->index = index;
	__atomic_store_n(&head->mapping, (uint64_t)(uintptr_t)v->anon_vma | MAPPING_ANON, __ATOMIC_RELEASE);
}

/*
 * v's mapping, the only one, owns the anonymous folio from now on: who looks for it need not look through the whole family of
 * forks any more. Under the lock of the table that holds its entry.
 */
static inline void page_move_anon_rmap(struct frame *head, const struct vma *v)
{
	uint64_t to = (uint64_t)(uintptr_t)v->anon_vma | MAPPING_ANON;

	if (__atomic_load_n(&head->mapping, __ATOMIC_RELAXED) != to)
		__atomic_store_n(&head->mapping, to, __ATOMIC_RELEASE);
}

/* ---- resident pages: a part of the CPUs share a line (mm.h), so that threads that fault don't write the same one ---- */

/* Who is about to take pages away for good, not to replace them, calls mm_rss_note_peak before. */
static inline void mm_rss_add(struct cpu *c, struct mm *mm, enum rss_kind kind, int64_t pages)
{
	__atomic_add_fetch(&mm->rss_part[c->id % MM_RSS_PARTS].pages[kind], pages, __ATOMIC_RELAXED);
}

/* ---- */

/* One more VM_LOCKED area maps the folio. */
static inline void rmap_mlock(struct cpu *c, struct frame *head)
{
	int64_t nr = (int64_t)frame_nr_pages(head);

	frame_touch(c, head, TOUCH_ATOMIC);
	if (__atomic_fetch_add(&head->nr_locked, 1, __ATOMIC_RELAXED))
		return;
	vmstat_add(c, VM_nr_mlock, nr);
	vmstat_add(c, VM_unevictable_pgs_mlocked, nr);
	folio_mlock_changed(c, head);
}

static inline void rmap_munlock(struct cpu *c, struct frame *head)
{
	int64_t nr = (int64_t)frame_nr_pages(head);
	uint64_t was = __atomic_fetch_sub(&head->nr_locked, 1, __ATOMIC_RELAXED);

	ASSERT(was);
	frame_touch(c, head, TOUCH_ATOMIC);
	if (was != 1)
		return;
	vmstat_add(c, VM_nr_mlock, -nr);
	vmstat_add(c, VM_unevictable_pgs_munlocked, nr);
	folio_mlock_changed(c, head);
}

/* A PTE maps `page` from now on. */
static inline void rmap_add_pte(struct cpu *c, struct frame *head, struct frame *page)
{
	frame_touch(c, page, TOUCH_ATOMIC);
	if (__atomic_add_fetch(&page->mapcount, 1, __ATOMIC_RELAXED))
		return;
	if (frame_flags(head) & FRAME_HEAD) {
		frame_touch(c, head, TOUCH_ATOMIC);
		if (__atomic_add_fetch(&head->nr_pages_mapped, 1, __ATOMIC_RELAXED) >= FOLIO_ENTIRELY_MAPPED)
			return;
	}
	vmstat_inc(c, frame_flags(head) & FRAME_ANON ? VM_nr_anon_pages : VM_nr_mapped);
}

/* The same for an anonymous frame of order 0 that nobody else has yet. */
static inline void rmap_add_new(struct cpu *c, struct frame *page)
{
	frame_touch(c, page, TOUCH_ATOMIC);
	__atomic_store_n(&page->mapcount, 0, __ATOMIC_RELAXED);
	vmstat_inc(c, VM_nr_anon_pages);
}

/* Parts of a huge page are not mapped by anybody any more: reclaim could split it and free them. */
static inline void rmap_partially_mapped(struct cpu *c, struct frame *head)
{
	if (frame_flags(head) & FRAME_PARTIALLY_MAPPED)
		return;
	if (!(__atomic_fetch_or(&head->flags, FRAME_PARTIALLY_MAPPED, __ATOMIC_RELAXED) & FRAME_PARTIALLY_MAPPED))
		deferred_split_folio(c, head, true);
}

/* A PTE of an area with `vm_flags` no longer maps `page`. */
static inline void rmap_remove_pte(struct cpu *c, struct frame *head, struct frame *page, uint64_t vm_flags)
{
	frame_touch(c, page, TOUCH_ATOMIC);
	if (__atomic_sub_fetch(&page->mapcount, 1, __ATOMIC_RELAXED) < 0) {
		int mapped = 0;

		if (frame_flags(head) & FRAME_HEAD) {
			frame_touch(c, head, TOUCH_ATOMIC);
			mapped = __atomic_sub_fetch(&head->nr_pages_mapped, 1, __ATOMIC_RELAXED);
			if (mapped && mapped < FOLIO_ENTIRELY_MAPPED)
				rmap_partially_mapped(c, head);
		}
		if (mapped < FOLIO_ENTIRELY_MAPPED)
			vmstat_add(c, frame_flags(head) & FRAME_ANON ? VM_nr_anon_pages : VM_nr_mapped, -1);
	}
	if ((vm_flags & VM_LOCKED) && !(frame_flags(head) & FRAME_HEAD))
		rmap_munlock(c, head);
}

/* The same where the entry says that the frame, anonymous and of order 0, is this mapping's alone: nobody else changes the count. */
static inline void rmap_remove_sole(struct cpu *c, struct frame *page, uint64_t vm_flags)
{
	frame_touch(c, page, TOUCH_ATOMIC);
	ASSERT_DEBUG(!__atomic_load_n(&page->mapcount, __ATOMIC_RELAXED));
	__atomic_store_n(&page->mapcount, -1, __ATOMIC_RELAXED);
	vmstat_add(c, VM_nr_anon_pages, -1);
	if (vm_flags & VM_LOCKED)
		rmap_munlock(c, page);
}

/* A PMD maps the whole folio from now on. */
static inline void rmap_add_pmd(struct cpu *c, struct frame *head)
{
	frame_touch(c, head, TOUCH_ATOMIC);
	if (__atomic_add_fetch(&head->entire_mapcount, 1, __ATOMIC_RELAXED))
		return;
	int mapped = __atomic_fetch_add(&head->nr_pages_mapped, FOLIO_ENTIRELY_MAPPED, __ATOMIC_RELAXED);

	vmstat_inc(c, VM_nr_anon_transparent_hugepages);
	vmstat_add(c, VM_nr_anon_pages, (int64_t)HPAGE_PMD_NR - mapped);
}

static inline void rmap_remove_pmd(struct cpu *c, struct frame *head, uint64_t vm_flags)
{
	frame_touch(c, head, TOUCH_ATOMIC);
	if (__atomic_sub_fetch(&head->entire_mapcount, 1, __ATOMIC_RELAXED) < 0) {
		int mapped = __atomic_sub_fetch(&head->nr_pages_mapped, FOLIO_ENTIRELY_MAPPED, __ATOMIC_RELAXED);

		vmstat_add(c, VM_nr_anon_transparent_hugepages, -1);
		vmstat_add(c, VM_nr_anon_pages, mapped - (int64_t)HPAGE_PMD_NR);
		if (mapped && mapped < (int)HPAGE_PMD_NR)
			rmap_partially_mapped(c, head);
	}
	if (vm_flags & VM_LOCKED)
		rmap_munlock(c, head);
}

#endif
