/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor that stands for memory of a swappable tenant, in place of the driver's own, which would
 * hold the memory on the device: a sealed file of one name (share_name.h). It is good within the
 * tenant, for as long as the exporter has the memory.
 */
#ifndef ALLOT_GUEST_CORE_TOKEN_H
#define ALLOT_GUEST_CORE_TOKEN_H

#include <stdbool.h>

#include "guest/core/share_name.h"

/* A descriptor or -errno. */
int token_make(const struct share_name *name);

/* False: it is something else, and was not read from. */
bool token_read(int fd, struct share_name *ret);

#endif
