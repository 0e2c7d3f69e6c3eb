/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pairs [PAIRS]: what the hooks add to calls of a real driver, within one process: blocks of calls
 * by the driver's own entry points alternate with blocks by whatever dlsym answers, which is the
 * hooks when liballot is preloaded and the driver again when it is not (the noise). One line of
 * JSON: for each item the ns a call of all blocks, in order.
 *
 * Between processes, a launch differs by more than a hook costs; within one it does not.
 */
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/now.h"
#include "bench/batch.h"
#include "guest/process/lookup_elf.h"
#include "nvidia/cuda_api.h"

#define PAIRS_MAX 2000
#define SIDES	  3 /* driver, as found, driver again: the last pair is the noise */

struct calls {
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*free)(CUdeviceptr);
	CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
	CUresult (*free_async)(CUdeviceptr, CUstream);
	CUresult (*info)(size_t *, size_t *);
};

static CUfunction kernel;

static void pairs_launch(const struct calls *c)
{
	c->launch(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void pairs_alloc_free(const struct calls *c)
{
	CUdeviceptr ptr = 0;

	c->alloc(&ptr, 1 << 20);
	c->free(ptr);
}

static void pairs_alloc_free_async(const struct calls *c)
{
	CUdeviceptr ptr = 0;

	c->alloc_async(&ptr, 1 << 20, NULL);
	c->free_async(ptr, NULL);
}

static void pairs_mem_get_info(const struct calls *c)
{
	size_t free_bytes, total;

	c->info(&free_bytes, &total);
}

static const struct item {
	const char *name;
	void (*call)(const struct calls *c);
	/*
	 * In one block; the queue of launches must not run full, and the look at the driver's
	 * figure that cuMemGetInfo takes every 5 ms must not decide.
	 */
	int calls;
} items[] = {
	{"launch", pairs_launch, 500},
	{"alloc_free", pairs_alloc_free, 20},
	{"alloc_free_async", pairs_alloc_free_async, 500},
	{"mem_get_info", pairs_mem_get_info, 500},
};
#define ITEMS (sizeof(items) / sizeof(items[0]))

struct wanted {
	const char *name;
	void *found;
};

static int pairs_find_in_driver(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct wanted *wanted = arg;
	const char *slash = strrchr(info->dlpi_name, '/');
	const ElfW(Dyn) *dynamic = lookup_elf_dynamic(info);

	if (!slash || strncmp(slash, "/libcuda.so", 11) || !dynamic)
		return 0;
	wanted->found = lookup_elf_symbol(info->dlpi_addr, dynamic, wanted->name);
	return wanted->found != NULL;
}

/* From the driver's own symbol table: nobody stands in between. */
static void *pairs_driver_symbol(void *handle, const char *name)
{
	struct wanted wanted = {.name = name};

	dl_iterate_phdr(pairs_find_in_driver, &wanted);
	return wanted.found;
}

static void pairs_find(struct calls *c, void *handle, void *(*sym)(void *, const char *))
{
	*(void **)&c->launch = sym(handle, "cuLaunchKernel");
	*(void **)&c->alloc = sym(handle, "cuMemAlloc_v2");
	*(void **)&c->free = sym(handle, "cuMemFree_v2");
	*(void **)&c->alloc_async = sym(handle, "cuMemAllocAsync");
	*(void **)&c->free_async = sym(handle, "cuMemFreeAsync");
	*(void **)&c->info = sym(handle, "cuMemGetInfo_v2");
}

static double pairs_block(const struct item *item, const struct calls *c)
{
	uint64_t began = now_monotonic_ns();
	double ns;

	for (int i = 0; i < item->calls; i++)
		item->call(c);
	ns = (double)(now_monotonic_ns() - began) / item->calls;
	cuda_real.cuCtxSynchronize();
	return ns;
}

static int pairs_set_up(void *driver)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
				  ".visible .entry k()\n{\n\tret;\n}\n";
	cuuint64_t keep = UINT64_MAX;
	CUmemoryPool pool;
	CUcontext context;
	CUmodule module;

	cuda_driver_bind(driver, dlsym);
	return cuda_real.cuInit(0) || cuda_real.cuDevicePrimaryCtxRetain(&context, 0) ||
	       cuda_real.cuCtxSetCurrent(context) || cuda_real.cuModuleLoadData(&module, ptx) ||
	       cuda_real.cuModuleGetFunction(&kernel, module, "k") ||
	       cuda_real.cuDeviceGetDefaultMemPool(&pool, 0) ||
	       cuda_real.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

int main(int argc, char **argv)
{
	static double ns[ITEMS][PAIRS_MAX][SIDES];
	int pairs = batch_count(argc, argv, 200, PAIRS_MAX);
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	struct calls real, found;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(120);
	if (!driver || !pairs || pairs_set_up(driver))
		return 1;
	pairs_find(&real, driver, pairs_driver_symbol);
	pairs_find(&found, driver, dlsym);
	if (!real.launch || !found.launch)
		return 1;
	for (int p = -5; p < pairs; p++) /* the first few warm up */
		for (size_t i = 0; i < ITEMS; i++)
			for (int s = 0; s < SIDES; s++) {
				double t = pairs_block(&items[i], s == 1 ? &found : &real);

				if (p >= 0)
					ns[i][p][s] = t;
			}
	printf("{\"hooked\": %s", real.launch != found.launch ? "true" : "false");
	for (size_t i = 0; i < ITEMS; i++) {
		printf(", \"%s\": [", items[i].name);
		for (int p = 0; p < pairs; p++)
			printf("%s[%.1f, %.1f, %.1f]", p ? ", " : "", ns[i][p][0], ns[i][p][1],
			       ns[i][p][2]);
		printf("]");
	}
	printf("}\n");
	return 0;
}
