/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stays of freed memory for the next allocation: which calls of the driver that saves, what is
 * charged for it, and when it goes. Before a driver that the test plays.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "guest/memory/backing.h"
#include "guest/memory/memory.h"
#include "guest/memory/pieces.h"
#include "tests/unit/guest_fixture.h"

#define QUOTA	(16 * MIB)
#define BASE	(UINT64_C(1) << 40)
#define CONTEXT UINT64_C(0x1000)
#define THREADS 4
#define ROUNDS	20000

static struct guest guest;
static struct guest_device *device = &guest.device[0];

/* --- The driver ------------------------------------------------------------------------------ */

static _Atomic uint32_t creates, maps, accesses, unmaps, releases;
static _Atomic uint64_t reached; /* by which devices, of what was said last */
static _Atomic uint64_t physical_bytes, room_bytes = UINT64_MAX;
static _Atomic bool access_fails;

static CUresult driver_reserve(CUdeviceptr *ret, size_t size, size_t alignment, CUdeviceptr at,
			       unsigned long long flags)
{
	*ret = BASE;
	return CUDA_SUCCESS;
}

static CUresult driver_attribute(int *ret, CUdevice_attribute attribute, CUdevice dev)
{
	*ret = 1;
	return CUDA_SUCCESS;
}

static CUresult driver_create(CUmemGenericAllocationHandle *ret, size_t size,
			      const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (atomic_fetch_add(&physical_bytes, size) + size > atomic_load(&room_bytes)) {
		atomic_fetch_sub(&physical_bytes, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	atomic_fetch_add(&creates, 1);
	*ret = size;
	return CUDA_SUCCESS;
}

static CUresult driver_map(CUdeviceptr at, size_t size, size_t offset,
			   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	atomic_fetch_add(&maps, 1);
	return CUDA_SUCCESS;
}

static CUresult driver_access(CUdeviceptr at, size_t size, const CUmemAccessDesc *desc, size_t n)
{
	atomic_fetch_add(&accesses, 1);
	if (atomic_load(&access_fails))
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < n; i++)
		if (desc[i].flags)
			atomic_fetch_or(&reached, UINT64_C(1) << desc[i].location.id);
		else
			atomic_fetch_and(&reached, ~(UINT64_C(1) << desc[i].location.id));
	return CUDA_SUCCESS;
}

static CUresult driver_unmap(CUdeviceptr at, size_t size)
{
	atomic_fetch_add(&unmaps, 1);
	return CUDA_SUCCESS;
}

static CUresult driver_release(CUmemGenericAllocationHandle handle)
{
	atomic_fetch_add(&releases, 1);
	atomic_fetch_sub(&physical_bytes, handle);
	return CUDA_SUCCESS;
}

static CUresult driver_context(CUcontext *ret)
{
	*ret = (CUcontext)(uintptr_t)CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult driver_synchronize(void)
{
	return CUDA_SUCCESS;
}

static CUresult driver_exchange(CUstreamCaptureMode *mode)
{
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemAddressReserve", (void *)driver_reserve},
	{"cuDeviceGetAttribute", (void *)driver_attribute},
	{"cuMemCreate", (void *)driver_create},
	{"cuMemMap", (void *)driver_map},
	{"cuMemSetAccess", (void *)driver_access},
	{"cuMemUnmap", (void *)driver_unmap},
	{"cuMemRelease", (void *)driver_release},
	{"cuCtxGetCurrent", (void *)driver_context},
	{"cuCtxSynchronize", (void *)driver_synchronize},
	{"cuThreadExchangeStreamCaptureMode", (void *)driver_exchange},
	{NULL, NULL},
};

/* --- The guest ------------------------------------------------------------------------------- */

static void begin(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "spare", QUOTA);
	guest.swappable = true;
}

static uint64_t charged(void)
{
	return quota_used(guest.ledger, 0);
}

static CUdeviceptr alloc(uint64_t bytes)
{
	CUdeviceptr p = 0;

	CHECK_EQ(memory_alloc(&guest, device, bytes, &p), CUDA_SUCCESS);
	return p;
}

static void give(CUdeviceptr p)
{
	struct object object;

	CHECK(memory_take(&guest, OBJECT_MEMORY, p, &object));
	CHECK_EQ(memory_free_backed(&guest, &object), CUDA_SUCCESS);
}

static void check_has(bool spare, uint64_t bytes)
{
	CHECK_EQ(backing_has_spare(&guest, device), spare);
	CHECK_EQ(charged(), bytes);
	CHECK_EQ(atomic_load(&physical_bytes), bytes);
}

static void check_nothing_left(void)
{
	memory_end_spare(&guest, device);
	check_has(false, 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_GRANULE), 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_MEMORY), 0);
	CHECK_EQ(atomic_load(&unmaps), atomic_load(&maps));
	CHECK_EQ(atomic_load(&releases), atomic_load(&creates));
}

/* --- The table ------------------------------------------------------------------------------- */

static void check_table(void)
{
	struct backing *backing = pieces_map(8, 4);
	uint32_t one, other, two, unmapped;
	CUdeviceptr at;

	CHECK(backing);
	one = pieces_take(backing, 1);
	other = pieces_take(backing, 1);
	two = pieces_take(backing, 2);
	unmapped = pieces_take(backing, 1);
	for (uint32_t page = one; page < unmapped; page++)
		backing->piece[page].mapped = true;
	CHECK_EQ(pieces_take_spare(backing), UINT32_MAX);
	CHECK(!pieces_spare(backing, unmapped));
	CHECK(!pieces_spare(backing, two));
	CHECK(pieces_link(backing, one) && pieces_cut(backing, 1000, &at));
	CHECK(pieces_leave(backing, one, at - pieces_address(backing, one)));
	CHECK(pieces_spare(backing, one));
	CHECK(!pieces_spare(backing, other));
	/* Nobody finds it, and nobody gets its page. */
	CHECK_EQ(pieces_find_from(backing, 0), UINT32_MAX);
	CHECK(!pieces_cut(backing, 1000, &at));
	CHECK_EQ(pieces_take(backing, 4), UINT32_MAX);
	CHECK_EQ(pieces_take_spare(backing), one);
	CHECK_EQ(backing->piece[one].cut, 0);
	CHECK_EQ(pieces_take_spare(backing), UINT32_MAX);
	CHECK(pieces_link(backing, one) && pieces_cut(backing, 1000, &at));
	pieces_unmap(backing);
}

/* --- Pairs ----------------------------------------------------------------------------------- */

static void check_pairs(void)
{
	static const uint64_t sizes[] = {2 * MIB, MIB, 1, MIB + 1, 2 * MIB, 500};
	CUdeviceptr first = alloc(2 * MIB);

	give(first);
	check_has(true, 2 * MIB);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		CHECK_EQ(alloc(sizes[i]), first);
		check_has(false, 2 * MIB);
		give(first);
		check_has(true, 2 * MIB);
	}
	CHECK_EQ(atomic_load(&creates), 1);
	CHECK_EQ(atomic_load(&maps), 1);
	CHECK_EQ(atomic_load(&accesses), 1);
	CHECK_EQ(atomic_load(&unmaps), 0);
	CHECK_EQ(atomic_load(&releases), 0);
	check_nothing_left();
}

/* Of those that share a granule the last one leaves it; of two granules one is kept. */
static void check_one(void)
{
	CUdeviceptr small[2] = {alloc(1000), alloc(1000)}, large = alloc(4 * MIB);
	CUdeviceptr p = alloc(2 * MIB);

	give(large);
	check_has(false, 4 * MIB);
	give(small[0]);
	check_has(false, 4 * MIB);
	give(small[1]);
	check_has(true, 4 * MIB);
	give(p);
	check_has(true, 2 * MIB);
	p = alloc(4 * MIB);
	check_has(true, 6 * MIB);
	give(p);
	check_nothing_left();
}

/* --- When it goes ---------------------------------------------------------------------------- */

static void check_refusals(void)
{
	CUdeviceptr p;

	give(alloc(2 * MIB));
	p = alloc(QUOTA); /* all that there may be */
	check_has(false, QUOTA);
	give(p);
	give(alloc(1000));
	atomic_store(&room_bytes, 4 * MIB); /* all that there is */
	p = alloc(4 * MIB);
	check_has(false, 4 * MIB);
	CHECK_EQ(memory_alloc(&guest, device, 2 * MIB, &p), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&room_bytes, UINT64_MAX);
	check_has(false, 4 * MIB);
	give(p);
	check_nothing_left();
}

static void check_context(void)
{
	CUdeviceptr p = alloc(1000);

	give(alloc(2 * MIB));
	check_has(true, 4 * MIB);
	memory_forget_context(&guest, (CUcontext)(uintptr_t)CONTEXT);
	CHECK(!object_count(guest.objects, OBJECT_MEMORY));
	check_has(false, 0);
	CHECK(!backing_start(&guest, p));
	check_nothing_left();
}

/* What has a name elsewhere is no other allocation's. */
static void check_exported(void)
{
	struct object export = {.kind = OBJECT_EXPORT};
	CUdeviceptr p = alloc(2 * MIB);

	export.key = p;
	CHECK_EQ(object_put(guest.objects, &export), 0);
	give(p);
	check_has(false, 0);
	CHECK_EQ(object_count(guest.objects, OBJECT_EXPORT), 0);
	check_nothing_left();
}

/* Another process could be refused for it. */
static void check_sibling(void)
{
	int ready[2];
	char c;
	pid_t pid;

	CHECK_EQ(pipe(ready), 0);
	pid = fixture_fork();
	if (!pid) {
		fixture_join(guest.dir);
		CHECK_EQ(write(ready[1], "y", 1), 1);
		pause();
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	give(alloc(2 * MIB));
	give(alloc(1000));
	check_has(false, 0);
	fixture_kill(pid);
	close(ready[0]);
	close(ready[1]);
	quota_reclaim(guest.ledger);
	give(alloc(1000));
	check_has(true, 2 * MIB);
	check_nothing_left();
}

/* --- Whose work reaches it ------------------------------------------------------------------- */

static void check_peers(void)
{
	CUdeviceptr p;

	give(alloc(2 * MIB));
	CHECK_EQ(atomic_load(&reached), 1);
	CHECK_EQ(backing_share(&guest, device, 1, true), CUDA_SUCCESS);
	CHECK_EQ(atomic_load(&reached), 1);
	p = alloc(2 * MIB);
	CHECK_EQ(atomic_load(&reached), 3);
	give(p);
	CHECK_EQ(backing_share(&guest, device, 1, false), CUDA_SUCCESS);
	CHECK_EQ(atomic_load(&reached), 3);
	p = alloc(1000);
	CHECK_EQ(atomic_load(&reached), 1);
	give(p);
	check_has(true, 2 * MIB);
	/* It cannot be said: then it ends. */
	atomic_store(&access_fails, true);
	CHECK_EQ(memory_alloc(&guest, device, 1000, &p), CUDA_ERROR_OUT_OF_MEMORY);
	atomic_store(&access_fails, false);
	check_nothing_left();
}

/* --- Threads --------------------------------------------------------------------------------- */

static void *churn(void *arg)
{
	static const uint64_t sizes[] = {2 * MIB, 1000, MIB, 400000};
	uint64_t seed = 88172645463325252u + (uintptr_t)arg;
	CUdeviceptr p;

	for (int i = 0; i < ROUNDS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		if (seed / 8 % 64 == 0)
			memory_end_spare(&guest, device);
		if (!memory_alloc(&guest, device, sizes[seed % 4], &p))
			give(p);
	}
	return NULL;
}

static void check_churn(void)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_create(&thread[i], NULL, churn, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		CHECK_EQ(pthread_join(thread[i], NULL), 0);
	CHECK_EQ(charged(), atomic_load(&physical_bytes));
	check_nothing_left();
}

int main(void)
{
	check_table();
	begin();
	check_pairs();
	check_one();
	check_refusals();
	check_context();
	check_exported();
	check_sibling();
	check_peers();
	check_churn();
	return 0;
}
