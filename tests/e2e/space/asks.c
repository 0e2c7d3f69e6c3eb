/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that asks how many SMs a device has: built as libcublasLt.so.13, which is told of the
 * whole device, and under a name that is its own.
 */
#include <dlfcn.h>
#include <stdint.h>

#define MULTIPROCESSOR_COUNT 16

#pragma GCC visibility push(default)
int asks_by_name(void);
int asks_by_proc_address(void);
#pragma GCC visibility pop

static int ask(void *function)
{
	int sms = -1;

	if (((int (*)(int *, int, int))function)(&sms, MULTIPROCESSOR_COUNT, 0))
		return -1;
	return sms;
}

int asks_by_name(void)
{
	return ask(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDeviceGetAttribute"));
}

/* As the CUDA runtime that is linked into a library does. */
int asks_by_proc_address(void)
{
	int (*find)(const char *, void **, int, uint64_t, void *) = (int (*)(
		const char *, void **, int, uint64_t, void *))dlsym(
		dlopen("libcuda.so.1", RTLD_NOW), "cuGetProcAddress_v2");
	void *function = 0;

	return find("cuDeviceGetAttribute", &function, 12000, 0, 0) ? -1 : ask(function);
}
