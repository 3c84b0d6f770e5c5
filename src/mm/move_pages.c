/*
 * Moving pages by hand: move_pages(2), migrate_pages(2), and mbind(2)'s MPOL_MF_MOVE.
 *
 * One folio at a time goes through migrate_pages, which counts it. mmap_lock is held for reading only while the page is looked up, so
 * what happens to it meanwhile is what migration already copes with. A huge page moves whole, or not at all where there is no room
 * for it. Pages that several mappings have stay without MPOL_MF_MOVE_ALL (-EACCES). Charged as PATH_MADVISE by the call, and PATH_VMA_FIND.
 */
#include "mm/fault_int.h"
#include "mm/follow.h"
#include "mm/mempolicy.h"
#include "mm/migrate.h"
#include "mm/rmap.h"
#include "mm/vma_int.h"

static struct frame *get_on_node(struct cpu *c, const struct frame *src, void *arg)
{
	bool huge = frame_order(src) != 0;
	struct alloc_req r = { .order = frame_order(src), .gfp = huge ? GFP_TRANSHUGE | GFP_THISNODE : GFP_HIGHUSER_MOVABLE | GFP_THISNODE,
			       .nid = *(const int *)arg };

	return page_alloc(c, &r);
}

static bool mapped_once(const struct frame *head)
{
	return frame_mapcount(head) + (frame_order(head) ? frame_entire_mapcount(head) : 0) <= 1;
}

/* Takes over the reference. 0, or why it is not on nid now. */
static int move_folio(struct cpu *c, struct frame *folio, int nid, unsigned flags, enum migrate_reason why)
{
	const struct migrate_target t = { .get = get_on_node, .arg = &nid };
	struct list_head l;
	int rc;

	list_init(&l);
	if (frame_nid(folio) == nid)
		rc = 0;
	else if (!(flags & MPOL_MF_MOVE_ALL) && !mapped_once(folio))
		rc = -EACCES;
	else
		rc = migrate_isolate(c, folio, &l);
	frame_put(c, folio);
	if (!rc && !list_empty(&l)) {
		rc = migrate_pages(c, &l, &t, MIGRATE_SYNC, why, NULL);
		migrate_putback(c, &l);
		rc = rc > 0 ? -EBUSY : rc;
	}
	return rc;
}

/* The folio at va. NULL: *ret_err says why (-EFAULT: no area, -ENOENT: no page). */
static struct frame *look_up(struct cpu *c, struct mm *mm, vaddr_t va, int *ret_err)
{
	struct frame *folio = NULL;
	struct vma *v;

	machine_read_lock(c, &mm->mmap_lock);
	v = va < TASK_SIZE ? vma_lookup(c, mm, va) : NULL;
	*ret_err = v ? -ENOENT : -EFAULT;
	if (v)
		folio = follow_folio(c, v, va, NULL);
	machine_read_unlock(c, &mm->mmap_lock);
	return folio;
}

int64_t mm_move_pages(struct cpu *c, struct mm *mm, uint64_t n, const vaddr_t *pages, const int *nodes, int *status, unsigned flags)
{
	enum machine_path outer;
	int64_t left = 0;

	if (flags & ~(MPOL_MF_MOVE | MPOL_MF_MOVE_ALL))
		return -EINVAL;
	if (n && (!pages || !status))
		return -EFAULT;
	outer = machine_work(c, PATH_MADVISE, 1);
	for (uint64_t i = 0; i < n && left >= 0; i++) {
		struct frame *folio;

		if (nodes && (nodes[i] < 0 || nodes[i] >= MACHINE_MAX_NODES || !(mpol_mems_allowed(mm->q) >> nodes[i] & 1))) {
			left = -ENODEV;
			break;
		}
		folio = look_up(c, mm, pages[i], &status[i]);
		if (!folio)
			continue;
		if (nodes) {
			int rc = move_folio(c, folio, nodes[i], flags, MR_SYSCALL);

			status[i] = rc ? rc : nodes[i];
			left += rc == -EBUSY || rc == -ENOMEM;
		} else {
			status[i] = frame_nid(folio);
			frame_put(c, folio);
		}
	}
	machine_path(c, outer);
	return left;
}

/* The page where the next folio could begin, for whoever goes through a range. */
static vaddr_t after(const struct vma *v, vaddr_t va, bool huge)
{
	return huge ? MIN(ALIGN_DOWN(va, PMD_SIZE) + PMD_SIZE, v->end) : va + PAGE_SIZE;
}

/* The next folio in [*va, end); *va: behind it. NULL: there is none. mmap_lock held. */
static struct frame *next_folio(struct cpu *c, struct mm *mm, vaddr_t *va, vaddr_t end, struct vma **ret_v)
{
	struct vma *v = vma_find(c, mm, *va);

	for (; v && v->start < end; v = vma_next_charged(c, v)) {
		vaddr_t at = MAX(*va, v->start);

		while (at < MIN(v->end, end) && !(v->flags & (VM_HUGETLB | VM_SPECIAL))) {
			struct pt_ref pmd;
			struct frame *f;

			if (pt_pmd(c, mm, at, false, &pmd) || !pte_read(c, &pmd)) {
				at = after(v, at, true);
				continue;
			}
			f = follow_folio(c, v, at, NULL);
			*ret_v = v;
			*va = at = after(v, at, f && frame_order(f) == HPAGE_PMD_ORDER && pmd_leaf(pte_read(c, &pmd)));
			if (f)
				return f;
		}
		*va = MAX(*va, v->end);
	}
	return NULL;
}

int64_t mpol_move_range(struct cpu *c, struct mm *mm, vaddr_t start, vaddr_t end, unsigned id, unsigned flags, bool look_only)
{
	int64_t left = 0;

	for (;;) {
		struct vma *v = NULL;
		struct frame *f;
		int want;

		if (!look_only)
			machine_read_lock(c, &mm->mmap_lock);
		f = next_folio(c, mm, &start, end, &v);
		want = f ? mpol_node_for(c, v, id, start - PAGE_SIZE) : NID_NONE;
		if (!look_only)
			machine_read_unlock(c, &mm->mmap_lock);
		if (!f)
			return left;
		if (mpol_allows(mm->q, id, frame_nid(f))) {
			frame_put(c, f);
		} else if (look_only) {
			frame_put(c, f);
			left++;
		} else {
			left += move_folio(c, f, want, flags, MR_MEMPOLICY_MBIND) != 0;
		}
	}
}

int64_t mm_migrate_pages(struct cpu *c, struct mm *mm, uint64_t from, uint64_t to)
{
	uint64_t allowed = mpol_mems_allowed(mm->q);
	enum machine_path outer;
	vaddr_t va = 0;
	int64_t left = 0;

	if (!(to & allowed) || (to & ~allowed))
		return -EINVAL;
	outer = machine_work(c, PATH_MADVISE, 1);
	for (;;) {
		struct vma *v = NULL;
		struct frame *f;
		unsigned nth;

		machine_read_lock(c, &mm->mmap_lock);
		f = next_folio(c, mm, &va, TASK_SIZE, &v);
		machine_read_unlock(c, &mm->mmap_lock);
		if (!f)
			break;
		if (!(from >> frame_nid(f) & 1) || (to >> frame_nid(f) & 1)) {
			frame_put(c, f);
			continue;
		}
		nth = bits_set(from & ((1ULL << frame_nid(f)) - 1)) % bits_set(to);
		left += move_folio(c, f, mpol_nth_node(to, nth), MPOL_MF_MOVE, MR_SYSCALL) != 0;
	}
	machine_path(c, outer);
	return left;
}
