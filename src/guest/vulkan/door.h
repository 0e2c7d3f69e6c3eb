/* SPDX-License-Identifier: Apache-2.0 */
/* The way into a Vulkan driver: what its loader, whoever that is, asks of its library by dlsym. */
#ifndef ALLOT_GUEST_VULKAN_DOOR_H
#define ALLOT_GUEST_VULKAN_DOOR_H

/*
 * The function that is handed out for a name that a library has, which is `real` there: a function in front of it
 * where this process is in a tenant, else itself. NULL where 32 drivers are open beside it.
 */
void *vulkan_door(const char *name, void *real);

#endif
