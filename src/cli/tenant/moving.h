/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks all processes of a swappable tenant for something, and waits until each that lives has
 * answered: what ledger/swap.h is to one word and one slot, to a tenant.
 */
#ifndef ALLOT_CLI_TENANT_MOVING_H
#define ALLOT_CLI_TENANT_MOVING_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "ledger/records.h"
#include "ledger/swap.h"

struct ledger;
struct swap_desk;

/* Unless somebody said another. */
#define MOVING_PATIENCE_NS (30 * NS_PER_S)

struct moving {
	const char *name;
	char dir[PATH_MAX];
	bool overcommits;    /* it comes back by itself */
	uint64_t host_bytes; /* most that may be on the host; 0: the tenant's policy does not say */
	uint64_t patience_ns; /* so long is waited for processes that do not get on */
	char swap_dir[POLICY_DIR_BYTES]; /* where what has no room there goes; "": nowhere */
	struct swap_desk *desk;
	struct ledger *ledger;
	sigset_t signals; /* that were blocked before */
};

/* What the processes answered, added up. */
struct moving_sum {
	unsigned int processes; /* that hold device memory which leaves, left, or came back */
	unsigned int refused;	/* that could not do it */
	unsigned int silent;	/* that did not answer in time, or never will */
	uint64_t bytes;
	uint64_t filed; /* of what left, in a file */
	uint64_t kept; /* of host memory that they have for it already */
	uint64_t took_ns; /* the longest */
	uint64_t moves;	  /* how far those are that are silent; stands still where nothing moves */
};

/*
 * A tenant that lives and is swappable. 0, or an exit status after a message. Until moving_close a
 * terminal does not stop us (Ctrl-Z): the tenant would be shut for as long as that lasts, and
 * nobody else could ask for anything. Nor does it stop CRIU inside a process.
 */
int moving_open(const char *name, struct moving *ret);
void moving_close(struct moving *moving);
/* Others may ask from here on; nothing more is asked for. */
void moving_leave_desk(struct moving *moving);

/*
 * Where the tenant is: SWAP_RUN, SWAP_OUT, SWAP_BARE or SWAP_GIVEN. What somebody began who is gone
 * has ended as ledger/swap.h says.
 */
enum swap_phase moving_rests(const struct moving *moving);

/* Whether a part of it is away, and the rest on its devices. */
bool moving_is_parted(const struct moving *moving);

/* See shared_joins. */
bool moving_shares(struct moving *moving);

/* Of all its devices. */
struct swap_places moving_find(struct moving *moving);

/*
 * Until all have answered, or none of those that have not has moved anything for so long and one is
 * stopped, for which others may wait (or for several times as long, where that is not seen). Who
 * cannot is told of, if `say`, with what to do about it.
 */
struct moving_sum moving_ask(struct moving *moving, enum swap_phase phase, uint64_t patience_ns,
			     bool say);

#endif
