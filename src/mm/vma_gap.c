/*
 * Where a mapping goes (get_unmapped_area): top-down below mmap_base, keeping the guard below stacks free; bottom-up
 * for MAP_32BIT and when the top-down search finds nothing. Both searches are O(log n) through subtree_gap. mmap_lock
 * held.
 *
 * Alignment. Since 6.7 Linux places private anonymous mappings so that huge pages fit; since 6.13 (and in the stable
 * series) only when the length is a multiple of 2 MiB and no hint was given. quire.thp_align_mmap = true means that
 * current behaviour, false that before 6.7. Files are placed so that huge pages of the file would be aligned, as the
 * common file systems have it since 5.18.
 */
#include "mm/vma_int.h"

#define GAP_NONE (~0ULL)
#define BOTTOM_UP_BASE ALIGN_UP(TASK_SIZE / 3, PAGE_SIZE)
#define LOW_32BIT 0x40000000ULL
#define HIGH_32BIT 0x80000000ULL
#define DEFAULT_MMAP_BASE (TASK_SIZE - (128ULL << 20))

struct gap_search {
	uint64_t len;
	vaddr_t low, high; /* the mapping must lie in [low, high) */
	uint64_t visited;
};

/* The free range below v, cut to the limits: does the mapping fit? */
static bool gap_fits(const struct gap_search *s, const struct vma *v, vaddr_t *ret_from, vaddr_t *ret_to)
{
	vaddr_t to = vma_start_gap(v), from = to - v->gap;

	*ret_from = MAX(from, s->low);
	*ret_to = MIN(to, s->high);
	return v->gap && *ret_to > *ret_from && *ret_to - *ret_from >= s->len;
}

static void gap_visit(struct cpu *c, struct gap_search *s, const struct vma *v)
{
	machine_touch(c, machine_pa(c->m, v), CACHE_LINE, TOUCH_READ);
	s->visited++;
}

static vaddr_t gap_highest(struct cpu *c, struct gap_search *s, const struct vma *v)
{
	vaddr_t from, to, found;

	for (; v && v->subtree_gap >= s->len; v = v->left) {
		gap_visit(c, s, v);
		if (v->right && v->end < s->high) {
			found = gap_highest(c, s, v->right);
			if (found != GAP_NONE)
				return found;
		}
		if (gap_fits(s, v, &from, &to))
			return to - s->len;
		if (v->start <= s->low)
			break; /* all that is left lies lower still */
	}
	return GAP_NONE;
}

static vaddr_t gap_lowest(struct cpu *c, struct gap_search *s, const struct vma *v)
{
	vaddr_t from, to, found;

	for (; v && v->subtree_gap >= s->len; v = v->right) {
		gap_visit(c, s, v);
		if (v->left && v->start > s->low) {
			found = gap_lowest(c, s, v->left);
			if (found != GAP_NONE)
				return found;
		}
		if (gap_fits(s, v, &from, &to))
			return from;
		if (v->end >= s->high)
			break;
	}
	return GAP_NONE;
}

/* End of the highest area: what lies above is the one gap that no node holds. */
static vaddr_t highest_end(const struct mm *mm)
{
	const struct vma *v = mm->root;

	while (v && v->right)
		v = v->right;
	return v ? v->end : 0;
}

ATTR_NOINLINE static int64_t vma_gap_topdown(struct cpu *c, struct mm *mm, uint64_t len, vaddr_t low, vaddr_t high)
{
	enum machine_path outer = machine_work(c, PATH_VMA_GAP, 0);
	struct gap_search s = { .len = len, .low = low, .high = high, .visited = 1 };
	vaddr_t above = MAX(highest_end(mm), low), found;

	if (high > above && high - above >= len)
		found = high - len;
	else
		found = gap_highest(c, &s, mm->root);
	(void)machine_work(c, PATH_VMA_GAP, s.visited);
	machine_path(c, outer);
	return found == GAP_NONE ? -ENOMEM : (int64_t)found;
}

ATTR_NOINLINE static int64_t vma_gap_bottomup(struct cpu *c, struct mm *mm, uint64_t len, vaddr_t low, vaddr_t high)
{
	enum machine_path outer = machine_work(c, PATH_VMA_GAP, 0);
	struct gap_search s = { .len = len, .low = low, .high = high, .visited = 1 };
	vaddr_t above = MAX(highest_end(mm), low), found = gap_lowest(c, &s, mm->root);

	if (found == GAP_NONE && high > above && high - above >= len)
		found = above;
	(void)machine_work(c, PATH_VMA_GAP, s.visited);
	machine_path(c, outer);
	return found == GAP_NONE ? -ENOMEM : (int64_t)found;
}

/* Is [addr, addr + len) free and clear of the guard below the next area? */
static bool range_free(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len)
{
	const struct vma *v = vma_find(c, mm, addr);

	return !v || addr + len <= vma_start_gap(v);
}

/* MAP_32BIT: between 1 and 2 GiB, from below. Otherwise the fallback of the top-down search. */
static int64_t place_bottomup(struct cpu *c, struct mm *mm, vaddr_t hint, uint64_t len, unsigned map_flags)
{
	bool low32 = (map_flags & UAPI_MAP_32BIT) != 0;
	vaddr_t low = low32 ? LOW_32BIT : BOTTOM_UP_BASE, high = low32 ? HIGH_32BIT : TASK_SIZE;

	if (len > high)
		return -ENOMEM;
	hint = ALIGN_UP(hint, PAGE_SIZE);
	if (hint && hint <= high - len && range_free(c, mm, hint, len))
		return (int64_t)hint;
	return vma_gap_bottomup(c, mm, len, low, high);
}

static int64_t place(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, unsigned map_flags)
{
	vaddr_t base = mm->mmap_base ? mm->mmap_base : DEFAULT_MMAP_BASE;
	vaddr_t low = map_flags & UAPI_MAP_ABOVE4G ? 1ULL << 32 : PAGE_SIZE, hint = addr & PAGE_MASK;
	int64_t r;

	if (len > TASK_SIZE)
		return -ENOMEM;
	if (map_flags & UAPI_MAP_FIXED)
		return (int64_t)addr;
	if (map_flags & UAPI_MAP_32BIT)
		return place_bottomup(c, mm, addr, len, map_flags);
	if (hint && hint <= TASK_SIZE - len && range_free(c, mm, hint, len))
		return (int64_t)hint;
	low = MAX(low, ALIGN_UP(mm->q->knobs.mmap_min_addr, PAGE_SIZE));
	r = vma_gap_topdown(c, mm, len, low, base);
	return r < 0 ? place_bottomup(c, mm, addr, len, map_flags) : r;
}

/*
 * Look for 2 MiB more than needed and take the part of it that puts offset `off` of the object on a 2 MiB boundary.
 * 0: not possible, or not worth it.
 */
static int64_t place_aligned(struct cpu *c, struct mm *mm, vaddr_t hint, uint64_t len, uint64_t off, unsigned map_flags)
{
	uint64_t first = ALIGN_UP(off, PMD_SIZE), end = off + len, shift;
	int64_t r;

	if (end <= first || end - first < PMD_SIZE)
		return 0;
	r = place(c, mm, hint, len + PMD_SIZE, map_flags);
	if (r < 0)
		return 0;
	if ((vaddr_t)r == hint)
		return r;
	shift = (off - (uint64_t)r) & (PMD_SIZE - 1);
	/* From the top downwards: where the padded range is aligned already, leave the padding below and not above. */
	return r + (int64_t)(shift ? shift : PMD_SIZE);
}

static bool wants_alignment(const struct mm *mm, const struct mfile *file, vaddr_t addr, uint64_t len,
			    unsigned map_flags)
{
	if (map_flags & (UAPI_MAP_FIXED | UAPI_MAP_32BIT))
		return false;
	if (file)
		return !file->shmem;
	if ((map_flags & UAPI_MAP_TYPE) != UAPI_MAP_PRIVATE)
		return false; /* shared anonymous memory is placed by shmem, which aligns only when it has huge pages */
	return mm->q->knobs.thp_align_mmap && !addr && IS_ALIGNED(len, PMD_SIZE);
}

vaddr_t vma_round_hint(const struct mm *mm, vaddr_t addr)
{
	addr &= PAGE_MASK;
	return addr && addr < mm->q->knobs.mmap_min_addr ? ALIGN_UP(mm->q->knobs.mmap_min_addr, PAGE_SIZE) : addr;
}

int64_t vma_get_unmapped_huge(struct cpu *c, struct mm *mm, vaddr_t addr, uint64_t len, uint64_t size, unsigned map_flags)
{
	vaddr_t hint = ALIGN_UP(addr, size);
	int64_t r;

	if (len > TASK_SIZE)
		return -ENOMEM;
	if (map_flags & UAPI_MAP_FIXED) {
		if (addr & (size - 1))
			return -EINVAL;
		r = (int64_t)addr;
	} else if (hint && hint <= TASK_SIZE - len && range_free(c, mm, hint, len)) {
		r = (int64_t)hint;
	} else {
		r = len + size - PAGE_SIZE > TASK_SIZE ? -ENOMEM : place(c, mm, 0, len + size - PAGE_SIZE, map_flags);
		if (r < 0)
			return r;
		r = (int64_t)ALIGN_UP((vaddr_t)r, size);
	}
	if ((vaddr_t)r > TASK_SIZE - len)
		return -ENOMEM;
	return (vaddr_t)r < mm->q->knobs.mmap_min_addr ? -EPERM : r;
}

int64_t vma_get_unmapped(struct cpu *c, struct mm *mm, const struct mfile *file, vaddr_t addr, uint64_t len,
			 uint64_t pgoff, unsigned map_flags)
{
	int64_t r = 0;

	if (len > TASK_SIZE)
		return -ENOMEM;
	if (wants_alignment(mm, file, addr, len, map_flags))
		r = place_aligned(c, mm, addr, len, file ? pgoff << PAGE_SHIFT : 0, map_flags);
	if (!r)
		r = place(c, mm, addr, len, map_flags);
	if (r < 0 && !(map_flags & UAPI_MAP_FIXED))
		return r;
	if ((vaddr_t)r > TASK_SIZE - len)
		return -ENOMEM;
	if ((vaddr_t)r & ~PAGE_MASK)
		return -EINVAL;
	return (vaddr_t)r < mm->q->knobs.mmap_min_addr ? -EPERM : r;
}
