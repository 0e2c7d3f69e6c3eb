/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's devices, from the thread that asks the drivers, which may block, to the loop's thread,
 * which serves: a device may come while the daemon runs.
 */
#ifndef ALLOT_DAEMON_AUDIT_INVENTORY_H
#define ALLOT_DAEMON_AUDIT_INVENTORY_H

#include "base/loop.h"
#include "node/devices.h"
#include "node/faults.h"

struct inventory;

/* Called on the loop's thread. */
struct inventory_hearer {
	void (*changed)(void *arg, const struct devices *devices);
	void (*failed)(void *arg, const struct faults *faults); /* other devices are faulty than before */
	void (*looked)(void *arg); /* the audit has found others than before, or some */
	void *arg;
};

/* -errno. */
int inventory_open(struct loop *loop, const struct inventory_hearer *hearer, struct inventory **ret);
/* When no thread offers any more, and the loop is over or has not begun. Takes NULL. */
void inventory_close(struct inventory *inventory);

/* Gives the devices that exist now. Any thread. */
void inventory_offer(struct inventory *inventory, const struct devices *devices);
/* The audit has looked. Any thread. */
void inventory_tell_look(struct inventory *inventory);
/* Which of them are faulty. Any thread. */
void inventory_offer_faults(struct inventory *inventory, const struct faults *faults);

#endif
