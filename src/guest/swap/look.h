/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has a device look at what is in its memory, which it does ten times as fast as that leaves: to tell
 * what is as it was when it last left (stage.h), and need not be copied again.
 *
 *	look_begin ── look_put, for each granule ── look_run ── look_seen ── look_put ... ── look_end
 *
 * Where that cannot be had (no room for the code, a driver that does not take it) nothing is seen, and
 * all is copied.
 */
#ifndef ALLOT_GUEST_SWAP_LOOK_H
#define ALLOT_GUEST_SWAP_LOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/charge.h"
#include "guest/core/guest.h"
#include "nvidia/look_code.h"

/* Of one device, in a context that is current until look_end. */
struct look {
	struct guest *guest;
	struct guest_device *device; /* NULL: it cannot look */
	/*
	 * For the code, and pending until look_end: a thread that brings the ledger in line with the
	 * driver's figure meanwhile lowers nothing then, wherever the driver has put the code.
	 */
	struct charge charge;
	CUmodule module;
	CUfunction function;
	CUstream stream;
	char *memory; /* on the host, which the device reaches; NULL: it cannot look, either */
	struct look_seen *seen; /* in it: what was seen of each granule */
	uint64_t *granule, *place; /* their addresses, and what the caller knows them by */
	uint32_t n, done, most;
	uint32_t blocks;
};

/* At most `most` granules will be put. */
void look_begin(struct look *look, struct guest *guest, struct guest_device *device,
		const struct look_key *key, uint64_t most);

/* A granule of LOOK_BYTES, which the context reaches, and its place for the caller. */
void look_put(struct look *look, CUdeviceptr at, uint64_t place);

/* Looks at all that was put since the last time. */
void look_run(struct look *look);

/* The result for the granule of that place, which was put as the i-th; NULL: nothing is known of it. */
const struct look_seen *look_seen(const struct look *look, uint64_t i, uint64_t place);

void look_end(struct look *look);

/* A key that nobody knows, for the life of the process. NULL: there is none. */
struct look_key *look_new_key(void);

#endif
