/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#include "criu/gpu/drm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <time.h>

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

static int drm_info(int fd, uint32_t query, void *ret, size_t bytes)
{
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)ret,
				       .return_size = (uint32_t)bytes,
				       .query = query};

	memset(ret, 0, bytes);
	return ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_AMDGPU_INFO, args), &args) < 0 ? err_errno() : 0;
}

int drm_va_ranges(int fd, uint64_t ret[2][2])
{
	struct drm_amdgpu_info_device device;
	int r = drm_info(fd, AMDGPU_INFO_DEV_INFO, &device, sizeof(device));

	if (r < 0)
		return r;
	ret[0][0] = device.virtual_address_offset;
	ret[0][1] = device.virtual_address_max;
	ret[1][0] = device.high_va_offset;
	ret[1][1] = device.high_va_max;
	return 0;
}

int drm_family(int fd, uint32_t *ret)
{
	struct drm_amdgpu_info_device device;
	int r = drm_info(fd, AMDGPU_INFO_DEV_INFO, &device, sizeof(device));

	if (r == 0)
		*ret = device.family;
	return r;
}

int drm_memory(int fd, uint64_t *ret_bytes, uint64_t *ret_visible_bytes)
{
	struct drm_amdgpu_info_vram_gtt memory;
	int r = drm_info(fd, AMDGPU_INFO_VRAM_GTT, &memory, sizeof(memory));

	if (r < 0)
		return r;
	*ret_bytes = memory.vram_size;
	*ret_visible_bytes = memory.vram_cpu_accessible_size;
	return 0;
}

int drm_make_context(int fd, uint32_t *ret)
{
	union drm_amdgpu_ctx args = {.in = {.op = AMDGPU_CTX_OP_ALLOC_CTX}};
	int r = drm_call(fd, DRM_NR_AMDGPU_CTX, &args, sizeof(args));

	if (r == 0)
		*ret = args.out.alloc.ctx_id;
	return r;
}

int drm_free_context(int fd, uint32_t context)
{
	union drm_amdgpu_ctx args = {.in = {.op = AMDGPU_CTX_OP_FREE_CTX, .ctx_id = context}};

	return drm_call(fd, DRM_NR_AMDGPU_CTX, &args, sizeof(args));
}

int drm_context_state(int fd, uint32_t context, uint32_t *ret_flags)
{
	union drm_amdgpu_ctx args = {.in = {.op = AMDGPU_CTX_OP_QUERY_STATE2, .ctx_id = context}};
	int r = drm_call(fd, DRM_NR_AMDGPU_CTX, &args, sizeof(args));

	if (r == 0)
		*ret_flags = (uint32_t)args.out.state.flags;
	return r;
}

uint32_t drm_clocks(int fd, uint32_t context)
{
	union drm_amdgpu_ctx args = {
		.in = {.op = AMDGPU_CTX_OP_GET_STABLE_PSTATE, .ctx_id = context}};

	/* Before Linux 5.18 there is no such thing. */
	return drm_call(fd, DRM_NR_AMDGPU_CTX, &args, sizeof(args)) ? 0 : args.out.pstate.flags;
}

int drm_set_clocks(int fd, uint32_t context, uint32_t level)
{
	union drm_amdgpu_ctx args = {.in = {.op = AMDGPU_CTX_OP_SET_STABLE_PSTATE,
					    .flags = level,
					    .ctx_id = context}};

	return drm_call(fd, DRM_NR_AMDGPU_CTX, &args, sizeof(args));
}

bool drm_has_rings(int fd, uint32_t ip)
{
	struct drm_amdgpu_info_hw_ip info = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&info,
				       .return_size = sizeof(info),
				       .query = AMDGPU_INFO_HW_IP_INFO,
				       .query_hw_ip = {.type = ip}};

	return !ioctl(fd, _IOW(DRM_IOCTL_BASE, DRM_NR_AMDGPU_INFO, args), &args) &&
	       info.available_rings;
}

/*
 * Only the number of work that was submitted is taken. ENOENT: the partition has no such ring. Other errors
 * are of work that failed.
 */
bool drm_has_submitted(int fd, uint32_t context, uint32_t ip, uint32_t ring)
{
	union drm_amdgpu_wait_cs args = {
		.in = {.handle = 1, .ip_type = ip, .ring = ring, .ctx_id = context}};
	int r = drm_call(fd, DRM_NR_AMDGPU_WAIT_CS, &args, sizeof(args));

	return r != -EINVAL && r != -ENOENT;
}

int drm_query_syncobj(int fd, uint32_t id)
{
	uint64_t point;
	struct drm_syncobj_timeline_array args = {
		.handles = (uintptr_t)&id, .points = (uintptr_t)&point, .count_handles = 1};

	return drm_call(fd, DRM_NR_SYNCOBJ_QUERY, &args, sizeof(args));
}

int drm_metadata(int fd, uint32_t operation, struct drm_amdgpu_gem_metadata *block)
{
	block->op = operation;
	return drm_call(fd, DRM_NR_AMDGPU_GEM_METADATA, block, sizeof(*block));
}

#define HANDLES_MOST 4

int drm_submit_copies(int fd, uint32_t context, const uint32_t *handles, uint32_t nhandles,
		      uint64_t address, uint32_t bytes, uint64_t *ret_fence)
{
	struct drm_amdgpu_bo_list_entry entries[HANDLES_MOST] = {{0}};
	struct drm_amdgpu_bo_list_in list = {.bo_number = nhandles,
					     .bo_info_size = sizeof(entries[0]),
					     .bo_info_ptr = (uintptr_t)entries};
	struct drm_amdgpu_cs_chunk_ib commands = {
		.va_start = address, .ib_bytes = bytes, .ip_type = AMDGPU_HW_IP_DMA};
	struct drm_amdgpu_cs_chunk chunks[] = {
		{AMDGPU_CHUNK_ID_BO_HANDLES, sizeof(list) / 4, (uintptr_t)&list},
		{AMDGPU_CHUNK_ID_IB, sizeof(commands) / 4, (uintptr_t)&commands}};
	uint64_t at[] = {(uintptr_t)&chunks[0], (uintptr_t)&chunks[1]};
	union drm_amdgpu_cs args = {
		.in = {.ctx_id = context, .num_chunks = 2, .chunks = (uintptr_t)at}};
	int r;

	if (nhandles > HANDLES_MOST)
		return -EINVAL;
	for (uint32_t i = 0; i < nhandles; i++)
		entries[i].bo_handle = handles[i];
	r = drm_call(fd, DRM_NR_AMDGPU_CS, &args, sizeof(args));
	if (r == 0)
		*ret_fence = args.out.handle;
	return r;
}

int drm_wait_copies(int fd, uint32_t context, uint64_t fence, uint64_t patience_ns)
{
	struct timespec now;
	union drm_amdgpu_wait_cs args = {
		.in = {.handle = fence, .ip_type = AMDGPU_HW_IP_DMA, .ctx_id = context}};
	int r;

	clock_gettime(CLOCK_MONOTONIC, &now);
	args.in.timeout = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + patience_ns;
	r = drm_call(fd, DRM_NR_AMDGPU_WAIT_CS, &args, sizeof(args));
	return r == 0 && args.out.status ? -ETIME : r;
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
