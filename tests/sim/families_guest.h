/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The side of the program: the driver through a table of functions that was filled by one of the
 * ways in, and the conversation with who looks from outside.
 */
#ifndef ALLOT_TESTS_FAMILIES_GUEST_H
#define ALLOT_TESTS_FAMILIES_GUEST_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "families_note.h"
#include "nvidia/cuda_api.h"
#include "tests/check.h"

extern struct cuda_driver cu;   /* a member that the way in does not lead to is NULL */
extern const char *guest_label; /* in front of complaints */
extern uint64_t guest_slack;    /* how much above the quota is in order */

const char *guest_error(CUresult e);

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
void tell(enum note_what what, int device, uint64_t a, const char *text);
/* The plain way into `cu`: dlopen by soname, dlsym. */
void guest_bind(void);
/* The primary context of a device, current; tells that nothing else is there yet. */
CUcontext guest_context(CUdevice device);

#endif
