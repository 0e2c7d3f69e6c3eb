/* SPDX-License-Identifier: Apache-2.0 */
/* Stories of frees: in other ways than memory was taken, late, wrong. */
#include <pthread.h>
#include <stdint.h>

#include "families_steps.h"

static void *free_in_thread(void *arg)
{
	OK(cu.cuMemFree_v2((CUdeviceptr)(uintptr_t)arg));
	return NULL;
}

static void in_thread(void *(*fn)(void *), void *arg)
{
	pthread_t thread;

	CHECK_EQ(pthread_create(&thread, NULL, fn, arg), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

/* Keeps a stream at work for a while. */
static void spin(CUstream stream, uint64_t us)
{
	static CUfunction function;
	void *params[] = {&us};

	if (!function) {
		CUmodule module;

		OK(cu.cuModuleLoadData(&module, "allot-sim-module\n"));
		OK(cu.cuModuleGetFunction(&function, module, "sim_spin"));
	}
	OK(cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void frees_of_async(void)
{
	CUdeviceptr p;

	guest_context(0);
	p = alloc_async(40 * MIB, NULL);
	tell(NOTE_USED, 0, 64 * MIB, "async");
	OK(cu.cuStreamSynchronize(NULL));
	OK(cu.cuMemFree_v2(p));
	tell(NOTE_FREED, 0, 0, "cuMemFree of async memory");
	p = alloc_async(40 * MIB, NULL);
	in_thread(free_in_thread, (void *)(uintptr_t)p);
	tell(NOTE_FREED, 0, 0, "in another thread");
}

void frees_in_stream(void)
{
	CUstream stream;
	CUdeviceptr p, q;

	guest_context(0);
	stream = new_stream();
	spin(stream, 1);
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_EMPTY, 0, 0, "with a kernel");
	p = alloc(40 * MIB);
	q = alloc(4096);
	spin(stream, 30000);
	OK(cu.cuMemFreeAsync(p, stream));
	OK(cu.cuMemFreeAsync(q, stream));
	tell(NOTE_QUOTA, 0, 0, "on its way");
	OK(cu.cuStreamSynchronize(stream));
	tell(NOTE_FREED, 0, 0, "cuMemFreeAsync of plain memory");
	p = alloc(40 * MIB);
	q = alloc(4096);
	OK(cu.cuMemFreeAsync_ptsz(p, NULL));
	OK(cu.cuMemFreeAsync_ptsz(q, NULL));
	OK(cu.cuStreamSynchronize_ptsz(NULL));
	tell(NOTE_FREED, 0, 0, "per-thread stream");
	/* Freed behind work that takes long: who needs it does not wait, but gets it at last. */
	fill_rest();
}

void wrong_frees(void)
{
	CUdeviceptr p, q;

	guest_context(0);
	p = alloc(40 * MIB);
	q = alloc(4096);
	CHECK(cu.cuMemFree_v2(p + 512));
	CHECK(cu.cuMemFree_v2(q + 512));
	CHECK(cu.cuMemFree_v2(12345));
	CHECK(cu.cuMemFree((CUdeviceptr_v1)p));
	OK(cu.cuMemFree_v2(0));
	tell(NOTE_USED, 0, 42 * MIB, "nothing was freed");
	OK(cu.cuMemFree_v2(p));
	OK(cu.cuMemFree_v2(q));
	CHECK(cu.cuMemFree_v2(p));
	CHECK(cu.cuMemFreeAsync(q, NULL));
	tell(NOTE_FREED, 0, 0, "once");
	CHECK(cu.cuMemAlloc_v2(&p, 0));
	CHECK(cu.cuMemAlloc_v2(NULL, 1));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, SIZE_MAX));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAlloc_v2(&p, SIZE_MAX - 1000));
	GIVES(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&p, SIZE_MAX, NULL));
	tell(NOTE_FREED, 0, 0, "absurd sizes");
}
