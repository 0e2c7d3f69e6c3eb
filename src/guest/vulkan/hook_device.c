/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices as a tenant has them: NVIDIA's that it was not given are left out of what a program finds, and
 * the others' memory is known by their UUIDs, which are CUDA's. Other vendors' devices are not accounted
 * here: AMD's driver takes memory from the kernel, where it is seen (guest/amd), and a CPU is no GPU.
 */
#include <string.h>

#include <sys/mman.h>

#include "base/number.h"
#include "base/pages.h"
#include "guest/core/object.h"
#include "guest/vulkan/hook.h"
#include "guest/vulkan/memory.h"

#define VENDOR_NVIDIA 0x10de
/* As many as a machine may have. */
#define PHYSICAL_DEVICES 64

/* False: the driver has no way to tell. */
static bool device_ask_uuid(const struct vulkan_driver *driver, VkPhysicalDevice device, uint8_t uuid[16])
{
	VkPhysicalDeviceIDProperties id = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
	VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
					   .pNext = &id};

	if (driver->vkGetPhysicalDeviceProperties2)
		VULKAN_DO(driver, vkGetPhysicalDeviceProperties2, (device, &all));
	else if (driver->vkGetPhysicalDeviceProperties2KHR)
		VULKAN_DO(driver, vkGetPhysicalDeviceProperties2KHR, (device, &all));
	else
		return false;
	memcpy(uuid, id.deviceUUID, sizeof(id.deviceUUID));
	return true;
}

static void device_learn_memory(const struct vulkan_driver *driver, VkPhysicalDevice device,
				struct known *known)
{
	VkPhysicalDeviceMemoryProperties memory;

	VULKAN_DO(driver, vkGetPhysicalDeviceMemoryProperties, (device, &memory));
	for (uint32_t i = 0; i < min_u64(memory.memoryTypeCount, VK_MAX_MEMORY_TYPES); i++) {
		const VkMemoryHeap *heap = &memory.memoryHeaps[memory.memoryTypes[i].heapIndex % VK_MAX_MEMORY_HEAPS];

		if (!(heap->flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT))
			continue;
		known->physical.local_types |= 1u << i;
		if (heap->flags & VK_MEMORY_HEAP_MULTI_INSTANCE_BIT)
			known->physical.multi_types |= 1u << i;
		known->physical.device.total_bytes =
			max_u64(known->physical.device.total_bytes, heap->size);
	}
}

/* Nobody has a device that has no name. */
static void device_learn(const struct vulkan_driver *driver, VkPhysicalDevice device, struct known *known)
{
	VkPhysicalDeviceProperties properties;

	VULKAN_DO(driver, vkGetPhysicalDeviceProperties, (device, &properties));
	known->physical.charged = properties.vendorID == VENDOR_NVIDIA;
	if (!known->physical.charged || !device_ask_uuid(driver, device, known->physical.device.uuid) ||
	    !memcmp(known->physical.device.uuid, (uint8_t[VK_UUID_SIZE]){0}, VK_UUID_SIZE))
		return;
	device_learn_memory(driver, device, known);
	known->physical.ours = uuid_device_open(guest_get(), &known->physical.device);
}

/* True: the program is to find it. */
static bool device_meet(struct known *instance, VkPhysicalDevice device)
{
	struct known *known = known_find(device);

	if (!known || known->instance != instance) {
		known = known_begin(device);
		if (!known)
			return false;
		known->kind = KNOWN_PHYSICAL;
		known->instance = instance;
		device_learn(&instance->driver, device, known);
		known_publish(known, device);
	}
	return !known->physical.charged || known->physical.ours;
}

/* Answers a question for a list, as Vulkan has them: `has` of `size` bytes each. */
static VkResult device_list(uint32_t n, const void *has, size_t size, uint32_t *count, void *ret)
{
	uint32_t room = *count;

	*count = ret ? (uint32_t)min_u64(n, room) : n;
	if (ret)
		memcpy(ret, has, *count * size);
	return ret && room < n ? VK_INCOMPLETE : VK_SUCCESS;
}

VkResult hook_vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *pPhysicalDeviceCount,
					 VkPhysicalDevice *pPhysicalDevices)
{
	struct known *known = known_find(instance);
	VkPhysicalDevice all[PHYSICAL_DEVICES];
	uint32_t count = PHYSICAL_DEVICES, n = 0;
	VkResult r;

	if (!known)
		return VK_ERROR_INITIALIZATION_FAILED;
	r = VULKAN_ASK(&known->driver, vkEnumeratePhysicalDevices, (instance, &count, all));
	if (r && r != VK_INCOMPLETE)
		return r;
	for (uint32_t i = 0; i < count; i++)
		if (device_meet(known, all[i]))
			all[n++] = all[i];
	return device_list(n, all, sizeof(all[0]), pPhysicalDeviceCount, pPhysicalDevices);
}

typedef VkResult device_groups_fn(VkInstance instance, uint32_t *count,
				  VkPhysicalDeviceGroupProperties *groups);

/* Without those that the program is not to find. */
static void device_trim_group(struct known *instance, VkPhysicalDeviceGroupProperties *group)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < min_u64(group->physicalDeviceCount, VK_MAX_DEVICE_GROUP_SIZE); i++)
		if (device_meet(instance, group->physicalDevices[i]))
			group->physicalDevices[n++] = group->physicalDevices[i];
	group->physicalDeviceCount = n;
}

/* The caller's elements keep what they are hung on. */
static VkResult device_list_groups(uint32_t n, const VkPhysicalDeviceGroupProperties *has, uint32_t *count,
				   VkPhysicalDeviceGroupProperties *ret)
{
	uint32_t room = *count;

	*count = ret ? (uint32_t)min_u64(n, room) : n;
	for (uint32_t i = 0; ret && i < *count; i++) {
		ret[i].physicalDeviceCount = has[i].physicalDeviceCount;
		memcpy(ret[i].physicalDevices, has[i].physicalDevices, sizeof(has[i].physicalDevices));
		ret[i].subsetAllocation = has[i].subsetAllocation;
	}
	return ret && room < n ? VK_INCOMPLETE : VK_SUCCESS;
}

static VkResult device_groups(VkInstance instance, device_groups_fn *real, uint32_t *count,
			      VkPhysicalDeviceGroupProperties *ret)
{
	struct known *known = known_find(instance);
	VkPhysicalDeviceGroupProperties *all = pages_map(PHYSICAL_DEVICES * sizeof(*all));
	uint32_t has = PHYSICAL_DEVICES, n = 0;
	VkResult r;

	if (!all)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	for (int i = 0; i < PHYSICAL_DEVICES; i++)
		all[i] = (VkPhysicalDeviceGroupProperties){
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES};
	lock_rank_none("vkEnumeratePhysicalDeviceGroups");
	guest_door_depth++;
	r = real(instance, &has, all);
	guest_door_depth--;
	for (uint32_t i = 0; i < has && (!r || r == VK_INCOMPLETE); i++) {
		device_trim_group(known, &all[i]);
		if (all[i].physicalDeviceCount)
			all[n++] = all[i];
	}
	if (!r || r == VK_INCOMPLETE)
		r = device_list_groups(n, all, count, ret);
	munmap(all, PHYSICAL_DEVICES * sizeof(*all));
	return r;
}

#define GROUPS(name)                                                                         \
	VkResult hook_##name(VkInstance instance, uint32_t *pPhysicalDeviceGroupCount,       \
			     VkPhysicalDeviceGroupProperties *pPhysicalDeviceGroupProperties) \
	{                                                                                    \
		struct known *known = known_find(instance);                                  \
                                                                                             \
		return known ? device_groups(instance, known->driver.name,                   \
					     pPhysicalDeviceGroupCount,                      \
					     pPhysicalDeviceGroupProperties)                 \
			     : VK_ERROR_INITIALIZATION_FAILED;                               \
	}

GROUPS(vkEnumeratePhysicalDeviceGroups)
GROUPS(vkEnumeratePhysicalDeviceGroupsKHR)

/* --- Logical devices -------------------------------------------------------------------------- */

static void device_fill(struct vulkan_driver *driver, const struct vulkan_driver *instance, VkDevice device)
{
#define VULKAN_NONE(name)
#define VULKAN_INSTANCE(name)
#define VULKAN_PHYSICAL(name)
#define VULKAN_DEVICE(name) \
	driver->name = (__typeof__(driver->name))VULKAN_ASK(instance, vkGetDeviceProcAddr, (device, #name));
#define VULKAN_HOOK(object, result, name, params) VULKAN_##object(name)
#define VULKAN_CALL(object, result, name, params) VULKAN_##object(name)
#include "vulkan/vulkan_api.def"
	driver->vkGetDeviceProcAddr = instance->vkGetDeviceProcAddr;
}

/* Which devices a logical one is made of. False: one of them was never found. */
static bool device_find_members(struct known *known, VkPhysicalDevice physical,
				const VkDeviceGroupDeviceCreateInfo *group)
{
	bool many = group && group->physicalDeviceCount;

	known->device.n = many ? (uint32_t)min_u64(group->physicalDeviceCount, VK_MAX_DEVICE_GROUP_SIZE) : 1;
	for (uint32_t i = 0; i < known->device.n; i++) {
		struct known *member = known_find(many ? group->pPhysicalDevices[i] : physical);

		if (!member || (member->physical.charged && !member->physical.ours))
			return false;
		known->device.physical[i] = member;
	}
	return true;
}

/* The driver has taken memory of its own for it, or given that back. */
static void device_changed(const struct known *known)
{
	for (uint32_t i = 0; i < known->device.n; i++)
		if (known->device.physical[i]->physical.charged)
			uuid_charge_stale(guest_get(), &known->device.physical[i]->physical.device);
}

VkResult hook_vkCreateDevice(VkPhysicalDevice physicalDevice, const VkDeviceCreateInfo *pCreateInfo,
			     const VkAllocationCallbacks *pAllocator, VkDevice *pDevice)
{
	struct known *physical = known_find(physicalDevice), *known;
	struct known made = {.kind = KNOWN_DEVICE};
	const VkBaseOutStructure *info = (const void *)pCreateInfo;
	VkResult r;

	if (!physical ||
	    !device_find_members(&made, physicalDevice,
				 info ? vulkan_chained(info->pNext,
						       VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO)
				      : NULL))
		return VK_ERROR_INITIALIZATION_FAILED;
	r = VULKAN_ASK(&physical->instance->driver, vkCreateDevice,
		       (physicalDevice, pCreateInfo, pAllocator, pDevice));
	if (r)
		return r;
	device_fill(&made.driver, &physical->instance->driver, *pDevice);
	known = known_begin(*pDevice);
	if (!known) {
		VULKAN_DO(&made.driver, vkDestroyDevice, (*pDevice, pAllocator));
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	known->kind = KNOWN_DEVICE;
	known->instance = physical->instance;
	known->driver = made.driver;
	known->device = made.device;
	known->device.serial = object_generation();
	known_publish(known, *pDevice);
	device_changed(known);
	return VK_SUCCESS;
}

void hook_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *pAllocator)
{
	struct known *known = known_find(device);
	struct known was;

	if (!known)
		return; /* NULL, which Vulkan allows */
	memcpy(&was, known, sizeof(was));
	known_forget(known);
	VULKAN_DO(&was.driver, vkDestroyDevice, (device, pAllocator));
	vulkan_memory_gone(&was);
	device_changed(&was);
}
