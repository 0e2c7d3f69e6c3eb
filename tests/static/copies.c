/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A copy of a tenant with a share asks the driver no more than once what an address is, and for no
 * address that the call's name tells: each such question is a part of what the copy costs.
 */
#include <stdlib.h>

#include "guest/core/hook.h"
#include "sim/cuda/api.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)

#define BYTES 4096u

static CUresult (*ask)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
static unsigned int asked;

static CUresult count(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	asked++;
	return ask(data, attribute, ptr);
}

/* How often the driver was asked since the last time. */
static unsigned int questions(void)
{
	unsigned int n = asked;

	asked = 0;
	return n;
}

static CUdeviceptr address(void *memory)
{
	return (CUdeviceptr)(uintptr_t)memory;
}

/* cuMemcpy*: the second side matters where the first is the device's. */
static void check_unified(CUdeviceptr device, void *pinned, void *pageable)
{
	CUdeviceptr other = device + BYTES;

	OK(cuMemcpyAsync(other, device, BYTES, NULL));
	CHECK_EQ(questions(), 2);
	OK(cuMemcpyAsync(device, address(pinned), BYTES, NULL));
	CHECK_EQ(questions(), 2);
	OK(cuMemcpyAsync(device, address(pageable), BYTES, NULL));
	CHECK_EQ(questions(), 2);
	OK(cuMemcpyAsync(address(pinned), device, BYTES, NULL));
	CHECK_EQ(questions(), 1);
	OK(cuMemcpyAsync(address(pageable), device, BYTES, NULL));
	CHECK_EQ(questions(), 1);
	OK(cuMemcpy(address(pageable), device, BYTES));
	CHECK_EQ(questions(), 1);
}

static void check_named(CUdeviceptr device, void *pageable)
{
	OK(cuMemcpyDtoDAsync_v2(device + BYTES, device, BYTES, NULL));
	OK(cuMemcpyHtoDAsync_v2(device, pageable, BYTES, NULL));
	OK(cuMemcpyDtoH_v2(pageable, device, BYTES));
	CHECK_EQ(questions(), 0);
	OK(cuMemcpyDtoHAsync_v2(pageable, device, BYTES, NULL)); /* is it done on return? */
	CHECK_EQ(questions(), 1);
}

static void check_2d(CUdeviceptr device, void *pageable)
{
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
			      .srcDevice = device,
			      .dstMemoryType = CU_MEMORYTYPE_HOST,
			      .dstHost = pageable,
			      .WidthInBytes = BYTES,
			      .Height = 1};

	OK(cuMemcpy2D_v2(&copy));
	CHECK_EQ(questions(), 0);
	OK(cuMemcpy2DAsync_v2(&copy, NULL));
	CHECK_EQ(questions(), 1);
	copy.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.dstDevice = address(pageable);
	OK(cuMemcpy2DAsync_v2(&copy, NULL));
	CHECK_EQ(questions(), 1);
}

int main(void)
{
	struct policy policy = fixture_policy(GIB);
	char tenant[PATH_MAX], sim[PATH_MAX + 8];
	void *pinned, *pageable = malloc(BYTES);
	CUcontext context;
	CUdeviceptr device;

	policy.compute = POLICY_COMPUTE_CAP;
	policy.device[0].share_permille = 900;
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "copies", &policy, tenant, sizeof(tenant)),
		 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&device, 2 * BYTES));
	OK(cuMemHostAlloc(&pinned, BYTES, 0));
	CHECK(pageable);

	ask = cuda_real.cuPointerGetAttribute;
	cuda_real.cuPointerGetAttribute = count;
	check_unified(device, pinned, pageable);
	check_named(device, pageable);
	check_2d(device, pageable);
	OK(cuCtxSynchronize());
	free(pageable);
	return 0;
}
