/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room on a device that is full (core/room.h), for calls of CUDA's: see WITH_ROOM.
 *
 * In a swappable tenant its processes give back first what they do not use, as the driver's own
 * pools do by themselves.
 */
#ifndef ALLOT_GUEST_ACCOUNT_ROOM_H
#define ALLOT_GUEST_ACCOUNT_ROOM_H

#include "guest/account/charge.h"
#include "guest/core/room.h"

/* As room_await. */
bool room_wait(struct room *room, struct guest *guest, struct guest_device *device, uint64_t bytes);

/*
 * The same where nobody knows how much the call takes, but that it is `most` bytes at most. Others leave
 * for little, and for twice as much as before where that was too little. What is refused is halved, so
 * that it is not refused for more than it takes.
 */
bool room_wait_unknown(struct room *room, struct guest *guest, struct guest_device *device,
		       uint64_t most);

/*
 * What a call of the driver answers: made again as long as the device is full, and `more` says so,
 * which has &room_ to wait with.
 */
#define WHILE_FULL(call, more)                                                               \
	({                                                                                   \
		struct room room_ = {0};                                                     \
		CUresult result_;                                                            \
                                                                                             \
		do                                                                           \
			result_ = call;                                                      \
		while (result_ == CUDA_ERROR_OUT_OF_MEMORY && (more));                       \
		room_end(&room_);                                                            \
		result_;                                                                     \
	})

/* The same, as long as others leave for it. */
#define WITH_ROOM(guest, device, bytes, call) \
	WHILE_FULL(call, room_wait(&room_, guest, device, bytes))

/*
 * Reserves the bytes, makes the driver's call with room, and ends with `commit`, which has &charge_
 * and the call's answer_. Returns the refusal, or what `commit` returns.
 */
#define CHARGE_AND_CALL(guest, device, bytes, call, commit)                                  \
	({                                                                                   \
		struct charge charge_;                                                       \
		CUresult end_ = charge_reserve(guest, device, bytes, &charge_), answer_;     \
                                                                                             \
		if (!end_) {                                                                 \
			answer_ = WITH_ROOM(guest, device, charge_.reserved, call);          \
			end_ = commit;                                                       \
		}                                                                            \
		end_;                                                                        \
	})

/*
 * The same for an allocation of a tenant that may itself have to leave while it waits: nothing is
 * reserved meanwhile.
 *
 *	reserve ── promised to others? ── back it ── full? ── give up the charge, wait, and again
 *
 * `promised` is asked once `reserve` has filled *charge; `back` ends the charge where it fails.
 */
#define BACK_WITH_ROOM(guest, device, bytes, charge, reserve, promised, back)                \
	({                                                                                   \
		struct room room_ = {0};                                                     \
		CUresult result_;                                                            \
                                                                                             \
		do {                                                                         \
			result_ = reserve;                                                   \
			if (result_)                                                         \
				break;                                                       \
			if (promised) {                                                      \
				charge_cancel(charge);                                       \
				result_ = CUDA_ERROR_OUT_OF_MEMORY;                          \
			} else {                                                             \
				result_ = back;                                              \
			}                                                                    \
		} while (result_ == CUDA_ERROR_OUT_OF_MEMORY &&                              \
			 room_wait(&room_, guest, device, bytes));                           \
		room_end(&room_);                                                            \
		result_;                                                                     \
	})

/* In a context of the device: whether what is free there may be what others were promised. */
bool room_is_promised(const struct room *room, struct guest *guest, struct guest_device *device,
		      uint64_t bytes);

#endif
