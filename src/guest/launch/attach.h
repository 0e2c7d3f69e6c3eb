/* SPDX-License-Identifier: Apache-2.0 */
/* The first metered launch of a process, and of a device: makes what state.h describes. */
#ifndef ALLOT_GUEST_LAUNCH_ATTACH_H
#define ALLOT_GUEST_LAUNCH_ATTACH_H

#include "guest/launch/state.h"

/*
 * The device of the current context, made if need be. CUDA_SUCCESS and NULL: there is no context,
 * or it is on no device of the tenant; CUDA_ERROR_OUT_OF_MEMORY: it cannot be metered.
 */
CUresult attach_device(struct guest *guest, CUcontext *ret_context,
		       struct launch_device **ret);

#endif
