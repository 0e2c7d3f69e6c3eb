/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A driver's library is asked for vk_icdGetInstanceProcAddr, and that for all else. Before there is an
 * instance no argument tells one driver from another, so each driver has functions of its own in front:
 * a slot. From then on the objects tell.
 */
#include "guest/vulkan/door.h"

#include "base/text.h"
#include "guest/core/door_slot.h"
#include "guest/vulkan/hook.h"

#define SLOTS(X)                                                                              \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) \
	X(16) X(17) X(18) X(19) X(20) X(21) X(22) X(23) X(24) X(25) X(26) X(27) X(28) X(29) X(30) X(31)
#define SLOT_COUNT 32

typedef PFN_vkVoidFunction door_fn(VkInstance instance, const char *name);

/* A driver's function by name, before there is an instance, and of an instance. */
static _Atomic(void *) door_instance[SLOT_COUNT];
static _Atomic(void *) door_physical[SLOT_COUNT];

/* Devices of an instance are told apart by this extension, which is part of Vulkan from 1.1 on. */
#define IDENTIFIES "VK_KHR_get_physical_device_properties2"
#define EXTENSIONS 256

static door_fn *door_real(_Atomic(void *) *slots, int slot)
{
	return (door_fn *)atomic_load_explicit(&slots[slot], memory_order_acquire);
}

static PFN_vkVoidFunction door_call(door_fn *real, VkInstance instance, const char *name)
{
	PFN_vkVoidFunction answer;

	lock_rank_none(name);
	guest_door_depth++;
	answer = real(instance, name);
	guest_door_depth--;
	return answer;
}

/* --- An instance ----------------------------------------------------------------------------- */

static bool door_has_extension(const VkInstanceCreateInfo *info, const char *name)
{
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		if (text_same(info->ppEnabledExtensionNames[i], name))
			return true;
	return false;
}

/* As the program asks for it, but with devices that can be told apart, if the driver can do that. */
static VkResult door_create(struct vulkan_driver *driver, const VkInstanceCreateInfo *info,
			    const VkAllocationCallbacks *allocator, VkInstance *ret)
{
	const char *names[EXTENSIONS];
	VkInstanceCreateInfo more;
	VkResult r;

	if (!info || info->enabledExtensionCount >= EXTENSIONS || door_has_extension(info, IDENTIFIES))
		return VULKAN_ASK(driver, vkCreateInstance, (info, allocator, ret));
	more = *info;
	for (uint32_t i = 0; i < info->enabledExtensionCount; i++)
		names[i] = info->ppEnabledExtensionNames[i];
	names[more.enabledExtensionCount++] = IDENTIFIES;
	more.ppEnabledExtensionNames = names;
	r = VULKAN_ASK(driver, vkCreateInstance, (&more, allocator, ret));
	return r == VK_ERROR_EXTENSION_NOT_PRESENT
		       ? VULKAN_ASK(driver, vkCreateInstance, (info, allocator, ret))
		       : r;
}

static void door_fill(struct vulkan_driver *driver, door_fn *real, VkInstance instance)
{
#define VULKAN_NONE(name)
#define VULKAN_INSTANCE(name) driver->name = (__typeof__(driver->name))door_call(real, instance, #name);
#define VULKAN_PHYSICAL(name) VULKAN_INSTANCE(name)
#define VULKAN_DEVICE(name)
#define VULKAN_HOOK(object, result, name, params) VULKAN_##object(name)
#define VULKAN_CALL(object, result, name, params) VULKAN_##object(name)
#include "vulkan/vulkan_api.def"
}

static VkResult door_create_instance(int slot, const VkInstanceCreateInfo *info,
				     const VkAllocationCallbacks *allocator, VkInstance *ret)
{
	door_fn *real = door_real(door_instance, slot);
	struct vulkan_driver driver = {.vkGetInstanceProcAddr = real};
	struct known *known;
	VkResult r;

	driver.vkCreateInstance = (__typeof__(driver.vkCreateInstance))door_call(real, NULL, "vkCreateInstance");
	if (!driver.vkCreateInstance)
		return VK_ERROR_INITIALIZATION_FAILED;
	r = door_create(&driver, info, allocator, ret);
	if (r)
		return r;
	door_fill(&driver, real, *ret);
	/* A driver that stands before another one, and let that be found by itself: it is known. */
	if (driver.vkDestroyInstance == hook_vkDestroyInstance)
		return VK_SUCCESS;
	known = known_begin(*ret);
	if (!known) {
		VULKAN_DO(&driver, vkDestroyInstance, (*ret, allocator));
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	}
	known->kind = KNOWN_INSTANCE;
	known->instance = known;
	known->driver = driver;
	known_publish(known, *ret);
	return VK_SUCCESS;
}

void hook_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *pAllocator)
{
	struct known *known = known_find(instance);
	struct vulkan_driver driver;

	if (!known)
		return; /* NULL, which Vulkan allows */
	driver = known->driver;
	known_forget_instance(known);
	VULKAN_DO(&driver, vkDestroyInstance, (instance, pAllocator));
}

/* --- Functions by name ----------------------------------------------------------------------- */

PFN_vkVoidFunction vulkan_hook_for(const char *name, PFN_vkVoidFunction answer)
{
	if (!answer)
		return NULL;
	/* None that a driver gives for an object leads past the slot. */
#define VULKAN_NONE(row)           \
	if (text_same(name, #row)) \
		return NULL;
#define VULKAN_INSTANCE(row)                \
	if (text_same(name, #row))          \
		return (PFN_vkVoidFunction)hook_##row;
#define VULKAN_PHYSICAL(row) VULKAN_INSTANCE(row)
#define VULKAN_DEVICE(row)   VULKAN_INSTANCE(row)
#define VULKAN_HOOK(object, result, name, params) VULKAN_##object(name)
#include "vulkan/vulkan_api.def"
	return answer;
}

static PFN_vkVoidFunction door_ask(int slot, VkInstance instance, const char *name);

#define SLOT(n)                                                                                    \
	static PFN_vkVoidFunction door_ask_##n(VkInstance instance, const char *name)              \
	{                                                                                          \
		return door_ask(n, instance, name);                                                \
	}                                                                                          \
	static PFN_vkVoidFunction door_ask_physical_##n(VkInstance instance, const char *name)     \
	{                                                                                          \
		return vulkan_hook_for(name, door_call(door_real(door_physical, n), instance, name)); \
	}                                                                                          \
	static VkResult door_create_##n(const VkInstanceCreateInfo *info,                          \
					const VkAllocationCallbacks *allocator, VkInstance *ret)   \
	{                                                                                          \
		return door_create_instance(n, info, allocator, ret);                              \
	}
SLOTS(SLOT)
#undef SLOT

#define SLOT(n) door_ask_##n,
static door_fn *const door_asks[SLOT_COUNT] = {SLOTS(SLOT)};
#undef SLOT
#define SLOT(n) door_ask_physical_##n,
static door_fn *const door_asks_physical[SLOT_COUNT] = {SLOTS(SLOT)};
#undef SLOT
#define SLOT(n) (PFN_vkVoidFunction)door_create_##n,
static const PFN_vkVoidFunction door_creates[SLOT_COUNT] = {SLOTS(SLOT)};
#undef SLOT

static PFN_vkVoidFunction door_ask(int slot, VkInstance instance, const char *name)
{
	PFN_vkVoidFunction answer = door_call(door_real(door_instance, slot), instance, name);

	if (!answer || !name)
		return answer;
	if (text_same(name, "vkGetInstanceProcAddr") || text_same(name, "vk_icdGetInstanceProcAddr"))
		return (PFN_vkVoidFunction)door_asks[slot];
	if (text_same(name, "vkCreateInstance"))
		return door_creates[slot];
	return vulkan_hook_for(name, answer);
}

PFN_vkVoidFunction hook_vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *pName)
{
	struct known *known = known_find(instance);

	if (!known || !known->driver.vk_icdGetPhysicalDeviceProcAddr)
		return NULL;
	return vulkan_hook_for(pName, VULKAN_ASK(&known->driver, vk_icdGetPhysicalDeviceProcAddr,
						 (instance, pName)));
}

PFN_vkVoidFunction hook_vkGetDeviceProcAddr(VkDevice device, const char *pName)
{
	struct known *known = known_find(device);

	return known ? vulkan_hook_for(pName,
				       VULKAN_ASK(&known->driver, vkGetDeviceProcAddr, (device, pName)))
		     : NULL;
}

/* --- The library's own two -------------------------------------------------------------------- */

static void *door_give(_Atomic(void *) *slots, door_fn *const *fronts, void *real)
{
	int slot = door_slot(slots, SLOT_COUNT, real);

	return slot < 0 ? NULL : (void *)fronts[slot];
}

void *vulkan_door(const char *name, void *real)
{
	if (guest_mode(guest_get()) == GUEST_INERT)
		return real;
	if (text_same(name, "vk_icdGetInstanceProcAddr"))
		return door_give(door_instance, door_asks, real);
	if (text_same(name, "vk_icdGetPhysicalDeviceProcAddr"))
		return door_give(door_physical, door_asks_physical, real);
	return real;
}
