/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a tenant's directory: opened with suspicion, locked by byte ranges. */
#ifndef ALLOT_LEDGER_SHARED_FILE_H
#define ALLOT_LEDGER_SHARED_FILE_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* A directory that is ours or root's and not writable by others. Descriptor or -errno. */
int shared_file_open_dir(const char *path);

/*
 * The bit of a directory whose files are open to everybody who reaches it: see
 * tenant_open_to_all().
 */
#define SHARED_FILE_FOR_ALL S_ISVTX

/*
 * By an access list (acl(5)) one other user may do `may` with a directory of ours; its owner may do all,
 * and nobody else anything. `bits` are further ones of its mode. -EOPNOTSUPP where the file system has no
 * access lists; -errno.
 */
#define SHARED_FILE_ENTER 1 /* reach files by their names */
#define SHARED_FILE_NAMES 4 /* and list those */
int shared_file_let_in(int dirfd, mode_t bits, uid_t uid, uint16_t may);

/*
 * Opens <dir>/<name>. -ELOOP for a symbolic link; -EPERM if it is no regular file, is not ours or
 * root's and was not mounted in a directory for all, or is open to others against its directory's
 * bit; -EPROTO if the size is not `bytes`. Descriptor or -errno.
 */
int shared_file_open(const char *dir, const char *name, int flags, uint64_t bytes);

/* Checks an open file: -EPERM unless it is a regular file, -EPROTO unless it has that size; 0. */
int shared_file_check(int fd, uint64_t bytes);

/* Creates <dir>/<name>, 0600 whatever the umask, empty. -EEXIST. Descriptor or -errno. */
int shared_file_create(const char *dir, const char *name);

/* -EFBIG where making a file that large would end the process by SIGXFSZ (RLIMIT_FSIZE), else 0. */
int shared_file_may_have(uint64_t bytes);

/*
 * Opens <dir>/<name> for reading and writing; the first caller makes it with `bytes` zeroes. A file
 * without a size is being made, or its maker was killed: each caller then gives it its size.
 * Descriptor or -errno; -ENOSPC, -EFBIG.
 */
int shared_file_join(const char *dir, const char *name, uint64_t bytes);

/*
 * Open-file-description locks: they belong to the description, not to process or thread, and the
 * kernel drops them with its last reference. shared_file_lock answers 0 or -EAGAIN at once.
 */
int shared_file_lock(int fd, int64_t at, int64_t len);
/* The same, but waits until the holder has released it, without limit. */
int shared_file_await(int fd, int64_t at, int64_t len);
/* Likewise, for any number of holders at once, which all exclude shared_file_lock. */
int shared_file_share(int fd, int64_t at, int64_t len);
void shared_file_unlock(int fd, int64_t at, int64_t len);
/* 1 when another description holds it, 0 when none does, or -errno. Needs no write access. */
int shared_file_locked(int fd, int64_t at, int64_t len);
/*
 * 0 if a mapping of <dir>/<name> keeps a lock that was taken through its descriptor after that is
 * closed, as everything here relies on. -ENOLCK where it does not: overlayfs maps another file than
 * the one that is locked. A process that holds a lock of the file must not ask.
 */
int shared_file_keeps_locks(const char *dir, const char *name);
/* Polls, from 20 us to 1 ms apart, for about a second. -ETIMEDOUT. */
int shared_file_lock_wait(int fd, int64_t at, int64_t len);

/* Sleeps for *us microseconds and doubles *us up to `max_us`. Cut short by signals. */
void shared_file_nap(unsigned int *us, unsigned int max_us);

#endif
