/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Finds the process whose descriptor CRIU has a copy of. */
#ifndef ALLOT_CRIU_WHOSE_H
#define ALLOT_CRIU_WHOSE_H

#include <stdbool.h>
#include <stddef.h>

/* Lists the processes that CRIU holds to dump them, malloc'ed. Returns their number, or -ENOMEM. */
int whose_held(long **ret_pids);

/* Returns true if that descriptor of the process is for the same open file as `fd`. */
bool whose_is_same(long pid, long descriptor, int fd);

/* The number of a descriptor of that process for the same open file, or -1. */
long whose_descriptor(long pid, int fd);

/* "process 12, descriptor 3", of a process that CRIU holds; or that none was found. */
void whose_name(int fd, char *ret, size_t len);

#endif
