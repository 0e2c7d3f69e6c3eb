/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vulkan's objects that calls are made of, as this process's drivers gave them: which driver an object
 * is of, and which device's memory it takes. Records stay in a forked child, as the driver's own
 * objects do.
 *
 * No lock: a record is published by its handle, and forgotten by taking that away. Vulkan asks of
 * programs that an object is not destroyed while it is used, so a record does not change meanwhile.
 * Records are used again, and never unmapped.
 * Two threads that meet a physical device at once make a record each, which say the same.
 */
#ifndef ALLOT_GUEST_VULKAN_KNOWN_H
#define ALLOT_GUEST_VULKAN_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "guest/account/uuid_charge.h"
#include "vulkan/vulkan_api.h"

enum known_kind { KNOWN_INSTANCE, KNOWN_PHYSICAL, KNOWN_DEVICE };

struct known {
	_Atomic(void *) handle;
	struct known *next;
	enum known_kind kind;
	struct known *instance;	     /* that it is of; an instance is of itself */
	struct vulkan_driver driver; /* of an instance and a device */
	union {
		struct {
			bool charged;	      /* its memory counts */
			bool ours;	      /* the tenant has it; of one that is charged */
			uint32_t local_types; /* memory types of the device's own memory, a bit each */
			uint32_t multi_types; /* of these, those that each device of a group has */
			struct uuid_device device;
		} physical;
		struct {
			uint64_t serial; /* no other logical device of the process has had it */
			uint32_t n;	 /* devices of its group, or 1 */
			struct known *physical[VK_MAX_DEVICE_GROUP_SIZE];
		} device;
	};
};

/* NULL: no driver that is watched has given it. */
struct known *known_find(const void *handle);

/* A record of zeros for a handle that is about to be published. NULL: there is no memory. */
struct known *known_begin(const void *handle);
void known_publish(struct known *known, void *handle);

void known_forget(struct known *known);
/* The same of all that is of an instance, and that itself. */
void known_forget_instance(struct known *instance);

#endif
