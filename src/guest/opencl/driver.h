/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenCL drivers in this process. The first word of each object of a driver points to a table of the
 * driver's functions, one for all of its objects; programs and loaders call through it. Entries of this
 * table are replaced by hooks, and a slot here keeps the driver's own.
 *
 * The tables are the drivers' memory. A forked child has them as its parent left them, and so it has
 * the slots.
 */
#ifndef ALLOT_GUEST_OPENCL_DRIVER_H
#define ALLOT_GUEST_OPENCL_DRIVER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/lock.h"
#include "guest/core/guest.h"
#include "opencl/abi/opencl.h"

/* The driver's own. NULL: the driver is older than the function, or lacks it. */
struct opencl_functions {
#define OPENCL_HOOK(index, version, result, name, params) result(*name) params;
#define OPENCL_CALL(index, version, result, name, params) result(*name) params;
#include "opencl/opencl_api.def"
};

struct opencl_driver {
	_Atomic(void **) table; /* NULL: a free slot. Set when the rest is */
	_Atomic bool done;	/* and all entries are hooks */
	cl_platform_id platform;
	struct opencl_functions real;
};

/* The functions of a table, which may be another one's hooks; `platform` says its version. */
void opencl_driver_read(cl_platform_id platform, struct opencl_functions *ret);

/*
 * True if the driver's entries are hooks from now on: hooks has as many functions as the list has
 * rows, NULL for those that are called alone. False: there is no slot, or its memory cannot be
 * written.
 */
bool opencl_driver_patch(cl_platform_id platform, void *const *hooks);

/* Replaces one entry of a table, whatever the protection of its memory, which stays as it is. */
bool opencl_driver_store(void **entry, void *function);

/* True if the object's table is patched. */
bool opencl_driver_is_patched(const void *object);

/* The driver of an object. NULL and an unknown object are taken for the first driver's. */
const struct opencl_driver *opencl_driver_of(const void *object);

/* The row of a function that is a driver's own; -1: it is none of those in the list. */
int opencl_driver_row(const void *function);

/* OPENCL_DRIVER(driver, clCreateBuffer, (context, ...)): the driver's own, marked as ours to call. */
#define OPENCL_DRIVER(driver, name, args)                            \
	({                                                           \
		__typeof__((driver)->real.name args) driver_result_; \
		lock_rank_none(#name);                               \
		guest_depth++;                                       \
		driver_result_ = (driver)->real.name args;           \
		guest_depth--;                                       \
		driver_result_;                                      \
	})

#endif
