/* SPDX-License-Identifier: Apache-2.0 */
/* The files of tenants that a process has mapped, wherever they are: found, and opened to be read. */
#ifndef ALLOT_NODE_PROCESS_MAPPED_FILES_H
#define ALLOT_NODE_PROCESS_MAPPED_FILES_H

#include <limits.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * All ledgers and policies that a process has mapped, wherever they are: of its own tenant, and of the
 * others where it arranges their turns. -ENOMEM; -EAGAIN: its user's budget
 * ended before (node/process/allowance.h); else as mapped_any_ledger.
 */
struct mapped_files;
int mapped_find_files(pid_t pid, struct mapped_files **ret);
void mapped_files_free(struct mapped_files *files); /* takes NULL */

/* Ledger number `at`: st_dev and st_ino. NULL: there are no more. */
const struct stat *mapped_files_ledger(const struct mapped_files *files, size_t at);

struct mapped_tenant {
	struct stat ledger;
	int ledger_fd, policy_fd; /* to be read */
	char dir[PATH_MAX];	  /* by way of /proc/PID/root */
};

/*
 * Opens that ledger and the policy beside it. Their names and their content are the process's word. A file
 * that may make its reader wait is not opened: one of a file system that a program serves (FUSE), or a
 * device. -EOPNOTSUPP: it is such a file; -ENOENT: no policy beside it is mapped; -ESTALE: the mapping is
 * not there any more; errors of open(2).
 */
int mapped_open_tenant(const struct mapped_files *files, size_t at, struct mapped_tenant *ret);

#endif
