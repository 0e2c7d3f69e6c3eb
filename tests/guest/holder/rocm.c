/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As ROCm has them: /dev/kfd is open, where there is one, and the GPU has each buffer at the CPU's
 * address for it. Two processes: what each has for itself, and what the first shares, have the
 * lowest handles in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "holder.h"

static int rocm_node(void)
{
	if (open("/dev/kfd", O_RDWR | O_CLOEXEC) < 0 && errno != ENOENT)
		wrong("/dev/kfd: %s", strerror(errno));
	return node(0);
}

struct placed {
	uint32_t handle;
	volatile uint32_t *at;
};

static struct placed place(int fd, uint32_t handle)
{
	struct placed placed = {handle, map(fd, handle)};

	if (map_address(fd, handle, (uintptr_t)placed.at, 0, BYTES))
		wrong("GEM_VA");
	return placed;
}

static void check_placed(const char *what, int fd, struct placed placed, int from, uint32_t word)
{
	const struct drm_amdgpu_gem_vm_entry vm = {(uintptr_t)placed.at, BYTES, 0, RW};

	check_filled(what, (void *)placed.at, from, word);
	check_addresses(fd, placed.handle, &vm, 1);
}

void rocm_owner(void)
{
	struct placed own = {0}, shared = {0};
	uint32_t handles[3] = {0};
	int fd = rocm_node(), n = 0;

	if (with & OWNER_HAS_OWN) {
		own = place(fd, create(fd));
		fill((void *)own.at, 0xaaaaaaaa);
		handles[n++] = own.handle;
	}
	if (with & SHARES) {
		shared = place(fd, create_as(fd, BYTES, AMDGPU_GEM_DOMAIN_VRAM, 0x5));
		fill((void *)shared.at, 0x77777777);
		handles[n++] = shared.handle;
		common->dmabuf[0][0] = export(fd, shared.handle);
		common->pid[0] = getpid();
		atomic_store(&common->step[0], 1);
		wait_for(&common->step[1], 1, "the importer");
		if ((with & KEEPS) && dup2(common->dmabuf[0][0], KEPT) < 0)
			wrong("dup2");
		close(common->dmabuf[0][0]);
	}
	rest();

	check_handles("exporter", fd, handles);
	if (with & OWNER_HAS_OWN)
		check_placed("the exporter's own", fd, own, 0, 0xaaaaaaaa);
	if (with & SHARES) {
		check_placed("shared, at the exporter", fd, shared, 2, 0x77777777);
		shared.at[0] = 118;
		wait_for_word(&shared.at[1], 118, "what the importer answers");
	}
	if (with & KEEPS)
		check_kept(shared.at);
}

void rocm_taker(void)
{
	struct placed own = {0}, shared = {0};
	uint32_t handles[3] = {0};
	int fd = rocm_node(), n = 0;

	if (with & TAKER_HAS_OWN) {
		own = place(fd, create(fd));
		fill((void *)own.at, 0xbbbbbbbb);
		handles[n++] = own.handle;
	}
	if (with & SHARES) {
		wait_for(&common->step[0], 1, "the exporter");
		shared = place(fd, import(fd, take(common->pid[0], common->dmabuf[0][0])));
		handles[n++] = shared.handle;
		atomic_store(&common->step[1], 1);
	}
	rest();

	check_handles("importer", fd, handles);
	if (with & TAKER_HAS_OWN)
		check_placed("the importer's own", fd, own, 0, 0xbbbbbbbb);
	if (with & SHARES) {
		check_placed("shared, at the importer", fd, shared, 2, 0x77777777);
		wait_for_word(&shared.at[0], 118, "what the exporter says");
		shared.at[1] = 118;
	}
}
