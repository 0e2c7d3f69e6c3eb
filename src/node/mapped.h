/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process is of a tenant, asked of the kernel: a ledger says who its processes are, but
 * whoever may write it can name any. A process of the tenant has the ledger mapped.
 */
#ifndef ALLOT_NODE_MAPPED_H
#define ALLOT_NODE_MAPPED_H

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Asks now, however long it takes. 0; -ENOENT: it has not, -EACCES, or -ESRCH: it is ending, or has ended. */
int mapped_by(pid_t pid, const struct stat *file);

/*
 * What follows is answered of ledgers alone, by their name, from one reading of the process's mappings
 * that is kept for a while, and which goes on in the next seconds where it is long (node/allowance.h).
 * Until then they answer -EAGAIN: it is not known yet; -ETIME: nor after long. For all threads.
 */
static inline bool mapped_is_unknown(int r)
{
	return r == -EAGAIN || r == -ETIME;
}

/* Whether any process has that ledger, of those that may use it. True where that is not known yet. */
bool mapped_by_any(const struct stat *ledger);

/*
 * The first ledger that a process has mapped, of whatever version, wherever that is, by its name alone:
 * its library is at work, whether or not anybody can read what that ledger says. (A program can map a
 * file that is called so. What would be in it could be forged as well.) Answers as mapped_by; st_dev and
 * st_ino are its.
 */
int mapped_any_ledger(pid_t pid, struct stat *ret);

/* The same as mapped_by, of that; also by another thread of a process whose first one has ended. */
int mapped_ledger(pid_t pid, const char *dir);

/* The ledger in a tenant's directory, and so whose it is. -errno. A link is none. */
int mapped_find_ledger(const char *dir, struct stat *ret);

/* Returns true if none of its threads has any memory by now, so that it has ended, or ends. */
bool mapped_is_ending(pid_t pid);

#endif
