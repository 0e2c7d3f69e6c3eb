/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of streams share: a simulator of their own, a context, kernels by name. */
#ifndef ALLOT_TESTS_SIM_EXEC_H
#define ALLOT_TESTS_SIM_EXEC_H

#include <ftw.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sim/cuda/api.h"
#include "tests/check.h"

#define OK(call) CHECK_EQ(call, CUDA_SUCCESS)

static char exec_dir[] = "/dev/shm/allot-test-XXXXXX";
static pid_t exec_dir_owner;

static inline int exec_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void exec_done(void)
{
	if (getpid() == exec_dir_owner)
		nftw(exec_dir, exec_remove, 8, FTW_DEPTH | FTW_PHYS);
}

/* Before the first fork: children share the devices. */
static inline void exec_init(void)
{
	CHECK(mkdtemp(exec_dir));
	exec_dir_owner = getpid();
	atexit(exec_done);
	setenv("ALLOT_SIM_DIR", exec_dir, 1);
}

static inline CUcontext exec_context(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline CUfunction exec_function(const char *name)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, "allot-sim-module\n"));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline CUresult exec_launch(CUfunction function, CUstream stream, void **params)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

static inline CUresult exec_spin(CUstream stream, uint64_t us)
{
	static CUfunction spin;

	if (!spin)
		spin = exec_function("sim_spin");
	return exec_launch(spin, stream, (void *[]){&us});
}

static inline double exec_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline void exec_sleep_ms(unsigned int ms)
{
	usleep(ms * 1000);
}

#endif
