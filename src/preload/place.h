/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several processes of a tenant that each launch what takes long: one launch of each at once would
 * be paid for in one pause so long that a second shows now more, now less than the share. A few are
 * let through at a time, in turns.
 */
#ifndef ALLOT_PRELOAD_PLACE_H
#define ALLOT_PRELOAD_PLACE_H

#include "preload/meter.h"

/* Whether this process has a place, by now, for no longer than until then. */
bool place_take(struct meter_device *md, uint64_t now_ns, uint64_t until_ns);

/* With the device's lock: all that it launched was seen to be done. */
void place_give(struct meter_device *md);

#endif
