/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allot-links: how fast each device reads memory of each other one that it reaches. Knows nothing
 * of allot: `allot topo --measure` runs it and reads its lines of JSON, one for each ordered pair:
 * which device read, by its UUID, from which, and how many 10^6 bytes a second.
 */
#include <inttypes.h>
#include <stdio.h>

#include "nvidia/uuid.h"
#include "tools/device.h"

#define DEVICES 64
#define BYTES	((size_t)256 << 20)
#define TIMES	20

struct end {
	CUcontext context;
	CUdeviceptr memory;
	char uuid[UUID_TEXT_SIZE];
};

static void links_open_end(struct end *ret, CUdevice device)
{
	CUuuid uuid;

	MUST(cu.cuDeviceGetUuid_v2(&uuid, device));
	uuid_format((const uint8_t *)uuid.bytes, ret->uuid);
	MUST(cu.cuDevicePrimaryCtxRetain(&ret->context, device));
	MUST(cu.cuCtxSetCurrent(ret->context));
	MUST(cu.cuMemAlloc_v2(&ret->memory, BYTES));
}

static void links_copy(const struct end *reader, const struct end *owner)
{
	MUST(cu.cuMemcpyPeerAsync(reader->memory, reader->context, owner->memory, owner->context,
				  BYTES, NULL));
}

/* In ms, by the reader's own clock. */
static float links_read_all(const struct end *reader, const struct end *owner)
{
	CUevent begin, end;
	float ms;

	MUST(cu.cuEventCreate(&begin, CU_EVENT_DEFAULT));
	MUST(cu.cuEventCreate(&end, CU_EVENT_DEFAULT));
	links_copy(reader, owner);
	MUST(cu.cuEventRecord(begin, NULL));
	for (int i = 0; i < TIMES; i++)
		links_copy(reader, owner);
	MUST(cu.cuEventRecord(end, NULL));
	MUST(cu.cuEventSynchronize(end));
	MUST(cu.cuEventElapsedTime(&ms, begin, end));
	MUST(cu.cuEventDestroy_v2(begin));
	MUST(cu.cuEventDestroy_v2(end));
	return ms;
}

static void links_measure(const struct end *reader, const struct end *owner)
{
	CUresult enabled;
	float ms;

	MUST(cu.cuCtxSetCurrent(reader->context));
	enabled = cu.cuCtxEnablePeerAccess(owner->context, 0);
	if (enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		load_must(enabled, "cuCtxEnablePeerAccess");
	ms = links_read_all(reader, owner);
	if (ms > 0)
		printf("{\"stage\": \"link\", \"from\": \"%s\", \"to\": \"%s\", \"mb_per_s\": "
		       "%.0f}\n",
		       reader->uuid, owner->uuid, (double)BYTES * TIMES / 1e3 / (double)ms);
	fflush(stdout);
}

int main(void)
{
	struct end end[DEVICES];
	int n = 0, reaches;

	load_driver();
	MUST(cu.cuDeviceGetCount(&n));
	n = n < DEVICES ? n : DEVICES;
	for (int i = 0; i < n; i++)
		links_open_end(&end[i], i);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			if (i == j)
				continue;
			MUST(cu.cuDeviceCanAccessPeer(&reaches, i, j));
			if (reaches)
				links_measure(&end[i], &end[j]);
		}
	return 0;
}
