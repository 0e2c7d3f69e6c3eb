/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that device memory goes to. */
#ifndef ALLOT_GUEST_SWAP_HOST_H
#define ALLOT_GUEST_SWAP_HOST_H

#include <stdbool.h>
#include <stdint.h>

/* Addresses without pages yet, which no child inherits. NULL: there are none. munmap ends it. */
char *host_take(uint64_t bytes);

/* Finds the pages. A page that cannot be had is an error here, and no signal later. */
bool host_populate(char *at, uint64_t bytes);

#endif
