/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a file whose content is trusted: only root and the caller's user may be able to change it,
 * to exchange it or to put a link in its place.
 */
#ifndef ALLOT_BASE_GUARDED_H
#define ALLOT_BASE_GUARDED_H

#include <linux/limits.h>

/* The fault, and the file or folder of the path that has it. */
struct guarded_why {
	char path[PATH_MAX];
	const char *words;
};

/*
 * Opens the file for reading. Follows symbolic links, and checks each folder on the way and each link's
 * owner. A folder that others may write passes if it is sticky, or on a mount that is read-only, like
 * a ConfigMap's. Returns a descriptor, or -errno: -ENOENT if nothing has the name; -ENOLINK if a link
 * on the way leads nowhere, and -EPERM if others can change the file, both with `why` filled in.
 */
int guarded_open(const char *path, struct guarded_why *why);

#endif
