/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code: modules, libraries, functions, kernels. Any image is accepted and has every function one
 * asks for. An image may begin with a line that says what its code takes:
 *
 *   allot-sim-module bytes=<n> [heap] [printf]
 *
 * Code of n bytes takes them, rounded up to granules; all other code of a context shares one
 * granule. That memory is taken at the first use, or at the load where CUDA_MODULE_LOADING=EAGER.
 * `heap`: the code uses malloc, so that the first launch of it backs the heap of its context.
 * `printf`: the code prints, so that the FIFO for that is backed when it is loaded into a context.
 */
#ifndef ALLOT_SIM_CUDA_MODULE_H
#define ALLOT_SIM_CUDA_MODULE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "sim/cuda/block.h"

struct sim_library;

/* The first line of an image. */
struct sim_image {
	uint64_t bytes; /* 0: shares the context's granule */
	bool heap, prints;
};

struct sim_module {
	struct sim_module *next;
	struct sim_context *ctx;
	struct sim_image image;
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
CUresult sim_module_make(struct sim_context *ctx, const struct sim_image *image,
			 struct sim_library *library, struct sim_module **ret_module);
void sim_module_end(struct sim_module *module);
CUresult sim_module_use(struct sim_module *module); /* takes its memory, if it has not yet */
/* For each launch of its code, where that uses what its context has for all code: backs that. */
CUresult sim_module_launch(struct sim_module *module);
static inline bool sim_module_uses_context(const struct sim_module *module)
{
	return module->image.heap || module->image.prints;
}
CUresult sim_module_function(struct sim_module *module, const char *name,
			     struct sim_function **ret_function);
/* Find or make by name in a list. */
struct sim_function *sim_function_named(struct sim_function **list, const char *name,
					uint32_t magic);
/* The end of all of a list: their handles are invalid from now on. */
void sim_functions_end(struct sim_function **list);
struct sim_image sim_image_read(const char *text);
CUresult sim_image_read_file(const char *path, struct sim_image *ret_image);
bool sim_module_eager(void);

/* library.c. A function that exists: of a kernel, its function in the current context. Unlocked. */
CUresult sim_function_find(const void *handle, struct sim_function **ret_function);

#endif
