/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of the program: the driver through a table of functions that was filled by one of the
 * ways in, and the conversation with who looks from outside.
 */
#ifndef ALLOT_TESTS_FAMILIES_GUEST_H
#define ALLOT_TESTS_FAMILIES_GUEST_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "families_note.h"
#include "nvidia/cuda_api.h"
#include "tests/check.h"

#ifndef ALLOT_TESTS_FAMILIES_FILL_H
static struct cuda_driver cu;
#endif
static const char *guest_label = "";
static uint64_t guest_slack; /* how much above the quota is in order */

static inline const char *guest_error(CUresult e)
{
	const char *name = NULL;

	return cu.cuGetErrorName && !cu.cuGetErrorName(e, &name) && name ? name : "?";
}

#define GIVES(want, call)                                                                      \
	do {                                                                                   \
		CUresult got_ = (call);                                                        \
		if (got_ != (want)) {                                                          \
			fprintf(stderr, "%s: %s:%d: %s: %s\n", guest_label, __FILE__, __LINE__, \
				#call, guest_error(got_));                                     \
			exit(1);                                                               \
		}                                                                              \
	} while (0)
#define OK(call) GIVES(CUDA_SUCCESS, call)

/* Says so, and goes on when all is as it should be. */
static inline void tell(enum note_what what, int device, uint64_t a, const char *text)
{
	struct note n = {.what = (int)what, .device = device, .a = a, .slack = guest_slack};
	char answer = 'n';

	snprintf(n.text, sizeof(n.text), "%s", text);
	if (send(NOTE_FD, &n, sizeof(n), MSG_NOSIGNAL) != sizeof(n) ||
	    recv(NOTE_FD, &answer, 1, 0) != 1 || answer != 'y')
		exit(1);
}

/* The plain way into `cu`: dlopen by soname, dlsym. */
static inline void guest_bind(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(driver);
#define CUDA_HOOK(name, kind, params, args) *(void **)&cu.name = dlsym(driver, #name);
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#include "nvidia/cuda_api.def"
}

static inline CUcontext guest_context(CUdevice device)
{
	CUcontext ctx;

	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, device));
	OK(cu.cuCtxSetCurrent(ctx));
	tell(NOTE_EMPTY, device, 0, "context");
	return ctx;
}

#endif
