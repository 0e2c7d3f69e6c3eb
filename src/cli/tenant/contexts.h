/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves contexts, and all else that the driver keeps of a tenant's processes on its devices, by the
 * driver's own checkpoint. Only after SWAP_BARE, when our memory and memory shared between
 * processes is off the devices: the driver takes a checkpoint of processes that share memory, and
 * loses them when it restores it.
 *
 * No note is kept: the driver tells each process's state. If the command is killed, the tenant
 * stays suspended, and contexts_return finds the processes to restore.
 */
#ifndef ALLOT_CLI_TENANT_CONTEXTS_H
#define ALLOT_CLI_TENANT_CONTEXTS_H

#include "cli/tenant/moving.h"

/* Before anything is asked of the tenant: 0, or an exit status after a message that says why not. */
int contexts_check(const struct moving *moving);

/* All of them, or none: then an exit status, after a message, and all is as it was. */
int contexts_take(const struct moving *moving);

/*
 * Restores contexts, if any were moved. 0, or an exit status after a message: those that failed
 * stay moved.
 */
int contexts_return(const struct moving *moving);

#endif
