/* SPDX-License-Identifier: Apache-2.0 */
/* A device's memory as the tenant sees it, by UUID: for NVML, also in a process without CUDA. */
#ifndef ALLOT_GUEST_MEMORY_VIEW_H
#define ALLOT_GUEST_MEMORY_VIEW_H

#include "guest/core/guest.h"

struct view {
	uint64_t total_bytes; /* min(limit, device); 0 for a device not given to the tenant */
	uint64_t used_bytes;  /* by the tenant's live processes, never above total_bytes */
};

/* Asked for as guest_limit_by_uuid is. */
void view_get(struct guest *guest, const uint8_t uuid[16], unsigned int index,
	      uint64_t total_bytes, struct view *ret);

#endif
