/* SPDX-License-Identifier: Apache-2.0 */
/* How loaders enter the simulated driver, and how that enters lavapipe. */
#include "sim/vulkan/lavapipe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SONAME	  "libvulkan_lvp.so"
#define INTERFACE 5 /* of loader and driver, that lavapipe needs no more than */

#define EXPORT __attribute__((visibility("default")))

EXPORT PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name);
EXPORT PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name);
EXPORT VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version);

struct sim_lavapipe sim_lavapipe;
struct sim_region *sim_vulkan_region;
int sim_vulkan_row = -1;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t owner;

bool sim_vulkan_owns(void)
{
	return owner == getpid();
}

/* Inside a call, since what a driver asks for by itself is nobody else's. */
static void lavapipe_open(void)
{
	void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);

	if (!library || sim_region_open(NULL, true, &sim_vulkan_region, &sim_vulkan_row) ||
	    !sim_vulkan_region->ndevices)
		return;
	owner = getpid();
	sim_lavapipe.ask = (sim_vulkan_ask *)dlsym(library, "vk_icdGetInstanceProcAddr");
}

static void lavapipe_fill(VkInstance instance)
{
#define FUNCTION(result, name, params) \
	sim_lavapipe.name = (__typeof__(sim_lavapipe.name))sim_lavapipe.ask(instance, #name);
	SIM_VULKAN_INSTANCE(FUNCTION)
#undef FUNCTION
}

/* Functions of devices are asked of the first one, and are as good for the others. */
static void lavapipe_fill_device(VkDevice device)
{
#define FUNCTION(result, name, params)                                                     \
	if (!sim_lavapipe.name)                                                            \
		sim_lavapipe.name = (__typeof__(sim_lavapipe.name))                        \
			sim_lavapipe.vkGetDeviceProcAddr(device, #name);
	SIM_VULKAN_DEVICE(FUNCTION)
#undef FUNCTION
}

static PFN_vkVoidFunction lavapipe_replace(const char *name, PFN_vkVoidFunction answer)
{
#define FUNCTION(result, own, params)  \
	if (answer && !strcmp(name, #own)) \
		return (PFN_vkVoidFunction)sim_##own;
	SIM_VULKAN_INSTANCE(FUNCTION)
	SIM_VULKAN_DEVICE(FUNCTION)
#undef FUNCTION
	return answer;
}

PFN_vkVoidFunction sim_vkGetDeviceProcAddr(VkDevice device, const char *name)
{
	lavapipe_fill_device(device);
	return lavapipe_replace(name, sim_lavapipe.vkGetDeviceProcAddr(device, name));
}

PFN_vkVoidFunction vk_icdGetInstanceProcAddr(VkInstance instance, const char *name)
{
	PFN_vkVoidFunction answer;

	pthread_once(&once, lavapipe_open);
	if (!sim_lavapipe.ask)
		return NULL;
	if (!strcmp(name, "vk_icdGetPhysicalDeviceProcAddr"))
		return (PFN_vkVoidFunction)vk_icdGetPhysicalDeviceProcAddr;
	if (!strcmp(name, "vkGetInstanceProcAddr"))
		return (PFN_vkVoidFunction)vk_icdGetInstanceProcAddr;
	answer = sim_lavapipe.ask(instance, name);
	if (instance && !sim_lavapipe.vkGetDeviceProcAddr)
		lavapipe_fill(instance);
	return lavapipe_replace(name, answer);
}

PFN_vkVoidFunction vk_icdGetPhysicalDeviceProcAddr(VkInstance instance, const char *name)
{
	static sim_vulkan_ask *ask;

	if (!ask)
		ask = (sim_vulkan_ask *)sim_lavapipe.ask(instance, "vk_icdGetPhysicalDeviceProcAddr");
	return ask ? lavapipe_replace(name, ask(instance, name)) : NULL;
}

VkResult vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version)
{
	*version = *version < INTERFACE ? *version : INTERFACE;
	return VK_SUCCESS;
}
