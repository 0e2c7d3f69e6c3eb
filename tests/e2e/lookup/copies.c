/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second copy of the driver, opened by its path: still no way past the hooks. Symbol versions: an
 * old version of a name is another function, and is handed out as it is; the hook stands for the
 * one that the driver exports by default.
 * Arguments: the two copies.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "owner.h"
#include "tests/check.h"

int main(int argc, char **argv)
{
	void *one, *two;

	CHECK(argc == 3);
	one = dlopen(argv[1], RTLD_NOW);
	CHECK(one);
	CHECK_OWNER("liballot.so", "cuInit", dlsym(one, "cuInit"));
	CHECK_OWNER("liballot.so", "cuInit", dlvsym(one, "cuInit", "DRIVER_2"));
	CHECK(!dlvsym(one, "cuInit", "DRIVER_3"));
	CHECK(strstr(dlerror(), "DRIVER_3"));
	CHECK(!strncmp(owner_file(dlvsym(one, "cuInit", "DRIVER_1")), "libcuda.so", 10));
	CHECK(!strncmp(owner_file(dlvsym(one, "cuOther", "DRIVER_2")), "libcuda.so", 10));

	two = dlopen(argv[2], RTLD_NOW);
	CHECK(two && two != one);
	CHECK_OWNER("liballot.so", "cuInit", dlsym(two, "cuInit"));
	CHECK_OWNER("liballot.so", "cuInit", dlvsym(two, "cuInit", "DRIVER_2"));

	CHECK(dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL));
	CHECK_OWNER("liballot.so", "cuInit", dlvsym(RTLD_DEFAULT, "cuInit", "DRIVER_2"));
	CHECK_OWNER("liballot.so", "cuInit", dlvsym(RTLD_NEXT, "cuInit", "DRIVER_2"));
	CHECK(!dlvsym(RTLD_DEFAULT, "cuInit", "DRIVER_3"));
	return 0;
}
