/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/occupied.h"

#include <errno.h>
#include <stdlib.h>

#include "amd/gem_addresses.h"
#include "criu/gpu/drm.h"

#define RESERVED (AMDGPU_VM_DELAY_UPDATE | AMDGPU_VM_PAGE_PRT)
#define PAGE	 AMD_ADDRESSES_PAGE

static int occupied_reserve(int fd, uint64_t at, uint64_t bytes)
{
	int r = drm_va(fd, AMDGPU_VA_OP_MAP, 0, RESERVED, at, 0, bytes);

	return r < 0 ? r : drm_va(fd, AMDGPU_VA_OP_UNMAP, 0, RESERVED, at, 0, bytes);
}

static int occupied_order(const void *one, const void *other)
{
	const struct occupied *a = one, *b = other;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Checks that addresses between two entries are free. */
static int occupied_check_gaps(int fd, const struct occupied *list, uint32_t n, uint64_t from,
			       uint64_t end, struct occupied *ret)
{
	for (uint32_t i = 0; i <= n && from < end; i++) {
		uint64_t until = i < n && list[i].at < end ? list[i].at : end;
		int r = until > from ? occupied_reserve(fd, from, until - from) : 0;

		if (r == -EINVAL) {
			*ret = (struct occupied){from, until - from};
			return -EEXIST;
		}
		if (r < 0)
			return r;
		if (i < n && list[i].at + list[i].bytes > from)
			from = list[i].at + list[i].bytes;
	}
	return 0;
}

/* A page that can be reserved is not taken. */
static int occupied_check_page(int fd, uint64_t at)
{
	int r = occupied_reserve(fd, at, PAGE);

	return r == -EINVAL ? 0 : r < 0 ? r : -ENOENT;
}

int occupied_check(int fd, struct occupied *list, uint32_t n, struct occupied *ret)
{
	uint64_t range[2][2];
	int r = drm_va_ranges(fd, range);

	if (n)
		qsort(list, n, sizeof(*list), occupied_order);
	for (uint32_t i = 0; r == 0 && i < n; i++) {
		*ret = list[i];
		if (i && list[i - 1].at + list[i - 1].bytes > list[i].at)
			r = -EINVAL;
		if (r == 0)
			r = occupied_check_page(fd, list[i].at);
		if (r == 0)
			r = occupied_check_page(fd, list[i].at + list[i].bytes - PAGE);
	}
	for (int i = 0; r == 0 && i < 2; i++)
		if (range[i][1] > range[i][0])
			r = occupied_check_gaps(fd, list, n, range[i][0] & AMD_ADDRESSES_MASK,
						range[i][1] & AMD_ADDRESSES_MASK & ~(PAGE - 1), ret);
	return r;
}
