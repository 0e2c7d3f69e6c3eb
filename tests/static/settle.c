/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the driver keeps for pools and graphs is charged as its figure is seen to change.
 * Here that figure rises right after a thread has read that it fell: another thread's growth, which
 * finds as much charged as there is, and takes its own reservation back. At no time thereafter may
 * less be charged than there is, or another process has it, too.
 */
#include "guest/core/hook.h"
#include "guest/memory/graph.h"
#include "guest/memory/pool.h"
#include "sim/cuda/api.h"
#include "sim/truth.h"
#include "tests/unit/tenant_fixture.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)
#define MORE	 (32 * MIB)
#define LESS	 (8 * MIB)

static struct guest_device *device;
static uint64_t reserve; /* as the driver has it */
static uint64_t others;	 /* what else is charged */
static bool charged;	 /* since it was all of `reserve` is */
static void (*grow)(void);

static uint64_t used(void)
{
	return quota_used(guest_get()->ledger, device->ledger) - others;
}

static uint64_t look(void)
{
	uint64_t was = reserve;
	void (*race)(void) = grow;

	CHECK(!charged || used() >= reserve);
	if (race) {
		grow = NULL;
		reserve = MORE;
		race();
		CHECK(used() >= reserve);
	}
	return was;
}

static CUresult attribute_of_graphs(CUdevice ordinal, CUgraphMem_attribute which, void *value)
{
	*(cuuint64_t *)value = which == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? look() : 0;
	return CUDA_SUCCESS;
}

static CUresult attribute_of_pool(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	*(cuuint64_t *)value = which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? look() : 0;
	return CUDA_SUCCESS;
}

static void settle_graphs(void)
{
	graph_settle(guest_get(), device);
}

static void settle_pools(void)
{
	pool_settle_all(guest_get());
}

/* An allocation that finds charged what the pool has leaves it at that. */
static void nothing(void)
{
}

static void check(void (*settle)(void), void (*other)(void))
{
	reserve = MORE;
	settle();
	CHECK_EQ(used(), MORE);
	charged = true;
	reserve = LESS;
	grow = other;
	settle();
	CHECK_EQ(used(), MORE);
	reserve = LESS;
	settle();
	CHECK_EQ(used(), LESS);
	reserve = 0;
	settle();
	CHECK_EQ(used(), 0);
	charged = false;
}

int main(void)
{
	struct policy policy = fixture_policy(256 * MIB);
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	char tenant[PATH_MAX], sim[PATH_MAX + 8];
	CUmemoryPool pool;
	CUcontext context;
	CUdeviceptr ptr;

	CHECK_EQ(tenant_create(fixture_runtime_dir(), "settle", &policy, tenant, sizeof(tenant)),
		 0);
	snprintf(sim, sizeof(sim), "%s/sim", fixture_runtime_dir());
	setenv("ALLOT_TENANT_DIR", tenant, 1);
	setenv("ALLOT_SIM_DIR", sim, 1);
	setenv("ALLOT_SIM_MEMORY", "1GiB", 1);
	setenv("ALLOT_SIM_CONTEXT", "8MiB", 1);
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemPoolCreate(&pool, &props));
	device = guest_device(guest_get(), 0);
	CHECK(device);
	others = quota_used(guest_get()->ledger, device->ledger);

	cuda_real.cuDeviceGetGraphMemAttribute = attribute_of_graphs;
	check(settle_graphs, settle_graphs);

	OK(cuMemAllocFromPoolAsync(&ptr, 1, pool, NULL));
	CHECK_EQ(used(), MORE); /* what the simulated pool grows by */
	cuda_real.cuMemPoolGetAttribute = attribute_of_pool;
	check(settle_pools, nothing);
	return 0;
}
