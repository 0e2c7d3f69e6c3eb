/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The use of devices by tenants in the last 90 days, on disk, so that a boot does not lose it. allotd
 * alone writes it; `allot report` reads it. A folder for each user, a file in it for each day (UTC)
 * on which a line was written, a line (ended.h) for each part of a tenant's life on a device:
 *
 *	/var/lib/allot/history/UID/2026-11-30.tsv	UID 0: root's tenants, and containers
 *
 * Files and folders are root's. A user may enter the own folder, by an access list, and sees of
 * others what `allot ps` shows as well: that there are such.
 */
#ifndef ALLOT_NODE_JOURNAL_H
#define ALLOT_NODE_JOURNAL_H

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/ended.h"

#define JOURNAL_DAYS  90
#define JOURNAL_DAY_S 86400

/*
 * Where allotd is to keep it: the folder that its configuration says, or one in $STATE_DIRECTORY, or the
 * usual one for the usual runtime directory. -ENOENT: nowhere.
 */
int journal_choose(const char *runtime, const char *said, char ret[static PATH_MAX]);
/* Where allotd keeps that of a runtime directory, as it noted, or usually. -ENOENT: nowhere. */
int journal_find(const char *runtime, char ret[static PATH_MAX]);
/* Makes the folder, and notes it for journal_find(). -errno. */
int journal_make(const char *runtime, const char *dir);

/*
 * Appends a line to the user's file of that day. The bytes of a disk that it takes, about; -EDQUOT: the
 * file has `most_bytes` by now; -errno: nothing is appended.
 */
int journal_append(const char *dir, uid_t uid, int64_t now_s, const struct ended *e,
		   uint64_t most_bytes);
/* The bytes of all users' files of that day, as a disk has them. */
uint64_t journal_bytes(const char *dir, int64_t now_s);

/* Each line that was written since `since_s`, by user and day, until `take` returns not 0. */
typedef int journal_taker(uid_t uid, const struct ended *e, void *arg);
#define JOURNAL_ALL ((uid_t)-1)
/* Returns 0, the answer of `take`, or -errno: -EACCES if the caller may not enter the folder. */
int journal_read(const char *dir, uid_t uid, int64_t since_s, journal_taker *take, void *arg);

/* Removes files of days more than JOURNAL_DAYS ago, and users without a file. How many files. */
unsigned int journal_prune(const char *dir, int64_t now_s);

#endif
