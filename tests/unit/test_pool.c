/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools that end while another thread settles them. The driver gives the handle of a pool that is
 * gone to the next one: a thread that found the old pool must not touch the new one. The test plays
 * the driver, and what other threads do in the middle of a call.
 */
#include "guest/account/holder.h"
#include "guest/core/hooks.h"
#include "guest/memory/pool.h"
#include "tests/unit/guest_fixture.h"

#define POOLS	3
#define POOL(n) ((CUmemoryPool)(uintptr_t)(0x1000 + 16 * (n)))

static struct guest guest;
static struct guest_page page;

/* --- The driver ------------------------------------------------------------------------------ */

struct fake_pool {
	bool lives;
	uint64_t reserved, used;
};

static struct fake_pool pools[POOLS];
static int trimmed[POOLS], destroyed[POOLS];
static void (*meanwhile)(void); /* once, in the next question about the first pool */

static int pool_index(CUmemoryPool pool)
{
	int i = (int)(((uintptr_t)pool - (uintptr_t)POOL(0)) / 16);

	CHECK(i >= 0 && i < POOLS);
	CHECK(pools[i].lives); /* a device does not survive a question about one that is gone */
	return i;
}

static CUresult driver_attribute(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	int i = pool_index(pool);

	if (!i && meanwhile) {
		void (*other)(void) = meanwhile;
		unsigned int depth = guest_depth;

		meanwhile = NULL;
		guest_depth = 0; /* another thread is in no call of the driver */
		other();
		guest_depth = depth;
	}
	*(cuuint64_t *)value = which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ? pools[i].reserved
									      : pools[i].used;
	return CUDA_SUCCESS;
}

static CUresult driver_trim(CUmemoryPool pool, size_t keep)
{
	int i = pool_index(pool);

	trimmed[i]++;
	pools[i].reserved = round_up(pools[i].used, 32 * MIB);
	return CUDA_SUCCESS;
}

static CUresult driver_destroy(CUmemoryPool pool)
{
	int i = pool_index(pool);

	destroyed[i]++;
	pools[i] = (struct fake_pool){0};
	return CUDA_SUCCESS;
}

static CUresult driver_create(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	for (int i = 0; i < POOLS; i++)
		if (!pools[i].lives) {
			pools[i].lives = true;
			*pool = POOL(i);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult driver_set(CUmemoryPool pool, CUmemPool_attribute which, void *value)
{
	pool_index(pool);
	return CUDA_SUCCESS;
}

static CUresult driver_current(CUmemoryPool *pool, CUdevice device)
{
	*pool = NULL;
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemPoolGetAttribute", (void *)driver_attribute},
	{"cuMemPoolSetAttribute", (void *)driver_set},
	{"cuMemPoolTrimTo", (void *)driver_trim},
	{"cuMemPoolDestroy", (void *)driver_destroy},
	{"cuMemPoolCreate", (void *)driver_create},
	{"cuDeviceGetMemPool", (void *)driver_current},
	{"cuDeviceGetDefaultMemPool", (void *)driver_current},
	{NULL, NULL},
};

/* --- The program ----------------------------------------------------------------------------- */

static CUmemoryPool create(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool pool = NULL;

	CHECK_EQ(hook_cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
	return pool;
}

static void use(CUmemoryPool pool, uint64_t reserved, uint64_t used)
{
	int i = pool_index(pool);

	pools[i].reserved = reserved;
	pools[i].used = used;
	pool_settle(&guest, pool);
}

static uint64_t charged(void)
{
	return quota_used(guest.ledger, 0);
}

static void clear_counts(void)
{
	memset(trimmed, 0, sizeof(trimmed));
	memset(destroyed, 0, sizeof(destroyed));
}

/* Another thread ends the second pool, of which nothing is used any more, and makes a new one. */
static void replace_second(void)
{
	pools[1].used = 0;
	pool_settle_all(&guest);
	CHECK_EQ(destroyed[1], 1);
	CHECK(create() == POOL(1));
	clear_counts();
}

static void check_replaced(void)
{
	CUmemoryPool first = create(), second = create();

	use(first, 32 * MIB, MIB);
	use(second, 64 * MIB, 34 * MIB);
	CHECK_EQ(charged(), 96 * MIB);
	CHECK_EQ(hook_cuMemPoolDestroy(second), CUDA_SUCCESS);
	CHECK_EQ(destroyed[1], 0); /* as long as anything is allocated from it */
	meanwhile = replace_second;
	pool_settle_all(&guest);
	CHECK_EQ(destroyed[1], 0);
	CHECK_EQ(trimmed[1], 0);
	CHECK(pools[1].lives);
	CHECK_EQ(charged(), 32 * MIB);

	use(POOL(1), 32 * MIB, 0);
	CHECK_EQ(hook_cuMemPoolDestroy(POOL(1)), CUDA_SUCCESS);
	CHECK_EQ(destroyed[1], 1);
	use(first, 32 * MIB, 0);
	CHECK_EQ(hook_cuMemPoolDestroy(first), CUDA_SUCCESS);
	CHECK_EQ(charged(), 0);
	clear_counts();
}

/* The program destroys a pool while another thread of ours asks about it. */
static void end_first(void)
{
	CHECK_EQ(hook_cuMemPoolDestroy(POOL(0)), CUDA_SUCCESS);
	CHECK_EQ(destroyed[0], 0);
	CHECK(pools[0].lives);
}

static void check_held(void)
{
	CUmemoryPool pool = create();

	use(pool, 32 * MIB, 0);
	meanwhile = end_first;
	pool_settle_all(&guest);
	pool_settle_all(&guest);
	CHECK_EQ(destroyed[0], 1);
	CHECK_EQ(charged(), 0);
}

int main(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "pool", GIB);
	atomic_store(&page.guest, &guest);
	atomic_store(&guest_page, &page);
	check_replaced();
	check_held();
	return 0;
}
