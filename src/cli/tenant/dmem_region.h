/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions of device memory as the kernel's dmem controller names them, and a policy's limit of
 * each. Pure.
 */
#ifndef ALLOT_CLI_TENANT_DMEM_REGION_H
#define ALLOT_CLI_TENANT_DMEM_REGION_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/policy.h"
#include "node/devices.h"

#define DMEM_REGIONS	  128
#define DMEM_REGION_BYTES 128 /* of a name */
#define DMEM_NO_LIMIT	  UINT64_MAX

struct dmem_region {
	char name[DMEM_REGION_BYTES]; /* "drm/0000:c1:00.0/vram" */
	uint64_t bytes;		      /* its size, by a file of the controller */
};

struct dmem_regions {
	size_t n;
	struct dmem_region list[DMEM_REGIONS];
};

/*
 * A file of the controller: a region and a number, or "max", on each line. Lines
 * of another form are passed over, as are regions beyond those that there is room for.
 */
void dmem_regions_parse(const char *text, struct dmem_regions *ret);

/* The region of that name, or NULL. */
const struct dmem_region *dmem_regions_find(const struct dmem_regions *regions, const char *name);

/*
 * The policy's bytes for a region: the sum over the AMD GPUs that have it (the parts of a
 * partitioned GPU have one region together). DMEM_NO_LIMIT if one of them has no limit, 0 if the
 * tenant has none of them. -ENOENT for a region that is no AMD GPU's memory; errors of
 * policy_limit().
 */
int dmem_region_allowed(const struct dmem_region *region, const struct devices *devices,
			const struct policy *policy, uint64_t *ret_bytes);

#endif
