/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Residency: who has its memory on the devices, of tenants whose memory does not fit there
 * together. A pure function: it is told what each tenant holds, where that is and whether somebody
 * waits for it, and answers who is to leave and who is to come. It moves nothing, and knows no
 * clock.
 *
 * Nobody leaves but for a tenant that waits. Those are served in the order in which they began to
 * wait, high priorities first; one that has waited for long goes before all others. For each is
 * planned which tenants have to leave:
 *
 *	1. idle ones: those that are ready to leave, and then the longest idle first
 *	2. ones of a lower priority, after as long as moving takes
 *	3. those whose turn is over, the first to come first
 *
 * Of each, as much leaves as the one that waits needs, and it does not run then: so more of it may
 * follow for others ahead of what is in use. Who waits comes as soon as all who make room for it
 * are on their way, and takes what they leave.
 *
 * A turn is several times as long as moving takes: who leaves there and who comes back, as
 * measured. So tenants that all compute lose a bounded part of the time to moving. A turn goes on until
 * the tenant has had, by its weight, as much time beside others as the one that waits. So it is longer
 * for a larger weight, and the same for all of one weight, whatever moving them takes. If a plan needs
 * somebody whose turn goes on, nobody of it leaves yet. What a plan frees is kept for whom it was
 * made, so no number of small tenants keeps a large one out: each waits for those who were there
 * before it, and for turns that have an end.
 */
#ifndef ALLOT_SCHED_RESIDENCY_H
#define ALLOT_SCHED_RESIDENCY_H

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
	uint64_t out_ns, back_ns; /* how long moving all of it takes; 0: not measured */
	uint64_t here[RESIDENCY_DEVICES]; /* bytes that can leave; of one that is away: are still there */
	uint64_t away[RESIDENCY_DEVICES];
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
	/* The time that it was here while others waited, by its weight; counted until then (0: it does not contend). */
	uint64_t served_ns, counted_ns;
	enum residency_place known_place;
	bool lifted;  /* it came because it had waited for long */
	bool planned; /* in this step: its memory is spoken for */
};

struct residency_device {
	uint64_t capacity_bytes; /* for all that can leave */
	uint64_t spare_bytes;	 /* of this, kept free where more than one tenant is there */
	uint64_t lost_bytes;	 /* beside this: not to be had, who knows why or for how long */
};

/*
 * Decides for `n` entries on RESIDENCY_DEVICES devices. Answers whether anybody waits: then step
 * again when something has changed, or soon.
 */
bool residency_step(const struct residency_params *params, struct residency_tenant *tenant, int n,
		    const struct residency_device device[static RESIDENCY_DEVICES], uint64_t now_ns);

/* How long `leaver` may stay where `comer` waits, if all of both has to move. */
uint64_t residency_turn_ns(const struct residency_params *params,
			   const struct residency_tenant *leaver,
			   const struct residency_tenant *comer);

/* How long all of it takes to leave and to come back. */
uint64_t residency_swap_ns(const struct residency_params *params,
			   const struct residency_tenant *tenant);

#endif
