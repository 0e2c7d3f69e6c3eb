/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/handles.h"

#include <errno.h>

#include "criu/gpu/drm.h"

#define PAGE 4096

int handles_occupy(int fd, uint32_t highest)
{
	uint32_t made;
	int r = 0;

	for (uint32_t handle = 1; handle <= highest && r == 0; handle++) {
		r = drm_create(fd, PAGE, PAGE, AMDGPU_GEM_DOMAIN_GTT, 0, &made);
		if (r == 0 && made != handle)
			r = -EEXIST;
	}
	return r;
}

int handles_vacate(int fd, uint32_t handle)
{
	return handle <= HANDLES_OCCUPIED ? drm_close_handle(fd, handle) : 0;
}

int handles_settle(int fd, uint32_t made, uint32_t wanted)
{
	if (made == wanted)
		return 0;
	return wanted <= HANDLES_OCCUPIED || drm_change_handle(fd, made, wanted) < 0 ? -EEXIST : 0;
}
