/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants in no runtime directory that was read, known by a process on a device that has their
 * ledger mapped. A container that is limited by variables or a file makes its tenant inside, and so
 * does a user in another directory. Their files are those processes' word: they are read, never
 * mapped or written, and never a reason to end a process.
 */
#ifndef ALLOT_NODE_APART_H
#define ALLOT_NODE_APART_H

#include <stddef.h>
#include <sys/types.h>

#include "node/tenants.h"
#include "node/usage.h"

/*
 * Adds the tenants apart of these processes, sorted by name: those that can be read from here, and that
 * have such a process. They are called PLACE/NAME, and PLACE/NAME@UID where the ledger is not root's. The
 * place is a container by the first 12 digits of its id, or "elsewhere-DEVICE.INODE" of the ledger.
 * 0 or -ENOMEM.
 */
int apart_add(struct tenants *tenants, const pid_t *pid, size_t n);

/* Adds the tenants of all processes on devices. */
int apart_add_users(struct tenants *tenants, const struct usage_list *usage);

#endif
