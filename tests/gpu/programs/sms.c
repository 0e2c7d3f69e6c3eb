/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sms: says how many SMs the program has, and whether the driver runs under MPS; told "try",
 * whether a piece of memory and a wait still succeed.
 */
#include "child.h"

static CUresult try_it(void)
{
	CUdeviceptr ptr;
	CUresult r = cu.cuMemAlloc_v2(&ptr, MIB);

	if (!r)
		r = cu.cuMemsetD8_v2(ptr, 1, MIB);
	if (!r)
		r = cu.cuCtxSynchronize();
	return r ? r : cu.cuMemFree_v2(ptr);
}

int main(void)
{
	int sms = 0, mps = -1;
	CUdevice device;
	char buf[32];

	child_begin(120);
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	MUST(cu.cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	cu.cuDeviceGetAttribute(&mps, CU_DEVICE_ATTRIBUTE_MPS_ENABLED, device);
	child_context(device);
	printf("{\"stage\": \"ready\", \"sms\": %d, \"mps\": %d}\n", sms, mps);
	while (child_told(buf)) {
		CUresult r = try_it();

		printf("{\"stage\": \"tried\", \"code\": %d, \"result\": \"%s\"}\n", (int)r,
		       child_error(r));
	}
	return 0;
}
