/* SPDX-License-Identifier: Apache-2.0 */
/* The same as way.c by the CUDA runtime, which nvcc links shared or static. */
#include <cstdio>
#include <unistd.h>

__global__ void touch(char *p)
{
	*p = 1;
}

int main()
{
	size_t free_bytes, total, got = 0;
	cudaDeviceProp prop;
	char *first = nullptr, *ptr, c;
	cudaError_t r = cudaSuccess;

	alarm(60);
	if (cudaGetDeviceProperties(&prop, 0) || cudaMalloc(&first, 1) ||
	    cudaMemGetInfo(&free_bytes, &total))
		return 1;
	touch<<<1, 1>>>(first);
	if (cudaDeviceSynchronize())
		return 1;
	for (size_t piece = 64 << 20; piece >= 2 << 20; piece /= 2)
		while (!(r = cudaMalloc(&ptr, piece)))
			got += piece;
	printf("{\"stage\": \"full\", \"total\": %zu, \"device_total\": %zu, \"bytes\": %zu, "
	       "\"refused\": %d}\n",
	       total, prop.totalGlobalMem, got, (int)r);
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
