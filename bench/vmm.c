/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm [ROUNDS]: what each driver call costs of which a swappable pair of cuMemAlloc and cuMemFree
 * is made, and what it depends on: handles that can be exported, addresses that were used before,
 * a large reservation, which of unmap and release comes first. A line for each way: the median ns of
 * each call, and of their sum; the last are the driver's own pairs. Without liballot.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/now.h"
#include "bench/batch.h"
#include "nvidia/cuda_api.h"

#define ROUNDS_MAX 5000
#define GRANULE	   (UINT64_C(2) << 20)
#define SMALL	   (64 * GRANULE)
#define LARGE	   (UINT64_C(128) << 30) /* as the library reserves it */

enum { CREATE, MAP, ACCESS, UNMAP, RELEASE, STEPS };

static const struct way {
	const char *name;
	uint64_t bytes, reserved;
	bool exports; /* its handle has a descriptor for who asks */
	bool moves;   /* each time at the next address */
	bool first;   /* its handle is released, and then it is unmapped */
} ways[] = {
	{"plain", GRANULE, SMALL, false, false, false},
	{"exports", GRANULE, SMALL, true, false, false},
	{"moves", GRANULE, SMALL, false, true, false},
	{"reserved", GRANULE, LARGE, false, false, false},
	{"as-liballot", GRANULE, LARGE, true, true, false},
	{"plain-64M", 32 * GRANULE, SMALL, false, false, false},
	{"exports-64M", 32 * GRANULE, SMALL, true, false, false},
	{"as-liballot-64M", 32 * GRANULE, LARGE, true, true, false},
	{"released-64M", 32 * GRANULE, LARGE, true, true, true},
};

static double took[STEPS + 1][ROUNDS_MAX];

static bool vmm_step(int step, int round, CUresult e, uint64_t *from_ns)
{
	uint64_t now = now_monotonic_ns();

	took[step][round] = (double)(now - *from_ns);
	took[STEPS][round] += took[step][round];
	*from_ns = now_monotonic_ns();
	return !e;
}

static bool vmm_unmap(const struct way *way, CUdeviceptr at, int round, uint64_t *from)
{
	return vmm_step(UNMAP, round, cuda_real.cuMemUnmap(at, way->bytes), from);
}

static bool vmm_round(const struct way *way, CUdeviceptr at, int round)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = way->exports ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
						     : CU_MEM_HANDLE_TYPE_NONE,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	const CUmemAccessDesc desc = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle = 0;
	uint64_t from = now_monotonic_ns();

	took[STEPS][round] = 0;
	return vmm_step(CREATE, round, cuda_real.cuMemCreate(&handle, way->bytes, &prop, 0),
			&from) &&
	       vmm_step(MAP, round, cuda_real.cuMemMap(at, way->bytes, 0, handle, 0), &from) &&
	       vmm_step(ACCESS, round, cuda_real.cuMemSetAccess(at, way->bytes, &desc, 1), &from) &&
	       (way->first || vmm_unmap(way, at, round, &from)) &&
	       vmm_step(RELEASE, round, cuda_real.cuMemRelease(handle), &from) &&
	       (!way->first || vmm_unmap(way, at, round, &from));
}

static bool vmm_measure(const struct way *way, int rounds)
{
	CUdeviceptr base = 0, at;
	double median[STEPS + 1];

	if (cuda_real.cuMemAddressReserve(&base, way->reserved, 0, 0, 0))
		return false;
	at = base;
	for (int i = -5; i < rounds; i++) { /* the first few warm up */
		if (!vmm_round(way, at, i < 0 ? 0 : i))
			return false;
		if (way->moves)
			at = at + 2 * way->bytes < base + way->reserved ? at + way->bytes : base;
	}
	cuda_real.cuMemAddressFree(base, way->reserved);
	for (int s = 0; s <= STEPS; s++)
		median[s] = batch_median(took[s], rounds);
	printf("%-16s create %7.0f  map %7.0f  access %7.0f  unmap %7.0f  release %7.0f  "
	       "all %7.0f ns\n",
	       way->name, median[CREATE], median[MAP], median[ACCESS], median[UNMAP],
	       median[RELEASE], median[STEPS]);
	return true;
}

static bool vmm_measure_driver(uint64_t bytes, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		CUdeviceptr at = 0;
		uint64_t from = now_monotonic_ns();

		if (cuda_real.cuMemAlloc_v2(&at, bytes) || cuda_real.cuMemFree_v2(at))
			return false;
		took[STEPS][i] = (double)(now_monotonic_ns() - from);
	}
	printf("cuMemAlloc, %2" PRIu64 " MiB all %7.0f ns\n", bytes >> 20,
	       batch_median(took[STEPS], rounds));
	return true;
}

int main(int argc, char **argv)
{
	int rounds = batch_count(argc, argv, 1000, ROUNDS_MAX);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUcontext context;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	if (!driver || !rounds)
		return 1;
	cuda_driver_bind(driver, dlsym);
	if (cuda_real.cuInit(0) || cuda_real.cuDevicePrimaryCtxRetain(&context, 0) ||
	    cuda_real.cuCtxSetCurrent(context))
		return 1;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!vmm_measure(&ways[i], rounds))
			return 1;
	return !vmm_measure_driver(GRANULE, rounds) || !vmm_measure_driver(32 * GRANULE, rounds);
}
