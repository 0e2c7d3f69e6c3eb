/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vulkan/instance.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "sim/config.h"
#include "sim/vulkan/gpu.h"
#include "sim/vulkan/lavapipe.h"
#include "sim/vulkan/rows.h"

struct instance {
	VkInstance of[SIM_MAX_DEVICES];
	VkPhysicalDevice physical[SIM_MAX_DEVICES];
	int n;
	struct instance *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct instance *first;

int instance_gpu(VkPhysicalDevice physical)
{
	int gpu = 0;

	pthread_mutex_lock(&lock);
	for (struct instance *s = first; s; s = s->next)
		for (int i = 0; i < s->n; i++)
			if (s->physical[i] == physical)
				gpu = i;
	pthread_mutex_unlock(&lock);
	return gpu;
}

static struct instance *instance_find(VkInstance instance)
{
	struct instance *s;

	pthread_mutex_lock(&lock);
	for (s = first; s && s->of[0] != instance; s = s->next)
		;
	pthread_mutex_unlock(&lock);
	return s;
}

static VkResult instance_add_gpu(struct instance *s, const VkInstanceCreateInfo *info,
				 const VkAllocationCallbacks *allocator)
{
	uint32_t one = 1;
	VkResult r = lavapipe.vkCreateInstance(info, allocator, &s->of[s->n]);

	if (r)
		return r;
	lavapipe_resolve(s->of[s->n]);
	r = lavapipe.vkEnumeratePhysicalDevices(s->of[s->n], &one, &s->physical[s->n]);
	s->n++;
	return r < 0 || !one ? VK_ERROR_INITIALIZATION_FAILED : VK_SUCCESS;
}

/* Takes the instance, which may be NULL. */
static void instance_end(struct instance *s, const VkAllocationCallbacks *allocator)
{
	for (int i = s ? s->n : 0; i-- > 0;)
		lavapipe.vkDestroyInstance(s->of[i], allocator);
	free(s);
}

VkResult sim_vkCreateInstance(const VkInstanceCreateInfo *info, const VkAllocationCallbacks *allocator,
			      VkInstance *ret_instance)
{
	struct instance *s;
	VkResult r = VK_SUCCESS;

	if (gpu_open() < 0)
		return VK_ERROR_INITIALIZATION_FAILED;
	s = calloc(1, sizeof(*s));
	if (!s)
		return VK_ERROR_OUT_OF_HOST_MEMORY;
	while (s->n < gpu_count() && !r)
		r = instance_add_gpu(s, info, allocator);
	if (r) {
		instance_end(s, allocator);
		return r;
	}
	pthread_mutex_lock(&lock);
	s->next = first;
	first = s;
	pthread_mutex_unlock(&lock);
	*ret_instance = s->of[0];
	return VK_SUCCESS;
}

void sim_vkDestroyInstance(VkInstance instance, const VkAllocationCallbacks *allocator)
{
	struct instance **at = &first, *s;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->of[0] != instance)
		at = &(*at)->next;
	s = *at;
	if (s)
		*at = s->next;
	pthread_mutex_unlock(&lock);
	instance_end(s, allocator);
}

VkResult sim_vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *count,
					VkPhysicalDevice *ret_physical)
{
	const struct instance *s = instance_find(instance);
	uint32_t n = s ? (uint32_t)s->n : 0;
	bool all = !ret_physical || *count >= n;

	if (all)
		*count = n;
	for (uint32_t i = 0; ret_physical && i < *count; i++)
		ret_physical[i] = s->physical[i];
	return all ? VK_SUCCESS : VK_INCOMPLETE;
}

/* Each GPU is a group of its own. */
VkResult sim_vkEnumeratePhysicalDeviceGroups(VkInstance instance, uint32_t *count,
					     VkPhysicalDeviceGroupProperties *ret_groups)
{
	VkPhysicalDevice physical[SIM_MAX_DEVICES];
	VkResult r;

	if (!ret_groups)
		return sim_vkEnumeratePhysicalDevices(instance, count, NULL);
	if (*count > SIM_MAX_DEVICES)
		*count = SIM_MAX_DEVICES;
	r = sim_vkEnumeratePhysicalDevices(instance, count, physical);
	for (uint32_t i = 0; i < *count; i++) {
		ret_groups[i].physicalDeviceCount = 1;
		ret_groups[i].physicalDevices[0] = physical[i];
		ret_groups[i].subsetAllocation = 0;
	}
	return r;
}
