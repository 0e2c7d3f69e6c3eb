/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of render nodes, and whether they are as they were. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "holder.h"

int call(int fd, unsigned int nr, void *args, size_t bytes)
{
	return ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, nr, bytes), args) < 0 ? -errno : 0;
}

int node(int i)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%d", 128 + i);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		wrong("%s: %s", path, strerror(errno));
	return fd;
}

uint32_t create_as(int fd, uint64_t alignment, uint64_t domains, uint64_t flags)
{
	union drm_amdgpu_gem_create args = {.in = {BYTES, alignment, domains, flags}};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_CREATE, &args);

	if (r < 0)
		wrong("GEM_CREATE: %s", strerror(-r));
	return args.out.handle;
}

uint32_t create(int fd)
{
	return create_as(fd, 4096, AMDGPU_GEM_DOMAIN_VRAM, 0x5);
}

void close_handle(int fd, uint32_t handle)
{
	struct drm_gem_close args = {.handle = handle};

	if (ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_GEM_CLOSE, args), &args) < 0)
		wrong("GEM_CLOSE %u: %s", handle, strerror(errno));
}

int export(int fd, uint32_t handle)
{
	struct drm_prime_handle args = {.handle = handle, .flags = O_CLOEXEC | O_RDWR};
	int r = CALL(fd, DRM_NR_PRIME_HANDLE_TO_FD, &args);

	if (r < 0)
		wrong("PRIME_HANDLE_TO_FD %u: %s", handle, strerror(-r));
	return args.fd;
}

uint32_t import(int fd, int dmabuf)
{
	struct drm_prime_handle args = {.fd = dmabuf};
	int r = CALL(fd, DRM_NR_PRIME_FD_TO_HANDLE, &args);

	if (r < 0)
		wrong("PRIME_FD_TO_HANDLE: %s", strerror(-r));
	close(dmabuf);
	return args.handle;
}

void *map(int fd, uint32_t handle)
{
	union drm_amdgpu_gem_mmap args = {.in = {.handle = handle}};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_MMAP, &args);
	void *at = MAP_FAILED;

	if (r == 0)
		at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  (off_t)args.out.addr_ptr);
	if (at == MAP_FAILED)
		wrong("handle %u cannot be mapped: %s", handle, strerror(r ? -r : errno));
	return at;
}

/* In a tenant that can leave its GPU it is no dma-buf, and is mapped as memory of a node's. */
void *map_dmabuf(int dmabuf)
{
	void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, dmabuf, 0);
	int fd;

	if (at == MAP_FAILED) {
		fd = node(0);
		at = map(fd, import(fd, dup(dmabuf)));
		close(fd);
	}
	return at;
}

int map_address(int fd, uint32_t handle, uint64_t address, uint64_t offset, uint64_t bytes)
{
	struct drm_amdgpu_gem_va args = {.handle = handle, .operation = AMDGPU_VA_OP_MAP,
					 .flags = AMDGPU_VM_PAGE_READABLE | AMDGPU_VM_PAGE_WRITEABLE,
					 .va_address = address, .offset_in_bo = offset,
					 .map_size = bytes};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_VA, &args);

	if (r == 0 && with & NOTES)
		note(fd, &args);
	return r;
}

int take(pid_t pid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int taken = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);

	if (taken < 0)
		wrong("descriptor %d of %d: %s", fd, (int)pid, strerror(errno));
	close(pidfd);
	return taken;
}

void set_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *list, int n)
{
	for (int i = 0; i < n; i++)
		if (map_address(fd, handle, list[i].addr, list[i].offset, list[i].size))
			wrong("GEM_VA");
}

void fill(void *at, uint32_t word)
{
	for (int i = 0; i < BYTES / 4; i++)
		((uint32_t *)at)[i] = word;
}

void check_filled(const char *what, const void *at, int from, uint32_t word)
{
	for (int i = from; i < BYTES / 4; i++)
		if (((const uint32_t *)at)[i] != word)
			wrong("%s: word %d is %#x, not %#x", what, i, ((const uint32_t *)at)[i], word);
}

/* The file has these handles, and no other up to 100. Ends with a 0. */
void check_handles(const char *what, int fd, const uint32_t *wanted)
{
	for (uint32_t handle = 1; handle <= 100; handle++) {
		struct drm_amdgpu_gem_create_in info;
		struct drm_amdgpu_gem_op args = {.handle = handle, .value = (uintptr_t)&info};
		int r = CALL(fd, DRM_NR_AMDGPU_GEM_OP, &args);
		bool want = *wanted == handle;

		if (r != (want ? 0 : -ENOENT))
			wrong("%s: handle %u: %s", what, handle, want ? strerror(-r) : "is there");
		if (want && info.bo_size != BYTES)
			wrong("%s: handle %u has another size", what, handle);
		wanted += want;
	}
}

/* In whatever order. */
void check_addresses(int fd, uint32_t handle, const struct drm_amdgpu_gem_vm_entry *wanted,
			    uint32_t n)
{
	struct drm_amdgpu_gem_vm_entry list[8] = {0};
	struct drm_amdgpu_gem_op args = {.handle = handle, .op = AMDGPU_GEM_OP_GET_MAPPING_INFO,
					 .value = (uintptr_t)list, .num_entries = 8};
	int r = CALL(fd, DRM_NR_AMDGPU_GEM_OP, &args);
	uint32_t found = 0;

	for (uint32_t i = 0; i < 8 * n; i++)
		found += !memcmp(&list[i % 8], &wanted[i / 8], sizeof(*list));
	if (r < 0 || args.num_entries != n || found != n)
		wrong("handle %u: addresses are not as they were", handle);
}

/* The descriptor that was kept is one of this buffer. */
void check_kept(volatile uint32_t *buffer)
{
	volatile uint32_t *kept = map_dmabuf(KEPT);

	if (lseek(KEPT, 0, SEEK_END) != BYTES)
		wrong("the dma-buf has another size");
	if (kept[0] != buffer[0])
		wrong("the dma-buf is not the buffer");
	kept[2] = 120;
	if (buffer[2] != 120)
		wrong("a write through the dma-buf is not in the buffer");
}
