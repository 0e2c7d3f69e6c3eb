/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/vulkan/lavapipe.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>

#include "sim/vulkan/manifest.h"

#define LIBRARY "libvulkan_lvp.so"
#define INTERFACE 5 /* between a loader and a driver: the one that the simulated driver speaks, too */

struct lavapipe lavapipe;

static pthread_once_t loaded = PTHREAD_ONCE_INIT;

/* dlsym's answer is an object's address, which POSIX lets a caller read as a function's. */
#define FIND(library, name, field) (*(void **)&(field) = dlsym(library, name))

static void lavapipe_open(void)
{
	VkResult (*negotiate)(uint32_t *version);
	uint32_t version = INTERFACE;
	char path[PATH_MAX];
	void *library = NULL;

	if (manifest_find_lavapipe(path) == 0)
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return;
	if (FIND(library, "vk_icdNegotiateLoaderICDInterfaceVersion", negotiate))
		negotiate(&version);
	FIND(library, "vk_icdGetPhysicalDeviceProcAddr", lavapipe.get_physical);
	FIND(library, "vk_icdGetInstanceProcAddr", lavapipe.get);
	if (lavapipe.get)
		lavapipe_resolve(NULL);
}

bool lavapipe_load(void)
{
	pthread_once(&loaded, lavapipe_open);
	return lavapipe.get;
}

/* A name that this instance does not offer may be another one's: what was found stays. */
static void lavapipe_find(VkInstance instance, const char *name, _Atomic(PFN_vkVoidFunction) *ret)
{
	PFN_vkVoidFunction found = lavapipe.get(instance, name);

	if (found)
		*ret = found;
}

void lavapipe_resolve(VkInstance instance)
{
#define VULKAN_ROW(result, name, params) \
	lavapipe_find(instance, #name, (_Atomic(PFN_vkVoidFunction) *)&lavapipe.name);
#define VULKAN_ALIAS(name, of) \
	lavapipe_find(instance, #name, (_Atomic(PFN_vkVoidFunction) *)&lavapipe.of);
#include "sim/vulkan/rows.def"
}
