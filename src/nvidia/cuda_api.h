/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generated from cuda_api.def: an identifier for each row, a name table, and the table of the real
 * driver's entry points. Nothing in here calls the driver.
 */
#ifndef ALLOT_NVIDIA_CUDA_API_H
#define ALLOT_NVIDIA_CUDA_API_H

#include <stdbool.h>

#include "nvidia/abi/cuda.h"

/* One identifier a row, hooked rows first in no particular order: CUDA_FN_cuMemAlloc_v2. */
enum cuda_fn {
#define CUDA_HOOK(name, kind, params, args) CUDA_FN_##name,
#define CUDA_CALL(name, kind, params, args) CUDA_FN_##name,
#define CUDA_PASS(name, kind) CUDA_FN_##name,
#include "nvidia/cuda_api.def"
	CUDA_FN_N,
};

enum cuda_kind {
#define KIND(name, touches, sentence) CUDA_KIND_##name,
#include "nvidia/cuda_kind.def"
	CUDA_KIND_N,
};

/* Of each kind, and so of each row: CUDA_TOUCHES_cuMemAlloc_v2. */
enum {
#define KIND(name, touches, sentence) CUDA_KIND_TOUCHES_##name = (touches),
#include "nvidia/cuda_kind.def"
#define CUDA_HOOK(name, kind, params, args) CUDA_TOUCHES_##name = CUDA_KIND_TOUCHES_##kind,
#include "nvidia/cuda_api.def"
};

enum cuda_decision {
	CUDA_DECISION_HOOK, /* hooked by liballot */
	CUDA_DECISION_CALL, /* passed through, prototype known */
	CUDA_DECISION_PASS, /* passed through */
};

struct cuda_row {
	const char *name;
	enum cuda_kind kind;
	enum cuda_decision decision;
};

/* The list as data, in the order of enum cuda_fn. */
extern const struct cuda_row cuda_rows[CUDA_FN_N];
/* A kind's word and sentence, for documents and tests. */
extern const char *const cuda_kind_names[CUDA_KIND_N];
extern const char *const cuda_kind_sentences[CUDA_KIND_N];

/* The row of an exported name, or -1. It allocates nothing. */
int cuda_find(const char *name);

/*
 * The real driver: a typed member for each row whose prototype is known. A member that the
 * installed driver does not export points at a function that answers CUDA_ERROR_NOT_SUPPORTED,
 * so that callers need no check; `present` tells the two apart. Atomic, because a thread may call
 * while another, which began before it was bound, stores the same address again.
 */
struct cuda_driver {
#define CUDA_HOOK(name, kind, params, args) CUresult(CUDAAPI *_Atomic name) params;
#define CUDA_CALL(name, kind, params, args) CUresult(CUDAAPI *_Atomic name) params;
#include "nvidia/cuda_api.def"
};

extern struct cuda_driver cuda_real;

/* The address that the driver exports for a row, or NULL: what pointer identity compares with. */
void *cuda_real_address(enum cuda_fn fn);

/*
 * Fill cuda_real from an open driver library. `sym` is the C library's own dlsym (a library that
 * defines dlsym itself must not come back to its own). Safe to call from several threads: each
 * stores the same addresses.
 */
void cuda_driver_bind(void *handle, void *(*sym)(void *handle, const char *name));
bool cuda_driver_bound(void);

#endif
