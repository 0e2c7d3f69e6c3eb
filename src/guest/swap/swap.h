/* SPDX-License-Identifier: Apache-2.0 */
/* The swap thread of a process: it moves the process's memory as the tenant is asked to. */
#ifndef ALLOT_GUEST_SWAP_SWAP_H
#define ALLOT_GUEST_SWAP_SWAP_H

#include "guest/core/guest.h"

/* Starts it, if no thread has. */
void swap_start(struct guest *guest);

#endif
