/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families_fill <way> <family> <driver's path> <versioned driver's path>: takes a way to the
 * driver's functions, then fills the device by them. LINKED: built against the driver.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "families_fill.h"
#include "families_guest.h"
#include "sim/cuda/api.h"
#include "tests/check.h"

static const struct {
	const char *name;
	void **member;
} members[] = {
#define CUDA_HOOK(name, kind, params, args) {#name, (void **)&cu.name},
#define CUDA_CALL(name, kind, params, args) {#name, (void **)&cu.name},
#include "nvidia/cuda_api.def"
};
#define MEMBERS (sizeof(members) / sizeof(members[0]))

/* How cuGetProcAddress is asked for an exported symbol. */
enum streams { ANY, PER_THREAD };
static const struct {
	const char *symbol, *name;
	int version;
	enum streams streams;
} forms[] = {
#define CUDA_VERSION_ROW(symbol, name, version, streams) {#symbol, #name, version, streams},
#include "sim/cuda/versions.def"
};

static void by_handle(void *handle)
{
	for (size_t i = 0; i < MEMBERS; i++)
		*members[i].member = dlsym(handle, members[i].name);
}

static void by_version(void *handle)
{
	CHECK(handle);
	for (size_t i = 0; i < MEMBERS; i++)
		*members[i].member = dlvsym(handle, members[i].name, "DRIVER_2");
}

#ifdef LINKED
static void by_link(void)
{
#define CUDA_HOOK(name, kind, params, args) cu.name = name;
#define CUDA_CALL(name, kind, params, args) cu.name = name;
#include "nvidia/cuda_api.def"
}
#endif

static void **member_of(const char *symbol)
{
	for (size_t i = 0; i < MEMBERS; i++)
		if (!strcmp(members[i].name, symbol))
			return members[i].member;
	return NULL;
}

/* Per-thread forms came with 7.0; asked for those, the driver has nothing older. */
static int version_of(size_t form, cuuint64_t flags)
{
	if (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM && forms[form].version < 7000)
		for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
			if (forms[i].streams == PER_THREAD &&
			    !strcmp(forms[i].name, forms[form].name))
				return 7000;
	return forms[form].version;
}

/* As the runtime does: cuGetProcAddress is looked up, everything else asked of it. */
static void by_proc(int generation, cuuint64_t extra)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	CUdriverProcAddressQueryResult status;

	CHECK(driver);
	*(void **)&cu.cuGetProcAddress = dlsym(driver, "cuGetProcAddress");
	*(void **)&cu.cuGetProcAddress_v2 = dlsym(driver, "cuGetProcAddress_v2");
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		cuuint64_t flags = forms[i].streams == PER_THREAD ?
					   CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM :
					   extra;
		void **member = member_of(forms[i].symbol);

		if (!member || !strncmp(forms[i].symbol, "cuGetProcAddress", 16))
			continue;
		if (generation == 1)
			cu.cuGetProcAddress(forms[i].name, member, version_of(i, flags), flags);
		else
			cu.cuGetProcAddress_v2(forms[i].name, member, version_of(i, flags), flags,
					       &status);
	}
}

static void *in_thread(void *family)
{
	by_handle(dlopen("libcuda.so.1", RTLD_NOW));
	return (void *)(intptr_t)fill_family(family);
}

/* A child of a process that has used the library, but whose driver was not initialised. */
static int in_child(const char *family)
{
	CUcontext ctx;
	int status;
	pid_t pid;

	by_handle(dlopen("libcuda.so.1", RTLD_NOW));
	CHECK_EQ(cu.cuDevicePrimaryCtxRetain(&ctx, 0), CUDA_ERROR_NOT_INITIALIZED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid)
		exit(fill_family(family));
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

__attribute__((constructor)) static void in_constructor(int argc, char **argv)
{
	if (argc < 3 || strcmp(argv[1], "constructor"))
		return;
	by_handle(dlopen("libcuda.so.1", RTLD_NOW));
	_exit(fill_family(argv[2]));
}

int main(int argc, char **argv)
{
	const char *way = argc > 4 ? argv[1] : "";

	if (!strcmp(way, "soname")) {
		by_handle(dlopen("libcuda.so.1", RTLD_NOW));
	} else if (!strcmp(way, "path")) {
		by_handle(dlopen(argv[3], RTLD_NOW | RTLD_LOCAL));
	} else if (!strcmp(way, "version")) {
		by_version(dlopen(argv[4], RTLD_NOW));
	} else if (!strcmp(way, "default")) {
		CHECK(dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL));
		by_handle(RTLD_DEFAULT);
	} else if (!strcmp(way, "namespace")) {
		void *handle = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);

		CHECK(handle);
		by_handle(handle);
	} else if (!strcmp(way, "proc-1")) {
		by_proc(1, 0);
	} else if (!strcmp(way, "proc-2")) {
		by_proc(2, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
	} else if (!strcmp(way, "proc-thread")) {
		by_proc(2, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#ifdef LINKED
	} else if (!strcmp(way, "link")) {
		by_link();
	} else if (!strcmp(way, "next")) {
		by_handle(RTLD_NEXT);
#endif
	} else if (!strcmp(way, "child")) {
		return in_child(argv[2]);
	} else if (!strcmp(way, "thread")) {
		pthread_t thread;
		void *status;

		CHECK_EQ(pthread_create(&thread, NULL, in_thread, argv[2]), 0);
		CHECK_EQ(pthread_join(thread, &status), 0);
		return (int)(intptr_t)status;
	} else {
		fprintf(stderr,
			"usage: families_fill <way> <family> <driver> <versioned driver>\n");
		return 2;
	}
	return fill_family(argv[2]);
}
