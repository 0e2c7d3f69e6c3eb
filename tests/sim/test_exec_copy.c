/* SPDX-License-Identifier: Apache-2.0 */
/* Copies, sets and kernels: what they leave in memory, what they refuse, what faults. */
#include "tests/sim/exec.h"

#define BYTES (9u << 20) /* more than two steps, and no multiple of one */

static unsigned char *pattern(unsigned int seed)
{
	unsigned char *bytes = malloc(BYTES);

	CHECK(bytes);
	for (unsigned int i = 0; i < BYTES; i++)
		bytes[i] = (unsigned char)((i * 2654435761u + seed) >> 13);
	return bytes;
}

static void test_linear(void)
{
	unsigned char *from = pattern(1), *to = calloc(1, BYTES), *pinned;
	CUdeviceptr a, b;
	CUstream stream;

	CHECK(to);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&a, BYTES));
	OK(cuMemAlloc_v2(&b, BYTES));
	OK(cuMemcpyHtoD_v2(a, from, BYTES));
	OK(cuMemcpyDtoD_v2(b, a, BYTES));
	OK(cuMemcpyDtoH_v2(to, b, BYTES));
	CHECK(!memcmp(from, to, BYTES));

	/* Unified addressing finds out by itself. */
	memset(to, 0, BYTES);
	OK(cuMemcpy(b, (CUdeviceptr)(uintptr_t)from, 4096));
	OK(cuMemcpy((CUdeviceptr)(uintptr_t)to, b, 4096));
	CHECK(!memcmp(from, to, 4096));

	/* Pageable memory may be changed or read when the call is back, pinned when it is done. */
	OK(exec_spin(stream, 3000));
	OK(cuMemcpyHtoDAsync_v2(a, from, 1000, stream));
	memset(from, 0x55, 1000);
	OK(cuMemcpyDtoHAsync_v2(to, a, 1000, stream));
	CHECK(to[0] != 0x55 && to[500] != 0x55);
	OK(cuMemHostAlloc((void **)&pinned, 1 << 20, 0));
	memset(pinned, 1, 1 << 20);
	OK(exec_spin(stream, 20000));
	OK(cuMemcpyHtoDAsync_v2(a, pinned, 1 << 20, stream));
	memset(pinned, 2, 1 << 20);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(to, a, 1 << 20));
	CHECK(to[0] == 2 && to[(1 << 20) - 1] == 2);

	CHECK_EQ(cuMemcpyHtoD_v2(a, from, BYTES + (64u << 20)), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemcpyDtoD_v2(a, 4096, 16), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemcpyDtoD_v2(a, b, 0));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree_v2(a));
	CHECK_EQ(cuMemcpyDtoH_v2(to, a, 16), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(b));
	OK(cuStreamDestroy_v2(stream));
	free(from);
	free(to);
}

static void test_boxes(void)
{
	enum { W = 100, H = 30, D = 5 };
	unsigned char *from = pattern(2), *to = calloc(1, BYTES);
	CUDA_MEMCPY2D flat = {0};
	CUDA_MEMCPY3D box = {0};
	CUdeviceptr ptr;
	size_t pitch;

	OK(cuMemAllocPitch_v2(&ptr, &pitch, W, H * D, 4));
	CHECK(pitch >= W);
	flat.srcMemoryType = CU_MEMORYTYPE_HOST;
	flat.srcHost = from;
	flat.srcPitch = W;
	flat.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	flat.dstDevice = ptr;
	flat.dstPitch = pitch;
	flat.WidthInBytes = W;
	flat.Height = H * D;
	OK(cuMemcpy2D_v2(&flat));
	for (int y = 0; y < H * D; y++)
		CHECK(!memcmp((void *)(uintptr_t)(ptr + y * pitch), from + y * W, W));

	/* The box (10, 3, 1) of size 50 x 20 x 3 out of D slices of H rows. */
	box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	box.srcDevice = ptr;
	box.srcPitch = pitch;
	box.srcHeight = H;
	box.srcXInBytes = 10;
	box.srcY = 3;
	box.srcZ = 1;
	box.dstMemoryType = CU_MEMORYTYPE_HOST;
	box.dstHost = to;
	box.WidthInBytes = 50;
	box.Height = 20;
	box.Depth = 3;
	OK(cuMemcpy3D_v2(&box));
	for (int z = 0; z < 3; z++)
		for (int y = 0; y < 20; y++)
			CHECK(!memcmp(to + (z * 20 + y) * 50,
				      from + ((z + 1) * H + y + 3) * W + 10, 50));
	box.srcZ = 3;
	box.Depth = D;
	CHECK_EQ(cuMemcpy3D_v2(&box), CUDA_ERROR_INVALID_VALUE);
	flat.dstPitch = W / 2;
	CHECK_EQ(cuMemcpy2D_v2(&flat), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemcpy2D_v2(NULL), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(ptr));
	free(from);
	free(to);
}

static void test_arrays(void)
{
	CUDA_ARRAY_DESCRIPTOR desc = {64, 16, CU_AD_FORMAT_FLOAT, 2};
	unsigned char *from = pattern(3), *to = calloc(1, BYTES);
	CUDA_MEMCPY2D flat = {0};
	CUarray a, b;

	OK(cuArrayCreate_v2(&a, &desc));
	OK(cuArrayCreate_v2(&b, &desc));
	flat.srcMemoryType = CU_MEMORYTYPE_HOST;
	flat.srcHost = from;
	flat.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	flat.dstArray = a;
	flat.WidthInBytes = 64 * 8;
	flat.Height = 16;
	OK(cuMemcpy2D_v2(&flat));
	flat.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	flat.srcArray = a;
	flat.dstArray = b;
	OK(cuMemcpy2DAsync_v2(&flat, NULL));
	flat.srcArray = b;
	flat.dstMemoryType = CU_MEMORYTYPE_HOST;
	flat.dstHost = to;
	OK(cuMemcpy2D_v2(&flat));
	CHECK(!memcmp(from, to, 64 * 8 * 16));
	flat.Height = 17;
	CHECK_EQ(cuMemcpy2D_v2(&flat), CUDA_ERROR_INVALID_VALUE);
	memset(to, 0, 100);
	OK(cuMemcpyAtoH_v2(to, a, 8, 100));
	CHECK(!memcmp(from + 8, to, 100));
	OK(cuArrayDestroy(a));
	OK(cuArrayDestroy(b));
	free(from);
	free(to);
}

static void test_sets(void)
{
	CUdeviceptr ptr;
	uint32_t *words;
	uint16_t *shorts;

	OK(cuMemAlloc_v2(&ptr, BYTES));
	words = (uint32_t *)(uintptr_t)ptr;
	shorts = (uint16_t *)(uintptr_t)ptr;
	OK(cuMemsetD32_v2(ptr, 0x12345678, BYTES / 4));
	OK(cuCtxSynchronize());
	CHECK(words[0] == 0x12345678 && words[BYTES / 4 - 1] == 0x12345678);
	OK(cuMemsetD16_v2(ptr, 0xabcd, 3));
	OK(cuMemsetD2D8_v2(ptr + 64, 16, 7, 4, 2));
	OK(cuCtxSynchronize());
	CHECK(shorts[2] == 0xabcd && shorts[3] == 0x1234);
	CHECK(words[16] == 0x07070707 && words[17] == 0x12345678 && words[20] == 0x07070707 &&
	      words[24] == 0x12345678);
	CHECK_EQ(cuMemsetD32_v2(ptr + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuMemsetD8_v2(ptr, 0, BYTES + (64u << 20)), CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(ptr));
}

static void test_kernels(void)
{
	CUfunction fill = exec_function("sim_fill"), check = exec_function("sim_check");
	struct {
		CUdeviceptr ptr;
		uint64_t words;
		uint32_t seed;
		CUdeviceptr bad;
	} packed;
	uint64_t words = BYTES / 4;
	uint32_t seed = 99, count;
	CUdeviceptr ptr, bad;
	size_t bytes = sizeof(packed);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE,
			 &bytes, CU_LAUNCH_PARAM_END};

	OK(cuMemAlloc_v2(&ptr, BYTES));
	OK(cuMemAlloc_v2(&bad, 4));
	OK(cuMemsetD32_v2(bad, 0, 1));
	OK(exec_launch(fill, NULL, (void *[]){&ptr, &words, &seed}));
	OK(cuMemsetD32Async(ptr + 4000, 1, 5, NULL));
	packed.ptr = ptr;
	packed.words = words;
	packed.seed = seed;
	packed.bad = bad;
	OK(cuLaunchKernel(check, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
	OK(cuMemcpyDtoH_v2(&count, bad, 4));
	CHECK_EQ(count, 5);
	CHECK_EQ(exec_launch(fill, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
	bytes = 12;
	CHECK_EQ(cuLaunchKernel(check, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuLaunchKernel(fill, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		 CUDA_ERROR_INVALID_VALUE);
	CHECK_EQ(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		 CUDA_ERROR_INVALID_HANDLE);
	/* A free waits for the work that may use the memory. */
	OK(exec_spin(NULL, 5000));
	OK(exec_launch(fill, NULL, (void *[]){&ptr, &words, &seed}));
	OK(cuMemFree_v2(ptr));
	OK(cuMemFree_v2(bad));
	OK(cuCtxSynchronize());
}

static void never(void *arg)
{
	CHECK(!"a host function ran after a fault");
}

static atomic_int told;

static void tell(CUstream stream, CUresult status, void *arg)
{
	CHECK_EQ(status, CUDA_ERROR_ILLEGAL_ADDRESS);
	atomic_fetch_add(&told, 1);
}

/* A kernel that leaves its memory breaks the context, and wakes all who wait. */
static void test_fault(void)
{
	CUfunction fill = exec_function("sim_fill");
	uint64_t words = 1ull << 40;
	uint32_t seed = 1;
	CUstream stream;
	CUdeviceptr ptr;
	CUevent event;

	OK(cuMemAlloc_v2(&ptr, 4096));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&event, 0));
	OK(exec_spin(stream, 20000));
	OK(exec_launch(fill, stream, (void *[]){&ptr, &words, &seed}));
	OK(cuLaunchHostFunc(stream, never, NULL));
	OK(cuStreamAddCallback(stream, tell, NULL, 0));
	OK(cuEventRecord(event, stream));
	CHECK_EQ(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(told, 1);
	CHECK_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(exec_spin(NULL, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuEventDestroy_v2(event));
	OK(cuStreamDestroy_v2(stream));
}

/* What was freed in a stream is whole until that gets there, though it is handed out again by then. */
static void test_reused(void)
{
	const uint64_t bytes = 8 << 20, words = bytes / 4;
	CUfunction fill = exec_function("sim_fill"), check = exec_function("sim_check");
	CUdeviceptr a, b, bad;
	uint32_t seed = 7, n = 0;
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&bad, 4));
	OK(cuMemcpyHtoD_v2(bad, &n, 4));
	OK(cuMemAllocAsync(&a, bytes, stream));
	OK(exec_launch(fill, stream, (void *[]){&a, (void *)&words, &seed}));
	OK(exec_spin(stream, 5000));
	OK(exec_launch(check, stream, (void *[]){&a, (void *)&words, &seed, &bad}));
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemAllocAsync(&b, bytes / 8, stream));
	CHECK_EQ(b, a);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(&n, bad, 4));
	CHECK_EQ(n, 0);
	OK(cuMemFreeAsync(b, stream));
	OK(cuMemFree_v2(bad));
	OK(cuStreamDestroy_v2(stream));
}

int main(void)
{
	exec_init();
	exec_context();
	test_linear();
	test_boxes();
	test_arrays();
	test_sets();
	test_kernels();
	test_reused();
	test_fault();
	cuDevicePrimaryCtxRelease_v2(0);
	return 0;
}
