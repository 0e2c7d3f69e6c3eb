/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant that programs make by themselves, where the library was loaded without `allot run` and
 * their configuration limits them. The first of those that live at once makes its policy; each is
 * held to that, and to its own configuration.
 */
#ifndef ALLOT_GUEST_CORE_DROP_IN_H
#define ALLOT_GUEST_CORE_DROP_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dropin/config.h"

/*
 * Makes the tenant of the configuration, or enters it, and keeps it alive for as long as this process
 * lives: its directory, and whether nobody else was in it. 0, or the errors of tenant_create,
 * life_keep and policy_update.
 */
int drop_in_enter(const struct config *config, char *ret_dir, size_t len, bool *ret_first);

/*
 * Names a device in the tenant's policy, with the limits of this process, unless a process that lives
 * in it did so before: then that one's stay. Where they are smaller a line says so, if `told` does not
 * say that one was. Called when the device's total is known, with its CUDA ordinal (AMD: 0).
 */
void drop_in_name_device(const struct config *config, const char *dir, const uint8_t uuid[16],
			 unsigned int ordinal, uint64_t total_bytes, _Atomic bool *told);

#endif
