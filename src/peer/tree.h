/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses that do not overlap, in their order: pure, no memory of its own. A range is
 * part of what it is of, and may not change while it is in a tree.
 *
 * The tree is a heap by a mix of the bits of where a range begins, which keeps it as shallow as one
 * that is built in random order.
 */
#ifndef ALLOT_PEER_TREE_H
#define ALLOT_PEER_TREE_H

#include <stdint.h>

struct tree_range {
	uint64_t first, last; /* both are in it */
	struct tree_range *left, *right;
};

/* All zero is an empty one. */
struct range_tree {
	struct tree_range *root;
};

/* -EINVAL: it ends before it begins; -EEXIST: it overlaps one that is there. */
int tree_insert(struct range_tree *tree, struct tree_range *range);

/* One that is in the tree. */
void tree_remove(struct range_tree *tree, struct tree_range *range);

/* The first range that ends at `address` or behind it, which is the one that has it, if any does;
 * NULL: all end before it. */
struct tree_range *tree_at_or_after(const struct range_tree *tree, uint64_t address);

#endif
