/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stranded memory: memory of tenants that take turns which cannot be moved off a device, since the
 * host has no room for it or they are stopped. It is not free for another tenant, whatever its
 * turn. Pure functions.
 *
 * A part of a tenant's memory is moved in whole pieces, which may be as large as all of it. Their
 * sizes are known to its processes alone, and only while they are stopped. So a tenant counts as
 * movable if the host has room for all of its memory on devices, and otherwise as one that stays.
 */
#ifndef ALLOT_SCHED_STRANDED_H
#define ALLOT_SCHED_STRANDED_H

#include <stdbool.h>
#include <stdint.h>

/* One tenant's memory. */
struct stranded_holder {
	uint64_t here;	     /* on the device in question, and movable */
	uint64_t here_all;   /* on all devices */
	uint64_t away;	     /* in host memory already */
	uint64_t most_bytes; /* most that may be there; 0: what is free */
	bool has_file;	     /* memory without room there goes to a disk */
	bool stopped;	     /* it cannot be moved, whatever room there is */
};

/* Of all tenants and one device. */
struct stranded {
	uint64_t host_free;
	uint64_t stays;	 /* of tenants that are stopped, or for which alone the host has no room */
	uint64_t leaves; /* of those that leave whatever is free */
	uint64_t shares; /* of those limited by what is free */
	uint64_t needs;	 /* of the host, by both together, for all that they have on devices */
	uint64_t largest, second; /* of those that share: the room for all of one's memory */
	double part; /* the least part of any one's moved memory that is on this device */
};

void stranded_begin(struct stranded *sum, uint64_t host_free_bytes);
void stranded_add(struct stranded *sum, const struct stranded_holder *holder);

/* Bytes of the device that are stranded for a holder that was added; NULL: for any other tenant. */
uint64_t stranded_for(const struct stranded *sum, const struct stranded_holder *own);

#endif
