/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vulkan/held.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "sim/vulkan/gpu.h"

/* A device itself is an entry without memory. */
struct held {
	VkDevice device;
	VkDeviceMemory memory;
	int gpu;
	uint64_t bytes;
	pid_t owner;
	struct held *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct held *first;

static int held_add(VkDevice device, VkDeviceMemory memory, int gpu, uint64_t bytes)
{
	struct held *h = malloc(sizeof(*h));

	if (!h)
		return -ENOMEM;
	*h = (struct held){device, memory, gpu, bytes, getpid(), NULL};
	pthread_mutex_lock(&lock);
	h->next = first;
	first = h;
	pthread_mutex_unlock(&lock);
	return 0;
}

static void held_give_back(struct held *h)
{
	if (h->owner == getpid()) {
		gpu_uncharge(h->gpu, h->bytes);
		if (!h->memory)
			gpu_note_device(h->gpu, false);
	}
	free(h);
}

/* Drops what is of the device, or, without one, the memory. */
static void held_drop(VkDevice device, VkDeviceMemory memory)
{
	struct held **at = &first, *h;

	pthread_mutex_lock(&lock);
	while ((h = *at)) {
		if (device ? h->device != device : h->memory != memory) {
			at = &h->next;
			continue;
		}
		*at = h->next;
		held_give_back(h);
	}
	pthread_mutex_unlock(&lock);
}

int held_add_device(VkDevice device, int gpu, uint64_t bytes)
{
	int r = held_add(device, NULL, gpu, bytes);

	if (r == 0)
		gpu_note_device(gpu, true);
	return r;
}

int held_gpu(VkDevice device)
{
	int gpu = -1;

	pthread_mutex_lock(&lock);
	for (struct held *h = first; h && gpu < 0; h = h->next)
		if (h->device == device && !h->memory)
			gpu = h->gpu;
	pthread_mutex_unlock(&lock);
	return gpu;
}

void held_drop_device(VkDevice device)
{
	if (device)
		held_drop(device, NULL);
}

int held_add_memory(VkDevice device, VkDeviceMemory memory, uint64_t bytes)
{
	return held_add(device, memory, held_gpu(device), bytes);
}

void held_drop_memory(VkDeviceMemory memory)
{
	if (memory)
		held_drop(NULL, memory);
}
