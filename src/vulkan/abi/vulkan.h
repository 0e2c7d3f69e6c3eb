/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of Vulkan's binary interface that allot uses, on machines of 64 bits: handles, enumerations
 * and structures, under Khronos' names and with Khronos' values, so that a program's objects pass through
 * unchanged. Reference: Vulkan 1.3. tests/abi proves every size, offset and value here against
 * vulkan_core.h where that is installed.
 *
 * Functions are not declared here: the list of those that are hooked is vulkan_api.def.
 */
#ifndef ALLOT_ABI_VULKAN_H
#define ALLOT_ABI_VULKAN_H

#include <stddef.h>
#include <stdint.h>

#define VK_UUID_SIZE 16
#define VK_LUID_SIZE 8
#define VK_MAX_PHYSICAL_DEVICE_NAME_SIZE 256
#define VK_MAX_EXTENSION_NAME_SIZE 256
#define VK_MAX_MEMORY_TYPES 32
#define VK_MAX_MEMORY_HEAPS 16
#define VK_MAX_DEVICE_GROUP_SIZE 32

typedef uint32_t VkBool32;
typedef uint32_t VkFlags;
typedef uint64_t VkDeviceSize;
typedef struct VkInstance_T *VkInstance;
typedef struct VkPhysicalDevice_T *VkPhysicalDevice;
typedef struct VkDevice_T *VkDevice;
typedef struct VkDeviceMemory_T *VkDeviceMemory;
typedef struct VkBuffer_T *VkBuffer;
typedef struct VkImage_T *VkImage;
typedef struct VkAllocationCallbacks VkAllocationCallbacks;
typedef struct VkPhysicalDeviceFeatures VkPhysicalDeviceFeatures;
typedef void (*PFN_vkVoidFunction)(void);

typedef enum VkResult {
	VK_SUCCESS = 0,
	VK_INCOMPLETE = 5,
	VK_ERROR_OUT_OF_HOST_MEMORY = -1,
	VK_ERROR_OUT_OF_DEVICE_MEMORY = -2,
	VK_ERROR_INITIALIZATION_FAILED = -3,
	VK_ERROR_EXTENSION_NOT_PRESENT = -7,
} VkResult;

typedef enum VkStructureType {
	VK_STRUCTURE_TYPE_APPLICATION_INFO = 0,
	VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO = 1,
	VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO = 2,
	VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO = 3,
	VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO = 5,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2 = 1000059006,
	VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO = 1000060000,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES = 1000070000,
	VK_STRUCTURE_TYPE_DEVICE_GROUP_DEVICE_CREATE_INFO = 1000070001,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES = 1000071004,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES = 50,
	VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR = 1000074000,
	VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR = 1000074002,
	VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT = 1000178000,
	VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT = 1000237000,
} VkStructureType;

typedef enum VkPhysicalDeviceType {
	VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU = 2,
} VkPhysicalDeviceType;

typedef enum VkMemoryHeapFlagBits {
	VK_MEMORY_HEAP_DEVICE_LOCAL_BIT = 0x1,
	VK_MEMORY_HEAP_MULTI_INSTANCE_BIT = 0x2,
} VkMemoryHeapFlagBits;

typedef enum VkMemoryPropertyFlagBits {
	VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT = 0x1,
	VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT = 0x2,
	VK_MEMORY_PROPERTY_HOST_COHERENT_BIT = 0x4,
	VK_MEMORY_PROPERTY_HOST_CACHED_BIT = 0x8,
} VkMemoryPropertyFlagBits;

typedef enum VkMemoryAllocateFlagBits {
	VK_MEMORY_ALLOCATE_DEVICE_MASK_BIT = 0x1,
} VkMemoryAllocateFlagBits;

typedef enum VkExternalMemoryHandleTypeFlagBits {
	VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT = 0x1,
} VkExternalMemoryHandleTypeFlagBits;

/* The beginning of every structure that others may hang on. */
typedef struct VkBaseOutStructure {
	VkStructureType sType;
	struct VkBaseOutStructure *pNext;
} VkBaseOutStructure;

typedef struct VkApplicationInfo {
	VkStructureType sType;
	const void *pNext;
	const char *pApplicationName;
	uint32_t applicationVersion;
	const char *pEngineName;
	uint32_t engineVersion;
	uint32_t apiVersion;
} VkApplicationInfo;

typedef struct VkInstanceCreateInfo {
	VkStructureType sType;
	const void *pNext;
	VkFlags flags;
	const VkApplicationInfo *pApplicationInfo;
	uint32_t enabledLayerCount;
	const char *const *ppEnabledLayerNames;
	uint32_t enabledExtensionCount;
	const char *const *ppEnabledExtensionNames;
} VkInstanceCreateInfo;

typedef struct VkDeviceQueueCreateInfo {
	VkStructureType sType;
	const void *pNext;
	VkFlags flags;
	uint32_t queueFamilyIndex;
	uint32_t queueCount;
	const float *pQueuePriorities;
} VkDeviceQueueCreateInfo;

typedef struct VkDeviceCreateInfo {
	VkStructureType sType;
	const void *pNext;
	VkFlags flags;
	uint32_t queueCreateInfoCount;
	const VkDeviceQueueCreateInfo *pQueueCreateInfos;
	uint32_t enabledLayerCount;
	const char *const *ppEnabledLayerNames;
	uint32_t enabledExtensionCount;
	const char *const *ppEnabledExtensionNames;
	const VkPhysicalDeviceFeatures *pEnabledFeatures;
} VkDeviceCreateInfo;

typedef struct VkExtensionProperties {
	char extensionName[VK_MAX_EXTENSION_NAME_SIZE];
	uint32_t specVersion;
} VkExtensionProperties;

typedef struct VkDeviceGroupDeviceCreateInfo {
	VkStructureType sType;
	const void *pNext;
	uint32_t physicalDeviceCount;
	const VkPhysicalDevice *pPhysicalDevices;
} VkDeviceGroupDeviceCreateInfo;

typedef struct VkMemoryAllocateInfo {
	VkStructureType sType;
	const void *pNext;
	VkDeviceSize allocationSize;
	uint32_t memoryTypeIndex;
} VkMemoryAllocateInfo;

typedef struct VkMemoryAllocateFlagsInfo {
	VkStructureType sType;
	const void *pNext;
	VkFlags flags;
	uint32_t deviceMask;
} VkMemoryAllocateFlagsInfo;

typedef struct VkImportMemoryFdInfoKHR {
	VkStructureType sType;
	const void *pNext;
	VkExternalMemoryHandleTypeFlagBits handleType;
	int fd;
} VkImportMemoryFdInfoKHR;

typedef struct VkMemoryGetFdInfoKHR {
	VkStructureType sType;
	const void *pNext;
	VkDeviceMemory memory;
	VkExternalMemoryHandleTypeFlagBits handleType;
} VkMemoryGetFdInfoKHR;

typedef struct VkMemoryRequirements {
	VkDeviceSize size;
	VkDeviceSize alignment;
	uint32_t memoryTypeBits;
} VkMemoryRequirements;

typedef struct VkMemoryRequirements2 {
	VkStructureType sType;
	void *pNext;
	VkMemoryRequirements memoryRequirements;
} VkMemoryRequirements2;

typedef struct VkMemoryFdPropertiesKHR {
	VkStructureType sType;
	void *pNext;
	uint32_t memoryTypeBits;
} VkMemoryFdPropertiesKHR;

typedef struct VkMemoryHostPointerPropertiesEXT {
	VkStructureType sType;
	void *pNext;
	uint32_t memoryTypeBits;
} VkMemoryHostPointerPropertiesEXT;

typedef struct VkMemoryType {
	VkFlags propertyFlags;
	uint32_t heapIndex;
} VkMemoryType;

typedef struct VkMemoryHeap {
	VkDeviceSize size;
	VkFlags flags;
} VkMemoryHeap;

typedef struct VkPhysicalDeviceMemoryProperties {
	uint32_t memoryTypeCount;
	VkMemoryType memoryTypes[VK_MAX_MEMORY_TYPES];
	uint32_t memoryHeapCount;
	VkMemoryHeap memoryHeaps[VK_MAX_MEMORY_HEAPS];
} VkPhysicalDeviceMemoryProperties;

typedef struct VkPhysicalDeviceMemoryProperties2 {
	VkStructureType sType;
	void *pNext;
	VkPhysicalDeviceMemoryProperties memoryProperties;
} VkPhysicalDeviceMemoryProperties2;

typedef struct VkPhysicalDeviceMemoryBudgetPropertiesEXT {
	VkStructureType sType;
	void *pNext;
	VkDeviceSize heapBudget[VK_MAX_MEMORY_HEAPS];
	VkDeviceSize heapUsage[VK_MAX_MEMORY_HEAPS];
} VkPhysicalDeviceMemoryBudgetPropertiesEXT;

typedef struct VkPhysicalDeviceGroupProperties {
	VkStructureType sType;
	void *pNext;
	uint32_t physicalDeviceCount;
	VkPhysicalDevice physicalDevices[VK_MAX_DEVICE_GROUP_SIZE];
	VkBool32 subsetAllocation;
} VkPhysicalDeviceGroupProperties;

typedef struct VkPhysicalDeviceLimits {
	uint64_t opaque[63]; /* nothing of it is read */
} VkPhysicalDeviceLimits;

typedef struct VkPhysicalDeviceSparseProperties {
	VkBool32 opaque[5];
} VkPhysicalDeviceSparseProperties;

typedef struct VkPhysicalDeviceProperties {
	uint32_t apiVersion;
	uint32_t driverVersion;
	uint32_t vendorID;
	uint32_t deviceID;
	VkPhysicalDeviceType deviceType;
	char deviceName[VK_MAX_PHYSICAL_DEVICE_NAME_SIZE];
	uint8_t pipelineCacheUUID[VK_UUID_SIZE];
	VkPhysicalDeviceLimits limits;
	VkPhysicalDeviceSparseProperties sparseProperties;
} VkPhysicalDeviceProperties;

typedef struct VkPhysicalDeviceProperties2 {
	VkStructureType sType;
	void *pNext;
	VkPhysicalDeviceProperties properties;
} VkPhysicalDeviceProperties2;

typedef struct VkPhysicalDeviceIDProperties {
	VkStructureType sType;
	void *pNext;
	uint8_t deviceUUID[VK_UUID_SIZE];
	uint8_t driverUUID[VK_UUID_SIZE];
	uint8_t deviceLUID[VK_LUID_SIZE];
	uint32_t deviceNodeMask;
	VkBool32 deviceLUIDValid;
} VkPhysicalDeviceIDProperties;

typedef struct VkPhysicalDeviceVulkan11Properties {
	VkStructureType sType;
	void *pNext;
	uint8_t deviceUUID[VK_UUID_SIZE];
	uint8_t driverUUID[VK_UUID_SIZE];
	uint8_t deviceLUID[VK_LUID_SIZE];
	uint32_t deviceNodeMask;
	VkBool32 deviceLUIDValid;
	uint32_t subgroupSize;
	VkFlags subgroupSupportedStages;
	VkFlags subgroupSupportedOperations;
	VkBool32 subgroupQuadOperationsInAllStages;
	uint32_t pointClippingBehavior;
	uint32_t maxMultiviewViewCount;
	uint32_t maxMultiviewInstanceIndex;
	VkBool32 protectedNoFault;
	uint32_t maxPerSetDescriptors;
	VkDeviceSize maxMemoryAllocationSize;
} VkPhysicalDeviceVulkan11Properties;

#endif
