/* SPDX-License-Identifier: GPL-2.0-only */
#include "criu/drm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "amd/gem_addresses.h"
#include "base/err.h"

#define ADDRESS_SIGN UINT64_C(0x0000800000000000)

static int drm_call(int fd, unsigned int nr, void *args, size_t bytes)
{
	int r;

	do
		r = ioctl(fd, _IOC(_IOC_READ | _IOC_WRITE, DRM_IOCTL_BASE, nr, bytes), args);
	while (r < 0 && (errno == EINTR || errno == EAGAIN));
	return r < 0 ? err_errno() : 0;
}

bool drm_is_render(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && major(st->st_rdev) == DRM_MAJOR &&
	       minor(st->st_rdev) >= DRM_RENDER_FIRST;
}

bool drm_is_amdgpu(int fd)
{
	char name[16] = "";
	struct drm_version version = {.name_len = sizeof(name) - 1, .name = (uintptr_t)name};

	return !drm_call(fd, DRM_NR_VERSION, &version, sizeof(version)) && !strcmp(name, "amdgpu");
}

int drm_open(uint32_t minor)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/dev/dri/renderD%u", minor);
	fd = open(path, O_RDWR | O_CLOEXEC);
	return fd < 0 ? err_errno() : fd;
}

int drm_create(int fd, uint64_t bytes, uint64_t alignment, uint64_t domains, uint64_t flags,
	       uint32_t *ret_handle)
{
	union drm_amdgpu_gem_create args = {.in = {bytes, alignment, domains, flags}};
	int r = drm_call(fd, DRM_NR_AMDGPU_GEM_CREATE, &args, sizeof(args));

	if (r == 0)
		*ret_handle = args.out.handle;
	return r;
}

int drm_close_handle(int fd, uint32_t handle)
{
	struct drm_gem_close args = {.handle = handle};

	/* It is a write, by its number. */
	return ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_GEM_CLOSE, args), &args) < 0 ? err_errno() : 0;
}

int drm_change_handle(int fd, uint32_t from, uint32_t to)
{
	struct drm_gem_change_handle args = {.handle = from, .new_handle = to};

	return drm_call(fd, DRM_NR_GEM_CHANGE_HANDLE, &args, sizeof(args));
}

int drm_create_info(int fd, uint32_t handle, struct drm_amdgpu_gem_create_in *ret)
{
	struct drm_amdgpu_gem_create_in info;
	struct drm_amdgpu_gem_op args = {.handle = handle, .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
					 .value = (uintptr_t)&info};
	int r = drm_call(fd, DRM_NR_AMDGPU_GEM_OP, &args, sizeof(args));

	if (r == 0)
		*ret = info;
	return r;
}

int drm_mmap_offset(int fd, uint32_t handle, uint64_t *ret)
{
	union drm_amdgpu_gem_mmap args = {.in = {.handle = handle}};
	int r = drm_call(fd, DRM_NR_AMDGPU_GEM_MMAP, &args, sizeof(args));

	if (r == 0)
		*ret = args.out.addr_ptr;
	return r;
}

int drm_export(int fd, uint32_t handle, uint32_t access)
{
	struct drm_prime_handle args = {.handle = handle, .flags = O_CLOEXEC | access};
	int r = drm_call(fd, DRM_NR_PRIME_HANDLE_TO_FD, &args, sizeof(args));

	return r < 0 ? r : args.fd;
}

int drm_import(int fd, int dmabuf, uint32_t *ret_handle)
{
	struct drm_prime_handle args = {.fd = dmabuf};
	int r = drm_call(fd, DRM_NR_PRIME_FD_TO_HANDLE, &args, sizeof(args));

	if (r == 0)
		*ret_handle = args.handle;
	return r;
}

int drm_place(int fd, uint32_t handle, uint64_t domains)
{
	struct drm_amdgpu_gem_op args = {.handle = handle, .op = AMDGPU_GEM_OP_SET_PLACEMENT,
					 .value = domains};

	return drm_call(fd, DRM_NR_AMDGPU_GEM_OP, &args, sizeof(args));
}

int drm_va(int fd, uint32_t operation, uint32_t handle, uint32_t flags, uint64_t address,
	   uint64_t offset, uint64_t bytes)
{
	struct drm_amdgpu_gem_va args = {.handle = handle, .operation = operation, .flags = flags,
					 .va_address = address, .offset_in_bo = offset,
					 .map_size = bytes};

	if (address & ADDRESS_SIGN)
		args.va_address |= ~AMD_ADDRESSES_MASK;

	return drm_call(fd, DRM_NR_AMDGPU_GEM_VA, &args, sizeof(args));
}

int drm_va_ranges(int fd, uint64_t ret[2][2])
{
	struct drm_amdgpu_info_device device = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&device,
				       .return_size = sizeof(device),
				       .query = AMDGPU_INFO_DEV_INFO};
	int r = ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_AMDGPU_INFO, args), &args) < 0 ? err_errno()
										    : 0;

	if (r < 0)
		return r;
	ret[0][0] = device.virtual_address_offset;
	ret[0][1] = device.virtual_address_max;
	ret[1][0] = device.high_va_offset;
	ret[1][1] = device.high_va_max;
	return 0;
}

/*
 * An ioctl that fills a list: it is told how many entries fit, and says how many there are. With
 * two fields for that in two blocks, which `n` and `list` point to.
 */
static int drm_list(int fd, unsigned int nr, void *args, size_t args_bytes, uint32_t *n,
		    uint64_t *list, size_t entry_bytes, void **ret)
{
	for (uint32_t room = 64;;) {
		void *entries = calloc(room, entry_bytes);
		int r;

		if (!entries)
			return -ENOMEM;
		*n = room;
		*list = (uintptr_t)entries;
		r = drm_call(fd, nr, args, args_bytes);
		if (r == 0 && *n <= room) {
			*ret = entries;
			return 0;
		}
		free(entries);
		if (r < 0)
			return r;
		room = *n;
	}
}

int drm_list_handles(int fd, struct drm_amdgpu_gem_list_handles_entry **ret, uint32_t *ret_n)
{
	struct drm_amdgpu_gem_list_handles args = {0};
	void *list;
	int r = drm_list(fd, DRM_NR_AMDGPU_GEM_LIST_HANDLES, &args, sizeof(args), &args.num_entries,
			 &args.entries, sizeof(**ret), &list);

	if (r < 0)
		return r;
	*ret = list;
	*ret_n = args.num_entries;
	return 0;
}

int drm_list_mappings(int fd, uint32_t handle, struct drm_amdgpu_gem_vm_entry **ret,
		      uint32_t *ret_n)
{
	struct drm_amdgpu_gem_op args = {.handle = handle, .op = AMDGPU_GEM_OP_GET_MAPPING_INFO};
	void *list;
	int r = drm_list(fd, DRM_NR_AMDGPU_GEM_OP, &args, sizeof(args), &args.num_entries,
			 &args.value, sizeof(**ret), &list);

	if (r < 0)
		return r;
	*ret = list;
	*ret_n = args.num_entries;
	return 0;
}
