/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures on request: ALLOT_SIM_AMD_FAIL=NAME:ERRNO[:AFTER[:TIMES]], like MAP_MEMORY_TO_GPU:EIO:4.
 * Mapping and unmapping fail after that many GPUs of a call, other ioctls after that many calls;
 * for ever, or as often as is said, so that one can be seen to be tried again. And kernels that do
 * not have everything: ALLOT_SIM_AMD_WITHOUT=NAME[,NAME...], like EXPORT_DMABUF or
 * AMDGPU_GEM_LIST_HANDLES.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/parse.h"
#include "sim/kfd/emu.h"

#define ERRNO_MOST 133

static struct {
	int nr; /* 0: nothing fails; -1: nobody understands what is asked for */
	int err;
	uint64_t after;
	uint64_t times; /* that it still fails */
} fail;

static bool lacking[512];

static const struct drm_name {
	const char *name;
	unsigned int nr;
} drm_names[] = {
#define DRM_ROW(name, decision) {#name, DRM_NR_##name},
#include "amd/drm_ioctl.def"
};
#define DRM_NAMES (sizeof(drm_names) / sizeof(drm_names[0]))

const char *emu_drm_name(unsigned int nr)
{
	for (size_t i = 0; i < DRM_NAMES; i++)
		if (drm_names[i].nr == nr)
			return drm_names[i].name;
	return "?";
}

int emu_find_ioctl(const char *name)
{
	for (int nr = 0; nr < 256; nr++) {
		const struct kfd_ioctl *row = kfd_ioctl_find(_IO(AMDKFD_IOCTL_BASE, nr));

		if (row && !strcmp(row->name, name))
			return nr;
	}
	for (size_t i = 0; i < DRM_NAMES; i++)
		if (!strcmp(drm_names[i].name, name))
			return (int)EMU_DRM(drm_names[i].nr);
	return -1;
}

static int fail_find_errno(const char *name)
{
	for (int err = 1; err <= ERRNO_MOST; err++) {
		const char *known = strerrorname_np(err);

		if (known && !strcmp(known, name))
			return err;
	}
	return -1;
}

static void fail_complain(const char *name, const char *value, const char *right)
{
	fprintf(stderr, "allot sim: %s=%s is malformed; a right one is %s=%s\n", name, value, name,
		right);
	fail.nr = -1;
}

static void fail_read_failure(void)
{
	const char *asked = getenv("ALLOT_SIM_AMD_FAIL");
	char text[128], *rest = text, *name, *err, *after;

	if (!asked || !*asked)
		return;
	snprintf(text, sizeof(text), "%s", asked);
	name = strsep(&rest, ":");
	err = strsep(&rest, ":");
	after = strsep(&rest, ":");
	fail.nr = emu_find_ioctl(name);
	fail.err = err ? fail_find_errno(err) : -1;
	fail.times = UINT64_MAX;
	if (fail.nr < 0 || fail.err < 0 ||
	    (after && parse_u64(after, 0, UINT32_MAX, &fail.after) < 0) ||
	    (rest && parse_u64(rest, 1, UINT32_MAX, &fail.times) < 0))
		fail_complain("ALLOT_SIM_AMD_FAIL", asked, "MAP_MEMORY_TO_GPU:EIO:4");
}

static void fail_read_lacking(void)
{
	const char *asked = getenv("ALLOT_SIM_AMD_WITHOUT");
	char text[256], *rest = text, *name;

	if (!asked || !*asked)
		return;
	snprintf(text, sizeof(text), "%s", asked);
	while ((name = strsep(&rest, ","))) {
		int nr = emu_find_ioctl(name);

		if (nr < 0)
			fail_complain("ALLOT_SIM_AMD_WITHOUT", asked, "EXPORT_DMABUF");
		else
			lacking[nr] = true;
	}
}

/* Ioctls that are newer than the kernel that is emulated are lacking. */
static void fail_read_kernel(void)
{
	for (int nr = 0; nr < 256; nr++) {
		const struct kfd_ioctl *row = kfd_ioctl_find(_IO(AMDKFD_IOCTL_BASE, nr));

		lacking[nr] |= row && !kernel_has(emu_kernel(), row->name);
	}
	for (size_t i = 0; i < DRM_NAMES; i++)
		lacking[EMU_DRM(drm_names[i].nr)] |= !kernel_has(emu_kernel(), drm_names[i].name);
}

static void fail_read_once(void)
{
	fail_read_failure();
	fail_read_kernel();
	fail_read_lacking();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Under the lock of the machine. */
int emu_fail(unsigned int which, uint64_t done)
{
	pthread_once(&once, fail_read_once);
	if (fail.nr < 0) /* a test that asks for what is not there must not go on without it */
		return -EINVAL;
	if (!fail.nr || (unsigned int)fail.nr != which || done < fail.after || !fail.times)
		return 0;
	fail.times--;
	return -fail.err;
}

bool emu_lacks(unsigned int which)
{
	pthread_once(&once, fail_read_once);
	return lacking[which & 0x1ff];
}
