/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of the C library that lead to AMD's driver are hooked also for who asks the C library
 * for them; others of it, and what is looked for along the search order, are as with any preloaded
 * library. Argument: whose the hooked ones should be.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "owner.h"
#include "tests/check.h"

static const char *const hooked[] = {
#define LIBC_HOOK(name, type, params) #name,
#include "guest/process/libc_api.def"
};

/* By the file alone: the C library has several names for a function. */
static int owned(const char *file, void *function)
{
	return !strncmp(owner_file(function), file, strlen(file));
}

int main(int argc, char **argv)
{
	const char *expected = argc > 1 ? argv[1] : "";
	void *libc = dlopen("libc.so.6", RTLD_NOW), *program = dlopen(NULL, RTLD_NOW);

	CHECK(libc && program);
	for (size_t i = 0; i < sizeof(hooked) / sizeof(hooked[0]); i++) {
		CHECK(owned(expected, dlsym(libc, hooked[i])));
		CHECK(owned(expected, dlsym(program, hooked[i])));
		CHECK(owned(expected, dlsym(RTLD_DEFAULT, hooked[i])));
		CHECK(owned(expected, dlsym(RTLD_NEXT, hooked[i])));
		CHECK(!dlvsym(libc, hooked[i], "GLIBC_9.9") && dlerror());
	}
	CHECK(owned("libc.so", dlsym(libc, "read")));
	CHECK(owned("libc.so", dlsym(RTLD_DEFAULT, "read")));
	CHECK(!dlsym(libc, "open65") && dlerror());
	return 0;
}
