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
};

/*
 * Waits until a launch has room, or nobody believes any more that it will have. Answers whether it
 * waited, so that the share has to be asked for anew.
 */
bool room_wait(struct guest *guest, struct gate *gate, struct unit *unit, struct hold *hold);

#endif
