/*
 * A tree of intervals [start, last], ordered by start, that finds all that overlap a given one (interval.c): an AVL tree whose
 * nodes know the highest last of their subtrees. Nodes lie in their owners; intervals may overlap and be equal. The owner locks.
 * Each node looked at is charged; c NULL: nothing is (validators).
 */
#ifndef QUIRE_MM_INTERVAL_H
#define QUIRE_MM_INTERVAL_H

#include "base/types.h"
#include "machine/machine.h"

struct interval_node {
	uint64_t start, last; /* both included; not to be changed while in a tree */
	struct interval_node *parent, *left, *right;
	uint64_t subtree_last;
	int32_t height; /* 0: in no tree */
};

struct interval_tree {
	struct interval_node *root;
};

static inline bool interval_linked(const struct interval_node *n)
{
	return n->height != 0;
}

static inline bool interval_empty(const struct interval_tree *t)
{
	return !t->root;
}

void interval_insert(struct cpu *c, struct interval_tree *t, struct interval_node *n);
void interval_remove(struct cpu *c, struct interval_tree *t, struct interval_node *n);

/* Those that overlap [start, last], in order of start: NULL at the end. */
struct interval_node *interval_first(struct cpu *c, const struct interval_tree *t, uint64_t start, uint64_t last);
struct interval_node *interval_next(struct cpu *c, const struct interval_node *n, uint64_t start, uint64_t last);

/* Order, links, balance and augmentation. */
bool interval_ok(const struct interval_tree *t);

#endif
