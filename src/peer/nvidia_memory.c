/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of NVIDIA's GPUs, by the driver's virtual memory management. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "peer/complain.h"
#include "peer/nvidia.h"

static int nvidia_memory_complain(CUresult result, const char *call, const struct allot_peer *peer,
				  const struct peer_object *object)
{
	return complain(nvidia_errno(result), "%s: the object at %#" PRIx64 " of %s: %s", call,
			object->range.first, peer_name(peer, object->device).text,
			nvidia_words(result));
}

/* The driver chooses addresses, for the guards too, or takes those asked for if it has them. */
int nvidia_reserve(struct allot_peer *peer, struct peer_object *object, uint64_t address,
		   uint64_t alignment)
{
	uint64_t before = address ? 0 : alignment, after = address ? 0 : peer->page;
	CUdeviceptr got = 0;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	object->reserved_bytes = before + object->bytes + after;
	if (object->reserved_bytes >= object->bytes)
		result = cuda_real.cuMemAddressReserve(&got, object->reserved_bytes,
						       address ? 0 : alignment, address, 0);
	if (result) {
		object->reserved_bytes = 0;
		return complain(nvidia_errno(result), "%s: no addresses for %" PRIu64 " bytes: %s",
				peer_object_call(object), object->bytes, nvidia_words(result));
	}
	object->reserved = got;
	if (address && got != address) {
		nvidia_release(peer, object);
		return complain(-EEXIST,
				"%s: %" PRIu64 " bytes at %#" PRIx64 ": something is there already",
				peer_object_call(object), object->bytes, address);
	}
	object->range =
		(struct range){.first = got + before, .last = got + before + object->bytes - 1};
	return 0;
}

void nvidia_release(struct allot_peer *peer, struct peer_object *object)
{
	if (object->reserved_bytes)
		cuda_real.cuMemAddressFree(object->reserved, object->reserved_bytes);
	object->reserved_bytes = 0;
}

static bool nvidia_memory_has_address(const struct peer_object *object)
{
	return object->kind != ALLOT_PEER_HANDLE;
}

/* Maps a handle's memory at the object's addresses. Releases the handle where that fails. */
static CUresult nvidia_memory_back(struct peer_object *object, CUmemGenericAllocationHandle handle)
{
	CUresult result = CUDA_SUCCESS;

	if (nvidia_memory_has_address(object))
		result = cuda_real.cuMemMap(object->range.first, object->bytes, 0, handle, 0);
	if (result)
		cuda_real.cuMemRelease(handle);
	else
		object->handle = handle;
	return result;
}

CUmemAllocationProp nvidia_prop(uint32_t device)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device}};
}

int nvidia_alloc(struct allot_peer *peer, struct peer_object *object)
{
	CUmemAllocationProp prop = nvidia_prop(object->device);
	CUmemGenericAllocationHandle handle;
	CUresult result = cuda_real.cuMemCreate(&handle, object->bytes, &prop, 0);
	char what[64];

	if (!result)
		result = nvidia_memory_back(object, handle);
	if (!result)
		return 0;
	snprintf(what, sizeof(what), "alloc: %" PRIu64 " bytes", object->bytes);
	return nvidia_complain(result, what, peer_name(peer, object->device).text);
}

int nvidia_free(struct allot_peer *peer, struct peer_object *object)
{
	CUresult result = CUDA_SUCCESS;

	if (nvidia_memory_has_address(object))
		result = cuda_real.cuMemUnmap(object->range.first, object->bytes);
	if (result)
		return nvidia_memory_complain(result, "free", peer, object);
	cuda_real.cuMemRelease(object->handle);
	return 0;
}

static CUmemAccessDesc nvidia_memory_access_of(uint32_t device, bool may)
{
	return (CUmemAccessDesc){
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = (int)device},
		.flags = may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE};
}

/* One call for all devices, so that `devices` get access and `without` lose it at the same time. */
static CUresult nvidia_memory_set_access(const struct peer_object *object, uint64_t devices,
					 uint64_t without)
{
	CUmemAccessDesc desc[ALLOT_PEER_DEVICES];
	size_t n = 0;

	for (uint32_t i = 0; i < ALLOT_PEER_DEVICES; i++)
		if ((devices | without) >> i & 1)
			desc[n++] = nvidia_memory_access_of(i, devices >> i & 1);
	return n ? cuda_real.cuMemSetAccess(object->range.first, object->bytes, desc, n)
		 : CUDA_SUCCESS;
}

/*
 * Devices get access one by one, so that it is known of each whether it has it. They lose it all at
 * once.
 */
int nvidia_map(struct allot_peer *peer, struct peer_object *object, const struct mapping_call *call,
	       uint32_t *ret_done)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t without = 0;

	for (uint32_t i = call->done; i < call->n; i++) {
		if (call->unmap) {
			without |= UINT64_C(1) << call->devices[i];
			continue;
		}
		result = nvidia_memory_set_access(object, UINT64_C(1) << call->devices[i], 0);
		if (result)
			break;
		*ret_done = i + 1;
	}
	if (without)
		result = nvidia_memory_set_access(object, object->devices & ~without, without);
	return result ? complain(nvidia_errno(result), "%s", nvidia_words(result)) : 0;
}

int nvidia_export(struct allot_peer *peer, struct peer_object *object, int *ret_fd)
{
	int fd = -EBADF;
	CUresult result = cuda_real.cuMemExportToShareableHandle(
		&fd, object->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);

	if (result)
		return nvidia_memory_complain(result, "export", peer, object);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	*ret_fd = fd;
	return 0;
}

int nvidia_inspect(struct allot_peer *peer, int fd, const struct allot_peer_request *as,
		   struct peer_object *object)
{
	if (as->device >= peer->n || !as->bytes)
		return complain(-EINVAL, "import: whose memory the descriptor is, and how much, "
					 "is not said; the driver does not tell");
	if (as->flags & ~PEER_FLAGS)
		return complain(-EINVAL, "import: no such flags: %#" PRIx32,
				as->flags & ~PEER_FLAGS);
	object->kind = ALLOT_PEER_MEMORY;
	object->device = as->device;
	object->bytes = as->bytes;
	object->flags = as->flags;
	return 0;
}

int nvidia_import(struct allot_peer *peer, int fd, struct peer_object *object)
{
	CUmemGenericAllocationHandle handle;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	char what[48];

	if (fd >= 0)
		result = cuda_real.cuMemImportFromShareableHandle(
			&handle, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (!result)
		result = nvidia_memory_back(object, handle);
	if (!result)
		return 0;
	snprintf(what, sizeof(what), "import: descriptor %d", fd);
	return nvidia_complain(result, what, peer_name(peer, object->device).text);
}

/* Enters the device's primary context, which is made when it is first needed. */
static CUresult nvidia_memory_enter(struct allot_peer *peer, uint32_t device)
{
	struct nvidia_state *s = peer->state;
	CUresult result = CUDA_SUCCESS;

	if (!s->context[device])
		result = cuda_real.cuDevicePrimaryCtxRetain(&s->context[device], (CUdevice)device);
	return result ? result : cuda_real.cuCtxPushCurrent_v2(s->context[device]);
}

/*
 * The device that owns the memory copies it. If it does not map the object it does for that long,
 * and stays among those that map it if the driver does not take that back.
 */
static CUresult nvidia_memory_copy_mapped(struct peer_object *object, uint64_t offset, void *to,
					  const void *from, size_t bytes)
{
	uint64_t own = (UINT64_C(1) << object->device) & ~object->devices;
	CUdeviceptr at = object->range.first + offset;
	CUresult result, back_result = CUDA_SUCCESS;

	if (own) {
		result = nvidia_memory_set_access(object, object->devices | own, 0);
		if (result)
			return result;
	}
	result = to ? cuda_real.cuMemcpyDtoH_v2(to, at, bytes)
		    : cuda_real.cuMemcpyHtoD_v2(at, from, bytes);
	if (own)
		back_result = nvidia_memory_set_access(object, object->devices, own);
	if (back_result)
		object->devices |= own;
	return result ? result : back_result;
}

static int nvidia_memory_copy(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
			      void *to, const void *from, size_t bytes)
{
	CUresult result = nvidia_memory_enter(peer, object->device);
	CUcontext context;

	if (!result) {
		result = nvidia_memory_copy_mapped(object, offset, to, from, bytes);
		cuda_real.cuCtxPopCurrent_v2(&context);
	}
	return result ? nvidia_memory_complain(result, to ? "read" : "write", peer, object) : 0;
}

int nvidia_read(struct allot_peer *peer, struct peer_object *object, uint64_t offset, void *to,
		size_t bytes)
{
	return nvidia_memory_copy(peer, object, offset, to, NULL, bytes);
}

int nvidia_write(struct allot_peer *peer, struct peer_object *object, uint64_t offset,
		 const void *from, size_t bytes)
{
	return nvidia_memory_copy(peer, object, offset, NULL, from, bytes);
}
