/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: the condition that a launch has to wait for, from numbers alone. No clock, no I/O. The
 * caller reads the accounts, the arbiter's word and the work in flight, asks, and sleeps
 * accordingly.
 */
#ifndef ALLOT_SCHED_ADMISSION_H
#define ALLOT_SCHED_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

enum admission_verdict {
	ADMISSION_GO,
	ADMISSION_STALL, /* it may be queued, and its stream waits on the device until then */
	ADMISSION_WAIT_TURN,
	ADMISSION_WAIT_DEBT,
	ADMISSION_WAIT_ROOM,
};

struct admission_inputs {
	uint64_t now_ns;
	bool turn;	  /* it is the tenant's turn, or nobody gives turns */
	uint64_t paid_ns; /* when the tenant's accounts are settled; 0: they are */
	bool stalls;	  /* its stream waits on the device already until they are */
	bool latched;	  /* likewise for the program, and then for all of that */
	bool may_stall;
	bool beside; /* it would be done no later than work of other streams that is paid for */
	bool awaited; /* late work of the tenant may wait for it, and has the device */
	uint64_t room_ns;     /* when there may be room for it in flight; 0: there is */
	uint64_t look_ns;     /* the longest that it waits for that without a look */
	uint64_t patience_ns; /* when it stops waiting for room: other work may wait for it */
	bool place;	      /* it has a place, or needs none: see device_time_take_place */
};

struct admission {
	enum admission_verdict verdict;
	uint64_t until_ns; /* for all but ADMISSION_GO: then to ask again */
};

struct admission admission_decide(const struct admission_inputs *in);

/* How a tenant works and pauses. Shares of a device's time in permille. */
struct admission_pace {
	int64_t share_permille;
	bool siblings; /* several processes of the tenant work */
	bool uneven; /* each pause costs much: short launches, several streams, or other devices */
};

/* How long the tenant works before it pauses, so that no pause is too short to be worth it. */
uint64_t admission_slice_ns(const struct admission_pace *pace);

/* How much may be in flight, by expected time. */
struct admission_window {
	int64_t share_permille;
	uint64_t asked_ns;	/* by the policy; 0: it does not say */
	bool contended;		/* another tenant wants the device */
	unsigned int processes; /* of the tenant, that launch; at least 1 */
};
uint64_t admission_window_ns(const struct admission_window *window);

/* Device time that a share pays for in a pause of that length. */
int64_t admission_paid_in_ns(int64_t share_permille, int64_t pause_ns);

#endif
