/* SPDX-License-Identifier: Apache-2.0 */
/* Where a swappable tenant's memory goes that has no room on the host: --swap-dir. */
#ifndef ALLOT_CLI_TENANT_SWAP_DIR_H
#define ALLOT_CLI_TENANT_SWAP_DIR_H

#include <sys/types.h>

#include "ledger/records.h"

/*
 * Checks that processes of the user (0: the caller) can have files there, and returns its path
 * without links. 0, or -EINVAL after a message.
 */
int swap_dir_find(const char *text, uid_t user, char ret[static POLICY_DIR_BYTES]);

/* Explains an errno, and what to do about it. */
const char *swap_dir_words(int error);

/*
 * Checks that a file of `bytes` bytes fits into a policy's directory on this machine. 0 or -errno.
 */
int swap_dir_check(const char *dir, uint64_t bytes);

/*
 * How many bytes may be in host memory, of which `has` are there already. `said`: by --host-memory,
 * or 0. With a file behind the host, free memory is the limit, but running out of it is no reason
 * to refuse.
 */
uint64_t swap_dir_host_room(const char *dir, uint64_t said, uint64_t has);

#endif
