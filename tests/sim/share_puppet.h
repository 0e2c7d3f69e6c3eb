/* SPDX-License-Identifier: Apache-2.0 */
/* A program that does what a test tells it to, one call at a time, and says what came of it. */
#ifndef ALLOT_TESTS_SHARE_PUPPET_H
#define ALLOT_TESTS_SHARE_PUPPET_H

#include <stdint.h>

#define PUPPET_FD 3
#define PUPPET_PIDS 16

enum puppet_op {
	DO_INIT,    /* cuInit: a devices */
	DO_CONTEXT, /* retains the primary context of `device` */
	DO_RELEASE_CONTEXT,
	DO_MAKE,   /* memory of `kind`, `bytes` long: answers its slot in a */
	DO_EXPORT, /* of `slot`, at `bytes` inside where that can be: blob, descriptor */
	DO_IMPORT, /* by `kind`, from blob and descriptor, mapped: slot in a */
	DO_FREE,   /* whatever `slot` is */
	DO_LET_GO, /* of the external import, or the pool's pointer, alone; DO_FREE then frees the rest */
	DO_INFO,   /* cuMemGetInfo: a free, b total; by the 32-bit form c, d */
	DO_TOTAL,  /* cuDeviceTotalMem of `device`: a; by the 32-bit form b */
	DO_UUID,   /* of `device`: blob */
	DO_NVML,   /* nvmlInit_v2: a devices */
	DO_MEMORY, /* NVML's of the device with UUID blob: a total, b free, c used; blob: v2's */
	DO_PIDS,   /* NVML's compute processes of that device: a how many, b own bytes; pids */
	DO_START,  /* a thread that launches and waits for a kernel; answers at once */
	DO_DONE,   /* a: how many of these are done */
	DO_END,
};

enum puppet_kind { PLAIN, HANDLE, EXTERNAL, EXTERNAL_ARRAY, POOLED, MANAGED };

struct puppet_ask {
	int32_t op, kind, device, slot;
	uint64_t bytes;
	unsigned char blob[64];
};

struct puppet_answer {
	int32_t result; /* CUresult or nvmlReturn_t */
	int32_t pid[PUPPET_PIDS];
	uint64_t a, b, c, d;
	unsigned char blob[64];
};

#endif
