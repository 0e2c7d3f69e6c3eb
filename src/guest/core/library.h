/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vendor's libraries whose functions are hooked: whether this process has them. Nothing here
 * loads one of them that the program did not, but NVML in a tenant, see own_nvml.h.
 */
#ifndef ALLOT_GUEST_CORE_LIBRARY_H
#define ALLOT_GUEST_CORE_LIBRARY_H

#include <stdatomic.h>
#include <stdbool.h>

struct library {
	const char *soname;
	int (*find)(const char *name); /* row of a function, negative: none of that name */
	void *const *hooks;	       /* by row; NULL: not hooked */
	bool (*bound)(void);
	void (*bind)(void *handle, void *(*sym)(void *handle, const char *name));
	void *(*address)(int row);
	void (*found)(void);   /* after the first true answer; NULL: nothing is to be done */
	_Atomic(void *) handle; /* set before bound() says true; never closed */
};

extern struct library library_cuda, library_nvml;

/*
 * Is the library in this process? The first true answer fills cuda_real (nvml_real) and keeps the
 * library loaded from then on, since its addresses are handed out. One load afterwards.
 */
bool library_present(struct library *library);

#endif
