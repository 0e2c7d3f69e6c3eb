/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that programs look up again and again: what is measured of that, and that none is taken
 * for loaded once its code or its context may have gone. Before a driver that the test plays.
 */
#include "guest/core/hooks.h"
#include "guest/memory/memory.h"
#include "tests/unit/guest_fixture.h"

#define QUOTA	   (64 * MIB) /* so that each measurement looks whether it is kept */
#define KERNEL(n)  ((CUkernel)(uintptr_t)(0x10000 + 16 * (n)))
#define FUNCTION   ((CUfunction)(uintptr_t)0x4000)
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 + (n)))
#define MODULE(n)  ((CUmodule)(uintptr_t)(0x2000 + (n)))
#define LIBRARY	   ((CUlibrary)(uintptr_t)0x3000)
#define KERNELS	   500 /* of a program: training in PyTorch has fewer */

static struct guest guest;
static struct guest_page page;

/* --- The driver ------------------------------------------------------------------------------ */

static unsigned int measured, looked_up;
static CUcontext current = CONTEXT(0);
static CUresult error;

static CUresult driver_free(size_t *ret_free, size_t *ret_total)
{
	measured++;
	*ret_free = *ret_total = 24 * GIB;
	return CUDA_SUCCESS;
}

static CUresult driver_device(CUdevice *ret)
{
	*ret = 0;
	return CUDA_SUCCESS;
}

static CUresult driver_context(CUcontext *ret)
{
	*ret = current;
	return CUDA_SUCCESS;
}

static CUresult driver_look_up(CUfunction *ret)
{
	looked_up++;
	*ret = FUNCTION;
	return error;
}

static CUresult driver_kernel(CUfunction *ret, CUkernel kernel)
{
	return driver_look_up(ret);
}

static CUresult driver_function(CUfunction *ret, CUmodule module, const char *name)
{
	return driver_look_up(ret);
}

static CUresult driver_load(CUfunction function)
{
	looked_up++;
	return error;
}

static CUresult driver_unload(CUlibrary library)
{
	return CUDA_SUCCESS;
}

static CUresult driver_reset(CUdevice device)
{
	return CUDA_SUCCESS;
}

static struct fixture_symbol exported[] = {
	{"cuMemGetInfo_v2", (void *)driver_free},
	{"cuCtxGetDevice", (void *)driver_device},
	{"cuCtxGetCurrent", (void *)driver_context},
	{"cuKernelGetFunction", (void *)driver_kernel},
	{"cuModuleGetFunction", (void *)driver_function},
	{"cuFuncLoad", (void *)driver_load},
	{"cuLibraryUnload", (void *)driver_unload},
	{"cuModuleUnload", (void *)driver_unload},
	{"cuGreenCtxDestroy", (void *)driver_unload},
	{"cuCtxDestroy_v2", (void *)driver_unload},
	{"cuDevicePrimaryCtxReset_v2", (void *)driver_reset},
	{NULL, NULL},
};

/* --- The guest ------------------------------------------------------------------------------- */

static void begin(void)
{
	cuda_driver_bind(exported, fixture_symbol);
	fixture_guest(&guest, "module", QUOTA);
	atomic_store(&page.guest, &guest);
	atomic_store(&guest_page, &page);
}

/* Each of them asks the driver; whether anything was measured for it, too. */
static bool measures(CUresult e, unsigned int before)
{
	bool did = measured != before;

	CHECK_EQ(e, error);
	CHECK_EQ(looked_up, 1);
	looked_up = 0;
	return did;
}

static bool kernel(int n)
{
	unsigned int before = measured;
	CUfunction f = NULL;
	CUresult e = hook_cuKernelGetFunction(&f, KERNEL(n));

	CHECK(f == FUNCTION);
	return measures(e, before);
}

static bool function(int module, const char *name)
{
	unsigned int before = measured;
	CUfunction f = NULL;
	CUresult e = hook_cuModuleGetFunction(&f, MODULE(module), name);

	CHECK(f == FUNCTION);
	return measures(e, before);
}

static bool load(void)
{
	unsigned int before = measured;

	return measures(hook_cuFuncLoad(FUNCTION), before);
}

static void check_once(void)
{
	CHECK(kernel(1));
	CHECK(!kernel(1));
	CHECK(kernel(2));
	CHECK(!kernel(1) && !kernel(2));
	CHECK(function(0, "one"));
	CHECK(function(0, "two"));
	CHECK(function(1, "one"));
	CHECK(!function(0, "one") && !function(0, "two") && !function(1, "one"));
	CHECK(load());
	CHECK(!load());
}

/* What was refused was not loaded. */
static void check_error(void)
{
	error = CUDA_ERROR_INVALID_HANDLE;
	CHECK(kernel(3));
	CHECK(function(0, NULL));
	error = CUDA_SUCCESS;
	CHECK(kernel(3));
	CHECK(!kernel(3));
}

/* In each context by itself; and handles come again. */
static void check_gone(void)
{
	current = CONTEXT(1);
	CHECK(kernel(1));
	current = CONTEXT(0);
	CHECK(!kernel(1));
	CHECK_EQ(hook_cuLibraryUnload(LIBRARY), CUDA_SUCCESS);
	CHECK(kernel(1) && !kernel(1));
	CHECK_EQ(hook_cuModuleUnload(MODULE(0)), CUDA_SUCCESS);
	CHECK(function(0, "one") && !function(0, "one"));
	memory_forget_context(&guest, CONTEXT(1));
	current = CONTEXT(1);
	CHECK(kernel(1) && !kernel(1));
	CHECK_EQ(hook_cuGreenCtxDestroy((CUgreenCtx)0x5000), CUDA_SUCCESS);
	CHECK(kernel(1) && !kernel(1));
	/* And those that were made by calls that passed us by. */
	CHECK_EQ(hook_cuCtxDestroy_v2(CONTEXT(1)), CUDA_SUCCESS);
	CHECK(kernel(1) && !kernel(1));
	CHECK_EQ(hook_cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
	CHECK(kernel(1) && !kernel(1));
}

/* So many have room beside each other, but for some that are measured once more now and then. */
static void check_many(void)
{
	int again = 0;

	for (int n = 0; n < KERNELS; n++)
		kernel(n);
	for (int n = 0; n < KERNELS; n++)
		again += kernel(n);
	CHECK(again < KERNELS / 10);
}

int main(void)
{
	begin();
	check_once();
	check_error();
	check_gone();
	check_many();
	return 0;
}
