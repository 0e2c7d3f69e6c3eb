/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges of addresses that do not overlap, in their order: pure, no memory of its own. A range is
 * part of what it is of, and may not change while it is in a tree.
 *
 * The tree is a heap by a mix of the bits of where a range begins, which keeps it as shallow as one
 * that is built in random order.
 */
#ifndef ALLOT_PEER_RANGES_H
#define ALLOT_PEER_RANGES_H

#include <stdint.h>

struct range {
	uint64_t first, last; /* both are in it */
	struct range *left, *right;
};

/* All zero is an empty one. */
struct ranges {
	struct range *root;
};

/* -EINVAL: it ends before it begins; -EEXIST: it overlaps one that is there. */
int ranges_insert(struct ranges *tree, struct range *range);

/* Removes a range that is in the tree. */
void ranges_remove(struct ranges *tree, struct range *range);

/* The first range that ends at `address` or behind it, which is the one that has it, if any does;
 * NULL: all end before it. */
struct range *ranges_at_or_after(const struct ranges *tree, uint64_t address);

#endif
