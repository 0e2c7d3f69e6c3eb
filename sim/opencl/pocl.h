/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The OpenCL driver that the simulated one is made of: pocl, which computes on the processors. Its table
 * of functions gets entries of ours, so that what it has looks like the first simulated GPU, and its
 * memory is counted there. Only a process that loads this library sees that.
 */
#ifndef ALLOT_SIM_OPENCL_POCL_H
#define ALLOT_SIM_OPENCL_POCL_H

#include <stdbool.h>
#include <stdint.h>

#include "opencl/abi/opencl.h"
#include "sim/region.h"

/* pocl's own functions. */
struct sim_pocl {
	void *(*extension)(const char *name);
	cl_int (*platforms)(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms);
#define OPENCL_HOOK(index, version, result, name, params) result(*name) params;
#define OPENCL_CALL(index, version, result, name, params) result(*name) params;
#include "opencl/opencl_api.def"
	cl_int (*clSetContextDestructorCallback)(cl_context context,
						 void (*pfn_notify)(cl_context context, void *user_data),
						 void *user_data);
};

extern struct sim_pocl sim_pocl;

/* The exports of this library, by which loaders enter a driver. */
cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries, cl_platform_id *platforms, cl_uint *num_platforms);
void *clGetExtensionFunctionAddress(const char *name);

/* Loads pocl and opens the region, once. False: there is none of one of them. */
bool sim_opencl_open(void);

/* The function of a name. */
void *sim_opencl_find(const char *name);

/* The region, and this process's row in it. */
extern struct sim_region *sim_opencl_region;
extern int sim_opencl_row;
/* False in a forked child, which has not got the region. */
bool sim_opencl_owns(void);

/* The simulated driver's entries that differ from pocl's. */
struct sim_entry {
	unsigned int index; /* in the table of struct _cl_icd_dispatch */
	void *function;
};
extern const struct sim_entry sim_device_entries[], sim_memory_entries[]; /* up to one without function */

#endif
