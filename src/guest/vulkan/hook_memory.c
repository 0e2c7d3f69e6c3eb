/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vkAllocateMemory of a type on a heap of the device's own is charged to the tenant before the driver is
 * asked, and to each device of a group that is to have it. Buffers and images have no memory but what is
 * bound to them.
 *
 *	charge_reserve ── the driver ──┬─ gave it ──► commit, and an object that carries the charge
 *	                               └─ refused ──► cancel
 */
#include <errno.h>

#include "base/hash.h"
#include "base/number.h"
#include "guest/core/object.h"
#include "guest/vulkan/hook.h"
#include "guest/vulkan/memory.h"

/* The least that the driver takes of a device: a large page of the GPU. */
#define PAGE_BYTES (UINT64_C(64) << 10)

static uint64_t memory_key(VkDevice device, VkDeviceMemory memory)
{
	return hash_word(hash_word(HASH_SEED, (uintptr_t)device), (uintptr_t)memory);
}

/* The devices of a group that are to have the memory, a bit each; 0: it is no device's. */
static uint32_t memory_devices(const struct known *known, const VkMemoryAllocateInfo *info)
{
	const struct known *first = known->device.physical[0];
	const VkMemoryAllocateFlagsInfo *flags;
	uint32_t type = UINT32_C(1) << (info->memoryTypeIndex % VK_MAX_MEMORY_TYPES);
	uint32_t all = (uint32_t)((UINT64_C(1) << known->device.n) - 1);

	if (!first->physical.charged || !(first->physical.local_types & type))
		return 0;
	flags = vulkan_chained(info->pNext, VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO);
	if (flags && flags->flags & VK_MEMORY_ALLOCATE_DEVICE_MASK_BIT)
		return flags->deviceMask & all;
	return first->physical.multi_types & type ? all : 1;
}

#define EACH_DEVICE(i, mask) \
	for (uint32_t i = 0; i < VK_MAX_DEVICE_GROUP_SIZE; i++) if ((mask) >> i & 1)

/* Reserves on each; on none of them if one has no room. */
static bool memory_reserve(struct guest *guest, const struct known *known, uint32_t mask, uint64_t bytes,
			   struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	EACH_DEVICE (i, mask) {
		if (!uuid_charge_reserve(guest, &known->device.physical[i]->physical.device, bytes,
					 &charge[i]))
			continue;
		EACH_DEVICE (k, mask & ((UINT32_C(1) << i) - 1))
			uuid_charge_cancel(&charge[k]);
		return false;
	}
	return true;
}

static bool memory_put(struct guest *guest, VkDevice device, VkDeviceMemory memory, uint32_t mask,
		       uint64_t bytes, uint64_t size)
{
	struct object object = {.kind = OBJECT_VULKAN, .key = memory_key(device, memory),
				.category = CAT_ARRAY, .device = -1, .bytes = bytes, .size = size,
				.vulkan = {.device = (uintptr_t)device, .mask = mask}};

	return !object_put(guest->objects, &object);
}

/* Of memory that is charged, on devices of a mask. */
static VkResult memory_allocate(struct guest *guest, struct known *known, VkDevice device,
				const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
				uint32_t mask, VkDeviceMemory *ret)
{
	struct uuid_charge charge[VK_MAX_DEVICE_GROUP_SIZE];
	uint64_t bytes = round_up(info->allocationSize, PAGE_BYTES);
	VkResult r;

	if (guest_mode(guest) != GUEST_LIMITED || bytes < info->allocationSize ||
	    !memory_reserve(guest, known, mask, bytes, charge))
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	r = VULKAN_ASK(&known->driver, vkAllocateMemory, (device, info, allocator, ret));
	if (!r && !memory_put(guest, device, *ret, mask, bytes, info->allocationSize)) {
		VULKAN_DO(&known->driver, vkFreeMemory, (device, *ret, allocator));
		r = VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	EACH_DEVICE (i, mask) {
		if (r)
			uuid_charge_cancel(&charge[i]);
		else
			uuid_charge_commit(&charge[i]);
	}
	return r;
}

VkResult hook_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *pAllocateInfo,
			       const VkAllocationCallbacks *pAllocator, VkDeviceMemory *pMemory)
{
	struct known *known = known_find(device);
	uint32_t mask;

	if (!known)
		return VK_ERROR_INITIALIZATION_FAILED;
	mask = memory_devices(known, pAllocateInfo);
	return mask ? memory_allocate(guest_get(), known, device, pAllocateInfo, pAllocator, mask, pMemory)
		    : VULKAN_ASK(&known->driver, vkAllocateMemory,
				 (device, pAllocateInfo, pAllocator, pMemory));
}

static void memory_begin_release(struct guest *guest, const struct known *known, uint32_t mask,
				 struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	EACH_DEVICE (i, mask)
		uuid_charge_release_begin(guest, &known->device.physical[i]->physical.device, &charge[i]);
}

static void memory_end_release(uint32_t mask, uint64_t bytes,
			       struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	EACH_DEVICE (i, mask)
		uuid_charge_release_end(&charge[i], bytes);
}

void hook_vkFreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *pAllocator)
{
	struct known *known = known_find(device);
	struct uuid_charge charge[VK_MAX_DEVICE_GROUP_SIZE];
	struct guest *guest = guest_get();
	struct object object;

	if (!known)
		return;
	if (!memory || guest_mode(guest) != GUEST_LIMITED ||
	    !object_take(guest->objects, OBJECT_VULKAN, memory_key(device, memory), &object)) {
		VULKAN_DO(&known->driver, vkFreeMemory, (device, memory, pAllocator));
		return;
	}
	memory_begin_release(guest, known, object.vulkan.mask, charge);
	VULKAN_DO(&known->driver, vkFreeMemory, (device, memory, pAllocator));
	memory_end_release(object.vulkan.mask, object.bytes, charge);
}

static bool memory_is_of(const struct object *object, void *device)
{
	return object->kind == OBJECT_VULKAN && object->vulkan.device == (uintptr_t)device;
}

void vulkan_memory_gone(const struct known *known, VkDevice device)
{
	struct uuid_charge charge[VK_MAX_DEVICE_GROUP_SIZE];
	struct guest *guest = guest_get();
	struct object *object;

	if (guest_mode(guest) != GUEST_LIMITED)
		return;
	OBJECT_SWEEP (object, guest->objects, memory_is_of, device) {
		memory_begin_release(guest, known, object->vulkan.mask, charge);
		memory_end_release(object->vulkan.mask, object->bytes, charge);
	}
}
