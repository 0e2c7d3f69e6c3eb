/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuGetProcAddress: the driver answers with the caller's own arguments, and if the answer is a
 * hooked function its hook is handed out instead.
 */
#include <stdatomic.h>
#include <stdint.h>

#include "guest/core/hooks.h"
#include "guest/core/library.h"

/*
 * Row of an address: open addressing, filled on first use with values that depend only on the
 * driver's addresses, so that threads which fill it at the same time store the same.
 */
#define BUCKETS 1024

static _Atomic(short) buckets[BUCKETS]; /* row + 1; 0 is empty */
static atomic_bool filled;

static unsigned int lookup_bucket(const void *address)
{
	/* Functions are 16-byte aligned; the multiplier spreads neighbours. */
	return (uint32_t)((uintptr_t)address >> 4) * 2654435769u >> 22;
}

static void lookup_fill(void)
{
	_Static_assert(BUCKETS == 1u << (32 - 22), "bucket_of yields an index");
	_Static_assert(BUCKETS > CUDA_FN_N, "a search ends at an empty bucket");

	for (int i = 0; i < CUDA_FN_N; i++) {
		void *address = cuda_real_address((enum cuda_fn)i);
		unsigned int b = lookup_bucket(address);
		short v;

		if (!hook_cuda[i] || !address)
			continue;
		while ((v = atomic_load_explicit(&buckets[b], memory_order_relaxed)) && v != i + 1)
			b = (b + 1) % BUCKETS;
		atomic_store_explicit(&buckets[b], (short)(i + 1), memory_order_relaxed);
	}
	atomic_store_explicit(&filled, true, memory_order_release);
}

static void *lookup_hook(void *address)
{
	if (!atomic_load_explicit(&filled, memory_order_acquire))
		lookup_fill();
	for (unsigned int b = lookup_bucket(address);; b = (b + 1) % BUCKETS) {
		int v = atomic_load_explicit(&buckets[b], memory_order_relaxed);

		if (!v)
			return address;
		if (cuda_real_address((enum cuda_fn)(v - 1)) == address)
			return hook_cuda[v - 1];
	}
}

CUresult hook_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
	CUresult result;

	if (!library_present(&library_cuda))
		return CUDA_ERROR_NOT_INITIALIZED;
	result = cuda_real.cuGetProcAddress(symbol, pfn, cudaVersion, flags);
	if (result == CUDA_SUCCESS && pfn)
		*pfn = lookup_hook(*pfn);
	return result;
}

CUresult hook_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion,
				  cuuint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)
{
	CUresult result;

	if (!library_present(&library_cuda))
		return CUDA_ERROR_NOT_INITIALIZED;
	result = cuda_real.cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus);
	if (result == CUDA_SUCCESS && pfn)
		*pfn = lookup_hook(*pfn);
	return result;
}
