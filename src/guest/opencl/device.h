/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of OpenCL that are accounted: GPUs of NVIDIA's whose driver says their UUID. Any other, as a
 * processor that computes, is none of ours.
 */
#ifndef ALLOT_GUEST_OPENCL_DEVICE_H
#define ALLOT_GUEST_OPENCL_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "guest/account/uuid_charge.h"
#include "guest/core/guest.h"
#include "guest/opencl/driver.h"
#include "guest/opencl/state.h"

/* As many of one platform are looked at. */
#define OPENCL_DEVICES 64

/* Devices are told apart by a bit each: index in guest->opencl. */
#define OPENCL_DEVICE_NONE -1		    /* not accounted */
#define OPENCL_DEVICE_MORE OPENCL_ACCOUNTED /* accounted, and without a place: the tenant has it not */

/* True if the device is accounted: what it is by the driver's own words. */
bool opencl_device_ask(const struct opencl_functions *functions, cl_device_id device,
		       struct uuid_device *ret);

/* Its index, or one of the two above. */
int opencl_device_index(struct guest *guest, const struct opencl_driver *driver, cl_device_id device);

/* True if the tenant has the device of this index, now. */
bool opencl_device_is_had(struct guest *guest, int index);

/* Accounted devices of a context, a bit each. 0: none, or no context. */
uint64_t opencl_device_mask(struct guest *guest, const struct opencl_driver *driver, cl_context context);

#endif
