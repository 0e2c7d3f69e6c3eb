/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread in each process of a tenant that overcommits, beside the one that moves memory: it
 * sleeps until somebody waits, and has the role of residency_host.h if no other process has it.
 */
#ifndef ALLOT_GUEST_SWAP_RESIDENCY_H
#define ALLOT_GUEST_SWAP_RESIDENCY_H

#include "guest/core/guest.h"

void residency_start(struct guest *guest);

#endif
