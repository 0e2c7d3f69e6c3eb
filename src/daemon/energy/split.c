/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/energy/split.h"

#include <errno.h>

#include "base/number.h"

/* A sample counts 37 % when a thousand came after it, which is 20 s. */
#define KEEP 0.999
/* A tenant that was seen in hardly a sample draws what all do together. */
#define DOUBT 0.05
/* Samples follow what the device draws: some are too high yet when its work is over. */
#define RESTED 3
/* The power at rest changes with clocks, which rise with the first context, and with heat. */
#define REST_FOLLOWS 0.05
/*
 * Much more than that is work: of a kernel that is not billed yet, or of a program that nobody measures.
 * If it stays for a minute, it counts as rest.
 */
#define REST_MOST   1.5
#define REST_CREEPS 0.0005
/* Samples below it, one behind the other, before it falls: one by one they are noise. */
#define BELOW 3

int split_enter(struct split *split)
{
	for (int i = 0; i < SPLIT_TENANTS; i++)
		if (!split->tenant[i].taken) {
			split->tenant[i] = (struct split_tenant){.taken = true};
			return i;
		}
	return -ENOSPC;
}

/* Its power is taken out of the others' sums. */
void split_leave(struct split *split, int tenant)
{
	for (int i = 0; i < SPLIT_TENANTS; i++) {
		split->tenant[i].drawn -=
			split->tenant[i].with[tenant] * split->tenant[tenant].watts;
		split->tenant[i].with[tenant] = 0;
	}
	split->tenant[tenant].taken = false;
}

static void split_rest(struct split *split, double watts)
{
	if (split->rested++ < RESTED)
		return;
	if (!split->rest_watts)
		split->rest_watts = watts;
	split->rest_watts += (watts - split->rest_watts) *
			     (watts > split->rest_watts * REST_MOST ? REST_CREEPS : REST_FOLLOWS);
}

/* At rest the device takes no more than it does at any time. */
static void split_fall(struct split *split, double watts)
{
	split->below = watts < split->rest_watts ? split->below + 1 : 0;
	if (split->below >= BELOW)
		split->rest_watts += (watts - split->rest_watts) * REST_FOLLOWS;
}

/* Adds a sample, of which the part `together` was work, of whosever. */
static void split_sum(struct split *split, double drawn, const double part[static SPLIT_TENANTS],
		      double together)
{
	for (int i = 0; i < SPLIT_TENANTS; i++) {
		struct split_tenant *tenant = &split->tenant[i];

		if (!tenant->taken)
			continue;
		tenant->seen += part[i];
		tenant->drawn = tenant->drawn * KEEP + part[i] * drawn;
		for (int k = 0; k < SPLIT_TENANTS; k++)
			if (split->tenant[k].taken)
				tenant->with[k] = tenant->with[k] * KEEP + part[i] * part[k];
	}
	split->together_square = split->together_square * KEEP + together * together;
	split->together_drawn = split->together_drawn * KEEP + together * drawn;
}

/* The power that the work of all has in common. */
static double split_common(const struct split *split)
{
	return split->together_square > 0 ? split->together_drawn / split->together_square : 0;
}

/* One sweep of Gauss-Seidel: from one sample to the next little changes. */
static void split_solve(struct split *split)
{
	double common = split_common(split);

	for (int i = 0; i < SPLIT_TENANTS; i++) {
		struct split_tenant *tenant = &split->tenant[i];
		double left = tenant->drawn + DOUBT * common;

		if (!tenant->taken || !tenant->seen)
			continue;
		for (int k = 0; k < SPLIT_TENANTS; k++)
			if (k != i && split->tenant[k].taken)
				left -= tenant->with[k] * split->tenant[k].watts;
		tenant->watts = left / (tenant->with[i] + DOUBT);
		if (tenant->watts < 0)
			tenant->watts = 0;
	}
}

void split_learn(struct split *split, double watts, const double part[static SPLIT_TENANTS])
{
	double together = 0;

	split_fall(split, watts);
	for (int i = 0; i < SPLIT_TENANTS; i++)
		together += part[i];
	if (!together) {
		split_rest(split, watts);
		return;
	}
	split->rested = 0;
	split_sum(split, watts - split->rest_watts, part, together);
	split_solve(split);
}

void split_took(struct split *split, uint64_t uj)
{
	split->energy_uj += uj;
}

uint64_t split_give(struct split *split, int tenant, uint64_t busy_ns, uint64_t before_uj)
{
	const struct split_tenant *of = &split->tenant[tenant];
	/* Work of which no sample was seen took as much as that of all. */
	double watts = of->seen > 0 ? of->watts : split_common(split);
	double uj = watts * (double)busy_ns / 1000 - (double)before_uj;
	uint64_t left = sat_sub_u64(split->energy_uj, split->given_uj);
	uint64_t give = uj <= 0 ? 0 : uj < (double)left ? (uint64_t)uj : left;

	split->given_uj += give;
	return give;
}
