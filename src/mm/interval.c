/* Interval trees: interval.h. Nothing here can fail or sleep. */
#include "mm/interval.h"

static void touch(struct cpu *c, const struct interval_node *n, enum touch_kind kind)
{
	if (c)
		machine_touch(c, machine_pa(c->m, n), sizeof(*n), kind);
}

static int32_t height_of(const struct interval_node *n)
{
	return n ? n->height : 0;
}

static uint64_t last_of(const struct interval_node *n)
{
	return n ? n->subtree_last : 0;
}

/* ---- balance and augmentation ---- */

static void update(struct interval_node *n)
{
	n->height = 1 + MAX(height_of(n->left), height_of(n->right));
	n->subtree_last = MAX(n->last, MAX(last_of(n->left), last_of(n->right)));
}

/* `to` (may be NULL) takes the place that n has under its parent. */
static void replace_child(struct interval_tree *t, const struct interval_node *n, struct interval_node *to)
{
	struct interval_node *p = n->parent;

	if (!p)
		t->root = to;
	else if (p->left == n)
		p->left = to;
	else
		p->right = to;
	if (to)
		to->parent = p;
}

static struct interval_node *rotate_left(struct interval_tree *t, struct interval_node *n)
{
	struct interval_node *r = n->right;

	replace_child(t, n, r);
	n->right = r->left;
	if (n->right)
		n->right->parent = n;
	r->left = n;
	n->parent = r;
	update(n);
	update(r);
	return r;
}

static struct interval_node *rotate_right(struct interval_tree *t, struct interval_node *n)
{
	struct interval_node *l = n->left;

	replace_child(t, n, l);
	n->left = l->right;
	if (n->left)
		n->left->parent = n;
	l->right = n;
	n->parent = l;
	update(n);
	update(l);
	return l;
}

static struct interval_node *level_out(struct cpu *c, struct interval_tree *t, struct interval_node *n)
{
	int32_t lean = height_of(n->left) - height_of(n->right);

	if (lean > 1) {
		touch(c, n->left, TOUCH_WRITE);
		if (height_of(n->left->left) < height_of(n->left->right))
			rotate_left(t, n->left);
		return rotate_right(t, n);
	}
	if (lean < -1) {
		touch(c, n->right, TOUCH_WRITE);
		if (height_of(n->right->right) < height_of(n->right->left))
			rotate_right(t, n->right);
		return rotate_left(t, n);
	}
	return n;
}

/* From n upwards, until nothing changes any more. */
static void settle(struct cpu *c, struct interval_tree *t, struct interval_node *n)
{
	while (n) {
		int32_t was_height = n->height;
		uint64_t was_last = n->subtree_last;
		struct interval_node *top;

		touch(c, n, TOUCH_WRITE);
		update(n);
		top = level_out(c, t, n);
		if (top == n && n->height == was_height && n->subtree_last == was_last)
			return;
		n = top->parent;
	}
}

void interval_insert(struct cpu *c, struct interval_tree *t, struct interval_node *n)
{
	struct interval_node **at = &t->root, *parent = NULL;

	while (*at) {
		parent = *at;
		touch(c, parent, TOUCH_READ);
		at = n->start < parent->start ? &parent->left : &parent->right;
	}
	n->parent = parent;
	n->left = n->right = NULL;
	*at = n;
	touch(c, n, TOUCH_WRITE);
	update(n);
	settle(c, t, parent);
}

void interval_remove(struct cpu *c, struct interval_tree *t, struct interval_node *n)
{
	struct interval_node *from, *s = NULL;

	touch(c, n, TOUCH_WRITE);
	if (n->left && n->right) {
		for (s = n->right; s->left; s = s->left)
			touch(c, s, TOUCH_READ);
		from = s;
		if (s->parent != n) {
			from = s->parent;
			replace_child(t, s, s->right);
			s->right = n->right;
			s->right->parent = s;
		}
		s->left = n->left;
		s->left->parent = s;
		replace_child(t, n, s);
		s->height = n->height; /* of the place; settle makes it true */
		s->subtree_last = n->subtree_last;
	} else {
		from = n->parent;
		replace_child(t, n, n->left ? n->left : n->right);
	}
	n->parent = n->left = n->right = NULL;
	n->height = 0;
	settle(c, t, from);
	if (s && s != from)
		settle(c, t, s);
}

/* ---- search ---- */

/* The first of n's subtree that overlaps; there must be a chance: n->subtree_last >= start. */
static struct interval_node *subtree_first(struct cpu *c, struct interval_node *n, uint64_t start, uint64_t last)
{
	while (n) {
		touch(c, n, TOUCH_READ);
		if (n->left && n->left->subtree_last >= start) {
			n = n->left; /* if none of these overlaps, they begin too late, and so does all that follows */
			continue;
		}
		if (n->start > last)
			return NULL;
		if (n->last >= start)
			return n;
		if (!n->right || n->right->subtree_last < start)
			return NULL;
		n = n->right;
	}
	return NULL;
}

struct interval_node *interval_first(struct cpu *c, const struct interval_tree *t, uint64_t start, uint64_t last)
{
	if (!t->root || t->root->subtree_last < start)
		return NULL;
	return subtree_first(c, t->root, start, last);
}

struct interval_node *interval_next(struct cpu *c, const struct interval_node *n, uint64_t start, uint64_t last)
{
	for (;;) {
		const struct interval_node *up;

		if (n->right && n->right->subtree_last >= start)
			return subtree_first(c, n->right, start, last);
		for (up = n->parent; up && up->right == n; up = up->parent)
			n = up;
		if (!up)
			return NULL;
		n = up;
		touch(c, n, TOUCH_READ);
		if (n->start > last)
			return NULL;
		if (n->last >= start)
			return (struct interval_node *)(uintptr_t)n;
	}
}

/* ---- checks ---- */

static bool subtree_ok(const struct interval_node *n, const struct interval_node *parent)
{
	if (!n)
		return true;
	if (n->parent != parent || n->start > n->last || (n->left && n->left->start > n->start) ||
	    (n->right && n->right->start < n->start))
		return false;
	if (n->height != 1 + MAX(height_of(n->left), height_of(n->right)) || height_of(n->left) - height_of(n->right) > 1 ||
	    height_of(n->right) - height_of(n->left) > 1)
		return false;
	return n->subtree_last == MAX(n->last, MAX(last_of(n->left), last_of(n->right))) && subtree_ok(n->left, n) &&
	       subtree_ok(n->right, n);
}

bool interval_ok(const struct interval_tree *t)
{
	return subtree_ok(t->root, NULL);
}
