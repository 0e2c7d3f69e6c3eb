/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What memory is charged for while threads free addresses that are not theirs: the orders of two
 * and three of them one by one, and then threads that do it as they like.
 */
#include "guest/memory/allocator.h"
#include "guest/memory/memory.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/unit/guest_fixture.h"

#define PLACES	4
#define PIECE	(4 * MIB)
#define AT(i)	(UINT64_C(0x7f0000000000) + (uint64_t)(i)*PIECE)
#define THREADS 4
#define ROUNDS	50000

static struct guest guest;
static struct guest_device *device = &guest.device[0];

/* A driver with a few places for memory, of which it gives out the first that is free. */

static _Atomic bool taken[PLACES];

static CUresult driver_alloc(CUdeviceptr *ret, size_t bytes)
{
	for (int i = 0; i < PLACES; i++)
		if (!atomic_exchange(&taken[i], true)) {
			*ret = AT(i);
			return CUDA_SUCCESS;
		}
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static int place_of(CUdeviceptr p)
{
	return (int)((p - AT(0)) / PIECE);
}

static CUresult driver_free(CUdeviceptr p)
{
	return atomic_exchange(&taken[place_of(p)], false) ? CUDA_SUCCESS
							   : CUDA_ERROR_INVALID_VALUE;
}

static CUresult driver_range(CUdeviceptr *ret_base, size_t *ret_size, CUdeviceptr p)
{
	if (!atomic_load(&taken[place_of(p)]))
		return CUDA_ERROR_NOT_FOUND;
	*ret_base = p;
	*ret_size = PIECE;
	return CUDA_SUCCESS;
}

static CUresult driver_context(CUcontext *ret)
{
	*ret = (CUcontext)(uintptr_t)0x1000;
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemAlloc_v2", (void *)driver_alloc},
	{"cuMemFree_v2", (void *)driver_free},
	{"cuMemGetAddressRange_v2", (void *)driver_range},
	{"cuCtxGetCurrent", (void *)driver_context},
	{NULL, NULL},
};

static void begin(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "memory", 20 * GIB);
}

static CUdeviceptr alloc(void)
{
	CUdeviceptr p = 0;

	CHECK_EQ(guest.allocator->alloc(&guest, device, PIECE, &p), CUDA_SUCCESS);
	return p;
}

/* As cuMemFree does. */
static CUresult free_at(CUdeviceptr p)
{
	struct object object;
	bool ours = memory_take(&guest, OBJECT_MEMORY, p, &object);
	CUresult e = driver_free(p);

	if (ours && e)
		memory_keep(&guest, &object);
	else if (ours)
		memory_freed(&guest, &object);
	return e;
}

static uint64_t charged(void)
{
	return quota_used(guest.ledger, 0);
}

static void check_nothing_left(void)
{
	CHECK_EQ(charged(), 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_MEMORY), 0);
	for (int i = 0; i < PLACES; i++)
		CHECK(!atomic_load(&taken[i]));
}

/* Refused, and there all the same. */
static void check_refused(void)
{
	CUdeviceptr p = alloc();
	struct object object;

	CHECK(memory_take(&guest, OBJECT_MEMORY, p, &object));
	memory_keep(&guest, &object);
	CHECK_EQ(charged(), PIECE);
	CHECK_EQ(free_at(p), CUDA_SUCCESS);
	check_nothing_left();
}

/* Another thread frees it behind our back, and so its own free is refused. */
static void check_gone(void)
{
	CUdeviceptr p = alloc();

	CHECK_EQ(driver_free(p), CUDA_SUCCESS);
	CHECK_EQ(free_at(p), CUDA_ERROR_INVALID_VALUE);
	check_nothing_left();
}

/* ... and a third one is given it before the second one's record is back. */
static void check_given_out_again(void)
{
	CUdeviceptr p = alloc();
	struct object object;

	CHECK_EQ(driver_free(p), CUDA_SUCCESS);
	CHECK(memory_take(&guest, OBJECT_MEMORY, p, &object));
	CHECK_EQ(driver_free(p), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(alloc(), p);
	memory_keep(&guest, &object);
	CHECK_EQ(charged(), PIECE);
	CHECK_EQ(free_at(p), CUDA_SUCCESS);
	check_nothing_left();
}

/* ... or has it from the driver, and records it after that. */
static void check_recorded_late(void)
{
	CUdeviceptr p = alloc(), again;
	struct object object;
	struct charge charge;

	CHECK_EQ(driver_free(p), CUDA_SUCCESS);
	CHECK(memory_take(&guest, OBJECT_MEMORY, p, &object));
	CHECK_EQ(driver_free(p), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(charge_reserve(&guest, device, PIECE, &charge), CUDA_SUCCESS);
	CHECK_EQ(driver_alloc(&again, PIECE), CUDA_SUCCESS);
	CHECK_EQ(again, p);
	memory_keep(&guest, &object);
	CHECK_EQ(memory_commit(&charge, CUDA_SUCCESS, p, PIECE, 0), CUDA_SUCCESS);
	CHECK_EQ(charged(), PIECE);
	CHECK_EQ(free_at(p), CUDA_SUCCESS);
	check_nothing_left();
}

/* A context that ends takes it along before it is recorded: nobody will free it. */
static void check_overtaken(void)
{
	struct charge charge;
	CUcontext context;
	CUdeviceptr p;

	CHECK_EQ(driver_context(&context), CUDA_SUCCESS);
	CHECK_EQ(charge_reserve(&guest, device, PIECE, &charge), CUDA_SUCCESS);
	CHECK_EQ(driver_alloc(&p, PIECE), CUDA_SUCCESS);
	CHECK_EQ(driver_free(p), CUDA_SUCCESS);
	memory_forget_context(&guest, context);
	CHECK_EQ(memory_commit(&charge, CUDA_SUCCESS, p, PIECE, 0), CUDA_SUCCESS);
	check_nothing_left();
	/* What is made after that is not doubted. */
	CHECK_EQ(alloc(), p);
	CHECK_EQ(charged(), PIECE);
	CHECK_EQ(free_at(p), CUDA_SUCCESS);
	check_nothing_left();
}

static void *churn(void *arg)
{
	uint64_t seed = 88172645463325252u + (uintptr_t)arg;
	CUdeviceptr p;

	for (int i = 0; i < ROUNDS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed % 2)
			guest.allocator->alloc(&guest, device, PIECE, &p);
		else
			free_at(AT(seed / 2 % PLACES));
	}
	return NULL;
}

static void check_churn(void)
{
	pthread_t thread[THREADS];
	uint64_t held = 0;

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	for (int i = 0; i < PLACES; i++)
		held += atomic_load(&taken[i]) ? PIECE : 0;
	CHECK(charged() >= held);
	CHECK_EQ(charged(), object_count(guest.objects, OBJECT_MEMORY) * PIECE);
	for (int i = 0; i < PLACES; i++)
		free_at(AT(i));
	check_nothing_left();
}

int main(void)
{
	begin();
	check_refused();
	check_gone();
	check_given_out_again();
	check_recorded_late();
	check_overtaken();
	check_churn();
	return 0;
}
