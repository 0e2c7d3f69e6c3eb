/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Vulkan driver of another vendor's: its memory is taken by calls that are accounted where they go, as
 * AMD's drivers take it from the kernel. Here these calls are CUDA's, which the test can count.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan.h>

#define VENDOR 0x1002

__attribute__((visibility("default"))) PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance,
										    const char *name);

typedef int allocate_fn(unsigned long long *at, size_t bytes);
typedef int free_fn(unsigned long long at);

/* Handles of objects: the first word of each is the loader's. */
static uintptr_t instance_object[2], physical_object[2], device_object[2];

static void *other_kernel(const char *name)
{
	return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
}

static VkResult other_vkCreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *a,
				       VkInstance *ret)
{
	*ret = (VkInstance)instance_object;
	return VK_SUCCESS;
}

static void other_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *a)
{
}

static VkResult other_vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *n, VkPhysicalDevice *ret)
{
	if (ret && *n)
		ret[0] = (VkPhysicalDevice)physical_object;
	*n = 1;
	return VK_SUCCESS;
}

static void other_vkGetPhysicalDeviceProperties(VkPhysicalDevice physical, VkPhysicalDeviceProperties *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->vendorID = VENDOR;
}

static void other_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice physical,
						      VkPhysicalDeviceMemoryProperties *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->memoryHeapCount = ret->memoryTypeCount = 1;
	ret->memoryHeaps[0] = (VkMemoryHeap){1u << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
}

static VkResult other_vkCreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo *info,
				     const VkAllocationCallbacks *a, VkDevice *ret)
{
	void *context;

	if (((int (*)(unsigned int))other_kernel("cuInit"))(0) ||
	    ((int (*)(void **, unsigned int, int))other_kernel("cuCtxCreate_v2"))(&context, 0, 0))
		return VK_ERROR_INITIALIZATION_FAILED;
	*ret = (VkDevice)device_object;
	return VK_SUCCESS;
}

static void other_vkDestroyDevice(VkDevice device, const VkAllocationCallbacks *a)
{
}

static VkResult other_vkAllocateMemory(VkDevice device, const VkMemoryAllocateInfo *info,
				       const VkAllocationCallbacks *a, VkDeviceMemory *ret)
{
	unsigned long long at;

	if (((allocate_fn *)other_kernel("cuMemAlloc_v2"))(&at, info->allocationSize))
		return VK_ERROR_OUT_OF_DEVICE_MEMORY;
	*ret = (VkDeviceMemory)at;
	return VK_SUCCESS;
}

static void other_vkFreeMemory(VkDevice device, VkDeviceMemory memory, const VkAllocationCallbacks *a)
{
	((free_fn *)other_kernel("cuMemFree_v2"))((unsigned long long)memory);
}

static PFN_vkVoidFunction other_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	return vk_icdGetInstanceProcAddr((VkInstance)instance_object, name);
}

PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
#define FUNCTION(own)            \
	if (!strcmp(name, #own)) \
		return (PFN_vkVoidFunction)other_##own;
	FUNCTION(vkCreateInstance)
	FUNCTION(vkDestroyInstance)
	FUNCTION(vkEnumeratePhysicalDevices)
	FUNCTION(vkGetPhysicalDeviceProperties)
	FUNCTION(vkGetPhysicalDeviceMemoryProperties)
	FUNCTION(vkCreateDevice)
	FUNCTION(vkDestroyDevice)
	FUNCTION(vkGetDeviceProcAddr)
	FUNCTION(vkAllocateMemory)
	FUNCTION(vkFreeMemory)
	return NULL;
}
