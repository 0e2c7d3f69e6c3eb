/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How /dev/kfd's room (criu/kfd) reaches the machine in CRIU: content of GPUs by their engines. */
#ifndef ALLOT_CRIU_KFD_REACH_H
#define ALLOT_CRIU_KFD_REACH_H

#include "criu/kfd/kfd_calls.h"

extern const struct kfd_calls kfd_reach;

/* Closes what was opened for it, whose descriptors would be in the way, and logs what was copied. */
void kfd_reach_close(void);

#endif
