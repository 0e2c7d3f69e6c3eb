/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that looks functions up for itself: RTLD_NEXT and RTLD_DEFAULT are about its own
 * place. With LINKED it also links against the driver.
 */
#include <dlfcn.h>

void *client_next(const char *name);
void *client_default(const char *name);
void *client_open(const char *file);
void *client_direct(void);

/* The results go through a variable: in a tail call the caller would not be this library. */
#pragma GCC visibility push(default)
void *client_next(const char *name)
{
	void *volatile p = dlsym(RTLD_NEXT, name);

	return p;
}

void *client_default(const char *name)
{
	void *volatile p = dlsym(RTLD_DEFAULT, name);

	return p;
}

void *client_open(const char *file)
{
	void *volatile p = dlopen(file, RTLD_NOW);

	return p;
}

#ifdef LINKED
int cuInit(unsigned int flags);

void *client_direct(void)
{
	return (void *)cuInit;
}
#endif

#ifdef DEFINES_CUINIT
/* Another library that stands in front of the driver. */
int cuInit(unsigned int flags);
int cuInit(unsigned int flags)
{
	int (*real)(unsigned int) = (int (*)(unsigned int))dlsym(RTLD_NEXT, "cuInit");

	return real ? real(flags) : -1;
}
#endif
#pragma GCC visibility pop
