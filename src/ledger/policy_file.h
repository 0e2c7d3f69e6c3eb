/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file <dir>/policy, which has two parts with a writer each: what the tenant may use
 * (policy.c), and whose turn it is (turn.c). Only these two include this.
 */
#ifndef ALLOT_LEDGER_POLICY_FILE_H
#define ALLOT_LEDGER_POLICY_FILE_H

#include <stdbool.h>

#include "ledger/layout.h"

#define POLICY_FILE "policy" /* in the tenant's directory */

struct policy_map {
	struct policy_file *file;
};

/* Whether the header is one of this library's version and size. */
bool policy_file_ok(const struct policy_file *file);

/* Not inherited by fork. -EPROTO for a file of another version or size. */
int policy_file_map(int fd, int prot, struct policy_file **ret);

/* NULL in it: nothing is mapped. */
void policy_file_unmap(struct policy_file **file);

#endif
