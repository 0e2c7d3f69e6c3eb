/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel if a process is of a tenant. A ledger lists its processes, but its writers can
 * name any. A process of the tenant has the ledger mapped.
 */
#ifndef ALLOT_NODE_PROCESS_MAPPED_H
#define ALLOT_NODE_PROCESS_MAPPED_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/*
 * Reads the process's mappings now, without a bound. Returns 0; -ENOENT: it does not map the file;
 * -EACCES; -ESRCH: it is ending, or has ended.
 */
int mapped_by(pid_t pid, const struct stat *file);

/*
 * The functions below answer about files that are called "ledger". They read a process's mappings
 * once and keep the answer for all callers; long ones are read in slices over the following seconds
 * (node/process/allowance.h). Until all is read they return -EAGAIN, and after 60 s -ETIME. For all
 * threads.
 */
static inline bool mapped_is_unknown(int r)
{
	return r == -EAGAIN || r == -ETIME;
}

/* Returns true if a process that may use the ledger maps it, or one may and is not read yet. */
bool mapped_by_any(const struct stat *ledger);

/*
 * Finds the first ledger that a process has mapped, of any version, anywhere, by its file name
 * alone: its library is at work, even if nobody can read that ledger. (A program can map a file of
 * that name; it could forge the content as well.) Answers as mapped_by; `ret` has its st_dev and
 * st_ino.
 */
int mapped_any_ledger(pid_t pid, struct stat *ret);

/*
 * The same as mapped_by, for a ledger (zeroed: there is none); also by another thread of a process
 * whose first one has ended.
 */
int mapped_ledger(pid_t pid, const struct stat *ledger);

/* The ledger in a tenant's directory, and so its owner. -errno. A link is none. */
int mapped_find_ledger(const char *dir, struct stat *ret);

/* Returns true if none of its threads has any memory by now, so that it has ended, or ends. */
bool mapped_is_ending(pid_t pid);

#endif
