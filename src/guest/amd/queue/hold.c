/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/queue/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "amd/abi/drm.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/now.h"
#include "base/number.h"
#include "guest/amd/ask.h"
#include "guest/core/in_force.h"
#include "ledger/cu_grant.h"
#include "ledger/device_time.h"

/* Which units a GPU lacks, its render node tells; sysfs does not. */
static void queue_hold_refine(const struct topology_node *node, struct cu_geometry *geometry)
{
	struct drm_amdgpu_info_device info = {0};
	struct drm_amdgpu_info args = {.return_pointer = (uintptr_t)&info,
				       .return_size = sizeof(info),
				       .query = AMDGPU_INFO_DEV_INFO};
	CLEANUP_CLOSE int fd = -EBADF;
	char path[40];

	if (node->xccs != 1)
		return;
	snprintf(path, sizeof(path), "/dev/dri/renderD%u", node->render_minor);
	fd = fd_openat(AT_FDCWD, path, O_RDWR, 0);
	if (fd >= 0 && !amd_ask(fd, _IOW('d', DRM_NR_AMDGPU_INFO, args), &args))
		cu_geometry_refine(geometry, node, info.cu_bitmap);
}

/* Made once a device; threads that make it at once make the same. NULL: no mask is of use. */
static const struct cu_map *queue_hold_map_of(struct queues *queues, int device)
{
	struct queue_device *d = &queues->device[device];
	const struct topology_node *node = queues->amd->device[device].node;
	struct cu_geometry geometry;
	struct cu_map map;
	bool known;
	int r;

	lock_take(&queues->lock);
	r = d->map_error;
	known = d->has_map || r;
	lock_drop(&queues->lock);
	if (known)
		return r ? NULL : &d->map;
	r = cu_geometry_of_node(node, &geometry);
	if (!r) {
		queue_hold_refine(node, &geometry);
		r = cu_map_init(&geometry, &map);
	}
	lock_take(&queues->lock);
	if (!r && !d->has_map) {
		d->map = map;
		d->has_map = true;
	}
	d->map_error = r;
	lock_drop(&queues->lock);
	return r ? NULL : &d->map;
}

/* 1: the policy limits the device, to *ret. 0: no limit. -errno: the policy cannot be read. */
static int queue_hold_part_of(struct queues *queues, int device, struct part *ret,
			      uint64_t *ret_slice_ns)
{
	struct policy policy;
	int r = in_force_policy(queues->guest, &policy);

	if (r < 0)
		return r;
	*ret_slice_ns = policy.slice_us * NS_PER_US;
	return allotment_part(&policy, queues->amd->device[device].uuid, ret);
}

/* Takes the units that were made for all tenants. False: there are none, or they are damaged. */
static bool queue_hold_take_units(const struct queues *queues, int device, const struct cu_map *map,
				  const struct part *part, struct queue_hold *hold)
{
	int ledger = queues->amd->device[device].ledger;
	struct cu_mask mask;
	struct cu_grant grant;

	if (cu_grant_read(device_time_of(queues->guest->ledger, ledger), &grant) ||
	    !grant.permille || grant.permille > 1000 || !grant.duty_permille ||
	    grant.duty_permille > 1000)
		return false;
	if (part->cap_permille && grant.permille > part->cap_permille)
		return false;
	memcpy(mask.word, grant.word, sizeof(mask.word));
	if (map && !cu_mask_within(map, &mask, grant.permille))
		return false;
	hold->mask = mask;
	hold->permille[QUEUE_COPIES] = grant.permille;
	hold->permille[QUEUE_COMPUTES] = map ? grant.duty_permille : grant.permille;
	return true;
}

/* Takes units as if there were no other tenant, near those that it had. */
static void queue_hold_take_alone(const struct cu_map *map, uint32_t permille,
				  struct queue_hold *hold)
{
	struct cu_share share = {.permille = permille, .mask = hold->mask};

	hold->permille[QUEUE_COPIES] = hold->permille[QUEUE_COMPUTES] = permille;
	if (!map)
		return;
	cu_mask_allot(map, &share, 1);
	hold->mask = share.mask;
	hold->permille[QUEUE_COMPUTES] = share.duty_permille;
}

static int queue_hold_find(struct queues *queues, int device, const struct cu_map *map, bool wait,
			   struct queue_hold *hold)
{
	const uint8_t *uuid = queues->amd->device[device].uuid;
	struct part part;
	int r = queue_hold_part_of(queues, device, &part, &hold->slice_ns);

	hold->limited = r != 0;
	hold->masks = map != NULL;
	if (!r)
		return 0;
	if (r < 0) { /* no more than the least of anything */
		queue_hold_take_alone(map, 1, hold);
		return r;
	}
	/* Nothing is known of other tenants: it has what its policy says, whatever they have. */
	if (!queues->allotment) {
		uint32_t weight = min_u64(part.weight, 1000);

		queue_hold_take_alone(map, part.cap_permille ? part.cap_permille : weight, hold);
		return 0;
	}
	r = allotment_make(queues->allotment, uuid, map, wait);
	if (!queue_hold_take_units(queues, device, map, &part, hold)) {
		queue_hold_take_alone(map, 1, hold);
		r = r ? r : -EAGAIN;
	}
	return r;
}

/*
 * To take a queue off the hardware preempts the queues of all processes on the GPU. So where masks
 * express shares that is done only for a tenant with a slice.
 */
static void queue_hold_without_slice(struct queue_hold *hold)
{
	if (hold->masks && !hold->slice_ns)
		hold->permille[QUEUE_COPIES] = hold->permille[QUEUE_COMPUTES] = 1000;
}

int queue_hold_refresh(struct queues *queues, int device, bool wait)
{
	struct queue_device *d = &queues->device[device];
	const struct cu_map *map;
	struct queue_hold hold;
	int r;

	lock_take(&queues->lock);
	hold = d->hold;
	lock_drop(&queues->lock);
	guest_depth++;
	hold.generation = guest_generation(queues->guest);
	map = queue_hold_map_of(queues, device);
	r = queue_hold_find(queues, device, map, wait, &hold);
	queue_hold_without_slice(&hold);
	guest_depth--;
	if (r)
		hold.generation = 0;
	lock_take(&queues->lock);
	d->hold = hold;
	lock_drop(&queues->lock);
	return r;
}

bool queue_hold_is_old(struct queues *queues, int device)
{
	uint64_t generation;

	lock_take(&queues->lock);
	generation = queues->device[device].hold.generation;
	lock_drop(&queues->lock);
	return generation != guest_generation(queues->guest);
}
