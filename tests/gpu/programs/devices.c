/* SPDX-License-Identifier: Apache-2.0 */
/*
 * devices: says for each device what it is and how much it has, then fills every one of them until
 * refused, and holds that until its input ends.
 */
#include "child.h"

static void fill(CUdevice device, const char *separator)
{
	size_t free_bytes, total;
	unsigned char uuid[16];
	uint64_t got = 0;
	CUdeviceptr ptr;
	CUresult r = CUDA_SUCCESS;

	child_context(device);
	MUST(cu.cuDeviceGetUuid_v2((CUuuid *)uuid, device));
	MUST(cu.cuMemGetInfo_v2(&free_bytes, &total));
	for (uint64_t piece = 64 * MIB; piece >= 2 * MIB; piece /= 2)
		while (!(r = cu.cuMemAlloc_v2(&ptr, piece)))
			got += piece;
	printf("%s{\"ordinal\": %d, \"uuid\": \"", separator, device);
	for (int i = 0; i < 16; i++)
		printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
	printf("\", \"total\": %zu, \"free\": %zu, \"bytes\": %" PRIu64 ", \"refused\": \"%s\"}",
	       total, free_bytes, got, child_error(r));
}

int main(void)
{
	char buf[32];
	int n;

	child_begin(120);
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGetCount(&n));
	printf("{\"stage\": \"full\", \"devices\": [");
	for (int i = 0; i < n; i++)
		fill(i, i ? ", " : "");
	printf("]}\n");
	while (child_told(buf))
		;
	return 0;
}
