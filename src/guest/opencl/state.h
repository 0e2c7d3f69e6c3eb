/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL's words of the process: the devices of NVIDIA's that its drivers named. */
#ifndef ALLOT_GUEST_OPENCL_STATE_H
#define ALLOT_GUEST_OPENCL_STATE_H

#include <stdatomic.h>

#include "base/lock.h"
#include "guest/account/uuid_charge.h"
#include "guest/core/guest.h"

/* As many as a machine has; a call has some words of each on its stack. */
#define OPENCL_ACCOUNTED 16

/* guest->opencl. Devices are added and stay as they are: the first n are read without the lock. */
struct opencl_state {
	struct lock_opencl lock;
	_Atomic int n;
	struct uuid_device device[OPENCL_ACCOUNTED];
};

#endif
