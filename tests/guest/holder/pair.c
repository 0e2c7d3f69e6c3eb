/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes and one buffer, or two. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "holder.h"

static const struct drm_amdgpu_gem_vm_entry vm1[] = {{0x100000000, BYTES, 0, RW}};
static const struct drm_amdgpu_gem_vm_entry vm7[] = {{0x7f0000000000, 16384, 4096, RW},
						     {0x200000, BYTES, 0, RW}};

/* Handles 1, 7 and 8; or, with a kernel that lets it, 1, 7 and 100000. */
static uint32_t move_up(int fd, uint32_t handle)
{
	struct drm_gem_change_handle args = {.handle = handle, .new_handle = 100000};

	if (!(with & HIGH))
		return handle;
	if (CALL(fd, DRM_NR_GEM_CHANGE_HANDLE, &args))
		wrong("GEM_CHANGE_HANDLE");
	return args.new_handle;
}

void exporter(void)
{
	static const uint32_t handles[] = {1, 7, 8, 0}, low[] = {1, 7, 0};
	int fd = node(0), dmabuf7, dmabuf8;
	volatile uint32_t *own, *same, *cross;
	uint32_t handle8;

	for (int i = 0; i < 7; i++)
		create(fd);
	create_as(fd, BYTES, AMDGPU_GEM_DOMAIN_VRAM, 0x5); /* which the driver can be late with */
	for (uint32_t handle = 2; handle < 7; handle++)
		close_handle(fd, handle);
	handle8 = move_up(fd, 8);
	own = map(fd, 1);
	same = map(fd, 7);
	cross = map(fd, handle8);
	fill((void *)own, 0xaaaaaaaa);
	fill((void *)same, 0x77777777);
	fill((void *)cross, 0x88888888);
	dmabuf7 = export(fd, 7);
	dmabuf8 = export(fd, handle8);
	if (with & ADDRESSES) {
		set_addresses(fd, 1, vm1, 1);
		set_addresses(fd, 7, vm7, 2);
	}
	common->dmabuf[0][0] = dmabuf7;
	common->dmabuf[0][1] = dmabuf8;
	common->pid[0] = getpid();
	atomic_store(&common->step[0], 1);
	wait_for(&common->step[1], 1, "the importer");
	if ((with & KEEPS) && dup2(dmabuf7, KEPT) < 0)
		wrong("dup2");
	close(dmabuf7);
	close(dmabuf8);
	rest();

	check_handles("exporter", fd, with & HIGH ? low : handles);
	check_filled("the exporter's own", (void *)own, 0, 0xaaaaaaaa);
	check_filled("shared, at the exporter", (void *)same, 2, 0x77777777);
	check_filled("shared over devices, at the exporter", (void *)cross, 2, 0x88888888);
	if (with & ADDRESSES) {
		check_addresses(fd, 1, vm1, 1);
		check_addresses(fd, 7, vm7, 2);
	}
	same[0] = 118;
	cross[0] = 119;
	wait_for_word(&same[1], 118, "what the importer answers");
	wait_for_word(&cross[1], 119, "what the importer answers over devices");
	if (with & KEEPS)
		check_kept(same);
}

void importer(void)
{
	static const uint32_t handles[] = {1, 2, 3, 0}, handles1[] = {1, 0};
	int fd = node(0), fd1 = node(1), most = with & CROWDED ? 40 : 0;
	volatile uint32_t *own, *same, *third, *cross;

	wait_for(&common->step[0], 1, "the exporter");
	if (create(fd) != 1 || import(fd, take(common->pid[0], common->dmabuf[0][0])) != 2 ||
	    create(fd) != 3 || import(fd1, take(common->pid[0], common->dmabuf[0][1])) != 1)
		wrong("handles of the importer");
	own = map(fd, 1);
	same = map(fd, 2);
	third = map(fd, 3);
	fill((void *)own, 0xbbbbbbbb);
	fill((void *)third, 0x33333333);
	for (int i = 3; i <= most; i++)
		if (fcntl(i, F_GETFD) < 0 && dup2(0, i) < 0)
			wrong("dup2");
	atomic_store(&common->step[1], 1);
	rest();

	cross = map(fd1, 1); /* a mapping of an import is one of the dma-buf, which CRIU refuses */
	for (int i = 0; i <= most; i++)
		if (fcntl(i, F_GETFD) < 0)
			wrong("descriptor %d is closed", i);
	check_handles("importer", fd, handles);
	check_handles("importer, second device", fd1, handles1);
	check_filled("the importer's own", (void *)own, 0, 0xbbbbbbbb);
	check_filled("the importer's third", (void *)third, 0, 0x33333333);
	wait_for_word(&same[0], 118, "what the exporter says");
	wait_for_word(&cross[0], 119, "what the exporter says over devices");
	same[1] = 118;
	cross[1] = 119;
}
