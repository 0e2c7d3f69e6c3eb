/* SPDX-License-Identifier: Apache-2.0 */
#include "peer/ranges.h"

#include <errno.h>
#include <stddef.h>

/* Of two ranges the one with more of it is the upper. No two are the same: it can be undone. */
static uint64_t ranges_height(const struct range *range)
{
	uint64_t x = range->first;

	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

struct range *ranges_at_or_after(const struct ranges *tree, uint64_t address)
{
	struct range *found = NULL, *at = tree->root;

	while (at) {
		if (at->last >= address) {
			found = at;
			at = at->left;
		} else {
			at = at->right;
		}
	}
	return found;
}

/* Splits the tree at `at`: ranges that begin before `first`, and the rest. */
static void ranges_split(struct range *at, uint64_t first, struct range **ret_before,
			 struct range **ret_rest)
{
	while (at) {
		if (at->first < first) {
			*ret_before = at;
			ret_before = &at->right;
			at = at->right;
		} else {
			*ret_rest = at;
			ret_rest = &at->left;
			at = at->left;
		}
	}
	*ret_before = NULL;
	*ret_rest = NULL;
}

int ranges_insert(struct ranges *tree, struct range *range)
{
	const struct range *next;
	struct range **at = &tree->root;

	if (range->last < range->first)
		return -EINVAL;
	next = ranges_at_or_after(tree, range->first);
	if (next && next->first <= range->last)
		return -EEXIST;
	while (*at && ranges_height(*at) > ranges_height(range))
		at = (*at)->first < range->first ? &(*at)->right : &(*at)->left;
	ranges_split(*at, range->first, &range->left, &range->right);
	*at = range;
	return 0;
}

void ranges_remove(struct ranges *tree, struct range *range)
{
	struct range **at = &tree->root, *left = range->left, *right = range->right;

	while (*at != range)
		at = (*at)->first < range->first ? &(*at)->right : &(*at)->left;
	/* Its two halves in its place. */
	while (left && right) {
		if (ranges_height(left) > ranges_height(right)) {
			*at = left;
			at = &left->right;
			left = left->right;
		} else {
			*at = right;
			at = &right->left;
			right = right->left;
		}
	}
	*at = left ? left : right;
	range->left = range->right = NULL;
}
