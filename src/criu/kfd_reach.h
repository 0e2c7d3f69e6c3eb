/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How /dev/kfd's room (criu/kfd) reaches the machine in CRIU: content also by a GPU's engine. */
#ifndef ALLOT_CRIU_KFD_REACH_H
#define ALLOT_CRIU_KFD_REACH_H

#include "criu/kfd/kfd_calls.h"

extern const struct kfd_calls kfd_reach;

/* The engine that was opened for it, if any, is closed: its descriptor would be in the way. */
void kfd_reach_close(void);

#endif
