/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves what a process holds from its devices into host memory, and back to the same addresses.
 * Only while the gate is shut. Each way is done whole or not at all:
 *
 *	out	host memory ── copy all ── unmap and release all ── give the charge back
 *	back	charge ── create and map all ── copy all
 *
 * Nothing leaves before all of it is in host memory, and host memory is kept until the gate is
 * about to be opened, so that at each moment all content is there in one of the two.
 */
#ifndef ALLOT_GUEST_SWAP_MOVE_H
#define ALLOT_GUEST_SWAP_MOVE_H

#include "guest/swap/mover.h"
#include "guest/swap/touch.h"

struct move {
	struct guest *guest;
	char *host;	     /* content of all pieces, by device and address; NULL: none */
	uint64_t host_bytes; /* as mapped */
	uint64_t ready;	     /* of these, from the beginning: with pages, known to the driver */
	bool away, given;
	bool contexts; /* go, too: what we cannot move may stay */
	struct swap_list *list;
	struct touch touch;
};

/* `self` is a struct move of which all but the guest is zero. */
extern const struct mover_kind move_kind;

/*
 * What is away, for somebody who reads it from outside. From here on the driver has no hold of the
 * host memory, until it comes back. What was given is taken to be there again. False: no memory.
 */
bool move_bare(struct move *move);

/* After move_bare: the host memory stays where it is, and what was in it is lost. */
void move_give(struct move *move);

#endif
