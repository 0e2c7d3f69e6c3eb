/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for the next way out: prepared before it is asked for, kept after a way back, and
 * returned when other programs of the host need it. Used by the swap thread alone:
 *
 *	ahead_end ── the thread carries out a request ── ahead_back or ahead_left ── ahead_step ...
 */
#ifndef ALLOT_GUEST_SWAP_AHEAD_H
#define ALLOT_GUEST_SWAP_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/swap/mover.h"
#include "ledger/swap.h"

struct ahead {
	struct guest *guest;
	const struct movers *movers;
	/* Host memory for this part is to be prepared between these times; 0: none. */
	uint32_t part;
	uint64_t from_ns, until_ns;
	/* After a way back: until then; UINT64_MAX: as long as the host has enough beside it. */
	bool keeps;
	uint64_t keeps_until_ns;
	bool keeps_on; /* then for as long as most of the host's memory is free */
	uint32_t missed; /* tenants that had found no room on the host at the last request */
};

/* Ends what is being prepared: a request is about to be carried out. */
void ahead_end(struct ahead *ahead);

/*
 * All memory is on the device. The process keeps the host memory that its content came back from;
 * asked for RUN `again`, it returns that. It prepares `part`, if that is not 0. Returns true if the
 * next way out finds its host memory prepared.
 */
bool ahead_back(struct ahead *ahead, uint32_t part, bool again, bool filed);

/* `part` is in host memory. */
void ahead_left(struct ahead *ahead, uint32_t part);

/*
 * To be called while there is no other request than the one of the last answer. Returns when to
 * call again; UINT64_MAX: with the next request.
 */
uint64_t ahead_step(struct ahead *ahead, const struct swap_answer *answer);

#endif
