/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/stranded.h"

#include <stddef.h>

#include "base/number.h"

enum stranded_kind {
	STRANDED_NONE, /* it has nothing there */
	STRANDED_LEAVES,
	STRANDED_SHARES,
	STRANDED_STAYS,
};

static enum stranded_kind stranded_kind(const struct stranded *sum,
					const struct stranded_holder *holder)
{
	if (!holder || !holder->here)
		return STRANDED_NONE;
	if (holder->stopped)
		return STRANDED_STAYS;
	if (holder->has_file)
		return STRANDED_LEAVES;
	if (holder->most_bytes)
		return sat_add_u64(holder->here_all, holder->away) <= holder->most_bytes
			       ? STRANDED_LEAVES
			       : STRANDED_STAYS;
	return holder->here_all <= sum->host_free ? STRANDED_SHARES : STRANDED_STAYS;
}

void stranded_begin(struct stranded *sum, uint64_t host_free_bytes)
{
	*sum = (struct stranded){.host_free = host_free_bytes, .part = 1};
}

static void stranded_note_largest(struct stranded *sum, uint64_t bytes)
{
	if (bytes >= sum->largest) {
		sum->second = sum->largest;
		sum->largest = bytes;
	} else {
		sum->second = max_u64(sum->second, bytes);
	}
}

void stranded_add(struct stranded *sum, const struct stranded_holder *holder)
{
	enum stranded_kind kind = stranded_kind(sum, holder);
	double part;

	if (kind == STRANDED_NONE)
		return;
	part = (double)holder->here / (double)max_u64(holder->here_all, holder->here);
	sum->part = part < sum->part ? part : sum->part;
	if (kind == STRANDED_STAYS) {
		sum->stays = sat_add_u64(sum->stays, holder->here);
		return;
	}
	sum->needs = sat_add_u64(sum->needs, holder->here_all);
	if (kind == STRANDED_LEAVES) {
		sum->leaves = sat_add_u64(sum->leaves, holder->here);
		return;
	}
	sum->shares = sat_add_u64(sum->shares, holder->here);
	stranded_note_largest(sum, holder->here_all);
}

/* Takes off one holder's part of the sum. `part` stays: too small a value strands more. */
static struct stranded stranded_without(const struct stranded *sum, const struct stranded_holder *own)
{
	enum stranded_kind kind = stranded_kind(sum, own);
	struct stranded others = *sum;

	if (kind == STRANDED_STAYS)
		others.stays = sat_sub_u64(others.stays, own->here);
	if (kind == STRANDED_LEAVES)
		others.leaves = sat_sub_u64(others.leaves, own->here);
	if (kind == STRANDED_SHARES)
		others.shares = sat_sub_u64(others.shares, own->here);
	if (kind == STRANDED_SHARES && own->here_all == sum->largest)
		others.largest = sum->second;
	if (kind == STRANDED_LEAVES || kind == STRANDED_SHARES)
		others.needs = sat_sub_u64(others.needs, own->here_all);
	return others;
}

/*
 * The order in which tenants are evicted is not known here. If the host has no room for all, one of
 * those that share it stays on the device when the evicted memory leaves too little room for the
 * largest of them. So this is the amount that can be evicted in any order, or, if that is more, all
 * of the tenants that can be evicted whatever is free.
 */
uint64_t stranded_for(const struct stranded *sum, const struct stranded_holder *own)
{
	struct stranded others = stranded_without(sum, own);
	uint64_t sure = (uint64_t)(others.part * (double)sat_sub_u64(others.host_free, others.largest));

	if (others.needs <= others.host_free && !others.stays)
		return 0;
	return sat_add_u64(others.stays,
			   sat_sub_u64(others.shares, sat_sub_u64(sure, others.leaves)));
}
