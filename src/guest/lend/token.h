/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A descriptor that stands for memory of a swappable tenant, in place of the driver's own, which
 * would hold the memory on the device: a sealed file of one name (share_name.h). It is good
 * within the tenant, for as long as the exporter has the memory.
 */
#ifndef ALLOT_GUEST_LEND_TOKEN_H
#define ALLOT_GUEST_LEND_TOKEN_H

#include <stdbool.h>

#include "guest/lend/share_name.h"

/*
 * A descriptor or -errno. The file is as long as programs ask of one of memory; 0: as the name
 * is.
 */
int token_make(const struct share_name *name, uint64_t bytes);

/* False: it is something else, or of another vendor's memory. */
bool token_read(int fd, uint64_t magic, struct share_name *ret);

#endif
