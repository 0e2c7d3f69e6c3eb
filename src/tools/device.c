/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/device.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * The clock is read only because such a read may not be moved out of a loop, and the store, which
 * hardly ever happens, because a loop without an effect may go altogether. The simulator knows the
 * kernel by its name alone and takes the number for microseconds.
 */
#define SPIN "sim_spin"
static const char spin_ptx[] = ".version %s\n"
			       ".target %s\n"
			       ".address_size 64\n"
			       ".global .u32 sink;\n"
			       ".visible .entry " SPIN "(.param .u64 n)\n"
			       "{\n"
			       ".reg .u64 %%left;\n"
			       ".reg .u32 %%x, %%now;\n"
			       ".reg .pred %%more, %%never;\n"
			       "ld.param.u64 %%left, [n];\n"
			       "mov.u32 %%x, 1;\n"
			       "loop:\n"
			       "mov.u32 %%now, %%clock;\n"
			       "mad.lo.u32 %%x, %%x, 1664525, %%now;\n"
			       "sub.u64 %%left, %%left, 1;\n"
			       "setp.ne.u64 %%more, %%left, 0;\n"
			       "@%%more bra loop;\n"
			       "setp.eq.u32 %%never, %%x, 305419896;\n"
			       "@%%never st.global.u32 [sink], %%x;\n"
			       "ret;\n"
			       "}\n";

/* The oldest that still runs everywhere first; a driver that dropped it takes the next. */
static const struct {
	const char *version, *target;
} targets[] = {{"6.0", "sm_50"}, {"8.0", "sm_80"}};

#define WARM_US	      120000.0 /* clocks rise within the first tens of ms of work */
#define CALIBRATIONS  7
#define LEAST_WORK_US 400.0

void load_must(CUresult result, const char *what)
{
	const char *name = NULL;

	if (!result)
		return;
	if (!cu.cuGetErrorName || cu.cuGetErrorName(result, &name) || !name)
		name = "unknown error";
	fprintf(stderr, "%s: %s: %s (%d)\n", program_invocation_short_name, what, name,
		(int)result);
	exit(1);
}

static CUresult device_load_kernel(CUfunction *ret)
{
	CUresult r = CUDA_ERROR_INVALID_IMAGE;
	char text[1024];
	CUmodule module;

	for (size_t i = 0; r && i < sizeof(targets) / sizeof(targets[0]); i++) {
		snprintf(text, sizeof(text), spin_ptx, targets[i].version, targets[i].target);
		r = cu.cuModuleLoadData(&module, text);
	}
	return r ? r : cu.cuModuleGetFunction(ret, module, SPIN);
}

static double device_spin_us(const struct load_device *device, uint64_t loops, CUevent from,
			     CUevent to)
{
	void *params[] = {&loops};
	float ms;

	MUST(cu.cuEventRecord(from, NULL));
	MUST(cu.cuLaunchKernel(device->spin, device->blocks, 1, 1, device->threads, 1, 1, 0, NULL,
			       params, NULL));
	MUST(cu.cuEventRecord(to, NULL));
	MUST(cu.cuEventSynchronize(to));
	MUST(cu.cuEventElapsedTime(&ms, from, to));
	return (double)ms * 1e3;
}

/*
 * The difference of a long and a short run, so that what a launch costs drops out; the fastest of
 * several, since whatever disturbs makes it slower.
 */
static double device_calibrate(const struct load_device *device)
{
	double us, warm = 0, once = 0, four = 0;
	uint64_t loops = 64;
	CUevent from, to;

	MUST(cu.cuEventCreate(&from, CU_EVENT_DEFAULT));
	MUST(cu.cuEventCreate(&to, CU_EVENT_DEFAULT));
	for (; (us = device_spin_us(device, loops, from, to)) < LEAST_WORK_US; loops *= 2)
		warm += us;
	while (warm < WARM_US)
		warm += device_spin_us(device, loops * 4, from, to);
	for (int i = 0; i < CALIBRATIONS; i++) {
		us = device_spin_us(device, loops, from, to);
		once = i && once < us ? once : us;
		us = device_spin_us(device, loops * 4, from, to);
		four = i && four < us ? four : us;
	}
	MUST(cu.cuEventDestroy_v2(from));
	MUST(cu.cuEventDestroy_v2(to));
	return (double)(loops * 3) / (four - once);
}

void load_driver(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver) {
		fprintf(stderr, "%s: %s\n", program_invocation_short_name, dlerror());
		exit(1);
	}
	cuda_driver_bind(driver, dlsym);
	MUST(cu.cuInit(0));
}

void load_device_open(struct load_device *ret, int ordinal, unsigned int blocks,
		      unsigned int threads, double loops_per_us)
{
	CUcontext context;
	CUdevice device;
	int processors;

	load_driver();
	MUST(cu.cuDeviceGet(&device, ordinal));
	MUST(cu.cuDevicePrimaryCtxRetain(&context, device));
	MUST(cu.cuCtxSetCurrent(context));
	MUST(cu.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
				     device));
	MUST(device_load_kernel(&ret->spin));
	ret->blocks = blocks ? blocks : (unsigned int)processors;
	ret->threads = threads;
	ret->loops_per_us = loops_per_us > 0 ? loops_per_us : device_calibrate(ret);
}

uint64_t load_device_loops(const struct load_device *device, double us)
{
	double loops = us * device->loops_per_us + 0.5;

	return loops < 1 ? 1 : (uint64_t)loops;
}
