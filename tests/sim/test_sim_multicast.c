/* SPDX-License-Identifier: Apache-2.0 */
/* Multicast objects: what they keep of the memory that is bound to them. */
#include "tests/sim/sim_test.h"

static CUmemGenericAllocationHandle memory(CUdevice device, uint64_t bytes)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUmemGenericAllocationHandle h;

	OK(cuMemCreate(&h, bytes, &prop, 0));
	return h;
}

static CUmemGenericAllocationHandle object(unsigned int devices)
{
	CUmulticastObjectProp prop = {.numDevices = devices, .size = 64 * MIB};
	CUmemGenericAllocationHandle h;
	size_t granularity;

	OK(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
	CHECK_EQ(granularity, 2 * MIB);
	OK(cuMulticastCreate(&h, &prop));
	for (unsigned int i = 0; i < devices; i++)
		OK(cuMulticastAddDevice(h, (CUdevice)i));
	return h;
}

/* Bound memory stays taken after its handle is released, until it is unbound. */
static void test_unbind(void)
{
	uint64_t before = used(0);
	CUmemGenericAllocationHandle all = object(2), mem[2];

	CHECK_EQ(used(0), before);
	for (int i = 0; i < 2; i++) {
		mem[i] = memory(i, 10 * MIB);
		OK(cuMulticastBindMem(all, 20 * MIB, mem[i], 2 * MIB, 8 * MIB, 0));
		OK(cuMemRelease(mem[i]));
	}
	CHECK_EQ(used(0) - before, 10 * MIB);
	CHECK_EQ(used(1), 10 * MIB);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(all, 0, mem[0], 0, 2 * MIB, 0));
	OK(cuMulticastUnbind(all, 0, 0, 20 * MIB));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind(all, 0, 20 * MIB, 2 * MIB));
	CHECK_EQ(used(0) - before, 10 * MIB);
	OK(cuMulticastUnbind(all, 0, 20 * MIB, 8 * MIB));
	CHECK_EQ(used(0), before);
	CHECK_EQ(used(1), 10 * MIB);
	OK(cuMemRelease(all));
	CHECK_EQ(used(1), 0);
}

/* ... or until the object is released. */
static void test_release(void)
{
	uint64_t before = used(0);
	CUmemGenericAllocationHandle all = object(1), mem = memory(0, 10 * MIB);
	CUdeviceptr va;

	OK(cuMemAddressReserve(&va, 10 * MIB, 0, 0, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemMap(va, 10 * MIB, 0, all, 0));
	OK(cuMemMap(va, 10 * MIB, 0, mem, 0));
	OK(cuMulticastBindAddr(all, 0, va + 2 * MIB, 8 * MIB, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindAddr(all, 4 * MIB, va, 2 * MIB, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindAddr(all, 8 * MIB, va, 12 * MIB, 0));
	OK(cuMemUnmap(va, 10 * MIB));
	OK(cuMemRelease(mem));
	CHECK_EQ(used(0) - before, 10 * MIB);
	OK(cuMemRelease(all));
	CHECK_EQ(used(0), before);
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMemRelease(all));
	OK(cuMemAddressFree(va, 10 * MIB));
}

static void test_refused(void)
{
	CUmulticastObjectProp prop = {.numDevices = 2, .size = 64 * MIB};
	CUmemGenericAllocationHandle all, mem[2] = {memory(0, 4 * MIB), memory(1, 4 * MIB)};
	int supported;

	OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
	CHECK_EQ(supported, 1);
	OK(cuMulticastCreate(&all, &prop));
	OK(cuMulticastAddDevice(all, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(all, 0));
	GIVES(CUDA_ERROR_SYSTEM_NOT_READY, cuMulticastBindMem(all, 0, mem[0], 0, 4 * MIB, 0));
	GIVES(CUDA_ERROR_INVALID_DEVICE, cuMulticastBindMem(all, 0, mem[1], 0, 4 * MIB, 0));
	OK(cuMulticastAddDevice(all, 1));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(all, 62 * MIB, mem[0], 0, 4 * MIB, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(mem[1], 0, mem[0], 0, 4 * MIB, 0));
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(all, 0, all, 0, 4 * MIB, 0));
	OK(cuMulticastBindMem(all, 60 * MIB, mem[0], 0, 4 * MIB, 0));
	OK(cuMemRelease(all));
	OK(cuMemRelease(mem[0]));
	OK(cuMemRelease(mem[1]));
	prop.numDevices = 3;
	GIVES(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&all, &prop));
}

int main(void)
{
	sim_begin("2", "512MiB");
	sim_context(0);
	test_unbind();
	test_release();
	test_refused();
	CHECK_EQ(used(0), 64 * MIB);
	CHECK_EQ(used(1), 0);
	return 0;
}
