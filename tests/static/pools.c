/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that allocate from one pool at once, of all sizes and beyond the quota: the device never
 * gives the tenant more than its quota, but for the one step by which a pool may grow whose room is
 * in pieces. At the end the ledger says what the simulator counts.
 *
 *	pools [swappable]	of a tenant whose pools are ours, which never grow beyond the quota
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "guest/account/granule.h"
#include "guest/core/hook.h"
#include "sim/cuda/api.h"
#include "sim/truth.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define LIMIT	 (3 * GIB)
#define THREADS	 8
#define HELD	 16
#define STEPS	 400
#define PIECE	 (16 * MIB)
#define CONTEXT	 (8 * MIB)

static struct sim_truth *truth;
static CUcontext context;
static struct guest_device *device;
static uint64_t step = POOL_BYTES; /* by which the quota may be exceeded */

struct worker {
	unsigned int seed;
	unsigned int refused;
	uint64_t most; /* bytes of one allocation */
};

/* Most are small, some are very large. */
static size_t pick_size(struct worker *w)
{
	uint64_t most = w->most >> rand_r(&w->seed) % 8;

	return 1 + (size_t)rand_r(&w->seed) % most;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr ptr[HELD] = {0};
	CUstream stream;
	CUresult e;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < STEPS; i++) {
		int at = rand_r(&w->seed) % HELD;

		if (ptr[at]) {
			OK(cuMemFreeAsync(ptr[at], stream));
			ptr[at] = 0;
		}
		e = cuMemAllocAsync(&ptr[at], pick_size(w), stream);
		CHECK(e == CUDA_SUCCESS || e == CUDA_ERROR_OUT_OF_MEMORY);
		w->refused += e != CUDA_SUCCESS;
		if (e)
			ptr[at] = 0;
		if (rand_r(&w->seed) % 64 == 0)
			OK(cuStreamSynchronize(stream));
	}
	for (int i = 0; i < HELD; i++)
		if (ptr[i])
			OK(cuMemFreeAsync(ptr[i], stream));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

static void threads(int n, uint64_t most)
{
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	unsigned int refused = 0;
	uint64_t peak;

	sim_truth_reset_peak(truth, 0);
	for (int i = 0; i < n; i++) {
		worker[i] = (struct worker){.seed = (unsigned int)(n * 100 + i), .most = most};
		CHECK_EQ(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
	}
	for (int i = 0; i < n; i++) {
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
		refused += worker[i].refused;
	}
	CHECK(refused || most < GIB); /* or the quota was not met */
	peak = sim_truth_peak(truth, 0);
	if (peak > LIMIT + step)
		fprintf(stderr, "%d threads, up to %llu MiB: %llu of %llu MiB held\n", n,
			(unsigned long long)(most / MIB), (unsigned long long)(peak / MIB),
			(unsigned long long)(LIMIT / MIB));
	CHECK(peak <= LIMIT + step);
}

/* A pool's room is used again though the quota has none beside it. */
static void same_again(CUmemoryPool pool)
{
	cuuint64_t reserved;
	CUdeviceptr ptr;

	for (int i = 0; i < 100; i++) {
		OK(cuMemAllocAsync(&ptr, LIMIT * 3 / 4, NULL));
		OK(cuMemFreeAsync(ptr, NULL));
	}
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	CHECK_EQ(reserved, LIMIT * 3 / 4);
	OK(cuStreamSynchronize(NULL));
	OK(cuMemPoolTrimTo(pool, 0));
}

static void *work_in_room(void *arg)
{
	CUdeviceptr ptr;
	CUstream stream;

	OK(cuCtxSetCurrent(context));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < STEPS; i++) {
		OK(cuMemAllocAsync(&ptr, PIECE, stream));
		OK(cuMemFreeAsync(ptr, stream));
	}
	OK(cuStreamSynchronize(stream));
	OK(cuStreamDestroy_v2(stream));
	return NULL;
}

/* A pool that has all of the quota, half of it free: nobody is refused what fits into it. */
static void threads_in_room(void)
{
	static CUdeviceptr ptr[LIMIT / PIECE];
	pthread_t thread[THREADS];
	size_t n = 0;

	while (cuMemAllocAsync(&ptr[n], PIECE, NULL) == CUDA_SUCCESS)
		n++;
	for (size_t i = 0; i < n; i += 2)
		OK(cuMemFreeAsync(ptr[i], NULL));
	OK(cuStreamSynchronize(NULL));
	sim_truth_reset_peak(truth, 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, work_in_room, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK(sim_truth_peak(truth, 0) <= LIMIT);
	for (size_t i = 1; i < n; i += 2)
		OK(cuMemFreeAsync(ptr[i], NULL));
	OK(cuStreamSynchronize(NULL));
}

/* A pool that is destroyed keeps what was allocated from it, until that is freed. */
static void destroyed(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUdeviceptr ptr[LIMIT / PIECE], more;
	CUmemoryPool pool, standard, current;
	size_t n = 0;
	CUresult e;

	OK(cuDeviceGetDefaultMemPool(&standard, 0));
	sim_truth_reset_peak(truth, 0);
	for (;;) {
		OK(cuMemPoolCreate(&pool, &props));
		OK(cuDeviceSetMemPool(0, pool));
		e = cuMemAllocAsync(&ptr[n], 8 * PIECE, NULL);
		OK(cuMemPoolDestroy(pool));
		OK(cuDeviceGetMemPool(&current, 0));
		CHECK_EQ((uintptr_t)current, (uintptr_t)standard);
		CHECK_EQ(cuDeviceSetMemPool(0, pool), CUDA_ERROR_INVALID_VALUE);
		CHECK_EQ(cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
		CHECK_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
		CHECK_EQ(cuMemAllocFromPoolAsync(&more, 1, pool, NULL), CUDA_ERROR_INVALID_VALUE);
		if (e)
			break;
		n++;
	}
	CHECK_EQ(e, CUDA_ERROR_OUT_OF_MEMORY);
	CHECK_EQ(n, (LIMIT - CONTEXT) / (8 * PIECE));
	CHECK(sim_truth_peak(truth, 0) <= LIMIT);
	CHECK_EQ(quota_used(guest_get()->ledger, device->ledger), sim_truth_used(truth, 0));
	for (size_t i = 0; i < n; i++)
		OK(i % 2 ? cuMemFree_v2(ptr[i]) : cuMemFreeAsync(ptr[i], NULL));
	OK(cuStreamSynchronize(NULL));
	CHECK_EQ(quota_used(guest_get()->ledger, device->ledger), CONTEXT);
	CHECK_EQ(sim_truth_used(truth, 0), CONTEXT);
	CHECK_EQ(cuMemPoolDestroy(standard), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
	struct policy policy = fixture_policy(LIMIT);
	char tenant[PATH_MAX], sim[PATH_MAX + 8];
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool;

	if (argc > 1 && !strcmp(argv[1], "swappable")) {
		policy.flags |= POLICY_SWAPPABLE;
		step = 0;
	}
	CHECK_EQ(tenant_create(fixture_runtime_dir(), "pools", &policy, tenant, sizeof(tenant)),
		 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "24GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	CHECK_EQ(sim_truth_open(sim, &truth), 0);
	device = guest_device(guest_get(), 0);

	same_again(pool);
	threads_in_room();
	for (int n = 1; n <= THREADS; n *= 2) {
		threads(n, GIB);
		threads(n, 2 * POOL_BYTES * LIMIT / GIB);
	}
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK_EQ(quota_used(guest_get()->ledger, device->ledger), sim_truth_used(truth, 0));
	CHECK_EQ(sim_truth_used(truth, 0), CONTEXT);
	destroyed();
	sim_truth_close(truth);
	return 0;
}
