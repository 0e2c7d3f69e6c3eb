/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two functions by which loaders enter an OpenCL driver, clGetExtensionFunctionAddress and
 * clIcdGetPlatformIDsKHR: a program's lookup of them is answered by hooks, which are bound to the
 * driver that has been found, because these functions have no argument that names it.
 */
#ifndef ALLOT_GUEST_OPENCL_DOOR_H
#define ALLOT_GUEST_OPENCL_DOOR_H

/*
 * The answer to a lookup of one of the two names that found `real`: a hook, or `real` where it is a
 * loader's, where the driver itself asks, and where nothing is limited. NULL: there is no place for
 * another driver.
 */
void *opencl_door(const char *name, void *real);

#endif
