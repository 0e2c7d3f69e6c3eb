/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for a launch: work in flight is bounded by the time that it is expected to take, so that a
 * decision of the gate takes effect soon.
 */
#ifndef ALLOT_PRELOAD_ROOM_H
#define ALLOT_PRELOAD_ROOM_H

#include "preload/gate.h"

struct hold {
	uint64_t share_ns;   /* how long a launch was held for its tenant's share */
	uint64_t give_up_ns; /* when it stops waiting for room; 0: it had room so far */
	uint64_t room_ns;    /* beside how much others may go with it; 0: ask for each */
	bool settled;	     /* nothing was owed, ... */
	uint32_t bills;	     /* ... as of these */
};

/* What a share of a device, in permille, pays for in so much time without work. */
static inline int64_t room_paid_in_ns(int64_t share_permille, int64_t pause_ns)
{
	int64_t rest = share_permille < 1000 ? 1000 - share_permille : 1;

	return pause_ns * share_permille / rest;
}

/*
 * Waits until a launch has room, or nobody believes any more that it will have. Answers whether it
 * waited, so that the share has to be asked for anew.
 */
bool room_wait(struct guest *guest, struct gate *gate, struct unit *unit, struct hold *hold);

#endif
