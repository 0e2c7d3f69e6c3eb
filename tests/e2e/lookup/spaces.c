/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlmopen: the driver in a new namespace is the one driver of the process; a library in a new
 * namespace that is linked against the driver meets the hooks there. Arguments: the library.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "owner.h"
#include "tests/check.h"

static Lmid_t space_of(void *handle)
{
	Lmid_t id;

	CHECK_EQ(dlinfo(handle, RTLD_DI_LMID, &id), 0);
	return id;
}

static void *call(void *handle, const char *function, const char *argument)
{
	void *(*f)(const char *) = (void *(*)(const char *))dlsym(handle, function);

	CHECK(f);
	return f(argument);
}

int main(int argc, char **argv)
{
	const char *client = argc > 1 ? argv[1] : "";
	void *driver, *one, *two, *inner, *p;

	driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
	CHECK(driver && space_of(driver) == LM_ID_BASE);
	CHECK(driver == dlopen("libcuda.so.1", RTLD_NOW));
	CHECK_OWNER("liballot.so", "cuMemAlloc_v2", dlsym(driver, "cuMemAlloc_v2"));

	one = dlmopen(LM_ID_NEWLM, client, RTLD_NOW);
	two = dlmopen(LM_ID_NEWLM, client, RTLD_NOW | RTLD_LOCAL);
	CHECK(one && two && one != two);
	CHECK(space_of(one) != LM_ID_BASE && space_of(two) != LM_ID_BASE);
	CHECK(space_of(one) != space_of(two));
	/* Its own link to the driver, and what it looks up, are hooked; others are as before. */
	CHECK_OWNER("liballot.so", "cuInit", call(one, "client_direct", NULL));
	CHECK_OWNER("liballot.so", "cuMemAlloc_v2", call(one, "client_default", "cuMemAlloc_v2"));
	CHECK_OWNER("liballot.so", "cuMemAlloc_v2", call(one, "client_next", "cuMemAlloc_v2"));
	CHECK_OWNER("libcuda.so", "cuCtxGetDevice", call(one, "client_next", "cuCtxGetDevice"));
	p = call(one, "client_direct", NULL);
	CHECK(p != call(two, "client_direct", NULL));
	/* That namespace's driver, asked for from outside, by the library's handle or its own. */
	CHECK(dlsym(one, "cuInit") == p);
	CHECK_OWNER("libcuda.so", "cuCtxGetDevice", dlsym(one, "cuCtxGetDevice"));
	inner = call(one, "client_open", "libcuda.so.1");
	CHECK(inner && inner != driver && space_of(inner) == space_of(one));
	CHECK(dlsym(inner, "cuInit") == p);
	CHECK(dlsym(driver, "cuInit") != p);
	CHECK(dlmopen(space_of(one), "libcuda.so.1", RTLD_NOW) == driver);
	dlclose(inner);
	dlclose(one);
	dlclose(two);

	/* glibc has 16 namespaces: neither use nor failure may wear them out. */
	for (int i = 0; i < 40; i++) {
		CHECK(!dlmopen(LM_ID_NEWLM, "libnosuch.so.1", RTLD_NOW));
		CHECK(strstr(dlerror(), "libnosuch.so.1"));
		one = dlmopen(LM_ID_NEWLM, client, RTLD_NOW);
		CHECK(one);
		CHECK_EQ(dlclose(one), 0);
	}
	CHECK(!dlmopen(LM_ID_NEWLM, client, RTLD_NOW | RTLD_GLOBAL) && dlerror());
	/* Without a path: along the program's own RUNPATH, which is not liballot's. */
	one = dlmopen(LM_ID_NEWLM, "liblookup_by_runpath.so", RTLD_NOW);
	CHECK(one && space_of(one) != LM_ID_BASE);
	CHECK_OWNER("liballot.so", "cuInit", call(one, "client_direct", NULL));
	CHECK(dlmopen(LM_ID_BASE, client, RTLD_NOW));
	return 0;
}
