/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated Vulkan driver, asked as Vulkan's loader asks a driver: what its devices are, and that
 * what is allocated is what the region and the simulated NVML count. The argument is the library.
 */
#include <dlfcn.h>
#include <limits.h>
#include <unistd.h>

#include "nvidia/nvml_api.h"
#include "sim/vulkan/manifest.h"
#include "tests/sim/sim_test.h"
#include "vulkan/abi/vulkan.h"

#define NVML_HOOK(name, kind, params, args) nvmlReturn_t name params;
#define NVML_CALL(name, kind, params, args) nvmlReturn_t name params;
#include "nvidia/nvml_api.def"

#define TOTAL	    (256 * MIB)
#define OWN	    (8 * MIB) /* of a Vulkan device, by ALLOT_SIM_VULKAN_CONTEXT */
#define KIB	    1024ull
#define API_1_3	    (1u << 22 | 3u << 12)
#define BUDGET_NAME "VK_EXT_memory_budget"

enum { DEVICE_ONLY, HOST, MAPPED, TYPES };

static PFN_vkVoidFunction (*get)(VkInstance instance, const char *name);
static VkInstance instance;
static VkPhysicalDevice physical[2];

#define VULKAN_HOOK(object, result, name, params) static result (*name) params;
#define VULKAN_CALL(object, result, name, params) static result (*name) params;
#include "vulkan/vulkan_api.def"
static VkResult (*vkEnumerateDeviceExtensionProperties)(VkPhysicalDevice device, const char *layer,
							 uint32_t *count, VkExtensionProperties *ret);

static void load(const char *path)
{
	VkResult (*negotiate)(uint32_t *version);
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	uint32_t version = 7;

	CHECK(library);
	*(void **)&negotiate = dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
	*(void **)&get = dlsym(library, "vk_icdGetInstanceProcAddr");
	CHECK(negotiate && get && dlsym(library, "vk_icdGetPhysicalDeviceProcAddr"));
	CHECK_EQ(negotiate(&version), VK_SUCCESS);
	CHECK_EQ(version, 5);
	version = 3;
	CHECK_EQ(negotiate(&version), VK_SUCCESS);
	CHECK_EQ(version, 3);
}

static void find_functions(void)
{
#define FIND(name) (*(PFN_vkVoidFunction *)&(name) = get(instance, #name))
#define VULKAN_HOOK(object, result, name, params) FIND(name);
#define VULKAN_CALL(object, result, name, params) FIND(name);
#include "vulkan/vulkan_api.def"
	FIND(vkEnumerateDeviceExtensionProperties);
	CHECK(!get(instance, "vkNoSuchFunction"));
}

static void begin(void)
{
	VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = API_1_3};
	VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
				     .pApplicationInfo = &app};
	uint32_t n = 0, one = 1;

	*(PFN_vkVoidFunction *)&vkCreateInstance = get(NULL, "vkCreateInstance");
	CHECK_EQ(vkCreateInstance(&info, NULL, &instance), VK_SUCCESS);
	find_functions();
	CHECK_EQ(vkEnumeratePhysicalDevices(instance, &n, NULL), VK_SUCCESS);
	CHECK_EQ(n, 2);
	CHECK_EQ(vkEnumeratePhysicalDevices(instance, &one, physical), VK_INCOMPLETE);
	CHECK_EQ(one, 1);
	CHECK_EQ(vkEnumeratePhysicalDevices(instance, &n, physical), VK_SUCCESS);
	CHECK(physical[0] != physical[1]);
}

static void groups(void)
{
	VkPhysicalDeviceGroupProperties group[2] = {
		{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES},
		{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_GROUP_PROPERTIES}};
	uint32_t n = 2;

	CHECK_EQ(vkEnumeratePhysicalDeviceGroups(instance, &n, group), VK_SUCCESS);
	CHECK_EQ(n, 2);
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(group[i].physicalDeviceCount, 1);
		CHECK(group[i].physicalDevices[0] == physical[i]);
	}
}

static void names(void)
{
	for (int i = 0; i < 2; i++) {
		VkPhysicalDeviceVulkan11Properties core = {
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_PROPERTIES};
		VkPhysicalDeviceIDProperties id = {
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES, .pNext = &core};
		VkPhysicalDeviceProperties2 p = {
			.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &id};
		uint8_t uuid[VK_UUID_SIZE];

		sim_truth_uuid(truth, i, uuid);
		vkGetPhysicalDeviceProperties2(physical[i], &p);
		CHECK(!memcmp(id.deviceUUID, uuid, sizeof(uuid)));
		CHECK(!memcmp(core.deviceUUID, uuid, sizeof(uuid)));
		CHECK_EQ(p.properties.vendorID, 0x10de);
		CHECK_EQ(p.properties.deviceType, VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU);
		CHECK(!strcmp(p.properties.deviceName, "Test GPU"));
		memset(&p.properties, 0, sizeof(p.properties));
		vkGetPhysicalDeviceProperties(physical[i], &p.properties);
		CHECK_EQ(p.properties.vendorID, 0x10de);
		CHECK(!strcmp(p.properties.deviceName, "Test GPU"));
	}
}

static void types(void)
{
	const VkFlags mapped =
		VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
	VkPhysicalDeviceMemoryProperties p;

	vkGetPhysicalDeviceMemoryProperties(physical[1], &p);
	CHECK_EQ(p.memoryHeapCount, 2);
	CHECK_EQ(p.memoryHeaps[0].size, TOTAL);
	CHECK_EQ(p.memoryHeaps[0].flags, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT);
	CHECK_EQ(p.memoryHeaps[1].flags, 0);
	CHECK_EQ(p.memoryTypeCount, TYPES);
	CHECK_EQ(p.memoryTypes[DEVICE_ONLY].propertyFlags, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
	CHECK_EQ(p.memoryTypes[HOST].propertyFlags, mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
	CHECK_EQ(p.memoryTypes[HOST].heapIndex, 1);
	CHECK_EQ(p.memoryTypes[MAPPED].propertyFlags, mapped | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
	CHECK_EQ(p.memoryTypes[MAPPED].heapIndex, 0);
}

static void extensions(void)
{
	static VkExtensionProperties all[512];
	uint32_t n = 512, less, found = 0;

	CHECK_EQ(vkEnumerateDeviceExtensionProperties(physical[0], NULL, &n, all), VK_SUCCESS);
	for (uint32_t i = 0; i < n; i++)
		found += !strcmp(all[i].extensionName, BUDGET_NAME);
	CHECK_EQ(found, 1);
	less = n - 1;
	CHECK_EQ(vkEnumerateDeviceExtensionProperties(physical[0], NULL, &less, all), VK_INCOMPLETE);
	CHECK_EQ(less, n - 1);
}

static void budget(int i, uint64_t usage, uint64_t left)
{
	VkPhysicalDeviceMemoryBudgetPropertiesEXT b = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
	VkPhysicalDeviceMemoryProperties2 p = {
		.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2, .pNext = &b};

	vkGetPhysicalDeviceMemoryProperties2(physical[i], &p);
	CHECK_EQ(b.heapUsage[0], usage);
	CHECK_EQ(b.heapBudget[0], usage + left);
	CHECK_EQ(p.memoryProperties.memoryHeaps[0].size, TOTAL);
}

/* This process's figure in one of NVML's lists; 0 where it is not in it, once. */
static uint64_t listed(int i, nvmlReturn_t (*list)(nvmlDevice_t, unsigned int *, nvmlProcessInfo_t *))
{
	nvmlProcessInfo_t infos[4];
	unsigned int n = 4;
	nvmlDevice_t device;

	CHECK_EQ(nvmlDeviceGetHandleByIndex_v2((unsigned int)i, &device), NVML_SUCCESS);
	CHECK_EQ(list(device, &n, infos), NVML_SUCCESS);
	if (!n)
		return 0;
	CHECK_EQ(n, 1);
	CHECK_EQ(infos[0].pid, getpid());
	return infos[0].usedGpuMemory;
}

#define GRAPHICS(i) listed(i, nvmlDeviceGetGraphicsRunningProcesses_v3)
#define COMPUTE(i)  listed(i, nvmlDeviceGetComputeRunningProcesses_v3)

/* All that count agree that the process holds `bytes` of a GPU. */
static void holds(int i, uint64_t bytes)
{
	CHECK_EQ(used(i), bytes);
	CHECK_EQ(sim_truth_figure(truth, getpid(), i), bytes);
	CHECK_EQ(GRAPHICS(i), bytes);
	budget(i, bytes, TOTAL - bytes);
}

static VkDevice make_device(int i)
{
	static const char *const names[] = {BUDGET_NAME};
	const float priority = 1;
	VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
					 .queueCount = 1, .pQueuePriorities = &priority};
	VkDeviceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
				   .queueCreateInfoCount = 1, .pQueueCreateInfos = &queue,
				   .enabledExtensionCount = 1, .ppEnabledExtensionNames = names};
	VkDevice device;

	CHECK_EQ(vkCreateDevice(physical[i], &info, NULL, &device), VK_SUCCESS);
	return device;
}

static VkResult allocate(VkDevice device, uint64_t bytes, uint32_t type, VkDeviceMemory *ret)
{
	VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
				     .allocationSize = bytes, .memoryTypeIndex = type};

	return vkAllocateMemory(device, &info, NULL, ret);
}

/* Up to the last 64 KiB, and back. */
static void fill(VkDevice device)
{
	VkDeviceMemory all, small, host;

	holds(1, OWN);
	CHECK_EQ(allocate(device, TOTAL - OWN - 64 * KIB, DEVICE_ONLY, &all), VK_SUCCESS);
	holds(1, TOTAL - 64 * KIB);
	CHECK_EQ(allocate(device, 64 * KIB + 1, MAPPED, &small), VK_ERROR_OUT_OF_DEVICE_MEMORY);
	CHECK_EQ(allocate(device, ~0ull, DEVICE_ONLY, &small), VK_ERROR_OUT_OF_DEVICE_MEMORY);
	CHECK_EQ(allocate(device, 100, MAPPED, &small), VK_SUCCESS);
	holds(1, TOTAL);
	CHECK_EQ(allocate(device, 1, DEVICE_ONLY, &host), VK_ERROR_OUT_OF_DEVICE_MEMORY);
	CHECK_EQ(allocate(device, MIB, HOST, &host), VK_SUCCESS);
	holds(1, TOTAL);
	vkFreeMemory(device, host, NULL);
	vkFreeMemory(device, NULL, NULL);
	vkFreeMemory(device, small, NULL);
	vkFreeMemory(device, all, NULL);
	holds(1, OWN);
	CHECK_EQ(used(0), 0);
	CHECK_EQ(GRAPHICS(0), 0);
}

/* A type for each that a program may ask for fits an image or a buffer; by the device's own lookup. */
static void requirements(VkDevice device)
{
	VkMemoryRequirements2 r = {.sType = 1000146003};
	/* VkDeviceBufferMemoryRequirements and the VkBufferCreateInfo that it points to. */
	struct {
		uint32_t type;
		const void *next;
		VkFlags flags;
		VkDeviceSize size;
		VkFlags usage;
		uint32_t sharing, nfamilies;
		const uint32_t *families;
	} buffer = {.type = 12, .size = MIB, .usage = 2};
	struct {
		uint32_t type;
		const void *next, *buffer;
	} info = {.type = 1000413002, .buffer = &buffer};
	void (*ask)(VkDevice device, const void *info, VkMemoryRequirements2 *ret);

	*(PFN_vkVoidFunction *)&ask =
		vkGetDeviceProcAddr(device, "vkGetDeviceBufferMemoryRequirements");
	if (!ask)
		return; /* of Vulkan 1.3 */
	ask(device, &info, &r);
	CHECK_EQ(r.memoryRequirements.memoryTypeBits, (1u << TYPES) - 1);
	CHECK(r.memoryRequirements.size >= MIB);
}

/* A device's end frees what it held; the other GPU's device keeps its own. */
static void ends(VkDevice device)
{
	VkDevice other = make_device(0);
	VkDeviceMemory memory;

	CHECK_EQ(allocate(device, 3 * MIB, DEVICE_ONLY, &memory), VK_SUCCESS);
	CHECK_EQ(allocate(other, 5 * MIB, DEVICE_ONLY, &memory), VK_SUCCESS);
	holds(1, OWN + 3 * MIB);
	holds(0, OWN + 5 * MIB);
	vkDestroyDevice(device, NULL);
	CHECK_EQ(used(1), 0);
	CHECK_EQ(GRAPHICS(1), 0);
	holds(0, OWN + 5 * MIB);
	vkDestroyDevice(other, NULL);
	CHECK_EQ(used(0), 0);
}

/* With CUDA beside it a process is in both lists, once in each, with the sum of both. */
static void with_cuda(void)
{
	VkDevice device = make_device(0);
	CUdeviceptr memory;

	CHECK_EQ(COMPUTE(0), 0);
	sim_context(0);
	CHECK_EQ(COMPUTE(0), 64 * MIB + OWN);
	holds(0, 64 * MIB + OWN);
	OK(cuMemAlloc_v2(&memory, 32 * MIB));
	CHECK_EQ(COMPUTE(0), 96 * MIB + OWN);
	holds(0, 96 * MIB + OWN);
	vkDestroyDevice(device, NULL);
	CHECK_EQ(GRAPHICS(0), 0);
	CHECK_EQ(COMPUTE(0), 96 * MIB);
}

int main(int argc, char **argv)
{
	char lavapipe[PATH_MAX];
	VkDevice device;

	CHECK_EQ(argc, 2);
	if (manifest_find_lavapipe(lavapipe) < 0)
		SKIP("no lavapipe is installed");
	setenv("ALLOT_SIM_NAME", "Test GPU", 1);
	setenv("ALLOT_SIM_VULKAN_CONTEXT", "8MiB", 1);
	sim_begin("2", "256MiB");
	CHECK_EQ(nvmlInit_v2(), NVML_SUCCESS);
	load(argv[1]);
	begin();
	groups();
	names();
	types();
	extensions();
	budget(0, 0, TOTAL);
	device = make_device(1);
	fill(device);
	requirements(device);
	ends(device);
	with_cuda();
	vkDestroyInstance(instance, NULL);
	return 0;
}
