/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures on request: ALLOT_SIM_AMD_FAIL=NAME:ERRNO[:AFTER], like MAP_MEMORY_TO_GPU:EIO:4. Mapping
 * and unmapping fail after that many GPUs of a call, other ioctls after that many calls.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/parse.h"
#include "sim/kfd/emu.h"

#define ERRNO_MOST 133

static struct {
	int nr; /* 0: nothing fails; -1: nobody understands what is asked for */
	int err;
	uint64_t after;
} fail;

static int find_ioctl(const char *name)
{
	for (int nr = 0; nr < 256; nr++) {
		const struct kfd_ioctl *row = kfd_ioctl_find(_IO(AMDKFD_IOCTL_BASE, nr));

		if (row && !strcmp(row->name, name))
			return nr;
	}
	return -1;
}

static int find_errno(const char *name)
{
	for (int err = 1; err <= ERRNO_MOST; err++) {
		const char *known = strerrorname_np(err);

		if (known && !strcmp(known, name))
			return err;
	}
	return -1;
}

static void read_once(void)
{
	const char *asked = getenv("ALLOT_SIM_AMD_FAIL");
	char text[128], *rest = text, *name, *err, *after;

	if (!asked || !*asked)
		return;
	snprintf(text, sizeof(text), "%s", asked);
	name = strsep(&rest, ":");
	err = strsep(&rest, ":");
	after = rest;
	fail.nr = find_ioctl(name);
	fail.err = err ? find_errno(err) : -1;
	if (fail.nr < 0 || fail.err < 0 ||
	    (after && parse_u64(after, 0, UINT32_MAX, &fail.after) < 0)) {
		fprintf(stderr,
			"allot sim: ALLOT_SIM_AMD_FAIL=%s is malformed; a right one is "
			"ALLOT_SIM_AMD_FAIL=MAP_MEMORY_TO_GPU:EIO:4\n",
			asked);
		fail.nr = -1;
	}
}

int emu_fail(unsigned int nr, uint64_t done)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_once);
	if (fail.nr < 0) /* a test that asks for what is not there must not go on without it */
		return -EINVAL;
	return fail.nr && (unsigned int)fail.nr == nr && done >= fail.after ? -fail.err : 0;
}
