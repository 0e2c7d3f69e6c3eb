/* SPDX-License-Identifier: Apache-2.0 */
/* Another command of this allot, beside a screen that shows something else meanwhile. */
#ifndef ALLOT_CLI_EXEC_SELF_H
#define ALLOT_CLI_EXEC_SELF_H

#include <stddef.h>

/*
 * Runs it (argv[0] is "allot", NULL ends) without a terminal, and waits. Its output goes into
 * `ret_said`, printable, its lines joined into one. Returns its exit status, or -errno.
 */
int self_run(const char *const argv[], char *ret_said, size_t size);

#endif
