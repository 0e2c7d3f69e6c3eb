/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tenant this process is in, as liballot.so decides it (guest/core/guest.c): it need not be
 * loaded for that.
 */
#ifndef ALLOT_TENANT_FIND_H
#define ALLOT_TENANT_FIND_H

#include <stddef.h>

#include "dropin/config.h"

#define FIND_DIR_BYTES 320

enum find_result {
	FIND_NONE,    /* nothing is limited */
	FIND_TENANT,  /* its directory */
	FIND_DROP_IN, /* the directory that it will have from the first use of a GPU on */
};

/*
 * enum find_result, and the limits that this process has beside the tenant's. -ENOENT: `allot run`
 * started it, and the environment that named the tenant is gone; -EINVAL: limits of the environment
 * or the file that are none, or a name of no directory; errors of directory_find.
 */
int find_tenant(char ret_dir[static FIND_DIR_BYTES], struct config *ret_config);

#endif
