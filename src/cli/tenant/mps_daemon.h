/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MPS control daemon of a runtime directory: one for all of its tenants in mode space, in a
 * folder that no tenant can be called. Asked and told by NVIDIA's own program, as a person would.
 */
#ifndef ALLOT_CLI_TENANT_MPS_DAEMON_H
#define ALLOT_CLI_TENANT_MPS_DAEMON_H

#include <limits.h>
#include <stdbool.h>

struct mps_daemon {
	char control[PATH_MAX]; /* nvidia-cuda-mps-control */
	char root[PATH_MAX];	/* <runtime>/.mps, which holds the lock */
	char pipe[PATH_MAX];	/* the two directories that its variables name */
	char log[PATH_MAX];
	char said[256]; /* its last output, in one line */
};

/* Fills in the paths, touching nothing. -ENAMETOOLONG when no socket fits into the directory. */
int mps_daemon_at(const char *runtime, struct mps_daemon *ret);

/*
 * Finds the program, and that the server it starts is there: ALLOT_MPS_CONTROL, or PATH, /usr/bin,
 * /usr/local/bin. -ENOENT without the one, -ENOPKG without the other.
 */
int mps_daemon_find(struct mps_daemon *daemon);

/* 0 when it answers, -ENOENT: there is none, -ETIMEDOUT: its socket is open, and no more. */
int mps_daemon_ask(struct mps_daemon *daemon);

/*
 * Starts it unless it runs; of several concurrent callers one does. -ETIMEDOUT as above, -EPROTO if
 * it did not start (`said` has why), or -errno.
 */
int mps_daemon_start(struct mps_daemon *daemon);

/*
 * Returns the pid of a server that refuses clients, because one of them had a fatal fault or was
 * killed with work on the device; 0 if there is none. Waits up to `limit_s` seconds for it to
 * recover: it does so by itself when the clients that it had are gone.
 */
long mps_daemon_failed_server(struct mps_daemon *daemon, double limit_s);

/*
 * Under the lock of mps_daemon_start, if it is free: ends the daemon, unless needed(arg) is true. 1
 * if it was told to end, 0 if not, or -errno.
 */
int mps_daemon_end(struct mps_daemon *daemon, bool (*needed)(const void *arg), const void *arg);

#endif
