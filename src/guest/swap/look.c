/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/look.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/host_memory.h"
#include "base/now.h"
#include "base/number.h"
#include "base/pages.h"
#include "guest/account/granule.h"
#include "ledger/swap.h"

_Static_assert(LOOK_BYTES == GRANULE_BYTES, "pieces are of whole granules");

#define NAP_FIRST_NS 20000
#define NAP_MOST_NS  500000
#define TELL_NS	     (NS_PER_S / 5)
#define LOOK_MOST_NS (60 * NS_PER_S)

/* Blocks that a multiprocessor has room for, by their registers. */
#define BLOCKS 4

/* The device's part of look_begin. */
static bool look_load(struct look *look, int ordinal)
{
	int processors = 0;

	if (DRIVER(cuModuleLoadData, (&look->module, look_code)))
		return false;
	if (DRIVER(cuDeviceGetAttribute,
		   (&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, ordinal)))
		return false;
	look->blocks = (uint32_t)processors * BLOCKS;
	return !DRIVER(cuModuleGetFunction, (&look->function, look->module, LOOK_NAME)) &&
	       !DRIVER(cuStreamCreate, (&look->stream, CU_STREAM_NON_BLOCKING));
}

static bool look_take(struct look *look, const struct look_key *key)
{
	uint64_t seen_at = round_up(sizeof(*key), 16);
	uint64_t granule_at = seen_at + look->most * sizeof(*look->seen);
	uint64_t bytes = granule_at + 2 * look->most * sizeof(*look->granule);
	unsigned int flags = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
	void *memory = NULL;

	/* Where the memory cgroup has no room for it the kernel would end the process. */
	if (host_memory_cgroup_room() < bytes)
		return false;
	if (DRIVER(cuMemHostAlloc, (&memory, bytes, flags)) || !memory)
		return false;
	look->memory = memory;
	look->seen = (struct look_seen *)(look->memory + seen_at);
	look->granule = (uint64_t *)(look->memory + granule_at);
	look->place = look->granule + look->most;
	memcpy(look->memory, key, sizeof(*key));
	return true;
}

void look_begin(struct look *look, struct guest *guest, struct guest_device *device,
		const struct look_key *key, uint64_t most)
{
	memset(look, 0, sizeof(*look));
	/* The code may take a granule, of which the quota must have room. */
	if (!charge_try(guest, device, GRANULE_BYTES, &look->charge))
		return;
	look->guest = guest;
	look->device = device;
	look->most = (uint32_t)min_u64(most, UINT32_MAX);
	if (!look_load(look, device->ordinal) || !look_take(look, key))
		look_end(look);
}

void look_put(struct look *look, CUdeviceptr at, uint64_t place)
{
	if (!look->memory || look->n == look->most)
		return;
	look->place[look->n] = place;
	look->granule[look->n++] = at;
}

/*
 * A requester takes a process that reports no progress for stopped. No bytes are moved meanwhile. A look
 * that takes longer than any, on a device that does not get to it, is stopped.
 */
static CUresult look_await(struct look *look)
{
	uint64_t told_ns = now_monotonic_ns(), until_ns = told_ns + LOOK_MOST_NS;
	long nap = NAP_FIRST_NS;
	CUresult e;

	while ((e = DRIVER(cuStreamQuery, (look->stream))) == CUDA_ERROR_NOT_READY) {
		nap_ns(nap);
		nap = nap * 2 < NAP_MOST_NS ? nap * 2 : NAP_MOST_NS;
		if (now_monotonic_ns() < told_ns + TELL_NS || now_monotonic_ns() > until_ns)
			continue;
		told_ns = now_monotonic_ns();
		swap_get_on(atomic_load(&look->guest->slot), 1);
	}
	return e;
}

void look_run(struct look *look)
{
	uint32_t n = look->n - look->done;
	struct look_seen *seen;
	uint64_t *granule;
	void *args[] = {&granule, &seen, &look->memory, &n};

	if (!n)
		return;
	granule = look->granule + look->done;
	seen = look->seen + look->done;
	if (DRIVER(cuLaunchKernel, (look->function, (uint32_t)min_u64(n, look->blocks), 1, 1, LOOK_THREADS,
				    1, 1, 0, look->stream, args, NULL)) ||
	    look_await(look))
		look_end(look);
	else
		look->done = look->n;
}

const struct look_seen *look_seen(const struct look *look, uint64_t i, uint64_t place)
{
	return i < look->done && look->place[i] == place ? &look->seen[i] : NULL;
}

void look_end(struct look *look)
{
	if (look->memory)
		DRIVER(cuMemFreeHost, (look->memory));
	if (look->stream)
		DRIVER(cuStreamDestroy_v2, (look->stream));
	if (look->module)
		DRIVER(cuModuleUnload, (look->module));
	if (look->device)
		charge_cancel(&look->charge);
	memset(look, 0, sizeof(*look));
}

struct look_key *look_new_key(void)
{
	struct look_key *key = pages_map(sizeof(*key));
	size_t done = 0;

	while (key && done < sizeof(*key)) {
		ssize_t n = getrandom((char *)key + done, sizeof(*key) - done, 0);

		if (n <= 0) {
			munmap(key, sizeof(*key));
			return NULL;
		}
		done += (size_t)n;
	}
	return key;
}
