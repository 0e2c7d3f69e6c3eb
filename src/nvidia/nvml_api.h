/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated from nvml_api.def: an identifier for each row, a name table, and tables of the real
 * library's entry points. Nothing in here calls the library.
 */
#ifndef ALLOT_NVIDIA_NVML_API_H
#define ALLOT_NVIDIA_NVML_API_H

#include <stdbool.h>

#include "nvidia/abi/nvml.h"

/* One identifier a row, in the list's order: NVML_FN_nvmlInit_v2. */
enum nvml_fn {
#define NVML_HOOK(name, kind, params, args) NVML_FN_##name,
#define NVML_CALL(name, kind, params, args) NVML_FN_##name,
#define NVML_PASS(name, kind) NVML_FN_##name,
#define NVML_TEXT(name, kind, params, args) NVML_FN_##name,
#include "nvidia/nvml_api.def"
	NVML_FN_N,
};

enum nvml_kind {
#define KIND(name, sentence) NVML_KIND_##name,
#include "nvidia/nvml_kind.def"
	NVML_KIND_N,
};

enum nvml_decision {
	NVML_DECISION_HOOK, /* liballot stands in front of it */
	NVML_DECISION_CALL, /* passed through, prototype known */
	NVML_DECISION_PASS, /* passed through */
};

struct nvml_row {
	const char *name;
	enum nvml_kind kind;
	enum nvml_decision decision;
};

/* The list as data, in the order of enum nvml_fn. */
extern const struct nvml_row nvml_rows[NVML_FN_N];
/* A kind's word and sentence, for documents and tests. */
extern const char *const nvml_kind_names[NVML_KIND_N];
extern const char *const nvml_kind_sentences[NVML_KIND_N];

/* The row of an exported name, or -1. */
int nvml_find(const char *name);

/*
 * A library's entry points: a typed member for each row whose prototype is known. A member that
 * the library does not export points at a function that answers NVML_ERROR_FUNCTION_NOT_FOUND
 * (or a fixed text), so that callers need no check.
 */
struct nvml_library {
#define NVML_HOOK(name, kind, params, args) nvmlReturn_t (*_Atomic name) params;
#define NVML_CALL(name, kind, params, args) nvmlReturn_t (*_Atomic name) params;
#define NVML_TEXT(name, kind, params, args) const char *(*_Atomic name) params;
#include "nvidia/nvml_api.def"
};

/* Fill a table from an open library, by the C library's dlsym or a stand-in for it. */
void nvml_library_bind(struct nvml_library *ret_library, void *handle,
		       void *(*sym)(void *handle, const char *name));

/*
 * The library that the program itself uses: the guest's hooks call through nvml_real. It is bound
 * once; several threads may bind it at a time, each stores the same addresses.
 */
extern struct nvml_library nvml_real;

void nvml_real_bind(void *handle, void *(*sym)(void *handle, const char *name));
bool nvml_real_bound(void);
/* The address that the library exports for a row, or NULL: what pointer identity compares with. */
void *nvml_real_address(enum nvml_fn fn);

#endif
