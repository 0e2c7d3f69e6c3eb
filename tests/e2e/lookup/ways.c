/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to a driver function, from main, a constructor, a thread, a forked child and a child
 * that was executed: each ends at the hook, which is proven by whose function the pointer is.
 * First argument: whose it should be, so that a run without liballot proves that the test sees a
 * difference. Second: the driver's absolute path. LINKED: the program links against the driver.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nvidia/cuda_api.h"
#include "nvidia/nvml_api.h"
#include "owner.h"
#include "tests/check.h"

static const char *expected, *driver_path;

#define DRIVER "libcuda.so"

static const char *expected_owner(int row)
{
	return cuda_rows[row].decision == CUDA_DECISION_HOOK ? expected : DRIVER;
}

static void every_row(void *handle)
{
	CHECK(handle);
	for (int i = 0; i < CUDA_FN_N; i++)
		CHECK_OWNER(expected_owner(i), cuda_rows[i].name,
			    dlsym(handle, cuda_rows[i].name));
	CHECK(!dlsym(handle, "cuNoSuchFunction"));
	CHECK(strstr(dlerror(), "cuNoSuchFunction"));
	CHECK(!dlerror());
}

typedef CUresult get_v1(const char *, void **, int, cuuint64_t);
typedef CUresult get_v2(const char *, void **, int, cuuint64_t,
			CUdriverProcAddressQueryResult *);

/* Whichever of its symbols the driver picks for a name, it is that one's hook. */
static void right_one(const char *asked, void *found)
{
	Dl_info info;
	int row;

	CHECK(found && dladdr(found, &info) && info.dli_sname);
	CHECK(!strncmp(info.dli_sname, asked, strlen(asked)));
	row = cuda_find(info.dli_sname);
	CHECK(row >= 0);
	CHECK_OWNER(expected_owner(row), cuda_rows[row].name, found);
}

/* As the static runtime does: one name by dlsym, the rest through it. */
static void runtime_like(void *handle)
{
	get_v2 *get = (get_v2 *)dlsym(handle, "cuGetProcAddress_v2");
	get_v1 *old = (get_v1 *)dlsym(handle, "cuGetProcAddress");
	CUdriverProcAddressQueryResult status;
	void *p = NULL;

	CHECK_EQ(get("cuGetProcAddress", &p, 13000, 0, &status), CUDA_SUCCESS);
	right_one("cuGetProcAddress", p);
	for (int i = 0; i < CUDA_FN_N; i++)
		for (cuuint64_t flags = 0; flags <= 2; flags++) {
			if (!get(cuda_rows[i].name, &p, 13000, flags, &status) && p)
				right_one(cuda_rows[i].name, p);
			if (!old(cuda_rows[i].name, &p, 13000, flags) && p)
				right_one(cuda_rows[i].name, p);
		}
	CHECK_EQ(get("cuMemAlloc", &p, 13000, 0, NULL), CUDA_SUCCESS);
	/* Drivers differ in how they say it: by the answer, by the status, or both. */
	CHECK(get("cuNoSuchFunction", &p, 13000, 0, &status) == CUDA_ERROR_NOT_FOUND ||
	      status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	CHECK(!p);
}

/* dlopen by soname and by absolute path. */
static void by_handle(void)
{
	void *soname = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	void *path = dlopen(driver_path, RTLD_NOW | RTLD_LOCAL);
	void *ml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	every_row(soname);
	CHECK(path == soname);
	every_row(path);
	runtime_like(soname);
	CHECK(ml);
	for (int i = 0; i < NVML_FN_N; i++) {
		bool hooked = nvml_rows[i].decision == NVML_DECISION_HOOK;

		CHECK_OWNER(hooked && strcmp(expected, DRIVER) ? expected : "libnvidia-ml.so",
			    nvml_rows[i].name, dlsym(ml, nvml_rows[i].name));
	}
}

#ifndef LINKED
static void must_be_absent(void *found, const char *name)
{
	CHECK(!found);
	CHECK(strstr(dlerror(), name));
	CHECK(!dlerror());
}
#endif

/* The searches that start from the program: what it is linked with, or nothing at all. */
static void by_scope(void)
{
	void *program = dlopen(NULL, RTLD_NOW);

#ifdef LINKED
	extern CUresult cuInit(unsigned int flags);
	extern CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize);

	CHECK_OWNER(expected, "cuInit", (void *)cuInit);
	CHECK_OWNER(expected, "cuMemAlloc_v2", (void *)cuMemAlloc_v2);
	CHECK_OWNER(expected, "cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
	CHECK_OWNER(expected, "cuInit", dlsym(RTLD_NEXT, "cuInit"));
	CHECK_OWNER(expected, "cuInit", dlsym(program, "cuInit"));
	CHECK_OWNER(DRIVER, "cuCtxGetDevice", dlsym(RTLD_DEFAULT, "cuCtxGetDevice"));
	CHECK_OWNER(DRIVER, "cuCtxGetDevice", dlsym(RTLD_NEXT, "cuCtxGetDevice"));
#else
	must_be_absent(dlsym(RTLD_DEFAULT, "cuInit"), "cuInit");
	must_be_absent(dlsym(RTLD_NEXT, "cuInit"), "cuInit");
	must_be_absent(dlsym(program, "cuInit"), "cuInit");
	must_be_absent(dlsym(program, "nvmlDeviceGetMemoryInfo"), "nvmlDeviceGetMemoryInfo");
#endif
	CHECK(dlsym(program, "malloc"));
	CHECK(!dlerror());
}

static void *in_thread(void *arg)
{
	by_scope();
	by_handle();
	by_scope();
	return arg;
}

static void in_child(char **argv)
{
	int status;
	pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		in_thread(NULL);
		if (argv)
			execv("/proc/self/exe", argv);
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	CHECK_EQ(status, 0);
}

/* Constructors are given the arguments too. */
__attribute__((constructor)) static void in_constructor(int argc, char **argv)
{
	if (argc < 3)
		exit(2);
	expected = argv[1];
	driver_path = argv[2];
	by_scope();
	if (argc > 3)
		by_handle();
}

int main(int argc, char **argv)
{
	char *again[] = {argv[0], argv[1], argv[2], (char *)"again", NULL};
	void *program = dlopen(NULL, RTLD_NOW);
	pthread_t thread;

	if (argc > 3)
		return 0;
	in_child(NULL);
	CHECK_EQ(pthread_create(&thread, NULL, in_thread, NULL), 0);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	in_thread(NULL);
	in_child(again);
	/* Asked for by others: now the searches see it. */
	CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
	CHECK_OWNER(expected, "cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
	CHECK_OWNER(expected, "cuInit", dlsym(RTLD_NEXT, "cuInit"));
	CHECK_OWNER(expected, "cuInit", dlsym(program, "cuInit"));
	CHECK(!dlerror());
	return 0;
}
