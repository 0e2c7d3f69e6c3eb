/* SPDX-License-Identifier: Apache-2.0 */
/* A process without a driver must not be told that there is one, and errors stay as they were. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check.h"

static void absent(void *found, const char *name)
{
	const char *why = dlerror();

	CHECK(!found);
	CHECK(why && strstr(why, name));
	CHECK(!dlerror());
}

int main(void)
{
	static const char *const names[] = {"cuInit", "cuGetProcAddress_v2", "cuGetProcAddress",
					    "nvmlDeviceGetMemoryInfo", "cuNoSuchFunction"};
	void *program = dlopen(NULL, RTLD_NOW);

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		absent(dlsym(RTLD_DEFAULT, names[i]), names[i]);
		absent(dlsym(RTLD_NEXT, names[i]), names[i]);
		absent(dlsym(program, names[i]), names[i]);
		absent(dlvsym(RTLD_DEFAULT, names[i], "V"), names[i]);
		absent(dlvsym(RTLD_NEXT, names[i], "V"), names[i]);
		absent(dlvsym(program, names[i], "V"), names[i]);
	}
	/* A success forgets an error that nobody asked for, as ever. */
	CHECK(!dlsym(RTLD_DEFAULT, "cuInit"));
	CHECK(dlsym(RTLD_DEFAULT, "malloc"));
	CHECK(!dlerror());
	CHECK(!dlopen("libnosuch.so.1", RTLD_NOW));
	absent(NULL, "libnosuch");
	return 0;
}
