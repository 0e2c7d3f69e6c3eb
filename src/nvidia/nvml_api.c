/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/nvml_api.h"

#include <stdatomic.h>

#include "base/text.h"

const struct nvml_row nvml_rows[NVML_FN_N] = {
#define NVML_HOOK(name, kind, params, args) {#name, NVML_KIND_##kind, NVML_DECISION_HOOK},
#define NVML_CALL(name, kind, params, args) {#name, NVML_KIND_##kind, NVML_DECISION_CALL},
#define NVML_PASS(name, kind) {#name, NVML_KIND_##kind, NVML_DECISION_PASS},
#define NVML_TEXT(name, kind, params, args) {#name, NVML_KIND_##kind, NVML_DECISION_CALL},
#include "nvidia/nvml_api.def"
};

const char *const nvml_kind_names[NVML_KIND_N] = {
#define KIND(name, sentence) #name,
#include "nvidia/nvml_kind.def"
};

const char *const nvml_kind_sentences[NVML_KIND_N] = {
#define KIND(name, sentence) sentence,
#include "nvidia/nvml_kind.def"
};

/* Asked once a lookup of an nvml name, never on a hot path: a walk is enough. */
int nvml_find(const char *name)
{
	for (int i = 0; i < NVML_FN_N; i++)
		if (text_same(nvml_rows[i].name, name))
			return i;
	return -1;
}

static nvmlReturn_t nvml_absent(void)
{
	return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static const char *nvml_absent_text(nvmlReturn_t result)
{
	(void)result;
	return "unknown error";
}

/* Function and data pointers have one representation on every platform that NVML runs on. */
static void nvml_bind_one(void *member, void *address, void *otherwise)
{
	void *target = address ? address : otherwise;

	atomic_store_explicit((_Atomic(void *) *)member, target, memory_order_relaxed);
}

void nvml_library_bind(struct nvml_library *library, void *handle,
		       void *(*sym)(void *handle, const char *name))
{
#define NVML_HOOK(name, kind, params, args) \
	nvml_bind_one(&library->name, sym(handle, #name), (void *)nvml_absent);
#define NVML_CALL(name, kind, params, args) \
	nvml_bind_one(&library->name, sym(handle, #name), (void *)nvml_absent);
#define NVML_TEXT(name, kind, params, args) \
	nvml_bind_one(&library->name, sym(handle, #name), (void *)nvml_absent_text);
#include "nvidia/nvml_api.def"
}

struct nvml_library nvml_real;
static _Atomic(void *) addresses[NVML_FN_N];
static atomic_bool bound;

void nvml_real_bind(void *handle, void *(*sym)(void *handle, const char *name))
{
	if (nvml_real_bound())
		return;
	for (int i = 0; i < NVML_FN_N; i++)
		atomic_store_explicit(&addresses[i], sym(handle, nvml_rows[i].name),
				      memory_order_relaxed);
	nvml_library_bind(&nvml_real, handle, sym);
	/*
	 * Pairs with the acquire in nvml_real_bound: a thread that sees true sees the whole table.
	 */
	atomic_store_explicit(&bound, true, memory_order_release);
}

bool nvml_real_bound(void)
{
	return atomic_load_explicit(&bound, memory_order_acquire);
}

void *nvml_real_address(enum nvml_fn fn)
{
	return atomic_load_explicit(&addresses[fn], memory_order_relaxed);
}
