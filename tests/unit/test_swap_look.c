/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device that is to look at its memory, and a driver that refuses one call after the other: nothing is
 * seen then, nothing stays, and the quota is as before.
 */
#include "guest/swap/look.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/quota.h"
#include "tests/unit/guest_fixture.h"

#define GRANULES 5
#define NONE	 UINT64_MAX

static struct guest guest;
static uint64_t calls, fails_at = NONE, held;
static bool no_room;

uint64_t __wrap_host_memory_cgroup_room(void);
uint64_t __wrap_host_memory_cgroup_room(void)
{
	return no_room ? sizeof(struct look_key) : UINT64_MAX;
}

/* --- The driver ------------------------------------------------------------------------------ */

static bool driver_refuses(void)
{
	return calls++ == fails_at;
}

static CUresult driver_load(CUmodule *ret, const void *image)
{
	CHECK(image == look_code);
	if (driver_refuses())
		return CUDA_ERROR_JIT_COMPILATION_DISABLED;
	held++;
	*ret = (CUmodule)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult driver_unload(CUmodule module)
{
	held--;
	return CUDA_SUCCESS;
}

static CUresult driver_attribute(int *ret, CUdevice_attribute attribute, CUdevice device)
{
	*ret = 1;
	return driver_refuses() ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult driver_function(CUfunction *ret, CUmodule module, const char *name)
{
	*ret = (CUfunction)(uintptr_t)2;
	return driver_refuses() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult driver_stream(CUstream *ret, unsigned int flags)
{
	if (driver_refuses())
		return CUDA_ERROR_OUT_OF_MEMORY;
	held++;
	*ret = (CUstream)(uintptr_t)3;
	return CUDA_SUCCESS;
}

static CUresult driver_stream_end(CUstream stream)
{
	held--;
	return CUDA_SUCCESS;
}

static CUresult driver_host(void **ret, size_t bytes, unsigned int flags)
{
	if (driver_refuses())
		return CUDA_ERROR_OUT_OF_MEMORY;
	held++;
	*ret = calloc(1, bytes);
	return CUDA_SUCCESS;
}

static CUresult driver_host_end(void *at)
{
	held--;
	free(at);
	return CUDA_SUCCESS;
}

/* The word that it sees of a granule is the low half of its address. */
static CUresult driver_launch(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz,
			      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
			      CUstream stream, void **args, void **extra)
{
	const uint64_t *granule = *(uint64_t **)args[0];
	struct look_seen *seen = *(struct look_seen **)args[1];

	CHECK(gx <= *(uint32_t *)args[3] && bx == LOOK_THREADS);
	if (driver_refuses())
		return CUDA_ERROR_LAUNCH_FAILED;
	for (uint32_t i = 0; i < *(uint32_t *)args[3]; i++)
		seen[i] = (struct look_seen){.word = (uint32_t)granule[i]};
	return CUDA_SUCCESS;
}

/* Each second question finds the work done. */
static CUresult driver_query(CUstream stream)
{
	static unsigned int questions;

	if (questions++ % 2 == 0)
		return CUDA_ERROR_NOT_READY;
	return driver_refuses() ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuModuleLoadData", (void *)driver_load},
	{"cuModuleUnload", (void *)driver_unload},
	{"cuModuleGetFunction", (void *)driver_function},
	{"cuDeviceGetAttribute", (void *)driver_attribute},
	{"cuStreamCreate", (void *)driver_stream},
	{"cuStreamDestroy_v2", (void *)driver_stream_end},
	{"cuStreamQuery", (void *)driver_query},
	{"cuMemHostAlloc", (void *)driver_host},
	{"cuMemFreeHost", (void *)driver_host_end},
	{"cuLaunchKernel", (void *)driver_launch},
	{NULL, NULL},
};

/* --- Looks ----------------------------------------------------------------------------------- */

static uint64_t used(void)
{
	return quota_used(guest.ledger, guest.device[0].ledger);
}

/* Two looks at some granules each. Returns how many granules were seen; none, once one of them failed. */
static uint64_t look_twice(const struct look_key *key)
{
	struct look look;
	uint64_t n = 0, charged;

	look_begin(&look, &guest, &guest.device[0], key, GRANULES);
	charged = used();
	for (uint64_t i = 0; i < GRANULES; i++) {
		look_put(&look, 0x1000 + i, i * LOOK_BYTES);
		if (i == 1)
			look_run(&look);
	}
	look_run(&look);
	for (uint64_t i = 0; i < GRANULES; i++) {
		const struct look_seen *seen = look_seen(&look, i, i * LOOK_BYTES);

		CHECK(!look_seen(&look, i, i * LOOK_BYTES + 1));
		if (seen)
			CHECK_EQ(seen->word, 0x1000 + i);
		n += seen != NULL;
	}
	CHECK(!n || charged == LOOK_BYTES);
	look_end(&look);
	CHECK_EQ(held, 0);
	CHECK_EQ(used(), 0);
	return n;
}

int main(void)
{
	struct look_key *key = look_new_key();
	uint64_t all;

	CHECK(key);
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "look", 2 * LOOK_BYTES);
	CHECK_EQ(look_twice(key), GRANULES);
	all = calls;
	for (uint64_t i = 0; i < all; i++) {
		calls = 0;
		fails_at = i;
		CHECK_EQ(look_twice(key), 0);
	}
	fails_at = NONE;
	no_room = true;
	CHECK_EQ(look_twice(key), 0);
	no_room = false;
	/* The quota has no room for the code. */
	quota_charge(guest_slot(&guest), guest.device[0].ledger, CAT_DATA, LOOK_BYTES + 1);
	calls = 0;
	{
		struct look look;

		look_begin(&look, &guest, &guest.device[0], key, GRANULES);
		look_put(&look, 1, 0);
		look_run(&look);
		CHECK(!look_seen(&look, 0, 0));
		look_end(&look);
	}
	CHECK_EQ(calls, 0);
	CHECK_EQ(used(), LOOK_BYTES + 1);
	return 0;
}
