/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/module.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "sim/cuda/pool.h"
#include "sim/cuda/stream.h"

static struct sim_module *all;
static struct sim_function *graveyard;

bool sim_module_eager(void)
{
	const char *mode = getenv("CUDA_MODULE_LOADING");

	return mode && !strcmp(mode, "EAGER");
}

/* Text of PTX begins with this; a driver that may not compile it refuses it. */
static bool module_is_refused(const char *text)
{
	const char *disabled = getenv("CUDA_DISABLE_PTX_JIT");

	return disabled && !strcmp(disabled, "1") && !strncmp(text, ".version", 8);
}

struct sim_image sim_image_read(const char *text)
{
	static const char prefix[] = "allot-sim-module bytes=";
	struct sim_image image = {0};
	char *at;

	if (strncmp(text, prefix, sizeof(prefix) - 1))
		return image;
	image.bytes = strtoull(text + sizeof(prefix) - 1, &at, 10);
	while (*at == ' ') {
		size_t len = strcspn(++at, " \n");

		image.heap |= len == 4 && !memcmp(at, "heap", len);
		image.prints |= len == 6 && !memcmp(at, "printf", len);
		at += len;
	}
	return image;
}

CUresult sim_image_read_file(const char *path, struct sim_image *ret_image)
{
	char head[64] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return CUDA_ERROR_FILE_NOT_FOUND;
	n = read(fd, head, sizeof(head) - 1);
	close(fd);
	if (n <= 0)
		return CUDA_ERROR_INVALID_IMAGE;
	*ret_image = sim_image_read(head);
	return CUDA_SUCCESS;
}

struct sim_module *sim_module_find(CUmodule handle)
{
	struct sim_module *m;

	for (m = all; m && m != (struct sim_module *)handle; m = m->next)
		;
	return m;
}

/* Another module of the context that sits in the common granule. */
static struct sim_module *module_neighbour(const struct sim_module *module)
{
	for (struct sim_module *m = all; m; m = m->next)
		if (m != module && m->ctx == module->ctx && m->loaded && !m->image.bytes)
			return m;
	return NULL;
}

CUresult sim_module_use(struct sim_module *module)
{
	struct sim_module *other = module->image.bytes ? NULL : module_neighbour(module);
	CUresult r;

	if (module->loaded)
		return CUDA_SUCCESS;
	if (other) {
		module->block = sim_block_ref(other->block);
	} else {
		r = sim_pools_block_create(module->ctx->device,
					   module->image.bytes ? module->image.bytes : SIM_GRANULE,
					   false, &module->block);
		if (r)
			return r;
	}
	module->loaded = true;
	return CUDA_SUCCESS;
}

/* The heap's limit, and 2 MiB with which the driver keeps it: as on an H200. */
static CUresult module_back_heap(struct sim_context *ctx)
{
	uint64_t bytes;

	if (__builtin_add_overflow(ctx->limit[CU_LIMIT_MALLOC_HEAP_SIZE], SIM_GRANULE, &bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return sim_pools_block_create(ctx->device, bytes, false, &ctx->heap);
}

/* A context's own size has the default of it. */
static CUresult module_back_fifo(struct sim_context *ctx)
{
	uint64_t bytes = ctx->limit[CU_LIMIT_PRINTF_FIFO_SIZE];
	CUresult r = CUDA_SUCCESS;

	if (bytes > SIM_FIFO_DEFAULT)
		r = sim_pools_block_create(ctx->device, bytes, false, &ctx->fifo);
	ctx->fifo_backed = !r;
	return r;
}

CUresult sim_module_launch(struct sim_module *module)
{
	struct sim_context *ctx = module->ctx;
	CUresult r = CUDA_SUCCESS;

	if (module->image.heap && !ctx->heap)
		r = module_back_heap(ctx);
	if (!r && module->image.prints)
		ctx->fifo_used = true;
	return r;
}

CUresult sim_module_make(struct sim_context *ctx, const struct sim_image *image,
			 struct sim_library *library, struct sim_module **ret_module)
{
	struct sim_module *m = calloc(1, sizeof(*m));
	CUresult r = CUDA_SUCCESS;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->ctx = ctx;
	m->image = *image;
	m->library = library;
	if (image->prints && !ctx->fifo_backed)
		r = module_back_fifo(ctx);
	if (!r && sim_module_eager())
		r = sim_module_use(m);
	if (r) {
		free(m);
		return r;
	}
	m->next = all;
	all = m;
	*ret_module = m;
	return CUDA_SUCCESS;
}

void sim_functions_end(struct sim_function **list)
{
	for (struct sim_function *f; (f = *list);) {
		*list = f->next;
		f->magic = 0;
		f->module = NULL;
		f->library = NULL;
		f->next = graveyard;
		graveyard = f;
	}
}

void sim_module_end(struct sim_module *module)
{
	struct sim_module **at = &all;

	while (*at != module)
		at = &(*at)->next;
	*at = module->next;
	sim_functions_end(&module->functions);
	sim_block_unref(module->block);
	free(module);
}

void sim_context_modules_gone(struct sim_context *ctx)
{
	sim_lock();
	for (struct sim_module *m = all, *next; m; m = next) {
		next = m->next;
		if (m->ctx == ctx)
			sim_module_end(m);
	}
	sim_unlock();
}

struct sim_function *sim_function_named(struct sim_function **list, const char *name,
					uint32_t magic)
{
	struct sim_function *f;

	for (f = *list; f; f = f->next)
		if (!strcmp(f->name, name))
			return f;
	f = calloc(1, sizeof(*f));
	if (!f)
		return NULL;
	f->name = strdup(name);
	if (!f->name) {
		free(f);
		return NULL;
	}
	f->magic = magic;
	f->max_dynamic_shared = 49152;
	f->next = *list;
	*list = f;
	return f;
}

CUresult sim_module_function(struct sim_module *module, const char *name,
			     struct sim_function **ret_function)
{
	struct sim_function *f;
	CUresult r = sim_module_use(module);

	if (r)
		return r;
	f = sim_function_named(&module->functions, name, SIM_FUNCTION_MAGIC);
	if (!f)
		return CUDA_ERROR_OUT_OF_MEMORY;
	f->module = module;
	*ret_function = f;
	return CUDA_SUCCESS;
}

static CUresult module_load(CUmodule *ret, struct sim_image image)
{
	struct sim_context *ctx;
	struct sim_module *m;
	CUresult r = sim_context_current(&ctx);

	if (!r)
		r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	r = sim_module_make(ctx, &image, NULL, &m);
	sim_unlock();
	if (!r)
		*ret = (CUmodule)m;
	return r;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	if (!module || !image)
		return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
	if (module_is_refused(image))
		return CUDA_ERROR_JIT_COMPILATION_DISABLED;
	return module_load(module, sim_image_read(image));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
			    CUjit_option *options, void **optionValues)
{
	if (numOptions && (!options || !optionValues))
		return sim_ready() ? CUDA_ERROR_NOT_INITIALIZED : CUDA_ERROR_INVALID_VALUE;
	return cuModuleLoadData(module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
	return cuModuleLoadData(module, fatCubin);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
	struct sim_image image;
	CUresult r = sim_ready();

	if (!r && (!module || !fname))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		r = sim_image_read_file(fname, &image);
	return r ? r : module_load(module, image);
}

CUresult cuModuleUnload(CUmodule hmod)
{
	struct sim_module *m;
	CUresult r = sim_ready();

	if (!r)
		r = capture_forbids();
	if (r)
		return r;
	sim_lock();
	m = sim_module_find(hmod);
	if (m && !m->library)
		sim_module_end(m);
	else
		r = CUDA_ERROR_INVALID_HANDLE;
	sim_unlock();
	return r;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	struct sim_function *f;
	struct sim_module *m;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	m = sim_module_find(hmod);
	if (!m)
		r = CUDA_ERROR_INVALID_HANDLE;
	else
		r = hfunc && name ? sim_module_function(m, name, &f) : CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	if (!r)
		*hfunc = (CUfunction)f;
	return r;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	bool found;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	found = sim_module_find(hmod);
	sim_unlock();
	if (!found)
		return CUDA_ERROR_INVALID_HANDLE;
	/* Images hold no variables. */
	return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult r = sim_ready();

	if (!r && !mode)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*mode = sim_module_eager() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return r;
}

static unsigned int module_count_functions(const struct sim_module *m)
{
	unsigned int n = 0;

	for (const struct sim_function *f = m->functions; f; f = f->next)
		n++;
	return n;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule mod)
{
	struct sim_module *m;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	m = sim_module_find(mod);
	if (m && count)
		*count = module_count_functions(m);
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule mod)
{
	struct sim_module *m;
	unsigned int n = 0;
	CUresult r = sim_ready();

	if (r)
		return r;
	sim_lock();
	m = sim_module_find(mod);
	if (m && functions)
		for (struct sim_function *f = m->functions; f && n < numFunctions; f = f->next)
			functions[n++] = (CUfunction)f;
	else
		r = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return r;
}
