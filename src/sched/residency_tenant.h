/* SPDX-License-Identifier: Apache-2.0 */
/* What residency decides about: tenants whose memory can leave the devices, and what those have. */
#ifndef ALLOT_SCHED_RESIDENCY_TENANT_H
#define ALLOT_SCHED_RESIDENCY_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#define RESIDENCY_TENANTS 256
#define RESIDENCY_DEVICES 64

/* How much of a tenant leaves, in these parts of what it has on each device. */
#define RESIDENCY_ALL 255

struct residency_params {
	uint64_t turn_least_ns;
	uint64_t turn_swaps;	 /* a turn is so many times as long as moving takes */
	uint64_t idle_least_ns;
	uint64_t idle_part;	 /* who does nothing for this part of its own moving is idle */
	uint64_t patience_turns; /* who waits for so many turns goes first, whatever its priority */
	uint64_t bytes_per_us;	 /* how fast memory moves, where that was not measured */
	uint64_t refuse_ns;	 /* no allocation is refused sooner for what may change */
};
/* See tuning.h. */
extern const struct residency_params residency_defaults;

enum residency_place {
	RESIDENCY_HERE,
	RESIDENCY_LEAVING,
	RESIDENCY_AWAY,
	RESIDENCY_COMING,
};

/* In: what is known of a tenant now. The caller keeps entries at their place from step to step. */
struct residency_tenant {
	uint64_t id; /* 0: the entry is empty; another id than before: a new tenant */
	int32_t priority; /* higher goes first */
	uint32_t weight;  /* of its time here beside others'; 0 counts as 1 */
	enum residency_place place;
	bool wants;		/* somebody in it waits, for memory that is away or for more */
	bool fixed;		/* it cannot leave, or not now */
	bool doubtful;		/* it has not left for long, though asked: no allocation waits for it */
	bool ready;		/* it has host memory for what leaves, or is finding some, see ahead */
	uint64_t stays_until_ns; /* it is not to be asked to leave before */
	uint64_t used_ns;	/* it last used its memory */
	uint64_t idle_suspend_ns; /* time without use after which it leaves for nobody; 0: never */
	uint64_t idle_until_ns;	  /* the earliest time of that, after a refusal */
	uint64_t out_ns, back_ns; /* how long moving all of it takes; 0: not measured */
	uint64_t here[RESIDENCY_DEVICES]; /* bytes that can leave; of one that is away: are still there */
	uint64_t away[RESIDENCY_DEVICES];
	bool metered; /* busy_ns is known: the time that each device worked for it, which never falls */
	uint64_t busy_ns[RESIDENCY_DEVICES];
	uint32_t asked; /* while it leaves: so much of it */
	bool leaves;	/* ... and for certain: it is not only asked whether it can */
	uint64_t more[RESIDENCY_DEVICES]; /* an allocation waits for so much */

	/* Out. */
	bool leave, come; /* now. Who is here and waits for more may come: it may try again */
	bool early; /* comes, or is on its way, while others leave: there is not room for all of it */
	uint32_t part;	  /* of RESIDENCY_ALL, where it is to leave: so much is to be away */
	bool refuse;	  /* there is no room for more, were all others to leave */
	/* Its part, by weight, among the tenants of its priority that contend; 0: none do. */
	uint32_t entitled_permille;
	/*
	 * Of RESIDENCY_ALL: so much leaves next, should one that is away come. As of the last step
	 * in which nobody waited or was on its way; 0: nobody is away for whom it would have to.
	 */
	uint32_t ahead;

	/* Its own; all zero in the beginning. */
	uint64_t known_id, came_ns, waits_since_ns;
	/*
	 * See residency_account.h: the account, until when it is counted (0: it does not compete), when
	 * somebody last wanted its devices, the longest turn of those that it competes with, and how long
	 * it takes that each of them has one, by weight.
	 */
	uint64_t served, counted_ns, contended_ns, turn_ns, round_ns;
	uint64_t billed_ns[RESIDENCY_DEVICES]; /* of busy_ns, by then */
	/* In units of the account, since it runs beside others: its part of the time, of all work, and its own. */
	uint64_t beside[RESIDENCY_DEVICES], beside_billed[RESIDENCY_DEVICES], beside_own[RESIDENCY_DEVICES];
	enum residency_place known_place;
	bool lifted;  /* it came because it had waited for long */
	bool planned; /* in this step: its memory is spoken for */
};

struct residency_device {
	uint64_t capacity_bytes; /* for all that can leave */
	uint64_t spare_bytes;	 /* of this, kept free where more than one tenant is there */
	uint64_t lost_bytes;	 /* beside this: not to be had, who knows why or for how long */
};

#endif
