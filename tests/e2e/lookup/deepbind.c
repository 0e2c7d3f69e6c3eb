/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is opened with RTLD_DEEPBIND binds to its own dependencies before anything that
 * was preloaded: to the driver and to the C library's dlsym. Julia opens every library so.
 * Argument: a library that is linked against the driver.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "owner.h"
#include "tests/check.h"

static void *call(void *handle, const char *function, const char *argument)
{
	void *(*f)(const char *) = (void *(*)(const char *))dlsym(handle, function);

	CHECK(f);
	return f(argument);
}

static void hooked(void *library)
{
	CHECK(library);
	CHECK_OWNER("liballot.so", "cuInit", call(library, "client_direct", NULL));
	CHECK_OWNER("liballot.so", "cuInit", call(library, "client_default", "cuInit"));
	CHECK_OWNER("liballot.so", "cuInit", call(library, "client_next", "cuInit"));
	CHECK(!dlclose(library));
}

int main(int argc, char **argv)
{
	CHECK(argc == 2);
	hooked(dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND));
	hooked(dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL | RTLD_DEEPBIND));
	hooked(dlmopen(LM_ID_BASE, argv[1], RTLD_NOW | RTLD_DEEPBIND));
	hooked(dlmopen(LM_ID_NEWLM, argv[1], RTLD_NOW | RTLD_DEEPBIND));
	CHECK(!dlopen("libnosuch.so.1", RTLD_NOW | RTLD_DEEPBIND));
	CHECK(strstr(dlerror(), "libnosuch.so.1"));
	return 0;
}
