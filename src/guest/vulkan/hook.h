/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of Vulkan's functions, by the names of vulkan_api.def. A driver gives addresses of its functions
 * by name, to a loader or to a program that is its own loader; where it gives one that is hooked, the
 * hook is given instead (door.c). None is exported.
 */
#ifndef ALLOT_GUEST_VULKAN_HOOK_H
#define ALLOT_GUEST_VULKAN_HOOK_H

#include "base/lock.h"
#include "guest/core/guest.h"
#include "guest/vulkan/known.h"

/* All but those of NONE, which door.c has once for each driver. */
#define VULKAN_HOOK(object, result, name, params) result hook_##name params;
#include "vulkan/vulkan_api.def"

/*
 * VULKAN_DO(driver, name, args): the driver's own function. Its calls of the kernel, or of CUDA, count
 * as the program's: other vendors' memory is seen there alone.
 */
#define VULKAN_DO(driver, name, args)      \
	do {                               \
		lock_rank_none(#name);     \
		guest_door_depth++;        \
		(driver)->name args;       \
		guest_door_depth--;        \
	} while (0)

#define VULKAN_ASK(driver, name, args)                          \
	({                                                      \
		__typeof__((driver)->name args) vulkan_answer_; \
		lock_rank_none(#name);                          \
		guest_door_depth++;                             \
		vulkan_answer_ = (driver)->name args;           \
		guest_door_depth--;                             \
		vulkan_answer_;                                 \
	})

/* The first structure of a chain that says that it is of a type; NULL: there is none. */
static inline void *vulkan_chained(const void *chain, VkStructureType type)
{
	const VkBaseOutStructure *at = chain;

	while (at && at->sType != type)
		at = at->pNext;
	return (void *)at;
}

/*
 * A driver's answer about a function by name, of whichever of its objects: the hook if there is one,
 * but for functions of NONE.
 */
PFN_vkVoidFunction vulkan_hook_for(const char *name, PFN_vkVoidFunction answer);

#endif
