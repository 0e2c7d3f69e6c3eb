/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holders: modules whose memory leaves the process's account not only by the program's own free,
 * but as a stream goes on, at a synchronisation, or when the driver is asked to trim. Charging and
 * reconciling stand below them and reach them by guest.holders, which is chosen with the allocator
 * (memory/allocator.h).
 */
#ifndef ALLOT_GUEST_ACCOUNT_HOLDER_H
#define ALLOT_GUEST_ACCOUNT_HOLDER_H

#include "guest/core/guest.h"

struct holder {
	/* Takes off what the driver has taken back by itself. NULL: it never does. */
	void (*catch_up)(struct guest *guest, struct guest_device *device);
	/* Has the driver take back what the process holds on the device without needing it. */
	void (*give_back)(struct guest *guest, struct guest_device *device);
	/*
	 * Bytes that are charged still, though the driver may have taken them back by now, as of the
	 * last catch_up. NULL: there never are any.
	 */
	uint64_t (*doubtful)(struct guest *guest, struct guest_device *device);
};

/* All of them, in the order of guest.holders. */
void holder_catch_up(struct guest *guest, struct guest_device *device);

uint64_t holder_doubtful(struct guest *guest, struct guest_device *device);

/* The same. Its driver calls are no part of a graph that the program is capturing. */
void holder_give_back(struct guest *guest, struct guest_device *device);

#endif
