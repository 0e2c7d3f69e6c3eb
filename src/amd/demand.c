/* SPDX-License-Identifier: Apache-2.0 */
#include "amd/demand.h"

#include <errno.h>
#include <string.h>

#include "amd/abi/drm.h"
#include "amd/abi/kfd.h"
#include "amd/kfd_ioctl.h"
#include "base/number.h"

/* SVM's word for "nowhere in particular". */
#define SVM_UNDEFINED UINT32_MAX

static struct demand demand_refuse(int error)
{
	return (struct demand){.act = DEMAND_REFUSE, .error = error, .descriptor = -1};
}

static struct demand demand_only_act(enum demand_act act, uint64_t object)
{
	return (struct demand){.act = act, .object = object, .descriptor = -1};
}

static struct demand demand_nothing(void)
{
	return demand_only_act(DEMAND_NOTHING, 0);
}

static struct demand demand_of_import(int32_t descriptor)
{
	return (struct demand){.act = DEMAND_IMPORT, .descriptor = descriptor};
}

/* Rounds up to pages, as the kernel does. False: more bytes than any GPU has. */
static bool demand_to_pages(uint64_t bytes, uint32_t page_bytes, uint64_t *ret_bytes)
{
	if (bytes > DEMAND_MOST_BYTES)
		return false;
	*ret_bytes = (bytes + page_bytes - 1) & ~(uint64_t)(page_bytes - 1);
	return true;
}

static struct demand demand_take_part(enum demand_memory memory, uint32_t gpu_id, uint64_t bytes,
				      uint32_t page_bytes)
{
	struct demand demand = {.act = DEMAND_TAKE, .count = 1, .descriptor = -1};

	demand.parts[0] = (struct demand_part){.gpu_id = gpu_id, .memory = memory};
	return demand_to_pages(bytes, page_bytes, &demand.parts[0].bytes) ? demand
									  : demand_refuse(-ENOMEM);
}

/* The kernel checks the flags in this order, and the first that is set is the kind. */
static struct demand demand_of_alloc(const struct kfd_ioctl_alloc_memory_of_gpu_args *args,
				     uint32_t page_bytes)
{
	/* Its addresses lie over the same memory twice, so that a ring needs no wrap-around. */
	uint64_t bytes = args->flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM ? args->size >> 1
									      : args->size;

	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_VRAM)
		return demand_take_part(DEMAND_VRAM, args->gpu_id, bytes, page_bytes);
	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT)
		return demand_take_part(DEMAND_GTT, args->gpu_id, bytes, page_bytes);
	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return demand_take_part(DEMAND_USERPTR, args->gpu_id, bytes, page_bytes);
	if (args->flags & (KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL | KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP))
		return demand_nothing();
	return demand_refuse(-EINVAL);
}

/* The places that a request names for a range. */
struct places {
	uint32_t prefetch, preferred;
};

/* Reads the attributes in their order; of several of one type the last counts. */
static int demand_find_places(const char *attrs, uint32_t count, struct places *ret)
{
	for (uint32_t i = 0; i < count; i++) {
		struct kfd_ioctl_svm_attribute attr;

		/* Of a block that may lie anywhere. */
		memcpy(&attr, attrs + i * sizeof(attr), sizeof(attr));
		if (attr.type == KFD_IOCTL_SVM_ATTR_PREFETCH_LOC)
			ret->prefetch = attr.value;
		else if (attr.type == KFD_IOCTL_SVM_ATTR_PREFERRED_LOC)
			ret->preferred = attr.value;
		else if (attr.type > KFD_IOCTL_SVM_ATTR_GRANULARITY)
			return -EINVAL;
	}
	return 0;
}

static bool demand_is_gpu(uint32_t place)
{
	return place && place != SVM_UNDEFINED;
}

/*
 * Prefetching moves memory at once. A preferred place lets the kernel move it later, without
 * another call, so it is charged as if it had been moved. If both name one GPU, that is charged
 * once; if they name two GPUs each is charged, since the memory may be at either.
 */
static struct demand demand_of_places(const struct kfd_ioctl_svm_args *args,
				      const struct places *places, uint32_t page_bytes)
{
	struct demand demand = {.object = args->start_addr, .by_address = true, .descriptor = -1};
	const uint32_t place[DEMAND_PARTS] = {places->prefetch, places->preferred};
	uint64_t bytes;

	if (!demand_to_pages(args->size, page_bytes, &bytes) ||
	    args->start_addr + bytes < args->start_addr)
		return demand_refuse(-ENOMEM);
	demand.length = bytes;
	demand.stays = places->prefetch == SVM_UNDEFINED;
	for (int i = 0; i < DEMAND_PARTS; i++)
		if (demand_is_gpu(place[i]) && !(i && place[i] == place[0]))
			demand.parts[demand.count++] = (struct demand_part){
				.gpu_id = place[i], .memory = DEMAND_VRAM, .bytes = bytes};
	if (demand.count)
		demand.act = DEMAND_TAKE;
	else if (places->prefetch == 0)
		demand.act = DEMAND_GIVE;
	else
		return demand_nothing();
	return demand;
}

/*
 * The kernel reads as many attributes as the block says, even beyond the size of the request. Those
 * beyond are not in our copy, so such a block is refused.
 */
static struct demand demand_of_svm(const void *block, size_t copied, uint32_t page_bytes)
{
	const size_t head = offsetof(struct kfd_ioctl_svm_args, attrs);
	struct places places = {SVM_UNDEFINED, SVM_UNDEFINED};
	struct kfd_ioctl_svm_args args = {0};

	memcpy(&args, block, min_u64(copied, head));
	if (args.op == KFD_IOCTL_SVM_OP_GET_ATTR && !args.nattr)
		return demand_nothing();
	if (copied < head || args.nattr > (copied - head) / sizeof(args.attrs[0]) ||
	    args.op > KFD_IOCTL_SVM_OP_GET_ATTR)
		return demand_refuse(-EINVAL);
	if (args.op == KFD_IOCTL_SVM_OP_GET_ATTR)
		return demand_nothing();
	if (demand_find_places((const char *)block + head, args.nattr, &places) < 0)
		return demand_refuse(-EINVAL);
	return demand_of_places(&args, &places, page_bytes);
}

/* How much of a block is looked at: no more than the request says, whatever `copied` is. */
static size_t demand_bound_copy(unsigned long request, const void *block, size_t copied)
{
	size_t most = _IOC_SIZE(request);

	return !block ? 0 : min_u64(copied, most);
}

/* A copy of the block as the kernel sees it: `name`, all zero beyond what there is. */
#define BLOCK(type, name)             \
	struct type name = {0};       \
	memcpy(&name, block, min_u64(copied, sizeof(name)))

struct demand demand_of_kfd(unsigned long request, const void *block, size_t copied,
			    uint32_t page_bytes)
{
	const struct kfd_ioctl *row = kfd_ioctl_find(request);

	copied = demand_bound_copy(request, block, copied);
	block = copied ? block : "";
	if (kfd_ioctl_decide(request) == KFD_REFUSE)
		return demand_refuse(-ENOTTY);
	switch (row ? row->nr : 0) {
	case KFD_NR_ALLOC_MEMORY_OF_GPU: {
		BLOCK(kfd_ioctl_alloc_memory_of_gpu_args, args);
		return demand_of_alloc(&args, page_bytes);
	}
	case KFD_NR_FREE_MEMORY_OF_GPU: {
		BLOCK(kfd_ioctl_free_memory_of_gpu_args, args);
		return demand_only_act(DEMAND_GIVE, args.handle);
	}
	case KFD_NR_IMPORT_DMABUF: {
		BLOCK(kfd_ioctl_import_dmabuf_args, args);
		return demand_of_import((int32_t)args.dmabuf_fd);
	}
	case KFD_NR_IPC_IMPORT_HANDLE:
		return demand_of_import(-1);
	case KFD_NR_SVM:
		return demand_of_svm(block, copied, page_bytes);
	case KFD_NR_SET_XNACK_MODE: {
		/*
		 * With XNACK on, memory moves to the GPU that touches it, and no ioctl tells.
		 * Refused as on GPUs that cannot do it, which programs have to expect.
		 */
		BLOCK(kfd_ioctl_set_xnack_mode_args, args);
		return args.xnack_enabled > 0 ? demand_refuse(-EPERM) : demand_nothing();
	}
	case KFD_NR_CRIU_OP: {
		/* CRIU's blocks have memory in arrays, which are not read here yet. */
		BLOCK(kfd_ioctl_criu_args, args);
		return args.op == KFD_CRIU_OP_RESTORE ? demand_refuse(-EACCES) : demand_nothing();
	}
	}
	return demand_nothing(); /* scratch, too: its memory is allocated and then pointed to */
}

/* Of the machine, for the GPU or not: the driver allocates both. */
#define DOMAINS_OF_HOST (AMDGPU_GEM_DOMAIN_CPU | AMDGPU_GEM_DOMAIN_GTT)

/*
 * The domains on the chip (GDS, GWS, OA) are not memory. A domain that is not known here may be, so
 * it counts as VRAM. Memory of several domains may be in any of them.
 */
static struct demand demand_of_create(const struct drm_amdgpu_gem_create_in *args,
				      uint32_t page_bytes, uint32_t gpu_id)
{
	const uint64_t chip = AMDGPU_GEM_DOMAIN_GDS | AMDGPU_GEM_DOMAIN_GWS | AMDGPU_GEM_DOMAIN_OA;
	bool host = args->domains & DOMAINS_OF_HOST || !args->domains;
	struct demand demand = demand_nothing();

	if (args->domains & ~(chip | DOMAINS_OF_HOST))
		demand = demand_take_part(DEMAND_VRAM, gpu_id, args->bo_size, page_bytes);
	else if (host)
		return demand_take_part(DEMAND_GTT, gpu_id, args->bo_size, page_bytes);
	if (host && demand.act == DEMAND_TAKE) {
		demand.parts[demand.count] = demand.parts[0];
		demand.parts[demand.count++].memory = DEMAND_GTT;
	}
	return demand;
}

/*
 * An object that may move is charged at the new place before it does. The former charge stays: the kernel
 * moves the object when it likes, or never.
 */
static struct demand demand_of_op(const struct drm_amdgpu_gem_op *args)
{
	struct demand demand = demand_only_act(DEMAND_PLACE, args->handle);

	if (args->op != AMDGPU_GEM_OP_SET_PLACEMENT)
		return demand_nothing();
	if (args->value & AMDGPU_GEM_DOMAIN_VRAM)
		demand.parts[demand.count++].memory = DEMAND_VRAM;
	if (args->value & DOMAINS_OF_HOST)
		demand.parts[demand.count++].memory = DEMAND_GTT;
	return demand;
}

struct demand demand_of_drm(unsigned long request, const void *block, size_t copied,
			    uint32_t page_bytes, uint32_t gpu_id)
{
	/* DRM reads the block of a request alone that says so; KFD does not look at that. */
	copied = _IOC_DIR(request) & _IOC_WRITE ? demand_bound_copy(request, block, copied) : 0;
	block = copied ? block : "";
	if (drm_ioctl_decide(request) == KFD_REFUSE)
		return demand_refuse(-EINVAL);
	switch (_IOC_TYPE(request) == DRM_IOCTL_BASE ? _IOC_NR(request) : 0) {
	case DRM_NR_AMDGPU_GEM_CREATE: {
		BLOCK(drm_amdgpu_gem_create_in, args);
		return demand_of_create(&args, page_bytes, gpu_id);
	}
	case DRM_NR_AMDGPU_GEM_USERPTR: {
		BLOCK(drm_amdgpu_gem_userptr, args);
		return demand_take_part(DEMAND_USERPTR, gpu_id, args.size, page_bytes);
	}
	case DRM_NR_AMDGPU_GEM_OP: {
		BLOCK(drm_amdgpu_gem_op, args);
		return demand_of_op(&args);
	}
	case DRM_NR_GEM_CLOSE: {
		BLOCK(drm_gem_close, args);
		return demand_only_act(DEMAND_GIVE, args.handle);
	}
	case DRM_NR_PRIME_FD_TO_HANDLE: {
		BLOCK(drm_prime_handle, args);
		return demand_of_import(args.fd);
	}
	}
	return demand_nothing();
}
