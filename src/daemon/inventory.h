/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's devices, from the thread that asks the drivers, which may block, to the loop's thread,
 * which serves: a device may come while the daemon runs.
 */
#ifndef ALLOT_DAEMON_INVENTORY_H
#define ALLOT_DAEMON_INVENTORY_H

#include "base/loop.h"
#include "node/devices.h"

struct inventory;

/* `changed` is called on the loop's thread. -errno. */
typedef void inventory_changed(void *arg, const struct devices *devices);
int inventory_open(struct loop *loop, inventory_changed *changed, void *arg,
		   struct inventory **ret);
/* When no thread offers any more, and the loop is over or has not begun. Takes NULL. */
void inventory_close(struct inventory *inventory);

/* What is there now. Any thread. */
void inventory_offer(struct inventory *inventory, const struct devices *devices);

#endif
