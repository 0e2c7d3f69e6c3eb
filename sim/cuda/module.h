/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code: modules, libraries, functions, kernels. Any image is accepted and has every function one
 * asks for. An image that begins with "allot-sim-module bytes=<n>\n" takes n bytes, rounded up to
 * granules; all others of a context share one granule. Memory is taken at the first use, or at the
 * load where CUDA_MODULE_LOADING=EAGER.
 */
#ifndef ALLOT_SIM_CUDA_MODULE_H
#define ALLOT_SIM_CUDA_MODULE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sim/cuda/block.h"

struct sim_library;

struct sim_module {
	struct sim_module *next;
	struct sim_context *ctx;
	uint64_t bytes; /* 0: shares the context's granule */
	bool loaded;
	struct sim_block *block;
	struct sim_library *library;
	struct sim_function *functions;
};

enum { SIM_FUNCTION_MAGIC = 0x66756e63, SIM_KERNEL_MAGIC = 0x6b65726e };

/* A CUfunction, or a CUkernel. Never freed: launches look at no table, only at the magic. */
struct sim_function {
	uint32_t magic;
	int max_dynamic_shared;
	_Atomic bool launched; /* its code is there: ALLOT_SIM_LOAD_US is paid once */
	struct sim_function *next;
	char *name;
	struct sim_module *module;   /* of a function */
	struct sim_library *library; /* of a kernel */
};

/* All with sim_lock held. */
struct sim_module *sim_module_find(CUmodule handle);
CUresult sim_module_make(struct sim_context *ctx, uint64_t bytes, struct sim_library *library,
			 struct sim_module **ret_module);
void sim_module_end(struct sim_module *module);
CUresult sim_module_use(struct sim_module *module); /* takes its memory, if it has not yet */
CUresult sim_module_function(struct sim_module *module, const char *name,
			     struct sim_function **ret_function);
/* Find or make by name in a list. */
struct sim_function *sim_function_named(struct sim_function **list, const char *name,
					uint32_t magic);
/* The end of all of a list: their handles are invalid from now on. */
void sim_functions_end(struct sim_function **list);
/* Bytes that an image asks for, 0 for the common granule. */
uint64_t sim_image_bytes(const void *image);
CUresult sim_image_file_bytes(const char *path, uint64_t *ret_bytes);
bool sim_module_eager(void);

/* library.c. A function that exists: of a kernel, its function in the current context. Unlocked. */
CUresult sim_function_find(const void *handle, struct sim_function **ret_function);

#endif
