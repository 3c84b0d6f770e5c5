/*
 * A tree of intervals [start, last], ordered by start, that finds all that overlap a given one (interval.c): an AVL tree whose
 * nodes know the highest last of their subtrees. Nodes lie in their owners; intervals may overlap and be equal. The owner locks.
 */
#ifndef QUIRE_MM_INTERVAL_H
#define QUIRE_MM_INTERVAL_H

#include "base/types.h"

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

/* Both return how many nodes were looked at, for those who charge. */
uint64_t interval_insert(struct interval_tree *t, struct interval_node *n);
uint64_t interval_remove(struct interval_tree *t, struct interval_node *n);

/* The overlapping ones in order of start: NULL at the end. *visited (may be NULL) is raised by the nodes looked at. */
struct interval_node *interval_first(const struct interval_tree *t, uint64_t start, uint64_t last, uint64_t *visited);
struct interval_node *interval_next(const struct interval_node *n, uint64_t start, uint64_t last, uint64_t *visited);

/* Order, balance and augmentation. */
bool interval_ok(const struct interval_tree *t);

#endif
