/*
 * Checks of an address space's areas: V1 order, V2 merging, V3 counts, V4 balance and augmentation. Looks at
 * everything, changes nothing, charges nothing. What is wrong goes into q->err as text.
 */
#include "mm/vma_int.h"

#include "mm/text.h"

struct vma_check {
	const struct mm *mm;
	const struct vma *prev; /* area before the one being looked at, in address order */
	uint64_t count, total, locked, data, stack;
	const char *what; /* first thing wrong, NULL: nothing */
	vaddr_t where;
};

static void wrong(struct vma_check *k, const struct vma *v, const char *what)
{
	if (k->what)
		return;
	k->what = what;
	k->where = v ? v->start : 0;
}

/* The area by itself and against the one before it. */
static void check_area(struct vma_check *k, const struct vma *v)
{
	vaddr_t below = k->prev ? k->prev->end : 0;
	struct mm *by_flags = &(struct mm){ .total_vm = 0 };

	if (v->start >= v->end || ((v->start | v->end) & ~PAGE_MASK) || v->end > TASK_SIZE)
		wrong(k, v, "V1 bounds");
	if (k->prev && below > v->start)
		wrong(k, v, "V1 order or overlap");
	if (v->mm != k->mm)
		wrong(k, v, "area of another address space");
	if (v->gap != (vma_start_gap(v) > below ? vma_start_gap(v) - below : 0))
		wrong(k, v, "V4 gap");
	if (k->prev && below == v->start && !v->apart && k->mm->q->knobs.merge_untouched && vma_can_merge(k->prev, v))
		wrong(k, v, "V2 mergeable neighbours");
	if ((v->flags & VM_ACCESS_FLAGS) & ~((v->flags >> 4) & VM_ACCESS_FLAGS))
		wrong(k, v, "right without may-right");
	if (v->anon_touched != (v->anon_id != 0) || (v->anon_forked && !v->anon_touched))
		wrong(k, v, "anon_id");
	vm_account(by_flags, v->flags, (int64_t)vma_pages(v));
	k->total += by_flags->total_vm;
	k->locked += by_flags->locked_vm;
	k->data += by_flags->data_vm;
	k->stack += by_flags->stack_vm;
	k->count++;
	k->prev = v;
}

/* In address order. Returns the height found; gives the largest gap of the subtree. */
static int32_t check_subtree(struct vma_check *k, const struct vma *v, const struct vma *parent, uint64_t *ret_gap)
{
	uint64_t left_gap = 0, right_gap = 0;
	int32_t left, right;

	*ret_gap = 0;
	if (!v || k->what)
		return 0;
	if (v->parent != parent) {
		wrong(k, v, "V4 parent");
		return 0;
	}
	left = check_subtree(k, v->left, v, &left_gap);
	if (k->what)
		return 0;
	check_area(k, v);
	right = check_subtree(k, v->right, v, &right_gap);
	if (left - right > 1 || right - left > 1)
		wrong(k, v, "V4 balance");
	if (v->height != 1 + MAX(left, right))
		wrong(k, v, "V4 height");
	*ret_gap = MAX(v->gap, MAX(left_gap, right_gap));
	if (v->subtree_gap != *ret_gap)
		wrong(k, v, "V4 subtree_gap");
	return v->height;
}

int vma_validate(const struct mm *mm)
{
	struct vma_check k = { .mm = mm };
	struct text t;
	uint64_t gap;

	(void)check_subtree(&k, mm->root, NULL, &gap);
	if (!k.what) {
		if (k.count != mm->map_count)
			wrong(&k, NULL, "V3 map_count");
		if (k.total != mm->total_vm)
			wrong(&k, NULL, "V3 total_vm");
		if (k.locked != mm->locked_vm)
			wrong(&k, NULL, "V3 locked_vm");
		if (k.data != mm->data_vm || k.stack != mm->stack_vm)
			wrong(&k, NULL, "V3 data_vm or stack_vm");
	}
	if (!k.what)
		return 0;
	t = text_into(mm->q->err, sizeof(mm->q->err));
	text_str(&t, "areas: ");
	text_str(&t, k.what);
	text_field(&t, "area", k.where >> PAGE_SHIFT);
	text_field(&t, "areas", k.count);
	text_field(&t, "map_count", mm->map_count);
	return -EINVAL;
}
