/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways in: whoever asks for a driver function by name (dlsym, dlvsym, cuGetProcAddress) is given
 * the hook if, and only if, the answer without us would have been the very function that is hooked.
 * The answer is compared by address, never guessed from the name, so versions, flags and unknown
 * names stay the driver's own business. Nothing here runs before it is called.
 */
#ifndef ALLOT_PRELOAD_LOOKUP_H
#define ALLOT_PRELOAD_LOOKUP_H

#include <dlfcn.h>
#include <stdbool.h>

/* The C library's own functions. liballot calls these: the plain names are its exports. */
struct lookup_libc {
	void *(*dlsym)(void *handle, const char *name);
	void *(*dlvsym)(void *handle, const char *name, const char *version);
	void *(*dlmopen)(Lmid_t space, const char *file, int mode);
	void *(*dlopen)(const char *file, int mode);
};

struct lookup_libc lookup_libc(void);

/*
 * Is the driver (NVML) in this process? The first true answer fills cuda_real (nvml_real) and
 * keeps the library loaded from then on, since its addresses are handed out. One load afterwards.
 * Never loads a library that the program did not.
 */
bool lookup_cuda(void);
bool lookup_nvml(void);

#endif
