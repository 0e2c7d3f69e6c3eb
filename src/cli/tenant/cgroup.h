/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cgroups (version 2) and their files. A cgroup is named by its path below the root of all: "" for
 * that itself, else like "/user.slice/a.scope". ALLOT_CGROUP_ROOT is where they are, by default
 * /sys/fs/cgroup.
 */
#ifndef ALLOT_CLI_TENANT_CGROUP_H
#define ALLOT_CLI_TENANT_CGROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* `file` as in "/cgroup.procs", or "" for the directory. 0 or -ENAMETOOLONG. */
int cgroup_path(const char *cgroup, const char *file, char ret[static PATH_MAX]);

/*
 * This process's own cgroup. -EXDEV if it is not below the root that is shown here, and errors of
 * reading.
 */
int cgroup_own(char ret[static PATH_MAX]);

/*
 * True if it is the machine's root cgroup, which may pass controllers on while processes are in it.
 * The cgroup that a container sees as its root is not the machine's.
 */
bool cgroup_is_root(const char *cgroup);

/* The text, cut at `len` - 1 bytes and terminated; 0 or -errno. */
int cgroup_read(const char *cgroup, const char *file, char *buf, size_t len);

/* Writes the text in one write, as the kernel wants it. 0 or -errno. */
int cgroup_write(const char *cgroup, const char *file, const char *text);

/* Moves this process there. */
int cgroup_enter(const char *cgroup);

/* True if another process is in it. */
bool cgroup_has_others(const char *cgroup);

/* True if the cgroup passes a controller on to those below it. */
bool cgroup_passes_on(const char *cgroup, const char *controller);

/* Has the cgroup do so, or no longer. -EBUSY: processes are in it (never of the root); -errno. */
int cgroup_pass_on(const char *cgroup, const char *controller, bool on);

#endif
