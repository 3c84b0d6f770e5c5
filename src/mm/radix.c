/*
 * The radix tree of radix.h. The root's shift says how high the tree is, so that one pointer publishes both when it
 * grows. Each slot that is read or written is charged; locks are the caller's.
 */
#include "base/assert.h"
#include "base/errno.h"
#include "mm/radix.h"
#include "mm/slab.h"
#include "mm/system.h"

static unsigned slot_of(const struct radix_node *n, uint64_t index)
{
	return (unsigned)(index >> n->shift) & (RADIX_SLOTS - 1);
}

static bool covers(const struct radix_node *n, uint64_t index)
{
	return n->shift + RADIX_SHIFT >= 64 || !(index >> (n->shift + RADIX_SHIFT));
}

static void *slot_read(struct cpu *c, struct radix_node *n, unsigned i)
{
	if (c)
		machine_touch(c, machine_pa(c->m, &n->slots[i]), sizeof(void *), TOUCH_READ);
	return __atomic_load_n(&n->slots[i], __ATOMIC_ACQUIRE);
}

static void slot_write(struct cpu *c, struct radix_node *n, unsigned i, void *v)
{
	__atomic_store_n(&n->slots[i], v, __ATOMIC_RELEASE);
	machine_touch(c, machine_pa(c->m, &n->slots[i]), sizeof(void *), TOUCH_WRITE);
}

/*
 * The lowest node on the way to index, with *ret_shift that level's; NULL when the way ends above, with the level at
 * which it does.
 */
static struct radix_node *find_leaf(struct cpu *c, struct radix_node *const *root, uint64_t index, unsigned *ret_shift)
{
	struct radix_node *n = __atomic_load_n(root, __ATOMIC_ACQUIRE);

	*ret_shift = 64;
	if (!n || !covers(n, index))
		return NULL;
	while (n && n->shift) {
		*ret_shift = n->shift;
		n = slot_read(c, n, slot_of(n, index));
	}
	if (n)
		*ret_shift = 0;
	return n;
}

struct frame *radix_lookup(struct cpu *c, struct radix_node *const *root, uint64_t index)
{
	unsigned shift;
	struct radix_node *leaf = find_leaf(c, root, index, &shift);

	return leaf ? slot_read(c, leaf, slot_of(leaf, index)) : NULL;
}

struct frame *radix_next(struct cpu *c, struct radix_node *const *root, uint64_t *index)
{
	for (uint64_t i = *index;;) {
		unsigned shift;
		struct radix_node *leaf = find_leaf(c, root, i, &shift);

		if (leaf) {
			for (unsigned s = slot_of(leaf, i); s < RADIX_SLOTS; s++) {
				struct frame *f = slot_read(c, leaf, s);

				if (f) {
					*index = ALIGN_DOWN(i, RADIX_SLOTS) + s;
					return f;
				}
			}
			shift = RADIX_SHIFT;
		}
		/* Nothing below this slot: on to the next one of that level, if the tree has it. */
		if (shift >= 64 || (i >> shift) + 1 > UINT64_MAX >> shift)
			return NULL;
		i = ((i >> shift) + 1) << shift;
	}
}

static struct radix_node *node_new(struct cpu *c, unsigned shift)
{
	struct radix_node *n = slab_alloc(c, SLAB_RADIX);

	if (n)
		n->shift = shift;
	return n;
}

/* Make the tree high enough for index. */
static int grow(struct cpu *c, struct radix_node **root, uint64_t index)
{
	while (!*root || !covers(*root, index)) {
		struct radix_node *n = node_new(c, *root ? (*root)->shift + RADIX_SHIFT : 0);

		if (!n)
			return -ENOMEM;
		if (*root)
			slot_write(c, n, 0, *root);
		__atomic_store_n(root, n, __ATOMIC_RELEASE);
	}
	return 0;
}

#define RADIX_PRELOAD 6U /* higher than a tree of 2^18 slots, and as deep */

int radix_preload(struct cpu *c)
{
	void *node[RADIX_PRELOAD];
	unsigned n = 0;

	if (likely(c->pc->magazine[SLAB_RADIX].count >= RADIX_PRELOAD))
		return 0;
	while (n < RADIX_PRELOAD && (node[n] = node_new(c, 0)))
		n++;
	for (unsigned i = n; i--;)
		slab_free(c, SLAB_RADIX, node[i]);
	return n == RADIX_PRELOAD ? 0 : -ENOMEM;
}

int radix_insert(struct cpu *c, struct radix_node **root, uint64_t index, struct frame *f)
{
	struct radix_node *n;

	if (grow(c, root, index))
		return -ENOMEM;
	for (n = *root; n->shift;) {
		unsigned i = slot_of(n, index);
		struct radix_node *below = slot_read(c, n, i);

		if (!below) {
			below = node_new(c, n->shift - RADIX_SHIFT);
			if (!below)
				return -ENOMEM;
			slot_write(c, n, i, below);
		}
		n = below;
	}
	if (slot_read(c, n, slot_of(n, index)))
		return -EEXIST;
	slot_write(c, n, slot_of(n, index), f);
	return 0;
}

struct frame *radix_erase(struct cpu *c, struct radix_node **root, uint64_t index)
{
	unsigned shift;
	struct radix_node *leaf = find_leaf(c, root, index, &shift);
	struct frame *f = leaf ? slot_read(c, leaf, slot_of(leaf, index)) : NULL;

	if (f)
		slot_write(c, leaf, slot_of(leaf, index), NULL);
	return f;
}

void radix_replace(struct cpu *c, struct radix_node **root, uint64_t index, struct frame *f)
{
	unsigned shift;
	struct radix_node *leaf = find_leaf(c, root, index, &shift);

	ASSERT(leaf && leaf->slots[slot_of(leaf, index)]);
	slot_write(c, leaf, slot_of(leaf, index), f);
}

/* Children first, without recursion: each node is emptied of its last child before it goes. */
void radix_free(struct cpu *c, struct radix_node **root)
{
	while (*root) {
		struct radix_node **at = root;

		for (;;) {
			struct radix_node *n = *at;
			unsigned i = RADIX_SLOTS;

			while (i && !n->slots[i - 1])
				i--;
			if (!i)
				break;
			ASSERT(n->shift);
			at = (struct radix_node **)(void *)&n->slots[i - 1];
		}
		slab_free(c, SLAB_RADIX, *at);
		*at = NULL;
	}
}
