/* SPDX-License-Identifier: Apache-2.0 */
/* One process. */
#include <string.h>

#include "holder.h"

void alone(void)
{
	static const struct drm_amdgpu_gem_vm_entry vm[] = {{0x7f0000000000, 16384, 4096, RW},
							    {0x200000, BYTES, 0, RW}};
	static const uint32_t handles[] = {1, 7, 8, 0};
	int fd = node(0);
	void *at[3];

	for (int i = 0; i < 8; i++) /* one of them never leaves its file */
		create_as(fd, 4096, AMDGPU_GEM_DOMAIN_GTT, i == 6 ? 1 << 6 : 0);
	for (uint32_t handle = 2; handle < 7; handle++)
		close_handle(fd, handle);
	for (int i = 0; i < 3; i++) {
		at[i] = map(fd, handles[i]);
		fill(at[i], 0x1000u + handles[i]);
	}
	((uint32_t *)at[0])[0] = 1;
	memset((char *)at[2] + 8192, 0, 16384);
	if (with & ADDRESSES)
		set_addresses(fd, 7, vm, 2);
	rest();
	check_handles("alone", fd, handles);
	check_filled("first", at[0], 1, 0x1001);
	check_filled("second", at[1], 0, 0x1007);
	for (int i = 0; i < BYTES / 4; i++)
		if (((uint32_t *)at[2])[i] != (i >= 2048 && i < 6144 ? 0 : 0x1008))
			wrong("third: word %d", i);
	if (with & ADDRESSES)
		check_addresses(fd, 7, vm, 2);
}
