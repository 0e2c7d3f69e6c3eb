/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of a tenant that leave together, and whose memory cgroup is the same one. Each becomes
 * the owner of its content, so each looks for room in there by itself. It says first how much it
 * is about to take, and then looks what the others have said: of two that do so at once one at
 * least sees the other. Those in another PID namespace, which is another container, are not seen.
 */
#ifndef ALLOT_GUEST_SWAP_BESIDE_H
#define ALLOT_GUEST_SWAP_BESIDE_H

#include <stdint.h>

#include "guest/core/guest.h"

/* Room of the cgroup beside the bytes that others have announced for the same PREPARE. */
uint64_t beside_claims(struct guest *guest);

/* The same where nobody says anything: all of them have an equal part of it. */
uint64_t beside_others(struct guest *guest);

#endif
