/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/account.h"

void account_begin(struct account *a, uint64_t bytes)
{
	a->under_way_bytes += bytes;
	a->calls++;
}

void account_cancel(struct account *a, uint64_t bytes)
{
	a->under_way_bytes -= bytes;
	a->calls--;
}

void account_end(struct account *a, uint64_t bytes)
{
	account_cancel(a, bytes);
	a->over_bytes += bytes;
}

static uint64_t account_promised_bytes(const struct account *a)
{
	return a->settled_bytes + a->over_bytes + a->under_way_bytes;
}

bool account_read(struct account *a, uint64_t figure_bytes)
{
	a->figure_bytes = figure_bytes;
	if (!a->calls || figure_bytes >= account_promised_bytes(a)) {
		*a = (struct account){.settled_bytes = figure_bytes, .figure_bytes = figure_bytes};
		return true;
	}
	/*
	 * Each is at least the settled memory without the calls under way: the smaller is nearer.
	 */
	a->settled_bytes += a->over_bytes;
	a->over_bytes = 0;
	if (a->settled_bytes > figure_bytes)
		a->settled_bytes = figure_bytes;
	return false;
}

bool account_open(const struct account *a)
{
	return a->calls || a->over_bytes;
}

uint64_t account_bytes(const struct account *a)
{
	return account_promised_bytes(a) > a->figure_bytes ? account_promised_bytes(a)
							   : a->figure_bytes;
}
