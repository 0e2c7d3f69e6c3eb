/* SPDX-License-Identifier: Apache-2.0 */
/* The C library's own dlsym and friends, whoever else defines functions of these names. */
#ifndef ALLOT_GUEST_PROCESS_LOOKUP_LIBC_H
#define ALLOT_GUEST_PROCESS_LOOKUP_LIBC_H

#include <dlfcn.h>

/* liballot calls these: the plain names are its exports. */
struct lookup_libc {
	void *(*dlsym)(void *handle, const char *name);
	void *(*dlvsym)(void *handle, const char *name, const char *version);
	void *(*dlmopen)(Lmid_t space, const char *file, int mode);
	void *(*dlopen)(const char *file, int mode);
};

struct lookup_libc lookup_libc(void);

/*
 * A function of the C library in whichever of its files it is (libc.so.6, and before glibc 2.34
 * libdl and libpthread), or what a program has put before it. NULL where none that is loaded has
 * it. Takes no lock and no memory.
 */
void *lookup_libc_symbol(const char *name);

#endif
