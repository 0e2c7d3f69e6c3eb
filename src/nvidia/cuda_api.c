/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/cuda_api.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "base/text.h"

const struct cuda_row cuda_rows[CUDA_FN_N] = {
#define CUDA_HOOK(name, kind, params, args) {#name, CUDA_KIND_##kind, CUDA_DECISION_HOOK},
#define CUDA_CALL(name, kind, params, args) {#name, CUDA_KIND_##kind, CUDA_DECISION_CALL},
#define CUDA_PASS(name, kind) {#name, CUDA_KIND_##kind, CUDA_DECISION_PASS},
#include "nvidia/cuda_api.def"
};

const char *const cuda_kind_names[CUDA_KIND_N] = {
#define KIND(name, touches, sentence) #name,
#include "nvidia/cuda_kind.def"
};

const char *const cuda_kind_sentences[CUDA_KIND_N] = {
#define KIND(name, touches, sentence) sentence,
#include "nvidia/cuda_kind.def"
};

/*
 * The list is grouped by kind for people; lookup hashes. Open addressing over a power of two at
 * least twice the rows, filled on first use: every thread that gets here first writes the same
 * values, so plain relaxed stores suffice and no lock is needed.
 */
#define BUCKETS 2048
_Static_assert(BUCKETS >= 2 * CUDA_FN_N, "the name table must stay sparse");

static _Atomic short buckets[BUCKETS]; /* row + 1; 0 is empty */
static atomic_bool filled;

static unsigned int cuda_bucket_of(const char *name)
{
	return (unsigned int)(hash_string(HASH_SEED, name) % BUCKETS);
}

static void cuda_fill_buckets(void)
{
	for (int i = 0; i < CUDA_FN_N; i++) {
		unsigned int b = cuda_bucket_of(cuda_rows[i].name);
		short v;

		while ((v = atomic_load_explicit(&buckets[b], memory_order_relaxed)) && v != i + 1)
			b = (b + 1) % BUCKETS;
		atomic_store_explicit(&buckets[b], (short)(i + 1), memory_order_relaxed);
	}
	/* Pairs with the acquire in cuda_find: a reader that sees true sees every bucket. */
	atomic_store_explicit(&filled, true, memory_order_release);
}

int cuda_find(const char *name)
{
	if (!atomic_load_explicit(&filled, memory_order_acquire))
		cuda_fill_buckets();
	for (unsigned int b = cuda_bucket_of(name);; b = (b + 1) % BUCKETS) {
		int v = atomic_load_explicit(&buckets[b], memory_order_relaxed);

		if (!v)
			return -1;
		if (text_same(cuda_rows[v - 1].name, name))
			return v - 1;
	}
}

struct cuda_driver cuda_real;
static _Atomic(void *) addresses[CUDA_FN_N];
static atomic_bool bound;

static CUresult cuda_absent(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Function and data pointers have one representation on every platform that CUDA runs on. */
static void cuda_bind_one(void *member, void *address)
{
	void *target = address ? address : (void *)cuda_absent;

	atomic_store_explicit((_Atomic(void *) *)member, target, memory_order_relaxed);
}

void cuda_driver_bind(void *handle, void *(*sym)(void *handle, const char *name))
{
	if (atomic_load_explicit(&bound, memory_order_acquire))
		return;
	for (int i = 0; i < CUDA_FN_N; i++)
		atomic_store_explicit(&addresses[i], sym(handle, cuda_rows[i].name),
				      memory_order_relaxed);
#define CUDA_HOOK(name, kind, params, args) \
	cuda_bind_one(&cuda_real.name, addresses[CUDA_FN_##name]);
#define CUDA_CALL(name, kind, params, args) \
	cuda_bind_one(&cuda_real.name, addresses[CUDA_FN_##name]);
#include "nvidia/cuda_api.def"
	atomic_store_explicit(&bound, true, memory_order_release);
}

bool cuda_driver_bound(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire);
}

void *cuda_real_address(enum cuda_fn fn)
{
	return atomic_load_explicit(&addresses[fn], memory_order_relaxed);
}
