/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fill: an ordinary program that wants all the device memory it can get, and knows nothing of
 * allot. Each allocation family first takes an equal part of what the device says is free, then
 * each asks for ever smaller pieces until it is refused.
 *
 *     fill                prints a table
 *     fill --hold         then holds the memory until it is ended
 *     fill --no-arrays    without the family that cannot be swapped out
 *     fill --json         prints one line of JSON, then holds the memory until its input ends
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvidia/abi/cuda.h"

#define MIB	   (1ull << 20)
#define PIECE	   (64 * MIB)
#define LEAST	   (2 * MIB) /* the granule in which devices hand out memory */
#define ARRAY_SIDE 1024u     /* texels of four floats */

/* What it calls, found as CUDA's own runtime finds it. */
#define DRIVER(X)                                                                          \
	X(cuInit, (unsigned int flags))                                                    \
	X(cuDeviceGet, (CUdevice *device, int ordinal))                                    \
	X(cuDevicePrimaryCtxRetain, (CUcontext *ctx, CUdevice device))                     \
	X(cuCtxSetCurrent, (CUcontext ctx))                                                \
	X(cuGetErrorName, (CUresult result, const char **name))                            \
	X(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total_bytes))                      \
	X(cuMemAlloc_v2, (CUdeviceptr *ptr, size_t bytes))                                 \
	X(cuMemAllocPitch_v2, (CUdeviceptr *ptr, size_t *pitch, size_t width, size_t rows, \
			       unsigned int element))                                      \
	X(cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream))              \
	X(cuStreamSynchronize, (CUstream stream))                                          \
	X(cuMemCreate, (CUmemGenericAllocationHandle *handle, size_t bytes,                \
			const CUmemAllocationProp *prop, unsigned long long flags))        \
	X(cuArray3DCreate_v2, (CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *desc))

static struct {
#define MEMBER(name, params) CUresult(CUDAAPI *name) params;
	DRIVER(MEMBER)
} cu;

static CUdevice device;

static CUresult take_plain(uint64_t bytes)
{
	CUdeviceptr ptr;

	return cu.cuMemAlloc_v2(&ptr, bytes);
}

/* Rows a little longer than a multiple of the pitch, so that padding is lost. */
static CUresult take_pitch(uint64_t bytes)
{
	size_t pitch, width = 4096 - 512 + 4;
	CUdeviceptr ptr;

	return cu.cuMemAllocPitch_v2(&ptr, &pitch, width, bytes / 4096, 4);
}

static CUresult take_pool(uint64_t bytes)
{
	CUdeviceptr ptr;
	CUresult r = cu.cuMemAllocAsync(&ptr, bytes, NULL);

	return r ? r : cu.cuStreamSynchronize(NULL);
}

static CUresult take_handle(uint64_t bytes)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	CUmemGenericAllocationHandle handle;

	return cu.cuMemCreate(&handle, bytes, &prop, 0);
}

static CUresult take_array(uint64_t bytes)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = {
		.Width = ARRAY_SIDE,
		.Height = bytes / 16 / ARRAY_SIDE,
		.Format = CU_AD_FORMAT_FLOAT,
		.NumChannels = 4,
	};
	CUarray array;

	return cu.cuArray3DCreate_v2(&array, &desc);
}

static struct family {
	const char *name;
	CUresult (*take)(uint64_t bytes);
	uint64_t bytes;
	CUresult refusal;
} families[] = {
	{"cuMemAlloc", take_plain, 0, CUDA_SUCCESS},
	{"cuMemAllocPitch", take_pitch, 0, CUDA_SUCCESS},
	{"cuMemAllocAsync", take_pool, 0, CUDA_SUCCESS},
	{"cuMemCreate", take_handle, 0, CUDA_SUCCESS},
	{"cuArray3DCreate", take_array, 0, CUDA_SUCCESS}, /* the last, which --no-arrays leaves out */
};
static size_t nfamilies = sizeof(families) / sizeof(families[0]);

static const char *error_name(CUresult r)
{
	const char *name = NULL;

	if (!r)
		return "not refused";
	return cu.cuGetErrorName && !cu.cuGetErrorName(r, &name) && name ? name : "unknown error";
}

static void must(CUresult r, const char *what)
{
	if (!r)
		return;
	fprintf(stderr, "fill: %s: %s\n", what, error_name(r));
	exit(1);
}

static void load(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	if (!lib) {
		fprintf(stderr, "fill: %s\n", dlerror());
		exit(1);
	}
#define FIND(name, params)                                                         \
	*(void **)&cu.name = dlsym(lib, #name);                                    \
	if (!cu.name) {                                                            \
		fprintf(stderr, "fill: the driver has no %s\n", #name);            \
		exit(1);                                                           \
	}
	DRIVER(FIND)
}

static void take_share(struct family *f, uint64_t share)
{
	while (f->bytes + PIECE <= share && !(f->refusal = f->take(PIECE)))
		f->bytes += PIECE;
}

static void take_rest(struct family *f)
{
	for (uint64_t piece = PIECE; piece >= LEAST; piece /= 2)
		while (!(f->refusal = f->take(piece)))
			f->bytes += piece;
}

static void print_table(uint64_t total)
{
	printf("the device says it has %" PRIu64 " MiB\n", (uint64_t)(total / MIB));
	for (size_t i = 0; i < nfamilies; i++)
		printf("  %-16s %7" PRIu64 " MiB, then %s\n", families[i].name,
		       (uint64_t)(families[i].bytes / MIB), error_name(families[i].refusal));
}

static void print_json(uint64_t total)
{
	printf("{\"total\": %" PRIu64 ", \"families\": [", total);
	for (size_t i = 0; i < nfamilies; i++)
		printf("%s{\"name\": \"%s\", \"bytes\": %" PRIu64 ", \"refused\": \"%s\"}",
		       i ? ", " : "", families[i].name, families[i].bytes,
		       error_name(families[i].refusal));
	puts("]}");
}

int main(int argc, char **argv)
{
	bool json = false, hold = false, arrays = true;
	size_t free_bytes, total;
	CUcontext ctx;
	char c;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--json")) {
			json = true;
		} else if (!strcmp(argv[i], "--hold")) {
			hold = true;
		} else if (!strcmp(argv[i], "--no-arrays")) {
			arrays = false;
		} else {
			fprintf(stderr, "usage: fill [--hold] [--no-arrays] [--json]\n");
			return 1;
		}
	}
	nfamilies -= !arrays;
	load();
	must(cu.cuInit(0), "cuInit");
	must(cu.cuDeviceGet(&device, 0), "cuDeviceGet");
	must(cu.cuDevicePrimaryCtxRetain(&ctx, device), "cuDevicePrimaryCtxRetain");
	must(cu.cuCtxSetCurrent(ctx), "cuCtxSetCurrent");
	must(cu.cuMemGetInfo_v2(&free_bytes, &total), "cuMemGetInfo");

	for (size_t i = 0; i < nfamilies; i++)
		take_share(&families[i], free_bytes / nfamilies);
	for (size_t i = 0; i < nfamilies; i++)
		take_rest(&families[i]);

	if (json)
		print_json(total);
	else
		print_table(total);
	fflush(stdout);
	while (hold)
		pause();
	while (json && read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
