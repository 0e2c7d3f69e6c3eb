/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file <dir>/policy, which has three parts with a writer each: the tenant's limits (policy.c),
 * its turn (turn.c), and the request to move its memory (swap.c). Only these include this.
 */
#ifndef ALLOT_LEDGER_POLICY_FILE_H
#define ALLOT_LEDGER_POLICY_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "ledger/layout.h"

#define POLICY_FILE "policy" /* in the tenant's directory */

struct policy_map {
	struct policy_file *file;
	dev_t dev;
	ino_t ino;
};

/* True if the header is one of this library's version and size. */
bool policy_file_ok(const struct policy_file *file);

/*
 * Makes the file read-only, even for its owner, except for our own writers: any other writer of a
 * file (a shell's `>`, a copy) truncates it first, and each process that has mapped it dies by
 * SIGBUS. Root can still write, and the owner can remove the guard: it protects against mistakes.
 */
void policy_file_guard(int fd);

/*
 * Opens the file for reading and writing, and guards it again. Descriptor, or an error of
 * shared_file_open: -EACCES where it is not the caller's.
 */
int policy_file_open(const char *dir);

/*
 * Opens the file that writers lock. It is a file of its own if others can read the policy, since a
 * process that can open a file can keep a lock of it. Descriptor, -ENOENT: it is the policy itself;
 * or -errno.
 */
#define POLICY_LOCK_FILE "lock"
int policy_file_open_lock(const char *dir);

/* Not inherited by fork. -EPROTO for a file of another version or size. */
int policy_file_map(int fd, int prot, struct policy_file **ret);

/* NULL in it: nothing is mapped. */
void policy_file_unmap(struct policy_file **file);

#endif
