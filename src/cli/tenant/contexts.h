/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, and what else the driver keeps of a tenant's processes on its devices: by the driver's
 * own checkpoint, on top of ours. Only after SWAP_BARE, when our memory is off the devices, and what
 * processes share with it: of processes that share memory the driver takes a checkpoint, and loses
 * them when it brings them back.
 *
 * Nothing is noted of it anywhere: in which state a process is the driver says. Who is killed on the
 * way leaves a tenant that is suspended, and contexts_return finds what there is to do.
 */
#ifndef ALLOT_CLI_TENANT_CONTEXTS_H
#define ALLOT_CLI_TENANT_CONTEXTS_H

#include "cli/tenant/moving.h"

/* Before anything is asked of the tenant: 0, or an exit status after a message that says why not. */
int contexts_check(const struct moving *moving);

/* All of them, or none: then an exit status, after a message, and all is as it was. */
int contexts_take(const struct moving *moving);

/* Where there are any. 0, or an exit status after a message: those that failed stay away. */
int contexts_return(const struct moving *moving);

#endif
