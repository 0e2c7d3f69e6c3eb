/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves what a process holds of AMD GPUs' memory into host memory, and back to the same addresses
 * and handles. Its queues are off the hardware meanwhile:
 *
 *	prepare	queues off ── a copy queue of our own ── nothing moves
 *	out	CPU's mappings taken ── copy all, a thread a GPU ── unmap and free all ── give the charge back
 *	back	charge ── allocate and map all ── copy all, likewise
 *	done	CPU's mappings given back ── queues on
 */
#ifndef ALLOT_GUEST_SWAP_AMD_AMD_MOVE_H
#define ALLOT_GUEST_SWAP_AMD_AMD_MOVE_H

#include "guest/swap/amd/amd_lane.h"
#include "guest/swap/amd/amd_pieces.h"
#include "guest/swap/amd/amd_views.h"
#include "guest/swap/mover.h"
#include "guest/swap/stage.h"

struct amd_move {
	struct guest *guest;
	struct amd *amd; /* from prepare to done; NULL: the process uses no AMD GPU */
	struct amd_pieces pieces;
	struct amd_views views;
	struct amd_lane lane[GUEST_DEVICES];
	struct stage stage;
	bool amid;   /* a queue was taken off in the middle of its work */
	bool copied; /* content is there */
	bool away;
	bool unsure; /* whether others have what was borrowed: it is kept, and asked for anew */
};

/* `self` is a struct amd_move of which all but the guest is zero. */
extern const struct mover_kind amd_move_kind;

/* It did not leave, but others may have: what is borrowed is asked for on the way back. */
enum swap_why amd_move_ask_again(struct amd_move *move);

#endif
