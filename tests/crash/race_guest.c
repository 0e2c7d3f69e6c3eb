/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remainder of a device's memory, by cuMemAlloc, with liballot preloaded; what is in use is the
 * simulator's own count. The parent never calls the driver, so that each racer begins as a program.
 */
#include "nvidia/abi/cuda.h"
#include "sim/truth.h"
#include "tests/crash/race.h"
#include "tests/unit/tenant_fixture.h"

#define CONTEXT (8 * MIB)
#define LIMIT	(100 * MIB)
#define SETTLED (RACE_RACERS * CONTEXT)
#define REST	(LIMIT - SETTLED)

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev);
CUresult cuCtxSetCurrent(CUcontext ctx);
CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytes);
CUresult cuMemFree_v2(CUdeviceptr dptr);

static struct sim_truth *truth;
static CUdeviceptr held;

struct race race_begin(void)
{
	struct policy policy = fixture_policy(LIMIT);
	char dir[PATH_MAX], sim[PATH_MAX + 8];

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "race", &policy, dir, sizeof(dir)), 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", dir, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "1GiB", 1); /* so that it is the quota that refuses */
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	CHECK_EQ(sim_truth_create(NULL, &truth), 0);
	return (struct race){.devices = 1, .batches = 2000,
			     .least_bytes = REST / 2 + 1, .most_bytes = REST};
}

void race_join(void)
{
	CUcontext context;

	CHECK_EQ(sim_truth_open(NULL, &truth), 0); /* the parent's is not for a child */
	CHECK_EQ(cuInit(0), CUDA_SUCCESS);
	CHECK_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
	CHECK_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
}

bool race_take(int device, uint64_t bytes, bool *slow)
{
	CUresult e = cuMemAlloc_v2(&held, bytes);

	*slow = false;
	CHECK(e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY);
	return e == CUDA_SUCCESS;
}

void race_give(int device, uint64_t bytes)
{
	CHECK_EQ(cuMemFree_v2(held), CUDA_SUCCESS);
}

/* The driver gives granules. */
void race_check(int device, uint64_t bytes)
{
	CHECK_EQ(sim_truth_used(truth, device),
		 SETTLED + (bytes + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
}

void race_end(void)
{
	CHECK(sim_truth_peak(truth, 0) <= LIMIT); /* at no moment both */
	sim_truth_close(truth);
}
