/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is of a tenant, asked of the kernel: a ledger says who its processes are, but
 * whoever may write it can name any. A process of the tenant has the ledger mapped.
 */
#ifndef ALLOT_NODE_MAPPED_H
#define ALLOT_NODE_MAPPED_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* 0; -ENOENT: it has not, -EACCES, or -ESRCH: it is ending, or has ended. */
int mapped_by(pid_t pid, const struct stat *file);

/* Whether any process has it, of those that can be looked into from here: those that may use it. */
bool mapped_by_any(const struct stat *file);

/*
 * The first ledger that a process has mapped, of whatever version, wherever that is, by its name alone:
 * its library is at work, whether or not anybody can read what that ledger says. (A program can map a
 * file that is called so. What would be in it could be forged as well.) Answers as mapped_by; st_dev and
 * st_ino are its.
 */
int mapped_any_ledger(pid_t pid, struct stat *ret);

/* Returns true if none of its threads has any memory by now, so that it has ended, or ends. */
bool mapped_is_ending(pid_t pid);

/* The ledger in a tenant's directory, and so whose it is. -errno. A link is none. */
int mapped_find_ledger(const char *dir, struct stat *ret);

/*
 * The same as mapped_by, of a ledger (zeroed: there is none); also by another thread of a process whose
 * first one has ended.
 */
int mapped_ledger(pid_t pid, const struct stat *ledger);

/*
 * All ledgers and policies that a process has mapped, wherever they are: of its own tenant, and of the
 * others where it arranges their turns. -ENOMEM; else as mapped_any_ledger.
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
