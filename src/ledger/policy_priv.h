/* SPDX-License-Identifier: Apache-2.0 */
/* The file <dir>/policy, for what of src/ledger reads or writes a part of it. */
#ifndef ALLOT_LEDGER_POLICY_PRIV_H
#define ALLOT_LEDGER_POLICY_PRIV_H

#include "ledger/layout.h"

#define POLICY_FILE "policy" /* in the tenant's directory */

struct policy_map {
	struct policy_file *file;
};

/* Not inherited by fork. -EPROTO for a file of another version or size. */
int policy_map_file(int fd, int prot, struct policy_file **ret);

/* NULL in it: nothing is mapped. */
void policy_unmap_file(struct policy_file **file);

#endif
