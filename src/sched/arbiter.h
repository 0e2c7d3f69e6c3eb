/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arbiter: a pure state machine over the tenants of a machine. It is told what each tenant
 * wants and has used, and answers until when each may launch. It does not know which process runs
 * it, nor how the answers reach the tenants.
 *
 * A turn is the tenant's, on all of its devices at once, so that no rank of a collective is held
 * while another runs; tenants with no device in common run at the same time. Among those that want
 * a device the highest priority goes first, then the one that has had least for its weight
 * (start-time fair queueing on measured time, so an overrun is owed and idleness saves nothing up).
 *
 * A tenant that a higher priority keeps from running has a floor: a part of the time for which it
 * waits is owed to it, and when that makes a brief turn it goes before everybody, once.
 *
 * No two of one priority are open on one device, and the next waits until the last one's work is
 * about done. A tenant of a higher priority than all others on its devices is always open: it
 * launches and says that it wants, which closes them. A device that nobody wants stays open to one
 * of those that have it, so a tenant that is alone never waits for a turn.
 */
#ifndef ALLOT_SCHED_ARBITER_H
#define ALLOT_SCHED_ARBITER_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/rounds.h"

#define ARBITER_TENANTS 256

struct arbiter_params {
	uint64_t slice_ns; /* how long a turn is while others wait */
	uint64_t brief_ns; /* ... where all tenants of the device work for less at a time, ... */
	uint64_t brief_slice_ns; /* ... a turn's length then */
	uint64_t long_ns; /* a burst of at least this and at most slice_ns is a long one */
	struct rounds_params rounds; /* how long turns are, by weights and latencies */
	uint64_t lift_ns;  /* device time of one lift of a floor, at most */
	uint64_t grace_ns; /* how long an owner with nothing to do keeps its turn */
	uint64_t long_grace_ns; /* ... and how long where all work for long at a time */
	/* how long before the expected end of the last work the next is let in ... */
	uint64_t lead_ns;
	uint64_t edge_ns;  /* ... and how long before it may launch */
	uint64_t lease_ns; /* how long an answer is valid; step again before */
};
/*
 * For real devices: those above grace_ns and long_grace_ns as in sched/tuning.h; 150 us, 500 us,
 * 30 us, 20 ms. The lead is what two wake-ups take on a bad day: the arbiter's and the next
 * tenant's. The next tenant does not launch at once. If it did, the device would turn to it in the
 * middle of the last one's work, after 2 ms of that, and then back again.
 */
extern const struct arbiter_params arbiter_defaults;

/* In: the state of a tenant. The caller keeps entries at their place from step to step. */
struct arbiter_tenant {
	uint64_t id;	  /* 0: the entry is empty; another id than before: a new tenant */
	uint64_t devices; /* bit a device */
	uint32_t weight;  /* at least 1 */
	int32_t priority; /* higher goes first */
	uint32_t floor_permille; /* of the time while higher ones want it; at most 500 */
	uint32_t cap_permille; /* it has no more of a device than that, whatever it wants; 0: all */
	bool wants;	  /* it waits, or has work that is not done */
	uint64_t busy_ns; /* measured so far, as if its devices were one: the busiest */
	uint64_t done_ns; /* expected end of its work in flight; 0 none */
	uint64_t guess_ns; /* ... of which this much is a guess: it is late, or was not foreseen */
	bool rests;	  /* it waits for that, and launches nothing before */
	uint64_t burst_ns; /* how long it works between two waits of its own; 0 not known */
	uint64_t unit_ns;  /* its longest work that is not interrupted; 0 not known */
	uint64_t latency_ns; /* asked: others have the device for no longer; 0: the default */
	uint64_t slice_ns; /* asked: how long a turn of it is, by equal weights; 0: the default */
	uint64_t inherited_ns; /* of a new one: its virtual_ns in an arbiter that was there before */

	/* Out. */
	bool open;		    /* it may launch ... */
	uint64_t open_until_ns;	    /* ... until then, unless told otherwise before ... */
	uint64_t open_from_ns;	    /* ... and from then on; 0 at once */
	bool contended;		    /* another wants a device of it, or did a moment ago */
	bool urged;		    /* a higher priority may come: keep little in flight */
	uint64_t urgent_ns;	    /* the briefest of their bursts; 0 not known */
	bool first;		    /* it is that higher priority, and alone in being so */
	bool returns;		    /* it wanted to continue at once after its last pause */
	uint32_t entitled_permille; /* of each device, while those want it that do now */
	uint64_t least_latency_ns;  /* a latency above this is kept; UINT64_MAX: none is */
	/*
	 * Its turn begins: for how long it waited, and the longest turn of another meanwhile, of
	 * the tenant at place `behind`; -1: there was none. waited_ns 0: no wait ends.
	 */
	uint64_t waited_ns, behind_ns;
	int behind;

	/* The arbiter's own; all zero in the beginning. */
	uint64_t virtual_ns; /* its time by weight, above the least of its group */
	uint64_t known_id, last_busy_ns, ahead_ns, turn_from_ns, turn_busy_ns, left_ns;
	uint64_t idle_since_ns; /* 0: it wants */
	uint64_t billed_ns;	/* when more of its work was last measured */
	uint64_t resumed_ns;	/* when it last began to want the device again */
	uint64_t gap_ns;	/* how long its pauses are, about */
	uint64_t came_ns;	/* it works since then, but for pauses that it came back from at once */
	uint64_t stay_ns;	/* how long it then does, about; 0 not known */
	int64_t owed_ns;	/* of its floor; less than 0: a lift was too long by that */
	/* ... paid in advance for work in flight, which is measured later */
	uint64_t paid_ahead_ns;
	uint64_t lift_ns; /* of its lift, or the next one: it is lifted when that is owed to it */
	uint64_t looked_ns, lifted_ns;
	struct rounds_turn turn; /* how long its turns are */
	uint64_t over_ns;  /* its turns are longer by this */
	uint64_t took_ns;  /* its last turn, while others waited */
	uint64_t told_ns;  /* the longest that was planned of its turn, since that began */
	uint64_t waits_ns; /* since then, with nothing on a device; 0: it does not */
	uint64_t deadline_ns; /* when its latency ends, if it goes before others for that */
	bool pressed;	      /* it ends in another's turn, if one begins now */
	bool ahead;	   /* its turn began before its place in line, for its latency */
	uint64_t alone_ns; /* when it was last the only one that wanted its devices */
	uint64_t late_ns; /* its work is late, or was not foreseen, since then; 0: it is not */
	uint64_t vain_ns; /* when its work was last waited for in vain; 0: it never was */
	bool owner, leaving, idle, away, outranked;
	bool lifted;  /* it goes before all that are not */
	bool landing; /* work of its last lift may not be measured yet */
};

/*
 * Decides for `n` entries; answers the instant by which to step again, at most lease_ns / 2 away.
 * Step before that when a tenant that was idle begins to want.
 */
uint64_t arbiter_step(const struct arbiter_params *params, struct arbiter_tenant *tenant, int n,
		      uint64_t now_ns);

#endif
