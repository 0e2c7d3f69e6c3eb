/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks all processes of a swappable tenant, and waits until each living one has answered:
 * ledger/swap.h has one word and one slot, this has a whole tenant.
 */
#ifndef ALLOT_CLI_TENANT_MOVING_H
#define ALLOT_CLI_TENANT_MOVING_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/now.h"
#include "ledger/records.h"
#include "ledger/swap_poll.h"

struct ledger;
struct swap_desk;

/* The default. */
#define MOVING_PATIENCE_NS (30 * NS_PER_S)

struct moving {
	const char *name;
	char dir[PATH_MAX];
	bool overcommits;    /* it comes back by itself */
	uint64_t host_bytes; /* most that may be on the host; 0: the tenant's policy does not say */
	uint64_t patience_ns; /* how long to wait for processes that make no progress */
	char swap_dir[POLICY_DIR_BYTES]; /* directory for memory without room there; "": none */
	struct swap_desk *desk;
	struct ledger *ledger;
	sigset_t signals; /* that were blocked before */
};

/*
 * A tenant that lives and is swappable. 0, or an exit status after a message. Until moving_close a
 * terminal does not stop us (Ctrl-Z): the tenant would be shut for as long as that lasts, and
 * nobody else could ask for anything. Nor does it stop CRIU inside a process.
 */
int moving_open(const char *name, struct moving *ret);
/*
 * The same behind moving_close, for a tenant of that name, as it is now. Waits for another command
 * that moves it, for at most 30 s. After a failure *moving stays closed.
 */
int moving_open_again(struct moving *moving);
void moving_close(struct moving *moving);
/* Others may ask from here on; nothing more is asked for. */
void moving_leave_desk(struct moving *moving);

/*
 * Returns the tenant's state: SWAP_RUN, SWAP_OUT, SWAP_BARE or SWAP_GIVEN. A move that a killed
 * command began has ended as ledger/swap.h says.
 */
enum swap_phase moving_rests(const struct moving *moving);

/* True if a part of it is evicted, and the rest on its devices. */
bool moving_is_parted(const struct moving *moving);

/* See shared_joins. */
bool moving_shares(struct moving *moving);

/* Of all its devices. */
struct swap_places moving_find(struct moving *moving);

/*
 * Waits until all have answered; or until no silent process has made progress for `patience_ns` and
 * one is seen to be stopped, for which others may wait. If none is seen to be stopped, the wait is
 * several times as long. With `say`, names each process that cannot do it, and what to do.
 */
struct swap_sum moving_ask(struct moving *moving, enum swap_phase phase, uint64_t patience_ns,
			   bool say);

/* The exit status of a request that not all could do. */
int moving_status(const struct swap_sum *sum);

#endif
