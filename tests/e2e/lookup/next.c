/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints what RTLD_NEXT answers to the program, to libraries preloaded before and after liballot
 * and to one that was opened: next.sh compares a run with liballot with one without. "hook" stands
 * for a hooked function, whoever owns it: liballot or, without it, the driver or the C library.
 * Arguments: the library to open, then the preloaded ones.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "owner.h"
#include "tests/check.h"

static void show(const char *who, const char *name, void *p)
{
	const char *why = dlerror();
	const char *file = owner_file(p);
	Dl_info info;

	if (!p)
		printf("%s %s nothing %s\n", who, name, why && strstr(why, name) ? name : "silent");
	else if (!strcmp(file, "liballot.so") ||
		 (!strncmp(file, "libcuda.so", 10) && strcmp(name, "cuCtxGetDevice")) ||
		 (!strncmp(file, "libc.so", 7) &&
		  (!strncmp(name, "dl", 2) || !strcmp(name, "open"))))
		printf("%s %s hook %s\n", who, name, why ? why : "quiet");
	else if (dladdr(p, &info))
		printf("%s %s %s+%#lx %s\n", who, name, file,
		       (unsigned long)((char *)p - (char *)info.dli_fbase), why ? why : "quiet");
}

#ifdef LINKED
int cuInit(unsigned int flags);
int (*volatile linked)(unsigned int) = cuInit;
#endif

int main(int argc, char **argv)
{
	static const char *const names[] = {
		"malloc", "malloc", "free",   "read",   "open",		 "dlopen",	   "cuTest",
		"dlsym",  "dlvsym", "cuInit", "cuInit", "cuMemAlloc_v2", "cuCtxGetDevice",
		"no_such_name"};

	CHECK(argc > 1);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		show("main", names[i], dlsym(RTLD_NEXT, names[i]));
		show("main default", names[i], dlsym(RTLD_DEFAULT, names[i]));
		for (int k = 1; k < argc; k++) {
			void *library = dlopen(argv[k], RTLD_NOW | RTLD_LOCAL);
			void *(*f)(const char *);
			void *p;

			CHECK(library);
			f = (void *(*)(const char *))dlsym(library, "client_next");
			p = f(names[i]);
			show(argv[k], names[i], p);
			f = (void *(*)(const char *))dlsym(library, "client_default");
			p = f(names[i]);
			show(argv[k], names[i], p);
		}
	}
	show("version", "malloc", dlvsym(RTLD_NEXT, "malloc", "GLIBC_2.2.5"));
	show("version", "malloc", dlvsym(RTLD_NEXT, "malloc", "GLIBC_9.9"));
	show("version", "dlsym", dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
	show("version", "dlsym", dlvsym(RTLD_DEFAULT, "dlsym", "GLIBC_9.9"));
	return 0;
}
