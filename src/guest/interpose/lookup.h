/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every way to a driver function by name (dlsym, dlvsym, cuGetProcAddress): the caller is given the
 * hook if, and only if, the answer without us would have been the very function that is hooked. The
 * answer is compared by address, never guessed from the name, so versions, flags and unknown names
 * stay the driver's own business. Nothing here runs before it is called.
 *
 * Between lookup_<machine>.S and the C halves of dlsym, dlvsym, dlmopen and dlopen. The exported
 * functions are written in assembly because glibc reads its caller's return address: RTLD_NEXT and
 * the caller's RUNPATH depend on it. The C half either answers, or names the function to jump to
 * with the caller's own frame.
 */
#ifndef ALLOT_GUEST_INTERPOSE_LOOKUP_H
#define ALLOT_GUEST_INTERPOSE_LOOKUP_H

#include <dlfcn.h>
#include <stdbool.h>

/* Returned in two registers on every machine we have an assembly half for. */
struct lookup_answer {
	void *value;
	void *jump; /* not NULL: jump there with the arguments as they are in memory now */
};

struct lookup_dlsym_args {
	void *handle;
	const char *name;
	const char *version; /* dlvsym only */
};

struct lookup_dlmopen_args {
	Lmid_t namespace;
	const char *file;
	long mode;
};

struct lookup_dlopen_args {
	const char *file;
	long mode;
};

struct lookup_answer lookup_dlsym(struct lookup_dlsym_args *args, void *caller);
struct lookup_answer lookup_dlvsym(struct lookup_dlsym_args *args, void *caller);
struct lookup_answer lookup_dlmopen(struct lookup_dlmopen_args *args, void *caller);
struct lookup_answer lookup_dlopen(struct lookup_dlopen_args *args, void *caller);

/* Is a file, by its name, one of the libraries whose functions are hooked? */
bool lookup_is_driver(const char *file);

#endif
