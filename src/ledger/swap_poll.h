/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of a tenant's processes have answered a request, and what: the command and the role holder
 * wait with this. ledger/swap.h has one word and one slot, this has the tenant.
 */
#ifndef ALLOT_LEDGER_SWAP_POLL_H
#define ALLOT_LEDGER_SWAP_POLL_H

#include <stdbool.h>
#include <stdint.h>

#include "ledger/slot.h"
#include "ledger/swap.h"

/* The request, and when it was asked, by CLOCK_MONOTONIC. */
struct swap_poll {
	struct ledger *ledger;
	uint32_t request;
	uint64_t asked_ns;
};

/* The answers together; of the bytes, see struct swap_answer. */
struct swap_sum {
	/* with device memory that can be moved, was moved out, or came back */
	unsigned int processes;
	unsigned int refused;	 /* that could not do it */
	unsigned int silent;	 /* that have not answered, or never will; of these */
	unsigned int idle;	 /* ... have not begun, and */
	unsigned int ready;	 /* ... are READY by an earlier request */
	bool busy, device, host; /* one could not, for now; because there is no room */
	bool quota, file;	 /* likewise, in the tenant's quota or its file */
	uint64_t bytes;
	uint64_t filed;	  /* of the moved bytes, in a file */
	uint64_t kept;	  /* of host memory that they have for it already; */
	uint64_t placed;  /* of that, for these bytes and not for those that stay */
	uint64_t took_ns; /* the longest */
	uint64_t moved;	  /* progress of the silent ones */
};

/*
 * The sum of the living processes' answers. A process without a thread that answers is found in
 * PREPARE, which it refuses by its silence. In later phases one that has said nothing for a while
 * is passed over: it began since, has no memory yet, and must not be waited for without end.
 */
struct swap_sum swap_poll(const struct swap_poll *poll, uint64_t now_ns);

/* One process, and its answer; `silent`: it has not answered this request. */
struct swap_voice {
	struct slot_info info;
	struct swap_answer answer;
	bool silent, refuses;
};

/* The next process from *slot on, which is 0 for the first; false: there is none. */
bool swap_poll_next(const struct swap_poll *poll, uint64_t now_ns, int *slot,
		    struct swap_voice *ret);

/* Since when the silent processes have made no progress. */
struct swap_progress {
	uint64_t moved, since_ns;
};

/* Returns for how long they have made none. */
uint64_t swap_progress_none_ns(struct swap_progress *progress, const struct swap_sum *sum,
			       uint64_t now_ns);

#endif
