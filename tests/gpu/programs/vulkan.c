/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vulkan MIB UUID: takes so much memory of the GPU with that UUID by Vulkan, says that it holds it,
 * and ends when its input does. With "any" in place of the UUID it takes the first device, so that
 * it can be tried where there is no GPU. What it uses of Vulkan's headers is written down here, and
 * libvulkan.so.1, which only looks for the drivers' libraries, is not needed: without it the ones
 * of NVIDIA's are asked in the way that libvulkan.so.1 does it.
 */
#include "absent.h"

#define PIECE (256 * MIB)

enum {
	VK_APPLICATION_INFO = 0,
	VK_INSTANCE_CREATE_INFO = 1,
	VK_DEVICE_QUEUE_CREATE_INFO = 2,
	VK_DEVICE_CREATE_INFO = 3,
	VK_MEMORY_ALLOCATE_INFO = 5,
	VK_PHYSICAL_DEVICE_PROPERTIES_2 = 1000059001,
	VK_PHYSICAL_DEVICE_ID_PROPERTIES = 1000071004,

	VK_INCOMPLETE = 5,
	VK_VERSION_1_1 = 1 << 22 | 1 << 12,
	VK_DRIVER_INTERFACE = 5, /* between libvulkan.so.1 and drivers */
	VK_DEVICE_LOCAL = 1 << 0,
	VK_DEVICES = 16,
};

struct vk_application {
	int type;
	const void *next;
	const char *name;
	uint32_t version;
	const char *engine;
	uint32_t engine_version;
	uint32_t api;
};

struct vk_instance_info {
	int type;
	const void *next;
	uint32_t flags;
	const struct vk_application *application;
	uint32_t nlayers;
	const char *const *layers;
	uint32_t nextensions;
	const char *const *extensions;
};

struct vk_queue_info {
	int type;
	const void *next;
	uint32_t flags;
	uint32_t family;
	uint32_t n;
	const float *priorities;
};

struct vk_device_info {
	int type;
	const void *next;
	uint32_t flags;
	uint32_t nqueues;
	const struct vk_queue_info *queues;
	uint32_t nlayers;
	const char *const *layers;
	uint32_t nextensions;
	const char *const *extensions;
	const void *features;
};

struct vk_id {
	int type;
	void *next;
	uint8_t device[16];
	uint8_t driver[16];
	uint8_t luid[8];
	uint32_t node_mask;
	uint32_t luid_valid;
};

struct vk_properties {
	int type;
	void *next;
	uint64_t rest[256]; /* more than there is, none of which is of interest */
};

struct vk_memory {
	uint32_t ntypes;
	struct {
		uint32_t flags;
		uint32_t heap;
	} type[32];
	uint32_t nheaps;
	struct {
		uint64_t size;
		uint32_t flags;
	} heap[16];
};

struct vk_allocation {
	int type;
	const void *next;
	uint64_t bytes;
	uint32_t memory_type;
};

/* Handles of memory are numbers of 64 bits. */
#define VK_CALLS(call)                                                                            \
	call(int, vkEnumeratePhysicalDevices, (void *instance, uint32_t *n, void **ret))          \
	call(void, vkGetPhysicalDeviceProperties2, (void *physical, struct vk_properties *ret))   \
	call(void, vkGetPhysicalDeviceMemoryProperties, (void *physical, struct vk_memory *ret))  \
	call(int, vkCreateDevice,                                                                 \
	     (void *physical, const struct vk_device_info *info, const void *allocator,           \
	      void **ret))                                                                        \
	call(int, vkAllocateMemory,                                                               \
	     (void *device, const struct vk_allocation *info, const void *allocator,              \
	      uint64_t *ret))

#define VK_MEMBER(type, name, params) type(*name) params;
static struct {
	VK_CALLS(VK_MEMBER)
} vk;

typedef void *vk_address_fn(void *instance, const char *name);
typedef int vk_negotiate_fn(uint32_t *version);
typedef int vk_create_fn(const struct vk_instance_info *info, const void *allocator, void **ret);

static vk_address_fn *open_library(const char *name)
{
	void *library = absent_open(name);
	uint32_t version = VK_DRIVER_INTERFACE;
	vk_negotiate_fn *negotiate;
	vk_address_fn *address;

	if (!library)
		return NULL;
	address = (vk_address_fn *)dlsym(library, "vkGetInstanceProcAddr");
	negotiate = (vk_negotiate_fn *)dlsym(library, "vk_icdNegotiateLoaderICDInterfaceVersion");
	if (negotiate && !negotiate(&version))
		address = (vk_address_fn *)dlsym(library, "vk_icdGetInstanceProcAddr");
	if (!address)
		absent_note(name, "not of Vulkan", 0);
	return address;
}

static void *create_instance(const char *library, vk_address_fn *address)
{
	struct vk_application application = {VK_APPLICATION_INFO, .name = "vulkan",
					     .api = VK_VERSION_1_1};
	struct vk_instance_info info = {VK_INSTANCE_CREATE_INFO, .application = &application};
	vk_create_fn *create = (vk_create_fn *)address(NULL, "vkCreateInstance");
	void *instance = NULL;
	int r = create ? create(&info, NULL, &instance) : -1;

	if (r) {
		absent_note(library, "vkCreateInstance fails", r);
		return NULL;
	}
#define VK_BIND(type, name, params) vk.name = (type(*) params)address(instance, #name);
	VK_CALLS(VK_BIND)
	if (!vk.vkGetPhysicalDeviceProperties2) {
		absent_note(library, "older than Vulkan 1.1", 0);
		return NULL;
	}
	return instance;
}

static bool is_wanted(void *physical, const char *uuid)
{
	struct vk_id id = {VK_PHYSICAL_DEVICE_ID_PROPERTIES};
	struct vk_properties properties = {VK_PHYSICAL_DEVICE_PROPERTIES_2, .next = &id};
	char hex[33], wanted[33] = "";
	size_t n = 0;

	if (strncmp(uuid, "GPU-", 4) != 0)
		return false;
	vk.vkGetPhysicalDeviceProperties2(physical, &properties);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", id.device[i]);
	for (const char *c = uuid + 4; *c && n < 32; c++)
		if (*c != '-')
			wanted[n++] = *c;
	return !strcmp(hex, wanted);
}

static void *find_device(const char *library, const char *uuid)
{
	vk_address_fn *address = open_library(library);
	void *instance = address ? create_instance(library, address) : NULL;
	void *physical[VK_DEVICES];
	uint32_t n = VK_DEVICES;
	int r;

	if (!instance)
		return NULL;
	r = vk.vkEnumeratePhysicalDevices(instance, &n, physical);
	for (uint32_t i = 0; (!r || r == VK_INCOMPLETE) && i < n; i++)
		if (!strcmp(uuid, "any") || is_wanted(physical[i], uuid))
			return physical[i];
	absent_note(library, r ? "vkEnumeratePhysicalDevices fails" : "has no such device", r);
	return NULL;
}

static void take(void *physical, uint64_t bytes)
{
	const float priority = 1;
	struct vk_queue_info queue = {VK_DEVICE_QUEUE_CREATE_INFO, .n = 1, .priorities = &priority};
	struct vk_device_info info = {VK_DEVICE_CREATE_INFO, .nqueues = 1, .queues = &queue};
	struct vk_allocation want = {VK_MEMORY_ALLOCATE_INFO, .bytes = PIECE};
	struct vk_memory memory;
	uint64_t allocated;
	void *device;

	vk.vkGetPhysicalDeviceMemoryProperties(physical, &memory);
	while (want.memory_type < memory.ntypes &&
	       !(memory.type[want.memory_type].flags & VK_DEVICE_LOCAL))
		want.memory_type++;
	absent_must(vk.vkCreateDevice(physical, &info, NULL, &device), "vkCreateDevice");
	for (uint64_t got = 0; got < bytes; got += PIECE)
		absent_must(vk.vkAllocateMemory(device, &want, NULL, &allocated),
			    "vkAllocateMemory");
}

int main(int argc, char **argv)
{
	/* The driver's own is in one of two, by what it was installed for. */
	static const char *const libraries[] = {"libvulkan.so.1", "libGLX_nvidia.so.0",
						"libEGL_nvidia.so.0"};
	void *physical = NULL;
	char word[32];

	if (argc < 3)
		return 2;
	child_watched(120);
	for (size_t i = 0; !physical && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		physical = find_device(libraries[i], argv[2]);
	if (!physical)
		absent_all();
	take(physical, strtoull(argv[1], NULL, 10) * MIB);
	printf("{\"stage\": \"held\", \"pid\": %d}\n", getpid());
	while (child_told(word))
		;
	return 0;
}
