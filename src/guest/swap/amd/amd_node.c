/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/swap/amd/amd_node.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/pages.h"
#include "guest/amd/ask.h"
#include "guest/amd/files.h"
#include "guest/amd/queue/queues.h"

#define FILLER_BYTES 4096

/* Buffers that only their own file's address space may have: no dma-buf of them can be had. */
#define CREATE_VM_ALWAYS_VALID (1 << 6)

static int amd_node_fd(const struct amd_pieces *pieces, const struct amd_piece *piece)
{
	return pieces->file[piece->file].fd;
}

/* --- How it was made -------------------------------------------------------------------------- */

/* Its file, for as long as anything may be away. */
static bool amd_node_find_file(struct amd_pieces *pieces, struct amd_piece *piece, uint64_t key)
{
	uint64_t file = key >> 32 << 32;
	int i = 0;

	while (i < pieces->nfiles && pieces->file[i].key != file)
		i++;
	if (i == AMD_PIECES_FILES)
		return false;
	if (i == pieces->nfiles) {
		pieces->file[i] = (struct amd_node){file, amd_files_dup(key)};
		if (pieces->file[i].fd < 0)
			return false;
		pieces->nfiles++;
	}
	piece->file = i;
	return true;
}

static bool amd_node_ask_how(const struct amd_pieces *pieces, struct amd_piece *piece)
{
	struct drm_amdgpu_gem_create_in made = {0};
	struct drm_amdgpu_gem_op op = {.handle = (uint32_t)piece->handle,
				       .op = AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
				       .value = (uintptr_t)&made};

	if (amd_ask(amd_node_fd(pieces, piece), _IOWR('d', DRM_NR_AMDGPU_GEM_OP, op), &op) < 0)
		return false;
	piece->size = made.bo_size;
	piece->alignment = made.alignment;
	piece->domains = made.domains;
	piece->domain_flags = made.domain_flags;
	return made.bo_size && made.bo_size <= piece->bytes &&
	       !(made.domain_flags & CREATE_VM_ALWAYS_VALID);
}

static bool amd_node_ask_offset(const struct amd_pieces *pieces, struct amd_piece *piece)
{
	union drm_amdgpu_gem_mmap args = {.in = {.handle = (uint32_t)piece->handle}};

	if (amd_ask(amd_node_fd(pieces, piece), _IOWR('d', DRM_NR_AMDGPU_GEM_MMAP, args), &args) < 0)
		return false;
	piece->offset = args.out.addr_ptr;
	return true;
}

/* Room for so many mappings more. */
static bool amd_node_grow(struct amd_pieces *pieces, uint64_t more)
{
	uint64_t room = pieces->maps_room ? pieces->maps_room : 64;
	struct drm_amdgpu_gem_vm_entry *grown;

	while (room < pieces->nmaps + more)
		room *= 2;
	if (room == pieces->maps_room)
		return true;
	grown = pages_map(room * sizeof(*grown));
	if (!grown)
		return false;
	if (pieces->maps) {
		memcpy(grown, pieces->maps, pieces->nmaps * sizeof(*grown));
		munmap(pieces->maps, pieces->maps_room * sizeof(*grown));
	}
	pieces->maps = grown;
	pieces->maps_room = room;
	return true;
}

/* As many as there is room for, and again where there are more. Older kernels do not tell. */
static enum swap_why amd_node_ask_maps(struct amd_pieces *pieces, struct amd_piece *piece)
{
	struct drm_amdgpu_gem_op op;

	do {
		uint64_t room;

		if (!amd_node_grow(pieces, piece->nmaps + 1))
			return SWAP_HOST;
		room = pieces->maps_room - pieces->nmaps;
		op = (struct drm_amdgpu_gem_op){.handle = (uint32_t)piece->handle,
						.op = AMDGPU_GEM_OP_GET_MAPPING_INFO,
						.value = (uintptr_t)&pieces->maps[pieces->nmaps],
						.num_entries = (uint32_t)room};
		if (amd_ask(amd_node_fd(pieces, piece), _IOWR('d', DRM_NR_AMDGPU_GEM_OP, op), &op) <
		    0)
			return SWAP_NODES;
		piece->nmaps = op.num_entries;
		if (op.num_entries <= room)
			break;
	} while (true);
	piece->first_map = pieces->nmaps;
	pieces->nmaps += piece->nmaps;
	return SWAP_FINE;
}

static bool amd_node_ask_metadata(struct amd_pieces *pieces, uint64_t i)
{
	const struct amd_piece *piece = &pieces->at[i];
	struct drm_amdgpu_gem_metadata args = {.handle = (uint32_t)piece->handle,
					       .op = AMDGPU_GEM_METADATA_OP_GET_METADATA};

	if (amd_ask(amd_node_fd(pieces, piece), _IOWR('d', DRM_NR_AMDGPU_GEM_METADATA, args),
		    &args) < 0)
		return false;
	/* Pages that nobody writes to are no memory. */
	if (args.data.flags || args.data.tiling_info || args.data.data_size_bytes)
		pieces->metadata[i] = args;
	return true;
}

/* What a queue is made of: the kernel keeps it mapped. */
static bool amd_node_is_needed(struct amd *amd, const struct amd_pieces *pieces,
			       const struct amd_piece *piece)
{
	struct queues *queues = queues_made(amd);

	for (uint32_t m = 0; queues && m < piece->nmaps; m++) {
		const struct drm_amdgpu_gem_vm_entry *map = &pieces->maps[piece->first_map + m];

		if (queues_need(queues, map->addr, map->size))
			return true;
	}
	return false;
}

enum swap_why amd_node_describe(struct amd *amd, struct amd_pieces *pieces, uint64_t i)
{
	struct amd_piece *piece = &pieces->at[i];
	enum swap_why why;

	/* Only of a GPU where /dev/kfd has an address space can our queue reach it. */
	if (!atomic_load(&amd->device[piece->device].vm_file) ||
	    !amd_node_find_file(pieces, piece, piece->key) || !amd_node_ask_how(pieces, piece) ||
	    !amd_node_ask_offset(pieces, piece) || !amd_node_ask_metadata(pieces, i))
		return SWAP_NODES;
	why = amd_node_ask_maps(pieces, piece);
	return !why && amd_node_is_needed(amd, pieces, piece) ? SWAP_NODES : why;
}

/* --- Going and coming back -------------------------------------------------------------------- */

void amd_node_close(int fd, uint64_t handle)
{
	struct drm_gem_close args = {.handle = (uint32_t)handle};

	amd_ask(fd, _IOW('d', DRM_NR_GEM_CLOSE, args), &args);
}

bool amd_node_leave(const struct amd_pieces *pieces, const struct amd_piece *piece)
{
	struct drm_gem_close args = {.handle = (uint32_t)piece->handle};

	return amd_ask(amd_node_fd(pieces, piece), _IOW('d', DRM_NR_GEM_CLOSE, args), &args) >= 0;
}

static int amd_node_create(int fd, const struct drm_amdgpu_gem_create_in *in, uint64_t *ret_handle)
{
	union drm_amdgpu_gem_create args = {.in = *in};
	int r = amd_ask(fd, _IOWR('d', DRM_NR_AMDGPU_GEM_CREATE, args), &args);

	if (r < 0)
		return r;
	*ret_handle = args.out.handle;
	return 0;
}

int amd_node_fill(const struct amd_pieces *pieces, const struct amd_piece *piece,
		  uint64_t *ret_handle)
{
	const struct drm_amdgpu_gem_create_in in = {.bo_size = FILLER_BYTES,
						    .alignment = FILLER_BYTES,
						    .domains = AMDGPU_GEM_DOMAIN_GTT};

	return amd_node_create(amd_node_fd(pieces, piece), &in, ret_handle);
}

static int amd_node_map(int fd, const struct amd_piece *piece,
			const struct drm_amdgpu_gem_vm_entry *map)
{
	struct drm_amdgpu_gem_va args = {.handle = (uint32_t)piece->handle,
					 .operation = AMDGPU_VA_OP_MAP,
					 .flags = (uint32_t)map->flags,
					 .va_address = map->addr,
					 .offset_in_bo = map->offset,
					 .map_size = map->size};

	return amd_ask(fd, _IOW('d', DRM_NR_AMDGPU_GEM_VA, args), &args);
}

static int amd_node_import(int fd, int dmabuf, uint64_t *ret_handle)
{
	struct drm_prime_handle args = {.fd = dmabuf};
	int r = amd_ask(fd, _IOWR('d', DRM_NR_PRIME_FD_TO_HANDLE, args), &args);

	if (r < 0)
		return r;
	*ret_handle = args.handle;
	return 0;
}

enum swap_why amd_node_return(struct amd_pieces *pieces, uint64_t i, int dmabuf)
{
	struct amd_piece *piece = &pieces->at[i];
	const struct drm_amdgpu_gem_create_in in = {.bo_size = piece->size,
						    .alignment = piece->alignment,
						    .domains = piece->domains,
						    .domain_flags = piece->domain_flags};
	struct drm_amdgpu_gem_metadata noted = pieces->metadata[i];
	int fd = amd_node_fd(pieces, piece);
	uint64_t handle;
	int r = piece->borrowed ? amd_node_import(fd, dmabuf, &handle)
				: amd_node_create(fd, &in, &handle);

	if (r < 0)
		return r == -ENOMEM ? SWAP_DEVICE : SWAP_DRIVER;
	if (handle != piece->handle) {
		amd_node_close(fd, handle);
		return SWAP_DRIVER;
	}
	piece->away = false;
	noted.op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
	if (noted.handle && !piece->borrowed &&
	    amd_ask(fd, _IOWR('d', DRM_NR_AMDGPU_GEM_METADATA, noted), &noted) < 0)
		return SWAP_DRIVER;
	for (uint32_t m = 0; m < piece->nmaps; m++)
		if (amd_node_map(fd, piece, &pieces->maps[piece->first_map + m]) < 0)
			return SWAP_DRIVER;
	return amd_node_ask_offset(pieces, piece) ? SWAP_FINE : SWAP_DRIVER;
}

/* --- Copies ----------------------------------------------------------------------------------- */

static int amd_node_export(int fd, const struct amd_piece *piece)
{
	struct drm_prime_handle args = {.handle = (uint32_t)piece->handle,
					.flags = O_CLOEXEC | O_RDWR,
					.fd = -1};
	int r = amd_ask(fd, _IOWR('d', DRM_NR_PRIME_HANDLE_TO_FD, args), &args);

	return r < 0 ? r : args.fd;
}

/* Addresses that nothing else of the process can have, so nothing of the GPU's, either. */
int amd_node_reach(int kfd, const struct amd *amd, const struct amd_pieces *pieces,
		   struct amd_piece *piece)
{
	int fd = amd_node_export(amd_node_fd(pieces, piece), piece);
	void *range = fd < 0 ? MAP_FAILED
			     : mmap(NULL, piece->bytes, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct kfd_ioctl_import_dmabuf_args args = {
		.va_addr = (uintptr_t)range,
		.gpu_id = amd->device[piece->device].node->gpu_id,
		.dmabuf_fd = (uint32_t)fd};
	int r = range == MAP_FAILED
			? -ENOMEM
			: amd_ask(kfd, _IOWR('K', KFD_NR_IMPORT_DMABUF, args), &args);

	if (fd >= 0)
		close(fd);
	if (r < 0) {
		if (range != MAP_FAILED)
			munmap(range, piece->bytes);
		return r;
	}
	piece->va = (uintptr_t)range;
	piece->reach = args.handle;
	return amd_piece_reach(kfd, amd, piece->reach, UINT64_C(1) << piece->device, true,
				 &piece->now);
}

int amd_node_unreach(int kfd, const struct amd *amd, struct amd_piece *piece)
{
	struct kfd_ioctl_free_memory_of_gpu_args args = {piece->reach};
	int r = 0;

	if (!piece->reach)
		return 0;
	r = amd_piece_reach(kfd, amd, piece->reach, piece->now, false, &piece->now);
	if (!r)
		r = amd_ask(kfd, _IOW('K', KFD_NR_FREE_MEMORY_OF_GPU, args), &args);
	munmap((void *)(uintptr_t)piece->va, piece->bytes);
	piece->va = piece->reach = 0;
	return r < 0 ? r : 0;
}
