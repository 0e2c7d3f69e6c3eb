/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long turns are. A round is the time in which each tenant of a device has one turn, by weight.
 * A tenant waits for the turns of all others, so the length of the round decides how long: it is
 * the longest that every tenant's latency allows. Pure.
 */
#ifndef ALLOT_SCHED_ROUNDS_H
#define ALLOT_SCHED_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

/* The usual latency, and the least lengths. */
struct rounds_params {
	uint64_t latency_ns;  /* of a tenant that asked for none, ... */
	uint64_t cheap_ns;    /* ... unless turns would be shorter than this on the average ... */
	uint64_t cheap_long_ns; /* ... or this, where all work for long at a time */
	uint64_t least_ns;    /* no turn is planned to be shorter */
	uint64_t hand_over_ns; /* between the last work of a turn and the first of the next */
};

struct rounds_tenant {
	uint32_t weight;     /* at least 1 */
	uint64_t prefer_ns;  /* its turn where no latency says otherwise */
	uint64_t over_ns;    /* how much longer than planned its turns are */
	uint64_t unit_ns;    /* its work that is not interrupted; 0 not known */
	uint64_t burst_ns;   /* its work until it waits; 0: it does not wait for it in its turn */
	uint64_t latency_ns; /* asked; 0: the default; UINT64_MAX: it waits for any time */
};

/* The turn of tenant `of` among those that want the device. */
struct rounds_turn {
	uint64_t slice_ns; /* device time */
	/* By the clock: if it ends later, another waits for longer than it asked for ... */
	uint64_t asked_end_ns;
	uint64_t usual_end_ns; /* ... or than is usual; UINT64_MAX: nobody does */
};

struct rounds_turn rounds_turn_of(const struct rounds_params *params,
				  const struct rounds_tenant *tenant, int n, int of);

/*
 * The shortest turn of a tenant. With a single kernel it is longer than planned, too, if not always
 * by as much.
 */
uint64_t rounds_least_turn_ns(const struct rounds_params *params, uint64_t unit_ns,
			      uint64_t over_ns);

/*
 * The least latency of tenant `of` that turns among these can keep, up to one unit of work that is
 * not interrupted.
 */
uint64_t rounds_least_latency_ns(const struct rounds_params *params,
				 const struct rounds_tenant *tenant, int n, int of);

#endif
