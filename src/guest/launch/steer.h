/* SPDX-License-Identifier: Apache-2.0 */
/* Controllers that follow NVML's utilisation: one thread of a tenant at a time runs them. */
#ifndef ALLOT_GUEST_LAUNCH_STEER_H
#define ALLOT_GUEST_LAUNCH_STEER_H

#include <stdint.h>

struct guest;

/* For the monitor and for threads that are held. Controllers that follow no figure do nothing. */
void steer_all(struct guest *guest, uint64_t now_ns);

#endif
