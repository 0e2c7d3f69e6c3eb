/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Libraries: code that belongs to no context, and is a module in each that uses it. So what a
 * handle of a function or of one of their kernels means is told here.
 */
#include <stdlib.h>
#include <time.h>

#include "base/now.h"
#include "sim/cuda/api.h"
#include "sim/cuda/module.h"
#include "sim/cuda/settings.h"
#include "sim/cuda/stream.h"

struct in_context {
	struct in_context *next;
	struct sim_module *module;
};

struct sim_library {
	struct sim_library *next;
	struct sim_image image;
	struct in_context *modules;
	struct sim_function *kernels;
};

static struct sim_library *all;

static struct sim_library *library_find(CUlibrary handle)
{
	struct sim_library *l;

	for (l = all; l && l != (struct sim_library *)handle; l = l->next)
		;
	return l;
}

static CUresult library_module_in(struct sim_library *l, struct sim_context *ctx,
				  struct sim_module **ret_module)
{
	struct in_context *c;
	CUresult r;

	for (c = l->modules; c; c = c->next)
		if (c->module->ctx == ctx) {
			*ret_module = c->module;
			return CUDA_SUCCESS;
		}
	c = malloc(sizeof(*c));
	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = sim_module_make(ctx, &l->image, l, &c->module);
	if (r) {
		free(c);
		return r;
	}
	c->next = l->modules;
	l->modules = c;
	*ret_module = c->module;
	return CUDA_SUCCESS;
}

CUresult sim_context_libraries_load(struct sim_context *ctx)
{
	struct sim_module *m;
	CUresult r = CUDA_SUCCESS;

	if (!sim_module_eager())
		return CUDA_SUCCESS;
	sim_lock();
	for (struct sim_library *l = all; l && !r; l = l->next)
		r = library_module_in(l, ctx, &m);
	sim_unlock();
	return r;
}

void sim_context_libraries_gone(struct sim_context *ctx)
{
	sim_lock();
	for (struct sim_library *l = all; l; l = l->next)
		for (struct in_context **at = &l->modules, *c; (c = *at); at = &c->next)
			if (c->module->ctx == ctx) {
				*at = c->next;
				free(c);
				break; /* a library is one module of a context */
			}
	sim_unlock();
}

/* A kernel's function in a context; loads the library there. Locked. */
static CUresult library_kernel_function(struct sim_function *kernel, struct sim_context *ctx,
					struct sim_function **ret_function)
{
	struct sim_module *m;
	CUresult r = library_module_in(kernel->library, ctx, &m);

	return r ? r : sim_module_function(m, kernel->name, ret_function);
}

CUresult sim_function_find(const void *handle, struct sim_function **ret_function)
{
	struct sim_function *f = (struct sim_function *)handle;
	struct sim_context *ctx;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (f->magic == SIM_FUNCTION_MAGIC) {
		*ret_function = f;
		return CUDA_SUCCESS;
	}
	if (f->magic != SIM_KERNEL_MAGIC)
		return CUDA_ERROR_INVALID_HANDLE;
	r = sim_context_current(&ctx);
	if (r)
		return r;
	sim_lock();
	r = library_kernel_function(f, ctx, ret_function);
	sim_unlock();
	return r;
}

/* The caller waits for the code of a function that was never used. */
static void library_load_code(struct sim_function *f)
{
	uint64_t load_ns = sim_settings()->load_ns;
	const struct timespec wait = {
		.tv_sec = (time_t)(load_ns / NS_PER_S),
		.tv_nsec = (long)(load_ns % NS_PER_S),
	};

	if (load_ns && !atomic_exchange(&f->launched, true) && !sim_module_eager())
		nanosleep(&wait, NULL);
}

CUresult sim_function_use(CUfunction function, const char **ret_name)
{
	struct sim_function *f;
	CUresult r = sim_function_find(function, &f);

	if (r)
		return r;
	*ret_name = f->name;
	library_load_code(f);
	if (f->module->loaded)
		return CUDA_SUCCESS;
	sim_lock();
	r = sim_module_use(f->module);
	sim_unlock();
	return r;
}

CUresult sim_function_launch(CUfunction function)
{
	struct sim_function *f;
	CUresult r;

	/* A graph may outlive the code that it launches. */
	if (sim_function_find(function, &f) || !sim_module_uses_context(f->module))
		return CUDA_SUCCESS;
	sim_lock();
	r = sim_module_launch(f->module);
	sim_unlock();
	return r;
}

/* Ends what contexts have of a library. Locked. */
static void library_end_modules(struct sim_library *l)
{
	for (struct in_context *c; (c = l->modules);) {
		l->modules = c->next;
		sim_module_end(c->module);
		free(c);
	}
}

/* Loads a library into every context that exists, or into none. Locked. */
static CUresult library_load_everywhere(struct sim_library *l)
{
	struct sim_module *m;
	CUresult r = CUDA_SUCCESS;

	for (struct sim_context *ctx = sim_contexts(); ctx && !r; ctx = ctx->next)
		if (ctx->live && ctx->kind != SIM_CONTEXT_GREEN)
			r = library_module_in(l, ctx, &m);
	if (r)
		library_end_modules(l);
	return r;
}

static CUresult library_load(CUlibrary *ret, struct sim_image image)
{
	struct sim_library *l = calloc(1, sizeof(*l));
	CUresult r = CUDA_SUCCESS;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->image = image;
	sim_lock();
	l->next = all;
	all = l;
	if (sim_module_eager())
		r = library_load_everywhere(l);
	if (r)
		all = l->next;
	sim_unlock();
	if (r)
		free(l);
	else
		*ret = (CUlibrary)l;
	return r;
}

/*
 * Options change nothing here. As in the driver, those of the compiler have to be there with their
 * values, and a file's code is not the caller's to preserve.
 */
static CUresult library_check_options(unsigned int n_jit, CUjit_option *jit, void **jit_values,
				      unsigned int n, const CUlibraryOption *options, bool file)
{
	if (n_jit && (!jit || !jit_values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; file && options && i < n; i++)
		if (options[i] == CU_LIBRARY_BINARY_IS_PRESERVED)
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
			   void **jitOptionsValues, unsigned int numJitOptions,
			   CUlibraryOption *libraryOptions, void **libraryOptionValues,
			   unsigned int numLibraryOptions)
{
	CUresult r = sim_ready();

	if (!r && (!library || !code))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = library_check_options(numJitOptions, jitOptions, jitOptionsValues,
					  numLibraryOptions, libraryOptions, false);
	return r ? r : library_load(library, sim_image_read(code));
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
			       void **jitOptionsValues, unsigned int numJitOptions,
			       CUlibraryOption *libraryOptions, void **libraryOptionValues,
			       unsigned int numLibraryOptions)
{
	struct sim_image image;
	CUresult r = sim_ready();

	if (!r && (!library || !fileName))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = library_check_options(numJitOptions, jitOptions, jitOptionsValues,
					  numLibraryOptions, libraryOptions, true);
	if (!r)
		r = sim_image_read_file(fileName, &image);
	return r ? r : library_load(library, image);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	struct sim_library **at, *l;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	for (at = &all; *at && *at != (struct sim_library *)library; at = &(*at)->next)
		;
	l = *at;
	if (l) {
		*at = l->next;
		library_end_modules(l);
		sim_functions_end(&l->kernels);
	} else {
		r = CUDA_ERROR_INVALID_HANDLE;
	}
	sim_unlock();
	free(l);
	return r;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
	struct sim_context *ctx;
	struct sim_library *l;
	struct sim_module *m;
	CUresult r = sim_context_current(&ctx);

	if (r)
		return r;
	sim_lock();
	l = library_find(library);
	r = l && pMod ? library_module_in(l, ctx, &m) : CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	if (!r)
		*pMod = (CUmodule)m;
	return r;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
	struct sim_function *k = NULL;
	struct sim_library *l;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!pKernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	l = library_find(library);
	if (l) {
		k = sim_function_named(&l->kernels, name, SIM_KERNEL_MAGIC);
		if (k)
			k->library = l;
	}
	sim_unlock();
	if (!k)
		return l ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_HANDLE;
	*pKernel = (CUkernel)k;
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib)
{
	struct sim_library *l;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	l = library_find(lib);
	if (l && count) {
		*count = 0;
		for (struct sim_function *k = l->kernels; k; k = k->next)
			++*count;
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return r;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary lib)
{
	struct sim_library *l;
	unsigned int n = 0;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	l = library_find(lib);
	if (l && kernels)
		for (struct sim_function *k = l->kernels; k && n < numKernels; k = k->next)
			kernels[n++] = (CUkernel)k;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
	struct sim_function *k = (struct sim_function *)kernel, *f;
	CUresult r = sim_ready();

	if (!r && !pFunc)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r && (!k || k->magic != SIM_KERNEL_MAGIC))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		r = sim_function_find(k, &f);
	if (!r)
		*pFunc = (CUfunction)f;
	return r;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
	struct sim_function *k = (struct sim_function *)kernel;
	CUresult r = sim_ready();

	if (!r && (!pLib || !k || k->magic != SIM_KERNEL_MAGIC))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		*pLib = (CUlibrary)k->library;
	return r;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	struct sim_function *k = (struct sim_function *)kernel;
	CUresult r = sim_ready();

	if (!r && (!name || !k || k->magic != SIM_KERNEL_MAGIC))
		r = CUDA_ERROR_INVALID_HANDLE;
	if (!r)
		*name = k->name;
	return r;
}

/* Images hold no variables. */

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	CUresult r = sim_ready();

	return r ? r : name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return cuLibraryGetGlobal(dptr, bytes, library, name);
}

CUresult cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
	return cuLibraryGetGlobal(NULL, NULL, library, symbol);
}
