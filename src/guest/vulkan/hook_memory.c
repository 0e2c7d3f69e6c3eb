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
#include "guest/lend/entry.h"
#include "guest/lend/stamp.h"
#include "guest/vulkan/hook.h"
#include "guest/vulkan/memory.h"

/* The least that the driver takes of a device: a large page of the GPU. */
#define PAGE_BYTES (UINT64_C(64) << 10)

static uint64_t memory_key(const struct known *known, VkDeviceMemory memory)
{
	return hash_word(hash_word(HASH_SEED, known->device.serial), (uintptr_t)memory);
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
		return flags->deviceMask & all ? flags->deviceMask & all : all;
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

/* The one device of a mask; NULL: there are several, and what is shared of them is charged alone. */
static struct uuid_device *memory_device(const struct known *known, uint32_t mask)
{
	return mask & (mask - 1) ? NULL : &known->device.physical[__builtin_ctz(mask)]->physical.device;
}

/*
 * Memory that another process of the tenant has, or this one, and that is charged there: no charge is
 * needed, and the object holds it. False: it is memory like any other.
 */
static bool memory_join(struct guest *guest, const struct known *known, const VkMemoryAllocateInfo *info,
			struct object *object)
{
	struct uuid_device *device = memory_device(known, object->vulkan.mask);
	const VkImportMemoryFdInfoKHR *import =
		vulkan_chained(info->pNext, VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR);
	struct shared_key key;
	int r;

	if (!device || !import || guest_by_driver(guest) ||
	    import->handleType != VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT ||
	    !stamp_read(import->fd, &object->vulkan.stamp, &key))
		return false;
	entry_hold(guest, key, object);
	r = uuid_charge_share(guest, device, key, object->bytes, false);
	if (r && r != -EEXIST) {
		entry_unhold(guest, object);
		return false;
	}
	object->flags |= OBJECT_IMPORTED;
	object->bytes = 0;
	return true;
}

/* Before the driver is asked: the object says how it is charged. */
static bool memory_begin(struct guest *guest, const struct known *known, const VkMemoryAllocateInfo *info,
			 struct object *object,
			 struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	return guest_mode(guest) == GUEST_LIMITED && object->bytes >= object->size &&
	       (memory_join(guest, known, info, object) ||
		memory_reserve(guest, known, object->vulkan.mask, object->bytes, charge));
}

static void memory_end(struct guest *guest, const struct object *object, bool given,
		       struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	if (object->flags & OBJECT_IMPORTED) {
		if (!given)
			entry_leave(guest, object);
		return;
	}
	EACH_DEVICE (i, object->vulkan.mask) {
		if (given)
			uuid_charge_commit(&charge[i]);
		else
			uuid_charge_cancel(&charge[i]);
	}
}

/* Of memory that is charged, on devices of a mask. */
static VkResult memory_allocate(struct guest *guest, struct known *known, VkDevice device,
				const VkMemoryAllocateInfo *info, const VkAllocationCallbacks *allocator,
				uint32_t mask, VkDeviceMemory *ret)
{
	struct uuid_charge charge[VK_MAX_DEVICE_GROUP_SIZE];
	struct object object = {.kind = OBJECT_VULKAN, .category = CAT_ARRAY, .device = -1,
				.size = info->allocationSize,
				.bytes = round_up(info->allocationSize, PAGE_BYTES),
				.vulkan = {.device = known->device.serial, .mask = mask}};
	VkResult r;

	if (!memory_begin(guest, known, info, &object, charge))
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	r = VULKAN_ASK(&known->driver, vkAllocateMemory, (device, info, allocator, ret));
	object.key = r ? 0 : memory_key(known, *ret);
	if (!r && object_put(guest->objects, &object)) {
		VULKAN_DO(&known->driver, vkFreeMemory, (device, *ret, allocator));
		r = VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	memory_end(guest, &object, !r, charge);
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

/* --- It goes to other processes, or to CUDA ----------------------------------------------------- */

static bool memory_number(struct object *object, void *arg)
{
	struct object *ret = arg;

	if (!object->vulkan.number)
		object->vulkan.number = ret->vulkan.number;
	*ret = *object;
	return true;
}

/* Of threads that export it at once, the first joins for the object. */
static bool memory_mark(struct object *object, void *arg)
{
	struct object *with = arg;
	bool first = !(object->flags & OBJECT_SHARED);

	object->flags |= OBJECT_SHARED;
	if (first)
		object->shared = with->shared;
	else
		with->flags |= OBJECT_SHARED;
	return true;
}

static bool memory_unmark(struct object *object, void *arg)
{
	object->flags &= (uint16_t)~OBJECT_SHARED;
	return true;
}

/*
 * A descriptor of it was given. Never fails that: without an entry an importer is charged a second
 * time. Memory that was itself imported is known by the stamp that its descriptor has.
 */
static void memory_export(struct guest *guest, const struct known *known, uint64_t key, int fd)
{
	struct object object = {.vulkan = {.number = stamp_number(guest)}};
	struct uuid_device *device;
	struct object with = {.kind = OBJECT_NONE};

	if (!object_change(guest->objects, OBJECT_VULKAN, key, false, memory_number, &object))
		return;
	if (object.flags & OBJECT_IMPORTED) {
		stamp_put_as(fd, &object.vulkan.stamp);
		return;
	}
	if (!(device = memory_device(known, object.vulkan.mask)) ||
	    !stamp_put(guest, fd, object.vulkan.number, &with.shared) ||
	    !object_change(guest->objects, OBJECT_VULKAN, key, false, memory_mark, &with) ||
	    with.flags & OBJECT_SHARED)
		return;
	entry_hold(guest, with.shared, &object);
	if (uuid_charge_share(guest, device, with.shared, object.bytes, true)) {
		object_change(guest->objects, OBJECT_VULKAN, key, false, memory_unmark, NULL);
		entry_unhold(guest, &object);
	}
}

VkResult hook_vkGetMemoryFdKHR(VkDevice device, const VkMemoryGetFdInfoKHR *pGetFdInfo, int *pFd)
{
	struct known *known = known_find(device);
	struct guest *guest = guest_get();
	VkResult r;

	if (!known)
		return VK_ERROR_INITIALIZATION_FAILED;
	if (!known->driver.vkGetMemoryFdKHR)
		return VK_ERROR_EXTENSION_NOT_PRESENT;
	r = VULKAN_ASK(&known->driver, vkGetMemoryFdKHR, (device, pGetFdInfo, pFd));
	if (!r && guest_mode(guest) == GUEST_LIMITED && !guest_by_driver(guest) &&
	    pGetFdInfo->handleType == VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT)
		memory_export(guest, known, memory_key(known, pGetFdInfo->memory), *pFd);
	return r;
}

/* --- It goes back ------------------------------------------------------------------------------- */

static void memory_begin_release(struct guest *guest, const struct known *known, uint32_t mask,
				 struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	EACH_DEVICE (i, mask)
		uuid_charge_release_begin(guest, &known->device.physical[i]->physical.device, &charge[i]);
}

/* After the driver let go of it. */
static void memory_end_release(struct guest *guest, const struct object *object,
			       struct uuid_charge charge[static VK_MAX_DEVICE_GROUP_SIZE])
{
	entry_leave(guest, object);
	EACH_DEVICE (i, object->vulkan.mask)
		uuid_charge_release_end(&charge[i], object->bytes);
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
	    !object_take(guest->objects, OBJECT_VULKAN, memory_key(known, memory), &object)) {
		VULKAN_DO(&known->driver, vkFreeMemory, (device, memory, pAllocator));
		return;
	}
	memory_begin_release(guest, known, object.vulkan.mask, charge);
	VULKAN_DO(&known->driver, vkFreeMemory, (device, memory, pAllocator));
	memory_end_release(guest, &object, charge);
}

static bool memory_is_of(const struct object *object, void *serial)
{
	return object->kind == OBJECT_VULKAN && object->vulkan.device == *(const uint64_t *)serial;
}

void vulkan_memory_gone(const struct known *known)
{
	struct uuid_charge charge[VK_MAX_DEVICE_GROUP_SIZE];
	struct guest *guest = guest_get();
	uint64_t serial = known->device.serial;
	struct object *object;

	if (guest_mode(guest) != GUEST_LIMITED)
		return;
	OBJECT_SWEEP (object, guest->objects, memory_is_of, &serial) {
		memory_begin_release(guest, known, object->vulkan.mask, charge);
		memory_end_release(guest, object, charge);
	}
}
