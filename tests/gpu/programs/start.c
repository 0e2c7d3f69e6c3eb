/* SPDX-License-Identifier: Apache-2.0 */
/* start [BYTES]: the shortest program that has a context (and BYTES of memory), for timing. */
#include "child.h"

int main(int argc, char **argv)
{
	CUdeviceptr ptr;
	CUdevice device;

	child_begin(120);
	MUST(cu.cuInit(0));
	MUST(cu.cuDeviceGet(&device, 0));
	child_context(device);
	if (argc > 1)
		MUST(cu.cuMemAlloc_v2(&ptr, strtoull(argv[1], NULL, 10)));
	return 0;
}
