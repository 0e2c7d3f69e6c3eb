/* SPDX-License-Identifier: Apache-2.0 */
/* Where a swappable tenant's memory goes that has no room on the host: --swap-dir. */
#ifndef ALLOT_CLI_TENANT_SWAP_DIR_H
#define ALLOT_CLI_TENANT_SWAP_DIR_H

#include <sys/types.h>

#include "ledger/records.h"

/*
 * Looks whether processes of the user (0: who asks) can have room there, and answers its path
 * without links. 0, or -EINVAL after a message.
 */
int swap_dir_find(const char *text, uid_t user, char ret[static POLICY_DIR_BYTES]);

/* What is wrong by an errno, and what to do about it. */
const char *swap_dir_words(int error);

/*
 * Whether a file of so many bytes can be had in a directory of a policy, on this machine. Or
 * -errno.
 */
int swap_dir_check(const char *dir, uint64_t bytes);

/*
 * So much may be on the host, of which some has its place there. `said`: by --host-memory, or 0;
 * with a file behind it, what is free is no reason to refuse, and not to be exceeded.
 */
uint64_t swap_dir_host_room(const char *dir, uint64_t said, uint64_t has);

#endif
