/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of the tenant that programs of one configuration make, and share. */
#ifndef ALLOT_DROPIN_DIRECTORY_H
#define ALLOT_DROPIN_DIRECTORY_H

#include <stddef.h>

#include "dropin/config.h"

/*
 * The runtime directory and the tenant's name: the configuration's, and in a container of several that
 * share the runtime directory the container's own part behind it: "drop-in-0.57". 0, or the errors
 * of tenant_runtime_dir.
 */
int directory_find(const struct config *config, char *ret_runtime, size_t len,
		   char ret_name[static POLICY_NAME_BYTES]);

#endif
