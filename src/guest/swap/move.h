/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves what a process holds from its devices into host memory, and back to the same addresses.
 * Only while the gate is shut. Each way is done whole or not at all:
 *
 *	out	host memory ── copy all ── unmap and release all ── give the charge back
 *	come	charge ── create and map ── copy, for as many pieces as have room, and again
 *	back	charge ── create and map all ── copy all that did not come so
 *
 * Nothing leaves before all that is to leave is in host memory, and content is kept there until the
 * gate is about to be opened, so that at each moment all of it is there in one of the two. The
 * memory itself is kept for longer (mover.h).
 *
 * Where a part leaves, it is the first pieces of each device, so that one address says which; and
 * more may follow them. A piece that follows is released as soon as it is copied, and stays out
 * whatever becomes of the rest: other tenants wait for its place.
 */
#ifndef ALLOT_GUEST_SWAP_MOVE_H
#define ALLOT_GUEST_SWAP_MOVE_H

#include "guest/movable/linear.h"
#include "guest/swap/copy.h"
#include "guest/swap/look.h"
#include "guest/swap/mover.h"
#include "guest/swap/stage.h"

struct move {
	struct guest *guest;
	struct stage stage; /* has a place for all pieces, by device and address */
	struct stage buffers; /* for copies */
	struct copy copy;     /* of a device, in this context, */
	int copying;	      /* whose number is one less; 0: of none */
	struct look look;     /* at what is copied out, by one key for as long as the process lives; */
	struct look_key *key;
	/* Granules of it; those that are as they were; those that are empty: neither are copied. */
	uint64_t looked, passed, empty;
	CUcontext context;
	/* Of each device, the pieces below this address: copied out; released; back ahead of BACK.
	 */
	CUdeviceptr copied[GUEST_DEVICES], gone[GUEST_DEVICES], come[GUEST_DEVICES];
	bool away, given;
	bool unsure; /* away, but for imports of which their exporters have not said that they leave */
	_Atomic bool exits; /* the process: while it runs we do not call the driver any more */
	struct answer answer;
	_Atomic uint32_t calling; /* the driver just now, while it runs; a futex */
	bool contexts; /* go, too: what we cannot move may stay */
	struct swap_list *list;
};

/* `self` is a struct move of which all but the guest is zero. */
extern const struct mover_kind move_kind;

/*
 * Lists the pieces that are out, for a reader from outside, and unregisters their host memory until
 * they come back. Content that was put back after move_give counts as there again once the disk has
 * it.
 */
enum swap_why move_bare(struct move *move);

/*
 * For a process that did not move out, and may have been stopped meanwhile: its exporters may have,
 * and have other memory by now. It counts as out, with what it has, until it has asked them on its
 * way back. SWAP_DRIVER: nothing has changed.
 */
enum swap_why move_ask_again(struct move *move);

/* The process exits, while its memory is on the device: threads of ours call the driver no more. */
void move_exit(struct move *move);

/* Host memory that copies will take beside the content's, for their buffers. */
uint64_t move_lacks(struct move *move);

/* After move_bare: the host memory stays where it is, and what was in it is lost. */
void move_give(struct move *move);

#endif
